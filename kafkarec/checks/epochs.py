"""Partition leader epochs: each batch of magic 2 carries the epoch of the leader that appended it (KIP-101).

Along a log they never go down. `leader-epoch-checkpoint` has a line for each epoch with the first offset of it:

    version 0 | number of entries | epoch start-offset, one entry a line, both rising

Replicas find out by it where their logs part (OffsetsForLeaderEpoch), so a wrong one loses or keeps too much.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field

from .notes import Notebook, Place
from .rows import Rows

_MOST_STEPS = 10_000


@dataclass(frozen=True, slots=True)
class Step:
    """From the batch at `offset` on the epoch is `epoch`."""

    file: str
    position: int
    epoch: int
    offset: int


@dataclass(slots=True)
class EpochTrack:
    """Follows the epochs of one file; `steps` has each change, the first `_MOST_STEPS`."""

    file: str
    highest: int | None = None
    last: int | None = None
    steps: list[Step] = field(default_factory=list)

    def follow(self, rows: Rows, notes: Notebook) -> None:
        epochs = rows["partition_leader_epoch"]
        if len(set(epochs)) == 1 and epochs[0] == self.last:
            return
        for row, epoch in enumerate(epochs):
            if epoch == self.last or epoch is None:
                continue
            place = rows.place(row)
            if self.highest is not None and epoch < self.highest:
                notes.add("epoch_goes_back", f"leader epoch {epoch} behind {self.highest}", place)
            self.highest = epoch if self.highest is None else max(epoch, self.highest)
            self.last = epoch
            if len(self.steps) < _MOST_STEPS:
                self.steps.append(Step(self.file, place.position or 0, epoch, place.offset or 0))


def across(tracks: list[EpochTrack], notes: Notebook) -> list[Step]:
    """The steps of a whole log, from those of its files in order; epochs that go down between files are told."""
    found: list[Step] = []
    highest: int | None = None
    for track in tracks:
        for step in track.steps:
            if found and found[-1].epoch == step.epoch:
                continue
            if highest is not None and step.epoch < highest and step is track.steps[0]:
                detail = f"leader epoch {step.epoch} behind {highest} of the segment in front"
                notes.add("epoch_goes_back", detail, Place(step.position, step.offset), file=step.file)
            highest = step.epoch if highest is None else max(highest, step.epoch)
            found.append(step)
    return found


def compare(entries: Sequence[tuple[int, int]], steps: list[Step], notes: Notebook, file: str) -> None:
    """The steps of a log's batches against the entries (epoch, start offset) of its leader-epoch-checkpoint.

    An epoch without a batch may have an entry, and a batch may begin above the start of its epoch (the cleaner took
    those in front of it). In front of the first entry lies what DeleteRecords has given up. No other batch may have
    an epoch that the file does not give to its offset.
    """
    starts = [start for _, start in entries]
    for step in steps:
        at = bisect_right(starts, step.offset) - 1
        told = entries[at][0] if at >= 0 else None
        if told == step.epoch or (told is None and entries and step.epoch <= entries[0][0]):
            continue
        says = "has no entry for that offset" if told is None else f"says {told}"
        detail = f"the batch at offset {step.offset} has leader epoch {step.epoch}, and {file} {says}"
        notes.add("epoch_file_differs", detail, Place(step.position, step.offset), file=step.file)
