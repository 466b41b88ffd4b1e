"""Checks producers' sequences along a log by the rules of a broker (`producers.VIOLATIONS`).

A broker checks a batch against the producer's state. Here, a sequence gap is not reported if offsets are missing or
bytes are damaged between two batches of a producer. A duplicate, or a batch with an old epoch, is reported and then
ignored, so that one extra batch is one finding.
"""

from __future__ import annotations

from typing import Any

from kafkarec.recover.steps import Step
from kafkarec.state.producers import NONE, Marker, ProducerStates

from .findings import Findings, place_of

# key of producers.VIOLATIONS -> kind of finding
_KINDS = {
    "old_epoch": "producer_epoch_goes_back",
    "duplicate": "sequence_duplicate",
    "new_epoch_not_from_zero": "sequence_gap",
    "sequence_gap": "sequence_gap",
    "out_of_order": "sequence_order",
    "not_transactional": "producer_not_transactional",
}
_EXCUSED_BY_A_GAP = {"sequence_gap", "out_of_order", "new_epoch_not_from_zero", "not_transactional"}
_IGNORED = {"old_epoch", "duplicate"}
_COLUMNS = (
    "producer_id",
    "producer_epoch",
    "base_sequence",
    "last_sequence",
    "base_offset",
    "last_offset",
    "is_transactional",
    "is_control",
    "record_count",
)
# Whether a marker commits or aborts does not matter here: it ends a transaction.
_SOME_MARKER = Marker(aborted=False, coordinator_epoch=NONE, timestamp=NONE)


class SequenceCheck:
    """The producer states of one log. findings: gets those of all its files."""

    def __init__(self, findings: Findings) -> None:
        self._findings = findings
        self._states = ProducerStates()
        self._ends: dict[int, int] = {}  # producer -> end offset of its last batch
        self._next: int | None = None
        self._gap_ends = NONE

    def check(self, file: str, step: Step) -> None:
        """Checks the good batches of the next step."""
        bases, nexts = step.column("base_offset"), step.column("next_offset")
        if not any(producer is not None for producer in step.column("producer_id")):
            if list(bases[1:]) != list(nexts[:-1]) or bases[0] != self._next:
                self._gap_ends = nexts[-1]
            self._next = nexts[-1]
            return
        for row, values in enumerate(zip(*(step.column(name) for name in _COLUMNS), strict=True)):
            batch = dict(zip(_COLUMNS, values, strict=True))
            base, end = batch["base_offset"], batch["last_offset"]
            if self._next is not None and base != self._next:
                self._gap_ends = end if base is None else base
            self._next = end + 1
            if batch["producer_id"] is not None and batch["producer_id"] >= 0:
                self._check_batch(batch, file, place_of(step, row))

    def _check_batch(self, batch: dict[str, Any], file: str, place: tuple[int, int]) -> None:
        producer = batch["producer_id"]
        batch["max_timestamp"] = NONE
        if batch["is_control"]:
            self._states.append(batch, _SOME_MARKER if batch["record_count"] else None)
        else:
            problem = self._states.violation(batch)
            if problem in _EXCUSED_BY_A_GAP and self._gap_ends > self._ends.get(producer, NONE):
                problem = None
            if problem is not None:
                self._report(problem, batch, file, place)
            if problem not in _IGNORED:
                self._states.append(batch)
        self._ends[producer] = batch["last_offset"]

    def _report(self, problem: str, batch: dict[str, Any], file: str, place: tuple[int, int]) -> None:
        known = self._states.entry(batch["producer_id"])
        assert known is not None
        who = f"producer {batch['producer_id']} epoch {batch['producer_epoch']}"
        span = f"sequences {batch['base_sequence']} to {batch['last_sequence']}"
        after = f"after sequence {known.last_sequence}" if known.last_offset >= 0 else "at the start of an epoch"
        detail = {
            "old_epoch": f"{who} after epoch {known.producer_epoch}",
            "duplicate": f"{who}: {span} are already in the log",
            "not_transactional": f"{who}: a plain batch within its transaction",
        }.get(problem, f"{who}: {span} {after}")
        self._findings.add(_KINDS[problem], detail, *place, file=file)
