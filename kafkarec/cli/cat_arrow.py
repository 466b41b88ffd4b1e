"""The writers of `cat` for Arrow IPC streams and Parquet files. pyarrow imports the buffers without a copy."""

from __future__ import annotations

import base64
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import kafkarec
from kafkarec.support.partitioned_files import DATE, PartitionedFiles

from .cat_internal_topics import NEEDED, InternalTopicDecoder
from .cat_writer import CONSTANTS, CONTROL, constants, control_cells
from .output_files import NewFolder, Sink
from .selection import SelectedRows
from .shared_options import CouldNot, WrongUse, errors_named


class RowsInArrow(ABC):
    """Makes the record batches that are written.

    With a decoder, key and value are JSON text, and bytes that are not a message are in key_base64, as in CSV. Control
    records are JSON text, too.
    """

    format = "parquet"
    timestamp_unit = "ms"
    needed_columns: Sequence[str] = ()

    def __init__(self, names: Sequence[str], decoder: InternalTopicDecoder | None) -> None:
        try:
            import pyarrow  # type: ignore[import-untyped,unused-ignore]
            import pyarrow.parquet  # type: ignore[import-untyped,unused-ignore]
        except ImportError:
            raise CouldNot(f"--format {self.format} needs pyarrow: pip install 'kafkarec[arrow]'") from None
        self._pa = pyarrow
        self._names = list(names)
        self._decoder = decoder
        if decoder is not None or CONTROL in self._names:
            self.needed_columns = NEEDED

    def write(self, piece: SelectedRows) -> None:
        texts: dict[str, Sequence[str | None]] = dict(self._decoder.texts(piece)) if self._decoder else {}
        if CONTROL in self._names:
            texts[CONTROL] = control_cells(piece.table)
        for batch in self._pa.RecordBatchReader.from_stream(piece.table):  # one batch per window
            chosen = batch if piece.rows is None else self._chosen(batch, piece.rows)
            rows = range(len(piece.table)) if piece.rows is None else piece.rows
            decoded = {name: [column[row] for row in rows] for name, column in texts.items()}
            known = constants(piece.source)
            self._take(self._shown(chosen, known, decoded), known)

    @abstractmethod
    def _take(self, batch: Any, known: Mapping[str, Any]) -> None:
        """Write a batch. known: its columns topic, partition and file, shown or not."""

    @abstractmethod
    def finish(self, decode: Mapping[str, Any]) -> None:
        """End the output. decode: the options that the pieces were decoded with"""

    @property
    def _decoded_names(self) -> Sequence[str]:
        return self._decoder.columns if self._decoder else ()

    def _chosen(self, batch: Any, rows: Sequence[int]) -> Any:
        if len(rows) * 2 > batch.num_rows and rows[-1] - rows[0] + 1 == len(rows):
            return batch.slice(rows[0], len(rows))  # keeps the whole batch alive
        return batch.take(self._pa.array(rows, self._pa.int64()))

    def _shown(self, batch: Any, known: Mapping[str, Any], decoded: Mapping[str, Sequence[str | None]]) -> Any:
        pa = self._pa
        types = {"topic": pa.string(), "partition": pa.int32(), "file": pa.string()}
        columns, fields = [], []
        for name in self._names:
            if name in CONSTANTS:
                columns.append(pa.repeat(pa.scalar(known.get(name), types[name]), batch.num_rows))
                fields.append(pa.field(name, types[name]))
            elif name == CONTROL:
                columns.append(pa.array(decoded.get(name, ()), pa.string()))
                fields.append(pa.field(name, pa.string()))
            elif name in self._decoded_names:
                texts = decoded.get(name) or [None] * batch.num_rows
                columns += [pa.array(texts, pa.string()), _undecoded(pa, batch.column(name), texts)]
                fields += [pa.field(name, pa.string()), pa.field(f"{name}_base64", pa.string())]
            else:
                columns.append(batch.column(name))
                fields.append(batch.schema.field(name))
        return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))


def _undecoded(pa: Any, blobs: Any, texts: Sequence[str | None]) -> Any:
    """Return the column NAME_base64: the bytes of the rows that have no text."""
    cells = [
        None if blob is None or text is not None else base64.b64encode(blob).decode()
        for blob, text in zip(blobs.to_pylist(), texts, strict=True)
    ]
    return pa.array(cells, pa.string())


class ArrowWriter(RowsInArrow):
    """Writes an Arrow IPC stream; a file whose name ends with .feather gets the format of Arrow files."""

    format = "arrow"

    def __init__(self, sink: Sink, names: Sequence[str], decoder: InternalTopicDecoder | None = None) -> None:
        super().__init__(names, decoder)
        if sink.is_terminal:
            raise WrongUse(
                f"--format {self.format} is binary and cannot be printed on a terminal; add -o FILE or a pipe"
            )
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

    def __init__(self, sink: Sink, names: Sequence[str], decoder: InternalTopicDecoder | None = None) -> None:
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
