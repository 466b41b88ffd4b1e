"""What can be written, as a Sheet: the desk's view of rows where they lie."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from kafkarec._press import Cuts, Sheet
from kafkarec.records import Record, RecordColumns
from kafkarec.schema import RECORD_FIELDS

FACTS = frozenset(
    ("base_offset", "partition_leader_epoch", "timestamp_type", "timestampType", "producer_id", "producer_epoch",
     "sequence", "is_transactional", "is_control", "magic", "compression")
)  # fmt: skip
"""Columns that say something of a record's batch."""

KNOWN = frozenset(RECORD_FIELDS) | FACTS
_ROW = ("offset", "timestamp", "key", "value", "headers")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MS = timedelta(milliseconds=1)


def sheet_of(records: Any, *, plain: bool = False) -> Sheet:
    """A Sheet over `records`: anything with __arrow_c_stream__ or __arrow_c_array__ (RecordColumns too), not copied; or
    an iterable of Record, of dicts by those names, or of tuples (offset, timestamp, key, value, headers).

    A column that is not there is null; offsets that are not there are counted. Timestamps are ms (int), aware datetimes
    or Arrow timestamps of any unit, rounded down to ms; None is -1. Header keys are str or bytes.
    `plain`: columns that say something of the batches are not looked at.

    TypeError and ValueError name the column or the record.
    """
    left_out = set(FACTS) if plain else set()
    if hasattr(records, "__arrow_c_stream__"):
        return _known(Sheet(stream=records.__arrow_c_stream__(), left_out=left_out))
    if hasattr(records, "__arrow_c_array__"):
        return _known(Sheet(array=records.__arrow_c_array__(), left_out=left_out))
    if isinstance(records, str | bytes | bytearray | memoryview | Mapping) or not isinstance(records, Iterable):
        raise TypeError(f"records or Arrow columns are needed, not {type(records).__name__}; decode() reads bytes")
    rows = records if isinstance(records, list) else list(records)
    return Sheet(rows=rows, row_of=_row)


def cuts_of(columns: RecordColumns) -> Cuts:
    """The batches that decoded columns come from, empty ones included where the columns are whole."""
    runs: dict[int, list[tuple[int, int]]] = {id(table): [] for table in columns._tables}
    tables = {id(table): table for table in columns._tables}
    whole = True
    for chunk, start, stop in columns._pieces:
        tables.setdefault(id(chunk.rows), chunk.rows)
        whole = whole and stop - start == len(chunk)
        _overlaps(chunk.runs().cast("q"), start, stop, runs.setdefault(id(chunk.rows), []))
    return Cuts([(tables[key].raw(), found) for key, found in runs.items()], whole)


def _overlaps(pairs: memoryview, start: int, stop: int, found: list[tuple[int, int]]) -> None:
    """(index of the batch, rows of it) of rows [start, stop) of a chunk."""
    numbers = pairs.tolist()
    at = 0
    for index, rows in zip(numbers[::2], numbers[1::2], strict=True):
        present = min(at + rows, stop) - max(at, start)
        at += rows
        if present > 0:
            if found and found[-1][0] == index:
                present += found.pop()[1]
            found.append((index, present))


def _known(sheet: Sheet) -> Sheet:
    unknown = sorted(sheet.names - KNOWN)
    if unknown:
        raise ValueError(f"unknown column {', '.join(map(repr, unknown))}; there are: {', '.join(sorted(KNOWN))}")
    if not sheet.names & {"key", "value"}:
        raise ValueError("neither a column 'key' nor a column 'value'")
    return sheet


def _row(record: Any, number: int) -> tuple[Any, ...]:
    if isinstance(record, Record):
        found: tuple[Any, ...] = (record.offset, record.timestamp, record.key, record.value, record.headers)
    elif isinstance(record, tuple) and len(record) == len(_ROW):
        found = record
    elif isinstance(record, Mapping):
        unknown = sorted(map(str, record.keys() - KNOWN))
        if unknown:
            raise ValueError(f"record {number}: unknown {', '.join(unknown)}; a record has {', '.join(_ROW)}")
        found = tuple(record.get(name) for name in _ROW)
    else:
        raise TypeError(f"record {number}: a Record, a dict or a tuple ({', '.join(_ROW)}) is needed")
    if isinstance(found[1], datetime):
        if found[1].tzinfo is None:
            raise ValueError(f"record {number}: a datetime without a time zone; use an aware one or ms")
        found = (found[0], (found[1] - _EPOCH) // _MS, *found[2:])
    return found
