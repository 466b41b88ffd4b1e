"""`.index`: maps offsets to positions in the segment (Kafka: OffsetIndex).

    byte  size  field
    0     4     relative_offset  int32  last offset of a batch, less the segment's base offset
    4     4     position         int32  where that batch begins in the .log file

Both fields rise. There is an entry about every `index.interval.bytes` of the log; the first batch never has one.
"""

from __future__ import annotations

from collections.abc import Iterable
from operator import gt
from struct import Struct, error
from typing import NamedTuple

from .index_entries import Entries
from .parsing import refuse

SUFFIX = ".index"
ENTRY_SIZE = 8


class OffsetEntry(NamedTuple):
    """offset: the last offset of a batch; position: the byte of the .log file where that batch begins."""

    offset: int
    position: int


class OffsetIndex(Entries[OffsetEntry]):
    """The entries of an .index file."""

    __slots__ = ()
    layout = Struct(">ii")
    rises = gt, gt

    def _entry_at(self, index: int) -> OffsetEntry:
        relative, position = self.layout.unpack_from(self._data, index * ENTRY_SIZE)
        return OffsetEntry(self.base_offset + relative, position)


def read(data: bytes, base_offset: int, file: str | None = None) -> OffsetIndex:
    """The entries of an .index file's bytes; CorruptRecordError when they are not whole entries."""
    return OffsetIndex(data, base_offset, file)


def write(entries: Iterable[tuple[int, int]], base_offset: int) -> bytes:
    """The bytes of (offset, position) pairs; CorruptRecordError if one does not fit an entry's 31 bits."""
    packed = bytearray()
    for offset, position in entries:
        try:
            packed += OffsetIndex.layout.pack(offset - base_offset, position)
        except error:
            refuse("index_invalid", f"offset {offset} at byte {position} is too far from base offset {base_offset}")
    return bytes(packed)
