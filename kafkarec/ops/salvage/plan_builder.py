"""Plans the segments of one partition and the files of batches set aside, and reports them.

OUT/orders-0/00000000000000000030.log     the log, with the same segments as the source if these are known
OUT/set-aside/orders-0/overlap-0.log      named by reason and index of the source
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kafkarec.damage import damaged
from kafkarec.recover.steps import as_stored
from kafkarec.sources.read_failures import in_part
from kafkarec.storage.good_batches import DamageCollector, GoodBatch, ReadProgress
from kafkarec.storage.segment_file import SegmentFile

from .copying import Spool, Unreadable
from .merge import DUPLICATE
from .partition_sources import SalvagePartition
from .planned_files import FilePlan, PlannedFolder
from .salvaged_partition import SalvagedPartition, add_counts

MAX_SEGMENT = (
    2**31 - 1
)  # limit of a segment's bytes, and of its offsets relative to the base offset: an index has int32
UNORDERED_SEGMENT_BYTES = 1 << 30  # of a file in which the batches may be in any order
_MOST_GAPS = 1000  # a compacted log has millions; only those of logs that were never compacted are used


@dataclass(frozen=True)
class SalvageOptions:
    """Options of `salvage`, and what is shared by its partitions.

    new_folder   makes a name for one more folder
    spool        see Spool
    """

    out: str
    as_partition: bool
    new_cluster: bool
    max_decompressed_bytes: int
    undecided: str
    keep_end: bool
    restore: bool
    threads: int
    progress: ReadProgress
    new_folder: Callable[[], str] = str
    spool: Spool | None = None


class PlanBuilder:
    """Adds the merged batches of a partition to a planned folder and its report.

    start          the first offset of the log; None: that of the first batch
    base_offsets   ascending base offsets at which a new segment begins
    roll           max size of a segment in bytes

    .collector     what is passed to what reads good batches of sources into the plan
    """

    def __init__(
        self,
        partition: SalvagePartition,
        options: SalvageOptions,
        folder: str,
        start: int | None = None,
        base_offsets: Sequence[int] = (),
        roll: int = UNORDERED_SEGMENT_BYTES,
    ) -> None:
        self.report = report = SalvagedPartition(folder, partition.topic, partition.partition)
        self.folder = PlannedFolder(report, options.out, options.spool)
        self._next_offset, self._base_offsets, self._roll = start, base_offsets, roll
        self._plan: FilePlan | None = None
        self._base = 0
        self.collector = DamageCollector(
            options.max_decompressed_bytes,
            [] if options.restore else None,
            self.folder.keep_aside,
            report.unread,
            report.tails,
            options.progress,
            options.threads,
        )

    def add_collected(self) -> None:
        """Reports what the reading of the sources found, before what the plan found."""
        self.report.damage[:0] = [one.as_dict() for one in self.collector.damage]
        self.report.restored = [one.as_dict() for one in self.collector.restored or ()]

    def add(self, row: GoodBatch, reason: str) -> None:
        """Adds a batch to the log, if there is no reason to set it aside; counts it if it is a duplicate."""
        if reason == DUPLICATE:
            self.report.duplicates += row.batches
            self.report.duplicate_size += row.size
        elif reason:
            self.folder.keep_aside(row.aside(reason))
        else:
            self._report_missing_offsets(row.base, row.damaged)
            report = self.report
            report.compacted = report.compacted or row.has_fewer_records
            if report.start_offset is None:
                report.start_offset = row.base
            report.next_offset = self._next_offset = row.last + 1
            self._add(row)

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

    def _add(self, row: GoodBatch) -> None:
        at = bisect_right(self._base_offsets, row.base)
        base_offset = self._base_offsets[at - 1] if at else -1
        last = self.report.files[-1].last_offset if self.report.files else None
        begins = self._plan is None or base_offset > max(self._base, as_stored(last))
        is_far = row.last - (row.base if begins else self._base) > MAX_SEGMENT
        is_full = self._plan is not None and self._plan.size + row.size > self._roll
        if row.batches > 1 and (is_far or is_full or bisect_right(self._base_offsets, row.last) > at):
            for one in row.each():
                self._add(one)
            return
        if self._plan is None or begins or is_full or is_far:
            # A segment that begins because of `roll` is named after its first batch.
            self._base = base_offset if base_offset >= 0 and begins else row.base
            self._plan = self.folder.add_segment(self._base)
        header = row.header or b""
        try:
            segment, position = self.folder.kept(row.segment, row.position, row.size)
        except Unreadable:
            if row.batches == 1:
                report_unreadable(self.report, row.segment, row.position, row.size, row.base, row.last)
                self.report.lost.append((row.base, row.last))
                return
            for one in row.each():
                self._add(one)
            return
        self._plan.append(header)
        self._plan.copy(segment, position + len(header), row.size - len(header))
        self._plan.hashes += row.hashes
        file = self.report.files[-1]
        records = 1 if row.records is None else row.records  # a message of magic 0 or 1, as verify counts them
        add_counts((file, self.report), row.batches, records, row.size)
        file.first_offset = row.base if file.first_offset is None else file.first_offset
        file.last_offset = row.last


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
    report.damage.append(damaged(segment.path, position, size, base, last, "unreadable", fault).as_dict())
    report.unread.append(in_part(segment.path))
