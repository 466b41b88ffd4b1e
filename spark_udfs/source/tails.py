"""A growing partition: the end of its log, the position of an offset, the batches between two offsets. On the driver.

    00000000000000000000.log  [batch][batch][batch]            a later segment exists: this one no longer grows
    00000000000000000300.log  [batch][batch][ba                the last one: half a batch or zeros are not read yet
                                            ^ the log's end: after the last batch whose frame and checksum are right

The end is searched in the last segment only, from its last known position on. The position of an offset is the end of
the batch before it, not the start of the next one, so damage between the two belongs to one micro-batch only.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import closing
from typing import TYPE_CHECKING, Any, NamedTuple

from . import isolation
from .admission import PendingBatch
from .options import SourceOptions
from .paths import PartitionPaths, SegmentPath, open_segment, shown
from .planning import PlannedFile, Split, Uncommitted
from .selection import LATEST

if TYPE_CHECKING:
    import kafkarec

# In a preallocated file zeros follow the last batch; the next batch is searched in this many bytes of them.
_ZEROS_SEARCHED = 1 << 20
# A file is not opened again while its size and times stay the same, once they have been so for this long: file systems
# round times, to seconds at worst.
_SETTLED_SECONDS = 3.0


class LogPosition(NamedTuple):
    """A border between batches in a segment, at byte `position`.

    batch_end                 end of the batch that begins at `position`, if the offset is in the middle of that batch
    head_position, head       position and fingerprint of the batch before the border, to detect a rewritten file
    """

    path: str
    position: int = 0
    batch_end: int | None = None
    head_position: int = 0
    head: bytes = b""


class _BatchRow(NamedTuple):
    begin: int
    end: int
    first: int
    next_offset: int


class Tail:
    """One partition that is followed while it grows; `update` reads what is new.

    start        the first segment's base offset
    end          the log end offset, as of the last update
    stable_end   the end for read_committed: the last stable offset
    """

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._positions: dict[int, LogPosition] = {}
        self._walked: dict[int, tuple[str, _BatchRow]] = {}
        self._rewritten: set[int] = set()
        self._aborted: dict[tuple[int, int], int] = {}
        self._walked_to: tuple[tuple[SegmentPath, ...], int] | None = None
        self._stats: dict[str, tuple[int, ...]] | None = None
        self._stats_since, self._is_settled = 0.0, False
        self._last: tuple[int, LogPosition] | None = None
        self._stable = 0
        self._paths_before: PartitionPaths | None = None
        self._folders: frozenset[str] = frozenset()
        self._late: list[SegmentPath] = []
        self.start = self.end = self.stable_end = 0

    # ---- the log's end

    def update(
        self,
        paths: PartitionPaths,
        committed_from: int | None = None,
        committed: bool = False,
        start: int | None = None,
    ) -> None:
        """Updates from a new listing.

        committed_from: every transaction that began before this offset has ended
        committed: also update `stable_end`, for read_committed
        start: a new query reads nothing before this offset; selection.LATEST: nothing before the log's end
        """
        self._collect_late_folders(paths)
        self.paths = paths
        self.start = paths.segments[0].base_offset or 0
        stats = self._file_stats()
        if stats is None or stats != self._stats:
            self._stats, self._stats_since, self._is_settled = stats, time.monotonic(), False
        elif self._is_settled:
            self._rewritten.clear()
            return
        self._is_settled = stats is not None and time.monotonic() - self._stats_since > _SETTLED_SECONDS
        self._forget_lost_positions()
        self.end, border = self._find_end()
        self._last = (self.end, border)
        self._positions[self.end] = border
        self.stable_end = self.end
        if committed:
            self._update_transactions(committed_from, start)

    def late_segments(self, offset: int) -> list[str]:
        """The files of folders that have appeared since the last call, with offsets below this one."""
        late, self._late = self._late, []
        return [each.path for each in late if (each.base_offset or 0) < offset]

    def _collect_late_folders(self, paths: PartitionPaths) -> None:
        """A folder of an archive may appear after the following one. A broker adds segments at the end only, to the
        folder that exists, and the log cleaner replaces some of those."""
        if paths is self._paths_before:
            return
        self._paths_before = paths
        folders = frozenset(map(os.path.dirname, (each.path for each in paths.segments)))
        added = folders - self._folders if self._folders else frozenset()
        if added:
            self._late += [each for each in paths.segments if each.size != 0 and os.path.dirname(each.path) in added]
        self._folders = folders

    def _file_stats(self) -> dict[str, tuple[int, ...]] | None:
        """Device, inode, size and times of the files that `update` would open; None where one is remote or missing."""
        stats: dict[str, tuple[int, ...]] = {}
        for path in (self.paths.segments[-1].path, *(border.path for border in self._positions.values())):
            if "://" in path:
                return None
            if path not in stats:
                try:
                    status = os.stat(path)
                except OSError:
                    return None
                stats[path] = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
        return stats

    def keep(self, *offsets: int) -> None:
        """Forgets all positions but those of these offsets, and aborted transactions that end before all of them."""
        self._positions = {offset: self.position_of(offset) for offset in offsets if self._is_known(offset)}
        self._walked.clear()
        first = min(offsets, default=0)
        self._aborted = {ids: begin for ids, begin in self._aborted.items() if ids[1] >= first}

    def was_rewritten(self, offset: int) -> bool:
        """Whether the last segment had other batches before this offset when its position was determined."""
        return offset in self._rewritten

    def _forget_lost_positions(self) -> None:
        """Forgets positions in files that are gone or rewritten, and remembers those in the last segment: others may be
        compacted or deleted without a loss of data."""
        self._rewritten.clear()
        last, existing = self.paths.segments[-1].path, {each.path for each in self.paths.segments}
        for offset, border in list(self._positions.items()):
            if border.path not in existing or not self._is_position_unchanged(border):
                del self._positions[offset]
                if border.path == last:
                    self._rewritten.add(offset)

    def _is_known(self, offset: int) -> bool:
        return offset in self._positions or offset in self._walked

    def _is_position_unchanged(self, border: LogPosition) -> bool:
        if not border.head:
            return True
        with self._opened(border.path) as segment:
            return _is_unchanged(segment, border)

    def _opened(self, path: str) -> kafkarec.Segment:
        return open_segment(path, self._options, self.paths.topic, self.paths.partition)

    def _find_end(self) -> tuple[int, LogPosition]:
        from kafkarec import distributed

        for segment in reversed(self.paths.segments):
            known = self._last if self._last and self._last[1].path == segment.path else None
            if known and not self._is_position_unchanged(known[1]):
                known = self._last = None
            with self._opened(segment.path) as opened:
                begin = known[1].position if known else 0
                end = opened.size
                if known and not segment.later_segment and _incomplete(opened, begin) is None:
                    end = min(end, begin + _ZEROS_SEARCHED)
                rows = list(_batch_rows(_open_range(opened, segment, begin, end))) if begin < end else []
                for row in reversed(rows):
                    if distributed.has_valid_checksum(opened, row.begin, row.end):
                        return row.next_offset, _position_after(opened, segment.path, row)
            if known:
                return known
        first = self.paths.segments[0]
        return first.base_offset or 0, LogPosition(first.path)

    def unread_end(self) -> tuple[str, int, int] | None:
        """(path, position, length) of the bytes after the log's end, as of the last update; None: there are none,
        preallocated zeros, or the file is gone."""
        last = self.paths.segments[-1].path
        border = self._last[1] if self._last else LogPosition(last)
        position = border.position if border.path == last else 0
        try:
            with self._opened(last) as opened:
                incomplete = _incomplete(opened, position)
        except FileNotFoundError:
            return None
        return None if incomplete is None else (shown(last), position, incomplete.length)

    # ---- positions of offsets

    def position_of(self, offset: int) -> LogPosition:
        """The position from which this offset is read; the first segment's start for an offset before the log."""
        if offset not in self._positions:
            self._positions[offset] = self._find_position(offset)
        return self._positions[offset]

    def _find_position(self, offset: int) -> LogPosition:
        if offset in self._walked:
            path, row = self._walked[offset]
            with self._opened(path) as opened:
                return _position_after(opened, path, row)
        inside = [each for each in self.paths.segments if each.base_offset is None or each.base_offset < offset]
        if not inside:
            return LogPosition(self.paths.segments[0].path)
        segment = inside[-1]
        before = [at for at, border in self._positions.items() if at < offset and border.path == segment.path]
        known = self._positions[max(before)] if before else LogPosition(segment.path)
        with self._opened(segment.path) as opened:
            part = _open_range(opened, segment, known.position, opened.size)
            near = _position_after_last(part, offset, _batch_rows(part, start_offset=offset - 1, end_offset=offset + 1))
            return near or _position_after_last(part, offset, _batch_rows(part)) or known._replace(batch_end=None)

    def pending_batches(self, start: int, end: int) -> Iterator[PendingBatch]:
        """Yields the batches from one offset to another; remembers the position after each."""
        begin = self.position_of(start)
        stop = self.position_of(self.end)
        for segment, first, last, _ in self._byte_ranges(begin, stop):
            with self._opened(segment.path) as opened:
                for row in _batch_rows(_open_range(opened, segment, first, min(last, opened.size))):
                    if row.next_offset <= start:
                        continue
                    self._walked[row.next_offset] = segment.path, row
                    yield PendingBatch(max(row.first, start), row.next_offset, row.end - row.begin)
                    if row.next_offset >= end:
                        return

    def _byte_ranges(
        self, begin: LogPosition, stop: LogPosition
    ) -> Iterator[tuple[SegmentPath, int, int, PlannedFile | None]]:
        """(segment, first byte, end, file) of the segments between two positions."""
        names = [each.path for each in self.paths.segments]
        first, last = names.index(begin.path), names.index(stop.path)
        for number in range(first, last + 1):
            segment = self.paths.segments[number]
            end, file = self._current_size(segment, [each for each in (begin, stop) if each.path == segment.path])
            start = begin.position if number == first else 0
            if number == last:
                end = stop.position if stop.batch_end is None else stop.batch_end
            if start < end:
                yield segment, start, end, file

    def _current_size(self, segment: SegmentPath, positions: list[LogPosition]) -> tuple[int, PlannedFile | None]:
        """Size and identity of a segment's file; FileNotFoundError if a position in it is no longer valid."""
        known = [each for each in positions if each.head]
        is_plain = segment.size is not None and "://" not in segment.path
        if is_plain and not known:
            status = os.stat(segment.path)
            return status.st_size, PlannedFile(status.st_ino, status.st_size, segment.later_segment)
        with self._opened(segment.path) as opened:
            if not all(_is_unchanged(opened, each) for each in known):
                raise FileNotFoundError(f"{segment.path} was rewritten since it was listed")
            descriptor = opened.source.descriptor
            if not is_plain or descriptor is None:
                return opened.size, None
            status = os.fstat(descriptor)
            return status.st_size, PlannedFile(status.st_ino, status.st_size, segment.later_segment)

    def splits(self, start: int, end: int) -> list[Split]:
        """One split per segment: exactly the bytes between two offsets. A split has offset bounds only where an
        offset is in the middle of a batch. FileNotFoundError if a file was renamed or removed since `update`."""
        begin, stop = self.position_of(start), self.position_of(end)
        if stop.batch_end is None and (begin.path, begin.position) == (stop.path, stop.position):
            return []
        splits = [
            Split(
                segment.path,
                self.paths.topic,
                self.paths.partition,
                first,
                last,
                segment.later_segment,
                start_offset=None if begin.batch_end is None else start,
                end_offset=None if stop.batch_end is None else end,
                uncommitted=self._uncommitted(start, end),
                first_offset=max(start, segment.base_offset or 0),
                file=file,
                keys=segment.keys,
                followed_by=segment.followed_by,
            )
            for segment, first, last, file in self._byte_ranges(begin, stop)
        ]
        untils = [*(each.first_offset for each in splits[1:]), end]
        return [split._replace(until_offset=until) for split, until in zip(splits, untils, strict=True)]

    # ---- transactions

    def _update_transactions(self, committed_from: int | None, start: int | None) -> None:
        if (self.paths.segments, self.end) != self._walked_to:
            if self._walked_to:
                committed_from = self._stable if self._stable <= self.end else None
            segments = self.paths.segments
            if committed_from is not None:
                before = [n for n, each in enumerate(segments) if n and (each.base_offset or 0) <= committed_from]
                segments = segments[before[-1] :] if before else segments
                start = None
            elif start == LATEST:
                start = self.end
            paths = self.paths._replace(segments=segments)
            transactions = isolation.read_transactions(paths, self._options, start)
            for producer, first, marker in transactions.aborted:
                known = self._aborted.get((producer, marker), first)
                self._aborted[producer, marker] = min(first, known)
            self._stable = self.end if transactions.stable_offset is None else transactions.stable_offset
            self._walked_to = self.paths.segments, self.end
        self.stable_end = min(self._stable, self.end)

    def _uncommitted(self, start: int, end: int) -> Uncommitted | None:
        if not self._walked_to:
            return None
        spans = sorted((producer, first, marker) for (producer, marker), first in self._aborted.items())
        return Uncommitted(tuple(each for each in spans if each[1] < end and each[2] >= start), end)


def _incomplete(opened: kafkarec.Segment, position: int) -> kafkarec.Damage | None:
    """The incomplete batch from a position to the file's end; None: there is nothing, or zeros (preallocated)."""
    from kafkarec import distributed

    return distributed.incomplete_end(opened, position, max(0, opened.size - position), None)


def _is_unchanged(opened: kafkarec.Segment, border: LogPosition) -> bool:
    """Whether the batch before a position is still the same one."""
    from kafkarec import distributed

    return distributed.is_unchanged(opened, border.head_position, border.position, border.head)


def _open_range(opened: kafkarec.Segment, segment: SegmentPath, begin: int, end: int) -> kafkarec.Segment:
    return opened.between(min(begin, end), end).copy(later_segment=segment.later_segment)


def _batch_rows(part: kafkarec.Segment, **wanted: Any) -> Iterator[_BatchRow]:
    """The batches, in order. A wrapper message has no first offset; the next offset of the batch before it is used."""
    before = None
    with closing(part.scan_pieces(errors="skip", **wanted)) as tables:
        for table in tables:
            names = ("position", "size_in_bytes", "base_offset", "last_offset", "next_offset")
            for begin, size, base, last, following in zip(*map(table.column, names), strict=True):
                unknown = last if before is None else min(before, last)
                yield _BatchRow(begin, begin + size, unknown if base is None else base, following)
                before = following


def _position_after_last(part: kafkarec.Segment, offset: int, rows: Iterator[_BatchRow]) -> LogPosition | None:
    """The position after the last of these batches that ends at or before an offset, or of the batch that has the
    offset in its middle; None if there is neither."""
    last = None
    for row in rows:
        if row.next_offset > offset:
            if row.first < offset:
                return _position_after(part, part.path, row)._replace(position=row.begin, batch_end=row.end)
            break
        last = row
    return None if last is None else _position_after(part, part.path, last)


def _position_after(opened: kafkarec.Segment, path: str, row: _BatchRow) -> LogPosition:
    from kafkarec import distributed

    return LogPosition(path, row.end, None, row.begin, distributed.fingerprint(opened, row.begin))
