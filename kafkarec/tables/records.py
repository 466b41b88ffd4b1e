"""RecordColumns, BatchTable, Record and RecordBatch: views on decoded columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any, Protocol, overload

from kafkarec._core import BatchColumn, Layout, Rows
from kafkarec._core import PassResult as PassResult
from kafkarec._core import Record as Record
from kafkarec._core import RecordBatch as RecordBatch
from kafkarec.damage import Damage, Restored, UndecidedTransaction
from kafkarec.format.schema import batch_schema

from .table import Piece, Table

_BLOCK = 4096

Row = tuple[int | None, int | None, bytes | None, bytes | None, tuple[tuple[str | bytes, bytes | None], ...]]
"""(offset, timestamp in ms, key, value, headers)"""


BATCH_LAYOUT = Layout(batch_schema())


class BatchTable(Table):
    """One row per batch (magic 2) or outer message (magic 0 and 1); see `.schema` for the columns."""

    __slots__ = ("_damage", "_remaining", "_restored", "_tables")

    def __init__(
        self,
        tables: Iterable[Rows],
        damage: tuple[Damage, ...] = (),
        remaining: int = 0,
        restored: tuple[Restored, ...] = (),
        cut: list[Piece] | None = None,
    ) -> None:
        """cut: rows of the tables; None: all of them, whose columns are made when they are used."""
        super().__init__(BATCH_LAYOUT, cut)
        self._tables = [rows for rows in tables if len(rows)]
        self._damage, self._remaining, self._restored = damage, remaining, restored

    @property
    def damage(self) -> tuple[Damage, ...]:
        """The damaged ranges (errors="skip")."""
        return self._damage

    @property
    def restored(self) -> tuple[Restored, ...]:
        """The batches whose header fields were restored, if checksums were checked too (errors="skip")."""
        return self._restored

    @property
    def remaining(self) -> int:
        """Bytes of the input after the last batch: a cut tail."""
        return self._remaining

    def _whole_pieces(self) -> list[Piece]:
        return [(rows.chunk(BATCH_LAYOUT), 0, len(rows)) for rows in self._tables]

    def __len__(self) -> int:
        return super().__len__() if self._cut is not None else sum(map(len, self._tables))

    @classmethod
    def joined(cls, tables: Iterable[BatchTable]) -> BatchTable:
        """Concatenates tables; `damage` and `restored` are concatenated, `remaining` is summed."""
        tables = list(tables)
        pieces = [piece for table in tables for piece in table._pieces]
        damage = tuple(one for table in tables for one in table.damage)
        restored = tuple(one for table in tables for one in table.restored)
        return cls((), damage, sum(table.remaining for table in tables), restored, pieces)

    def _same(self, pieces: list[Piece]) -> BatchTable:
        return BatchTable((), self._damage, self._remaining, self._restored, pieces)

    @overload
    def __getitem__(self, index: int) -> dict[str, Any]: ...
    @overload
    def __getitem__(self, index: slice) -> BatchTable: ...
    def __getitem__(self, index: int | slice) -> dict[str, Any] | BatchTable:
        """A row as a dict, or a slice as a table."""
        if isinstance(index, slice):
            return self._slice(index)
        chunk, start, stop = self._row(index)
        return chunk.rows.dicts(BATCH_LAYOUT, start, stop)[0]

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for rows, start, stop in self._spans():
            for low in range(start, stop, _BLOCK):
                yield from rows.dicts(BATCH_LAYOUT, low, min(low + _BLOCK, stop))

    def _spans(self) -> list[tuple[Rows, int, int]]:
        if self._cut is None:
            return [(rows, 0, len(rows)) for rows in self._tables]
        return [(chunk.rows, start, stop) for chunk, start, stop in self._cut]

    def __repr__(self) -> str:
        return f"<BatchTable: {len(self)} batches, {len(self.damage)} damaged ranges, {self.remaining} bytes left>"


class RecordColumns(Table):
    """Decoded records as Arrow columns. Immutable; pyarrow.table, polars.DataFrame, duckdb take it; iterate it."""

    __slots__ = ("_batches", "_found", "_last_stable_offset", "_undecided", "_whole")

    def __init__(
        self,
        layout: Layout,
        found: PassResult,
        last_stable_offset: int | None = None,
        undecided: tuple[UndecidedTransaction, ...] = (),
        cut: list[Piece] | None = None,
        whole: bool = True,
    ) -> None:
        """cut: rows of the chunks; None: all. whole: False for a slice: `.batches` also has batches that are not in
        these rows."""
        self._layout, self._cut, self._found, self._whole = layout, cut, found, whole
        self._last_stable_offset, self._undecided = last_stable_offset, undecided
        self._batches: BatchTable | None = None

    def _whole_pieces(self) -> list[Piece]:
        return [(chunk, 0, len(chunk)) for chunk in self._found.chunks]

    @property
    def damage(self) -> tuple[Damage, ...]:
        """The damaged ranges (errors="skip")."""
        return tuple(self._found.damage)

    @property
    def restored(self) -> tuple[Restored, ...]:
        """The good batches whose header fields were restored (errors="skip")."""
        return tuple(self._found.restored)

    @property
    def remaining(self) -> int:
        """Bytes of the input after the last batch: a cut tail, which Kafka treats as the end."""
        return self._found.remaining

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

    def _same(self, pieces: list[Piece]) -> RecordColumns:
        whole = self._whole and pieces == self._pieces
        return RecordColumns(self._layout, self._found, self._last_stable_offset, self._undecided, pieces, whole)

    @property
    def batches(self) -> BatchTable:
        """The BatchTable of every good batch, independent of `control` and `isolation`."""
        if self._batches is None:
            self._batches = BatchTable(self._found.tables, self.damage, self.remaining)
        return self._batches

    @overload
    def __getitem__(self, index: int) -> Record: ...
    @overload
    def __getitem__(self, index: slice) -> RecordColumns: ...
    def __getitem__(self, index: int | slice) -> Record | RecordColumns:
        """A Record, or a slice as columns over the same buffers."""
        if isinstance(index, slice):
            return self._slice(index)
        chunk, start, stop = self._row(index)
        return chunk.records(self._layout, start, stop)[0]

    def __iter__(self) -> Iterator[Record]:
        chunks = self._found.chunks
        if self._cut is None and len(chunks) == 1 and (rows := len(chunks[0])) <= _BLOCK:
            return iter(chunks[0].records(self._layout, 0, rows))
        return chain.from_iterable(self._blocks())  # a third faster than a generator of Records

    def tuples(self) -> list[Row]:
        """The records as tuples (offset, timestamp, key, value, headers), which `encode` takes: less than half the time
        of reading the fields of Records.

        timestamp: ms, None for none. headers: tuples (key, value or None). A field without its column is None or ().
        """
        rows: list[Row] = []
        for chunk, start, stop in self._pieces:
            rows += chunk.tuples(self._layout, start, stop)
        return rows

    def _blocks(self) -> Iterator[list[Record]]:
        for chunk, start, stop in self._pieces:
            for low in range(start, stop, _BLOCK):
                high = min(low + _BLOCK, stop)
                yield chunk.records(self._layout, low, high)

    def __repr__(self) -> str:
        return (
            f"<RecordColumns: {len(self)} records in {len(self.batches)} batches, columns "
            f"{', '.join(self.schema.names)}, {len(self.damage)} damaged ranges, {self.remaining} bytes left>"
        )


class BatchSource(Protocol):
    """Where batches are: bytes [start, stop), and the records in them."""

    def raw(self, start: int, stop: int) -> memoryview: ...
    def write_to(self, start: int, stop: int, file: Any) -> int: ...
    def read(self, start: int, stop: int) -> Iterable[Record]: ...


for _column, _name in enumerate(BATCH_LAYOUT.schema.names):
    setattr(RecordBatch, _name, BatchColumn(BATCH_LAYOUT, _column))
