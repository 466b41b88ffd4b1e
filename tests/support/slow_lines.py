"""The lines of `cat`, as JSON and CSV, made row by row and character by character: what the compiled formatter is
compared with. Rows are dicts: name -> int, bool, str, bytes, list of (header key, value) or None; a Ready is JSON text
that is printed as it is."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

Row = Mapping[str, Any]


class Ready(str):
    """JSON text."""


class NoText(Exception):
    """The bytes cannot be printed in this form."""


def has_no_shape(char: str) -> bool:
    """DEL, the C1 controls, and the separators of lines and paragraphs, which JSON allows in a string."""
    return "\x7f" <= char <= "\x9f" or char in "\u2028\u2029"


def escaped(text: str) -> str:
    return "".join(f"\\u{ord(char):04x}" if has_no_shape(char) else char for char in text)


def json_string(text: str) -> str:
    return escaped(json.dumps(text, ensure_ascii=False))


def decoded(blob: bytes) -> str:
    try:
        return blob.decode("utf-8")
    except UnicodeDecodeError:
        raise NoText from None


def _no_constant(name: str):
    raise ValueError(name)


def stored_json(blob: bytes) -> str:
    text = decoded(blob)
    try:
        json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        raise NoText from None
    return text.strip().replace("\n", " ").replace("\r", " ")


def whole_number(blob: bytes, size: int) -> str:
    if len(blob) != size:
        raise NoText
    return str(int.from_bytes(blob, "big", signed=True))


def base64_text(blob: bytes) -> str:
    return base64.b64encode(blob).decode("ascii")


# --key-as, --value-as: the suffix of the name; the cell in JSON without its quotes' escapes; whether it has quotes.
FORMS: dict[str, tuple[str, Callable[[bytes], str], bool]] = {
    "utf8": ("", decoded, True),
    "json": ("", stored_json, False),
    "base64": ("_base64", base64_text, True),
    "hex": ("_hex", bytes.hex, True),
    "int32": ("", lambda blob: whole_number(blob, 4), False),
    "int64": ("", lambda blob: whole_number(blob, 8), False),
}


def time_text(ms: int) -> str | None:
    """ISO 8601; None outside of the years that it can write."""
    try:
        time = datetime(1970, 1, 1) + timedelta(milliseconds=ms)
    except OverflowError:
        return None
    return time.strftime("%m-%dT%H:%M:%S").join((f"{time.year:04}-", f".{time.microsecond // 1000:03}Z"))


def json_cell(name: str, value, form: str, iso_times: bool) -> str:
    """`"name":value`."""
    if value is None:
        return f'"{name}":null'
    if isinstance(value, Ready):
        return f'"{name}":{escaped(value)}'
    if isinstance(value, bytes):
        suffix, show, quotes = FORMS[form]
        try:
            text = show(value)
            if form == "json" and text == "null":  # which is a record without a value
                raise NoText
        except NoText:
            return f'"{name}_base64":"{base64_text(value)}"'
        return f'"{name}{suffix}":{json_string(text) if quotes else escaped(text)}'
    if isinstance(value, str):
        return f'"{name}":{json_string(value)}'
    if isinstance(value, bool):
        return f'"{name}":{"true" if value else "false"}'
    if isinstance(value, int):
        text = time_text(value) if name == "timestamp" and iso_times else None
        return f'"{name}":{value}' if text is None else f'"{name}":"{text}"'
    return f'"{name}":{json_headers(value)}'


def json_headers(pairs: Sequence[tuple[str, bytes | None]]) -> str:
    shown = (f'{{"key":{json_string(key)},{json_cell("value", value, "utf8", False)}}}' for key, value in pairs)
    return f"[{','.join(shown)}]"


def json_lines(rows: Sequence[Row], names: Sequence[str], forms: Mapping[str, str], iso_times: bool) -> bytes:
    lines = (",".join(json_cell(name, row[name], forms.get(name, "utf8"), iso_times) for name in names) for row in rows)
    return "".join(f"{{{line}}}\n" for line in lines).encode()


def csv_cells(name: str, value, form: str | None, iso_times: bool) -> Iterator[str]:
    """One cell, or for a key or value (`form`) that and the one of its base64."""
    both = form not in (None, "base64", "hex")
    quoted, text = True, ""
    if value is None:
        quoted = False
    elif isinstance(value, Ready):
        text = escaped(value)
    elif isinstance(value, bytes):
        _, show, quotes = FORMS[form or "utf8"]
        try:
            text = escaped(show(value)) if form == "json" else show(value)
            if any(has_no_shape(char) or (char < " " and char not in "\t\r\n") for char in text):
                raise NoText
            quoted = quotes or form == "json"
        except NoText:
            yield ""
            text, both = base64_text(value), False
    elif isinstance(value, str):
        text = value
    elif isinstance(value, bool):
        quoted, text = False, "true" if value else "false"
    elif isinstance(value, int):
        iso = time_text(value) if name == "timestamp" and iso_times else None
        quoted, text = name == "timestamp" and iso_times, iso or str(value)
    else:
        text = json_headers(value)
    yield '"' + text.replace('"', '""') + '"' if quoted else text
    if both:
        yield ""


def csv_rows(rows: Sequence[Row], names: Sequence[str], forms: Mapping[str, str], iso_times: bool = False) -> bytes:
    """The rows without the line of names. `forms` of key and value, and of no other column."""
    lines = (
        ",".join(cell for name in names for cell in csv_cells(name, row[name], forms.get(name), iso_times))
        for row in rows
    )
    return "".join(f"{line}\n" for line in lines).encode()
