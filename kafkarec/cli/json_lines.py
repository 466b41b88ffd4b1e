"""Renders tables as JSON Lines.

A table is rendered column by column, each in a C loop over all rows, and then joined at once: there is one Python
object per cell and none per record. Output is UTF-8. Also escaped, although JSON does not require it, are characters
that some readers treat as line breaks or that control terminals: a record cannot forge the row of another one.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain, repeat
from json.encoder import encode_basestring as quote
from typing import Any, TypeVar

from kafkarec.support.text_table import timestamp_text
from kafkarec.tables.table import Table

from .table_windows import cells

# A form in which keys or values are printed: (suffix of the JSON name, function from bytes to JSON text or ValueError).
# Bytes that the form cannot represent are printed in NAME_base64, so that the bytes of every row can be restored.
Form = tuple[str, Callable[[bytes], str]]
Cell = TypeVar("Cell")


def _as_text(blob: bytes) -> str:
    text: str = quote(blob.decode())
    return text


def _as_json(blob: bytes) -> str:
    """Return JSON text as stored: numbers keep their digits, objects their order and repeated keys."""
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
    """Return a function that prints a big-endian integer of Kafka's IntegerSerializer or LongSerializer."""

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
    iso_times: bool = False,
) -> bytes:
    """Return one line per row, with the cells in the order of `names`.

    constants   values that are the same in every row (topic, partition, file)
    forms       name -> key of FORMS for binary columns; default utf8
    extra       additional columns: JSON text per row
    decoded     decoded binary columns: JSON text per row, None to print the bytes
    rows        the rows to print; None: all
    iso_times   print the column timestamp as ISO 8601 text instead of ms
    """
    constants, forms, extra, decoded = constants or {}, forms or {}, extra or {}, decoded or {}
    count = len(table) if rows is None else len(rows)
    prefix = "{"  # the text before the next cell
    parts: list[Iterable[str]] = []
    for number, name in enumerate(names):
        prefix += "," if number else ""
        if name in constants:
            prefix += f'"{name}":{json.dumps(constants[name], ensure_ascii=False)}'
            continue
        if name in extra:
            named, shown = False, select(extra[name], rows)
        elif name == "timestamp" and iso_times:
            named, shown = False, list(map(iso_time, cells(table, name, rows)))
        else:
            texts = select(decoded[name], rows) if name in decoded else None
            named, shown = _cells(table, name, rows, forms.get(name, "utf8"), texts)
        parts.append(repeat(prefix if named else f'{prefix}"{name}":', count))
        parts.append(shown)
        prefix = ""
    parts.append(repeat(prefix + "}\n", count))
    return escaped("".join(chain.from_iterable(zip(*parts, strict=True))))


def iso_time(ms: int | None) -> str:
    """Return a timestamp as ISO 8601 text in quotes; the number outside of the years 1 to 9999, or null."""
    text = NULL if ms is None else timestamp_text(ms)
    return f'"{text}"' if text.endswith("Z") else text


def escaped(text: str) -> bytes:
    """Return JSON in UTF-8 with DEL, C1 controls, U+2028 and U+2029 escaped."""
    out = text.encode()
    if b"\x7f" in out or (not text.isascii() and (b"\xc2" in out or b"\xe2\x80" in out)):
        out = _UNSAFE.sub(lambda match: b"\\u%04x" % ord(match[0].decode()), out)
    return out


def select(column: Sequence[Cell], rows: Sequence[int] | None) -> Sequence[Cell]:
    return column if rows is None else [column[row] for row in rows]


def _cells(
    table: Table, name: str, rows: Sequence[int] | None, form: str, decoded: Sequence[str | None] | None
) -> tuple[bool, Sequence[str]]:
    """Return (whether the cells include `"name":`, the cells); they do if one of them may be base64."""
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
    """Return `"name":text` for one value; NAME_base64 if the form cannot represent it."""
    suffix, show = FORMS[form]
    if blob is None:
        return f'"{name}":null'
    try:
        return f'"{name}{suffix}":{show(blob)}'
    except ValueError:
        return f'"{name}_base64":{_as_base64(blob)}'


def _all_text(values: Sequence[bytes | None]) -> list[str] | None:
    """Return every cell as text; None if one is not UTF-8."""
    try:
        if None in values:
            return [NULL if blob is None else quote(blob.decode()) for blob in values]
        return list(map(quote, map(bytes.decode, values)))  # type: ignore[arg-type]
    except UnicodeDecodeError:
        return None


def headers(pairs: Iterable[tuple[str, bytes | None]]) -> str:
    """Return a list of {"key", "value"}, in stored order, including repeated keys."""
    cells = []
    for key, value in pairs:
        try:
            cells.append(f'{{"key":{quote(key)},"value":{NULL if value is None else quote(value.decode())}}}')
        except UnicodeDecodeError:
            cells.append(f'{{"key":{quote(key)},{whole_cell("value", value, "utf8")}}}')
    return f"[{','.join(cells)}]"
