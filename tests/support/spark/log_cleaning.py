"""The file operations of the log cleaner on segments that are read at the same time, one rename at a time."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import kafkarec

SIDECARS = (".index", ".timeindex")


def third(offset: int) -> bool:
    """Whether the cleaner keeps a record."""
    return offset % 3 == 0


def rewritten(paths: Sequence[Path]) -> bytes:
    """Return the kept records of these segments, with their offsets; like the cleaner, always keep the last record."""
    rows = [
        (each.offset, each.timestamp, each.key, each.value, each.headers)
        for path in paths
        for each in kafkarec.open(path).read()
    ]
    return bytes(kafkarec.encode([row for row in rows if third(row[0]) or row is rows[-1]], batch_size=200))


def steps(paths: Sequence[Path]) -> Iterator[None]:
    """As UnifiedLog.replaceSegments, replace segments by one with the first's name; yield after each file operation."""
    target = paths[0]
    data = rewritten(paths)
    cleaned, swap = (target.with_name(f"{target.name}{suffix}") for suffix in (".cleaned", ".swap"))
    cleaned.write_bytes(data)
    yield
    cleaned.rename(swap)
    yield
    gone = []
    for path in paths:
        for suffix in SIDECARS:
            path.with_suffix(suffix).unlink(missing_ok=True)
        gone.append(path.rename(path.with_name(f"{path.name}.deleted")))
        yield
    swap.rename(target)
    yield
    for path in gone:
        path.unlink()


def clean(paths: Sequence[Path]):
    for _ in steps(paths):
        pass


def clean_sometimes(segments: Sequence[Path], rng: random.Random):
    """Clean up to three of them, but not the last one, in three of ten calls."""
    if len(segments) > 4 and rng.random() < 0.3:
        begin = rng.randrange(len(segments) - 3)
        clean(segments[begin : begin + rng.randint(1, 3)])


class RepeatingThread:
    """A thread that repeats `step` until the block ends; an exception in it is raised there."""

    def __init__(self, step: Callable[[], None]):
        self.step, self.stopped, self.failure = step, threading.Event(), None
        self.thread = threading.Thread(target=self._run)

    def _run(self):
        try:
            while not self.stopped.is_set():
                self.step()
        except BaseException as error:
            self.failure = error

    def __enter__(self) -> RepeatingThread:
        self.thread.start()
        return self

    def __exit__(self, *failure):
        self.stopped.set()
        self.thread.join(60)
        if self.failure is not None:
            raise self.failure
