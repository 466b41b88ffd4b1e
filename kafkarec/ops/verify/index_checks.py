"""Checks of .index and .timeindex against a segment's batches

An entry of .index is right if reading from its position finds every record at or above its offset: the position is the
start of a batch, all earlier batches end below the offset, and the batch has the offset. Usually it is that batch's
last offset. Two cases look wrong but are not (KAFKA-7487): brokers before 4.1 (KAFKA-806) store the last offset of a
whole append of several batches; and after cleaning a batch may be empty or begin above its old records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from kafkarec.sidecars.offset_index import OffsetEntry, OffsetIndex
from kafkarec.sidecars.time_index import TimeEntry, TimeIndex

from .side_file_finding import ERROR, NOTE, WARNING, SideFileFindings

_MAX_WITHOUT_ENTRY = 1 << 20  # bytes at the end of a log; more are reported, at the usual index intervals
_AHEAD = (
    " (the log was truncated, or copied before its index; a broker rebuilds the index when it recovers the segment)"
)
InDamage = Callable[[int], bool]


def _add(
    findings: SideFileFindings,
    file: str,
    severity: str,
    check: str,
    number: int,
    expected: str | None,
    found: str,
    what: str,
) -> None:
    """Adds a finding about one entry of an index."""
    findings.add(
        severity, check, file, f"entry {number} ({found}) {what}", entry=number, expected=expected, found=found
    )


def _stale(index: OffsetIndex | TimeIndex, file: str, check: str, findings: SideFileFindings) -> int:
    """The number of entries before those that a truncation left in the index of an active segment; 0: there are none.
    A closed index has none, as its broker trimmed it."""
    rising = index.rising if index.preallocated else len(index)
    if rising == len(index):
        return 0
    what = f"{len(index) - rising} entries from entry {rising} on are left from before the log was truncated"
    findings.add(NOTE, check, file, what, entry=rising)
    return rising


class OffsetCheck:
    """Checks an .index. Call `add` with every batch in order, then `finish`."""

    def __init__(self, index: OffsetIndex, file: str, findings: SideFileFindings) -> None:
        self._file, self._findings = file, findings
        self._index = index
        self._entries = self._in_order(index)
        self._next = next(self._entries, None)
        self._waiting: list[tuple[int, OffsetEntry]] = []  # entries with an offset above their batch
        self._previous_last: int | None = None
        self._largest_batch = 0
        self._reached = 0  # the highest position of an entry

    def _in_order(self, index: OffsetIndex) -> Iterator[tuple[int, OffsetEntry]]:
        """The (number, entry) pairs by position. Adds findings for entries that do not ascend."""
        stale = _stale(index, self._file, "index_order", self._findings)
        if stale:
            return ((number, index[number]) for number in range(stale))
        ordered = True
        previous: OffsetEntry | None = None
        for number, entry in enumerate(index):
            if previous is not None and not index.follows(entry, previous):
                ordered = False
                self._add(
                    ERROR,
                    "index_order",
                    number,
                    f"offset > {previous.offset}, byte > {previous.position}",
                    entry,
                    f"does not ascend: it follows offset {previous.offset} at byte {previous.position}; a search may "
                    "find a wrong entry",
                )
            previous = entry
        numbers: Sequence[int] = range(len(index))
        if not ordered:
            numbers = sorted(numbers, key=lambda number: index[number].position)
        return ((number, index[number]) for number in numbers)

    def _add(self, severity: str, check: str, number: int, expected: str | None, entry: OffsetEntry, what: str) -> None:
        found = f"offset {entry.offset} at byte {entry.position}"
        _add(self._findings, self._file, severity, check, number, expected, found, what)

    def add(self, position: int, size: int, base: int | None, last: int, in_damage: InDamage) -> None:
        """Compares the next batch.

        base        None: a wrapper of magic 0 or 1, whose base offset is not known
        in_damage   whether a position is within damage; entries that point there are not reported
        """
        while self._next is not None and self._next[1].position <= position:
            number, entry = self._next
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
            self._next = next(self._entries, None)
        self._match_appends(last)
        self._previous_last = last
        self._largest_batch = max(self._largest_batch, size)

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
        while self._next is not None:
            number, entry = self._next
            if not in_damage(entry.position):
                text = f"points beyond the log's end, {end}{why}"
                self._add(severity, "index_position", number, f"below byte {end}", entry, text)
            self._next = next(self._entries, None)
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


class TimeCheck:
    """Checks a .timeindex. Call `add` with every batch in order, then `finish`."""

    def __init__(self, index: TimeIndex, file: str, findings: SideFileFindings) -> None:
        self._file, self._findings = file, findings
        self._last_entry = index[-1] if len(index) else None
        self._entries = self._in_order(index)
        self._next = next(self._entries, None)
        self._largest: int | None = None
        self._last: int | None = None

    def _in_order(self, index: TimeIndex) -> Iterator[tuple[int, TimeEntry]]:
        stale = _stale(index, self._file, "time_order", self._findings)
        if stale:
            return ((number, index[number]) for number in range(stale))
        ordered = True
        previous: TimeEntry | None = None
        for number, entry in enumerate(index):
            if previous is not None and not index.follows(entry, previous):
                ordered = False
                self._add(
                    ERROR,
                    "time_order",
                    number,
                    f"timestamp > {previous.timestamp}, offset >= {previous.offset}",
                    entry,
                    f"does not ascend: it follows timestamp {previous.timestamp} at offset {previous.offset}",
                )
            previous = entry
        numbers: Sequence[int] = range(len(index))
        if not ordered:
            numbers = sorted(numbers, key=lambda number: index[number].offset)
        return ((number, index[number]) for number in numbers)

    def _add(self, severity: str, check: str, number: int, expected: str, entry: TimeEntry, what: str) -> None:
        found = f"timestamp {entry.timestamp} at offset {entry.offset}"
        _add(self._findings, self._file, severity, check, number, expected, found, what)

    def add(self, base: int | None, last: int, max_timestamp: int | None) -> None:
        """Compares the next batch."""
        earlier_largest = self._largest
        if max_timestamp is not None and (earlier_largest is None or max_timestamp > earlier_largest):
            self._largest = max_timestamp
        while self._next is not None and self._next[1].offset <= last:
            number, entry = self._next
            inside = base is None or entry.offset >= base
            self._check(number, entry, self._largest if inside else earlier_largest)
            self._next = next(self._entries, None)
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
        while self._next is not None:
            number, entry = self._next
            end = "is empty" if self._last is None else f"ends at offset {self._last}"
            text = f"is beyond the segment, which {end}{why}"
            self._add(severity, "time_offset", number, f"at most {self._last}", entry, text)
            self._next = next(self._entries, None)
        if not closed or self._largest is None:
            return
        latest = None if self._last_entry is None else self._last_entry.timestamp
        if latest is None or latest < self._largest:
            self._findings.add(
                WARNING,
                "time_end",
                self._file,
                f"the last entry has timestamp {latest}, but the segment's largest is {self._largest}: retention by "
                "time may remove the segment too early",
                expected=self._largest,
                found=latest,
            )
