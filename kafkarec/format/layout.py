"""The fixed part of a batch, for Python: positions, sizes, attribute bits, and what reads them.

    offset  bytes  magic 2                  magic 0 and 1
         0      8  base offset              offset; of a wrapper: its last message's
         8      4  batch length             size          both: bytes after this field
        12      4  partition leader epoch   crc           CRC-32 of byte 16 to the end
        16      1  magic                    magic
        17      4  crc                  17  attributes 1  CRC-32C of byte 21 to the end (magic 2)
        21      2  attributes           18  timestamp 8, in magic 1 only
        23      4  last offset delta        then key length 4, key, value length 4, value
        27      8  base timestamp
        35      8  max timestamp
        43      8  producer id
        51      2  producer epoch
        53      4  base sequence
        57      4  record count
        61         records

All integers are big-endian. Follows DefaultRecordBatch and LegacyRecord. The engine has the same facts in
`_c/batch.pxd`; tests/unit/format/test_layout.py compares the two.
"""

from __future__ import annotations

from struct import Struct
from typing import Any, NamedTuple

from .enums import Compression


class BatchStart(NamedTuple):
    """The fields that every magic begins with."""

    base_offset: int
    batch_length: int
    epoch_or_crc: int
    magic: int


class V2Header(NamedTuple):
    """The header of a batch of magic 2, as stored: -1 means none."""

    base_offset: int
    batch_length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int


class MessageHeader(NamedTuple):
    """The fields of a message of magic 1 before its key; magic 0 ends with the attributes."""

    offset: int
    size: int
    crc: int
    magic: int
    attributes: int
    timestamp: int = -1


V2_FORMS, MESSAGE_FORMS = "qiibIhiqqqhii", "qiIbbq"
"""Each field's form in `struct`, of a batch of magic 2 and of a message of magic 1; one of magic 0 has no timestamp."""
START = Struct(">qiib")
V2 = Struct(">" + V2_FORMS)
MESSAGES = (Struct(">" + MESSAGE_FORMS[:5]), Struct(">" + MESSAGE_FORMS))
"""Of magic 0 and of magic 1."""


def _positions(forms: str) -> list[int]:
    return [Struct(">" + forms[:number]).size for number in range(len(forms))]


V2_AT = V2Header(*_positions(V2_FORMS))
"""The position of each field in a batch of magic 2."""
MESSAGE_AT = MessageHeader(*_positions(MESSAGE_FORMS))
"""The position of each field in a message of magic 0 or 1."""

LOG_OVERHEAD = V2_AT.partition_leader_epoch
"""Base offset and batch length (Records.LOG_OVERHEAD)."""
UP_TO_MAGIC = START.size
KEY_AT = tuple(header.size for header in MESSAGES)
"""The position of the key length in a message of magic 0 and of magic 1."""
MESSAGE_OVERHEAD = tuple(at + 8 - LOG_OVERHEAD for at in KEY_AT)
"""The least size field of magic 0 and of magic 1: an empty key and value (LegacyRecord.RECORD_OVERHEAD_V0, _V1)."""
V2_OVERHEAD = V2.size
"""DefaultRecordBatch.RECORD_BATCH_OVERHEAD."""
MAX_SIZE = 2**31 - 1
MAX_BATCH_LENGTH = MAX_SIZE - LOG_OVERHEAD

CODEC_MASK = 0x07
LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20
DELETE_HORIZON = 0x40
LATEST_CODEC = max(Compression).value


# Each by magic: the least size (of a batch of magic 2 that of its header, after which the records begin), where the
# checksum is, the first byte that it covers (the last one is the batch's), the attribute bits that have a meaning, the
# highest codec id (zstd came with magic 2, KIP-110).
LEAST_SIZES = (*(LOG_OVERHEAD + size for size in MESSAGE_OVERHEAD), V2_OVERHEAD)
CRC_AT = (MESSAGE_AT.crc, MESSAGE_AT.crc, V2_AT.crc)
CHECKED_FROM = (MESSAGE_AT.magic, MESSAGE_AT.magic, V2_AT.attributes)
USED_BITS = (CODEC_MASK, CODEC_MASK | LOG_APPEND_TIME, 0x7F)
LATEST_CODECS = (Compression.LZ4.value, Compression.LZ4.value, LATEST_CODEC)

MAGICS = range(len(LEAST_SIZES))
LATEST_MAGIC = MAGICS[-1]
BATCH_MAGIC = 2
"""The first magic of batches with a header of their own; those below are of messages (KIP-98)."""
BATCH_MAGICS = MAGICS[BATCH_MAGIC:]


def first_fields(data: Any, at: int = 0) -> BatchStart:
    """The fields at byte `at` that every magic begins with. struct.error if fewer than 17 bytes follow."""
    return BatchStart._make(START.unpack_from(data, at))


def batch_start(data: Any) -> BatchStart | None:
    """The fields that every magic begins with, of a batch that may begin with these bytes; None: they are too few, or
    their magic or their length is that of no batch."""
    start = first_fields(data) if len(data) >= UP_TO_MAGIC else None
    if start is None or start.magic not in MAGICS or start.batch_length < LEAST_SIZES[start.magic] - LOG_OVERHEAD:
        return None
    return start


def batch_header(data: Any) -> V2Header | None:
    """The header of the batch of magic 2 that these bytes begin with; None: another magic, or fewer bytes."""
    return v2_header(data) if len(data) >= V2_OVERHEAD and data[V2_AT.magic] == BATCH_MAGIC else None


def message_header(data: Any) -> MessageHeader:
    """The header of a message of magic 0 (with timestamp -1) or 1; any other magic is read as 1. struct.error if it is
    cut."""
    return MessageHeader(*MESSAGES[data[MESSAGE_AT.magic] != 0].unpack_from(data))


def v2_header(data: Any, at: int = 0) -> V2Header:
    """The header of the batch of magic 2 at byte `at`. struct.error if fewer than 61 bytes follow."""
    return V2Header._make(V2.unpack_from(data, at))


def header_for_payload(batch: Any, length: int, codec: int) -> bytearray:
    """The header of a batch for another payload of `length` bytes, with the old checksum."""
    header = bytearray(batch[: LEAST_SIZES[batch[V2_AT.magic]]])
    attributes = int.from_bytes(header[V2_AT.attributes : V2_AT.last_offset_delta], "big") & ~CODEC_MASK | codec
    header[V2_AT.attributes : V2_AT.last_offset_delta] = attributes.to_bytes(2, "big")
    header[V2_AT.batch_length : LOG_OVERHEAD] = (len(header) - LOG_OVERHEAD + length).to_bytes(4, "big")
    return header


def batch_length(data: Any, at: int = 0) -> int:
    """The length field of the batch at byte `at`: bytes after that field."""
    return int.from_bytes(data[at + V2_AT.batch_length : at + LOG_OVERHEAD], "big", signed=True)
