"""Compaction: Kafka's log cleaner without a broker

batch_records           the headers and records that a filter reads
cleaner_settings      the options of compact
log_state             producers, transactions and the first uncleanable offset of a log
dirty_keys            its keys, read in the same walk
offset_map            the last offset of each key
filtering             RecordFilter: one pass of any filter
cleaner               the filter of the log cleaner
cleaned_transactions  which transactions still have data
rewrite_batch         new bytes of batches that lost records
run                   compact(), cleaned()
"""

from .batch_records import BatchRecords, SourceBatch
from .filtering import BatchRetention, BatchRetentionResult, CleanerStats, RecordFilter
from .run import Compacted, cleaned, compact

__all__ = [
    "BatchRecords",
    "BatchRetention",
    "BatchRetentionResult",
    "CleanerStats",
    "Compacted",
    "RecordFilter",
    "SourceBatch",
    "cleaned",
    "compact",
]
