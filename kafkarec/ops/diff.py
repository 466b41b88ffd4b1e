"""Compares two replicas of a partition: the first difference, what only one of them has, and where each would truncate.

Batches are compared in log order. Equal batches (offsets, leader epoch, CRC, size) are skipped; the records of others
are compared offset by offset, with their producer id, epoch and sequence, so that another codec, other batch sizes or
another round of compaction are distinguished from other content. A batch that the cleaner emptied has no record.
Compacted replicas may differ in the records that were already removed; these are listed as gaps.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, NamedTuple

from kafkarec.damage import Damage
from kafkarec.errors import KafkaRecordError
from kafkarec.format.java_integers import LONG_MAX
from kafkarec.read.decode_options import request
from kafkarec.read.reader import decode
from kafkarec.read.walk import walk
from kafkarec.state import epoch_history
from kafkarec.state.epoch_history import EpochHistory, Truncation
from kafkarec.storage import opening
from kafkarec.storage.names_by_content import base_offsets_by_content, sorted_by_base_offset
from kafkarec.support.command_line import command
from kafkarec.support.text_table import counted

HEAD, TAIL, GAP, DAMAGED = "head", "tail", "gap", "damaged"
_NO_EPOCH = -1  # unknown: magic 0 and 1 have none
_NO_LINEAGE, _NO_TRUNCATION = EpochHistory((), 0, "none"), Truncation(0, ())


@dataclass
class Extent:
    """Offsets first to last.

    records   number of records; None for wrapper messages, which were not decompressed
    size      bytes: of whole batches, or of keys and values for single records
    kind      of what only one side has: "head" (before the other's first offset), "tail" (after its last one),
              "damaged" (the other side is unreadable there), "gap" (the other one has no such record: compacted, or
              lost)
              of what differs: "epoch" (of the leader), "producer" (id, epoch, sequence, transactional or not),
              "content"
    """

    first: int
    last: int
    records: int | None
    size: int
    kind: str = ""


class ReplicaBatch(NamedTuple):
    """A batch of one side, and where it is."""

    base: int
    last: int
    epoch: int | None
    crc: int
    size: int
    magic: int
    records: int | None
    producer: tuple[int | None, int | None, bool]
    segment: Any
    position: int


class ComparedRecord(NamedTuple):
    """A record of one side. content: timestamp, its type (0 for that of magic 0), key, value, headers, is_control;
    producer: id, epoch, is_transactional, sequence; size: bytes of key and value"""

    offset: int
    content: tuple[Any, ...]
    epoch: int
    producer: tuple[Any, ...]
    size: int


class FirstDifference(NamedTuple):
    """An offset, and what is different there."""

    offset: int
    what: str


@dataclass
class Replica:
    """One side of a comparison. start, end: first offset and log end offset; None: the log has no batch.

    misnamed   (file name, first offset) of segments whose names are those of others, by their batches
    in_order   whether its batches come in the order of their offsets
    """

    path: str
    segments: int = 0
    batches: int = 0
    size: int = 0
    start: int | None = None
    end: int | None = None
    damage: list[Damage] = field(default_factory=list)
    misnamed: list[tuple[str, int]] = field(default_factory=list)
    in_order: bool = True
    lineage: EpochHistory = _NO_LINEAGE


@dataclass
class Difference:
    """The result of `compare`.

    same             both have the same records at the same offsets, in whatever batches, and the same log end offset
    identical        both have the same batches, byte for byte
    identical_to     all batches from the first common offset up to this one (exclusive) are equal
    first            (offset, description) of the first difference; None if there is none
    only_a, only_b   what only one side has
    changed          offsets at which both have a record, but not the same one
    rebatched        the same records in different batches (another codec, batch size, or round of compaction)
    a_follows_b, b_follows_a   how a follower's log would be truncated with the other one as the leader
    notes            sentences with further information
    """

    a: Replica
    b: Replica
    same: bool = True
    identical: bool = True
    identical_to: int | None = None
    identical_batches: int = 0
    identical_size: int = 0
    first: FirstDifference | None = None
    only_a: list[Extent] = field(default_factory=list)
    only_b: list[Extent] = field(default_factory=list)
    changed: list[Extent] = field(default_factory=list)
    rebatched: list[Extent] = field(default_factory=list)
    a_follows_b: Truncation = _NO_TRUNCATION
    b_follows_a: Truncation = _NO_TRUNCATION
    notes: list[str] = field(default_factory=list)

    def __bool__(self) -> bool:
        """Whether there is a difference."""
        return not self.same


def compare(
    a: Any,
    b: Any,
    *,
    max_decompressed_bytes: int = 128 << 20,
    progress: Callable[[Any, int], object] = lambda segment, end: None,
) -> Difference:
    """Compares two Logs or Segments, or paths of them. Both are read once, with CRC and structure checks, in constant
    memory. `progress`: called with a segment and the position up to which it was read.

    ValueError if one of them is not a single partition; OSError if one cannot be opened.
    """
    left, right = (_Side(side, max_decompressed_bytes, progress) for side in (a, b))
    difference = _Comparison(left, right).run()
    for side in (left, right):
        side.finish()
    _set_kinds(difference.only_a, difference.b)
    _set_kinds(difference.only_b, difference.a)
    difference.a_follows_b = epoch_history.truncation(difference.a.lineage, difference.b.lineage)
    difference.b_follows_a = epoch_history.truncation(difference.b.lineage, difference.a.lineage)
    ends = {0 if side.end is None else side.end for side in (difference.a, difference.b)}
    difference.same = len(ends) == 1 and not (difference.only_a or difference.only_b or difference.changed)
    difference.identical = difference.same and not difference.rebatched
    if difference.first is None and not difference.same:
        both = (*difference.only_a, *difference.only_b)
        heads = [extent.first for extent in both if extent.kind == HEAD]
        others = [extent.first for extent in both if extent.kind != HEAD] or ([min(ends)] if len(ends) > 1 else [])
        what = "only one of the two continues here" if others else "only one of the two begins here"
        difference.first = FirstDifference(min(others or heads), what)
    difference.notes = list(_notes(difference))
    return difference


def _set_kinds(extents: list[Extent], other: Replica) -> None:
    lost = sorted(
        (-LONG_MAX if one.lost_from is None else one.lost_from, LONG_MAX if one.lost_to is None else one.lost_to)
        for one in other.damage
    )
    reached = [*accumulate((last for _, last in lost), max)]  # of each damage and those that begin before it
    for extent in extents:
        before = bisect_right(lost, (extent.last, LONG_MAX))
        if before and reached[before - 1] >= extent.first:
            extent.kind = DAMAGED
        elif other.start is None or other.end is None or extent.first >= other.end:
            extent.kind = TAIL
        elif extent.kind != HEAD:
            extent.kind = GAP


def _notes(difference: Difference) -> Iterator[str]:
    for name, side in (("A", difference.a), ("B", difference.b)):
        if side.damage:
            lost = sum(damage.length for damage in side.damage)
            ranges = counted(len(side.damage), "range")
            yield f"{name} is damaged: {ranges}, {lost} bytes; see {command('verify', [side.path])}"
        if side.misnamed:
            files = ", ".join(f"{file} begins with {first}" for file, first in side.misnamed)
            yield (
                f"{name}: names of segments contradict their offsets: {files}; they are compared in the order of their "
                "offsets, but a broker reads them by name"
            )
        if not side.in_order:
            yield f"{name}: batches do not come in the order of their offsets; see {command('verify', [side.path])}"
        if side.lineage.note:
            yield f"{name}: {side.lineage.note}"
    if any(extent.kind == GAP for extent in (*difference.only_a, *difference.only_b)):
        yield (
            "in a compacted topic, gaps are not a loss: each replica's cleaner runs at its own time, and may already "
            "have removed records that the other one still has; in any other topic they are a loss"
        )
    if difference.changed:
        lowest = min(extent.first for extent in difference.changed)
        for name, other, truncation in (("A", "B", difference.a_follows_b), ("B", "A", difference.b_follows_a)):
            if truncation.offset > lowest:
                yield (
                    f"the leader epochs do not show the difference at offset {lowest}: with {other} as the leader, "
                    f"{name} would keep it (it truncates to {truncation.offset}), and the two would stay different"
                )


class _Side:
    """Iterates over the batches of one replica; `head` is the next batch.

    records, end, size   of batches that differ: the records that are not compared yet; of all these batches the offset
                         after the last one, and their bytes
    """

    def __init__(self, opened: Any, cap: int, progress: Callable[[Any, int], object]) -> None:
        if not hasattr(opened, "segments_by_log"):
            opened = opening.open(opened)
        logs = list(opening.logs(opened))
        if len(logs) != 1:
            raise ValueError(f"{getattr(opened, 'path', opened)} has {len(logs)} partitions; one is expected")
        self._log = logs[0]
        self._cap = cap
        self._progress = progress
        self.replica = Replica(str(getattr(opened, "path", opened)), len(self._log.segments))
        base_offsets = base_offsets_by_content(self._log.segments)
        self._segments = sorted_by_base_offset(self._log.segments, base_offsets)
        self.replica.misnamed = [(one.name, base_offsets[one]) for one in self._segments if one in base_offsets]
        self._epochs: list[tuple[int, int]] = []
        self._rows = self._batches()
        self.head = next(self._rows, None)
        self.records = deque[ComparedRecord]()
        self.end = self.size = 0

    def advance(self) -> None:
        self.head = next(self._rows, None)

    def _batches(self) -> Iterator[ReplicaBatch]:
        names = ("last_offset", "partition_leader_epoch", "crc", "size_in_bytes", "magic", "record_count", "position")
        of_producer = ("producer_id", "producer_epoch", "is_transactional")
        replica, next_offset = self.replica, None
        every = request(
            columns=[],
            control=True,
            errors="skip",
            restore=False,  # what differs on the two disks is shown
            max_decompressed_bytes=self._cap,
        )
        for step in walk(self._segments, every):
            replica.damage += step.damage
            if not len(step):
                continue
            segment = step.segment
            self._progress(segment, step.column("position")[-1] + step.column("size_in_bytes")[-1])
            bases = step.first_offsets(next_offset if next_offset is not None else segment.base_offset or 0)
            producers = step.zip_columns(*of_producer)
            for base, last, epoch, crc, size, magic, count, position, producer in zip(
                bases, *map(step.column, names), producers, strict=True
            ):
                if epoch is not None and (not self._epochs or self._epochs[-1][0] != epoch):
                    self._epochs.append((epoch, base))
                replica.in_order = replica.in_order and (next_offset is None or base >= next_offset)
                next_offset = last + 1
                replica.start = base if replica.start is None else replica.start
                replica.end = next_offset if replica.end is None else max(replica.end, next_offset)
                replica.batches += 1
                replica.size += size
                yield ReplicaBatch(base, last, epoch, crc, size, magic, count, producer, segment, position)

    def add_batch(self, batch: ReplicaBatch) -> None:
        """Adds the next batch to those that differ, and its records by offset."""
        self.end = max(self.end, batch.last + 1)
        self.size += batch.size
        self.advance()
        raw = batch.segment.raw(batch.position, batch.size)
        try:
            records = decode(
                raw, control=True, check_crcs=False, header_keys="binary", max_decompressed_bytes=self._cap
            )
        except KafkaRecordError:
            return  # the file changed since it was read
        epoch = _NO_EPOCH if batch.epoch is None else batch.epoch
        found = (
            ComparedRecord(
                r.offset or 0,
                (r.timestamp, r.timestamp_type or 0, r.key, r.value, tuple(r.headers), r.is_control),
                epoch,
                (*batch.producer, r.sequence),
                len(r.key or b"") + len(r.value or b""),
            )
            for r in records
        )
        self.records.extend(sorted(found, key=lambda record: record.offset))

    def finish(self) -> None:
        self.replica.lineage = epoch_history.of_log(self._log, self._epochs, self.replica.end or 0)
        for segment in self._log.segments:
            segment.close()


class _Comparison:
    """Reads both sides in offset order and compares them."""

    def __init__(self, a: _Side, b: _Side) -> None:
        self.a, self.b = a, b
        self.difference = Difference(a.replica, b.replica)
        self._equal_so_far = True

    def run(self) -> Difference:
        a, b, difference = self.a, self.b, self.difference
        while a.head is not None and b.head is not None:
            one, other = a.head, b.head
            if one[:-2] == other[:-2]:  # without where they are
                if self._equal_so_far:
                    difference.identical_to = one.last + 1
                    difference.identical_batches += 1
                    difference.identical_size += one.size
                a.advance()
                b.advance()
            elif one.last < other.base:
                self._take_alone(a, difference.only_a, one, b.replica)
            elif other.last < one.base:
                self._take_alone(b, difference.only_b, other, a.replica)
            else:
                self._compare_overlapping(one, other)
        for side, extents in ((a, difference.only_a), (b, difference.only_b)):
            while side.head is not None:
                self._take_alone(side, extents, side.head, None)
        return difference

    def _take_alone(self, side: _Side, extents: list[Extent], batch: ReplicaBatch, other: Replica | None) -> None:
        """Adds the next batch of a side, of whose offsets the other one has none. other: as for `_add_alone`"""
        extent = Extent(batch.base, batch.last, batch.records, batch.size)
        if batch.records == 0 and other is not None:  # the cleaner of this side kept it, for its producer
            self._equal_so_far = False
            extent.kind = "batching"
            add_extent(self.difference.rebatched, extent)
        else:
            self._add_alone(extents, extent, "only one of the two has a batch here", other)
        side.advance()

    def _add_alone(self, extents: list[Extent], extent: Extent, what: str, other: Replica | None) -> None:
        """Adds what the other side has not. other: that side; None if it has ended."""
        if other is not None and extent.last < (other.start or 0):
            extent.kind = HEAD
        elif other is not None:
            self._note_difference(extent.first, what)
        add_extent(extents, extent)

    def _note_difference(self, offset: int, what: str) -> None:
        self._equal_so_far = False
        if self.difference.first is None:
            self.difference.first = FirstDifference(offset, what)

    def _compare_overlapping(self, one: ReplicaBatch, other: ReplicaBatch) -> None:
        """Compares the records of unequal batches with common offsets, up to an offset where batches end on both
        sides."""
        self._equal_so_far = False
        a, b = self.a, self.b
        for side, batch in ((a, one), (b, other)):
            side.records.clear()
            side.end = side.size = 0
            side.add_batch(batch)
        differences = 0
        while True:
            low, high = (a, b) if a.end < b.end else (b, a)
            head = low.head
            is_end = a.end == b.end or head is None or head.base >= high.end
            end = high.end if is_end else low.end
            waiting = a.records, b.records
            while offsets := [side[0].offset for side in waiting if side and side[0].offset < end]:
                at = min(offsets)
                x, y = (side.popleft() if side and side[0].offset == at else None for side in waiting)
                differences += self._compare_records(x, y, one, other)
            if head is None or is_end:
                break
            low.add_batch(head)
        if not differences:
            first, last = min(one.base, other.base), max(a.end, b.end) - 1
            add_extent(self.difference.rebatched, Extent(first, last, None, a.size, "batching"))

    def _compare_records(
        self, x: ComparedRecord | None, y: ComparedRecord | None, one: ReplicaBatch, other: ReplicaBatch
    ) -> bool:
        """Compares what both sides have at an offset, in these batches, None: nothing; returns whether that differs."""
        difference, record = self.difference, x or y
        assert record is not None
        extent = Extent(record.offset, record.offset, 1, record.size)
        if y is None:
            self._add_alone(difference.only_a, extent, "only A has a record here", self.b.replica)
            return True
        if x is None:
            self._add_alone(difference.only_b, extent, "only B has a record here", self.a.replica)
            return True
        have_epochs = _NO_EPOCH not in (x.epoch, y.epoch)
        if x.epoch != y.epoch and have_epochs:
            extent.kind, what = "epoch", f"leader epoch {x.epoch} in A, {y.epoch} in B: two leaders wrote here"
        else:
            what = f"same leader epoch {x.epoch}, " if have_epochs else ""
            if x.content != y.content:
                extent.kind = "content"
                what += f"other content (crc 0x{one.crc:08x} in A, 0x{other.crc:08x} in B)"
            elif x.producer != y.producer:
                extent.kind = "producer"
                what += f"{_producer_text(x)} in A, {_producer_text(y)} in B"
            else:
                return False
        self._note_difference(x.offset, what)
        add_extent(difference.changed, extent)
        return True


def _producer_text(record: ComparedRecord) -> str:
    producer_id, epoch, is_transactional, sequence = record.producer
    if producer_id is None:
        return "no producer"
    kind = "transactional producer" if is_transactional else "producer"
    return f"{kind} {producer_id}, epoch {epoch}" + ("" if sequence is None else f", sequence {sequence}")


def add_extent(extents: list[Extent], new: Extent) -> None:
    """Appends `new`, or extends the last extent if `new` follows it and has the same kind."""
    last = extents[-1] if extents else None
    if last is not None and last.kind == new.kind and new.first == last.last + 1:
        last.last = new.last
        last.records = None if last.records is None or new.records is None else last.records + new.records
        last.size += new.size
    else:
        extents.append(new)
