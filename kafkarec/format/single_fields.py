"""The fields of one header, record or message, read one by one as far as that is possible: for `explain` and `dump`.

    record of magic 2                          message of magic 0 or 1: see `layout`, then
      length           varint                    key length      int32   any negative: null
      attributes       int8      unused          key
      timestamp delta  varlong                   value length    int32   any negative: null
      offset delta     varint                    value                   of a wrapper: compressed messages
      key length       varint    any negative: null
      key
      value length     varint    any negative: null (a tombstone)
      value
      header count     varint
        key length     varint    never negative
        key                      UTF-8
        value length   varint    any negative: null
        value

Follows DefaultRecord.readFrom (KIP-82 for headers), LegacyRecord, and AbstractLegacyRecordBatch.DeepRecordsIterator for
the messages of a wrapper. The engine reads whole batches (`_c/record.pxd`, `_c/message.pxd`); these functions never
raise for bad bytes: they return the fields before the fault.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache, wraps
from struct import Struct, calcsize
from typing import Any, NamedTuple

from .java_integers import VARINT_BYTES, VARLONG_BYTES, BadVarint, read_signed, wrapped
from .layout import (
    LOG_OVERHEAD,
    MAX_SIZE,
    MESSAGE_AT,
    MESSAGE_FORMS,
    MESSAGE_OVERHEAD,
    UP_TO_MAGIC,
    V2_FORMS,
    MessageHeader,
    V2Header,
    batch_length,
)

ReadField = tuple[str, int, Any, bool]
"""name, the byte at which it ends, value: a number, of a key, value or header the bytes themselves; whether it is a
varint of more bytes than the value needs."""


class FieldFault(NamedTuple):
    """What is wrong: a key of `errors.REASONS`, both sides of the comparison, or a detail in words."""

    reason: str
    expected: int | None = None
    found: int | None = None
    detail: str = ""


class Fields(NamedTuple):
    """The fields that could be read, each from the end of the one before it.

    stop      where a record ends by its length, after which the next one begins; None: the length cannot be read
    fault     why reading ended
    of_last   whether the value of the last field is wrong; else it is the field after it that cannot be read
    """

    fields: list[ReadField]
    stop: int | None
    fault: FieldFault | None
    of_last: bool

    def values(self) -> dict[str, Any]:
        """The value of each field by its name."""
        return {name: value for name, _, value, _ in self.fields}


class _Wrong(Exception):
    """A fault; the argument says whether it is the value of the last field."""

    def __init__(self, fault: FieldFault, of_last: bool) -> None:
        super().__init__(fault.reason)
        self.fault, self.of_last = fault, of_last


class _Cursor:
    """Reads fields from `at` on, none of which may end after `stop`. `end`: see `Fields.stop`."""

    def __init__(self, data: memoryview, at: int, stop: int) -> None:
        self.data, self.at, self.stop = data, at, stop
        self.end: int | None = None
        self.fields: list[ReadField] = []

    def numbers(self, names: Iterable[str], forms: str) -> int:
        """Fields of fixed size, one after the other; the value of the last one."""
        layout, ends = _struct_and_ends(forms)
        at, left = self.at, self.stop - self.at
        if layout.size > left:
            whole = sum(end <= left for end in ends)
            if whole:
                self.numbers(names, forms[:whole])
            raise _Wrong(FieldFault("message_truncated", calcsize(f">{forms[whole]}"), self.stop - self.at), False)
        values: tuple[int, ...] = layout.unpack_from(self.data, at)
        self.fields += [(name, at + end, value, False) for name, end, value in zip(names, ends, values, strict=False)]
        self.at = at + layout.size
        return values[-1]

    def varint(self, name: str, longest: int = VARINT_BYTES) -> int:
        """A varint (longest 5) or varlong (10) as ByteUtils reads it: excess bits are dropped."""
        if self.at < self.stop and (byte := self.data[self.at]) < 0x80:  # the usual case
            value = byte >> 1 ^ -(byte & 1)
            self.add(name, self.at + 1, value)
            return int(value)
        try:
            value, stop = read_signed(self.data, self.at, self.stop, longest)
        except BadVarint as bad:
            left = self.stop - self.at
            fault = FieldFault("varint_too_long", detail=f"no end within {longest} bytes")
            if bad.cut:
                fault = FieldFault("message_truncated", left + 1, left, "a varint continues beyond the end")
            raise _Wrong(fault, False) from None
        self.add(name, stop, value, stop - self.at > 1 and not self.data[stop - 1])
        return value

    def blob(self, name: str, length: int, too_long: str, null: bool = True) -> None:
        """The bytes of a key or value, of a length that was read before."""
        left = self.stop - self.at
        if length > left or (length < 0 and not null):
            sides = (length, left) if too_long == "message_truncated" else (left, length)
            raise _Wrong(FieldFault(too_long, *sides), True)
        if length >= 0:
            self.add(name, self.at + length, bytes(self.data[self.at : self.at + length]))

    def add(self, name: str, stop: int, value: Any, padded: bool = False) -> None:
        self.fields.append((name, stop, value, padded))
        self.at = stop


@cache
def _struct_and_ends(forms: str) -> tuple[Struct, list[int]]:
    """Of fields of fixed size; where each ends."""
    return Struct(f">{forms}"), [calcsize(f">{forms[:number]}") for number in range(1, len(forms) + 1)]


def _until_fault(read: Callable[[_Cursor], object]) -> Callable[[memoryview, int, int], Fields]:
    """Makes of a reader a function of data and the bytes [at, stop) of it, which returns what could be read of them."""

    @wraps(read)
    def fields(data: memoryview, at: int, stop: int) -> Fields:
        cursor = _Cursor(data, at, stop)
        try:
            read(cursor)
        except _Wrong as wrong:
            return Fields(cursor.fields, cursor.end, wrong.fault, wrong.of_last)
        return Fields(cursor.fields, cursor.end, None, False)

    return fields


@_until_fault
def header(cursor: _Cursor) -> None:
    """The header of a batch of magic 2."""
    cursor.numbers(V2Header._fields, V2_FORMS)


_START = (*V2Header._fields[:2], "crc_or_leader_epoch", "magic")


@_until_fault
def start(cursor: _Cursor) -> None:
    """What each batch begins with, up to the magic; of less than that the offset and the length."""
    cursor.numbers(_START, "qiIb" if cursor.stop - cursor.at >= UP_TO_MAGIC else "qi")


@_until_fault
def record(cursor: _Cursor) -> None:
    """A record of magic 2, whose batch ends at `stop`."""
    length = cursor.varint("length")
    if not 0 <= length <= cursor.stop - cursor.at:
        raise _Wrong(FieldFault("record_length_invalid", cursor.stop - cursor.at, length), True)
    start = cursor.at
    cursor.stop = cursor.end = start + length
    cursor.numbers(("attributes",), "b")
    cursor.varint("timestamp_delta", VARLONG_BYTES)
    cursor.varint("offset_delta")
    for name in ("key", "value"):
        cursor.blob(name, cursor.varint(f"{name}_length"), f"{name}_length_invalid")
    count, most = cursor.varint("header_count"), (cursor.stop - cursor.at) // 2
    if not 0 <= count <= most:
        raise _Wrong(FieldFault("header_count_invalid", most, count), True)
    for i in range(count):
        for name in ("key", "value"):
            path = f"headers[{i}].{name}"
            cursor.blob(path, cursor.varint(f"{path}_length"), f"header_{name}_invalid", null=name == "value")
    if cursor.at < cursor.stop:
        raise _Wrong(FieldFault("record_structure_invalid", length, cursor.at - start), False)


_MESSAGES = [((*MessageHeader._fields[:count], "key_length"), MESSAGE_FORMS[:count] + "i") for count in (5, 6)]


@_until_fault
def message(cursor: _Cursor) -> None:
    """A message of magic 0 or 1, plain or a wrapper; any other magic is read as 1."""
    magic = cursor.at + MESSAGE_AT.magic
    is_first = magic < cursor.stop and not cursor.data[magic]
    cursor.blob("key", cursor.numbers(*_MESSAGES[not is_first]), "message_truncated")
    cursor.blob("value", cursor.numbers(("value_length",), "i"), "message_truncated")


def inner_message_ranges(data: memoryview, largest: int = MAX_SIZE) -> tuple[list[range], FieldFault | None]:
    """(the bytes of each message of a decompressed wrapper, the fault of what follows them), as DataLogInputStream
    reads them: an incomplete message at the end is no fault. `largest`: of a size field."""
    at = 0
    frames: list[range] = []
    while len(data) - at >= LOG_OVERHEAD:
        size = batch_length(data, at)
        if size < MESSAGE_OVERHEAD[0]:
            return frames, FieldFault("inner_size_too_small", MESSAGE_OVERHEAD[0], size)
        if size > largest:
            return frames, FieldFault("limit_exceeded", largest, size)
        if size > len(data) - at - LOG_OVERHEAD:
            break
        frames.append(range(at, at + LOG_OVERHEAD + size))
        at = frames[-1].stop
    return frames, None if frames else FieldFault("wrapper_empty", 1, 0)


def inner_shift(wrapper: MessageHeader, data: memoryview, frames: Sequence[range]) -> tuple[int, FieldFault | None]:
    """(what is added to the inner offsets of a wrapper, its fault). frames: of `inner_message_ranges` of the data.

    Inner offsets of magic 1 are relative, unless the wrapper's offset is 0 (KIP-31).
    """
    if wrapper.magic != 1 or not wrapper.offset or not frames:
        return 0, None
    last = int.from_bytes(data[frames[-1].start :][:8], "big", signed=True)
    fault = FieldFault("wrapper_offset_too_small", last, wrapper.offset) if wrapper.offset < last else None
    return wrapped(wrapper.offset - last, 64), fault
