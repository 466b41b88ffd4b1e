"""Tables as lines of text: what JSON Lines and CSV share. The compiled formatter (kafkarec._verbs) writes the cells; a
format says which texts are around them and which bytes are escaped how."""

from __future__ import annotations

import json
from array import array
from bisect import bisect_left
from collections.abc import Sequence
from typing import Any, NamedTuple

from kafkarec import _verbs
from kafkarec._verbs import Escapes
from kafkarec.tables import table as tables
from kafkarec.tables.table import Table

READY = "ready"
# Values of --key-as and --value-as -> the suffix of the name. Bytes that the form cannot represent are printed in
# NAME_base64, so that the bytes of every row can be restored.
FORMS = {"utf8": "", "json": "", "base64": "_base64", "hex": "_hex", "int32": "", "int64": ""}
_OTHERS = {"z": "utf8", "u": "utf8", "b": "bool", "+l": "headers"}


class LineColumn(NamedTuple):
    """One column of the output: a column of a table, or with `ready` texts only.

    null, before, after, other, other_after   the text instead of null; those around a value; those around its base64
                                              (a time's number) if the value cannot be written as `how` says
    how       a form, number, bool, time, headers, or READY: every row is in `ready` or null
    ready     for each row of the table the whole cell, or None
    entry     of headers: the columns of a header's key and value
    """

    name: str
    how: str
    null: str = ""
    before: str = ""
    after: str = ""
    other: str = ""
    other_after: str = ""
    escapes: Escapes | None = None
    ready: Sequence[bytes | None] | None = None
    entry: tuple[LineColumn, ...] = ()

    @property
    def texts(self) -> tuple[bytes, bytes, bytes, bytes, bytes]:
        null, before, after, other, other_after = (text.encode() for text in self[2:7])
        return null, before, after, other, other_after


def stored_json(value: bytes | None) -> str | None:
    """The value as it is stored if it is JSON: numbers keep their digits, objects their order and repeated keys. A raw
    line break can only be between tokens. None: it is not JSON, or nested deeper than Python's json module reads."""
    try:
        text = (value or b"").decode()
        _ANY_JSON.decode(text)
    except (ValueError, RecursionError):
        return None
    return text.replace("\n", " ").replace("\r", " ")


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


_ANY_JSON = json.JSONDecoder(parse_int=str, parse_float=str, parse_constant=_no_constant)


def how_and_texts(
    table: Table, name: str, form: str | None, decoded: Sequence[str | None] | None, iso_times: bool
) -> tuple[str, Sequence[str | None] | None]:
    """How a column is written, as the compiled formatter names it; and of a key or value with a `form` the JSON texts
    that are written instead of the bytes, those of `decoded` first."""
    if form == "json":
        texts = [stored_json(value) for value in table.column(name)]
        both = texts if decoded is None else [one or other for one, other in zip(decoded, texts, strict=True)]
        return "base64", both
    if name == "timestamp" and iso_times:
        return "time", decoded
    return form or _OTHERS.get(table.schema[table.schema.index_of[name]].format, "number"), decoded


def lines(table: Table, columns: Sequence[LineColumn], end: str, rows: Sequence[int] | None) -> bytes:
    """Return the rows (None: all), in order, as lines that end with `end`."""
    blocks, at = [], 0
    for chunk, start, stop in table._pieces:
        count = stop - start
        chosen = None
        if rows is not None:
            here = rows[bisect_left(rows, at) : bisect_left(rows, at + count)]
            chosen = array("q", [row - at + start for row in here])
        specs: list[Any] = []
        for column in columns:
            ready = None if column.ready is None else list(column.ready[at : at + count])
            specs.append(_spec(column, _buffers(table, chunk, column), ready))
            if column.how == "headers":
                keys, key_data, validity, values, value_data = chunk.headers()
                specs += map(_spec, column.entry, ((None, keys, key_data), (validity, values, value_data)))
        blocks.append(_verbs.lines(specs, end.encode(), start, stop, chosen))
        at += count
    return blocks[0] if len(blocks) == 1 else b"".join(blocks)


def _spec(column: LineColumn, buffers: Any, ready: list[bytes | None] | None = None) -> tuple[Any, ...]:
    return column.how, column.escapes, column.texts, buffers, ready


def _buffers(table: Table, chunk: Any, column: LineColumn) -> tuple[Any, ...] | None:
    if column.how == READY:
        return None
    index = table.schema.index_of[column.name]
    format_ = table.schema[index].format
    validity, values, data = tables.buffers(chunk, index, format_)
    if format_ == "+l":
        return values, len(chunk.headers()[0]) // 4 - 1
    if format_ in ("z", "u"):
        return validity, values, data
    return "l" if format_.startswith("ts") else format_, validity, values
