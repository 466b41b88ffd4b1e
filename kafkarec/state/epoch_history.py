"""Leader epochs of a log, and the offset to which a follower would truncate: KIP-101, KIP-279.

A leader writes its epoch into every batch (magic 2). Two logs with the same epoch at the same offset have it from the
same leader, so they are equal up to that offset. From the first different epoch on, the follower must truncate. It
requests the leader's end offset for its own latest epoch and truncates to the answer, repeatedly, until both have that
epoch.

(Kafka: LeaderEpochFileCache.endOffsetFor, AbstractFetcherThread.getOffsetTruncationState.)
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from kafkarec.errors import KafkaRecordError
from kafkarec.sidecars import leader_epochs
from kafkarec.sidecars.leader_epochs import EpochEntry


class EpochHistory(NamedTuple):
    """The leader epochs of one log.

    entries   (epoch, start offset), both ascending
    end       the log end offset: one more than the last offset
    origin    the source of the entries: "leader-epoch-checkpoint", "batches", or "none" without epochs
    note      a sentence about a contradiction or an unreadable checkpoint; "": none
    """

    entries: tuple[EpochEntry, ...]
    end: int
    origin: str
    note: str = ""


class EpochRequest(NamedTuple):
    """One OffsetsForLeaderEpoch request: the follower's epoch, the leader's answer, the offset truncated to."""

    asked_epoch: int
    answered_epoch: int
    answered_end: int
    truncate_to: int


class Truncation(NamedTuple):
    """A follower's truncation. offset: its log end offset afterwards; steps: the requests (empty: no epochs known)."""

    offset: int
    steps: tuple[EpochRequest, ...]


def of_log(log: Any, batch_epochs: Iterable[tuple[int, int]], end: int) -> EpochHistory:
    """The epochs of a Log: from its leader-epoch-checkpoint if that is readable and the batches do not contradict it,
    else from its batches. Only the checkpoint has epochs without batches, and those whose batches were deleted.

    batch_epochs: (epoch, base offset) of the batches, in log order; end: the log end offset.
    """
    from_log = from_batches(batch_epochs)
    try:
        data = log.folder_file(leader_epochs.NAME) if hasattr(log, "folder_file") else None
        stored = None if data is None else leader_epochs.read(data)
    except (KafkaRecordError, OSError) as error:
        return EpochHistory(from_log, end, "batches", f"epochs are taken from the batches: {error}")
    if not stored:
        return EpochHistory(from_log, end, "batches" if from_log else "none")
    difference = contradiction(stored, from_log)
    if difference:
        return EpochHistory(from_log, end, "batches", f"leader-epoch-checkpoint is ignored: {difference}")
    return EpochHistory(tuple(entry for entry in stored if entry.start_offset <= end), end, leader_epochs.NAME)


def from_batches(batch_epochs: Iterable[tuple[int, int]]) -> tuple[EpochEntry, ...]:
    """The entries of a leader-epoch-checkpoint for batches, passed as (epoch, base offset) in log order."""
    entries: list[EpochEntry] = []
    for epoch, offset in batch_epochs:
        if epoch >= 0 and (not entries or epoch > entries[-1].epoch):
            leader_epochs.assign(entries, epoch, offset)
    return tuple(entries)


def contradiction(stored: Sequence[EpochEntry], from_log: Sequence[EpochEntry]) -> str:
    """A clause about the first batch whose epoch differs from the checkpoint's for its offset; "": none."""
    for entry in from_log:
        expected = leader_epochs.epoch_at(stored, entry.start_offset)
        if expected != entry.epoch:
            has = "none" if expected is None else expected
            return f"it has epoch {has} for offset {entry.start_offset}, but the batch there has epoch {entry.epoch}"
    return ""


def end_offset_for(history: EpochHistory, epoch: int) -> tuple[int, int] | None:
    """The (epoch, end offset) with which a replica answers a request for `epoch`: its greatest epoch at or below it,
    which ends where the next one begins, exclusive (Kafka: LeaderEpochFileCache.endOffsetFor). None: it has no epochs.

    For an epoch below its first one: the start of the first one. For one above its latest: the latest and the log end
    offset, where the replica's own new epoch as a leader begins.
    """
    entries = history.entries
    if not entries:
        return None
    index = bisect_right(entries, epoch, key=lambda entry: entry.epoch)
    end = entries[index].start_offset if index < len(entries) else history.end
    return (entries[index - 1].epoch if index else epoch, end)


def truncation(follower: EpochHistory, leader: EpochHistory) -> Truncation:
    """The truncation of a follower of this leader. Without epochs, it truncates to the lower log end offset, as before
    KIP-101, which may keep records that the leader never had."""
    end, steps = follower.end, []
    while follower.entries:
        latest = follower.entries[-1].epoch
        answer = end_offset_for(leader, latest)
        if answer is None:
            break
        own = end_offset_for(follower._replace(end=end), answer[0])
        target = min(end, answer[1]) if own is None else min(own[1], end)
        is_final = own is None or own[0] == answer[0]
        if is_final:
            target = min(target, answer[1])
        steps.append(EpochRequest(latest, *answer, target))
        end = target
        kept = tuple(entry for entry in follower.entries if entry.start_offset < end)
        if is_final or kept == follower.entries:
            return Truncation(end, tuple(steps))
        follower = follower._replace(entries=kept, end=end)
    return Truncation(min(end, leader.end), tuple(steps))
