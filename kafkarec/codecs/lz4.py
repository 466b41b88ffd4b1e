"""LZ4 frames as org.apache.kafka.common.compress.Lz4BlockInputStream reads them and Lz4BlockOutputStream writes them.

    04 22 4d 18 | FLG | BD | [content size 8] | HC | block* | end mark 4 | [content checksum 4]
    block: size 4 LE, top bit = stored uncompressed | data | [block checksum 4]

Kafka accepts only independent blocks and no dictionary; skips the content size; requires the content checksum but does
not verify it; verifies block checksums; reads nothing after the end mark, which is any size of 0, with or without the
top bit. A block without content ends the stream as well, because a read returns 0 bytes there: nothing after it is
looked at. (Deliberate difference: within a record of which 2 KiB or more are to come, the JVM reads on; no writer makes
such blocks.) The header checksum of magic 0 is ignored: Kafka's writer computes it wrongly there (KAFKA-3160).

So the frame is read here, and the library decompresses its blocks.

`compress` writes independent blocks of 64 KiB without sizes and checksums in the frame; a block that compression does
not make smaller is stored. Level 9, Kafka's default, is the *fast* compressor; every other level is the high compressor
of that level (12 and above are the same). The header checksum of magic 0 includes the frame's magic, as Kafka still
writes it for old clients (KAFKA-3160).
"""

from functools import cache
from struct import Struct
from typing import Any

from kafkarec._core import xxh32_of
from kafkarec.codecs.codec_errors import CodecError, LimitReached, StreamNotes, Truncated, as_codec_error, load

NAME, PIP_NAME, MODULE = "lz4", "lz4", "lz4.frame"
MIN_LEVEL, MAX_LEVEL, DEFAULT_LEVEL = 1, 17, 9  # of Kafka

MAGIC = b"\x04\x22\x4d\x18"
HEADER_SIZE, SHORTEST_FRAME_START = 7, 6
FLAG_CONTENT_CHECKSUM, FLAG_CONTENT_SIZE, FLAG_BLOCK_CHECKSUM, FLAG_INDEPENDENT = 4, 8, 16, 32
STORED = 1 << 31
END_MARK = b"\0\0\0\0"
MOST_EXPANSION = 255  # bytes of content for a byte of a block

BLOCK_SIZE, BLOCK_SIZE_CODE = 64 << 10, 4
FAST_LEVEL = 9
MAX_HIGH_LEVEL = 12  # LZ4HC_CLEVEL_MAX

_size_at = Struct("<I").unpack_from
_size = Struct("<I").pack


def header_checksum(descriptor: bytes) -> int:
    """The HC byte of FLG, BD and content size."""
    return xxh32_of(descriptor) >> 8 & 0xFF


KAFKA_HEADER = MAGIC + b"\x60\x40" + bytes((header_checksum(b"\x60\x40"),))
MAGIC_0_HEADER = KAFKA_HEADER[:6] + bytes((header_checksum(KAFKA_HEADER[:6]),))  # KAFKA-3160


def decompress(payload: Any, limit: int, magic: int = 2, seen: StreamNotes | None = None) -> memoryview:
    """The content of the first frame."""
    library, content = _library("lz4.block"), bytearray()
    flags, descriptor, at = _frame_header(payload, magic)
    block_maximum = 1 << 2 * (descriptor >> 4) + 8
    end, ends_by_mark = _decompress_blocks(library, payload, at, flags, block_maximum, content, limit)
    if seen is not None:  # Kafka compares neither the content's size (0: unknown) nor its checksum
        if flags & FLAG_CONTENT_SIZE:
            seen.size_wrong = int.from_bytes(payload[6:14], "little") not in (0, len(content))
        if flags & FLAG_CONTENT_CHECKSUM and ends_by_mark:
            seen.checksum_wrong = int.from_bytes(payload[end : end + 4], "little") != xxh32_of(content)
            end += 4
        seen.trailing_bytes = len(payload) - end
    return memoryview(content)


def compress(payload: Any, level: int, magic: int = 2) -> bytes:
    """One frame; `level` 1 to 17. Only the header of magic 0 differs."""
    header = KAFKA_HEADER if magic > 0 else MAGIC_0_HEADER
    content = memoryview(payload).cast("B")
    if level == FAST_LEVEL:
        frame: bytes = _library(MODULE).compress(
            content, compression_level=0, block_size=BLOCK_SIZE_CODE, block_linked=False, store_size=False
        )
        return frame if magic > 0 else header + frame[HEADER_SIZE:]
    # With the library's block function: its frame function has no high levels below 3.
    pack, level = _library("lz4.block").compress, min(level, MAX_HIGH_LEVEL)
    parts: list[bytes | memoryview] = [header]
    for start in range(0, len(content), BLOCK_SIZE):
        block = content[start : start + BLOCK_SIZE]
        packed = pack(block, mode="high_compression", compression=level, store_size=False)
        parts += (_size(len(packed)), packed) if len(packed) < len(block) else (_size(STORED | len(block)), block)
    parts.append(END_MARK)
    return b"".join(parts)


@cache
def _library(module: str) -> Any:
    return load(module, NAME, PIP_NAME)


def check_stream_start(payload: Any, limit: int, magic: int = 2) -> None:
    """Lz4BlockInputStream's constructor reads the frame header."""
    _frame_header(payload, magic)


def _frame_header(payload: Any, magic: int) -> tuple[int, int, int]:
    """(FLG, BD, position after the header), checked as Kafka does."""
    size = len(payload)
    if size == 0:
        raise CodecError("lz4: no bytes")
    if size < SHORTEST_FRAME_START:
        raise Truncated("lz4: the frame header is cut")
    if payload[:4] != MAGIC:
        raise CodecError("lz4: the first four bytes are not 04 22 4d 18")
    flags, descriptor = payload[4], payload[5]
    if flags & 3:
        raise CodecError("lz4: dictionary id or reserved bit in FLG")
    if not flags & FLAG_INDEPENDENT:
        raise CodecError("lz4: blocks that depend on each other")
    if flags >> 6 != 1:
        raise CodecError(f"lz4: frame version {flags >> 6}, not 1")
    if descriptor & 0x8F or descriptor < 0x40:
        raise CodecError(f"lz4: block descriptor {descriptor:#04x}")
    at = 14 if flags & FLAG_CONTENT_SIZE else 6
    if at >= size:
        raise Truncated("lz4: the frame header is cut")
    stored, computed = payload[at], header_checksum(bytes(payload[4:at]))
    if magic > 0 and stored != computed:
        raise CodecError(f"lz4: header checksum {stored:#04x}, computed {computed:#04x}")
    return flags, descriptor, at + 1


def _decompress_blocks(
    library: Any, payload: Any, at: int, flags: int, block_maximum: int, content: bytearray, limit: int
) -> tuple[int, bool]:
    """Appends the content of the blocks from byte `at` on. Returns the position after the last one, or after the end
    mark; whether it was this that ended them, and not a block without content."""
    size = len(payload)
    checksum = 4 if flags & FLAG_BLOCK_CHECKSUM else 0
    while size - at >= 4:
        (stored,) = _size_at(payload, at)
        length = stored & ~STORED
        at += 4
        if length == 0:
            if flags & FLAG_CONTENT_CHECKSUM and size - at < 4:
                raise Truncated("lz4: the content checksum is missing")
            return at, True
        if length > block_maximum:
            raise CodecError(f"lz4: block of {length} bytes, {block_maximum} allowed")
        if length + checksum > size - at:
            raise Truncated(f"lz4: block of {length} bytes, {size - at} left")
        block = payload[at : at + length]
        at += length + checksum
        if checksum and _size_at(payload, at - 4) != (xxh32_of(block),):
            raise CodecError("lz4: wrong block checksum")
        if not stored & STORED:
            try:
                block = library.decompress(block, uncompressed_size=min(block_maximum, MOST_EXPANSION * length))
            except library.LZ4BlockError as error:
                raise as_codec_error(error, NAME, limit) from None
        content += block
        if len(content) > limit:
            raise LimitReached(limit)
        if not block:
            return at, False
    raise Truncated("lz4: no end mark")
