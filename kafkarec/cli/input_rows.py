"""A block of input rows for `build`, as Python lists or as Arrow columns.

`build` reads the columns that decide where a batch ends (offset, producer id, ...) as lists, and passes keys, values
and headers on unchanged: for Arrow and Parquet no Python objects are made of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any, Protocol

from .input_cells import Columns

# The columns of a block that are written, in the order of a record's tuple.
RECORD = ("offset", "timestamp", "key", "value", "headers")

_MESSAGE = (26, 34)
_LONGER = (0, 1 << 6, 1 << 13, 1 << 20, 1 << 27)  # lengths from which the varint takes one byte more


def varint_size(number: int) -> int:
    """The size of a zig-zag varint in bytes."""
    return max(1, ((number << 1 if number >= 0 else -2 * number - 1).bit_length() + 6) // 7)


def prefixed(blob: bytes | None) -> int:
    """Bytes of a key or value with its length prefix."""
    length = len(blob) if blob else 0
    return 1 + length if length < 64 else varint_size(length) + length


def _with_headers(sizes: Sequence[int], headers: Sequence[Any] | None) -> list[int]:
    if headers is None:
        return [size + 1 for size in sizes]
    return [
        size + varint_size(len(pairs)) + sum(prefixed(key.encode()) + prefixed(value) for key, value in pairs)
        for size, pairs in zip(sizes, headers, strict=True)
    ]


class InputRows(Protocol):
    """Some rows of the input, in order."""

    def __len__(self) -> int: ...

    def column(self, name: str) -> Sequence[Any] | None:
        """The cells of a column, but not those of key, value and headers; None where the input has no such column."""

    def set(self, name: str, cells: Sequence[Any]) -> None:
        """Replaces a column by whole numbers."""

    def slice(self, start: int, stop: int) -> InputRows: ...

    def take(self, rows: Sequence[int]) -> InputRows: ...

    def joined(self, *others: Any) -> InputRows:
        """These rows followed by those of `others`, blocks of the same input."""

    def has_headers(self, row: int) -> bool: ...

    def least_sizes(self, magic: int) -> list[int]:
        """The size of each row in a batch without the fields that depend on its position: magic 2 without length and
        deltas (DefaultRecord.sizeOf), magic 0 and 1 whole (LegacyRecord.recordSize and the 12 bytes before it)."""

    def records(self) -> Any:
        """The rows as kafkarec.encode takes them."""

    def where(self, row: int) -> str:
        """The place of a row in the input, for a message: `line 7`."""


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

    def least_sizes(self, magic: int) -> list[int]:
        keys, values = self._cells("key"), self._cells("value")
        if magic < 2:
            return [
                _MESSAGE[magic] + len(key or b"") + len(value or b"") for key, value in zip(keys, values, strict=True)
            ]
        sizes = [
            1 + (prefixed(key) if key else 1) + (prefixed(value) if value else 1)
            for key, value in zip(keys, values, strict=True)
        ]
        return _with_headers(sizes, self._columns.get("headers"))

    def records(self) -> list[tuple[Any, ...]]:
        return list(zip(*map(self._cells, RECORD), strict=True))

    def where(self, row: int) -> str:
        return f"{self._unit} {self._places[row]}"

    def _cells(self, name: str) -> Sequence[Any]:
        none: Any = [] if name == "headers" else None
        return self._columns[name] if name in self._columns else [none] * len(self)


class ArrowRows:
    """Rows of Arrow IPC and Parquet: a pyarrow.Table with the columns of `input_cells.TAKEN`, in the
    types that the writer takes.

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

    def least_sizes(self, magic: int) -> list[int]:
        import pyarrow.compute as pc  # type: ignore[import-untyped,unused-ignore]

        total: Any = _MESSAGE[magic] if magic < 2 else 1
        for name in ("key", "value"):
            if name not in self._table.column_names:
                total = pc.add(total, 0 if magic < 2 else 1)
                continue
            length = pc.fill_null(pc.cast(pc.binary_length(self._table.column(name)), "int64"), 0)
            total = pc.add(total, length)
            for step in _LONGER if magic == 2 else ():
                total = pc.add(total, pc.cast(pc.greater_equal(length, step), "int64"))
        sizes: list[int] = total.to_pylist() if hasattr(total, "to_pylist") else [total.as_py()] * len(self)
        headers = self._table.column("headers") if magic == 2 and "headers" in self._table.column_names else None
        if headers is None or not pc.sum(pc.list_value_length(headers)).as_py():
            return [size + 1 for size in sizes] if magic == 2 else sizes
        pairs = [[(one["key"], one["value"]) for one in cell or ()] for cell in headers.to_pylist()]
        return _with_headers(sizes, pairs)

    def records(self) -> Any:
        import pyarrow as pa

        chosen = self._table.select([name for name in RECORD if name in self._table.column_names])
        if not {"key", "value"} & set(chosen.column_names):
            chosen = chosen.append_column("value", pa.nulls(len(self), pa.binary()))
        return chosen.combine_chunks()

    def where(self, row: int) -> str:
        return f"row {self._places[row]}"


# Called with the place and problem of each row that does not fit; raises where the first one ends the run.
Refuse = Callable[[str, str], None]
