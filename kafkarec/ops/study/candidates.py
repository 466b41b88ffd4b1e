"""The codecs, levels and batch sizes to try.

none, snappy          no levels
zstd, zstd:9          Kafka's default level, that level
as cut, 16384 ...     batches stay as they are, or adjacent ones are joined up to this many bytes
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product
from typing import NamedTuple

from kafkarec.codecs import BY_NAME, checked_level
from kafkarec.codecs import CODECS as TABLE

CODECS = ("none", "snappy", "lz4", "zstd:1", "zstd:3", "zstd:9", "gzip:6")
"""The default codecs: with Kafka's default levels (gzip's -1 is 6; lz4's is 9), and zstd with two more levels."""

BATCH_SIZES = (None, 16 << 10, 128 << 10, 1 << 20)
"""As they are, the producer's default, a size recommended for throughput, the largest that a broker takes by
default."""

_GZIP_DEFAULT = 6  # zlib's level for -1


class Candidate(NamedTuple):
    """Codec, level and batch size to try. level: None if the codec has none; batch_size: bytes before compression,
    None: keep the batches."""

    compression: str
    level: int | None
    batch_size: int | None


def codec_and_level(text: str) -> tuple[str, int | None]:
    """Parses `zstd:9`, `zstd` (Kafka's default level), `snappy`. ValueError for an unknown codec or level."""
    name, colon, level = text.strip().lower().partition(":")
    if name not in BY_NAME:
        known = ", ".join(codec.name for codec in TABLE)
        raise ValueError(f"{text!r} is not a codec; there are {known}, also with a level, as zstd:9")
    try:
        wanted = int(level) if colon else None
    except ValueError:
        raise ValueError(f"{text!r}: the level is a number, such as {name}:5") from None
    found = checked_level(BY_NAME[name].id, wanted)
    return name, _GZIP_DEFAULT if name == "gzip" and found == -1 else found


def candidates(codecs: Iterable[str], batch_sizes: Iterable[int | None]) -> list[Candidate]:
    """Each codec with each size, in order, without duplicates."""
    pairs = product(dict.fromkeys(batch_sizes), dict.fromkeys(map(codec_and_level, codecs)))
    return [Candidate(name, level, size) for size, (name, level) in pairs]
