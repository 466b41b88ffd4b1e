"""Transaction, and transactions that were open at the start of a log, from the producer snapshot of its first segment
(KIP-98).

... deleted segments ... | NNN.snapshot  NNN.log ...
    ^ first offset       | has the producers with an open transaction: its first offset, the last coordinator epoch
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from kafkarec.errors import KafkaRecordError
from kafkarec.format.side_files import SnapshotEntry
from kafkarec.recover.marker_matching import Match, Note
from kafkarec.recover.steps import ROW, WIDTH

_PRODUCER = ROW.index("producer_id")


class Transaction(NamedTuple):
    """One transaction of one partition. Times are in milliseconds since 1970; None: not known.

    producer_id, producer_epoch: int    the epoch of its last data; the marker may have the next epoch (KIP-890)
    state: str                          open, hanging, aborted, committed
    first_offset, last_offset: int      of its data; first_offset may be before the log (from .txnindex or .snapshot);
                                        last_offset is None without data in the log
    marker_offset: int                  None while it is open
    first_timestamp, last_timestamp     of its data
    duration_ms: int                    from its first record to its marker; while open, how long at least by the append
                                        times of markers and of batches with log append time; None: none tells
    batches, records, bytes: int        of its data in the log, without the marker
    coordinator_epoch: int              of the coordinator that wrote the marker; while open, of the one that wrote the
                                        producer's previous marker (None: there is none in the log)
    segments: tuple[str, ...]           files from its first batch to its marker or, while open, to the log's end
    """

    producer_id: int
    producer_epoch: int
    state: str
    first_offset: int | None
    last_offset: int | None
    marker_offset: int | None
    first_timestamp: int | None
    last_timestamp: int | None
    duration_ms: int | None
    batches: int
    records: int
    bytes: int
    coordinator_epoch: int | None
    segments: tuple[str, ...]


class OpenAtLogStart(NamedTuple):
    """The open transactions of a log and its snapshot.

    ongoing   open transactions with data in the log, with values from the snapshot
    begun     snapshot entries of producers with an open transaction without data in the log
    notes     about these producers, or about an unreadable snapshot
    """

    ongoing: list[Transaction]
    begun: list[SnapshotEntry]
    notes: list[Note]


def with_snapshot(found: Match, ongoing: Iterable[Transaction]) -> OpenAtLogStart:
    """The open transactions, with the values of the first segment's snapshot for producers without a marker in the
    log."""
    by_producer = {txn.producer_id: txn for txn in ongoing}
    if not found.segments:
        return OpenAtLogStart([], [], [])
    first = found.segments[0]
    try:
        entries = found.evidence_of(first).snapshot() or ()
    except (KafkaRecordError, OSError) as error:
        note = Note("snapshot_unreadable", first.path, None, None, str(error))
        return OpenAtLogStart(list(by_producer.values()), [], [note])
    begun = []
    for entry in _without_marker(found, entries):
        since = entry.current_txn_first_offset
        txn = by_producer.get(entry.producer_id)
        if txn is not None:
            offset = txn.first_offset if since < 0 else since
            epoch = None if entry.coordinator_epoch < 0 else entry.coordinator_epoch
            by_producer[entry.producer_id] = txn._replace(first_offset=offset, coordinator_epoch=epoch)
        elif since >= 0:
            begun.append(entry)
    notes = [
        Note("begun_before", first.path, entry.current_txn_first_offset, entry.producer_id, _sentence(entry))
        for entry in begun
    ]
    return OpenAtLogStart(list(by_producer.values()), begun, notes)


def _without_marker(found: Match, entries: Iterable[SnapshotEntry]) -> list[SnapshotEntry]:
    """The entries of producers without a marker in the log. For these the snapshot is still valid."""
    known = [entry for entry in entries if entry.producer_id >= 0]
    if not known:
        return []
    ended = {producer for rows in (found.ended, found.without_data) for producer in rows[_PRODUCER::WIDTH]}
    return [entry for entry in known if entry.producer_id not in ended]


def _sentence(entry: SnapshotEntry) -> str:
    return (
        f"producer {entry.producer_id} (epoch {entry.producer_epoch}) has a transaction open since offset "
        f"{entry.current_txn_first_offset}, before the start of this log, and no marker here ends it: a broker keeps "
        f"read_committed consumers at the log's start"
    )
