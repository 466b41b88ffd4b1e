"""Lists the partitions below the paths: names, segments with their sizes, and names again, until these are the same.

A segment that is followed by another one no longer grows, so its size is final if the other existed before. Segments
that a broker begins meanwhile are no reason to wait: the first names hold, without what came after them. Where a
partition is in several folders they are, as one may have been moved. While the log cleaner replaces a segment, A.log
does not exist between the renames A.log -> A.log.deleted and A.log.swap -> A.log: the listing waits for the second one.
Folders whose names never stay the same, and a replacement that was interrupted, are data loss.

A repeated listing of unchanged names costs one listing of the names and one `stat` of each last segment. It does not
see a segment that was replaced by a file of the same name: who opens it does, and makes a new Listing.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cached_property
from typing import Any, TypeVar

from spark_udfs.bootstrap import distributed
from spark_udfs.errors import logger

from . import paths
from .options import ReadOptions
from .paths import Partitions

# Enough for a broker: its cleaner replaces a segment in milliseconds.
_TRIES = 12
_LONGEST_PAUSE = 0.25
_LOG, _SWAP = ".log", ".swap"

_Names = dict[str, frozenset[str]]
_T = TypeVar("_T")


CONTINUE_ADVICE = ". failOnDataLoss=false continues with the records that exist"


class DataLoss(RuntimeError):
    """Offsets that the query should read no longer exist; with failOnDataLoss=false it continues without them."""


def report_loss(options: ReadOptions, what: str) -> None:
    """DataLoss, or a warning if failOnDataLoss is false. what: where, a colon, and what has happened."""
    if options.failOnDataLoss:
        raise DataLoss(f"data loss in {what}{CONTINUE_ADVICE}")
    logger.warning("data loss in %s; failOnDataLoss is false", what)


class Listing:
    """`current()` returns the partitions that exist now; remote folders are listed only once per call."""

    def __init__(self, options: ReadOptions) -> None:
        self.options = options
        self._names: _Names = {}
        self._logs: list[Any] = []
        self._not_read: set[str] = set()

    @cached_property
    def finder(self) -> distributed.LogFinder:
        return paths.finder(self.options)

    def retry(self, call: Callable[[Partitions], _T]) -> _T:
        """`call` with the partitions that exist now; again, listed anew, while files are removed or replaced before it
        opens them. After a replacement a folder may have the same names as before."""
        for _ in range(_TRIES - 1):
            with suppress(FileNotFoundError):
                return call(self.current())
            self._names = {}
        return call(self.current())

    def current(self) -> Partitions:
        """The partitions now. AnalysisException where a path does not exist, ValueError where two folders have the same
        offsets of a partition, DataLoss where names change all the time or the replacement of a segment was
        interrupted."""
        with paths.errors_as_spark(self.options):
            if self.finder.is_remote:
                self._logs = self.finder.logs()
            else:
                self._update_logs()
                for log in self._logs:
                    last = log.segments[-1]
                    log.segments = tuple(
                        _with_current_size(each) if each is last or not each.listed_size else each
                        for each in log.segments
                    )
        return paths.partitions(self.options, self.finder, self._logs)

    def _update_logs(self) -> None:
        names = self._names_now()
        problem = ""
        for tries in range(_TRIES):
            if names == self._names:
                return
            if tries:
                time.sleep(min(0.001 * 2**tries, _LONGEST_PAUSE))
            self._logs = self.finder.logs()
            before, names = names, self._names_now()
            # who moves a segment from one folder of a partition to another one changes both
            may_grow = len({(log.topic, log.partition) for log in self._logs}) == len(self._logs)
            problem = _problem(before, names, may_grow) or self._missing_segments(before, names)
            if not problem:
                for log in self._logs:
                    folder = os.path.dirname(log.segments[0].path)
                    begun = names.get(folder, frozenset()) - before.get(folder, frozenset())
                    log.segments = tuple(each for each in log.segments if each.name not in begun)
                self._logs = [log for log in self._logs if log.segments]
                names = before
                break
        else:
            report_loss(self.options, problem)
        self._names = names

    def _missing_segments(self, before: _Names, after: _Names) -> str:
        """What the listing lacks of the segments that were there before and after it, as when the cleaner has replaced
        one meanwhile. Files with such names that no log has are lacking in each listing."""
        listed = {segment.path for log in self._logs for segment in log.segments}
        both = ((folder, name) for folder in before for name in before[folder] & after.get(folder, frozenset()))
        there = {os.path.join(folder, name) for folder, name in both if name.endswith(_LOG)}
        known, self._not_read = self._not_read, there - listed
        return "" if self._not_read == known else _changed_text(next(iter(self._not_read ^ known)))

    def _names_now(self) -> _Names:
        """Folder -> relevant names in it, for each root, the partition folders below it and the key folders that
        `where` allows, and, without folders, the folder of files that a glob matches; "" -> the roots. OSError for a
        folder that cannot be listed, which the listing of the folder above would leave out, unless failOnDataLoss is
        false."""
        roots = self.finder.roots()
        waiting = [root for root in roots if os.path.isdir(root)]
        of_files = {os.path.dirname(root) for root in {*roots} - {*waiting, *paths.given_paths(self.options)}}
        names: _Names = {"": frozenset(roots)}
        for folder in of_files - {*waiting}:
            names[folder] = frozenset(name for name in _names_in(folder, self.finder) if name[-1] != "/")
        while waiting:
            folder = waiting.pop()
            if folder not in names:
                names[folder] = _names_in(folder, self.finder)
                waiting += [os.path.join(folder, name[:-1]) for name in names[folder] if name[-1] == "/"]
        return names


def _problem(before: _Names, after: _Names, may_grow: bool) -> str:
    """Why segments that were listed between these two may not be all; empty: they are."""
    for folder in filter(None, after):
        replaced = (name.removesuffix(_SWAP) for name in after[folder] if name.endswith(_SWAP))
        missing = min((name for name in replaced if name not in after[folder]), default=None)
        if missing is not None:
            above, own = os.path.split(folder)
            return (
                f"{above}: {own} has {missing}{_SWAP} and no {missing}: the replacement of that segment was "
                f"interrupted, and only that file has its offsets. A broker that starts there completes the renaming"
            )
    for folder in {**before, **after}:
        first, then = before.get(folder), after.get(folder)
        if may_grow and folder and first and then and first < then:
            first |= {name for name in then if name > max(first) and name.endswith(_LOG)}  # begun at the log's end
        if first != then:
            return _changed_text(folder or "the paths")
    return ""


def _changed_text(what: str) -> str:
    return f"{what}: names have changed during each of {_TRIES} listings"


def _with_current_size(segment: Any) -> Any:
    """With its current size: of a last segment, and of those that were listed as empty, whose `stat` may have
    failed. What is no file, such as a pipe, has none, so that a task opens it and has the error."""
    if segment.listed_size is None:
        return segment
    try:
        status = os.stat(segment.path)
        return segment.copy(size=status.st_size if stat.S_ISREG(status.st_mode) else None)
    except OSError:
        if segment.listed_size:
            raise
        return segment.copy(size=None)


def _names_in(folder: str, finder: distributed.LogFinder) -> frozenset[str]:
    """The names of segments and of their replacements, and those of partition and key folders, with a slash at the
    end."""
    own = os.path.basename(folder)
    names, folders = [], []
    try:
        with os.scandir(folder) as listing:
            for each in listing:
                name = each.name
                if each.is_dir():
                    folders.append(name)
                elif ".log" in name or name.endswith(".checkpoint"):
                    names.append(name)
    except (FileNotFoundError, NotADirectoryError):
        return frozenset()
    except OSError as error:
        finder.unreadable(error)
    keyed = finder.where.allowed(folders, folder)
    names += [f"{name}/" for name in folders if name in keyed or distributed.is_log_folder(name, own)]
    return frozenset(names)
