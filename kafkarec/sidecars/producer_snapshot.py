"""`.snapshot`: the producer state at an offset (Kafka: ProducerStateManager, ProducerSnapshot.json).

    byte  size  field
    0     2     version      int16   1
    2     4     crc          uint32  CRC-32C of all bytes from 6 on
    6     4     entry_count  int32
    10    42 each:
    +0    8     producer_id               int64
    +8    2     producer_epoch            int16   -1: the log has only an empty control batch of the producer
    +10   4     last_sequence             int32   of its last data batch; -1: none in this epoch
    +14   8     last_offset               int64   of that batch; -1: none
    +22   4     offset_delta              int32   last offset less base offset of that batch
    +26   8     timestamp                 int64   max timestamp of that batch, or the last marker's
    +34   4     coordinator_epoch         int32   of the last marker; -1: none yet
    +38   8     current_txn_first_offset  int64   first offset of its open transaction; -1: none is open

The file's name is the offset: the state covers all batches below. A snapshot is written when a segment is rolled, with
the new segment's base offset, and at a clean shutdown. The order of entries is that of a Java HashMap; `in_java_order`
reproduces it. A file NNN-EEE.checkpoint of a KRaft log is not such a snapshot, but a segment of records.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from struct import Struct, error

from kafkarec.format.checksum import crc32c
from kafkarec.format.side_files import SnapshotEntry

from .parsing import refuse

SUFFIX = ".snapshot"
VERSION = 1
HEAD, ENTRY, CHECKED_FROM = Struct(">hIi"), Struct(">qhiqiqiq"), 6


def read(data: bytes, file: str | None = None) -> tuple[SnapshotEntry, ...]:
    """The entries of a snapshot's bytes, in the file's order.

    CorruptRecordError: snapshot_invalid for another version or a count that does not fit, crc_mismatch. Bytes after
    the last entry are covered by the checksum and otherwise ignored, as in Kafka.
    """
    if len(data) < HEAD.size:
        refuse("snapshot_invalid", f"{len(data)} bytes, fewer than the {HEAD.size} of the header", file=file)
    version, stored, count = HEAD.unpack_from(data)
    if version != VERSION:
        refuse("snapshot_invalid", f"version {version} is not {VERSION}", file=file)
    fit = (len(data) - HEAD.size) // ENTRY.size
    if not 0 <= count <= fit:
        refuse("snapshot_invalid", f"{count} entries are declared and {fit} fit the file", position=6, file=file)
    computed = crc32c(data[CHECKED_FROM:])
    if stored != computed:
        refuse("crc_mismatch", "", position=2, expected=stored, found=computed, file=file)
    positions = range(HEAD.size, HEAD.size + count * ENTRY.size, ENTRY.size)
    return tuple(SnapshotEntry(*ENTRY.unpack_from(data, position)) for position in positions)


def write(entries: Iterable[SnapshotEntry]) -> bytes:
    """A snapshot's bytes, entries in the given order; CorruptRecordError if a number does not fit its field."""
    packed = bytearray()
    for entry in entries:
        try:
            packed += ENTRY.pack(*entry)
        except error:
            refuse("snapshot_invalid", f"a number of producer {entry.producer_id} does not fit its field")
    body = (len(packed) // ENTRY.size).to_bytes(4, "big") + packed
    return VERSION.to_bytes(2, "big") + crc32c(body).to_bytes(4, "big") + body


def in_java_order(ids: Sequence[int]) -> list[int]:
    """Producer ids in the order in which a java.util.HashMap<Long, ...> iterates over them.

    ids: in the order in which they were inserted. Buckets are in the order of the hash's low bits, ids of one bucket in
    the order of insertion. Exact for maps that only grew, with up to eight ids in a bucket; readers ignore the order.
    """
    capacity = 16
    while len(ids) * 4 > capacity * 3:
        capacity *= 2

    def bucket(producer_id: int) -> int:
        hashed = (producer_id ^ (producer_id & 0xFFFFFFFFFFFFFFFF) >> 32) & 0xFFFFFFFF
        return (hashed ^ hashed >> 16) & (capacity - 1)

    return sorted(ids, key=bucket)
