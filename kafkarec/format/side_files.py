"""Entries of the files beside a segment, as plain tuples; their bytes are in `sidecars`."""

from __future__ import annotations

from typing import NamedTuple


class AbortedTransaction(NamedTuple):
    """An entry of a .txnindex file (Kafka: AbortedTxn); all offsets are absolute."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int
    version: int = 0


class SnapshotEntry(NamedTuple):
    """One producer of a .snapshot file (Kafka: ProducerStateEntry), the numbers as stored. -1 means "none" in all
    fields except producer_id, offset_delta and timestamp (ms)."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int
    coordinator_epoch: int
    current_txn_first_offset: int
