"""Matches markers to transactions in one pass over the batches of a log, of one segment or many (KIP-98, KIP-890).

    data of 7 (epoch 3)   data of 9   data of 7 ...   ABORT or COMMIT of 7 (epoch 4)
    ^ first offset                                    ^ marker's offset: ends the open transaction of producer id 7

Matched by producer id alone: with transaction.version 2 a marker has the epoch after that of its data (KIP-890). The
log cleaner leaves empty control batches; they end no transaction (Kafka: ProducerAppendInfo). A marker without an open
transaction belongs to one that began before the input or has no data in it.
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

# reason -> meaning: contradictions in a log or between it and its index
NOTES = {
    "txnindex_unreadable": "the .txnindex cannot be read: only the markers count",
    "txnindex_differs": "the .txnindex differs from the markers: the markers count",
    "txnindex_ahead": "the .txnindex has an ABORT marker outside of its segment's offsets: it is ignored",
    "marker_missing": "a marker was here and is not in the input any more",
    "marker_unreadable": "a marker that cannot be read ends no transaction",
    "begun_before": "a transaction that began before the log has no data and no marker in it",
    "snapshot_unreadable": "the producer snapshot cannot be read: transactions from before the log are unknown",
}


class Note(NamedTuple):
    """A contradiction in a log. `reason`: a key of NOTES; `file`: None for a buffer; `offset`: where."""

    reason: str
    file: str | None
    offset: int | None
    producer_id: int | None
    detail: str


# Indexes into the list that stands for an open transaction.
EPOCH, FIRST, LAST, FIRST_TIME, LAST_TIME, BATCHES, RECORDS, BYTES, SEGMENT, POSITION, SIZE = range(11)
# An ended transaction: WIDTH consecutive int64 of one array; -1: absent.
ROW = (
    "producer_id",
    "code",
    "marker_offset",
    "marker_timestamp",
    "coordinator_epoch",
    "last_segment",
    "producer_epoch",
    "first_offset",
    "last_offset",
    "first_timestamp",
    "last_timestamp",
    "batches",
    "records",
    "bytes",
    "segment",
)
WIDTH = len(ROW)


def _without_data(epoch: int, first: int, segment: int) -> list[int]:
    return [epoch, first, -1, -1, -1, 0, 0, 0, segment, -1, 0]


@dataclass
class Match:
    """The transactions of a log, matched with its markers.

    ended               rows of WIDTH int64, in the order of the markers
    open                producer id -> the open transaction
    without_data        rows as in `ended` for markers of transactions without data in the input
    coordinator_epochs  producer id -> that of its last marker
    first_offset, next_offset   of the input; None: there is no batch
    max_timestamp       of all batches in ms, -1: none has one
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
        self._after_last_batch: list[AbortedTransaction] = []  # index entries of the last segment

    @property
    def _file(self) -> str | None:
        return self.inputs[self._segment].name

    def note(self, reason: str, offset: int | None, producer_id: int | None, detail: str) -> None:
        self.notes.append(Note(reason, self._file, offset, producer_id, detail))

    # ---- one input

    def read(self, one: MarkerInput, check_all: bool) -> None:
        """Reads the next segment of the log."""
        self.inputs.append(one)
        self._segment += 1
        self._index = self._read_index(one)
        for step in read(one, check_all=check_all, damage=self.damage):
            self._step(step)
        self._after_last_batch += (self._index or {}).values()

    def finish(self) -> None:
        """Ends the log. Markers that the last index has after the last batch were never written, or were lost."""
        for entry in self._after_last_batch:
            self._note_ahead(entry, "behind the log's last batch")

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
        if self._after_last_batch:
            self._end_lost_transactions(first_offset)
        self.next_offset = last_offsets[-1] + 1
        self.max_timestamp = max(self.max_timestamp, max(step.column("max_timestamp")))
        lost = self._entries_without_marker(step) if self._index else []
        start = 0
        for entry in lost:
            stop = bisect_right(last_offsets, entry.last_offset, start)
            self._match(step, start, stop)
            self._end_by_index(entry)
            start = stop
        self._match(step, start, None)

    def _match(self, step: MarkerColumns, start: int, stop: int | None) -> None:
        """Matches the rows [start, stop). The inner loop: 0.5 us per batch."""
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

    # ---- rare cases

    def _epoch_changed(self, producer: int, txn: list[int], epoch: int, offset: int) -> None:
        """Notes a missing marker: the coordinator ends a transaction before the producer's epoch changes."""
        self.note(
            "marker_missing",
            offset,
            producer,
            f"producer {producer} goes from epoch {txn[EPOCH]} to {epoch} at offset {offset}, and no marker ends its "
            f"transaction of offset {txn[FIRST]} before that; both are taken for one, as a broker takes them",
        )
        txn[EPOCH] = epoch

    def _unreadable(self, step: MarkerColumns, producer: int, position: int, size: int, offset: int) -> None:
        row = step.column("position").index(position)
        detail = next(what for at, what in step.unreadable if at == row)
        if self.raises:
            fault = {
                "position": position,
                "base_offset": offset,
                "file": self._file,
                "detail": detail,
                "next_position": position + size,
            }
            raise error("control_record_invalid", fault)
        self.note("marker_unreadable", offset, producer, detail)

    def _compare(self, code: int, producer: int, offset: int, epoch: int, txn: list[int] | None) -> list[int] | None:
        """Compares a marker with its .txnindex entry, which may have a first offset before the input."""
        assert self._index is not None and self.first_offset is not None
        entry = self._index.pop((producer, offset), None)
        if code == COMMIT:
            if entry is not None:
                self._note_difference(offset, producer, "an ABORT", "a COMMIT")
            return txn
        if entry is None:
            if txn is not None:
                self._note_difference(offset, producer, "nothing", "an ABORT")
            return txn
        if txn is None:
            return _without_data(epoch, entry.first_offset, self._segment)
        if entry.first_offset != txn[FIRST]:
            if entry.first_offset < self.first_offset:
                txn[FIRST] = entry.first_offset
            else:
                first = f"first offset {entry.first_offset}", f"first offset {txn[FIRST]}"
                self._note_difference(offset, producer, *first)
        return txn

    def _note_difference(self, offset: int, producer: int, index: str, log: str) -> None:
        detail = f"for producer {producer} at offset {offset} the .txnindex has {index}, the log {log}"
        self.note("txnindex_differs", offset, producer, detail)

    def _entries_without_marker(self, step: MarkerColumns) -> list[AbortedTransaction]:
        """The .txnindex entries whose marker should be among these batches and is not, in order."""
        assert self._index is not None and self.first_offset is not None
        end = step.column("last_offset")[-1]
        due = {key for key in self._index if key[1] <= end}
        if not due:
            return []
        due.difference_update((row[1], row[3]) for row in step.rows() if row[0] in (ABORT, COMMIT))
        return sorted((self._index.pop(key) for key in due), key=lambda entry: entry.last_offset)

    def _end_lost_transactions(self, next_segment: int) -> None:
        """Ends transactions whose markers were lost between the previous segment and this one, by the previous
        segment's .txnindex."""
        for entry in sorted(self._after_last_batch, key=lambda entry: entry.last_offset):
            if entry.last_offset < next_segment:
                self._end_by_index(entry)
            else:
                self._note_ahead(entry, "where the next segment lies")
        self._after_last_batch = []

    def _note_ahead(self, entry: AbortedTransaction, where: str) -> None:
        detail = f"an ABORT of producer {entry.producer_id} at offset {entry.last_offset}, {where}"
        self.note("txnindex_ahead", entry.last_offset, entry.producer_id, detail)

    def _end_by_index(self, entry: AbortedTransaction) -> None:
        """Ends a transaction by its .txnindex entry: the ABORT marker was lost (damage, a missing segment)."""
        assert self.first_offset is not None
        producer, first, last = entry.producer_id, entry.first_offset, entry.last_offset
        if last < self.first_offset:
            self._note_ahead(entry, "in front of the log's first batch")
            return
        lost = f"only the .txnindex has the ABORT of producer {producer} at offset {last}"
        self.note("marker_missing", last, producer, lost)
        txn = self.open.pop(producer, None) or _without_data(-1, first, self._segment)
        txn[FIRST] = min(first, txn[FIRST])
        self.ended.extend((producer, ABORT, last, -1, -1, self._segment, *txn[:POSITION]))

    # ---- after the last input

    def open_transactions_pass_crc(self) -> bool:
        """Whether the first batch of each open transaction has a correct checksum.

        A damaged header can look like the start of a transaction that never ends, which would exclude the rest of the
        log; so these batches are checked.
        """
        return all(passes_checksum(self.inputs[txn[SEGMENT]], txn[POSITION], txn[SIZE]) for txn in self.open.values())


def match(inputs: Iterable[Any], *, raises: bool = False, check_all: bool = False) -> Match:
    """Matches the segments of one log, in order. Reads them twice if a damaged header seems to begin a transaction.

    raises: InvalidRecordError for a control batch with an unreadable first record; otherwise it ends no transaction
    check_all: check the checksums of all batches in the first pass
    """
    found = Match(raises)
    for one in map(MarkerInput.of, inputs):
        found.read(one, check_all or not one.reopenable)
    found.finish()
    if check_all or not all(one.reopenable for one in found.inputs) or found.open_transactions_pass_crc():
        return found
    thorough = Match(raises)
    for one in found.inputs:
        thorough.read(one, True)
    thorough.finish()
    return thorough
