"""Reads rows from Arrow IPC (streams and files) and Parquet. Columns are cast to the types that the writer accepts;
cells become Python objects only if needed.

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
from typing import Any, BinaryIO

from kafkarec.errors import InvalidArrowError
from kafkarec.format.schema import RECORD_FIELDS

from .input_cells import ALIASES, BLOBS, BadCell, JsonText, integers, typed, unknown_names
from .input_internal_topics import is_internal
from .input_json import no_such_column
from .input_rows import ArrowRows, Refuse
from .shared_options import CouldNot, WrongUse

_ROWS, _BYTES = 1 << 14, 16 << 20  # maximum of a block
_WIDTHS = {"l": "int64", "i": "int32", "s": "int16", "c": "int8", "b": "bool_", "u": "string"}
_ALIKE = {"u": ("is_string", "is_large_string", "is_string_view"), "b": ("is_boolean",)}


def read(
    file: BinaryIO, form: str, forms: Mapping[str, str], columns: Sequence[str] | None, refuse: Refuse
) -> Iterator[ArrowRows]:
    """Yield the rows of a file; `form`: "arrow" (a stream), "arrow file" or "parquet"."""
    pa = _pyarrow(form)
    first = 1
    batches = _batches(pa, file, form, columns)
    while (batch := _next(batches, form, first)) is not None:
        _demand_valid(pa, batch, first)
        for start in range(0, batch.num_rows, _ROWS):
            piece = pa.Table.from_batches([batch.slice(start, _ROWS)])
            try:
                yield from _rows(pa, piece, first, forms, refuse)
            except pa.ArrowInvalid as error:
                raise _not(form, first, error) from error
            first += piece.num_rows


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


def _pyarrow(form: str) -> Any:
    try:
        import pyarrow  # type: ignore[import-untyped,unused-ignore]
        import pyarrow.compute  # type: ignore[import-untyped,unused-ignore]
        import pyarrow.parquet  # type: ignore[import-untyped,unused-ignore]
    except ImportError:
        raise CouldNot(f"reading {form} needs pyarrow: pip install 'kafkarec[arrow]'") from None
    return pyarrow


def _batches(pa: Any, file: BinaryIO, form: str, columns: Sequence[str] | None) -> Iterator[Any]:
    if form == "parquet":
        source = pa.parquet.ParquetFile(file)
        names = _chosen(source.schema_arrow.names, columns)
        groups = [source.metadata.row_group(number) for number in range(source.metadata.num_row_groups)]
        row_bytes = sum(group.total_byte_size for group in groups) // max(source.metadata.num_rows, 1)
        yield from source.iter_batches(batch_size=max(1, min(_ROWS, _BYTES // max(row_bytes, 1))), columns=names)
        return
    if form == "arrow file":
        source = pa.ipc.open_file(file)
        names = _chosen(source.schema.names, columns)
        for number in range(source.num_record_batches):
            yield source.get_batch(number).select(names)
        return
    source = pa.ipc.open_stream(file)
    names = _chosen(source.schema.names, columns)
    for batch in source:
        yield batch.select(names)


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


def _chosen(names: Sequence[str], columns: Sequence[str] | None) -> list[str]:
    if columns is None:
        unknown = unknown_names(name for name in names if name not in ALIASES)
        if unknown:
            raise WrongUse(no_such_column("the schema", unknown))
        return list(names)
    return [name for name in names if _plain(ALIASES.get(name, name)) in columns or name in columns]


def _plain(name: str) -> str:
    return name.removesuffix("_base64").removesuffix("_hex")


def _rows(pa: Any, table: Any, first: int, forms: Mapping[str, str], refuse: Refuse) -> Iterator[ArrowRows]:
    """Yield the rows of a piece: one block, or several without the rows that cannot be written."""
    start = 0
    while start < table.num_rows:
        left = table.slice(start)
        try:
            yield ArrowRows(_typed(pa, left, forms), range(first + start, first + table.num_rows))
            return
        except BadCell as bad:
            if bad.row:
                places = range(first + start, first + start + bad.row)
                yield ArrowRows(_typed(pa, left.slice(0, bad.row), forms), places)
            refuse(f"row {first + start + bad.row}", str(bad))
            start += bad.row + 1


def _typed(pa: Any, table: Any, forms: Mapping[str, str]) -> Any:
    """Return the columns that `build` uses, in the types that the writer accepts."""
    out: dict[str, Any] = {}
    lists: dict[str, list[Any]] = {}
    topics = table["topic"].to_pylist() if "topic" in table.column_names else []
    has_messages = any(map(is_internal, set(topics)))
    for title, column in zip(table.column_names, table.columns, strict=True):
        name = ALIASES.get(title, title)
        kind = column.type
        if _plain(name) in BLOBS:
            if name in BLOBS and has_messages and _is_text(pa, kind):
                lists |= {name: column.to_pylist(), "topic": topics}
            elif name in BLOBS and forms[name] == "utf8" and _is_bytes(pa, kind):
                out[name] = _without_views(pa, column, pa.binary()).cast(pa.binary())
            elif name in BLOBS and forms[name] == "json":
                lists[name] = [cell if cell is None else JsonText(_json(cell)) for cell in column.to_pylist()]
            else:
                lists[name] = [_as_text(cell) for cell in column.to_pylist()]
        elif name == "headers":
            out[name] = _headers(pa, column)
        elif name == "timestamp" and pa.types.is_timestamp(kind):
            out[name] = column.cast(pa.timestamp("ms", kind.tz), safe=False).cast(pa.int64())
        elif name == "control":
            lists[name] = column.to_pylist()
        elif name in RECORD_FIELDS:
            out[name] = _cast(pa, name, column)
    if lists:  # checked and converted as for JSON Lines
        sizes = {name: lists[name] for name in lists}
        for name, cells in typed(sizes, forms).items():
            if name == "topic":  # of the messages above
                continue
            wanted = pa.bool_() if name == "is_control" else pa.binary()
            made = pa.chunked_array([pa.array(cells, wanted)])
            out[name] = _either(pa, out[name], made) if name in out else made
    return pa.table(out) if out else pa.table({"headers": _none(pa, table.num_rows)})


def _without_views(pa: Any, column: Any, wanted: Any) -> Any:
    """Convert view types without a cast: pyarrow 26 reads the view of a null slot, which may be invalid."""
    if "view" not in str(column.type) or (not column.null_count and column.type.num_fields == 0):
        return column
    cells = [cell.encode() if isinstance(cell, str) and wanted == pa.binary() else cell for cell in column.to_pylist()]
    return pa.chunked_array([pa.array(cells, wanted)])


def _either(pa: Any, given: Any, made: Any) -> Any:
    """Merge two columns of a key or value, of which each row has at most one."""
    return pa.compute.coalesce(given, made)


def _none(pa: Any, count: int) -> Any:
    return pa.array([None] * count, _header_type(pa))


def _header_type(pa: Any) -> Any:
    return pa.list_(pa.struct([pa.field("key", pa.string(), nullable=False), pa.field("value", pa.binary())]))


def _is_text(pa: Any, kind: Any) -> bool:
    return any(getattr(pa.types, name)(kind) for name in _ALIKE["u"])


def _is_bytes(pa: Any, kind: Any) -> bool:
    known = (
        "is_binary",
        "is_large_binary",
        "is_binary_view",
        "is_fixed_size_binary",
        "is_string",
        "is_large_string",
        "is_string_view",
        "is_null",
    )
    return any(getattr(pa.types, name)(kind) for name in known)


def _as_text(cell: Any) -> Any:
    """Decode bytes: a binary column may contain text."""
    return cell.decode("utf-8", "surrogateescape") if isinstance(cell, bytes) else cell


def _json(cell: Any) -> str:
    if isinstance(cell, bytes | str):
        return cell.decode() if isinstance(cell, bytes) else cell
    return json.dumps(cell, ensure_ascii=False, separators=(",", ":"), default=str)


def _headers(pa: Any, column: Any) -> Any:
    kind = column.type
    if pa.types.is_map(kind):
        cells = [None if cell is None else [{"key": k, "value": v} for k, v in cell] for cell in column.to_pylist()]
        pair = pa.struct([("key", kind.key_type), ("value", kind.item_type)])
        column = pa.chunked_array([pa.array(cells, pa.list_(pair))])
    try:
        loose = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
        column = _without_views(pa, column, loose).cast(loose)
        for row, cell in enumerate(column.to_pylist() if _has_null_key(pa, column) else ()):
            if any(pair is None or pair["key"] is None for pair in cell or ()):
                raise BadCell(row, "headers", "a header's key is null; text is expected")
        return column.cast(_header_type(pa))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError):
        raise WrongUse(f"column headers: a list of key and value is expected, found {column.type}") from None


def _has_null_key(pa: Any, column: Any) -> bool:
    return bool(pa.compute.struct_field(pa.compute.list_flatten(column), "key").null_count)


def _cast(pa: Any, name: str, column: Any) -> Any:
    """Cast a column of numbers, booleans or text. WrongUse for another type, BadCell for a number out of range."""
    format_ = "l" if name == "timestamp" else RECORD_FIELDS[name].format
    kind, wanted = column.type, getattr(pa, _WIDTHS[format_])()
    if pa.types.is_dictionary(kind):
        column, kind = column.cast(kind.value_type), kind.value_type
    if not any(getattr(pa.types, test)(kind) for test in (*_ALIKE.get(format_, ("is_integer",)), "is_null")):
        words = "a timestamp, or int64 in ms," if name == "timestamp" else wanted
        raise WrongUse(f"column {name}: {words} is expected, found {kind}")
    try:
        return column.cast(wanted)
    except pa.ArrowInvalid:
        integers(name, column.to_pylist(), int(str(wanted)[3:]))
        raise
