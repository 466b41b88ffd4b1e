"""The line of one batch, and the batch fields that its records need; for the bytes see kafkarec/format/layout.py"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kafkarec.format import checksum, layout
from kafkarec.format.enums import CODEC_NAMES
from kafkarec.format.java_integers import increment_sequence, wrapped
from kafkarec.sources.files import ByteSource

from .batch_reader import FilePiece, Frame, refuse
from .java_text import optional_long

TIMESTAMP_TYPES = ("CreateTime", "LogAppendTime")
_BOOL = ("false", "true")


class DumpedBatch(NamedTuple):
    """The batch fields that the lines of its records need. In magic 0 and 1 the fields of magic 2 are 0.

    position    of the batch in the file
    raw         its bytes
    codec       0 to 4
    max_timestamp   magic 0 and 1: of the outer message, -1 in magic 0
    """

    position: int
    raw: memoryview
    magic: int
    offset: int
    codec: int
    timestamp_type: str
    is_control: bool = False
    base_timestamp: int = 0
    max_timestamp: int = 0
    base_sequence: int = 0
    record_count: int = 0


def batch_line(source: ByteSource, piece: FilePiece, frame: Frame, batches: list[DumpedBatch]) -> Iterator[str]:
    """Yields the line in two parts, as Kafka prints it: an error in the second part leaves the first one printed.

    Appends the batch to `batches` when the line is complete.
    """
    raw = memoryview(piece.data)[frame.at : frame.at + frame.size]
    position = piece.position + frame.at
    if frame.magic < layout.BATCH_MAGIC:
        yield from _message_line(source, frame, raw, position, batches)
        return
    # Kafka reads the header from the file: if the batch is too small, it includes bytes after the batch.
    whole = frame.size >= layout.V2_OVERHEAD
    stored = raw[: layout.V2_OVERHEAD] if whole else source.read_at(position, layout.V2_OVERHEAD)
    if len(stored) < layout.V2_OVERHEAD:
        refuse("batch_too_small", source, position, offset=frame.offset, expected=layout.V2_OVERHEAD, found=frame.size)
    header = layout.v2_header(stored)
    offset, delta, sequence, attributes = (
        header.base_offset,
        header.last_offset_delta,
        header.base_sequence,
        header.attributes,
    )
    horizon = header.base_timestamp if attributes & layout.DELETE_HORIZON else None
    is_control = bool(attributes & layout.CONTROL)
    yield (
        f"baseOffset: {offset} lastOffset: {wrapped(offset + delta, 64)} count: {header.record_count} "
        f"baseSequence: {sequence} lastSequence: {-1 if sequence == -1 else increment_sequence(sequence, delta)} "
        f"producerId: {header.producer_id} producerEpoch: {header.producer_epoch} "
        f"partitionLeaderEpoch: {header.partition_leader_epoch} "
        f"isTransactional: {_BOOL[bool(attributes & layout.TRANSACTIONAL)]} isControl: {_BOOL[is_control]} "
        f"deleteHorizonMs: {optional_long(horizon)}"
    )
    codec, timestamp_type = attributes & layout.CODEC_MASK, _timestamp_type(attributes)
    if codec > layout.LATEST_CODEC:
        refuse("unsupported_codec", source, position, offset=offset, expected=layout.LATEST_CODEC, found=codec)
    valid = whole and checksum.batch_checksums(raw, 2)[1] == header.crc
    yield (
        f" position: {position} {timestamp_type}: {header.max_timestamp} size: {frame.size} magic: {header.magic} "
        f"compresscodec: {CODEC_NAMES[codec]} crc: {header.crc} isvalid: {_BOOL[valid]}\n"
    )
    batches.append(
        DumpedBatch(
            position,
            raw,
            header.magic,
            offset,
            codec,
            timestamp_type,
            is_control,
            header.base_timestamp,
            header.max_timestamp,
            sequence,
            header.record_count,
        )
    )


def _message_line(
    source: ByteSource, frame: Frame, raw: memoryview, position: int, batches: list[DumpedBatch]
) -> Iterator[str]:
    yield f"offset: {frame.offset}"
    if frame.magic < 0:
        refuse("unsupported_magic", source, position, offset=frame.offset, expected=2, found=frame.magic)
    attributes = raw[layout.MESSAGE_AT.attributes]
    timestamp, timestamp_type = -1, "NoTimestampType"
    if frame.magic == 1:
        timestamp = int.from_bytes(raw[layout.MESSAGE_AT.timestamp : layout.KEY_AT[1]], "big", signed=True)
        timestamp_type = _timestamp_type(attributes)
    codec = attributes & layout.CODEC_MASK
    if codec > layout.LATEST_CODEC:
        refuse("unsupported_codec", source, position, offset=frame.offset, expected=layout.LATEST_CODEC, found=codec)
    crc, computed = checksum.batch_checksums(raw, frame.magic)
    yield (
        f" position: {position} {timestamp_type}: {timestamp} size: {frame.size} magic: {frame.magic} "
        f"compresscodec: {CODEC_NAMES[codec]} crc: {crc} isvalid: {_BOOL[crc == computed]}\n"
    )
    batches.append(
        DumpedBatch(position, raw, frame.magic, frame.offset, codec, timestamp_type, max_timestamp=timestamp)
    )


def _timestamp_type(attributes: int) -> str:
    return TIMESTAMP_TYPES[bool(attributes & layout.LOG_APPEND_TIME)]
