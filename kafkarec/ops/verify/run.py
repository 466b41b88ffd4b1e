"""`kafkarec.verify`: opens what it is given, examines its segments side by side, and puts the report together."""

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
WALKED_ANYWAY = 32 << 20

WORTH_A_FORK = 64 << 20
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
    """Is it damaged, where exactly, what is lost? Reads every byte: CRC, structure, decompression, and what is around.

    x: a path, a URL, an open file or a list of them, as `kafkarec.open` takes; or an opened Segment, Log or LogDir
    sequences: follow every producer's sequences, and say for each offset gap what explains it
    deep: walk every record byte by byte for what Kafka passes over in silence (some microseconds a record);
        None: where there are 32 MiB at most
    max_decompressed_bytes: cap per compressed payload; what is above it cannot be checked
    threads: segments are read side by side; None: 8 for remote files, else 1: the work is not all outside of the GIL
    processes: the same in processes forked from this one, for local files of 64 MiB and more; the command line uses as
        many as there are processors. Only for programs without other threads
    progress: called with (path, bytes done, bytes in all) of one file, from any thread
    topic, partition: for `kafkarec.open`, where names do not tell

    Returns a Report: `.ok`, `.damage`, `.findings`, `.partitions`, `.to_dict()`, `print(report)`.
    Raises OSError where x itself cannot be opened, MissingCodecError where a codec's library is not installed.
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
        wishes = PayloadCheckOptions(sizes <= WALKED_ANYWAY if deep is None else deep, max_decompressed_bytes)
        local = all(partition_files.is_local(segment) for log in logs for segment in log.segments)
        workers = Workers(
            threads or (1 if local else REMOTE_THREADS), processes if local and sizes >= WORTH_A_FORK else 1
        )
        facts = examine_all(logs, wishes, sequences, workers, progress)
        ends = partition_files.known_ends(x) if isinstance(x, LogDir) else {}
        partitions = [_put_together(x, log, one, ends) for log, one in zip(logs, facts, strict=True)]
        own = _around(x, wishes, partitions)
    partitions.sort(key=_worst_first)
    return Report(str(x.path), tuple(partitions), own, time.monotonic() - begin)


def _worst_first(one: PartitionReport) -> tuple[int, int, int, int, str]:
    """By what is lost: offsets, then bytes."""
    return -one.lost_offsets, -one.lost_bytes, STATES.index(one.state), -one.places, one.name


def _size(segment: Any) -> int:
    try:
        return int(segment.size)
    except OSError:
        return 0


def _put_together(x: Any, log: Any, facts: LogFacts, ends: Mapping[tuple[str, int], int]) -> PartitionReport:
    offsets = partition_check.cleaner_offsets(x if isinstance(x, LogDir) else os.path.dirname(os.path.abspath(log.path)))
    cleaned = None
    if offsets is not None and log.topic is not None:
        cleaned = (log.topic, log.partition) in offsets
    return partition_check.put_together(log, facts, cleaned, ends.get((log.topic, log.partition), 0))


def _around(x: Any, wishes: PayloadCheckOptions, partitions: Sequence[PartitionReport]) -> tuple[Finding, ...]:
    """What holds for the whole."""
    notes = FindingNotes()
    if not wishes.deep and partitions:
        notes.add(
            "records_not_walked",
            "all is checked but what Kafka reads in silence within a record (varints longer than need be, unused "
            "bits): it takes longer, and there are more than 32 MiB; --deep looks for that, too",
        )
    if isinstance(x, LogDir):
        partition_files.check_folder(x, partitions, notes)
    return tuple(notes)
