"""Markers and what they end: one pass over the batches of a log, of one segment or many (KIP-98, KIP-890)

    data of 7 (epoch 3)   data of 9   data of 7 ...   ABORT or COMMIT of 7 (epoch 4)
    ^ first offset                                    ^ marker's offset: ends what producer id 7 has open

Matched by producer id alone: with transaction.version 2 a marker carries the epoch after that of its data (KIP-890).
An empty control batch is left of a transaction that the cleaner took out, and ends nothing (Kafka: ProducerAppendInfo).
What ends nothing begins before the input, or had no data here.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from kafkarec.damage import Damage, error
from kafkarec.errors import KafkaRecordError
from kafkarec.format.side_files import AbortedTransaction

from .marker_columns import ABORT, COMMIT, STAMPED, UNREADABLE, MarkerColumns, MarkerInput, passes_checksum, read

# word -> what it means: notes beside the transactions, where the log or its index contradicts itself
NOTES = {
    "txnindex_unreadable": "the .txnindex cannot be read: the markers alone speak",
    "txnindex_differs": "the .txnindex says something else than the markers: the markers are the truth",
    "txnindex_ahead": "the .txnindex names an ABORT marker outside of its segment's offsets: not believed",
    "marker_missing": "a marker was here and is not in the input any more",
    "marker_unreadable": "a marker that cannot be read ends nothing",
    "begun_before": "a transaction was open in front of the log, has no data in it, and nothing here ends it",
    "snapshot_unreadable": "the producer snapshot cannot be read: what was open in front of the log is not known",
}


class Note(NamedTuple):
    """A contradiction that was met. `reason`: a word of NOTES; `file`: None for a buffer; `offset`: where."""

    reason: str
    file: str | None
    offset: int | None
    producer_id: int | None
    detail: str


# A transaction that is open, while it grows: a list of these.
EPOCH, FIRST, LAST, FIRST_TIME, LAST_TIME, BATCHES, RECORDS, BYTES, SEGMENT, POSITION, SIZE = range(11)
# A transaction that has ended, as so many int64 in a row of one array; -1: absent.
ROW = (
    "producer_id", "code", "marker_offset", "marker_timestamp", "coordinator_epoch", "last_segment",
    "producer_epoch", "first_offset", "last_offset", "first_timestamp", "last_timestamp", "batches", "records", "bytes",
    "segment",
)  # fmt: skip
WIDTH = len(ROW)


def _without_data(epoch: int, first: int, segment: int) -> list[int]:
    return [epoch, first, -1, -1, -1, 0, 0, 0, segment, -1, 0]


@dataclass
class Match:
    """What a log's markers say.

    ended               rows of WIDTH int64, in the order of the markers
    open                producer id -> the open transaction
    without_data        rows as in `ended` for markers of transactions without data in the input
    coordinator_epochs  producer id -> that of its last marker
    first_offset, next_offset   of the input; None: there is no batch
    max_timestamp       of all batches, -1: none has one
    """

    raises: bool = False
    inputs: list[MarkerInput] = field(default_factory=list)
    ended: array[int] = field(default_factory=lambda: array("q"))
    without_data: array[int] = field(default_factory=lambda: array("q"))
    open: dict[int, list[int]] = field(default_factory=dict)
    coordinator_epochs: dict[int, int] = field(default_factory=dict)
    first_offset: int | None = None
    next_offset: int | None = None
    max_timestamp: int = -1
    notes: list[Note] = field(default_factory=list)
    damage: list[Damage] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._segment = -1
        self._index: dict[tuple[int, int], AbortedTransaction] | None = None
        self._behind: list[AbortedTransaction] = []  # entries of the last segment, behind its last batch

    @property
    def _file(self) -> str | None:
        return self.inputs[self._segment].name

    def note(self, reason: str, offset: int | None, producer_id: int | None, detail: str) -> None:
        self.notes.append(Note(reason, self._file, offset, producer_id, detail))

    # ---- one input

    def read(self, one: MarkerInput, check_all: bool) -> None:
        """The next segment of the log."""
        self.inputs.append(one)
        self._segment += 1
        self._index = self._read_index(one)
        for step in read(one, check_all=check_all, damage=self.damage):
            self._step(step)
        self._behind += (self._index or {}).values()

    def finish(self) -> None:
        """There is no more segment: what its index says of offsets behind the log's last batch was never written, or is
        lost with all that followed."""
        for entry in self._behind:
            self._ahead(entry, "behind the log's last batch")

    def _read_index(self, one: MarkerInput) -> dict[tuple[int, int], AbortedTransaction] | None:
        try:
            entries = one.index()
        except (KafkaRecordError, OSError) as wrong:
            self.note("txnindex_unreadable", None, None, str(wrong))
            return None
        if entries is None:
            return None
        return {(entry.producer_id, entry.last_offset): entry for entry in entries if entry.producer_id >= 0}

    def _step(self, step: MarkerColumns) -> None:
        last_offsets = step.column("last_offset")
        base = step.column("base_offset")[0]
        first_offset = last_offsets[0] if base < 0 else base
        if self.first_offset is None:
            self.first_offset = first_offset
        if self._behind:
            self._settle(first_offset)
        self.next_offset = last_offsets[-1] + 1
        self.max_timestamp = max(self.max_timestamp, max(step.column("max_timestamp")))
        lost = self._lost(step) if self._index else []
        start = 0
        for entry in lost:
            stop = bisect_right(last_offsets, entry.last_offset, start)
            self._match(step, start, stop)
            self._end_by_index(entry)
            start = stop
        self._match(step, start, None)

    def _match(self, step: MarkerColumns, start: int, stop: int | None) -> None:
        """The hot loop: half a microsecond a batch."""
        opened, coordinator, ended, segment = self.open, self.coordinator_epochs, self.ended, self._segment
        compared = self._index is not None
        for code, producer, base, last, size, count, base_time, time, epoch, position in step.rows(start, stop):
            if code & 1:
                txn = opened.get(producer)
                if txn is None:
                    if producer >= 0:
                        begun = time if code == STAMPED else base_time
                        opened[producer] = [epoch, base, last, begun, time, 1, count, size, segment, position, size]
                    continue
                txn[LAST] = last
                txn[BATCHES] += 1
                txn[RECORDS] += count
                txn[BYTES] += size
                if time > txn[LAST_TIME]:
                    txn[LAST_TIME] = time
                if epoch != txn[EPOCH]:
                    self._epoch_changed(producer, txn, epoch, base)
            elif producer >= 0:
                if code == UNREADABLE:
                    self._unreadable(step, producer, position, size, base)
                    continue
                coordinator[producer] = count
                txn = opened.pop(producer, None)
                if compared:
                    txn = self._compare(code, producer, last, epoch, txn)
                row = (producer, code, last, time, count, segment)
                if txn is None:
                    self.without_data.extend((*row, *_without_data(epoch, -1, segment)[:POSITION]))
                else:
                    ended.extend((*row, *txn[:POSITION]))

    # ---- what is rare

    def _epoch_changed(self, producer: int, txn: list[int], epoch: int, offset: int) -> None:
        """No producer changes its epoch inside of a transaction: the coordinator ends the open one first."""
        self.note(
            "marker_missing", offset, producer,
            f"producer {producer} goes from epoch {txn[EPOCH]} to {epoch} at offset {offset}, and no marker ends its "
            f"transaction of offset {txn[FIRST]} before that; both are taken for one, as a broker takes them",
        )  # fmt: skip
        txn[EPOCH] = epoch

    def _unreadable(self, step: MarkerColumns, producer: int, position: int, size: int, offset: int) -> None:
        row = step.column("position").index(position)
        detail = next(what for at, what in step.unreadable if at == row)
        if self.raises:
            fault = {
                "position": position, "base_offset": offset, "file": self._file, "detail": detail,
                "next_position": position + size,
            }  # fmt: skip
            raise error("control_record_invalid", fault)
        self.note("marker_unreadable", offset, producer, detail)

    def _compare(
        self, code: int, producer: int, offset: int, epoch: int, txn: list[int] | None
    ) -> list[int] | None:
        """The marker against its entry in .txnindex; that may know where the transaction began before the input."""
        assert self._index is not None and self.first_offset is not None
        entry = self._index.pop((producer, offset), None)
        if code == COMMIT:
            if entry is not None:
                self._differs(offset, producer, "an ABORT", "a COMMIT")
            return txn
        if entry is None:
            if txn is not None:
                self._differs(offset, producer, "nothing", "an ABORT")
            return txn
        if txn is None:
            return _without_data(epoch, entry.first_offset, self._segment)
        if entry.first_offset != txn[FIRST]:
            if entry.first_offset < self.first_offset:
                txn[FIRST] = entry.first_offset
            else:
                first = f"first offset {entry.first_offset}", f"first offset {txn[FIRST]}"
                self._differs(offset, producer, *first)
        return txn

    def _differs(self, offset: int, producer: int, index: str, log: str) -> None:
        detail = f"for producer {producer} at offset {offset} the .txnindex has {index}, the log {log}"
        self.note("txnindex_differs", offset, producer, detail)

    def _lost(self, step: MarkerColumns) -> list[AbortedTransaction]:
        """Entries whose marker ought to lie among these batches and does not, in order."""
        assert self._index is not None and self.first_offset is not None
        end = step.column("last_offset")[-1]
        due = {key for key in self._index if key[1] <= end}
        if not due:
            return []
        due.difference_update((row[1], row[3]) for row in step.rows() if row[0] in (ABORT, COMMIT))
        return sorted((self._index.pop(key) for key in due), key=lambda entry: entry.last_offset)

    def _settle(self, next_segment: int) -> None:
        """A later segment goes on: what lay between is lost, and the index of the segment before remembers it."""
        for entry in sorted(self._behind, key=lambda entry: entry.last_offset):
            if entry.last_offset < next_segment:
                self._end_by_index(entry)
            else:
                self._ahead(entry, "where the next segment lies")
        self._behind = []

    def _ahead(self, entry: AbortedTransaction, where: str) -> None:
        detail = f"an ABORT of producer {entry.producer_id} at offset {entry.last_offset}, {where}"
        self.note("txnindex_ahead", entry.last_offset, entry.producer_id, detail)

    def _end_by_index(self, entry: AbortedTransaction) -> None:
        """A marker was lost (damage, a hole in a copy), and the index remembers that it said ABORT."""
        assert self.first_offset is not None
        producer, first, last = entry.producer_id, entry.first_offset, entry.last_offset
        if last < self.first_offset:
            self._ahead(entry, "in front of the log's first batch")
            return
        lost = f"only the .txnindex has the ABORT of producer {producer} at offset {last}"
        self.note("marker_missing", last, producer, lost)
        txn = self.open.pop(producer, None) or _without_data(-1, first, self._segment)
        txn[FIRST] = min(first, txn[FIRST])
        self.ended.extend((producer, ABORT, last, -1, -1, self._segment, *txn[:POSITION]))

    # ---- after the last

    def believable(self) -> bool:
        """Whether the first batch of each open transaction passes its checksum.

        Damage in a header can open a transaction that never was, and nothing ever ends it; so before readers are kept
        from the rest of the log, that one batch is checked.
        """
        return all(
            passes_checksum(self.inputs[txn[SEGMENT]], txn[POSITION], txn[SIZE]) for txn in self.open.values()
        )


def match(inputs: Iterable[Any], *, raises: bool = False, check_all: bool = False) -> Match:
    """Reads the inputs, one log in order, once; twice when a damaged header seems to open a transaction.

    raises: InvalidRecordError for a control batch whose first record cannot be read; otherwise it ends nothing
    check_all: check the checksum of every batch in the first place
    """
    found = Match(raises)
    for one in map(MarkerInput.of, inputs):
        found.read(one, check_all or not one.again)
    found.finish()
    if check_all or not all(one.again for one in found.inputs) or found.believable():
        return found
    thorough = Match(raises)
    for one in found.inputs:
        thorough.read(one, True)
    thorough.finish()
    return thorough
