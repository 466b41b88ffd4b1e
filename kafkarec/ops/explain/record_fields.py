"""The records of a magic 2 batch, byte by byte (`kafkarec.format.single_fields`), with the parts of control records.

After an unreadable record the next one is read at the end given by its length, so one wrong byte affects one record
only.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from kafkarec.errors import KafkaRecordError
from kafkarec.format import control, layout, single_fields
from kafkarec.format.java_integers import increment_sequence, wrapped
from kafkarec.format.layout import V2Header
from kafkarec.format.single_fields import FieldFault, Fields, ReadField
from kafkarec.support.text_table import counted

from . import value_descriptions
from .spans import SKIPPED, Note, SpanWriter
from .value_descriptions import iso_time


def add_records(writer: SpanWriter, head: V2Header, most: int | None, trusted: bool) -> None:
    """Writes all records up to the end: the first `most` and those with a fault field by field, runs of others as one
    span each. `trusted`: the checksum is right, so control records are what their batch says."""
    data, at, first_skipped = writer.data, writer.at, 0
    notes = _notes(head)
    is_control = trusted and bool(head.attributes & layout.CONTROL)
    for index in range(head.record_count):
        read = single_fields.record(data, at, len(data)) if at < len(data) else None
        if read and read.stop is not None and not read.fault and most is not None and index >= most:
            at = read.stop
            continue
        _add_skipped(writer, at, first_skipped, index - 1)
        first_skipped = index + 1
        path = f"records[{index}]"
        if read is None:
            writer.add_span(at, path, None, "the bytes end here")
            writer.add_fault(FieldFault("records_missing", head.record_count, index))
            return
        stop = len(data) if read.stop is None else read.stop
        parts, more_notes = _control_parts(read) if is_control else (read, {})
        writer.add_fields(parts, notes | more_notes, stop, path)
        if read.stop is None:
            return
        at = stop
    _add_skipped(writer, at, first_skipped, head.record_count - 1)
    if writer.left and head.record_count:
        writer.unread(len(data), "records", "", FieldFault("records_left_over", head.record_count, writer.left))
    elif writer.left:
        writer.unread(len(data), "records", f"{writer.left} bytes after a record count of 0: readers ignore them")


def _add_skipped(writer: SpanWriter, stop: int, first: int, last: int) -> None:
    """One span for good records that are not shown, if there are any."""
    if first <= last:
        path = f"records[{first}]" if first == last else f"records[{first}..{last}]"
        writer.add_span(stop, path, None, f"{counted(last - first + 1, 'good record')}, not shown", SKIPPED)


def _notes(head: V2Header) -> dict[str, Note]:
    sequenced = head.producer_id >= 0 and head.base_sequence >= 0

    def timestamp(delta: int, _: object) -> str:
        if head.attributes & layout.LOG_APPEND_TIME:
            return f"ignored: log append time, {iso_time(head.max_timestamp)}"
        stamp = wrapped(head.base_timestamp + delta, 64)
        return f"timestamp {stamp}, {iso_time(stamp)}"

    def offset(delta: int, _: object) -> str:
        sequence = f", sequence {increment_sequence(head.base_sequence, delta)}" if sequenced else ""
        return f"offset {wrapped(head.base_offset + delta, 64)}{sequence}"

    return _NOTES | {"timestamp_delta": timestamp, "offset_delta": offset}


_KINDS = {int(kind): kind.name for kind in control.ControlRecordType if kind >= 0}
_NOTES: dict[str, Note] = {
    "attributes": lambda value, _: "unused, but set: ignored" if value else "unused",
    "key_length": value_descriptions.sized,
    "value_length": value_descriptions.sized,
    ".value_length": value_descriptions.sized,  # of a header
    "key.type": lambda kind, _: _KINDS.get(kind, "unknown to Kafka 4.4: ignored"),
    "key.rest": "added by a newer version, or not a control key",
    "value.coordinator_epoch": "epoch of the transaction coordinator",
}


def _control_parts(read: Fields) -> tuple[Fields, dict[str, Note]]:
    """A control record with the parts of its key and value as fields, and what it says as the note of its length."""
    record, text = None, ""
    if not read.fault:
        try:
            record = control.parse(*map(read.values().get, ("key", "value")))
            text = json.dumps(control.as_json(record))
        except KafkaRecordError as error:
            text = f"ODD: {error}"
    sizes = {"key": {"version": 2, "type": 2}, "value": {"version": 2}}
    if isinstance(record, control.EndTxnMarker):
        sizes["value"]["coordinator_epoch"] = 4
    parts = [part for field in read.fields for part in _split(field, sizes.get(field[0]))]
    return read._replace(fields=parts), {"length": text}


def _split(field: ReadField, sizes: dict[str, int] | None) -> Iterator[ReadField]:
    if sizes is None:
        yield field
        return
    name, end, left, _ = field
    if sum(sizes.values()) <= len(left):
        for part, size in sizes.items():
            left, number = left[size:], int.from_bytes(left[:size], "big", signed=True)
            yield f"{name}.{part}", end - len(left), number, False
    yield f"{name}.{'rest' if name == 'key' else 'message'}", end, left, False
