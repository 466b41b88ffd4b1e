"""Decompresses a payload piece by piece, for readers that need only its beginning.

    gzip, zstd     as `packed_stream` does whole files: 1 KiB of gzip data, a block of zstd (128 KiB of content at most)
    lz4, snappy    block by block (64 KiB and 32 KiB of content, as Kafka's writers make them)

Each block is checked as in a whole payload; nothing is checked behind the last piece that was taken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from . import gzip, lz4, packed_stream, snappy, zstd
from .codec_errors import CodecError, LimitReached

_FEED = 1 << 10


class Piece(NamedTuple):
    """content: the next decompressed bytes; read: the bytes of the payload that were read so far."""

    content: bytes | memoryview
    read: int


def pieces(name: str, payload: Any, limit: int) -> Iterator[Piece]:
    """The content of `payload` (a memoryview of bytes), compressed by the codec of that name. Raises only CodecError.

    limit: bytes; LimitReached above it, before the piece that goes beyond it.
    """
    total = 0
    for piece in _WAYS[name](payload, limit):
        total += len(piece.content)
        if total > limit:
            raise LimitReached(limit)
        yield piece


def _streamed(name: str) -> Callable[[Any, int], Iterator[Piece]]:
    def run(payload: Any, limit: int) -> Iterator[Piece]:
        at = 0

        def read(count: int) -> bytes:
            nonlocal at
            start, at = at, min(at + min(count, _FEED), len(payload))
            return bytes(payload[start:at])

        for content in packed_stream.unpack(name, read):
            yield Piece(content, at)

    return run


def _lz4(payload: Any, limit: int) -> Iterator[Piece]:
    flags, descriptor, at = lz4._frame_header(payload)
    lz4._check_header(payload, at)
    header = lz4.PLAIN_HEADERS[flags & (0x60 | lz4.FLAG_BLOCK_CHECKSUM), descriptor]
    checksum = 4 if flags & lz4.FLAG_BLOCK_CHECKSUM else 0
    while len(payload) - at >= 4:
        length = int.from_bytes(payload[at : at + 4], "little") & ~lz4.STORED
        if not length:
            return
        start, at = at, at + 4 + length + checksum
        yield Piece(lz4.decompress(b"".join((header, payload[start:at], lz4.END_MARK)), limit), at)
    raise CodecError("payload_truncated", "lz4: no end mark")


def _snappy(payload: Any, limit: int) -> Iterator[Piece]:
    size, at, total = len(payload), snappy.STREAM_HEADER_SIZE, 0
    if size < at or payload[:8] != snappy.MAGIC:
        at = size
        yield Piece(snappy.decompress(payload, limit), size)
    while size - at >= 4:
        chunk = int.from_bytes(payload[at : at + 4], "big")
        if chunk == snappy.MAGIC_HEAD:  # a concatenated stream, as no writer of Kafka's makes them
            yield Piece(bytes(snappy.decompress(payload, limit)[total:]), size)
            return
        start, at = at, at + 4 + chunk
        content = bytes(snappy.decompress(b"".join((snappy.WRITTEN_HEADER, payload[start:at])), limit))
        total += len(content)
        yield Piece(content, at)


_WAYS: dict[str, Callable[[Any, int], Iterator[Piece]]] = {
    gzip.NAME: _streamed(gzip.NAME),
    snappy.NAME: _snappy,
    lz4.NAME: _lz4,
    zstd.NAME: _streamed(zstd.NAME),
}
