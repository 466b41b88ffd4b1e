"""Splits tables into windows, so that their output needs little memory, however large a decompressed batch is."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from typing import TypeVar

from kafkarec.tables.records import BatchTable, RecordColumns
from kafkarec.tables.table import Piece as Run

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


def rows_with(table: RecordColumns, key: bytes) -> list[int]:
    """Return the rows with this key, by one search over the bytes of all keys."""
    if not key:
        return [row for row, value in enumerate(table.column("key")) if value == b""]
    found: list[int] = []
    index, at = table.schema.names.index("key"), 0
    for chunk, start, stop in table._pieces:
        _, offsets, data = chunk.column(index, 0)
        ends = offsets.cast("i")[start : stop + 1]
        first = ends[0]
        content = bytes(data[first : ends[-1]]) if data is not None else b""
        hit = content.find(key)
        while hit >= 0:
            row = bisect_right(ends, first + hit) - 1  # rows before it that begin here are empty
            if ends[row] == first + hit and ends[row + 1] - ends[row] == len(key):
                found.append(at + row)
            hit = content.find(key, ends[row + 1] - first)
        at += stop - start
    return found
