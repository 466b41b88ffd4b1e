"""gzip as java.util.zip.GZIPInputStream reads it and GZIPOutputStream writes it (Java 17).

    member: 1f 8b | method 8 | flags | mtime 4 | xfl | os | [extra] [name\\0] [comment\\0] [header crc 2]
            raw deflate | crc32 4 LE | size 4 LE

Consecutive members are one stream. Bytes after a member that do not parse as another header (garbage, zeros) end the
stream without an error, and so does a rest of 18 bytes or less. Reserved flag bits are ignored.

Deliberate difference: the JVM sometimes reads a rest of 18 bytes or less, depending on where its 8 KiB read buffer
ends. No member is that short, so it is always ignored here.

Both directions use zlib, as the JVM does, so levels mean the same. `compress` writes one member. Its header is Java's
(no time, no extra flags, operating system 255: unknown).
"""

import zlib
from struct import Struct
from typing import Any

from kafkarec.codecs.codec_errors import (
    CodecError,
    LimitReached,
    StreamNotes,
    Truncated,
    as_codec_error,
    is_out_of_memory,
)

NAME, PIP_NAME, MODULE = "gzip", "isal", "zlib"  # isal for usual payloads, where it is installed
MIN_LEVEL, MAX_LEVEL, DEFAULT_LEVEL = 1, 9, -1  # of Kafka

FLAG_HEADER_CRC, FLAG_EXTRA, FLAG_NAME, FLAG_COMMENT = 2, 4, 8, 16
HEADER_SIZE, TRAILER_SIZE = 10, 8
LONGEST_IGNORED_REST = 18
FEED = 64 << 10
JAVA_HEADER = b"\x1f\x8b\x08\0\0\0\0\0\0\xff"
RAW_DEFLATE = -15

_trailer = Struct("<II").pack


def decompress(payload: Any, limit: int, magic: int = 2, seen: StreamNotes | None = None) -> memoryview:
    """The members' content."""
    content = bytearray()
    size, members = len(payload), 0
    at = _header_end(payload, 0)
    while True:
        at = _inflate(payload, at, content, limit)
        members += 1
        if size - at <= LONGEST_IGNORED_REST:
            break
        try:
            at = _header_end(payload, at)
        except CodecError:
            break
    if seen is not None:
        seen.streams, seen.trailing_bytes = members, size - at
    return memoryview(content)


def compress(payload: Any, level: int, magic: int = 2) -> bytes:
    """One member; `level` 1 to 9, or -1, which is zlib's 6."""
    size = memoryview(payload).nbytes
    return b"".join(
        (JAVA_HEADER, zlib.compress(payload, level, RAW_DEFLATE), _trailer(zlib.crc32(payload), size & 0xFFFFFFFF))
    )


def check_stream_start(payload: Any, limit: int, magic: int = 2) -> None:
    """GZIPInputStream's constructor reads the first header."""
    _header_end(payload, 0)


def _inflate(payload: Any, at: int, content: bytearray, limit: int) -> int:
    """Appends the content of the member with deflate data at `at`; returns the position after its trailer."""
    start, crc = len(content), 0
    inflater = zlib.decompressobj(-15)
    size = len(payload)
    try:
        while not inflater.eof:
            piece = inflater.unconsumed_tail
            if not piece:
                piece = payload[at : at + FEED]
                at += len(piece)
            # with an empty piece the inflater returns the output that it has buffered
            out = inflater.decompress(piece, min(1 << 20, limit - len(content) + 1))
            crc = zlib.crc32(out, crc)
            content += out
            if len(content) > limit:
                raise LimitReached(limit)
            if at >= size and not out and not inflater.eof and not inflater.unconsumed_tail:
                raise Truncated("gzip: the deflate data is cut")
    except zlib.error as error:
        if is_out_of_memory(error):
            raise as_codec_error(error, NAME, limit) from None
        raise CodecError(f"gzip: {error}") from None
    at -= len(inflater.unused_data)
    if size - at < TRAILER_SIZE:
        raise Truncated("gzip: the trailer is cut")
    stored_crc = int.from_bytes(payload[at : at + 4], "little")
    stored_size = int.from_bytes(payload[at + 4 : at + 8], "little")
    if stored_crc != crc:
        raise CodecError(f"gzip: crc in the trailer {stored_crc:#010x}, computed {crc:#010x}")
    if stored_size != (len(content) - start) & 0xFFFFFFFF:
        raise CodecError(
            f"gzip: size in the trailer {stored_size}, decompressed {len(content) - start}",
        )
    return at + TRAILER_SIZE


def _header_end(payload: Any, at: int) -> int:
    """Checks the header at `at` as GZIPInputStream.readHeader does; returns the position after it."""
    size, start = len(payload), at
    if size - at == 0:
        raise CodecError("gzip: no bytes")
    if size - at < HEADER_SIZE:
        raise Truncated("gzip: the header is cut")
    if payload[at] != 0x1F or payload[at + 1] != 0x8B:
        raise CodecError("gzip: the first two bytes are not 1f 8b")
    if payload[at + 2] != 8:
        raise CodecError(f"gzip: compression method {payload[at + 2]}, not 8")
    flags = payload[at + 3]
    at += HEADER_SIZE
    if flags & FLAG_EXTRA:
        at = _skip(payload, at, 2)
        at = _skip(payload, at, int.from_bytes(payload[at - 2 : at], "little"))
    for flag in (FLAG_NAME, FLAG_COMMENT):
        if flags & flag:
            at = _after_zero(payload, at)
    if flags & FLAG_HEADER_CRC:
        computed = zlib.crc32(payload[start:at]) & 0xFFFF
        at = _skip(payload, at, 2)
        if int.from_bytes(payload[at - 2 : at], "little") != computed:
            raise CodecError("gzip: wrong header checksum")
    return at


def _skip(payload: Any, at: int, count: int) -> int:
    if count > len(payload) - at:
        raise Truncated("gzip: the header is cut")
    return at + count


def _after_zero(payload: Any, at: int) -> int:
    """The position after the next zero byte."""
    while at < len(payload):
        piece = bytes(payload[at : at + FEED])
        zero = piece.find(0)
        if zero >= 0:
            return at + zero + 1
        at += len(piece)
    raise Truncated("gzip: the header is cut")
