"""Checks logs in threads: several at once, and where there are fewer logs than threads, several decode one.

Reading, decoding and most checks release the GIL, so forked processes were no faster. Of remote files most of the time
is waiting. A unit of work is a log, which is read once; or one segment of a remote log that is larger than one thread's
share of all, the checks along which follow from its headers and markers, which are read again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial
from itertools import groupby
from typing import Any, NamedTuple

from kafkarec._core import RowCheck
from kafkarec.errors import KafkaRecordError
from kafkarec.read.threads import in_order
from kafkarec.read.walk import MARKERS, asked, walk
from kafkarec.sidecars import offset_index, txn_index
from kafkarec.sources.folders import LocalFolder
from kafkarec.sources.read_failures import of_one_file
from kafkarec.storage.partition_folder import PartitionFiles
from kafkarec.storage.segment_file import known_size

from .log_checks import LogCheck, LogFindings
from .segment_check import SegmentCheck, wanted

FileProgress = Callable[[str, int, int], None]
REMOTE_THREADS = 8


class LogResult(NamedTuple):
    """The checks of a log's files, its .checkpoint files last, and what was found along the log."""

    files: list[SegmentCheck]
    along: LogFindings


class Unit(NamedTuple):
    """A unit of work: some files of a log; `whole`: all of them, and the checks along it."""

    log: PartitionFiles
    files: Sequence[Any]
    whole: bool


class Plan:
    """How the units are checked.

    limit      max decompressed bytes of a payload
    decoders   how many threads decode a segment
    """

    def __init__(self, limit: int, sequences: bool, decoders: int, progress: FileProgress | None) -> None:
        self.limit, self.sequences, self.decoders, self.progress = limit, sequences, decoders, progress
        self.failure: Exception | None = None  # of a thread, which stops the others

    def tick(self, file: Any, done: int) -> None:
        if self.failure is not None:
            raise self.failure
        if self.progress is not None and done:
            self.progress(file.path, done, file.size)

    def run(self, unit: Unit) -> tuple[list[SegmentCheck], LogFindings | None]:
        """The result of one unit."""
        try:
            along = LogCheck(unit.log, self.sequences) if unit.whole else None
            checked = []
            for file in unit.files:
                of_log = along if file in unit.log.segments else None
                checked.append(SegmentCheck(file, self.limit, of_log, partial(self.tick, file), self.decoders))
                if along is not None and checked[-1].is_unread:
                    along.unread()
            return checked, None if along is None else along.finish()
        except Exception as error:
            self.failure = error
            raise


def check_all(
    logs: Sequence[PartitionFiles], limit: int, sequences: bool, threads: int | None, progress: FileProgress | None
) -> list[LogResult]:
    """The results for each log. threads: see `verify`"""
    files_of = [(*log.all_segments, *log.checkpoints) for log in logs]
    sizes = [sum(map(known_size, files)) for files in files_of]
    total, local = sum(sizes), all(map(is_local, logs))
    if local:  # as many logs as have an equal share of the bytes; what is left of the threads decodes
        readers = max(1, min(threads or 1, total // (max(sizes, default=0) or 1)))
        decoders, share = (threads or 1) // readers, total
    else:
        readers, decoders = threads or REMOTE_THREADS, 1
        share = total // readers
    units = []
    for log, files, size in zip(logs, files_of, sizes, strict=True):
        whole = len(files) < 2 or size <= share
        units += [Unit(log, part, whole) for part in ([files] if whole else [[file] for file in files])]
    plan = Plan(limit, sequences, decoders, progress)
    results = []
    try:
        found = list(in_order((partial(plan.run, unit) for unit in units), readers))
    except KeyboardInterrupt:
        plan.failure = RuntimeError("interrupted")
        raise
    for log, parts in groupby(zip(units, found, strict=True), lambda one: one[0].log):
        [*of_log] = (result for _, result in parts)
        checked = [file for files, _ in of_log for file in files]
        results.append(LogResult(checked, of_log[0][1] or _along_again(log, checked, limit, sequences)))
    return results


def _along_again(log: PartitionFiles, files: Sequence[SegmentCheck], limit: int, sequences: bool) -> LogFindings:
    """The checks along a log whose segments were checked apart: from headers and markers, and from everything where a
    checksum is wrong. Of a remote log without indexes all headers would be fetched for nothing."""
    along = LogCheck(log, sequences)
    checked = {one.path: one for one in files}
    for segment in log.segments if sequences or is_local(log) or _has_index(log) else ():
        found = checked[segment.path]
        known = wanted(limit) if found.damage or found.restored else asked(MARKERS, errors="skip")
        rows = RowCheck(found.is_log)
        along.begin(segment)
        try:
            with closing(walk([segment], known)) as steps:
                for step in steps:
                    along.take(step, rows.take(step.rows)[0] if len(step) else 0)
        except (OSError, KafkaRecordError) as error:
            if not of_one_file(error):
                along.stop(error)
                break
            along.unread()
        else:
            _, _, _, largest, _ = rows.sums
            along.end(largest)
    return along.finish()


def is_local(log: PartitionFiles) -> bool:
    """Whether its segments are local files, which are cheap to read again."""
    return all(isinstance(segment.folder, LocalFolder) for segment in log.segments)


def _has_index(log: PartitionFiles) -> bool:
    suffixes = (offset_index.SUFFIX, txn_index.SUFFIX)
    try:
        return any(segment.sidecar(suffix) for segment in log.segments for suffix in suffixes)
    except OSError:
        return True  # reported where it is compared
