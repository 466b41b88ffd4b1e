"""Checks of a log's side files (indexes, snapshots, checkpoints) and transactions, as findings of `verify`."""

from __future__ import annotations

import os
from collections.abc import Container, Iterable, Sequence
from typing import Any

from kafkarec.errors import KafkaRecordError
from kafkarec.sidecars import txn_index
from kafkarec.sources.folders import LocalFolder
from kafkarec.sources.read_failures import read_failure
from kafkarec.state import transactions
from kafkarec.storage import names, unnamed_files
from kafkarec.storage.partition_folder import LeftOut
from kafkarec.storage.segment_file import SegmentFile
from kafkarec.support.text_table import duration_text

from . import side_file_checks
from .finding_kinds import ANOMALY, ERROR, NOTE, kind_of
from .findings import FindingCollector, FindingPlace

_SEVERITIES = {side_file_checks.ERROR: ERROR, side_file_checks.WARNING: ANOMALY, side_file_checks.NOTE: NOTE}
_LISTED = 20


def check_log(log: Any, restored: Container[str] = ()) -> FindingCollector:
    """Compares the side files of a partition with its batches. Reads headers and markers again."""
    findings = FindingCollector()
    _left_out(log, findings)
    try:
        # without an index, all headers would be read from a remote store for nothing
        if all(map(is_local, log.segments)) or any(
            segment.sidecar(suffix) for segment in log.segments for suffix in (".index", ".txnindex")
        ):
            _add_side_file_findings(side_file_checks.check_log(log, restored), str(log.path), findings)
    except (OSError, KafkaRecordError) as error:
        findings.add("sidefiles_unchecked", f"the log's side files could not be compared: {_reason(error)}")
    return findings


def _left_out(folder: Any, findings: FindingCollector) -> None:
    """Adds findings for files and folders that were left out: an error if a folder cannot be listed. A file with
    batches but without Kafka's name, as in fsck's lost+found, may be a segment that is missing elsewhere."""
    for one in folder.left_out:
        if one.cause and names.is_segment(one.name):
            continue  # verified as a segment, and reported there
        batch_files = (
            unnamed_files.files_with_batches(os.path.join(str(folder.path), one.name))
            if one.kind == names.FOREIGN
            else ()
        )
        reported = False
        for path, base in batch_files:
            detail = f"contains record batches, from offset {base} on, but was left out"
            findings.add("batches_left_out", detail, FindingPlace(offset=base), file=path)
            reported = True
        if not reported:
            findings.add(_kind_of_left_out(one), f"{one.name}: {one.why}", cause=one.cause or None)


def _kind_of_left_out(one: LeftOut) -> str:
    if one.kind == names.UNREADABLE:
        return "unreadable_folder"
    if one.kind == names.REMOVED:
        return "removed_meanwhile"
    parsed = names.segment(one.name)
    return "file_beside_log" if parsed is not None and parsed.suffix == ".log" else "file_left_out"


def check_folder(folder: Any, findings: FindingCollector) -> None:
    """Checks meta.properties and the *-checkpoint files of a data folder."""
    _left_out(folder, findings)
    try:
        _add_side_file_findings(side_file_checks.check_folder(folder), str(folder.path), findings)
    except (OSError, KafkaRecordError) as error:
        findings.add("sidefiles_unchecked", f"the data folder's own files could not be compared: {_reason(error)}")


def _reason(error: OSError | KafkaRecordError) -> str:
    if not isinstance(error, OSError):
        return str(error)
    path = str(error.filename or "a file")
    return f"{path}: {read_failure(error, path).why}"


def is_local(segment: Any) -> bool:
    """Whether a segment is a local file, which is cheap to read again."""
    return isinstance(segment._folder, LocalFolder)


def _add_side_file_findings(
    side_file_findings: Iterable[side_file_checks.SideFileFinding], folder: str, findings: FindingCollector
) -> None:
    for one in side_file_findings:
        findings.add(
            kind_of(one.check),
            one.sentence,
            severity=_SEVERITIES[one.severity],
            count=1 + one.more,
            file=os.path.join(folder, one.file),
            cause=one.found if one.check == "read_failure" else None,
        )


def check_transactions(segments: Sequence[SegmentFile], findings: FindingCollector) -> None:
    """Adds findings for hanging transactions. Open ones are normal in a copy of a live log."""
    try:
        hanging = transactions.listing(segments).hanging
    except (OSError, KafkaRecordError) as error:
        findings.add("sidefiles_unchecked", f"the log's transactions were not checked: {_reason(error)}")
        return
    for txn in hanging[:_LISTED]:
        age = "" if txn.duration_ms is None else f", open for {duration_text(txn.duration_ms)} by the log's timestamps"
        detail = f"producer {txn.producer_id} epoch {txn.producer_epoch} since offset {txn.first_offset}{age}"
        findings.add("transaction_hanging", detail, FindingPlace(offset=txn.first_offset))
    if len(hanging) > _LISTED:
        findings.add("transaction_hanging", "", count=len(hanging) - _LISTED)


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
