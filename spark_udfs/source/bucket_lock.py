"""A lock made of objects, so that one job at a time publishes below a URL (object stores have no locks)

    _temporary/_commits/<job>.lock      the lock object: put before the job lists other locks, deleted when it is done

A job puts its lock object and then lists all lock objects. If there is no other, it holds the lock: of two jobs that
put theirs at the same time, at least one sees the other's, because a listing shows every object that was put before it.
Of two that see each other the one whose name sorts first waits and keeps its object; the other deletes its own and
tries again.

A job renews its object (puts it again) while it publishes. An object that was not renewed for STALE seconds, by the
store's clock, belongs to a dead driver and is ignored; a job that could not renew its own for half of that time stops
with LockLost. Two jobs could publish at once only if a driver was suspended for that long within a single request.
"""

from __future__ import annotations

import random
import time
from contextlib import suppress

from spark_udfs.errors import logger

from .buckets import Bucket
from .staging import LOCKS

STALE = 1200.0
_RENEW_AFTER = 60.0
_POLL = 2.0


class LockLost(RuntimeError):
    """The lock was not renewed in time, so another job may hold it by now."""


class BucketLock:
    """The lock of one job, a context manager. `heartbeat` must be called before every step of publishing.

    stale: seconds without renewal after which another job's lock is ignored
    """

    def __init__(self, bucket: Bucket, job: str, stale: float) -> None:
        self._bucket, self._job, self._stale = bucket, job, stale
        self._name, self._renewed = f"{LOCKS}/{job}.lock", 0.0

    def heartbeat(self) -> None:
        """Renews the lock when it is due; LockLost if it was not renewed in time."""
        since = time.time() - self._renewed
        if since > STALE / 2:
            raise LockLost(f"{self._bucket.path}/{self._name} was not renewed for {since:.0f} seconds")
        if since > _RENEW_AFTER:
            self._renew()

    def _renew(self) -> None:
        """Puts the lock object, with the store's current time."""
        begun = time.time()
        self._bucket.put(self._name, b"")
        self._renewed = begun

    def __enter__(self) -> BucketLock:
        try:
            self._wait()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *failure: object) -> None:
        with suppress(OSError):  # what was published stays; a lock that was not deleted becomes stale
            self._bucket.delete(self._name)

    def _wait(self) -> None:
        began, warned = time.time(), False
        while True:
            self._renew()
            locks = {one.name.removesuffix(".lock"): one.modified for one in self._bucket.names(LOCKS)}
            own = locks.pop(self._job, None)
            others = [job for job, modified in locks.items() if own is None or own - modified < self._stale]
            if own is not None and not others:
                return
            if others and not warned:
                text = "%s: waiting for job %s, which is publishing. If its driver is dead, call "
                logger.warning(text + "spark_udfs.sweep(path, 0)", self._bucket.path, others[0])
                warned = True
            if others and min(others) < self._job:
                self._bucket.delete(self._name)
            time.sleep(random.uniform(0.5, 1.5) * min(_POLL, 0.1 + time.time() - began))
