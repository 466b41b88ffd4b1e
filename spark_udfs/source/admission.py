"""How far a micro-batch goes: maxOffsetsPerTrigger or maxBytesPerTrigger, shared out among the partitions.

A partition gets its part of the limit by how far it is behind, as in Spark's Kafka source, and stops at a batch border,
so that nothing is decompressed twice. The limit is never passed, but by one batch that is larger in bytes than all of
it; one that has more offsets is cut. Offsets that are not there (compacted, lost) count nothing.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from typing import NamedTuple

from .offsets import Offsets
from .paths import Key


class Step(NamedTuple):
    """One batch. first: the first offset of it that is still to be read; size: bytes."""

    first: int
    next_offset: int
    size: int


class Limit(NamedTuple):
    """unit: "offsets" or "bytes"."""

    unit: str
    most: int

    def weight(self, step: Step) -> int:
        return step.size if self.unit == "bytes" else step.next_offset - step.first


def admitted(
    starts: Offsets,
    ends: Offsets,
    limit: Limit | None,
    steps: Callable[[Key, int, int], Iterator[Step]],
    turn: int = 0,
) -> Offsets:
    """The offsets to read up to, from `starts` and not beyond `ends`, which has the same partitions.

    steps(key, start, end): the partition's batches there, in order; asked only for what the limit lets through
    turn: goes up by one from call to call; who begins changes with it, so that a large batch gets its place
    """
    if limit is None or (limit.unit == "offsets" and _total(starts, ends) <= limit.most):
        return dict(ends)
    found = {key: min(start, ends[key]) for key, start in starts.items()}
    lags = {key: ends[key] - start for key, start in found.items() if ends[key] > start}
    walks = {key: steps(key, found[key], ends[key]) for key in lags}
    used = dict.fromkeys(lags, 0)
    left = limit.most
    waiting = [(0.0, (number - turn) % len(lags), key) for number, key in enumerate(sorted(lags))]
    heapq.heapify(waiting)
    while waiting and left > 0:
        _, place, key = heapq.heappop(waiting)
        step = next(walks[key], None)
        if step is None:  # nothing but what is lost, up to the end
            found[key] = ends[key]
            continue
        weight = limit.weight(step)
        if weight > left:
            if left < limit.most:
                continue
            # Larger than all of the limit: it goes through alone, or it never will.
            found[key] = min(ends[key], step.next_offset if limit.unit == "bytes" else step.first + left)
            break
        left -= weight
        used[key] += weight
        found[key] = min(ends[key], step.next_offset)
        if found[key] < ends[key]:
            heapq.heappush(waiting, (used[key] / lags[key], place, key))
    return found


def _total(starts: Offsets, ends: Offsets) -> int:
    return sum(max(0, ends[key] - start) for key, start in starts.items())
