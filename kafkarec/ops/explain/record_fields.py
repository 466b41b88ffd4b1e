"""The records of a magic 2 batch, byte by byte.

    length           varint     bytes after this field
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

Follows DefaultRecord.readFrom; KIP-82 for headers. After an unreadable record the next one is read at the end given by
its length, so one wrong byte affects one record only.
"""

from __future__ import annotations

import json
from typing import NamedTuple

from kafkarec.errors import KafkaRecordError
from kafkarec.format import control
from kafkarec.format.java_integers import increment_sequence, wrapped
from kafkarec.format.varints import VARLONG_BYTES
from kafkarec.support.text_table import counted

from . import value_descriptions
from .spans import PAYLOAD, SKIPPED, SpanWriter, UnreadableField, UnreadableSpan
from .value_descriptions import iso_time


class HeaderFields(NamedTuple):
    """The fields of the batch header that the records need."""

    base_offset: int
    attributes: int
    base_timestamp: int
    max_timestamp: int
    base_sequence: int
    record_count: int
    log_append_time: bool
    control: bool
    trusted: bool  # the checksum is right


def records(writer: SpanWriter, head: HeaderFields, most: int | None) -> None:
    """Writes all records up to the writer's stop: the first `most` and those with a fault field by field, runs of
    others as one span each."""
    skipped = _SkippedRecords(writer)
    for index in range(head.record_count):
        if not writer.left:
            skipped.add_span()
            writer.add_span(0, f"records[{index}]", None, "the bytes end here")
            writer.add_fault("records_missing", head.record_count, index)
            return
        spans, faults, start = len(writer.spans), len(writer.faults), writer.at
        next_known = _one(writer, head, index)
        if most is not None and index >= most:
            if len(writer.faults) == faults:
                del writer.spans[spans:]
                skipped.add(index, start)
                continue
            skipped.add_span(before=spans)
        if not next_known:
            return
    skipped.add_span()
    if writer.left:
        if head.record_count == 0:
            note = f"{writer.left} bytes after a record count of 0: readers ignore them"
            writer.unread(writer.stop, "records", note)
        else:
            writer.unread(
                writer.stop, "records", "", UnreadableField("records_left_over", head.record_count, writer.left)
            )


class _SkippedRecords:
    """Consecutive good records that are not shown, as one span."""

    def __init__(self, writer: SpanWriter) -> None:
        self._writer = writer
        self._first = self._last = -1
        self._start = self._end = 0

    def add(self, index: int, start: int) -> None:
        if self._first < 0:
            self._first, self._start = index, start
        self._last, self._end = index, self._writer.at

    def add_span(self, before: int | None = None) -> None:
        """Ends the run and writes its span, at index `before` of the writer's spans or at their end."""
        if self._first < 0:
            return
        writer = self._writer
        count = self._last - self._first + 1
        following = [] if before is None else writer.spans[before:]
        if following:
            del writer.spans[before:]
        at, writer.at = writer.at, self._start
        name = f"records[{self._first}]" if count == 1 else f"records[{self._first}..{self._last}]"
        note = f"{counted(count, 'good record')}, not shown"
        writer.add_span(self._end - self._start, name, None, note, SKIPPED)
        writer.spans += following
        writer.at = at
        self._first = -1


def _one(writer: SpanWriter, head: HeaderFields, index: int) -> bool:
    """Writes one record; False if the position of the next one is not known."""
    path, whole = f"records[{index}]", writer.stop
    try:
        length = writer.varint(f"{path}.length")
        if not 0 <= length <= writer.left:
            writer.add_fault("record_length_invalid", writer.left, length)
            writer.unread(writer.stop, path)
            return False
    except UnreadableField as broken:
        writer.unread(writer.stop, path, "", broken)
        return False
    start = writer.at
    writer.stop = start + length
    try:
        _fields(writer, head, path, index)
        if writer.left:
            writer.unread(writer.stop, path, "", UnreadableField("record_structure_invalid", length, writer.at - start))
    except UnreadableSpan:
        writer.unread(writer.stop, path)
    except UnreadableField as broken:
        writer.unread(writer.stop, path, "", broken)
    finally:
        writer.stop = whole
    return True


def _fields(writer: SpanWriter, head: HeaderFields, path: str, index: int) -> None:
    unused = lambda v: "unused" if not v else "unused, but set: ignored"  # noqa: E731
    writer.number(f"{path}.attributes", 1, unused, show=lambda v: f"0x{v & 0xFF:02x}")
    writer.varint(f"{path}.timestamp_delta", lambda v: _timestamp(head, v), VARLONG_BYTES)
    writer.varint(f"{path}.offset_delta", lambda v: _offset(head, v))
    typed = head.control and head.trusted
    key = _sized(writer, f"{path}.key", "key_length_invalid", typed)
    value = _sized(writer, f"{path}.value", "value_length_invalid", typed)
    if typed:
        _add_control_note(writer, path, key, value)
    count = writer.varint(f"{path}.header_count")
    if not 0 <= count <= writer.left // 2:
        writer.add_fault("header_count_invalid", writer.left // 2, count)
        raise UnreadableSpan
    for i in range(count):
        _header(writer, f"{path}.headers[{i}]")


def _timestamp(head: HeaderFields, delta: int) -> str:
    if head.log_append_time:
        return f"ignored: log append time, {iso_time(head.max_timestamp)}"
    stamp = wrapped(head.base_timestamp + delta, 64)
    return f"timestamp {stamp}, {iso_time(stamp)}"


def _offset(head: HeaderFields, delta: int) -> str:
    text = f"offset {wrapped(head.base_offset + delta, 64)}"
    if head.base_sequence >= 0:
        text += f", sequence {increment_sequence(head.base_sequence, delta)}"
    return text


def _sized(writer: SpanWriter, path: str, too_long: str, typed: bool) -> bytes | None:
    """Writes the length and bytes of a key or a value; those of a control record (`typed`) field by field."""
    length = writer.varint(f"{path}_length", value_descriptions.sized)
    if length > writer.left:
        writer.add_fault(too_long, writer.left, length)
        raise UnreadableSpan
    if length < 0:
        return None
    data = bytes(writer.data[writer.at : writer.at + length])
    if typed:
        (_control_key if path.endswith("key") else _control_value)(writer, path, length)
    elif length:
        writer.payload(path, length)
    return data


def _control_key(writer: SpanWriter, path: str, length: int) -> None:
    end = writer.at + length
    if length >= 4:
        writer.number(f"{path}.version", 2)
        writer.number(f"{path}.type", 2, _control_type)
    if writer.at < end:
        note = "added by a newer version, or not a control key"
        writer.add_span(end - writer.at, f"{path}.rest", None, note, PAYLOAD)


def _control_type(type_id: int) -> str:
    known = {int(kind): kind.name for kind in control.ControlRecordType if kind >= 0}
    return known.get(type_id, "unknown to Kafka 4.3: ignored")


def _control_value(writer: SpanWriter, path: str, length: int) -> None:
    end = writer.at + length
    kind = writer.spans[-2].value if len(writer.spans) > 1 and writer.spans[-2].path.endswith(".key.type") else None
    if length >= 2:
        writer.number(f"{path}.version", 2)
    if kind in (0, 1) and length >= 6:
        writer.number(f"{path}.coordinator_epoch", 4, "epoch of the transaction coordinator")
    if writer.at < end:
        writer.payload(f"{path}.message", end - writer.at)


def _add_control_note(writer: SpanWriter, path: str, key: bytes | None, value: bytes | None) -> None:
    """Adds the parsed control record as a note to the last span; an unreadable one is not a fault of the batch."""
    try:
        record = control.parse(key, value)
        text = json.dumps(control.as_json(record))
    except KafkaRecordError as error:
        text = f"ODD: {error}"
    span = writer.spans[-1]
    writer.spans[-1] = span._replace(note="\n".join(filter(None, (span.note, text))))


def _header(writer: SpanWriter, path: str) -> None:
    length = writer.varint(f"{path}.key_length")
    if not 0 <= length <= writer.left:
        writer.add_fault("header_key_invalid", writer.left, length)
        raise UnreadableSpan
    if length:
        writer.payload(f"{path}.key", length)
    length = writer.varint(f"{path}.value_length", value_descriptions.sized)
    if length > writer.left:
        writer.add_fault("header_value_invalid", writer.left, length)
        raise UnreadableSpan
    if length > 0:
        writer.payload(f"{path}.value", length)
