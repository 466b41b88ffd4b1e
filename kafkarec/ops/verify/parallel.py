"""Checks logs in parallel: in threads, or in processes forked from this one.

A unit of work is a log, which is read once; or one segment of a log that is larger than one worker's share of all, the
checks along which follow from its headers and markers, which are read again. Decoding releases the GIL, but
decompressing gzip and snappy and comparing unusual batches hold it, so local files are checked in processes. Threads
are for remote files: most of the time is waiting, and the libraries for them are not safe with fork.
"""

from __future__ import annotations

import multiprocessing
import signal
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing, suppress
from functools import partial
from itertools import groupby
from typing import Any, NamedTuple

from kafkarec._core import RowCheck
from kafkarec.errors import KafkaRecordError
from kafkarec.read.walk import MARKERS, asked, walk
from kafkarec.sidecars import offset_index, txn_index
from kafkarec.sources.folders import LocalFolder
from kafkarec.sources.read_failures import of_one_file
from kafkarec.storage.partition_folder import PartitionFiles
from kafkarec.storage.segment_file import SegmentFile

from .log_checks import LogCheck, LogFindings
from .segment_check import SegmentCheck, wanted

FileProgress = Callable[[str, int, int], None]
FORK_FROM = 64 << 20
REMOTE_THREADS = 8
_POLL_SECONDS = 0.25


class Stopped(Exception):
    """Raised in the workers after the caller stopped."""


class Workers(NamedTuple):
    """The number of units that are checked at once, whether in forked processes or in threads, and how many threads
    decode a segment."""

    number: int
    forked: bool = False
    decoders: int = 1


def workers_for(logs: Sequence[PartitionFiles], threads: int | None, processes: int) -> Workers:
    """The workers for some logs, by the options of verify."""
    if not all(map(is_local, logs)):
        return Workers(threads or REMOTE_THREADS)
    segments = [segment for log in logs for segment in log.segments]
    if processes > 1 and len(segments) > 1 and total_size(segments) >= FORK_FROM:
        return Workers(processes, True, max(1, processes // len(segments)))
    return Workers(1, decoders=max(threads or 1, processes))


class LogResult(NamedTuple):
    """The checks of a log's files, its .checkpoint files last, and what was found along the log."""

    files: list[SegmentCheck]
    along: LogFindings


class Unit(NamedTuple):
    """A unit of work: some files of a log; `whole`: all of them, and the checks along it.

    first   the index of its first file among all
    """

    log: PartitionFiles
    first: int
    files: Sequence[Any]
    whole: bool


class Plan(NamedTuple):
    """The input of the workers; forked ones inherit it.

    limit      max decompressed bytes of a payload
    decoders   how many threads decode a segment
    done       in shared memory, the bytes read of each file; the last item is set to make the workers stop
    """

    units: Sequence[Unit]
    limit: int
    sequences: bool
    decoders: int
    done: Any


_Result = tuple[list[SegmentCheck], LogFindings | None]
_inherited_plan: Plan | None = None


def check_all(
    logs: Sequence[PartitionFiles], limit: int, sequences: bool, workers: Workers, progress: FileProgress | None
) -> list[LogResult]:
    """The results for each log. Raises ChildProcessError if a worker process was killed."""
    files_of = [(*log.all_segments, *log.checkpoints) for log in logs]
    sizes = list(map(total_size, files_of))
    share = sum(sizes) / workers.number
    units, first = [], 0
    for log, files, size in zip(logs, files_of, sizes, strict=True):
        whole = len(files) < 2 or size <= share
        for part in [files] if whole else [[file] for file in files]:
            units.append(Unit(log, first, part, whole))
            first += len(part)
    plan = Plan(units, limit, sequences, workers.decoders, multiprocessing.RawArray("q", first + 1))
    results = []
    for log, found in groupby(zip(units, _run_units(plan, workers, progress), strict=True), lambda one: one[0].log):
        parts = [result for _, result in found]
        checked = [file for files, _ in parts for file in files]
        results.append(LogResult(checked, parts[0][1] or _along_again(log, checked, limit, sequences)))
    return results


def _run_units(plan: Plan, workers: Workers, progress: FileProgress | None) -> list[_Result]:
    """The result of each unit, in order."""
    numbers = range(len(plan.units))
    if workers.number == 1:
        return [_run_unit(plan, number, progress) for number in numbers]
    pool: Executor
    count = max(1, min(workers.number, len(plan.units)))
    run: Callable[[int], _Result] = partial(_run_unit, plan)
    if workers.forked:
        fork, run = multiprocessing.get_context("fork"), _run_inherited_unit
        pool = ProcessPoolExecutor(count, mp_context=fork, initializer=_inherit, initargs=(plan,))
    else:
        pool = ThreadPoolExecutor(count, "kafkarec-verify")
    others = set(multiprocessing.active_children())
    largest_first = sorted(numbers, key=lambda number: total_size(plan.units[number].files), reverse=True)
    with pool:
        try:
            tasks = {number: pool.submit(run, number) for number in largest_first}
            _wait_for(set(tasks.values()), plan, progress)
            return [tasks[number].result() for number in numbers]
        except BrokenProcessPool as error:
            raise ChildProcessError("a worker process ended before it was finished (out of memory?)") from error
        except BaseException:
            plan.done[-1] = 1
            pool.shutdown(wait=False, cancel_futures=True)
            for child in set(multiprocessing.active_children()) - others:
                child.terminate()  # workers only read, so there is nothing to clean up
            raise


def total_size(files: Iterable[SegmentFile]) -> int:
    """Their bytes, without those of files whose size cannot be found out."""
    size = 0
    for file in files:
        with suppress(OSError, KafkaRecordError):
            size += file.size
    return size


def _wait_for(waiting: set[Future[_Result]], plan: Plan, progress: FileProgress | None) -> None:
    """Waits for all futures, or for the first that fails, and reports progress."""
    files = [file for unit in plan.units for file in unit.files]
    while waiting:
        ended, waiting = wait(waiting, timeout=_POLL_SECONDS, return_when=FIRST_COMPLETED)
        for task in ended:
            task.result()
        if progress is not None:
            for file, done in zip(files, plan.done, strict=False):
                if done:
                    progress(file.path, done, file.size)


def _run_unit(plan: Plan, number: int, progress: FileProgress | None = None) -> _Result:
    """The result of one unit. progress: None in a worker, where `plan.done` reports it."""
    unit = plan.units[number]

    def tick(file: Any, at: int, done: int) -> None:
        plan.done[at] = done
        if plan.done[-1]:
            raise Stopped
        if progress is not None and done:
            progress(file.path, done, file.size)

    along = LogCheck(unit.log, plan.sequences) if unit.whole else None
    checked = []
    for at, file in enumerate(unit.files, unit.first):
        tick(file, at, 0)
        of_log = along if file in unit.log.segments else None
        checked.append(SegmentCheck(file, plan.limit, of_log, partial(tick, file, at), plan.decoders))
        if along is not None and checked[-1].is_unread:
            along.unread()
    return checked, None if along is None else along.finish()


def _along_again(log: PartitionFiles, files: Sequence[SegmentCheck], limit: int, sequences: bool) -> LogFindings:
    """The checks along a log whose segments were checked apart: from headers and markers, and from everything where a
    checksum is wrong. Of a remote log without indexes all headers would be fetched for nothing."""
    along = LogCheck(log, sequences)
    checked = {one.path: one for one in files}
    for segment in log.segments if sequences or is_local(log) or _has_index(log) else ():
        found = checked[segment.path]
        known = wanted(limit) if found.damage or found.restored else asked(MARKERS, errors="skip")
        rows = RowCheck(found.is_log)
        along.begin(segment)
        try:
            with closing(walk([segment], known)) as steps:
                for step in steps:
                    along.take(step, rows.take(step.rows)[0] if len(step) else 0)
        except (OSError, KafkaRecordError) as error:
            if not of_one_file(error):
                along.stop(error)
                break
            along.unread()
        else:
            _, _, _, largest, _ = rows.sums
            along.end(largest)
    return along.finish()


def is_local(log: PartitionFiles) -> bool:
    """Whether its segments are local files, which are cheap to read again."""
    return all(isinstance(segment.folder, LocalFolder) for segment in log.segments)


def _has_index(log: PartitionFiles) -> bool:
    suffixes = (offset_index.SUFFIX, txn_index.SUFFIX)
    try:
        return any(segment.sidecar(suffix) for segment in log.segments for suffix in suffixes)
    except OSError:
        return True  # reported where it is compared


def _run_inherited_unit(number: int) -> _Result:
    assert _inherited_plan is not None
    return _run_unit(_inherited_plan, number)


def _inherit(plan: Plan) -> None:
    """In a forked process: the plan, which is not pickled. Ignores Ctrl-C, which the whole process group receives: only
    the parent handles it, and stops the workers by `done`."""
    global _inherited_plan
    _inherited_plan = plan
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.SIG_IGN)
