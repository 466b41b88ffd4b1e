"""Batches of a log that are not at the place of their offsets: pages were exchanged, a block is there twice, or a base
offset is damaged.

    file     1   4   3   2   5        the longest rising sequence, as salvage keeps it: 1 2 5
    holes      ^           ^          where 4 and 3 are, and where their offsets belong

One of the others may be a marker, and the log may lack one where it is. So no transaction that is open at such a hole
is known to go on.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from .holes import Hole
from .offset_order import longest_rising
from .steps import PartialStep, Step


class MisplacedBatches(NamedTuple):
    """rows: of each step of a walk its misplaced batches; copies: those that the log has at their place, too; holes: in
    order."""

    rows: list[list[int]]
    copies: list[set[int]]
    holes: list[Hole]

    def left_out_of(self, steps: Iterable[Step]) -> Iterator[Step]:
        """The same steps without these batches."""
        for step, rows, copies in zip(steps, self.rows, self.copies, strict=True):
            yield PartialStep(step, rows, copies) if rows else step


def misplaced_batches(steps: Iterable[Step]) -> MisplacedBatches:
    """Those of a whole log."""
    bases, lasts, checksums, segments, begins = array("q"), array("q"), array("Q"), array("q"), array("q")
    for step in steps:
        begins.append(len(bases))
        bases.extend(step.first_offsets(lasts[-1] + 1 if lasts else 0))
        lasts.extend(step.column("last_offset"))
        checksums.extend(step.column("crc"))
        segments.extend([step.number] * len(step))
    kept = longest_rising(bases, lasts, range(len(bases)))
    kept_lasts = [lasts[at] for at in kept]
    found = MisplacedBatches([[] for _ in begins], [set() for _ in begins], [])
    gaps = set[int]()  # the numbers of the kept batches behind them
    for at in sorted({*range(len(bases))}.difference(kept)):
        step_number = bisect_left(begins, at + 1) - 1
        row, place = at - begins[step_number], bisect_left(kept_lasts, bases[at])
        found.rows[step_number].append(row)
        own = (bases[at], lasts[at], checksums[at])
        if place < len(kept) and own == (bases[kept[place]], lasts[kept[place]], checksums[kept[place]]):
            found.copies[step_number].add(row)
        gaps |= {place, bisect_left(kept, at)}
    for place in sorted(gaps - {0}):
        before, behind = kept[place - 1], kept[place] if place < len(kept) else None
        first, last = lasts[before] + 1, None if behind is None else bases[behind] - 1
        if last is None or first <= last:
            numbers = range(segments[before], segments[before if behind is None else behind] + 1)
            found.holes.append(Hole(first, last, tuple(numbers)))
    return found
