"""Rebuilds a segment's indexes from its batches, byte for byte as LogSegment.recover() of Kafka 4.3 writes them.

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

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from kafkarec.format.layout import BATCH_MAGIC
from kafkarec.format.side_files import AbortedTransaction
from kafkarec.sidecars import leader_epochs, offset_index, time_index, txn_index
from kafkarec.state.producers import EndedTransaction

DEFAULT_INTERVAL = 4096  # index.interval.bytes
_INT32_MAX = 2**31 - 1
_HEADERS = (
    "position",
    "size_in_bytes",
    "magic",
    "base_offset",
    "last_offset",
    "max_timestamp",
    "partition_leader_epoch",
)


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
        self._txnindex = bytearray()
        self._base = base_offset
        self._interval = interval
        self._index = bytearray()
        self._timeindex = bytearray()
        self._last_indexed = 0  # position of the last batch with an entry
        self._last_offset = -1  # offset of the last entry
        self._largest = self._written = (-1, base_offset)  # (timestamp, offset): so far, and in the last time entry
        self._problems: dict[str, str] = {}

    def add(self, column: Callable[[str], Sequence[Any]], ended: Iterable[EndedTransaction]) -> None:
        """Adds the next batches. column: a name -> that column of their batch table; ended: the transactions that end
        in them."""
        for position, _, magic, base, last, timestamp, epoch in zip(*map(column, _HEADERS), strict=True):
            if not 0 <= last - self._base <= _INT32_MAX or position > _INT32_MAX:
                self._problem("far", f"offset {last} at byte {position} does not fit an index of base {self._base}")
                continue
            if timestamp is not None and timestamp > self._largest[0]:
                self._largest = timestamp, last
            if position - self._last_indexed > self._interval:
                self._add_entry(last, position)
            has_epoch = magic >= BATCH_MAGIC and epoch is not None and epoch >= 0
            if has_epoch and (not self.epochs or epoch > self.epochs[-1].epoch):
                leader_epochs.assign(self.epochs, epoch, base)
        self._txnindex += txn_index.write([txn_index_entry(one) for one in ended if one.aborted])

    def _add_entry(self, last: int, position: int) -> None:
        self._last_indexed = position
        if last <= self._last_offset:
            self._problem(
                "order", f"offset {last} at byte {position} is not above the previous one, {self._last_offset}"
            )
            return
        self._index += offset_index.write([(last, position)], self._base)
        self._last_offset = last
        time_entry = self._next_time()
        if time_entry:
            self._timeindex += time_entry
            self._written = self._largest

    def _next_time(self) -> bytes:
        """The entry of the largest timestamp; empty if it is the last entry already."""
        if self._largest[0] <= self._written[0]:
            return b""
        if self._timeindex and self._largest[1] < self._written[1]:
            self._problem("time", f"offset {self._largest[1]} of the largest timestamp is below that of an earlier one")
            return b""
        return time_index.write([self._largest], self._base)

    def _problem(self, kind: str, sentence: str) -> None:
        self._problems.setdefault(kind, sentence)

    @property
    def entries(self) -> tuple[int, int]:
        """The number of entries in the .index and in the .timeindex so far."""
        return len(self._index) // offset_index.ENTRY_SIZE, len(self._timeindex) // time_index.ENTRY_SIZE

    def finish(self) -> SegmentIndexes:
        """The indexes, with the last time entry as by recovery. The builder does not keep that entry, so more batches
        can be added afterwards."""
        made = (bytes(self._index), bytes(self._timeindex) + self._next_time(), bytes(self._txnindex))
        return SegmentIndexes(*made, tuple(self._problems.values()))


def txn_index_entry(ended: EndedTransaction) -> AbortedTransaction:
    """The entry of a .txnindex for an aborted transaction."""
    return AbortedTransaction(ended.producer_id, ended.first_offset, ended.last_offset, ended.last_stable_offset)
