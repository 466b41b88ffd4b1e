"""Follows a log while a broker writes to it: `Log.follow`, and `kafkarec cat --follow`.

    good good good | a write in progress, zeros, or damage: for a later poll
                   position

A poll lists names, calls stat, and reads what is behind the last batch; the decoder goes on with what it knew of the
batches before, so batches and damage are those of one reading of the file. The broker may roll (a later segment
appears; the earlier one is read to its end first), delete old segments, and truncate. Every poll compares the last
batch that was read with the file, so it also detects a log that was truncated and has grown again. The log cleaner
replaces segments, all but the last one: the new file has another inode, and the name of the first of those that are
merged into it. Reading goes on at the first batch with the next offset or a later one, whichever file has it.

What waits for a later poll:

    an incomplete batch, preallocated zeros                               until it is complete
    damage                                                                until a good batch is behind it
    damage, a restored batch, a length beyond the file's end, and where   for SETTLED seconds from when it is first
    header fields are restored a batch that does not continue the one     seen: what is written behind it meanwhile
    before it by offset and leader epoch                                  may tell more about it
    read_committed: a batch at or above the last stable offset            until its transaction has ended

In a segment that a later one follows nothing waits but the last of these.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from copy import copy
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from kafkarec._core import PassResult, Source
from kafkarec.format.enums import Isolation
from kafkarec.read import isolation
from kafkarec.read.decode_options import ALL_CHECKS, DecodeRequest, request
from kafkarec.read.passes import Excluded, ReadTo, as_columns, batch_table, read_on, read_pieces, read_until
from kafkarec.read.walk import CHECKSUMS, MARKERS, steps_of, walk_request
from kafkarec.recover.marker_matching import MatchedTransactions
from kafkarec.recover.offset_order import WINDOW
from kafkarec.recover.steps import as_stored
from kafkarec.sources.files import LocalFile
from kafkarec.sources.folders import LocalFolder
from kafkarec.support.command_line import command
from kafkarec.tables.records import BatchTable, RecordColumns

from . import names, opening, ranges, raw_batches
from .first_and_last import last_ranges, last_rows
from .log_folders import PartitionFiles
from .log_reading import IsolationOptions
from .names_by_content import wrong_names
from .ranges import EVERYTHING, RecordRange
from .segment_file import SegmentFile

SETTLED = 2.0  # seconds; also longer than a tick of a file system's clock, for which a changed file may keep its mtime
_REMEMBERED = 4096  # batches
_ALL = 1 << 63  # bytes
_FAR = 4 << 20  # bytes to the file's end: fewer frames are followed before they are read
_FURTHER_BACK = 8
_WAITS, _RAISES, _OPEN = range(3)


class BatchMark(NamedTuple):
    """The position and the fingerprint (see raw_batches) of a batch that was read. name: "" if its file is gone"""

    name: str
    inode: int | None
    position: int
    end: int
    fingerprint: bytes
    next_offset: int


class _Cut(Exception):
    """The log was truncated since the poll compared the last batch."""


class _Stop(NamedTuple):
    """Where reading ends for now, and why; of an open transaction the base offset there."""

    position: int
    why: int
    base_offset: int | None = None


@dataclass
class _Matched:
    """The markers that were read.

    start          the first segment
    name, number   the segment that is read, and how many are before it
    at             how far it is read
    last           the last batch
    """

    start: str
    name: str
    number: int = 0
    at: ReadTo = field(default_factory=ReadTo)
    last: BatchMark | None = None
    match: MatchedTransactions = field(default_factory=MatchedTransactions)


class Follower:
    """Reads what is new in one log since the last poll; see `kafkarec.logs.Readable.followers`."""

    def __init__(
        self,
        log: PartitionFiles,
        decode_request: DecodeRequest,
        record_range: RecordRange,
        *,
        committed: bool,
        on_note: Callable[[str], object],
    ) -> None:
        folder = log.folder
        if not isinstance(folder, LocalFolder) or any(
            one.folder is None or one.folder.path != folder.path for one in log.segments
        ):
            raise ValueError(f"{log.path}: only files of one folder on this machine can be followed")
        self.log, self._folder, self._on_note = log, folder, on_note
        self._only = None if log.is_folder else {one.name for one in log.segments}
        self._owners = {_owner(one.name) for one in log.segments}
        self._raises, self._committed, self._range = not decode_request.skip, committed, record_range
        options = decode_request.options._replace(times=record_range.times)
        if self._raises:  # at the first damage: nothing is restored before that
            options = options._replace(restore=False)
        self._request = decode_request._replace(options=options, skip=True)
        self._header_request = self._request._replace(options=options._replace(times=None)).of_headers(check_crcs=True)
        self._marker_request = walk_request(MARKERS | CHECKSUMS, errors="skip", restore=options.restore)
        restore = all(one.restore for one in log.segments)
        self._make_segment = partial(SegmentFile, restore=restore, prepared=opening.prepared_transactions)
        self._restores = restore and options.restore and options.check_crc == ALL_CHECKS
        self._marks: deque[BatchMark] = deque(maxlen=_REMEMBERED)
        self._last_seen: tuple[object, ...] | None = None  # of the last segment, when all of it was settled
        self._name = ""  # the segment that is read, "" before the first poll
        self._at = ReadTo()
        self._first_end: int | None = None  # where the first batch in the range ends, while it is not read
        self._waits = False  # what is at the position may not be judged yet, although a good batch is behind it
        self._unsettled: tuple[float, int] | None = None  # when the file ended in something to wait for, and its size
        self._unstable: int | None = None  # the base offset of the batch at the position, if its transaction is open
        self._stable_from = ""  # the segment in which the first open transaction may begin
        self._matched: _Matched | None = None

    def poll(self) -> Generator[tuple[SegmentFile, RecordColumns]]:
        """Yields (segment, records) that are new since the last poll, and ends. Each piece has its own batches and
        damage; good batches are behind its damage.

        With errors="raise" it yields everything before the damage, then raises. FileNotFoundError if the folder, or the
        file that is followed alone, was deleted or moved.
        """
        listed = self._listing()
        try:
            yield from self._new_records(listed)
        except (FileNotFoundError, _Cut):
            return  # deleted or cut since it was listed; the next poll continues there

    def _new_records(self, listed: Sequence[str]) -> Iterator[tuple[SegmentFile, RecordColumns]]:
        if not listed:
            return
        if not self._name:  # with the segment that contains the first offset of the range
            self._enter(_first_with(listed, self._range.first_offset))
            self._stable_from = listed[0]
        elif not self._is_unchanged(listed):
            listed = self._listing()  # again: the broker may have rolled, and the cleaner run, since
            if not listed or any(name.endswith(".log.swap") for name in os.listdir(self._folder.path or os.curdir)):
                return  # a segment is being replaced: it has no name now
            if self._is_replaced(listed):
                self._go_on(listed)
            else:
                self._rewind(listed)
        settled, seen = self._settled(listed)
        if settled is None or (seen is not None and seen == self._last_seen):
            return
        left_out = self._excluded(listed, settled) if self._committed else None
        while True:
            later = [name for name in listed if _place(name) > _place(self._name)]
            yield from self._read(settled, left_out, final=bool(later))
            if not later or self._unstable is not None:
                break
            self._enter(later[0])
        self._last_seen = seen

    # ---- the position in the log

    def _listing(self) -> list[str]:
        try:
            with os.scandir(self._folder.path or os.curdir) as entries:
                found = [entry.name for entry in entries if self._is_followed(entry.name) and not entry.is_dir()]
        except FileNotFoundError:
            where = self._folder.path or os.curdir
            raise FileNotFoundError(f"{where} no longer exists: the partition was deleted or moved") from None
        if self._only and not found and self._name:
            raise FileNotFoundError(f"{self._folder.join(self._name)} no longer exists: it was deleted or moved")
        copies = {} if self._only else names.packed_copies(found)
        return sorted((name for name in found if name not in copies), key=_place)

    def _is_followed(self, name: str) -> bool:
        if self._only is not None:
            return name in self._only
        is_segment = names.is_segment(name) and not name.endswith(".checkpoint")
        return is_segment and (not self._owners or _owner(name) in self._owners)

    def _enter(self, name: str, expected: int | None = None) -> None:
        """Starts a segment at the first batch in the range; expected: at or above this offset."""
        record_range = self._range if expected is None else self._range.starting_at(expected)
        first, base = record_range.first_offset, names.offset_in_name(name)
        if record_range.times is None and (first is None or (base is not None and first <= base)):
            self._go_to(name, ReadTo())
            return
        with self._segment(name) as segment:
            start = ranges.start_position(segment, record_range)
            offset = raw_batches.first_offset(segment, start) if start else None
            at, first_end = self._read_up_to(segment, offset, partial(_first_in_range, record_range))
            self._go_to(name, at)
            self._first_end = first_end
            self._remember(segment, BatchTable(at.before))

    def _go_to(self, name: str, at: ReadTo) -> None:
        self._name, self._at, self._first_end = name, at, None
        self._waits, self._unsettled, self._unstable = False, None, None

    def _is_unchanged(self, listed: Sequence[str]) -> bool:
        """Whether the last batch that was read is still at its position."""
        if self._name not in listed:
            return False
        mark = self._marks[-1] if self._marks else None
        if mark is None or mark.name != self._name:
            return os.stat(self._folder.join(self._name)).st_size >= self._at.position
        return self._holds(mark)

    def _is_replaced(self, listed: Sequence[str]) -> bool:
        """Whether the file with the last batch that was read was replaced or deleted, and the log goes on behind it. Of
        a log that was cut the last of the files that are still there no longer has the batch that was read last in it.
        """
        later = next((name for name in listed if _place(name) > _place(self._name)), None)
        if later is None or not self._marks:
            return later is not None and self._name not in listed
        base, newest = names.offset_in_name(later), dict[str, BatchMark]()
        if base is not None and base < self._marks[-1].next_offset:
            return False
        for mark in reversed(self._marks):
            newest.setdefault(mark.name, mark)
        for mark in newest.values():
            if mark.name in listed:
                with self._segment(mark.name) as segment:
                    if _inode(segment) == mark.inode:
                        return _is_at(segment, mark)
        return True

    def _go_on(self, listed: Sequence[str]) -> None:
        """Continues, after a segment was replaced or deleted, at the next offset; notes offsets that were not read."""
        mark = self._marks[-1] if self._marks else None
        expected = mark.next_offset if mark else self._range.first_offset
        self._enter(_first_with(listed, expected), expected)
        if mark is None:
            return
        if self._marks[-1] is mark:
            self._marks[-1] = mark._replace(name="")
        first = names.offset_in_name(listed[0])
        if first is not None and first > mark.next_offset:
            self._note(f"offsets {mark.next_offset} to {first - 1} were deleted before they were read")

    def _holds(self, mark: BatchMark) -> bool:
        try:
            with self._segment(mark.name) as segment:
                return _is_at(segment, mark)
        except FileNotFoundError:
            return False

    def _rewind(self, listed: Sequence[str]) -> None:
        """Continues, after a truncation, after the last batch that still exists."""
        while self._marks and not (self._marks[-1].name in listed and self._holds(self._marks[-1])):
            self._marks.pop()
        if self._marks:
            mark = self._marks[-1]
            with self._segment(mark.name) as segment:
                at, _ = self._read_up_to(segment, mark.next_offset, lambda part, begin: (mark.end, None))
            self._go_to(mark.name, at)
            place = f"offset {mark.next_offset}"
        else:
            self._name = ""  # if it is gone by now, too, the next poll is as the first one
            self._enter(listed[0])
            place = "its beginning"
        self._stable_from = listed[0]
        self._note(f"the log was truncated; continuing from {place}")

    def _note(self, what: str) -> None:
        self._on_note(f"{self._folder.path}: {what}")

    def _segment(self, name: str, later_segment: bool = False) -> SegmentFile:
        return self._make_segment(
            self._folder.join(name),
            name,
            folder=self._folder,
            topic=self.log.topic,
            partition=self.log.partition,
            later_segment=later_segment,
        )

    def _read_up_to(
        self, segment: SegmentFile, offset: int | None, ends: Callable[[PassResult, int], tuple[int | None, int | None]]
    ) -> tuple[ReadTo, int | None]:
        """As if the file had been read from its start to the position that `ends` returns for a part and where that
        begins; with what else it returns. None: not yet.

        offset: of a batch there. The index tells from where on enough batches are before it; None: from the start.
        """
        asked, back, more = segment.named(self._header_request), WINDOW, None
        while True:
            from_there = RecordRange(None if offset is None else (max(offset - back, 0), None))
            at = ReadTo(ranges.start_position(segment, from_there))
            begin = at.position
            with segment.opened() as source:
                for part, after in read_on(asked, source, at):
                    end, more = ends(part, at.position)
                    if end is not None and end <= after.position:
                        _, at = read_until(asked, source, at, end)
                        break
                    at = after
            if not begin or sum(map(len, at.before)) >= WINDOW:
                return at, more
            back *= _FURTHER_BACK

    # ---- what waits for a later poll

    def _settled(self, listed: Sequence[str]) -> tuple[int | None, tuple[object, ...] | None]:
        """Up to which byte of the last segment everything has been there for SETTLED seconds, None: there is nothing to
        read; and what tells whether that is read already, None: the file's clock may not."""
        about, now = os.stat(self._folder.join(listed[-1])), time.time()
        is_last, is_old = self._name == listed[-1], now - about.st_mtime > SETTLED
        settled = _ALL if is_old else 0
        if is_last and self._unsettled is not None and now - self._unsettled[0] >= SETTLED:
            settled = max(settled, self._unsettled[1])
        seen = (listed[-1], about.st_ino, about.st_size, about.st_mtime_ns) if is_old else None
        nothing_new = about.st_size <= self._at.position or (self._waits and settled <= self._at.position)
        return None if is_last and nothing_new else settled, seen

    def _source(self, segment: SegmentFile, begin: int, settled: int) -> Source:
        """The open file without zeros and, if its end is near, the incomplete batch there."""
        file = segment.source
        is_far = file.size - begin > _FAR and not raw_batches.has_zeros_at_end(segment)
        last = None if is_far else raw_batches.last_frame(segment, begin)
        if last is not None and last[1] < settled:  # zeros, or the length of the last batch, may be wrong by now
            is_torn = last[0] < last[1] and not raw_batches.has_valid_checksum(segment, *last)
            last = None if is_torn or not raw_batches.ends_in_zeros(segment, last[1]) else last
        if last is not None and isinstance(file, LocalFile):
            file = copy(file)
            file.size = last[1]
        return Source(file=file)

    def _doubt(self, part: PassResult, at: ReadTo, settled: int) -> int | None:
        """The first position in a part of the last segment that waits; None: nothing does. at: what was read before."""
        doubts = [one.position for one in part.damage if one.position >= settled or one.lost_to is None]
        doubts += [one.position for one in part.restored if one.position >= settled]
        if self._restores and settled < _ALL:
            columns = ("position", "base_offset", "partition_leader_epoch", "next_offset")
            _, *expected = at.border[:3] if at.border else (0, None, None)
            for position, base, epoch, after in zip(*map(batch_table(part).column, columns), strict=True):
                epoch = as_stored(epoch)
                if position >= settled and [base, epoch] != expected:
                    doubts.append(position)
                    break
                expected = [after, epoch]
        return min(doubts, default=None)

    def _excluded(self, listed: Sequence[str], settled: int) -> Excluded:
        """What read_committed leaves out now: the markers are read once, from the segment of the first open transaction
        on; again from a later one when it begins there, and where something is decided by what is behind it."""
        start = self._stable_from if self._stable_from in listed else listed[0]
        matched = self._matched
        if matched is not None and (matched.start != start or matched.name not in listed):
            matched = None
        if matched is None or not (matched.last is None or self._holds(matched.last)):
            matched = self._matched = _Matched(start, start)
        chosen = [name for name in listed if _place(name) >= _place(start)]
        self._match(matched, chosen, settled)
        left_out = isolation.excluded_so_far(matched.match)
        if left_out is None:
            group = [self._segment(name, later_segment=True) for name in chosen[:-1]]
            group.append(self._segment(chosen[-1]).between(0, matched.at.position, has_grown=True))
            left_out = isolation.excluded(group, skip=True, restore=self._request.options.restore)
        stable = left_out.stable_offset
        reached = self._marks[-1].next_offset if self._marks else 0
        self._stable_from = _first_with(listed, reached if stable is None else min(reached, stable))
        return left_out

    def _match(self, matched: _Matched, chosen: Sequence[str], settled: int) -> None:
        """Takes the markers behind those that were read, up to what waits."""
        matched.match.refresh_evidence()
        for name in chosen:
            if _place(name) < _place(matched.name):
                continue
            if name != matched.name:
                matched.name, matched.at, matched.number = name, ReadTo(), matched.number + 1
            with self._segment(name, later_segment=name != chosen[-1]) as segment:
                is_last = name == chosen[-1]
                source = self._source(segment, matched.at.position, settled) if is_last else Source(file=segment.source)
                decode_request = segment.named(self._marker_request)
                for part, after in read_on(decode_request, source, matched.at):
                    doubt = self._doubt(part, matched.at, settled) if is_last else None
                    if doubt is not None:
                        part, after = read_until(decode_request, source, matched.at, doubt)
                    for step in steps_of(segment, matched.number, part):
                        matched.match.take(step)
                    read = list(self._marks_of(segment, BatchTable(part.tables)[-1:]))
                    matched.at, matched.last = after, read[-1] if read else matched.last
                    if doubt is not None:
                        break

    # ---- reading

    def _read(
        self, settled: int, left_out: Excluded | None, *, final: bool
    ) -> Iterator[tuple[SegmentFile, RecordColumns]]:
        """Yields what may be judged of the current segment. final: a later segment exists."""
        stable = None if left_out is None else left_out.stable_offset
        following = self._at.border[1] if self._at.border and not final else None  # the offset after the last batch
        at = following if self._unstable is None else self._unstable
        if stable is not None and at is not None and stable <= at:
            return
        self._waits, self._unstable = False, None
        with self._segment(self._name, final) as segment:
            decode_request = segment.named(self._request if left_out is None else left_out.applied_to(self._request))
            source = Source(file=segment.source) if final else self._source(segment, self._at.position, settled)
            stop = None
            for part, after in self._parts(decode_request, source):
                stop = self._stop(part, None if final else settled, left_out)
                if stop is not None:
                    followed = all(one.lost_to is not None for one in part.damage if one.position == stop.position)
                    self._waits, self._unstable = stop.why == _WAITS and followed, stop.base_offset
                    part, after = read_until(decode_request, source, self._at, stop.position)
                if self._is_cut(segment, left_out):
                    self._waits, self._unstable = False, None
                    raise _Cut
                yield from self._advance(segment, decode_request, source, part, after, left_out)
                if stop is not None:
                    break
            if stop is not None and stop.why == _RAISES:
                for _ in read_pieces(decode_request._replace(skip=False), source, stop.position):
                    pass
            if not final and self._unstable is None:
                self._note_unsettled(segment, settled)

    def _is_cut(self, segment: SegmentFile, left_out: Excluded | None) -> bool:
        """Whether the last batch that was read, or the last one whose markers were, is no longer where it was."""
        mark = self._marks[-1] if self._marks else None
        if mark is not None and mark.name == segment.name and not _is_at(segment, mark):
            return True
        last = None if left_out is None or self._matched is None else self._matched.last
        return last is not None and not self._holds(last)

    def _stop(self, part: PassResult, settled: int | None, left_out: Excluded | None) -> _Stop | None:
        """Where the part ends for this poll; None: it is read whole. settled: None in a segment that a later one
        follows."""
        stops = []
        doubt = None if settled is None else self._doubt(part, self._at, settled)
        if doubt is not None:
            stops.append(_Stop(doubt, _WAITS))
        if self._raises and part.damage:
            stops.append(_Stop(part.damage[0].position, _RAISES))
        if left_out is not None:
            for position, base in zip(*map(batch_table(part).column, ("position", "base_offset")), strict=True):
                if base is not None and left_out.waits(base):
                    stops.append(_Stop(position, _OPEN, base))
                    break
        return min(stops, default=None)

    def _parts(self, decode_request: DecodeRequest, source: Source) -> Iterator[tuple[PassResult, ReadTo]]:
        """As read_on; the first batch in the range is a part of its own, with damage before it."""
        if self._first_end is not None:
            yield read_until(decode_request, source, self._at, self._first_end)
        yield from read_on(decode_request, source, self._at)

    def _advance(
        self,
        segment: SegmentFile,
        decode_request: DecodeRequest,
        source: Source,
        part: PassResult,
        after: ReadTo,
        left_out: Excluded | None,
    ) -> Iterator[tuple[SegmentFile, RecordColumns]]:
        without_tail = PassResult(part.chunks, part.tables, part.damage, 0, part.restored)
        records = as_columns(decode_request, without_tail, left_out)
        if after.position == self._first_end:
            records = records[self._count_below(decode_request, source, after.position) :]
            self._first_end = None
        self._at = after
        self._remember(segment, records.batches)
        if part.damage or len(records.batches):
            yield segment, records

    def _count_below(self, decode_request: DecodeRequest, source: Source, end: int) -> int:
        """How many records before the byte `end` are below the range of offsets."""
        of_offsets = decode_request._replace(layout=request(columns=("offset",)).layout)
        offsets = as_columns(of_offsets, read_until(of_offsets, source, self._at, end)[0]).column("offset")
        return sum(offset < (self._range.first_offset or 0) for offset in offsets)

    def _remember(self, segment: SegmentFile, batches: BatchTable) -> None:
        self._marks.extend(self._marks_of(segment, batches[-_REMEMBERED:]))

    def _marks_of(self, segment: SegmentFile, batches: BatchTable) -> Iterator[BatchMark]:
        inode = _inode(segment)
        for position, size, after in zip(
            *map(batches.column, ("position", "size_in_bytes", "next_offset")), strict=True
        ):
            head = raw_batches.fingerprint(segment, position)
            yield BatchMark(segment.name, inode, position, position + size, head, after)

    def _note_unsettled(self, segment: SegmentFile, settled: int) -> None:
        """Keeps since when what is behind the position is there."""
        if self._at.position >= segment.size:
            self._unsettled = None
        elif self._unsettled is None or self._unsettled[1] <= max(settled, self._at.position):
            self._unsettled = (time.time(), segment.size)


def _first_in_range(record_range: RecordRange, part: PassResult, begin: int) -> tuple[int | None, int | None]:
    """Where the last batch ends before the first one in the range, and where that one ends; of a part without one where
    damage begins that no batch follows. None: nowhere."""
    first, oldest = record_range.first_offset, record_range.start_timestamp
    columns = map(batch_table(part).column, ("position", "size_in_bytes", "last_offset", "max_timestamp"))
    for position, size, last, newest in zip(*columns, strict=True):
        is_late = oldest is None or (newest is not None and newest >= oldest)
        if is_late and (first is None or last >= first):
            return begin, position + size
        begin = position + size
    return begin if any(one.lost_to is None for one in part.damage) else None, None


def _is_at(segment: SegmentFile, mark: BatchMark) -> bool:
    return raw_batches.is_unchanged(segment, mark.position, mark.end, mark.fingerprint)


def _inode(segment: SegmentFile) -> int | None:
    descriptor = segment.source.descriptor
    return None if descriptor is None else os.fstat(descriptor).st_ino


def _place(name: str) -> tuple[int, str]:
    return (names.offset_in_name(name) or 0, name)


def _first_with(listed: Sequence[str], offset: int | None) -> str:
    """The first segment that may have this offset or a later one."""
    return listed[ranges.segments_in_range([names.offset_in_name(name) for name in listed], offset, None)[0]]


def _owner(name: str) -> tuple[str | None, int | None] | None:
    parsed = names.segment(name)
    return None if parsed is None else (parsed.topic, parsed.partition)


def followers(
    opened: opening.Opened,
    decode_request: DecodeRequest,
    record_range: RecordRange,
    isolation_level: Isolation,
    last: int | None,
    on_note: Callable[[str], object],
) -> list[Follower]:
    """See Readable.followers."""
    committed = isolation_level is Isolation.READ_COMMITTED
    found = []
    for log in opening.logs(opened):
        of_log = record_range
        if last is not None:
            isolated = IsolationOptions(isolation_level)
            ((_, of_log),) = last_ranges([log.segments], decode_request, record_range, isolated, max(last, 1))
        if (committed or of_log != EVERYTHING) and (why := wrong_names(log.segments)):
            raise ValueError(f"{log.path}: {why}, and it is followed by the names; {command('verify', [log.path])}")
        found.append(Follower(log, decode_request, of_log, committed=committed, on_note=on_note))
    return found


def follow(
    polled: Sequence[Follower], interval: float, last: int | None
) -> Generator[tuple[SegmentFile, RecordColumns]]:
    """As Readable.follow, each piece with its segment."""
    while True:
        for one in polled:
            with closing(one.poll()) as pieces:
                yield from pieces if last is None else last_rows(pieces, last)
        last = None
        time.sleep(interval)
