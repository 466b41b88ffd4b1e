"""The active segment, to which batches are appended: its file, and its indexes in memory until it is finished

    NNN.log                            whole batches are appended; `sync` calls fsync
    NNN.index .timeindex .txnindex     written when the segment is finished, as by LogSegment.recover()

Until then there are no index files: a reader searches the segment from its start, and after a crash a broker or writer
rebuilds the indexes. A .txnindex that was written earlier would lack the transactions that were aborted later.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import NamedTuple

from kafkarec.format.java_integers import INT_MAX
from kafkarec.recover.steps import as_stored
from kafkarec.sidecars import offset_index, time_index, txn_index
from kafkarec.state.index_builders import SegmentIndexBuilder
from kafkarec.state.producers import ProducerStates
from kafkarec.storage.rebuild_folder import filename_prefix
from kafkarec.support.durable import fsync, write_file

from .append_checks import CheckedBatches
from .writer_settings import WriterSettings

INDEXES = (offset_index.SUFFIX, time_index.SUFFIX, txn_index.SUFFIX)
_LOG = ".log"


class WrittenSegment(NamedTuple):
    """A segment of the folder. size: number of bytes of its batches."""

    path: str
    base_offset: int
    size: int

    @property
    def name(self) -> str:
        return os.path.basename(self.path)


def log_name(base: int) -> str:
    return filename_prefix(base) + _LOG


class ActiveSegment:
    """A segment opened for writing; created if it does not exist.

    size             number of bytes of the whole batches in it, to which the file is truncated
    first_timestamp  max timestamp (ms) of its first batch; None: it has no batch yet
    now              current time (ms), from which the age of a segment without timestamps is computed
    """

    def __init__(
        self,
        folder: str,
        base: int,
        index_builder: SegmentIndexBuilder,
        states: ProducerStates,
        settings: WriterSettings,
        now: int,
        *,
        size: int = 0,
        first_timestamp: int | None = None,
    ) -> None:
        self.base, self.index_builder, self.size, self._states = base, index_builder, size, states
        self._folder, self._settings, self._opened_at = folder, settings, now
        self._first_timestamp = first_timestamp
        self.path = os.path.join(folder, log_name(base))
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        self._descriptor = os.open(self.path, flags, 0o644)
        try:
            os.ftruncate(self._descriptor, size)
            if settings.preallocate:
                os.posix_fallocate(self._descriptor, 0, settings.segment_bytes)
        except BaseException:
            self.close()
            raise

    @property
    def file(self) -> WrittenSegment:
        return WrittenSegment(self.path, self.base, self.size)

    def end_of_run(self, batches: CheckedBatches, start: int, now: int) -> int:
        """The end index of the run of batches from `start` on that can be appended to this segment; `start`: the log
        must be rolled before the first one."""
        settings, size, first = self._settings, self.size, self._first_timestamp
        left = settings.entries_left(self.index_builder.entries)
        for number in range(start, len(batches)):
            header = batches.headers[number]
            timestamp = as_stored(header.max_timestamp)
            age = now - self._opened_at if first is None or first < 0 else max(timestamp, -1) - first
            # This assumes one index entry per batch. If the run ends because of that, the next run begins with the
            # real number of entries.
            if (
                size + header.size_in_bytes > settings.segment_bytes
                or (size and age > settings.segment_ms)
                or left <= number - start
                or header.last_offset - self.base > INT_MAX
            ):
                return number
            size += header.size_in_bytes
            first = timestamp if first is None else first
        return len(batches)

    def append(self, batches: CheckedBatches) -> None:
        """Appends batches from `CheckedBatches.slice`. On OSError the file is truncated to its previous size, if
        possible."""
        view, at = batches.data, self.size
        try:
            while view:
                done = os.pwrite(self._descriptor, view, at)
                at += done
                view = view[done:]
        except OSError:
            with suppress(OSError):
                os.ftruncate(self._descriptor, self.size)
            raise
        self.index_builder.append(batches.index_columns(), batches.appended_to(self._states))
        if self._first_timestamp is None:
            self._first_timestamp = as_stored(batches.headers[0].max_timestamp)
        self.size = at

    def sync(self) -> None:
        """Calls fsync. After an OSError the state of the file on the disk is not known."""
        fsync(self._descriptor, self.path)

    def finish(self) -> None:
        """Truncates the file to its batches, syncs it and writes the indexes. The caller syncs the folder."""
        os.ftruncate(self._descriptor, self.size)
        fsync(self._descriptor, self.path)
        for suffix, data in self.index_builder.finish().files.items():
            write_file(self._folder, filename_prefix(self.base) + suffix, data)

    def remove_old_indexes(self) -> None:
        """Removes index files with the name of this segment; the caller syncs the folder."""
        for suffix in INDEXES:
            with suppress(FileNotFoundError):
                os.unlink(os.path.join(self._folder, filename_prefix(self.base) + suffix))

    def close(self) -> None:
        """Closes the file. May be called twice."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
