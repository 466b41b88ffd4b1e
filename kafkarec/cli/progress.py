"""Progress on standard error, only on a terminal: one line, which is drawn again and again, and erased at the end.

    kafkarec: reading: 24 %, 2.4 GiB of 10.0 GiB, 812 MB/s, 10 s left

A verb that prints while it works (see `when_writing`) shows the line at once if its output goes to a file. On the
terminal that the output is printed on, it is shown only after a second without output. Nothing is shown if the output
goes to a pipe, as the next program may use the terminal, too. Whatever else is printed on the terminal calls
`erase` first.
"""

from __future__ import annotations

import os
import shutil
import stat
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from enum import Enum
from math import inf
from typing import TYPE_CHECKING, Any, TextIO

from kafkarec.sources import remote
from kafkarec.storage.output_rules import descriptor_of
from kafkarec.support.text_table import byte_size, duration_text

if TYPE_CHECKING:
    from kafkarec.storage.segment_file import SegmentFile

# Called with the path of a file and the position up to which it was read, from any thread.
Tick = Callable[[str, int], None]
_Update = Callable[[float], None]  # called with how much is done

SILENT_SECONDS = 1.0
DRAWN_EVERY = 0.1  # seconds
_ERASE = "\r\x1b[2K"


class When(Enum):
    """When progress is shown on a terminal."""

    AT_ONCE = "at once"
    IN_SILENCE = "after a second without output"
    NEVER = "never"


def show_segments_read(
    segments: Iterable[SegmentFile], begin: When = When.AT_ONCE, passes: int = 1
) -> AbstractContextManager[Tick]:
    """Yield a function to call after each piece of a file. `passes`: how often the verb reads the segments."""
    from kafkarec.storage.segment_file import size_or_zero  # not at the top: --help needs none of it

    return show_bytes_read(lambda: passes * sum(map(size_or_zero, segments)), begin, passes)


@contextmanager
def show_bytes_read(total: Callable[[], int], begin: When = When.AT_ONCE, passes: int = 1) -> Iterator[Tick]:
    """As `show_segments_read`, for `total()` bytes; it is called only if there is a terminal."""
    lock, ends, done = threading.Lock(), dict[str, int](), 0

    def tick(path: str, end: int) -> None:
        nonlocal done
        with lock:
            before = ends.get(path, 0)
            begins_again = end < before or (end == before and passes > 1)
            done += end if begins_again else end - before
            ends[path] = end
            update(done)

    with _show("reading", total, begin) as update:
        yield tick


def show_byte_count(name: str) -> AbstractContextManager[_Update]:
    """Yield a function to call with the bytes that are done, for an input of unknown size."""
    return _show(name, lambda: None, When.IN_SILENCE)


def show_share() -> AbstractContextManager[_Update]:
    """Yield a function to call with the share that is done, 0 to 1."""
    return _show("measuring", lambda: 1.0, When.AT_ONCE)


_on_screen: list[_Line] = []


def erase() -> None:
    """Erase the line on the terminal, as other text follows; it is drawn again as the work goes on."""
    for line in _on_screen:
        line.hide()


class _Line:
    """The line on the terminal."""

    def __init__(self, name: str, total: float | None, begin: When) -> None:
        self._name, self._total, self._lock = name, total, threading.Lock()
        self._silence = SILENT_SECONDS if begin is When.IN_SILENCE else 0.0
        self._begun = time.monotonic()
        self._hidden_until, self._is_drawn = self._begun + self._silence, False

    def update(self, completed: float) -> None:
        """Draw it, if it is time to. completed: how much is done"""
        with self._lock:
            now = time.monotonic()
            if now >= self._hidden_until:
                self._hidden_until, self._is_drawn = now + DRAWN_EVERY, True
                width = shutil.get_terminal_size().columns - 1
                print(f"{_ERASE}{self._text(completed, now)[:width]}", end="", file=sys.stderr, flush=True)

    def _text(self, completed: float, now: float) -> str:
        total, parts = self._total, []
        completed = completed if total is None else min(completed, total)
        speed = completed / max(now - self._begun, 0.001)
        if total:
            parts.append(f"{100 * completed / total:.0f} %")
        if isinstance(completed, int):
            parts.append(byte_size(completed) + (f" of {byte_size(int(total))}" if total else ""))
            parts.append(f"{speed / 1e6:.0f} MB/s")
        if total and speed:
            parts.append(f"{duration_text(round((total - completed) / speed) * 1000)} left")
        return f"kafkarec: {self._name}: {', '.join(parts)}"

    def hide(self, seconds: float | None = None) -> None:
        """Erase it, and draw it no more for some seconds; None: for those of `begin`."""
        with self._lock:
            if self._is_drawn:
                print(_ERASE, end="", file=sys.stderr, flush=True)
            self._is_drawn = False
            self._hidden_until = time.monotonic() + (self._silence if seconds is None else seconds)


@contextmanager
def _show(name: str, total: Callable[[], float | None], begin: When) -> Iterator[_Update]:
    if begin is When.NEVER or not is_stderr_terminal():
        yield lambda completed: None
        return
    line = _Line(name, total(), begin)
    _on_screen.append(line)
    try:
        yield line.update
    finally:
        line.hide(inf)  # a thread may be at work after an error
        _on_screen.remove(line)


def tick_arguments(segment: SegmentFile, table: Any) -> tuple[str, int]:
    """Return the arguments of a Tick after a piece with this BatchTable."""
    return segment.path, int(table[-1]["position"] + table[-1]["size_in_bytes"]) if len(table) else 0


def when_writing(path: str | None) -> When:
    """Return when a verb shows progress that writes its output `path` (None: standard output) while it works."""
    descriptor = descriptor_of(path)
    try:
        if descriptor is not None and os.isatty(descriptor):
            return When.IN_SILENCE
        mode = os.stat(path or "").st_mode if descriptor is None else os.fstat(descriptor).st_mode
    except FileNotFoundError:
        return When.AT_ONCE  # a new file
    except OSError:
        return When.NEVER
    return When.NEVER if stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) else When.AT_ONCE


def when_printing(output: TextIO | None) -> When:
    """Return when a verb shows progress that prints few lines to `output` while it works."""
    return When.IN_SILENCE if output is not None and output.isatty() else When.AT_ONCE


def bytes_in(paths: Iterable[str]) -> int:
    """Return the size of files and objects, and of all segments in folders; what cannot be read has none."""
    total = 0
    for path in paths:
        try:
            if remote.is_url(path) or os.path.isdir(path):
                from kafkarec.storage import opening
                from kafkarec.storage.segment_file import size_or_zero

                segments = (segment for log in opening.logs(opening.open(path)) for segment in log.segments)
                total += sum(map(size_or_zero, segments))
            else:
                total += os.stat(path).st_size
        except (OSError, ValueError):
            continue  # the verb reports it
    return total


def is_stderr_terminal() -> bool:
    return sys.stderr is not None and sys.stderr.isatty()
