"""`.timeindex`: maps timestamps to offsets (Kafka: TimeIndex).

    byte  size  field
    0     8     timestamp        int64  ms: the largest max timestamp of all batches so far
    8     4     relative_offset  int32  last offset of the first batch that has it, less the segment's base offset

Timestamps rise strictly, offsets rise. An entry is added together with one of the .index, and one at the end when the
segment is rolled, closed or recovered, if the largest timestamp has no entry yet. Logs without timestamps have none.
"""

from __future__ import annotations

from collections.abc import Iterable
from operator import ge, gt
from struct import Struct, error
from typing import NamedTuple

from .index_entries import Entries
from .parsing import refuse

SUFFIX = ".timeindex"
ENTRY_SIZE = 12


class TimeEntry(NamedTuple):
    """`timestamp` (ms) is the latest of all records at or below `offset`; the batch that ends at `offset` has it."""

    timestamp: int
    offset: int


class TimeIndex(Entries[TimeEntry]):
    """The entries of a .timeindex file."""

    __slots__ = ()
    layout = Struct(">qi")
    rises = gt, ge

    @classmethod
    def _used_count(cls, data: bytes) -> int:
        """A single entry of zeros counts: timestamp 0 at the base offset. Further zeros are preallocated."""
        return 1 if len(data) == ENTRY_SIZE else super()._used_count(data)

    def _entry_at(self, index: int) -> TimeEntry:
        timestamp, relative = self.layout.unpack_from(self._data, index * ENTRY_SIZE)
        return TimeEntry(timestamp, self.base_offset + relative)


def read(data: bytes, base_offset: int, file: str | None = None) -> TimeIndex:
    """The entries of a .timeindex file's bytes; CorruptRecordError when they are not whole entries."""
    return TimeIndex(data, base_offset, file)


def write(entries: Iterable[tuple[int, int]], base_offset: int) -> bytes:
    """The bytes of (timestamp, offset) pairs; CorruptRecordError if one does not fit an entry."""
    packed = bytearray()
    for timestamp, offset in entries:
        try:
            packed += TimeIndex.layout.pack(timestamp, offset - base_offset)
        except error:
            refuse("index_invalid", f"timestamp {timestamp} at offset {offset} does not fit an entry")
    return bytes(packed)
