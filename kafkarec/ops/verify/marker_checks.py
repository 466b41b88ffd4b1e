"""Checks of control records, which a read_committed consumer and a KRaft controller must be able to read.

With small transactions there are many markers, each in a separate batch. So records with equal bytes are parsed once.

A KRaft snapshot (.checkpoint, KIP-630) is written once and never appended to. It begins with a SNAPSHOT_HEADER and ends
with a SNAPSHOT_FOOTER. Without the footer it is incomplete.
"""

from __future__ import annotations

from collections.abc import Iterator

from kafkarec.errors import KafkaRecordError
from kafkarec.format import control
from kafkarec.format.control import ControlRecordType
from kafkarec.recover.steps import Step
from kafkarec.tables.records import RecordColumns

from .findings import FindingCollector, place_of

COLUMNS = ("offset", "key", "value")
CHECKPOINT = ".checkpoint"
_CACHED_RECORDS = 4096

Problem = tuple[str, str] | None


def check(records: RecordColumns, step: Step, findings: FindingCollector) -> None:
    """Checks the control records of one piece, the only ones that the audit keeps. `rows`: the batches of the piece."""
    if not len(records):
        return
    offsets, keys, values = (records.column(name) for name in COLUMNS)
    cache: dict[tuple[bytes | None, bytes | None], Problem] = {}
    for row, start, stop in _runs(records):
        for at in range(start, stop):
            key_and_value = keys[at], values[at]
            if key_and_value not in cache:
                if len(cache) >= _CACHED_RECORDS:
                    cache.clear()
                cache[key_and_value] = _problem(*key_and_value)
            problem = cache[key_and_value]
            if problem is not None:
                findings.add(*problem, place_of(step, row)._replace(offset=offsets[at]))


def _runs(records: RecordColumns) -> Iterator[tuple[int, int, int]]:
    """Yields (row of a batch in `records.batches`, start and stop of its rows in the record columns)."""
    at = earlier_batches = 0
    for chunk, _, _ in records._pieces:
        numbers = chunk.runs().cast("q").tolist()
        for batch, count in zip(numbers[::2], numbers[1::2], strict=True):
            yield earlier_batches + batch, at, at + count
            at += count
        earlier_batches += len(chunk.rows)


def _problem(key: bytes | None, value: bytes | None) -> Problem:
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


def is_snapshot(name: str) -> bool:
    """Whether a file of this name is a KRaft snapshot, compressed (.gz, .zst) or not."""
    return name.removesuffix(".gz").removesuffix(".zst").endswith(CHECKPOINT)


def ends_with_footer(records: RecordColumns, step: Step) -> bool:
    """Whether the last record of a piece, whose control records these are, is a SNAPSHOT_FOOTER."""
    if not len(records) or not step.column("is_control")[-1] or not step.column("record_count")[-1]:
        return False
    try:
        return control.type_id(records[len(records) - 1].key) == ControlRecordType.SNAPSHOT_FOOTER
    except KafkaRecordError:
        return False
