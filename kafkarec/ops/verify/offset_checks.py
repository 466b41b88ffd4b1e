"""Checks that the offsets of the good batches of a file are consecutive.

A broker assigns consecutive offsets, so the base offset of a batch is the last offset of the previous one + 1. The
cleaner may remove records and batches later, which leaves gaps; a base offset is never lower. Offsets missing next to
damage belong to the damage, see Damage.lost_from and lost_to.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from .batch_columns import BatchColumns
from .findings import FindingNotes

_MOST_GAPS = 1000


@dataclass(frozen=True, slots=True)
class Gap:
    """Offsets first..last are missing before the batch at `position` of `file` (None: between two files).

    beside_damage: there is damage at that position
    behind_transaction: the previous batch is transactional data
    why: the explanation, see offset_gaps.py
    """

    file: str | None
    position: int | None
    first: int
    last: int
    beside_damage: bool = False
    behind_transaction: bool = False
    why: str = "unexplained"

    @property
    def length(self) -> int:
        return self.last - self.first + 1


@dataclass(slots=True)
class OffsetTrack:
    """The state of the offset check of one file. `gaps` has the first `_MOST_GAPS`; further ones are counted."""

    file: str
    rising: bool = True
    first: int | None = None
    first_is_last: bool = False  # a wrapper of magic 0 or 1 begins the file: only its last offset is known
    next: int | None = None
    gaps: list[Gap] = field(default_factory=list)
    gap_count: int = 0
    gap_offsets: int = 0
    holes: int = 0
    signs_of_cleaning: int = 0

    def follow(self, rows: BatchColumns, damaged_ends: set[int], notes: FindingNotes) -> None:
        """Checks the batches of one piece. `damaged_ends`: end positions of damage; a gap before a batch at one of them
        belongs to the damage."""
        if not len(rows):
            return
        bases, nexts = rows["base_offset"], rows["next_offset"]
        if self.first is None:
            self.first = bases[0] if bases[0] is not None else rows["last_offset"][0]
            self.first_is_last = bases[0] is None
        if list(bases[1:]) != list(nexts[:-1]) or bases[0] != self.next:
            self._look(bases, nexts, rows, damaged_ends, notes)
        self._signs(rows)
        self.next = nexts[-1] if self.next is None else max(self.next, nexts[-1])

    def _look(
        self,
        bases: Sequence[int | None],
        nexts: Sequence[int],
        rows: BatchColumns,
        damaged: set[int],
        notes: FindingNotes,
    ) -> None:
        positions = rows["position"]
        expected = self.next
        for row, (base, after) in enumerate(zip(bases, nexts, strict=True)):
            # Of a wrapper of magic 0 or 1 only the last offset is known: only a decrease can be detected.
            begin = after - 1 if base is None else base
            if self.rising and self._is_misplaced(row, expected, bases, nexts):
                fits = f"{expected} fits, as the batch behind begins at {bases[row + 1]}"
                notes.add("base_offset_wrong", f"base offset {base} where {fits}", rows.place(row))
                expected = bases[row + 1]
                continue
            if expected is not None and begin < expected:
                detail = f"offsets {begin} to {after - 1}, and the batch in front ends at offset {expected - 1}"
                severity = None if self.rising else "anomaly"
                notes.add("offset_overlap", detail, rows.place(row), severity=severity)
            elif expected is not None and base is not None and base > expected and positions[row] not in damaged:
                after_transaction = row > 0 and rows["is_transactional"][row - 1] and not rows["is_control"][row - 1]
                self._gap(Gap(self.file, positions[row], expected, base - 1, behind_transaction=after_transaction))
            # After a batch that goes back the highest offset stays what it was in a log, and starts anew elsewhere.
            expected = after if expected is None or not self.rising else max(expected, after)
        if not self.rising:
            self.next = None

    @staticmethod
    def _is_misplaced(row: int, expected: int | None, bases: Sequence[int | None], nexts: Sequence[int]) -> bool:
        """Whether with another base offset, which no checksum covers, the batch would fit exactly between the previous
        and the next one."""
        base = bases[row]
        if expected is None or base is None or base == expected or row + 1 == len(bases):
            return False
        return bases[row + 1] == expected + nexts[row] - base

    def _gap(self, gap: Gap) -> None:
        self.gap_count += 1
        self.gap_offsets += gap.length
        if len(self.gaps) < _MOST_GAPS:
            self.gaps.append(gap)

    def _signs(self, rows: BatchColumns) -> None:
        """Notes signs of the cleaner: batches with fewer records than offsets, empty ones, delete horizons."""
        spans = zip(rows["record_count"], rows["base_offset"], rows["last_offset"], strict=True)
        missing = [last - base + 1 - count for count, base, last in spans if count is not None]
        holes = [hole for hole in missing if hole > 0]
        self.holes += sum(holes)
        self.signs_of_cleaning += len(holes)
        self.signs_of_cleaning += sum(horizon is not None for horizon in rows["delete_horizon_ms"])
