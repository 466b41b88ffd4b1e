"""Logs of transactions for tests: events, their bytes, and a slow, simple implementation of read_committed.

An event is one batch. The implementation works on events, never on bytes, and decides for each record whether a
consumer with isolation.level=read_committed gets it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import builders
import plain_logs
from hypothesis import strategies as st
from plain_logs import batch
from reading import FileInMemory

import kafkarec
from kafkarec.format.messages import write_message
from kafkarec.format.side_files import AbortedTransaction
from kafkarec.internal_topics import TOPICS
from kafkarec.recover.marker_evidence import TransactionEvidence
from kafkarec.sidecars import txn_index

DATA, PLAIN, IDEMPOTENT, ABORT, COMMIT, EMPTY = "data", "plain", "idempotent", "abort", "commit", "empty marker"
MARKERS = {ABORT: False, COMMIT: True}


@dataclass(frozen=True)
class Event:
    """One batch: `count` records from offset `base` on; a marker is one record, an empty marker takes an offset too.

    append   whether `time` is the log append time of a batch of data, not the create time of its first record
    """

    kind: str
    producer: int
    base: int
    count: int
    epoch: int = 0
    time: int = builders.NOW
    append: bool = False

    @property
    def last(self) -> int:
        return self.base + self.count - 1

    @property
    def batch(self) -> bytes:
        where = {"base_offset": self.base, "base_timestamp": self.time}
        who = {"producer_id": self.producer, "producer_epoch": self.epoch}
        if self.kind in MARKERS:
            return builders.end_marker(commit=MARKERS[self.kind], **who, **where)
        if self.kind == EMPTY:
            flags = builders.TRANSACTIONAL | builders.CONTROL
            return builders.batch([], attributes=flags, last_offset_delta=0, **who, **where)
        flags = builders.LOG_APPEND if self.append else 0
        if self.append:
            where["max_timestamp"] = self.time
        if self.kind == PLAIN:
            return batch(count=self.count, attributes=flags, **where)
        flags |= builders.TRANSACTIONAL if self.kind == DATA else 0
        return batch(count=self.count, attributes=flags, base_sequence=0, **who, **where)


def as_bytes(events: Sequence[Event]) -> bytes:
    return b"".join(event.batch for event in events)


_KINDS = (DATA, DATA, DATA, DATA, PLAIN, IDEMPOTENT, ABORT, ABORT, COMMIT, COMMIT, EMPTY)


@st.composite
def logs(draw: st.DrawFn) -> list[Event]:
    """Draw interleaved producers in any order: markers without data, repeated markers, epochs that rise at markers."""
    drawn = draw(
        st.lists(
            st.tuples(st.sampled_from(_KINDS), st.integers(0, 3), st.integers(1, 3), st.integers(0, 60_000)),
            max_size=30,
        )
    )
    epochs_rise = draw(st.booleans())
    epochs = {}
    events, base, time = [], draw(st.integers(0, 50)), builders.NOW
    for kind, producer, count, elapsed in drawn:
        time += elapsed
        if kind in MARKERS and epochs_rise:
            epochs[producer] = epochs.get(producer, 0) + 1
        count = 1 if kind in MARKERS or kind == EMPTY else count
        events.append(Event(kind, producer, base, count, epochs.get(producer, 0), time))
        base += count
    return events


@dataclass(frozen=True)
class CompletedTransaction:
    """A completed transaction with its data batches."""

    producer: int
    kind: str
    marker: Event
    data: tuple[Event, ...]


def ended(events: Sequence[Event]) -> list[CompletedTransaction]:
    """Return each marker with its producer's data since the producer's last marker."""
    found = []
    for at, marker in enumerate(events):
        if marker.kind not in MARKERS:
            continue
        data = []
        for event in events[:at]:
            if event.producer == marker.producer and event.kind in MARKERS:
                data = []
            elif event.producer == marker.producer and event.kind == DATA:
                data.append(event)
        found.append(CompletedTransaction(marker.producer, marker.kind, marker, tuple(data)))
    return found


def still_open(events: Sequence[Event]) -> list[tuple[Event, ...]]:
    """Return the data of each transaction that no marker ends, by first offset."""
    decided = {event for txn in ended(events) for event in txn.data}
    by_producer = {}
    for event in events:
        if event.kind == DATA and event not in decided:
            by_producer.setdefault(event.producer, []).append(event)
    return sorted((tuple(data) for data in by_producer.values()), key=lambda data: data[0].base)


def last_stable_offset(events: Sequence[Event]) -> int | None:
    unended = still_open(events)
    if unended:
        return unended[0][0].base
    return events[-1].last + 1 if events else None


def committed_offsets(events: Sequence[Event]) -> list[int]:
    """Return the offsets that a read_committed consumer gets."""
    stable = last_stable_offset(events)
    aborted = {event for txn in ended(events) if txn.kind == ABORT for event in txn.data}
    return [
        offset
        for event in events
        if event.kind in (DATA, PLAIN, IDEMPOTENT) and event not in aborted
        for offset in range(event.base, event.last + 1)
        if stable is not None and offset < stable
    ]


def index_of(events: Sequence[Event], segment: Sequence[Event]) -> list[AbortedTransaction]:
    """Return the .txnindex of `segment`, a part of the log `events`."""
    entries = []
    for txn in ended(events):
        if txn.kind == ABORT and txn.data and txn.marker in segment:
            before = events[: events.index(txn.marker) + 1]
            others = [data[0].base for data in still_open(before)]
            stable = min(others, default=txn.marker.last + 1)
            entries.append(AbortedTransaction(txn.producer, txn.data[0].base, txn.marker.base, stable))
    return entries


def segment(events: Sequence[Event], index: Sequence[AbortedTransaction] | None = None) -> FileInMemory:
    """Return a segment and its .txnindex, if there is one."""
    data = as_bytes(events)
    written = None if index is None else txn_index.read(txn_index.write(index))
    return FileInMemory(data, f"{events[0].base if events else 0:020}.log", TransactionEvidence(lambda: written))


def read_committed(folder: Path) -> kafkarec.RecordColumns:
    """What a read_committed consumer gets of a log with damage: the offsets."""
    return kafkarec.open(folder).read(isolation="read_committed", errors="skip", columns=["offset"])


def write_log(
    folder: Path, events: Sequence[Event], lost: Sequence[int] = (), *, instead: bytes | None = None, tail: bytes = b""
) -> Path:
    """Write a log in which the events with these base offsets are zeros, or other bytes."""
    gone = {event.base: bytes(len(event.batch)) if instead is None else instead for event in events}
    parts = [gone[event.base] if event.base in lost else event.batch for event in events]
    return plain_logs.log(folder, (0, b"".join(parts) + tail))


def write_index(folder: Path, *entries: tuple[int, int, int, int], base: int = 0):
    (folder / f"{base:020}.txnindex").write_bytes(txn_index.write([AbortedTransaction(*entry) for entry in entries]))


def transaction_state(folder: Path, *states: tuple[str, int, int], **fields):
    """Write __transaction_state: (transactional id, producer id, status), status -1: deleted. fields: of all values."""
    kind = TOPICS["__transaction_state"].types[0]
    usual = (0, -1, -1, 3, -1, 60_000, 1, [], builders.NOW, builders.NOW, 2)
    records = []
    for name, producer, status in states:
        value = {field.name: one for field, one in zip(kind.value.struct.fields, usual, strict=True)}
        value |= {"producerId": producer, "transactionStatus": status, **fields}
        key = b"\0\0" + write_message(kind.key, 0, {"transactionalId": name})
        records.append({"key": key, "value": None if status < 0 else b"\0\1" + write_message(kind.value, 1, value)})
    plain_logs.log(folder, (0, kafkarec.encode(records)))


def split(events: Sequence[Event], borders: Sequence[int]) -> list[Sequence[Event]]:
    """Return the events, cut before the events with these numbers."""
    at = sorted({0, len(events), *(border for border in borders if border < len(events))})
    return [events[start:stop] for start, stop in pairwise(at)]


@dataclass(frozen=True)
class LogState:
    """The state of a log by Kafka's UnifiedLog, or by kafkarec from the same files.

    open             (producer id, first offset, producer epoch, coordinator epoch, last timestamp), sorted; -1: none
    aborted          (producer id, first offset, marker's offset), in order
    read_committed   the offsets that a consumer gets
    """

    start_offset: int
    next_offset: int
    last_stable_offset: int
    open: list[tuple[int, ...]]
    aborted: list[tuple[int, ...]]
    read_committed: list[int]

    @classmethod
    def read(cls, answer: str) -> LogState:
        """Kafka's answer (`transactions` in tests/support/jvm/Segments.java)."""
        found = json.loads(answer)
        found["open"] = sorted(map(tuple, found["open"]))
        found["aborted"] = [tuple(entry[:3]) for entry in found["aborted"]]
        return cls(**found)

    @classmethod
    def of(cls, folder: Path) -> LogState:
        log = kafkarec.open(folder)
        found = log.transactions()
        unended = [
            (txn.producer_id, txn.first_offset, txn.producer_epoch, txn.coordinator_epoch, txn.last_timestamp)
            for txn in found.ongoing
        ]
        return cls(
            log.start_offset,
            found.next_offset,
            log.last_stable_offset,
            sorted(tuple(-1 if field is None else field for field in one) for one in unended),
            [(txn.producer_id, txn.first_offset, txn.marker_offset) for txn in found.aborted],
            log.read(isolation="read_committed", columns=["offset"]).column("offset"),
        )

    def aborted_from(self, start_offset: int) -> list[tuple[int, ...]]:
        return [entry for entry in self.aborted if entry[2] >= start_offset]
