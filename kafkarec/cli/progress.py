"""Progress on standard error, only on a terminal: a bar of `rich`; without rich a plain line each ten seconds.

    kafkarec: reading: 24 %, 2.4 GiB of 10.0 GiB, 812 MB/s, 10 s left

A verb that prints while it works (see `when_writing`) shows the bar at once if its output goes to a file. On the
terminal that the output is printed on, it is shown only after a second without output. Nothing is shown if the output
goes to a pipe, as the next program may use the terminal, too. Whatever else is printed on the terminal calls
`erase` first.
"""

from __future__ import annotations

import os
import stat
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from enum import Enum
from math import inf
from typing import TYPE_CHECKING, Any

from kafkarec.sources import remote
from kafkarec.storage.output_rules import descriptor_of
from kafkarec.support.text_table import byte_size, duration_text

if TYPE_CHECKING:
    from kafkarec.storage.segment_file import SegmentFile

# Called with the path of a file and the position up to which it was read, from any thread.
Tick = Callable[[str, int], None]
_Update = Callable[[float], None]  # called with how much is done

_READING = ("BarColumn", "DownloadColumn", "TransferSpeedColumn", "TimeRemainingColumn")
_COUNTING = ("DownloadColumn", "TransferSpeedColumn")
_MEASURING = ("BarColumn", "TaskProgressColumn", "TimeRemainingColumn")
SILENT_SECONDS = 1.0
LINE_SECONDS = 10.0


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

    with _show(_READING, "reading", total, begin) as update:
        yield tick


def show_byte_count(name: str) -> AbstractContextManager[_Update]:
    """Yield a function to call with the bytes that are done, for an input of unknown size."""
    return _show(_COUNTING, name, lambda: None, When.IN_SILENCE)


def show_share() -> AbstractContextManager[_Update]:
    """Yield a function to call with the share that is done, 0 to 1."""
    return _show(_MEASURING, "measuring", lambda: 1.0, When.AT_ONCE)


_on_screen: list[_Bar] = []


def erase() -> None:
    """Erase the bar on the terminal, as other text follows; it is drawn again as the work goes on."""
    for bar in _on_screen:
        bar.hide()


class _Bar:
    """A bar of rich, which draws it ten times a second. drawn: a rich.progress.Progress."""

    def __init__(self, drawn: Any, name: str, total: float | None, begin: When) -> None:
        self._drawn, self._task, self._total = drawn, drawn.add_task(name, total=total), total
        self._lock = threading.Lock()
        self._silence = SILENT_SECONDS if begin is When.IN_SILENCE else 0.0
        self._hidden_until = time.monotonic() + self._silence
        self.update(0)

    def update(self, completed: float) -> None:
        with self._lock:
            self._drawn.update(self._task, completed=completed if self._total is None else min(completed, self._total))
            if time.monotonic() >= self._hidden_until:
                self._drawn.start()

    def hide(self, seconds: float | None = None) -> None:
        """Erase it, and draw it no more for some seconds; None: for those of `begin`."""
        with self._lock:
            self._drawn.stop()
            self._hidden_until = time.monotonic() + (self._silence if seconds is None else seconds)


def _line_printer(name: str, total: float | None) -> _Update:
    """The progress without rich: `update` prints a line each LINE_SECONDS."""
    begun = time.monotonic()
    printed = begun

    def update(completed: float) -> None:
        nonlocal printed
        now = time.monotonic()
        if now - printed < LINE_SECONDS:
            return
        printed = now
        completed = completed if total is None else min(completed, total)
        speed, parts = completed / (now - begun), []
        if total:
            parts.append(f"{100 * completed / total:.0f} %")
        if isinstance(completed, int):
            parts.append(byte_size(completed) + (f" of {byte_size(int(total))}" if total else ""))
            parts.append(f"{speed / 1e6:.0f} MB/s")
        if total and speed:
            parts.append(f"{duration_text(round((total - completed) / speed) * 1000)} left")
        print(f"kafkarec: {name}: {', '.join(parts)}", file=sys.stderr, flush=True)

    return update


@contextmanager
def _show(kinds: Iterable[str], name: str, total: Callable[[], float | None], begin: When) -> Iterator[_Update]:
    if begin is When.NEVER or not is_stderr_terminal():
        yield lambda completed: None
        return
    drawn = rich_progress(*kinds)
    if drawn is None:
        yield _line_printer(name, total())
        return
    bar = _Bar(drawn, name, total(), begin)
    _on_screen.append(bar)
    try:
        yield bar.update
    finally:
        bar.hide(inf)  # a thread may be at work after an error
        _on_screen.remove(bar)


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


def rich_progress(*kinds: str) -> Any:
    """A rich.progress.Progress with columns of these kinds; None: rich is not installed."""
    try:
        from rich import progress  # type: ignore[import-not-found,unused-ignore]
        from rich.console import Console  # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        return None
    return progress.Progress(
        *(getattr(progress, kind)() for kind in kinds),
        console=Console(stderr=True),
        transient=True,
        redirect_stdout=False,  # rich would print it on standard error
        redirect_stderr=False,
    )
