"""The formats that a study compares.

0, 1           messages (magic 0 and 1): without headers, producer fields and markers, without zstd
2              batches, as every Kafka since 0.11 writes them
3              the discarded proposal for magic 3: no broker reads it (kafkarec.experimental.v3)
header-first   its addition: headers of all records first (kafkarec.experimental.header_first); no broker reads it
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from kafkarec.experimental import header_first, v3
from kafkarec.format.enums import CODEC_NAMES
from kafkarec.format.layout import BATCH_MAGIC, LATEST_CODECS
from kafkarec.ops.convert import converted
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


class Made(NamedTuple):
    """A piece in another format. refused: batches that the format cannot hold, or that are damaged; losses: as
    ConversionStats.losses."""

    data: bytes
    batches: int
    losses: Mapping[str, int]
    refused: int


@dataclass(frozen=True)
class RecordFormat:
    """One format. magic: of the batches that `convert` makes; no_broker: whether no broker reads it."""

    magic: int
    no_broker: bool = False

    @property
    def codecs(self) -> tuple[str, ...]:
        """The names of the codecs that it has."""
        return tuple(CODEC_NAMES[: LATEST_CODECS[self.magic] + 1])

    def write(self, data: bytes, tried: Candidate, limit: int) -> Made:
        """The bytes of a piece in this format; damaged batches are left out."""
        made = converted(data, magic=self.magic, **tried.options, errors="skip", max_decompressed_bytes=limit)
        return Made(b"".join(made), made.stats.batches_out, made.stats.losses, len(made.damage))

    def columns(self, columns: RecordColumns, made: bytes, limit: int) -> RecordColumns:
        """What `encode` writes: the records of the piece, or what this format has of them."""
        if self.magic == BATCH_MAGIC:
            return columns
        return decode(made, max_decompressed_bytes=limit)

    def encode(self, columns: RecordColumns, tried: Candidate) -> bytes:
        """The records in this format."""
        return encode(columns, magic=self.magic, **tried.options)

    def decode(self, data: bytes, limit: int) -> RecordColumns:
        """The records of `data`, with checksums."""
        return decode(data, control=True, max_decompressed_bytes=limit)


@dataclass(frozen=True)
class ProposedFormat(RecordFormat):
    """A format of kafkarec.experimental, written from uncompressed batches of magic 2. module: has from_v2, encode,
    decode."""

    module: Any = None

    def write(self, data: bytes, tried: Candidate, limit: int) -> Made:
        plain = super().write(data, tried._replace(compression="none", level=None), limit)
        codec = {"compression": tried.compression, "level": tried.level}
        made = self.module.from_v2(plain.data, **codec, max_decompressed_bytes=limit)
        return plain._replace(data=made)

    def encode(self, columns: RecordColumns, tried: Candidate) -> bytes:
        return bytes(self.module.encode(columns, **tried.options))

    def decode(self, data: bytes, limit: int) -> RecordColumns:
        made: RecordColumns = self.module.decode(data, control=True, max_decompressed_bytes=limit)
        return made


FORMATS: dict[str, RecordFormat] = {
    "0": RecordFormat(0),
    "1": RecordFormat(1),
    "2": RecordFormat(BATCH_MAGIC),
    "3": ProposedFormat(BATCH_MAGIC, True, v3),
    "header-first": ProposedFormat(BATCH_MAGIC, True, header_first),
}
"""By name."""


def format_name(given: int | str) -> str:
    """The name of a format, given as 2 or "2" or "header-first". ValueError if there is none."""
    name = str(given).strip().lower()
    if name not in FORMATS:
        raise ValueError(f"{given!r} is not a format; there are {', '.join(FORMATS)}")
    return name
