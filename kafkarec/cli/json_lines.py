"""Renders tables as JSON Lines. The compiled formatter (kafkarec._verbs) writes the cells.

Output is UTF-8. Also escaped, although JSON does not require it, are characters that some readers treat as line breaks
or that control terminals: a record cannot forge the row of another one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from kafkarec import _verbs
from kafkarec.storage.segment_file import SegmentFile
from kafkarec.tables.records import Table

# Values of --key-as and --value-as -> the suffix of the name. Bytes that the form cannot represent are printed in
# NAME_base64, so that the bytes of every row can be restored.
FORMS = {"utf8": "", "json": "", "base64": "_base64", "hex": "_hex", "int32": "", "int64": ""}
NULL = "null"
CONSTANT_COLUMNS = ("topic", "partition", "file")
# DEL, the C1 controls, U+2028 and U+2029.
_UNSAFE = re.compile("[\x7f-\x9f\u2028\u2029]")
# Arrow format -> how a column is written; others are numbers.
_BY_FORMAT = {"z": "utf8", "u": "utf8", "b": "bool", "+l": "headers"}


def constant_columns(source: SegmentFile) -> dict[str, Any]:
    """Return the columns topic, partition and file, which are the same for all records of a segment."""
    # A path that is not UTF-8 is printed with U+FFFD, as JSON cannot represent its bytes.
    file = source.path.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    return {"topic": source.topic, "partition": source.partition, "file": file}


def render(
    table: Table,
    names: Sequence[str],
    *,
    constants: Mapping[str, Any] | None = None,
    forms: Mapping[str, str] | None = None,
    decoded: Mapping[str, Sequence[str | None]] | None = None,
    iso_times: bool = False,
) -> bytes:
    """Return one line per row, with the cells in the order of `names`.

    constants   values that are the same in every row (topic, partition, file)
    forms       name -> key of FORMS for binary columns; default utf8
    decoded     columns of JSON text per row, None to print the table's bytes, or null if it has no such column
    iso_times   print the column timestamp as ISO 8601 text instead of ms
    """
    constants, forms, decoded = constants or {}, forms or {}, decoded or {}
    columns: list[tuple[str, bytes, int, str, list[bytes | None] | None]] = []
    before = "{"  # the text before the next cell
    for number, name in enumerate(names):
        before += f',"{name}' if number else f'"{name}'
        if name in constants:
            before += f'":{escaped_json(json.dumps(constants[name], ensure_ascii=False))}'
            continue
        how, texts = "ready", decoded.get(name)  # how the compiled formatter writes the column
        index, format_ = table.schema.index_of.get(name, -1), ""
        if index >= 0:
            format_ = table.schema[index].format
            how = forms.get(name) or _BY_FORMAT.get(format_, "number")
            how = "time" if name == "timestamp" and iso_times else how
        if how == "json":
            # The JSON null is bytes, so it is printed in base64: null is a tombstone.
            stored = (None if text == NULL else text for text in map(json_or_none, table.column(name)))
            texts = [one or other for one, other in zip(texts or [None] * len(table), stored, strict=True)]
        ready = None if texts is None else [None if text is None else escaped_json(text).encode() for text in texts]
        columns.append((how, before.encode(), index, format_, ready))
        before = ""
    blocks, at = [], 0
    for chunk, start, stop in table._slices:
        blocks.append(_verbs.lines(columns, f"{before}}}\n".encode(), chunk, start, stop, at))
        at += stop - start
    return blocks[0] if len(blocks) == 1 else b"".join(blocks)


def escaped_json(text: str) -> str:
    """Return JSON with DEL, C1 controls, U+2028 and U+2029 escaped."""
    return text if text.isascii() and "\x7f" not in text else _UNSAFE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def json_or_none(value: bytes | None) -> str | None:
    """The value as it is stored if it is JSON: numbers keep their digits, objects their order and repeated keys. Not
    the white space around it, nor line breaks, which can only be between tokens: they become spaces. None: it is not
    JSON, or has what Python's json module does not read: nested too deeply, an integer with too many digits."""
    try:
        text = (value or b"").decode()
        parsed_json(text)
    except ValueError:
        return None
    return text.strip().replace("\n", " ").replace("\r", " ")


JSON = json.JSONDecoder(parse_constant=int)  # int("NaN") is a ValueError


def parsed_json(text: str) -> Any:
    """Parse JSON. Raise ValueError for other text, also for NaN and Infinity, which Python's json module reads."""
    try:
        return JSON.decode(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None
