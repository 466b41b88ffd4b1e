"""Writes the segments of one partition and the files of batches set aside, and reports them.

OUT/orders-0/00000000000000000030.log       the log, with the same segments as the source if these are known
OUT/set-aside/orders-0/overlap-0-1.log      named by reason, index of the source, step
"""

from __future__ import annotations

import os
from bisect import bisect_right
from itertools import groupby

from kafkarec.damage import damaged
from kafkarec.sources.read_failures import in_part
from kafkarec.storage.rebuild_folder import filename_prefix
from kafkarec.support.durable import FileGroup

from .copying import Output, PlannedFolder, PlannedOutput, Unreadable
from .good_batches import GoodBatch, SetAsideBatch
from .merge import DUPLICATE, MergedBatch
from .salvaged_partition import OutputFile, SalvagedPartition, SetAsideRange

SET_ASIDE = "set-aside"
_INT32_MAX = 2**31 - 1  # limit of a segment's bytes, and of its offsets relative to the base offset: an index has int32
_FLUSH_BYTES = 8 << 20
_MOST_GAPS = 1000  # a compacted log has millions; only those of logs that were never compacted are used


class PartitionWriter:
    """Writes the merged batches of one step. Its files are complete, and not yet synced, when it is finished.

    files          receives the new files; None for a dry run
    out            the output folder
    folder         the partition's folder in it
    base_offsets   ascending base offsets at which a new segment begins
    roll           max size of a segment in bytes
    planned        receives the segments of a dry run
    """

    def __init__(
        self,
        files: FileGroup | None,
        out: str,
        folder: str,
        step: str,
        base_offsets: list[int],
        roll: int,
        report: SalvagedPartition,
        planned: PlannedFolder,
    ) -> None:
        self.report = report
        self._files, self._planned = files, planned
        self._out, self._folder, self._step = out, folder, step
        self._base_offsets, self._roll = base_offsets, min(roll, _INT32_MAX)
        self._file: OutputFile | None = None
        self._base = 0
        self._output: Output | None = None
        self._plan = PlannedOutput("")
        self._pending: list[GoodBatch] = []
        self._pending_size = 0
        self._set_aside_files: dict[str, Output] = {}

    def add(self, merged: MergedBatch | SetAsideBatch) -> None:
        """Writes a batch to the log or sets it aside; counts it if it is a duplicate."""
        if isinstance(merged, SetAsideBatch):
            self.set_aside(merged)
        elif merged.decision == DUPLICATE:
            self.report.duplicates += 1
            self.report.duplicate_size += merged.row.size
        else:
            self._report_missing_offsets(merged)
            self._write(merged.row)

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

    def _write(self, row: GoodBatch) -> None:
        at = bisect_right(self._base_offsets, row.base)
        base_offset = self._base_offsets[at - 1] if at else -1
        size = self._pending_size + (self._file.size if self._file else 0)
        if (
            self._file is None
            or base_offset > self._base
            or size + row.size > self._roll
            or row.last - self._base > _INT32_MAX
        ):
            # A segment that begins because of `roll` is named after its first batch.
            at_border = base_offset >= 0 and (self._file is None or base_offset > self._base)
            self.close_segment()
            self._open_segment(base_offset if at_border else row.base)
        last = self._pending[-1] if self._pending else None
        if last is not None and (
            last.segment is not row.segment
            or last.header is not None
            or row.header is not None
            or last.position + last.size != row.position
            or self._pending_size > _FLUSH_BYTES
        ):
            self._flush()
        self._pending.append(row)
        self._pending_size += row.size

    def _open_segment(self, base: int) -> None:
        self._base = base
        self._file = OutputFile(filename_prefix(base) + ".log", 0, "", 0, 0, None, None)
        if self._files is None:
            self._plan = PlannedOutput(self._file.name)
            self._planned.add(self._plan)
            return
        folder = os.path.join(self._out, self._folder)
        self._files.make_folder(folder)
        self._output = Output(folder, self._file.name)

    def empty_segment(self, base: int) -> None:
        """Writes an empty segment, for a source whose last segment is empty. Its name has the log end offset."""
        self._open_segment(base)
        self.close_segment()
        self.report.start_offset = base if self.report.start_offset is None else self.report.start_offset
        self.report.next_offset = base

    def _flush(self) -> None:
        """Copies the pending batches, which are adjacent, in one call, or one by one if that fails."""
        rows, self._pending, size, self._pending_size = self._pending, [], self._pending_size, 0
        if not rows:
            return
        try:
            self._copy(rows[0], size)
        except Unreadable:
            for row in rows:
                try:
                    self._copy(row, row.size)
                    self._count(row)
                except Unreadable:
                    self._report_unreadable(row)
        else:
            for row in rows:
                self._count(row)

    def _copy(self, row: GoodBatch, size: int) -> None:
        """Copies `size` bytes from the start of a batch on; a batch with a restored header is copied alone."""
        header = row.header or b""
        if self._output is None:
            self._plan.append(header)
            self._plan.copy(row.segment, row.position + len(header), size - len(header))
            return
        old_size = self._output.size
        try:
            self._output.append(header)
            self._output.copy(row.segment, row.position + len(header), size - len(header))
        except Unreadable:
            self._output.cut(old_size)
            raise

    def _count(self, row: GoodBatch) -> None:
        assert self._file is not None
        file, report = self._file, self.report
        for counts in (file, report):
            counts.batches += 1
            counts.records += row.records or 0
            counts.size += row.size
        file.first_offset = row.base if file.first_offset is None else file.first_offset
        file.last_offset = row.last

    def _report_unreadable(self, row: GoodBatch) -> None:
        """Reports a batch that was read and checked before, but cannot be read again, as damage."""
        fault = {"position": row.position, "base_offset": row.base, "file": row.segment.path}
        damage = damaged(row.segment.path, row.position, row.size, row.base, row.last, "unreadable", fault)
        self.report.damage.append(damage.as_dict())
        self.report.lost.append((row.base, row.last))
        self.report.unread.append(in_part(row.segment.path))

    def close_segment(self) -> None:
        """Completes the open segment, if there is one, and adds it to the report."""
        self._flush()
        if self._file is None:
            return
        output, self._output = self._output, None
        file, self._file = self._file, None
        if output is not None and self._files is not None:
            self._files.add(output)
        if file.batches or file.last_offset is None:
            self.report.files.append(file)

    def set_aside(self, aside: SetAsideBatch) -> None:
        """Copies a batch to a file outside of the log and adds it to the report."""
        name = f"{aside.reason}-{aside.source}-{self._step}.log"
        saved_as = f"{SET_ASIDE}/{self._folder}/{name}"
        if self._files is not None:
            if name not in self._set_aside_files:
                folder = os.path.join(self._out, SET_ASIDE, self._folder)
                self._files.make_folder(folder)
                self._set_aside_files[name] = Output(folder, name)
            try:
                self._set_aside_files[name].copy(aside.segment, aside.position, aside.size)
            except Unreadable:
                self.report.unread.append(in_part(aside.segment.path))
                return
        else:
            planned = self._planned.set_aside.setdefault(saved_as, PlannedOutput(name))
            planned.copy(aside.segment, aside.position, aside.size)
        self.report.set_aside.append(
            SetAsideRange(
                aside.segment.path, aside.position, aside.size, aside.base, aside.last, aside.reason, saved_as
            )
        )

    def finish(self) -> None:
        """Completes all files of the step."""
        self.close_segment()
        while self._set_aside_files and self._files is not None:
            self._files.add(self._set_aside_files.pop(next(iter(self._set_aside_files))))
        self.report.set_aside = _joined(self.report.set_aside)

    def drop(self) -> None:
        """Removes incomplete files. May be called after `finish`."""
        for output in (self._output, *self._set_aside_files.values()):
            if output is not None:
                output.drop()


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
