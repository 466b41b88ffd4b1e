"""Checks of .index and .timeindex against a segment's batches

An entry of .index is right if reading from its position finds every record at or above its offset: the position is the
start of a batch, all earlier batches end below the offset, and the batch has the offset. Usually it is that batch's
last offset. Two cases look wrong but are not (KAFKA-7487): brokers before 4.1 (KAFKA-806) store the last offset of a
whole append of several batches; and after cleaning a batch may be empty or begin above its old records.
"""

from __future__ import annotations

from abc import abstractmethod
from array import array
from collections.abc import Iterator, Sequence
from typing import Generic, TypeVar

from kafkarec._core import Rows
from kafkarec.recover.steps import Step
from kafkarec.sidecars.index_entries import Entries
from kafkarec.sidecars.offset_index import OffsetEntry, OffsetIndex
from kafkarec.sidecars.time_index import TimeEntry, TimeIndex

from .finding_kinds import ANOMALY, NOTE
from .side_file_findings import ReportFile

_MAX_WITHOUT_ENTRY = 1 << 20  # bytes at the end of a log; more are reported, at the usual index intervals
_AHEAD = (
    " (the log was truncated, or copied before its index; a broker rebuilds the index when it recovers the segment)"
)
E = TypeVar("E", OffsetEntry, TimeEntry)


class IndexCheck(Generic[E]):
    """The entries of an index in the order of their places: the position in the log, or the offset, that follows the
    value which is looked for. Call `add` with all batches in order, then `finish`. Where every entry has a batch's
    place and value, which is usual, a whole step is compared at once; else one by one."""

    order_kind: str
    effect_of_fall = ""
    by_time: bool

    def __init__(self, index: Entries[E], report: ReportFile) -> None:
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
            what = f"does not ascend: it follows {self._described(previous)}{self.effect_of_fall}"
            self._add(self.order_kind, number, entry, what)
        numbers = range(usable)
        self._numbers: Sequence[int] = sorted(numbers, key=columns[1].__getitem__) if falls else numbers
        self._values, self._places = (array("q", map(column.__getitem__, self._numbers)) for column in columns)
        # Added where it is compared, as near 2^63 the sum needs more than 64 bits.
        self._place_base = index.base_offset if self.by_time else 0
        self._at = 0  # the next entry, in this order
        self._last: int | None = None  # the last offset of the last batch
        self._largest: int | None = None  # the largest timestamp so far

    @abstractmethod
    def add(self, step: Step) -> None:
        """Compares the batches of the next step."""

    @abstractmethod
    def finish(self, end: int, largest_batch: int, closed: bool, live: bool = False) -> None:
        """Reports entries beyond the last batch, and those that are missing.

        end             end position of the last batch
        largest_batch   size of the largest batch in bytes
        closed          it is not the active segment
        live            the file was copied while it was written, or its broker crashed, so it may be ahead of the log
        """

    def _add(self, kind: str, number: int, entry: E, what: str, severity: str | None = None) -> None:
        self._report(kind, f"entry {number} ({self._described(entry)}) {what}", severity)

    @abstractmethod
    def _described(self, entry: E) -> str:
        """The two fields in words."""

    def _until(self, last: int) -> Iterator[tuple[int, E]]:
        """Yields the (number, entry) pairs up to a place."""
        places, last = self._places, last - self._place_base
        while self._at < len(places) and places[self._at] <= last:
            number = self._numbers[self._at]
            self._at += 1
            yield number, self._index[number]

    def _rest(self) -> Iterator[tuple[int, E]]:
        return self._until(self._places[-1] + self._place_base) if self._places else iter(())

    def _take_usual(self, rows: Rows) -> bool:
        """Takes the batches of a step if each entry up to the last one has the place of one, and its value."""
        base = self._index.base_offset
        taken = rows.pass_entries(self._places, self._values, self._at, self._last, self._largest, base, self.by_time)
        if taken is None:
            return False
        self._at, self._last, self._largest = taken
        return True


class OffsetIndexCheck(IndexCheck[OffsetEntry]):
    """Checks an .index."""

    order_kind = "index_order"
    effect_of_fall = "; a search may find a wrong entry"
    by_time = False

    def __init__(self, index: OffsetIndex, report: ReportFile) -> None:
        super().__init__(index, report)
        self._waiting: list[tuple[int, OffsetEntry]] = []  # entries with an offset above their batch
        self._reached = 0  # the highest position of an entry

    def _described(self, entry: OffsetEntry) -> str:
        return f"offset {entry.offset} at byte {entry.position}"

    def add(self, step: Step) -> None:
        """Compares the batches of the next step."""
        if not self._waiting and self._take_usual(step.rows):
            if self._at:
                self._reached = max(self._reached, self._places[self._at - 1])
            return
        for position, base, last in zip(*map(step.column, ("position", "base_offset", "last_offset")), strict=True):
            for number, entry in self._until(position):
                if entry.position == position:
                    self._check(number, entry, base, last)
                else:
                    what = f"points into a batch: the next one begins at byte {position}"
                    self._add("index_position", number, entry, what)
                self._reached = max(self._reached, entry.position)
            self._match_appends(last)
            self._last = last

    def _check(self, number: int, entry: OffsetEntry, base: int | None, last: int) -> None:
        if self._last is not None and entry.offset <= self._last:
            what = (
                f"points too far: the batch before it ends at offset {self._last}, so a search for {entry.offset} does "
                "not find it"
            )
            self._add("index_offset", number, entry, what)
        elif entry.offset > last:
            self._waiting.append((number, entry))
        elif base is not None and entry.offset < base:
            what = f"points at a batch without its offset, with the offsets {base} to {last}"
            self._add("index_offset", number, entry, what, ANOMALY)

    def _match_appends(self, last: int) -> None:
        """Checks entries with an offset above their batch. If it is the last offset of a later batch, the broker stored
        the last offset of an append of several batches."""
        waiting, self._waiting = self._waiting, []
        for number, entry in waiting:
            if entry.offset > last:
                self._waiting.append((number, entry))
            elif entry.offset == last:
                what = "has the last offset of an append of several batches, as brokers before 4.1 write it: harmless"
                self._add("index_append", number, entry, what)
            else:
                what = f"points at a batch without its offset: a later batch, which ends at {last}, has it"
                self._add("index_offset", number, entry, what, ANOMALY)

    def finish(self, end: int, largest_batch: int, closed: bool, live: bool = False) -> None:
        """Reports entries beyond the last batch, and a truncated index."""
        severity, why = (ANOMALY, _AHEAD) if live else (None, "")
        for number, entry in self._rest():
            self._add("index_position", number, entry, f"points beyond the log's end, {end}{why}", severity)
        for number, entry in self._waiting:
            what = f"is above the segment's last offset, {self._last}"
            what += why or ": a broker regards the segment as empty"
            self._add("index_offset", number, entry, what, severity)
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

    order_kind = "time_order"
    by_time = True

    def __init__(self, index: TimeIndex, report: ReportFile) -> None:
        super().__init__(index, report)
        self._last_entry = index[-1] if len(index) else None

    def _described(self, entry: TimeEntry) -> str:
        return f"timestamp {entry.timestamp} at offset {entry.offset}"

    def add(self, step: Step) -> None:
        """Compares the batches of the next step."""
        if self._take_usual(step.rows):
            return
        columns = map(step.column, ("base_offset", "last_offset", "max_timestamp"))
        for base, last, max_timestamp in zip(*columns, strict=True):
            earlier_largest = self._largest
            if max_timestamp is not None and (earlier_largest is None or max_timestamp > earlier_largest):
                self._largest = max_timestamp
            for number, entry in self._until(last):
                inside = base is None or entry.offset >= base
                self._check(number, entry, self._largest if inside else earlier_largest)
            self._last = last

    def _check(self, number: int, entry: TimeEntry, largest: int | None) -> None:
        if largest is not None and entry.timestamp < largest:
            what = f"is too early: the largest timestamp up to that offset is {largest}: searches by time miss records"
            self._add("time_largest", number, entry, what)
        elif largest is None or entry.timestamp > largest:
            limit = "no timestamp" if largest is None else f"{largest} at most"
            what = (
                f"is later than all records up to that offset ({limit}): retention by time keeps the segment too long"
            )
            self._add("time_largest", number, entry, what, ANOMALY)

    def finish(self, end: int, largest_batch: int, closed: bool, live: bool = False) -> None:
        """Reports entries beyond the last batch, and a missing last entry."""
        severity, why = (ANOMALY, _AHEAD) if live else (None, "")
        for number, entry in self._rest():
            segment = "is empty" if self._last is None else f"ends at offset {self._last}"
            self._add("time_offset", number, entry, f"is beyond the segment, which {segment}{why}", severity)
        latest = None if self._last_entry is None else self._last_entry.timestamp
        if closed and self._largest is not None and (latest is None or latest < self._largest):
            last = "there is no entry" if latest is None else f"the last entry has timestamp {latest}"
            self._report(
                "time_end",
                f"{last}, but the segment's largest timestamp is {self._largest}: retention by time may remove the "
                "segment too early",
            )
