"""What a broker knows of each producer after each batch (Kafka: ProducerStateManager, ProducerAppendInfo)

    data batch of producer 7      its epoch, sequences and place become the newest of five; a transaction may begin
    end marker of producer 7      the transaction of producer 7 is over; the epoch may rise (KIP-890)
    a new epoch, of either        what was known of older batches is forgotten

The state follows a log batch by batch in order of offsets, as LogSegment.recover() does: with the origin REPLICATION,
so everything in the log is believed. What a broker would have said to a producer (origin CLIENT) is `judge`.

    states = ProducerStates()
    for row in segment.scan():
        problem = states.judge(row)
        ended = states.append(row, read_marker(segment.raw(...)) if row["is_control"] else None)
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import accumulate
from typing import Any, NamedTuple

from kafkarec.errors import KafkaRecordError
from kafkarec.format import control
from kafkarec.format.side_files import SnapshotEntry
from kafkarec.read import reader
from kafkarec.sidecars.producer_snapshot import in_java_order

KEPT_BATCHES = 5  # ProducerStateEntry.NUM_BATCHES_TO_RETAIN: as many as may be in flight, so that a retry is recognised
NONE = -1
_SEQUENCE_MAX, _OFFSET_MAX = 2**31 - 1, 2**63 - 1
_MARKER_COLUMNS = ("timestamp", "key", "value")
_ENDS = {control.ControlRecordType.ABORT: True, control.ControlRecordType.COMMIT: False}

# What the broker that took the batch would have refused, in its own order. Such batches are in a log all the same when
# replication, a restore or a tool put them there, or when producer state was lost.
VERDICTS = {
    "old_epoch": "the producer epoch is below one seen before: a fenced producer wrote on (KIP-98)",
    "duplicate": "the sequences are exactly those of one of the producer's last five batches: written twice",
    "new_epoch_not_from_zero": "the first batch of a new producer epoch does not begin with sequence 0",
    "sequence_gap": "sequences are missing in front of the batch",
    "out_of_order": "the sequences lie behind those already written",
    "not_transactional": "a plain batch of a producer whose transaction is open: recovery of a broker fails on it",
}


def first_sequence(last_sequence: int, offset_delta: int) -> int:
    """The sequence `offset_delta` records earlier; they run from 0 to 2^31-1 (DefaultRecordBatch.decrementSequence)."""
    if last_sequence < offset_delta:
        return _SEQUENCE_MAX - (offset_delta - last_sequence) + 1
    return last_sequence - offset_delta


def follows(last_sequence: int, next_sequence: int) -> bool:
    """Whether one sequence comes right behind another; 0 comes behind 2^31-1."""
    return next_sequence == last_sequence + 1 or (next_sequence == 0 and last_sequence == _SEQUENCE_MAX)


class KeptBatch(NamedTuple):
    """One of a producer's last data batches. timestamp: its max timestamp in ms; -1 is "none"."""

    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @property
    def first_sequence(self) -> int:
        return first_sequence(self.last_sequence, self.offset_delta)


class Marker(NamedTuple):
    """The first record of a control batch that ends a transaction; timestamp in ms."""

    aborted: bool
    coordinator_epoch: int
    timestamp: int


class EndedTransaction(NamedTuple):
    """A transaction and its marker: last_offset is the marker's.

    last_stable_offset   where a read_committed consumer may read to with this marker written: the first offset of the
                         oldest transaction of any other producer still open, else the offset behind the marker
    """

    producer_id: int
    first_offset: int
    last_offset: int
    aborted: bool
    last_stable_offset: int


@dataclass(slots=True)
class Producer:
    """What is known of one producer; -1 is "none yet". first_offset: where its open transaction begins, None: none."""

    producer_id: int
    producer_epoch: int = NONE
    coordinator_epoch: int = NONE
    last_timestamp: int = NONE
    first_offset: int | None = None
    batches: deque[KeptBatch] = field(default_factory=lambda: deque(maxlen=KEPT_BATCHES))

    @property
    def last(self) -> KeptBatch | None:
        """The newest data batch of the current epoch."""
        return self.batches[-1] if self.batches else None

    def enter(self, epoch: int) -> None:
        if epoch != self.producer_epoch:
            self.batches.clear()
            self.producer_epoch = epoch

    def entry(self) -> SnapshotEntry:
        """As a snapshot stores it."""
        last = self.last or KeptBatch(NONE, NONE, 0, NONE)
        first = NONE if self.first_offset is None else self.first_offset
        return SnapshotEntry(
            self.producer_id, self.producer_epoch, last.last_sequence, last.last_offset, last.offset_delta,
            self.last_timestamp, self.coordinator_epoch, first,
        )  # fmt: skip


class ProducerStates:
    """The producers of one partition up to `end_offset`; `snapshot` (of a .snapshot file) is where they begin.

    .producers    {producer id: Producer}, in the order they were first seen
    .end_offset   the offset behind the last batch that was appended
    as_recovery   pass over markers that the log cleaner emptied, as recovery does: it forgets their epochs. Otherwise
                  the epoch and time in such a batch's header count, so the state is that of the broker that wrote it
    """

    def __init__(
        self, snapshot: Iterable[SnapshotEntry] = (), end_offset: int = 0, *, as_recovery: bool = False
    ) -> None:
        self.producers: dict[int, Producer] = {}
        self.end_offset = end_offset
        self._as_recovery = as_recovery
        self._open: dict[int, int] = {}  # first offset -> producer id, in order of offsets
        for entry in snapshot:
            self._load(entry)
        self._open = dict(sorted(self._open.items()))

    def _load(self, entry: SnapshotEntry) -> None:
        found = Producer(entry.producer_id, entry.producer_epoch, entry.coordinator_epoch, entry.timestamp)
        if entry.last_offset >= 0:
            found.batches.append(KeptBatch(entry.last_sequence, entry.last_offset, entry.offset_delta, entry.timestamp))
        if entry.current_txn_first_offset >= 0:
            found.first_offset = entry.current_txn_first_offset
            self._open[found.first_offset] = found.producer_id
        self.producers[entry.producer_id] = found

    @property
    def first_undecided_offset(self) -> int | None:
        """Where the oldest open transaction begins; None when none is open."""
        return next(iter(self._open), None)

    @property
    def open_transactions(self) -> tuple[tuple[int, int], ...]:
        """(producer id, first offset) of what is open, the oldest first."""
        return tuple((producer_id, first) for first, producer_id in self._open.items())

    def snapshot(self) -> tuple[SnapshotEntry, ...]:
        """The entries of a .snapshot file for `end_offset`, in the order a broker writes them."""
        return tuple(self.producers[producer_id].entry() for producer_id in in_java_order(list(self.producers)))

    def append(self, row: Mapping[str, Any], marker: Marker | None = None) -> EndedTransaction | None:
        """One batch of the log: a row of a BatchTable, and for a control batch its marker (None: it has no record, or
        is none of a transaction). Gives the transaction that it ends."""
        ended = None
        producer_id = row["producer_id"]
        if producer_id is not None and producer_id >= 0:
            if row["is_control"]:
                ended = self.append_control(
                    producer_id,
                    _number(row["producer_epoch"]),
                    row["base_offset"],
                    _number(row["max_timestamp"]),
                    marker,
                )
            else:
                self.append_data(
                    producer_id, _number(row["producer_epoch"]), _number(row["last_sequence"]), row["base_offset"],
                    row["last_offset"], _number(row["max_timestamp"]), row["is_transactional"],
                )  # fmt: skip
        self.end_offset = row["last_offset"] + 1
        return ended

    def append_data(
        self,
        producer_id: int,
        epoch: int,
        last_sequence: int,
        base_offset: int,
        last_offset: int,
        max_timestamp: int,
        is_transactional: bool,
    ) -> None:
        """A data batch; -1 where there is no epoch, sequence or timestamp."""
        producer = self._producer(producer_id)
        producer.enter(epoch)
        producer.batches.append(KeptBatch(last_sequence, last_offset, last_offset - base_offset, max_timestamp))
        producer.last_timestamp = max_timestamp
        if is_transactional and producer.first_offset is None:
            producer.first_offset = base_offset
            in_order = not self._open or base_offset > next(reversed(self._open))
            self._open[base_offset] = producer_id
            if not in_order:
                self._open = dict(sorted(self._open.items()))

    def append_control(
        self, producer_id: int, epoch: int, base_offset: int, max_timestamp: int, marker: Marker | None
    ) -> EndedTransaction | None:
        """A control batch with a producer; -1: no epoch, no timestamp. Without a marker it ends nothing."""
        producer = self._producer(producer_id)
        if marker is None:
            if epoch > producer.producer_epoch and not self._as_recovery:
                producer.enter(epoch)
                producer.last_timestamp = max_timestamp
            return None
        first, producer.first_offset = producer.first_offset, None
        producer.enter(epoch)
        producer.coordinator_epoch = marker.coordinator_epoch
        producer.last_timestamp = marker.timestamp
        if first is None:  # a transaction without data here: the index does not list it
            return None
        behind = min(base_offset + 1, _OFFSET_MAX)  # the base offset is not under the checksum
        stable = next((at for at, other in self._open.items() if other != producer_id), behind)
        self._open.pop(first, None)
        return EndedTransaction(producer_id, first, base_offset, marker.aborted, stable)

    def judge(self, row: Mapping[str, Any]) -> str | None:
        """What a broker would have said to the batch before taking it: a word of VERDICTS, None when all is well.

        Asked before `append`. Control batches, batches without a producer, and those without sequences (a group
        coordinator's offset commits) are not judged by sequence, as in Kafka.
        """
        known = self.producers.get(_number(row["producer_id"]))
        if known is None or row["is_control"]:
            return None
        verdict = _judge_sequence(known, _number(row["producer_epoch"]), row["base_sequence"], row["last_sequence"])
        if verdict is None and known.first_offset is not None and not row["is_transactional"]:
            return "not_transactional"
        return verdict

    def _producer(self, producer_id: int) -> Producer:
        found = self.producers.get(producer_id)
        if found is None:
            found = self.producers[producer_id] = Producer(producer_id)
        return found


def _judge_sequence(known: Producer, epoch: int, first: int | None, last: int | None) -> str | None:
    """ProducerAppendInfo.checkProducerEpoch and checkSequence, behind ProducerStateEntry.findDuplicateBatch."""
    if epoch < known.producer_epoch:
        return "old_epoch"
    if first is None or first < 0 or known.producer_epoch == NONE:
        return None
    if epoch > known.producer_epoch:
        return "new_epoch_not_from_zero" if first else None
    if any((batch.first_sequence, batch.last_sequence) == (first, last) for batch in known.batches):
        return "duplicate"
    newest = known.last.last_sequence if known.last else NONE
    if follows(newest, first):
        return None
    ahead = (first - newest) % 2**31  # the distance along the circle of sequences
    return "sequence_gap" if ahead <= 2**30 else "out_of_order"


def _number(value: int | None) -> int:
    return NONE if value is None else value


def read_marker(raw: bytes) -> Marker | None:
    """The marker in the bytes of one whole control batch: ABORT or COMMIT of its first record; None for a batch that
    cleaning emptied, and for control records of a KRaft log. InvalidRecordError when the record cannot be read."""
    found = reader.decode(raw, columns=_MARKER_COLUMNS, control=True, check_crcs=False)
    if not len(found):
        return None
    timestamp, key, value = (found.column(name)[0] for name in _MARKER_COLUMNS)
    return _marker(timestamp, key, value)


def read_markers(batches: Sequence[bytes]) -> list[Marker | None]:
    """The same for many control batches at once, in a tenth of the time; None also for what cannot be read."""
    starts = [0, *accumulate(map(len, batches))]
    found = reader.decode(
        b"".join(batches), columns=("batch_position", *_MARKER_COLUMNS), control=True, check_crcs=False, errors="skip"
    )
    rows = zip(found.column("batch_position"), *(found.column(name) for name in _MARKER_COLUMNS), strict=True)
    firsts: dict[int, tuple[int | None, bytes | None, bytes | None]] = {}
    for position, timestamp, key, value in rows:
        firsts.setdefault(position, (timestamp, key, value))
    markers: list[Marker | None] = []
    for start in starts[:-1]:
        try:
            markers.append(_marker(*firsts[start]) if start in firsts else None)
        except KafkaRecordError:
            markers.append(None)
    return markers


# Of many markers nearly all have the same few bytes. What is kept is small whatever a file holds.
_SMALL = 32
_parsed = lru_cache(maxsize=4096)(control.parse)


def _marker(timestamp: int | None, key: bytes | None, value: bytes | None) -> Marker | None:
    small = key is not None and value is not None and len(key) + len(value) <= _SMALL
    record = _parsed(key, value) if small else control.parse(key, value)
    if not isinstance(record, control.EndTxnMarker):
        return None
    return Marker(_ENDS[record.type], record.coordinator_epoch, _number(timestamp))
