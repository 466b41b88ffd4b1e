"""Decompression as Kafka's input streams do it, slow and simple: libraries get one frame or block at a time.

Sources: java.util.zip.GZIPInputStream (JDK 17), SnappyInputStream (snappy-java 1.1.10), Kafka's
Lz4BlockInputStream, ZstdInputStreamNoFinalizer (zstd-jni 1.5). MANIFEST.md items 29 to 32 describe their behaviour.

A stream's other fields say what Kafka reads without an error and verify reports.
"""

from __future__ import annotations

import struct
import zlib
from typing import NamedTuple

import cramjam
import lz4.block
import zstandard


class Refused(Exception):
    """Raised where Kafka raises; `str` is a short reason."""


class Stream(NamedTuple):
    """A payload that was read.

    parts     gzip's members, snappy's streams, zstd's frames; of lz4 the first frame alone is read
    left      bytes behind the end, which are not read
    ignored   what is wrong of what Kafka does not look at
    """

    content: bytes
    parts: int = 1
    left: int = 0
    ignored: str | None = None


def stream(codec: int, payload: bytes, magic: int) -> Stream:
    """Read a payload. Codec ids as in the attributes; 0 is the payload itself."""
    if codec == 3:
        return lz4_stream(payload, check_header=magic != 0)
    table = {0: Stream, 1: gzip_stream, 2: snappy_stream, 4: zstd_stream}
    if codec not in table:
        raise Refused("unknown compression type")
    return table[codec](payload)


def decompress(codec: int, payload: bytes, magic: int) -> bytes:
    return stream(codec, payload, magic).content


def open_only(codec: int, payload: bytes, magic: int):
    """Check what the stream's constructor checks: Kafka does no more for a batch that declares no records."""
    if codec == 1:
        _gzip_header(payload, 0)
    elif codec == 2:
        if not payload:
            raise Refused("snappy: empty stream")
        if not _has_xerial_header(payload):
            snappy_stream(payload)
    elif codec == 3:
        _lz4_header(payload, check=magic != 0)
    elif codec not in (0, 4):
        raise Refused("unknown compression type")


# gzip


def _gzip_header(data: bytes, at: int) -> int:
    """Return the position after the member header that begins at `at`."""
    cursor = _Cursor(data, at)
    if cursor.take(2) != b"\x1f\x8b":
        raise Refused("gzip: not in GZIP format")
    if cursor.take(1) != b"\x08":
        raise Refused("gzip: unsupported method")
    flags = cursor.take(1)[0]
    cursor.take(6)
    if flags & 4:
        cursor.take(struct.unpack("<H", cursor.take(2))[0])
    for flag in (8, 16):
        if flags & flag:
            while cursor.take(1) != b"\x00":
                pass
    if flags & 2:
        computed = zlib.crc32(data[at : cursor.at]) & 0xFFFF
        if struct.unpack("<H", cursor.take(2))[0] != computed:
            raise Refused("gzip: header crc")
    return cursor.at


def gzip_stream(data: bytes) -> Stream:
    out = []
    at = _gzip_header(data, 0)
    while True:
        inflater = zlib.decompressobj(-15)
        try:
            plain = inflater.decompress(data[at:])
        except zlib.error as error:
            raise Refused("gzip: corrupt") from error
        if not inflater.eof:
            raise Refused("gzip: ends early")
        out.append(plain)
        rest = inflater.unused_data
        if len(rest) < 8:
            raise Refused("gzip: no trailer")
        if struct.unpack("<II", rest[:8]) != (zlib.crc32(plain), len(plain) & 0xFFFFFFFF):
            raise Refused("gzip: trailer")
        read = Stream(b"".join(out), len(out), len(rest) - 8)
        if read.left <= 18:  # GZIPInputStream looks for another member only if its shortest form would fit
            return read
        try:
            at = _gzip_header(data, len(data) - read.left)
        except Refused:
            return read


# snappy

XERIAL_MAGIC = b"\x82SNAPPY\x00"


def _has_xerial_header(data: bytes) -> bool:
    return len(data) >= 16 and data.startswith(XERIAL_MAGIC)


def _snappy_block(block: bytes) -> bytes:
    claimed = 0
    for i, byte in enumerate(block[:5]):
        claimed |= (byte & 0x7F) << 7 * i
        if byte < 0x80:
            break
    if claimed > 64 * len(block):  # three bytes make 64 at most; cramjam would allocate the claim, and abort
        raise Refused("snappy: the block claims more than it can hold")
    try:
        return bytes(cramjam.snappy.decompress_raw(block))
    except (cramjam.DecompressionError, ValueError, OverflowError, MemoryError) as error:
        raise Refused("snappy: bad block") from error


def snappy_stream(data: bytes) -> Stream:
    if not data:
        raise Refused("snappy: empty stream")
    if not _has_xerial_header(data):
        return Stream(_snappy_block(data))
    out = []
    at, streams, ended_at = 16, 1, 0
    while len(data) - at >= 4:
        (size,) = struct.unpack_from(">i", data, at)
        if data[at : at + 4] == XERIAL_MAGIC[:4]:  # another stream begins
            if len(data) - at < 16:
                raise Refused("snappy: short header in a concatenated stream")
            if data[at : at + 8] == XERIAL_MAGIC:
                if struct.unpack_from(">i", data, at + 8)[0] < 1:
                    raise Refused("snappy: version of a concatenated stream")
            elif sum(map(len, out)) == ended_at:
                break
            else:
                # isValidHeader fails: one read call ends there, and the next continues after that header
                ended_at = sum(map(len, out))
            at += 16
            streams += 1
            continue
        if size < 0 or size > 512 << 20:
            raise Refused("snappy: chunk size")
        if size > len(data) - at - 4:
            raise Refused("snappy: chunk cut")
        out.append(_snappy_block(data[at + 4 : at + 4 + size]))
        at += 4 + size
    return Stream(b"".join(out), streams, len(data) - at)


# lz4


def _lz4_header(data: bytes, *, check: bool) -> tuple[int, int, int]:
    """Return (position after the descriptor, flags, largest block)."""
    cursor = _Cursor(data, 0)
    if len(data) < 6 or cursor.take(4) != b"\x04\x22\x4d\x18":
        raise Refused("lz4: no frame")
    flags, block = cursor.take(2)
    if flags & 0x03 or not flags & 0x20 or flags >> 6 != 1:
        raise Refused("lz4: flags")
    if block & 0x8F or not 4 <= block >> 4 <= 7:
        raise Refused("lz4: block size code")
    if flags & 0x08:
        cursor.take(8)
    stored = cursor.take(1)[0]
    if check and stored != xxh32(data[4 : cursor.at - 1]) >> 8 & 0xFF:
        raise Refused("lz4: header checksum")
    return cursor.at, flags, 1 << (2 * (block >> 4) + 8)


def lz4_stream(data: bytes, *, check_header: bool) -> Stream:
    """Of the frame's content up to the end mark, or to a block without content."""
    at, flags, largest = _lz4_header(data, check=check_header)
    cursor = _Cursor(data, at)
    out = []
    while True:
        (word,) = struct.unpack("<I", cursor.take(4))
        size = word & 0x7FFFFFFF
        if size == 0:
            checked = not flags & 0x04 or struct.unpack("<I", cursor.take(4))[0] == xxh32(b"".join(out))
            return _lz4_content(data, cursor, flags, out, None if checked else "wrong content checksum")
        if size > largest:
            raise Refused("lz4: block above the maximum")
        block = content = cursor.take(size)
        if not word & 0x80000000:
            try:
                content = lz4.block.decompress(block, uncompressed_size=largest)
            except (lz4.block.LZ4BlockError, ValueError) as error:
                raise Refused("lz4: bad block") from error
        if flags & 0x10 and struct.unpack("<I", cursor.take(4))[0] != xxh32(block):
            raise Refused("lz4: block checksum")
        if not content:
            return _lz4_content(data, cursor, flags, out, None)
        out.append(content)


def _lz4_content(data: bytes, cursor: _Cursor, flags: int, out: list[bytes], ignored: str | None) -> Stream:
    content = b"".join(out)
    if flags & 0x08 and struct.unpack_from("<Q", data, 6)[0] not in (0, len(content)):
        ignored = "the content does not have the size in the frame's header"
    return Stream(content, left=len(data) - cursor.at, ignored=ignored)


def xxh32(data: bytes) -> int:
    """Return xxHash32, which the LZ4 frame format uses; no dependency provides it."""
    p1, p2, p3, p4, p5 = 2654435761, 2246822519, 3266489917, 668265263, 374761393
    mask = 0xFFFFFFFF

    def rotl(x, r):
        return (x << r | x >> 32 - r) & mask

    at, n = 0, len(data)
    if n >= 16:
        lanes = [(p1 + p2) & mask, p2, 0, -p1 & mask]
        while at <= n - 16:
            for i, word in enumerate(struct.unpack_from("<IIII", data, at)):
                lanes[i] = rotl((lanes[i] + word * p2) & mask, 13) * p1 & mask
            at += 16
        h = sum(rotl(lane, r) for lane, r in zip(lanes, (1, 7, 12, 18), strict=True)) & mask
    else:
        h = p5
    h = (h + n) & mask
    while at <= n - 4:
        h = rotl((h + struct.unpack_from("<I", data, at)[0] * p3) & mask, 17) * p4 & mask
        at += 4
    while at < n:
        h = rotl((h + data[at] * p5) & mask, 11) * p1 & mask
        at += 1
    h = (h ^ h >> 15) * p2 & mask
    h = (h ^ h >> 13) * p3 & mask
    return h ^ h >> 16


# zstd


def zstd_stream(data: bytes) -> Stream:
    out = []
    frames = 0
    while data:
        frames += 1
        if len(data) >= 8 and 0x184D2A50 <= struct.unpack_from("<I", data)[0] <= 0x184D2A5F:
            size = 8 + struct.unpack_from("<I", data, 4)[0]
            if size > len(data):
                raise Refused("zstd: skippable frame cut")
            data = data[size:]
            continue
        frame = zstandard.ZstdDecompressor().decompressobj()
        try:
            out.append(frame.decompress(data))
        except (zstandard.ZstdError, MemoryError) as error:
            raise Refused("zstd: corrupt") from error
        if not frame.eof:
            raise Refused("zstd: ends early")
        data = frame.unused_data
    return Stream(b"".join(out), frames)


class _Cursor:
    def __init__(self, data: bytes, at: int):
        self.data = data
        self.at = at

    def take(self, count: int) -> bytes:
        if count > len(self.data) - self.at:
            raise Refused("stream ends early")
        self.at += count
        return self.data[self.at - count : self.at]
