"""Compaction: Kafka's log cleaner without a broker

filtering   RecordFilter: one pass of any filter, and the headers and records that it reads
log_state   the options; producers, transactions and the first uncleanable offset of a log, the last offset of each key
cleaner     the filter of the log cleaner; compact(), cleaned()
"""

from .cleaner import Compacted, cleaned, compact
from .filtering import BatchRecords, BatchRetention, BatchRetentionResult, CleanerStats, RecordFilter, SourceBatch

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
