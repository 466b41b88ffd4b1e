"""In a task: whether a split ends in an incomplete batch, that is, whether its log stops in mid-batch.

| the end of a log | what it is | endOfLog=tail | endOfLog=strict |
|---|---|---|---|
| a batch's end, or that and at least 12 zeros (preallocated) | complete | | |
| an incomplete batch | a broker was or is writing there; or the file was cut | logged and counted | damage |

In a segment that another one follows, an incomplete batch is damage in both. Nothing is said if the query asks for
offsets that end before it.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from .planning import NO_END, Split

if TYPE_CHECKING:
    import kafkarec


class SplitEnd:
    """The end of what a task has read of a split. `add` takes each piece of it.

    last_offset: the last offset of the last good batch; None: there is none
    """

    def __init__(self, part: kafkarec.Segment, split: Split) -> None:
        self._part, self._split = part, split
        self._remaining = 0
        self._next_offset: int | None = None
        self.last_offset: int | None = None

    def add(self, batches: kafkarec.BatchTable, remaining: int) -> None:
        """The batches of a piece, and how many bytes after them were neither batches nor damage."""
        self._remaining += remaining
        if len(batches):
            # not batches[-1], which makes a dictionary of all columns
            self.last_offset, self._next_offset = (batches.column(name)[-1] for name in ("last_offset", "next_offset"))

    @property
    def has_grown(self) -> bool:
        """Whether the file has more bytes than when the split was planned."""
        descriptor, planned = self._part.source.descriptor, self._split.file
        return descriptor is not None and planned is not None and os.fstat(descriptor).st_size > planned.size

    def incomplete(self) -> kafkarec.Damage | None:
        """The incomplete batch after the last piece, as Damage; None: there is none, or the offsets that the query asks
        for end before it."""
        from kafkarec import distributed

        if self._ends_at_an_open_transaction():
            for table in self._part.scan_pieces(errors="skip", end_offset=self._split.end_offset):
                self.add(table, table.remaining)
        wanted, following = self._split.end_offset, self._next_offset
        if wanted is not None and following is not None and following >= wanted:
            return None
        end = self._part.size if self._part.end is None else self._part.end
        return distributed.incomplete_end(self._part, end - self._remaining, self._remaining, following)

    def _ends_at_an_open_transaction(self) -> bool:
        """Whether read_committed has stopped before the end of the log. Its cut end may have had the marker that ends
        the transaction."""
        uncommitted = self._split.uncommitted
        if uncommitted is None or not self._split.is_log_end:
            return False
        return uncommitted.last_stable_offset < NO_END and not self._remaining
