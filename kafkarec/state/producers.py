"""A broker's producer state after each batch of a partition (Kafka: ProducerStateManager, ProducerAppendInfo).

    data batch of producer 7      becomes the newest of the producer's last five batches; may begin a transaction
    end marker of producer 7      ends the transaction of producer 7; may raise the epoch (KIP-890)
    new epoch, of either batch    drops the kept batches of the old epoch

Batches are taken in order of offsets, as by LogSegment.recover() with the origin REPLICATION: all are accepted.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from typing import Any, NamedTuple

from kafkarec._core import Producers
from kafkarec.errors import KafkaRecordError
from kafkarec.format.java_integers import LONG_MAX
from kafkarec.format.side_files import AbortedTransaction, SnapshotEntry
from kafkarec.recover.steps import ABORT, PLAIN_DATA, Oddity, Step, columns_of, rows_of
from kafkarec.sidecars import producer_snapshot

# What is done with a marker that the log cleaner emptied, from `_c/producer_table.pxd`. BROKER: the epoch and time in
# its header are used, as in the state of the broker that wrote it; RECOVERY: it is ignored, as by recovery, which loses
# the epoch; CLEANER: its time is that of a write of the producer, too.
BROKER, RECOVERY, CLEANER = 1, 2, 3
_OF_AN_ABORT = ("code", "producer_id", "first_offset", "batch", "last_stable_offset")


class EndedTransactions(NamedTuple):
    """What `take` found.

    aborted        the transactions that were aborted, as a .txnindex has them
    empty_aborts   (producer id, offset) of ABORT markers of transactions without data
    plain          indexes of plain batches within an open transaction of their producer
    """

    aborted: list[AbortedTransaction]
    empty_aborts: list[tuple[int, int]]
    plain: list[int]


class ProducerStates:
    """The producers of one partition at `end_offset`. snapshot: entries of a .snapshot file to start from.

    .end_offset   the offset after the last batch
    policy        BROKER, RECOVERY or CLEANER
    """

    def __init__(self, snapshot: Iterable[SnapshotEntry] = (), end_offset: int = 0, policy: int = BROKER) -> None:
        self.end_offset = end_offset
        self._producers = Producers(policy)
        self._producers.load(snapshot)

    @property
    def first_undecided_offset(self) -> int | None:
        """The first offset of the oldest open transaction; None: none is open."""
        return self._producers.first_open_offset

    def entry(self, producer_id: int) -> SnapshotEntry | None:
        """A producer's entry in a .snapshot file; None: it is not known."""
        found = self._producers.entry(producer_id)
        return None if found is None else SnapshotEntry(*found)

    def entries(self) -> list[SnapshotEntry]:
        """The entries of all producers, in the order in which they were first seen."""
        return [SnapshotEntry(*one) for one in self._producers.entries()]

    def snapshot(self) -> tuple[SnapshotEntry, ...]:
        """The entries of a .snapshot file for `end_offset`, in the order a broker writes them."""
        entries = {one.producer_id: one for one in self.entries()}
        return tuple(entries[producer_id] for producer_id in producer_snapshot.in_java_order(list(entries)))

    def take(self, step: Step, start: int = 0, stop: int | None = None) -> EndedTransactions:
        """Takes batches [start, stop)."""
        stop = len(step) if stop is None else stop
        if start == stop:
            return EndedTransactions([], [], [])
        found = self._producers.take(step.rows, step.chunk, start, stop, 0)
        self.end_offset = step.cell("last_offset", stop - 1) + 1
        if not any(found):
            return EndedTransactions([], [], [])
        ended, empty, odd = (array("q", rows) for rows in found)
        aborted, empty_aborts = (
            [
                AbortedTransaction(producer, first, step.cell("base_offset", batch), stable)
                for code, producer, first, batch, stable in columns_of(rows, *_OF_AN_ABORT)
                if code == ABORT
            ]
            for rows in (ended, empty)
        )
        plain = [one.batch for one in rows_of(odd, Oddity) if one.kind == PLAIN_DATA]
        return EndedTransactions(aborted, [(one.producer_id, one.last_offset) for one in empty_aborts], plain)

    def has_open_transaction(self, producer_id: int) -> bool:
        known = self.entry(producer_id)
        return known is not None and known.current_txn_first_offset >= 0

    def end_by_index(self, entry: AbortedTransaction) -> AbortedTransaction | None:
        """Ends the transaction of a .txnindex entry, whose ABORT marker the log has lost. None if it is not open."""
        known = self.entry(entry.producer_id)
        if known is None or entry.first_offset < 0 or known.current_txn_first_offset != entry.first_offset:
            return None
        self._producers.pop_open(entry.producer_id)
        stable = self.first_undecided_offset
        stable = min(entry.last_offset + 1, LONG_MAX) if stable is None else stable
        return AbortedTransaction(entry.producer_id, entry.first_offset, entry.last_offset, stable)


class StartingProducers(NamedTuple):
    """The producers at the start of a log.

    problem   a sentence about a snapshot that cannot be read; None: there is none
    """

    states: ProducerStates
    problem: str | None


def producers_at_log_start(segment: Any, base: int, policy: int = BROKER) -> StartingProducers:
    """The producers at the start of a log that begins at offset `base`, from the .snapshot of its first segment."""
    try:
        entries = segment.transaction_evidence.snapshot() if base > 0 else None
    except (KafkaRecordError, OSError) as error:
        problem = f"the log's first snapshot is ignored: {error}"
        return StartingProducers(ProducerStates((), base, policy), problem)
    return StartingProducers(ProducerStates(entries or (), base, policy), None)
