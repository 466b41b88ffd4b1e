"""Checks segments in parallel: in threads, or in processes forked from this one.

A unit of work is one segment, or one log if producer sequences are checked, which needs order; and the side files of a
log. Decoding releases the GIL, but half of the work is Python: two processes are twice as fast as one, two threads
hardly faster, and with gzip slower. Threads are for remote files, where most of the time is waiting and forking is not
safe with their libraries.
"""

from __future__ import annotations

import multiprocessing
import signal
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from .findings import FindingNotes
from .partition_files import check_log
from .payload_checks import PayloadCheckOptions
from .segment_check import FileFacts, examine
from .sequence_checks import Sequences

Tick = Callable[[str, int, int], None]
_LOOK = 0.25


class Stopped(Exception):
    """Raised in the workers when the caller stops."""


class Workers(NamedTuple):
    """The number of threads, or of forked processes if above one."""

    threads: int
    processes: int

    @property
    def number(self) -> int:
        return max(self.threads, self.processes)


class WorkUnit(NamedTuple):
    """A unit of work of the log with index `owner`.

    first, segments   segments in order, and the index of the first one among all; no segments: the side files
    follow            whether producer sequences are checked
    """

    owner: int
    first: int
    segments: Sequence[Any]
    follow: bool = False


@dataclass
class LogFacts:
    """The results of the workers for one log."""

    files: list[FileFacts] = field(default_factory=list)
    follower: Sequences | None = None
    beside: FindingNotes = field(default_factory=FindingNotes)


class WorkPlan(NamedTuple):
    """The input of the workers; forked ones inherit it.

    done: in shared memory, the bytes read of each segment; the last item tells the workers to stop
    """

    logs: Sequence[Any]
    units: Sequence[WorkUnit]
    options: PayloadCheckOptions
    done: Any

    @property
    def segments(self) -> list[Any]:
        return [segment for unit in self.units for segment in unit.segments]


Result = tuple[list[FileFacts], Sequences | None] | FindingNotes
_inherited: WorkPlan | None = None


def examine_all(
    logs: Sequence[Any], options: PayloadCheckOptions, sequences: bool, workers: Workers, progress: Tick | None
) -> list[LogFacts]:
    """The results for each log. ChildProcessError if a worker process was killed."""
    units, first = [], 0
    for owner, log in enumerate(logs):
        alone = [[segment] for segment in (*(() if sequences else log.segments), *log.checkpoints)]
        for some in ([log.segments] if sequences and log.segments else []) + alone:
            units.append(WorkUnit(owner, first, some, sequences and some is log.segments))
            first += len(some)
    units += [WorkUnit(owner, 0, ()) for owner in range(len(logs))]
    plan = WorkPlan(logs, units, options, multiprocessing.RawArray("q", first + 1))
    found = [LogFacts() for _ in logs]
    for unit, result in zip(units, _run(plan, workers, progress), strict=True):
        if isinstance(result, FindingNotes):
            found[unit.owner].beside = result
        else:
            found[unit.owner].files += result[0]
            found[unit.owner].follower = result[1] or found[unit.owner].follower
    return found


def _run(plan: WorkPlan, workers: Workers, progress: Tick | None) -> list[Result]:
    """The result of each unit, in order."""
    numbers = range(len(plan.units))
    if workers.number == 1:
        return [_work(plan, number, progress) for number in numbers]
    global _inherited
    pool: Executor
    count = min(workers.number, len(plan.units))
    if workers.processes > 1:
        _inherited = plan
        fork = multiprocessing.get_context("fork")
        pool = ProcessPoolExecutor(count, mp_context=fork, initializer=_ignore_interrupts)
    else:
        pool = ThreadPoolExecutor(count, "kafkarec-verify")
    forked = workers.processes > 1
    others = set(multiprocessing.active_children())
    with pool:
        try:
            tasks: dict[int, Future[Result]] = {
                number: pool.submit(_inherited_work, number) if forked else pool.submit(_work, plan, number)
                for number in _largest_first(plan.units)
            }
            _follow(set(tasks.values()), plan, progress)
            return [tasks[number].result() for number in numbers]
        except BrokenProcessPool as error:
            raise ChildProcessError("a worker process ended before its work was done (out of memory?)") from error
        except BaseException:
            plan.done[len(plan.done) - 1] = 1
            pool.shutdown(wait=False, cancel_futures=True)
            for child in set(multiprocessing.active_children()) - others:
                child.terminate()  # it only reads, so there is nothing to clean up
            raise
        finally:
            _inherited = None


def _largest_first(units: Sequence[WorkUnit]) -> list[int]:
    """The indexes of the units, largest first, so that the last ones to finish are small."""

    def size(number: int) -> int:
        try:
            return sum(segment.size for segment in units[number].segments)
        except OSError:
            return 0

    return sorted(range(len(units)), key=size, reverse=True)


def _follow(waiting: set[Future[Result]], plan: WorkPlan, progress: Tick | None) -> None:
    """Waits for all, or for the first that fails, and reports progress."""
    segments = plan.segments
    while waiting:
        ended, waiting = wait(waiting, timeout=_LOOK, return_when=FIRST_COMPLETED)
        for task in ended:
            task.result()
        if progress is not None:
            for segment, done in zip(segments, plan.done, strict=False):
                if done:
                    progress(segment.path, done, segment.size)


def _work(plan: WorkPlan, number: int, progress: Tick | None = None) -> Result:
    """The result of one unit. `progress`: None in a worker."""
    unit = plan.units[number]
    if plan.done[len(plan.done) - 1]:
        raise Stopped
    if not unit.segments:
        return check_log(plan.logs[unit.owner])
    follower = Sequences() if unit.follow else None
    facts = []
    for at, segment in enumerate(unit.segments, unit.first):

        def tick(done: int, at: int = at, segment: Any = segment) -> None:
            plan.done[at] = done
            if plan.done[len(plan.done) - 1]:
                raise Stopped
            if progress is not None and done:
                progress(segment.path, done, segment.size)

        facts.append(examine(segment, plan.options, [] if follower is None else [follower], tick))
    return facts, follower


def _inherited_work(number: int) -> Result:
    assert _inherited is not None
    return _work(_inherited, number)


def _ignore_interrupts() -> None:
    """Ctrl-C goes to the whole process group: only the parent handles it, and stops the workers by `done`."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.SIG_IGN)
