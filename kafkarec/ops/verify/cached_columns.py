"""Columns of the good batches in one piece of a file. A column is converted to a list when it is first used."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from kafkarec.tables.records import BatchTable

from .findings import FindingPlace

Column = list[Any]


class CachedColumns:
    """A BatchTable of which `rows[name]` is a column as a cached list of Python values."""

    def __init__(self, table: BatchTable) -> None:
        self._table = table
        self._columns: dict[str, Column] = {}

    def __len__(self) -> int:
        return len(self._table)

    def __getitem__(self, name: str) -> Column:
        if name not in self._columns:
            self._columns[name] = self._table.column(name)
        return self._columns[name]

    def place(self, row: int) -> FindingPlace:
        """The position and base offset of a row; for a wrapper the last offset, as the base offset is not known."""
        base = self["base_offset"][row]
        return FindingPlace(self["position"][row], self["last_offset"][row] if base is None else base)

    @cached_property
    def offset_counts(self) -> list[int]:
        """The number of offsets of each batch; 1 for a wrapper, whose base offset is not known."""
        ranges = zip(self["base_offset"], self["last_offset"], strict=True)
        return [1 if base is None else last - base + 1 for base, last in ranges]
