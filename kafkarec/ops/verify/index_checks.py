"""Checks of .index and .timeindex against a segment's batches, one batch after the other

An entry of .index is right if reading from its position finds every record at or above its offset: the position is the
start of a batch, all earlier batches end below the offset, and the batch has the offset. The offset is usually that
batch's last one. Two cases look wrong and are not (KAFKA-7487): brokers before 4.1 (KAFKA-806) store the last offset of
a whole append of several batches; and after cleaning a batch may be empty or begin above its old records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from kafkarec.sidecars.offset_index import OffsetEntry, OffsetIndex
from kafkarec.sidecars.time_index import TimeEntry, TimeIndex

from .side_file_finding import ERROR, NOTE, WARNING, Findings

_FAR = 1 << 20  # bytes without an entry at the end of a log that are reported, for the usual index intervals
_AHEAD = " (the log was cut, or copied before its index; a broker mends it when it recovers the segment)"
InDamage = Callable[[int], bool]


def _add(
    findings: Findings, file: str, severity: str, check: str, number: int, expected: str | None, found: str, what: str
) -> None:
    """Adds a finding about one entry of an index."""
    findings.add(
        severity, check, file, f"entry {number} ({found}) {what}", entry=number, expected=expected, found=found
    )


class OffsetCheck:
    """Checks an .index. Call `see` with every batch in order, then `finish`."""

    def __init__(self, index: OffsetIndex, file: str, findings: Findings) -> None:
        self._file, self._findings = file, findings
        self._index = index
        self._entries = self._in_order(index)
        self._next = next(self._entries, None)
        self._waiting: list[tuple[int, OffsetEntry]] = []  # offsets above the batch they point at
        self._previous_last: int | None = None
        self._largest_batch = 0

    def _in_order(self, index: OffsetIndex) -> Iterator[tuple[int, OffsetEntry]]:
        """(number, entry) by position; adds findings for entries that do not ascend."""
        ordered = True
        before: OffsetEntry | None = None
        for number, entry in enumerate(index):
            if before is not None and (entry.offset <= before.offset or entry.position <= before.position):
                ordered = False
                self._add(
                    ERROR,
                    "index_order",
                    number,
                    f"offset > {before.offset}, byte > {before.position}",
                    entry,
                    f"does not rise: it follows offset {before.offset} at byte {before.position}, so a search goes "
                    "astray",
                )
            before = entry
        numbers: Sequence[int] = range(len(index))
        if not ordered:
            numbers = sorted(numbers, key=lambda number: index[number].position)
        return ((number, index[number]) for number in numbers)

    def _add(self, severity: str, check: str, number: int, expected: str | None, entry: OffsetEntry, what: str) -> None:
        found = f"offset {entry.offset} at byte {entry.position}"
        _add(self._findings, self._file, severity, check, number, expected, found, what)

    def see(self, position: int, size: int, base: int | None, last: int, in_damage: InDamage) -> None:
        """The next batch. base None: a wrapper of magic 0 or 1, whose base offset is not known. in_damage: whether a
        position is within damage; entries that point there are not reported."""
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
            self._next = next(self._entries, None)
        self._match_appends(last)
        self._previous_last = last
        self._largest_batch = max(self._largest_batch, size)

    def _check(self, number: int, entry: OffsetEntry, base: int | None, last: int) -> None:
        before = self._previous_last
        if before is not None and entry.offset <= before:
            self._add(
                ERROR,
                "index_offset",
                number,
                f"offset {last}",
                entry,
                f"is too far on: the batch in front of it goes up to offset {before}, so a search for {entry.offset} "
                "misses it",
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
                f"points at a batch that does not hold its offset: that one has {base} to {last}",
            )

    def _match_appends(self, last: int) -> None:
        """Entries with an offset above their batch: if it is the last offset of a later one, it is that of an append of
        several batches."""
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
                    "names the last offset of an append of several batches, as brokers before 4.1 do: no harm",
                )
            else:
                self._add(
                    WARNING,
                    "index_offset",
                    number,
                    "the last offset of the batch there",
                    entry,
                    f"points at a batch that does not hold its offset: a later batch does, which ends at {last}",
                )

    def finish(self, end: int, in_damage: InDamage, live: bool = False) -> None:
        """end: end position of the last batch; live: the file was copied while it was written, or its broker crashed,
        so it may be ahead of the log."""
        severity, why = (WARNING, _AHEAD) if live else (ERROR, "")
        while self._next is not None:
            number, entry = self._next
            if not in_damage(entry.position):
                behind = f"lies behind the log's end, {end}{why}"
                self._add(severity, "index_position", number, f"below byte {end}", entry, behind)
            self._next = next(self._entries, None)
        for number, entry in self._waiting:
            self._add(
                severity,
                "index_offset",
                number,
                f"at most {self._previous_last}",
                entry,
                f"is above the segment's last offset, {self._previous_last}"
                + (why or ": a broker takes the segment for empty"),
            )
        if self._previous_last is not None:
            self._coverage(end)

    def _coverage(self, end: int) -> None:
        """Reports a truncated index: more bytes without an entry than the usual intervals explain."""
        reached = self._index[-1].position if len(self._index) else 0
        spacing = reached // len(self._index) if len(self._index) else 4096
        if end - reached > _FAR + self._largest_batch + 8 * spacing:
            self._findings.add(
                WARNING,
                "index_coverage",
                self._file,
                f"the last {end - reached} bytes of the log have no entry: reading there begins at byte {reached}; "
                "kafkarec reindex makes a whole one",
                expected=end,
                found=reached,
            )


class TimeCheck:
    """Checks a .timeindex. Call `see` with every batch in order, then `finish`."""

    def __init__(self, index: TimeIndex, file: str, findings: Findings) -> None:
        self._file, self._findings = file, findings
        self._last_entry = index[-1] if len(index) else None
        self._entries = self._in_order(index)
        self._next = next(self._entries, None)
        self._largest: int | None = None
        self._last: int | None = None

    def _in_order(self, index: TimeIndex) -> Iterator[tuple[int, TimeEntry]]:
        ordered = True
        before: TimeEntry | None = None
        for number, entry in enumerate(index):
            if before is not None and (entry.timestamp <= before.timestamp or entry.offset < before.offset):
                ordered = False
                self._add(
                    ERROR,
                    "time_order",
                    number,
                    f"timestamp > {before.timestamp}, offset >= {before.offset}",
                    entry,
                    f"does not rise: it follows timestamp {before.timestamp} at offset {before.offset}",
                )
            before = entry
        numbers: Sequence[int] = range(len(index))
        if not ordered:
            numbers = sorted(numbers, key=lambda number: index[number].offset)
        return ((number, index[number]) for number in numbers)

    def _add(self, severity: str, check: str, number: int, expected: str, entry: TimeEntry, what: str) -> None:
        found = f"timestamp {entry.timestamp} at offset {entry.offset}"
        _add(self._findings, self._file, severity, check, number, expected, found, what)

    def see(self, base: int | None, last: int, max_timestamp: int | None) -> None:
        """The next batch."""
        before = self._largest
        if max_timestamp is not None and (before is None or max_timestamp > before):
            self._largest = max_timestamp
        while self._next is not None and self._next[1].offset <= last:
            number, entry = self._next
            inside = base is None or entry.offset >= base
            self._check(number, entry, self._largest if inside else before)
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
                f"is too early: batches up to that offset go up to {largest}, and a search by time misses them",
            )
        elif largest is None or entry.timestamp > largest:
            there = "no timestamp" if largest is None else f"{largest} at most"
            self._add(
                WARNING,
                "time_largest",
                number,
                there,
                entry,
                f"is later than all records up to that offset ({there}): retention by time keeps the segment too long",
            )

    def finish(self, closed: bool, live: bool = False) -> None:
        """closed: it is not the active segment; live: as for OffsetCheck."""
        severity, why = (WARNING, _AHEAD) if live else (ERROR, "")
        while self._next is not None:
            number, entry = self._next
            end = "is empty" if self._last is None else f"ends at offset {self._last}"
            behind = f"lies behind the segment, which {end}{why}"
            self._add(severity, "time_offset", number, f"at most {self._last}", entry, behind)
            self._next = next(self._entries, None)
        if not closed or self._largest is None:
            return
        latest = None if self._last_entry is None else self._last_entry.timestamp
        if latest is None or latest < self._largest:
            self._findings.add(
                WARNING,
                "time_end",
                self._file,
                f"the last entry has timestamp {latest} and the segment's largest is {self._largest}: retention by "
                "time may remove the segment too early",
                expected=self._largest,
                found=latest,
            )
