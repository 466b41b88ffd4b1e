"""Compaction: the log cleaner without a broker

inputs         a buffer, a segment, a log as segments      batches     headers and rows that decisions look at
survey         producers, transactions, what is too young  offset_map  the last offset of each key
filtering      filter_to: any decisions                    rewriting   batches written anew
transactions   which transactions still have data          cleaner     the cleaner's decisions
run            compact(), cleaned()
"""

from .batch_table import BatchFacts, BatchRecords
from .cleaner import CleanerStats
from .filtering import BatchRetention, Decisions, Filtered, FilterStats, Verdict, filter_to
from .run import Cleaning, Compacted, cleaned, compact

__all__ = [
    "BatchFacts",
    "BatchRecords",
    "BatchRetention",
    "CleanerStats",
    "Cleaning",
    "Compacted",
    "Decisions",
    "FilterStats",
    "Filtered",
    "Verdict",
    "cleaned",
    "compact",
    "filter_to",
]  # fmt: skip
