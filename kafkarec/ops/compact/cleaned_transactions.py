"""Transactions while a log is cleaned (Kafka: CleanedTransactionMetadata, KIP-98)

    data of an aborted transaction      goes at once
    its marker                          goes when the transaction had no data left in front of it, after the delete
                                        horizon; until then its entry stays in the .txnindex
    marker of a committed transaction   the same
    any other control batch             stays
"""

from __future__ import annotations

from collections.abc import Iterable

from kafkarec.format.control import ControlRecordType
from kafkarec.format.side_files import AbortedTransaction

from .batch_table import BatchFacts
from .log_state import Aborted

_ABORT, _COMMIT = ControlRecordType.ABORT.value, ControlRecordType.COMMIT.value


class CleanedTransactions:
    """Follows a log batch by batch. `kept`: aborted transactions whose data was there in this pass, in the order of
    their markers: the entries of the new .txnindex files."""

    def __init__(self, aborted: Iterable[Aborted]) -> None:
        self._all = tuple(aborted)
        self._waiting = sorted(self._all, key=lambda one: one.first_offset, reverse=True)
        self._aborted: dict[int, Aborted] = {}
        self._seen: set[int] = set()
        self._committed: set[int] = set()
        self.kept: list[AbortedTransaction] = []

    def leave_rest(self, end_offset: int) -> None:
        """What the pass does not come to: markers from here on."""
        self.kept += [one.entry for one in self._all if one.last_offset >= end_offset]

    def discards(self, batch: BatchFacts) -> bool:
        """Whether a batch may go for its transaction's sake."""
        while self._waiting and self._waiting[-1].first_offset <= batch.last_offset:
            one = self._waiting.pop()
            self._aborted.setdefault(one.producer_id, one)
        if batch.is_control:
            return self._ends(batch)
        if not batch.is_transactional:
            return False
        if batch.producer_id in self._aborted:
            self._seen.add(batch.producer_id)
            return True
        self._committed.add(batch.producer_id)
        return False

    def _ends(self, batch: BatchFacts) -> bool:
        if batch.start == batch.stop:
            return True
        producer = batch.producer_id
        if batch.control_type == _ABORT:
            ended = self._aborted.pop(producer, None)
            if ended is None or producer not in self._seen:
                return True
            self._seen.discard(producer)
            self.kept.append(ended.entry)
            return False
        if batch.control_type == _COMMIT:
            had_data = producer in self._committed
            self._committed.discard(producer)
            return not had_data
        if batch.control_type is None:
            why = f"control record at byte {batch.position} (base offset {batch.base_offset}) has no readable key"
            raise batch.error("control_record_invalid", why)
        return False
