"""Partition folders of given batches."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import builders

Batches = Iterable[bytes]
TOPIC_ID, SEGMENT_ID = "MWJ6FHTfRYy67jzwZdeqSQ", "tqimKeZwStOEOwRzT3L5oQ"
"""Ids in the names of objects of tiered storage."""


def batch(base: int, count: int, *, epoch: int = 0, value: bytes = b"value %d", codec: str = "none") -> bytes:
    return builders.batch(builders.records(count, value=value), base_offset=base, leader_epoch=epoch, codec=codec)


def flip(path: Path, position: int = -1, bits: int = 1):
    """Flip bits of one byte of a file."""
    path.write_bytes(builders.flipped(path.read_bytes(), position, bits))


def exchange(folder: Path, one: int, other: int, suffix: str = ".log"):
    """Give two segments each other's name."""
    first, second = (folder / f"{base:020}{suffix}" for base in (one, other))
    first.rename(folder / "held")
    second.rename(first)
    (folder / "held").rename(second)


def log(folder: Path, *segments: Batches, epochs: Sequence[tuple[int, int]] | None = None) -> Path:
    folder.mkdir(parents=True)
    for batches in segments:
        data = b"".join(batches)
        (folder / f"{int.from_bytes(data[:8], 'big'):020}.log").write_bytes(data)
    if epochs is not None:
        lines = [f"{epoch} {start}\n" for epoch, start in epochs]
        (folder / "leader-epoch-checkpoint").write_text(f"0\n{len(lines)}\n" + "".join(lines))
    return folder
