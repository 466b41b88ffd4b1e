"""The good batches of a log in offset order, with the fields that merging needs: which of them belong to the log.

A log is read with errors="skip": CRC, structure and payload are checked, and reading goes on after damage. A good
batch may still be in the wrong place: no checksum covers the base offset, and a damaged file system can put blocks of
one file into another. Such batches are set aside, never dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from kafkarec._core import hash_of_batch
from kafkarec.damage import Damage, Restored, damage_from_fault, is_read_failure, is_unchecked
from kafkarec.errors import PAYLOAD_REASONS, KafkaRecordError
from kafkarec.format.java_integers import LONG_MAX, increment_sequence
from kafkarec.format.layout import UP_TO_MAGIC, V2_OVERHEAD, batch_header
from kafkarec.read.decode_options import request
from kafkarec.read.reader import decode
from kafkarec.read.walk import is_preallocated, walk
from kafkarec.recover.misplaced import judged, mark_unanchored
from kafkarec.recover.restoring import with_restored_fields
from kafkarec.recover.steps import Step, as_stored
from kafkarec.sources.read_failures import (
    DISK,
    ReadFailure,
    is_of_one_file,
    partial_read_failure,
    read_failure,
    unsearched_failure,
)

from .log_reading import batch_tables
from .segment_file import MAX_OFFSETS, SegmentFile, size_or_zero

_COLUMNS = ("last_offset", "partition_leader_epoch", "crc", "size_in_bytes", "record_count", "position")
_PIECE_BYTES = 4 << 20  # of payload, of which nothing is kept
_MOST_OPEN = 64  # segments of a source that stay open until they are copied: a broker may rename them meanwhile
_WHOLE_BATCH = PAYLOAD_REASONS | {"out_of_memory"}  # these batches are set aside
_UNDECIDED, _INSIDE_DAMAGE = "base_offset_undecided", "inside_damage"
_SEARCHED_AGAIN = 64 << 20  # bytes of damage at most; few batches are longer


class GoodBatches(NamedTuple):
    """Adjacent good batches, which belong to a log or not together: one, or all of a step (see BatchRows.are_adjacent).
    What decides about them may have to tell them apart: see `each`.

    base                base offset; for a wrapper message the next offset after the previous batch, at most its own
                        offset; the first one inside of it where the batch before it is not known, or a batch before it
                        has higher offsets
    hash_sum            the sum of `hash_of_batch`
    follows_damage      whether there is damage between it and the previous batch in its source
    source              the index of its source
    header              its first bytes, if they are restored; None: those of the file
    has_restored_base   whether its base offset is restored
    is_unanchored       whether no unbroken chain of batches leads to it from its file's start, or from it to the file's
                        end
    step                the one that they are all of; None: one batch
    """

    base: int
    last: int
    epoch: int
    hash_sum: int
    size: int
    records: int | None
    segment: SegmentFile
    position: int
    source: int
    header: bytes | None = None
    has_restored_base: bool = False
    follows_damage: bool = False
    is_unanchored: bool = False
    step: Step | None = None

    @property
    def batches(self) -> int:
        """How many they are."""
        return 1 if self.step is None else len(self.step)

    def each(self) -> Iterator[GoodBatches]:
        """Yields each batch alone."""
        if self.step is None:
            yield self
            return
        follows_damage = self.follows_damage
        for one in _single_batches(self.step, self.source, self.base):
            yield one._replace(follows_damage=follows_damage, is_unanchored=self.is_unanchored)
            follows_damage = False

    def first_inside(self, expected: int) -> int:
        """The first offset inside of a message of magic 0 or 1, not below `expected` unless its own offset is."""
        try:
            data = self.segment.raw(self.position, self.size)
        except OSError:
            return self.base
        if self.header is not None:
            data = self.header + data[len(self.header) :]
        first = min(decode(data, columns=["offset"], errors="skip", restore=False).column("offset"), default=self.base)
        return min(max(first, expected if expected <= self.last else 0), self.last)

    @property
    def has_fewer_records(self) -> bool:
        """Whether it has fewer records than offsets: the cleaner removed some."""
        return self.records is not None and self.records < self.last - self.base + 1

    @property
    def comparison_key(self) -> tuple[int, int, int, int]:
        """The fields by which batches of two sources are compared. The base offset follows from them; that of a wrapper
        message may be known in one source only."""
        return self.last, self.epoch, self.hash_sum, self.size

    def as_set_aside(self, reason: str) -> SetAsideBatch:
        """The batch as one that is kept outside of the log."""
        return SetAsideBatch(self.segment, self.position, self.size, self.base, self.last, reason, self.source)


class SetAsideBatch(NamedTuple):
    """A batch that is kept outside of the log.

    base, last   its offsets; None: not known
    reason       offset_out_of_order, outside_of_segment, inside_damage, or a key of `errors.REASONS`
    source       the index of its source
    """

    segment: SegmentFile
    position: int
    size: int
    base: int | None
    last: int | None
    reason: str
    source: int


class SourceEnd(NamedTuple):
    """Where the batches of a source end.

    next_offset   after the last good batch; None: not known
    position      where the last good batch of the last file ends; None: a part of the file was not read, because of a
                  failure, a limit or a missing library
    has_tail      whether bytes that are neither batch nor damage follow
    in_damage     whether there is damage after the last good batch
    """

    next_offset: int | None = None
    position: int | None = 0
    has_tail: bool = False
    in_damage: bool = False


ReadProgress = Callable[[str, int], None]
"""Called with (path, position up to which it was read)."""


def no_progress(path: str, position: int) -> None:
    return None


@dataclass
class SourceReader:
    """Reads the good batches of one source; what else is in it goes into lists, which readers of several may share.

    cap               max_decompressed_bytes
    set_aside         called with each SetAsideBatch
    tails             (path, position, length, kind) of bytes at a file's end that are neither batch nor damage; kind is
                      "cut" or "preallocated"
    number            the index of the source
    end               the source's end, so far
    unread            files that could not be read, or not completely
    restored          batches with restored header fields; None: they are damage instead
    progress          called after each piece of a file
    threads           how many decode a file
    """

    cap: int
    restored: list[Restored] | None = None
    set_aside: Callable[[SetAsideBatch], None] = lambda batch: None
    unread: list[ReadFailure] = field(default_factory=list)
    tails: list[tuple[str, int, int, str]] = field(default_factory=list)
    progress: ReadProgress = no_progress
    threads: int = 1
    damage: list[Damage] = field(default_factory=list)
    number: int = 0
    end: SourceEnd = field(default_factory=SourceEnd)

    def add_unread(self, failure: ReadFailure) -> None:
        """Adds a file, once."""
        if all(known.path != failure.path for known in self.unread):
            self.unread.append(failure)

    def read_file(self, segment: SegmentFile, next_offset: int | None = None) -> Iterator[GoodBatches]:
        """Yields the good batches of one file, each alone, in file order.

        next_offset   the offset after the batches read before; None: not known
        """
        for found in self._read_grouped(segment, next_offset):
            yield from found.each()

    def ordered_batches(self, segments: list[SegmentFile]) -> Iterator[GoodBatches]:
        """Yields the batches of segments in ascending offset order.

        A batch is set aside instead if its offsets are outside of its segment's range (from the base offset in the
        segment's name to that of the next segment, or, if it follows the batch before it, to the first one that a later
        segment has in its own range; at most 2^31 offsets), or if it is not part of the heaviest ascending sequence of
        the batches around it, of which all unanchored ones together weigh less than any other. The end of the source is
        then that of these batches.
        """
        last = None
        dropped = False  # whether a batch was set aside since the last kept one
        for row, is_placed in judged(self._in_segment_range(segments)):
            if is_placed:
                last = row._replace(follows_damage=True) if dropped else row
                yield last
            else:
                self.set_aside(row.as_set_aside("offset_out_of_order"))
            dropped = not is_placed
        places = {segment.path: at for at, segment in enumerate(segments)}
        if last is not None:
            after = places[last.segment.path], last.position
            damaged = any((places.get(str(one.file), -1), one.position) > after for one in self.damage)
            self.end = self.end._replace(next_offset=last.last + 1, in_damage=self.end.in_damage or damaged)

    def ascending_runs(self, segment: SegmentFile, several: bool = False) -> list[list[GoodBatches]]:
        """The batches of a file in which they may be in any order, as runs of ascending offsets, each of one log as far
        as offsets, leader epochs and producers tell. A single batch with too high offsets does not end a run but is set
        aside.

        several   the file has several logs: where offsets are missing behind damage, another one may begin
        """
        runs: list[list[GoodBatches]] = []
        sequences: dict[tuple[int, int], int] = {}  # (producer id, epoch) -> the last one
        rows = list(self.read_file(segment))
        for at, row in enumerate(rows):
            if not 0 <= row.base <= row.last:  # its first bytes are in another piece of the file
                self.set_aside(row.as_set_aside("offset_out_of_order"))
                continue
            run = runs[-1] if runs else []
            if not several and len(run) > 1 and run[-2].last < row.base <= run[-1].last:
                self.set_aside(run.pop().as_set_aside("offset_out_of_order"))
            # both leader epochs from here on are below both before; one alone may be damaged
            epochs = [one.epoch for one in rows[max(at - 2, 0) : at + 2]]
            epochs_fall = len(epochs) == 4 and min(epochs[:2]) > max(epochs[2:]) >= 0
            begins = not run or row.base <= run[-1].last or epochs_fall
            header = batch_header(row.segment.raw(row.position, V2_OVERHEAD))
            if header is not None and header.base_sequence >= 0:
                producer, first = (header.producer_id, header.producer_epoch), header.base_sequence
                before = sequences.get(producer, -1)
                sequences[producer] = increment_sequence(first, header.last_offset_delta)
                begins = begins or (first <= before and before - first <= 1 << 30)  # else they begin again at 0
            if begins or (several and row.follows_damage and row.base != run[-1].last + 1):
                run = []
                runs.append(run)
            run.append(row)
        return runs

    def _in_segment_range(self, segments: list[SegmentFile]) -> Iterator[GoodBatches]:
        """Yields the batches whose offsets are in their segment's range; the others are set aside. The name of a file
        that cannot be opened bounds no other segment, nor does a name alone, as of a copy, batches that follow the kept
        ones."""
        for at, segment in enumerate(segments):
            low = segment.base_offset or 0
            later = _later_segments(segments, at)
            following = next(later, None)
            high = _upper_bound(low, following)
            high_behind_kept: int | None = None  # for a batch that follows a kept one
            next_offset, dropped = low, False
            for found in mark_unanchored(self._read_grouped(segment, low), segment):
                while found.last >= high and following is not None and not _can_be_opened(following):
                    following = next(later, None)
                    high = _upper_bound(low, following)
                for row in (found,) if low <= found.base and found.last < high else found.each():
                    end = high
                    if row.base == next_offset and row.last >= high:
                        if high_behind_kept is None:
                            high_behind_kept = min(_first_own_offset(_later_segments(segments, at)), low + MAX_OFFSETS)
                        end = high_behind_kept
                    if low <= row.base and row.last < end:
                        yield row._replace(follows_damage=True) if dropped else row
                        next_offset, dropped = row.last + 1, False
                    else:
                        self.set_aside(row.as_set_aside("outside_of_segment"))
                        dropped = True
            if len(segments) > _MOST_OPEN:
                segment.close()

    def _read_grouped(self, segment: SegmentFile, next_offset: int | None) -> Iterator[GoodBatches]:
        follows_damage, tail, is_read = self.end.in_damage, None, True
        end = good_end = 0  # of what was read, and of the last batch
        highest = next_offset or 0  # the highest offset after a batch
        for step in self._steps(segment, next_offset):
            if step is None:
                follows_damage, is_read = True, False
                break
            if self.restored is not None:
                self.restored.extend(step.restored)
            waiting = sorted(step.damage, key=lambda damage: damage.position)
            for damage in waiting:
                self._take_damage(damage, segment)
                is_read = is_read and not is_unchecked(damage.reason)
                end = max(end, damage.position + damage.length)
            for row in _good_batches(step, self.number, next_offset):
                while waiting and waiting[0].position < row.position:
                    waiting.pop(0)
                    follows_damage = True
                if row.records is None and (follows_damage or next_offset is None or row.base < highest):
                    row = row._replace(base=row.first_inside(next_offset or 0))
                next_offset, good_end = row.last + 1, row.position + row.size
                highest, end = max(highest, next_offset), max(end, good_end)
                yield row._replace(follows_damage=True) if follows_damage else row
                follows_damage = False
            follows_damage = follows_damage or bool(waiting)
            tail = step.tail
            if tail:
                kind = "preallocated" if is_preallocated(segment, tail) else "cut"
                if kind == "cut":
                    self._set_aside_within(segment, *tail, kind)
                self.tails.append((segment.path, *tail, kind))
                end = sum(tail)
            self.progress(segment.path, end)
        self.end = SourceEnd(next_offset, good_end if is_read else None, tail is not None, follows_damage)

    def _take_damage(self, damage: Damage, segment: SegmentFile) -> None:
        """Adds damage; what of it may be whole batches is set aside."""
        self.damage.append(damage)
        path, place = segment.path, (damage.position, damage.length)
        if damage.reason in _WHOLE_BATCH:
            self.set_aside(SetAsideBatch(segment, *place, None, None, damage.reason, self.number))
        elif is_read_failure(damage):
            limited = damage.reason == "search_limit"
            self.add_unread(unsearched_failure(path, *place) if limited else partial_read_failure(path))
        else:
            self._set_aside_within(segment, *place, damage.reason)

    def _set_aside_within(self, segment: SegmentFile, start: int, length: int, reason: str) -> None:
        """Sets the whole batches aside that are in damaged bytes, or in an incomplete batch: those of which only the
        place is wrong, and those inside of what the length of a damaged batch claims, where the reader looks for none.
        There may be a block of another file, or a value may have them; their offsets prove nothing."""
        if length > _SEARCHED_AGAIN:
            return
        try:
            data = segment.raw(start, length)
        except OSError:
            return
        places = [(0, len(data))]
        while places:
            begin, end = places.pop()
            # without a length that claims the rest, unless it is that of a whole batch
            blank = 0 if reason == _UNDECIDED and not begin else UP_TO_MAGIC
            piece = bytes(blank) + data[begin + blank : end]
            found = decode(
                piece, columns=[], control=True, errors="skip", restore=False, max_decompressed_bytes=self.cap
            )
            rows = list(found.batches.zip_columns("position", "size_in_bytes"))
            for position, size in rows:
                why = reason if reason == _UNDECIDED else _INSIDE_DAMAGE
                self.set_aside(SetAsideBatch(segment, start + begin + position, size, None, None, why, self.number))
            if rows:
                places += [(begin + one.position, begin + one.position + one.length) for one in found.damage]
                places.append((end - found.remaining, end))

    def _steps(self, segment: SegmentFile, next_offset: int | None) -> Iterator[Step | None]:
        """Yields the steps of the file, and None where it cannot be read any further.

        The reader itself continues after a disk error within a file; this is about files that cannot be opened.
        """
        restore, is_open = self.restored is not None, False
        every = request(columns=[], control=True, errors="skip", restore=restore, max_decompressed_bytes=self.cap)
        every = every.with_options(chunk_bytes=_PIECE_BYTES)
        try:
            segment.hold_open()  # until the step has copied the file's batches: it may be renamed meanwhile
            is_open = True
            yield from walk([segment], every, threads=self.threads)
        except (OSError, KafkaRecordError) as error:
            if not is_of_one_file(error):
                raise
            failure = read_failure(error, segment.path)
            self.add_unread(failure)
            if not is_open and failure.cause == DISK and (size := size_or_zero(segment)):
                fault = {"position": 0, "file": segment.path, "detail": failure.why}
                self.damage.append(damage_from_fault(segment.path, 0, size, next_offset, None, "unreadable", fault))
            yield None


def _good_batches(step: Step, source: int, next_offset: int | None) -> Iterator[GoodBatches]:
    """Yields the batches of a step, all together if they are adjacent."""
    rows = step.rows
    if len(rows) > 1 and not (step.damage or step.restored) and rows.are_adjacent():
        first, last, epoch = step.first_offset, step.last_offset, as_stored(step.cell("partition_leader_epoch", 0))
        begin, end = rows.byte_range(0)[0], rows.byte_range(len(rows) - 1)[1]
        sums = rows.hash_sum(), end - begin, last - first + 1
        yield GoodBatches(first, last, epoch, *sums, step.segment, begin, source, step=step)
    else:
        expected = step.segment.base_offset or 0 if next_offset is None else max(next_offset, 0)
        yield from _single_batches(step, source, expected)


def _single_batches(step: Step, source: int, expected: int) -> Iterator[GoodBatches]:
    """Yields each batch of a step alone. expected: see Step.first_offsets"""
    segment, restored = step.segment, {one.position: one for one in step.restored}
    columns = step.first_offsets(expected), *map(step.column, _COLUMNS)
    for base, last, epoch, crc, size, records, position in zip(*columns, strict=True):
        fields = base, last, as_stored(epoch), hash_of_batch(last, crc, size), size, records
        row = GoodBatches(*fields, segment, position, source)
        if one := restored.get(position):
            header = with_restored_fields(segment.raw(position, UP_TO_MAGIC), one)
            row = row._replace(header=header, has_restored_base="base_offset" in one.fields)
        yield row


def _later_segments(segments: Sequence[SegmentFile], at: int) -> Iterator[SegmentFile]:
    """The segments after one of them whose base offsets are higher."""
    low = segments[at].base_offset or 0
    for number in range(at + 1, len(segments)):
        if (segments[number].base_offset or 0) > low:
            yield segments[number]


def _first_own_offset(segments: Iterable[SegmentFile]) -> int:
    """The first offset that one of these segments has in the range of its name, by its headers."""
    for segment in segments:
        low = segment.base_offset or 0
        try:
            for table in batch_tables([segment], errors="skip"):
                bases = [low if base is None else base for base in table.column("base_offset")]
                if own := [base for base in bases if base >= low]:
                    return int(own[0])
        except (OSError, KafkaRecordError):
            return low
    return LONG_MAX


def _upper_bound(low: int, following: SegmentFile | None) -> int:
    """The offset at which a segment of base offset `low` ends at the latest."""
    return min(low + MAX_OFFSETS, LONG_MAX if following is None else following.base_offset or 0)


def _can_be_opened(segment: SegmentFile) -> bool:
    try:
        with segment.opened():
            return True
    except (OSError, KafkaRecordError):
        return False
