"""Finds batches of a new log that a broker fails on: plain (non-transactional) ones within an open transaction


    offset 40   transactional batch of producer 7       a transaction begins
    offset 45   its marker                              lost to damage
    offset 60   plain batch of producer 7               ProducerAppendInfo throws InvalidTxnStateException

A broker that recovers such a log stops at startup. So the plain batches are set aside. The transaction is kept:
`lost_markers` left its end open. This is done after the log is written, because its markers and batches must be read in
order.
"""

from __future__ import annotations

from collections.abc import Iterator

from kafkarec.errors import KafkaRecordError
from kafkarec.format.layout import V2_OVERHEAD, v2_header
from kafkarec.sidecars import producer_snapshot
from kafkarec.state.producers import ProducerStates
from kafkarec.state.recovery_walk import walk
from kafkarec.storage import Log

from .rewriting import RemovedBatch

REASON = "transaction_open"


def find_plain_batches(log: Log) -> list[RemovedBatch]:
    """The plain batches of a new log whose producer has an open transaction at their offset."""
    return list(_plain_batches(log)) if _may_have_plain_batches(log) else []


def sentences(plain: list[RemovedBatch]) -> list[str]:
    """What the report says of the removed batches."""
    return [
        f"the end of the transaction of producer {producer_id} from offset {first} on is missing, and the producer "
        "wrote plain batches after it: a broker would not start on them, so they are set aside"
        for producer_id, first in sorted({(one.producer_id, one.first) for one in plain})
    ]


def _may_have_plain_batches(log: Log) -> bool:
    """Whether any producer has both transactional and plain batches. Reads headers only; most logs have no such
    producer."""
    seen: dict[bool, set[int]] = {True: set(), False: set()}
    for segment in log.segments:
        for table in segment.scan_pieces(errors="skip"):
            columns = map(table.column, ("producer_id", "is_control", "is_transactional"))
            for producer_id, is_control, is_transactional in zip(*columns, strict=True):
                if producer_id is not None and producer_id >= 0 and not is_control:
                    seen[bool(is_transactional)].add(producer_id)
    seen[True] |= {one.producer_id for one in _states_at_start(log).entries()}
    return bool(seen[True] & seen[False])


def _states_at_start(log: Log) -> ProducerStates:
    """The producers at the start of the log, from the .snapshot of its first segment."""
    first = log.segments[0]
    try:
        data = first.sidecar(producer_snapshot.SUFFIX) if first.base_offset else None
        return ProducerStates(() if data is None else producer_snapshot.read(data), first.base_offset or 0)
    except KafkaRecordError:
        return ProducerStates((), first.base_offset or 0)


def _plain_batches(log: Log) -> Iterator[RemovedBatch]:
    states = _states_at_start(log)
    for segment in log.segments:
        for batches in walk(segment.parts):
            names = ("position", "size_in_bytes", "base_offset", "last_offset", "producer_id")
            columns = [batches.columns[name] for name in names]
            for row, open_since in states.take(batches).plain:
                position, size, base, last, producer_id = (column[row] for column in columns)
                # Of magic 2: older messages have no producer.
                count = v2_header(segment.raw(position, V2_OVERHEAD)).record_count
                yield RemovedBatch(segment.name, position, size, base, last, count, producer_id, open_since)
