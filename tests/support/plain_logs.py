"""Partition folders of given batches."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import builders

Batches = Iterable[bytes]


def batch(base: int, count: int, *, epoch: int = 0, value: bytes = b"value %d", codec: str = "none") -> bytes:
    return builders.batch(builders.records(count, value=value), base_offset=base, leader_epoch=epoch, codec=codec)


def log(folder: Path, *segments: Batches, epochs: Sequence[tuple[int, int]] | None = None) -> Path:
    folder.mkdir(parents=True)
    for batches in segments:
        data = b"".join(batches)
        (folder / f"{int.from_bytes(data[:8], 'big'):020}.log").write_bytes(data)
    if epochs is not None:
        lines = [f"{epoch} {start}\n" for epoch, start in epochs]
        (folder / "leader-epoch-checkpoint").write_text(f"0\n{len(lines)}\n" + "".join(lines))
    return folder
