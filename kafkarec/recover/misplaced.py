"""Which batches of a log are at the place of their offsets: for salvage and verify, and for readers of transactions.

No checksum covers a base offset; pages may have been exchanged, a block may be there twice, or be another log's. But in
a log offsets rise: those that do not are misplaced, and salvage sets them aside.

    file     1   4   3   2   5        the longest rising sequence: 1 2 5
    holes      ^           ^          where 4 and 3 are, and where their offsets belong

One of them may be a marker, and the log may lack one where it is. So no transaction that is open at such a hole is
known to go on.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from itertools import groupby, pairwise
from typing import Any, NamedTuple, TypeVar

from .holes import Hole
from .offset_order import heaviest_rising
from .steps import Step

_WINDOW = 2048  # number of batches among which the heaviest ascending sequence is searched
_COLUMNS = ("last_offset", "crc", "position", "size_in_bytes")
_UNANCHORED_WEIGHT = 2**-20  # all of a window weigh less than an anchored one


_Batches = TypeVar("_Batches", bound=Any)
"""Adjacent batches that are judged together while they rise: their `base` and `last` offset, `position` and `size` in
bytes, how many `batches` they are, `each` of them alone, and `is_unanchored`: whether no unbroken chain of batches
leads to them from their file's start, or from them to the file's end."""


def mark_unanchored(rows: Iterable[_Batches], segment: Any) -> Iterator[_Batches]:
    """The batches of a segment, with `is_unanchored`. A chain of many batches is as good as one from the start."""
    chain: list[_Batches] = []
    batches = end = 0
    is_anchored = True
    for row in rows:
        if row.position != end:
            yield from chain
            chain, batches, is_anchored = [], 0, False
        end = row.position + row.size
        if is_anchored:
            yield row
            continue
        chain.append(row._replace(is_unanchored=True))
        batches += row.batches
        if batches > _WINDOW:
            is_anchored = True
            yield from (one._replace(is_unanchored=False) for one in chain)
            chain = []
    yield from (one._replace(is_unanchored=end != segment.size) for one in chain)


def judged(rows: Iterable[_Batches]) -> Iterator[tuple[_Batches, bool]]:
    """Yields the batches of a log, each with whether it is at the place of its offsets."""
    window: list[tuple[_Batches, bool]] = []
    batches = next_offset = 0  # batches: those of the window that are not misplaced
    for row in rows:
        window.append((row, True))
        batches += row.batches
        if batches >= 2 * _WINDOW:
            window = _judged_window(window, next_offset)
            batches = sum(one.batches for one, is_placed in window if is_placed)
            at = 0
            while at < len(window) and batches - window[at][0].batches >= _WINDOW:
                one, is_placed = window[at]
                yield one, is_placed
                if is_placed:
                    batches -= one.batches
                    next_offset = one.last + 1
                at += 1
            del window[:at]
    yield from _judged_window(window, next_offset)


def _judged_window(window: list[tuple[_Batches, bool]], next_offset: int) -> list[tuple[_Batches, bool]]:
    """The heaviest ascending sequence of batches from `next_offset` on; what is misplaced already stays so. A block of
    another log between damage may have more batches than the log itself around it: those that were only found there
    count where they do not exclude others."""
    placed = [row for row, is_placed in window if is_placed]
    if not placed or (placed[0].base >= next_offset and all(one.last < other.base for one, other in pairwise(placed))):
        return window
    window = [(one, is_placed) for row, is_placed in window for one in (row.each() if is_placed else (row,))]
    weighed = (
        (one.base if is_placed else -1, one.last, _UNANCHORED_WEIGHT if one.is_unanchored else 1.0)
        for one, is_placed in window
    )
    kept = {*heaviest_rising(weighed, next_offset)}
    return [(one, at in kept) for at, (one, _) in enumerate(window)]


class _StepRow(NamedTuple):
    """A batch of a step. step: the number of that one; row: of the batch in it"""

    step: int
    row: int
    base: int
    last: int
    crc: int
    position: int
    size: int
    is_unanchored: bool = False
    batches: int = 1

    def each(self) -> Iterator[_StepRow]:
        yield self


def judged_steps(steps: Iterable[Step]) -> tuple[Iterator[tuple[Step, bool]], list[Hole]]:
    """The steps of a walk over a whole log, cut into parts, each with whether its batches are at their places, and the
    holes, in order. A misplaced batch is a part, unless the log has it at its place, too: then it is left out."""
    held = [*steps]
    kept: list[_StepRow] = []
    misplaced: list[tuple[_StepRow, int]] = []  # with the number of kept ones before it
    for row, is_placed in judged(_step_rows(held)):
        if is_placed:
            kept.append(row)
        else:
            misplaced.append((row, len(kept)))
    lasts = [row.last for row in kept]
    gaps = set[int]()  # the numbers of the kept batches behind them
    of_steps: list[dict[int, bool]] = [{} for _ in held]  # misplaced row -> whether it is at its place, too
    for row, number in misplaced:
        place = bisect_left(lasts, row.base)
        of_steps[row.step][row.row] = place < len(kept) and kept[place][2:5] == row[2:5]
        gaps |= {place, number}
    holes: list[Hole] = []
    for place in sorted(gaps - {0}):
        before, behind = kept[place - 1], kept[place] if place < len(kept) else None
        first, last = before.last + 1, None if behind is None else behind.base - 1
        if last is None or first <= last:
            begin, end = (held[one.step].number for one in (before, behind or before))
            holes.append(Hole(first, last, tuple(range(begin, end + 1))))
    return _split_at_misplaced(held, of_steps), holes


def _split_at_misplaced(steps: Iterable[Step], misplaced: Iterable[dict[int, bool]]) -> Iterator[tuple[Step, bool]]:
    for step, rows in zip(map(Step.copy, steps), misplaced, strict=True):
        start = 0
        for row, is_copy in rows.items():
            yield step.between(start, row), True
            if not is_copy:
                yield step.between(row, row + 1), False
            start = row + 1
        yield step.between(start, len(step)), True


def _step_rows(steps: Iterable[Step]) -> Iterator[_StepRow]:
    next_offset = 0
    for _, of_file in groupby(enumerate(map(Step.copy, steps)), lambda numbered: numbered[1].number):
        rows: list[_StepRow] = []
        for number, step in of_file:
            columns = step.first_offsets(next_offset), *map(step.column, _COLUMNS)
            rows += (_StepRow(number, row, *one) for row, one in enumerate(zip(*columns, strict=True)))
            next_offset = rows[-1].last + 1 if rows else next_offset
        yield from mark_unanchored(rows, step.segment)
