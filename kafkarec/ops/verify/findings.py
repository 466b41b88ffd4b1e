"""Finding: one kind of problem at one or more positions; Findings collects and counts them, SideFileFindings those of a
log's side files.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from kafkarec.errors import KafkaRecordError
from kafkarec.recover.steps import Step
from kafkarec.sidecars import meta_properties, offset_checkpoints, partition_metadata, producer_snapshot
from kafkarec.sources.read_failures import read_failure
from kafkarec.storage.log_folders import FolderFiles

from .finding_kinds import ANOMALY, KINDS


def place_of(step: Step, row: int) -> tuple[int, int]:
    """The position and base offset of a batch; of a wrapper the last offset, as the base offset is not known."""
    base = step.cell("base_offset", row)
    return step.cell("position", row), step.cell("last_offset", row) if base is None else base


@dataclass(frozen=True, slots=True)
class Finding:
    """One kind of problem, with all its positions.

    kind: str                   a key of `kafkarec.ops.verify.KINDS`
    severity: str               error, anomaly or note
    detail: str                 one sentence about the first position; never contains bytes of a key, value or header
    file: str | None            the file, None: the partition or folder as a whole
    position, offset: int | None   the first one: position in the file, offset in the log
    count: int                  number of positions
    more: tuple[int, ...]       a few more positions
    cause: str | None           why a file could not be read: missing, permission, not_a_file, disk, encoded, other
    """

    kind: str
    severity: str
    detail: str
    file: str | None = None
    position: int | None = None
    offset: int | None = None
    count: int = 1
    more: tuple[int, ...] = ()
    cause: str | None = None

    def to_dict(self) -> dict[str, Any]:
        shown = {name: getattr(self, name) for name in self.__slots__}
        kind = KINDS[self.kind]
        return shown | {"more": list(self.more), "meaning": kind.violation, "advice": kind.advice}

    def __str__(self) -> str:
        times = f" ({self.count} times)" if self.count > 1 else ""
        return f"{self.severity}: {self.detail} [{self.kind}]{times}"


class Findings:
    """The findings of one file or log by kind, severity and file: the detail of the first, the number of all, a few
    positions.

    file   that of findings that are added without one; None: they are about no single file
    """

    _KEPT = 5

    def __init__(self, file: str | None = None) -> None:
        self._file = file
        self._found: dict[tuple[str, str, str | None], Finding] = {}

    def add(
        self,
        kind: str,
        detail: str,
        position: int | None = None,
        offset: int | None = None,
        *,
        severity: str | None = None,
        count: int = 1,
        places: int = 1,
        file: str | None = None,
        cause: str | None = None,
    ) -> None:
        """Adds a finding of `kind`, found `places` times at one position in the file and offset in the log (None: not
        applicable). `detail` is used only for the first one of that kind and severity in a file."""
        severity = severity or KINDS[kind].severity
        path = file or self._file
        key = kind, severity, path
        old = self._found.get(key)
        if old is None:
            old = Finding(kind, severity, detail, path, position, offset, 0, cause=cause)
            places -= 1
        more = old.more
        if position is not None and len(more) < self._KEPT:
            more = (*more, *[position] * min(places, self._KEPT - len(more)))
        self._found[key] = replace(old, count=old.count + count, more=more)

    def __iter__(self) -> Iterator[Finding]:
        return iter(self._found.values())

    def __contains__(self, kind: str) -> bool:
        return any(known == kind for known, _, _ in self._found)

    def discard(self, kinds: Container[str], keep: Container[Finding] = ()) -> bool:
        """Removes the findings of some kinds, except those to keep. Returns whether there were any."""
        before = len(self._found)
        self._found = {key: one for key, one in self._found.items() if one.kind not in kinds or one in keep}
        return len(self._found) < before

    def update(self, other: Findings) -> None:
        """Adds all findings of `other`, which are about other files."""
        self._found |= other._found


T = TypeVar("T")
ReportFinding = Callable[..., None]
"""Adds a finding about one side file: kind, sentence, and the severity if it is not the usual one of the kind."""
REINDEX = "reindex writes a new one"
# file that reindex does not write -> where a new one comes from
_NOT_INDEXED = {
    meta_properties.NAME: "copy it from a backup, or write one with the broker's node.id, cluster.id, directory.id",
    partition_metadata.NAME: "write one with the topic id that kafka-topics --describe prints",
    **dict.fromkeys(offset_checkpoints.NAMES, "without it a broker writes a new one"),
}
_LEFT_BY_A_KILL = {"index_offset", "index_position", "time_largest", "time_offset", "transaction_missing"}
"""What a truncation, a kill or a copy of a log before its index leaves in the files of the active segment."""


class SideFileFindings(Findings):
    """Findings about side files, by their names.

    is_active   they are files of the active segment, to which a broker is writing, or which it rebuilds as it was
                killed: after a truncation an index has old entries, which the broker knows, after the new ones
    """

    is_active = False

    def __init__(self, path: Callable[[str], str]) -> None:
        """path: of a file by its name."""
        super().__init__()
        self._path = path

    def report(
        self, name: str, kind: str, sentence: str, severity: str | None = None, *, cause: str | None = None
    ) -> None:
        """Adds a finding about a side file. severity: None is the usual one of the kind"""
        if self.is_active and severity is None and kind in _LEFT_BY_A_KILL:
            severity = ANOMALY
            sentence += "; the index is preallocated: a broker still uses it, or rebuilds it at its next start"
        self.add(kind, sentence, severity=severity, file=self._path(name), cause=cause)

    def read_in_folder(self, folder: FolderFiles, name: str, parse: Callable[[bytes, str | None], T]) -> T | None:
        """As `read`, of a file of a folder."""
        return self.read(name, lambda: folder.folder_file(name), parse)

    def read(self, name: str, reading: Callable[[], bytes | None], parse: Callable[[bytes, str | None], T]) -> T | None:
        """The content of a file; None: it does not exist, or cannot be read, for which a finding is added."""
        try:
            data = reading()
            return None if data is None else parse(data, None)  # None: every finding begins with the name anyway
        except KafkaRecordError as error:
            severity = ANOMALY if name.endswith(producer_snapshot.SUFFIX) else None
            sentence = f"{error}; {_NOT_INDEXED.get(name, REINDEX)}"
            self.report(name, "small_file_unreadable", sentence, severity)
        except OSError as error:
            failure = read_failure(error, error.filename or name)
            self.report(name, "unreadable_file", f"cannot be read: {failure.why}", cause=failure.cause)
        return None
