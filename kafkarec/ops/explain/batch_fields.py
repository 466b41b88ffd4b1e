"""A batch of magic 2, byte by byte.

    offset  bytes  field
         0      8  base offset            outside of the checksum
         8      4  batch length           bytes after this field
        12      4  partition leader epoch outside of the checksum
        16      1  magic                  outside of the checksum
        17      4  crc                    CRC-32C of byte 21 to the end
        21      2  attributes             codec, timestamp type, transactional, control, delete horizon
        23      4  last offset delta
        27      8  base timestamp         the delete horizon where attributes say so (KIP-534)
        35      8  max timestamp
        43      8  producer id            -1: none (KIP-98)
        51      2  producer epoch
        53      4  base sequence
        57      4  record count
        61         records, compressed as a whole if attributes have a codec

Follows DefaultRecordBatch. What its readers refuse is a fault; what is odd but accepted is a note.
"""

from __future__ import annotations

from typing import Any

from kafkarec.codecs import CodecError, MissingCodec, decompress, probe
from kafkarec.format.checksum import checksum
from kafkarec.format.java_integers import wrapped
from kafkarec.format.layout import (
    CHECKED_FROM,
    CODEC_MASK,
    CONTROL,
    DELETE_HORIZON,
    LATEST_CODEC,
    LEAST_SIZES,
    LOG_APPEND_TIME,
    V2_AT,
)

from . import compression_frames, value_descriptions
from .record_fields import HeaderFields, records
from .spans import Section, SpanWriter, UnreadableField
from .value_descriptions import iso_time


def walk(writer: SpanWriter, whole: bool, cap: int, most_records: int | None) -> list[Section]:
    """Writes the spans of the batch from its partition leader epoch on; `whole`: all bytes of its length are there.

    Returns the section of the decompressed payload, if there is one; its faults are added to the writer's.
    """
    head = _header(writer, whole)
    if head is None:
        return []
    codec = head.attributes & CODEC_MASK
    if head.record_count < 0:
        writer.unread(writer.stop, "records")
        return []
    if not codec:
        records(writer, head, most_records)
        return []
    if codec > LATEST_CODEC:
        writer.unread(writer.stop, "records", "", UnreadableField("unsupported_codec", LATEST_CODEC, codec))
        return []
    return compressed(writer, codec, head, cap, most_records)


def _header(writer: SpanWriter, whole: bool) -> HeaderFields | None:
    """Writes the fields up to the record count; None if the header is incomplete."""
    data = writer.data
    base_offset = int.from_bytes(data[:8], "big", signed=True)
    try:
        epoch = value_descriptions.absent("none", "the leader's epoch when it was appended; outside of the checksum")
        writer.number("partition_leader_epoch", 4, epoch)
        writer.number("magic", 1, "DefaultRecordBatch; outside of the checksum")
        _checksum(writer, whole)
        attributes = writer.number(
            "attributes", 2, value_descriptions.batch_attributes, show=lambda v: f"0x{v & 0xFFFF:04x}"
        )
        writer.number("last_offset_delta", 4, lambda v: _last_offset(base_offset, v))
        horizon = attributes & DELETE_HORIZON
        base_timestamp = writer.number(
            "base_timestamp", 8, lambda v: f"delete horizon: {iso_time(v)}" if horizon else iso_time(v)
        )
        max_timestamp = writer.number("max_timestamp", 8, iso_time)
        producer_id = writer.number("producer_id", 8, value_descriptions.absent("no idempotent producer"))
        writer.number("producer_epoch", 2, value_descriptions.absent("none"))
        base_sequence = writer.number("base_sequence", 4, value_descriptions.absent("none"))
        empty = "empty: all of its records were compacted away" if _empty(writer) else ""
        count = writer.number("record_count", 4, empty)
    except UnreadableField as broken:
        least = LEAST_SIZES[data[V2_AT.magic]]
        writer.unread(writer.stop, "header", "", UnreadableField("batch_too_small", least, writer.stop, broken.detail))
        return None
    if count < 0:
        writer.add_fault("record_count_negative", 0, count)
    trusted = not any(fault.reason == "crc_mismatch" for fault in writer.faults)
    return HeaderFields(
        base_offset,
        attributes,
        base_timestamp,
        max_timestamp,
        base_sequence if producer_id >= 0 else -1,
        count,
        bool(attributes & LOG_APPEND_TIME),
        bool(attributes & CONTROL),
        trusted,
    )


def _empty(writer: SpanWriter) -> bool:
    return writer.left == 4 and not any(writer.data[writer.at : writer.at + 4])


def _last_offset(base_offset: int, delta: int) -> str:
    last = wrapped(base_offset + delta, 64)
    return f"last offset {last}, the next batch begins at {wrapped(last + 1, 64)} or later"


def _checksum(writer: SpanWriter, whole: bool) -> None:
    stored = writer.number("crc", 4, signed=False, show=lambda v: f"0x{v:08x}")
    if not whole:
        note = "CRC-32C; cannot be checked, as bytes of the batch are missing"
        writer.spans[-1] = writer.spans[-1]._replace(note=note)
        return
    magic = writer.data[V2_AT.magic]
    computed = checksum(writer.data[CHECKED_FROM[magic] : writer.stop], magic)
    note = f"CRC-32C of bytes {CHECKED_FROM[magic]} to {writer.stop - 1} of the batch"
    if stored == computed:
        writer.spans[-1] = writer.spans[-1]._replace(note=f"{note}: matches")
        return
    writer.spans[-1] = writer.spans[-1]._replace(note=note)
    writer.add_fault("crc_mismatch", stored, computed)


def compressed(writer: SpanWriter, codec: int, head: HeaderFields, cap: int, most_records: int | None) -> list[Section]:
    """The compressed payload: its frame is written to this section, its records to a section of their own."""
    start, end = writer.at, writer.stop
    payload = writer.data[start:end]
    content: Any = None
    refusal: CodecError | None = None
    try:
        # As in Kafka, only the stream header is read of a batch without records.
        if head.record_count:
            content = decompress(codec, bytes(payload), cap)
        else:
            probe(codec, bytes(payload), cap)
    except CodecError as error:
        refusal = error
    inside = None if content is None else memoryview(bytes(content))
    compression_frames.walk(writer, codec, None if inside is None else len(inside))
    if refusal is not None:
        add_codec_fault(writer, start, refusal)
    if inside is None:
        return []
    inner = SpanWriter(inside, section=1)
    records(inner, head, most_records)
    writer.faults += inner.faults
    return [Section("decompressed records", inside, tuple(inner.spans))]


def add_codec_fault(writer: SpanWriter, start: int, error: CodecError) -> None:
    """Adds a codec's error as a fault to the span where the frame could not be read, else to the payload's first
    span."""
    reason = error.reason if error.reason in ("limit_exceeded", "missing_codec") else "payload_corrupt"
    at = next((i for i, span in enumerate(writer.spans) if span.start >= start and span.kind == "unread"), None)
    if at is None:
        at = next((i for i, span in enumerate(writer.spans) if span.start >= start), len(writer.spans) - 1)
    if reason == "missing_codec" and not isinstance(error, MissingCodec):
        reason = "payload_corrupt"
    span, rest = writer.spans[at], writer.spans[at + 1 :]
    del writer.spans[at:]
    writer.spans.append(span)
    writer.add_fault(reason, detail=error.detail)
    writer.spans += rest
