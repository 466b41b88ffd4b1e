"""Control records: what a read_committed consumer and a KRaft controller must be able to read.

A partition of small transactions has one marker behind each, a batch of its own: the control batches of a piece are
decoded together, and records of the same bytes are parsed once.

A KRaft snapshot (.checkpoint, KIP-630) is written once and never appended to. It begins with a SNAPSHOT_HEADER and ends
with a SNAPSHOT_FOOTER; whatever lacks the footer was not written, or not copied, to its end.
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

Told = tuple[str, str] | None


def check(batches: Sequence[tuple[Any, FindingPlace]], notes: FindingNotes) -> None:
    """The control batches of one piece, each with its place."""
    if not batches:
        return
    try:
        found = decode(
            b"".join(batch for batch, _ in batches), columns=["offset", "key", "value"], control=True,
            check_crcs=False,
        )  # fmt: skip
    except KafkaRecordError:
        return  # not what the engine accepted: the file changes while it is read
    offsets, keys, values = (found.column(name) for name in ("offset", "key", "value"))
    known: dict[tuple[bytes | None, bytes | None], Told] = {}
    for row, start, stop in record_checks.runs(found):
        for at in range(start, stop):
            both = keys[at], values[at]
            if both not in known:
                if len(known) >= _MOST_KEPT:
                    known.clear()
                known[both] = _trouble(*both)
            told = known[both]
            if told is not None:
                notes.add(*told, batches[row][1]._replace(offset=offsets[at]))


def _trouble(key: bytes | None, value: bytes | None) -> Told:
    """(kind, detail) of what is wrong with a control record."""
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
    """Whether a file of this name is a snapshot of KRaft, packed or not."""
    return name.removesuffix(".gz").removesuffix(".zst").endswith(CHECKPOINT)


def ends_with_footer(batch: Any) -> bool:
    """Whether the last record of a batch is a SNAPSHOT_FOOTER."""
    try:
        found = decode(batch, columns=["key"], control=True, check_crcs=False)
        keys, controls = found.column("key"), found.batches.column("is_control")
        return bool(keys) and bool(controls[-1]) and control.type_id(keys[-1]) == ControlRecordType.SNAPSHOT_FOOTER
    except KafkaRecordError:
        return False
