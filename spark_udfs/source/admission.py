"""The end offsets of a micro-batch: divides maxOffsetsPerTrigger or maxBytesPerTrigger among the partitions.

Each partition gets a share of the limit in proportion to its lag, as in Spark's Kafka source, and stops at the end of
a batch, so that no batch is decompressed twice. Only a single batch that has more bytes than the whole limit exceeds
it; a batch that has more offsets than that is cut. Offsets without records (compacted, lost) are not counted.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from typing import NamedTuple

from .offsets import Offsets
from .paths import TopicPartition


class PendingBatch(NamedTuple):
    """A batch that has still to be read. first: its first offset that has not been read yet; size: bytes."""

    first: int
    next_offset: int
    size: int


class Limit(NamedTuple):
    """The limit of one micro-batch. unit: "offsets" or "bytes"."""

    unit: str
    most: int

    def cost(self, batch: PendingBatch) -> int:
        return batch.size if self.unit == "bytes" else batch.next_offset - batch.first


def end_offsets(
    starts: Offsets,
    ends: Offsets,
    limit: Limit | None,
    batches: Callable[[TopicPartition, int, int], Iterator[PendingBatch]],
    round_number: int = 0,
) -> Offsets:
    """The offsets to read up to, from `starts` and not beyond `ends`, which has the same partitions.

    batches(key, start, end): yields the batches of a partition in order; only as many are consumed as the limit allows
    round_number: increases by one with each call, so that another partition comes first and can read a large batch
    """
    if limit is None or (limit.unit == "offsets" and _total(starts, ends) <= limit.most):
        return dict(ends)
    reached = {key: min(start, ends[key]) for key, start in starts.items()}
    lags = {key: ends[key] - start for key, start in reached.items() if ends[key] > start}
    pending = {key: batches(key, reached[key], ends[key]) for key in lags}
    spent = dict.fromkeys(lags, 0)
    remaining = limit.most
    queue = [(0.0, (number - round_number) % len(lags), key) for number, key in enumerate(sorted(lags))]
    heapq.heapify(queue)
    while queue and remaining > 0:
        _, rank, key = heapq.heappop(queue)
        batch = next(pending[key], None)
        if batch is None:  # no more batches: the other offsets were lost or compacted
            reached[key] = ends[key]
            continue
        cost = limit.cost(batch)
        if cost > remaining:
            if remaining < limit.most:
                continue
            # Larger than the whole limit: it is read alone, otherwise it would never be read.
            reached[key] = min(ends[key], batch.next_offset if limit.unit == "bytes" else batch.first + remaining)
            break
        remaining -= cost
        spent[key] += cost
        reached[key] = min(ends[key], batch.next_offset)
        if reached[key] < ends[key]:
            heapq.heappush(queue, (spent[key] / lags[key], rank, key))
    return reached


def _total(starts: Offsets, ends: Offsets) -> int:
    return sum(max(0, ends[key] - start) for key, start in starts.items())
