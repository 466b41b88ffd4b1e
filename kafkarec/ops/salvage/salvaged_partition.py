"""SalvagedPartition: what is saved and lost of one partition."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from kafkarec.recover.marker_evidence import Decision
from kafkarec.report import jsonable
from kafkarec.sources.read_failures import ReadFailure
from kafkarec.storage.recorded_ends import EndVerdict, LogEnd, RecordedEnd


@dataclass
class OutputFile:
    """A file that was written. sha256: of its bytes as read from the disk, in hexadecimal."""

    name: str
    size: int
    sha256: str
    batches: int
    records: int
    first_offset: int | None
    last_offset: int | None

    @property
    def base_offset(self) -> int:
        """The offset in the name."""
        return int(self.name[:20])


@dataclass
class SetAsideRange:
    """Adjacent batches that are in the file `saved_as` and not in the log.

    file, position, size   the bytes of the source
    reason                 a key of `salvage_report.REASONS` or of `errors.REASONS`
    """

    file: str
    position: int
    size: int
    first_offset: int | None
    last_offset: int | None
    reason: str
    saved_as: str
    batches: int = 1


@dataclass
class BesideFile:
    """A file that is not a segment by its name, or not by its batches: why it was used or not.

    batches: the number of its batches that fill a hole; 0: none, or all of them are in the log
    """

    path: str
    why: str
    batches: int = 0
    used: bool = False


@dataclass
class SalvagedPartition:
    """One folder of the output.

    sources        the files that were read for it
    batches, records, size    counts of its log (a message of magic 0 or 1 counts as one record)
    start_offset, next_offset    of the log
    damage         damaged ranges of the sources: dicts of kafkarec.Damage
    restored       batches with restored header fields: dicts of kafkarec.Restored
    snapshots      KRaft snapshots of the log, copied completely
    lost           (first, last) offsets missing where a source is damaged; None: not known
    missing        (first, last) offsets missing between two segments, or before the first, without damage: a segment is
                   missing, or was compacted
    proofs         sentences why some of `missing` are lost, not compacted: see storage.recorded_ends
    gaps           number of offsets missing without damage (including those of `missing`): compacted, or never used
    inner_gaps     (first, last) of the first of them that are within a segment
    gaps_end       the offset behind the last of them; 0: there are none
    compacted      whether batches lack records, which only the log cleaner removes
    never_compacted   whether there are gaps above the log start though the cleaner never worked on the log: their
                   offsets are lost
    duplicates, duplicate_size    batches that more than one source has
    markers        the transactions whose markers are lost in damage, each with a key of `salvage_report.OUTCOMES` as
                   outcome, and the offset of the marker that is written
    ends_in_damage whether the sources end in damage or in a file that could not be read; the end of the log is then
                   not known
    log_end        the offset after the last batch of the sources, or their last segment's name if that is higher
    recorded_ends  the files that say that the sources once reached further (dicts of storage.recorded_ends.RecordedEnd)
    beyond_end     the number of offsets that are missing there at least
    other_files    files that are used though their names are not those of segments, and those that are not
    keeps_earlier  whether what an earlier run made of sources that have changed since was moved to set-aside/
    unread         (file, cause, why) of the sources that could not be read, or not completely
    tails          (file, position, length, kind) of bytes after the last batch. kind: "cut" (an incomplete batch),
                   "preallocated" (zeros)
    """

    folder: str
    topic: str | None
    partition: int | None
    sources: list[str] = field(default_factory=list)
    files: list[OutputFile] = field(default_factory=list)
    snapshots: list[OutputFile] = field(default_factory=list)
    batches: int = 0
    records: int = 0
    size: int = 0
    start_offset: int | None = None
    next_offset: int | None = None
    damage: list[dict[str, Any]] = field(default_factory=list)
    restored: list[dict[str, Any]] = field(default_factory=list)
    lost: list[tuple[int | None, int | None]] = field(default_factory=list)
    missing: list[tuple[int, int]] = field(default_factory=list)
    proofs: list[str] = field(default_factory=list)
    gaps: int = 0
    inner_gaps: list[tuple[int, int]] = field(default_factory=list)
    gaps_end: int = 0
    compacted: bool = False
    never_compacted: bool = False
    duplicates: int = 0
    duplicate_size: int = 0
    set_aside: list[SetAsideRange] = field(default_factory=list)
    tails: list[tuple[str, int, int, str]] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    markers: list[Decision] = field(default_factory=list)
    ends_in_damage: bool = False
    unread: list[ReadFailure] = field(default_factory=list)
    other_files: list[BesideFile] = field(default_factory=list)
    log_end: int = 0
    recorded_ends: list[dict[str, Any]] = field(default_factory=list)
    beyond_end: int = 0
    keeps_earlier: bool = False

    @property
    def ok(self) -> bool:
        """Whether nothing was damaged, restored, set aside, unread, or is missing and proven to be lost, and nothing of
        an earlier run was kept."""
        lost = self.proofs or self.never_compacted or self.recorded_ends or self.keeps_earlier
        return not (self.damage or self.restored or self.set_aside or self.unread or lost)

    @property
    def end(self) -> EndVerdict:
        """The end of the log in the sources, and the recorded ends above it."""
        last = self.log_end - 1 if self.batches else None
        return EndVerdict(LogEnd(self.log_end, 0, last), tuple(RecordedEnd(**one) for one in self.recorded_ends))

    @property
    def reports_missing(self) -> bool:
        """Whether offsets missing between segments are reported. They are not if there are also gaps within segments,
        as the log was then compacted, unless something proves a loss."""
        return bool(self.proofs) or self.never_compacted or self.gaps <= self.missing_offsets

    @property
    def missing_offsets(self) -> int:
        return sum(last - first + 1 for first, last in self.missing)

    @property
    def lost_bytes(self) -> int:
        """The number of damaged bytes of the sources."""
        return sum(int(damage["length"]) for damage in self.damage)

    def to_dict(self) -> Any:
        """All data as dicts, lists, strings and numbers: `of` makes the object of it again."""
        return jsonable(self)

    @classmethod
    def of(cls, data: dict[str, Any]) -> SalvagedPartition:
        """The object for a dict from `to_dict`, also after a conversion to and from JSON."""
        objects = {name: [kind(**entry) for entry in data[name]] for name, kind in _OBJECTS.items()}
        return cls(**data | objects | {name: [*map(tuple, data[name])] for name in _TUPLES})


_OBJECTS: dict[str, Callable[..., Any]] = {
    "files": OutputFile,
    "snapshots": OutputFile,
    "set_aside": SetAsideRange,
    "other_files": BesideFile,
    "markers": lambda proven, **entry: Decision(**entry),
    "unread": ReadFailure,
}
_TUPLES = "lost", "missing", "inner_gaps", "tails"
"""The lists of a partition whose entries are objects, or arrays, in JSON."""
