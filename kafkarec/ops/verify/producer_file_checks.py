"""Checks of .txnindex and .snapshot against the log's batches and markers, which are authoritative

If the start of a log was deleted, or the log was cleaned, the files may have transactions whose data was removed. A
difference that this explains is a note, or not reported.
"""

from __future__ import annotations

from collections.abc import Iterable

from kafkarec.format.side_files import AbortedTransaction
from kafkarec.sidecars import producer_snapshot
from kafkarec.state.producers import ProducerStates, Taken

from .finding_kinds import ANOMALY, NOTE
from .side_file_findings import ReportFile


class TxnIndexCheck:
    """Checks a .txnindex. Call `add` with the segment's markers and aborted transactions, then `finish` with the
    entries."""

    def __init__(self, report: ReportFile) -> None:
        self._report = report
        self._expected: dict[tuple[int, int], AbortedTransaction] = {}
        self._abort_markers: set[tuple[int, int]] = set()
        self._lost: set[tuple[int, int]] = set()

    def add_lost(self, entry: AbortedTransaction, states: ProducerStates) -> None:
        """Adds an entry whose marker's offset is missing in the log. If its transaction is open there, the marker is
        lost, and the entry proves it."""
        ended = states.end_by_index(entry)
        if ended is not None:
            place = entry.producer_id, entry.last_offset
            self._expected[place] = ended
            self._lost.add(place)

    def add(self, taken: Taken) -> None:
        """Adds what ended in consecutive batches."""
        aborted = {(one.producer_id, one.last_offset): one for one in taken.aborted}
        self._expected |= aborted
        self._abort_markers |= aborted.keys() | set(taken.empty_aborts)

    def leave_out_before(self, start: int) -> None:
        """Expects no entries of transactions that began before the first segment, for a log with gaps: where all data
        of one is deleted or cleaned, the log cleaner keeps the marker for a while, but not the entry."""
        self._expected = {place: one for place, one in self._expected.items() if one.first_offset >= start}

    def report_missing_file(self) -> None:
        """Reports a missing .txnindex, which is an error unless no transaction was aborted."""
        if self._expected:
            one = next(iter(self._expected.values()))
            count = "1 transaction was" if len(self._expected) == 1 else f"{len(self._expected)} transactions were"
            self._report(
                "transaction_missing",
                f"is missing, and {count} aborted here, the first by producer {one.producer_id}, offsets "
                f"{one.first_offset} to {one.last_offset}; without it read_committed consumers get the aborted "
                "records; reindex writes a new one",
            )

    def finish(self, entries: Iterable[AbortedTransaction], complete: bool) -> None:
        """Compares the entries of the file. complete: whether all batches of the log up to here were read."""
        missing = dict(self._expected)
        for number, entry in enumerate(entries):
            place = entry.producer_id, entry.last_offset
            expected = missing.pop(place, None)
            what = f"entry {number}: producer {entry.producer_id}, offsets {entry.first_offset} to {entry.last_offset}"
            if expected is not None:
                self._compare(what, entry, expected, complete)
            if place in self._lost:
                self._report(
                    "transaction_unknown",
                    f"{what}: the ABORT marker is lost, and this entry proves it: salvage writes the marker again",
                    NOTE,
                )
            elif expected is None and place not in self._abort_markers:
                self._report(
                    "transaction_unknown",
                    f"{what}: there is no ABORT marker of that producer at offset {entry.last_offset}; consumers skip "
                    "records that are valid",
                )
        for one in missing.values():
            self._report(
                "transaction_missing",
                f"the transaction of producer {one.producer_id}, offsets {one.first_offset} to {one.last_offset}, was "
                "aborted and is not listed: read_committed consumers get its records; reindex writes a "
                "correct one",
            )

    def _compare(self, what: str, entry: AbortedTransaction, expected: AbortedTransaction, complete: bool) -> None:
        if entry.first_offset != expected.first_offset:
            explained = not complete and entry.first_offset < expected.first_offset
            self._report(
                "transaction_differs",
                f"{what}: according to its batches it begins at offset {expected.first_offset}",
                NOTE if explained else None,
            )
        stable = expected.last_stable_offset
        if entry.last_stable_offset != stable:
            late = entry.last_stable_offset > stable
            self._report(
                "transaction_differs",
                f"{what}: last stable offset {entry.last_stable_offset}, but {stable} according to the batches"
                + ("; a consumer may be given too few aborted transactions" if late else ""),
                ANOMALY if late and complete else NOTE,
            )


# (field of an entry, its description, whether a difference is an error; recovery or cleaning may change the others)
_COMPARED = (
    ("producer_epoch", "epoch", True),
    ("last_sequence", "last sequence", True),
    ("last_offset", "last offset", True),
    ("offset_delta", "length of the last batch", True),
    ("current_txn_first_offset", "first offset of the open transaction", True),
    ("timestamp", "last timestamp", False),
    ("coordinator_epoch", "coordinator epoch", False),
)


def check_snapshot(data: bytes, states: ProducerStates, report: ReportFile, *, complete: bool, cleaned: bool) -> None:
    """Compares a snapshot with the producer states at its offset.

    complete   whether all batches of the log up to here were read
    cleaned    whether offsets are missing between them: the log cleaner removed batches, or they were lost
    """
    entries = producer_snapshot.read(data)
    for entry in entries:
        expected = states.entry(entry.producer_id)
        if expected is None:
            if complete and not cleaned:
                report(
                    "producer_unknown",
                    f"producer {entry.producer_id} with last offset {entry.last_offset} has no batch in the log",
                )
            continue
        wrong = [
            (name, significant, getattr(expected, field), getattr(entry, field))
            for field, name, significant in _COMPARED
            if getattr(expected, field) != getattr(entry, field)
        ]
        if not wrong:
            continue
        significant = any(is_significant for _, is_significant, _, _ in wrong) and complete and not cleaned
        differences = ", ".join(
            f"{name} {stored}, but {known} according to the batches" for name, _, known, stored in wrong
        )
        report("producer_differs", f"producer {entry.producer_id}: {differences}", None if significant else NOTE)
