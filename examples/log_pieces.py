"""Cuts log segments between batches into pieces of some MB; reads 12 bytes per batch. Driver only."""

import mmap
import struct
from pathlib import Path

PIECE_BYTES = 8 << 20
BASE_OFFSET_AND_LENGTH = struct.Struct(">qi")
SMALLEST_LENGTH = 14  # a magic 0 message without key and value


def log_pieces(folder: Path) -> list[tuple[str, int, int]]:
    """(path, first byte, byte after the last) of every piece of every .log file below `folder`."""
    pieces = []
    for path in sorted(folder.rglob("*.log")):
        if path.stat().st_size:
            with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as log:
                pieces += [(str(path), start, stop) for start, stop in cut(log)]
    return pieces


def cut(log: mmap.mmap) -> list[tuple[int, int]]:
    """The pieces of a log, each of which ends where a batch ends.

    From the first impossible length on, the rest is one piece: the decoder finds the next batch, or reports
    the damage. Zeros to the end are a preallocated tail and not returned.
    """
    pieces, start, position = [], 0, 0
    while position + BASE_OFFSET_AND_LENGTH.size <= len(log):
        _, length = BASE_OFFSET_AND_LENGTH.unpack_from(log, position)
        end = position + BASE_OFFSET_AND_LENGTH.size + length
        if length < SMALLEST_LENGTH or end > len(log):
            break
        if end - start > PIECE_BYTES and position > start:
            pieces.append((start, position))
            start = position
        position = end
    stop = position if only_zeros(log, position) else len(log)
    return [*pieces, (start, stop)] if stop > start else pieces


def only_zeros(log: mmap.mmap, position: int) -> bool:
    return all(not any(log[at : at + 65536]) for at in range(position, len(log), 65536))
