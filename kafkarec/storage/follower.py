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
    read_committed: a batch behind the markers that were read             until these are: they wait, too

In a segment that a later one follows nothing waits but the last two of these. With errors="raise" nothing is restored,
but markers are matched by the right offsets: read_committed raises at a batch that has another one.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from copy import copy
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from kafkarec._core import PassResult, Source
from kafkarec.errors import InvalidRecordError, KafkaRecordError
from kafkarec.format.layout import CRC_AT
from kafkarec.read import isolation
from kafkarec.read.decode_options import ALL_CHECKS, DecodeRequest, request
from kafkarec.read.passes import (
    Excluded,
    ReadPosition,
    WrongOffset,
    as_columns,
    read_chunks,
    read_chunks_from,
    read_to_position,
)
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
from .log_reading import Selection
from .names_by_content import wrong_names
from .ranges import EVERYTHING, RecordRange
from .segment_file import SegmentFile

SETTLED = 2.0  # seconds; also longer than a tick of a file system's clock, for which a changed file may keep its mtime
_REMEMBERED = 4096  # batches
_ALL = 1 << 63  # bytes; as a position: nowhere
_FAR = 4 << 20  # bytes to the file's end: fewer frames are followed before they are read
_FURTHER_BACK = 8

_Piece = tuple[SegmentFile, RecordColumns]


class BatchMark(NamedTuple):
    """The position and the fingerprint (see raw_batches) of a batch that was read. name: "" if its file is gone"""

    name: str
    inode: int | None
    position: int
    end: int
    fingerprint: bytes
    next_offset: int


class _LogTruncated(Exception):
    """The log was truncated since the poll compared the last batch."""


@dataclass
class _Reading:
    """The segment that is read, and how far.

    name        "" before the first poll
    in_range    whether a batch in the range was read; before, and in the first one, records may be below it
    size_seen   (time, size): when the file had which size, larger than what may be judged
    judged      what stat said of the last segment when all that may be judged was; None: it may not tell of a change
    """

    name: str = ""
    at: ReadPosition = field(default_factory=ReadPosition)
    in_range: bool = True
    size_seen: tuple[float, int] = (0, 0)
    judged: tuple[object, ...] | None = None


@dataclass
class _Markers:
    """The markers that were read: from the segment `start` on, in `name` up to `at`.

    needed_from   the segment in which the first open transaction may begin
    match         with errors="raise" it ends before a marker that cannot be read, which is `unreadable`
    last          the last batch before `at`
    left_out      what read_committed leaves out by them
    """

    start: str
    name: str
    needed_from: str
    match: MatchedTransactions
    unreadable: KafkaRecordError | None = None
    at: ReadPosition = field(default_factory=ReadPosition)
    last: BatchMark | None = None
    left_out: Excluded = field(default_factory=partial(Excluded, (), None, None))


class Follower:
    """Reads what is new in one log since the last poll; see `kafkarec.logs.Readable.followers`."""

    def __init__(
        self,
        log: PartitionFiles,
        chosen: Selection,
        on_note: Callable[[str], object],
    ) -> None:
        folder = log.folder
        if not isinstance(folder, LocalFolder) or any(
            one.folder is None or one.folder.path != folder.path for one in log.segments
        ):
            raise ValueError(f"{log.path}: only files of one folder on this machine can be followed")
        self.log, self._folder, self._on_note = log, folder, on_note
        named = {one.name for one in log.segments}
        owners = {_topic_partition(name) for name in named}
        self._is_followed: Callable[[str], object] = named.__contains__
        if log.is_folder:  # which may have no segment yet, and then gets any
            self._is_followed = lambda name: (
                names.is_segment(name)
                and not name.endswith(".checkpoint")
                and (not owners or _topic_partition(name) in owners)
            )
        asked, self._range, self._committed = chosen.request, chosen.record_range, chosen.is_committed
        self._raises = not asked.skip
        # with errors="raise" it ends at the first damage: nothing is restored before that
        restore = asked.options.restore and all(one.restore for one in log.segments)
        within = RecordRange(None, None, *self._range[2:])
        self._request = asked._replace(skip=True).with_options(within=within, restore=restore and asked.skip)
        # but by markers with the right offsets, as `read` matches them
        self._markers_request = walk_request(MARKERS | CHECKSUMS, errors="skip", restore=restore)
        self._reading = _Reading()
        self._marks: deque[BatchMark] = deque(maxlen=_REMEMBERED)  # of the last batches that were read
        self._markers: _Markers | None = None

    def poll(self) -> Generator[_Piece]:
        """Yields (segment, records) that are new since the last poll, and ends. Each piece has its own batches and
        damage; good batches are behind its damage.

        With errors="raise" it yields everything before the damage, then raises. FileNotFoundError if the folder, or the
        file that is followed alone, was deleted or moved.
        """
        listed = self._listing()
        try:
            yield from self._new_records(listed)
        except (FileNotFoundError, _LogTruncated):
            return  # deleted or cut since it was listed; the next poll continues there

    def _new_records(self, listed: Sequence[str]) -> Iterator[_Piece]:
        if not listed:
            return
        if not self._reading.name:
            self._start_segment(_first_segment_with(listed, self._range.first_offset))
        elif not self._is_unchanged(listed):
            listed = self._listing()  # again: the broker may have rolled, and the cleaner run, since
            if not listed or any(name.endswith(".log.swap") for name in os.listdir(self._folder.path or os.curdir)):
                return  # a segment is being replaced: it has no name now
            if self._is_replaced(listed):
                self._continue_after_replacement(listed)
            else:
                self._rewind(listed)
        about, now, reading = os.stat(self._folder.join(listed[-1])), time.time(), self._reading
        judged = (listed[-1], about.st_ino, about.st_size, about.st_mtime_ns)
        settled = 0  # up to which byte of the last segment everything has been there for SETTLED seconds
        if now - about.st_mtime > SETTLED:
            if judged == reading.judged:
                return
            settled = _ALL
        elif reading.name == listed[-1] and now - reading.size_seen[0] >= SETTLED:
            settled = reading.size_seen[1]
        if reading.name == listed[-1] and about.st_size <= reading.at.position:
            return
        known = self._markers_of(listed, settled) if self._committed else None
        while True:
            later = [name for name in listed if _sort_key(name) > _sort_key(self._reading.name)]
            is_read = yield from self._read_current_segment(None if later else settled, known)
            if not (later and is_read):
                break
            self._start_segment(later[0])
        if known is not None and known.unreadable is not None:
            raise known.unreadable
        self._reading.judged = judged if settled == _ALL else None

    # ---- the position in the log

    def _listing(self) -> list[str]:
        try:
            with os.scandir(self._folder.path or os.curdir) as entries:
                found = [entry.name for entry in entries if self._is_followed(entry.name) and not entry.is_dir()]
        except FileNotFoundError:
            where = self._folder.path or os.curdir
            raise FileNotFoundError(f"{where} no longer exists: the partition was deleted or moved") from None
        if not (self.log.is_folder or found) and self._reading.name:
            where = self._folder.join(self._reading.name)
            raise FileNotFoundError(f"{where} no longer exists: it was deleted or moved")
        copies = names.packed_copies(found) if self.log.is_folder else {}
        return sorted((name for name in found if name not in copies), key=_sort_key)

    def _start_segment(self, name: str, expected: int | None = None) -> None:
        """Starts a segment at the first batch in the range; expected: at or above this offset."""
        record_range = self._range if expected is None else self._range._replace(first_offset=expected)
        first, base = record_range.first_offset, names.offset_in_name(name)
        if record_range[2:] == EVERYTHING[2:] and (first is None or (base is not None and first <= base)):
            self._reading = _Reading(name)
            return
        with self._segment_named(name) as segment:
            start = ranges.start_position(segment, record_range)
            offset = raw_batches.first_offset(segment, start) if start else None
            at = self._read_up_to(segment, offset, partial(_end_before_range, record_range))
            self._marks.extend(_marks_of(segment, BatchTable(PassResult([], [*at.before], []))))
            self._reading = _Reading(name, at, in_range=first is None)

    @property
    def _last_mark(self) -> BatchMark | None:
        return self._marks[-1] if self._marks else None

    def _is_unchanged(self, listed: Sequence[str]) -> bool:
        """Whether the last batch that was read is still at its position."""
        reading, mark = self._reading, self._last_mark
        if reading.name not in listed:
            return False
        if mark is None or mark.name != reading.name:
            return os.stat(self._folder.join(reading.name)).st_size >= reading.at.position
        return self._log_has(mark)

    def _is_replaced(self, listed: Sequence[str]) -> bool:
        """Whether the file with the last batch that was read was replaced or deleted, and the log goes on behind it. Of
        a log that was cut the last of the files that are still there no longer has the batch that was read last in it.
        """
        name, mark = self._reading.name, self._last_mark
        later = next((one for one in listed if _sort_key(one) > _sort_key(name)), None)
        if later is None or mark is None:
            return later is not None and name not in listed
        base, newest = names.offset_in_name(later), dict[str, BatchMark]()
        if base is not None and base < mark.next_offset:
            return False
        for mark in reversed(self._marks):
            newest.setdefault(mark.name, mark)
        for mark in newest.values():
            if mark.name in listed:
                with self._segment_named(mark.name) as segment:
                    if _inode(segment) == mark.inode:
                        return _segment_has(segment, mark)
        return True

    def _continue_after_replacement(self, listed: Sequence[str]) -> None:
        """Continues, after a segment was replaced or deleted, at the next offset; notes offsets that were not read."""
        mark = self._last_mark
        expected = mark.next_offset if mark else self._range.first_offset
        self._start_segment(_first_segment_with(listed, expected), expected)
        if mark is None:
            return
        if self._last_mark is mark:
            self._marks[-1] = mark._replace(name="")
        first = names.offset_in_name(listed[0])
        if first is not None and first > mark.next_offset:
            self._send_note(f"offsets {mark.next_offset} to {first - 1} were deleted before they were read")

    def _log_has(self, mark: BatchMark | None) -> bool:
        """Whether a batch is still at its position; None: there was no batch."""
        try:
            if mark is not None:
                with self._segment_named(mark.name) as segment:
                    return _segment_has(segment, mark)
        except FileNotFoundError:
            return False
        return True

    def _rewind(self, listed: Sequence[str]) -> None:
        """Continues, after a truncation, after the last batch that still exists."""
        while (mark := self._last_mark) and not (mark.name in listed and self._log_has(mark)):
            self._marks.pop()
        self._markers = None
        if mark:
            end = mark.end
            with self._segment_named(mark.name) as segment:
                at = self._read_up_to(segment, mark.next_offset, lambda part, begin: end)
            self._reading = _Reading(mark.name, at)
            place = f"offset {mark.next_offset}"
        else:
            self._reading = _Reading()  # if it is gone by now, too, the next poll is as the first one
            self._start_segment(listed[0])
            place = "its beginning"
        self._send_note(f"the log was truncated; continuing from {place}")

    def _send_note(self, what: str) -> None:
        self._on_note(f"{self._folder.path}: {what}")

    def _segment_named(self, name: str, later_segment: bool = False) -> SegmentFile:
        return SegmentFile(
            self._folder.join(name),
            name,
            folder=self._folder,
            topic=self.log.topic,
            partition=self.log.partition,
            later_segment=later_segment,
            prepared=opening.prepared_transactions,
        )

    def _read_up_to(
        self, segment: SegmentFile, offset: int | None, end_in: Callable[[PassResult, int], int]
    ) -> ReadPosition:
        """As if the file had been read from its start to the position that `end_in` returns for a part and where that
        begins.

        offset: of a batch there. The index tells from where on enough batches are before it; None: from the start.
        """
        headers = walk_request(CHECKSUMS, errors="skip", restore=self._request.options.restore)
        asked, back = segment.named_request(headers), WINDOW
        while True:
            from_there = RecordRange(None if offset is None else max(offset - back, 0))
            begin = ranges.start_position(segment, from_there)
            at = ReadPosition(begin)
            with segment.opened() as source:
                for part, after in read_chunks_from(asked, source, at):
                    if (end := end_in(part, at.position)) <= after.position:
                        _, at = read_to_position(asked, source, at, end)
                        break
                    at = after
            if not begin or sum(map(len, at.before)) >= WINDOW:
                return at
            back *= _FURTHER_BACK

    # ---- what waits for a later poll. settled: see _new_records; None: of a segment that a later one follows

    def _source_without_tail(self, segment: SegmentFile, begin: int, settled: int | None) -> Source:
        """The open file; of the last segment without zeros and, if its end is near, the incomplete batch there."""
        file, last = segment.source, None
        if settled is None:
            return Source(file=file)
        if file.size - begin <= _FAR or raw_batches.has_zeros_at_end(segment):
            last = raw_batches.last_frame(segment, begin)
        if last is not None and last[1] < settled:  # zeros, or the length of the last batch, may be wrong by now
            is_torn = last[0] < last[1] and not raw_batches.has_valid_checksum(segment, *last)
            last = None if is_torn or not raw_batches.ends_in_zeros(segment, last[1]) else last
        if last is not None and isinstance(file, LocalFile):
            file = copy(file)
            file.size = last[1]
        return Source(file=file)

    def _first_doubtful_position(
        self, decode_request: DecodeRequest, part: PassResult, at: ReadPosition, settled: int | None
    ) -> int:
        """The first position in a part that waits. at: what was read before"""
        if settled is None:
            return _ALL
        doubts = [one.position for one in part.damage if one.position >= settled or one.lost_to is None]
        doubts += [one.position for one in part.restored if one.position >= settled]
        options = decode_request.options
        if options.restore and options.check_crc == ALL_CHECKS and settled < _ALL:
            # with errors="raise" only the markers are read so, and by their offsets alone
            first = names.offset_in_name(self._markers.name) if self._raises and self._markers else None
            _, next_offset, epoch = at.border[:3] if at.border else (0, first, None)
            for position, base, own, after in BatchTable(part).zip_columns(
                "position", "base_offset", "partition_leader_epoch", "next_offset"
            ):
                continues = base == next_offset and (self._raises or as_stored(own) == epoch)
                if position >= settled and not continues:
                    doubts.append(position)
                    break
                next_offset, epoch = after, as_stored(own)
        return min(doubts, default=_ALL)

    def _markers_of(self, listed: Sequence[str], settled: int) -> _Markers:
        """The markers, and what read_committed leaves out now. They are read once, from the segment of the first open
        transaction on; again from a later one when it begins there, and where something is decided by what is behind
        it."""
        known = self._markers
        start = known.needed_from if known and known.needed_from in listed else listed[0]
        if known is None or known.start != start or known.name not in listed or not self._log_has(known.last):
            known = self._markers = _Markers(start, start, start, MatchedTransactions(self._raises))
        chosen = [name for name in listed if _sort_key(name) >= _sort_key(start)]
        try:
            self._read_markers(known, chosen, settled)
        except InvalidRecordError as unreadable:
            known = self._markers = _Markers(start, start, start, MatchedTransactions(self._raises), unreadable)
            self._read_markers(known, chosen, settled)
        left_out = isolation.excluded_so_far(known.match)
        if left_out is None:
            before = chosen[: chosen.index(known.name)]
            group = [self._segment_named(name, later_segment=True) for name in before]
            group.append(self._segment_named(known.name).between(0, known.at.position, has_grown=True))
            restore = self._markers_request.options.restore
            left_out = isolation.excluded(group, skip=not self._raises, restore=restore)
        known.left_out, stable = left_out, left_out.stable_offset
        reached = self._last_mark.next_offset if self._last_mark else 0
        known.needed_from = _first_segment_with(listed, reached if stable is None else min(reached, stable))
        return known

    def _read_markers(self, known: _Markers, chosen: Sequence[str], settled: int) -> None:
        """Takes the markers behind those that were read, up to what waits."""
        known.match.refresh_evidence()
        for name in chosen[chosen.index(known.name) :]:
            if name != known.name:
                known.name, known.at = name, ReadPosition()
            of_segment = settled if name == chosen[-1] else None
            with self._segment_named(name, later_segment=of_segment is None) as segment:
                decode_request = segment.named_request(self._markers_request)
                source = self._source_without_tail(segment, known.at.position, of_segment)
                end = _place_in(segment, known.unreadable)
                for part, after in read_chunks_from(decode_request, source, known.at):
                    doubt = min(end, self._first_doubtful_position(decode_request, part, known.at, of_segment))
                    if doubt < _ALL:
                        part, after = read_to_position(decode_request, source, known.at, doubt)
                    last = next(_marks_of(segment, BatchTable(part)[-1:]), known.last)
                    for step in steps_of(segment, 0, part):
                        known.match.take(step)
                    known.at, known.last = after, last
                    if doubt < _ALL:
                        return

    # ---- reading

    def _read_current_segment(self, settled: int | None, known: _Markers | None) -> Generator[_Piece, None, bool]:
        """Yields what may be judged of the current segment; returns whether that is all of it. known: the markers, for
        read_committed"""
        reading, left_out = self._reading, None if known is None else known.left_out
        stable = None if left_out is None else left_out.stable_offset
        segment = self._segment_named(reading.name, later_segment=settled is None)
        wrong, unread, asked, log_end = dict[int, WrongOffset](), _ALL, self._request, 0
        next_offset = reading.at.border[1] if reading.at.border else -1
        if known is not None:
            if self._raises:
                wrong = {_place_in(segment, one.error): one for one in known.left_out.wrong_offsets}
            unread = known.at.position if known.name == segment.name else _ALL
            asked = known.left_out.applied_to(asked)
            log_end = known.match.next_offset or 0
        raised = sorted(at for at, one in wrong.items() if one.is_within(self._range.first_offset, stable))
        if raised and raised[0] < reading.at.position:  # it was proven after it was read
            raise wrong[raised[0]].error
        if settled is not None and stable is not None and stable <= next_offset <= log_end:
            return False  # all that is behind the last batch
        with segment:
            decode_request = segment.named_request(asked)
            source = self._source_without_tail(segment, reading.at.position, settled)
            fails_at = waits_at = _ALL
            for part, after in read_chunks_from(decode_request, source, reading.at):
                failing = raised + [one.position for one in part.damage[:1] if self._raises]
                fails_at = min((at for at in failing if at < after.position), default=_ALL)
                waits_at = self._first_doubtful_position(decode_request, part, reading.at, settled)
                if known is not None:
                    waits_at = min(waits_at, _first_undecided_position(part, stable, unread, wrong))
                stop = min(fails_at, waits_at)
                if stop < _ALL:
                    part, after = read_to_position(decode_request, source, reading.at, stop)
                mark = self._last_mark
                is_there = mark is None or mark.name != segment.name or _segment_has(segment, mark)
                if not is_there or (known is not None and not self._log_has(known.last)):
                    raise _LogTruncated
                without_tail = PassResult(part.chunks, part.tables, part.damage, 0, part.restored)
                records = as_columns(decode_request, without_tail, left_out)
                if not reading.in_range and len(records.batches):
                    records = records[self._count_below(decode_request, source, records.batches) :]
                    reading.in_range = records.batches[-1]["last_offset"] >= (self._range.first_offset or 0)
                marks = list(_marks_of(segment, records.batches[-_REMEMBERED:]))
                reading.at = after
                self._marks.extend(marks)
                if part.damage or (reading.in_range and len(records.batches)):
                    yield segment, records
                if stop < _ALL:
                    break
            if fails_at < waits_at:
                if fails_at in wrong:
                    raise wrong[fails_at].error
                for _ in read_chunks(decode_request._replace(skip=False), source, fails_at):
                    pass
            if settled is not None and min(reading.size_seen[1], segment.size) <= max(settled, reading.at.position):
                reading.size_seen = time.time(), segment.size
        return waits_at == _ALL

    def _count_below(self, decode_request: DecodeRequest, source: Source, batches: BatchTable) -> int:
        """How many records of the batches that were read are below the range of offsets."""
        first = self._range.first_offset or 0
        end = _ALL
        for position, size, last in batches.zip_columns("position", "size_in_bytes", "last_offset"):
            end = position + size
            if last >= first:
                break
        of_offsets = decode_request._replace(layout=request(columns=("offset",)).layout)
        part, _ = read_to_position(of_offsets, source, self._reading.at, end)
        return sum(offset < first for offset in as_columns(of_offsets, part).column("offset"))


def _first_undecided_position(
    part: PassResult, stable: int | None, unread: int, wrong: Mapping[int, WrongOffset]
) -> int:
    """The position of the first batch in a part that waits for the end of a transaction. unread: where the markers were
    not read from on; wrong: position -> what its right base offset is."""
    for at, stored in BatchTable(part).zip_columns("position", "base_offset"):
        base = wrong[at].places[0][0] if at in wrong else stored
        if at >= unread or (stable is not None and base is not None and base >= stable):
            return int(at)
    return _ALL


def _place_in(segment: SegmentFile, error: KafkaRecordError | None) -> int:
    """The position of an error in a segment; -1: it is in one before it; _ALL: there is none, or in a later one."""
    if error is None or error.position is None or error.file is None:
        return _ALL
    if error.file == segment.path:
        return error.position
    return -1 if _sort_key(os.path.basename(error.file)) < _sort_key(segment.name) else _ALL


def _marks_of(segment: SegmentFile, batches: BatchTable) -> Iterator[BatchMark]:
    """Yields the marks of batches that were just read. Raises _LogTruncated if others are there now."""
    inode = _inode(segment)
    for position, size, after, magic, crc in batches.zip_columns(
        "position", "size_in_bytes", "next_offset", "magic", "crc"
    ):
        head = raw_batches.fingerprint(segment, position)
        if int.from_bytes(head[CRC_AT[magic] :][:4], "big") != crc:
            raise _LogTruncated
        yield BatchMark(segment.name, inode, position, position + size, head, after)


def _end_before_range(record_range: RecordRange, part: PassResult, begin: int) -> int:
    """Where the last batch ends before the first one in the range; of a part without one where damage begins that no
    batch follows."""
    first, oldest = record_range.first_offset, record_range.start_timestamp
    for position, size, last, newest in BatchTable(part).zip_columns(
        "position", "size_in_bytes", "last_offset", "max_timestamp"
    ):
        is_late = oldest is None or (newest is not None and newest >= oldest)
        if is_late and (first is None or last >= first):
            return begin
        begin = position + size
    return begin if any(one.lost_to is None for one in part.damage) else _ALL


def _segment_has(segment: SegmentFile, mark: BatchMark) -> bool:
    return raw_batches.is_unchanged(segment, mark.position, mark.end, mark.fingerprint)


def _inode(segment: SegmentFile) -> int | None:
    descriptor = segment.source.descriptor
    return None if descriptor is None else os.fstat(descriptor).st_ino


def _sort_key(name: str) -> tuple[int, str]:
    return (names.offset_in_name(name) or 0, name)


def _first_segment_with(listed: Sequence[str], offset: int | None) -> str:
    """The first segment that may have this offset or a later one."""
    return listed[ranges.segments_in_range([names.offset_in_name(name) for name in listed], offset, None)[0]]


def _topic_partition(name: str) -> tuple[str | None, int | None] | None:
    parsed = names.segment(name)
    return None if parsed is None else (parsed.topic, parsed.partition)


def followers(
    opened: opening.Opened, chosen: Selection, last: int | None, on_note: Callable[[str], object]
) -> list[Follower]:
    """See Readable.followers."""
    found = []
    for log in opening.logs(opened):
        of_log = chosen
        if last is not None:
            ((_, end_of_log),) = last_ranges([log.segments], chosen, max(last, 1))
            of_log = chosen._replace(record_range=end_of_log)
        if (of_log.is_committed or of_log.record_range != EVERYTHING) and (why := wrong_names(log.segments)):
            raise ValueError(f"{log.path}: {why}, and it is followed by the names; {command('verify', [log.path])}")
        found.append(Follower(log, of_log, on_note))
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
