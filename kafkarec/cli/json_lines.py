"""Tables of columns to JSON Lines.

A table is rendered column by column, each a C loop over all rows, and then joined at once: an object is made per
cell and none per record. Output is UTF-8. Beyond what JSON requires, characters are escaped that
some readers take for line breaks or that control terminals: no record can forge another's row.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain, repeat
from json.encoder import encode_basestring as quote
from typing import Any, TypeVar

from kafkarec.tables.table import Table

from .table_windows import cells

# How a key or value may be shown: the suffix of its JSON name, and bytes -> JSON text or ValueError.
# Bytes that do not fit are shown as base64 under NAME_base64, so every row can be turned back into its bytes.
Form = tuple[str, Callable[[bytes], str]]
Cell = TypeVar("Cell")


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
    # In valid JSON a raw line break can only be between tokens.
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

# DEL, the C1 controls, U+2028 and U+2029 in UTF-8.
_UNSAFE = re.compile(rb"\x7f|\xc2[\x80-\x9f]|\xe2\x80[\xa8\xa9]")

NULL = "null"
BOOLEANS = {True: "true", False: "false", None: NULL}


def render(
    table: Table,
    names: Sequence[str],
    *,
    constants: Mapping[str, Any] | None = None,
    forms: Mapping[str, str] | None = None,
    extra: Mapping[str, Sequence[str]] | None = None,
    decoded: Mapping[str, Sequence[str | None]] | None = None,
    rows: Sequence[int] | None = None,
) -> bytes:
    """One line a row, the cells in the order of `names`.

    constants   values that are the same in every row (topic, partition, file)
    forms       name -> key of FORMS for binary columns; utf8 where nothing is said
    extra       columns made elsewhere: JSON text a row
    decoded     binary columns that are shown otherwise: JSON text a row, None where the bytes are shown after all
    rows        the rows to show; None for all
    """
    constants, forms, extra, decoded = constants or {}, forms or {}, extra or {}, decoded or {}
    count = len(table) if rows is None else len(rows)
    between = "{"  # the text before the next cell
    parts: list[Iterable[str]] = []
    for number, name in enumerate(names):
        between += "," if number else ""
        if name in constants:
            between += f'"{name}":{json.dumps(constants[name], ensure_ascii=False)}'
            continue
        if name in extra:
            named, shown = False, picked(extra[name], rows)
        else:
            texts = picked(decoded[name], rows) if name in decoded else None
            named, shown = _cells(table, name, rows, forms.get(name, "utf8"), texts)
        parts.append(repeat(between if named else f'{between}"{name}":', count))
        parts.append(shown)
        between = ""
    parts.append(repeat(between + "}\n", count))
    return escaped("".join(chain.from_iterable(zip(*parts, strict=True))))


def escaped(text: str) -> bytes:
    """JSON in UTF-8 with DEL, C1 controls, U+2028 and U+2029 escaped."""
    out = text.encode()
    if b"\x7f" in out or (not text.isascii() and (b"\xc2" in out or b"\xe2\x80" in out)):
        out = _UNSAFE.sub(lambda found: b"\\u%04x" % ord(found[0].decode()), out)
    return out


def picked(column: Sequence[Cell], rows: Sequence[int] | None) -> Sequence[Cell]:
    return column if rows is None else [column[row] for row in rows]


def _cells(
    table: Table, name: str, rows: Sequence[int] | None, form: str, decoded: Sequence[str | None] | None
) -> tuple[bool, Sequence[str]]:
    """The column's cells, and whether they include their `"name":` (they do when one of them is base64)."""
    values = cells(table, name, rows)
    kind = table.schema[table.schema.names.index(name)].format
    if kind == "+l":
        return False, [headers(pairs) if pairs else "[]" for pairs in values]
    if kind == "z" and decoded is not None:
        shown = zip(values, decoded, strict=True)
        return True, [whole_cell(name, blob, form) if text is None else f'"{name}":{text}' for blob, text in shown]
    if kind == "z":
        texts = _all_text(values) if form == "utf8" else None
        if texts is not None:
            return False, texts
        return True, [whole_cell(name, blob, form) for blob in values]
    if kind == "b":
        return False, [BOOLEANS[value] for value in values]
    if kind == "u":
        return False, [NULL if text is None else quote(text) for text in values]
    if None in values:
        return False, [NULL if value is None else str(value) for value in values]
    return False, list(map(str, values))


def whole_cell(name: str, blob: bytes | None, form: str) -> str:
    """`"name":text` for one value; under NAME_base64 where the form cannot show it."""
    suffix, show = FORMS[form]
    if blob is None:
        return f'"{name}":null'
    try:
        return f'"{name}{suffix}":{show(blob)}'
    except ValueError:
        return f'"{name}_base64":{_as_base64(blob)}'


def _all_text(values: Sequence[bytes | None]) -> list[str] | None:
    """Every cell as text, None when one is not UTF-8."""
    try:
        if None in values:
            return [NULL if blob is None else quote(blob.decode()) for blob in values]
        return list(map(quote, map(bytes.decode, values)))  # type: ignore[arg-type]
    except UnicodeDecodeError:
        return None


def headers(pairs: Iterable[tuple[str, bytes | None]]) -> str:
    """A list of {"key", "value"}, in stored order, repeated keys kept."""
    cells = []
    for key, value in pairs:
        try:
            cells.append(f'{{"key":{quote(key)},"value":{NULL if value is None else quote(value.decode())}}}')
        except UnicodeDecodeError:
            cells.append(f'{{"key":{quote(key)},{whole_cell("value", value, "utf8")}}}')
    return f"[{','.join(cells)}]"
