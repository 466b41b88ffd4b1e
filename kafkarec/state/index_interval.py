"""Infers the index.interval.bytes of an .index from the distances between its entries.

A batch with an entry begins more than the interval after the previous batch with an entry; a batch without an entry
does not. So each batch sets an upper or a lower bound.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from kafkarec.sidecars.offset_index import OffsetIndex

from .index_builders import DEFAULT_INTERVAL

_ANY = 2**31 - 1


class IntervalRange(NamedTuple):
    """The intervals from low to high, inclusive, that are consistent with an index; low above high: none."""

    low: int = 0
    high: int = _ANY

    def __and__(self, other: IntervalRange) -> IntervalRange:
        return IntervalRange(max(self.low, other.low), min(self.high, other.high))

    @property
    def guess(self) -> int | None:
        """The likeliest one: the default, else a power of two, a round number, or the lowest; None: none fits."""
        if self.low > self.high:
            return None
        power = 1 << self.high.bit_length() - 1 if self.high else 0
        likely = (DEFAULT_INTERVAL, power, self.high // 1000 * 1000, self.high // 100 * 100)
        return next((number for number in likely if self.low <= number <= self.high), self.low)


NOTHING_FITS = IntervalRange(1, 0)


class IntervalFit:
    """Computes `fit`, the IntervalRange of an index, from the positions of all batches, added in order."""

    def __init__(self, index: OffsetIndex) -> None:
        self._entries = iter(index)
        self._next = next(self._entries, None)
        self._last = 0
        self._fit = IntervalRange()

    def add(self, positions: Iterable[int]) -> None:
        low, high = self._fit
        for position in positions:
            distance = position - self._last
            if self._next is None or position < self._next.position:
                low = max(low, distance)
                continue
            if position > self._next.position:  # an entry that points at no batch
                self._fit, self._next = NOTHING_FITS, None
                return
            high = min(high, distance - 1)
            self._last = position
            self._next = next(self._entries, None)
        self._fit = IntervalRange(low, high) & self._fit

    @property
    def fit(self) -> IntervalRange:
        return self._fit if self._next is None else NOTHING_FITS
