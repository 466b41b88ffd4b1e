"""Compaction: Kafka's log cleaner without a broker

log_state   the options; producers, transactions and the first uncleanable offset of a log, the last offset of each key
filtering   the filter of the log cleaner: batches and records that stay, batches that are written anew
cleaner     one pass over a log: compact(), cleaned()
"""

from .cleaner import Compacted, cleaned, compact
from .filtering import CleanerStats

__all__ = ["CleanerStats", "Compacted", "cleaned", "compact"]
