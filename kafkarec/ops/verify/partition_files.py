"""Checks of a log's side files (indexes, snapshots, checkpoints) and transactions, as findings of `verify`."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from kafkarec.errors import KafkaRecordError
from kafkarec.sidecars import offset_checkpoints, txn_index
from kafkarec.storage.folders import LocalFolder
from kafkarec.support.text_table import lasting

from . import side_file_checks as index_check
from . import unnamed_files
from .finding_kinds import ANOMALY, ERROR, NOTE, kind_of
from .findings import FindingNotes, FindingPlace
from .report_data import PartitionReport

_SEVERITIES = {index_check.ERROR: ERROR, index_check.WARNING: ANOMALY, index_check.NOTE: NOTE}
_LISTED = 20
# How the text of names.explain begins for a name that is not one of Kafka's.
_FOREIGN = ("no partition folder", "not a name that Kafka gives")
# Files with an offset up to which the log once went; log-start-offset-checkpoint may be above it.
_END_CHECKPOINTS = (
    "replication-offset-checkpoint",
    "recovery-point-offset-checkpoint",
    "cleaner-offset-checkpoint",
)


def check_log(log: Any) -> FindingNotes:
    """Compares the side files of a partition with its batches. Reads headers and markers again."""
    notes = FindingNotes()
    _left_out(log, notes)
    try:
        beside = any(segment.sidecar(suffix) for segment in log.segments for suffix in (".index", ".txnindex"))
        if beside or all(is_local(segment) for segment in log.segments):  # else it would read all headers remotely
            _take(index_check.check_log(log), str(log.path), notes)
    except (OSError, KafkaRecordError) as error:
        notes.add("sidefiles_unchecked", f"what stands beside the log could not be compared: {error}")
    return notes


def _left_out(folder: Any, notes: FindingNotes) -> None:
    """Adds findings for files and folders that were left out: an error if a folder cannot be listed. Batches in a file
    without Kafka's name, as in fsck's lost+found, may be a segment that is missing elsewhere."""
    for one in folder.left_out:
        found = unnamed_files.look(os.path.join(str(folder.path), one.name)) if one.why.startswith(_FOREIGN) else ()
        reported = False
        for path, base in found:
            detail = f"holds record batches, from offset {base} on, and was left out"
            notes.add("batches_left_out", detail, FindingPlace(offset=base), file=path)
            reported = True
        if not reported:
            kind = "unreadable_folder" if one.why.startswith("cannot be listed") else "file_left_out"
            notes.add(kind, f"{one.name}: {one.why}")


class _OffsetRange(NamedTuple):
    """Start and end offset of a log, from its verified segments."""

    topic: str | None
    partition: int | None
    start_offset: int | None
    next_offset: int | None


class _Folder:
    """A data folder's own files, and the offset ranges of its logs."""

    def __init__(self, folder: Any, logs: Sequence[_OffsetRange]) -> None:
        self.folder_file = folder.folder_file
        self._logs = logs

    def __iter__(self) -> Iterator[Any]:
        return iter(self._logs)


def check_folder(folder: Any, partitions: Iterable[PartitionReport], notes: FindingNotes) -> None:
    """Checks meta.properties and the *-checkpoint files of a data folder."""
    _left_out(folder, notes)
    reach = []
    for log in partitions:
        files = [file for file in log.files if file.is_log]
        ends = [file.next_offset for file in files if file.next_offset is not None]
        begin = files[0].base_offset if files else None
        reach.append(_OffsetRange(log.topic, log.partition, begin, max(ends, default=begin)))
    try:
        _take(index_check.check_folder(_Folder(folder, reach)), str(folder.path), notes)
    except (OSError, KafkaRecordError) as error:
        notes.add("sidefiles_unchecked", f"the folder's own files could not be compared: {error}")


def known_ends(folder: Any) -> dict[tuple[str, int], int]:
    """(topic, partition) -> the highest offset of that log in the checkpoints of a data folder."""
    ends: dict[tuple[str, int], int] = {}
    for name in _END_CHECKPOINTS:
        try:
            data = folder.folder_file(name)
            offsets = {} if data is None else offset_checkpoints.read(data)
        except (OSError, KafkaRecordError):
            continue  # check_folder reports it
        for place, offset in offsets.items():
            ends[place.topic, place.partition] = max(offset, ends.get((place.topic, place.partition), 0))
    return ends


def is_local(segment: Any) -> bool:
    """Whether it is a local file, which is cheap to read again."""
    return isinstance(segment._folder, LocalFolder)


def _take(findings: Iterable[index_check.SideFileFinding], folder: str, notes: FindingNotes) -> None:
    for one in findings:
        notes.add(
            kind_of(one.check),
            one.sentence.removeprefix(f"{one.file}: "),
            severity=_SEVERITIES[one.severity],
            count=1 + one.more,
            file=os.path.join(folder, one.file),
        )


def check_transactions(log: Any, notes: FindingNotes) -> None:
    """Adds findings for hanging transactions. Open ones are normal in a copy of a live log."""
    try:
        hanging = log.transactions().hanging
    except (OSError, KafkaRecordError) as error:
        notes.add("sidefiles_unchecked", f"the log's transactions could not be followed: {error}")
        return
    for txn in hanging[:_LISTED]:
        age = "" if txn.duration_ms is None else f", open for {lasting(txn.duration_ms)} of the log's time"
        detail = f"producer {txn.producer_id} epoch {txn.producer_epoch} since offset {txn.first_offset}{age}"
        notes.add("transaction_hanging", detail, FindingPlace(offset=txn.first_offset))
    if len(hanging) > _LISTED:
        notes.add("transaction_hanging", "", count=len(hanging) - _LISTED)


def aborted(log: Any) -> list[tuple[int, int]]:
    """(first, last) offsets of the aborted transactions that the log's .txnindex files list."""
    found = []
    for segment in log.segments:
        try:
            data = segment.sidecar(txn_index.SUFFIX)
            entries = txn_index.read(data) if data else ()
        except (OSError, KafkaRecordError):
            continue
        found += [(entry.first_offset, entry.last_offset) for entry in entries]
    return found
