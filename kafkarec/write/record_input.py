"""Makes a RecordInput, the compiled writer's view of records, from columns or Python rows."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from kafkarec._writer import BATCH_COLUMNS
from kafkarec._writer import RecordInput as RecordInput
from kafkarec.format.schema import RECORD_FIELDS
from kafkarec.tables.records import RecordColumns

Cuts = tuple[list[tuple[memoryview, list[tuple[memoryview, int, int]]]], bool]
"""See `_entry/written_batches.pxd`: the original batches of rows; whether batches without rows are kept."""

KNOWN_COLUMNS = frozenset(RECORD_FIELDS) | BATCH_COLUMNS
_PANDAS_INDEX = re.compile(r"__index_level_\d+__")  # the name of pandas' index as an Arrow column


def record_input_of(records: Any, *, plain: bool = False) -> RecordInput:
    """A RecordInput over `records`: anything with __arrow_c_stream__ or __arrow_c_array__ (RecordColumns too), not
    copied; or an iterable of Record, of dicts by those names, or of tuples (offset, timestamp, key, value, headers).

    Missing columns are null; missing offsets are 0, 1, 2, ... Timestamps are ms (int), aware datetimes or Arrow
    timestamps of any unit, rounded down to ms; None is -1. Header keys are str or bytes; see py_rows.py.
    plain: ignores the columns with header fields of batches.

    Arrow arrays are checked before they are read: InvalidArrowError if one does not fit its schema. RecordColumns are
    trusted and not checked. TypeError and ValueError name the column or the record.
    """
    left_out = set(BATCH_COLUMNS) if plain else set()
    if hasattr(records, "__arrow_c_stream__"):
        own = type(records) is RecordColumns
        return _known(RecordInput(stream=records.__arrow_c_stream__(), left_out=left_out, own=own))
    if hasattr(records, "__arrow_c_array__"):
        return _known(RecordInput(array=records.__arrow_c_array__(), left_out=left_out))
    if isinstance(records, str | bytes | bytearray | memoryview | Mapping) or not isinstance(records, Iterable):
        raise TypeError(f"records or Arrow columns are needed, not {type(records).__name__}; decode() reads bytes")
    return RecordInput(rows=tuple(records))


def cuts_of(columns: RecordColumns) -> Cuts:
    """The original batches of decoded columns, including empty ones unless the columns are a slice."""
    pieces: dict[int, list[tuple[memoryview, int, int]]] = {id(table): [] for table in columns._found.tables}
    tables = {id(table): table for table in columns._found.tables}
    for chunk, start, stop in columns._pieces:
        tables.setdefault(id(chunk.rows), chunk.rows)
        pieces.setdefault(id(chunk.rows), []).append((chunk.runs(), start, stop))
    return [(tables[key].raw(), slices) for key, slices in pieces.items()], columns._whole


def _known(record_input: RecordInput) -> RecordInput:
    unknown = sorted(name for name in record_input.names - KNOWN_COLUMNS if not _PANDAS_INDEX.fullmatch(name))
    if unknown:
        raise ValueError(
            f"unknown column {', '.join(map(repr, unknown))}; there are: {', '.join(sorted(KNOWN_COLUMNS))}"
        )
    if not record_input.names & {"key", "value"}:
        raise ValueError("neither a column 'key' nor a column 'value'")
    return record_input
