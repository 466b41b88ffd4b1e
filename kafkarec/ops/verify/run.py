"""`kafkarec.verify`: opens the input, checks its segments in parallel, and builds the report."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any

from kafkarec.read.decode_options import MAX_DECOMPRESSED_BYTES, checked_threads
from kafkarec.storage import opening, recorded_ends
from kafkarec.storage.data_folder import DataFolderFiles
from kafkarec.storage.partition_folder import PartitionFiles
from kafkarec.storage.recorded_ends import Witness
from kafkarec.storage.segment_file import SegmentFile

from . import partition_check, partition_files
from .findings import Finding, FindingCollector
from .parallel import FileProgress, Workers, check_all
from .report import Report
from .report_data import STATES, PartitionReport

FORK_FROM = 64 << 20
REMOTE_THREADS = 8


def verify(
    x: Any,
    *,
    sequences: bool = False,
    max_decompressed_bytes: int = MAX_DECOMPRESSED_BYTES,
    threads: int | None = None,
    processes: int = 1,
    progress: FileProgress | None = None,
    topic: str | None = None,
    partition: int | None = None,
) -> Report:
    """Checks logs for damage and lost data. Reads every byte; checks CRCs, structure, payloads and side files.

    x: a path, a URL, an open file or a list of them, as for `kafkarec.open`; or an opened Segment, Log or LogDir
    sequences: check every producer's sequences, and explain each offset gap
    max_decompressed_bytes: limit per compressed payload; larger ones cannot be checked
    threads: how many threads decode a local segment, or the number of remote segments read in parallel; None: 1, and 8
    processes: number of forked processes, for several local files of 64 MiB and more in total; for less, and for a
        single segment, so many threads instead. The command line uses one per processor. Only for programs without
        other threads
    progress: called with (path, bytes read, total bytes) of one file, from any thread
    topic, partition: as for `kafkarec.open`, if file names do not have them

    Returns a Report: `.ok`, `.damage`, `.findings`, `.partitions`, `.to_dict()`, `print(report)`.

    Raises OSError if x itself cannot be opened, and MissingCodecError if a codec's library is not installed.
    """
    if threads is not None:
        checked_threads(threads)
    if not isinstance(processes, int) or processes < 1:
        raise ValueError(f"processes {processes!r}: 1 or more")
    begin = time.monotonic()
    with ExitStack() as opened:
        if not isinstance(x, SegmentFile | PartitionFiles | DataFolderFiles):
            x = opened.enter_context(opening.open(x, topic=topic, partition=partition))
            x.close()  # it can be opened; each check opens it again, and sees a file that a broker truncated as it is
        logs = opening.logs(x)
        witnesses = recorded_ends.of_logs(x, logs)  # before the logs: a broker may be writing them
        workers = _workers([segment for log in logs for segment in log.segments], threads, processes)
        results = check_all(logs, max_decompressed_bytes, sequences, workers, progress)
        partitions = []
        for log, result, (data_folder, of_log) in zip(logs, results, witnesses, strict=True):
            read_again = partial(_witnesses, x, log)
            end = partition_check.end_verdict(log, result, of_log, read_again, max_decompressed_bytes)
            cleaned = data_folder.cleaned(log.topic, log.partition)
            log_start = data_folder.log_start(log.topic, log.partition)
            partitions.append(partition_check.partition_report(log, result, cleaned, end, log_start))
        own = _own_findings(x)
    partitions.sort(key=_worst_first)
    return Report(str(x.path), tuple(partitions), own, time.monotonic() - begin)


def _workers(segments: Sequence[Any], threads: int | None, processes: int) -> Workers:
    if not all(map(partition_files.is_local, segments)):
        return Workers(threads or REMOTE_THREADS, 1)
    if processes > 1 and len(segments) > 1 and sum(map(_size, segments)) >= FORK_FROM:
        return Workers(1, processes, max(1, processes // len(segments)))
    return Workers(1, 1, max(threads or 1, processes))


def _witnesses(x: Any, log: PartitionFiles) -> tuple[Witness, ...]:
    [(_, witnesses)] = recorded_ends.of_logs(x, [log])
    return witnesses


def _worst_first(one: PartitionReport) -> tuple[int, int, int, int, str]:
    """The sort key: by lost offsets, then lost bytes."""
    return -one.lost_offsets, -one.lost_bytes, STATES.index(one.state), -one.places, one.name


def _size(segment: Any) -> int:
    try:
        return int(segment.size)
    except OSError:
        return 0


def _own_findings(x: Any) -> tuple[Finding, ...]:
    """The findings about the input as a whole."""
    findings = FindingCollector()
    if isinstance(x, DataFolderFiles):
        partition_files.check_folder(x, findings)
    return tuple(findings)
