"""A progress bar on standard error: on a terminal only, with `rich`, where the output itself shows no progress."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from kafkarec.storage import Segment

# Called with the bytes of the current source that are done; `records`: their records.
Tick = Callable[[Segment, Any], None]


@contextmanager
def shown(sources: Sequence[Segment], wanted: bool) -> Iterator[Tick]:
    """A function to call after each piece. It does nothing where no bar can be shown."""
    bar = _bar(*_READING) if wanted and _is_terminal() else None
    if bar is None:
        yield lambda source, records: None
        return
    starts, total = {}, 0
    for source in sources:
        starts[source.path] = total
        total += source.size

    with bar:
        task = bar.add_task("reading", total=total)
        yield lambda source, records: bar.update(task, completed=starts[source.path] + _end(records))


@contextmanager
def share_shown() -> Iterator[Callable[[float], None]]:
    """A function to call with the share that is done, 0 to 1. It does nothing where no bar can be shown."""
    bar = _bar("BarColumn", "TaskProgressColumn", "TimeRemainingColumn") if _is_terminal() else None
    if bar is None:
        yield lambda share: None
        return
    with bar:
        task = bar.add_task("trying", total=1.0)
        yield lambda share: bar.update(task, completed=share)


def _is_terminal() -> bool:
    return sys.stderr is not None and sys.stderr.isatty()


_READING = ("BarColumn", "DownloadColumn", "TransferSpeedColumn", "TimeRemainingColumn")


def _bar(*kinds: str) -> Any:
    try:
        from rich import progress  # type: ignore[import-not-found,unused-ignore]
        from rich.console import Console  # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        return None
    columns = (getattr(progress, kind)() for kind in kinds)
    return progress.Progress(*columns, console=Console(stderr=True), transient=True)


def _end(records: Any) -> int:
    """The end position of a piece's last batch."""
    batches = records.batches
    return int(batches[-1]["position"] + batches[-1]["size_in_bytes"]) if len(batches) else 0
