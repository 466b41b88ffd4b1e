"""Leader epochs of a log, and where a follower would truncate: KIP-101, KIP-279.

A leader stamps its epoch into every batch (magic 2). Two logs that hold the same offset with the same epoch got it
from the same leader, so they agree up to there; where epochs part, one of the two has to give way. A follower finds the
place by asking "where does my latest epoch end with you?" and truncating to the answer, again and again until both
know the epoch that is talked about.

(Kafka: LeaderEpochFileCache.endOffsetFor, AbstractFetcherThread.getOffsetTruncationState.)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from kafkarec.errors import KafkaRecordError
from kafkarec.sidecars import leader_epochs
from kafkarec.sidecars.leader_epochs import EpochEntry


class EpochHistory(NamedTuple):
    """The leader epochs of one log.

    entries   (epoch, start offset), both rising
    end       the log end offset: one more than the last offset
    origin    "leader-epoch-checkpoint", "batches", or "none" where nothing tells an epoch
    note      what is odd about them, "" where nothing is
    """

    entries: tuple[EpochEntry, ...]
    end: int
    origin: str
    note: str = ""


class EpochStep(NamedTuple):
    """One question of the follower: its epoch, the leader's answer, and to where the follower truncates."""

    asked_epoch: int
    answered_epoch: int
    answered_end: int
    truncate_to: int


class Truncation(NamedTuple):
    """What a follower would do. offset: its log end afterwards; steps: how it found out (empty: no epochs known)."""

    offset: int
    steps: tuple[EpochStep, ...]


def of_log(log: Any, seen: Iterable[tuple[int, int]], end: int) -> EpochHistory:
    """The epochs of a Log: its leader-epoch-checkpoint, compared with those `seen` in its batches.

    seen: (epoch, base offset) of batches, in log order. The checkpoint counts where it can be read and the batches do
    not contradict it: it knows epochs whose batches are gone, and epochs that wrote nothing.
    """
    found = from_batches(seen)
    try:
        data = log.folder_file(leader_epochs.NAME) if hasattr(log, "folder_file") else None
        stored = None if data is None else leader_epochs.read(data)
    except (KafkaRecordError, OSError) as error:
        return EpochHistory(found, end, "batches", f"the epochs are those of the batches: {error}")
    if not stored:
        return EpochHistory(found, end, "batches" if found else "none")
    wrong = contradiction(stored, found)
    if wrong:
        return EpochHistory(found, end, "batches", wrong)
    return EpochHistory(tuple(entry for entry in stored if entry.start_offset <= end), end, leader_epochs.NAME)


def from_batches(seen: Iterable[tuple[int, int]]) -> tuple[EpochEntry, ...]:
    entries: list[EpochEntry] = []
    for epoch, offset in seen:
        if epoch >= 0 and (not entries or epoch > entries[-1].epoch):
            leader_epochs.assign(entries, epoch, offset)
    return tuple(entries)


def contradiction(stored: Sequence[EpochEntry], found: Sequence[EpochEntry]) -> str:
    """A sentence about a batch whose epoch is another one than the checkpoint says for its offset; "" for none."""
    for entry in found:
        told = leader_epochs.epoch_at(stored, entry.start_offset)
        if told != entry.epoch:
            return (
                f"leader-epoch-checkpoint is not followed: it says epoch {'none' if told is None else told} for offset "
                f"{entry.start_offset}, where a batch has epoch {entry.epoch}"
            )
    return ""


def end_of(lineage: EpochHistory, epoch: int) -> tuple[int, int] | None:
    """(epoch, end offset) that a replica answers about `epoch`; None where it knows no epochs.

    Below its first epoch it answers with where that begins. Above its latest one it answers with that and its log end:
    it leads now, under an epoch newer than all, which begins there.
    """
    if not lineage.entries:
        return None
    found = leader_epochs.end_of(lineage.entries, epoch, lineage.end)
    return (epoch, lineage.entries[0].start_offset) if found is None else found


def truncation(follower: EpochHistory, leader: EpochHistory) -> Truncation:
    """Where the follower's log would end after it has met the leader. Without epochs: the lower log end, as before
    KIP-101, which may keep what the leader never had."""
    end, steps = follower.end, []
    while follower.entries:
        latest = follower.entries[-1].epoch
        answer = end_of(leader, latest)
        if answer is None:
            break
        own = end_of(follower._replace(end=end), answer[0])
        target = min(end, answer[1]) if own is None else min(own[1], end)
        settled = own is None or own[0] == answer[0]
        if settled:
            target = min(target, answer[1])
        steps.append(EpochStep(latest, *answer, target))
        end = target
        kept = tuple(entry for entry in follower.entries if entry.start_offset < end)
        if settled or kept == follower.entries:
            return Truncation(end, tuple(steps))
        follower = follower._replace(entries=kept, end=end)
    return Truncation(min(end, leader.end), tuple(steps))
