"""Batches of a file as Kafka's FileLogInputStream reads them, in pieces of some megabytes

A batch is read only if more than 17 bytes (see kafkarec/format/layout.py) are left; one whose size is above the bytes
left ends the log without an error. A magic of 2 or more is read as 2, one below 2 as a message of magic 0 and 1.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, NoReturn

from kafkarec.damage import error
from kafkarec.format.layout import LOG_OVERHEAD, MESSAGE_OVERHEAD, START, UP_TO_MAGIC
from kafkarec.format.single_fields import FieldFault
from kafkarec.sources.files import ByteSource

LEAST_SIZE = MESSAGE_OVERHEAD[0]
WINDOW = 4 << 20
_SHORTER = FieldFault("unreadable", detail="the file is shorter now than when it was opened")


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
    data: memoryview
    frames: list[Frame]


def refuse(source: ByteSource, position: int, fault: FieldFault, offset: int | None = None) -> NoReturn:
    """Raises a fault as an error, where Kafka's tool ends with an exception. `offset`: of the batch."""
    raise error(fault.reason, fault._asdict() | {"file": source.name, "position": position, "base_offset": offset})


def pieces(source: ByteSource, start: int, end: int, window: int = WINDOW) -> Iterator[FilePiece]:
    """All batches between two bytes of a file. A size below 14 raises CorruptRecordError after the good batches."""
    position = start
    while position < end - UP_TO_MAGIC:
        data = source.read_at(position, min(window, end - position))
        if len(data) < UP_TO_MAGIC:
            refuse(source, position, _SHORTER)
        frames, at, needed = _frames(data, end - position)
        if needed and not frames:
            data = source.read_at(position, needed)
            if len(data) < needed:
                refuse(source, position, _SHORTER)
            frames, at, _ = _frames(data, end - position)
        if frames:
            yield FilePiece(position, memoryview(data), frames)
        position += at
        if not needed and position < end - UP_TO_MAGIC:
            offset, size, _, _ = START.unpack_from(data, at)
            if size < LEAST_SIZE:
                refuse(source, position, FieldFault("size_too_small", LEAST_SIZE, size), offset)
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
