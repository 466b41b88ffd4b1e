"""SideFileFindings: what the checks of a log's side files find."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from kafkarec.errors import KafkaRecordError
from kafkarec.sidecars import meta_properties, offset_checkpoints, partition_metadata, producer_snapshot
from kafkarec.sources.read_failures import read_failure
from kafkarec.storage.partition_folder import FolderFiles

from .finding_kinds import ANOMALY
from .findings import Findings

T = TypeVar("T")
ReportFile = Callable[..., None]
"""Adds a finding about one side file: kind, sentence, and the severity if it is not the usual one of the kind."""
REINDEX = "reindex writes a new one"
# file that reindex does not write -> where a new one comes from
_NOT_INDEXED = {
    meta_properties.NAME: "copy it from a backup, or write one with the broker's node.id, cluster.id, directory.id",
    partition_metadata.NAME: "write one with the topic id that kafka-topics --describe prints",
    **dict.fromkeys(offset_checkpoints.NAMES, "without it a broker writes a new one"),
}
_LEFT_BY_A_KILL = {"index_position", "time_largest", "transaction_missing"}
"""What a truncation or a kill leaves in the files of the active segment."""


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
            sentence += "; the index is preallocated: the broker still uses it, or rebuilds it at its next start"
        self.add(kind, sentence, severity=severity, file=self._path(name), cause=cause)

    def read_in(self, folder: FolderFiles, name: str, parse: Callable[[bytes, str | None], T]) -> T | None:
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
