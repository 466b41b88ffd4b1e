"""What is known of a log before it is cleaned, from headers and markers

    producers       their last data and epoch: the batch that holds a producer's last sequence must not go
    transactions    aborted ones, and where the first open one begins: nothing is cleaned from there on
    time            where the first batch younger than `min_compaction_lag_ms` begins

Follows ProducerStateManager and LogCleanerManager.cleanableOffsets.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import compress
from typing import NamedTuple

from kafkarec.errors import KafkaRecordError
from kafkarec.format.side_files import AbortedTransaction, SnapshotEntry
from kafkarec.sidecars import producer_snapshot, txn_index
from kafkarec.state.producers import EndedTransaction, Producer, ProducerStates
from kafkarec.state.recovery_walk import GoodBatches, walk

from .log_input import LogInput


class Aborted(NamedTuple):
    """An aborted transaction. first_offset: of the data that is left, the marker's without any; `entry`: for the index,
    which may know of an earlier beginning."""

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
    """start_offset: base offset of each segment; first_young_offset: None where nothing is too young."""

    start_offsets: list[int]
    next_offset: int
    last_stable_offset: int
    first_young_offset: int | None
    aborted: list[Aborted]
    last_records: dict[int, LastRecord]


def survey(sources: list[LogInput], now: int, producer_expiration_ms: int, min_compaction_lag_ms: int) -> LogState:
    """Reads all headers and all markers of a log. KafkaRecordError where it cannot be framed; no CRC is checked."""
    states = ProducerStates(_snapshot(sources[0]) if sources else ())
    found = LogState([], 0, 0, None, [], {})
    youngest = now - min_compaction_lag_ms if min_compaction_lag_ms > 0 else None
    for source in sources:
        first = len(found.start_offsets)
        if source.base_offset is not None:
            found.start_offsets.append(source.base_offset)
            found.next_offset = max(found.next_offset, source.base_offset)
        markers: dict[_Marker, EndedTransaction | None] = {}
        for stretch in walk(source, check_crcs=False):
            columns = stretch.columns
            if not columns["last_offset"]:
                continue
            if len(found.start_offsets) == first:
                found.start_offsets.append(_first(columns["base_offset"][0], columns["last_offset"][0], 0))
            if youngest is not None and found.first_young_offset is None:
                found.first_young_offset = _first_young(stretch, youngest, found.next_offset)
            markers.update(_abort_markers(states, stretch))
            found.next_offset = columns["last_offset"][-1] + 1
        if len(found.start_offsets) == first:
            found.start_offsets.append(found.next_offset)
        found.aborted += _aborted(source, markers)
    undecided = states.first_undecided_offset
    found.last_stable_offset = found.next_offset if undecided is None else undecided
    found.last_records = {
        producer_id: LastRecord(producer.last.last_offset if producer.last else None, producer.producer_epoch)
        for producer_id, producer in states.producers.items()
        if _active(producer, now, producer_expiration_ms)
    }
    return found


def _active(producer: Producer, now: int, expiration: int) -> bool:
    """ProducerStateManager.isProducerExpired, turned around."""
    return producer.first_offset is not None or now - producer.last_timestamp < expiration


def _snapshot(first: LogInput) -> tuple[SnapshotEntry, ...]:
    """The producers in front of a log that does not begin at 0, where its first segment's .snapshot tells."""
    with suppress(KafkaRecordError, OSError):
        data = first.sidecar(producer_snapshot.SUFFIX) if first.base_offset else None
        return () if data is None else producer_snapshot.read(data)
    return ()


def _first(base: int | None, last: int, behind: int) -> int:
    """Where a batch begins; a wrapper message tells only where it ends."""
    return min(last, behind) if base is None else base


def _first_young(stretch: GoodBatches, youngest: int, next_offset: int) -> int | None:
    names = ("base_offset", "last_offset", "max_timestamp")
    for base, last, time in zip(*map(stretch.columns.__getitem__, names), strict=True):
        if time is not None and time > youngest:
            return _first(base, last, next_offset)
        next_offset = last + 1
    return None


_DATA = ("producer_id", "producer_epoch", "last_sequence", "base_offset", "last_offset", "max_timestamp")
_Marker = tuple[int, int]


def _abort_markers(
    states: ProducerStates, stretch: GoodBatches
) -> Iterator[tuple[_Marker, EndedTransaction | None]]:
    """((producer id, offset), the transaction, None without data) of ABORT markers; the states follow the stretch.
    Batches without a producer cost nothing."""
    columns = stretch.columns
    wanted = [producer_id is not None for producer_id in columns["producer_id"]]
    if True not in wanted:
        return
    names = (*_DATA, "is_transactional", "is_control", "position")
    rows: Iterable[tuple[int | None, ...]] = zip(*(columns[name] for name in names), strict=True)
    for *fields, transactional, control, position in compress(rows, wanted):
        producer_id, epoch, sequence, base, last, time = (-1 if field is None else field for field in fields)
        if producer_id < 0:
            continue
        if control:
            marker = stretch.markers.get(-1 if position is None else position)
            ended = states.append_control(producer_id, epoch, base, time, marker)
            if marker is not None and marker.aborted:
                yield (producer_id, base), ended
            if marker is None:  # emptied by the cleaner: its producer still wrote it when its header says
                known = states.producers[producer_id]
                known.last_timestamp = max(known.last_timestamp, time)
        else:
            states.append_data(producer_id, epoch, sequence, base, last, time, bool(transactional))


def _aborted(source: LogInput, markers: dict[_Marker, EndedTransaction | None]) -> Iterator[Aborted]:
    """The aborted transactions whose markers lie in a segment. Its .txnindex is believed only where there is a marker,
    and only for what the batches that are left cannot tell: a wrong one must not cost data."""
    entries = {}
    with suppress(KafkaRecordError, OSError):
        for entry in txn_index.read(source.sidecar(txn_index.SUFFIX) or b""):
            entries[entry.producer_id, entry.last_offset] = entry
    for (producer_id, offset), ended in markers.items():
        known = entries.get((producer_id, offset))
        if ended is not None:
            made = AbortedTransaction(producer_id, ended.first_offset, offset, ended.last_stable_offset)
            yield Aborted(producer_id, ended.first_offset, offset, known or made)
        elif known is not None:
            yield Aborted(producer_id, offset, offset, known)
