"""zstd as com.github.luben.zstd.ZstdInputStreamNoFinalizer reads it (RFC 8878).

    28 b5 2f fd | descriptor 1 | [window 1] | [dictionary id] | [content size] | block+ | [checksum 4]
    50..5f 2a 4d 18 | size 4 LE | anything                              (skippable frame)
    block header 3 LE: last 1 bit, type 2 bits (raw, one byte repeated, compressed, reserved), size 21 bits

Consecutive frames are one stream; no bytes at all are an empty stream; a cut frame or garbage after a frame is an
error. (Deliberate difference: the JVM treats a later cut frame as the end, without an error, if one read returned its
bytes together with the end of the previous frame.) The Java producer writes frames without a content size.
Windows above 128 MiB are refused (ZSTD_MAXWINDOWSIZE_DEFAULT).

The block headers are read here first, because the library ignores a second frame, and must not make more content than
the limit: the block headers give the maximum.

`compress` writes one frame with its content size, which Kafka's stream cannot know in advance. The parameters are those
of the JVM's stream, of a level for content of unknown size: on a typical batch of JSON they compress better and, from
level 6 on, faster than those that zstd chooses for small content.
"""

import threading
from functools import cache
from typing import Any

from kafkarec.codecs.codec_errors import CodecError, LimitReached, StreamNotes, Truncated, as_codec_error, load

NAME, PIP_NAME, MODULE = "zstd", "zstandard", "zstandard"
MIN_LEVEL, MAX_LEVEL, DEFAULT_LEVEL = -131072, 22, 3  # of Kafka

MAGIC = b"\x28\xb5\x2f\xfd"
BLOCK_MAXIMUM = 128 << 10
WINDOW_MAXIMUM = (1 << 27) + 1
KEPT_WINDOW = 8 << 20
PIECE = 1 << 20
UNKNOWN = 2**64 - 1
LONGEST_HEADER = 18
REPEATED, COMPRESSED = 1, 2
KEPT_CONTENT = 1 << 20
FLAG_CHECKSUM = 4


class _Contexts(threading.local):
    """The contexts of this thread: one for decompression, which the library resets before each frame, and the last one
    for the compression of contents of 1 MiB at most."""

    def __init__(self) -> None:
        self.zstandard = load(MODULE, NAME, PIP_NAME)
        self.decompressor = self.zstandard.ZstdDecompressor()
        self.level: int | None = None
        self.compressor: Any = None

    def new_compressor(self, level: int) -> Any:
        parameters = self.zstandard.ZstdCompressionParameters.from_level(level, source_size=0)
        return self.zstandard.ZstdCompressor(compression_params=parameters)


_contexts = cache(_Contexts)


def decompress(payload: Any, limit: int, magic: int = 2, seen: StreamNotes | None = None) -> memoryview:
    """The frames' content in one piece."""
    contexts, content = _contexts(), bytearray()
    size, end, frames = len(payload), 0, 0
    while end < size:
        start = end
        frames += 1
        if payload[start : start + 4] == MAGIC:
            end, content_size, max_size, window = _frame_sizes(contexts, payload, start, len(content), limit)
            _decompress_frame(contexts, payload[start:end], content_size, max_size, window, content, limit)
        else:
            end = _skippable_end(payload, start)
    if seen is not None:
        seen.streams = frames
    return memoryview(content)


def compress(payload: Any, level: int, magic: int = 2) -> bytes:
    """One frame; `level` -131072 to 22."""
    contexts = _contexts()
    if memoryview(payload).nbytes > KEPT_CONTENT:
        packed: bytes = contexts.new_compressor(level).compress(payload)
        return packed
    if level != contexts.level:
        contexts.level, contexts.compressor = level, contexts.new_compressor(level)
    packed = contexts.compressor.compress(payload)
    return packed


def check_stream_start(payload: Any, limit: int, magic: int = 2) -> None:
    """The stream's constructor reads nothing."""


def _decompress_frame(
    contexts: _Contexts, frame: Any, content_size: int, max_size: int, window: int, content: bytearray, limit: int
) -> None:
    """Appends the content of one whole frame, of at most `max_size` bytes; content_size: UNKNOWN if it has none.

    A reference beyond the window is refused, as by a new stream: not by a context with a kept buffer, nor with space
    for the whole content.
    """
    # a context keeps its largest buffer, so large frames do not use it
    is_kept = max_size <= window <= KEPT_WINDOW
    context = contexts.decompressor if is_kept else contexts.zstandard.ZstdDecompressor()
    piece_size = max(1, min(PIECE, content_size - 1 if window < content_size < UNKNOWN else max_size))
    try:
        reader = context.stream_reader(frame)
        while piece := reader.read(min(piece_size, limit - len(content) + 1)):
            content += piece
            if len(content) > limit:
                raise LimitReached(limit)
    except contexts.zstandard.ZstdError as error:
        raise as_codec_error(error, NAME, limit) from None


def _frame_sizes(contexts: _Contexts, payload: Any, at: int, before: int, limit: int) -> tuple[int, int, int, int]:
    """(end, content size or UNKNOWN, maximum content size by its blocks, window) of the whole frame at `at`; `before`
    bytes of content precede it."""
    size = len(payload)
    header = payload[at : at + LONGEST_HEADER]
    try:
        parameters = contexts.zstandard.get_frame_parameters(header)
    except contexts.zstandard.ZstdError as error:
        raise _truncated() if "not enough" in str(error) else CodecError(f"zstd: {error}") from None
    if parameters.dict_id:
        raise CodecError("zstd: the frame needs a dictionary")
    at += contexts.zstandard.frame_header_size(header)
    content_size, window = parameters.content_size, parameters.window_size
    if window > WINDOW_MAXIMUM:
        raise CodecError(f"zstd: window of {window} bytes, more than 128 MiB")
    if limit - before < content_size < UNKNOWN:
        raise LimitReached(limit)
    block_maximum = BLOCK_MAXIMUM if window > BLOCK_MAXIMUM else window
    max_size = min_size = 0
    while True:
        if size - at < 3:
            raise _truncated()
        block = payload[at] | payload[at + 1] << 8 | payload[at + 2] << 16
        at += 3
        kind, length = block >> 1 & 3, block >> 3
        if length > block_maximum or kind > COMPRESSED:
            raise CodecError("zstd: block of a reserved type or above the maximum")
        if kind == COMPRESSED:
            max_size += block_maximum
        else:
            max_size += length
            min_size += length
            if kind == REPEATED:
                length = 1
        if length > size - at:
            raise _truncated()
        at += length
        if block & 1:
            break
    if parameters.has_checksum:
        at += 4
        if at > size:
            raise _truncated()
    if min_size > limit - before:
        raise LimitReached(limit)
    if max_size < content_size < UNKNOWN or min_size > content_size:
        raise CodecError(f"zstd: content size {content_size} does not fit the blocks")
    return at, content_size, max_size, window


def is_skippable(start: Any) -> bool:
    """Whether the first four bytes of a frame say that it is skipped."""
    return len(start) == 4 and start[0] & 0xF0 == 0x50 and start[1:] == b"\x2a\x4d\x18"


def _skippable_end(payload: Any, at: int) -> int:
    """The position after the skippable frame at `at`."""
    left = len(payload) - at
    if not is_skippable(payload[at : at + 4]):
        raise CodecError("zstd: neither a frame nor the end")
    if left < 8:
        raise _truncated()
    length = int.from_bytes(payload[at + 4 : at + 8], "little")
    if length > left - 8:
        raise _truncated()
    return at + 8 + length


def _truncated() -> CodecError:
    return Truncated("zstd: the last frame is cut")
