"""Checks of control records, which a read_committed consumer and a KRaft controller must be able to read.

With small transactions there are many markers, each a batch of its own: the control batches of a piece are decoded
together, and records of equal bytes are parsed once.

A KRaft snapshot (.checkpoint, KIP-630) is written once and never appended to. It begins with a SNAPSHOT_HEADER and ends
with a SNAPSHOT_FOOTER; without the footer it is incomplete.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kafkarec.errors import KafkaRecordError
from kafkarec.format import control
from kafkarec.format.control import ControlRecordType
from kafkarec.read.reader import decode

from . import record_checks
from .findings import FindingNotes, FindingPlace

CHECKPOINT = ".checkpoint"
_MOST_KEPT = 4096

Problem = tuple[str, str] | None


def check(batches: Sequence[tuple[Any, FindingPlace]], notes: FindingNotes) -> None:
    """Checks the control batches of one piece, each given with its position."""
    if not batches:
        return
    try:
        found = decode(
            b"".join(batch for batch, _ in batches),
            columns=["offset", "key", "value"],
            control=True,
            check_crcs=False,
        )
    except KafkaRecordError:
        return  # not the bytes that were read before: the file changes while it is read
    offsets, keys, values = (found.column(name) for name in ("offset", "key", "value"))
    known: dict[tuple[bytes | None, bytes | None], Problem] = {}
    for row, start, stop in record_checks.runs(found):
        for at in range(start, stop):
            both = keys[at], values[at]
            if both not in known:
                if len(known) >= _MOST_KEPT:
                    known.clear()
                known[both] = _problem(*both)
            problem = known[both]
            if problem is not None:
                notes.add(*problem, batches[row][1]._replace(offset=offsets[at]))


def _problem(key: bytes | None, value: bytes | None) -> Problem:
    """(kind, detail) of the problem of a control record; None: no problem."""
    try:
        parsed = control.parse(key, value)
    except KafkaRecordError as error:
        return "control_record_unreadable", str(error)
    if isinstance(parsed, control.UnknownControlRecord):
        return "control_type_unknown", f"control record type {parsed.type_id}"
    if parsed.version > (parsed.type is ControlRecordType.LEADER_CHANGE):
        return "control_version_newer", f"{parsed.type.name} in version {parsed.version}"
    return None


def is_snapshot(name: str) -> bool:
    """Whether a file of this name is a KRaft snapshot, compressed (.gz, .zst) or not."""
    return name.removesuffix(".gz").removesuffix(".zst").endswith(CHECKPOINT)


def ends_with_footer(batch: Any) -> bool:
    """Whether the last record of a batch is a SNAPSHOT_FOOTER."""
    try:
        found = decode(batch, columns=["key"], control=True, check_crcs=False)
        keys, controls = found.column("key"), found.batches.column("is_control")
        return bool(keys) and bool(controls[-1]) and control.type_id(keys[-1]) == ControlRecordType.SNAPSHOT_FOOTER
    except KafkaRecordError:
        return False
