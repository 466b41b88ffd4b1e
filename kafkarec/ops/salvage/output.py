"""The output of one partition: its segments, the batches set aside, and their entries in the report.

OUT/orders-0/00000000000000000030.log       the log, with the source's segments where they are known
OUT/set-aside/orders-0/overlap-0-1.log      reason, index of the source, step
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Callable
from itertools import groupby

from kafkarec.damage import Damage, sentence
from kafkarec.storage import Segment
from kafkarec.support.durable import make_folder, sync_folder

from .copying import Output, Unreadable, digest
from .good_batches import Aside, GoodBatch
from .merge import DUPLICATE, Choice
from .report import OutputFile, SalvagedPartition, SetAside

SET_ASIDE = "set-aside"
_LARGEST = 2**31 - 1  # bytes of a segment, and offsets from its base: what an index can point at
_FLUSH = 8 << 20

Progress = Callable[[str, int], None]


def segment_name(base: int) -> str:
    return f"{base:020d}.log"


class PartitionWriter:
    """Writes the merged batches of one step.

    out            the output folder; None for a dry run
    base_offsets   ascending base offsets at which a new segment begins
    roll           max size of a segment in bytes
    """

    def __init__(
        self,
        out: str | None,
        folder: str,
        step: str,
        base_offsets: list[int],
        roll: int,
        report: SalvagedPartition,
        progress: Progress,
    ) -> None:
        self.report = report
        self._out, self._folder, self._step = out, folder, step
        self._base_offsets, self._roll = base_offsets, min(roll, _LARGEST)
        self._progress = progress
        self._file: OutputFile | None = None
        self._base = 0
        self._output: Output | None = None
        self._pending: list[GoodBatch] = []
        self._pending_size = 0
        self._aside: dict[str, Output] = {}

    def choose(self, choice: Choice | Aside) -> None:
        if isinstance(choice, Aside):
            self.set_aside(choice)
        elif choice.decision == DUPLICATE:
            self.report.duplicates += 1
            self.report.duplicate_size += choice.row.size
        else:
            self._account(choice)
            self._keep(choice.row)

    def _account(self, choice: Choice) -> None:
        """Adds the offsets that are missing before a kept batch to the report."""
        row, report = choice.row, self.report
        if choice.gap is not None:
            if row.damaged:
                report.lost.append(choice.gap)
            else:
                report.gaps += choice.gap[1] - choice.gap[0] + 1
                at = bisect_right(self._base_offsets, row.base)
                if at and choice.gap[0] < self._base_offsets[at - 1]:  # a segment is named by its first offset
                    report.missing.append((choice.gap[0], self._base_offsets[at - 1] - 1))
        elif row.damaged and report.next_offset is None and report.start_offset is None and row.base > 0:
            report.lost.append((None, row.base - 1))
        if report.start_offset is None:
            report.start_offset = row.base
        report.next_offset = row.last + 1

    def _keep(self, row: GoodBatch) -> None:
        at = bisect_right(self._base_offsets, row.base)
        base_offset = self._base_offsets[at - 1] if at else -1
        size = self._pending_size + (self._file.size if self._file else 0)
        if (
            self._file is None
            or base_offset > self._base
            or size + row.size > self._roll
            or row.last - self._base > _LARGEST
        ):
            # A segment that begins because of `roll` is named by its first batch.
            at_border = base_offset >= 0 and (self._file is None or base_offset > self._base)
            self.close_segment()
            self._open_segment(base_offset if at_border else row.base)
        last = self._pending[-1] if self._pending else None
        if last is not None and (
            last.segment is not row.segment or last.position + last.size != row.position or self._pending_size > _FLUSH
        ):
            self._flush()
        self._pending.append(row)
        self._pending_size += row.size

    def _open_segment(self, base: int) -> None:
        self._base = base
        self._file = OutputFile(segment_name(base), 0, "", 0, 0, None, None)
        if self._out is not None:
            folder = os.path.join(self._out, self._folder)
            make_folder(folder)
            self._output = Output(folder, self._file.name)

    def empty_segment(self, base: int) -> None:
        """Writes an empty segment, as the source's last one is: its name is the end offset of the log."""
        self._open_segment(base)
        self.close_segment()
        self.report.start_offset = base if self.report.start_offset is None else self.report.start_offset
        self.report.next_offset = base

    def _flush(self) -> None:
        """Copies the pending batches, which are adjacent, in one call; one by one if that fails."""
        rows, self._pending, size, self._pending_size = self._pending, [], self._pending_size, 0
        if not rows:
            return
        try:
            self._copy(rows[0].segment, rows[0].position, size)
        except Unreadable:
            for row in rows:
                try:
                    self._copy(row.segment, row.position, row.size)
                    self._count(row)
                except Unreadable:
                    self._report_unreadable(row)
        else:
            for row in rows:
                self._count(row)
        self._progress(rows[-1].segment.path, rows[-1].position + rows[-1].size)

    def _copy(self, segment: Segment, position: int, size: int) -> None:
        if self._output is not None:
            self._output.copy(segment, position, size)

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
        """Reports a batch as damage that was read and checked before but cannot be read again."""
        fault = {"position": row.position, "base_offset": row.base, "file": row.segment.path}
        text = sentence("unreadable", fault)
        damage = Damage(
            row.segment.path, row.position, row.size, row.base, row.last, row.position + row.size, "unreadable", text
        )
        self.report.damage.append(damage._asdict())
        self.report.lost.append((row.base, row.last))

    def close_segment(self) -> None:
        """Syncs the segment and adds it to the report."""
        self._flush()
        if self._file is None:
            return
        output, self._output = self._output, None
        file, self._file = self._file, None
        if output is not None:
            try:
                output.commit()
            finally:
                output.drop()
            sync_folder(output.folder)
            file.sha256 = digest(output.path)
        if file.batches or file.last_offset is None:
            self.report.files.append(file)

    def set_aside(self, aside: Aside) -> None:
        """Copies a batch to a file outside of the log and adds it to the report."""
        name = f"{aside.reason}-{aside.source}-{self._step}.log"
        saved_as = f"{SET_ASIDE}/{self._folder}/{name}"
        if self._out is not None:
            if name not in self._aside:
                folder = os.path.join(self._out, SET_ASIDE, self._folder)
                make_folder(folder)
                self._aside[name] = Output(folder, name)
            try:
                self._aside[name].copy(aside.segment, aside.position, aside.size)
            except Unreadable:
                return
        self.report.set_aside.append(
            SetAside(aside.segment.path, aside.position, aside.size, aside.base, aside.last, aside.reason, saved_as)
        )

    def finish(self) -> None:
        """Syncs all files of the step."""
        self.close_segment()
        for output in self._aside.values():
            output.commit()
            sync_folder(output.folder)
        self._aside = {}
        self.report.set_aside = _joined(self.report.set_aside)

    def drop(self) -> None:
        """Removes incomplete files. May be called after `finish`."""
        for output in (self._output, *self._aside.values()):
            if output is not None:
                output.drop()


def _joined(found: list[SetAside]) -> list[SetAside]:
    """Joins entries of batches that are adjacent in their file."""
    out: list[SetAside] = []
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
