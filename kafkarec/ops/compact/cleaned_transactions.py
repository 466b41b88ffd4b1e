"""Transactions while a log is cleaned (Kafka: CleanedTransactionMetadata, KIP-98)

data of an aborted transaction      removed at once
its marker                          removed when the transaction has no data left before it, after the delete
                                    horizon; until then its entry stays in the .txnindex
marker of a committed transaction   the same
any other control batch             kept
"""

from __future__ import annotations

from collections.abc import Iterable

from kafkarec.format.control import ControlRecordType
from kafkarec.format.side_files import AbortedTransaction
from kafkarec.ops.rewrite.batches import SourceBatch

from .log_state import Aborted

_ABORT, _COMMIT = ControlRecordType.ABORT.value, ControlRecordType.COMMIT.value


class CleanedTransactions:
    """Transaction state of a pass; `discards` is called with every batch in log order.

    kept    entries of the new .txnindex files: aborted transactions that had data in this pass, in the order of their
            markers
    """

    def __init__(self, aborted: Iterable[Aborted]) -> None:
        self._all = tuple(aborted)
        self._waiting = sorted(self._all, key=lambda one: one.first_offset, reverse=True)
        self._aborted: dict[int, Aborted] = {}
        self._seen: set[int] = set()
        self._committed: set[int] = set()
        self.kept: list[AbortedTransaction] = []

    def keep_entries_from(self, end_offset: int) -> None:
        """Keeps the entries of markers at `end_offset` or later, which the pass does not clean."""
        self.kept += [one.entry for one in self._all if one.last_offset >= end_offset]

    def discards(self, batch: SourceBatch) -> bool:
        """Whether the state of its transaction allows a batch to be removed (CleanedTransactionMetadata.onBatchRead,
        onControlBatchRead)."""
        while self._waiting and self._waiting[-1].first_offset <= batch.last_offset:
            one = self._waiting.pop()
            self._aborted.setdefault(one.producer_id, one)
        if batch.is_control:
            return self._ends_transaction(batch)
        if not batch.is_transactional:
            return False
        if batch.producer_id in self._aborted:
            self._seen.add(batch.producer_id)
            return True
        self._committed.add(batch.producer_id)
        return False

    def _ends_transaction(self, batch: SourceBatch) -> bool:
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
