"""A growing partition: where its log ends, where an offset lies, and the batches between two offsets. On the driver.

    00000000000000000000.log  [batch][batch][batch]            a later segment exists: nothing more comes here
    00000000000000000300.log  [batch][batch][ba                the last one: half a batch, or zeros, wait
                                            ^ the log's end: behind the last batch whose frame and checksum fit

The end is looked for in the last segment alone, from where it was found the last time. An offset lies behind the last
batch in front of it, not before the next one: damage between the two then belongs to exactly one micro-batch.
"""

from __future__ import annotations

import binascii
import os
import time
from collections.abc import Iterator
from contextlib import closing
from typing import TYPE_CHECKING, NamedTuple

from . import isolation
from .admission import Step
from .options import Options
from .paths import PartitionPaths, SegmentPath, open_segment
from .planning import File, Hidden, Split
from .selection import LATEST

if TYPE_CHECKING:
    import kafkarec

_LEGACY_CHECKED_FROM, _CHECKED_FROM = 16, 21
# Up to and including the checksum: two batches that begin alike are one.
_HEAD_BYTES = 21
# Behind the last batch of a preallocated file there are zeros; so many are looked through for a batch.
_LOOK_AHEAD = 1 << 20
# A file whose size and times stay is not opened again, once it was looked at so long after these were seen first: file
# systems round times, to seconds at worst.
_CALM_SECONDS = 3.0


class Place(NamedTuple):
    """Byte `position` of a segment, a batch border.

    batch_end      where the offset is in the middle of a batch, which begins at `position`: its end
    front, head    where the batch in front of it begins, and its first bytes: to tell whether they are still there
    """

    path: str
    position: int = 0
    batch_end: int | None = None
    front: int = 0
    head: bytes = b""


class _Row(NamedTuple):
    begin: int
    end: int
    first: int
    next_offset: int
    magic: int
    crc: int


class Tail:
    """One partition, looked at again and again.

    start        the first segment's base offset
    end          the log end offset, of what `look` saw last
    stable_end   the same for read_committed: the last stable offset
    """

    def __init__(self, options: Options) -> None:
        self._options = options
        self._places: dict[int, Place] = {}
        self._walked: dict[int, tuple[str, _Row]] = {}
        self._rewritten: set[int] = set()
        self._aborted: dict[tuple[int, int], int] = {}
        self._seen: tuple[tuple[SegmentPath, ...], int] | None = None
        self._looks: dict[str, tuple[int, ...]] | None = None
        self._looks_since, self._is_calm = 0.0, False
        self._last: tuple[int, Place] | None = None
        self._stable = 0
        self.start = self.end = self.stable_end = 0

    # ---- what is there

    def look(
        self, paths: PartitionPaths, committed_from: int | None = None, committed: bool = False,
        start: int | None = None,
    ) -> None:  # fmt: skip
        """Takes in a new listing. committed_from: no transaction that began before this offset is undecided. start: of
        a new query that reads nothing in front of it; selection.LATEST: or of the log's end."""
        self.paths = paths
        self.start = paths.segments[0].base_offset or 0
        looks = self._looks_of_files()
        if looks is None or looks != self._looks:
            self._looks, self._looks_since, self._is_calm = looks, time.monotonic(), False
        elif self._is_calm:
            self._rewritten.clear()
            return
        self._is_calm = looks is not None and time.monotonic() - self._looks_since > _CALM_SECONDS
        self._check_places()
        self.end, place = self._found_end()
        self._last = (self.end, place)
        self._places[self.end] = place
        self.stable_end = self.end
        if committed:
            self._look_for_transactions(committed_from, start)

    def _looks_of_files(self) -> dict[str, tuple[int, ...]] | None:
        """What the file system tells of the files that `look` would open; None: nothing, they are remote."""
        found: dict[str, tuple[int, ...]] = {}
        for path in (self.paths.segments[-1].path, *(place.path for place in self._places.values())):
            if "://" in path:
                return None
            if path not in found:
                try:
                    told = os.stat(path)
                except OSError:
                    return None
                found[path] = (told.st_dev, told.st_ino, told.st_size, told.st_mtime_ns, told.st_ctime_ns)
        return found

    def keep(self, *offsets: int) -> None:
        """Forgets all places but those of these offsets, and aborted transactions that end in front of all of them."""
        self._places = {offset: self.place(offset) for offset in offsets if self._is_known(offset)}
        self._walked.clear()
        first = min(offsets, default=0)
        self._aborted = {ids: begin for ids, begin in self._aborted.items() if ids[1] >= first}

    def was_rewritten(self, offset: int) -> bool:
        """Whether the last segment had other batches in front of this offset when it was given out."""
        return offset in self._rewritten

    def _check_places(self) -> None:
        """A segment that is not the last one may be compacted or deleted: that is no loss of what was read."""
        self._rewritten.clear()
        last, there = self.paths.segments[-1].path, {each.path for each in self.paths.segments}
        for offset, place in list(self._places.items()):
            if place.path not in there or not self._has_head(place):
                del self._places[offset]
                if place.path == last:
                    self._rewritten.add(offset)

    def _is_known(self, offset: int) -> bool:
        return offset in self._places or offset in self._walked

    def _has_head(self, place: Place) -> bool:
        if not place.head:
            return True
        with self._opened(place.path) as segment:
            return _is_there(segment, place)

    def _opened(self, path: str) -> kafkarec.Segment:
        return open_segment(path, self._options, self.paths.topic, self.paths.partition)

    def _found_end(self) -> tuple[int, Place]:
        for segment in reversed(self.paths.segments):
            known = self._last if self._last and self._last[1].path == segment.path else None
            if known and not self._has_head(known[1]):
                known = self._last = None
            with self._opened(segment.path) as opened:
                begin = known[1].position if known else 0
                end = opened.size
                if known and not segment.followed and not _length(opened.raw(begin, _HEAD_BYTES)):
                    end = min(end, begin + _LOOK_AHEAD)
                rows = list(_rows(_part(opened, segment, begin, end))) if begin < end else []
                for row in reversed(rows):
                    if _is_whole(opened, row):
                        return row.next_offset, _behind(opened, segment.path, row)
            if known:
                return known
        first = self.paths.segments[0]
        return first.base_offset or 0, Place(first.path)

    # ---- where an offset lies

    def place(self, offset: int) -> Place:
        """Where reading for this offset begins; the first segment's begin for one in front of the log."""
        if offset not in self._places:
            self._places[offset] = self._found_place(offset)
        return self._places[offset]

    def _found_place(self, offset: int) -> Place:
        if offset in self._walked:
            path, row = self._walked[offset]
            with self._opened(path) as opened:
                return _behind(opened, path, row)
        inside = [each for each in self.paths.segments if each.base_offset is None or each.base_offset < offset]
        if not inside:
            return Place(self.paths.segments[0].path)
        segment = inside[-1]
        before = [at for at, place in self._places.items() if at < offset and place.path == segment.path]
        known = self._places[max(before)] if before else Place(segment.path)
        with self._opened(segment.path) as opened:
            part = _part(opened, segment, known.position, opened.size)
            near = _behind_all_before(part, offset, _rows(part, start_offset=offset - 1, end_offset=offset + 1))
            return near or _behind_all_before(part, offset, _rows(part)) or known._replace(batch_end=None)

    def steps(self, start: int, end: int) -> Iterator[Step]:
        """The batches from one offset to another; the place behind each is known from then on."""
        begin = self.place(start)
        stop = self.place(self.end)
        for segment, first, last, _ in self._stretches(begin, stop):
            with self._opened(segment.path) as opened:
                for row in _rows(_part(opened, segment, first, min(last, opened.size))):
                    if row.next_offset <= start:
                        continue
                    self._walked[row.next_offset] = segment.path, row
                    yield Step(max(row.first, start), row.next_offset, row.end - row.begin)
                    if row.next_offset >= end:
                        return

    def _stretches(self, begin: Place, stop: Place) -> Iterator[tuple[SegmentPath, int, int, File | None]]:
        """(segment, from byte, to byte, file) of all that lies between two places."""
        names = [each.path for each in self.paths.segments]
        first, last = names.index(begin.path), names.index(stop.path)
        for number in range(first, last + 1):
            segment = self.paths.segments[number]
            end, file = self._size_now(segment, [each for each in (begin, stop) if each.path == segment.path])
            start = begin.position if number == first else 0
            if number == last:
                end = stop.position if stop.batch_end is None else stop.batch_end
            if start < end:
                yield segment, start, end, file

    def _size_now(self, segment: SegmentPath, places: list[Place]) -> tuple[int, File | None]:
        """Of a file in which these places still are."""
        known = [each for each in places if each.head]
        is_plain = segment.size is not None and "://" not in segment.path
        if is_plain and not known:
            told = os.stat(segment.path)
            return told.st_size, File(told.st_ino, told.st_size, segment.followed)
        with self._opened(segment.path) as opened:
            if not all(_is_there(opened, each) for each in known):
                raise FileNotFoundError(f"{segment.path} was rewritten since it was listed")
            descriptor = opened.source.descriptor
            if not is_plain or descriptor is None:
                return opened.size, None
            told = os.fstat(descriptor)
            return told.st_size, File(told.st_ino, told.st_size, segment.followed)

    def splits(self, start: int, end: int) -> list[Split]:
        """One split per segment, exactly the bytes from one offset to the other; offsets only bound them where they
        are in the middle of a batch. FileNotFoundError where a file has moved since `look`."""
        begin, stop = self.place(start), self.place(end)
        if stop.batch_end is None and (begin.path, begin.position) == (stop.path, stop.position):
            return []
        found = [
            Split(
                segment.path, self.paths.topic, self.paths.partition, first, last, segment.followed,
                start_offset=None if begin.batch_end is None else start,
                end_offset=None if stop.batch_end is None else end,
                hidden=self._hidden(start, end), first_offset=max(start, segment.base_offset or 0), file=file,
            )
            for segment, first, last, file in self._stretches(begin, stop)
        ]  # fmt: skip
        untils = [*(each.first_offset for each in found[1:]), end]
        return [split._replace(until_offset=until) for split, until in zip(found, untils, strict=True)]

    # ---- transactions

    def _look_for_transactions(self, decided: int | None, start: int | None) -> None:
        if (self.paths.segments, self.end) != self._seen:
            if self._seen:
                decided = self._stable if self._stable <= self.end else None
            segments = self.paths.segments
            if decided is not None:
                before = [n for n, each in enumerate(segments) if n and (each.base_offset or 0) <= decided]
                segments = segments[before[-1] :] if before else segments
                start = None
            elif start == LATEST:
                start = self.end
            paths = self.paths._replace(segments=segments)
            found = isolation.walk(paths, self._options, start)
            for producer, first, marker in found.aborted:
                known = self._aborted.get((producer, marker), first)
                self._aborted[producer, marker] = min(first, known)
            self._stable = self.end if found.stable_offset is None else found.stable_offset
            self._seen = self.paths.segments, self.end
        self.stable_end = min(self._stable, self.end)

    def _hidden(self, start: int, end: int) -> Hidden | None:
        if not self._seen:
            return None
        spans = sorted((producer, first, marker) for (producer, marker), first in self._aborted.items())
        return Hidden(tuple(each for each in spans if each[1] < end and each[2] >= start), end)


def _is_there(opened: kafkarec.Segment, place: Place) -> bool:
    """Whether the batch in front of a place begins as it did."""
    return place.position <= int(opened.size) and bytes(opened.raw(place.front, _HEAD_BYTES)) == place.head


def _part(opened: kafkarec.Segment, segment: SegmentPath, begin: int, end: int) -> kafkarec.Segment:
    part = opened.between(min(begin, end), end)
    part.followed = segment.followed
    return part


def _rows(part: kafkarec.Segment, **wanted: int) -> Iterator[_Row]:
    """The batches, in order; what a wrapper does not tell of its first offset is what follows on the one before."""
    before = None
    with closing(part.scan_pieces(errors="skip", **wanted)) as tables:
        for table in tables:
            names = ("position", "size_in_bytes", "base_offset", "last_offset", "next_offset", "magic", "crc")
            for begin, size, base, last, following, magic, crc in zip(*map(table.column, names), strict=True):
                unknown = last if before is None else min(before, last)
                yield _Row(begin, begin + size, unknown if base is None else base, following, magic, crc)
                before = following


def _behind_all_before(part: kafkarec.Segment, offset: int, rows: Iterator[_Row]) -> Place | None:
    """Behind the last of these batches that ends at or before an offset; at the one that has it in its middle. None
    where neither is among them."""
    found = None
    for row in rows:
        if row.next_offset > offset:
            if row.first < offset:
                head = part.raw(row.begin, _HEAD_BYTES)
                return Place(part.path, row.begin, row.end, row.begin, head)
            break
        found = row
    return None if found is None else _behind(part, part.path, found)


def _behind(opened: kafkarec.Segment, path: str, row: _Row) -> Place:
    return Place(path, row.end, None, row.begin, opened.raw(row.begin, _HEAD_BYTES))


def _length(head: bytes) -> int:
    """What the length field of a batch says; 0 of zeros, and where the file ends in front of it."""
    return int.from_bytes(head[8:12], "big") if len(head) >= 12 else 0


def _is_whole(opened: kafkarec.Segment, row: _Row) -> bool:
    """Whether the checksum fits: a batch may be half there in a file that has all its bytes already."""
    from crc32c import crc32c  # comes with kafkarec

    data = opened.raw(row.begin, row.end - row.begin)
    if row.magic < 2:
        return binascii.crc32(data[_LEGACY_CHECKED_FROM:]) == row.crc
    return bool(crc32c(data[_CHECKED_FROM:]) == row.crc)
