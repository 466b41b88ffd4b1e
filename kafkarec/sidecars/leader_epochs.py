"""`leader-epoch-checkpoint`: the first offset of each leader epoch (Kafka: LeaderEpochCheckpointFile, KIP-101, KIP-279)

    0             version
    2             number of entries
    0 0           leader_epoch start_offset
    5 1040        both rise; epochs without records may be listed too

With it a leader answers a follower's request for the end offset of an epoch, from which the follower determines where
its log differs from the leader's.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from .parsing import INT32, INT64, VERSION, read_table

NAME = "leader-epoch-checkpoint"


class EpochEntry(NamedTuple):
    """The records from start_offset on, up to that of the next entry, were written under this leader epoch."""

    epoch: int
    start_offset: int


def read(data: bytes, file: str | None = NAME) -> tuple[EpochEntry, ...]:
    """Parses the file's bytes; CorruptRecordError (checkpoint_invalid) where Kafka's parser fails too."""
    lines, rows = read_table(data, 2, "epoch and start offset", file)
    return tuple(
        EpochEntry(lines.integer(n, epoch, "the epoch", INT32), lines.integer(n, start, "the start offset", INT64))
        for n, (epoch, start) in rows
    )


def read_assigned(data: bytes) -> list[EpochEntry]:
    """As `read`, without the entries that a broker drops when it loads the file (LeaderEpochFileCache.assign)."""
    entries: list[EpochEntry] = []
    for one in read(data):
        assign(entries, *one)
    return entries


def write(entries: Iterable[tuple[int, int]]) -> bytes:
    """The file's bytes."""
    lines = [f"{epoch} {start}\n" for epoch, start in entries]
    return f"{VERSION}\n{len(lines)}\n{''.join(lines)}".encode()


def epoch_at(entries: Sequence[EpochEntry], offset: int) -> int | None:
    """The epoch under which `offset` was written; None before the first entry."""
    index = bisect_right(entries, offset, key=lambda entry: entry.start_offset)
    return entries[index - 1].epoch if index else None


def assign(entries: list[EpochEntry], epoch: int, start_offset: int) -> None:
    """Adds the first batch of a new epoch and removes entries that contradict it (LeaderEpochFileCache.assign)."""
    if entries and entries[-1].epoch == epoch and start_offset >= entries[-1].start_offset:
        return
    while entries and (entries[-1].epoch >= epoch or entries[-1].start_offset >= start_offset):
        entries.pop()
    entries.append(EpochEntry(epoch, start_offset))
