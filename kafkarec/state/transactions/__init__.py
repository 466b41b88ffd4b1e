"""The transactions of a log: open, hanging, aborted and committed.

Segment, buffer -> read.walk -> recover.marker_matching.Match -> transaction_listing.listing
                                                              -> read.isolation (decode, read)
"""

from .open_at_log_start import Transaction
from .transaction_listing import HANGING_AFTER, STATES, Spread, TransactionListing, listing

__all__ = ["HANGING_AFTER", "STATES", "Spread", "Transaction", "TransactionListing", "listing"]
