"""The writers of `cat`: JSON Lines, Arrow IPC streams, Parquet and CSV. pyarrow imports the buffers without a copy.

Keys and values of internal topics are objects (`--raw` prints bytes); the folder's name has the topic:

    {"key": {"type": "OffsetCommit", "data": {"group": "g", ...}},
     "value": {"type": "OffsetCommit", "version": 4, "data": {"offset": 10, ...}}}

The data is what kafka-dump-log's decoders print. Bytes that are not a message are printed as in other topics.

CSV has a line of names, text in quotes, null as an empty cell, LF after each row:

    topic,partition,offset,timestamp,timestamp_type,key,key_base64,value,value_base64,headers
    "orders",0,17,1700000000000,0,"user-1",,"it says ""hi"" twice",,"[{""key"":""k"",""value"":""v""}]"

Null has no quotes, an empty text has. A key or value that is not text is in NAME_base64 instead of its own column;
null is in neither. For the reasons see docs/explanation/design.md, Writing.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import kafkarec
from kafkarec import internal_topics
from kafkarec.format import control
from kafkarec.internal_topics.dump_text import json_text
from kafkarec.storage.segment_file import SegmentFile
from kafkarec.support.partitioned_files import DATE, PartitionedFiles
from kafkarec.tables.records import RecordColumns

from . import json_lines
from .json_lines import CONSTANT_COLUMNS, FORMS, constant_columns, escaped_json, json_or_none
from .shared_options import errors_named, pyarrow_for

NEEDED = ("is_control", "key", "value")  # by json_texts
CONTROL = "control"  # a column that no decoder has: the control record as JSON


def json_texts(
    names: Sequence[str], decoded: Sequence[str], source: SegmentFile, table: RecordColumns
) -> dict[str, Sequence[str | None]]:
    """Return the columns that are JSON text, None for other rows: control records, and the columns `decoded` (key,
    value) of internal topics, where bytes are a message."""
    texts: dict[str, Sequence[str | None]] = {}
    topic = source.topic
    if decoded and topic is not None and topic in internal_topics.TOPICS:
        messages: dict[str, list[str | None]] = {name: [] for name in decoded}
        for is_control, key, value in table.zip_columns(*NEEDED):
            shown = {} if is_control else internal_topics.read(topic, key, value).as_json()
            for name in decoded:
                tree = shown.get(name)
                messages[name].append(None if tree is None else json_text(tree))
        texts |= messages
    if CONTROL in names:
        cells: list[str | None] = []
        for is_control, key, value in table.zip_columns(*NEEDED):
            cell = None
            try:
                if is_control:
                    record = control.as_json(control.parse(key, value))
                    cell = json.dumps(record, ensure_ascii=False, separators=(",", ":"))
            except kafkarec.KafkaRecordError as error:
                cell = json.dumps({"unreadable": str(error)})
            cells.append(cell)
        texts[CONTROL] = cells
    return texts


class RecordWriter:
    """Writes records to a sink.

    names       the columns, in order
    decoded     see `json_texts`
    forms       key, value -> a key of FORMS, for JSON and CSV; `iso_times` is, too
    """

    timestamp_unit = "int64"

    def __init__(
        self, sink: Any, names: Sequence[str], decoded: Sequence[str], forms: Mapping[str, str], iso_times: bool
    ) -> None:
        self._sink = sink
        self._names, self._decoded = names, decoded
        self._forms, self._iso_times = forms, iso_times
        self.needed_columns: Sequence[str] = NEEDED if CONTROL in names or decoded else ()

    def finish(self, decode: Mapping[str, Any]) -> None:
        """End the output. decode: the options of the pieces"""
        self._sink.flush()


class JsonWriter(RecordWriter):
    """Writes JSON Lines as `cat --help` describes them."""

    def write(self, source: SegmentFile, table: RecordColumns) -> None:
        """Write records of a segment."""
        lines = json_lines.render(
            table,
            self._names,
            constants=constant_columns(source),
            forms=self._forms,
            decoded=json_texts(self._names, self._decoded, source, table),
            iso_times=self._iso_times,
        )
        self._sink.write(lines)
        self._sink.flush()


Texts = dict[str, Any]  # column -> array of its texts


class ArrowWriter(RecordWriter):
    """Writes an Arrow IPC stream; a file whose name ends with .feather gets the format of Arrow files.

    With `decoded`, key and value are JSON text, and bytes that are not a message are in key_base64, as in CSV. Control
    records are JSON text, too.
    """

    format = "arrow"
    timestamp_unit = "ms"

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._pa = pyarrow_for(f"--format {self.format}")
        self._out: Any = None

    def write(self, source: SegmentFile, table: RecordColumns) -> None:
        """Write records of a segment."""
        texts, known = self._json_arrays(source, table), constant_columns(source)
        for batch in self._pa.RecordBatchReader.from_stream(table):  # one, as a window is of one chunk
            self._write_batch(self._batch_to_write(batch, known, texts), known)

    def _json_arrays(self, source: SegmentFile, table: RecordColumns) -> Texts:
        """Return the columns that are JSON text."""
        texts = json_texts(self._names, self._decoded, source, table)
        return {
            name: self._pa.array([escaped_json(text) if text else None for text in column], self._pa.string())
            for name, column in texts.items()
        }

    def _batch_to_write(self, batch: Any, known: Mapping[str, Any], texts: Texts) -> Any:
        columns: dict[str, Any] = {}
        for name in self._names:
            columns |= self._output_columns(name, batch, known, texts)
        stored = {(field.name, field.type): field for field in batch.schema}
        fields = [
            stored.get((name, column.type), self._pa.field(name, column.type)) for name, column in columns.items()
        ]
        return self._pa.RecordBatch.from_arrays(list(columns.values()), schema=self._pa.schema(fields))

    def _output_columns(self, name: str, batch: Any, known: Mapping[str, Any], texts: Texts) -> dict[str, Any]:
        """Return the columns that show one: itself, with NAME_base64 for bytes that are no text."""
        pa = self._pa
        if name in CONSTANT_COLUMNS:
            type_ = pa.int32() if name == "partition" else pa.string()
            return {name: pa.repeat(pa.scalar(known.get(name), type_), batch.num_rows)}
        is_decoded = name in self._decoded
        if name not in texts and not is_decoded and name != CONTROL:
            return {name: batch.column(name)}
        shown = texts[name] if name in texts else pa.nulls(batch.num_rows, pa.string())
        return {name: shown} | ({f"{name}_base64": base64_column(pa, batch.column(name), shown)} if is_decoded else {})

    def finish(self, decode: Mapping[str, Any]) -> None:
        """End the output; without records it has a schema and no batches."""
        if self._out is None:
            empty = self._pa.table(kafkarec.decode(b"", **decode))
            batch = self._pa.RecordBatch.from_pylist([], schema=empty.schema)
            self._open_writer(self._batch_to_write(batch, {}, {}).schema)
        self._out.close()
        super().finish(decode)

    def _write_batch(self, batch: Any, known: Mapping[str, Any]) -> None:
        """Write a batch. known: its columns topic, partition and file, shown or not."""
        self._open_writer(batch.schema).write_batch(batch)
        self._sink.flush()

    def _open_writer(self, schema: Any) -> Any:
        if self._out is None:
            self._out = self._new_writer(schema)
        return self._out

    def _new_writer(self, schema: Any) -> Any:
        is_file = self._sink.name.lower().endswith(".feather")
        return (self._pa.ipc.new_file if is_file else self._pa.ipc.new_stream)(self._sink, schema)


def base64_column(pa: Any, blobs: Any, texts: Any) -> Any:
    """Return the column NAME_base64: the bytes of the rows that have no text."""
    import pyarrow.compute  # type: ignore[import-untyped,unused-ignore]

    rest = pyarrow.compute.if_else(texts.is_null(), blobs, None)
    if rest.null_count == len(rest):
        return pa.nulls(len(rest), pa.string())
    cells = [None if blob is None else base64.b64encode(blob).decode() for blob in rest.to_pylist()]
    return pa.array(cells, pa.string())


class ParquetWriter(ArrowWriter):
    """Writes a Parquet file of the same columns, one row group at a time; at most one group is held in memory."""

    format = "parquet"
    group_rows = 1 << 20
    group_bytes = 32 << 20

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._held: list[Any] = []
        self._rows = self._bytes = 0

    def finish(self, decode: Mapping[str, Any]) -> None:
        self._write_group()
        super().finish(decode)

    def _write_batch(self, batch: Any, known: Mapping[str, Any]) -> None:
        self._held.append(batch)
        self._rows += batch.num_rows
        self._bytes += batch.nbytes
        if self._rows >= self.group_rows or self._bytes >= self.group_bytes:
            self._write_group()

    def _write_group(self) -> None:
        if self._held:
            table = self._pa.Table.from_batches(self._held)
            self._open_writer(table.schema).write_table(table, row_group_size=max(table.num_rows, 1))
            self._held, self._rows, self._bytes = [], 0, 0

    def _new_writer(self, schema: Any) -> Any:
        return self._pa.parquet.ParquetWriter(self._sink, schema)


class FolderWriter(ArrowWriter):
    """Writes a folder of Parquet files by topic, by date, or both: kafkarec.support.partitioned_files."""

    format = "parquet"

    def __init__(self, folder: str, shown_name: str, by: Sequence[str], names: Sequence[str], *arguments: Any) -> None:
        needed = [name for name in ("timestamp",) if DATE in by and name not in names]
        super().__init__(None, [*names, *needed], *arguments)
        self._shown_name = shown_name
        self.needed_columns = [*self.needed_columns, *needed]
        self._files = PartitionedFiles(folder, by, name="part", leave_out=needed)

    def finish(self, decode: Mapping[str, Any]) -> None:
        with errors_named(self._shown_name):
            self._files.close()

    def _write_batch(self, batch: Any, known: Mapping[str, Any]) -> None:
        with errors_named(self._shown_name):
            self._files.add(batch, {"topic": known["topic"]})


# Control characters except tab, line feed and carriage return; line and paragraph separators.
_NO_TEXT = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029]")
# The bytes of UTF-8 without them.
_TEXT = (
    r"\A(?:[\t\n\r -~]|\xc2[\xa0-\xbf]|[\xc3-\xdf][\x80-\xbf]"
    r"|\xe0[\xa0-\xbf][\x80-\xbf]|\xe2\x80[\x80-\xa7\xaa-\xbf]|\xe2[\x81-\xbf][\x80-\xbf]|\xed[\x80-\x9f][\x80-\xbf]"
    r"|[\xe1\xe3-\xec\xee\xef][\x80-\xbf]{2}"
    r"|\xf0[\x90-\xbf][\x80-\xbf]{2}|[\xf1-\xf3][\x80-\xbf]{3}|\xf4[\x80-\x8f][\x80-\xbf]{2})*\z"
)


def _integer_decoder(size: int) -> Callable[[bytes], int | None]:
    return lambda blob: int.from_bytes(blob, "big", signed=True) if len(blob) == size else None


# Form of a key or value -> its cell, None if it does not fit. Those of utf8 are found all at once.
_CELLS: dict[str, Callable[[bytes], str | int | None]] = {
    "json": lambda blob: (text := json_or_none(blob)) and escaped_json(text),
    "base64": lambda blob: base64.b64encode(blob).decode(),
    "hex": bytes.hex,
    "int32": _integer_decoder(4),
    "int64": _integer_decoder(8),
}


class CsvWriter(ArrowWriter):
    """Writes CSV rows, behind a line of names."""

    format = "csv"
    timestamp_unit = "int64"

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        import pyarrow.compute as functions  # type: ignore[import-untyped,unused-ignore]

        self._functions = functions
        as_json = {"headers", "timestamp"} if self._iso_times else {"headers"}
        self._as_json = [name for name in self._names if name in as_json]

    def _json_arrays(self, source: SegmentFile, table: RecordColumns) -> Texts:
        pa, functions, texts = self._pa, self._functions, super()._json_arrays(source, table)
        for name in self._as_json:
            lines = json_lines.render(table, [name], iso_times=True)
            members = functions.split_pattern(pa.array([lines], pa.binary()), "\n").flatten()[:-1]
            cells = functions.binary_slice(members, len(name) + 4, -1).cast(pa.string())
            nulls = functions.equal(cells, json_lines.NULL)
            texts[name] = functions.if_else(nulls, None, functions.utf8_trim(cells, '"'))
        return texts

    def _batch_to_write(self, batch: Any, known: Mapping[str, Any], texts: Texts) -> Any:
        # A file's name may have any character.
        clean = {name: _NO_TEXT.sub("\ufffd", cell) if isinstance(cell, str) else cell for name, cell in known.items()}
        none = self._pa.nulls(batch.num_rows, self._pa.string())
        return super()._batch_to_write(batch, clean, dict.fromkeys(self._as_json, none) | texts)

    def _output_columns(self, name: str, batch: Any, known: Mapping[str, Any], texts: Texts) -> dict[str, Any]:
        form = self._forms.get(name)
        if form is None:
            return super()._output_columns(name, batch, known, texts)
        pa, functions, blobs = self._pa, self._functions, batch.column(name)
        if form == "utf8":
            shown = blobs.cast(pa.string(), safe=False)
            if not functions.all(functions.ascii_is_printable(shown)).as_py():  # a tenth of the expression's time
                shown = functions.if_else(functions.match_substring_regex(blobs, _TEXT), shown, None)
        else:
            show, type_ = _CELLS[form], getattr(pa, form) if form.startswith("int") else pa.string
            shown = pa.array([None if blob is None else show(blob) for blob in blobs.to_pylist()], type_())
        if FORMS[form]:
            return {name + FORMS[form]: shown}
        if name in texts:
            shown = functions.coalesce(texts[name], shown)
        return {name: shown, f"{name}_base64": base64_column(pa, blobs, shown)}

    def _new_writer(self, schema: Any) -> Any:
        self._sink.write((",".join(schema.names) + "\n").encode())
        options = self._pa.csv.WriteOptions(include_header=False)
        return self._pa.csv.CSVWriter(self._sink, schema, write_options=options)


WRITERS: dict[str, type[JsonWriter | ArrowWriter]] = {
    "json": JsonWriter,
    "csv": CsvWriter,
    "parquet": ParquetWriter,
    "arrow": ArrowWriter,
}
"""By the value of --format."""
