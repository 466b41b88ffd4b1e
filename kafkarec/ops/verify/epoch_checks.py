"""Partition leader epochs: each batch of magic 2 carries the epoch of the leader that appended it (KIP-101).

Along a log they never go down: a leader of a higher epoch makes its followers cut what it does not have. Whether
leader-epoch-checkpoint says the same as the batches is a check of `kafkarec.sidecars`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from .batch_columns import BatchColumns
from .findings import NOWHERE, FindingNotes, FindingPlace


@dataclass(slots=True)
class EpochTrack:
    """The epochs of one file: the first one and its place, the highest and the last."""

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
    """Epochs that go down from one file of a log to the next."""
    highest: int | None = None
    for track in tracks:
        if track.first is not None and highest is not None and track.first < highest:
            detail = f"leader epoch {track.first} behind {highest} of the segments in front"
            notes.add("epoch_goes_back", detail, track.first_place, file=track.file)
        if track.highest is not None:
            highest = track.highest if highest is None else max(highest, track.highest)
