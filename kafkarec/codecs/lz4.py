"""LZ4 frames as org.apache.kafka.common.compress.Lz4BlockInputStream reads them and Lz4BlockOutputStream writes them.

    04 22 4d 18 | FLG | BD | [content size 8] | HC | block* | end mark 4 | [content checksum 4]
    block: size 4 LE, top bit = stored uncompressed | data | [block checksum 4]

Kafka accepts only independent blocks and no dictionary; skips the content size; requires the content checksum but does
not verify it; verifies block checksums; reads nothing after the end mark, which is any size of 0, with or without the
top bit. A block without content ends the stream as well, because a read returns 0 bytes there: nothing after it is
looked at. (Deliberate difference: within a record of which 2 KiB or more are to come, the JVM reads on; no writer makes
such blocks.) The header checksum of magic 0 is ignored: Kafka's writer computes it wrongly there (KAFKA-3160).

So block sizes are checked here, and the library gets one of PLAIN_HEADERS in place of the header.

`compress` writes independent blocks of 64 KiB without sizes and checksums in the frame; a block that compression does
not make smaller is stored. Level 9, Kafka's default, is the *fast* compressor; every other level is the high compressor
of that level (12 and above are the same). The header checksum of magic 0 includes the frame's magic, as Kafka still
writes it for old clients (KAFKA-3160).
"""

from functools import cache
from struct import Struct
from typing import Any

from kafkarec._core import xxh32_of
from kafkarec.codecs.codec_errors import CodecError, LimitReached, StreamNotes, as_codec_error, load

NAME, PIP_NAME, MODULE = "lz4", "lz4", "lz4.frame"
MIN_LEVEL, MAX_LEVEL, DEFAULT_LEVEL = 1, 17, 9  # of Kafka

MAGIC = b"\x04\x22\x4d\x18"
HEADER_SIZE, SHORTEST_FRAME_START = 7, 6
FLAG_CONTENT_CHECKSUM, FLAG_CONTENT_SIZE, FLAG_BLOCK_CHECKSUM, FLAG_INDEPENDENT = 4, 8, 16, 32
STORED = 1 << 31
END_MARK = b"\0\0\0\0"
LEAST_CAPACITY, MAX_CAPACITY = 64 << 10, 1 << 20  # of a piece of the output, which the library allocates at once

BLOCK_SIZE, BLOCK_SIZE_CODE = 64 << 10, 4
FAST_LEVEL = 9
MAX_HIGH_LEVEL = 12  # LZ4HC_CLEVEL_MAX

_size_at = Struct("<I").unpack_from
_size = Struct("<I").pack


def header_checksum(descriptor: bytes) -> int:
    """The HC byte of FLG, BD and content size."""
    return xxh32_of(descriptor) >> 8 & 0xFF


# (FLG, BD) -> header: the eight headers that mean the same to the library and to Kafka
PLAIN_HEADERS = {
    (flags, code << 4): MAGIC + bytes((flags, code << 4, header_checksum(bytes((flags, code << 4)))))
    for flags in (0x60, 0x60 | FLAG_BLOCK_CHECKSUM)
    for code in (4, 5, 6, 7)
}

KAFKA_HEADER = PLAIN_HEADERS[0x60, 0x40]
MAGIC_0_HEADER = KAFKA_HEADER[:6] + bytes((header_checksum(KAFKA_HEADER[:6]),))  # KAFKA-3160


def decompress(payload: Any, limit: int, magic: int = 2, seen: StreamNotes | None = None) -> bytes | memoryview:
    """The content of the first frame."""
    frame = _library(MODULE)
    flags, descriptor, at = _frame_header(payload)
    end, behind = _end_of_blocks(payload, at, flags, 1 << 2 * (descriptor >> 4) + 8)
    if magic > 0:
        _check_header(payload, at)
    header = PLAIN_HEADERS[flags & (0x60 | FLAG_BLOCK_CHECKSUM), descriptor]
    content = _decompress_frame(frame, [header, payload[at:end], END_MARK], limit)
    if seen is not None:
        _audit(payload, flags if behind > end else flags & ~FLAG_CONTENT_CHECKSUM, behind, content, seen)
    return content


def _audit(payload: Any, flags: int, end: int, content: bytes | memoryview, seen: StreamNotes) -> None:
    """Compares what Kafka does not compare: the content's size (0: unknown) and checksum, the latter at `end`."""
    if flags & FLAG_CONTENT_SIZE:
        seen.size_wrong = int.from_bytes(payload[6:14], "little") not in (0, len(content))
    if flags & FLAG_CONTENT_CHECKSUM:
        seen.checksum_wrong = int.from_bytes(payload[end : end + 4], "little") != xxh32_of(content)
        end += 4
    seen.trailing_bytes = len(payload) - end


def compress(payload: Any, level: int, magic: int = 2) -> bytes:
    """One frame; `level` 1 to 17. Only the header of magic 0 differs."""
    header = KAFKA_HEADER if magic > 0 else MAGIC_0_HEADER
    content = memoryview(payload).cast("B")
    if level != FAST_LEVEL:
        return _high_frame(header, content, level)
    packed: bytes = _library(MODULE).compress(
        content, compression_level=0, block_size=BLOCK_SIZE_CODE, block_linked=False, store_size=False
    )
    return packed if magic > 0 else header + packed[HEADER_SIZE:]


@cache
def _library(module: str) -> Any:
    return load(module, NAME, PIP_NAME)


def _high_frame(header: bytes, content: memoryview, level: int) -> bytes:
    """A frame made with the library's block function: its frame function has no high levels below 3."""
    pack = _library("lz4.block").compress
    level = min(level, MAX_HIGH_LEVEL)
    parts: list[bytes | memoryview] = [header]
    for start in range(0, len(content), BLOCK_SIZE):
        block = content[start : start + BLOCK_SIZE]
        packed = pack(block, mode="high_compression", compression=level, store_size=False)
        parts += (_size(len(packed)), packed) if len(packed) < len(block) else (_size(STORED | len(block)), block)
    parts.append(END_MARK)
    return b"".join(parts)


def check_stream_start(payload: Any, limit: int, magic: int = 2) -> None:
    """Lz4BlockInputStream's constructor reads the frame header."""
    _, _, at = _frame_header(payload)
    if magic > 0:
        _check_header(payload, at)


def _decompress_frame(frame: Any, parts: list[Any], limit: int) -> bytes | memoryview:
    """Decompresses one frame from its parts, piece by piece."""
    # a new one for each: LZ4 1.9.4 keeps the content size of a frame that failed, and fails on the next one
    context = frame.create_decompression_context()
    capacity = min(max(sum(map(len, parts)) << 2, LEAST_CAPACITY), MAX_CAPACITY)
    content: bytearray | None = None
    total = 0
    ended = False
    try:
        for part in parts:
            while True:
                wanted = capacity if capacity <= limit - total else limit - total + 1
                piece, used, ended = frame.decompress_chunk(context, part, max_length=wanted)
                total += len(piece)
                if total > limit:
                    raise LimitReached(limit)
                if ended and content is None:
                    whole: bytes = piece
                    return whole
                if piece:
                    content = bytearray() if content is None else content
                    content += piece
                if ended or (used == len(part) and len(piece) < wanted):
                    break
                if not used and not piece:
                    raise CodecError("payload_corrupt", "lz4: a block cannot be decompressed")
                part = part[used:]
        if not ended:
            raise CodecError("payload_corrupt", "lz4: a block cannot be decompressed")
        return memoryview(content if content is not None else b"")
    except RuntimeError as error:
        raise as_codec_error(error, NAME, limit) from None


def _frame_header(payload: Any) -> tuple[int, int, int]:
    """(FLG, BD, position after the header), checked as Kafka does except for the header checksum."""
    size = len(payload)
    if size == 0:
        raise CodecError("payload_empty", "lz4: no bytes")
    if size < SHORTEST_FRAME_START:
        raise CodecError("payload_truncated", "lz4: the frame header is cut")
    if payload[:4] != MAGIC:
        raise CodecError("payload_header_invalid", "lz4: the first four bytes are not 04 22 4d 18")
    flags, descriptor = payload[4], payload[5]
    if flags & 3:
        raise CodecError("payload_unsupported", "lz4: dictionary id or reserved bit in FLG")
    if not flags & FLAG_INDEPENDENT:
        raise CodecError("payload_unsupported", "lz4: blocks that depend on each other")
    if flags >> 6 != 1:
        raise CodecError("payload_unsupported", f"lz4: frame version {flags >> 6}, not 1")
    if descriptor & 0x8F or descriptor < 0x40:
        raise CodecError("payload_header_invalid", f"lz4: block descriptor {descriptor:#04x}")
    at = 14 if flags & FLAG_CONTENT_SIZE else 6
    if at >= size:
        raise CodecError("payload_truncated", "lz4: the frame header is cut")
    return flags, descriptor, at + 1


def _check_header(payload: Any, end: int) -> None:
    """Compares the header checksum, the last byte before `end`."""
    stored, computed = payload[end - 1], header_checksum(bytes(payload[4 : end - 1]))
    if stored != computed:
        raise CodecError("payload_checksum_mismatch", f"lz4: header checksum {stored:#04x}, computed {computed:#04x}")


def _end_of_blocks(payload: Any, at: int, flags: int, block_maximum: int) -> tuple[int, int]:
    """Where the blocks end, all of them complete, and what is behind the end mark begins: at the same place where a
    block without content is the end."""
    size = len(payload)
    checksum = 4 if flags & FLAG_BLOCK_CHECKSUM else 0
    while size - at >= 4:
        (stored,) = _size_at(payload, at)
        length = stored & ~STORED
        if length == 0:
            if flags & FLAG_CONTENT_CHECKSUM and size - at < 8:
                raise CodecError("payload_truncated", "lz4: the content checksum is missing")
            return at, at + len(END_MARK)
        if length > block_maximum:
            raise CodecError("payload_corrupt", f"lz4: block of {length} bytes, {block_maximum} allowed")
        at += 4
        if length + checksum > size - at:
            raise CodecError("payload_truncated", f"lz4: block of {length} bytes, {size - at} left")
        without_content = stored == 1 and payload[at] < 1 << 4  # a last sequence, of no literals
        at += length + checksum
        if without_content:
            return at, at
    raise CodecError("payload_truncated", "lz4: no end mark")
