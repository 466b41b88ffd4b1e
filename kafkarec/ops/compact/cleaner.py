"""The record filter of the log cleaner (Kafka: Cleaner, KIP-534, KIP-98)

record without key                         removed, and counted as invalid
record with a later offset for its key     removed
tombstone                                  kept until the delete horizon of its batch, now + delete_retention_ms,
                                           which is set by the first pass that reads it
tombstone of magic 0 and 1                 kept while its segment was modified less than delete_retention_ms before
                                           the last clean one; it becomes one of magic 2 with a horizon
batch with a producer's last sequence      its header is kept until the producer writes again or expires
last batch of the log                      its header is kept, as the log's end offset. A message of magic 0 or 1
                                           becomes an empty batch of magic 2; a broker fails on such a log
transactions                               see cleaned_transactions.py
from the first uncleanable offset on       everything is kept
"""

from __future__ import annotations

from kafkarec.format.layout import BATCH_MAGIC
from kafkarec.ops.rewrite.batches import Progress, SourceBatch

from .batch_records import BatchRecords
from .cleaned_transactions import CleanedTransactions
from .cleaner_settings import CleanerSettings
from .filtering import BatchRetention, BatchRetentionResult, CleanerStats, RecordFilter
from .log_state import LogState
from .offset_map import OffsetMap

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
        discards = removed = self._transactions.discards(batch)
        if batch.is_control:
            removed = discards and batch.delete_horizon_ms is not None and batch.delete_horizon_ms <= self._now
        if self._is_last_of_producer(batch) or batch.next_offset == self._end_offset:
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

    def _is_last_of_producer(self, batch: SourceBatch) -> bool:
        if batch.producer_id < 0:
            return False
        last = self._last_records.get(batch.producer_id)
        if last is None:
            return False
        if last.last_data_offset is not None:
            return batch.last_offset == last.last_data_offset
        return batch.is_control and batch.producer_epoch == last.producer_epoch

    def records(self, results: list[tuple[SourceBatch, BatchRetentionResult]], rows: BatchRecords) -> bytearray:
        """Cleaner.shouldRetainRecord for all rows at once."""
        to_filter = [batch for batch, result in results if result.records is None and batch.start < batch.stop]
        if not to_filter:
            return bytearray(len(rows))
        keep = self._offsets.latest(rows)
        tombstones = self._drop_tombstones(to_filter, rows.without_value, keep)
        lost = sum(batch.stop - batch.start - keep.count(1, batch.start, batch.stop) for batch in to_filter)
        missing = rows.without_key
        invalid = 0 if missing is None else sum(missing.count(1, batch.start, batch.stop) for batch in to_filter)
        self.stats.tombstones_removed += tombstones
        self.stats.messages_invalid += invalid
        self.stats.messages_superseded += lost - invalid - tombstones
        return keep

    def _drop_tombstones(self, batches: list[SourceBatch], missing: bytes | None, keep: bytearray) -> int:
        """Clears `keep` for tombstones past their delete horizon; returns how many."""
        if missing is None:
            return 0
        count = 0
        for batch in batches:
            horizon = batch.delete_horizon_ms
            is_past = horizon is not None and self._now >= horizon
            if is_past if batch.magic >= BATCH_MAGIC else not self.retains_legacy_tombstones:
                at = missing.find(1, batch.start, batch.stop)
                while at >= 0:
                    count += keep[at]
                    keep[at] = 0
                    at = missing.find(1, at + 1, batch.stop)
        return count
