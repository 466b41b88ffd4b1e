"""The codecs: decompress a payload with a hard limit on its size, and compress with Kafka's levels.

Behaves like the JVM streams that Kafka uses (Compression.wrapForInput and wrapForOutput); each codec's module names the
Java classes and their peculiarities. Libraries are imported at first use.
"""

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

from kafkarec._core import PayloadDecompressor

from . import gzip, lz4, native, snappy, zstd
from .codec_errors import CodecError, LimitReached, MissingCodec, StreamNotes, Truncated, UnknownCodec, as_codec_error

__all__ = [
    "BY_NAME",
    "CODECS",
    "Codec",
    "CodecError",
    "LimitReached",
    "MissingCodec",
    "StreamNotes",
    "Truncated",
    "check_stream_start",
    "checked_level",
    "compress",
    "compression_parameters",
    "decompress",
    "decompress_by_module",
]

Decompress = Callable[[Any, int, int, StreamNotes | None], bytes | memoryview]
CheckStreamStart = Callable[[Any, int, int], None]
Compress = Callable[[Any, Any, int], bytes]


class Codec(NamedTuple):
    """One codec. Levels are those that Kafka allows; None: the codec has no levels.

    The default level is allowed even outside of the range: gzip's is -1, while 0 is refused.
    """

    id: int
    name: str
    decompress: Decompress
    check_stream_start: CheckStreamStart
    compress: Compress
    pip_name: str | None = None
    module: str | None = None
    min_level: int | None = None
    max_level: int | None = None
    default_level: int | None = None


CODECS: tuple[Codec, ...] = (
    Codec(
        0,
        "none",
        lambda payload, limit, magic, seen: payload if isinstance(payload, bytes) else memoryview(payload),
        lambda payload, limit, magic: None,
        lambda payload, level, magic: bytes(payload),
    ),
    *(
        Codec(
            number,
            own.NAME,
            own.decompress,
            own.check_stream_start,
            own.compress,
            own.PIP_NAME,
            own.MODULE,
            own.MIN_LEVEL,
            own.MAX_LEVEL,
            own.DEFAULT_LEVEL,
        )
        for number, own in enumerate((gzip, snappy, lz4, zstd), 1)
    ),
)
"""Indexed by codec id, the low three bits of the attributes."""

BY_NAME: dict[str, Codec] = {codec.name: codec for codec in CODECS}


class _Thread(threading.local):
    """The contexts of the codecs' C functions are for one thread."""

    def __init__(self) -> None:
        self.decompress = PayloadDecompressor().run


_thread = _Thread()


def decompress(
    codec_id: int, payload: Any, limit: int, magic: int = 2, seen: StreamNotes | None = None
) -> bytes | memoryview:
    """All decompressed bytes of `payload` (any buffer of bytes). Raises only CodecError.

    Usual payloads are decompressed by C functions, others, and all where there are none, by the codec's module.

    limit: bytes, a hard limit for the output and its allocation: LimitReached above it.
    magic: of the batch or message; LZ4's header checksum differs in magic 0 (KAFKA-3160).
    seen: takes notes of what the Java stream reads without an error, and no writer writes.
    """
    content = None
    if seen is None and 0 <= codec_id < len(CODECS):
        with suppress(MemoryError):  # the module says so
            content = _thread.decompress(codec_id, payload, limit, magic)
    return decompress_by_module(codec_id, payload, limit, magic, seen) if content is None else content


def decompress_by_module(
    codec_id: int, payload: Any, limit: int, magic: int = 2, seen: StreamNotes | None = None
) -> bytes | memoryview:
    """As `decompress`, without the C functions, which the first call finds for the next ones."""
    if not 0 <= codec_id < len(CODECS):
        raise UnknownCodec(f"codec id {codec_id}")
    codec = CODECS[codec_id]
    try:
        native.install(codec.name)
        return codec.decompress(payload, limit, magic, seen)
    except MemoryError as error:
        raise as_codec_error(error, codec.name, limit) from None


def check_stream_start(codec_id: int, payload: Any, limit: int, magic: int = 2) -> None:
    """Makes the checks of the Java stream's constructor, the only ones for the payload of a batch of 0 records."""
    if not 0 <= codec_id < len(CODECS):
        raise UnknownCodec(f"codec id {codec_id}")
    codec = CODECS[codec_id]
    try:
        codec.check_stream_start(payload, limit, magic)
    except MemoryError as error:
        raise as_codec_error(error, codec.name, limit) from None


def checked_level(codec_id: int, level: int | None) -> int | None:
    """The level to compress with: Kafka's default for None. ValueError for a level that Kafka refuses.

    gzip -1 and 1 to 9, lz4 1 to 17, zstd -131072 to 22 (KIP-390). None for none and snappy, which have no levels.
    """
    if not 0 <= codec_id < len(CODECS):
        raise ValueError(f"codec id {codec_id}: 0 to {len(CODECS) - 1}")
    codec = CODECS[codec_id]
    if level is None:
        return codec.default_level
    if codec.min_level is None or codec.max_level is None:
        raise ValueError(f"{codec.name} has no compression levels; leave out level {level!r}")
    if isinstance(level, bool) or not isinstance(level, int):
        raise TypeError(f"a compression level is an int, not {type(level).__name__}")
    if not codec.min_level <= level <= codec.max_level and level != codec.default_level:
        more = "" if codec.min_level <= (codec.default_level or 0) else f" and {codec.default_level}"
        raise ValueError(f"{codec.name} has the levels {codec.min_level} to {codec.max_level}{more}, not {level}")
    return level


def compression_parameters(codec_id: int | None, level: int | None) -> tuple[list[int], tuple[int, ...]]:
    """(levels by codec id, zstd's parameters) for the writer. Finds the codecs' C functions first.

    codec_id None: each row has its own codec, and each codec its default level. ValueError for a level that Kafka
    refuses.
    """
    by_codec = [codec.default_level or 0 for codec in CODECS]
    for codec in CODECS:
        if codec_id is None or codec.id == codec_id:
            native.install(codec.name)
    if codec_id is not None:
        by_codec[codec_id] = checked_level(codec_id, level) or 0
    used = "zstd" in native.in_use
    return by_codec, native.zstd_stream_parameters(by_codec[BY_NAME["zstd"].id]) if used else (0,) * len(
        native.ZSTD_PARAMETERS
    )


def compress(codec_id: int, payload: Any, level: int | None = None, magic: int = 2) -> bytes:
    """Compresses `payload` (any buffer of bytes), framed as by Kafka's stream of this codec.

    level: None is Kafka's default; ValueError for a level that Kafka refuses.
    magic: of the batch or message; LZ4 has another header checksum in magic 0 (KAFKA-3160).
    MissingCodec if the codec's library is not installed.
    """
    checked = checked_level(codec_id, level)
    return CODECS[codec_id].compress(payload, checked, magic)
