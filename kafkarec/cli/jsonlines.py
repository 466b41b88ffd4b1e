"""Chunks of columns to JSON Lines.

A chunk is rendered column by column (each a C loop over all rows), then row by row through one template: an
object is made per cell and none per record. Output is UTF-8. Besides what JSON escapes anyway, the few
characters are escaped that split lines or steer terminals in some readers: no record can forge another's row.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from json.encoder import encode_basestring as quote
from typing import Any

from .arrow_c import Chunk, Column

# How a key or value may be shown: the suffix of its JSON name, and bytes -> JSON text or ValueError.
# Bytes that do not fit are shown as base64 under NAME_base64, so every row can be turned back into its bytes.
Form = tuple[str, Callable[[bytes], str]]


def _as_text(blob: bytes) -> str:
    text: str = quote(blob.decode())
    return text


def _as_json(blob: bytes) -> str:
    """The JSON text as stored: numbers keep their digits, objects their order and their repeated keys."""
    text = blob.decode()
    try:
        json.loads(text, parse_int=str, parse_float=str, parse_constant=_no_constant)
    except RecursionError:
        raise ValueError("nested too deeply to be checked") from None
    # In valid JSON a raw line break can only stand between tokens.
    return text.replace("\n", " ").replace("\r", " ")


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _as_integer(size: int) -> Callable[[bytes], str]:
    """A big-endian integer as Kafka's IntegerSerializer and LongSerializer write it."""

    def render(blob: bytes) -> str:
        if len(blob) != size:
            raise ValueError(f"not {size} bytes")
        return str(int.from_bytes(blob, "big", signed=True))

    return render


def _as_base64(blob: bytes) -> str:
    return f'"{base64.b64encode(blob).decode()}"'


FORMS: dict[str, Form] = {
    "utf8": ("", _as_text),
    "json": ("", _as_json),
    "base64": ("_base64", _as_base64),
    "hex": ("_hex", lambda blob: f'"{blob.hex()}"'),
    "int32": ("", _as_integer(4)),
    "int64": ("", _as_integer(8)),
}

# DEL, the C1 controls, U+2028 and U+2029 in UTF-8, and a faster look whether there can be any.
_UNSAFE = re.compile(rb"\x7f|\xc2[\x80-\x9f]|\xe2\x80[\xa8\xa9]")
_HINTS = (b"\x7f", b"\xc2", b"\xe2\x80")


def render(
    chunk: Chunk,
    names: Sequence[str],
    *,
    constants: Mapping[str, Any] | None = None,
    forms: Mapping[str, str] | None = None,
    extra: Mapping[str, Sequence[str]] | None = None,
    whole: Mapping[str, Sequence[str]] | None = None,
    rows: Sequence[int] | None = None,
) -> bytes:
    """One line a row, the cells in the order of `names`.

    constants   values that are the same in every row (topic, partition, file)
    forms       name -> key of FORMS for binary columns; utf8 where nothing is said
    extra       columns made elsewhere: JSON text a row
    whole       columns made elsewhere: `"name":text` a row
    rows        the rows to show; None for all
    """
    constants, forms, extra, whole = constants or {}, forms or {}, extra or {}, whole or {}
    parts: list[str] = []
    cells: list[Sequence[Any]] = []
    for name in names:
        if name in constants:
            parts.append(f'"{name}":{json.dumps(constants[name], ensure_ascii=False)}'.replace("%", "%%"))
            continue
        if name in extra:
            named, column_cells = False, extra[name]
        elif name in whole:
            named, column_cells = True, whole[name]
        else:
            named, column_cells = _cells(chunk.columns[name], name, forms.get(name, "utf8"))
        parts.append("%s" if named else f'"{name}":%s')
        cells.append(column_cells if rows is None else [column_cells[row] for row in rows])
    template = "{" + ",".join(parts) + "}\n"
    count = chunk.length if rows is None else len(rows)
    every: Iterable[tuple[Any, ...]] = zip(*cells, strict=True) if cells else [()] * count
    out = "".join(map(template.__mod__, every)).encode()
    if any(hint in out for hint in _HINTS):
        out = _UNSAFE.sub(lambda found: b"\\u%04x" % ord(found[0].decode()), out)
    return out


def _cells(column: Column, name: str, form: str) -> tuple[bool, Sequence[Any]]:
    """The column's cells, and whether they bring their own `"name":` (they do once one is base64)."""
    if column.children:
        return False, _headers(column)
    if column.text:
        return False, [_null if blob is None else quote(blob.decode()) for blob in column.blobs()]
    if len(column.offsets):
        return _binary(column, name, form)
    if any(isinstance(value, bool) for value in column.values[:1]):
        return False, [_null if value is None else _BOOLEANS[value] for value in column.numbers()]
    if column.valid is None:
        return False, column.values
    return False, [_null if value is None else value for value in column.numbers()]


_null = "null"
_BOOLEANS = {True: "true", False: "false"}


def _binary(column: Column, name: str, form: str) -> tuple[bool, Sequence[str]]:
    if form == "utf8":
        cells = _all_text(column)
        if cells is not None:
            return False, cells
    return True, [whole_cell(name, blob, form) for blob in column.blobs()]


def whole_cell(name: str, blob: bytes | None, form: str) -> str:
    """`"name":text` for one value; under NAME_base64 where the form cannot show it."""
    suffix, show = FORMS[form]
    if blob is None:
        return f'"{name}":null'
    try:
        return f'"{name}{suffix}":{show(blob)}'
    except ValueError:
        return f'"{name}_base64":{_as_base64(blob)}'


def _all_text(column: Column) -> list[str] | None:
    """Every cell as text, None when one is not UTF-8. ASCII is decoded once for the whole column."""
    data = column.data
    if data.isascii():
        text = data.decode("ascii")
        cells = list(map(quote, [text[a:b] for a, b in pairwise(column.offsets)]))
    else:
        try:
            cells = list(map(quote, map(bytes.decode, [data[a:b] for a, b in pairwise(column.offsets)])))
        except UnicodeDecodeError:
            return None
    if column.valid is not None:
        return [cell if bit == "1" else _null for cell, bit in zip(cells, column.valid, strict=True)]
    return cells


def _headers(column: Column) -> list[str]:
    """A list of {"key", "value"} a row, in stored order, repeated keys kept."""
    entries = column.children[0]
    if not entries.length:
        return ["[]"] * column.length
    key, value = entries.children
    (_, keys), (named, values) = _cells(key, "key", "utf8"), _cells(value, "value", "utf8")
    name = "" if named else '"value":'
    cells = [f'{{"key":{k},{name}{v}}}' for k, v in zip(keys, values, strict=True)]
    return [f"[{cells[a]}]" if b - a == 1 else f"[{','.join(cells[a:b])}]" for a, b in pairwise(column.offsets)]
