"""A batch of magic 2, byte by byte: its header as in kafkarec/format/layout.py, and its records, which are compressed
as a whole if the attributes have a codec.

Follows DefaultRecordBatch. What its readers refuse is a fault; what is odd but accepted is a note.
"""

from __future__ import annotations

from kafkarec.format import layout, single_fields
from kafkarec.format.checksum import batch_checksums
from kafkarec.format.java_integers import wrapped
from kafkarec.format.layout import V2Header
from kafkarec.format.single_fields import FieldFault, Fields

from . import value_descriptions
from .compression_frames import decompressed
from .record_fields import add_records
from .spans import Note, Section, SpanWriter
from .value_descriptions import iso_time


def walk(writer: SpanWriter, length_fault: FieldFault | None, cap: int, most_records: int | None) -> list[Section]:
    """Writes the spans of the batch. `length_fault`: of its length field, which then does not tell where it ends.

    Returns the section of the decompressed payload, if there is one; its faults are added to the writer's.
    """
    stop = len(writer.data)
    read = single_fields.header(writer.data, stop)
    crc_note, crc_fault = checked(writer.data, layout.BATCH_MAGIC, length_fault)
    notes: dict[str, Note] = _NOTES | {"crc": crc_note}
    faults = {"batch_length": length_fault, "crc": crc_fault}
    if read.fault:
        too_small = FieldFault("batch_too_small", layout.V2_OVERHEAD, stop)
        writer.add_fields(read._replace(fault=too_small), notes, stop, faults=faults, rest="header")
        return []
    head = V2Header(**read.values())
    if head.record_count < 0:
        faults["record_count"] = FieldFault("record_count_negative", 0, head.record_count)
    elif not head.record_count and writer.left == layout.V2_OVERHEAD:
        notes["record_count"] = "empty: all of its records were compacted away"
    writer.add_fields(read, notes, stop, faults=faults)
    codec = head.attributes & layout.CODEC_MASK
    if head.record_count < 0:
        writer.unread(stop, "records")
    elif codec > layout.LATEST_CODEC:
        writer.unread(stop, "records", "", FieldFault("unsupported_codec", layout.LATEST_CODEC, codec))
    elif not codec:
        add_records(writer, head, most_records, trusted=crc_fault is None)
    else:
        # As in Kafka, only the stream header is read of a batch without records.
        content = decompressed(writer, codec, layout.BATCH_MAGIC, stop, cap, only_probe=not head.record_count)
        if content is not None:
            inner = SpanWriter(content, section=1)
            add_records(inner, head, most_records, trusted=crc_fault is None)
            writer.faults += inner.faults
            return [Section("decompressed records", content, tuple(inner.spans))]
    return []


def checked(data: memoryview, magic: int, length_fault: FieldFault | None) -> tuple[str, FieldFault | None]:
    """(note, fault) of the checksum of a batch or outer message that fills the data."""
    name, what = ("CRC-32C", "batch") if magic >= layout.BATCH_MAGIC else ("CRC-32", "message")
    if length_fault is not None or len(data) <= layout.CHECKED_FROM[magic]:
        return f"{name}; cannot be checked, as bytes of the {what} are missing", None
    stored, computed = batch_checksums(data, magic)
    note = f"{name} of bytes {layout.CHECKED_FROM[magic]} to {len(data) - 1} of the {what}"
    if stored == computed:
        return f"{note}: matches", None
    return note, FieldFault("crc_mismatch", stored, computed)


def _last_offset(delta: int, read: Fields) -> str:
    last = wrapped(read.values()["base_offset"] + delta, 64)
    return f"last offset {last}, the next batch begins at {wrapped(last + 1, 64)} or later"


def _base_timestamp(stamp: int, read: Fields) -> str:
    is_horizon = read.values()["attributes"] & layout.DELETE_HORIZON
    return f"delete horizon: {iso_time(stamp)}" if is_horizon else iso_time(stamp)


def _absent(what: str, otherwise: str = "") -> Note:
    """`what` for -1, which means none."""
    return lambda value, _: what if value == -1 else otherwise


_NOTES: dict[str, Note] = {
    "base_offset": "outside of the checksum",
    "batch_length": "bytes of the batch after this field",
    "partition_leader_epoch": _absent("none", "the leader's epoch when it was appended; outside of the checksum"),
    "magic": "DefaultRecordBatch; outside of the checksum",
    "attributes": lambda value, _: value_descriptions.attributes(value, layout.BATCH_MAGIC),
    "last_offset_delta": _last_offset,
    "base_timestamp": _base_timestamp,
    "max_timestamp": lambda stamp, _: iso_time(stamp),
    "producer_id": _absent("no idempotent producer"),
    "producer_epoch": _absent("none"),
    "base_sequence": _absent("none"),
}
