"""What `cat` can write. A writer says which columns it needs besides those it shows."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import kafkarec
from kafkarec import control
from kafkarec.records import RecordColumns
from kafkarec.storage import Segment

from . import internal, jsonlines
from .options import CouldNot, WrongUse
from .output import Sink
from .selection import Piece

CONSTANTS = ("topic", "partition", "file")


class Writer(Protocol):
    """One output format."""

    timestamp_unit: str
    needed_columns: Sequence[str]

    def write(self, piece: Piece) -> None:
        """Write the chosen rows of one piece."""

    def finish(self, decode: Mapping[str, Any]) -> None:
        """End the output; `decode` are the options that the pieces were decoded with."""


def constants(source: Segment) -> dict[str, Any]:
    """The columns that the command line knows and the batches do not."""
    # A path that is no UTF-8 is shown with U+FFFD: JSON has no other way to hold it.
    file = source.path.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    return {"topic": source.topic, "partition": source.partition, "file": file}


class JsonWriter:
    """JSON Lines: see the contract in docs; `control` adds the decoded control record, `decoding` internal topics."""

    timestamp_unit = "int64"

    def __init__(
        self,
        sink: Sink,
        names: Sequence[str],
        control: bool,
        forms: Mapping[str, str],
        decoding: internal.Decoding | None = None,
    ) -> None:
        self._sink = sink
        self._decoding = decoding
        self._control = control
        self._names = [*names, "control"] if control else list(names)
        self._forms = forms
        self.needed_columns: Sequence[str] = internal.NEEDED if control or decoding else ()

    def write(self, piece: Piece) -> None:
        lines = jsonlines.render(
            piece.table,
            self._names,
            constants=constants(piece.source),
            forms=self._forms,
            extra={"control": control_cells(piece.table)} if self._control else {},
            decoded=self._decoding.texts(piece) if self._decoding else {},
            rows=piece.rows,
        )
        self._sink.write(lines)
        self._sink.flush()

    def finish(self, decode: Mapping[str, Any]) -> None:
        self._sink.flush()


def control_cells(table: RecordColumns) -> list[str]:
    """The control record of each row as JSON text."""
    flags, keys, values = map(table.column, ("is_control", "key", "value"))
    return [_control_cell(key, value) if flag else "null" for flag, key, value in zip(flags, keys, values, strict=True)]


def _control_cell(key: bytes | None, value: bytes | None) -> str:
    try:
        return json.dumps(control.as_json(control.parse(key, value)), ensure_ascii=False, separators=(",", ":"))
    except kafkarec.KafkaRecordError as error:
        return json.dumps({"unreadable": str(error)})


class ArrowWriter:
    """An Arrow IPC stream of kafkarec's own buffers; topic, partition and file are added where shown."""

    timestamp_unit = "ms"
    needed_columns: Sequence[str] = ()

    def __init__(self, sink: Sink, names: Sequence[str]) -> None:
        try:
            import pyarrow  # type: ignore[import-untyped,unused-ignore]
        except ImportError:
            raise CouldNot("--format arrow needs pyarrow: pip install 'kafkarec[arrow]'") from None
        if sink.is_terminal:
            raise WrongUse("--format arrow is binary and would garble the terminal; add -o FILE or pipe it on")
        self._pa = pyarrow
        self._sink = sink
        self._names = list(names)
        self._out: Any = None

    def write(self, piece: Piece) -> None:
        for batch in self._pa.RecordBatchReader.from_stream(piece.table):  # of a window: one
            chosen = batch if piece.rows is None else self._chosen(batch, piece.rows)
            shown = self._shown(chosen, constants(piece.source))
            self._open(shown.schema).write_batch(shown)
        self._sink.flush()

    def finish(self, decode: Mapping[str, Any]) -> None:
        """An input without records is a stream without batches: it still has its schema."""
        if self._out is None:
            empty = self._pa.table(kafkarec.decode(b"", **decode))
            batch = self._pa.RecordBatch.from_pylist([], schema=empty.schema)
            self._open(self._shown(batch, {}).schema)
        self._out.close()
        self._sink.flush()

    def _chosen(self, batch: Any, rows: Sequence[int]) -> Any:
        if len(rows) and rows[-1] - rows[0] + 1 == len(rows):
            return batch.slice(rows[0], len(rows))
        return batch.take(self._pa.array(rows, self._pa.int64()))

    def _shown(self, batch: Any, known: Mapping[str, Any]) -> Any:
        pa = self._pa
        types = {"topic": pa.string(), "partition": pa.int32(), "file": pa.string()}
        columns, fields = [], []
        for name in self._names:
            if name in CONSTANTS:
                columns.append(pa.repeat(pa.scalar(known.get(name), types[name]), batch.num_rows))
                fields.append(pa.field(name, types[name]))
            else:
                columns.append(batch.column(name))
                fields.append(batch.schema.field(name))
        return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))

    def _open(self, schema: Any) -> Any:
        if self._out is None:
            self._out = self._pa.ipc.new_stream(self._sink, schema)
        return self._out
