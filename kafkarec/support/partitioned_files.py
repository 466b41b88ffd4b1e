"""Rows to Parquet files in folders such as topic=orders/date=2026-11-01, as Hive, Spark, DuckDB and pyarrow read them.

    files = PartitionedFiles("/table", ("topic", "date"), name="part")
    files.add(record_batch, {"topic": "orders"})      # date is the UTC day of the column timestamp
    files.close()       [WrittenFile("topic=orders/date=2026-11-01/part-0.parquet", rows, size)]

The rows of a folder are in one file, in the order in which they came, until it has FILE_BYTES. Keys and values get no
dictionaries, and values no statistics: they cost a quarter of the time, and make files no smaller once these are
compressed. Offsets and times are stored as differences.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import date
from typing import Any, NamedTuple

from .durable import fsync

DATE = "date"
# Hive's name of the folder of null. It also gets days outside of the years 1 to 9999, which no reader types as dates.
NULL = "__HIVE_DEFAULT_PARTITION__"
# What Hive and Spark write as %XX in the names of such folders.
_ESCAPED = re.compile(r"[\x00-\x1f\x7f\"#%'*/:=?\\{\[\]^]")
_EPOCH = date(1970, 1, 1).toordinal()
_FIRST_DAY, _LAST_DAY = (each.toordinal() - _EPOCH for each in (date.min, date.max))
# Bytes of Arrow arrays of one row group, and of all rows that are held at once; bytes of a file.
GROUP_BYTES, HELD_BYTES, FILE_BYTES = 32 << 20, 128 << 20, 512 << 20
MOST_OPEN = 64


class WrittenFile(NamedTuple):
    """path: relative to the folder of all files; size: bytes"""

    path: str
    rows: int
    size: int


class PartitionedFiles:
    """Writes record batches of one schema. Not thread-safe.

    folder       exists
    by           the names of the partition columns, from the outermost folder on; files do not have these columns
    name         files are NAME-0.parquet, NAME-1.parquet, ... and the suffix
    leave_out    columns that files do not have either
    """

    def __init__(
        self,
        folder: str,
        by: Sequence[str],
        *,
        name: str,
        suffix: str = "",
        compression: str = "zstd",
        leave_out: Sequence[str] = (),
    ) -> None:
        self._root, self._by, self._left_out = folder, tuple(by), {*by, *leave_out}
        self._name, self._suffix, self._compression = name, suffix, compression
        self._files: dict[str, _File] = {}  # by folder, the one that was written to last at the end
        self._held_bytes = self._made = 0
        self._done: list[WrittenFile] = []

    def add(self, rows: Any, values: Mapping[str, Any]) -> None:
        """Adds a pyarrow.RecordBatch. values: of the partition columns that are the same for all rows; without `date`,
        it is the UTC day of the column timestamp."""
        for folder, batch in self._by_folder(rows, values):
            file = self._files.setdefault(folder, _File())
            file.held.append(batch)
            file.held_bytes += batch.nbytes
            self._held_bytes += batch.nbytes
            if file.held_bytes >= GROUP_BYTES:
                self._write_group(folder)
        while self._held_bytes > HELD_BYTES:
            self._write_group(max(self._files, key=lambda each: self._files[each].held_bytes))

    def close(self) -> list[WrittenFile]:
        """Completes all files; returns what was written."""
        while self._files:
            self._close_file(next(iter(self._files)))
        return self._done

    def drop(self) -> None:
        """Closes all files, incomplete as they are."""
        for file in self._files.values():
            if file.sink is not None:
                with suppress(OSError):
                    file.sink.close()

    def _by_folder(self, rows: Any, values: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
        """The rows of each folder, in their order; copied if they are not all, since a part keeps the whole alive."""
        import pyarrow as pa  # type: ignore[import-untyped]
        import pyarrow.compute as pc  # type: ignore[import-untyped]

        if not rows.num_rows:
            return
        kept = rows.select([name for name in rows.schema.names if name not in self._left_out])
        if DATE not in self._by or DATE in values:
            yield self._folder(values), kept
            return
        days = rows.column("timestamp").cast(pa.date32()).cast(pa.int32())
        has_name = pc.and_(pc.greater_equal(days, _FIRST_DAY), pc.less_equal(days, _LAST_DAY))
        days = pc.if_else(has_name, days, pa.scalar(None, pa.int32()))
        order = pc.sort_indices(days)  # stable
        runs, start = pc.run_end_encode(days.take(order)), 0
        for day, end in zip(runs.values.to_pylist(), runs.run_ends.to_pylist(), strict=True):
            part = kept if end - start == rows.num_rows else kept.take(order.slice(start, end - start))
            yield self._folder({**values, DATE: None if day is None else date.fromordinal(day + _EPOCH)}), part
            start = end

    def _folder(self, values: Mapping[str, Any]) -> str:
        names = []
        for name in self._by:
            value = values.get(name)
            escaped = _ESCAPED.sub(lambda found: f"%{ord(found[0]):02X}", str(value))
            names.append(f"{name}={NULL if value in (None, '') else escaped}")
        return "/".join(names)

    def _write_group(self, folder: str) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq  # type: ignore[import-untyped]

        file = self._files[folder] = self._files.pop(folder)
        table = pa.Table.from_batches(file.held)
        self._held_bytes -= file.held_bytes
        file.held, file.held_bytes = [], 0
        if file.writer is None:
            is_open = [each for each, other in self._files.items() if other.writer is not None]
            if len(is_open) >= MOST_OPEN:
                self._close_file(is_open[0])
            path = self._root
            for part in filter(None, folder.split("/")):  # not the root itself: when it is gone, nothing is written
                path = os.path.join(path, part)
                with suppress(FileExistsError):
                    os.mkdir(path)
            file.path = os.path.join(folder, f"{self._name}-{self._made}.parquet{self._suffix}")
            self._made += 1
            types = {each.name: each.type for each in table.schema}
            numbers = [name for name, of in types.items() if pa.types.is_int64(of) or pa.types.is_timestamp(of)]
            nested = [name for name, of in types.items() if pa.types.is_list(of)]
            file.sink = pa.OSFile(os.path.join(self._root, file.path), "wb")
            file.writer = pq.ParquetWriter(
                file.sink,
                table.schema,
                compression=self._compression,
                use_dictionary=[name for name in types if name not in ("key", "value", *numbers, *nested)],
                write_statistics=[name for name in types if name not in ("value", *nested)],
                column_encoding=dict.fromkeys(numbers, "DELTA_BINARY_PACKED"),
            )
        file.writer.write_table(table, row_group_size=len(table))
        file.rows += len(table)
        if file.sink.tell() >= FILE_BYTES:
            self._close_file(folder)

    def _close_file(self, folder: str) -> None:
        if self._files[folder].held:
            self._write_group(folder)
        file = self._files.pop(folder, None)  # None: that group has completed it
        if file is None or file.sink is None:
            return
        file.writer.close()
        fsync(file.sink.fileno(), file.path)
        self._done.append(WrittenFile(file.path, file.rows, file.sink.tell()))
        file.sink.close()


class _File:
    """A file of one folder, and the rows that it gets next. sink, writer: None before its first row group."""

    def __init__(self) -> None:
        self.held, self.held_bytes = list[Any](), 0
        self.path, self.rows = "", 0
        self.sink: Any = None
        self.writer: Any = None
