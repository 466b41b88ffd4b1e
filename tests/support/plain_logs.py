"""Batches of good records, partition folders of given batches, and the data folders of brokers around them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import builders

Batches = Iterable[bytes]
TOPIC_ID, SEGMENT_ID = "MWJ6FHTfRYy67jzwZdeqSQ", "tqimKeZwStOEOwRzT3L5oQ"
"""Ids in the names of objects of tiered storage."""


def batch(
    base_offset: int = 0,
    count: int = 5,
    *,
    epoch: int = 0,
    key: bytes | None = b"k",
    value: bytes | None = b"value %d",
    headers: builders.Headers = (),
    transaction: int | None = None,
    **fields,
) -> bytes:
    """A batch of good records, as `builders.records` makes them; `fields` are passed to `builders.batch`.

    transaction   the producer id of the transaction of the batch; its epoch and sequence are 0 if not given
    """
    if transaction is not None:
        producer = {"producer_id": transaction, "producer_epoch": 0, "base_sequence": 0}
        fields = {"attributes": builders.TRANSACTIONAL, **producer, **fields}
    parts = builders.records(count, key=key, value=value, headers=headers)
    return builders.batch(parts, base_offset=base_offset, leader_epoch=epoch, **fields)


def batches(number: int, count: int = 3, *, base_offset: int = 0, **fields) -> list[bytes]:
    """Batches of `count` records each, without a gap between them."""
    return [batch(base_offset + count * n, count, **fields) for n in range(number)]


def sequenced(base: int, sequence: int, epoch: int = 0, producer: int = 1) -> bytes:
    return batch(base, producer_id=producer, producer_epoch=epoch, base_sequence=sequence)


def flip(path: Path, position: int = -1, bits: int = 1):
    """Flip bits of one byte of a file."""
    path.write_bytes(builders.flipped(path.read_bytes(), position, bits))


def exchange(folder: Path, one: int, other: int, suffix: str = ".log"):
    """Give two segments each other's name."""
    first, second = (folder / f"{base:020}{suffix}" for base in (one, other))
    first.rename(folder / "held")
    second.rename(first)
    (folder / "held").rename(second)


def log(folder: Path, *segments: Batches | tuple[int, bytes], epochs: Sequence[tuple[int, int]] | None = None) -> Path:
    """Write a partition folder. Each segment is its batches, of which the first has its base offset, or that offset and
    its bytes."""
    folder.mkdir(parents=True, exist_ok=True)
    for segment in segments:
        if isinstance(segment, tuple):
            base, data = segment
        else:
            data = b"".join(segment)
            base = int.from_bytes(data[:8], "big")
        (folder / f"{base:020}.log").write_bytes(data)
    if epochs is not None:
        lines = [f"{epoch} {start}\n" for epoch, start in epochs]
        (folder / "leader-epoch-checkpoint").write_text(f"0\n{len(lines)}\n" + "".join(lines))
    return folder


def content(folder: Path) -> dict[str, bytes]:
    """The bytes of all files below a folder, by their paths from there."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def data_folder(folder: Path, **checkpoints: str) -> Path:
    """Make the folder that of a broker: meta.properties, and checkpoint files by the first word of their names, such as
    `cleaner="orders 0 40"`; "" is a file without entries."""
    folder.mkdir(exist_ok=True)
    (folder / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=x\n")
    for name, text in checkpoints.items():
        add_checkpoint(folder, *text.splitlines(), name=name.replace("_", "-"))
    return folder


def add_checkpoint(folder: Path, *lines: str, name: str = "replication"):
    (folder / f"{name}-offset-checkpoint").write_text("".join(f"{line}\n" for line in ("0", str(len(lines)), *lines)))
