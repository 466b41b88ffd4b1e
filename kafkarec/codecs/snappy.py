"""snappy as org.xerial.snappy.SnappyInputStream reads it: xerial framing around raw blocks, or one raw block.

    82 53 4e 41 50 50 59 00 | version 4 | compatible version 4 | chunk*      chunk: size 4 BE | raw block

The two versions are not checked: Kafka does not, and Redpanda writes them little-endian (kafka-python #2414).
A chunk size that equals the magic's first four bytes begins a concatenated stream, for which snappy-java requires a
version of at least 1. Fewer than four bytes after a chunk end the stream without an error. A payload without the magic,
or shorter than 16 bytes, is one raw block.

`compress` writes as SnappyOutputStream does: version 1, compatible version 1, a chunk for every 32 KiB.
"""

from array import array
from struct import Struct
from typing import Any

from kafkarec.codecs.codec_errors import CodecError, LimitReached, StreamNotes, Truncated, as_codec_error, load

NAME, PIP_NAME, MODULE = "snappy", "cramjam", "cramjam"
MIN_LEVEL, MAX_LEVEL, DEFAULT_LEVEL = None, None, None  # it has no levels

MAGIC = b"\x82SNAPPY\x00"
MAGIC_HEAD = int.from_bytes(MAGIC[:4], "big")
STREAM_HEADER_SIZE = 16
MAX_CHUNK_SIZE = 512 << 20  # org.xerial.snappy.SnappyInputStream.MAX_CHUNK_SIZE, CVE-2023-43642
WRITTEN_HEADER = MAGIC + b"\0\0\0\1\0\0\0\1"
WRITTEN_CHUNK = 32 << 10  # of content

_chunk_size = Struct(">I").pack


def decompress(payload: Any, limit: int, magic: int = 2, seen: StreamNotes | None = None) -> memoryview:
    """The blocks' content in one piece."""
    cramjam = load(MODULE, NAME, PIP_NAME)
    size, at = len(payload), 0
    if size == 0:
        raise CodecError("snappy: no bytes")
    if size < STREAM_HEADER_SIZE or payload[:8] != MAGIC:
        total = _block_length(payload, 0, size, 0, limit)
        blocks = array("q", (0, size, total))
    else:
        blocks, total = _xerial_blocks(payload, limit, seen)
    content = memoryview(bytearray(total))
    numbers = iter(blocks)
    try:
        for start, end, length in zip(numbers, numbers, numbers, strict=True):
            if cramjam.snappy.decompress_raw_into(payload[start:end], content[at : at + length]) != length:
                raise CodecError("snappy: a block is shorter than it says")
            at += length
    except cramjam.DecompressionError as error:
        raise as_codec_error(error, NAME, limit) from None
    return content


def compress(payload: Any, level: None = None, magic: int = 2) -> bytes:
    """A xerial stream; of empty content only its header."""
    pack = load(MODULE, NAME, PIP_NAME).snappy.compress_raw
    parts, content = [WRITTEN_HEADER], memoryview(payload).cast("B")
    for start in range(0, len(content), WRITTEN_CHUNK):
        packed = bytes(pack(content[start : start + WRITTEN_CHUNK]))
        parts += (_chunk_size(len(packed)), packed)
    return b"".join(parts)


def check_stream_start(payload: Any, limit: int, magic: int = 2) -> None:
    """SnappyInputStream's constructor reads the stream header; without one it decompresses everything."""
    if len(payload) < STREAM_HEADER_SIZE or payload[:8] != MAGIC:
        decompress(payload, limit)


def _xerial_blocks(payload: Any, limit: int, seen: StreamNotes | None) -> tuple["array[int]", int]:
    """Start, end, decompressed length of each block in a row, and the sum of the lengths, within `limit`."""
    blocks = array("q")  # not tuples: a block may be five bytes
    size, at, total = len(payload), STREAM_HEADER_SIZE, 0
    ended_at, streams = 0, 1
    while size - at >= 4:
        chunk = int.from_bytes(payload[at : at + 4], "big")
        at += 4
        if chunk > size - at or chunk > MAX_CHUNK_SIZE:
            if chunk != MAGIC_HEAD:
                raise Truncated(f"snappy: chunk of {chunk} bytes, {size - at} left")
            if size - at < STREAM_HEADER_SIZE - 4:
                raise Truncated("snappy: the header of a concatenated stream is cut")
            if payload[at : at + 4] == MAGIC[4:]:
                version = int.from_bytes(payload[at + 4 : at + 8], "big", signed=True)
                if version < 1:
                    raise CodecError(f"snappy: stream version {version}, not 1 or more")
            elif total == ended_at:
                at -= 4
                break
            else:
                # a wrong magic ends one read call of snappy-java; the next call continues after that header
                ended_at = total
            at += STREAM_HEADER_SIZE - 4
            streams += 1
            continue
        length = _block_length(payload, at, at + chunk, total, limit)
        total += length
        blocks.extend((at, at + chunk, length))
        at += chunk
    if seen is not None:
        seen.streams, seen.trailing_bytes = streams, size - at
    return blocks, total


def _block_length(payload: Any, at: int, end: int, before: int, limit: int) -> int:
    """The decompressed length that a raw block declares, checked; `before` bytes of content precede it."""
    length = shift = 0
    begin = at
    while True:
        if at >= end:
            raise Truncated("snappy: a block ends inside of its length field")
        byte: int = payload[at]
        at += 1
        length |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
        if shift > 28:
            raise CodecError("snappy: the length of a block is too long")
    if length > limit - before:
        raise LimitReached(limit)
    # a copy of 64 bytes takes at least three bytes, so content is at most 22 times as large as its block
    if length > 22 * (end - begin):
        raise CodecError(f"snappy: a block of {end - begin} bytes declares a content of {length}")
    return length
