"""Delays Ctrl-C during a write until the write is done, so that the output ends with a whole line."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any


class WholeWrites:
    """A context manager. The first Ctrl-C within `write()` or an import takes effect at the next `check()`, a second
    one at once."""

    def __init__(self) -> None:
        self._writing = self._interrupted = False
        self._old_handler: Any = None

    def __enter__(self) -> WholeWrites:
        if threading.current_thread() is threading.main_thread():
            self._old_handler = signal.signal(signal.SIGINT, self._handle)
        return self

    def __exit__(self, *failure: object) -> None:
        if self._old_handler is not None:
            signal.signal(signal.SIGINT, self._old_handler)

    @contextmanager
    def write(self) -> Iterator[None]:
        self._writing = True
        try:
            yield
        finally:
            self._writing = False

    def check(self) -> None:
        """Raise KeyboardInterrupt if Ctrl-C came during the last write, or an import."""
        if self._interrupted:
            raise KeyboardInterrupt

    def _handle(self, number: int, frame: FrameType | None) -> None:
        again, self._interrupted = self._interrupted, True
        # An exception within Python's import machinery may be printed and swallowed: its locks are freed by callbacks.
        importing = frame is not None and frame.f_code.co_filename.startswith("<frozen importlib")
        if again or not (self._writing or importing):
            raise KeyboardInterrupt
