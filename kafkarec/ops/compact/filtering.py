"""Removes the batches and records that a filter rejects (Kafka: MemoryRecords.filterTo, RecordFilter)

    step (about 1 MB of input) -> SourceBatch    one for each batch, in order, empty ones too
                               -> BatchRecords   all records of the step; a batch has the rows [start, stop)
    batch retention   DELETE         removed without reading its records
                      DELETE_EMPTY   removed if none of its records is kept
                      RETAIN_EMPTY   if none of its records is kept, its header is, as an empty batch
    outcome           copied         magic 2, every record is kept and no delete horizon is to be set: the same bytes
                      rewritten      see below
                      emptied        the header alone
                      removed

A delete horizon (KIP-534), `now` + `delete_retention_ms`, is set on a batch that has none and keeps a tombstone, or is
the marker of a transaction without data. In a batch that is rewritten (MemoryRecords.buildRetainedRecordsInto,
DefaultRecordBatch)

    unchanged     base and last offset, leader epoch, producer id, epoch and base sequence, flags, codec
    may change    base timestamp: that of the first kept record, or the delete horizon
                  max timestamp: the greatest of the kept records; with LogAppendTime it is unchanged
                  magic: messages of magic 0 and 1 become batches of magic 2 (KIP-724, since Kafka 4.0), whose base and
                  last offset are those of the first and last kept record; with RETAIN_EMPTY the last offset stays

Records that Kafka's builder refuses are refused here: a broker stops cleaning the partition of such a log.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from itertools import compress, pairwise
from typing import Any, NamedTuple, NoReturn

from kafkarec import codecs
from kafkarec._core import Chunk
from kafkarec._lazy import cached_property
from kafkarec._verbs import RequestCheck
from kafkarec._writer import RecordInput
from kafkarec.damage import error
from kafkarec.errors import PAYLOAD_REASONS, KafkaRecordError
from kafkarec.format.java_integers import INT_MAX, wrapped
from kafkarec.format.layout import BATCH_MAGIC, LEAST_SIZES
from kafkarec.ops.rewrite import Progress, batches_of, empty_batch, new_header, row_counts, steps
from kafkarec.ops.rewrite import SourceBatch as SourceBatch
from kafkarec.read.decode_options import DecodeRequest, request
from kafkarec.read.passes import as_columns
from kafkarec.read.walk import HEADERS, walk, walk_request
from kafkarec.recover.steps import Step
from kafkarec.storage.raw_batches import reread
from kafkarec.write.encoding import record_input_of

COLUMNS = ("offset", "timestamp", "key", "value", "headers", "control_type")
_OFFSET, _TIMESTAMP, _KEY, _VALUE, _, _CONTROL_TYPE = range(len(COLUMNS))
_ABSENT = bytes.maketrans(b"01", b"\x01\x00")


class BatchRecords:
    """The records of one step. A column is converted to Python objects when it is first used."""

    def __init__(self, chunk: Chunk | None) -> None:
        self._chunk = chunk
        self._length = 0 if chunk is None else len(chunk)

    def __len__(self) -> int:
        return self._length

    def _column(self, index: int, format_: str) -> list[Any]:
        return [] if self._chunk is None else self._chunk.values(index, format_, 0, self._length)

    def _nulls(self, index: int) -> bytes | None:
        """One byte per row, 1 where the column is null; None if there are no nulls."""
        if self._chunk is None:
            return None
        validity, _, _ = self._chunk.column(index, 0)
        if validity is None:
            return None
        size = (self._length + 7) >> 3
        bits = f"{int.from_bytes(validity[:size], 'little'):0{size * 8}b}"[::-1][: self._length]
        return bits.encode().translate(_ABSENT) if "0" in bits else None

    def call_with_keys(self, look: Callable[[tuple[Any, Any, Any], Any, int], bytearray]) -> bytearray:
        """`look(key buffers (validity, offsets, data), offset buffer, row count)`; empty without records."""
        if self._chunk is None:
            return bytearray()
        return look(self._chunk.column(_KEY, 0), self._chunk.column(_OFFSET, 8)[1], self._length)

    @cached_property
    def offsets(self) -> list[int]:
        return self._column(_OFFSET, "l")

    @cached_property
    def timestamps(self) -> list[int | None]:
        """Milliseconds; None for -1."""
        return self._column(_TIMESTAMP, "l")

    @cached_property
    def keys(self) -> list[bytes | None]:
        return self._column(_KEY, "z")

    @cached_property
    def values(self) -> list[bytes | None]:
        return self._column(_VALUE, "z")

    @cached_property
    def control_types(self) -> list[int | None]:
        return self._column(_CONTROL_TYPE, "s")

    @cached_property
    def without_key(self) -> bytes | None:
        return self._nulls(_KEY)

    @cached_property
    def without_value(self) -> bytes | None:
        """One byte per row, 1 for a tombstone (null value); None if there are none."""
        return self._nulls(_VALUE)


def decode_request(check_crcs: bool | str, max_decompressed_bytes: int) -> DecodeRequest:
    """The request for all columns that are needed to rewrite a record unchanged."""
    return request(
        columns=COLUMNS,
        control=True,
        timestamp_unit="int64",
        header_keys="binary",
        check_crcs=check_crcs,
        max_decompressed_bytes=max_decompressed_bytes,
    )


def refuse(batch: SourceBatch, why: str) -> NoReturn:
    """Raises InvalidRecordError: the batch cannot be rewritten."""
    which = f"the batch at byte {batch.position} (last offset {batch.last_offset})"
    raise batch.error("batch_not_rewritable", f"{which} cannot be rewritten: {why}")


_LOG_APPEND = 1


class BatchRetention(Enum):
    """How a batch without kept records is treated (Kafka: RecordFilter.BatchRetention)."""

    DELETE = "delete"
    RETAIN_EMPTY = "retain_empty"
    DELETE_EMPTY = "delete_empty"


class BatchRetentionResult(NamedTuple):
    """What a filter returns for a batch (Kafka: RecordFilter.BatchRetentionResult).

    empty_transaction   its marker ends a transaction that has no data left: its delete horizon is set
    records             True: all are kept, False: none; None: `RecordFilter.records` says which
    """

    retention: BatchRetention
    empty_transaction: bool = False
    records: bool | None = None


@dataclass(slots=True)
class CleanerStats:
    """What a pass read, and what it kept (Kafka: MemoryRecords.FilterResult, CleanerStats, and causes that it does not
    count).

    messages_read             records of the batches that were read; deleted batches are not read
    max_offset                greatest last offset of a batch that was copied or emptied, or offset of a record in one
                              that was rewritten; -1: nothing was kept
    max_timestamp             greatest max timestamp of what was kept, ms; -1: none
    offset_of_max_timestamp   last offset of the batch with that max timestamp
    batches_read              the sum of batches_copied, batches_rewritten, batches_emptied and batches_removed
    horizons_set              batches whose delete horizon was set

    Of the log cleaner:

    messages_superseded     removed: the log has a later offset for the key
    messages_invalid        removed: no key
    tombstones_removed      removed: past the delete horizon
    messages_aborted        removed: data of aborted transactions
    markers_removed         control records removed: no data left in the transaction, past the delete horizon
    map_messages_read       records read for the offset map, with `keys` distinct keys
    bytes_left_alone        bytes from the first uncleanable offset on, copied unchanged
    first_uncleanable_offset, next_offset   where cleaning ended, and where the log ends
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
    messages_superseded: int = 0
    messages_invalid: int = 0
    tombstones_removed: int = 0
    messages_aborted: int = 0
    markers_removed: int = 0
    map_messages_read: int = 0
    keys: int = 0
    bytes_left_alone: int = 0
    first_uncleanable_offset: int = 0
    next_offset: int = 0

    def add_retained(
        self, batch: SourceBatch, max_timestamp: int, at: int, max_offset: int, messages: int, size: int
    ) -> None:
        """Counts a batch that is kept in some form (FilterResult.updateRetainedBatchMetadata)."""
        if max_timestamp != -1 and at < 0:
            refuse(batch, f"its last offset {at} is negative")
        if max_offset < 0:
            refuse(batch, f"its greatest offset {max_offset} is negative")
        if max_timestamp > self.max_timestamp:
            self.max_timestamp, self.offset_of_max_timestamp = max_timestamp, at
        self.max_offset = max(self.max_offset, max_offset)
        self.messages_retained += messages
        self.bytes_retained += size


class RecordFilter(ABC):
    """One pass over one or more inputs; adds to `stats`. Subclasses select the batches and records to keep (Kafka:
    MemoryRecords.RecordFilter).

    most_body: max.decompressed.message.bytes; None: no limit. Payloads are decompressed a second time to look for it.

    RETAIN_EMPTY turns a message of magic 0 or 1 into an empty batch of magic 2, which Kafka refuses to do. Header keys
    that are not UTF-8 keep their bytes; Kafka's builder writes U+FFFD in their place.
    """

    def __init__(
        self,
        now: int,
        delete_retention_ms: int,
        stats: CleanerStats,
        progress: Progress = lambda path, end: None,
        most_body: int | None = None,
    ) -> None:
        self.stats, self._progress, self._most_body = stats, progress, most_body
        self._horizon = wrapped(now + delete_retention_ms, 64)

    @abstractmethod
    def batch(self, batch: SourceBatch) -> BatchRetentionResult:
        """Called for every batch, in order (Kafka: checkBatchRetention)."""

    @abstractmethod
    def records(self, results: list[tuple[SourceBatch, BatchRetentionResult]], rows: BatchRecords) -> bytes | bytearray:
        """One byte for each of `rows`: 1 keeps it, 0 removes it (Kafka: shouldRetainRecord). Called once for several
        batches, after `batch` was called for each. Bytes are ignored for batches whose result has `records` set."""

    def run(self, read_request: DecodeRequest, segment: Any, stop: int | None = None) -> Iterator[bytes | memoryview]:
        """The kept batches of a segment, or of its first `stop` bytes; each item is one or more whole batches."""
        start: int | None = 0
        while start is not None:
            try:
                for step in steps(segment, read_request, self._progress, stop, start=start):
                    yield from self._filter_step(read_request, step)
                start = None
            except KafkaRecordError as refusal:
                start = self._end_of_unread_batch(refusal, segment)
                if start is None:
                    raise

    def _end_of_unread_batch(self, refusal: KafkaRecordError, segment: Any) -> int | None:
        """The position after a batch with an unreadable payload, if its retention is DELETE: it is not read, so its
        payload does not matter. None: the error is raised."""
        if refusal.reason not in PAYLOAD_REASONS or refusal.position is None:
            return None
        start = refusal.position
        step = next(walk([segment], walk_request(HEADERS), start=start))
        if not len(step):
            return None
        batch = next(batches_of(step, [0] * len(step)))
        if self.batch(batch).retention is not BatchRetention.DELETE:
            return None
        self.stats.batches_read += 1
        self.stats.bytes_read += batch.size_in_bytes
        self.stats.batches_removed += 1
        return start + batch.size_in_bytes

    def _filter_step(self, read_request: DecodeRequest, step: Step) -> Iterator[bytes | memoryview]:
        columns = as_columns(read_request, step.part)
        rows = BatchRecords(step.chunk)
        results = []
        for batch in batches_of(step, row_counts(step)):
            if batch.is_control and batch.rows:
                batch = batch._replace(control_type=rows.control_types[batch.start])
            results.append((batch, self.batch(batch)))
        keep = self.records(results, rows)
        ones, zeros = b"\x01" * len(rows), bytes(len(rows))
        record_input: RecordInput | None = None
        copied = stop = 0  # bytes [copied, stop) of the input are yet to be copied
        for batch, result in results:
            if self._most_body is not None and result.retention is not BatchRetention.DELETE:
                self._check_sizes(step, batch, self._most_body, read_request.options.limit)
            chosen = keep if result.records is None else ones if result.records else zeros
            outcome = self._outcome(batch, result, chosen, rows)
            if outcome is _COPIED and batch.position == stop:
                stop += batch.size_in_bytes
                continue
            if stop > copied:
                yield reread(step.segment, copied, stop - copied)
                copied = stop
            if outcome is _COPIED:
                copied, stop = batch.position, batch.position + batch.size_in_bytes
            elif outcome is _EMPTIED:
                # for a producer's last sequence or the end of the log (writeEmptyHeader)
                header = new_header(batch)._replace(delete_horizon_ms=None, codec=0)
                yield empty_batch(header, batch.max_timestamp)
            elif outcome is not _REMOVED:
                if record_input is None:
                    record_input = record_input_of(columns)
                keep_rows = bytes(chosen[batch.start : batch.stop])
                retains_end = result.retention is BatchRetention.RETAIN_EMPTY
                yield self._rewritten(batch, rows, record_input, keep_rows, outcome.horizon, retains_end)
        if stop > copied:
            yield reread(step.segment, copied, stop - copied)

    def _check_sizes(self, step: Step, batch: SourceBatch, most: int, limit: int) -> None:
        """max.decompressed.message.bytes, for the records of a batch that is read, if it is compressed."""
        if not batch.codec or batch.record_count == 0:
            return
        raw = reread(step.segment, batch.position, batch.size_in_bytes)
        request = RequestCheck(
            raw, check_crcs=False, from_zero=False, rising=False, leader_epoch=None, most_bytes=len(raw)
        )
        position, length = request.payload()
        payload = codecs.decompress(batch.codec, raw[position : position + length], limit, batch.magic)
        found = request.first_too_large(payload, most)
        if found is not None:
            record, size = found
            sides = {"file": step.segment.path, "record": record, "expected": most, "found": size}
            raise error("record_too_large", batch.place | sides)

    def _outcome(
        self, batch: SourceBatch, result: BatchRetentionResult, keep: bytes | bytearray, rows: BatchRecords
    ) -> _Outcome:
        stats, count = self.stats, batch.stop - batch.start
        stats.batches_read += 1
        stats.bytes_read += batch.size_in_bytes
        if result.retention is BatchRetention.DELETE:
            stats.batches_removed += 1
            return _REMOVED
        stats.messages_read += count
        kept = keep.count(1, batch.start, batch.stop)
        if not kept:
            if result.retention is not BatchRetention.RETAIN_EMPTY:
                stats.batches_removed += 1
                return _REMOVED
            stats.batches_emptied += 1
            size = LEAST_SIZES[max(batch.magic, BATCH_MAGIC)]
            stats.add_retained(batch, batch.max_timestamp, batch.last_offset, batch.last_offset, 0, size)
            return _EMPTIED
        sets = batch.delete_horizon_ms is None and result.empty_transaction
        if batch.delete_horizon_ms is None and rows.without_value is not None:
            tombstones = rows.without_value[batch.start : batch.stop]
            if any(tombstones):
                kept_ones = int.from_bytes(keep[batch.start : batch.stop], "big")
                sets = sets or int.from_bytes(tombstones, "big") & kept_ones != 0
        if kept == count and batch.magic >= BATCH_MAGIC and not sets:
            stats.batches_copied += 1
            size = batch.size_in_bytes
            stats.add_retained(batch, batch.max_timestamp, batch.last_offset, batch.last_offset, count, size)
            return _COPIED
        stats.batches_rewritten += 1
        stats.horizons_set += sets and self._horizon >= 0
        return _Outcome(self._horizon if sets else batch.delete_horizon_ms)

    def _rewritten(
        self,
        batch: SourceBatch,
        rows: BatchRecords,
        record_input: RecordInput,
        keep: bytes,
        horizon: int | None,
        retains_end: bool,
    ) -> bytes:
        """A batch with some of its records.

        keep          one byte for each of its rows, 1 for the records to write
        horizon       delete horizon in ms; None or below 0: none
        retains_end   whether also messages of magic 0 and 1 keep their last offset
        """
        span = slice(batch.start, batch.stop)
        offsets = list(compress(rows.offsets[span], keep))
        # MemoryRecordsBuilder.appendWithOffset and validateProducerState
        for one, other in pairwise(offsets):
            if other <= one:
                refuse(batch, f"offset {other} follows offset {one}")
        lowest = min((time for time in compress(rows.timestamps[span], keep) if time is not None), default=0)
        if lowest < 0:
            refuse(batch, f"timestamp {lowest} is negative")
        if batch.producer_id == -1:
            if batch.is_transactional:
                refuse(batch, "it is transactional and has no producer id")
        elif batch.producer_epoch == -1:
            refuse(batch, "it has a producer id and no producer epoch")
        elif batch.base_sequence < 0 and not batch.is_control:
            refuse(batch, f"it has a producer id and the base sequence {batch.base_sequence}")
        header = new_header(batch)._replace(delete_horizon_ms=None if horizon is None or horizon < 0 else horizon)
        last_offset = offsets[-1]
        if batch.magic < BATCH_MAGIC:
            last_offset = max(last_offset, batch.last_offset) if retains_end else last_offset
            header = header._replace(base_offset=offsets[0], last_offset=last_offset)
        if last_offset - header.base_offset > INT_MAX:
            refuse(batch, f"offset {last_offset} is more than {INT_MAX} above its base offset {header.base_offset}")
        written = record_input.write(header, batch.start, batch.stop, keep)
        max_timestamp = int.from_bytes(written[35:43], "big", signed=True)
        at = batch.last_offset if batch.magic >= BATCH_MAGIC else offsets[-1]
        if max_timestamp == -1 and batch.timestamp_type != _LOG_APPEND:
            at = -1
        self.stats.add_retained(batch, max_timestamp, at, offsets[-1], len(offsets), len(written))
        return written


class _Outcome(NamedTuple):
    """One of the constants below, or: rewritten with this delete horizon (None: without one)."""

    horizon: int | None


_COPIED, _EMPTIED, _REMOVED = _Outcome(-1), _Outcome(-2), _Outcome(-3)
