"""The codecs: decompress a payload with a hard limit on its size, and compress with Kafka's levels.

Behaves like the JVM streams that Kafka uses (Compression.wrapForInput and wrapForOutput); each codec's module names the
Java classes and their peculiarities. Libraries are imported at first use.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from . import gzip, lz4, snappy, zstd
from .codec_errors import REASONS, CodecError, LimitReached, MissingCodec

__all__ = [
    "BY_NAME",
    "CODECS",
    "REASONS",
    "Codec",
    "CodecError",
    "LimitReached",
    "MissingCodec",
    "checked_level",
    "compress",
    "decompress",
    "probe",
]

Decompress = Callable[[Any, int, int, int], bytes | memoryview]
Probe = Callable[[Any, int, int], None]
Compress = Callable[[Any, Any, int], bytes]


class Codec(NamedTuple):
    """One codec. Levels are those that Kafka allows; None: the codec has no levels.

    The default level is allowed too: gzip's -1 is outside of 1 to 9; 0 is refused.
    """

    id: int
    name: str
    pip_name: str | None
    module: str | None
    least_level: int | None
    most_level: int | None
    default_level: int | None
    decompress: Decompress
    probe: Probe
    compress: Compress


def _as_it_is(payload: Any, limit: int, guess: int = 0, magic: int = 2) -> bytes | memoryview:
    return payload if isinstance(payload, bytes) else memoryview(payload)


def _stored(payload: Any, level: None = None, magic: int = 2) -> bytes:
    return bytes(payload)


def _nothing_to_probe(payload: Any, limit: int, magic: int = 2) -> None:
    return None


NO_LEVELS = (None, None, None)

CODECS: tuple[Codec, ...] = (
    Codec(0, "none", None, None, *NO_LEVELS, _as_it_is, _nothing_to_probe, _stored),
    Codec(1, gzip.NAME, gzip.PIP_NAME, gzip.MODULE, 1, 9, -1, gzip.decompress, gzip.probe, gzip.compress),
    Codec(2, snappy.NAME, snappy.PIP_NAME, snappy.MODULE, *NO_LEVELS, snappy.decompress, snappy.probe, snappy.compress),
    Codec(3, lz4.NAME, lz4.PIP_NAME, lz4.MODULE, 1, 17, 9, lz4.decompress, lz4.probe, lz4.compress),
    Codec(4, zstd.NAME, zstd.PIP_NAME, zstd.MODULE, -131072, 22, 3, zstd.decompress, zstd.probe, zstd.compress),
)
"""Indexed by codec id, the low three bits of the attributes."""

BY_NAME: dict[str, Codec] = {codec.name: codec for codec in CODECS}


def decompress(codec_id: int, payload: Any, limit: int, guess: int = 0, magic: int = 2) -> bytes | memoryview:
    """All decompressed bytes of `payload` (any buffer of bytes). Raises only CodecError.

    limit: bytes, a hard limit for the output and its allocation: LimitReached above it.
    guess: bytes, the decompressed size of the previous payload of this kind, 0: unknown.
    magic: of the batch or message; LZ4's header checksum differs in magic 0 (KAFKA-3160).
    A returned memoryview is valid until this thread's next call, which may reuse its buffer.
    """
    if not 0 <= codec_id < len(CODECS):
        raise CodecError("unsupported_codec", f"codec id {codec_id}")
    return CODECS[codec_id].decompress(payload, limit, guess, magic)


def probe(codec_id: int, payload: Any, limit: int, magic: int = 2) -> None:
    """The checks of the Java stream's constructor, the only ones for the payload of a batch of 0 records."""
    if not 0 <= codec_id < len(CODECS):
        raise CodecError("unsupported_codec", f"codec id {codec_id}")
    CODECS[codec_id].probe(payload, limit, magic)


def checked_level(codec_id: int, level: int | None) -> int | None:
    """The level to compress with: Kafka's default for None. ValueError for one that Kafka refuses.

    gzip -1 and 1 to 9, lz4 1 to 17, zstd -131072 to 22 (KIP-390); none and snappy have no levels and give None.
    """
    codec = _codec_to_write(codec_id)
    if level is None:
        return codec.default_level
    if codec.least_level is None or codec.most_level is None:
        raise ValueError(f"{codec.name} has no compression levels, so level {level!r} means nothing")
    if isinstance(level, bool) or not isinstance(level, int):
        raise TypeError(f"a compression level is an int, not {type(level).__name__}")
    if not codec.least_level <= level <= codec.most_level and level != codec.default_level:
        more = "" if codec.least_level <= (codec.default_level or 0) else f" and {codec.default_level}"
        raise ValueError(f"{codec.name} has the levels {codec.least_level} to {codec.most_level}{more}, not {level}")
    return level


def compress(codec_id: int, payload: Any, level: int | None = None, magic: int = 2) -> bytes:
    """`payload` (any buffer of bytes) as Kafka's stream of this codec frames it.

    `level`: None is Kafka's default; ValueError for one that it refuses.
    `magic`: of the batch or message; LZ4 has another header checksum in magic 0 (KAFKA-3160).
    MissingCodec where the codec's library is not installed.
    """
    checked = checked_level(codec_id, level)
    return CODECS[codec_id].compress(payload, checked, magic)


def _codec_to_write(codec_id: int) -> Codec:
    if not 0 <= codec_id < len(CODECS):
        raise ValueError(f"codec id {codec_id}: 0 to {len(CODECS) - 1}")
    return CODECS[codec_id]
