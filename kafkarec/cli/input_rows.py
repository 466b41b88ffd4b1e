"""Blocks of input rows for `build`, as Python lists or as Arrow columns.

`build` reads the columns that determine where a batch ends (offset, producer id, ...) as lists. Keys, values and
headers are passed to the writer unchanged: those of Arrow and Parquet do not become Python objects.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any, Protocol

from .input_cells import Columns

# The columns of a block that are written, in the order of a record's tuple.
RECORD = ("offset", "timestamp", "key", "value", "headers")


class InputRows(Protocol):
    """Consecutive rows of the input."""

    def __len__(self) -> int: ...

    def column(self, name: str) -> Sequence[Any] | None:
        """Return the cells of a column other than key, value and headers; None if the input has no such column."""

    def set(self, name: str, cells: Sequence[Any]) -> None:
        """Replace a column by a column of integers."""

    def slice(self, start: int, stop: int) -> InputRows: ...

    def take(self, rows: Sequence[int]) -> InputRows: ...

    def joined(self, *others: Any) -> InputRows:
        """Return these rows followed by those of `others`, blocks of the same input."""

    def has_headers(self, row: int) -> bool: ...

    def records(self) -> Any:
        """Return the rows as an argument of kafkarec.encode."""

    def where(self, row: int) -> str:
        """Return the position of a row in the input, for a message: `line 7`."""


class ListRows:
    """Rows of JSON Lines and CSV. `places`: the position of each row in the input."""

    def __init__(self, columns: Columns, places: Sequence[int], unit: str = "line") -> None:
        self._columns = columns
        self._places = places
        self._unit = unit

    def __len__(self) -> int:
        return len(self._places)

    def column(self, name: str) -> Sequence[Any] | None:
        return self._columns.get(name)

    def set(self, name: str, cells: Sequence[Any]) -> None:
        self._columns[name] = cells

    def slice(self, start: int, stop: int) -> ListRows:
        columns = {name: cells[start:stop] for name, cells in self._columns.items()}
        return ListRows(columns, self._places[start:stop], self._unit)

    def take(self, rows: Sequence[int]) -> ListRows:
        columns: Columns = {name: [cells[row] for row in rows] for name, cells in self._columns.items()}
        return ListRows(columns, [self._places[row] for row in rows], self._unit)

    def joined(self, *others: ListRows) -> ListRows:
        blocks = (self, *others)
        names = {name: None for block in blocks for name in block._columns}
        columns: Columns = {name: list(chain.from_iterable(block._cells(name) for block in blocks)) for name in names}
        return ListRows(columns, list(chain.from_iterable(block._places for block in blocks)), self._unit)

    def has_headers(self, row: int) -> bool:
        return bool("headers" in self._columns and self._columns["headers"][row])

    def records(self) -> list[tuple[Any, ...]]:
        return list(zip(*map(self._cells, RECORD), strict=True))

    def where(self, row: int) -> str:
        return f"{self._unit} {self._places[row]}"

    def _cells(self, name: str) -> Sequence[Any]:
        none: Any = [] if name == "headers" else None
        return self._columns[name] if name in self._columns else [none] * len(self)


class ArrowRows:
    """Rows of Arrow IPC and Parquet: a pyarrow.Table with columns of `input_cells.TAKEN`, in the types that the writer
    accepts.

    places: the position of each row in the input, from 1
    """

    def __init__(self, table: Any, places: Sequence[int], lists: Columns | None = None) -> None:
        self._table = table
        self._places = places
        self._lists = lists or {}

    def __len__(self) -> int:
        return int(self._table.num_rows)

    def column(self, name: str) -> Sequence[Any] | None:
        if name not in self._lists:
            if name not in self._table.column_names:
                return None
            self._lists[name] = self._table.column(name).to_pylist()
        return self._lists[name]

    def set(self, name: str, cells: Sequence[Any]) -> None:
        import pyarrow as pa  # type: ignore[import-untyped,unused-ignore]

        self._lists[name] = cells
        column = pa.array(cells, pa.int64())
        if name in self._table.column_names:
            self._table = self._table.set_column(self._table.column_names.index(name), name, column)
        else:
            self._table = self._table.append_column(name, column)

    def slice(self, start: int, stop: int) -> ArrowRows:
        lists = {name: cells[start:stop] for name, cells in self._lists.items()}
        return ArrowRows(self._table.slice(start, stop - start), self._places[start:stop], lists)

    def take(self, rows: Sequence[int]) -> ArrowRows:
        lists: Columns = {name: [cells[row] for row in rows] for name, cells in self._lists.items()}
        return ArrowRows(self._table.take(rows), [self._places[row] for row in rows], lists)

    def joined(self, *others: ArrowRows) -> ArrowRows:
        import pyarrow as pa

        blocks = (self, *others)
        names = [name for name in self._lists if all(name in block._lists for block in blocks)]
        lists: Columns = {name: list(chain.from_iterable(block._lists[name] for block in blocks)) for name in names}
        places = list(chain.from_iterable(block._places for block in blocks))
        return ArrowRows(pa.concat_tables([block._table for block in blocks]), places, lists)

    def has_headers(self, row: int) -> bool:
        return "headers" in self._table.column_names and bool(self._table.column("headers")[row].as_py())

    def records(self) -> Any:
        import pyarrow as pa

        chosen = self._table.select([name for name in RECORD if name in self._table.column_names])
        if not {"key", "value"} & set(chosen.column_names):
            chosen = chosen.append_column("value", pa.nulls(len(self), pa.binary()))
        return chosen.combine_chunks()

    def where(self, row: int) -> str:
        return f"row {self._places[row]}"


# Called with the position and problem of each row that cannot be converted; may raise to end the run.
Refuse = Callable[[str, str], None]
