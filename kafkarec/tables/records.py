"""RecordColumns, BatchTable, Record and RecordBatch: views on decoded columns.

Table has what both tables share: columns in slices of chunks, exported to Arrow without a copy and to Python value by
value.
"""

from __future__ import annotations

import importlib
import operator
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any, Protocol, Self, overload

from kafkarec._core import BatchColumn, Chunk, Layout
from kafkarec._core import PassResult as PassResult
from kafkarec._core import Record as Record
from kafkarec._core import RecordBatch as RecordBatch
from kafkarec.damage import Damage, Restored, UndecidedTransaction
from kafkarec.format.schema import Schema, batch_schema

ChunkSlice = tuple[Chunk, int, int]


def _import_library(name: str, pip_name: str) -> Any:
    """A library of tables, imported on use."""
    try:
        return importlib.import_module(name)
    except ImportError:
        raise ImportError(f"{name} is not installed: pip install {pip_name}") from None


def join_results(parts: list[PassResult]) -> PassResult:
    """Consecutive parts as one. `remaining` is summed: only the last part of an input has any."""
    return PassResult(
        [chunk for part in parts for chunk in part.chunks],
        [rows for part in parts for rows in part.tables],
        [one for part in parts for one in part.damage],
        sum(part.remaining for part in parts),
        [one for part in parts for one in part.restored],
    )


class Table(ABC):
    """Columns of equal length. Immutable and thread-safe; Arrow consumers get the same buffers."""

    __slots__ = ("__weakref__", "_found", "_given_slices", "_layout")

    def __init__(self, layout: Layout, found: PassResult, slices: list[ChunkSlice] | None) -> None:
        """slices: the rows; None: those of `_all_slices`, which is called when they are used."""
        self._layout, self._found, self._given_slices = layout, found, slices

    @abstractmethod
    def _all_slices(self) -> list[ChunkSlice]: ...

    @property
    def _slices(self) -> list[ChunkSlice]:
        if self._given_slices is None:
            self._given_slices = self._all_slices()
        return self._given_slices

    @abstractmethod
    def _with_slices(self, pieces: list[ChunkSlice]) -> Self:
        """A table of this class over other rows."""

    @property
    def schema(self) -> Schema:
        """The columns: a tuple of fields with name, type, nullable; `.names`."""
        schema: Schema = self._layout.schema
        return schema

    @property
    def damage(self) -> tuple[Damage, ...]:
        """The damaged ranges (errors="skip")."""
        return tuple(self._found.damage)

    @property
    def restored(self) -> tuple[Restored, ...]:
        """The good batches whose header fields were restored, if checksums were checked too (errors="skip")."""
        return tuple(self._found.restored)

    @property
    def remaining(self) -> int:
        """Bytes of the input after the last batch: a cut tail, which Kafka treats as the end."""
        return self._found.remaining

    def __len__(self) -> int:
        return sum(stop - start for _, start, stop in self._slices)

    def _slices_of_rows(self, start: int, stop: int) -> list[ChunkSlice]:
        """The slices of rows [start, stop)."""
        pieces = []
        for chunk, low, high in self._slices:
            rows = high - low
            first, last = max(start, 0), min(stop, rows)
            if first < last:
                pieces.append((chunk, low + first, low + last))
            start -= rows
            stop -= rows
        return pieces

    def _slice(self, rows: slice) -> Self:
        start, stop, step = rows.indices(len(self))
        if step != 1:
            raise ValueError("the step of a slice must be 1")
        return self._with_slices(self._slices_of_rows(start, max(start, stop)))

    def _slice_of_row(self, index: int) -> ChunkSlice:
        """The slice of one row."""
        try:
            row = operator.index(index)  # pandas and NumPy have integers of their own
        except TypeError:
            raise TypeError(f"an index is an int or a slice, not {index!r}; .column(name) gives a column") from None
        length = len(self)
        row += length if row < 0 else 0
        if not 0 <= row < length:
            raise IndexError(f"row {index} of {length}")
        return self._slices_of_rows(row, row + 1)[0]

    def column(self, name: str) -> list[Any]:
        """One column as a list of Python values; headers as tuples of pairs, timestamps as stored (see `.schema`)."""
        index = self.schema.index_of.get(name)
        if index is None:
            raise KeyError(f"no column {name!r}; there are: {', '.join(self.schema.names)}")
        values: list[Any] = []
        for chunk, start, stop in self._slices:
            values += chunk.values(index, start, stop)
        return values

    def zip_columns(self, *names: str) -> Iterator[tuple[Any, ...]]:
        """The values of several columns, row by row."""
        return zip(*map(self.column, names), strict=True)

    # ---- Arrow

    def __arrow_c_schema__(self) -> object:
        return self._layout.schema_capsule()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """A new Arrow stream over the same buffers, one record batch per chunk; may be called many times.

        Ignores `requested_schema`, as Arrow allows: the types are those of `.schema`.
        """
        return self._layout.stream_capsule(self._slices)

    def list_capsules(self, offsets: memoryview, validity: bytes, nulls: int) -> tuple[object, object]:
        """(arrow_schema, arrow_array) capsules of lists over the rows of a table of one piece, for RecordLists."""
        ((chunk, _, _),) = self._slices
        return self._layout.schema_capsule(lists=True), chunk.lists_capsule(offsets, validity, nulls)

    def to_arrow(self) -> Any:
        """A pyarrow.Table over the same buffers (extra: arrow)."""
        return _import_library("pyarrow", "'kafkarec[arrow]'").table(self)

    def to_polars(self) -> Any:
        """A polars.DataFrame."""
        return _import_library("polars", "polars").DataFrame(self)

    def to_pandas(self) -> Any:
        """A pandas.DataFrame, through pyarrow."""
        _import_library("pandas", "pandas")
        return self.to_arrow().to_pandas()

    def _repr_html_(self) -> str:
        """The first 20 rows for a notebook, escaped."""
        from html import escape  # its table of entities takes 2 ms of `import kafkarec`

        def cell(value: object) -> str:
            text = repr(value)
            return "<i>null</i>" if value is None else escape(text if len(text) <= 80 else text[:77] + "...")

        head = self._slice(slice(0, 20))
        titles = "".join(f"<th>{escape(name)}</th>" for name in head.schema.names)
        rows = "".join(
            "<tr>" + "".join(f"<td>{cell(value)}</td>" for value in row) + "</tr>"
            for row in head.zip_columns(*head.schema.names)
        )
        more = f"<p>{len(self)} rows, the first 20 shown</p>" if len(self) > 20 else ""
        return f"<table><thead><tr>{titles}</tr></thead><tbody>{rows}</tbody></table>{more}"


_BLOCK = 4096

Row = tuple[int | None, int | None, bytes | None, bytes | None, tuple[tuple[str | bytes, bytes | None], ...]]
"""(offset, timestamp in ms, key, value, headers)"""


BATCH_LAYOUT = Layout(batch_schema())


class BatchTable(Table):
    """One row per batch (magic 2) or outer message (magic 0 and 1); see `.schema` for the columns."""

    __slots__ = ()

    def __init__(self, found: PassResult, slices: list[ChunkSlice] | None = None) -> None:
        """slices: rows of the batches found; None: all of them, whose columns are made when they are used."""
        tables = [rows for rows in found.tables if len(rows)]
        without_records = PassResult([], tables, found.damage, found.remaining, found.restored)
        super().__init__(BATCH_LAYOUT, without_records, slices)

    def _all_slices(self) -> list[ChunkSlice]:
        return [(rows.as_chunk(BATCH_LAYOUT), 0, len(rows)) for rows in self._found.tables]

    def __len__(self) -> int:
        return super().__len__() if self._given_slices is not None else sum(map(len, self._found.tables))

    @classmethod
    def joined(cls, tables: Iterable[BatchTable]) -> BatchTable:
        """Concatenates tables; `damage` and `restored` are concatenated, `remaining` is summed."""
        tables = list(tables)
        pieces = [piece for table in tables for piece in table._slices]
        return cls(join_results([table._found for table in tables]), pieces)

    def _with_slices(self, pieces: list[ChunkSlice]) -> BatchTable:
        return BatchTable(self._found, pieces)

    @overload
    def __getitem__(self, index: int) -> dict[str, Any]: ...
    @overload
    def __getitem__(self, index: slice) -> BatchTable: ...
    def __getitem__(self, index: int | slice) -> dict[str, Any] | BatchTable:
        """A row as a dict, or a slice as a table."""
        if isinstance(index, slice):
            return self._slice(index)
        chunk, start, stop = self._slice_of_row(index)
        return chunk.rows.dicts(BATCH_LAYOUT, start, stop)[0]

    def __iter__(self) -> Iterator[dict[str, Any]]:
        ranges = [(rows, 0, len(rows)) for rows in self._found.tables]
        if self._given_slices is not None:
            ranges = [(chunk.rows, start, stop) for chunk, start, stop in self._given_slices]
        for rows, start, stop in ranges:
            for low in range(start, stop, _BLOCK):
                yield from rows.dicts(BATCH_LAYOUT, low, min(low + _BLOCK, stop))

    def __repr__(self) -> str:
        return f"<BatchTable: {len(self)} batches, {len(self.damage)} damaged ranges, {self.remaining} bytes left>"


class RecordColumns(Table):
    """Decoded records as Arrow columns. Immutable; pyarrow.table, polars.DataFrame, duckdb take it; iterate it."""

    __slots__ = ("_batches", "_last_stable_offset", "_undecided", "_whole")

    def __init__(
        self,
        layout: Layout,
        found: PassResult,
        last_stable_offset: int | None = None,
        undecided: tuple[UndecidedTransaction, ...] = (),
        slices: list[ChunkSlice] | None = None,
        whole: bool = True,
    ) -> None:
        """slices: rows of the chunks; None: all. whole: False for a slice: `.batches` also has batches that are not in
        these rows."""
        self._layout, self._given_slices, self._found, self._whole = layout, slices, found, whole
        self._last_stable_offset, self._undecided = last_stable_offset, undecided
        self._batches: BatchTable | None = None

    def _all_slices(self) -> list[ChunkSlice]:
        return [(chunk, 0, len(chunk)) for chunk in self._found.chunks]

    @property
    def last_stable_offset(self) -> int | None:
        """read_committed only: the first offset of the first open transaction, else the log end offset."""
        return self._last_stable_offset

    @property
    def undecided(self) -> tuple[UndecidedTransaction, ...]:
        """read_committed with errors="skip": the transactions that are left out because their marker may be lost in
        damage."""
        return self._undecided

    @property
    def timestamps_out_of_range(self) -> int:
        """The number of timestamps that did not fit the unit and are null; for a slice that of the whole."""
        return sum(chunk.out_of_range for chunk in self._found.chunks)

    def _with_slices(self, pieces: list[ChunkSlice]) -> RecordColumns:
        whole = self._whole and pieces == self._slices
        return RecordColumns(self._layout, self._found, self._last_stable_offset, self._undecided, pieces, whole)

    @property
    def batches(self) -> BatchTable:
        """The BatchTable of every good batch, independent of `control` and `isolation`."""
        if self._batches is None:
            self._batches = BatchTable(self._found)
        return self._batches

    @overload
    def __getitem__(self, index: int) -> Record: ...
    @overload
    def __getitem__(self, index: slice) -> RecordColumns: ...
    def __getitem__(self, index: int | slice) -> Record | RecordColumns:
        """A Record, or a slice as columns over the same buffers."""
        if isinstance(index, slice):
            return self._slice(index)
        chunk, start, stop = self._slice_of_row(index)
        return chunk.records(start, stop)[0]

    def __iter__(self) -> Iterator[Record]:
        chunks = self._found.chunks
        if self._given_slices is None and len(chunks) == 1 and (rows := len(chunks[0])) <= _BLOCK:
            return iter(chunks[0].records(0, rows))
        return chain.from_iterable(  # a third faster than a generator of Records
            chunk.records(low, min(low + _BLOCK, stop))
            for chunk, start, stop in self._slices
            for low in range(start, stop, _BLOCK)
        )

    def tuples(self) -> list[Row]:
        """The records as tuples (offset, timestamp, key, value, headers), which `encode` takes: less than half the time
        of reading the fields of Records.

        timestamp: ms, None for none. headers: tuples (key, value or None). A field without its column is None or ().
        """
        rows: list[Row] = []
        for chunk, start, stop in self._slices:
            rows += chunk.tuples(start, stop)
        return rows

    def __repr__(self) -> str:
        return (
            f"<RecordColumns: {len(self)} records in {len(self.batches)} batches, columns "
            f"{', '.join(self.schema.names)}, {len(self.damage)} damaged ranges, {self.remaining} bytes left>"
        )


class BatchSource(Protocol):
    """Where batches are: bytes [start, stop), and the records in them."""

    def raw(self, start: int, stop: int) -> memoryview: ...
    def read(self, start: int, stop: int) -> Iterable[Record]: ...


for _column, _name in enumerate(BATCH_LAYOUT.schema.names):
    setattr(RecordBatch, _name, BatchColumn(BATCH_LAYOUT, _column))
