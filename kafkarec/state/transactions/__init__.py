"""The transactions of a log: who is open, hanging, aborted, committed

    Segment, buffer -> read.marker_columns.Input -> read.marker_matching.match -> listing.listing   for people
                                                                               -> read.isolation    for decode and read
"""

from .listing import HANGING_AFTER, STATES, Spread, TransactionListing, listing
from .open_before import Transaction

__all__ = ["HANGING_AFTER", "STATES", "Spread", "Transaction", "TransactionListing", "listing"]
