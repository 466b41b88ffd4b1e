"""The state of a log before it is cleaned, from batch headers and transaction markers; the same walk reads its keys

    producers       last data offset and epoch: the batch that holds a producer's last sequence must be kept
    transactions    aborted ones, and the first offset of the first open one: nothing is cleaned from there on
    time            the first offset of the first batch younger than `min_compaction_lag_ms`
    keys            see dirty_keys.py

Follows ProducerStateManager and LogCleanerManager.cleanableOffsets.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

from kafkarec.errors import KafkaRecordError
from kafkarec.format.side_files import AbortedTransaction
from kafkarec.ops.rewrite.batches import Progress
from kafkarec.sidecars import txn_index
from kafkarec.state.producers import CLEANER, ProducerStates, at_log_start

from .cleaner_settings import CleanerSettings
from .dirty_keys import DirtyKeys


class Aborted(NamedTuple):
    """An aborted transaction.

    first_offset   of the data that is left; that of the marker if none is left
    entry          for the new .txnindex; its first offset may be lower, from the old one
    """

    producer_id: int
    first_offset: int
    last_offset: int
    entry: AbortedTransaction


class LastRecord(NamedTuple):
    """A producer's last data offset (None: its last batch is a marker) and epoch (Kafka: LastRecord)."""

    last_data_offset: int | None
    producer_epoch: int


@dataclass(slots=True)
class LogState:
    """start_offsets: first offset of each segment; steps: of each segment, last offset and position of each step, one
    after the other; remaining: bytes after the last batches."""

    start_offsets: list[int]
    steps: list[array[int]]
    next_offset: int
    last_stable_offset: int
    aborted: list[Aborted]
    last_records: dict[int, LastRecord]
    remaining: int


def read_log_state(segments: Sequence[Any], settings: CleanerSettings, keys: DirtyKeys, progress: Progress) -> LogState:
    """Reads a log; `keys` gets those of its dirty part, and no later end than the first batch that is too young.
    KafkaRecordError if batches cannot be delimited or control batches cannot be read."""
    states = ProducerStates()
    if segments:
        states = at_log_start(segments[0].sidecar, segments[0].base_offset or 0, CLEANER).states
    state = LogState([], [], 0, 0, [], {}, 0)
    lag = settings.min_compaction_lag_ms
    youngest = settings.now - lag if lag > 0 else None
    for number, segment in enumerate(segments):
        if segment.base_offset is not None:
            state.start_offsets.append(segment.base_offset)
            state.next_offset = max(state.next_offset, segment.base_offset)
        state.steps.append(array("q"))
        markers: dict[tuple[int, int], AbortedTransaction | None] = {}
        tail = None
        for step in keys.steps(segment, number, progress):
            tail = step.tail
            if not len(step):
                continue
            if len(state.start_offsets) == number:
                state.start_offsets.append(step.first_offsets(0)[0])
            if youngest is not None:
                times = zip(step.first_offsets(state.next_offset), step.column("max_timestamp"), strict=True)
                young = next((first for first, time in times if time is not None and time > youngest), None)
                if young is not None:
                    keys.end_offset, youngest = min(keys.end_offset, young), None
            taken = states.take(step)
            markers |= {(one.producer_id, one.last_offset): one for one in taken.aborted}
            markers |= dict.fromkeys(taken.empty_aborts)
            state.next_offset = step.last_offset + 1
            state.steps[number].extend((step.last_offset, step.rows.span(0)[0]))
            keys.settle(taken.aborted, states.first_undecided_offset)
        state.remaining += tail[1] if tail else 0
        if len(state.start_offsets) == number:
            state.start_offsets.append(state.next_offset)
        state.aborted += _aborted(segment, markers)
    first_open = states.first_undecided_offset
    state.last_stable_offset = state.next_offset if first_open is None else first_open
    state.last_records = {
        one.producer_id: LastRecord(None if one.last_offset < 0 else one.last_offset, one.producer_epoch)
        for one in states.entries()
        # the opposite of ProducerStateManager.isProducerExpired
        if one.current_txn_first_offset >= 0 or settings.now - one.timestamp < settings.producer_expiration_ms
    }
    return state


def _aborted(source: Any, markers: dict[tuple[int, int], AbortedTransaction | None]) -> Iterator[Aborted]:
    """The aborted transactions whose markers are in a segment. An entry of its .txnindex is used only if the marker
    exists, and its first offset only in the new .txnindex: a wrong index must not remove data."""
    entries = {}
    with suppress(KafkaRecordError, OSError):
        for entry in txn_index.read(source.sidecar(txn_index.SUFFIX) or b""):
            entries[entry.producer_id, entry.last_offset] = entry
    for (producer_id, offset), ended in sorted(markers.items(), key=lambda one: one[0][1]):  # as in the log
        known = entries.get((producer_id, offset))
        if ended is not None:
            yield Aborted(producer_id, ended.first_offset, offset, known or ended)
        elif known is not None:
            yield Aborted(producer_id, offset, offset, known)
