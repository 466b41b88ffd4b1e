"""The data of a report: ReportData > PartitionReport > FileReport, all frozen, with to_dict for JSON.

ReportData        all partitions, and findings about a data folder
PartitionReport   one log: its files in offset order, and findings about the log
FileReport        one .log or .checkpoint: byte ranges that cover the file, damage, findings
Finding           one kind of problem at one or more positions
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Any

from kafkarec import report
from kafkarec.damage import Damage, Restored, is_read_failure, is_unchecked
from kafkarec.sources.read_failures import DISK, LIMIT, OTHER
from kafkarec.storage.recorded_ends import EndVerdict, LogEnd

from .finding_kinds import ANOMALY, ERROR, READ_FAILURE, kinds_of_subject
from .findings import Finding

GOOD, DAMAGED, UNREADABLE, UNCHECKED, PREALLOCATED, TAIL = report.STATES
_NO_END = EndVerdict(LogEnd(0, 0, None))
STATES = ("damaged", "error", "unchecked", "anomaly", "ok")
"""What a file, a partition or all of them can be, the worst first. unchecked: all that is wrong are payloads above a
limit or without a library."""
READ_FAILURES = kinds_of_subject(READ_FAILURE)
# what JSON has of a partition as it is
_OF_PARTITION = (
    "path",
    "topic",
    "partition",
    "state",
    "lost_offsets",
    "lost_at_an_end",
    "missing_offsets",
    "beyond_end",
)


@dataclass(frozen=True, slots=True)
class ByteRange:
    """Bytes [position, position + length) of a file: good, damaged, unreadable, unchecked, preallocated or tail."""

    state: str
    position: int
    length: int


@dataclass(frozen=True, slots=True)
class FileReport:
    """One file. `ranges` cover it without gap or overlap. `damage_left_out` counts the damage that is not listed.

    size, good_bytes, damaged_bytes, unreadable_bytes, remaining: int   bytes; remaining: a cut tail or preallocated
    batches, records: int       good batches; records as their batches declare them (an outer message of magic 0, 1: 1)
    largest_record: int         bytes of the largest record, without its length (magic 0, 1: offset and size), as a
                                topic's max.decompressed.message.bytes limits it in compressed batches; 0: no record
    largest_record_offset       the offset of the first record of that size
    first_offset, next_offset   of the good batches; None if there are none
    restored                    good batches whose header fields were restored; damaged on disk
    """

    path: str
    name: str
    size: int
    good_bytes: int = 0
    damaged_bytes: int = 0
    unreadable_bytes: int = 0
    remaining: int = 0
    batches: int = 0
    records: int = 0
    largest_record: int = 0
    largest_record_offset: int | None = None
    base_offset: int | None = None
    first_offset: int | None = None
    next_offset: int | None = None
    ranges: tuple[ByteRange, ...] = ()
    damage: tuple[Damage, ...] = ()
    damage_left_out: int = 0
    restored: tuple[Restored, ...] = ()
    findings: tuple[Finding, ...] = ()

    @property
    def is_log(self) -> bool:
        """Whether it is a segment with its base offset in its name. A .checkpoint has its end offset in its name."""
        return self.base_offset is not None and ".log" in self.name

    @property
    def places(self) -> int:
        """The number of damaged ranges."""
        return len(self.damage) + self.damage_left_out

    @property
    def state(self) -> str:
        return _worst_state([self], self.findings)

    def to_dict(self) -> dict[str, Any]:
        shown = {name: getattr(self, name) for name in self.__slots__}
        return shown | {
            "state": self.state,
            "ranges": [[one.state, one.position, one.length] for one in self.ranges],
            "damage": [one.as_dict() for one in self.damage],
            "restored": [one.as_dict() for one in self.restored],
            "findings": [one.to_dict() for one in self.findings],
        }


@dataclass(frozen=True, slots=True)
class PartitionReport:
    """One log. `own_findings` are about the log as a whole; `findings` includes those of its files.

    missing: (first, last) offsets that are missing without damaged bytes: missing segments, gaps in a log that was
        never cleaned; at most 1000 of each file
    missing_offsets: number of all these offsets
    end: the log's end, and the files that say that the log was longer
    """

    path: str
    topic: str | None
    partition: int | None
    files: tuple[FileReport, ...] = ()
    own_findings: tuple[Finding, ...] = ()
    missing: tuple[tuple[int, int], ...] = ()
    missing_offsets: int = 0
    end: EndVerdict = _NO_END

    @property
    def beyond_end(self) -> int:
        """The number of offsets above the log's end that existed at least, according to another file."""
        return self.end.beyond_end

    @property
    def name(self) -> str:
        """topic-partition if known, else the path."""
        return self.path if self.topic is None else f"{self.topic}-{self.partition}"

    @property
    def findings(self) -> tuple[Finding, ...]:
        return (*self.own_findings, *(one for file in self.files for one in file.findings))

    @property
    def damage(self) -> tuple[Damage, ...]:
        return tuple(one for file in self.files for one in file.damage)

    @property
    def unchecked(self) -> tuple[Damage, ...]:
        """Those of `damage` that are above a limit or without a library: no loss."""
        return tuple(one for one in self.damage if is_unchecked(one.reason))

    @property
    def lost_ranges(self) -> tuple[Damage, ...]:
        """Those of `damage` that are damaged, or could not be read."""
        return tuple(one for one in self.damage if not is_unchecked(one.reason))

    @property
    def places(self) -> int:
        return sum(file.places for file in self.files)

    @property
    def damage_left_out(self) -> int:
        """The number of damaged ranges that `damage` does not list."""
        return self.total("damage_left_out")

    @property
    def state(self) -> str:
        """The worst of STATES."""
        return _worst_state(self.files, self.findings)

    @property
    def lost_offsets(self) -> int:
        """An upper bound of the number of lost offsets: in damage between good batches, in `missing`, and above the
        log's end. For damage at the start or end of the log see `lost_at_an_end`."""
        spans = {(one.lost_from, one.lost_to) for one in self.lost_ranges}  # adjacent ranges have the same
        known = sum(max(last - first + 1, 0) for first, last in spans if first is not None and last is not None)
        return known + self.missing_offsets + self.beyond_end

    @property
    def lost_bytes(self) -> int:
        """The number of damaged and unreadable bytes, without those of batches that were not checked."""
        bad = self.total("damaged_bytes") + self.total("unreadable_bytes")
        return bad - sum(one.length for one in self.unchecked)

    @property
    def lost_at_an_end(self) -> bool:
        """Whether there is damage at the log's start or end, where the number of lost offsets is not known."""
        return any(one.lost_from is None or one.lost_to is None for one in self.lost_ranges)

    def total(self, name: str) -> int:
        """The sum over the files of one of FileReport's numbers."""
        return sum(getattr(file, name) for file in self.files)

    def to_dict(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in _OF_PARTITION} | {
            "next_offset": self.end.end.offset,
            "recorded_ends": [one.to_dict() for one in self.end.higher],
            "files": [file.to_dict() for file in self.files],
            "findings": [one.to_dict() for one in self.own_findings],
        }


@dataclass(frozen=True, slots=True)
class ReportData:
    """The result of `kafkarec.verify`; `report.Report` can also be printed.

    path: str                     the verified path
    partitions                    one PartitionReport per log, worst first
    own_findings                  findings about a data folder as a whole
    seconds: float                duration
    """

    path: str
    partitions: tuple[PartitionReport, ...]
    own_findings: tuple[Finding, ...] = ()
    seconds: float = field(default=0.0, compare=False)

    @property
    def ok(self) -> bool:
        """Whether there is no damage and no error; there may be anomalies and notes."""
        return self.exit_status() == 0

    @property
    def damage(self) -> tuple[Damage, ...]:
        return tuple(one for partition in self.partitions for one in partition.damage)

    @property
    def restored(self) -> tuple[Restored, ...]:
        return tuple(one for file in self.files for one in file.restored)

    @property
    def findings(self) -> tuple[Finding, ...]:
        return (*self.own_findings, *(one for partition in self.partitions for one in partition.findings))

    @property
    def files(self) -> tuple[FileReport, ...]:
        return tuple(file for partition in self.partitions for file in partition.files)

    @property
    def state(self) -> str:
        return _worst_state(self.files, self.findings)

    def exit_status(self, strict: bool = False) -> int:
        """The exit status of the command line.

        0   fine
        1   damage or an error, with `strict` also an anomaly
        3   a file could not be read, whatever else there is; or only payloads above a limit or without a library
        """
        if self.unread or self.state == "unchecked":
            return 3
        bad = self.state in ("damaged", "error") or (strict and self.state == "anomaly")
        return int(bad)

    @property
    def unread(self) -> dict[str, str]:
        """{path: cause} of the files and folders that could not be read, or not completely. Causes: see
        `Finding.cause`."""
        found = {
            one.file or one.detail: one.cause or OTHER
            for one in self.findings
            if one.kind in READ_FAILURES and one.severity == ERROR
        }
        for one in self.damage:
            if is_read_failure(one):
                found.setdefault(str(one.file), LIMIT if one.reason == "search_limit" else DISK)
        return found

    def total(self, name: str) -> int:
        """The sum over all files of one of FileReport's numbers."""
        return sum(partition.total(name) for partition in self.partitions)

    @property
    def largest_record(self) -> int:
        """Bytes of the largest record of all files; 0: there is none."""
        return max((one.largest_record for one in self.files), default=0)

    def to_dict(self) -> dict[str, Any]:
        """All data as dicts, lists, strings and numbers."""
        sums = ("size", "good_bytes", "damaged_bytes", "unreadable_bytes", "remaining", "batches", "records")
        return {
            "path": self.path,
            "state": self.state,
            "ok": self.ok,
            "seconds": round(self.seconds, 3),
            "totals": {name: self.total(name) for name in sums}
            | {"files": len(self.files), "largest_record": self.largest_record},
            "partitions": [partition.to_dict() for partition in self.partitions],
            "findings": [one.to_dict() for one in self.own_findings],
        }

    def to_json(self) -> str:
        """`to_dict` as indented JSON in ASCII."""
        return json.dumps(self.to_dict(), indent=2)

    def __repr__(self) -> str:
        sums = f"{len(self.partitions)} partitions, {len(self.files)} files, {self.total('size')} bytes"
        return f"<Report: {self.state}, {sums}, {len(self.damage)} damaged ranges, {len(self.findings)} findings>"


def _worst_state(files: Collection[FileReport], findings: Iterable[Finding]) -> str:
    listed, severities = [one for file in files for one in file.damage], {one.severity for one in findings}
    if any(file.damage_left_out for file in files) or not all(is_unchecked(one.reason) for one in listed):
        return "damaged"
    if ERROR in severities:
        return ERROR
    return "unchecked" if listed else ANOMALY if ANOMALY in severities else "ok"
