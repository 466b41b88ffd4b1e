"""Reads an input in several threads: the one that calls, and helpers of a pool that stays."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kafkarec._core import Source, Stretches

from .decode_options import CHUNK_BYTES, NO_COLUMNS, DecodeRequest

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

_LEAST_BYTES = CHUNK_BYTES // 2  # of a stretch
_EACH = 8  # stretches for each thread, so that all end at about the same time
_MOST_HELPERS = 64

_pool: ThreadPoolExecutor | None = None


def _helpers() -> ThreadPoolExecutor:
    """Made at first use, and again in a forked process, which has no other thread; Python ends it at exit."""
    global _pool
    if _pool is None:
        from concurrent.futures import ThreadPoolExecutor

        _pool = ThreadPoolExecutor(max(_MOST_HELPERS, os.cpu_count() or 1), "kafkarec")
    return _pool


def _forget_pool() -> None:
    global _pool
    _pool = None


os.register_at_fork(after_in_child=_forget_pool)


def _together(work: Callable[[], object], helpers: int, end: Callable[[], None]) -> None:
    """Calls `work` here and in helpers. When it has returned here, `end` tells those that have begun to return; the
    others never begin: so nobody waits for a thread that is not there, or that waits itself."""
    futures = []
    try:
        try:
            for _ in range(helpers):
                futures.append(_helpers().submit(work))
        except RuntimeError:
            pass  # at the interpreter's exit, or where no thread can be started: fewer are as good
        work()
    finally:
        end()
        for future in futures:
            if not future.cancel():
                future.exception()


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
    request = decode_request.for_stretches
    _together(lambda: request.share(stretches), min(threads, (end - start) // size) - 1, stretches.end)
    good = stretches.join()
    if good == end:
        return stretches.chunks, stretches.tables, [], 0, []
    chunks, tables, *rest = decode_request.read(source, good, stop, stretches)
    return stretches.chunks + chunks, stretches.tables + tables, *rest
