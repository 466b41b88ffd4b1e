"""The table of codecs, and decompression of one payload with a true cap on the bytes.

Semantics are those of the JVM streams that Kafka wraps around a payload (Compression.wrapForInput); each
codec's file names its class and its oddities. Libraries are imported at first use.
"""

from collections.abc import Callable
from importlib import metadata
from typing import Any, NamedTuple

from kafkarec.codecs import gzip, lz4, native, snappy, zstd
from kafkarec.codecs.failure import REASONS, CodecError, LimitReached, MissingCodec, load

__all__ = [
    "BY_NAME",
    "CODECS",
    "REASONS",
    "Codec",
    "CodecError",
    "LimitReached",
    "MissingCodec",
    "decompress",
    "probe",
    "versions",
]

Decompress = Callable[[Any, int, int, int], bytes | memoryview]
Probe = Callable[[Any, int, int], None]


class Codec(NamedTuple):
    """One row of the table. Levels are those that Kafka allows; a codec without levels has None."""

    id: int
    name: str
    pip_name: str | None
    module: str | None
    least_level: int | None
    most_level: int | None
    default_level: int | None
    decompress: Decompress
    probe: Probe


def _as_it_is(payload: Any, limit: int, guess: int = 0, magic: int = 2) -> bytes | memoryview:
    return payload if isinstance(payload, bytes) else memoryview(payload)


def _nothing_to_probe(payload: Any, limit: int, magic: int = 2) -> None:
    return None


CODECS: tuple[Codec, ...] = (
    Codec(0, "none", None, None, None, None, None, _as_it_is, _nothing_to_probe),
    Codec(1, gzip.NAME, gzip.PIP_NAME, gzip.MODULE, 1, 9, -1, gzip.decompress, gzip.probe),
    Codec(2, snappy.NAME, snappy.PIP_NAME, snappy.MODULE, None, None, None, snappy.decompress, snappy.probe),
    Codec(3, lz4.NAME, lz4.PIP_NAME, lz4.MODULE, 1, 17, 9, lz4.decompress, lz4.probe),
    Codec(4, zstd.NAME, zstd.PIP_NAME, zstd.MODULE, -131072, 22, 3, zstd.decompress, zstd.probe),
)
"""Row = codec id, the low three bits of the attributes."""

BY_NAME: dict[str, Codec] = {codec.name: codec for codec in CODECS}


def decompress(codec_id: int, payload: Any, limit: int, guess: int = 0, magic: int = 2) -> bytes | memoryview:
    """All decompressed bytes of `payload` (any buffer of bytes), or a CodecError and nothing else.

    `limit`: bytes, a true cap on what comes out and on what is allocated for it: LimitReached above it.
    `guess`: bytes, the size that the last payload of this kind had, 0 if not known.
    `magic`: of the batch or message; LZ4 treats magic 0 in its own way (KAFKA-3160).
    A memoryview may lie over a buffer that this thread's next call uses again.
    """
    if not 0 <= codec_id < len(CODECS):
        raise CodecError("unsupported_codec", f"codec id {codec_id}")
    return CODECS[codec_id].decompress(payload, limit, guess, magic)


def probe(codec_id: int, payload: Any, limit: int, magic: int = 2) -> None:
    """What Kafka's stream checks on construction, all that happens to the payload of a batch of 0 records."""
    if not 0 <= codec_id < len(CODECS):
        raise CodecError("unsupported_codec", f"codec id {codec_id}")
    CODECS[codec_id].probe(payload, limit, magic)


def versions() -> dict[str, dict[str, str | None]]:
    """Codec name -> library (its pip name), version (None: missing), how payloads are decompressed. Loads them all."""
    return {
        codec.name: {"library": codec.pip_name, "version": _version(codec.pip_name), "how": _way(codec)}
        for codec in CODECS
        if codec.pip_name and codec.module
    }


def _way(codec: Codec) -> str | None:
    try:
        load(str(codec.module), codec.name, str(codec.pip_name))
    except MissingCodec:
        return None
    return f"{codec.module}, plain payloads by pointer" if codec.name in native.in_use else codec.module


def _version(pip_name: str) -> str | None:
    try:
        return metadata.version(pip_name)
    except metadata.PackageNotFoundError:
        return None
