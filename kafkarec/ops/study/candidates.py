"""The formats, codecs, levels and batch sizes to try.

2, header-first       formats: see formats.py
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
from kafkarec.format.enums import Compression

from .formats import FORMATS, Candidate, format_name

CODECS = ("none", "snappy", "lz4", "zstd:1", "zstd:3", "zstd:9", "gzip:6")
"""The default codecs: with Kafka's default levels (gzip's -1 is 6; lz4's is 9), and zstd with two more levels."""

BATCH_SIZES = (None, 16 << 10, 128 << 10, 1 << 20)
"""As they are, the producer's default, a size recommended for throughput, the largest that a broker takes by
default."""

_GZIP_DEFAULT = 6  # zlib's level for -1


class NotTried(NamedTuple):
    """A codec that a format does not have."""

    format: str
    compression: str
    reason: str


def codec_and_level(text: Compression | str) -> tuple[str, int | None]:
    """Parses `zstd:9`, `zstd` or its member (Kafka's default level), `snappy`. ValueError for an unknown codec or
    level."""
    if isinstance(text, Compression):
        text = text.name
    name, colon, level = text.strip().lower().partition(":") if isinstance(text, str) else ("", "", "")
    if name not in BY_NAME:
        known = ", ".join(codec.name for codec in TABLE)
        raise ValueError(f"{text!r} is not a codec; there are {known}, also with a level, as zstd:9")
    try:
        wanted = int(level) if colon else None
    except ValueError:
        raise ValueError(f"{text!r}: the level is a number, such as {name}:5") from None
    found = checked_level(BY_NAME[name].id, wanted)
    return name, _GZIP_DEFAULT if name == "gzip" and found == -1 else found


def candidates(
    formats: Iterable[int | str], codecs: Iterable[Compression | str], batch_sizes: Iterable[int | None]
) -> tuple[list[Candidate], list[NotTried]]:
    """Each codec with each size in each format, in order, without duplicates; and the codecs that a format lacks."""
    pairs = list(product(dict.fromkeys(batch_sizes), dict.fromkeys(map(codec_and_level, codecs))))
    found: list[Candidate] = []
    left_out: dict[NotTried, None] = {}
    for name in dict.fromkeys(map(format_name, formats)):
        known = FORMATS[name].codecs
        found += [Candidate(codec, level, size, name) for size, (codec, level) in pairs if codec in known]
        missing = (codec for _, (codec, _) in pairs if codec not in known)
        left_out |= dict.fromkeys(NotTried(name, codec, f"format {name} has no {codec}") for codec in missing)
    return found, list(left_out)
