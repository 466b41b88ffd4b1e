"""Batches of a file as Kafka's FileLogInputStream reads them, in pieces of some megabytes

A batch is read only if more than 17 bytes (see kafkarec/format/layout.py) are left; one whose size is above the bytes
left ends the log without an error. A magic of 2 or more is read as 2, one below 2 as a message of magic 0 and 1.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, NoReturn

from kafkarec.damage import error
from kafkarec.format.layout import LOG_OVERHEAD, MESSAGE_OVERHEAD, START, UP_TO_MAGIC
from kafkarec.sources.files import ByteSource

LEAST_SIZE = MESSAGE_OVERHEAD[0]
WINDOW = 4 << 20


class Frame(NamedTuple):
    """One batch. `at`: its position in the piece's data; `size`: including the size field; `offset`: its first
    field."""

    at: int
    size: int
    magic: int
    offset: int


class FilePiece(NamedTuple):
    """Consecutive whole batches from byte `position` of the file on."""

    position: int
    data: bytes
    frames: list[Frame]


def refuse(
    reason: str, source: ByteSource, position: int, detail: str = "", *, offset: int | None = None, **sides: int
) -> NoReturn:
    """Raises the error of a `reason`, where Kafka's tool ends with an exception."""
    fault = {"file": source.name, "position": position, "base_offset": offset, "detail": detail, **sides}
    raise error(reason, fault)


def pieces(source: ByteSource, start: int, end: int, window: int = WINDOW) -> Iterator[FilePiece]:
    """All batches between two bytes of a file. A size below 14 raises CorruptRecordError after the good batches."""
    position = start
    while position < end - UP_TO_MAGIC:
        data = source.read_at(position, min(window, end - position))
        if len(data) < UP_TO_MAGIC:
            refuse("unreadable", source, position, "the file is shorter now than when it was opened")
        frames, at, needed = _frames(data, end - position)
        if needed and not frames:
            data = source.read_at(position, needed)
            if len(data) < needed:
                refuse("unreadable", source, position, "the file is shorter now than when it was opened")
            frames, at, _ = _frames(data, end - position)
        if frames:
            yield FilePiece(position, data, frames)
        position += at
        if not needed and position < end - UP_TO_MAGIC:
            offset, size, _, _ = START.unpack_from(data, at)
            if size < LEAST_SIZE:
                refuse("size_too_small", source, position, offset=offset, expected=LEAST_SIZE, found=size)
            return


def _frames(data: bytes, left: int) -> tuple[list[Frame], int, int]:
    """(frames, their total size, bytes that the next one needs if it is cut off by the end of `data`, else 0)."""
    frames: list[Frame] = []
    at, have = 0, len(data)
    while left - at > UP_TO_MAGIC:
        if at + UP_TO_MAGIC > have:
            return frames, at, UP_TO_MAGIC
        offset, size, _, magic = START.unpack_from(data, at)
        if size < LEAST_SIZE or size > left - at - LOG_OVERHEAD:
            break
        if at + LOG_OVERHEAD + size > have:
            return frames, at, LOG_OVERHEAD + size
        frames.append(Frame(at, LOG_OVERHEAD + size, magic, offset))
        at += LOG_OVERHEAD + size
    return frames, at, 0


class WalkToEnd:
    """Iterates over the frames of one file to its end, as Kafka's tool does for every entry of a time index.

    Positions from which the end was reached are kept, one in 1024 frames; a later walk stops at any of them.
    """

    _EVERY = 1024

    def __init__(self, source: ByteSource) -> None:
        self._source = source
        self._good: set[int] = set()

    def walk(self, position: int) -> None:
        """Raises what Kafka's iteration raises between `position` and the end of the file."""
        passed = {position}
        if position in self._good:
            return
        count = 0
        for piece in pieces(self._source, position, self._source.size, 1 << 16):
            for frame in piece.frames:
                count += 1
                if count % self._EVERY == 0:
                    passed.add(piece.position + frame.at)
                if piece.position + frame.at in self._good:
                    self._good |= passed
                    return
        self._good |= passed
