"""The transactions of a log: open, hanging, aborted and committed ones.

Segment, buffer -> read.marker_columns.MarkerInput -> read.marker_matching.match -> listing.listing
                                                                                 -> read.isolation (decode, read)
"""

from .listing import HANGING_AFTER, STATES, Spread, TransactionListing, listing
from .open_before import Transaction

__all__ = ["HANGING_AFTER", "STATES", "Spread", "Transaction", "TransactionListing", "listing"]
