"""compact, cleaned: one pass of the cleaner over a log, in memory or in a stream

    survey (headers, markers) -> offset map (keys and offsets of the dirty part) -> filter (every batch once)

Time is three readings of the log; memory is the offset map, a part of about 1 MB, and what `compact` returns.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from operator import add
from typing import Any, NamedTuple

from kafkarec.format.side_files import AbortedTransaction
from kafkarec.read.decode_options import request

from .batch_table import asked
from .cleaned_transactions import CleanedTransactions
from .cleaner import CleanerDecisions, CleanerStats
from .filtering import Filter
from .log_input import LogInput, hiding, inputs
from .log_state import LogState, survey
from .offset_map import COLUMNS, OffsetMap

DAY_MS = 86_400_000
_STEP = 1 << 20
_LONG = 2**63


class CleanerSettings(NamedTuple):
    """What `compact` and `cleaned` were told; see there."""

    now: int
    delete_retention_ms: int = DAY_MS
    producer_expiration_ms: int = DAY_MS
    min_compaction_lag_ms: int = 0
    first_dirty_offset: int | None = None
    first_uncleanable_offset: int | None = None
    max_keys: int | None = None
    check_crcs: bool | str = True
    max_decompressed_bytes: int = 128 << 20

    @classmethod
    def of(cls, now: int | None = None, **wishes: Any) -> CleanerSettings:
        """Checked; ValueError says what is wrong."""
        settings = cls(time.time_ns() // 1_000_000 if now is None else now, **wishes)
        for name in _NUMBERS:
            value = getattr(settings, name)
            if value is None and name in _MAY_BE_NONE:
                continue
            if not isinstance(value, int) or not 0 <= value < _LONG:
                raise ValueError(f"{name} {value!r}: 0 to 2^63-1")
        return settings


_NUMBERS = CleanerSettings._fields[:7]
_MAY_BE_NONE = ("first_dirty_offset", "first_uncleanable_offset", "max_keys")


class Cleaning:
    """A pass of the cleaner while it goes on; iterating gives stretches of whole batches, in order.

    .stats                  CleanerStats so far
    .aborted_transactions   entries of the new .txnindex files so far, in the order of their markers: each belongs to
                            the segment that takes the batch with its `last_offset`
    .input_number           which of the log's segments the last stretch comes from
    .remaining              bytes behind the last batch of the segments that were read
    """

    def __init__(self, sources: list[LogInput], settings: CleanerSettings) -> None:
        self.stats = CleanerStats()
        self.input_number = 0
        self._sources, self._settings = sources, settings
        self._transactions = CleanedTransactions(())
        self._stretches = self._run()

    @property
    def aborted_transactions(self) -> tuple[AbortedTransaction, ...]:
        return tuple(self._transactions.kept)

    @property
    def remaining(self) -> int:
        return sum(source.remaining for source in self._sources)

    def __iter__(self) -> Iterator[bytes | memoryview]:
        return self._stretches

    def _run(self) -> Iterator[bytes | memoryview]:
        told, stats = self._settings, self.stats
        known = survey(self._sources, told.now, told.producer_expiration_ms, told.min_compaction_lag_ms)
        self._transactions = CleanedTransactions(known.aborted)
        offsets = OffsetMap(told.max_keys)
        limit = self._build(offsets, known, _limit(known, told))
        stops = [self._stop(known, number, limit) for number in range(len(self._sources))]
        stats.first_uncleanable_offset, stats.next_offset = limit, known.next_offset
        stats.map_messages_read, stats.keys = offsets.messages_read, len(offsets)
        decisions = CleanerDecisions(offsets, self._transactions, known.last_records, limit, told.now, stats)
        cleaner = Filter(decisions, told.now, told.delete_retention_ms, stats, empties_messages=True)
        wishes = asked(told.check_crcs, told.max_decompressed_bytes)
        horizon = self._legacy_horizon(known)
        for number, (source, stop) in enumerate(zip(self._sources, stops, strict=True)):
            self.input_number = number
            if stop != 0:
                modified = source.modified_ms()
                decisions.retains_legacy_tombstones = horizon is None or modified is None or modified > horizon
                yield from cleaner.run(wishes, source, stop)
            if stop is not None:
                yield from self._as_it_is(source, stop)
        self._transactions.leave_rest(limit)

    def _stop(self, known: LogState, number: int, limit: int) -> int | None:
        """The first byte of a segment that is left alone; None: all of it is cleaned. A broker cleans no segment with
        an uncleanable offset in it."""
        if known.start_offsets[number] >= limit:
            return 0
        following = known.start_offsets[number + 1] if number + 1 < len(self._sources) else known.next_offset
        if following <= limit:
            return None
        for table in self._sources[number].scan_pieces():
            for position, last in zip(table.column("position"), table.column("last_offset"), strict=True):
                if last >= limit:
                    return int(position)
        return None

    def _build(self, offsets: OffsetMap, known: LogState, limit: int) -> int:
        """Fills the offset map; gives the limit, lower where there are too many keys."""
        told = self._settings
        wishes = request(
            columns=COLUMNS, check_crcs=told.check_crcs, max_decompressed_bytes=told.max_decompressed_bytes
        )
        spans = tuple((one.producer_id, one.first_offset, one.last_offset) for one in known.aborted)
        wishes = hiding(wishes, spans, told.first_dirty_offset)
        ends = [*known.start_offsets[1:], known.next_offset]
        for number, (source, end) in enumerate(zip(self._sources, ends, strict=True)):
            stop = self._stop(known, number, limit)
            if stop != 0 and end > (told.first_dirty_offset or 0):
                full = offsets.read(source, wishes, stop)
                if full is not None:
                    return min(limit, full)
        return limit

    def _legacy_horizon(self, known: LogState) -> int | None:
        """Tombstones of magic 0 and 1 go from segments that were not modified after this time (Cleaner.doClean)."""
        dirty, modified = self._settings.first_dirty_offset, None
        for source, start in zip(self._sources, known.start_offsets, strict=True):
            if dirty is not None and start < dirty:
                modified = source.modified_ms()
        return None if modified is None else modified - self._settings.delete_retention_ms

    def _as_it_is(self, source: LogInput, start: int) -> Iterator[bytes | memoryview]:
        """The rest of a segment, which nothing is cleaned in."""
        for table in source.scan_pieces(start=start):
            ends = list(map(add, table.column("position"), table.column("size_in_bytes")))
            for end in ends:
                if end - start >= _STEP or end == ends[-1]:
                    self.stats.bytes_left_alone += end - start
                    yield source.raw(start, end - start)
                    start = end
            source.remaining = table.remaining


def _limit(known: LogState, told: CleanerSettings) -> int:
    """The first uncleanable offset (LogCleanerManager.cleanableOffsets); where nothing below it is dirty, nothing is
    cleaned."""
    limits = (known.last_stable_offset, known.first_young_offset, told.first_uncleanable_offset, known.next_offset)
    limit = min(limit for limit in limits if limit is not None)
    return min([limit, *known.start_offsets]) if (told.first_dirty_offset or 0) >= limit else limit


def cleaned(source: Any, **settings: Any) -> Cleaning:
    """As compact, in flat memory besides the offset map: iterate it for stretches of whole batches, in order."""
    return Cleaning(inputs(source), CleanerSettings.of(**settings))


class Compacted(bytes):
    """Batches behind the cleaner.

    .stats                  CleanerStats
    .aborted_transactions   entries for the .txnindex: aborted transactions whose data was still there in this pass
    .remaining              bytes of the input behind its last batch; they are not taken along
    """

    stats: CleanerStats
    aborted_transactions: tuple[AbortedTransaction, ...]
    remaining: int


def compact(
    source: Any,
    *,
    now: int | None = None,
    delete_retention_ms: int = DAY_MS,
    producer_expiration_ms: int = DAY_MS,
    min_compaction_lag_ms: int = 0,
    first_dirty_offset: int | None = None,
    first_uncleanable_offset: int | None = None,
    max_keys: int | None = None,
    check_crcs: bool | str = True,
    max_decompressed_bytes: int = 128 << 20,
) -> Compacted:
    """Runs the log cleaner over a log that no broker has open: the last record of each key stays. Follows Cleaner and
    MemoryRecords.filterTo of Kafka 4.3.

    source: a buffer of batches, or a Segment or Log from kafkarec.open. A log is cleaned to its end, its last segment
        too, which a broker would not touch
    now: ms since 1970, the wall clock by default. Tombstones and markers are given now + delete_retention_ms to live
        in the pass that finds them first, and go in one behind that time: it takes two passes to be rid of them
    delete_retention_ms: delete.retention.ms
    producer_expiration_ms: producer.id.expiration.ms; the last batch of a producer that wrote less than this before
        `now` keeps its header, without records if need be
    min_compaction_lag_ms: min.compaction.lag.ms; from the first batch with a younger record on everything stays. A
        broker looks at whole segments
    first_dirty_offset: what lies before was cleaned already: its keys are not looked at again (default: nothing was)
    first_uncleanable_offset: from here on everything stays; never beyond the last stable offset, the default
    max_keys: a run ends behind about so many keys (some 50 bytes each): everything from
        `.stats.first_uncleanable_offset` on stays, which is the next run's first_dirty_offset
    check_crcs, max_decompressed_bytes: as for kafkarec.decode; no checksum is looked at by Kafka's cleaner, which gives
        damaged bytes a new one

    KafkaRecordError for bytes that are no batches and for a batch that Kafka's cleaner would fail on; TypeError for a
    source that is a path or a data folder; ValueError for a number out of range.
    """
    going = cleaned(
        source, now=now, delete_retention_ms=delete_retention_ms, producer_expiration_ms=producer_expiration_ms,
        min_compaction_lag_ms=min_compaction_lag_ms, first_dirty_offset=first_dirty_offset,
        first_uncleanable_offset=first_uncleanable_offset, max_keys=max_keys,
        check_crcs=check_crcs, max_decompressed_bytes=max_decompressed_bytes,
    )  # fmt: skip
    result = Compacted(b"".join(going))
    result.stats, result.aborted_transactions = going.stats, going.aborted_transactions
    result.remaining = going.remaining
    return result
