"""Compaction: Kafka's log cleaner without a broker

batch_records           the headers and records that a filter reads
cleaner_settings      the options of compact
log_state             producers, transactions and the first uncleanable offset of a log
dirty_keys            its keys, read in the same walk
offset_map            the last offset of each key
filtering             one pass of any RecordFilter
cleaner               the record filter of the log cleaner
cleaned_transactions  which transactions still have data
rewrite_batch         new bytes of batches that lost records
run                   compact(), cleaned()
"""

from .batch_records import BatchRecords, SourceBatch
from .cleaner import CleanerStats
from .filtering import BatchRetention, BatchRetentionResult, Filter, FilterStats, RecordFilter
from .run import Compacted, cleaned, compact

__all__ = [
    "BatchRecords",
    "BatchRetention",
    "BatchRetentionResult",
    "CleanerStats",
    "Compacted",
    "Filter",
    "FilterStats",
    "RecordFilter",
    "SourceBatch",
    "cleaned",
    "compact",
]
