"""What an explanation is made of: spans that tile the bytes, and the pen that lays them down.

A span is one field: where it lies, what it is called, its value and what the value means. Spans of a section follow
each other without a gap and without overlap, whatever the bytes are: what cannot be understood is a span as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from kafkarec import damage

FIELD, PAYLOAD, UNREAD, SKIPPED = "field", "payload", "unread", "skipped"
_MASK32, _MASK64 = 0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF
VARINT_BYTES, VARLONG_BYTES = 5, 10


class Span(NamedTuple):
    """One field of the bytes.

    start, length   bytes [start, start + length) of the section
    path            the field's name, such as "records[2].key_length"
    value           int or str; bytes for payload; None where there is none
    note            what the value means, a line or several; never holds payload
    kind            "field", "payload" (bytes of keys, values, headers, or compressed ones), "unread", or "skipped":
                    good records that nobody asked to see
    fault           the word of `errors.REASONS` for what is wrong with it
    """

    start: int
    length: int
    path: str
    value: Any = None
    note: str = ""
    kind: str = FIELD
    fault: str | None = None


class SpanFault(NamedTuple):
    """Something wrong.

    section    an index of `Explanation.sections`
    position   a byte of that section
    path       the field
    reason     a word of `errors.REASONS`
    detail     what is wrong, both sides; without the place, without payload
    """

    section: int
    position: int
    path: str
    reason: str
    detail: str


@dataclass(frozen=True)
class Section:
    """A run of bytes with its spans: the batch itself, or what its payload holds when it is decompressed."""

    name: str
    data: memoryview = field(repr=False)
    spans: tuple[Span, ...] = field(repr=False)


@dataclass(frozen=True)
class Explanation:
    """One batch (magic 2) or outer message (magic 0, 1), byte by byte.

    position    of the batch in what was given
    size        bytes explained: the batch; where its claim makes no sense, everything that was given
    headline    one line: what this is
    sections    [0] the batch, [1] its decompressed payload where there is one
    faults      what is wrong, in the order of the bytes; empty for a good batch
    hints       what the damage looks like, such as a single flipped bit
    """

    position: int
    size: int
    headline: str
    sections: tuple[Section, ...]
    faults: tuple[SpanFault, ...] = ()
    hints: tuple[str, ...] = ()

    @property
    def spans(self) -> tuple[Span, ...]:
        """The batch's own spans."""
        return self.sections[0].spans

    def __iter__(self) -> Iterator[Span]:
        return iter(self.spans)


class Broken(Exception):
    """The field at the pen cannot be read."""

    def __init__(self, reason: str, expected: int | None = None, found: int | None = None, detail: str = "") -> None:
        super().__init__(reason)
        self.reason, self.expected, self.found, self.detail = reason, expected, found, detail


class UnreadableSpan(Exception):
    """The fault stands on the last span; what follows it cannot be read."""


Note = str | Callable[[Any], str]


class SpanWriter:
    """A place in one section. Each method reads the field at `at`, lays down its span and goes on behind it.

    A field that does not fit in front of `stop` raises Broken and leaves the pen where it was.
    """

    def __init__(self, data: memoryview, section: int = 0, stop: int | None = None) -> None:
        self.data = data
        self.section = section
        self.at = 0
        self.stop = len(data) if stop is None else stop
        self.spans: list[Span] = []
        self.faults: list[SpanFault] = []

    @property
    def left(self) -> int:
        return self.stop - self.at

    def lay(self, length: int, path: str, value: Any = None, note: Note = "", kind: str = FIELD) -> None:
        """The next `length` bytes are this field."""
        text = note if isinstance(note, str) else note(value)
        self.spans.append(Span(self.at, length, path, value, text, kind))
        self.at += length

    def number(
        self, path: str, size: int, note: Note = "", *, signed: bool = True, order: Any = "big", show: Any = None
    ) -> int:
        """An integer of fixed size. `show` turns it into the span's value."""
        if size > self.left:
            raise Broken("message_truncated", size, self.left)
        value = int.from_bytes(self.data[self.at : self.at + size], order, signed=signed)
        text = note if isinstance(note, str) else note(value)
        self.lay(size, path, show(value) if show else value, text)
        return value

    def varint(self, path: str, note: Note = "", longest: int = VARINT_BYTES) -> int:
        """A zig-zag varint (longest 5) or varlong (10) as ByteUtils reads them: excess bits fall away."""
        raw = 0
        for i in range(longest):
            if i >= self.left:
                raise Broken("message_truncated", i + 1, self.left, "a varint goes on behind the end")
            byte = self.data[self.at + i]
            raw |= (byte & 0x7F) << 7 * i
            if byte < 0x80:
                break
        else:
            raise Broken("varint_too_long", detail=f"no end within {longest} bytes")
        raw &= _MASK32 if longest == VARINT_BYTES else _MASK64
        value = raw >> 1 ^ -(raw & 1)
        text = note if isinstance(note, str) else note(value)
        if i and byte == 0:
            text = joined(text, "longer than necessary")
        self.lay(i + 1, path, value, text)
        return value

    def payload(self, path: str, length: int, note: Note = "") -> memoryview:
        """Bytes of the user's."""
        data = self.data[self.at : self.at + length]
        self.lay(length, path, bytes(data), note, PAYLOAD)
        return data

    def blame(self, reason: str, expected: int | None = None, found: int | None = None, detail: str = "") -> None:
        """The last span is wrong."""
        span = self.spans[-1]
        text = _sentence(reason, expected, found, detail)
        self.faults.append(SpanFault(self.section, span.start, span.path, reason, text))
        self.spans[-1] = span._replace(note=joined(span.note, f"WRONG: {text}"), fault=reason)

    def unread(self, stop: int, path: str, note: str = "", broken: Broken | None = None) -> None:
        """The bytes up to `stop` are not understood, because of `broken` where it is given."""
        if stop > self.at or broken is not None:
            self.lay(stop - self.at, path, None, note, UNREAD)
        if broken is not None:
            self.blame(broken.reason, broken.expected, broken.found, broken.detail)


def _sentence(reason: str, expected: int | None, found: int | None, detail: str) -> str:
    """The fault's words without its place: the span shows that."""
    text = damage.sentence(reason, {"position": 0, "expected": expected, "found": found, "detail": detail})
    return text.replace(" at byte 0", "", 1)


def joined(*notes: str) -> str:
    """Notes that are there, as lines."""
    return "\n".join(note for note in notes if note)


def tiles(spans: Iterable[Span], size: int) -> bool:
    """Whether spans cover [0, size) in order, without a gap and without overlap."""
    at = 0
    for span in spans:
        if span.start != at or span.length < 0:
            return False
        at += span.length
    return at == size
