"""A batch of magic 2, byte by byte.

    offset  bytes  field
         0      8  base offset            outside of the checksum
         8      4  batch length           bytes behind this field
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
        61         records, compressed as a whole where a codec is named

Follows DefaultRecordBatch. What its readers refuse is a fault; what is odd and accepted is said in a note.
"""

from __future__ import annotations

from typing import Any

from kafkarec._core import checksums_of
from kafkarec.codecs import CODECS, CodecError, MissingCodec, decompress, probe

from . import compression_frames, value_words
from .record_fields import Head, records
from .spans import Broken, Section, SpanWriter
from .value_words import CODEC_MASK, CONTROL, DELETE_HORIZON, LOG_APPEND_TIME, moment

HEADER_SIZE, CRC_POSITION, CRC_FROM = 61, 17, 21


def walk(pen: SpanWriter, whole: bool, cap: int, most_records: int | None) -> list[Section]:
    """The batch from its partition leader epoch on; `whole`: all the bytes that it claims are there.

    Returns the section of the decompressed payload, where there is one; its faults are the pen's as well.
    """
    head = _header(pen, whole)
    if head is None:
        return []
    codec = head.attributes & CODEC_MASK
    if head.record_count < 0:
        pen.unread(pen.stop, "records")
        return []
    if not codec:
        records(pen, head, most_records)
        return []
    if codec >= len(CODECS):
        pen.unread(pen.stop, "records", "", Broken("unsupported_codec", len(CODECS) - 1, codec))
        return []
    return compressed(pen, codec, head, cap, most_records)


def _header(pen: SpanWriter, whole: bool) -> Head | None:
    """The fields up to the record count; None where the header is cut."""
    data = pen.data
    base_offset = int.from_bytes(data[:8], "big", signed=True)
    try:
        epoch = value_words.absent("none", "the leader's epoch when it was appended; outside of the checksum")
        pen.number("partition_leader_epoch", 4, epoch)
        pen.number("magic", 1, "DefaultRecordBatch; outside of the checksum")
        _checksum(pen, whole)
        attributes = pen.number("attributes", 2, value_words.batch_attributes, show=lambda v: f"0x{v & 0xFFFF:04x}")
        pen.number("last_offset_delta", 4, lambda v: _last_offset(base_offset, v))
        horizon = attributes & DELETE_HORIZON
        base_timestamp = pen.number(
            "base_timestamp", 8, lambda v: f"delete horizon: {moment(v)}" if horizon else moment(v)
        )
        max_timestamp = pen.number("max_timestamp", 8, moment)
        producer_id = pen.number("producer_id", 8, value_words.absent("no idempotent producer"))
        pen.number("producer_epoch", 2, value_words.absent("none"))
        base_sequence = pen.number("base_sequence", 4, value_words.absent("none"))
        count = pen.number("record_count", 4, "empty: all of its records were compacted away" if _empty(pen) else "")
    except Broken as broken:
        pen.unread(pen.stop, "header", "", Broken("batch_too_small", HEADER_SIZE, pen.stop, broken.detail))
        return None
    if count < 0:
        pen.blame("record_count_negative", 0, count)
    trusted = not any(fault.reason == "crc_mismatch" for fault in pen.faults)
    return Head(
        base_offset, attributes, base_timestamp, max_timestamp, base_sequence if producer_id >= 0 else -1, count,
        bool(attributes & LOG_APPEND_TIME), bool(attributes & CONTROL), trusted,
    )  # fmt: skip


def _empty(pen: SpanWriter) -> bool:
    return pen.left == 4 and not any(pen.data[pen.at : pen.at + 4])


def _last_offset(base_offset: int, delta: int) -> str:
    last = value_words.wrapped(base_offset + delta)
    return f"last offset {last}, the next batch begins at {value_words.wrapped(last + 1)} or later"


def _checksum(pen: SpanWriter, whole: bool) -> None:
    stored = pen.number("crc", 4, signed=False, show=lambda v: f"0x{v:08x}")
    if not whole:
        pen.spans[-1] = pen.spans[-1]._replace(note="CRC-32C; cannot be checked, as bytes of the batch are missing")
        return
    computed = checksums_of(pen.data[CRC_FROM : pen.stop])[0]
    note = f"CRC-32C of bytes {CRC_FROM} to {pen.stop - 1} of the batch"
    if stored == computed:
        pen.spans[-1] = pen.spans[-1]._replace(note=f"{note}: matches")
        return
    pen.spans[-1] = pen.spans[-1]._replace(note=note)
    pen.blame("crc_mismatch", stored, computed)


def compressed(pen: SpanWriter, codec: int, head: Head, cap: int, most_records: int | None) -> list[Section]:
    """The compressed payload: its frame in this section, its records in one of their own."""
    start, end = pen.at, pen.stop
    payload = pen.data[start:end]
    content: Any = None
    refusal: CodecError | None = None
    try:
        # As Kafka does: of a batch without records only the stream's head is looked at.
        if head.record_count:
            content = decompress(codec, bytes(payload), cap)
        else:
            probe(codec, bytes(payload), cap)
    except CodecError as error:
        refusal = error
    inside = None if content is None else memoryview(bytes(content))
    compression_frames.walk(pen, codec, None if inside is None else len(inside))
    if refusal is not None:
        blame_codec(pen, start, refusal)
    if inside is None:
        return []
    inner = SpanWriter(inside, section=1)
    records(inner, head, most_records)
    pen.faults += inner.faults
    return [Section("decompressed records", inside, tuple(inner.spans))]


def blame_codec(pen: SpanWriter, start: int, error: CodecError) -> None:
    """Puts a codec's refusal where the walk over the frame stopped, else at the payload's first span."""
    reason = error.reason if error.reason in ("limit_exceeded", "missing_codec") else "payload_corrupt"
    at = next((i for i, span in enumerate(pen.spans) if span.start >= start and span.kind == "unread"), None)
    if at is None:
        at = next((i for i, span in enumerate(pen.spans) if span.start >= start), len(pen.spans) - 1)
    if reason == "missing_codec" and not isinstance(error, MissingCodec):
        reason = "payload_corrupt"
    span, rest = pen.spans[at], pen.spans[at + 1 :]
    del pen.spans[at:]
    pen.spans.append(span)
    pen.blame(reason, detail=error.detail)
    pen.spans += rest
