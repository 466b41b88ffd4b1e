"""`kafkarec.verify`: opens the input, checks its segments in parallel, and builds the report."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any

from kafkarec import storage
from kafkarec.storage import LogDir

from . import partition_check, partition_files
from .findings import Finding, FindingNotes
from .parallel import LogFacts, Tick, Workers, examine_all
from .payload_checks import PayloadCheckOptions
from .report import Report
from .report_data import STATES, PartitionReport

DEFAULT_LIMIT = 128 << 20
DEEP_UP_TO = 32 << 20

FORK_FROM = 64 << 20
REMOTE_THREADS = 8


def verify(
    x: Any,
    *,
    sequences: bool = False,
    deep: bool | None = None,
    max_decompressed_bytes: int = DEFAULT_LIMIT,
    threads: int | None = None,
    processes: int = 1,
    progress: Tick | None = None,
    topic: str | None = None,
    partition: int | None = None,
) -> Report:
    """Checks logs for damage and loss. Reads every byte: CRC, structure, decompression, and the side files.

    x: a path, a URL, an open file or a list of them, as for `kafkarec.open`; or an opened Segment, Log or LogDir
    sequences: check every producer's sequences, and explain each offset gap
    deep: check every record byte by byte for anomalies that Kafka accepts (some microseconds per record); None: for
        inputs of up to 32 MiB
    max_decompressed_bytes: limit per compressed payload; larger ones cannot be checked
    threads: number of segments read in parallel; None: 8 for remote files, else 1, as part of the work holds the GIL
    processes: the same in forked processes, for local files of 64 MiB and more; the command line uses one per
        processor. Only for programs without other threads
    progress: called with (path, bytes done, total bytes) of one file, from any thread
    topic, partition: as for `kafkarec.open`, if names do not have them

    Returns a Report: `.ok`, `.damage`, `.findings`, `.partitions`, `.to_dict()`, `print(report)`.

    OSError if x itself cannot be opened, MissingCodecError if a codec's library is not installed.
    """
    if threads is not None and (not isinstance(threads, int) or threads < 1):
        raise ValueError(f"threads {threads!r}: 1 or more")
    if not isinstance(processes, int) or processes < 1:
        raise ValueError(f"processes {processes!r}: 1 or more")
    begin = time.monotonic()
    with ExitStack() as opened:
        if not isinstance(x, storage.Segment | storage.Log | LogDir):
            x = opened.enter_context(storage.open(x, topic=topic, partition=partition))
        logs = storage.logs(x)
        sizes = sum(_size(segment) for log in logs for segment in log.segments)
        options = PayloadCheckOptions(sizes <= DEEP_UP_TO if deep is None else deep, max_decompressed_bytes)
        local = all(partition_files.is_local(segment) for log in logs for segment in log.segments)
        workers = Workers(threads or (1 if local else REMOTE_THREADS), processes if local and sizes >= FORK_FROM else 1)
        facts = examine_all(logs, options, sequences, workers, progress)
        ends = partition_files.known_ends(x) if isinstance(x, LogDir) else {}
        partitions = [_partition_report(x, log, one, ends) for log, one in zip(logs, facts, strict=True)]
        own = _own_findings(x, options, partitions)
    partitions.sort(key=_worst_first)
    return Report(str(x.path), tuple(partitions), own, time.monotonic() - begin)


def _worst_first(one: PartitionReport) -> tuple[int, int, int, int, str]:
    """Sort key: by lost offsets, then bytes."""
    return -one.lost_offsets, -one.lost_bytes, STATES.index(one.state), -one.places, one.name


def _size(segment: Any) -> int:
    try:
        return int(segment.size)
    except OSError:
        return 0


def _partition_report(x: Any, log: Any, facts: LogFacts, ends: Mapping[tuple[str, int], int]) -> PartitionReport:
    folder = x if isinstance(x, LogDir) else os.path.dirname(os.path.abspath(log.path))
    offsets = partition_check.cleaner_offsets(folder)
    cleaned = None
    if offsets is not None and log.topic is not None:
        cleaned = (log.topic, log.partition) in offsets
    return partition_check.partition_report(log, facts, cleaned, ends.get((log.topic, log.partition), 0))


def _own_findings(x: Any, options: PayloadCheckOptions, partitions: Sequence[PartitionReport]) -> tuple[Finding, ...]:
    """The findings about the input as a whole."""
    notes = FindingNotes()
    if not options.deep and partitions:
        notes.add(
            "records_not_walked",
            "all is checked but what Kafka reads in silence within a record (varints longer than need be, unused "
            "bits): it takes longer, and there are more than 32 MiB; --deep looks for that, too",
        )
    if isinstance(x, LogDir):
        partition_files.check_folder(x, partitions, notes)
    return tuple(notes)
