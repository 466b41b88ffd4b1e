"""RecordColumns, BatchTable, Record and RecordBatch: views on decoded columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol, overload

from kafkarec._core import Chunk, Layout, Rows
from kafkarec.damage import Damage, Restored, UndecidedTransaction
from kafkarec.format import control
from kafkarec.format.schema import BATCH_FIELDS, Schema, batch_schema

from .table import Piece, Table, cells

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_INT32_MAX = 2**31 - 1
_BLOCK = 4096


@dataclass(frozen=True, slots=True)
class Record:
    """One record. A field whose column is not in `columns` is None (headers: empty).

    timestamp: int    milliseconds since 1970-01-01 UTC, None for -1
    headers           list of (key, value or None), in order, with repeated keys
    sequence: int     the producer's, None without a producer
    """

    offset: int | None
    timestamp: int | None
    timestamp_type: int | None
    key: bytes | None
    value: bytes | None
    headers: list[tuple[Any, bytes | None]]
    sequence: int | None = None
    is_control: bool = False

    def __hash__(self) -> int:
        return hash((self.offset, self.timestamp, self.key, self.value))

    @property
    def datetime(self) -> datetime | None:
        """The timestamp, aware and in UTC; None outside of the years 1 to 9999."""
        if self.timestamp is None:
            return None
        try:
            return _EPOCH + timedelta(milliseconds=self.timestamp)
        except OverflowError:
            return None

    @property
    def control(self) -> Any:
        """The typed control record, None for data. InvalidRecordError if it cannot be read."""
        return control.parse(self.key, self.value) if self.is_control else None


def _sequence(base_sequence: int | None, base_offset: int, offset: int | None) -> int | None:
    """DefaultRecordBatch.incrementSequence by the offset delta, in 32-bit arithmetic that wraps around as in Java."""
    if base_sequence is None or base_sequence < 0 or offset is None:
        return None
    delta = (offset - base_offset + 2**31) % 2**32 - 2**31
    limit = (_INT32_MAX - delta + 2**31) % 2**32 - 2**31
    sequence = delta - (_INT32_MAX - base_sequence) - 1 if base_sequence > limit else base_sequence + delta
    sequence = (sequence + 2**31) % 2**32 - 2**31
    return None if sequence == -1 else sequence


_BATCH_LAYOUT = Layout(batch_schema())
_BATCH_NAMES = list(BATCH_FIELDS)
_SEQUENCE_FIELDS = Layout(Schema(BATCH_FIELDS[name] for name in ("is_control", "base_sequence", "base_offset")))
_SequenceFields = tuple[bool, int | None, int]


class BatchTable(Table):
    """One row per batch (magic 2) or outer message (magic 0 and 1); see `.schema` for the columns.

    .damage     tuple of Damage (errors="skip")
    .restored   tuple of Restored, if checksums were checked too (errors="skip")
    .remaining  bytes of the input after the last batch: a cut tail
    """

    def __init__(
        self,
        pieces: Iterable[Piece],
        damage: tuple[Damage, ...] = (),
        remaining: int = 0,
        restored: tuple[Restored, ...] = (),
    ) -> None:
        super().__init__(_BATCH_LAYOUT, pieces)
        self.damage = damage
        self.remaining = remaining
        self.restored = restored
        self._frozen = True

    @classmethod
    def of(
        cls,
        tables: Iterable[Rows],
        damage: tuple[Damage, ...] = (),
        remaining: int = 0,
        restored: tuple[Restored, ...] = (),
    ) -> BatchTable:
        chunks = [rows.chunk(_BATCH_LAYOUT) for rows in tables if len(rows)]
        return cls([(chunk, 0, len(chunk)) for chunk in chunks], damage, remaining, restored)

    @classmethod
    def joined(cls, tables: Iterable[BatchTable]) -> BatchTable:
        """Concatenates tables; `damage` and `restored` are concatenated, `remaining` is summed."""
        tables = list(tables)
        pieces = [piece for table in tables for piece in table._pieces]
        damage = tuple(one for table in tables for one in table.damage)
        restored = tuple(one for table in tables for one in table.restored)
        return cls(pieces, damage, sum(table.remaining for table in tables), restored)

    def _same(self, pieces: Iterable[Piece]) -> BatchTable:
        return BatchTable(pieces, self.damage, self.remaining, self.restored)

    @overload
    def __getitem__(self, index: int) -> dict[str, Any]: ...
    @overload
    def __getitem__(self, index: slice) -> BatchTable: ...
    def __getitem__(self, index: int | slice) -> dict[str, Any] | BatchTable:
        """A row as a dict, or a slice as a table."""
        if isinstance(index, slice):
            return self._slice(index)
        row = self._row_number(index)
        return next(self._rows(self._cut(row, row + 1)))

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return self._rows(self._pieces)

    def _rows(self, pieces: Iterable[Piece]) -> Iterator[dict[str, Any]]:
        for piece in pieces:
            columns = [self._cells(i, *piece) for i in range(len(_BATCH_NAMES))]
            for values in zip(*columns, strict=True):
                yield dict(zip(_BATCH_NAMES, values, strict=True))

    def __repr__(self) -> str:
        return f"<BatchTable: {len(self)} batches, {len(self.damage)} damaged ranges, {self.remaining} bytes left>"


class RecordColumns(Table):
    """Decoded records as Arrow columns. Immutable; pass it to pyarrow.table, polars.DataFrame, duckdb, or iterate it.

    .batches              the BatchTable of every good batch, independent of `control` and `isolation`
    .damage               tuple of Damage (errors="skip")
    .restored             tuple of Restored: good batches whose header fields were restored (errors="skip")
    .remaining            bytes of the input after the last batch: a cut tail, which Kafka treats as the end
    .last_stable_offset   read_committed only: the first offset of the first open transaction, else the log end offset
    .undecided            read_committed with errors="skip": the transactions that are left out because their marker may
                          be lost in damage (UndecidedTransaction)
    .timestamps_out_of_range   number of timestamps that did not fit the unit and are null
    """

    def __init__(
        self,
        layout: Layout,
        pieces: Iterable[Piece],
        tables: Iterable[Rows] = (),
        damage: tuple[Damage, ...] = (),
        remaining: int = 0,
        last_stable_offset: int | None = None,
        ticks: int = 1,
        binary_header_keys: bool = False,
        undecided: tuple[UndecidedTransaction, ...] = (),
        restored: tuple[Restored, ...] = (),
    ) -> None:
        super().__init__(layout, pieces)
        self._tables = tuple(tables)
        self._batches: BatchTable | None = None
        self._batch_fields: dict[Chunk, list[_SequenceFields]] = {}
        self._ticks = ticks
        self._binary_header_keys = binary_header_keys
        self.damage = damage
        self.restored = restored
        self.remaining = remaining
        self.last_stable_offset = last_stable_offset
        self.undecided = undecided
        self.timestamps_out_of_range = sum(chunk.out_of_range for chunk, _, _ in self._pieces)
        self._frozen = True

    _whole = True  # False for a slice: `.batches` also has batches that are not in these rows

    def _same(self, pieces: Iterable[Piece]) -> RecordColumns:
        pieces = list(pieces)
        same = RecordColumns(
            self._layout,
            pieces,
            self._tables,
            self.damage,
            self.remaining,
            self.last_stable_offset,
            self._ticks,
            self._binary_header_keys,
            self.undecided,
            self.restored,
        )
        same._whole = self._whole and pieces == self._pieces
        return same

    @property
    def batches(self) -> BatchTable:
        if self._batches is None:
            self._batches = BatchTable.of(self._tables, self.damage, self.remaining)
        return self._batches

    @overload
    def __getitem__(self, index: int) -> Record: ...
    @overload
    def __getitem__(self, index: slice) -> RecordColumns: ...
    def __getitem__(self, index: int | slice) -> Record | RecordColumns:
        """A Record, or a slice as columns over the same buffers."""
        if isinstance(index, slice):
            return self._slice(index)
        row = self._row_number(index)
        return self._records(*self._cut(row, row + 1)[0])[0]

    def __iter__(self) -> Iterator[Record]:
        for chunk, start, stop in self._pieces:
            for low in range(start, stop, _BLOCK):
                yield from self._records(chunk, low, min(low + _BLOCK, stop))

    def _records(self, chunk: Chunk, start: int, stop: int) -> list[Record]:
        names = self.schema.names
        nothing = [None] * (stop - start)

        def cells_of(name: str) -> list[Any]:
            return self._cells(names.index(name), chunk, start, stop) if name in names else nothing

        timestamps = cells_of("timestamp")
        if self._ticks > 1:
            timestamps = [None if t is None else t // self._ticks for t in timestamps]
        headers = cells_of("headers") if "headers" in names else [()] * (stop - start)
        offsets = cells_of("offset")
        batch_fields = _fields_by_row(chunk, self._fields_of(chunk), start, stop)
        return [
            Record(offset, timestamp, type_, key, value, list(pairs), _sequence(base, base_offset, offset), is_control)
            for offset, timestamp, type_, key, value, pairs, (is_control, base, base_offset) in zip(
                offsets,
                timestamps,
                cells_of("timestamp_type"),
                cells_of("key"),
                cells_of("value"),
                headers,
                batch_fields,
                strict=True,
            )
        ]

    def _fields_of(self, chunk: Chunk) -> list[_SequenceFields]:
        """The batch fields that a Record needs, for each batch of a chunk; cached."""
        if chunk not in self._batch_fields:
            table = chunk.rows.chunk(_SEQUENCE_FIELDS)
            columns = [cells(table, i, field.format, 0, len(table)) for i, field in enumerate(_SEQUENCE_FIELDS.schema)]
            self._batch_fields[chunk] = list(zip(*columns, strict=True))
        return self._batch_fields[chunk]

    def __repr__(self) -> str:
        return (
            f"<RecordColumns: {len(self)} records in {len(self.batches)} batches, columns "
            f"{', '.join(self.schema.names)}, {len(self.damage)} damaged ranges, {self.remaining} bytes left>"
        )


def _fields_by_row(chunk: Chunk, fields: list[_SequenceFields], start: int, stop: int) -> list[_SequenceFields]:
    """The batch fields of each of the rows [start, stop)."""
    runs = chunk.runs().cast("q").tolist()
    by_row: list[_SequenceFields] = []
    row = 0
    for batch, rows in zip(runs[::2], runs[1::2], strict=True):
        low, high = max(start, row), min(stop, row + rows)
        if low < high:
            by_row += [fields[batch]] * (high - low)
        row += rows
        if row >= stop:
            break
    return by_row


class BatchBody(Protocol):
    """The source of a RecordBatch's bytes and records."""

    def raw(self) -> memoryview: ...
    def write_to(self, file: Any) -> int: ...
    def read(self) -> RecordColumns: ...


class RecordBatch:
    """One batch: the batch columns as attributes, `.raw`, and its records when iterated.

    Iterating checks the CRC and decodes the payload, and raises CorruptRecordError and InvalidRecordError. Control
    records are included. The bytes of a batch in a file are read when they are used.
    """

    position: int
    base_offset: int | None
    last_offset: int
    next_offset: int
    batch_length: int
    size_in_bytes: int
    partition_leader_epoch: int | None
    magic: int
    crc: int
    attributes: int
    compression: str | None
    timestamp_type: int | None
    is_transactional: bool
    is_control: bool
    delete_horizon_ms: int | None
    base_timestamp: int | None
    max_timestamp: int | None
    producer_id: int | None
    producer_epoch: int | None
    base_sequence: int | None
    last_sequence: int | None
    record_count: int | None

    def __init__(self, fields: dict[str, Any], body: BatchBody) -> None:
        self.__dict__.update(fields)
        self._body = body

    @property
    def raw(self) -> memoryview:
        """The batch's bytes, with its header."""
        return self._body.raw()

    def write_to(self, file: Any) -> int:
        """Writes the bytes to a file object, from file to file by sendfile if possible; returns how many."""
        return self._body.write_to(file)

    def __iter__(self) -> Iterator[Record]:
        return iter(self._body.read())

    def __repr__(self) -> str:
        return (
            f"<RecordBatch: magic {self.magic}, offsets {self.base_offset}..{self.last_offset}, "
            f"{self.size_in_bytes} bytes at {self.position}, {self.compression}>"
        )
