"""The records of a magic 2 batch, byte by byte.

    length           varint     bytes behind this field
    attributes       int8       unused
    timestamp delta  varlong    to the base timestamp
    offset delta     varint     to the base offset
    key length       varint     any negative: null
    key
    value length     varint     any negative: null (a tombstone)
    value
    header count     varint
      key length     varint     never negative
      key                       UTF-8
      value length   varint     any negative: null
      value

Follows DefaultRecord.readFrom; KIP-82 for headers. Behind a record that cannot be read the walk goes on where its
length says, so one wrong byte hides one record and not the rest.
"""

from __future__ import annotations

import json
from typing import NamedTuple

from kafkarec.errors import KafkaRecordError
from kafkarec.format import control

from . import value_words
from .spans import PAYLOAD, SKIPPED, VARLONG_BYTES, Broken, SpanWriter, UnreadableSpan
from .value_words import moment

LEAST_RECORD = 7


class Head(NamedTuple):
    """What a record needs of its batch's header."""

    base_offset: int
    attributes: int
    base_timestamp: int
    max_timestamp: int
    base_sequence: int
    record_count: int
    log_append_time: bool
    control: bool
    trusted: bool  # the checksum holds


def records(pen: SpanWriter, head: Head, most: int | None) -> None:
    """All records up to the pen's stop. The first `most` and those with a fault are laid down field by field, the
    others as runs."""
    hidden = _Run(pen)
    for index in range(head.record_count):
        if not pen.left:
            hidden.lay()
            pen.lay(0, f"records[{index}]", None, "the bytes end here")
            pen.blame("records_missing", head.record_count, index)
            return
        spans, faults, start = len(pen.spans), len(pen.faults), pen.at
        goes_on = _one(pen, head, index)
        if most is not None and index >= most:
            if len(pen.faults) == faults:
                del pen.spans[spans:]
                hidden.add(index, start)
                continue
            hidden.lay(before=spans)
        if not goes_on:
            return
    hidden.lay()
    if pen.left:
        if head.record_count == 0:
            pen.unread(pen.stop, "records", f"{pen.left} bytes behind a record count of 0: readers ignore them")
        else:
            pen.unread(pen.stop, "records", "", Broken("records_left_over", head.record_count, pen.left))


class _Run:
    """Good records in a row that are not shown, as one span."""

    def __init__(self, pen: SpanWriter) -> None:
        self._pen = pen
        self._first = self._last = -1
        self._start = self._end = 0

    def add(self, index: int, start: int) -> None:
        if self._first < 0:
            self._first, self._start = index, start
        self._last, self._end = index, self._pen.at

    def lay(self, before: int | None = None) -> None:
        """Closes the run; its span goes before the spans of the record that ended it."""
        if self._first < 0:
            return
        pen = self._pen
        count = self._last - self._first + 1
        later = [] if before is None else pen.spans[before:]
        if later:
            del pen.spans[before:]
        at, pen.at = pen.at, self._start
        name = f"records[{self._first}]" if count == 1 else f"records[{self._first}..{self._last}]"
        note = f"{value_words.plural(count, 'good record', 'good records')}, not shown"
        pen.lay(self._end - self._start, name, None, note, SKIPPED)
        pen.spans += later
        pen.at = at
        self._first = -1


def _one(pen: SpanWriter, head: Head, index: int) -> bool:
    """One record; False where what follows cannot be found."""
    path, whole = f"records[{index}]", pen.stop
    try:
        length = pen.varint(f"{path}.length")
        if not 0 <= length <= pen.left:
            pen.blame("record_length_invalid", pen.left, length)
            pen.unread(pen.stop, path)
            return False
    except Broken as broken:
        pen.unread(pen.stop, path, "", broken)
        return False
    start = pen.at
    pen.stop = start + length
    try:
        _fields(pen, head, path, index)
        if pen.left:
            pen.unread(pen.stop, path, "", Broken("record_structure_invalid", length, pen.at - start))
    except UnreadableSpan:
        pen.unread(pen.stop, path)
    except Broken as broken:
        pen.unread(pen.stop, path, "", broken)
    finally:
        pen.stop = whole
    return True


def _fields(pen: SpanWriter, head: Head, path: str, index: int) -> None:
    unused = lambda v: "unused" if not v else "unused, and yet set: ignored"  # noqa: E731
    pen.number(f"{path}.attributes", 1, unused, show=lambda v: f"0x{v & 0xFF:02x}")
    pen.varint(f"{path}.timestamp_delta", lambda v: _timestamp(head, v), VARLONG_BYTES)
    pen.varint(f"{path}.offset_delta", lambda v: _offset(head, v))
    typed = head.control and head.trusted
    key = _sized(pen, f"{path}.key", "key_length_invalid", typed)
    value = _sized(pen, f"{path}.value", "value_length_invalid", typed)
    if typed:
        _name_control(pen, path, key, value)
    count = pen.varint(f"{path}.header_count")
    if not 0 <= count <= pen.left // 2:
        pen.blame("header_count_invalid", pen.left // 2, count)
        raise UnreadableSpan
    for i in range(count):
        _header(pen, f"{path}.headers[{i}]")


def _timestamp(head: Head, delta: int) -> str:
    if head.log_append_time:
        return f"ignored: log append time, {moment(head.max_timestamp)}"
    stamp = value_words.wrapped(head.base_timestamp + delta)
    return f"timestamp {stamp}, {moment(stamp)}"


def _offset(head: Head, delta: int) -> str:
    text = f"offset {value_words.wrapped(head.base_offset + delta)}"
    if head.base_sequence >= 0:
        text += f", sequence {value_words.sequence(head.base_sequence, delta)}"
    return text


def _sized(pen: SpanWriter, path: str, too_long: str, typed: bool) -> bytes | None:
    """A key or a value with its length in front; the bytes of a control record have spans of their own."""
    length = pen.varint(f"{path}_length", value_words.sized)
    if length > pen.left:
        pen.blame(too_long, pen.left, length)
        raise UnreadableSpan
    if length < 0:
        return None
    data = bytes(pen.data[pen.at : pen.at + length])
    if typed:
        (_control_key if path.endswith("key") else _control_value)(pen, path, length)
    elif length:
        pen.payload(path, length)
    return data


def _control_key(pen: SpanWriter, path: str, length: int) -> None:
    end = pen.at + length
    if length >= 4:
        pen.number(f"{path}.version", 2)
        pen.number(f"{path}.type", 2, _control_type)
    if pen.at < end:
        pen.lay(end - pen.at, f"{path}.rest", None, "added by a newer version, or no control key at all", PAYLOAD)


def _control_type(type_id: int) -> str:
    known = {int(kind): kind.name for kind in control.ControlRecordType if kind >= 0}
    return known.get(type_id, "a type that Kafka 4.3 does not know: passed over")


def _control_value(pen: SpanWriter, path: str, length: int) -> None:
    end = pen.at + length
    kind = pen.spans[-2].value if len(pen.spans) > 1 and pen.spans[-2].path.endswith(".key.type") else None
    if length >= 2:
        pen.number(f"{path}.version", 2)
    if kind in (0, 1) and length >= 6:
        pen.number(f"{path}.coordinator_epoch", 4, "epoch of the transaction coordinator")
    if pen.at < end:
        pen.payload(f"{path}.message", end - pen.at)


def _name_control(pen: SpanWriter, path: str, key: bytes | None, value: bytes | None) -> None:
    """What the control record says, at its last span; an unreadable one is no fault of the batch."""
    try:
        record = control.parse(key, value)
        text = json.dumps(control.as_json(record))
    except KafkaRecordError as error:
        text = f"ODD: {error}"
    span = pen.spans[-1]
    pen.spans[-1] = span._replace(note="\n".join(filter(None, (span.note, text))))


def _header(pen: SpanWriter, path: str) -> None:
    length = pen.varint(f"{path}.key_length")
    if not 0 <= length <= pen.left:
        pen.blame("header_key_invalid", pen.left, length)
        raise UnreadableSpan
    if length:
        pen.payload(f"{path}.key", length)
    length = pen.varint(f"{path}.value_length", value_words.sized)
    if length > pen.left:
        pen.blame("header_value_invalid", pen.left, length)
        raise UnreadableSpan
    if length > 0:
        pen.payload(f"{path}.value", length)
