"""Checks that the offsets of the good batches of a file are consecutive.

A broker assigns consecutive offsets, so the base offset of a batch is the last offset of the previous one + 1. The
cleaner may remove records and batches later, which leaves gaps, but a base offset is never lower. Offsets that are
missing next to damage belong to the damage; see Damage.lost_from and lost_to.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from kafkarec.recover.offset_order import MAX_JUMP
from kafkarec.recover.steps import Step

from .findings import FindingCollector, place_of

_MAX_GAPS = 1000


@dataclass(frozen=True, slots=True)
class Gap:
    """The offsets `first` to `last` are missing before the batch at `position` of `file` (None: between two files).

    next_to_damage: whether there is damage at that position
    after_transaction: whether the previous batch is transactional data
    why: the explanation, see offset_gaps.py
    """

    file: str | None
    position: int | None
    first: int
    last: int
    next_to_damage: bool = False
    after_transaction: bool = False
    why: str = "unexplained"

    @property
    def length(self) -> int:
        return self.last - self.first + 1


@dataclass(slots=True)
class FileOffsets:
    """The offset check of one file.

    rising               whether offsets must ascend, as in a log's segment
    first_is_last        the file begins with a wrapper of magic 0 or 1, of which only the last offset is known
    gaps                 the first `_MAX_GAPS` gaps; `gap_count` and `gap_offsets` count all
    signs_of_cleaning    number of signs that the log cleaner worked on the file
    """

    file: str
    rising: bool = True
    first: int | None = None
    first_is_last: bool = False
    next: int | None = None
    gaps: list[Gap] = field(default_factory=list)
    gap_count: int = 0
    gap_offsets: int = 0
    signs_of_cleaning: int = 0

    def check(self, step: Step, damaged_ends: set[int], findings: FindingCollector) -> None:
        """Checks the good batches of the next piece. damaged_ends: end positions of damage; a gap before a batch at one
        of them belongs to the damage."""
        if not len(step):
            return
        bases, nexts = step.column("base_offset"), step.column("next_offset")
        if self.first is None:
            self.first = bases[0] if bases[0] is not None else step.column("last_offset")[0]
            self.first_is_last = bases[0] is None
        follows = self.next is None or bases[0] == self.next
        end = nexts[-1]
        if not follows or bases[1:] != nexts[:-1]:
            end = self._check_rows(bases, nexts, step, damaged_ends, findings)
        self._count_signs_of_cleaning(step)
        self.next = end if self.next is None else max(self.next, end)

    def _check_rows(
        self,
        bases: Sequence[int | None],
        nexts: Sequence[int],
        step: Step,
        damaged: set[int],
        findings: FindingCollector,
    ) -> int:
        """Returns the next offset after these batches."""
        positions = step.column("position")
        expected = self.next
        for row, (base, after) in enumerate(zip(bases, nexts, strict=True)):
            # Only the last offset of a wrapper of magic 0 or 1 is known, so only a decrease can be detected.
            begin = after - 1 if base is None else base
            if self.rising and expected is not None and self._is_misplaced(row, expected, bases, nexts):
                following = bases[row + 1] if row + 1 < len(bases) else None
                ends = f", and the next one begins at {following}" if following is not None else ""
                detail = f"base offset {base}, but the previous batch ends at offset {expected - 1}{ends}"
                findings.add("base_offset_wrong", detail, place_of(step, row))
                expected = expected if following is None else max(expected, following)
                continue
            if expected is not None and begin < expected:
                detail = f"offsets {begin} to {after - 1}, but the previous batch ends at offset {expected - 1}"
                severity = None if self.rising else "anomaly"
                findings.add("offset_overlap", detail, place_of(step, row), severity=severity)
            elif expected is not None and base is not None and base > expected and positions[row] not in damaged:
                after_transaction = (
                    row > 0 and step.column("is_transactional")[row - 1] and not step.column("is_control")[row - 1]
                )
                self._add_gap(Gap(self.file, positions[row], expected, base - 1, after_transaction=after_transaction))
            # After a batch with lower offsets: in a log the highest offset counts, elsewhere that of the batch.
            expected = after if expected is None or not self.rising else max(expected, after)
        if not self.rising:
            self.next = None
        return nexts[-1] if expected is None else expected

    @staticmethod
    def _is_misplaced(row: int, expected: int, bases: Sequence[int | None], nexts: Sequence[int]) -> bool:
        """Whether the base offset, which no checksum covers, is too high: above that of the next batch, which fits the
        previous one, or further away than offsets of a segment are. (Where it has one right value it is restored.)"""
        base, following = bases[row], bases[row + 1] if row + 1 < len(bases) else None
        if base is None or base <= expected:
            return False
        return base - expected > MAX_JUMP or (following is not None and expected <= following < nexts[row])

    def _add_gap(self, gap: Gap) -> None:
        self.gap_count += 1
        self.gap_offsets += gap.length
        if len(self.gaps) < _MAX_GAPS:
            self.gaps.append(gap)

    def _count_signs_of_cleaning(self, step: Step) -> None:
        """Counts signs of the cleaner: batches with fewer records than offsets, empty ones, delete horizons."""
        counts = step.column("record_count")
        if counts != step.offset_counts:
            spans = zip(counts, step.offset_counts, strict=True)
            self.signs_of_cleaning += sum(count is not None and count < offsets for count, offsets in spans)
        self.signs_of_cleaning += len(step) - step.column("delete_horizon_ms").count(None)
