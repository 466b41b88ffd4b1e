"""The entries of one .txnindex, found by offset and by producer."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import accumulate, pairwise
from operator import attrgetter

from kafkarec._lazy import cached_property
from kafkarec.format.side_files import AbortedTransaction

from .holes import Hole

_LAST_OFFSET = attrgetter("last_offset")


class AbortedIndex:
    """entries: by the offsets of their markers."""

    def __init__(self, entries: Sequence[AbortedTransaction]) -> None:
        self.entries = sorted(entries, key=_LAST_OFFSET)
        self._is_in_order = all(one.last_offset < other.last_offset for one, other in pairwise(entries))

    @cached_property
    def _by_producer(self) -> dict[int, tuple[list[int], list[int]]]:
        """producer id -> the last offset of each of its entries, and the lowest first offset from that entry on."""
        found: dict[int, list[AbortedTransaction]] = {}
        for entry in self.entries:
            found.setdefault(entry.producer_id, []).append(entry)
        return {
            producer: (
                [one.last_offset for one in entries],
                [*accumulate((one.first_offset for one in reversed(entries)), min)][::-1],
            )
            for producer, entries in found.items()
        }

    def is_complete_to(self, offset: int) -> bool:
        """Whether it proves which markers up to the offset are ABORTs: it is in order, as a broker writes it, and has
        an entry behind the offset."""
        return self._is_in_order and bool(self.entries) and offset < self.entries[-1].last_offset

    def within(self, hole: Hole) -> Sequence[AbortedTransaction]:
        """The entries whose markers are in the hole."""
        start = bisect_left(self.entries, hole.first, key=_LAST_OFFSET)
        stop = len(self.entries) if hole.last is None else bisect_right(self.entries, hole.last, key=_LAST_OFFSET)
        return self.entries[start:stop]

    def overlaps(self, producer: int, first: int, last: int) -> bool:
        """Whether an entry of the producer has some of the offsets."""
        lasts, lowest = self._by_producer.get(producer, ([], []))
        at = bisect_left(lasts, first)
        return at < len(lasts) and lowest[at] <= last
