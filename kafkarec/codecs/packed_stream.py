"""Decompresses whole files, `00000000000000000030.log.gz` and `.zst`, piece by piece.

    gzip    members in a row: 1f 8b | method 8 | flags ... | deflate data | crc32 4 LE | size 4 LE      (RFC 1952)
    zstd    frames in a row:  28 b5 2f fd | descriptor | [window] [dictionary id] [content size]        (RFC 8878)
                              blocks of  3 bytes LE: last 1 bit, kind 2, size 21 | the block
                              [xxh64 4 LE]
            skippable frames: 5? 2a 4d 18 | size 4 LE | that many bytes

Unlike a batch's payload such a file may have any size, so memory is bounded: at most 64 KiB of input and 1 MiB of
output at a time. Frames with a window above 128 MiB (zstd --ultra --long=28 and more) are refused.
"""

import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

from .codec_errors import CodecError, Truncated, is_out_of_memory, load
from .zstd import MAGIC, MODULE, NAME, PIP_NAME, FrameInput, is_skippable, unpacked_frames

GZIP_MAGIC = b"\x1f\x8b"
HEAD_BYTES = 18
_FEED = 64 << 10
_PIECE = 1 << 20

Read = Callable[[int], bytes]


def recognise(head: bytes) -> str | None:
    """The codec, "gzip" or "zstd", by the first bytes of a file; None: neither."""
    if head[:2] == GZIP_MAGIC:
        return "gzip"
    return "zstd" if head[:4] == MAGIC or is_skippable(head[:4]) else None


def zstd_content_size(head: bytes) -> int:
    """The content size in the header of the first zstd frame, from HEAD_BYTES bytes; 0: it has none, or the file does
    not begin with such a frame."""
    if head[:4] != MAGIC:
        return 0
    zstandard = load(MODULE, NAME, PIP_NAME)
    try:
        return max(0, int(zstandard.frame_content_size(head)))
    except zstandard.ZstdError:
        return 0


def unpack(codec: str, read: Read) -> Iterator[bytes]:
    """Yields the content in pieces of 1 MiB at most. `read(n)` returns the next n compressed bytes, fewer at the end.

    Yields everything that can be decompressed, then raises CodecError, where the input is cut Truncated.
    """
    return _gzip(read) if codec == "gzip" else unpacked_frames(FrameInput(read))


def _gzip(read: Read) -> Iterator[bytes]:
    data = read(_FEED)
    while data[:2] == GZIP_MAGIC:
        member = zlib.decompressobj(31)
        while True:
            before = member.copy()
            try:
                piece = member.decompress(data, _PIECE)
            except zlib.error as error:
                if is_out_of_memory(error):
                    raise MemoryError(f"gzip: {error}") from None
                if content := _content_before_error(before, data):
                    yield content
                raise CodecError(f"gzip: {error}") from None
            if piece:
                yield piece
            if member.eof:
                break
            data = member.unconsumed_tail or read(_FEED)
            if not data and not piece:
                raise Truncated("gzip: the data is cut")
        data = member.unused_data
        if len(data) < len(GZIP_MAGIC):
            data += read(_FEED)
    if data.strip(b"\0"):  # zeros after a member are padding, as from tapes
        raise CodecError("gzip: the bytes after a member are no gzip data")


def _content_before_error(member: Any, data: bytes) -> bytes:
    """The content before the wrong byte: zlib drops what a call has decompressed that ends in an error."""
    content = bytearray()
    with suppress(zlib.error):
        for at in range(len(data)):
            content += member.decompress(data[at : at + 1])
    return bytes(content)
