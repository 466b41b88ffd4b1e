"""Checks of leader-epoch-checkpoint against the leader epochs of the batches of magic 2

The file may also have epochs of leaders that wrote nothing, and start offsets of batches that were cleaned. It must not
differ from the existing batches: a follower would truncate its log at the wrong offset.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from kafkarec.format.layout import BATCH_MAGIC
from kafkarec.recover.steps import Step
from kafkarec.sidecars.leader_epochs import EpochEntry

from .finding_kinds import ANOMALY, NOTE
from .side_file_findings import ReportFile

_FIRST_LINE = 3  # of the first entry


class EpochCheckpointCheck:
    """Compares the entries with the batches. Call `add` with all batches of a log in order."""

    def __init__(self, entries: Sequence[EpochEntry], report: ReportFile) -> None:
        self._report_file = report
        self._entries = entries
        self._at = -1  # index of the entry for the last batch
        self._reported: tuple[int, int | None] | None = None  # a difference is reported once, not for every batch
        for number, (previous, entry) in enumerate(pairwise(entries), 1):
            if entry.epoch <= previous.epoch or entry.start_offset < previous.start_offset:
                report(
                    "epoch_order",
                    f"line {number + _FIRST_LINE}: epoch {entry.epoch} from offset {entry.start_offset} follows epoch "
                    f"{previous.epoch} from offset {previous.start_offset}; both must ascend",
                )

    def add(self, step: Step, same_epoch: bool) -> None:
        """Compares the batches of the next step. same_epoch: all have the epoch of the batch before them."""
        entries = self._entries
        last = step.cell("base_offset", len(step) - 1)
        changes = self._at + 1 < len(entries) and (last is None or entries[self._at + 1].start_offset <= last)
        if same_epoch and not changes:
            return
        names = ("base_offset", "magic", "partition_leader_epoch")
        for base, magic, epoch in zip(*map(step.column, names), strict=True):
            if magic < BATCH_MAGIC or epoch is None or epoch < 0:
                continue
            while self._at + 1 < len(entries) and entries[self._at + 1].start_offset <= base:
                self._at += 1
            known = entries[self._at].epoch if self._at >= 0 else None
            if known == epoch:
                self._reported = None
            elif self._reported != (epoch, known):
                self._reported = epoch, known
                self._report(base, epoch, known)

    def _report(self, base: int, epoch: int, known: int | None) -> None:
        batch = f"the batch at offset {base} was written in leader epoch {epoch}"
        harm = "a replica that compares epochs may truncate its log at the wrong offset"
        if known is not None:
            severity, sentence = None, f"{batch}, the file says {known}: {harm}"
        elif self._entries and epoch <= self._entries[0].epoch:
            severity = NOTE
            sentence = f"{batch}, which is before the first entry: earlier records were deleted (DeleteRecords)"
        else:
            severity, sentence = ANOMALY, f"{batch}, which has no entry: {harm}"
        self._report_file("epoch_differs", sentence, severity)
