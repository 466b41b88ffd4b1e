"""zstd as com.github.luben.zstd.ZstdInputStreamNoFinalizer reads it (RFC 8878).

    28 b5 2f fd | descriptor 1 | [window 1] | [dictionary id] | [content size] | block+ | [checksum 4]
    50..5f 2a 4d 18 | size 4 LE | anything                              (skippable frame)
    block header 3 LE: last 1 bit, type 2 bits (raw, one byte repeated, compressed, reserved), size 21 bits

Consecutive frames are one stream; no bytes at all are an empty stream; a cut frame or garbage after a frame is an
error. (Deliberate difference: the JVM treats a later cut frame as the end, without an error, if one read returned its
bytes together with the end of the previous frame.) The Java producer writes frames without a content size.
Windows above 128 MiB are refused (ZSTD_MAXWINDOWSIZE_DEFAULT).

The block headers are read here, because the library ignores a second frame, and must not make more content than the
limit: it gets one block at a time.

`compress` writes one frame with its content size, which Kafka's stream cannot know in advance. The parameters are those
of the JVM's stream, of a level for content of unknown size: on a typical batch of JSON they compress better and, from
level 6 on, faster than those that zstd chooses for small content.
"""

import threading
from collections.abc import Callable, Iterator
from functools import cache
from io import BytesIO
from typing import Any

from kafkarec.codecs.codec_errors import (
    CodecError,
    LimitReached,
    StreamNotes,
    Truncated,
    is_out_of_memory,
    load,
)

NAME, PIP_NAME, MODULE = "zstd", "zstandard", "zstandard"
MIN_LEVEL, MAX_LEVEL, DEFAULT_LEVEL = -131072, 22, 3  # of Kafka

MAGIC = b"\x28\xb5\x2f\xfd"
BLOCK_MAXIMUM = 128 << 10
WINDOW_MAXIMUM = (1 << 27) + 1
REPEATED = 1
KEPT_CONTENT = 1 << 20
FLAG_CHECKSUM = 4
FEED = 64 << 10


class _Contexts(threading.local):
    """The last context of this thread for the compression of contents of 1 MiB at most."""

    def __init__(self) -> None:
        self.zstandard = load(MODULE, NAME, PIP_NAME)
        self.level: int | None = None
        self.compressor: Any = None

    def new_compressor(self, level: int) -> Any:
        parameters = self.zstandard.ZstdCompressionParameters.from_level(level, source_size=0)
        return self.zstandard.ZstdCompressor(compression_params=parameters)


_contexts = cache(_Contexts)


def decompress(payload: Any, limit: int, magic: int = 2, seen: StreamNotes | None = None) -> memoryview:
    """The frames' content in one piece."""
    content, data = bytearray(), FrameInput(BytesIO(payload).read)
    for piece in unpacked_frames(data):
        content += piece
        if len(content) > limit:
            raise LimitReached(limit)
    if seen is not None:
        seen.streams = data.frames
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


def unpacked_frames(data: "FrameInput") -> Iterator[bytes]:
    """The content in pieces of 128 KiB at most. Frames are fed block by block, to a new context each: one with a kept
    buffer, or with space for the whole content, would not refuse a reference beyond the window, as a new stream does.
    """
    zstandard = load(MODULE, NAME, PIP_NAME)
    while start := data.read_up_to(4):
        data.frames += 1
        if is_skippable(start):
            data.skip(int.from_bytes(data.read_exactly(4), "little"))
            continue
        if start != MAGIC:
            raise CodecError("zstd: no frame where one should begin")
        start += data.read_exactly(1)
        header = start + data.read_exactly(zstandard.frame_header_size(start) - len(start))
        frame = zstandard.ZstdDecompressor(max_window_size=WINDOW_MAXIMUM).decompressobj()
        try:
            frame.decompress(header)
            left = zstandard.frame_content_size(header)  # -1: not stated
            for block in _blocks(data, start[4]):
                if piece := frame.decompress(block):
                    left -= len(piece)
                    yield piece
            # After an empty last block the library does not look at it. Kafka's stream does where at most 16 KiB are
            # stated, and takes what it got of more: deliberately not here.
            if left > 0:
                raise CodecError(f"zstd: the content has {left} bytes less than the frame states")
        except zstandard.ZstdError as error:
            if is_out_of_memory(error):
                raise MemoryError(f"zstd: {error}") from None
            raise CodecError(str(error)) from None


def _blocks(data: "FrameInput", flags: int) -> Iterator[bytes]:
    """Of a frame, from after its header, with the header of each; then its checksum, if it has one."""
    last = 0
    while not last:
        header = data.read_exactly(3)
        block = int.from_bytes(header, "little")
        last, kind, size = block & 1, block >> 1 & 3, block >> 3
        if kind != REPEATED and size > BLOCK_MAXIMUM:
            raise CodecError("zstd: a block is larger than the maximum")
        yield header + data.read_exactly(1 if kind == REPEATED else size)
    if flags & FLAG_CHECKSUM:
        yield data.read_exactly(4)


def is_skippable(start: Any) -> bool:
    """Whether the first four bytes of a frame say that it is skipped."""
    return len(start) == 4 and start[0] & 0xF0 == 0x50 and start[1:] == b"\x2a\x4d\x18"


class FrameInput:
    """Buffers reads of 64 KiB and returns pieces of the requested lengths. frames: how many were begun"""

    def __init__(self, read: Callable[[int], bytes]) -> None:
        self._read, self.frames = read, 0
        self._held = memoryview(b"")

    def read_up_to(self, count: int) -> bytes:
        """The next `count` bytes, fewer at the end."""
        while len(self._held) < count:
            more = self._read(FEED)
            if not more:
                break
            self._held = memoryview(bytes(self._held) + more)
        taken, self._held = self._held[:count], self._held[count:]
        return bytes(taken)

    def read_exactly(self, count: int) -> bytes:
        taken = self.read_up_to(count)
        if len(taken) < count:
            raise Truncated("zstd: the last frame is cut")
        return taken

    def skip(self, count: int) -> None:
        while count > 0:
            step = min(count, FEED)
            self.read_exactly(step)
            count -= step
