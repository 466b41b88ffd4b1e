"""The classes of an explanation: spans that cover the bytes, the writer that creates them, and words for single values.

A span is one field: its position, name, value and meaning. The spans of a section cover it without a gap and without
overlap, whatever the bytes are: bytes that cannot be read are a span as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType
from typing import Any, NamedTuple

from kafkarec.damage import comparison_text
from kafkarec.errors import REASONS
from kafkarec.format.enums import CODEC_NAMES
from kafkarec.format.layout import BATCH_MAGIC, CODEC_MASK, LATEST_CODEC, USED_BITS
from kafkarec.format.single_fields import FieldFault, Fields
from kafkarec.support.text_table import utc_text

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
    """

    position: int
    size: int
    headline: str
    sections: tuple[Section, ...]
    faults: tuple[SpanFault, ...] = ()

    @property
    def spans(self) -> tuple[Span, ...]:
        """The batch's own spans."""
        return self.sections[0].spans

    def __iter__(self) -> Iterator[Span]:
        return iter(self.spans)


Note = str | Callable[[int, Fields], str]
"""The meaning of a field: a text, or a function of its value and of what was read with it."""


class SpanWriter:
    """Creates the spans of one section, from byte 0 on without a gap."""

    def __init__(self, data: memoryview, section: int = 0) -> None:
        self.data, self.section = data, section
        self.at = 0
        self.spans: list[Span] = []
        self.faults: list[SpanFault] = []

    @property
    def left(self) -> int:
        """The number of bytes that have no span yet."""
        return len(self.data) - self.at

    def add_span(self, stop: int, path: str, value: Any = None, note: str = "", kind: str = FIELD) -> None:
        """Appends a span that ends at byte `stop`."""
        self.spans.append(Span(self.at, stop - self.at, path, value, note, kind))
        self.at = stop

    def add_fields(
        self,
        read: Fields,
        notes: Mapping[str, Note],
        stop: int,
        path: str = "",
        faults: Mapping[str, FieldFault | None] = MappingProxyType({}),
        rest: str = "",
    ) -> None:
        """Appends a span for each field that was read, and one up to `stop` if there is a fault.

        path     of the record or message, before the names of its fields
        faults   those of single fields that could be read
        rest     the path of the bytes that cannot be read, without `path`
        """
        prefix = f"{path}." if path else ""
        for name, end, value, padded in read.fields:
            start = self.at
            if start == end:
                continue  # an empty key or value
            note = notes.get(name[name.rfind("]") + 1 :], "")
            text = note if isinstance(note, str) else note(value, read)
            if padded:
                text = join_notes(text, "longer than necessary")
            shown = f"0x{self.data[start:end].hex()}" if name in _HEX else value
            kind = FIELD if isinstance(value, int) else PAYLOAD
            self.spans.append(Span(start, end - start, prefix + name, shown, text, kind))
            if name in faults:
                self.add_fault(faults[name])
            self.at = end
        if read.fault and read.of_last:
            self.add_fault(read.fault)
            self.add_unread(stop, path or rest)
        elif read.fault:
            self.add_unread(stop, path or rest, "", read.fault)

    def add_fault(self, fault: FieldFault | None) -> None:
        """Adds a fault, if there is one, to the last span."""
        if fault is None:
            return
        span = self.spans[-1]
        sides = comparison_text(fault.reason, fault._asdict())
        text = join_notes(REASONS[fault.reason].sentence, sides, between=": ")
        self.faults.append(SpanFault(self.section, span.start, span.path, fault.reason, text))
        self.spans[-1] = span._replace(note=join_notes(span.note, f"WRONG: {text}"), fault=fault.reason)

    def add_unread(self, stop: int, path: str, note: str = "", fault: FieldFault | None = None) -> None:
        """Appends a span of kind "unread" up to `stop`, unless it would have no bytes and no fault."""
        if stop > self.at or fault is not None:
            self.add_span(stop, path, None, note, UNREAD)
            self.add_fault(fault)


_HEX = {"crc", "crc_or_leader_epoch", "attributes"}


def join_notes(*notes: str, between: str = "\n") -> str:
    """The notes that are not empty, as lines."""
    return between.join(note for note in notes if note)


def iso_time(ms: int) -> str:
    """ISO 8601 in UTC."""
    if ms == -1:
        return "no timestamp"
    try:
        return utc_text(ms)
    except OverflowError:
        return "outside the range of dates"


def codec_text(attributes: int) -> str:
    number = attributes & CODEC_MASK
    return CODEC_NAMES[number] if number <= LATEST_CODEC else f"{number}, which does not exist"


_BITS = (
    ("timestamps are create time", "timestamps are log append time"),
    ("not transactional", "transactional"),
    ("data", "control batch: markers, no data"),
    ("no delete horizon", "base_timestamp is the delete horizon"),
)
"""What attribute bits 3 to 6 mean when they are clear and set; a message of magic 1 has only the first one."""


@lru_cache(64)  # many messages have the same
def attributes_text(value: int, magic: int) -> str:
    """The attributes of a batch or message, one line per bit or group (KIP-32, KIP-98, KIP-534)."""
    size = 16 if magic >= BATCH_MAGIC else 8
    rows = [("bits 0-2", f"{value & CODEC_MASK:03b}", f"codec {codec_text(value)}")]
    used = USED_BITS[magic].bit_length()
    for bit, meanings in zip(range(3, used), _BITS, strict=False):
        rows.append((f"bit {bit}", str(value >> bit & 1), meanings[value >> bit & 1]))
    unused = (value & (1 << size) - 1) >> used
    ignored = ", but set: ignored" if unused else ""
    rows.append((f"bits {used}-{size - 1}", f"{unused:0{size - used}b}", f"unused{ignored}"))
    return "\n".join(f"{where:<9} {bits:<9} {what}" for where, bits, what in rows)


def length_note(value: int, _: object) -> str:
    """The note of a length where every negative value means null."""
    if value >= 0:
        return ""
    return "null" if value == -1 else "null: readers read every negative length as null, writers write -1"
