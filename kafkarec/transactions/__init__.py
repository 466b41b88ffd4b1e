"""Transactions of a log: what read_committed hides, and who is open, hanging, aborted, committed

    Segment, buffer -> Input -> rows.read -> matching.match -> hidden.hidden     for decode, stream and read
                                                            -> listing.listing   for people
"""

from .before import Transaction
from .hidden import Hidden, hidden
from .listing import HANGING_AFTER, STATES, Spread, TransactionListing, listing
from .matching import NOTES, Note
from .rows import Input

__all__ = [
    "HANGING_AFTER", "NOTES", "STATES", "Hidden", "Input", "Note", "Spread", "Transaction", "TransactionListing",
    "hidden", "listing",
]  # fmt: skip
