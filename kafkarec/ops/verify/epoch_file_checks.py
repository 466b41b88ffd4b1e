"""Checks of leader-epoch-checkpoint against the leader epochs that batches of magic 2 carry

The file may know more: epochs of leaders that wrote nothing, and where an epoch began before cleaning removed its first
batches. It must not say anything else of a batch that is there: a follower would cut its log at the wrong place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from kafkarec.sidecars.leader_epochs import EpochEntry

from .side_file_finding import ERROR, NOTE, WARNING, Findings

_FIRST_LINE = 3


class EpochCheck:
    """Feed it every batch of a log in order, then `finish`."""

    def __init__(self, entries: Sequence[EpochEntry], file: str, findings: Findings) -> None:
        self._file, self._findings = file, findings
        self._entries = entries
        self._at = -1  # the entry that holds for the batch last seen
        self._told: tuple[int, int | None] | None = None  # a difference is told once, not once a batch
        for number, (before, entry) in enumerate(pairwise(entries), 1):
            if entry.epoch <= before.epoch or entry.start_offset < before.start_offset:
                findings.add(
                    ERROR, "epoch_order", file,
                    f"line {number + _FIRST_LINE}: epoch {entry.epoch} from offset {entry.start_offset} follows epoch "
                    f"{before.epoch} from offset {before.start_offset}; both must rise",
                    entry=number + _FIRST_LINE,
                )  # fmt: skip

    def see(self, columns: Mapping[str, list[Any]]) -> None:
        """A stretch of batches."""
        entries = self._entries
        for base, magic, epoch in zip(
            columns["base_offset"], columns["magic"], columns["partition_leader_epoch"], strict=True
        ):
            if magic < 2 or epoch is None or epoch < 0:
                continue
            while self._at + 1 < len(entries) and entries[self._at + 1].start_offset <= base:
                self._at += 1
            known = entries[self._at].epoch if self._at >= 0 else None
            if known == epoch:
                self._told = None
            elif self._told != (epoch, known):
                self._told = epoch, known
                self._tell(base, epoch, known)

    def _tell(self, base: int, epoch: int, known: int | None) -> None:
        batch = f"the batch at offset {base} was written in leader epoch {epoch}"
        harm = "a replica that compares epochs may cut its log at the wrong offset"
        if known is not None:
            severity, told = ERROR, f"{batch}, the file says {known}: {harm}"
        elif self._entries and epoch <= self._entries[0].epoch:
            severity, told = (
                NOTE,
                f"{batch}, in front of the first entry: records below that were deleted (DeleteRecords)",
            )
        else:
            severity, told = WARNING, f"{batch}, and no entry tells of it: {harm}"
        line = self._at + _FIRST_LINE if self._at >= 0 else None
        self._findings.add(severity, "epoch_differs", self._file, told, entry=line, expected=epoch, found=known)
