"""Reads an input in several threads: the one that calls, and helpers that stay for the next call.

A call never waits for a helper that has not begun: so it ends where no thread can be started, where all helpers are
busy, and if it is itself made by one. Nothing here but SimpleQueue waits: a KeyboardInterrupt leaves no lock held.
"""

from __future__ import annotations

import os
from _thread import start_new_thread
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any

from kafkarec._core import Source, Stretches

from .decode_options import CHUNK_BYTES, NO_COLUMNS, DecodeRequest

_LEAST_BYTES = CHUNK_BYTES // 2  # of a stretch
_EACH = 8  # stretches for each thread, so that all end at about the same time
_MOST_HELPERS = max(64, os.cpu_count() or 1)

_Work = Callable[[], object]


class _Helpers:
    """Threads that wait for work; they are started when there is more work than of them, and end with the process."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._work: SimpleQueue[_Work] = SimpleQueue()
        self._idle: SimpleQueue[None] = SimpleQueue()  # an entry for each thread that waits

    def call(self, work: _Work) -> None:
        """Has a thread call `work`, unless all are busy for longer than the caller waits."""
        try:
            self._idle.get_nowait()
        except Empty:
            if self._most > 0:
                start_new_thread(self._run, ())
                self._most -= 1
        self._work.put(work)

    def _run(self) -> None:
        while True:
            work = self._work.get()
            with suppress(BaseException):  # the caller reads again what is missing, and raises
                work()
            del work
            self._idle.put(None)


def _new_helpers() -> None:
    global _helpers
    _helpers = _Helpers(_MOST_HELPERS)


_helpers = _Helpers(_MOST_HELPERS)
os.register_at_fork(after_in_child=_new_helpers)  # a forked process has one thread


def worth_sharing(decode_request: DecodeRequest, size: int) -> bool:
    """Whether `size` bytes of input are enough for threads. A limit for a whole input is counted by one thread."""
    return size > CHUNK_BYTES and decode_request.options.input_limit is None


def read_shared(
    decode_request: DecodeRequest, source: Source, start: int, stop: int | None, threads: int
) -> tuple[Any, ...]:
    """As DecodeRequest.read, in up to `threads` threads; the same result, except for where its chunks end."""
    end = source.size if stop is None else stop
    size = max(_LEAST_BYTES, min(CHUNK_BYTES, (end - start) // (_EACH * threads)))
    stretches = Stretches(decode_request.decoder(layout=NO_COLUMNS), source, start, stop, size)
    request, shared = decode_request.for_stretches, [stretches]

    def work() -> None:
        for one in shared:
            request.share(one)

    try:
        try:
            for _ in range(min(threads, (end - start) // size) - 1):
                _helpers.call(work)
        except RuntimeError:
            pass  # at the interpreter's exit, or where no thread can be started: fewer are as good
        work()
    finally:
        stretches.close()
        shared.clear()  # a helper that is busy elsewhere may find this call later
    good = stretches.join()
    if good == end:
        return stretches.chunks, stretches.tables, [], 0, []
    chunks, tables, *rest = decode_request.read(source, good, stop, stretches)
    return stretches.chunks + chunks, stretches.tables + tables, *rest
