"""Checks of .index, .timeindex, leader-epoch-checkpoint, .txnindex and .snapshot against the log's batches and markers

An entry of .index is right if reading from its position finds every record at or above its offset: the position is the
start of a batch, all earlier batches end below the offset, and the batch has the offset. Usually it is that batch's
last offset. Two cases look wrong but are not (KAFKA-7487): brokers before 4.1 (KAFKA-806) store the last offset of a
whole append of several batches; and after cleaning a batch may be empty or begin above its old records.

leader-epoch-checkpoint may also have epochs of leaders that wrote nothing, and start offsets of batches that were
cleaned. It must not differ from the existing batches: a follower would truncate its log at the wrong offset.

If the start of a log was deleted, or the log was cleaned, .txnindex and .snapshot may have transactions whose data was
removed. A difference that this explains is a note, or not reported.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Generic, TypeVar

from kafkarec._core import BatchRows
from kafkarec.format.layout import BATCH_MAGIC
from kafkarec.format.side_files import AbortedTransaction, SnapshotEntry
from kafkarec.recover.steps import Step
from kafkarec.sidecars.index_entries import Entries
from kafkarec.sidecars.leader_epochs import EpochEntry
from kafkarec.sidecars.offset_index import OffsetEntry, OffsetIndex
from kafkarec.sidecars.time_index import TimeEntry, TimeIndex
from kafkarec.state.producers import EndedTransactions, ProducerStates

from .finding_kinds import ANOMALY, NOTE
from .findings import ReportFinding

_MAX_WITHOUT_ENTRY = 1 << 20  # bytes at the end of a log; more are reported, at the usual index intervals
E = TypeVar("E", OffsetEntry, TimeEntry)


class IndexCheck(Generic[E]):
    """The entries of an index in the order of their places: the position in the log, or the offset, that follows the
    value which is looked for. Call `add` with all batches in order, then `finish`. Where every entry has a batch's
    place and value, which is usual, a whole step is compared at once; else one by one.

    described   the two fields of an entry in words
    """

    described: str
    order_kind: str
    effect_of_fall = ""
    by_time: bool

    def __init__(self, index: Entries[E], report: ReportFinding) -> None:
        self._index: Entries[E] = index
        self._report = report
        columns = index.columns()
        falls = list(index.falls(columns))
        usable = len(index)
        if falls and index.preallocated:  # of an active segment: a broker trims the index of a closed one
            usable, falls = falls[0], []
            what = f"{len(index) - usable} entries from entry {usable} on are left from before the log was truncated"
            report(self.order_kind, what, NOTE)
        for number in falls:
            previous, entry = index[number - 1 : number + 1]
            what = f"does not ascend: it follows {self.described.format(*previous)}{self.effect_of_fall}"
            self._report_entry(self.order_kind, number, entry, what)
        numbers = range(usable)
        self._numbers: Sequence[int] = sorted(numbers, key=columns[1].__getitem__) if falls else numbers
        self._values, self._places = (array("q", map(column.__getitem__, self._numbers)) for column in columns)
        # Added where it is compared, as near 2^63 the sum needs more than 64 bits.
        self._place_base = index.base_offset if self.by_time else 0
        self._at = 0  # the next entry, in this order
        self._last: int | None = None  # the last offset of the last batch
        self._largest: int | None = None  # the largest timestamp so far

    def _report_entry(self, kind: str, number: int, entry: E, what: str, severity: str | None = None) -> None:
        self._report(kind, f"entry {number} ({self.described.format(*entry)}) {what}", severity)

    def _entries_up_to(self, place: int | None) -> Iterator[tuple[int, E]]:
        """Yields the (number, entry) pairs up to a place; None: all that are left."""
        while self._at < len(self._places) and (place is None or self._places[self._at] + self._place_base <= place):
            number = self._numbers[self._at]
            self._at += 1
            yield number, self._index[number]

    def _take_usual(self, rows: BatchRows) -> bool:
        """Takes the batches of a step if each entry up to the last one has the place of one, and its value."""
        base = self._index.base_offset
        taken = rows.match_entries(self._places, self._values, self._at, self._last, self._largest, base, self.by_time)
        if taken is None:
            return False
        self._at, self._last, self._largest = taken
        return True


class OffsetIndexCheck(IndexCheck[OffsetEntry]):
    """Checks an .index."""

    described = "offset {} at byte {}"
    order_kind = "index_order"
    effect_of_fall = "; a search may find a wrong entry"
    by_time = False

    def __init__(self, index: OffsetIndex, report: ReportFinding) -> None:
        super().__init__(index, report)
        self._waiting: list[tuple[int, OffsetEntry]] = []  # entries with an offset above their batch
        self._reached = 0  # the highest position of an entry

    def add(self, step: Step) -> None:
        """Compares the batches of the next step."""
        if not self._waiting and self._take_usual(step.rows):
            if self._at:
                self._reached = max(self._reached, self._places[self._at - 1])
            return
        for position, base, last in step.zip_columns("position", "base_offset", "last_offset"):
            for number, entry in self._entries_up_to(position):
                if entry.position == position:
                    self._check_entry(number, entry, base, last)
                else:
                    what = f"points into a batch: the next one begins at byte {position}"
                    self._report_entry("index_position", number, entry, what)
                self._reached = max(self._reached, entry.position)
            # An offset above the entry's batch: if it is the last offset of a later batch, the broker stored that of an
            # append of several batches.
            waiting, self._waiting = self._waiting, []
            for number, entry in waiting:
                if entry.offset > last:
                    self._waiting.append((number, entry))
                elif entry.offset == last:
                    what = "has the last offset of an append of several batches, as brokers before 4.1 write it"
                    self._report_entry("index_append", number, entry, f"{what}: harmless")
                else:
                    what = f"points at a batch without its offset: a later batch, which ends at {last}, has it"
                    self._report_entry("index_offset", number, entry, what, ANOMALY)
            self._last = last

    def _check_entry(self, number: int, entry: OffsetEntry, base: int | None, last: int) -> None:
        if self._last is not None and entry.offset <= self._last:
            what = (
                f"points too far: the batch before it ends at offset {self._last}, so a search for {entry.offset} does "
                "not find it"
            )
            self._report_entry("index_offset", number, entry, what)
        elif entry.offset > last:
            self._waiting.append((number, entry))
        elif base is not None and entry.offset < base:
            what = f"points at a batch without its offset, with the offsets {base} to {last}"
            self._report_entry("index_offset", number, entry, what, ANOMALY)

    def finish(self, end: int, largest_batch: int, closed: bool) -> None:
        """Reports entries beyond the last batch, and a truncated index.

        end             end position of the last batch
        largest_batch   size of the largest batch in bytes
        closed          it is not the active segment
        """
        for number, entry in self._entries_up_to(None):
            self._report_entry("index_position", number, entry, f"points beyond the log's end, {end}")
        for number, entry in self._waiting:
            what = f"is above the segment's last offset, {self._last}: a broker regards the segment as empty"
            self._report_entry("index_offset", number, entry, what)
        spacing = self._reached // len(self._index) if len(self._index) else 4096
        without = end - self._reached
        if self._last is not None and without > _MAX_WITHOUT_ENTRY + largest_batch + 8 * spacing:
            self._report(
                "index_coverage",
                f"the last {without} bytes of the log have no entry: reading there begins at byte {self._reached}; "
                "reindex writes a complete one",
            )


class TimeIndexCheck(IndexCheck[TimeEntry]):
    """Checks a .timeindex."""

    described = "timestamp {} at offset {}"
    order_kind = "time_order"
    by_time = True

    def __init__(self, index: TimeIndex, report: ReportFinding) -> None:
        super().__init__(index, report)
        self._last_entry = index[-1] if len(index) else None

    def add(self, step: Step) -> None:
        """Compares the batches of the next step."""
        if self._take_usual(step.rows):
            return
        for base, last, max_timestamp in step.zip_columns("base_offset", "last_offset", "max_timestamp"):
            earlier_largest = self._largest
            if max_timestamp is not None and (earlier_largest is None or max_timestamp > earlier_largest):
                self._largest = max_timestamp
            for number, entry in self._entries_up_to(last):
                inside = base is None or entry.offset >= base
                self._check_entry(number, entry, self._largest if inside else earlier_largest)
            self._last = last

    def _check_entry(self, number: int, entry: TimeEntry, largest: int | None) -> None:
        if largest is not None and entry.timestamp < largest:
            what = f"is too early: the largest timestamp up to that offset is {largest}: searches by time miss records"
            self._report_entry("time_largest", number, entry, what)
        elif largest is None or entry.timestamp > largest:
            limit = "no timestamp" if largest is None else f"{largest} at most"
            what = (
                f"is later than all records up to that offset ({limit}): retention by time keeps the segment too long"
            )
            self._report_entry("time_largest", number, entry, what, ANOMALY)

    def finish(self, end: int, largest_batch: int, closed: bool) -> None:
        """Reports entries beyond the last batch, and a missing last entry. Parameters: as of OffsetIndexCheck"""
        for number, entry in self._entries_up_to(None):
            segment = "is empty" if self._last is None else f"ends at offset {self._last}"
            self._report_entry("time_offset", number, entry, f"is beyond the segment, which {segment}")
        latest = None if self._last_entry is None else self._last_entry.timestamp
        if closed and self._largest is not None and (latest is None or latest < self._largest):
            last = "there is no entry" if latest is None else f"the last entry has timestamp {latest}"
            self._report(
                "time_end",
                f"{last}, but the segment's largest timestamp is {self._largest}: retention by time may remove the "
                "segment too early",
            )


_FIRST_LINE = 3  # of the first entry


class EpochCheckpointCheck:
    """Compares the entries with the batches. Call `add` with all batches of a log in order."""

    def __init__(self, entries: Sequence[EpochEntry], report: ReportFinding) -> None:
        self._report_file = report
        self._entries = entries
        self._at = -1  # index of the entry for the last batch
        self._reported: tuple[int, int | None] | None = None  # a difference is reported once, not for every batch
        for number, (previous, entry) in enumerate(pairwise(entries), 1):
            if entry.epoch <= previous.epoch or entry.start_offset < previous.start_offset:
                report(
                    "epoch_order",
                    f"line {number + _FIRST_LINE}: epoch {entry.epoch} from offset {entry.start_offset} follows epoch "
                    f"{previous.epoch} from offset {previous.start_offset}; both must ascend",
                )

    def add(self, step: Step, same_epoch: bool) -> None:
        """Compares the batches of the next step. same_epoch: all have the epoch of the batch before them."""
        entries = self._entries
        last = step.cell("base_offset", len(step) - 1)
        changes = self._at + 1 < len(entries) and (last is None or entries[self._at + 1].start_offset <= last)
        if same_epoch and not changes:
            return
        for base, magic, epoch in step.zip_columns("base_offset", "magic", "partition_leader_epoch"):
            if magic < BATCH_MAGIC or epoch is None or epoch < 0:
                continue
            while self._at + 1 < len(entries) and entries[self._at + 1].start_offset <= base:
                self._at += 1
            known = entries[self._at].epoch if self._at >= 0 else None
            if known == epoch:
                self._reported = None
            elif self._reported != (epoch, known):
                self._reported = epoch, known
                batch = f"the batch at offset {base} was written in leader epoch {epoch}"
                harm = "a replica that compares epochs may truncate its log at the wrong offset"
                if known is not None:
                    severity, sentence = None, f"{batch}, the file says {known}: {harm}"
                elif entries and epoch <= entries[0].epoch:
                    severity = NOTE
                    sentence = f"{batch}, which is before the first entry: earlier records were deleted (DeleteRecords)"
                else:
                    severity, sentence = ANOMALY, f"{batch}, which has no entry: {harm}"
                self._report_file("epoch_differs", sentence, severity)


class TxnIndexCheck:
    """Checks a .txnindex. Call `add` with the segment's markers and aborted transactions, then `finish` with the
    entries."""

    def __init__(self, report: ReportFinding) -> None:
        self._report = report
        self._expected: dict[tuple[int, int], AbortedTransaction] = {}
        self._abort_markers: set[tuple[int, int]] = set()
        self._lost: set[tuple[int, int]] = set()

    def add_lost_marker(self, entry: AbortedTransaction, states: ProducerStates) -> None:
        """Adds an entry whose marker's offset is missing in the log. If its transaction is open there, the marker is
        lost, and the entry proves it."""
        ended = states.end_by_index(entry)
        if ended is not None:
            place = entry.producer_id, entry.last_offset
            self._expected[place] = ended
            self._lost.add(place)

    def add(self, taken: EndedTransactions) -> None:
        """Adds what ended in consecutive batches."""
        aborted = {(one.producer_id, one.last_offset): one for one in taken.aborted}
        self._expected |= aborted
        self._abort_markers |= aborted.keys() | set(taken.empty_aborts)

    def finish(self, entries: Iterable[AbortedTransaction], complete: bool, start: int) -> None:
        """Compares the entries of the file; one that does not exist has none.

        complete   whether all batches of the log up to here were read. If not, no entries are expected of transactions
                   that began before the log's start: where all data of one is deleted or cleaned, the log cleaner keeps
                   the marker for a while, but not the entry; and a broker that recovers a log takes none below it
        start      of the log
        """
        missing = {place: one for place, one in self._expected.items() if complete or one.first_offset >= start}
        for number, entry in enumerate(entries):
            place = entry.producer_id, entry.last_offset
            expected = missing.pop(place, None)
            what = f"entry {number}: producer {entry.producer_id}, offsets {entry.first_offset} to {entry.last_offset}"
            if expected is not None:
                if entry.first_offset != expected.first_offset:
                    explained = not complete and (
                        entry.first_offset < expected.first_offset or expected.first_offset < start
                    )
                    self._report(
                        "transaction_differs",
                        f"{what}: according to its batches it begins at offset {expected.first_offset}",
                        NOTE if explained else None,
                    )
                stable = expected.last_stable_offset
                if entry.last_stable_offset != stable:
                    late = entry.last_stable_offset > stable
                    self._report(
                        "transaction_differs",
                        f"{what}: last stable offset {entry.last_stable_offset}, but {stable} according to the batches"
                        + ("; a consumer may be given too few aborted transactions" if late else ""),
                        ANOMALY if late and complete else NOTE,
                    )
            if place in self._lost:
                self._report(
                    "transaction_unknown",
                    f"{what}: the ABORT marker is lost, and this entry proves it: salvage writes the marker again",
                    NOTE,
                )
            elif expected is None and place not in self._abort_markers:
                self._report(
                    "transaction_unknown",
                    f"{what}: there is no ABORT marker of that producer at offset {entry.last_offset}; consumers skip "
                    "records that are valid",
                )
        for one in missing.values():
            self._report(
                "transaction_missing",
                f"there is no entry for the transaction of producer {one.producer_id}, offsets {one.first_offset} to "
                f"{one.last_offset}, which was aborted: read_committed consumers get its records; reindex writes a "
                "correct file",
            )


# (field of an entry, its description, whether a difference is an error; recovery or cleaning may change the others)
_COMPARED = (
    ("producer_epoch", "epoch", True),
    ("last_sequence", "last sequence", True),
    ("last_offset", "last offset", True),
    ("offset_delta", "length of the last batch", True),
    ("current_txn_first_offset", "first offset of the open transaction", True),
    ("timestamp", "last timestamp", False),
    ("coordinator_epoch", "coordinator epoch", False),
)


def check_snapshot(
    entries: Iterable[SnapshotEntry], states: ProducerStates, report: ReportFinding, is_known: bool
) -> None:
    """Compares a snapshot with the producer states at its offset.

    is_known   whether all batches of the log up to here were read, no offsets are missing between them, as the log
               cleaner removed batches or they were lost, and no marker was emptied
    """
    for entry in entries:
        expected = states.entry(entry.producer_id)
        if expected is None:
            if is_known:
                report(
                    "producer_unknown",
                    f"producer {entry.producer_id} with last offset {entry.last_offset} has no batch in the log",
                )
            continue
        wrong = [
            (name, significant, getattr(expected, field), getattr(entry, field))
            for field, name, significant in _COMPARED
            if getattr(expected, field) != getattr(entry, field)
        ]
        if not wrong:
            continue
        significant = any(is_significant for _, is_significant, _, _ in wrong) and is_known
        differences = ", ".join(
            f"{name} {stored}, but {known} according to the batches" for name, _, known, stored in wrong
        )
        report("producer_differs", f"producer {entry.producer_id}: {differences}", None if significant else NOTE)
