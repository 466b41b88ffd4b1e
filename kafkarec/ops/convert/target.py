"""What the caller wants of every batch: magic, codec, level, size. Checked once."""

from __future__ import annotations

from typing import Any, NamedTuple

from kafkarec import codecs
from kafkarec.format.enums import Compression

from .source_batches import SourceBatch

ZSTD = Compression.ZSTD.value
GATHERED_BYTES = 16384
"""The producer's batch.size: what plain messages of magic 0 and 1, which nobody cut into batches, are gathered to."""

_ATTRIBUTE_BITS = 0x7F


class Shape(NamedTuple):
    """What one batch becomes: magic and codec; limit: bytes up to which it may be put together with its neighbours and
    above which it is cut (None: it stays as it is cut)."""

    magic: int
    codec: int
    limit: int | None


class Target(NamedTuple):
    """magic None: each batch's own. codec None: each batch's own. The rest as `convert` has it."""

    magic: int | None
    codec: int | None
    level: int | None
    batch_size: int | None
    first_offset: int | None

    def shape(self, unit: SourceBatch) -> Shape:
        """Down-conversion leaves lower magics as they are; up-conversion there is to magic 2 only."""
        magic = self.magic
        if magic is None or unit.magic < magic < 2:
            magic = unit.magic
        codec = unit.codec if self.codec is None or _stays_plain(unit, magic) else self.codec
        return Shape(magic, codec, self._limit(unit, magic, codec))

    def keeps(self, unit: SourceBatch, magic: int, codec: int) -> bool:
        """Whether such a batch, where it stays as it is cut, goes out as it came in."""
        return unit.magic == magic and unit.codec == codec and (self.level is None or not codec)

    def _limit(self, unit: SourceBatch, magic: int, codec: int) -> int | None:
        if unit.is_control or not unit.rows:
            return None
        if unit.magic == 2 and unit.attributes & ~_ATTRIBUTE_BITS:  # bits from Kafka's future stay with their batch
            return None
        never_cut = unit.magic < 2 and not unit.codec and not self.keeps(unit, magic, codec)
        if magic < 2 and not codec:
            return GATHERED_BYTES if never_cut else None
        return self.batch_size or (GATHERED_BYTES if never_cut else None)


def _stays_plain(unit: SourceBatch, magic: int) -> bool:
    """Without records there is nothing to compress, and Kafka compresses no markers."""
    return unit.magic == magic == 2 and not unit.codec and (unit.is_control or not unit.rows)


def target(magic: Any, compression: Any, level: Any, batch_size: Any, first_offset: Any) -> Target:
    """ValueError or TypeError for what makes no sense."""
    if magic not in (0, 1, 2, None) or isinstance(magic, bool):
        raise ValueError(f"magic {magic!r}: 0, 1, 2, or None for that of each batch")
    codec = None if compression is None else int(Compression.of(compression))
    if codec is None and level is not None:
        raise ValueError("a level needs compression=, the codec that it is a level of")
    if codec is not None:
        codecs.checked_level(codec, level)
    if codec == ZSTD and magic in (0, 1):
        raise ValueError(f"zstd is not supported in magic {magic}")
    for name, value in (("batch_size", batch_size), ("first_offset", first_offset)):
        if value is not None and (not isinstance(value, int) or isinstance(value, bool)):
            raise TypeError(f"{name} is an int, not {type(value).__name__}")
    if batch_size is not None and batch_size < 1:
        raise ValueError(f"batch_size {batch_size}: bytes, 1 or more")
    return Target(magic, codec, level, batch_size, first_offset)
