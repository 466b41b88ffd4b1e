"""The good batches of one piece of a file, by column; a column is converted to a list when it is first used."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kafkarec.tables.records import BatchTable

from .findings import FindingPlace

Column = Sequence[Any]


class BatchColumns:
    """`rows[name]` is a batch column as a list of Python values, cached."""

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
        """Position and base offset of a row; of a wrapper the last offset, as the first one is not known."""
        base = self["base_offset"][row]
        return FindingPlace(self["position"][row], self["last_offset"][row] if base is None else base)

    def codec_ids(self) -> list[int]:
        return [attributes & 7 for attributes in self["attributes"]]
