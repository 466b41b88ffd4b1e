"""A broker's producer state, one batch at a time in plain Python: what `state/producers.py` is compared with."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from kafkarec.format.side_files import AbortedTransaction, SnapshotEntry
from kafkarec.sidecars.producer_snapshot import in_java_order
from kafkarec.state.producers import Marker

KEPT_BATCHES = 5  # ProducerStateEntry.NUM_BATCHES_TO_RETAIN: the maximum in flight, so that retries are recognized
NONE = -1
_SEQUENCE_MAX, _OFFSET_MAX = 2**31 - 1, 2**63 - 1


def first_sequence(last_sequence: int, offset_delta: int) -> int:
    """The sequence `offset_delta` records earlier; they run from 0 to 2^31-1 (DefaultRecordBatch.decrementSequence)."""
    if last_sequence < offset_delta:
        return _SEQUENCE_MAX - (offset_delta - last_sequence) + 1
    return last_sequence - offset_delta


def follows(last_sequence: int, next_sequence: int) -> bool:
    """Whether `next_sequence` directly follows `last_sequence`; 0 follows 2^31-1."""
    return next_sequence == last_sequence + 1 or (next_sequence == 0 and last_sequence == _SEQUENCE_MAX)


class KeptBatch(NamedTuple):
    """One of a producer's last data batches. timestamp: its max timestamp in ms; -1: none."""

    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @property
    def first_sequence(self) -> int:
        return first_sequence(self.last_sequence, self.offset_delta)


@dataclass(slots=True)
class Producer:
    """The state of one producer; -1: none yet. first_offset: of its open transaction; None: none is open."""

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

    def set_epoch(self, epoch: int) -> None:
        if epoch != self.producer_epoch:
            self.batches.clear()
            self.producer_epoch = epoch

    def entry(self) -> SnapshotEntry:
        """The producer's entry in a .snapshot file."""
        last = self.last or KeptBatch(NONE, NONE, 0, NONE)
        first = NONE if self.first_offset is None else self.first_offset
        return SnapshotEntry(
            self.producer_id,
            self.producer_epoch,
            last.last_sequence,
            last.last_offset,
            last.offset_delta,
            self.last_timestamp,
            self.coordinator_epoch,
            first,
        )


class SlowStates:
    """The producers of one partition at `end_offset`. snapshot: entries of a .snapshot file to start from.

    .producers    {producer id: Producer}, in order of first appearance
    .end_offset   the offset after the last appended batch
    as_recovery   ignore markers that the log cleaner emptied, as recovery does, which loses their epochs. Otherwise
                  the epoch and time in such a batch's header are used, as in the state of the broker that wrote it
    """

    def __init__(
        self, snapshot: Iterable[SnapshotEntry] = (), end_offset: int = 0, *, as_recovery: bool = False
    ) -> None:
        self.producers: dict[int, Producer] = {}
        self.end_offset = end_offset
        self._as_recovery = as_recovery
        for entry in snapshot:
            self._load(entry)

    def _load(self, entry: SnapshotEntry) -> None:
        producer = Producer(entry.producer_id, entry.producer_epoch, entry.coordinator_epoch, entry.timestamp)
        if entry.last_offset >= 0:
            producer.batches.append(
                KeptBatch(entry.last_sequence, entry.last_offset, entry.offset_delta, entry.timestamp)
            )
        if entry.current_txn_first_offset >= 0:
            producer.first_offset = entry.current_txn_first_offset
        self.producers[entry.producer_id] = producer

    @property
    def first_undecided_offset(self) -> int | None:
        """The first offset of the oldest open transaction; None: none is open."""
        return min((one.first_offset for one in self.producers.values() if one.first_offset is not None), default=None)

    def snapshot(self) -> tuple[SnapshotEntry, ...]:
        """The entries of a .snapshot file for `end_offset`, in the order a broker writes them."""
        return tuple(self.producers[producer_id].entry() for producer_id in in_java_order(list(self.producers)))

    def append(self, row: Mapping[str, Any], marker: Marker | None = None) -> AbortedTransaction | None:
        """Appends one batch, a row of a BatchTable. Returns the transaction that it aborts, or None. marker: of a
        control batch; None: the batch has no record, or its record ends no transaction."""
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
                    producer_id,
                    _number(row["producer_epoch"]),
                    _number(row["last_sequence"]),
                    row["base_offset"],
                    row["last_offset"],
                    _number(row["max_timestamp"]),
                    row["is_transactional"],
                )
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
        """Appends a data batch; -1: no epoch, sequence or timestamp."""
        producer = self._producer(producer_id)
        producer.set_epoch(epoch)
        producer.batches.append(KeptBatch(last_sequence, last_offset, last_offset - base_offset, max_timestamp))
        producer.last_timestamp = max_timestamp
        if is_transactional and producer.first_offset is None:
            producer.first_offset = base_offset

    def append_control(
        self, producer_id: int, epoch: int, base_offset: int, max_timestamp: int, marker: Marker | None
    ) -> AbortedTransaction | None:
        """Appends a control batch with a producer id; -1: no epoch, no timestamp. marker None: ends no transaction."""
        producer = self._producer(producer_id)
        if marker is None:
            if epoch > producer.producer_epoch and not self._as_recovery:
                producer.set_epoch(epoch)
                producer.last_timestamp = max_timestamp
            return None
        first, producer.first_offset = producer.first_offset, None
        producer.set_epoch(epoch)
        producer.coordinator_epoch = marker.coordinator_epoch
        producer.last_timestamp = marker.timestamp
        if first is None or not marker.aborted:  # without data in this partition the index does not list it, either
            return None
        after = min(base_offset + 1, _OFFSET_MAX)  # no checksum covers the base offset, so it may be any int64
        stable = after if self.first_undecided_offset is None else self.first_undecided_offset
        return AbortedTransaction(producer_id, first, base_offset, stable)

    def end_by_index(self, entry: AbortedTransaction) -> AbortedTransaction | None:
        """Appends the ABORT marker of a .txnindex entry, which the log has lost. None, and nothing is appended, if the
        transaction of the entry is not open."""
        producer = self.producers.get(entry.producer_id)
        if producer is None or producer.first_offset != entry.first_offset:
            return None
        marker = Marker(True, producer.coordinator_epoch, producer.last_timestamp)
        return self.append_control(
            entry.producer_id, producer.producer_epoch, entry.last_offset, producer.last_timestamp, marker
        )

    def violation(self, row: Mapping[str, Any]) -> str | None:
        """The reason for which a broker would have refused the batch, a key of VIOLATIONS; None: it would accept it.

        Must be called before `append`. As in Kafka, sequences are not checked for control batches, for batches without
        a producer and for those without sequences (a group coordinator's offset commits).
        """
        known = self.producers.get(_number(row["producer_id"]))
        if known is None or row["is_control"]:
            return None
        reason = _sequence_violation(known, _number(row["producer_epoch"]), row["base_sequence"], row["last_sequence"])
        if reason is None and known.first_offset is not None and not row["is_transactional"]:
            return "not_transactional"
        return reason

    def _producer(self, producer_id: int) -> Producer:
        producer = self.producers.get(producer_id)
        if producer is None:
            producer = self.producers[producer_id] = Producer(producer_id)
        return producer


def _sequence_violation(known: Producer, epoch: int, first: int | None, last: int | None) -> str | None:
    """ProducerStateEntry.findDuplicateBatch, ProducerAppendInfo.checkProducerEpoch and checkSequence."""
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
    ahead = (first - newest) % 2**31  # sequences wrap around at 2^31
    return "sequence_gap" if ahead <= 2**30 else "out_of_order"


def _number(value: int | None) -> int:
    return NONE if value is None else value
