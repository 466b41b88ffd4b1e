"""Checks segments in parallel: in threads, or in processes forked from this one.

A unit of work is one segment (one log if producer sequences are checked, which needs the segments in order), or the
side files of a log. Decoding releases the GIL, but decompressing gzip and snappy and comparing the columns of batches
hold it, so local files are checked in processes. Threads are for remote files: most of the time is waiting, and the
libraries for them are not safe with fork.
"""

from __future__ import annotations

import multiprocessing
import signal
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

from .findings import FindingCollector
from .partition_files import check_log
from .segment_check import FileResult, check_segment
from .sequence_checks import SequenceCheck

FileProgress = Callable[[str, int, int], None]
SegmentProgress = Callable[[int, int], None]  # the index of the segment, bytes read
_POLL_SECONDS = 0.25
_MOST_CHECKS = 3  # of a file that is shorter each time


class Stopped(Exception):
    """Raised in the workers after the caller stopped."""


class Workers(NamedTuple):
    """The number of segments that are checked at once, in threads or in forked processes, and of the threads that
    decode a segment."""

    threads: int
    processes: int
    decoders: int = 1

    @property
    def number(self) -> int:
        return max(self.threads, self.processes)


class WorkUnit(NamedTuple):
    """A unit of work for the log with index `log_index`.

    first_segment     the index of the unit's first segment among all segments
    segments          in order; none: the unit is the side files
    check_sequences   whether producer sequences are checked
    """

    log_index: int
    first_segment: int
    segments: Sequence[Any]
    check_sequences: bool = False


@dataclass
class LogResult:
    """The results of the workers for one log."""

    files: list[FileResult] = field(default_factory=list)
    sequences: FindingCollector | None = None
    side_file_findings: FindingCollector = field(default_factory=FindingCollector)


class WorkPlan(NamedTuple):
    """The input of the workers; forked ones inherit it.

    limit  max decompressed bytes of a payload
    decoders  how many threads decode a segment
    done   in shared memory, the bytes read of each segment; the last item is set to make the workers stop
    """

    logs: Sequence[Any]
    units: Sequence[WorkUnit]
    limit: int
    decoders: int
    done: Any

    @property
    def segments(self) -> list[Any]:
        return [segment for unit in self.units for segment in unit.segments]


Result = tuple[list[FileResult], FindingCollector | None] | FindingCollector
_inherited_plan: WorkPlan | None = None


def check_all(
    logs: Sequence[Any], limit: int, sequences: bool, workers: Workers, progress: FileProgress | None
) -> list[LogResult]:
    """The results for each log. Raises ChildProcessError if a worker process was killed."""
    units, first = [], 0
    for log_index, log in enumerate(logs):
        logged = log.all_segments
        alone = [[segment] for segment in (*(() if sequences else logged), *log.checkpoints)]
        for segments in ([logged] if sequences and logged else []) + alone:
            units.append(WorkUnit(log_index, first, segments, sequences and segments is logged))
            first += len(segments)
    units += [WorkUnit(log_index, 0, ()) for log_index in range(len(logs))]
    plan = WorkPlan(logs, units, limit, workers.decoders, multiprocessing.RawArray("q", first + 1))
    results = [LogResult() for _ in logs]
    for unit, result in zip(units, _run_units(plan, workers, progress), strict=True):
        if isinstance(result, FindingCollector):
            results[unit.log_index].side_file_findings = result
        else:
            results[unit.log_index].files += result[0]
            results[unit.log_index].sequences = results[unit.log_index].sequences if result[1] is None else result[1]
    for log, checked in zip(logs, results, strict=True):
        restored = {file.path for file in checked.files if file.restored}
        if restored:  # once more: the side files are those of the batches as they were
            checked.side_file_findings = check_log(log, restored)
    return results


def _run_units(plan: WorkPlan, workers: Workers, progress: FileProgress | None) -> list[Result]:
    """The result of each unit, in order."""
    numbers = range(len(plan.units))
    if workers.number == 1:
        return [_run_unit(plan, number, progress) for number in numbers]
    global _inherited_plan
    pool: Executor
    count = min(workers.number, len(plan.units))
    if workers.processes > 1:
        _inherited_plan = plan
        fork = multiprocessing.get_context("fork")
        pool = ProcessPoolExecutor(count, mp_context=fork, initializer=_ignore_interrupts)
    else:
        pool = ThreadPoolExecutor(count, "kafkarec-verify")
    forked = workers.processes > 1
    others = set(multiprocessing.active_children())
    with pool:
        try:
            tasks: dict[int, Future[Result]] = {
                number: pool.submit(_run_inherited_unit, number) if forked else pool.submit(_run_unit, plan, number)
                for number in _largest_first(plan.units)
            }
            _wait_for(set(tasks.values()), plan, progress)
            return [tasks[number].result() for number in numbers]
        except BrokenProcessPool as error:
            raise ChildProcessError("a worker process ended before it was finished (out of memory?)") from error
        except BaseException:
            plan.done[len(plan.done) - 1] = 1
            pool.shutdown(wait=False, cancel_futures=True)
            for child in set(multiprocessing.active_children()) - others:
                child.terminate()  # workers only read, so there is nothing to clean up
            raise
        finally:
            _inherited_plan = None


def _largest_first(units: Sequence[WorkUnit]) -> list[int]:
    """The indexes of the units, largest first, so that the last ones to finish are small."""

    def size(number: int) -> int:
        try:
            return sum(segment.size for segment in units[number].segments)
        except OSError:
            return 0

    return sorted(range(len(units)), key=size, reverse=True)


def _wait_for(waiting: set[Future[Result]], plan: WorkPlan, progress: FileProgress | None) -> None:
    """Waits for all futures, or for the first that fails, and reports progress."""
    segments = plan.segments
    while waiting:
        ended, waiting = wait(waiting, timeout=_POLL_SECONDS, return_when=FIRST_COMPLETED)
        for task in ended:
            task.result()
        if progress is not None:
            for segment, done in zip(segments, plan.done, strict=False):
                if done:
                    progress(segment.path, done, segment.size)


def _run_unit(plan: WorkPlan, number: int, progress: FileProgress | None = None) -> Result:
    """The result of one unit. progress: None in a worker, where `plan.done` reports it."""
    unit = plan.units[number]
    if plan.done[len(plan.done) - 1]:
        raise Stopped
    if not unit.segments:
        return check_log(plan.logs[unit.log_index])

    def tick(at: int, done: int) -> None:
        plan.done[unit.first_segment + at] = done
        if plan.done[len(plan.done) - 1]:
            raise Stopped
        if progress is not None and done:
            progress(unit.segments[at].path, done, unit.segments[at].size)

    return check_segments(unit.segments, plan.limit, unit.check_sequences, tick, plan.decoders)


def check_segments(
    segments: Sequence[Any],
    limit: int,
    sequences: bool = False,
    progress: SegmentProgress | None = None,
    decoders: int = 1,
) -> tuple[list[FileResult], FindingCollector | None]:
    """The results for consecutive segments, and findings about the producers' sequences along them if asked for. If a
    broker truncates one meanwhile, all are checked again: what it cut off is no damage."""
    for _ in range(_MOST_CHECKS):
        sequence_check = SequenceCheck() if sequences else None
        log_checks = [sequence_check.check] if sequence_check else []
        results = [
            check_segment(segment, limit, log_checks, partial(progress, at) if progress else None, decoders)
            for at, segment in enumerate(segments)
        ]
        if not any(one.is_shorter_now for one in results):
            break
    return results, sequence_check.findings if sequence_check else None


def _run_inherited_unit(number: int) -> Result:
    assert _inherited_plan is not None
    return _run_unit(_inherited_plan, number)


def _ignore_interrupts() -> None:
    """Ignores Ctrl-C, which the whole process group receives. Only the parent handles it, and stops the workers by
    `done`."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.SIG_IGN)
