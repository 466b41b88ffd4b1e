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

from kafkarec._core import checksums_of
from kafkarec.codecs import CODECS, CodecError, MissingCodec, decompress, probe

from . import compression_frames, value_words
from .record_fields import Head, records
from .spans import Broken, Section, SpanWriter
from .value_words import CODEC_MASK, CONTROL, DELETE_HORIZON, LOG_APPEND_TIME, iso_time

HEADER_SIZE, CRC_POSITION, CRC_FROM = 61, 17, 21


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
    if codec >= len(CODECS):
        writer.unread(writer.stop, "records", "", Broken("unsupported_codec", len(CODECS) - 1, codec))
        return []
    return compressed(writer, codec, head, cap, most_records)


def _header(writer: SpanWriter, whole: bool) -> Head | None:
    """Writes the fields up to the record count; None if the header is incomplete."""
    data = writer.data
    base_offset = int.from_bytes(data[:8], "big", signed=True)
    try:
        epoch = value_words.absent("none", "the leader's epoch when it was appended; outside of the checksum")
        writer.number("partition_leader_epoch", 4, epoch)
        writer.number("magic", 1, "DefaultRecordBatch; outside of the checksum")
        _checksum(writer, whole)
        attributes = writer.number("attributes", 2, value_words.batch_attributes, show=lambda v: f"0x{v & 0xFFFF:04x}")
        writer.number("last_offset_delta", 4, lambda v: _last_offset(base_offset, v))
        horizon = attributes & DELETE_HORIZON
        base_timestamp = writer.number(
            "base_timestamp", 8, lambda v: f"delete horizon: {iso_time(v)}" if horizon else iso_time(v)
        )
        max_timestamp = writer.number("max_timestamp", 8, iso_time)
        producer_id = writer.number("producer_id", 8, value_words.absent("no idempotent producer"))
        writer.number("producer_epoch", 2, value_words.absent("none"))
        base_sequence = writer.number("base_sequence", 4, value_words.absent("none"))
        empty = "empty: all of its records were compacted away" if _empty(writer) else ""
        count = writer.number("record_count", 4, empty)
    except Broken as broken:
        writer.unread(writer.stop, "header", "", Broken("batch_too_small", HEADER_SIZE, writer.stop, broken.detail))
        return None
    if count < 0:
        writer.add_fault("record_count_negative", 0, count)
    trusted = not any(fault.reason == "crc_mismatch" for fault in writer.faults)
    return Head(
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
    last = value_words.wrapped(base_offset + delta)
    return f"last offset {last}, the next batch begins at {value_words.wrapped(last + 1)} or later"


def _checksum(writer: SpanWriter, whole: bool) -> None:
    stored = writer.number("crc", 4, signed=False, show=lambda v: f"0x{v:08x}")
    if not whole:
        note = "CRC-32C; cannot be checked, as bytes of the batch are missing"
        writer.spans[-1] = writer.spans[-1]._replace(note=note)
        return
    computed = checksums_of(writer.data[CRC_FROM : writer.stop])[0]
    note = f"CRC-32C of bytes {CRC_FROM} to {writer.stop - 1} of the batch"
    if stored == computed:
        writer.spans[-1] = writer.spans[-1]._replace(note=f"{note}: matches")
        return
    writer.spans[-1] = writer.spans[-1]._replace(note=note)
    writer.add_fault("crc_mismatch", stored, computed)


def compressed(writer: SpanWriter, codec: int, head: Head, cap: int, most_records: int | None) -> list[Section]:
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
