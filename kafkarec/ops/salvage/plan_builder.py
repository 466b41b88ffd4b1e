"""Merges several sources into one log, plans its segments and the files of batches set aside, and reports them.

OUT/orders-0/00000000000000000030.log     the log, with the same segments as the source if these are known
OUT/set-aside/orders-0/overlap-0.log      named by reason and index of the source

Which batch is kept if several sources have the same offsets:

1. Equal batches (offsets, leader epoch, CRC, size): the first source's is kept, the others are duplicates.
2. Batches that differ only in the leader epoch: one copy is damaged, as no checksum covers the epoch. The copy with
   the epoch of leader-epoch-checkpoint is kept, else the one whose adjacent batches have the same epoch; the other one
   is set aside.
3. Batches that overlap and are not equal are a conflict. One whose base offset is stored is kept rather than one whose
   base offset is restored: the batches around it may themselves be in the wrong order. Else the one with the higher
   leader epoch is kept, as by a follower (KIP-101). With equal epochs and other offsets one without damage before it is
   kept: behind damage nothing disproves a wrong base offset. Else the one with more records is kept (the other one was
   compacted further), else the first source's. The other one is set aside and reported.
4. With `stale`, for a folder that a broker is to start on: a batch is also set aside if its epoch is below a confirmed
   epoch of an earlier batch, as a broker would truncate it (KIP-101). An epoch is confirmed if the next batch in the
   same source has the same or a higher one: no checksum covers the epoch, and one flipped bit must not exclude the
   rest of a log.

Sources of different topics, which are merged only if the caller says so, have ranks: the epochs of two topics cannot be
compared, so a batch of a lower rank is kept in rules 2 and 3, and is not set aside for one of a higher rank in rule 4.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice

from kafkarec.damage import damage_from_fault
from kafkarec.recover.steps import as_stored
from kafkarec.sidecars.leader_epochs import EpochEntry, epoch_at
from kafkarec.sources.read_failures import partial_read_failure
from kafkarec.storage.good_batches import GoodBatches, ReadProgress, SourceReader
from kafkarec.storage.segment_file import SegmentFile

from .partition_sources import PartitionSources
from .planned_files import FilePlan, PlannedFolder, Spool, Unreadable
from .salvaged_partition import SalvagedPartition

DUPLICATE = "duplicate"


class _BatchStream:
    """The batches of one source, which has a `rank`; `ahead` has the next one and the one after it."""

    def __init__(self, batches: Iterator[GoodBatches], ranks: Sequence[int]) -> None:
        self._batches = batches
        self.ahead = deque(islice(batches, 2))
        self.last: GoodBatches | None = None  # that was taken
        self.rank = ranks[self.head.source] if self.ahead else 0

    @property
    def head(self) -> GoodBatches:
        return self.ahead[0]

    @property
    def following_epoch(self) -> int | None:
        """The leader epoch of the batch after the head; None: there is none."""
        return self.ahead[1].epoch if len(self.ahead) > 1 else None

    def adjacent_epochs(self, before: int) -> int:
        """How many adjacent batches have the epoch of the head: the last kept one has `before`, the next is ahead."""
        return (self.head.epoch == before) + (self.head.epoch == self.following_epoch)

    def split_head(self) -> bool:
        """Whether the head was several batches, of which each is alone now, or a wrapper message that begins later."""
        if self.head.batches > 1:
            self.ahead.extendleft(reversed([*self.ahead.popleft().each()]))
            return True
        if self.head.records is not None or self.head.base == self.head.last:
            return False
        base = self.head.first_inside(self.head.base)
        is_later = base > self.head.base
        self.ahead[0] = self.head._replace(base=base)
        return is_later

    def pop(self) -> GoodBatches:
        good = self.ahead.popleft()
        self.last = good
        if len(self.ahead) < 2:
            self.ahead.extend(islice(self._batches, 1))
        return good

    def is_intact_from(self, offset: int | None) -> bool:
        """Whether nothing is lost between this offset and the head: one segment has both, and what is missing there the
        cleaner removed."""
        if self.head.follows_damage or offset is None or self.last is None:
            return False
        return self.last.segment is self.head.segment and self.last.last + 1 >= offset

    def overlaps(self, good: GoodBatches) -> bool:
        """Whether the head has some of the offsets of a batch."""
        return self.head.base <= good.last and good.base <= self.head.last


def _precedence(stream: _BatchStream, same_offsets: bool) -> tuple[int, bool, int, bool, int, int]:
    """The lowest is kept of batches that overlap (rule 3). same_offsets: whether all have the same ones"""
    head = stream.head
    is_doubtful = head.follows_damage and not same_offsets
    return stream.rank, head.has_restored_base, -head.epoch, is_doubtful, -(head.records or 0), head.source


def merge(
    streams: Sequence[Iterator[GoodBatches]],
    start: int | None,
    stale: bool,
    ranks: Sequence[int],
    epochs: Sequence[EpochEntry],
) -> Iterator[tuple[GoodBatches, str]]:
    """Yields the batches of all streams as one log, each with "" or the reason why it is not in the log: DUPLICATE, a
    second copy, or a reason to set it aside.

    start   the first offset of the log; None: that of the first batch
    stale   set batches with a stale leader epoch aside (rule 4)
    ranks   of the sources
    epochs  of the log, by leader-epoch-checkpoint
    """
    remaining = [_BatchStream(batches, ranks) for batches in streams]
    next_offset, epoch = start, -1
    confirmed_epochs: dict[int, tuple[int, int]] = {}  # source -> (its rank, its highest confirmed epoch)
    while remaining := sorted(
        (one for one in remaining if one.ahead),
        key=lambda one: (one.head.base, one.head.source, one.head.position),
    ):
        first, good = remaining[0], remaining[0].head
        damaged, is_whole = good.follows_damage, first.is_intact_from(next_offset)
        around = [stream for stream in remaining if stream.overlaps(good)]
        differ = any(stream.head.comparison_key != good.comparison_key for stream in around)
        is_stale = stale and any(
            known > good.epoch >= 0 and rank <= first.rank
            for source, (rank, known) in confirmed_epochs.items()
            if source != good.source
        )
        is_behind = next_offset is not None and good.base < next_offset
        if (differ or is_stale or is_behind) and any(stream.split_head() for stream in around):
            continue  # each of their batches is decided about alone, with the offsets that it has
        for other in remaining[1:]:
            while other.ahead and other.head.comparison_key == good.comparison_key:
                damaged, is_whole = damaged or other.head.follows_damage, is_whole or other.is_intact_from(next_offset)
                yield other.pop(), DUPLICATE
        around = [stream for stream in remaining if stream.ahead and stream.overlaps(good)]
        copies = [
            stream for stream in around if stream.head._replace(epoch=good.epoch).comparison_key == good.comparison_key
        ]
        if len(copies) > 1:
            known_epoch, before = epoch_at(epochs, good.last), epoch
            best = max(copies, key=lambda one: (-one.rank, one.head.epoch == known_epoch, one.adjacent_epochs(before)))
            for stream in copies:
                if stream is not best:
                    yield stream.pop(), "other_epoch"
        elif len(around) > 1:
            offsets = {(stream.head.base, stream.head.last) for stream in around}
            winner = min(around, key=partial(_precedence, same_offsets=len(offsets) == 1))
            for stream in remaining:
                if stream is not winner and stream.ahead and stream.overlaps(winner.head):
                    loser = stream.pop()
                    has_other_epoch = loser.epoch != winner.head.epoch
                    yield loser, "conflict_epoch" if has_other_epoch else "conflict_content"
        elif is_behind:
            yield first.pop(), "overlap"
        elif is_stale:
            yield first.pop(), "stale_epoch"
        else:
            following = first.following_epoch
            if good.batches > 1 or (following is not None and following >= good.epoch):
                confirmed_epochs[good.source] = max(
                    confirmed_epochs.get(good.source, (first.rank, -1)), (first.rank, good.epoch)
                )
            next_offset, epoch = good.last + 1, good.epoch
            first.pop()
            yield good._replace(follows_damage=damaged and not is_whole), ""


MAX_SEGMENT = (
    2**31 - 1
)  # limit of a segment's bytes, and of its offsets relative to the base offset: an index has int32
_UNORDERED_SEGMENT_BYTES = 1 << 30  # of a file in which the batches may be in any order
_MOST_GAPS = 1000  # a compacted log has millions; only those of logs that were never compacted are used


@dataclass(frozen=True)
class SalvageOptions:
    """Options of `salvage`. spool: see Spool"""

    out: str
    as_partition: bool
    new_cluster: bool
    max_decompressed_bytes: int
    undecided: str
    keep_end: bool
    restore: bool
    threads: int
    progress: ReadProgress
    spool: Spool | None = None


class PlanBuilder:
    """Adds the merged batches of a partition to a planned folder and its report.

    start          the first offset of the log; None: that of the first batch
    base_offsets   ascending base offsets at which a new segment begins

    .reader        reads a source into the plan; copies of it read the others
    """

    def __init__(
        self,
        partition: PartitionSources,
        options: SalvageOptions,
        folder: str,
        start: int | None = None,
        base_offsets: Sequence[int] = (),
    ) -> None:
        self._partition, self._stale = partition, options.as_partition
        self.report = report = SalvagedPartition(folder, partition.topic, partition.partition)
        self.folder = PlannedFolder(report, options.out, options.spool)
        self._next_offset, self._base_offsets = start, base_offsets
        self._plan: FilePlan | None = None
        self._most_bytes = MAX_SEGMENT if base_offsets else _UNORDERED_SEGMENT_BYTES
        self.reader = SourceReader(
            options.max_decompressed_bytes,
            [] if options.restore else None,
            self.folder.keep_aside,
            report.unread,
            report.tails,
            options.progress,
            options.threads,
        )

    def report_collected(self) -> None:
        """Reports what the reading of the sources found, before what the plan found."""
        self.report.damage[:0] = [one.as_dict() for one in self.reader.damage]
        self.report.restored = [one.as_dict() for one in self.reader.restored or ()]

    def add_merged(self, streams: Sequence[Iterator[GoodBatches]]) -> None:
        """Adds the batches of all streams as one log, sets aside those that are not in it, and counts duplicates."""
        report, partition = self.report, self._partition
        ranks = [source.rank for source in partition.sources]
        for good, reason in merge(streams, self._next_offset, self._stale, ranks, partition.epoch_entries):
            if reason == DUPLICATE:
                report.duplicates += good.batches
                report.duplicate_size += good.size
            elif reason:
                self.folder.keep_aside(good.as_set_aside(reason))
            else:
                self._report_missing_offsets(good.base, good.follows_damage)
                report.compacted = report.compacted or good.has_fewer_records
                if report.start_offset is None:
                    report.start_offset = good.base
                report.next_offset = self._next_offset = good.last + 1
                self._add_to_log(good)
        self.folder.join_aside()

    def end_with_empty_segment(self, base: int, damaged: bool) -> None:
        """The log ends with a segment of this name, without a batch. damaged: there is damage behind the last batch"""
        self._report_missing_offsets(base, damaged)
        self.folder.add_empty_segment(base)

    def _report_missing_offsets(self, base: int, damaged: bool) -> None:
        """Reports the offsets that are missing before a kept batch."""
        report, first, last = self.report, self._next_offset, base - 1
        if first is not None and first <= last:
            if damaged:
                report.lost.append((first, last))
            else:
                report.gaps += base - first
                report.gaps_end = base
                at = bisect_right(self._base_offsets, base)
                if at and first < self._base_offsets[at - 1]:  # a segment is named by its first offset
                    report.missing.append((first, self._base_offsets[at - 1] - 1))
                elif len(report.inner_gaps) < _MOST_GAPS:
                    report.inner_gaps.append((first, last))
        elif damaged and report.start_offset is None and last >= 0:
            report.lost.append((None, last))

    def _add_to_log(self, good: GoodBatches) -> None:
        at = bisect_right(self._base_offsets, good.base)
        base_offset = self._base_offsets[at - 1] if at else -1
        file = self.report.files[-1] if self.report.files else None
        begins = file is None or base_offset > max(file.base_offset, as_stored(file.last_offset))
        is_far = good.last - (good.base if file is None or begins else file.base_offset) > MAX_SEGMENT
        is_full = self._plan is not None and self._plan.size + good.size > self._most_bytes
        if good.batches > 1 and (is_far or is_full or bisect_right(self._base_offsets, good.last) > at):
            for one in good.each():
                self._add_to_log(one)
            return
        if self._plan is None or begins or is_full or is_far:
            # One that begins because of its size, or of its offsets, is named after its first batch.
            self._plan = self.folder.add_segment(base_offset if base_offset >= 0 and begins else good.base)
        header = good.header or b""
        try:
            segment, position = self.folder.keep_range(good.segment, good.position, good.size)
        except Unreadable:
            if good.batches == 1:
                report_unreadable(self.report, good.segment, good.position, good.size, good.base, good.last)
                self.report.lost.append((good.base, good.last))
                return
            for one in good.each():
                self._add_to_log(one)
            return
        self._plan.append(header)
        self._plan.copy(segment, position + len(header), good.size - len(header))
        self._plan.hash_sum += good.hash_sum
        file = self.report.files[-1]
        records = 1 if good.records is None else good.records  # a message of magic 0 or 1, as verify counts them
        for counted in (file, self.report):
            counted.batches += good.batches
            counted.records += records
            counted.size += good.size
        file.first_offset = good.base if file.first_offset is None else file.first_offset
        file.last_offset = good.last


def report_unreadable(
    report: SalvagedPartition,
    segment: SegmentFile,
    position: int,
    size: int,
    base: int | None = None,
    last: int | None = None,
) -> None:
    """Reports bytes that were read and checked before, but cannot be read again, as damage. base, last: their
    offsets"""
    fault = {"position": position, "base_offset": base, "file": segment.path}
    report.damage.append(damage_from_fault(segment.path, position, size, base, last, "unreadable", fault).as_dict())
    report.unread.append(partial_read_failure(segment.path))
