"""Merges several sources into one log: which batch is kept if several sources have the offsets

1. Equal batches (offsets, leader epoch, CRC, size): the first source's is kept, the others are duplicates.
2. Batches that differ in the leader epoch only: one copy is damaged, as no checksum covers the epoch. The copy whose
   adjacent batches have the same epoch is kept, the other one is set aside.
3. Batches that overlap and are not equal are a conflict. The higher leader epoch is kept, as a follower would
   (KIP-101); with the same epoch the one with more records (the other was compacted further), else the first source's.
   The other one is set aside and reported.
4. `stale`, for a folder that a broker is to start on: a batch whose epoch is below a confirmed epoch of an earlier
   batch would be truncated by a broker (KIP-101), so it is set aside too. An epoch is confirmed if the next batch in
   the same source has the same or a higher one: no checksum covers it, and one flipped bit must not exclude the rest
   of a log.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from .good_batches import Aside, GoodBatch

KEEP, DUPLICATE = "keep", "duplicate"


class Choice(NamedTuple):
    """A batch with `decision` KEEP or DUPLICATE. gap: offsets (first, last) between it and the last kept batch."""

    row: GoodBatch
    decision: str
    gap: tuple[int, int] | None = None


class _Stream:
    """One source with its next two batches."""

    def __init__(self, rows: Iterator[GoodBatch]) -> None:
        self._rows = rows
        self.head = next(rows, None)
        self.later = next(rows, None)

    def pop(self) -> GoodBatch:
        assert self.head is not None
        row, self.head, self.later = self.head, self.later, next(self._rows, None)
        return row


def merge(
    streams: Sequence[Iterator[GoodBatch]], start: int | None, *, stale: bool = False
) -> Iterator[Choice | Aside]:
    """The batches of all streams as one log. start: its first offset; None: that of the first batch."""
    open_ = [_Stream(rows) for rows in streams]
    next_offset, epoch = start, -1
    in_force: dict[int, int] = {}  # source -> its highest epoch that the next batch confirms
    while True:
        open_ = [stream for stream in open_ if stream.head is not None]
        if not open_:
            return
        open_.sort(key=_place)
        first = open_[0]
        row = first.head
        assert row is not None
        damaged = row.damaged
        if next_offset is not None and row.last < next_offset:
            yield _aside(first.pop(), "overlap")
            continue
        for other in open_[1:]:
            while other.head is not None and other.head.content == row.content:
                damaged = damaged or other.head.damaged
                yield Choice(other.pop(), DUPLICATE)
        twins = [stream for stream in open_ if _twins(stream.head, row)]
        if len(twins) > 1:
            best = max(twins, key=lambda stream: _confirmed(stream, epoch))
            for stream in twins:
                if stream is not best:
                    yield _aside(stream.pop(), "other_epoch")
            continue
        winner = _conflict(open_)
        if winner is not None:
            for stream in open_:
                if stream is not winner and _overlap(stream.head, winner.head):
                    loser = stream.pop()
                    yield _aside(loser, _kind(loser, winner.head))
            continue
        if next_offset is not None and row.base < next_offset:
            yield _aside(first.pop(), "overlap")
            continue
        if stale and any(known > row.epoch >= 0 for source, known in in_force.items() if source != row.source):
            yield _aside(first.pop(), "stale_epoch")
            continue
        if first.later is not None and first.later.epoch >= row.epoch:
            in_force[row.source] = max(in_force.get(row.source, -1), row.epoch)
        gap = None if next_offset is None or row.base == next_offset else (next_offset, row.base - 1)
        next_offset, epoch = row.last + 1, row.epoch
        first.pop()
        yield Choice(row._replace(damaged=damaged), KEEP, gap)


def _place(stream: _Stream) -> tuple[int, int, int]:
    row = stream.head
    assert row is not None
    return row.base, row.source, row.position


def _overlap(one: GoodBatch | None, other: GoodBatch | None) -> bool:
    return one is not None and other is not None and one.base <= other.last and other.base <= one.last


def _twins(one: GoodBatch | None, other: GoodBatch) -> bool:
    return one is not None and one._replace(epoch=other.epoch).content == other.content


def _confirmed(stream: _Stream, before: int) -> int:
    """How many adjacent batches have its epoch: the last kept one (`before`), the next one in its source."""
    assert stream.head is not None
    later = stream.later is not None and stream.later.epoch == stream.head.epoch
    return (stream.head.epoch == before) + later


def _conflict(open_: Sequence[_Stream]) -> _Stream | None:
    """The stream whose head is kept, of those that overlap the first one's head; None: no conflict."""
    first = open_[0]
    rivals = [stream for stream in open_[1:] if _overlap(stream.head, first.head)]
    if not rivals:
        return None
    return min([first, *rivals], key=_preference)


def _preference(stream: _Stream) -> tuple[int, int, int]:
    row = stream.head
    assert row is not None
    return -row.epoch, -(row.records or 0), row.source


def _kind(loser: GoodBatch, winner: GoodBatch | None) -> str:
    return "conflict_epoch" if winner is not None and loser.epoch != winner.epoch else "conflict_content"


def _aside(row: GoodBatch, reason: str) -> Aside:
    return Aside(row.segment, row.position, row.size, row.base, row.last, reason, row.source)
