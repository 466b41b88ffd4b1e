"""The transactions of a log: open, hanging, aborted and committed, with durations and sizes.

Segment, buffer -> read.walk -> recover.marker_matching.MatchedTransactions -> listing
                                                              -> read.isolation (decode, read)

Those that were open at the log's start are in the producer snapshot of its first segment (KIP-98):

... deleted segments ... | NNN.snapshot  NNN.log ...
    ^ first offset       | has the producers with an open transaction: its first offset, the last coordinator epoch

The age of an open transaction is told by append times: a producer sets the create time of a record, and events that are
replayed keep theirs. A broker sets the timestamps of markers, and of all batches with log append time (KIP-32).

    data of 7 (create time)   marker of 9   ...   marker of 9       open for at least the time between the two markers
    data of 7 (append time)   any batch     ...   newest batch      open for the time between
"""

from __future__ import annotations

import os
from array import array
from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import timedelta
from itertools import accumulate
from typing import Any, NamedTuple, overload

from kafkarec._lazy import cached_property
from kafkarec.damage import Damage
from kafkarec.errors import KafkaRecordError
from kafkarec.format.layout import LOG_APPEND_TIME, V2_OVERHEAD, batch_header
from kafkarec.read.isolation import match_markers
from kafkarec.recover.marker_matching import MatchedTransactions, Note
from kafkarec.recover.steps import ABORT, COMMIT, ROW, WIDTH, EndedRow, TransactionData, columns_of
from kafkarec.state import HANGING_AFTER

__all__ = ["HANGING_AFTER", "STATES", "Transaction", "TransactionListing", "listing"]

OPEN, HANGING, ABORTED, COMMITTED = "open", "hanging", "aborted", "committed"
STATES = (OPEN, HANGING, ABORTED, COMMITTED)
"""The states of a transaction; `hanging`: open for longer than a transaction coordinator allows."""

_CODE = ROW.index("code")
_STATE_OF = {ABORT: ABORTED, COMMIT: COMMITTED}
_CODE_OF = {state: code for code, state in _STATE_OF.items()}


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


def _none_if_negative(value: int) -> int | None:
    return None if value < 0 else value


def _ended_transactions(
    rows: array[int], names: Sequence[str | None], codes: Collection[int] = _STATE_OF
) -> Iterator[Transaction]:
    """Of consecutive EndedRows, those with these codes. names: of all segments"""
    for number, code in enumerate(rows[_CODE::WIDTH]):
        if code in codes:
            row = EndedRow._make(rows[number * WIDTH : (number + 1) * WIDTH])
            begun, ended = row.first_timestamp, row.marker_timestamp
            took = None if min(begun, ended) < 0 else ended - begun
            segments = names[row.segment : row.last_segment + 1]
            yield _transaction(row, _STATE_OF[code], took, segments, row.marker_offset)


def _transaction(
    one: EndedRow | TransactionData,
    state: str,
    duration: int | None,
    names: Sequence[str | None],
    marker_offset: int | None = None,
) -> Transaction:
    return Transaction(
        one.producer_id,
        one.producer_epoch,
        state,
        _none_if_negative(one.first_offset),
        _none_if_negative(one.last_offset),
        marker_offset,
        _none_if_negative(one.first_timestamp),
        _none_if_negative(one.last_timestamp),
        duration,
        one.batches,
        one.records,
        one.bytes,
        _none_if_negative(one.coordinator_epoch),
        tuple(filter(None, names)),
    )


class TransactionListing(Sequence[Transaction]):
    """Every transaction of a log: the ended ones in the order of their markers, then the open ones by first offset.
    Iterating makes one after the other; the first that is taken by its index makes all.

    .last_stable_offset    the offset at which a read_committed consumer stops: the first offset of the first open
                           transaction with data in the log, else the log end offset
    .next_offset           the log end offset; None: the log has no batch
    .max_timestamp         of all batches, ms
    .ongoing               open and hanging ones together, by first offset; includes those that began before the log and
                           have no data in it (from the producer .snapshot; with a note)
    .open .hanging .aborted .committed    the transactions of one state
    .listed_ahead          {(producer id, first offset): marker offset} of ongoing ones whose ABORT the .txnindex has
                           behind the log's end: the log was longer, and the transaction is no longer open elsewhere
    .without_data          markers of transactions without data in the log: empty ones, and those with deleted data
    .notes                 contradictions in the log or between it and a .txnindex; see Note
    .damage                damaged batches
    """

    def __init__(self, found: MatchedTransactions, hanging_after: timedelta) -> None:
        self._found = found
        self._after = hanging_after // timedelta(milliseconds=1)
        self.next_offset = found.next_offset
        self.max_timestamp = _none_if_negative(found.max_timestamp)
        self.damage: tuple[Damage, ...] = tuple(found.damage)
        self._names = names = [None if one.path is None else os.path.basename(one.path) for one in found.segments]
        ongoing = {
            producer: self._open_transaction(data, data.position, data.first_timestamp, names[data.segment :])
            for producer, data in found.open.items()
        }
        first_offsets = [txn.first_offset for txn in ongoing.values() if txn.first_offset is not None]
        self.last_stable_offset = min(first_offsets, default=found.next_offset)
        self.notes = (*found.notes, *self._add_snapshot(ongoing))
        self.ongoing = tuple(sorted(ongoing.values(), key=lambda txn: txn.first_offset or 0))
        self.listed_ahead = {(one.producer_id, one.first_offset): one.marker_offset for one in found.listed_ahead()}

    @cached_property
    def without_data(self) -> tuple[Transaction, ...]:
        return tuple(_ended_transactions(self._found.without_data, self._names))

    @cached_property
    def _as_list(self) -> list[Transaction]:
        return list(self)

    def __iter__(self) -> Iterator[Transaction]:  # without a list of all: there may be millions
        yield from _ended_transactions(self._found.ended, self._names)
        yield from self.ongoing

    def __len__(self) -> int:
        return len(self._found.ended) // WIDTH + len(self.ongoing)

    @overload
    def __getitem__(self, wanted: int) -> Transaction: ...
    @overload
    def __getitem__(self, wanted: slice) -> Sequence[Transaction]: ...
    def __getitem__(self, wanted: int | slice) -> Transaction | Sequence[Transaction]:
        return self._as_list[wanted]

    def _open_transaction(
        self, data: TransactionData, position: int, time: int, names: Sequence[str | None]
    ) -> Transaction:
        """names: of the segments from its first batch on

        position, time: of a batch of the log, and when it or a later one was appended if it has log append time
        """
        age: int | None = None  # at least, by append times, ms; None: no append time tells
        header = None
        if time >= 0 and position >= 0:
            with suppress(OSError, KafkaRecordError):
                header = batch_header(self._found.segments[data.segment].raw(position, V2_OVERHEAD))
        if header is not None and header.attributes & LOG_APPEND_TIME:  # the broker set the batch's timestamps
            age = max((self.max_timestamp or 0) - time, 0)
        else:
            offsets, times, largest = self._marker_times
            at = bisect_right(offsets, data.first_offset)
            age = largest[at] - times[at] if at < len(times) else None
        return _transaction(data, HANGING if age is not None and age >= self._after else OPEN, age, names)

    @property
    def open(self) -> Sequence[Transaction]:
        return tuple(self.of(OPEN))

    @property
    def hanging(self) -> Sequence[Transaction]:
        return tuple(self.of(HANGING))

    @property
    def aborted(self) -> Sequence[Transaction]:
        return tuple(self.of(ABORTED))

    @property
    def committed(self) -> Sequence[Transaction]:
        return tuple(self.of(COMMITTED))

    def _add_snapshot(self, ongoing: dict[int, Transaction]) -> Iterator[Note]:
        """Adds what the first segment's snapshot has of producers without a marker in the log, for which it is still
        valid: to their open transactions, and those without data in the log. Yields notes about these, or that the
        snapshot cannot be read."""
        found = self._found
        if not found.segments:
            return
        first = found.segments[0]
        try:
            entries = [one for one in first.transaction_evidence.snapshot() or () if one.producer_id >= 0]
        except (KafkaRecordError, OSError) as error:
            yield Note("snapshot_unreadable", first.path, None, None, str(error))
            return
        markers = (found.ended, found.without_data) if entries else ()
        ended = {producer for rows in markers for (producer,) in columns_of(rows, "producer_id")}
        for entry in entries:
            producer, since = entry.producer_id, entry.current_txn_first_offset
            if producer in ended:
                continue
            txn = ongoing.get(producer)
            if txn is not None:
                offset = txn.first_offset if since < 0 else since
                ongoing[producer] = txn._replace(
                    first_offset=offset, coordinator_epoch=_none_if_negative(entry.coordinator_epoch)
                )
            elif since >= 0:
                data = TransactionData(
                    producer,
                    entry.coordinator_epoch,
                    entry.producer_epoch,
                    since,
                    entry.last_offset,
                    last_timestamp=entry.timestamp,
                )
                ongoing[producer] = self._open_transaction(data, 0, entry.timestamp, ())
                detail = (
                    f"producer {producer} (epoch {entry.producer_epoch}) has a transaction open since offset {since}, "
                    "before the start of this log, and no marker here ends it: a broker keeps read_committed consumers "
                    "at the log's start"
                )
                yield Note("begun_before", first.path, since, producer, detail)

    @cached_property
    def _marker_times(self) -> tuple[Sequence[int], Sequence[int], Sequence[int]]:
        """Of the markers with a timestamp: their offsets, their timestamps, the largest one from each on."""
        found: list[tuple[int, ...]] = []
        for rows in (self._found.ended, self._found.without_data):
            found += columns_of(rows, "marker_offset", "marker_timestamp")
        found = sorted(one for one in found if one[1] >= 0)
        times = [time for _, time in found]
        return [offset for offset, _ in found], times, [*accumulate(reversed(times), max)][::-1]

    def of(self, state: str) -> Iterator[Transaction]:
        """Yields the transactions of one state, in order."""
        if state in _CODE_OF:
            return _ended_transactions(self._found.ended, self._names, (_CODE_OF[state],))
        return (txn for txn in self.ongoing if txn.state == state)

    def count(self, state: str) -> int:
        """The number of transactions of a state."""
        if state in _CODE_OF:
            return self._found.ended[_CODE::WIDTH].count(_CODE_OF[state])
        return [txn.state for txn in self.ongoing].count(state)

    def __repr__(self) -> str:
        counts = ", ".join(f"{self.count(state)} {state}" for state in STATES)
        return f"<TransactionListing: {counts}; last stable offset {self.last_stable_offset}>"


def listing(segments: Iterable[Any], *, hanging_after: timedelta = HANGING_AFTER) -> TransactionListing:
    """The transactions of one log, from the headers of all batches and the payloads of control batches.

    segments: of the log, in order (Segment or any buffer)
    hanging_after: an open transaction of at least this age, by append times, is hanging
    Damaged batches and unreadable markers end no transaction; see `.damage` and `.notes`.
    """
    if not isinstance(hanging_after, timedelta):
        raise TypeError(f"hanging_after: a timedelta is expected, found {hanging_after!r}")
    if hanging_after < timedelta(0):
        raise ValueError(f"hanging_after {hanging_after!r}: zero or more")
    return TransactionListing(match_markers(segments), hanging_after)
