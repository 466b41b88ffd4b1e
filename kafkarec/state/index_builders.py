"""Rebuilds a segment's indexes from its batches, byte for byte as LogSegment.recover() of Kafka 4.4 writes them.

Recovery does the following for each batch of a segment, with its frame and header alone:

* largest timestamp: if the batch's max timestamp is above all earlier ones, (max timestamp, last offset of this batch)
* .index: if this batch starts more than `interval` bytes after the last batch with an entry (at first: after byte 0),
  an entry (last offset of this batch, its position)
* .timeindex: with each .index entry an entry for the largest timestamp so far, this batch included, unless that is the
  last entry already; one more at the end of the segment, from which retention gets the segment's age
* .txnindex: an entry for each ABORT marker that ends a transaction with data in this partition
* leader epochs: the first base offset of each new epoch; magic 2 only

A broker that closed or rolled the segment wrote the same files with three harmless exceptions: it counts the interval
from 0 after a start or a truncation; brokers before 4.1 (KAFKA-806) wrote one entry per append instead of one per
batch, with the last offset of the whole append (so a follower's index has fewer entries, KAFKA-7487); and the last
stable offsets of aborts in one append regard all transactions of that append as begun. An active segment's .timeindex
has no last entry yet, and both indexes end in zeros.

Producer snapshots come from producers.py. They include the epochs of markers that the log cleaner emptied, as in the
snapshot of the broker that wrote them (recovery loses these). A broker's own snapshots lack expired producers
(`producer.id.expiration.ms`). Epochs without records, and starts of epochs in compacted logs, are only in the old
leader-epoch-checkpoint; recovery and this module start from it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from kafkarec.format.java_integers import INT_MAX
from kafkarec.format.side_files import AbortedTransaction
from kafkarec.sidecars import leader_epochs, offset_index, time_index, txn_index

COLUMNS = ("position", "base_offset", "last_offset", "max_timestamp", "partition_leader_epoch")
"""Those of a batch from which the indexes are made."""
DEFAULT_INTERVAL = 4096  # index.interval.bytes


class SegmentIndexes(NamedTuple):
    """The bytes of a segment's .index, .timeindex and .txnindex (empty where a broker has no such file).

    problems   sentences about batches that do not fit an index entry; Kafka's recovery fails on them
    """

    offset_index: bytes
    time_index: bytes
    txn_index: bytes
    problems: tuple[str, ...]

    @property
    def files(self) -> dict[str, bytes]:
        """{suffix: bytes} of the files that a broker would have: .txnindex only if it has entries."""
        files = {offset_index.SUFFIX: self.offset_index, time_index.SUFFIX: self.time_index}
        return files | ({txn_index.SUFFIX: self.txn_index} if self.txn_index else {})


class SegmentIndexBuilder:
    """Builds the indexes of one segment from its batches, added in order.

    base_offset   of the segment, from its name
    epochs        the leader epochs so far; updated by `append`
    interval      index.interval.bytes
    """

    def __init__(
        self,
        base_offset: int,
        epochs: list[leader_epochs.EpochEntry] | None = None,
        interval: int = DEFAULT_INTERVAL,
    ) -> None:
        self.epochs = [] if epochs is None else epochs
        self._base, self._interval = base_offset, interval
        self._index, self._timeindex, self._txnindex = bytearray(), bytearray(), bytearray()
        self._problems: dict[str, str] = {}  # kind -> a sentence about the first batch of which that is so
        self._indexed, self._last_offset = 0, -1  # the last batch for which an entry was due; offset of the last entry
        # The largest timestamp with the last offset of the first batch that has it, and those of the last time entry
        self._largest = self._written = -1, base_offset

    def append(self, batches: Iterable[tuple[Any, ...]], aborted: Iterable[AbortedTransaction]) -> None:
        """Adds the next batches. batches: COLUMNS of each; aborted: the transactions that are aborted in them."""
        base, highest = self._base, max(self.epochs[-1].epoch if self.epochs else -1, -1)
        for position, base_offset, last_offset, timestamp, epoch in batches:
            if not 0 <= last_offset - base <= INT_MAX or position > INT_MAX:
                why = f"offset {last_offset} at byte {position} does not fit an index of base {base}"
                self._problems.setdefault("far", why)
                continue
            if timestamp is not None and timestamp > self._largest[0]:
                self._largest = timestamp, last_offset
            if position - self._indexed > self._interval:
                self._indexed = position
                self._add_entry(last_offset, position)
            if epoch is not None and epoch > highest:
                highest = epoch
                leader_epochs.assign(self.epochs, epoch, base_offset)
        self._txnindex += txn_index.write(aborted)

    def _add_entry(self, last_offset: int, position: int) -> None:
        if last_offset <= self._last_offset:
            why = f"offset {last_offset} at byte {position} is not above the previous one, {self._last_offset}"
            self._problems.setdefault("order", why)
            return
        self._last_offset = last_offset
        self._index += offset_index.write([(last_offset, position)], self._base)
        for entry in self._due_time():
            self._timeindex += time_index.write([entry], self._base)
            self._written = entry

    def _due_time(self) -> list[tuple[int, int]]:
        """The time entry for the largest timestamp, unless it is the last one already."""
        timestamp, offset = self._largest
        if timestamp <= self._written[0]:
            return []
        if offset < self._written[1]:
            why = f"offset {offset} of the largest timestamp is below that of an earlier one"
            self._problems.setdefault("time_order", why)
            return []
        return [self._largest]

    @property
    def entry_counts(self) -> tuple[int, int]:
        """The number of entries in the .index and in the .timeindex so far."""
        return len(self._index) // offset_index.ENTRY_SIZE, len(self._timeindex) // time_index.ENTRY_SIZE

    def finish(self) -> SegmentIndexes:
        """The indexes, with the last time entry as by recovery. The builder does not keep that entry, so more batches
        can be added afterwards."""
        times = self._timeindex + time_index.write(self._due_time(), self._base)
        return SegmentIndexes(bytes(self._index), bytes(times), bytes(self._txnindex), tuple(self._problems.values()))
