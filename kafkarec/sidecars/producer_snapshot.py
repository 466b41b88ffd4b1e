"""`.snapshot`: the producer state at an offset (Kafka: ProducerStateManager, ProducerSnapshot.json).

    byte  size  field
    0     2     version      int16   1
    2     4     crc          uint32  CRC-32C of all bytes from 6 on
    6     4     entry_count  int32
    10    42 each:
    +0    8     producer_id               int64
    +8    2     producer_epoch            int16   -1: only an empty control batch of it is left
    +10   4     last_sequence             int32   of its last data batch; -1: none in this epoch
    +14   8     last_offset               int64   of that batch; -1: none
    +22   4     offset_delta              int32   last offset less base offset of that batch
    +26   8     timestamp                 int64   max timestamp of that batch, or the last marker's
    +34   4     coordinator_epoch         int32   of the last marker; -1: none yet
    +38   8     current_txn_first_offset  int64   where its open transaction begins; -1: none is open

The file's name is the offset: it covers all batches below. One is written when a segment is rolled, named as the new
segment, and one at a clean shutdown. The order of entries is that of a Java HashMap; `in_java_order` reproduces it.
The file called NNN-EEE.checkpoint of a KRaft log is something else: a segment of records.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from struct import Struct, error

from crc32c import crc32c

from kafkarec.format.side_files import SnapshotEntry

from .parse_errors import refuse

SUFFIX = ".snapshot"
VERSION = 1
_HEAD, _ENTRY, _CRC_FROM = Struct(">hIi"), Struct(">qhiqiqiq"), 6


def read(data: bytes, file: str | None = None) -> tuple[SnapshotEntry, ...]:
    """The entries of a snapshot's bytes, in the file's order.

    CorruptRecordError: snapshot_invalid for another version or a count that does not fit, crc_mismatch. Bytes after
    the last entry are covered by the checksum and otherwise ignored, as in Kafka.
    """
    if len(data) < _HEAD.size:
        refuse("snapshot_invalid", f"{len(data)} bytes, and the header alone has {_HEAD.size}", file=file)
    version, stored, count = _HEAD.unpack_from(data)
    if version != VERSION:
        refuse("snapshot_invalid", f"version {version} is not {VERSION}", file=file)
    fit = (len(data) - _HEAD.size) // _ENTRY.size
    if not 0 <= count <= fit:
        refuse("snapshot_invalid", f"{count} entries are announced and {fit} fit the file", position=6, file=file)
    computed = crc32c(data[_CRC_FROM:])
    if stored != computed:
        refuse("crc_mismatch", "", position=2, expected=stored, found=computed, file=file)
    places = range(_HEAD.size, _HEAD.size + count * _ENTRY.size, _ENTRY.size)
    return tuple(SnapshotEntry(*_ENTRY.unpack_from(data, place)) for place in places)


def write(entries: Iterable[SnapshotEntry]) -> bytes:
    """A snapshot's bytes, entries in the order given; CorruptRecordError when a number does not fit its field."""
    packed = bytearray()
    for entry in entries:
        try:
            packed += _ENTRY.pack(*entry)
        except error:
            refuse("snapshot_invalid", f"a number of producer {entry.producer_id} does not fit its field")
    body = (len(packed) // _ENTRY.size).to_bytes(4, "big") + packed
    return VERSION.to_bytes(2, "big") + crc32c(body).to_bytes(4, "big") + body


def in_java_order(ids: Sequence[int]) -> list[int]:
    """Producer ids, given in the order they were first seen, as a java.util.HashMap<Long, ...> walks over them.

    Buckets in order of the hash's low bits, ids of one bucket in order of arrival. Exact for maps that only grew, with
    up to eight ids in a bucket; the order means nothing to a reader.
    """
    capacity = 16
    while len(ids) * 4 > capacity * 3:
        capacity *= 2

    def bucket(producer_id: int) -> int:
        hashed = (producer_id ^ (producer_id & 0xFFFFFFFFFFFFFFFF) >> 32) & 0xFFFFFFFF
        return (hashed ^ hashed >> 16) & (capacity - 1)

    return sorted(ids, key=bucket)
