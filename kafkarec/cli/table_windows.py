"""Splits tables into windows, so that their output needs little memory, however large a decompressed batch is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TypeVar

from kafkarec.tables.records import BatchTable, RecordColumns
from kafkarec.tables.records import Piece as Run

AnyTable = TypeVar("AnyTable", RecordColumns, BatchTable)


def windows(table: AnyTable, rows: int = 1 << 16, size: int = 4 << 20) -> Iterator[AnyTable]:
    """Yield slices of at most `rows` rows and, if rows have similar sizes, about `size` bytes. Nothing is copied."""
    at = 0
    for run in table._pieces:
        count = run[2] - run[1]
        step = max(1, min(rows, count * size // max(_size_of(table, run), 1)))
        for start in range(at, at + count, step):
            yield table[start : min(start + step, at + count)]
        at += count


def _size_of(table: RecordColumns | BatchTable, run: Run) -> int:
    """Return the approximate size of the rows in bytes, from the offset buffers alone."""
    chunk, start, stop = run
    size = 8 * (stop - start) * len(table.schema)
    for index, field in enumerate(table.schema):
        if field.format in ("z", "u", "+l"):
            ends = chunk.column(index, 0)[1].cast("i")
            first, last = ends[start], ends[stop]
            if field.format != "+l":
                size += last - first
            elif last > first:
                keys, _, _, values, _ = chunk.headers()
                size += sum(ends[last] - ends[first] for ends in (keys.cast("i"), values.cast("i")))
    return size


def chosen(table: AnyTable, rows: Sequence[int]) -> AnyTable:
    """Return the rows at these places, in rising order. Nothing is copied."""
    runs = ([row for _, row in run] for _, run in groupby(enumerate(rows), key=lambda place: place[1] - place[0]))
    return table._same([piece for run in runs for piece in table._rows(run[0], run[-1] + 1)])
