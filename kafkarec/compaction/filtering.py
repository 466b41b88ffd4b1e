"""filter_to: batches and records thrown away by somebody's decisions (Kafka: MemoryRecords.filterTo, RecordFilter)

    decision on a batch    DELETE         gone, unread
                           DELETE_EMPTY   gone when no record of it stays
                           RETAIN_EMPTY   without records its header stays, as an empty batch
    what became of it      as it was      magic 2, every record stays, no delete horizon to be set: its bytes, copied
                           rewritten      see rewriting.py
                           emptied, gone

A delete horizon (KIP-534), `now` + `delete_retention_ms`, is set on a batch that has none and keeps a tombstone, or is
the marker of a transaction without data.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple, Protocol

from .._writer import RecordInput
from ..errors import REASONS, KafkaRecordError
from ..passes import Part, as_columns
from ..request import Request
from ..writing.sheets import record_input_of
from .batches import Batch, Rows, asked, batches
from .inputs import Buffer, Input
from .rewriting import HEADER_SIZE, emptied, refuse, rewritten

_LOG_APPEND = 1
# Behind a good checksum: the batch ends where it says.
_OF_PAYLOADS = frozenset(list(REASONS)[list(REASONS).index("crc_mismatch") + 1 : list(REASONS).index("out_of_memory")])


class BatchRetention(Enum):
    """What becomes of a batch (Kafka: RecordFilter.BatchRetention)."""

    DELETE = "delete"
    RETAIN_EMPTY = "retain_empty"
    DELETE_EMPTY = "delete_empty"


class Verdict(NamedTuple):
    """A decision on a batch (Kafka: RecordFilter.BatchRetentionResult).

    empty_transaction   it holds the marker of a transaction that has no data left: its delete horizon is set
    records             True: all stay, False: none; None: `Decisions.records` is asked
    """

    retention: BatchRetention
    empty_transaction: bool = False
    records: bool | None = None


class Decisions(Protocol):
    """What a filter decides (Kafka: MemoryRecords.RecordFilter)."""

    def batch(self, batch: Batch) -> Verdict:
        """Asked of every batch, in order."""
        ...

    def records(self, verdicts: list[tuple[Batch, Verdict]], rows: Rows) -> bytes | bytearray:
        """One byte for each of `rows`: 1 stays, 0 goes. Asked once for a stretch of batches, behind `batch`; what
        stands at rows of batches that need no answer counts for nothing."""
        ...


@dataclass(slots=True)
class FilterStats:
    """What a filter read and what it left (Kafka: MemoryRecords.FilterResult).

    messages_read             records of the batches that were read; those of deleted batches are not
    max_offset                greatest last offset of a batch that was copied or emptied, or offset of a record in one
                              that was rewritten; -1: nothing is left
    max_timestamp             greatest max timestamp of what is left, ms; -1: none
    offset_of_max_timestamp   the last offset of the batch that has it
    batches_*                 read; then copied as they were, rewritten, emptied, removed
    horizons_set              batches that got a delete horizon
    """

    messages_read: int = 0
    bytes_read: int = 0
    messages_retained: int = 0
    bytes_retained: int = 0
    max_offset: int = -1
    max_timestamp: int = -1
    offset_of_max_timestamp: int = -1
    batches_read: int = 0
    batches_copied: int = 0
    batches_rewritten: int = 0
    batches_emptied: int = 0
    batches_removed: int = 0
    horizons_set: int = 0

    def left(self, batch: Batch, max_timestamp: int, at: int, max_offset: int, messages: int, size: int) -> None:
        """A batch that stays in some form (FilterResult.updateRetainedBatchMetadata)."""
        if max_timestamp != -1 and at < 0:
            refuse(batch, f"its last offset {at} is negative")
        if max_offset < 0:
            refuse(batch, f"its greatest offset {max_offset} is negative")
        if max_timestamp > self.max_timestamp:
            self.max_timestamp, self.offset_of_max_timestamp = max_timestamp, at
        self.max_offset = max(self.max_offset, max_offset)
        self.messages_retained += messages
        self.bytes_retained += size


class Filter:
    """One pass over one or more inputs. `stats` counts on.

    empties_messages   RETAIN_EMPTY makes an empty batch of a message of magic 0 or 1, too, where Kafka refuses
    """

    def __init__(
        self, decisions: Decisions, now: int, delete_retention_ms: int, stats: FilterStats, *, empties_messages: bool
    ) -> None:
        self.stats = stats
        self._empties_messages = empties_messages
        self._decisions = decisions
        self._horizon = (now + delete_retention_ms + 2**63) % 2**64 - 2**63  # a long of Java: it wraps

    def run(self, asked: Request, source: Input, stop: int | None = None) -> Iterator[bytes | memoryview]:
        """What is left of an input, or of its first bytes, in stretches of whole batches."""
        start: int | None = 0
        while start is not None:
            try:
                for part in source.parts(asked, start, stop):
                    yield from self._part(asked, part, source)
                start = None
            except KafkaRecordError as error:
                start = self._behind_unreadable(error, source)
                if start is None:
                    raise

    def _behind_unreadable(self, error: KafkaRecordError, source: Input) -> int | None:
        """A batch that is deleted is not read, so it may hold anything behind a good checksum: where to go on."""
        if error.reason not in _OF_PAYLOADS or error.position is None:
            return None
        start = error.position
        table = next(source.scan_pieces(start=start), None)
        if table is None or not len(table):
            return None
        [batch] = batches(table[:1], Rows(None))
        if self._decisions.batch(batch).retention is not BatchRetention.DELETE:
            return None
        self.stats.batches_read += 1
        self.stats.bytes_read += batch.size
        self.stats.batches_removed += 1
        return start + batch.size

    def _part(self, asked: Request, part: Part, source: Input) -> Iterator[bytes | memoryview]:
        columns = as_columns(asked, part)
        rows = Rows(part.chunks[0] if part.chunks else None)
        verdicts = [(batch, self._decisions.batch(batch)) for batch in batches(columns.batches, rows)]
        keep = self._decisions.records(verdicts, rows)
        ones, zeros = b"\x01" * len(rows), bytes(len(rows))
        record_input: RecordInput | None = None
        copied = stop = 0  # bytes [copied, stop) of the input wait to be passed on as they are
        for batch, verdict in verdicts:
            chosen = keep if verdict.records is None else ones if verdict.records else zeros
            fate = self._fate(batch, verdict, chosen, rows)
            if fate is _COPIED and batch.position == stop:
                stop += batch.size
                continue
            if stop > copied:
                yield source.raw(copied, stop - copied)
                copied = stop
            if fate is _COPIED:
                copied, stop = batch.position, batch.position + batch.size
            elif fate is _EMPTIED:
                yield emptied(batch)
            elif fate is not _GONE:
                if record_input is None:
                    record_input = record_input_of(columns)
                yield self._rewritten(batch, rows, record_input, bytes(chosen[batch.start : batch.stop]), fate.horizon)
        if stop > copied:
            yield source.raw(copied, stop - copied)

    def _fate(self, batch: Batch, verdict: Verdict, keep: bytes | bytearray, rows: Rows) -> _Fate:
        stats, count = self.stats, batch.stop - batch.start
        stats.batches_read += 1
        stats.bytes_read += batch.size
        if verdict.retention is BatchRetention.DELETE:
            stats.batches_removed += 1
            return _GONE
        stats.messages_read += count
        kept = keep.count(1, batch.start, batch.stop)
        if not kept:
            if verdict.retention is not BatchRetention.RETAIN_EMPTY:
                stats.batches_removed += 1
                return _GONE
            if batch.magic < 2 and not self._empties_messages:
                raise ValueError("RETAIN_EMPTY for a message of magic 0 or 1: only batches of magic 2 can be empty")
            stats.batches_emptied += 1
            stats.left(batch, batch.max_timestamp, batch.last_offset, batch.last_offset, 0, HEADER_SIZE)
            return _EMPTIED
        sets = batch.delete_horizon_ms is None and (verdict.empty_transaction or _tombstones(batch, keep, rows))
        if kept == count and batch.magic == 2 and not sets:
            stats.batches_copied += 1
            stats.left(batch, batch.max_timestamp, batch.last_offset, batch.last_offset, count, batch.size)
            return _COPIED
        stats.batches_rewritten += 1
        stats.horizons_set += sets and self._horizon >= 0
        return _Fate(self._horizon if sets else batch.delete_horizon_ms)

    def _rewritten(self, batch: Batch, rows: Rows, record_input: RecordInput, keep: bytes, horizon: int | None) -> bytes:
        written, offsets = rewritten(batch, rows, record_input, keep, horizon)
        max_timestamp = int.from_bytes(written[35:43], "big", signed=True)
        at = batch.last_offset if batch.magic == 2 else offsets[-1]
        if max_timestamp == -1 and batch.timestamp_type != _LOG_APPEND:
            at = -1
        self.stats.left(batch, max_timestamp, at, offsets[-1], len(offsets), len(written))
        return written


class _Fate(NamedTuple):
    """What becomes of a batch: written anew with this delete horizon, or one of the constants."""

    horizon: int | None


_COPIED, _EMPTIED, _GONE = _Fate(-1), _Fate(-2), _Fate(-3)


def _tombstones(batch: Batch, keep: bytes | bytearray, rows: Rows) -> bool:
    """Whether a record without value stays."""
    missing = rows.without_value
    if missing is None or missing.find(1, batch.start, batch.stop) < 0:
        return False
    span = slice(batch.start, batch.stop)
    return bool(int.from_bytes(missing[span], "big") & int.from_bytes(keep[span], "big"))


class Filtered(bytes):
    """Batches that were filtered. `.stats`: FilterStats; `.remaining`: bytes of the input behind its last batch."""

    stats: FilterStats
    remaining: int


def filter_to(
    data: Any,
    decisions: Decisions,
    *,
    now: int,
    delete_retention_ms: int,
    check_crcs: bool | str = True,
    max_decompressed_bytes: int = 128 << 20,
) -> Filtered:
    """The batches of a buffer without what `decisions` throw away. Follows MemoryRecords.filterTo of Kafka 4.3.

    now, delete_retention_ms: int ms; their sum is the delete horizon of batches that get one
    check_crcs, max_decompressed_bytes: as for kafkarec.decode

    Kafka looks at no checksum here, so `check_crcs=False` is its way. Header keys that are no UTF-8 keep their bytes;
    Kafka's builder writes U+FFFD in their place.

    KafkaRecordError for bytes that are no batches, and for records that no batch could be written with. ValueError for
    RETAIN_EMPTY on a message of magic 0 or 1 that loses all its records.
    """
    source = Buffer(data)
    wishes = asked(check_crcs, max_decompressed_bytes)
    done = FilterStats()
    going = Filter(decisions, now, delete_retention_ms, done, empties_messages=False).run(wishes, source)
    result = Filtered(b"".join(going))
    result.stats, result.remaining = done, source.remaining
    return result
