"""Partition leader epochs: each batch of magic 2 has the epoch of the leader that appended it (KIP-101).

They never decrease along a log, as followers truncate records that a leader with a higher epoch does not have. For
leader-epoch-checkpoint see `epoch_checkpoint_checks`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kafkarec.recover.steps import Step

from .findings import Findings, place_of

_LOWEST = -(2**31)


@dataclass(slots=True)
class FileEpochCheck:
    """The check of the epochs in one file: the first epoch with its position, the highest and the last one so far."""

    file: str
    first: int | None = None
    first_place: tuple[int, int] | tuple[()] = ()
    highest: int = _LOWEST
    last: int | None = None

    def check(self, step: Step, findings: Findings) -> None:
        """Checks the good batches of the next step with another epoch than the one before."""
        for row, epoch in enumerate(step.column("partition_leader_epoch")):
            if epoch == self.last or epoch is None:
                continue
            if self.first is None:
                self.first, self.first_place = epoch, place_of(step, row)
            if epoch < self.highest:
                findings.add("epoch_goes_back", f"leader epoch {epoch} after {self.highest}", *place_of(step, row))
            self.highest = max(epoch, self.highest)
            self.last = epoch


def check_between_files(files: Iterable[FileEpochCheck], findings: Findings) -> None:
    """Adds findings for epochs that decrease from one file of a log to the next."""
    highest = _LOWEST
    for file in files:
        if file.first is not None and file.first < highest:
            detail = f"leader epoch {file.first} after {highest} in the segments before"
            findings.add("epoch_goes_back", detail, *file.first_place, file=file.file)
        highest = max(highest, file.highest)
