"""A broker's producer state, one batch at a time in plain Python: what `state/producers.py` is compared with."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Mapping
from typing import Any

from kafkarec.format.side_files import AbortedTransaction, SnapshotEntry
from kafkarec.sidecars.producer_snapshot import in_java_order
from kafkarec.state.producers import Marker

KEPT_BATCHES = 5  # ProducerStateEntry.NUM_BATCHES_TO_RETAIN: the maximum in flight, so that retries are recognized
_NEW = SnapshotEntry(-1, -1, -1, -1, 0, -1, -1, -1)


class SlowStates:
    """The producers of one partition at `end_offset`. snapshot: entries of a .snapshot file to start from.

    .producers    {producer id: its entry of a .snapshot file}, in order of first appearance
    .end_offset   the offset after the last appended batch
    as_recovery   ignore markers that the log cleaner emptied, as recovery does, which loses their epochs. Otherwise
                  the epoch and time in such a batch's header are used, as in the state of the broker that wrote it
    """

    def __init__(self, snapshot: Iterable[SnapshotEntry] = (), end_offset: int = 0, *, as_recovery: bool = False):
        self.producers = {one.producer_id: one for one in snapshot}
        self.end_offset = end_offset
        self._as_recovery = as_recovery
        # The first and last sequence of the last batches of a producer's current epoch.
        self._sequences = defaultdict[int, deque[tuple[int, int]]](lambda: deque(maxlen=KEPT_BATCHES))
        for one in self.producers.values():
            if one.last_offset >= 0:
                self._keep(one)

    def _keep(self, one: SnapshotEntry):
        first = (one.last_sequence - one.offset_delta) % 2**31  # sequences run from 0 to 2^31-1
        self._sequences[one.producer_id].append((first, one.last_sequence))

    @property
    def first_undecided_offset(self) -> int | None:
        """The first offset of the oldest open transaction; None: none is open."""
        firsts = [one.current_txn_first_offset for one in self.producers.values()]
        return min((first for first in firsts if first >= 0), default=None)

    def snapshot(self) -> tuple[SnapshotEntry, ...]:
        """The entries of a .snapshot file for `end_offset`, in the order a broker writes them."""
        return tuple(map(self.producers.__getitem__, in_java_order(list(self.producers))))

    def append(self, row: Mapping[str, Any], marker: Marker | None = None) -> AbortedTransaction | None:
        """Appends one batch, a row of a BatchTable. Returns the transaction that it aborts, or None. marker: of a
        control batch; None: the batch has no record, or its record ends no transaction."""
        self.end_offset = row["last_offset"] + 1
        producer_id, epoch, time = (_number(row[n]) for n in ("producer_id", "producer_epoch", "max_timestamp"))
        if producer_id < 0:
            return None
        known = self.producers.setdefault(producer_id, _NEW._replace(producer_id=producer_id))
        if marker is not None:
            return self._end(known, epoch, row["base_offset"], marker)
        if not row["is_control"]:
            known = self._in_epoch(known, epoch)._replace(
                last_sequence=_number(row["last_sequence"]),
                last_offset=row["last_offset"],
                offset_delta=row["last_offset"] - row["base_offset"],
                timestamp=time,
            )
            if row["is_transactional"] and known.current_txn_first_offset < 0:
                known = known._replace(current_txn_first_offset=row["base_offset"])
            self._keep(known)
        elif epoch > known.producer_epoch and not self._as_recovery:
            known = self._in_epoch(known, epoch)._replace(timestamp=time)
        self.producers[producer_id] = known
        return None

    def _in_epoch(self, known: SnapshotEntry, epoch: int) -> SnapshotEntry:
        if epoch == known.producer_epoch:
            return known
        self._sequences[known.producer_id].clear()
        return known._replace(producer_epoch=epoch, last_sequence=-1, last_offset=-1, offset_delta=0)

    def _end(self, known: SnapshotEntry, epoch: int, offset: int, marker: Marker) -> AbortedTransaction | None:
        first = known.current_txn_first_offset
        self.producers[known.producer_id] = self._in_epoch(known, epoch)._replace(
            coordinator_epoch=marker.coordinator_epoch, timestamp=marker.timestamp, current_txn_first_offset=-1
        )
        if first < 0 or not marker.aborted:  # without data in this partition the index does not list it, either
            return None
        stable = offset + 1 if self.first_undecided_offset is None else self.first_undecided_offset
        return AbortedTransaction(known.producer_id, first, offset, stable)

    def end_by_index(self, entry: AbortedTransaction) -> AbortedTransaction | None:
        """Appends the ABORT marker of a .txnindex entry, which the log has lost. None, and nothing is appended, if the
        transaction of the entry is not open."""
        known = self.producers.get(entry.producer_id)
        if known is None or known.current_txn_first_offset != entry.first_offset:
            return None
        marker = Marker(True, known.coordinator_epoch, known.timestamp)
        return self._end(known, known.producer_epoch, entry.last_offset, marker)

    def violation(self, row: Mapping[str, Any]) -> str | None:
        """The reason for which a broker would have refused the batch, a key of VIOLATIONS; None: it would accept it.

        Must be called before `append`. As in Kafka, sequences are not checked for control batches, for batches without
        a producer and for those without sequences (a group coordinator's offset commits). Sources:
        ProducerStateEntry.findDuplicateBatch, ProducerAppendInfo.checkProducerEpoch and checkSequence.
        """
        known = self.producers.get(_number(row["producer_id"]))
        if known is None or row["is_control"]:
            return None
        epoch, first = _number(row["producer_epoch"]), _number(row["base_sequence"])
        if epoch < known.producer_epoch:
            return "old_epoch"
        if first >= 0 and known.producer_epoch >= 0:
            ahead = (first - known.last_sequence) % 2**31
            if epoch > known.producer_epoch:
                if first:
                    return "new_epoch_not_from_zero"
            elif (first, row["last_sequence"]) in self._sequences[known.producer_id]:
                return "duplicate"
            elif ahead != 1:
                return "sequence_gap" if ahead <= 2**30 else "out_of_order"
        in_transaction = known.current_txn_first_offset >= 0
        return "not_transactional" if in_transaction and not row["is_transactional"] else None


def _number(value: int | None) -> int:
    return -1 if value is None else value
