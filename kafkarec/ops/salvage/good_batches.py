"""The good batches of a source in offset order, with the fields that merging needs.

The source is read with errors="skip": CRC, structure and payload are checked, and good batches are found after damage.
A good batch may still be in the wrong place: no checksum covers the base offset, and a damaged file system can put
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
# From here on, reasons of batches whose checksum is right but which no reader accepts. They are set aside.
_FIRST_PAYLOAD_REASON = list(REASONS).index("crc_mismatch") + 1
_WINDOW = 2048  # batches among which those out of order are found
_MOST_OFFSETS = 2**31  # of a segment
_TAIL_BYTES = 64  # bytes of a tail that are checked for zeros
_WHOLE_BATCH = frozenset(list(REASONS)[_FIRST_PAYLOAD_REASON:]) - {"unreadable", "control_record_invalid"}


class GoodBatch(NamedTuple):
    """A good batch.

    base      base offset; of a wrapper message the next offset after the previous batch, at most its own
    damaged   there is damage between it and the previous batch in its source
    source    the index of its source
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
        """The fields by which batches of two sources are compared."""
        return self.base, self.last, self.epoch, self.crc, self.size


class Aside(NamedTuple):
    """Bytes that are kept outside of the log, with the reason (a key of `report.REASONS` or `errors.REASONS`)."""

    segment: Segment
    position: int
    size: int
    base: int | None
    last: int | None
    reason: str
    source: int


class Notes(NamedTuple):
    """Receives what is found besides good batches.

    aside             called with each Aside
    tail              (path, position, length, kind) of bytes at a file's end that are neither batch nor damage; kind is
                      "cut" or "preallocated"
    ended_in_damage   source -> its next offset, for sources that end in damage
    """

    damage: list[Damage]
    aside: Callable[[Aside], None]
    tail: list[tuple[str, int, int, str]]
    ended_in_damage: dict[int, int | None]


def read(segment: Segment, number: int, next_offset: int | None, cap: int, notes: Notes) -> Iterator[GoodBatch]:
    """The good batches of one file, in file order."""
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
    """The file in pieces. If it cannot be opened for a disk error, all of it is damage."""
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
    """A piece that is all damage."""

    damage: list[Damage]
    batches: Any = BatchTable.of([])
    remaining: int = 0


def _tail(segment: Segment, position: int) -> str:
    try:
        return "cut" if any(segment.raw(position, _TAIL_BYTES)) else "preallocated"
    except OSError:
        return "cut"


def ordered(
    segments: list[Segment], number: int, next_offset: int, cap: int, notes: Notes, only: int | None = None
) -> Iterator[GoodBatch]:
    """The batches of segments (or of the one with index `only`) in ascending offset order; others are set aside.

    A batch is set aside if its offsets are outside of its segment's, by the names of this and the next segment, or more
    than 2^31 above its base offset; or if it is not part of the longest ascending sequence of batches around it.
    """
    window: list[GoodBatch] = []
    for row in _within(segments, number, next_offset, cap, notes, only):
        window.append(row)
        if len(window) == 2 * _WINDOW:
            kept = _longest_ascending(window, next_offset, notes)
            window = kept[_WINDOW:]
            yield from kept[:_WINDOW]
            if len(kept) > _WINDOW:
                next_offset = kept[_WINDOW - 1].last + 1
            elif kept:
                next_offset = kept[-1].last + 1
    yield from _longest_ascending(window, next_offset, notes)


def _longest_ascending(window: list[GoodBatch], next_offset: int, notes: Notes) -> list[GoodBatch]:
    """The longest ascending sequence of batches from `next_offset` on; the others are set aside.

    Longest increasing subsequence: `ends[n]` is the batch with the lowest last offset that n others can precede.
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
    """Batches whose offsets are within their segment's; the others are set aside."""
    base_offsets: list[int | None] = [segment.base_offset for segment in segments]
    for at, segment in enumerate(segments):
        if only not in (None, at):
            continue
        low = base_offsets[at] or 0
        later = (base_offset for base_offset in base_offsets[at + 1 :] if base_offset is not None and base_offset > low)
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
    """The batches of a file in any order, as runs of ascending offsets. A single batch that is too high is set
    aside."""
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
    """One iterator per source, and one per run of a loose source."""
    found: list[Iterator[GoodBatch]] = []
    for number, source in enumerate(sources):
        if source.loose:
            found += [iter(run) for segment in source.segments for run in loose(segment, number, cap, notes)]
        else:
            found.append(ordered(source.segments, number, 0, cap, notes))
    return found
