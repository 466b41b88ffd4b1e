"""The formats, codecs, levels and batch sizes to try, and how a piece is written, encoded and decoded in each format.

0, 1                  messages (magic 0 and 1): without headers, producer fields and markers, without zstd
2                     batches, as every Kafka since 0.11 writes them
3                     the discarded proposal for magic 3: no broker reads it (kafkarec.experimental.v3)
header-first          its addition: headers of all records first (kafkarec.experimental.header_first); no broker reads
                      it
none, snappy          no levels
zstd, zstd:9          Kafka's default level, that level
as cut, 16384 ...     batches stay as they are, or adjacent ones are joined up to this many bytes
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import product
from typing import Any, NamedTuple

from kafkarec.codecs import BY_NAME, checked_level
from kafkarec.codecs import CODECS as TABLE
from kafkarec.experimental import header_first, v3
from kafkarec.format.enums import CODEC_NAMES, Compression
from kafkarec.format.layout import BATCH_MAGIC, LATEST_CODECS
from kafkarec.ops.convert import Conversion, converted_batches
from kafkarec.read.reader import decode
from kafkarec.tables.records import RecordColumns
from kafkarec.write import encode


class Candidate(NamedTuple):
    """Codec, level, batch size and format to try. level: None if the codec has none; batch_size: bytes before
    compression, None: keep the batches; format: a key of `FORMATS`."""

    compression: str
    level: int | None
    batch_size: int | None
    format: str = "2"

    @property
    def options(self) -> dict[str, Any]:
        """The arguments of `convert` and `encode`."""
        return {"compression": self.compression, "level": self.level, "batch_size": self.batch_size}


@dataclass(frozen=True)
class RecordFormat:
    """One format. magic: of the batches that `convert` makes; proposal: a module of kafkarec.experimental, for a format
    that no broker reads, which is written from uncompressed batches of magic 2"""

    magic: int
    proposal: Any = None

    @property
    def codecs(self) -> tuple[str, ...]:
        """The names of the codecs that it has."""
        return tuple(CODEC_NAMES[: LATEST_CODECS[self.magic] + 1])

    def write(self, data: bytes, tried: Candidate, limit: int) -> tuple[bytes, Conversion]:
        """The bytes of a piece in this format, and the conversion that made them, or uncompressed ones for a proposal:
        it has left out batches that are damaged or that the format cannot hold."""
        first = tried if self.proposal is None else tried._replace(compression="none", level=None)
        made = converted_batches(data, magic=self.magic, **first.options, errors="skip", max_decompressed_bytes=limit)
        written = b"".join(made)
        if self.proposal is not None:
            codec = {"compression": tried.compression, "level": tried.level}
            written = self.proposal.from_v2(written, **codec, max_decompressed_bytes=limit)
        return written, made

    def encode(self, columns: RecordColumns, tried: Candidate) -> bytes:
        """The records in this format."""
        if self.proposal is not None:
            return bytes(self.proposal.encode(columns, **tried.options))
        return encode(columns, magic=self.magic, **tried.options)

    def decode(self, data: bytes, limit: int) -> RecordColumns:
        """The records of `data`, with checksums."""
        read: Callable[..., RecordColumns] = decode if self.proposal is None else self.proposal.decode
        return read(data, control=True, max_decompressed_bytes=limit)


FORMATS: dict[str, RecordFormat] = {
    "0": RecordFormat(0),
    "1": RecordFormat(1),
    "2": RecordFormat(BATCH_MAGIC),
    "3": RecordFormat(BATCH_MAGIC, v3),
    "header-first": RecordFormat(BATCH_MAGIC, header_first),
}
"""By name."""


def format_name(given: int | str) -> str:
    """The name of a format, given as 2 or "2" or "header-first". ValueError if there is none."""
    name = str(given).strip().lower()
    if name not in FORMATS:
        raise ValueError(f"{given!r} is not a format; there are {', '.join(FORMATS)}")
    return name


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
