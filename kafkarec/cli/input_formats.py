"""The input of `build`: detects the format and reads the rows.

The format is that of --from, else that of the name's suffix, else it is detected from the first bytes. Rows of Arrow
IPC (streams and files) and Parquet become Python values like those of JSON Lines:

| column | accepted types |
|---|---|
| offset and other numbers | integers of any width |
| timestamp | integers of any width (ms), or a timestamp of any unit (without a time zone: UTC) |
| key, value | binary or text of any width; other types as --key-as and --value-as say |
| headers | list of structs with key and value, or map |
"""

from __future__ import annotations

import io
import json
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any, BinaryIO, cast

from kafkarec.errors import InvalidArrowError
from kafkarec.storage import first_bytes
from kafkarec.storage.output_rules import STANDARD_INPUT
from kafkarec.support.text_table import system_reason

from .input_cells import (
    ALIASES,
    BLOBS,
    Columns,
    JsonText,
    RowBlock,
    RowSource,
    columns_by_title,
    converted_cells,
    converted_columns,
    good_rows,
)
from .input_logs import copy_pipe, standard_input_pipe
from .input_text import read_csv, read_json
from .shared_options import SUFFIXES, CouldNot, WrongUse, errors_named, pyarrow_for

FORMATS = ("json", "csv", "arrow", "parquet")
_ARROW_FILE, _ARROW_STREAM, _PARQUET = b"ARROW1", b"\xff\xff\xff\xff", b"PAR1"
_STARTS = {"arrow": (_ARROW_FILE, _ARROW_STREAM), "parquet": (_PARQUET,)}
_HEAD = 64 << 10
_JSON_WORDS = "JSON, without bytes in it and numbers that are not finite,"


@contextmanager
def opened(path: str) -> Iterator[io.BufferedReader[Any]]:
    """Yield the open input; `-` is standard input."""
    if path != STANDARD_INPUT:
        with errors_named(path):
            file = _with_head(open(path, "rb"))  # noqa: SIM115
        with file:
            yield file
        return
    file = _with_head(standard_input_pipe())
    try:
        yield file
    finally:
        file.detach()  # which it would close


def _with_head(file: BinaryIO) -> io.BufferedReader[Any]:
    """Return the file with a buffer that is filled from a pipe, too, before `peek` returns."""
    return io.BufferedReader(cast(io.FileIO, file), _HEAD)


def rows(file: io.BufferedReader[Any], source: RowSource, form: str | None) -> Iterator[RowBlock]:
    """Yield the rows of an open input, in blocks. From a pipe, formats that are read from their end are first copied to
    a file. form: json, csv, arrow, parquet; None: by name and content"""
    name, head = source.name, file.peek()
    format_name = form or SUFFIXES.get(os.path.splitext(name)[1].lower()) or _format_by_content(name, head)
    _demand_rows(name, head)
    if head and not head.startswith(_STARTS.get(format_name, b"")):  # pyarrow takes other bytes for a huge size
        raise WrongUse(f"{name} is not {format_name}; pass its format with --from {'|'.join(FORMATS)}")
    try:
        if format_name == "json":
            yield from read_json(file, source)
        elif format_name == "csv":
            yield from read_csv(file, source)
        elif format_name == "parquet" or head.startswith(_ARROW_FILE):
            with nullcontext(file) if file.seekable() else tempfile.TemporaryFile(prefix="kafkarec-") as whole:
                if whole is not file:
                    copy_pipe(file, whole)
                    whole.seek(0)
                kind = "parquet" if format_name == "parquet" else "arrow file"
                yield from _read_arrow(whole, source, kind)
        else:
            yield from _read_arrow(file, source, "arrow")
    except WrongUse as error:
        raise WrongUse(f"{name}, {error}") from error
    except InvalidArrowError as error:
        place = {"file": name, "column": error.column, "row": error.row}
        raise InvalidArrowError(f"{name}, {error}", reason=error.reason, **place) from error
    except OSError as error:
        raise CouldNot(f"{name}: {system_reason(error)}") from error


def _format_by_content(name: str, head: bytes) -> str:
    """Return the format by the first bytes; WrongUse if it is not recognised."""
    if head.startswith(_PARQUET):
        return "parquet"
    if head.startswith((_ARROW_FILE, _ARROW_STREAM)):
        return "arrow"
    start = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if not start or start[:1] in b"{[":
        return "json"
    titles = start.split(b"\n", 1)[0].decode("utf-8", "replace").replace('"', "").strip().split(",")
    if {"key", "value", "key_base64", "value_base64", "key_hex", "value_hex", "offset"} & set(titles):
        return "csv"
    _demand_rows(name, head)
    raise WrongUse(f"the format of {name} is not recognised: pass it with --from {'|'.join(FORMATS)}")


def _demand_rows(name: str, head: bytes) -> None:
    """Raise WrongUse, with advice, for an input that is compressed or a Kafka log."""
    other = first_bytes.type_by_head(head)
    if other is not None and other.unpack:
        path = STANDARD_INPUT if name == "standard input" else name
        raise WrongUse(f"{name} {other.sentence(path, 'build')} ...")
    if len(head) > 17 and not any(head[:4]) and not any(head[8:9]) and head[16] in (0, 1, 2):
        raise WrongUse(f"{name} looks like a Kafka log, not like rows; kafkarec convert reads logs")


_ROWS, _BYTES = 1 << 14, 16 << 20  # maximum of a block


def _read_arrow(file: BinaryIO, source: RowSource, form: str) -> Iterator[RowBlock]:
    """Yield the rows of a file; `form`: "arrow" (a stream), "arrow file" or "parquet"."""
    pa = pyarrow_for(f"reading {form}")
    first = 1
    batches = _arrow_batches(pa, file, form, source.columns)
    while True:
        try:
            batch = next(batches, None)
        except (WrongUse, OSError, MemoryError):
            raise
        except Exception as error:  # of damaged metadata: ArrowInvalid, UnicodeDecodeError (for a name), TypeError, ...
            raise _format_error(form, first, error) from error
        if batch is None:
            return
        _demand_valid(pa, batch, first)
        for start in range(0, batch.num_rows, _ROWS):
            piece = batch.slice(start, _ROWS)
            try:
                cells = _arrow_cells(pa, piece, source.forms)
            except (pa.ArrowInvalid, UnicodeDecodeError) as error:
                raise _format_error(form, first, error) from error

            def columns_of_rows(block: Sequence[tuple[int, int]], cells: Mapping[str, list[Any]] = cells) -> Columns:
                columns = {name: [column[row] for _, row in block] for name, column in cells.items()}
                for name in BLOBS:
                    if name in columns and source.forms[name] == "json":
                        columns[name] = converted_cells(name, columns[name], _json_text, _JSON_WORDS)
                return converted_columns(columns, source.forms)

            block = [(first + row, row) for row in range(piece.num_rows)]
            yield from good_rows(source, "row", block, columns_of_rows)
            first += piece.num_rows


def _arrow_cells(pa: Any, batch: Any, forms: Mapping[str, str]) -> dict[str, list[Any]]:
    cells = {}
    for title, column in zip(batch.schema.names, batch.columns, strict=True):
        name = ALIASES.get(title, title)
        if name == "timestamp" and pa.types.is_timestamp(column.type):
            column = column.cast(pa.timestamp("ms", column.type.tz), safe=False).cast(pa.int64())
        cells[name] = column.to_pylist()
        if name not in BLOBS or forms[name] not in ("utf8", "json"):  # a binary column may contain text
            cells[name] = [
                cell.decode("utf-8", "surrogateescape") if type(cell) is bytes else cell for cell in cells[name]
            ]
    return cells


def _json_text(cell: Any) -> JsonText:
    if isinstance(cell, bytes | str):
        return JsonText.checked(cell.decode() if isinstance(cell, bytes) else cell)
    text = json.dumps(cell, ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_text_in_json)
    return JsonText(text)


def _text_in_json(cell: Any) -> str:
    """Return the text of a time or a decimal. Bytes have none that a reader could tell from text."""
    if isinstance(cell, bytes):
        raise TypeError
    return str(cell)


def _arrow_batches(pa: Any, file: BinaryIO, form: str, columns: Sequence[str] | None) -> Iterator[Any]:
    if form == "parquet":
        source = pa.parquet.ParquetFile(file)
        names = list(columns_by_title(source.schema_arrow.names, columns, lambda title: "the schema"))
        groups = [source.metadata.row_group(number) for number in range(source.metadata.num_row_groups)]
        row_bytes = sum(group.total_byte_size for group in groups) // max(source.metadata.num_rows, 1)
        yield from source.iter_batches(batch_size=max(1, min(_ROWS, _BYTES // max(row_bytes, 1))), columns=names)
        return
    source = pa.ipc.open_file(file) if form == "arrow file" else pa.ipc.open_stream(file)
    names = list(columns_by_title(source.schema.names, columns, lambda title: "the schema"))
    found = map(source.get_batch, range(source.num_record_batches)) if form == "arrow file" else source
    for batch in found:
        yield batch.select(names)


def _format_error(form: str, first: int, error: Exception) -> WrongUse:
    message = (str(error).splitlines() or [type(error).__name__])[0][:200]
    return WrongUse(f"row {first} or later: not {form}: {message}")


def _demand_valid(pa: Any, batch: Any, first: int) -> None:
    """Raise InvalidArrowError, with the column and the first row, if the buffers of a batch contradict each other.
    pyarrow checks offsets only in validate()."""
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        try:
            column.validate(full=True)
        except (pa.ArrowInvalid, pa.ArrowIndexError):  # its message may contain bytes of a value
            raise InvalidArrowError(
                f"column {name!r}, row {first} or later: offsets, validity bits or text contradict the buffers: not "
                "valid Arrow",
                reason="arrow_invalid",
                column=name,
                row=first,
            ) from None
