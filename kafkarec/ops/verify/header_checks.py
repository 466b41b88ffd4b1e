"""Checks of batch headers for values that no Kafka writer writes and that readers accept or ignore.


    attributes of magic 2   bits 0-2 codec, 3 timestamp type, 4 transactional, 5 control, 6 delete horizon, 7-15 unused
    attributes of magic 1   bits 0-2 codec, 3 timestamp type; magic 0: bits 0-2 codec

Each check is done on a whole column first; rows are checked one by one only if the column has a match.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .batch_columns import BatchColumns
from .findings import FindingNotes

_USED_BITS = {0: 0x07, 1: 0x0F, 2: 0x7F}
HEADER_BYTES = 61


def check(rows: BatchColumns, notes: FindingNotes) -> None:
    """All checks of this module on the batches of one piece."""
    if not len(rows):
        return
    for kind, name, what in _NEVER_NEGATIVE:
        _not_negative(rows, notes, kind, name, what)
    for test in (_attributes, _counts, _producers):
        test(rows, notes)


# In most of these -1 means none; the columns have null for it.
_NEVER_NEGATIVE = (
    ("base_offset_negative", "base_offset", "base offset"),
    ("timestamp_negative", "base_timestamp", "base timestamp"),
    ("timestamp_negative", "max_timestamp", "max timestamp"),
    ("producer_id_invalid", "producer_id", "producer id"),
    ("sequence_negative", "base_sequence", "base sequence"),
    ("leader_epoch_negative", "partition_leader_epoch", "partition leader epoch"),
)


def _not_negative(rows: BatchColumns, notes: FindingNotes, kind: str, name: str, what: str) -> None:
    column = rows[name]
    known = [value for value in column if value is not None] if None in column else column
    if not known or min(known) >= 0:
        return
    for row, value in enumerate(column):
        if value is not None and value < 0:
            notes.add(kind, f"{what} {value}", rows.place(row))


def _attributes(rows: BatchColumns, notes: FindingNotes) -> None:
    def odd(magic: int, attributes: int) -> int:
        width = 0xFFFF if magic == 2 else 0xFF
        return attributes & width & ~_USED_BITS[magic]

    pairs = list(zip(rows["magic"], rows["attributes"], strict=True))
    strange = {pair for pair in set(pairs) if odd(*pair)}
    _report(rows, notes, "attributes_unknown", pairs, strange.__contains__, lambda p: f"attribute bits {odd(*p):#06x}")


def _counts(rows: BatchColumns, notes: FindingNotes) -> None:
    """More records than offsets. Fewer are normal after compaction; for none with a payload see payload_checks.py."""
    triples = zip(rows["record_count"], rows["base_offset"], rows["last_offset"], strict=True)
    above = [count is not None and count > last - base + 1 for count, base, last in triples]
    if any(above):
        for row, wrong in enumerate(above):
            if wrong:
                counted, base, last = (rows[name][row] for name in ("record_count", "base_offset", "last_offset"))
                detail = f"{counted} records in a batch of the offsets {base} to {last}"
                notes.add("count_above_offsets", detail, rows.place(row))


def _producers(rows: BatchColumns, notes: FindingNotes) -> None:
    """A producer's data batch has a sequence (KIP-98); its markers have none."""
    names = ("producer_id", "base_sequence", "is_control")
    triples = list(zip(*(rows[name] for name in names), strict=True))

    def lacks(triple: tuple[int | None, int | None, bool]) -> bool:
        return triple[0] is not None and triple[0] >= 0 and triple[1] is None and not triple[2]

    _report(
        rows, notes, "producer_without_sequence", triples, lacks, lambda t: f"producer id {t[0]} without a sequence"
    )


def _report(
    rows: BatchColumns,
    notes: FindingNotes,
    kind: str,
    values: Sequence[Any],
    wrong: Callable[[Any], bool],
    detail: Callable[[Any], str],
) -> None:
    if any(map(wrong, values)):
        for row, value in enumerate(values):
            if wrong(value):
                notes.add(kind, detail(value), rows.place(row))
