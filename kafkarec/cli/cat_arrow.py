"""The writers of `cat` for Arrow IPC streams and Parquet files. pyarrow imports the buffers without a copy."""

from __future__ import annotations

import base64
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import kafkarec
from kafkarec.storage.segment_file import SegmentFile
from kafkarec.support.partitioned_files import DATE, PartitionedFiles
from kafkarec.tables.records import RecordColumns

from .cat_internal_topics import InternalTopicDecoder
from .cat_writer import CONSTANTS, CONTROL, constants, json_texts, needed_for_texts
from .json_lines import escaped
from .output_files import NewFolder, Sink
from .shared_options import errors_named, pyarrow_for

Texts = dict[str, Any]  # column -> array of its texts


class RowsInArrow(ABC):
    """Makes the record batches that are written.

    With a decoder, key and value are JSON text, and bytes that are not a message are in key_base64, as in CSV. Control
    records are JSON text, too.
    """

    format = "parquet"
    timestamp_unit = "ms"

    def __init__(self, names: Sequence[str], decoder: InternalTopicDecoder | None) -> None:
        self._pa = pyarrow_for(f"--format {self.format}")
        self._names = list(names)
        self._decoder = decoder
        self.needed_columns = needed_for_texts(names, decoder)

    def write(self, source: SegmentFile, table: RecordColumns) -> None:
        texts, known = self._texts(source, table), constants(source)
        for batch in self._pa.RecordBatchReader.from_stream(table):  # one, as a window is of one chunk
            self._take(self._shown(batch, known, texts), known)

    def _texts(self, source: SegmentFile, table: RecordColumns) -> Texts:
        """Return the columns that are JSON text."""
        texts = json_texts(self._names, self._decoder, source, table)
        return {
            name: self._pa.array([escaped(text) if text else None for text in column], self._pa.string())
            for name, column in texts.items()
        }

    @abstractmethod
    def _take(self, batch: Any, known: Mapping[str, Any]) -> None:
        """Write a batch. known: its columns topic, partition and file, shown or not."""

    @abstractmethod
    def finish(self, decode: Mapping[str, Any]) -> None:
        """End the output. decode: the options that the pieces were decoded with"""

    def _shown(self, batch: Any, known: Mapping[str, Any], texts: Texts) -> Any:
        columns: dict[str, Any] = {}
        for name in self._names:
            columns |= self._columns(name, batch, known, texts)
        stored = {(field.name, field.type): field for field in batch.schema}
        fields = [
            stored.get((name, column.type), self._pa.field(name, column.type)) for name, column in columns.items()
        ]
        return self._pa.RecordBatch.from_arrays(list(columns.values()), schema=self._pa.schema(fields))

    def _columns(self, name: str, batch: Any, known: Mapping[str, Any], texts: Texts) -> dict[str, Any]:
        """Return the columns that show one: itself, with NAME_base64 for bytes that are no text."""
        pa = self._pa
        if name in CONSTANTS:
            type_ = pa.int32() if name == "partition" else pa.string()
            return {name: pa.repeat(pa.scalar(known.get(name), type_), batch.num_rows)}
        is_decoded = self._decoder is not None and name in self._decoder.columns
        if name not in texts and not is_decoded and name != CONTROL:
            return {name: batch.column(name)}
        shown = texts[name] if name in texts else pa.nulls(batch.num_rows, pa.string())
        return {name: shown} | ({f"{name}_base64": undecoded(pa, batch.column(name), shown)} if is_decoded else {})


def undecoded(pa: Any, blobs: Any, texts: Any) -> Any:
    """Return the column NAME_base64: the bytes of the rows that have no text."""
    import pyarrow.compute  # type: ignore[import-untyped,unused-ignore]

    rest = pyarrow.compute.if_else(texts.is_null(), blobs, None)
    if rest.null_count == len(rest):
        return pa.nulls(len(rest), pa.string())
    cells = [None if blob is None else base64.b64encode(blob).decode() for blob in rest.to_pylist()]
    return pa.array(cells, pa.string())


class ArrowWriter(RowsInArrow):
    """Writes an Arrow IPC stream; a file whose name ends with .feather gets the format of Arrow files."""

    format = "arrow"

    def __init__(self, sink: Sink, names: Sequence[str], decoder: InternalTopicDecoder | None) -> None:
        super().__init__(names, decoder)
        self._sink = sink
        self._out: Any = None

    def finish(self, decode: Mapping[str, Any]) -> None:
        """End the stream. Without records it has a schema and no batches."""
        if self._out is None:
            empty = self._pa.table(kafkarec.decode(b"", **decode))
            batch = self._pa.RecordBatch.from_pylist([], schema=empty.schema)
            self._opened(self._shown(batch, {}, {}).schema)
        self._out.close()
        self._sink.flush()

    def _take(self, batch: Any, known: Mapping[str, Any]) -> None:
        self._opened(batch.schema).write_batch(batch)
        self._sink.flush()

    def _opened(self, schema: Any) -> Any:
        if self._out is None:
            is_file = self._sink.name.lower().endswith(".feather")
            self._out = (self._pa.ipc.new_file if is_file else self._pa.ipc.new_stream)(self._sink, schema)
        return self._out


class ParquetWriter(ArrowWriter):
    """Writes a Parquet file of the same columns, one row group at a time; at most one group is held in memory."""

    format = "parquet"
    group_rows = 1 << 20
    group_bytes = 32 << 20

    def __init__(self, sink: Sink, names: Sequence[str], decoder: InternalTopicDecoder | None) -> None:
        super().__init__(sink, names, decoder)
        self._held: list[Any] = []
        self._rows = self._bytes = 0

    def finish(self, decode: Mapping[str, Any]) -> None:
        self._write_group()
        super().finish(decode)

    def _take(self, batch: Any, known: Mapping[str, Any]) -> None:
        self._held.append(batch)
        self._rows += batch.num_rows
        self._bytes += batch.nbytes
        if self._rows >= self.group_rows or self._bytes >= self.group_bytes:
            self._write_group()

    def _write_group(self) -> None:
        if self._held:
            table = self._pa.Table.from_batches(self._held)
            self._opened(table.schema).write_table(table, row_group_size=max(table.num_rows, 1))
            self._held, self._rows, self._bytes = [], 0, 0

    def _opened(self, schema: Any) -> Any:
        if self._out is None:
            self._out = self._pa.parquet.ParquetWriter(self._sink, schema)
        return self._out


class FolderWriter(RowsInArrow):
    """Writes a folder of Parquet files by topic, by date, or both: kafkarec.support.partitioned_files."""

    def __init__(
        self, folder: NewFolder, by: Sequence[str], names: Sequence[str], decoder: InternalTopicDecoder | None
    ) -> None:
        needed = [name for name in ("timestamp",) if DATE in by and name not in names]
        super().__init__([*names, *needed], decoder)
        self.needed_columns = [*self.needed_columns, *needed]
        self._folder = folder
        self._files = PartitionedFiles(folder.path, by, name="part", leave_out=needed)

    def finish(self, decode: Mapping[str, Any]) -> None:
        with errors_named(self._folder.name):
            self._files.close()

    def _take(self, batch: Any, known: Mapping[str, Any]) -> None:
        with errors_named(self._folder.name):
            self._files.add(batch, {"topic": known["topic"]})
