"""Reads what is appended to a partition while a broker writes to it (`cat --follow`).

A poll lists names, calls stat, and reads what follows the last batch. Incomplete data is left for a later poll: a batch
that is longer than its file, preallocated zeros, a batch with a bad CRC that no good batch follows. The broker may
roll (a later segment appears; the earlier one is read to its end first), delete old segments, and truncate. Every poll
compares the last batch that was read with the file, so it also detects a log that was truncated and has grown again.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from kafkarec.damage import Damage
from kafkarec.logs import Segment
from kafkarec.read import isolation
from kafkarec.read.decode_options import DecodeRequest
from kafkarec.read.passes import PassResult, as_columns, read_pieces
from kafkarec.sources.folders import LocalFolder
from kafkarec.storage import batch_frames, names
from kafkarec.storage.ranges import RecordRange, start_position
from kafkarec.tables.records import RecordColumns

from .problems import say
from .shared_options import CouldNot

_REMEMBERED = 4096  # batches
_SETTLED = 2.0  # seconds; a changed file may keep its mtime for a tick of the clock


class ReadBatch(NamedTuple):
    """The position and the fingerprint (see storage.batch_frames) of a batch that was read."""

    name: str
    position: int
    end: int
    fingerprint: bytes
    next_offset: int


class LogFollower:
    """Reads new batches of one partition. `only`: names of the files to read; empty: all segments of the folder."""

    def __init__(
        self,
        folder: str,
        topic: str | None,
        partition: int | None,
        read_request: DecodeRequest,
        record_range: RecordRange,
        *,
        committed: bool = False,
        only: Sequence[str] = (),
    ) -> None:
        self._folder, self._only = LocalFolder(folder), tuple(only)
        self._topic, self._partition = topic, partition
        self._request = read_request._replace(
            options=replace(read_request.options, offsets=record_range.offsets, times=record_range.times)
        )
        self._range, self._committed = record_range, committed
        self._marks: deque[ReadBatch] = deque(maxlen=_REMEMBERED)
        self._last_stat: tuple[str, int, int, int] | None = None  # the last segment: name, inode, size, mtime
        self._held_back = False
        self._name = ""  # the segment that is read, "" before the first poll
        self._position = 0
        self._stable_from = ""  # the segment in which the first open transaction may begin

    def poll(self) -> Iterator[tuple[Segment, RecordColumns]]:
        """Yield (segment, records) that are new since the last poll. Their damage has good batches after it."""
        listed = self._listing()
        try:
            yield from self._new_records(listed)
        except FileNotFoundError:
            return  # deleted since it was listed; the next poll continues there

    def _new_records(self, listed: Sequence[str]) -> Iterator[tuple[Segment, RecordColumns]]:
        if not listed:
            return
        if not self._name:
            self._begin(listed)
        elif not self._is_unchanged(listed):
            self._rewind(listed)
        if not self._grown(listed):
            return
        read_request = self._isolated(listed) if self._committed else self._request
        while True:
            later = [name for name in listed if _place(name) > _place(self._name)]
            yield from self._read(read_request, final=bool(later))
            if not later or self._held_back:
                return
            self._name, self._position = later[0], 0

    # ---- the position in the log

    def _listing(self) -> list[str]:
        try:
            found = os.listdir(self._folder.path)
        except FileNotFoundError:
            raise CouldNot(f"{self._folder.path} no longer exists: the partition was deleted or moved") from None
        segments = (
            [name for name in found if name in self._only]
            if self._only
            else [name for name in found if names.is_segment(name) and not name.endswith(".checkpoint")]
        )
        if self._only and not segments and self._name:
            raise CouldNot(f"{self._folder.join(self._name)} no longer exists: it was deleted or moved")
        return sorted(segments, key=_place)

    def _begin(self, listed: Sequence[str]) -> None:
        """Start at the segment that contains the first offset of the range."""
        first = self._range.first_offset
        below = [name for name in listed if first is not None and (names.base_offset(name) or 0) <= first]
        self._name = below[-1] if below else listed[0]
        self._position = start_position(self._segment(self._name), self._range)
        self._stable_from = listed[0]

    def _is_unchanged(self, listed: Sequence[str]) -> bool:
        """Whether the last batch that was read is still at its position; True also if its segment was deleted."""
        if self._name not in listed and any(_place(name) > _place(self._name) for name in listed):
            self._skip_deleted(listed)
            return True
        mark = self._marks[-1] if self._marks else None
        if mark is None or mark.name != self._name:
            return self._name in listed and self._size() >= self._position
        return self._holds(mark)

    def _skip_deleted(self, listed: Sequence[str]) -> None:
        """Continue at the first segment after a deleted one; report offsets that were not read."""
        expected = self._marks[-1].next_offset if self._marks else None
        self._name = next(name for name in listed if _place(name) > _place(self._name))
        self._position = 0
        base = names.base_offset(self._name)
        if expected is not None and base is not None and base > expected:
            say(f"note: {self._folder.path}: offsets {expected} to {base - 1} were deleted before they were read")

    def _holds(self, mark: ReadBatch) -> bool:
        try:
            with self._segment(mark.name) as segment:
                return batch_frames.is_unchanged(segment, mark.position, mark.end, mark.fingerprint)
        except FileNotFoundError:
            return False

    def _rewind(self, listed: Sequence[str]) -> None:
        """Continue, after a truncation, after the last batch that still exists."""
        while self._marks and not (self._marks[-1].name in listed and self._holds(self._marks[-1])):
            self._marks.pop()
        if self._marks:
            self._name, self._position = self._marks[-1].name, self._marks[-1].end
            place = f"offset {self._marks[-1].next_offset}"
        else:
            self._name, self._position = listed[0], 0
            place = "its beginning"
        self._stable_from = listed[0]
        say(f"note: {self._folder.path}: the log was truncated; continuing from {place}")

    def _size(self) -> int:
        return os.stat(self._folder.join(self._name)).st_size

    def _segment(self, name: str) -> Segment:
        path = self._folder.join(name)
        return Segment(path, name, folder=self._folder, topic=self._topic, partition=self._partition)

    # ---- reading

    def _grown(self, listed: Sequence[str]) -> bool:
        """Whether there may be new data since the last poll."""
        about = os.stat(self._folder.join(listed[-1]))
        now = (listed[-1], about.st_ino, about.st_size, about.st_mtime_ns)
        if now == self._last_stat and time.time() - about.st_mtime > _SETTLED:
            return False
        self._last_stat = now
        return self._name != listed[-1] or about.st_size > self._position

    def _isolated(self, listed: Sequence[str]) -> DecodeRequest:
        """Return the request without the records that read_committed excludes now. Read the markers from the segment
        of the first open transaction on."""
        start = self._stable_from if self._stable_from in listed else listed[0]
        group = [self._segment(name) for name in listed if _place(name) >= _place(start)]
        for segment in group[:-1]:
            segment.later_segment = True
        excluded = isolation.excluded(group, skip=True)
        stable = excluded.stable_offset
        bases = [(names.base_offset(name), name) for name in listed]
        reached = self._marks[-1].next_offset if self._marks else 0
        least = reached if stable is None else min(reached, stable)
        self._stable_from = max([(base or 0, name) for base, name in bases if (base or 0) <= least] or [(0, start)])[1]
        return self._request._replace(
            options=replace(self._request.options, aborted=excluded.aborted, stable_offset=stable)
        )

    def _read(self, read_request: DecodeRequest, final: bool) -> Iterator[tuple[Segment, RecordColumns]]:
        """Yield the good batches of the current segment. `final`: a later segment exists, so this one is complete."""
        segment = self._segment(self._name)
        segment.later_segment = final
        self._held_back = False
        held: list[Damage] = []
        with segment.opened() as source:
            stop = None if final else batch_frames.preallocated_from(segment, self._position)
            if stop == self._position:
                return
            end = source.size if stop is None else stop
            for part in read_pieces(segment.named(read_request), source, self._position, stop):
                reported, held = self._settled(part, held, read_request.options.stable_offset)
                yield segment, as_columns(read_request, part._replace(damage=reported))
                end -= part.remaining
                if self._held_back:
                    break
            self._take_fingerprints(segment)
        if self._held_back:
            return
        if held and final:
            yield segment, as_columns(read_request, PassResult([], [], held))
        self._position = held[0].position if held and not final else end

    def _settled(self, part: PassResult, held: list[Damage], stable: int | None) -> tuple[list[Damage], list[Damage]]:
        """Return (damage that good batches follow, damage that none follows yet)."""
        last = -1
        table = as_columns(self._request, part).batches
        columns = map(table.column, ("position", "size_in_bytes", "base_offset", "next_offset"))
        for position, size, base, after in zip(*columns, strict=True):
            if stable is not None and base is not None and base >= stable:
                self._position, self._held_back = position, True  # to be read when its transaction has ended
                break
            self._marks.append(ReadBatch(self._name, position, position + size, b"", after))
            last = position
        damage = [*held, *part.damage]
        return [one for one in damage if one.position < last], [one for one in damage if one.position > last]

    def _take_fingerprints(self, segment: Segment) -> None:
        for number in range(len(self._marks) - 1, -1, -1):
            mark = self._marks[number]
            if mark.fingerprint:
                return
            self._marks[number] = mark._replace(fingerprint=batch_frames.fingerprint(segment, mark.position))


def _place(name: str) -> tuple[int, str]:
    return (names.base_offset(name) or 0, name)
