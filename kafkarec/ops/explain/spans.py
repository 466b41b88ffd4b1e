"""The classes of an explanation: spans that cover the bytes, and the writer that creates them.

A span is one field: its position, name, value and meaning. The spans of a section cover it without a gap and without
overlap, whatever the bytes are: bytes that cannot be read are a span as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from kafkarec.damage import comparison
from kafkarec.errors import REASONS
from kafkarec.format.varints import VARINT_BYTES, BadVarint, read_signed

FIELD, PAYLOAD, UNREAD, SKIPPED = "field", "payload", "unread", "skipped"


class Span(NamedTuple):
    """One field of the bytes.

    start, length   bytes [start, start + length) of the section
    path            the field's name, such as "records[2].key_length"
    value           int or str; bytes for payload; None if there is none
    note            the meaning of the value, one or more lines; never contains payload
    kind            "field", "payload" (bytes of keys, values, headers, or compressed ones), "unread", or "skipped":
                    good records that are not shown
    fault           the reason (`errors.REASONS`) if it is wrong
    """

    start: int
    length: int
    path: str
    value: Any = None
    note: str = ""
    kind: str = FIELD
    fault: str | None = None


class SpanFault(NamedTuple):
    """An error in the bytes.

    section    an index of `Explanation.sections`
    position   of the field in that section
    path       the field's name
    reason     one of `errors.REASONS`
    detail     a sentence with the expected and the found value; without position and payload
    """

    section: int
    position: int
    path: str
    reason: str
    detail: str


@dataclass(frozen=True)
class Section:
    """Bytes with their spans: the batch itself, or its decompressed payload."""

    name: str
    data: memoryview = field(repr=False)
    spans: tuple[Span, ...] = field(repr=False)


@dataclass(frozen=True)
class Explanation:
    """One batch (magic 2) or outer message (magic 0, 1), byte by byte.

    position    of the batch in `data`
    size        bytes explained: the batch; all of `data` from `position` on if the length field is invalid
    headline    a summary in one line
    sections    [0] the batch, [1] its decompressed payload if there is one
    faults      errors in the order of the bytes; empty for a good batch
    hints       guesses about the cause of the damage, such as a single flipped bit
    suspects    bytes of the batch that the hints name
    """

    position: int
    size: int
    headline: str
    sections: tuple[Section, ...]
    faults: tuple[SpanFault, ...] = ()
    hints: tuple[str, ...] = ()
    suspects: tuple[range, ...] = ()

    @property
    def spans(self) -> tuple[Span, ...]:
        """The batch's own spans."""
        return self.sections[0].spans

    def __iter__(self) -> Iterator[Span]:
        return iter(self.spans)


class UnreadableField(Exception):
    """The field at the writer's position cannot be read."""

    def __init__(self, reason: str, expected: int | None = None, found: int | None = None, detail: str = "") -> None:
        super().__init__(reason)
        self.reason, self.expected, self.found, self.detail = reason, expected, found, detail


class UnreadableSpan(Exception):
    """The fault is on the last span; the bytes after it cannot be read."""


Note = str | Callable[[Any], str]


class SpanWriter:
    """Reads the fields of one section. Each method reads the field at `at`, appends its span and moves `at` after it.

    A field that does not end by `stop` raises UnreadableField and leaves `at` unchanged.
    """

    def __init__(self, data: memoryview, section: int = 0) -> None:
        self.data = data
        self.section = section
        self.at = 0
        self.stop = len(data)
        self.spans: list[Span] = []
        self.faults: list[SpanFault] = []

    @property
    def left(self) -> int:
        return self.stop - self.at

    def add_span(self, length: int, path: str, value: Any = None, note: Note = "", kind: str = FIELD) -> None:
        """Appends a span for the next `length` bytes."""
        text = note if isinstance(note, str) else note(value)
        self.spans.append(Span(self.at, length, path, value, text, kind))
        self.at += length

    def number(
        self, path: str, size: int, note: Note = "", *, signed: bool = True, order: Any = "big", show: Any = None
    ) -> int:
        """Reads an integer of fixed size. `show` converts it to the span's value."""
        if size > self.left:
            raise UnreadableField("message_truncated", size, self.left)
        value = int.from_bytes(self.data[self.at : self.at + size], order, signed=signed)
        text = note if isinstance(note, str) else note(value)
        self.add_span(size, path, show(value) if show else value, text)
        return value

    def varint(self, path: str, note: Note = "", longest: int = VARINT_BYTES) -> int:
        """Reads a zig-zag varint (longest 5) or varlong (10) as ByteUtils does: excess bits are dropped."""
        try:
            value, end = read_signed(self.data, self.at, self.stop, longest)
        except BadVarint as bad:
            if bad.cut:
                detail = "a varint continues beyond the end"
                raise UnreadableField("message_truncated", self.left + 1, self.left, detail) from None
            raise UnreadableField("varint_too_long", detail=f"no end within {longest} bytes") from None
        text = note if isinstance(note, str) else note(value)
        size = end - self.at
        if size > 1 and not self.data[end - 1]:
            text = joined(text, "longer than necessary")
        self.add_span(size, path, value, text)
        return value

    def payload(self, path: str, length: int, note: Note = "") -> memoryview:
        """Appends a span of kind "payload"."""
        data = self.data[self.at : self.at + length]
        self.add_span(length, path, bytes(data), note, PAYLOAD)
        return data

    def add_fault(self, reason: str, expected: int | None = None, found: int | None = None, detail: str = "") -> None:
        """Adds a fault to the last span."""
        span = self.spans[-1]
        text = _sentence(reason, expected, found, detail)
        self.faults.append(SpanFault(self.section, span.start, span.path, reason, text))
        self.spans[-1] = span._replace(note=joined(span.note, f"WRONG: {text}"), fault=reason)

    def unread(self, stop: int, path: str, note: str = "", broken: UnreadableField | None = None) -> None:
        """Appends a span of kind "unread" up to `stop`, with the fault `broken` if given."""
        if stop > self.at or broken is not None:
            self.add_span(stop - self.at, path, None, note, UNREAD)
        if broken is not None:
            self.add_fault(broken.reason, broken.expected, broken.found, broken.detail)


def _sentence(reason: str, expected: int | None, found: int | None, detail: str) -> str:
    """The fault's sentence without its position, which the span has."""
    sides = comparison(reason, {"expected": expected, "found": found, "detail": detail})
    return f"{REASONS[reason].sentence}: {sides}" if sides else REASONS[reason].sentence


def joined(*notes: str) -> str:
    """The notes that are not empty, as lines."""
    return "\n".join(note for note in notes if note)
