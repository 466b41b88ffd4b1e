"""Checks of .txnindex and .snapshot against the log's batches and markers; the markers are authoritative

If the start of a log was deleted, or the log was cleaned, the files may have transactions whose data is removed. A
difference that can be explained by this is a note, or not reported.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kafkarec.format.side_files import AbortedTransaction
from kafkarec.sidecars import producer_snapshot
from kafkarec.state.producers import EndedTransaction, Marker, ProducerStates

from .side_file_finding import ERROR, NOTE, WARNING, Findings


class TransactionCheck:
    """Checks a .txnindex. Call `see` with the segment's markers and ended transactions, then `finish` with the
    entries."""

    def __init__(self, file: str, findings: Findings) -> None:
        self._file, self._findings = file, findings
        self._expected: dict[tuple[int, int], EndedTransaction] = {}
        self._abort_markers: set[tuple[int, int]] = set()

    def see(
        self,
        columns: Mapping[str, list[Any]],
        markers: Mapping[int, Marker | None],
        ended: Iterable[EndedTransaction],
    ) -> None:
        """Consecutive batches with their markers, and the transactions that end in them."""
        self._expected |= {(one.producer_id, one.last_offset): one for one in ended if one.aborted}
        if any(marker is not None and marker.aborted for marker in markers.values()):
            for position, producer_id, base in zip(
                columns["position"], columns["producer_id"], columns["base_offset"], strict=True
            ):
                marker = markers.get(position)
                if marker is not None and marker.aborted:
                    self._abort_markers.add((producer_id, base))

    def not_there(self) -> None:
        """There is no .txnindex, which is right if no transaction was aborted."""
        if self._expected:
            one = next(iter(self._expected.values()))
            count = "1 transaction was" if len(self._expected) == 1 else f"{len(self._expected)} transactions were"
            self._findings.add(
                ERROR,
                "transaction_missing",
                self._file,
                f"is not there, and {count} aborted here: the first of producer {one.producer_id}, offsets "
                f"{one.first_offset} to {one.last_offset}; without it consumers with read_committed are shown their "
                "records; kafkarec reindex makes a new one",
                expected=len(self._expected),
            )

    def finish(self, entries: Iterable[AbortedTransaction], complete: bool, damaged: bool) -> None:
        """complete: all batches of the log up to here were read; damaged: some of this segment's are lost."""
        missing = dict(self._expected)
        for number, entry in enumerate(entries):
            place = entry.producer_id, entry.last_offset
            expected = missing.pop(place, None)
            what = f"entry {number}: producer {entry.producer_id}, offsets {entry.first_offset} to {entry.last_offset}"
            if expected is not None:
                self._compare(number, what, entry, expected, complete)
            elif place not in self._abort_markers:
                self._findings.add(
                    WARNING if damaged else ERROR,
                    "transaction_unknown",
                    self._file,
                    f"{what}: there is no ABORT marker of that producer at offset {entry.last_offset}"
                    + (" (it may lie in the damaged bytes)" if damaged else "; consumers skip records that are valid"),
                    entry=number,
                    found=entry.last_offset,
                )
        for one in missing.values():
            self._findings.add(
                ERROR,
                "transaction_missing",
                self._file,
                f"the transaction of producer {one.producer_id}, offsets {one.first_offset} to {one.last_offset}, was "
                "aborted and is not listed: consumers with read_committed are shown its records; kafkarec reindex "
                "makes a right one",
                expected=one.last_offset,
            )

    def _compare(
        self, number: int, what: str, entry: AbortedTransaction, expected: EndedTransaction, complete: bool
    ) -> None:
        if entry.first_offset != expected.first_offset:
            explained = not complete and entry.first_offset < expected.first_offset
            self._findings.add(
                NOTE if explained else ERROR,
                "transaction_differs",
                self._file,
                f"{what}: by its batches it begins at offset {expected.first_offset}",
                entry=number,
                expected=expected.first_offset,
                found=entry.first_offset,
            )
        stable = expected.last_stable_offset
        if entry.last_stable_offset != stable:
            late = entry.last_stable_offset > stable
            self._findings.add(
                WARNING if late and complete else NOTE,
                "transaction_differs",
                self._file,
                f"{what}: last stable offset {entry.last_stable_offset}, by the batches it is {stable}"
                + ("; a consumer may be told of too few aborted transactions" if late else ""),
                entry=number,
                expected=stable,
                found=entry.last_stable_offset,
            )


# (field of an entry, its description; None if recovery or cleaning may change it)
_COMPARED = (
    ("producer_epoch", "epoch", True),
    ("last_sequence", "last sequence", True),
    ("last_offset", "last offset", True),
    ("offset_delta", "length of the last batch", True),
    ("current_txn_first_offset", "first offset of the open transaction", True),
    ("timestamp", "last timestamp", False),
    ("coordinator_epoch", "coordinator epoch", False),
)


def check_snapshot(
    data: bytes, file: str, states: ProducerStates, findings: Findings, *, complete: bool, cleaned: bool
) -> None:
    """Compares a snapshot with the states at its offset.

    complete   all batches of the log up to here were read
    cleaned    offsets are missing between them: the log cleaner removed batches, or they were lost
    """
    entries = producer_snapshot.read(data)
    for number, entry in enumerate(entries):
        known = states.producers.get(entry.producer_id)
        if known is None:
            if complete and not cleaned:
                findings.add(
                    WARNING,
                    "producer_unknown",
                    file,
                    f"producer {entry.producer_id} with last offset {entry.last_offset} has no batch in the log",
                    entry=number,
                    found=entry.producer_id,
                )
            continue
        expected = known.entry()
        wrong = [
            (name, vital, getattr(expected, field), getattr(entry, field))
            for field, name, vital in _COMPARED
            if getattr(expected, field) != getattr(entry, field)
        ]
        if not wrong:
            continue
        vital = any(matters for _, matters, _, _ in wrong) and complete and not cleaned
        told = ", ".join(f"{name} {there} where the batches say {here}" for name, _, here, there in wrong)
        findings.add(
            ERROR if vital else NOTE,
            "producer_differs",
            file,
            f"producer {entry.producer_id}: {told}",
            entry=number,
            expected=", ".join(f"{name} {here}" for name, _, here, _ in wrong),
            found=", ".join(f"{name} {there}" for name, _, _, there in wrong),
        )
