"""One job after the other publishes below a URL, though a store has no locks

    _temporary/_commits/<job>.turn      a flag: up from before the job looks for others until it is through

Who wants to publish raises its flag and then lists the flags. Where there is none but its own, it is its turn: of two
that raise theirs at once at least one sees the other's, as a listing shows whatever was put before it. Of two that see
each other the one whose name comes first waits with its flag up, the other takes its own down and tries again.

A flag is raised anew while its job goes on. One that was not for STALE seconds, by the store's clock, is a dead
driver's and does not count; a job whose flag nobody raised for half of that time stops by itself. So two could only
publish at once where a driver slept for that long in the middle of a single request and then woke up.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from .buckets import Bucket

COMMITS = "_temporary/_commits"
STALE = 1200.0
_BEAT = 60.0
_POLL = 2.0
SUFFIX = ".turn"
_log = logging.getLogger("spark_udfs")


class TurnLost(RuntimeError):
    """The flag was not raised for too long: somebody else may have begun. What is half done is undone by them."""


class Turn:
    """`beat` in front of every step."""

    def __init__(self, bucket: Bucket, job: str) -> None:
        self.job = job
        self._bucket, self._name = bucket, f"{COMMITS}/{job}{SUFFIX}"
        self._raised = 0.0

    def beat(self) -> None:
        since = time.time() - self._raised
        if since > STALE / 2:
            raise TurnLost(f"{self._bucket.url}/{self._name} was not raised anew for {since:.0f} seconds")
        if since > _BEAT:
            self.hoist()

    def hoist(self) -> None:
        begun = time.time()
        self._bucket.put(self._name, b"")
        self._raised = begun

    def lower(self) -> None:
        self._bucket.delete(self._name)


@contextmanager
def taken(bucket: Bucket, job: str, stale: float | None = None) -> Iterator[Turn]:
    """Waits until it is this job's turn. stale: seconds after which a flag does not count."""
    turn = Turn(bucket, job)
    try:
        _wait(turn, bucket, job, STALE if stale is None else stale)
        yield turn
    finally:
        with suppress(OSError):  # what was done is done; a flag that stays up is taken for a dead driver's
            turn.lower()


def _wait(turn: Turn, bucket: Bucket, job: str, stale: float) -> None:
    began, told = time.time(), False
    while True:
        turn.hoist()
        flags = {one.name.removesuffix(SUFFIX): one for one in bucket.names(COMMITS) if one.name.endswith(SUFFIX)}
        own = flags.pop(job, None)
        others = [name for name, one in flags.items() if own is None or own.modified - one.modified < stale]
        if own is not None and not others:
            return
        if others and not told:
            text = "%s: job %s is publishing; this one waits. If its driver is dead, spark_udfs.sweep(path, 0) helps"
            _log.warning(text, bucket.url, others[0])
            told = True
        if others and min(others) < job:
            turn.lower()
        time.sleep(random.uniform(0.5, 1.5) * min(_POLL, 0.1 + time.time() - began))
