"""`kafkarec.verify`: opens the input, checks its logs in threads, and builds the report.

Several logs are checked at once, and where there are fewer logs than threads, several decode one. Reading, decoding and
most checks release the GIL, so forked processes were no faster. Of remote files most of the time is waiting. A unit of
work is a log, which is read once; or one segment of a remote log that is larger than one thread's share of all, the
checks along which follow from its headers and markers, which are read again.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing, suppress
from functools import partial
from itertools import groupby
from typing import Any

from kafkarec._core import RowCheck
from kafkarec.errors import KafkaRecordError
from kafkarec.read.decode_options import MAX_DECOMPRESSED_BYTES, checked_threads
from kafkarec.read.walk import MARKERS, walk, walk_request
from kafkarec.sidecars import leader_epochs, offset_index, producer_snapshot, txn_index
from kafkarec.sources.folders import LocalFolder
from kafkarec.sources.read_failures import is_of_one_file
from kafkarec.storage import opening, recorded_ends
from kafkarec.storage.log_folders import DataFolderFiles, PartitionFiles
from kafkarec.storage.recorded_ends import DataFolderState
from kafkarec.storage.segment_file import SegmentFile, size_or_zero
from kafkarec.support.threads import run_in_threads

from .finding_kinds import NOTE
from .findings import Finding, Findings
from .log_checks import LogCheck, LogFindings, check_data_folder, check_left_out
from .partition_report import partition_report
from .report import Report
from .report_data import STATES, PartitionReport
from .segment_check import SegmentCheck, verify_request

FileProgress = Callable[[str, int, int], None]
REMOTE_THREADS = 8


def check_all(
    logs: Sequence[PartitionFiles],
    starts: Sequence[int],
    limit: int,
    sequences: bool,
    threads: int | None,
    progress: FileProgress | None,
) -> list[tuple[list[SegmentCheck], LogFindings]]:
    """The checks of each log's files, its .checkpoint files last, and what was found along the log.

    starts   the logs' start offsets, by log-start-offset-checkpoint; 0: not known
    limit    max decompressed bytes of a payload
    threads  see `verify`
    """
    files_of = [(*log.segments_for_reports, *log.checkpoints) for log in logs]
    sizes = [sum(map(size_or_zero, files)) for files in files_of]
    total, local = sum(sizes), all(map(is_local, logs))
    if local:  # as many logs as have an equal share of the bytes; what is left of the threads decodes
        readers = max(1, min(threads or 1, total // (max(sizes, default=0) or 1)))
        decoders, share = (threads or 1) // readers, total
    else:
        readers, decoders = threads or REMOTE_THREADS, 1
        share = total // readers
    failure: list[Exception] = []  # of a thread, which stops the others

    def on_progress(file: Any, done: int) -> None:
        if failure:
            raise failure[0]
        if progress is not None and done:
            progress(file.path, done, file.size)

    def check_files(
        log: PartitionFiles, start: int, files: Sequence[Any], whole: bool
    ) -> tuple[list[SegmentCheck], LogFindings | None]:
        """Checks some files of a log, or all of them (`whole`) and along it."""
        try:
            along = LogCheck(log, start, sequences) if whole else None
            checked = []
            for file in files:
                of_log = along if file in log.segments else None
                checked.append(SegmentCheck(file, limit, of_log, partial(on_progress, file), decoders))
                if along is not None and checked[-1].is_unread:
                    along.mark_unread()
            return checked, None if along is None else along.finish()
        except Exception as error:
            failure[:] = [error]
            raise

    units = []
    for log, start, files, size in zip(logs, starts, files_of, sizes, strict=True):
        whole = len(files) < 2 or size <= share
        units += [(log, start, part, whole) for part in ([files] if whole else [[file] for file in files])]
    try:
        found = list(run_in_threads((partial(check_files, *unit) for unit in units), readers))
    except KeyboardInterrupt:
        failure[:] = [RuntimeError("interrupted")]
        raise
    results = []
    for (log, start), parts in groupby(zip(units, found, strict=True), lambda one: one[0][:2]):
        [*of_log] = (result for _, result in parts)
        checked = [file for files, _ in of_log for file in files]
        results.append((checked, of_log[0][1] or _check_along_again(log, start, checked, limit, sequences)))
    return results


def _check_along_again(
    log: PartitionFiles, start: int, files: Sequence[SegmentCheck], limit: int, sequences: bool
) -> LogFindings:
    """The checks along a log whose segments were checked apart: from headers and markers, and from everything where a
    checksum is wrong. Of a remote log without indexes all headers would be fetched for nothing."""
    along = LogCheck(log, start, sequences)
    checked = {one.path: one for one in files}
    indexes = offset_index.SUFFIX, txn_index.SUFFIX
    is_compared = sequences or is_local(log) or any(one.suffix in indexes for one in recorded_ends.files_beside(log))
    for segment in log.segments if is_compared else ():
        found = checked[segment.path]
        known = verify_request(limit) if found.damage or found.restored else walk_request(MARKERS, errors="skip")
        rows = RowCheck(found.is_log)
        along.begin_segment(segment)
        try:
            with closing(walk([segment], known)) as steps:
                for step in steps:
                    along.take(step, rows.check(step.rows)[0] if len(step) else 0)
        except (OSError, KafkaRecordError) as error:
            if not is_of_one_file(error):
                along.stop(error)
                break
            along.mark_unread()
        else:
            _, _, _, largest, _ = rows.totals
            along.end_segment(largest)
    return along.finish()


def is_local(log: PartitionFiles) -> bool:
    """Whether its segments are local files, which are cheap to read again."""
    return all(isinstance(segment.folder, LocalFolder) for segment in log.segments)


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
        own = Findings()  # about the input as a whole
        if isinstance(x, DataFolderFiles):
            check_left_out(x, own)
            for folder in x.folders:
                check_data_folder(folder, own)
            for one in recorded_ends.missing_folders(data_folders.values(), x):
                own.add("folder_lost" if one.is_lost else "log_missing", one.why, file=one.path)

        def reports_of(
            logs: Sequence[PartitionFiles], data_folders: dict[str, DataFolderState], progress: FileProgress | None
        ) -> list[tuple[PartitionReport, bool]]:
            """The reports of logs, and whether one that is not fine was changed by a broker while it was read."""
            known = []
            for log in logs:  # read before them: a broker may be writing both
                files, folder = _inodes_and_sizes(log), DataFolderState.of_log(log, data_folders)
                known.append((files, folder, recorded_ends.read(log, folder)))
            made = []
            starts = [
                folder.log_start(log.topic, log.partition) for log, (_, folder, _) in zip(logs, known, strict=True)
            ]
            results = check_all(logs, starts, max_decompressed_bytes, sequences, threads, progress)
            for log, (files, folder, ends), (checked, along) in zip(logs, known, results, strict=True):
                report = partition_report(log, checked, along, folder, ends, max_decompressed_bytes)
                made.append((report, report.state in ("damaged", "error") and _was_changed(log, files)))
            return made

        partitions = []
        # `reports_of` adds those above single logs
        folders = [one.folder for one in data_folders.values() if one.folder]
        for log, (report, changed) in zip(logs, reports_of(logs, data_folders, progress), strict=True):
            if changed:
                again = log
                if log.is_folder and log.folder is not None and os.path.isdir(log.folder.path):
                    again = PartitionFiles.of(log.folder, log.topic, log.partition)
                [(report, changed)] = reports_of([again], recorded_ends.data_folders(folders), None)
                if changed:
                    why = "changed twice while it was verified: a broker is writing to it"
                    note = Finding("changed_meanwhile", NOTE, why)
                    report = PartitionReport(report.path, report.topic, report.partition, own_findings=(note,))
            partitions.append(report)
    partitions.sort(  # the worst first
        key=lambda one: (-one.lost_offsets, -one.lost_bytes, STATES.index(one.state), -one.places, one.name)
    )
    return Report(str(x.path), tuple(partitions), tuple(own), time.monotonic() - begin)


def _inodes_and_sizes(log: PartitionFiles) -> dict[str, tuple[int, int]]:
    """(inode, size) of the local segments of a log, and of the epochs and snapshots beside them, by path."""
    paths = [segment.path for segment in log.segments if isinstance(segment.folder, LocalFolder)]
    if isinstance(log.folder, LocalFolder):
        beside = [
            one.stem + one.suffix for one in recorded_ends.files_beside(log) if one.suffix == producer_snapshot.SUFFIX
        ]
        paths += map(log.folder.join, [leader_epochs.NAME, *beside])
    found = {}
    for path in paths:
        with suppress(OSError):
            status = os.stat(path)
            found[path] = (status.st_ino, status.st_size)
    return found


def _was_changed(log: PartitionFiles, before: dict[str, tuple[int, int]]) -> bool:
    """Whether a segment or snapshot was removed, replaced or truncated since, or a leader epoch began. That the last
    segment grows, and that a snapshot is added, is no change."""
    now, last = _inodes_and_sizes(log), log.segments[-1].path if log.segments else None
    for path, (inode, size) in before.items():
        found, now_size = now.get(path, (None, 0))
        if found != inode or now_size < size or (now_size > size and path != last):
            return True
    return False
