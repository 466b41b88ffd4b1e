"""Checks of .index and .timeindex against a segment's batches

An entry of .index is right if reading from its position finds every record at or above its offset: the position is the
start of a batch, all earlier batches end below the offset, and the batch has the offset. Usually it is that batch's
last offset. Two cases look wrong but are not (KAFKA-7487): brokers before 4.1 (KAFKA-806) store the last offset of a
whole append of several batches; and after cleaning a batch may be empty or begin above its old records.
"""

from __future__ import annotations

from abc import abstractmethod
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, chain, islice
from operator import gt
from typing import Generic, TypeVar

from kafkarec.sidecars.index_entries import Entries
from kafkarec.sidecars.offset_index import OffsetEntry, OffsetIndex
from kafkarec.sidecars.time_index import TimeEntry, TimeIndex

from .side_file_finding import ERROR, NOTE, WARNING, SideFileFindings

_MAX_WITHOUT_ENTRY = 1 << 20  # bytes at the end of a log; more are reported, at the usual index intervals
_AHEAD = (
    " (the log was truncated, or copied before its index; a broker rebuilds the index when it recovers the segment)"
)
InDamage = Callable[[int], bool]
E = TypeVar("E", OffsetEntry, TimeEntry)


def _rise(before: int | None, values: Sequence[int]) -> bool:
    """Whether each value is above the one before it; before: None if there is none before the first."""
    if before is None:
        return all(map(gt, islice(values, 1, None), values))
    return all(map(gt, values, chain((before,), values)))


class _IndexCheck(Generic[E]):
    """The entries of an index in the order of their places: the position in the log, or the offset, that follows the
    value which is looked for. Where every entry has a batch's place and value, which is usual, they are compared as
    columns; else one by one."""

    order_check: str

    def __init__(self, index: Entries[E], file: str, findings: SideFileFindings) -> None:
        self._index: Entries[E] = index
        self._file, self._findings = file, findings
        columns = index.columns()
        falls = list(index.falls(columns))
        usable = len(index)
        if falls and index.preallocated:  # of an active segment: a broker trims the index of a closed one
            usable, falls = falls[0], []
            what = f"{len(index) - usable} entries from entry {usable} on are left from before the log was truncated"
            findings.add(NOTE, self.order_check, file, what, entry=usable)
        for number in falls:
            previous, entry = index[number - 1 : number + 1]
            expected, what = self._why_it_falls(previous)
            self._add(ERROR, self.order_check, number, expected, entry, what)
        numbers = range(usable)
        self._numbers: Sequence[int] = sorted(numbers, key=columns[1].__getitem__) if falls else numbers
        self._values, self._places = (array("q", map(column.__getitem__, self._numbers)) for column in columns)
        # Added where it is compared, as near 2^63 the sum needs more than 64 bits.
        self._value_base, self._place_base = (index.base_offset if n == index.offset_field else 0 for n in range(2))
        self._at = 0  # the next entry, in this order

    def _add(self, severity: str, check: str, number: int, expected: str | None, entry: E, what: str) -> None:
        found = self._described(entry)
        sentence = f"entry {number} ({found}) {what}"
        self._findings.add(severity, check, self._file, sentence, entry=number, expected=expected, found=found)

    @abstractmethod
    def _described(self, entry: E) -> str:
        """The two fields in words."""

    @abstractmethod
    def _why_it_falls(self, previous: E) -> tuple[str, str]:
        """What is expected of an entry behind `previous`, and what is wrong with one that does not follow it."""

    def _until(self, last: int) -> Iterator[tuple[int, E]]:
        """Yields the (number, entry) pairs up to a place."""
        places, last = self._places, last - self._place_base
        while self._at < len(places) and places[self._at] <= last:
            number = self._numbers[self._at]
            self._at += 1
            yield number, self._index[number]

    def _rest(self) -> Iterator[tuple[int, E]]:
        return self._until(self._places[-1] + self._place_base) if self._places else iter(())

    def _take_usual(self, places: Sequence[int], values: Sequence[int]) -> bool:
        """Passes over the entries up to the last place if each has one of the places, and its value."""
        stop = bisect_right(self._places, places[-1] - self._place_base, self._at)
        value_of = dict(zip(places, values, strict=True)).get
        found = map(self._value_base.__add__, self._values[self._at : stop])
        if list(map(value_of, map(self._place_base.__add__, self._places[self._at : stop]))) != list(found):
            return False
        self._at = stop
        return True


class OffsetCheck(_IndexCheck[OffsetEntry]):
    """Checks an .index. Call `add` with all batches in order, then `finish`."""

    order_check = "index_order"

    def __init__(self, index: OffsetIndex, file: str, findings: SideFileFindings) -> None:
        super().__init__(index, file, findings)
        self._waiting: list[tuple[int, OffsetEntry]] = []  # entries with an offset above their batch
        self._previous_last: int | None = None
        self._largest_batch = 0
        self._reached = 0  # the highest position of an entry

    def _described(self, entry: OffsetEntry) -> str:
        return f"offset {entry.offset} at byte {entry.position}"

    def _why_it_falls(self, previous: OffsetEntry) -> tuple[str, str]:
        return (
            f"offset > {previous.offset}, byte > {previous.position}",
            f"does not ascend: it follows offset {previous.offset} at byte {previous.position}; a search may find a "
            "wrong entry",
        )

    def add(
        self,
        positions: Sequence[int],
        sizes: Sequence[int],
        bases: Sequence[int | None],
        lasts: Sequence[int],
        in_damage: InDamage,
    ) -> None:
        """Compares the next batches, one or more.

        bases       None: a wrapper of magic 0 or 1, whose base offset is not known
        in_damage   whether a position is within damage; entries that point there are not reported
        """
        if not self._waiting and _rise(self._previous_last, lasts) and self._take_usual(positions, lasts):
            if self._at:
                self._reached = self._places[self._at - 1]
            self._previous_last = lasts[-1]
        else:
            for position, base, last in zip(positions, bases, lasts, strict=True):
                self._add_batch(position, base, last, in_damage)
        self._largest_batch = max(self._largest_batch, *sizes)

    def _add_batch(self, position: int, base: int | None, last: int, in_damage: InDamage) -> None:
        for number, entry in self._until(position):
            if entry.position == position:
                self._check(number, entry, base, last)
            elif not in_damage(entry.position):
                self._add(
                    ERROR,
                    "index_position",
                    number,
                    f"the start of a batch, such as byte {position}",
                    entry,
                    f"points into a batch: the next one begins at byte {position}",
                )
            self._reached = max(self._reached, entry.position)
        self._match_appends(last)
        self._previous_last = last

    def _check(self, number: int, entry: OffsetEntry, base: int | None, last: int) -> None:
        previous_last = self._previous_last
        if previous_last is not None and entry.offset <= previous_last:
            self._add(
                ERROR,
                "index_offset",
                number,
                f"offset {last}",
                entry,
                f"points too far: the batch before it ends at offset {previous_last}, so a search for {entry.offset} "
                "does not find it",
            )
        elif entry.offset > last:
            self._waiting.append((number, entry))
        elif base is not None and entry.offset < base:
            self._add(
                WARNING,
                "index_offset",
                number,
                f"offset {last}",
                entry,
                f"points at a batch without its offset, with the offsets {base} to {last}",
            )

    def _match_appends(self, last: int) -> None:
        """Checks entries with an offset above their batch. If it is the last offset of a later batch, the broker stored
        the last offset of an append of several batches."""
        waiting, self._waiting = self._waiting, []
        for number, entry in waiting:
            if entry.offset > last:
                self._waiting.append((number, entry))
            elif entry.offset == last:
                self._add(
                    NOTE,
                    "index_append",
                    number,
                    None,
                    entry,
                    "has the last offset of an append of several batches, as brokers before 4.1 write it: harmless",
                )
            else:
                self._add(
                    WARNING,
                    "index_offset",
                    number,
                    "the last offset of the batch there",
                    entry,
                    f"points at a batch without its offset: a later batch, which ends at {last}, has it",
                )

    def finish(self, end: int, in_damage: InDamage, live: bool = False) -> None:
        """Reports entries beyond the last batch.

        end    end position of the last batch
        live   the file was copied while it was written, or its broker crashed, so it may be ahead of the log
        """
        severity, why = (WARNING, _AHEAD) if live else (ERROR, "")
        for number, entry in self._rest():
            if not in_damage(entry.position):
                text = f"points beyond the log's end, {end}{why}"
                self._add(severity, "index_position", number, f"below byte {end}", entry, text)
        for number, entry in self._waiting:
            self._add(
                severity,
                "index_offset",
                number,
                f"at most {self._previous_last}",
                entry,
                f"is above the segment's last offset, {self._previous_last}"
                + (why or ": a broker regards the segment as empty"),
            )
        if self._previous_last is not None:
            self._coverage(end)

    def _coverage(self, end: int) -> None:
        """Reports a truncated index: more bytes without an entry than the usual intervals explain."""
        reached = self._reached
        spacing = reached // len(self._index) if len(self._index) else 4096
        if end - reached > _MAX_WITHOUT_ENTRY + self._largest_batch + 8 * spacing:
            self._findings.add(
                WARNING,
                "index_coverage",
                self._file,
                f"the last {end - reached} bytes of the log have no entry: reading there begins at byte {reached}; "
                "reindex writes a complete one",
                expected=end,
                found=reached,
            )


class TimeCheck(_IndexCheck[TimeEntry]):
    """Checks a .timeindex. Call `add` with all batches in order, then `finish`."""

    order_check = "time_order"

    def __init__(self, index: TimeIndex, file: str, findings: SideFileFindings) -> None:
        super().__init__(index, file, findings)
        self._last_entry = index[-1] if len(index) else None
        self._largest: int | None = None
        self._last: int | None = None

    def _described(self, entry: TimeEntry) -> str:
        return f"timestamp {entry.timestamp} at offset {entry.offset}"

    def _why_it_falls(self, previous: TimeEntry) -> tuple[str, str]:
        return (
            f"timestamp > {previous.timestamp}, offset >= {previous.offset}",
            f"does not ascend: it follows timestamp {previous.timestamp} at offset {previous.offset}",
        )

    def add(self, bases: Sequence[int | None], lasts: Sequence[int], max_timestamps: Sequence[int | None]) -> None:
        """Compares the next batches, one or more."""
        known = [one for one in max_timestamps if one is not None]
        if len(known) == len(lasts) and _rise(self._last, lasts):
            largest = list(accumulate(known, max, initial=self._largest))[-len(known) :]
            if self._take_usual(lasts, largest):
                self._largest, self._last = largest[-1], lasts[-1]
                return
        for base, last, max_timestamp in zip(bases, lasts, max_timestamps, strict=True):
            self._add_batch(base, last, max_timestamp)

    def _add_batch(self, base: int | None, last: int, max_timestamp: int | None) -> None:
        earlier_largest = self._largest
        if max_timestamp is not None and (earlier_largest is None or max_timestamp > earlier_largest):
            self._largest = max_timestamp
        for number, entry in self._until(last):
            inside = base is None or entry.offset >= base
            self._check(number, entry, self._largest if inside else earlier_largest)
        self._last = last

    def _check(self, number: int, entry: TimeEntry, largest: int | None) -> None:
        if largest is not None and entry.timestamp < largest:
            self._add(
                ERROR,
                "time_largest",
                number,
                f"timestamp {largest}",
                entry,
                f"is too early: the largest timestamp up to that offset is {largest}: searches by time miss records",
            )
        elif largest is None or entry.timestamp > largest:
            limit = "no timestamp" if largest is None else f"{largest} at most"
            self._add(
                WARNING,
                "time_largest",
                number,
                limit,
                entry,
                f"is later than all records up to that offset ({limit}): retention by time keeps the segment too long",
            )

    def finish(self, closed: bool, live: bool = False) -> None:
        """Reports entries beyond the last batch, and a missing last entry. closed: it is not the active segment; live:
        as for OffsetCheck."""
        severity, why = (WARNING, _AHEAD) if live else (ERROR, "")
        for number, entry in self._rest():
            end = "is empty" if self._last is None else f"ends at offset {self._last}"
            text = f"is beyond the segment, which {end}{why}"
            self._add(severity, "time_offset", number, f"at most {self._last}", entry, text)
        if not closed or self._largest is None:
            return
        latest = None if self._last_entry is None else self._last_entry.timestamp
        if latest is None or latest < self._largest:
            last = "there is no entry" if latest is None else f"the last entry has timestamp {latest}"
            self._findings.add(
                WARNING,
                "time_end",
                self._file,
                f"{last}, but the segment's largest timestamp is {self._largest}: retention by time may remove the "
                "segment too early",
                expected=self._largest,
                found=latest,
            )
