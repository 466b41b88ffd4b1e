"""Compares two replicas of a partition: the first difference, what only one of them has, and where each would truncate.

Batches are compared in log order. Equal ones (offsets, leader epoch, CRC, size) are skipped; the records of others are
compared offset by offset, so that another codec, other batch sizes or another round of compaction are distinguished
from other content. Compacted replicas may differ in the records that are already removed; these are listed as gaps.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from kafkarec.damage import Damage
from kafkarec.errors import KafkaRecordError
from kafkarec.read.reader import decode
from kafkarec.state import leader_epochs
from kafkarec.state.leader_epochs import EpochHistory, Truncation

HEAD, TAIL, GAP, DAMAGED = "head", "tail", "gap", "damaged"
_NO_LINEAGE, _NO_TRUNCATION = EpochHistory((), 0, "none"), Truncation(0, ())


@dataclass
class Extent:
    """Offsets first to last.

    records   number of records; None for wrapper messages, which were not decompressed
    size      bytes: of whole batches, or of keys and values for single records
    kind      of what only one side has: "head" (before the other's first offset), "tail" (after its last one),
              "damaged" (the other side is unreadable there), "gap" (the other one has no such record: compacted, or
              lost)
              of what differs: "epoch", "content"
    """

    first: int
    last: int
    records: int | None
    size: int
    kind: str = ""


class ReplicaBatch(NamedTuple):
    """A batch of one side."""

    base: int
    last: int
    epoch: int | None
    crc: int
    size: int
    magic: int
    records: int | None
    segment: Any
    position: int

    @property
    def identity(self) -> tuple[Any, ...]:
        return self.base, self.last, self.epoch, self.crc, self.size, self.magic


@dataclass
class Replica:
    """One side of a comparison. start, end: its first offset and its log end offset; None: it has no batch."""

    path: str
    segments: int = 0
    batches: int = 0
    size: int = 0
    start: int | None = None
    end: int | None = None
    damage: list[Damage] = field(default_factory=list)
    lineage: EpochHistory = _NO_LINEAGE


@dataclass
class Difference:
    """The result of `compare`.

    same             both have the same records at the same offsets, in whatever batches
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
    first: tuple[int, str] | None = None
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


def compare(a: Any, b: Any, *, max_decompressed_bytes: int = 128 << 20) -> Difference:
    """Compares two Logs or Segments, or paths of them. Both are read once, with CRC and structure checks, in constant
    memory.

    ValueError if one of them is not a single partition; OSError if one cannot be opened.
    """
    left, right = _Side(a, max_decompressed_bytes), _Side(b, max_decompressed_bytes)
    walk = _Walk(left, right)
    walk.run()
    found = walk.found
    for side in (left, right):
        side.finish()
    _classify(found.only_a, found.b)
    _classify(found.only_b, found.a)
    found.a_follows_b = leader_epochs.truncation(found.a.lineage, found.b.lineage)
    found.b_follows_a = leader_epochs.truncation(found.b.lineage, found.a.lineage)
    found.same = not (found.only_a or found.only_b or found.changed)
    found.identical = found.same and not found.rebatched
    if found.first is None and not found.same:
        both = (*found.only_a, *found.only_b)
        ends = [extent.first for extent in both if extent.kind != HEAD]
        what = "only one of the two goes on here" if ends else "only one of the two begins here"
        found.first = (min(ends or [extent.first for extent in both]), what)
    found.notes = list(_notes(found))
    return found


def _classify(extents: list[Extent], other: Replica) -> None:
    for extent in extents:
        if any(_covers(damage, extent) for damage in other.damage):
            extent.kind = DAMAGED
        elif other.start is None or other.end is None or extent.first >= other.end:
            extent.kind = TAIL
        elif extent.kind != HEAD:
            extent.kind = GAP


def _covers(damage: Damage, extent: Extent) -> bool:
    low, high = damage.lost_from, damage.lost_to
    return (low is None or low <= extent.last) and (high is None or extent.first <= high)


def _notes(found: Difference) -> Iterator[str]:
    for name, side in (("A", found.a), ("B", found.b)):
        if side.damage:
            lost = sum(damage.length for damage in side.damage)
            yield f"{name} is damaged: {len(side.damage)} places, {lost} bytes; see kafkarec verify {side.path}"
        if side.lineage.note:
            yield f"{name}: {side.lineage.note}"
    if any(extent.kind == GAP for extent in (*found.only_a, *found.only_b)):
        yield (
            "gaps are no loss where the topic is compacted: each replica's cleaner runs when it likes, and what one "
            "still holds the other may have removed rightly; where it is not compacted they are"
        )
    if found.changed:
        lowest = min(extent.first for extent in found.changed)
        for name, other, cut in (("A", "B", found.a_follows_b), ("B", "A", found.b_follows_a)):
            if cut.offset > lowest:
                yield (
                    f"the leader epochs do not tell the difference at offset {lowest}: {name} following {other} would "
                    f"keep it (it truncates to {cut.offset}), and the two would stay different"
                )


class _Side:
    """Iterates over the batches of one replica; `head` is the next one."""

    def __init__(self, opened: Any, cap: int) -> None:
        from kafkarec import storage

        if not hasattr(opened, "groups"):
            opened = storage.open(opened)
        logs = list(storage.logs(opened))
        if len(logs) != 1:
            raise ValueError(f"{getattr(opened, 'path', opened)} holds {len(logs)} partitions; compare one with one")
        self._log = logs[0]
        self._cap = cap
        self.replica = Replica(str(getattr(opened, "path", opened)), len(self._log.segments))
        self._epochs: list[tuple[int, int]] = []
        self._rows = self._read()
        self.head = next(self._rows, None)

    def next(self) -> None:
        self.head = next(self._rows, None)

    def _read(self) -> Iterator[ReplicaBatch]:
        names = (
            "base_offset",
            "last_offset",
            "partition_leader_epoch",
            "crc",
            "size_in_bytes",
            "magic",
            "record_count",
        )
        replica, next_offset = self.replica, None
        for segment in self._log.segments:
            stream = segment.stream(
                columns=[], control=True, errors="skip", max_decompressed_bytes=self._cap, check_crcs=True
            )
            for piece in stream:
                replica.damage += piece.damage
                table = piece.batches
                columns = [table.column(name) for name in (*names, "position")]
                for base, last, epoch, crc, size, magic, count, position in zip(*columns, strict=True):
                    if base is None:  # the header of a wrapper message has the last offset only
                        base = min(last, next_offset if next_offset is not None else segment.base_offset or 0)
                    if epoch is not None and (not self._epochs or self._epochs[-1][0] != epoch):
                        self._epochs.append((epoch, base))
                    next_offset = last + 1
                    replica.start = base if replica.start is None else replica.start
                    replica.end = next_offset if replica.end is None else max(replica.end, next_offset)
                    replica.batches += 1
                    replica.size += size
                    yield ReplicaBatch(base, last, epoch, crc, size, magic, count, segment, position)

    def records(self, batch: ReplicaBatch) -> list[tuple[int, Any, int, int]]:
        """(offset, fields to compare, leader epoch, bytes of key and value) of a batch's records, by offset."""
        raw = batch.segment.raw(batch.position, batch.size)
        try:
            found = decode(raw, control=True, check_crcs=False, header_keys="binary", max_decompressed_bytes=self._cap)
        except KafkaRecordError:
            return []  # the file changed since it was read
        epoch = -1 if batch.epoch is None else batch.epoch
        return sorted(
            (
                (
                    r.offset or 0,
                    (r.timestamp, r.key, r.value, tuple(r.headers), r.is_control),
                    epoch,
                    len(r.key or b"") + len(r.value or b""),
                )
                for r in found
            ),
            key=lambda item: item[0],
        )

    def finish(self) -> None:
        self.replica.lineage = leader_epochs.of_log(self._log, self._epochs, self.replica.end or 0)
        for segment in self._log.segments:
            segment.close()


class _Window:
    """The records of one side that are not compared yet, where batches differ."""

    def __init__(self, side: _Side) -> None:
        self.side = side
        self.items: deque[tuple[int, Any, int, int]] = deque()
        self.end = 0
        self.batches = 0
        self.size = 0

    def take(self) -> None:
        batch = self.side.head
        if batch is not None:
            self.items.extend(self.side.records(batch))
            self.end = max(self.end, batch.last + 1)
            self.batches += 1
            self.size += batch.size
            self.side.next()

    def below(self, end: int) -> list[tuple[int, Any, int, int]]:
        found = []
        while self.items and self.items[0][0] < end:
            found.append(self.items.popleft())
        return found


class _Walk:
    """Reads both sides in offset order and compares them."""

    def __init__(self, a: _Side, b: _Side) -> None:
        self.a, self.b = a, b
        self.found = Difference(a.replica, b.replica)
        self._equal_so_far = True

    def run(self) -> None:
        a, b, found = self.a, self.b, self.found
        while a.head is not None and b.head is not None:
            one, other = a.head, b.head
            if one.identity == other.identity:
                if self._equal_so_far:
                    found.identical_to = one.last + 1
                    found.identical_batches += 1
                    found.identical_size += one.size
                a.next()
                b.next()
            elif one.last < other.base:
                self._only(a, found.only_a, one, b.replica)
            elif other.last < one.base:
                self._only(b, found.only_b, other, a.replica)
            else:
                self._overlap(one, other)
        while a.head is not None:
            self._only(a, found.only_a, a.head, None)
        while b.head is not None:
            self._only(b, found.only_b, b.head, None)

    def _only(self, side: _Side, extents: list[Extent], batch: ReplicaBatch, other: Replica | None) -> None:
        """Adds a batch of which the other side has no offset. `other`: that side; None if it has ended."""
        kind = HEAD if other is not None and batch.last < (other.start or 0) else ""
        if other is not None and not kind:
            self._differs(batch.base, "only one of the two has a batch here")
        add(extents, Extent(batch.base, batch.last, batch.records, batch.size, kind))
        side.next()

    def _differs(self, offset: int, what: str) -> None:
        self._equal_so_far = False
        if self.found.first is None:
            self.found.first = (offset, what)

    def _overlap(self, one: ReplicaBatch, other: ReplicaBatch) -> None:
        """Compares the records of unequal batches with common offsets, up to an offset where batches end on both
        sides."""
        self._equal_so_far = False
        first = min(one.base, other.base)
        a, b = _Window(self.a), _Window(self.b)
        differences = 0
        a.take()
        b.take()
        while True:
            differences += self._records(a.below(min(a.end, b.end)), b.below(min(a.end, b.end)), one, other)
            if a.end == b.end:
                break
            low, high = (a, b) if a.end < b.end else (b, a)
            if low.side.head is None or low.side.head.base >= high.end:
                differences += self._records(a.below(high.end), b.below(high.end), one, other)
                break
            low.take()
        if not differences:
            add(self.found.rebatched, Extent(first, max(a.end, b.end) - 1, None, a.size, "batching"))

    def _records(self, left: list[Any], right: list[Any], one: ReplicaBatch, other: ReplicaBatch) -> int:
        """Compares lists of records; returns the number of differences."""
        i = j = differences = 0
        while i < len(left) or j < len(right):
            x = left[i] if i < len(left) else None
            y = right[j] if j < len(right) else None
            if y is None or (x is not None and x[0] < y[0]):
                differences += self._single(self.found.only_a, x, "only A has a record here", self.b.replica)
                i += 1
            elif x is None or y[0] < x[0]:
                differences += self._single(self.found.only_b, y, "only B has a record here", self.a.replica)
                j += 1
            else:
                if x[1:3] != y[1:3]:
                    kind = "epoch" if x[2] != y[2] else "content"
                    self._differs(x[0], _describe(kind, x[2], y[2], one, other))
                    add(self.found.changed, Extent(x[0], x[0], 1, x[3], kind))
                    differences += 1
                i += 1
                j += 1
        return differences

    def _single(self, extents: list[Extent], item: Any, what: str, other: Replica) -> int:
        kind = HEAD if item[0] < (other.start or 0) else ""
        if not kind:
            self._differs(item[0], what)
        add(extents, Extent(item[0], item[0], 1, item[3], kind))
        return 1


def _describe(kind: str, epoch_a: int, epoch_b: int, one: ReplicaBatch, other: ReplicaBatch) -> str:
    if kind == "epoch":
        return f"leader epoch {epoch_a} in A, {epoch_b} in B: two leaders wrote here"
    return f"same leader epoch {epoch_a}, other content (crc 0x{one.crc:08x} in A, 0x{other.crc:08x} in B)"


def add(extents: list[Extent], new: Extent) -> None:
    """Appends `new`, or extends the last extent if `new` follows it and has the same kind."""
    last = extents[-1] if extents else None
    if last is not None and last.kind == new.kind and new.first == last.last + 1:
        last.last = new.last
        last.records = None if last.records is None or new.records is None else last.records + new.records
        last.size += new.size
    else:
        extents.append(new)
