"""Partition leader epochs: each batch of magic 2 has the epoch of the leader that appended it (KIP-101).

They never decrease along a log, as followers truncate what a leader with a higher epoch does not have. For
leader-epoch-checkpoint see `epoch_file_checks`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from .batch_columns import BatchColumns
from .findings import NOWHERE, FindingNotes, FindingPlace


@dataclass(slots=True)
class EpochTrack:
    """The epochs of one file: the first one with its position, the highest and the last."""

    file: str
    first: int | None = None
    first_place: FindingPlace = NOWHERE
    highest: int | None = None
    last: int | None = None

    def follow(self, rows: BatchColumns, notes: FindingNotes) -> None:
        """The good batches of one piece, in order."""
        epochs = rows["partition_leader_epoch"]
        if epochs[0] == self.last and len(set(epochs)) == 1:
            return
        for row, epoch in enumerate(epochs):
            if epoch == self.last or epoch is None:
                continue
            if self.first is None:
                self.first, self.first_place = epoch, rows.place(row)
            if self.highest is not None and epoch < self.highest:
                notes.add("epoch_goes_back", f"leader epoch {epoch} behind {self.highest}", rows.place(row))
            self.highest = epoch if self.highest is None else max(epoch, self.highest)
            self.last = epoch


def across(tracks: Iterable[EpochTrack], notes: FindingNotes) -> None:
    """Adds findings for epochs that decrease from one file of a log to the next."""
    highest: int | None = None
    for track in tracks:
        if track.first is not None and highest is not None and track.first < highest:
            detail = f"leader epoch {track.first} behind {highest} of the segments in front"
            notes.add("epoch_goes_back", detail, track.first_place, file=track.file)
        if track.highest is not None:
            highest = track.highest if highest is None else max(highest, track.highest)
