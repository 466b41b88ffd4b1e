"""Checks that the offsets of the good batches of a file are consecutive.

A broker assigns consecutive offsets, so the base offset of a batch is the last offset of the previous one + 1. The
cleaner may remove records and batches later, which leaves gaps, but a base offset is never lower. Offsets that are
missing next to damage belong to the damage; see Damage.lost_from and lost_to.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from kafkarec._core import RowCheck
from kafkarec.recover.offset_order import MAX_JUMP
from kafkarec.recover.steps import Step

from .findings import Findings, place_of

# What RowCheck.take says of the batches of a step, from `_c/row_checks.pxd`.
APART, GAP, OFFSETS, EPOCH, HEADER = 1, 2, 4, 8, 16
_MAX_GAPS = 1000


@dataclass(frozen=True, slots=True)
class Gap:
    """The offsets `first` to `last` are missing before the batch at `position` of `file` (None: between two files)."""

    file: str
    position: int | None
    first: int
    last: int

    @property
    def length(self) -> int:
        return self.last - self.first + 1


class Gaps:
    """Gaps in a file, of which the first `_MAX_GAPS` are listed, or between files: `count` and `offsets` are of all."""

    def __init__(self, gaps: Iterable[Gap] = ()) -> None:
        self.listed = list(gaps)
        self.count, self.offsets = len(self.listed), sum(gap.length for gap in self.listed)

    def add(self, gap: Gap) -> None:
        self.count += 1
        self.offsets += gap.length
        if len(self.listed) < _MAX_GAPS:
            self.listed.append(gap)

    def remove(self, gaps: Collection[Gap]) -> None:
        """Removes some that are listed."""
        self.listed = [gap for gap in self.listed if gap not in gaps]
        self.count -= len(gaps)
        self.offsets -= sum(gap.length for gap in gaps)


@dataclass(slots=True)
class FileOffsetCheck:
    """The offset check of one file.

    rising               whether offsets must ascend, as in a log's segment
    first_is_last        the file begins with a wrapper of magic 0 or 1, of which only the last offset is known
    follows_break, before_break   batches before the first, or behind the last, are damaged or not the log's, as
                         log_order says
    """

    file: str
    rising: bool = True
    first: int | None = None
    first_is_last: bool = False
    next: int | None = None
    follows_break: bool = False
    before_break: bool = False
    gaps: Gaps = field(default_factory=Gaps)

    def check(self, step: Step, rows: RowCheck, flags: int, gap_rows: Sequence[int], findings: Findings) -> None:
        """Checks the good batches of the next step. flags, gap_rows: what `rows` says of them; a gap before a batch at
        the end of damage belongs to the damage."""
        if self.first is None:
            base = step.cell("base_offset", 0)
            self.first = step.cell("last_offset", 0) if base is None else base
            self.first_is_last = base is None
        damaged = {one.position + one.length for one in step.damage}
        if flags & OFFSETS:
            self.next = self._check_rows(step, damaged, findings)
            rows.expect(self.next)
            return
        for row in gap_rows:
            expected = step.cell("next_offset", row - 1) if row else self.next or 0
            if step.cell("position", row) not in damaged:
                self.add_gap(step.cell("position", row), expected, step.cell("base_offset", row) - 1)
        self.next = rows.next_offset

    def _check_rows(self, step: Step, damaged: set[int], findings: Findings) -> int:
        """Returns the next offset after these batches."""
        bases, nexts, positions = map(step.column, ("base_offset", "next_offset", "position"))
        expected = self.next
        for row, (base, after) in enumerate(zip(bases, nexts, strict=True)):
            # Only the last offset of a wrapper of magic 0 or 1 is known, so only a decrease can be detected.
            begin = after - 1 if base is None else base
            if self.rising and expected is not None and self._is_misplaced(row, expected, bases, nexts):
                following = bases[row + 1] if row + 1 < len(bases) else None
                ends = f", and the next one begins at {following}" if following is not None else ""
                detail = f"base offset {base}, but the previous batch ends at offset {expected - 1}{ends}"
                findings.add("base_offset_wrong", detail, *place_of(step, row))
                expected = expected if following is None else max(expected, following)
                continue
            if expected is not None and begin < expected:
                detail = f"offsets {begin} to {after - 1}, but the previous batch ends at offset {expected - 1}"
                severity = None if self.rising else "anomaly"
                findings.add("offset_overlap", detail, *place_of(step, row), severity=severity)
            elif expected is not None and base is not None and base > expected and positions[row] not in damaged:
                self.add_gap(positions[row], expected, base - 1)
            # After a batch with lower offsets: in a log the highest offset counts, elsewhere that of the batch.
            expected = after if expected is None or not self.rising else max(expected, after)
        return int(nexts[-1]) if expected is None else expected

    @staticmethod
    def _is_misplaced(row: int, expected: int, bases: Sequence[int | None], nexts: Sequence[int]) -> bool:
        """Whether the base offset, which no checksum covers, is too high: above that of the next batch, which fits the
        one before, or further above than a log goes on."""
        base, following = bases[row], bases[row + 1] if row + 1 < len(bases) else None
        if base is None or base <= expected:
            return False
        return base - expected > MAX_JUMP or (following is not None and expected <= following < nexts[row])

    def add_gap(self, position: int, first: int, last: int) -> None:
        """Adds the offsets that are missing before the batch at `position`."""
        self.gaps.add(Gap(self.file, position, first, last))
