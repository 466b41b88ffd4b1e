"""Checks of control records, which a read_committed consumer and a KRaft controller must be able to read.

A KRaft snapshot (.checkpoint, KIP-630) is written once and never appended to. It begins with a SNAPSHOT_HEADER and ends
with a SNAPSHOT_FOOTER. Without the footer it is incomplete.
"""

from __future__ import annotations

from itertools import accumulate

from kafkarec.errors import KafkaRecordError
from kafkarec.format import control
from kafkarec.format.control import ControlRecordType
from kafkarec.recover.steps import MARKER_COLUMNS, Step
from kafkarec.tables.records import cells

from .findings import Findings

COLUMNS = (*MARKER_COLUMNS, "offset")
_KEY, _VALUE, _OFFSET = map(COLUMNS.index, ("key", "value", "offset"))


def check(step: Step, findings: Findings) -> None:
    """Checks the control records of one step, the only ones that the audit keeps. With small transactions each marker
    is in a batch of its own, and most have the same few bytes, so equal records are parsed once."""
    if step.chunk is None or not len(step.chunk):
        return
    keys, values = (cells(step.chunk, column, "z", 0, len(step.chunk)) for column in (_KEY, _VALUE))
    keys_and_values = list(zip(keys, values, strict=True))
    problems = {one: found for one in set(keys_and_values) if (found := _problem(*one))}
    if not problems:
        return
    offsets = cells(step.chunk, _OFFSET, "l", 0, len(step.chunk))
    runs = step.chunk.runs().cast("q").tolist()
    ends = list(accumulate(runs[1::2]))
    run = 0
    for at, one in enumerate(keys_and_values):
        while at >= ends[run]:
            run += 1
        if one in problems:
            findings.add(*problems[one], step.cell("position", runs[2 * run]), offsets[at])


def _problem(key: bytes | None, value: bytes | None) -> tuple[str, str] | None:
    """The (kind, detail) of the problem with a control record; None: no problem."""
    try:
        parsed = control.parse(key, value)
    except KafkaRecordError as error:
        return "control_record_unreadable", str(error)
    if isinstance(parsed, control.UnknownControlRecord):
        return "control_type_unknown", f"control record type {parsed.type_id}"
    if parsed.version > (parsed.type is ControlRecordType.LEADER_CHANGE):
        return "control_version_newer", f"{parsed.type.name} in version {parsed.version}"
    return None


def ends_with_footer(step: Step) -> bool:
    """Whether the last record of a step, whose control records are kept, is a SNAPSHOT_FOOTER."""
    last, count = len(step) - 1, 0 if step.chunk is None else len(step.chunk)
    if not count or not step.cell("is_control", last) or not step.cell("record_count", last):
        return False
    assert step.chunk is not None
    try:
        return control.type_id(*cells(step.chunk, _KEY, "z", count - 1, count)) == ControlRecordType.SNAPSHOT_FOOTER
    except KafkaRecordError:
        return False
