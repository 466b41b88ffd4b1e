"""`kafkarec.verify`: opens the input, checks its logs in parallel, and builds the report."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from typing import Any

from kafkarec.read.decode_options import MAX_DECOMPRESSED_BYTES, checked_threads
from kafkarec.sidecars import leader_epochs
from kafkarec.sources.folders import LocalFolder
from kafkarec.storage import lost_parts, opening, recorded_ends
from kafkarec.storage.data_folder import DataFolderFiles
from kafkarec.storage.partition_folder import PartitionFiles
from kafkarec.storage.recorded_ends import DataFolderState
from kafkarec.storage.segment_file import SegmentFile

from . import left_out_files, log_checks
from .findings import Finding, Findings
from .parallel import FileProgress, check_all
from .partition_report import partition_report
from .report import Report
from .report_data import STATES, PartitionReport


def verify(
    x: Any,
    *,
    sequences: bool = False,
    max_decompressed_bytes: int = MAX_DECOMPRESSED_BYTES,
    threads: int | None = None,
    progress: FileProgress | None = None,
    topic: str | None = None,
    partition: int | None = None,
) -> Report:
    """Checks logs for damage and lost data. Reads every byte; checks CRCs, structure, payloads and side files. A log
    that a broker changes meanwhile is checked once more, if anything seems to be wrong with it.

    x: a path, a URL, an open file or a list of them, as for `kafkarec.open`; or an opened Segment, Log or LogDir
    sequences: check every producer's sequences
    max_decompressed_bytes: limit per compressed payload; larger ones cannot be checked
    threads: how many read logs, or decode one where there are fewer logs; for remote logs the number of logs and
        segments that are read at once. None: 1, and 8
    progress: called with (path, bytes read, total bytes) of one file, from any thread
    topic, partition: as for `kafkarec.open`, if file names do not have them

    Returns a Report: `.ok`, `.damage`, `.findings`, `.partitions`, `.to_dict()`, `print(report)`.

    Raises OSError if x itself cannot be opened, and MissingCodecError if a codec's library is not installed.
    """
    if threads is not None:
        checked_threads(threads)
    begin = time.monotonic()
    with ExitStack() as opened:
        if not isinstance(x, SegmentFile | PartitionFiles | DataFolderFiles):
            x = opened.enter_context(opening.open(x, topic=topic, partition=partition))
            x.close()  # it can be opened; each check opens it again, and sees a file that a broker truncated as it is
        logs = opening.logs(x)
        data_folders = recorded_ends.data_folders(getattr(x, "folders", ()))
        own = _own_findings(x, data_folders)
        partitions = _reports(logs, data_folders, max_decompressed_bytes, sequences, threads, progress)
    partitions.sort(  # the worst first
        key=lambda one: (-one.lost_offsets, -one.lost_bytes, STATES.index(one.state), -one.places, one.name)
    )
    return Report(str(x.path), tuple(partitions), own, time.monotonic() - begin)


def _reports(
    logs: Sequence[PartitionFiles],
    data_folders: dict[str, DataFolderState],
    limit: int,
    sequences: bool,
    threads: int | None,
    progress: FileProgress | None,
) -> list[PartitionReport]:
    """The reports of the logs. One that is not fine and that a broker changed while it was read is made once more;
    where it was changed again, nothing is known."""

    def made(
        logs: Sequence[PartitionFiles], data_folders: dict[str, DataFolderState], progress: FileProgress | None
    ) -> list[tuple[PartitionReport, bool]]:
        files = [_files(log) for log in logs]
        above = [DataFolderState.above(log, data_folders) for log in logs]
        # read before the logs: a broker may be writing both
        recorded = [(folder, recorded_ends.read(log, folder)) for log, folder in zip(logs, above, strict=True)]
        results = check_all(logs, limit, sequences, threads, progress)
        reports = [partition_report(*one, limit) for one in zip(logs, results, recorded, strict=True)]
        return [
            (one, one.state in ("damaged", "error") and _was_changed(log, before))
            for one, log, before in zip(reports, logs, files, strict=True)
        ]

    found = []
    folders = [one.folder for one in data_folders.values() if one.folder]  # `made` adds those above single logs
    for log, (report, changed) in zip(logs, made(logs, data_folders, progress), strict=True):
        if changed:
            again = log
            if log.is_folder and log.folder is not None and os.path.isdir(log.folder.path):
                again = PartitionFiles.of(log.folder, log.topic, log.partition)
            [(report, changed)] = made([again], recorded_ends.data_folders(folders), None)
            if changed:
                note = Findings()
                note.add("changed_meanwhile", "changed twice while it was verified: a broker is writing to it")
                report = PartitionReport(report.path, report.topic, report.partition, own_findings=tuple(note))
        found.append(report)
    return found


def _files(log: PartitionFiles) -> dict[str, tuple[int, int]]:
    """(inode, size) of the local segments of a log, and of the epochs beside them, by path."""
    paths = [segment.path for segment in log.segments if isinstance(segment.folder, LocalFolder)]
    if isinstance(log.folder, LocalFolder):
        paths.append(log.folder.join(leader_epochs.NAME))
    found = {}
    for path in paths:
        with suppress(OSError):
            status = os.stat(path)
            found[path] = (status.st_ino, status.st_size)
    return found


def _was_changed(log: PartitionFiles, before: dict[str, tuple[int, int]]) -> bool:
    """Whether a segment was removed, replaced or truncated since, or a leader epoch began. That the last segment grows
    is no change."""
    now, last = _files(log), log.segments[-1].path if log.segments else None
    for path, (inode, size) in before.items():
        found, now_size = now.get(path, (None, 0))
        if found != inode or now_size < size or (now_size > size and path != last):
            return True
    return False


def _own_findings(x: Any, data_folders: dict[str, DataFolderState]) -> tuple[Finding, ...]:
    """The findings about the input as a whole."""
    findings = Findings()
    if isinstance(x, DataFolderFiles):
        left_out_files.check(x, findings)
        for folder in x.folders:
            log_checks.check_data_folder(folder, findings)
        for one in lost_parts.missing_folders(data_folders.values(), x):
            findings.add("folder_lost" if one.is_lost else "log_missing", one.why, file=one.path)
    return tuple(findings)
