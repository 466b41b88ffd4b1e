"""Renders tables as JSON Lines.

Output is UTF-8. Also escaped, although JSON does not require it, are characters that some readers treat as line breaks
or that control terminals: a record cannot forge the row of another one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from kafkarec._verbs import Escapes
from kafkarec.tables.table import Table

from . import line_columns
from .line_columns import FORMS, READY, LineColumn

# DEL, the C1 controls, U+2028 and U+2029.
_UNSAFE = re.compile("[\x7f-\x9f\u2028\u2029]")
NULL = "null"

STRING = {byte: b"\\u%04x" % byte for byte in (*range(32), 127)} | {
    8: b"\\b", 9: b"\\t", 10: b"\\n", 12: b"\\f", 13: b"\\r", 34: b'\\"', 92: b"\\\\",
}  # fmt: skip
_STRING = Escapes(STRING)


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
    columns = []
    prefix = "{"  # the text before the next cell
    for number, name in enumerate(names):
        prefix += "," if number else ""
        start = f'{prefix}"{name}":'
        if name in constants:
            prefix = start + escaped(json.dumps(constants[name], ensure_ascii=False))
            continue
        if name in extra:
            columns.append(LineColumn(name, READY, ready=_whole(start, extra[name])))
        else:
            how, texts = line_columns.how_and_texts(table, name, forms.get(name), decoded.get(name), iso_times)
            columns.append(_column(prefix, name, how, _whole(start, texts)))
        prefix = ""
    return line_columns.lines(table, columns, prefix + "}\n", rows)


def _column(prefix: str, name: str, how: str, ready: Sequence[bytes | None] | None) -> LineColumn:
    start = f'{prefix}"{name}":'
    null = start + NULL
    if how == "headers":
        return LineColumn(name, how, "", f"{start}[", "]", entry=entry(_STRING))
    if how == "time":
        return LineColumn(name, how, null, f'{start}"', '"', start)
    if how not in FORMS:
        return LineColumn(name, how, null, start)
    quote = '"' if how in ("utf8", "hex") else ""
    before, other = f'{prefix}"{name}{FORMS[how]}":{quote}', f'{prefix}"{name}_base64":"'
    return LineColumn(name, how, null, before, quote, other, '"', _STRING, ready=ready)


def entry(escapes: Escapes, quote: str = '"') -> tuple[LineColumn, ...]:
    """The columns of a header, {"key", "value"}; headers are in stored order, including repeated keys."""
    key, null, value, base64, end = (
        text.replace('"', quote) for text in ('{"key":"', '","value":null}', '","value":"', '","value_base64":"', '"}')
    )
    return (
        LineColumn("key", "utf8", before=key, escapes=escapes),
        LineColumn("value", "utf8", null, value, end, base64, end, escapes),
    )


def _whole(start: str, texts: Sequence[str | None] | None) -> list[bytes | None] | None:
    """Return whole cells; None where there is no text."""
    return None if texts is None else [None if text is None else (start + escaped(text)).encode() for text in texts]


def escaped(text: str) -> str:
    """Return JSON with DEL, C1 controls, U+2028 and U+2029 escaped."""
    return text if text.isascii() and "\x7f" not in text else _UNSAFE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)
