"""The logs of the paths of a command line, opened by kafkarec.open, in the order given."""

from __future__ import annotations

import os
import stat
import sys
import tempfile
from collections.abc import Iterable, Sequence

from kafkarec import storage
from kafkarec.storage import Log, Segment, names, remote
from kafkarec.storage.folders import LocalFolder
from kafkarec.storage.sources import OpenFile

from .shared_options import CouldNot, WrongUse

_SPOOL_STEP = 1 << 20
STANDARD_INPUT = "-"


def find(paths: Sequence[str], topic: str | None, partition: int | None) -> list[Log]:
    """One log for each partition; segments of one folder that are named one by one are one log, too."""
    if paths.count(STANDARD_INPUT) > 1:
        raise WrongUse("standard input (-) can be read once only")
    found: list[Log | list[Segment]] = []
    by_folder: dict[str, list[Segment]] = {}
    for path in paths:
        opened = _open(path, topic, partition, alone=len(paths) == 1)
        if not isinstance(opened, Segment):
            found += _logs(path, opened)
            continue
        folder = names.segment_owner(os.path.abspath(path)).log if names.segment(opened.name) else path
        if folder not in by_folder:
            found.append(by_folder.setdefault(folder, []))
        by_folder[folder].append(opened)
    return [_log(one) if isinstance(one, list) else one for one in found]


def segments(logs: Iterable[Log]) -> list[Segment]:
    return [segment for log in logs for segment in log.segments]


def fetched(segments: Iterable[Segment]) -> int | None:
    """Bytes received from remote stores; None: no input is remote."""
    counters = {id(counter): counter for segment in segments if (counter := segment.fetch_counter) is not None}
    return sum(counter.fetched for counter in counters.values()) if counters else None


def _log(segments: list[Segment]) -> Log:
    segments.sort(key=lambda segment: (segment.base_offset or 0, segment.name))
    first = segments[0]
    return Log(os.path.dirname(first.path), segments, topic=first.topic, partition=first.partition)


def _open(path: str, topic: str | None, partition: int | None, alone: bool) -> Segment | Log | storage.LogDir:
    if path == STANDARD_INPUT:
        return Segment(STANDARD_INPUT, "standard input", source=_standard_input(), topic=topic, partition=partition)
    try:
        return storage.open(path, topic=topic, partition=partition)
    except OSError as error:
        if not alone and isinstance(error, FileNotFoundError) and not remote.is_url(path):
            return Segment(path, os.path.basename(path), folder=LocalFolder(os.path.dirname(path)))  # raises when read
        raise CouldNot(reason(error, path)) from error
    except ValueError as error:
        raise WrongUse(str(error)) from error


def reason(error: OSError, path: str) -> str:
    """One line for a file that cannot be opened or read."""
    if isinstance(error, remote.RemoteError):
        return str(error)
    return f"{error.filename or path}: {error.strerror.lower()}" if error.strerror else str(error)


_GIVEN_UP = ("-delete", "-stray", "-future", ".deleted", ".swap")


def _logs(path: str, opened: Log | storage.LogDir) -> list[Log]:
    """The logs of a folder that have segments; reports logs without any."""
    logs = [log for log in storage.logs(opened) if log.segments]
    if not logs:
        left = [one for one in opened.left_out if one.name.endswith(_GIVEN_UP)]
        hint = f"; {left[0].name} is {left[0].why}" if left else ""
        raise CouldNot(f"{path}: a folder without .log files{hint}")
    return logs


def _standard_input() -> OpenFile:
    """A file is read in place; a pipe is copied to an unnamed file first, because damage is read twice."""
    if sys.stdin is None:
        raise CouldNot("standard input is closed")
    descriptor = os.dup(sys.stdin.fileno())
    if stat.S_ISREG(os.fstat(descriptor).st_mode) and not os.lseek(descriptor, 0, os.SEEK_CUR):
        return OpenFile(descriptor, "standard input")
    with os.fdopen(descriptor, "rb") as pipe, tempfile.TemporaryFile(prefix="kafkarec-") as spool:
        while block := pipe.read(_SPOOL_STEP):
            spool.write(block)
        spool.flush()
        return OpenFile(os.dup(spool.fileno()), "standard input")
