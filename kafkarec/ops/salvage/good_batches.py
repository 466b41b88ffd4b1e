"""A source's good batches in offset order, each with what the choice between sources needs.

The engine reads with errors="skip": CRC, structure and payload are checked, damage is searched behind. What it gives
is good, and may yet be out of place: no checksum covers the base offset, and a file system that lost its way puts
blocks of one file into another. Such batches are set aside, never dropped.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any, NamedTuple

from kafkarec.damage import Damage, sentence
from kafkarec.errors import REASONS
from kafkarec.storage import Segment
from kafkarec.tables.records import BatchTable

from .partition_sources import MEDIUM, SalvageSource

_COLUMNS = ("base_offset", "last_offset", "partition_leader_epoch", "crc", "size_in_bytes", "record_count", "position")
# Behind a good checksum: the bytes are what was written, and yet no reader can use them. They are set aside.
_FIRST_PAYLOAD_REASON = list(REASONS).index("crc_mismatch") + 1
_WINDOW = 2048  # batches that are looked at together, to tell who is out of order
_MOST_OFFSETS = 2**31  # of a segment
_LOOK = 64  # bytes of a tail that tell what it is
_WHOLE_BATCH = frozenset(list(REASONS)[_FIRST_PAYLOAD_REASON:]) - {"unreadable", "control_record_invalid"}


class GoodBatch(NamedTuple):
    """A good batch. base: of a wrapper message the offset behind the batch in front of it, at most its own.

    damaged   damage lies between it and the batch in front of it, in its source
    source    the number of its source
    """

    base: int
    last: int
    epoch: int
    crc: int
    size: int
    records: int | None
    segment: Segment
    position: int
    damaged: bool
    source: int

    @property
    def content(self) -> tuple[int, int, int, int, int]:
        """What equal batches have in common."""
        return self.base, self.last, self.epoch, self.crc, self.size


class Aside(NamedTuple):
    """Bytes that are kept, but not in the log, and why (a snake_case word)."""

    segment: Segment
    position: int
    size: int
    base: int | None
    last: int | None
    reason: str
    source: int


class Notes(NamedTuple):
    """Where a reading leaves what is not a row. `tail`: (path, position, length, kind) of bytes at a file's end that
    are no batch and no damage, "cut" or "preallocated"; `ended_in_damage`: source -> its next offset, where the last
    thing in it is damage."""

    damage: list[Damage]
    aside: Callable[[Aside], None]
    tail: list[tuple[str, int, int, str]]
    ended_in_damage: dict[int, int | None]


def read(segment: Segment, number: int, next_offset: int | None, cap: int, notes: Notes) -> Iterator[GoodBatch]:
    """The good batches of one file, as they lie there."""
    damaged, end = number in notes.ended_in_damage, 0
    for piece in _pieces(segment, cap, next_offset):
        waiting = sorted(piece.damage, key=lambda damage: damage.position)
        for damage in waiting:
            notes.damage.append(damage)
            if damage.reason in _WHOLE_BATCH:
                notes.aside(Aside(segment, damage.position, damage.length, None, None, damage.reason, number))
            end = max(end, damage.position + damage.length)
        table = piece.batches
        for base, last, epoch, crc, size, records, position in zip(*map(table.column, _COLUMNS), strict=True):
            while waiting and waiting[0].position < position:
                waiting.pop(0)
                damaged = True
            if base is None:
                base = min(last, segment.base_offset or 0 if next_offset is None else max(next_offset, 0))
            next_offset = last + 1
            end = max(end, position + size)
            yield GoodBatch(
                base, last, -1 if epoch is None else epoch, crc, size, records, segment, position, damaged, number
            )
            damaged = False
        damaged = damaged or bool(waiting)
        if piece.remaining:
            notes.tail.append((segment.path, end, piece.remaining, _tail(segment, end)))
    notes.ended_in_damage.pop(number, None)
    if damaged:
        notes.ended_in_damage[number] = next_offset


def _pieces(segment: Segment, cap: int, next_offset: int | None) -> Iterator[Any]:
    """The file in pieces; a file that cannot even be opened is damage as a whole."""
    try:
        with segment.opened():
            pass
    except OSError as error:
        if error.errno not in MEDIUM:
            raise
        fault = {"position": 0, "file": segment.path, "detail": (error.strerror or str(error)).lower()}
        text = sentence("unreadable", fault)
        yield _Lost([Damage(segment.path, 0, segment.size, next_offset, None, segment.size, "unreadable", text)])
        return
    yield from segment.stream(columns=[], control=True, errors="skip", check_crcs=True, max_decompressed_bytes=cap)


class _Lost(NamedTuple):
    """A piece that is nothing but damage."""

    damage: list[Damage]
    batches: Any = BatchTable.of([])
    remaining: int = 0


def _tail(segment: Segment, position: int) -> str:
    try:
        return "cut" if any(segment.raw(position, _LOOK)) else "preallocated"
    except OSError:
        return "cut"


def ordered(
    segments: list[Segment], number: int, next_offset: int, cap: int, notes: Notes, only: int | None = None
) -> Iterator[GoodBatch]:
    """The batches of segments in order (of one of them: `only`) whose offsets go up; those that do not are set aside.

    A batch is out of place where its offsets lie outside of its segment's, by the names of this and the next one, or
    more than 2^31 above its base; and where more of the batches around it go up without it than with it.
    """
    window: list[GoodBatch] = []
    for row in _within(segments, number, next_offset, cap, notes, only):
        window.append(row)
        if len(window) == 2 * _WINDOW:
            kept = _rising(window, next_offset, notes)
            window = kept[_WINDOW:]
            yield from kept[:_WINDOW]
            if len(kept) > _WINDOW:
                next_offset = kept[_WINDOW - 1].last + 1
            elif kept:
                next_offset = kept[-1].last + 1
    yield from _rising(window, next_offset, notes)


def _rising(window: list[GoodBatch], next_offset: int, notes: Notes) -> list[GoodBatch]:
    """The largest part of the batches whose offsets go up from `next_offset` on; the others are set aside.

    A longest increasing subsequence: `ends[n]` is the batch with the lowest last offset that n others can precede.
    """
    if not window or (window[0].base >= next_offset and all(one.last < other.base for one, other in pairwise(window))):
        return window
    ends: list[int] = []
    lasts: list[int] = []
    before: list[int] = [-1] * len(window)
    for at, row in enumerate(window):
        if row.base < next_offset:
            continue
        length = bisect_left(lasts, row.base)
        before[at] = ends[length - 1] if length else -1
        if length == len(ends):
            ends.append(at)
            lasts.append(row.last)
        elif row.last < lasts[length]:
            ends[length], lasts[length] = at, row.last
    chosen = set()
    at = ends[-1] if ends else -1
    while at >= 0:
        chosen.add(at)
        at = before[at]
    kept: list[GoodBatch] = []
    lost = False
    for number, row in enumerate(window):
        if number in chosen:
            kept.append(row._replace(damaged=row.damaged or lost))
            lost = False
        else:
            notes.aside(_aside(row, "offset_out_of_order"))
            lost = True
    return kept


def _aside(row: GoodBatch, reason: str) -> Aside:
    return Aside(row.segment, row.position, row.size, row.base, row.last, reason, row.source)


def _within(
    segments: list[Segment], number: int, next_offset: int, cap: int, notes: Notes, only: int | None
) -> Iterator[GoodBatch]:
    """Batches whose offsets are those of their segment."""
    borders: list[int | None] = [segment.base_offset for segment in segments]
    for at, segment in enumerate(segments):
        if only not in (None, at):
            continue
        low = borders[at] or 0
        later = (border for border in borders[at + 1 :] if border is not None and border > low)
        high = min(next(later, low + _MOST_OFFSETS), low + _MOST_OFFSETS)
        lost = False
        for row in read(segment, number, max(next_offset, low), cap, notes):
            if low <= row.base and row.last < high:
                yield row._replace(damaged=True) if lost else row
                lost = False
            else:
                notes.aside(_aside(row, "outside_of_segment"))
                lost = True


def loose(segment: Segment, number: int, cap: int, notes: Notes) -> list[list[GoodBatch]]:
    """The batches of a file in any order, as runs of rising offsets. One that jumps ahead alone is set aside."""
    runs: list[list[GoodBatch]] = []
    for row in read(segment, number, None, cap, notes):
        run = runs[-1] if runs else []
        if len(run) > 1 and run[-2].last < row.base <= run[-1].last:
            notes.aside(_aside(run.pop(), "offset_out_of_order"))
        if not run or row.base <= run[-1].last:
            run = []
            runs.append(run)
        run.append(row)
    return runs


def streams(sources: list[SalvageSource], cap: int, notes: Notes) -> list[Iterator[GoodBatch]]:
    """One stream per source, and one per run of a loose one."""
    found: list[Iterator[GoodBatch]] = []
    for number, source in enumerate(sources):
        if source.loose:
            found += [iter(run) for segment in source.segments for run in loose(segment, number, cap, notes)]
        else:
            found.append(ordered(source.segments, number, 0, cap, notes))
    return found
