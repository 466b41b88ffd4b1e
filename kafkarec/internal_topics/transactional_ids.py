"""Which transactional id a producer id belongs to, by the records of `__transaction_state` (KIP-98)"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from kafkarec.tables.records import RecordColumns

from .internal_records import read

TOPIC = "__transaction_state"
COLUMNS = ("key", "value")
_PRODUCERS = ("producerId", "previousProducerId", "nextProducerId")
STATUSES = (
    "Empty",
    "Ongoing",
    "PrepareCommit",
    "PrepareAbort",
    "CompleteCommit",
    "CompleteAbort",
    "Dead",
    "PrepareEpochFence",
)
"""By the numbers of the records (Kafka: TransactionState)."""
_PREPARED = {"PrepareCommit": False, "PrepareAbort": True}
_EPOCH_OF_ITS_OWN = 2  # the first transaction.version with it


class TransactionalIdState(NamedTuple):
    """The last state of a transactional id.

    status       a name of STATUSES; None: another number
    timeout_ms   of its transactions
    """

    transactional_id: str
    producer_epoch: int
    status: str | None
    timeout_ms: int


def by_producer(states: Iterable[RecordColumns]) -> dict[int, TransactionalIdState]:
    """{producer id: its transactional id}, from the records of the topic. Those that cannot be read are left out,
    deleted ids too."""
    found = {}
    for name, state in dict(_states(states)).items():
        for field in _PRODUCERS:
            if state.get(field, -1) >= 0:
                found[state[field]] = TransactionalIdState(
                    name, state["producerEpoch"], _status(state), state["transactionTimeoutMs"]
                )
    return found


def prepared_outcomes(states: Iterable[RecordColumns], topic: str, partition: int) -> dict[tuple[int, int], bool]:
    """{(producer id, epoch of the data): whether it was aborted} of the transactions with data in a partition that a
    coordinator was about to end, where each transaction has an epoch of its own (transaction.version 2, KIP-890). The
    record has the epoch of the marker, the one behind the data's."""
    found = {}
    for _, state in _states(states):
        status = _status(state)
        if status not in _PREPARED or state.get("clientTransactionVersion", 0) < _EPOCH_OF_ITS_OWN:
            continue
        for one in state["transactionPartitions"] or ():
            if one["topic"] == topic and partition in one["partitionIds"]:
                found[state["producerId"], state["producerEpoch"] - 1] = _PREPARED[status]
    return found


def _states(pieces: Iterable[RecordColumns]) -> Iterator[tuple[str, dict[str, Any]]]:
    """(transactional id, its state) of each record; a deleted one has no fields."""
    for piece in pieces:
        for key, value in piece.zip_columns(*COLUMNS):
            record = read(TOPIC, key, value)
            if record.key is not None and (record.value is not None or record.is_tombstone):
                yield record.key["transactionalId"], record.value or {}


def _status(state: dict[str, Any]) -> str | None:
    number = state.get("transactionStatus", -1)
    return STATUSES[number] if 0 <= number < len(STATUSES) else None
