"""The checked conversion options, and the magic, codec and size limit that follow from them for each batch."""

from __future__ import annotations

from typing import Any, NamedTuple

from kafkarec import codecs
from kafkarec.format.enums import CODEC_NAMES, Compression
from kafkarec.format.layout import BATCH_MAGIC, LATEST_CODECS, MAGICS
from kafkarec.ops.rewrite.batches import SourceBatch

JOINED_BYTES = 16384
"""The producer's default batch.size: the size of batches that plain messages of magic 0 and 1 are joined into."""

_ATTRIBUTE_BITS = 0x7F


class Shape(NamedTuple):
    """Magic and codec of the output of one batch. limit: bytes up to which it is joined with adjacent batches and above
    which it is split; None: it is neither joined nor split."""

    magic: int
    codec: int
    limit: int | None


class Target(NamedTuple):
    """The options of `convert`. magic, codec: None keeps that of each batch."""

    magic: int | None
    codec: int | None
    level: int | None
    batch_size: int | None

    def shape(self, unit: SourceBatch) -> Shape:
        """The output of one batch. Down-conversion keeps lower magics; up-conversion is only to magic 2."""
        magic = self.magic
        if magic is None or unit.magic < magic < BATCH_MAGIC:
            magic = unit.magic
        # a batch without records, or a marker, is never compressed, as in Kafka
        is_bare = unit.magic == magic >= BATCH_MAGIC and not unit.codec and (unit.is_control or not unit.rows)
        codec = unit.codec if self.codec is None or is_bare else self.codec
        return Shape(magic, codec, self._limit(unit, magic, codec))

    def keeps(self, unit: SourceBatch, magic: int, codec: int) -> bool:
        """Whether a batch that is neither joined nor split is copied unchanged."""
        return unit.magic == magic and unit.codec == codec and (self.level is None or not codec)

    def _limit(self, unit: SourceBatch, magic: int, codec: int) -> int | None:
        if unit.is_control or not unit.rows:
            return None
        if unit.magic >= BATCH_MAGIC and unit.attributes & ~_ATTRIBUTE_BITS:
            return None  # attribute bits of a later Kafka apply to one batch
        plain = unit.magic < BATCH_MAGIC and not unit.codec and not self.keeps(unit, magic, codec)
        if magic < BATCH_MAGIC and not codec:
            return JOINED_BYTES if plain else None
        return self.batch_size or (JOINED_BYTES if plain else None)


def target(magic: Any, compression: Any, level: Any, batch_size: Any) -> Target:
    """The checked options; ValueError or TypeError for invalid ones."""
    if magic is not None and (magic not in MAGICS or isinstance(magic, bool)):
        raise ValueError(f"magic {magic!r}: {', '.join(map(str, MAGICS))}, or None for that of each batch")
    codec = None if compression is None else int(Compression.of(compression))
    if codec is None and level is not None:
        raise ValueError("level needs compression=, the codec of the level")
    if codec is not None:
        codecs.checked_level(codec, level)
    if codec is not None and magic is not None and codec > LATEST_CODECS[magic]:
        raise ValueError(f"{CODEC_NAMES[codec]} is not supported in magic {magic}")
    if batch_size is not None and (not isinstance(batch_size, int) or isinstance(batch_size, bool)):
        raise TypeError(f"batch_size is an int, not {type(batch_size).__name__}")
    if batch_size is not None and batch_size < 1:
        raise ValueError(f"batch_size {batch_size}: bytes, 1 or more")
    return Target(magic, codec, level, batch_size)
