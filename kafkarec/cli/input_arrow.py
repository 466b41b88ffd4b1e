"""Reads rows from Arrow IPC (streams and files) and Parquet, as Python values like those of JSON Lines.

| column | accepted types |
|---|---|
| offset and other numbers | integers of any width |
| timestamp | integers of any width (ms), or a timestamp of any unit (without a time zone: UTC) |
| key, value | binary or text of any width; other types as --key-as and --value-as say |
| headers | list of structs with key and value, or map |
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, BinaryIO

from kafkarec.errors import InvalidArrowError

from .input_cells import ALIASES, BLOBS, Columns, JsonText, columns_of, typed
from .input_rows import InputRows, Refuse, good_rows
from .shared_options import WrongUse, pyarrow_for

_ROWS, _BYTES = 1 << 14, 16 << 20  # maximum of a block


def read(
    file: BinaryIO, name: str, form: str, forms: Mapping[str, str], columns: Sequence[str] | None, refuse: Refuse
) -> Iterator[InputRows]:
    """Yield the rows of a file; `form`: "arrow" (a stream), "arrow file" or "parquet"; otherwise as input_json.read."""
    pa = pyarrow_for(f"reading {form}")
    first = 1
    batches = _batches(pa, file, form, columns)
    while (batch := _next(batches, form, first)) is not None:
        _demand_valid(pa, batch, first)
        for start in range(0, batch.num_rows, _ROWS):
            piece = batch.slice(start, _ROWS)
            try:
                cells = _cells(pa, piece, forms)
            except (pa.ArrowInvalid, UnicodeDecodeError) as error:
                raise _not(form, first, error) from error
            block = [(first + row, row) for row in range(piece.num_rows)]
            yield from good_rows(block, partial(_columns, cells, forms), refuse, f"{name}, row")
            first += piece.num_rows


def _columns(cells: Mapping[str, list[Any]], forms: Mapping[str, str], block: Sequence[tuple[int, int]]) -> Columns:
    """Return the columns of rows of `cells`; block: the position in the file and the index of each."""
    return typed({name: [column[row] for _, row in block] for name, column in cells.items()}, forms)


def _cells(pa: Any, batch: Any, forms: Mapping[str, str]) -> dict[str, list[Any]]:
    cells = {}
    for title, column in zip(batch.schema.names, batch.columns, strict=True):
        name = ALIASES.get(title, title)
        if name == "timestamp" and pa.types.is_timestamp(column.type):
            column = column.cast(pa.timestamp("ms", column.type.tz), safe=False).cast(pa.int64())
        cells[name] = column.to_pylist()
        if name in BLOBS and forms[name] == "json":
            cells[name] = [cell if cell is None else JsonText(_json(cell)) for cell in cells[name]]
        elif name not in BLOBS or forms[name] != "utf8":  # a binary column may contain text
            cells[name] = [_text(cell) for cell in cells[name]]
    return cells


def _text(cell: Any) -> Any:
    return cell.decode("utf-8", "surrogateescape") if type(cell) is bytes else cell


def _json(cell: Any) -> str:
    if isinstance(cell, bytes | str):
        return cell.decode() if isinstance(cell, bytes) else cell
    return json.dumps(cell, ensure_ascii=False, separators=(",", ":"), default=str)


def _batches(pa: Any, file: BinaryIO, form: str, columns: Sequence[str] | None) -> Iterator[Any]:
    if form == "parquet":
        source = pa.parquet.ParquetFile(file)
        names = list(columns_of(source.schema_arrow.names, columns, lambda title: "the schema"))
        groups = [source.metadata.row_group(number) for number in range(source.metadata.num_row_groups)]
        row_bytes = sum(group.total_byte_size for group in groups) // max(source.metadata.num_rows, 1)
        yield from source.iter_batches(batch_size=max(1, min(_ROWS, _BYTES // max(row_bytes, 1))), columns=names)
        return
    source = pa.ipc.open_file(file) if form == "arrow file" else pa.ipc.open_stream(file)
    names = list(columns_of(source.schema.names, columns, lambda title: "the schema"))
    found = map(source.get_batch, range(source.num_record_batches)) if form == "arrow file" else source
    for batch in found:
        yield batch.select(names)


def _next(batches: Iterator[Any], form: str, first: int) -> Any:
    """Return the next record batch; None at the end. For damaged metadata pyarrow may raise ArrowInvalid,
    ArrowNotImplementedError, UnicodeDecodeError (for a name) or TypeError."""
    try:
        return next(batches, None)
    except (WrongUse, OSError, MemoryError):
        raise
    except Exception as error:
        raise _not(form, first, error) from error


def _not(form: str, first: int, error: Exception) -> WrongUse:
    message = (str(error).splitlines() or [type(error).__name__])[0][:200]
    return WrongUse(f"row {first} or later: not {form}: {message}")


def _demand_valid(pa: Any, batch: Any, first: int) -> None:
    """Raise InvalidArrowError, with column and row (from 1), if the file's buffers contradict each other. pyarrow
    checks offsets only in validate()."""
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        if _is_valid(pa, column):
            continue
        low, high = 0, len(column)  # the first `low` rows are valid, the first `high` are not
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if _is_valid(pa, column.slice(0, middle)) else (low, middle)
        row = first + low
        raise InvalidArrowError(  # pyarrow's message may contain bytes of a value
            f"column {name!r}, row {row}: its offsets, validity bits or text contradict its buffers: not valid Arrow",
            reason="arrow_invalid",
            column=name,
            row=row,
        )


def _is_valid(pa: Any, column: Any) -> bool:
    try:
        column.validate(full=True)
    except (pa.ArrowInvalid, pa.ArrowIndexError):
        return False
    return True
