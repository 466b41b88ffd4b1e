"""Segments side by side: in threads, or in processes forked from this one.

One segment is one unit of work; where producers are followed, which needs order, one log is. The engine lets the GIL
go, but half of the work is Python: two processes are twice as fast as one, two threads hardly faster, and with gzip
slower. Threads are for remote files, where waiting is most of it, and forking is not safe behind their libraries.
"""

from __future__ import annotations

import multiprocessing
import signal
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from typing import Any, NamedTuple

from .files import FileFacts, examine
from .payloads import Wishes
from .sequences import Sequences

Found = tuple[list[FileFacts], Sequences | None]
Tick = Callable[[str, int, int], None]
_LOOK = 0.25


class Stopped(Exception):
    """Raised inside of the workers when the caller gave up."""


class Unit(NamedTuple):
    """Segments of one log that one worker reads in order; `first` is the number of its first one among all."""

    first: int
    segments: Sequence[Any]


class Plan(NamedTuple):
    """What the workers need; forked ones inherit it.

    done: bytes read of each segment, and behind the last one whether to stop. Shared memory: only numbers cross.
    """

    units: Sequence[Unit]
    wishes: Wishes
    sequences: bool
    done: Any


_inherited: Plan | None = None


def examine_all(
    logs: Sequence[Sequence[Any]],
    wishes: Wishes,
    *,
    sequences: bool,
    threads: int,
    processes: int,
    progress: Tick | None,
) -> list[Found]:
    """The facts of each log's segments, in order. OSError where a worker process was killed."""
    units, owners, first = [], [], 0
    for number, segments in enumerate(logs):
        for some in [segments] if sequences else [[segment] for segment in segments]:
            units.append(Unit(first, some))
            owners.append(number)
            first += len(some)
    everything = [segment for segments in logs for segment in segments]
    plan = Plan(units, wishes, sequences, multiprocessing.RawArray("q", len(everything) + 1))
    found: list[Found] = [([], None) for _ in logs]
    for owner, (facts, follower) in zip(owners, _run(plan, threads, processes, everything, progress), strict=True):
        found[owner] = ([*found[owner][0], *facts], follower)
    return found


def _run(plan: Plan, threads: int, processes: int, segments: Sequence[Any], progress: Tick | None) -> list[Found]:
    if len(plan.units) == 1 or (threads == 1 and processes == 1):
        return [_alone(plan, number, segments, progress) for number in range(len(plan.units))]
    global _inherited
    pool: Executor
    if processes > 1:
        _inherited = plan
        fork = multiprocessing.get_context("fork")
        pool = ProcessPoolExecutor(min(processes, len(plan.units)), mp_context=fork, initializer=_ignore_interrupts)
    else:
        pool = ThreadPoolExecutor(min(threads, len(plan.units)), "kafkarec-verify")
    with pool:
        try:
            tasks: dict[int, Future[Found]] = {
                number: pool.submit(_inherited_work, number) if processes > 1 else pool.submit(_work, plan, number)
                for number in _largest_first(plan.units)
            }
            _follow(list(tasks.values()), plan, segments, progress)
            return [tasks[number].result() for number in range(len(plan.units))]
        except BrokenProcessPool as error:
            raise ChildProcessError("a worker process ended before its work was done (out of memory?)") from error
        except BaseException:
            plan.done[len(segments)] = 1
            pool.shutdown(wait=False, cancel_futures=True)
            raise
        finally:
            _inherited = None


def _largest_first(units: Sequence[Unit]) -> list[int]:
    """So that no large one is left over for a worker alone at the end."""

    def size(number: int) -> int:
        try:
            return sum(segment.size for segment in units[number].segments)
        except OSError:
            return 0

    return sorted(range(len(units)), key=size, reverse=True)


def _follow(tasks: Sequence[Future[Found]], plan: Plan, segments: Sequence[Any], progress: Tick | None) -> None:
    """Waits for all, or for the first that fails, and tells the progress meanwhile."""
    waiting = set(tasks)
    while waiting:
        ended, waiting = wait(waiting, timeout=_LOOK, return_when=FIRST_COMPLETED)
        for task in ended:
            task.result()
        if progress is not None:
            for segment, done in zip(segments, plan.done, strict=False):
                if done:
                    progress(segment.path, done, segment.size)


def _alone(plan: Plan, number: int, segments: Sequence[Any], progress: Tick | None) -> Found:
    """In this thread: the progress is told at once."""

    def tell(at: int, done: int) -> None:
        if progress is not None:
            progress(segments[at].path, done, segments[at].size)

    return _work(plan, number, tell)


def _work(plan: Plan, number: int, tell: Callable[[int, int], None] | None = None) -> Found:
    unit = plan.units[number]
    follower = Sequences() if plan.sequences else None
    facts = []
    for at, segment in enumerate(unit.segments, unit.first):

        def tick(done: int, at: int = at) -> None:
            plan.done[at] = done
            if plan.done[len(plan.done) - 1]:
                raise Stopped
            if tell is not None:
                tell(at, done)

        facts.append(examine(segment, plan.wishes, [] if follower is None else [follower], tick))
    return facts, follower


def _inherited_work(number: int) -> Found:
    assert _inherited is not None
    return _work(_inherited, number)


def _ignore_interrupts() -> None:
    """Ctrl-C goes to the whole group: the parent alone decides, and stops the workers by their shared number."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.SIG_IGN)
