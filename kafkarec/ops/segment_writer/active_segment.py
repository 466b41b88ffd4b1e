"""The segment that is written to: its file, and its indexes in memory until it is sealed

    NNN.log                            grows by whole batches; on the disk when `sync` returns
    NNN.index .timeindex .txnindex     there when it is sealed, as LogSegment.recover() makes them

While it grows it has none of the three: a reader searches it from its start, and a broker or writer that finds it so
after a crash indexes it anew. Old ones would hide the aborted transactions behind them.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Any, NamedTuple

from kafkarec.sidecars import offset_index, time_index, txn_index
from kafkarec.state.index_builders import SegmentRebuild
from kafkarec.state.rebuild_folder import stem
from kafkarec.support.durable import write_file

from .append_checks import CheckedBatches
from .roll_params import INT_MAX, WriterSettings

INDEXES = (offset_index.SUFFIX, time_index.SUFFIX, txn_index.SUFFIX)
_LOG = ".log"


class SegmentFile(NamedTuple):
    """A segment of a folder that is written; size: bytes of its batches."""

    path: str
    base_offset: int
    size: int

    @property
    def name(self) -> str:
        return os.path.basename(self.path)


def log_name(base: int) -> str:
    return stem(base) + _LOG


def _number(value: int | None) -> int:
    return -1 if value is None else value


class ActiveSegment:
    """Opened for writing, made where it is not there.

    size             bytes of whole batches in it; what lies behind them in the file is cut off
    first_timestamp  max timestamp (ms) of its first batch, None: it has none yet
    now              ms, the clock: a segment without timestamps is as old as it has been open
    """

    def __init__(
        self, folder: str, base: int, maker: SegmentRebuild, settings: WriterSettings, now: int, *,
        size: int = 0, first_timestamp: int | None = None,
    ) -> None:  # fmt: skip
        self.base, self.maker, self.size = base, maker, size
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
    def file(self) -> SegmentFile:
        return SegmentFile(self.path, self.base, self.size)

    def takes(self, row: dict[str, Any], now: int) -> bool:
        """Whether the batch goes in here; otherwise a new segment is due."""
        return self._takes(row, now, self.size, self._first_timestamp, self._settings.entries_left(self.maker.entries))

    def _takes(self, row: dict[str, Any], now: int, size: int, first_timestamp: int | None, entries_left: int) -> bool:
        settings, timestamp = self._settings, max(_number(row["max_timestamp"]), -1)
        first = _number(first_timestamp)
        waited = timestamp - first if first >= 0 else now - self._opened_at
        return (
            size + row["size_in_bytes"] <= settings.segment_bytes
            and not (size and waited > settings.segment_ms)
            and entries_left > 0
            and row["last_offset"] - self.base <= INT_MAX
        )

    def run(self, batches: CheckedBatches, start: int, now: int) -> int:
        """Behind the last batch, from `start` on, that goes in together with the one at `start`, which `takes` took."""
        size, first = self.size, self._first_timestamp
        left = self._settings.entries_left(self.maker.entries)
        for number in range(start, len(batches)):
            row = batches.row(number)
            # each batch may bring an index entry: where they get scarce the next run counts them
            if number > start and not self._takes(row, now, size, first, left - (number - start)):
                return number
            size += row["size_in_bytes"]
            first = _number(row["max_timestamp"]) if first is None else first
        return len(batches)

    def put(self, batches: CheckedBatches) -> None:
        """Writes batches that `Batches.part` cut out for here. OSError: the file was cut back, if that worked."""
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
        self.maker.add(batches.columns, batches.markers)
        if self._first_timestamp is None:
            self._first_timestamp = _number(batches.columns["max_timestamp"][0])
        self.size = at

    def sync(self) -> None:
        """All of it is on the disk. OSError: nothing is known of what is."""
        os.fsync(self._descriptor)

    def seal(self) -> None:
        """Cuts off what is behind the batches, syncs, and puts the indexes beside it. The folder is the caller's."""
        os.ftruncate(self._descriptor, self.size)
        os.fsync(self._descriptor)
        for suffix, data in self.maker.finish().files.items():
            write_file(self._folder, stem(self.base) + suffix, data)

    def unseal(self) -> bool:
        """Removes its old indexes; whether there were any. The folder is the caller's to sync."""
        found = False
        for suffix in INDEXES:
            with suppress(FileNotFoundError):
                os.unlink(os.path.join(self._folder, stem(self.base) + suffix))
                found = True
        return found

    def close(self) -> None:
        """Safe to call twice."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
