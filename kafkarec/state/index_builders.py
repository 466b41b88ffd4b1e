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

from kafkarec._core import BatchRows, IndexBuilder
from kafkarec.format.side_files import AbortedTransaction
from kafkarec.sidecars import leader_epochs, offset_index, time_index, txn_index

DEFAULT_INTERVAL = 4096  # index.interval.bytes


class SegmentIndexBuilder:
    """Builds the indexes of one segment from its batches, added in order.

    base_offset   of the segment, from its name
    epochs        the leader epochs so far; updated by `add`
    interval      index.interval.bytes
    """

    def __init__(
        self,
        base_offset: int,
        epochs: list[leader_epochs.EpochEntry] | None = None,
        interval: int = DEFAULT_INTERVAL,
    ) -> None:
        self.epochs = [] if epochs is None else epochs
        self._base, self._builder = base_offset, IndexBuilder(base_offset, interval)
        self._index, self._timeindex, self._txnindex = bytearray(), bytearray(), bytearray()

    def add(
        self,
        rows: BatchRows,
        aborted: Iterable[AbortedTransaction],
        start: int = 0,
        stop: int | None = None,
        moved: int = 0,
    ) -> None:
        """Adds the next batches, [start, stop) of the rows. aborted: the transactions that are aborted in them; moved:
        how far behind their positions they are in the segment"""
        last_epoch = self.epochs[-1].epoch if self.epochs else -1
        entries, times, epochs = self._builder.take(rows, last_epoch, start, stop, moved)
        if entries:  # of one batch in some; times come only with them
            self._index += offset_index.write(entries, self._base)
            self._timeindex += time_index.write(times, self._base)
        for epoch, first in epochs:
            leader_epochs.assign(self.epochs, epoch, first)
        self._txnindex += txn_index.write(aborted)

    @property
    def entry_counts(self) -> tuple[int, int]:
        """The number of entries in the .index and in the .timeindex so far."""
        return len(self._index) // offset_index.ENTRY_SIZE, len(self._timeindex) // time_index.ENTRY_SIZE

    @property
    def problems(self) -> tuple[str, ...]:
        """Sentences about batches that do not fit an index entry; Kafka's recovery fails on them."""
        return tuple(self._builder.problems.values())

    def finish(self) -> dict[str, bytes]:
        """{suffix: bytes} of the files that a broker would have, .txnindex only if it has entries; the last time entry
        is that of recovery. The builder does not keep it, so more batches can be added afterwards."""
        times = self._timeindex + time_index.write(self._builder.last_time_entry(), self._base)
        files = {offset_index.SUFFIX: bytes(self._index), time_index.SUFFIX: bytes(times)}
        return files | ({txn_index.SUFFIX: bytes(self._txnindex)} if self._txnindex else {})
