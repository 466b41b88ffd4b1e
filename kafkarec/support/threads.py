"""Work in several threads: the one that calls, and helpers, which end when no call waits.

`run_in_threads` makes calls of which the results are wanted one after the other. A call never waits for a helper that
has not begun: so it ends where no thread can be started, and if it is itself made by a helper. Nothing here but
SimpleQueue waits: a KeyboardInterrupt leaves no lock held.
"""

from __future__ import annotations

import atexit
import os
import time
from _thread import start_new_thread
from collections import deque
from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, Generic, TypeVar

_MOMENT = 1.0  # seconds that an interrupt leaves the calls that have begun

_Result = TypeVar("_Result")
_active: list[_CallsAhead] = []  # an entry for each helper that has begun and not returned
_exiting: list[bool] = []  # not empty when the interpreter ends: helpers do not begin any more


def _wait_for_helpers() -> None:
    """Waits a moment for the helpers. Called when the interpreter ends: if one returns from compiled code while its
    modules are taken down, the process may end by SIGSEGV."""
    _exiting.append(True)
    end = time.monotonic() + _MOMENT
    with suppress(KeyboardInterrupt):
        while _active and time.monotonic() < end:
            time.sleep(_MOMENT / 1000)


atexit.register(_wait_for_helpers)
os.register_at_fork(after_in_child=_active.clear)  # a forked process has one thread


class _Call(Generic[_Result]):
    """A call, and then its result or what it raised."""

    __slots__ = ("_call", "_raised", "_result", "is_done")

    def __init__(self, call: Callable[[], _Result]) -> None:
        self._call: Callable[[], _Result] | None = call
        self._raised: BaseException | None = None
        self.is_done = False

    def run(self, kept: type[BaseException]) -> None:
        """kept: what is raised by `result_or_raise`, and not here."""
        assert self._call is not None
        try:
            self._result = self._call()
        except kept as raised:
            self._raised = raised
        self._call, self.is_done = None, True

    def result_or_raise(self) -> _Result:
        if self._raised is not None:
            try:
                raise self._raised
            finally:
                self._raised = None  # it refers to this frame
        return self._result


class _CallsAhead:
    """Calls that wait for a thread, and the helpers that make them."""

    def __init__(self) -> None:
        self.waiting: deque[_Call[Any]] = deque()
        self.returned: SimpleQueue[None] = SimpleQueue()  # an entry for each call that a helper made, and each return
        self._helpers: list[None] = []  # an entry for each that was started and has not returned
        self._closed = False

    def start_helpers(self, most: int) -> None:
        try:
            while len(self._helpers) < min(most, len(self.waiting)):
                self._helpers.append(None)
                start_new_thread(self._make_calls, ())
        except RuntimeError:  # none can be started
            self._helpers.pop()

    def _make_calls(self) -> None:
        _active.append(self)  # before `_closed` is read, which `close` sets before it reads `_active`
        try:
            while not (self._closed or _exiting) and self._make_call(BaseException):
                self.returned.put(None)
        finally:
            self._helpers.pop()
            _active.remove(self)
            self.returned.put(None)

    def _make_call(self, kept: type[BaseException]) -> bool:
        """Makes the next call; False: there is none. kept: as of _Call.run"""
        try:
            call = self.waiting.popleft()
        except IndexError:
            return False
        call.run(kept)
        return True

    def wait_for(self, call: _Call[Any]) -> None:
        while not call.is_done:
            if not self._make_call(Exception):
                self.returned.get()

    def close(self, seconds: float | None) -> None:
        """Waits until the helpers have returned, or for so many seconds. An interrupt while it waits leaves them a
        moment more, in which they keep what they read; a second one nothing."""
        self._closed = True
        self.waiting.clear()
        try:
            self._wait(seconds)
        except KeyboardInterrupt:
            self._wait(_MOMENT)
            raise

    def _wait(self, seconds: float | None) -> None:
        end = None if seconds is None else time.monotonic() + seconds
        with suppress(Empty):
            while self in _active and not _exiting:
                self.returned.get(timeout=None if end is None else max(0.0, end - time.monotonic()))


def run_in_threads(calls: Iterator[Callable[[], _Result]], threads: int, each: int = 2) -> Generator[_Result]:
    """Yields what the calls return, in order, or raises what one raises. Up to `threads` threads make them, the caller
    of this generator included; `each` for each thread are made before their results are wanted, for a single thread
    none. `calls` is iterated by the caller alone; what it raises comes after the results of the calls before."""
    ahead, made = _CallsAhead(), deque[_Call[_Result]]()
    most = 1 if threads == 1 else each * threads
    ended, raised = False, None  # the latter by `calls`
    patience: float | None = None  # seconds; None: until all have returned
    try:
        while True:
            try:
                while not ended and len(made) < most:
                    made.append(_Call(next(calls)))
                    ahead.waiting.append(made[-1])
                    ahead.start_helpers(threads - 1)
            except StopIteration:
                ended = True
            except Exception as error:
                ended, raised = True, error
            if not made:
                break
            ahead.wait_for(made[0])
            yield made.popleft().result_or_raise()
    except KeyboardInterrupt:
        patience = _MOMENT  # a call may compress for seconds
        raised = None  # it refers to this frame
        raise
    finally:
        ahead.close(patience)
    try:
        if raised is not None:
            raise raised
    finally:
        del raised
