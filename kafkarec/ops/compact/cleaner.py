"""compact: one pass of the log cleaner over a log (Kafka: Cleaner, KIP-534, KIP-98)

    log state (headers, markers) and offset map (keys and offsets of the dirty part) -> filter (every batch once)

record without key                         removed, and counted as invalid
record with a later offset for its key     removed
tombstone                                  kept until the delete horizon of its batch, now + delete_retention_ms,
                                           which is set by the first pass that reads it
tombstone of magic 0 and 1                 kept while its segment was modified less than delete_retention_ms before
                                           the last clean one; it becomes one of magic 2 with a horizon
batch with a producer's last sequence      its header is kept until the producer writes again or expires
last batch of the log                      its header is kept, as the log's end offset. A message of magic 0 or 1
                                           becomes an empty batch of magic 2; a broker fails on such a log
data of an aborted transaction             removed at once
its marker                                 removed when the transaction has no data left before it, after the delete
                                           horizon; until then its entry stays in the .txnindex
marker of a committed transaction          the same
any other control batch                    kept
from the first uncleanable offset on       everything is kept

The log is read twice. Memory: the offset map, a part of about 1 MB, and up to 64 MiB of keys that wait for the end of
a transaction: see log_state.py.
"""

from __future__ import annotations

import os
import time
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import add
from typing import Any

from kafkarec.format.control import ControlRecordType
from kafkarec.format.layout import BATCH_MAGIC
from kafkarec.format.side_files import AbortedTransaction
from kafkarec.ops.rewrite import Progress, SourceBatch, with_joined_output
from kafkarec.read.walk import HEADERS, BytesSegment, walk, walk_request
from kafkarec.storage.log_folders import DataFolderFiles, PartitionFiles
from kafkarec.storage.raw_batches import reread
from kafkarec.storage.segment_file import SegmentFile

from .filtering import BatchRecords, BatchRetention, BatchRetentionResult, CleanerStats, RecordFilter, decode_request
from .log_state import (
    DAY_MS,
    LAST_OFFSET,
    Aborted,
    CleanerSettings,
    DirtyKeys,
    LogState,
    OffsetMap,
    position_of_offset,
    read_log_state,
)

_ABORT, _COMMIT = ControlRecordType.ABORT.value, ControlRecordType.COMMIT.value


class CleanedTransactions:
    """Transaction state of a pass; `on_batch_read` is called with every batch in log order.

    kept    entries of the new .txnindex files: aborted transactions that had data in this pass, in the order of their
            markers
    """

    def __init__(self, aborted: Iterable[Aborted]) -> None:
        self._all = tuple(aborted)
        self._waiting = sorted(self._all, key=lambda one: one.first_offset, reverse=True)
        self._aborted: dict[int, Aborted] = {}
        self._seen: set[int] = set()
        self._committed: set[int] = set()
        self.kept: list[AbortedTransaction] = []

    def keep_entries_from(self, end_offset: int) -> None:
        """Keeps the entries of markers at `end_offset` or later, which the pass does not clean."""
        self.kept += [one.entry for one in self._all if one.last_offset >= end_offset]

    def on_batch_read(self, batch: SourceBatch) -> bool:
        """Whether the state of its transaction allows a batch to be removed (CleanedTransactionMetadata.onBatchRead,
        onControlBatchRead)."""
        while self._waiting and self._waiting[-1].first_offset <= batch.last_offset:
            one = self._waiting.pop()
            self._aborted.setdefault(one.producer_id, one)
        if batch.is_control:
            return self._on_control_batch_read(batch)
        if not batch.is_transactional:
            return False
        if batch.producer_id in self._aborted:
            self._seen.add(batch.producer_id)
            return True
        self._committed.add(batch.producer_id)
        return False

    def _on_control_batch_read(self, batch: SourceBatch) -> bool:
        if batch.start == batch.stop:
            return True
        producer = batch.producer_id
        if batch.control_type == _ABORT:
            ended = self._aborted.pop(producer, None)
            if ended is None or producer not in self._seen:
                return True
            self._seen.discard(producer)
            self.kept.append(ended.entry)
            return False
        if batch.control_type == _COMMIT:
            had_data = producer in self._committed
            self._committed.discard(producer)
            return not had_data
        if batch.control_type is None:
            why = f"control record at byte {batch.position} (base offset {batch.base_offset}) has no readable key"
            raise batch.error("control_record_invalid", why)
        return False


_ORDINARY = BatchRetentionResult(BatchRetention.DELETE_EMPTY)


class Cleaner(RecordFilter):
    """The filter of one pass over one log, segment after segment.

    retains_legacy_tombstones   whether tombstones of magic 0 and 1 in the current segment are kept
    """

    retains_legacy_tombstones = True

    def __init__(
        self,
        settings: CleanerSettings,
        stats: CleanerStats,
        progress: Progress,
        known: LogState,
        offsets: OffsetMap,
        transactions: CleanedTransactions,
    ) -> None:
        most = settings.max_decompressed_message_bytes
        super().__init__(settings.now, settings.delete_retention_ms, stats, progress, most)
        self._now, self._last_records = settings.now, known.last_records
        self._end_offset = known.next_offset  # in a broker the high watermark
        self._offsets, self._transactions = offsets, transactions

    def batch(self, batch: SourceBatch) -> BatchRetentionResult:
        """Cleaner.cleanInto's checkBatchRetention."""
        if batch.producer_id < 0 and not batch.is_control and batch.next_offset != self._end_offset:
            return _ORDINARY
        discards = removed = self._transactions.on_batch_read(batch)
        if batch.is_control:
            removed = discards and batch.delete_horizon_ms is not None and batch.delete_horizon_ms <= self._now
        keeps_header = batch.next_offset == self._end_offset
        last = None if batch.producer_id < 0 else self._last_records.get(batch.producer_id)
        if last is not None and last.last_data_offset is not None:
            keeps_header = keeps_header or batch.last_offset == last.last_data_offset
        elif last is not None:
            keeps_header = keeps_header or (batch.is_control and batch.producer_epoch == last.producer_epoch)
        if keeps_header:
            retention = BatchRetention.RETAIN_EMPTY
        else:
            retention = BatchRetention.DELETE if removed else BatchRetention.DELETE_EMPTY
        count = (batch.record_count or 0) if removed else 0
        if batch.is_control:
            self.stats.markers_removed += count
        else:
            self.stats.messages_aborted += count
        return BatchRetentionResult(
            retention,
            empty_transaction=discards and batch.is_control,
            records=False if removed else True if batch.is_control else None,
        )

    def records(self, results: list[tuple[SourceBatch, BatchRetentionResult]], rows: BatchRecords) -> bytearray:
        """Cleaner.shouldRetainRecord for all rows at once."""
        to_filter = [batch for batch, result in results if result.records is None and batch.start < batch.stop]
        if not to_filter:
            return bytearray(len(rows))
        keep = self._offsets.latest_rows(rows)
        without_value, tombstones = rows.without_value, 0  # those past their delete horizon
        for batch in to_filter:
            if without_value is None:
                break
            horizon = batch.delete_horizon_ms
            is_past = horizon is not None and self._now >= horizon
            if is_past if batch.magic >= BATCH_MAGIC else not self.retains_legacy_tombstones:
                at = without_value.find(1, batch.start, batch.stop)
                while at >= 0:
                    tombstones += keep[at]
                    keep[at] = 0
                    at = without_value.find(1, at + 1, batch.stop)
        lost = sum(batch.stop - batch.start - keep.count(1, batch.start, batch.stop) for batch in to_filter)
        missing = rows.without_key
        invalid = 0 if missing is None else sum(missing.count(1, batch.start, batch.stop) for batch in to_filter)
        self.stats.tombstones_removed += tombstones
        self.stats.messages_invalid += invalid
        self.stats.messages_superseded += lost - invalid - tombstones
        return keep


_STEP = 1 << 20


class Cleaning(Iterator[bytes | memoryview]):
    """A pass of the cleaner: an iterator over the cleaned log, one or more whole batches at a time, in order.

    .stats                  CleanerStats so far
    .aborted_transactions   entries of the new .txnindex files so far, of aborted transactions that had data in this
                            pass, in the order of their markers: each belongs to the segment that the batch with its
                            `last_offset` is written to
    .remaining              bytes after the last batch of the segments that were read; they are left out
    """

    stats: CleanerStats

    def __init__(self, segments: Sequence[Any], settings: CleanerSettings, progress: Progress) -> None:
        self.stats, self.remaining = CleanerStats(), 0
        self._segments, self._settings, self._progress = segments, settings, progress
        self._transactions = CleanedTransactions(())
        self._stretches = self._output_batches()

    @property
    def aborted_transactions(self) -> tuple[AbortedTransaction, ...]:
        return tuple(self._transactions.kept)

    def __next__(self) -> bytes | memoryview:
        return next(self._stretches)

    def _output_batches(self) -> Iterator[bytes | memoryview]:
        settings, stats = self._settings, self.stats
        offsets = OffsetMap()
        keys = DirtyKeys(offsets, settings)
        known = read_log_state(self._segments, settings, keys, self._progress)
        self.remaining = known.remaining
        self._transactions = CleanedTransactions(known.aborted)
        limit, stops = self._first_uncleanable(known, keys)
        if keys.unread is not None:
            spans = ((one.producer_id, one.first_offset, one.last_offset) for one in known.aborted)
            keys.read_rest(self._segments, stops, spans, self._progress)
            limit, stops = self._first_uncleanable(known, keys)
        stats.first_uncleanable_offset, stats.next_offset = limit, known.next_offset
        stats.map_messages_read, stats.keys = offsets.messages_read, len(offsets)
        cleaner = Cleaner(settings, stats, self._progress, known, offsets, self._transactions)
        read_request = decode_request(settings.check_crcs, settings.max_decompressed_bytes)
        # Tombstones of magic 0 and 1 are removed from segments not modified after this time, ms (Cleaner.doClean).
        starts = zip(self._segments, known.start_offsets, strict=True)
        cleaned = [segment for segment, start in starts if start < settings.first_dirty_offset]
        newest = _modified_ms(cleaned[-1]) if cleaned else None
        horizon = None if newest is None else newest - settings.delete_retention_ms
        for segment, stop in zip(self._segments, stops, strict=True):
            if stop != 0:
                modified = _modified_ms(segment)
                cleaner.retains_legacy_tombstones = horizon is None or modified is None or modified > horizon
                yield from cleaner.run(read_request, segment, stop)
            if stop is None:
                continue
            for step in walk([segment], walk_request(HEADERS), start=stop):  # the rest, unchanged
                ends = list(map(add, step.column("position"), step.column("size_in_bytes")))
                for end in ends:
                    if end - stop >= _STEP or end == ends[-1]:
                        stats.bytes_left_alone += end - stop
                        yield reread(segment, stop, end - stop)
                        stop = end
        self._transactions.keep_entries_from(limit)

    def _first_uncleanable(self, known: LogState, keys: DirtyKeys) -> tuple[int, list[int | None]]:
        """The first uncleanable offset (LogCleanerManager.cleanableOffsets), or the log start if nothing below it
        is dirty; where it is in each segment, None: the whole segment is cleaned."""
        limit = min(known.last_stable_offset, known.next_offset, keys.end_offset)
        if self._settings.first_dirty_offset >= limit:
            limit = min([limit, *known.start_offsets])
        stops: list[int | None] = []
        for number, (segment, start) in enumerate(zip(self._segments, known.start_offsets, strict=True)):
            following = known.start_offsets[number + 1] if number + 1 < len(self._segments) else known.next_offset
            lasts, positions = known.steps[number][::2], known.steps[number][1::2]
            step = bisect_left(lasts, limit)
            if start >= limit:  # a broker cleans no segment with an uncleanable offset in it
                stops.append(0)
            elif following <= limit or step == len(lasts):
                stops.append(None)
            else:
                stops.append(position_of_offset(walk([segment], walk_request(HEADERS), start=positions[step]), limit))
        return limit, stops


def _modified_ms(segment: Any) -> int | None:
    """None if there is no local file."""
    try:
        return None if segment.path is None else os.stat(segment.path).st_mtime_ns // 1_000_000
    except OSError:
        return None


def _segments(source: Any) -> Sequence[Any]:
    """The segments of the argument of `compact`, in order; TypeError for other types."""
    if isinstance(source, PartitionFiles):
        return source.segments
    if isinstance(source, SegmentFile):
        return [source]
    if isinstance(source, DataFolderFiles):
        raise TypeError("a data folder: compact one partition at a time: for log in kafkarec.open(folder): ...")
    if isinstance(source, str | os.PathLike):
        raise TypeError("a path: open it first with kafkarec.open(path)")
    return [BytesSegment(source)]


def cleaned(
    source: Any,
    *,
    now: int | None = None,
    delete_retention_ms: int = DAY_MS,
    producer_expiration_ms: int = DAY_MS,
    min_compaction_lag_ms: int = 0,
    first_dirty_offset: int | None = None,
    first_uncleanable_offset: int | None = None,
    check_crcs: bool | str = True,
    max_decompressed_bytes: int = 128 << 20,
    max_decompressed_message_bytes: int | None = None,
    progress: Callable[[str, int], object] = lambda path, end: None,
) -> Cleaning:
    """Runs the log cleaner over a log that no broker has open: keeps the last record of each key. Follows Cleaner and
    MemoryRecords.filterTo of Kafka 4.4. `kafkarec.compact` returns all output, `kafkarec.ops.compact.cleaned` an
    iterator over it, in constant memory besides the offset map.

    source: a buffer of batches, or a Segment or Log from kafkarec.open. A log is cleaned to its end, including the last
        segment, which a broker does not clean
    now: ms since 1970, the wall clock by default. The first pass that reads a tombstone or marker sets its delete
        horizon, now + delete_retention_ms; a pass after that time removes it, so removal takes two passes
    delete_retention_ms: delete.retention.ms
    producer_expiration_ms: producer.id.expiration.ms; the last batch of a producer that wrote less than this before
        `now` keeps its header, if need be without records
    min_compaction_lag_ms: min.compaction.lag.ms; everything is kept from the first batch with a younger record on. A
        broker decides by whole segments
    first_dirty_offset: offsets below it are already cleaned and their keys are not read again (default: none are)
    first_uncleanable_offset: everything is kept from here on; at most, and by default, the last stable offset
    check_crcs, max_decompressed_bytes: as for kafkarec.decode; Kafka's cleaner checks no CRC and writes a new one over
        damaged bytes
    max_decompressed_message_bytes: the topic's max.decompressed.message.bytes, 1 to 2^31-9: InvalidRecordError
        (record_too_large) for a larger record in a compressed batch, without its length (in magic 0 and 1 without its
        offset and size), unless the cleaner removes the whole batch unread; None: 2^31-9. Looking decompresses twice
    progress: called with the path of a segment and the position up to which it was read; segments are read twice, what
        follows damage or waits too long for the end of a transaction (64 MiB of keys) once more

    KafkaRecordError for bytes that are not batches and for a batch that Kafka's cleaner fails on; TypeError for a
    source that is a path or a data folder; ValueError for a number out of range.
    """
    settings = CleanerSettings(
        now=time.time_ns() // 1_000_000 if now is None else now,
        delete_retention_ms=delete_retention_ms,
        producer_expiration_ms=producer_expiration_ms,
        min_compaction_lag_ms=min_compaction_lag_ms,
        first_dirty_offset=0 if first_dirty_offset is None else first_dirty_offset,
        first_uncleanable_offset=LAST_OFFSET if first_uncleanable_offset is None else first_uncleanable_offset,
        check_crcs=check_crcs,
        max_decompressed_bytes=max_decompressed_bytes,
        max_decompressed_message_bytes=max_decompressed_message_bytes,
    )
    settings.check()
    return Cleaning(_segments(source), settings, progress)


class Compacted(bytes):
    """The cleaned log, as bytes.

    .stats                  CleanerStats
    .aborted_transactions   entries of the new .txnindex: of aborted transactions that had data in this pass
    .remaining              bytes after the last batch of each segment; they are left out
    """

    stats: CleanerStats
    aborted_transactions: tuple[AbortedTransaction, ...]
    remaining: int

    @classmethod
    def of(cls, batches: Cleaning) -> Compacted:
        made = cls(b"".join(batches))
        made.stats, made.remaining = batches.stats, batches.remaining
        made.aborted_transactions = batches.aborted_transactions
        return made


compact = with_joined_output("compact", cleaned, Compacted.of)
