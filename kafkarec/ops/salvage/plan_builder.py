"""Plans the segments of one partition and the files of batches set aside, and reports them.

OUT/orders-0/00000000000000000030.log     the log, with the same segments as the source if these are known
OUT/set-aside/orders-0/overlap-0.log      named by reason and index of the source
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import groupby

from kafkarec.damage import damaged
from kafkarec.sources.read_failures import in_part
from kafkarec.storage.good_batches import GoodBatch, SetAsideBatch
from kafkarec.storage.rebuild_folder import filename_prefix
from kafkarec.storage.segment_file import SegmentFile

from .copying import Unreadable
from .merge import DUPLICATE, MergedBatch
from .planned_files import FilePlan, PlannedFolder
from .salvaged_partition import OutputFile, SalvagedPartition, SetAsideRange

MAX_SEGMENT = (
    2**31 - 1
)  # limit of a segment's bytes, and of its offsets relative to the base offset: an index has int32
_MOST_GAPS = 1000  # a compacted log has millions; only those of logs that were never compacted are used


class PlanBuilder:
    """Adds the merged batches of a partition to a plan and its report.

    folder         receives the files
    base_offsets   ascending base offsets at which a new segment begins
    roll           max size of a segment in bytes
    """

    def __init__(
        self, report: SalvagedPartition, folder: PlannedFolder, base_offsets: list[int], roll: int = MAX_SEGMENT
    ) -> None:
        self.report, self.folder = report, folder
        self._base_offsets, self._roll = base_offsets, roll
        self._plan: FilePlan | None = None
        self._base = 0

    def add(self, merged: MergedBatch | SetAsideBatch) -> None:
        """Adds a batch to the log or sets it aside; counts it if it is a duplicate."""
        if isinstance(merged, SetAsideBatch):
            self.set_aside(merged)
        elif merged.decision == DUPLICATE:
            self.report.duplicates += merged.row.batches
            self.report.duplicate_size += merged.row.size
        else:
            self._report_missing_offsets(merged)
            self._add(merged.row)

    def _report_missing_offsets(self, merged: MergedBatch) -> None:
        """Reports the offsets that are missing before a kept batch."""
        row, report = merged.row, self.report
        if merged.gap is not None:
            if row.damaged:
                report.lost.append(merged.gap)
            else:
                report.gaps += merged.gap[1] - merged.gap[0] + 1
                report.gaps_end = merged.gap[1] + 1
                at = bisect_right(self._base_offsets, row.base)
                if at and merged.gap[0] < self._base_offsets[at - 1]:  # a segment is named by its first offset
                    report.missing.append((merged.gap[0], self._base_offsets[at - 1] - 1))
                elif len(report.inner_gaps) < _MOST_GAPS:
                    report.inner_gaps.append(merged.gap)
        elif row.damaged and report.next_offset is None and report.start_offset is None and row.base > 0:
            report.lost.append((None, row.base - 1))
        report.compacted = report.compacted or row.has_fewer_records
        if report.start_offset is None:
            report.start_offset = row.base
        report.next_offset = row.last + 1

    def _add(self, row: GoodBatch) -> None:
        at = bisect_right(self._base_offsets, row.base)
        base_offset = self._base_offsets[at - 1] if at else -1
        begins = self._plan is None or base_offset > self._base
        is_far = row.last - (row.base if begins else self._base) > MAX_SEGMENT
        is_full = self._plan is not None and self._plan.size + row.size > self._roll
        if row.batches > 1 and (is_far or is_full or bisect_right(self._base_offsets, row.last) > at):
            for one in row.each():
                self._add(one)
            return
        if self._plan is None or begins or is_full or is_far:
            # A segment that begins because of `roll` is named after its first batch.
            self._plan = self._new_segment(base_offset if base_offset >= 0 and begins else row.base)
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
        file, report = self.report.files[-1], self.report
        for counts in (file, report):
            counts.batches += row.batches
            counts.records += row.records or 0
            counts.size += row.size
        file.first_offset = row.base if file.first_offset is None else file.first_offset
        file.last_offset = row.last

    def _new_segment(self, base: int) -> FilePlan:
        self._base = base
        name = filename_prefix(base) + ".log"
        self.report.files.append(OutputFile(name, 0, "", 0, 0, None, None))
        return self.folder.add(FilePlan(name))

    def empty_segment(self, base: int) -> None:
        """Adds an empty segment, for a source whose last segment is empty. Its name has the log end offset."""
        self._new_segment(base)
        self.report.start_offset = base if self.report.start_offset is None else self.report.start_offset
        self.report.next_offset = base

    def set_aside(self, aside: SetAsideBatch) -> None:
        """Adds a batch to a file outside of the log and to the report."""
        try:
            segment, position = self.folder.kept(aside.segment, aside.position, aside.size)
        except Unreadable:
            self.report.unread.append(in_part(aside.segment.path))
            return
        saved_as, file = self.folder.aside(f"{aside.reason}-{aside.source}.log")
        file.copy(segment, position, aside.size)
        place = aside.segment.path, aside.position, aside.size, aside.base, aside.last
        self.report.set_aside.append(SetAsideRange(*place, aside.reason, saved_as))

    def finish(self) -> None:
        """Joins adjacent batches that are set aside."""
        self.report.set_aside = _joined(self.report.set_aside)


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


def _joined(found: list[SetAsideRange]) -> list[SetAsideRange]:
    """The entries, with those of adjacent batches of a file joined."""
    out: list[SetAsideRange] = []
    for _, group in groupby(sorted(found, key=lambda one: (one.file, one.position)), key=lambda one: one.saved_as):
        for one in group:
            last = out[-1] if out else None
            if last and last.saved_as == one.saved_as and last.position + last.size == one.position:
                last.size += one.size
                last.batches += one.batches
                last.last_offset = one.last_offset
            else:
                out.append(one)
    return out
