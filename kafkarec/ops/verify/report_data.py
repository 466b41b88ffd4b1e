"""What `verify` found: ReportData > PartitionReport > FileReport, all frozen, ready for JSON.

    ReportData        every partition that was given, and what holds for the folder around them
    PartitionReport   one log: its files in offset order, and what holds between them
    FileReport        one .log or .checkpoint: a map of its bytes that tiles the file, damage, findings
    Finding           one kind of trouble at one or many places of a file
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

from kafkarec.damage import Damage
from kafkarec.errors import REASONS, LimitExceededError, MissingCodecError

from .finding_kinds import ANOMALY, ERROR
from .findings import Finding
from .offset_checks import Gap

GOOD, DAMAGED, UNREADABLE, PREALLOCATED, TAIL = "good", "damaged", "unreadable", "preallocated", "tail"
STATES = ("damaged", "error", "anomaly", "ok")


@dataclass(frozen=True, slots=True)
class ByteRange:
    """Bytes [position, position + length) of a file: good, damaged, unreadable, preallocated or tail."""

    state: str
    position: int
    length: int


@dataclass(frozen=True, slots=True)
class FileReport:
    """One file. `ranges` cover it once, without a gap; damage beyond `MOST_DAMAGE` is counted in `damage_left_out`.

    size, good_bytes, damaged_bytes, unreadable_bytes, remaining: int   bytes; remaining is a cut tail or preallocated
    batches, records: int       good batches; records as their batches declare them (an outer message of magic 0, 1: 1)
    first_offset, next_offset   of the good batches, None where there is none
    zeros                       (position, length) of the zeros that a damaged range begins with
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
    base_offset: int | None = None
    first_offset: int | None = None
    next_offset: int | None = None
    ranges: tuple[ByteRange, ...] = ()
    damage: tuple[Damage, ...] = ()
    damage_left_out: int = 0
    zeros: tuple[tuple[int, int], ...] = ()
    findings: tuple[Finding, ...] = ()

    @property
    def is_log(self) -> bool:
        """Whether its name says where its offsets begin (a .checkpoint's says where they end, a blob's nothing)."""
        return self.base_offset is not None and ".log" in self.name

    @property
    def places(self) -> int:
        """How many damaged places."""
        return len(self.damage) + self.damage_left_out

    @property
    def state(self) -> str:
        return _state(self.places, self.findings)

    def to_dict(self) -> dict[str, Any]:
        shown = {name: getattr(self, name) for name in self.__slots__}
        return shown | {
            "state": self.state,
            "ranges": [[one.state, one.position, one.length] for one in self.ranges],
            "damage": [one._asdict() for one in self.damage],
            "zeros": [list(one) for one in self.zeros],
            "findings": [one.to_dict() for one in self.findings],
        }


@dataclass(frozen=True, slots=True)
class PartitionReport:
    """One log. `own_findings` hold between its files; `findings` has those of its files too.

    gaps: with sequences=True each gap in the offsets, and what explains it (`.why`)
    missing: (first, last) offsets that are gone with all bytes of theirs: segments that are not there, holes in a log
        that was never cleaned, the first 1000 of each file
    missing_offsets: how many these are in all
    beyond_end: so many offsets above the log's end were there once, as the data folder's checkpoints say
    """

    path: str
    topic: str | None
    partition: int | None
    files: tuple[FileReport, ...] = ()
    own_findings: tuple[Finding, ...] = ()
    gaps: tuple[Gap, ...] = ()
    missing: tuple[tuple[int, int], ...] = ()
    missing_offsets: int = 0
    beyond_end: int = 0

    @property
    def name(self) -> str:
        """topic-partition where it is known, else the path."""
        return self.path if self.topic is None else f"{self.topic}-{self.partition}"

    @property
    def findings(self) -> tuple[Finding, ...]:
        return (*self.own_findings, *(one for file in self.files for one in file.findings))

    @property
    def damage(self) -> tuple[Damage, ...]:
        return tuple(one for file in self.files for one in file.damage)

    @property
    def places(self) -> int:
        return sum(file.places for file in self.files)

    @property
    def state(self) -> str:
        """damaged, error, anomaly or ok: the worst there is."""
        return _state(self.places, self.findings)

    @property
    def lost_offsets(self) -> int:
        """At most so many offsets are lost: to damage, as far as the offsets around it tell (see `lost_at_an_end`),
        in `missing`, and above the log's end."""
        spans = {(one.lost_from, one.lost_to) for one in self.damage}  # ranges in a row share theirs
        known = sum(max(last - first + 1, 0) for first, last in spans if first is not None and last is not None)
        return known + self.missing_offsets + self.beyond_end

    @property
    def lost_bytes(self) -> int:
        """Bytes that are there and give no batch: damaged and unreadable ones."""
        return self.total("damaged_bytes") + self.total("unreadable_bytes")

    @property
    def lost_at_an_end(self) -> bool:
        """Whether damage lies at the log's begin or end, where nothing tells how many offsets it cost."""
        return any(one.lost_from is None or one.lost_to is None for one in self.damage)

    def total(self, name: str) -> int:
        """The sum over the files of one of FileReport's numbers."""
        return sum(getattr(file, name) for file in self.files)

    def to_dict(self) -> dict[str, Any]:
        return {
            "path": self.path,
            "topic": self.topic,
            "partition": self.partition,
            "state": self.state,
            "lost_offsets": self.lost_offsets,
            "lost_at_an_end": self.lost_at_an_end,
            "missing_offsets": self.missing_offsets,
            "beyond_end": self.beyond_end,
            "files": [file.to_dict() for file in self.files],
            "findings": [one.to_dict() for one in self.own_findings],
            "gaps": [asdict(gap) for gap in self.gaps],
        }


@dataclass(frozen=True, slots=True)
class ReportData:
    """What `kafkarec.verify` found; `report.Report` can also be printed.

    path: str                     what was verified
    partitions                    one PartitionReport per log, worst first
    own_findings                  what holds for a data folder as a whole
    seconds: float                how long it took
    """

    path: str
    partitions: tuple[PartitionReport, ...]
    own_findings: tuple[Finding, ...] = ()
    seconds: float = field(default=0.0, compare=False)

    @property
    def ok(self) -> bool:
        """No damage and no error; anomalies and notes may be there."""
        return self.exit_status() == 0

    @property
    def damage(self) -> tuple[Damage, ...]:
        return tuple(one for partition in self.partitions for one in partition.damage)

    @property
    def findings(self) -> tuple[Finding, ...]:
        return (*self.own_findings, *(one for partition in self.partitions for one in partition.findings))

    @property
    def files(self) -> tuple[FileReport, ...]:
        return tuple(file for partition in self.partitions for file in partition.files)

    @property
    def state(self) -> str:
        return _state(sum(file.places for file in self.files), self.findings)

    def exit_status(self, strict: bool = False) -> int:
        """0: fine. 1: damage or an error (strict: or an anomaly). 3: all that failed is not the file's fault: a limit,
        permissions, the network."""
        troubles = {one.kind for one in self.findings if one.severity == ERROR} - _COULD_NOT
        troubles |= {one.reason for one in self.damage if not _is_ours(one.reason)}
        if self.state in ("damaged", ERROR) and not troubles:
            return 3
        bad = self.state in ("damaged", "error") or (strict and self.state == "anomaly")
        return int(bad)

    def total(self, name: str) -> int:
        """The sum over all files of one of FileReport's numbers."""
        return sum(partition.total(name) for partition in self.partitions)

    def to_dict(self) -> dict[str, Any]:
        """Everything, of plain types."""
        sums = ("size", "good_bytes", "damaged_bytes", "unreadable_bytes", "remaining", "batches", "records")
        return {
            "path": self.path,
            "state": self.state,
            "ok": self.ok,
            "seconds": round(self.seconds, 3),
            "totals": {name: self.total(name) for name in sums} | {"files": len(self.files)},
            "partitions": [partition.to_dict() for partition in self.partitions],
            "findings": [one.to_dict() for one in self.own_findings],
        }

    def to_json(self) -> str:
        """`to_dict` as indented JSON; characters beyond ASCII are escaped, so any terminal or page can hold it."""
        return json.dumps(self.to_dict(), indent=2)

    def __repr__(self) -> str:
        sums = f"{len(self.partitions)} partitions, {len(self.files)} files, {self.total('size')} bytes"
        return f"<Report: {self.state}, {sums}, {len(self.damage)} damaged ranges, {len(self.findings)} findings>"


_COULD_NOT = {"unreadable_file", "unreadable_folder"}


def _state(places: int, findings: Iterable[Finding]) -> str:
    kept = list(findings)
    if places:
        return "damaged"
    return ERROR if _has(kept, ERROR) else ANOMALY if _has(kept, ANOMALY) else "ok"


def _has(findings: Iterable[Finding], severity: str) -> bool:
    return any(one.severity == severity for one in findings)


def _is_ours(reason: str) -> bool:
    """A limit or a missing library is not the file's fault."""
    return issubclass(REASONS[reason].error, LimitExceededError | MissingCodecError)
