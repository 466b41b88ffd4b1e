"""The line of one batch, and the batch fields that its records' lines need

Magic 2 (KIP-98), big-endian; for the first 17 bytes see `batch_reader`:


    byte  size  field
    17    4     crc                uint32  CRC-32C of all bytes from 21 on
    21    2     attributes         bits 0-2 codec, 3 timestamp type, 4 transactional, 5 control, 6 delete horizon
    23    4     last offset delta
    27    8     base timestamp     the delete horizon where bit 6 is set
    35    8     max timestamp
    43    8     producer id
    51    2     producer epoch
    53    4     base sequence
    57    4     record count

Magic 0 and 1: 12 crc (CRC-32 from 16 on), 16 magic, 17 attributes (bits 0-2 codec, 3 timestamp type), in magic 1
then 18 timestamp.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import NamedTuple

from crc32c import crc32c

from kafkarec._core import checksums_of

from .batch_reader import DumpedFile, FilePiece, Frame, refuse
from .java_text import increment_sequence, optional_long, wrapped

OVERHEAD = 61
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
TIMESTAMP_TYPES = ("CreateTime", "LogAppendTime")
_HEADER = Struct(">qiibIhiqqqhii")
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


def batch_line(source: DumpedFile, piece: FilePiece, frame: Frame, batches: list[DumpedBatch]) -> Iterator[str]:
    """Yields the line in two parts, as Kafka prints it: an error in the second part leaves the first one printed.

    Appends the batch to `batches` when the line is complete.
    """
    raw = memoryview(piece.data)[frame.at : frame.at + frame.size]
    position = piece.position + frame.at
    if frame.magic < 2:
        yield from _message_line(source, frame, raw, position, batches)
        return
    # Kafka reads the header from the file: if the batch is too small, it includes bytes after the batch.
    header = raw[:OVERHEAD] if frame.size >= OVERHEAD else source.read_at(position, OVERHEAD)
    if len(header) < OVERHEAD:
        refuse("batch_too_small", source, position, offset=frame.offset, expected=OVERHEAD, found=frame.size)
    (
        offset,
        _,
        leader_epoch,
        magic,
        crc,
        attributes,
        last_delta,
        base_timestamp,
        max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        count,
    ) = _HEADER.unpack(header)
    last_sequence = -1 if base_sequence == -1 else increment_sequence(base_sequence, last_delta)
    yield (
        f"baseOffset: {offset} lastOffset: {wrapped(offset + last_delta, 64)} count: {count} "
        f"baseSequence: {base_sequence} lastSequence: {last_sequence} producerId: {producer_id} "
        f"producerEpoch: {producer_epoch} partitionLeaderEpoch: {leader_epoch} "
        f"isTransactional: {_BOOL[attributes >> 4 & 1]} isControl: {_BOOL[attributes >> 5 & 1]} "
        f"deleteHorizonMs: {optional_long(base_timestamp if attributes & 0x40 else None)}"
    )
    codec, timestamp_type = attributes & 7, TIMESTAMP_TYPES[attributes >> 3 & 1]
    if codec >= len(CODECS):
        refuse("unsupported_codec", source, position, offset=offset, expected=len(CODECS) - 1, found=codec)
    valid = frame.size >= OVERHEAD and crc32c(raw[21:]) == crc
    yield (
        f" position: {position} {timestamp_type}: {max_timestamp} size: {frame.size} magic: {magic} "
        f"compresscodec: {CODECS[codec]} crc: {crc} isvalid: {_BOOL[valid]}\n"
    )
    batches.append(
        DumpedBatch(
            position,
            raw,
            magic,
            offset,
            codec,
            timestamp_type,
            bool(attributes & 0x20),
            base_timestamp,
            max_timestamp,
            base_sequence,
            count,
        )
    )


def _message_line(
    source: DumpedFile, frame: Frame, raw: memoryview, position: int, batches: list[DumpedBatch]
) -> Iterator[str]:
    yield f"offset: {frame.offset}"
    if frame.magic < 0:
        refuse("unsupported_magic", source, position, offset=frame.offset, expected=2, found=frame.magic)
    attributes = raw[17]
    timestamp, timestamp_type = -1, "NoTimestampType"
    if frame.magic == 1:
        timestamp = int.from_bytes(raw[18:26], "big", signed=True)
        timestamp_type = TIMESTAMP_TYPES[attributes >> 3 & 1]
    codec = attributes & 7
    if codec >= len(CODECS):
        refuse("unsupported_codec", source, position, offset=frame.offset, expected=len(CODECS) - 1, found=codec)
    crc, valid = message_crc(raw[12:])
    yield (
        f" position: {position} {timestamp_type}: {timestamp} size: {frame.size} magic: {frame.magic} "
        f"compresscodec: {CODECS[codec]} crc: {crc} isvalid: {_BOOL[valid]}\n"
    )
    batches.append(
        DumpedBatch(position, raw, frame.magic, frame.offset, codec, timestamp_type, max_timestamp=timestamp)
    )


def message_crc(message: memoryview) -> tuple[int, bool]:
    """(stored CRC-32 of a message of magic 0 or 1, whether it matches its bytes from 4 on)."""
    stored = int.from_bytes(message[:4], "big")
    return stored, checksums_of(message[4:])[2] == stored
