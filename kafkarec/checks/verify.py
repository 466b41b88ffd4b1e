"""`kafkarec.verify`: opens what it is given, examines its segments side by side, and puts the report together."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

from .. import storage
from . import partition
from .files import FileFacts, Follower, Progress, examine
from .notes import Finding, Notebook
from .payloads import Wishes
from .report import STATES, PartitionReport, Report
from .sequences import Sequences

DEFAULT_LIMIT = 128 << 20
WALKED_ANYWAY = 32 << 20

Tick = Callable[[str, int, int], None]


class Stopped(Exception):
    """Raised inside of the workers when the caller gave up."""


def verify(
    x: Any,
    *,
    sequences: bool = False,
    deep: bool | None = None,
    max_decompressed_bytes: int = DEFAULT_LIMIT,
    threads: int | None = None,
    progress: Tick | None = None,
    topic: str | None = None,
    partition: int | None = None,
) -> Report:
    """Is it damaged, where exactly, what is lost? Reads every byte: CRC, structure, decompression, and what is around.

    x: a path, URL or list of them for `kafkarec.open`, or an opened Segment, Log or LogDir
    sequences: follow every producer's sequences, and say for each offset gap what explains it
    deep: walk every record byte by byte for what Kafka passes over in silence (some microseconds a record);
        None: where there are 32 MiB at most
    max_decompressed_bytes: cap per compressed payload; what is above it cannot be checked
    threads: segments are read side by side; None: as many as there are processors
    progress: called with (path, bytes done, bytes in all) of one file, from any thread
    topic, partition: for `kafkarec.open`, where names do not tell

    Returns a Report: `.ok`, `.damage`, `.findings`, `.partitions`, `.to_dict()`, `print(report)`.
    Raises OSError where x itself cannot be opened, MissingCodecError where a codec's library is not installed.
    """
    if threads is not None and (not isinstance(threads, int) or threads < 1):
        raise ValueError(f"threads {threads!r}: 1 or more")
    begin = time.monotonic()
    with ExitStack() as opened:
        if isinstance(x, str | bytes | os.PathLike | list | tuple):
            given = str(os.fspath(x)) if isinstance(x, str | os.PathLike) else ", ".join(map(str, x))
            x = opened.enter_context(storage.open(x, topic=topic, partition=partition))
        else:
            given = str(getattr(x, "path", x))
        logs = storage.logs(x)
        sizes = sum(_size(segment) for log in logs for segment in log.segments)
        wishes = Wishes(sizes <= WALKED_ANYWAY if deep is None else deep, max_decompressed_bytes)
        found = _examine_all(logs, wishes, sequences, threads or os.cpu_count() or 1, progress)
        partitions = [_put_together(x, log, *facts) for log, facts in zip(logs, found, strict=True)]
        own = _around(x, wishes, bool(logs))
    partitions.sort(key=lambda one: (STATES.index(one.state), -one.places, one.name))
    return Report(given, tuple(partitions), own, time.monotonic() - begin)


def _size(segment: Any) -> int:
    try:
        return int(segment.size)
    except OSError:
        return 0


Found = tuple[list[FileFacts], Sequences | None]


def _examine_all(
    logs: Sequence[Any], wishes: Wishes, sequences: bool, threads: int, progress: Tick | None
) -> list[Found]:
    """The facts of each log's segments. One segment is one task; with sequences, which need order, one log is."""
    stop = threading.Event()

    def one(segment: Any, followers: Sequence[Follower] = ()) -> FileFacts:
        size = _size(segment)
        tick: Progress = lambda done: _tick(done, segment, size)  # noqa: E731
        return examine(segment, wishes, followers, tick)

    def _tick(done: int, segment: Any, size: int) -> None:
        if stop.is_set():
            raise Stopped
        if progress is not None:
            progress(segment.path, done, size)

    def in_order(log: Any) -> Found:
        follower = Sequences()
        return [one(segment, [follower]) for segment in log.segments], follower

    with ThreadPoolExecutor(threads, "kafkarec-verify") as pool:
        try:
            if sequences:
                return list(pool.map(in_order, logs))
            tasks = [[pool.submit(one, segment) for segment in log.segments] for log in logs]
            return [([task.result() for task in mine], None) for mine in tasks]
        except BaseException:
            stop.set()
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _put_together(x: Any, log: Any, files: list[FileFacts], follower: Sequences | None) -> PartitionReport:
    offsets = partition.cleaner_offsets(x if hasattr(x, "__getitem__") else os.path.dirname(os.path.abspath(log.path)))
    cleaned = None
    if offsets is not None and log.topic is not None:
        cleaned = (log.topic, log.partition) in offsets
    return partition.put_together(log, files, cleaned, follower)


def _around(x: Any, wishes: Wishes, any_log: bool) -> tuple[Finding, ...]:
    """What holds for the whole."""
    notes = Notebook()
    if not wishes.deep and any_log:
        notes.add("records_not_walked", "records were not walked byte by byte (more than 32 MiB)")
    if isinstance(x, storage.LogDir):
        for one in x.left_out:
            notes.add("file_left_out", f"{one.name}: {one.why}")
    return tuple(notes)
