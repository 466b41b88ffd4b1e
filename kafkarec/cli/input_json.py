"""Reads rows from JSON Lines as `cat` and other programs write them, a block of lines at a time."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from json import scanner
from json.decoder import scanstring  # type: ignore[attr-defined]
from typing import Any, BinaryIO

from .input_cells import BadCell, Columns, JsonText, columns_of, type_name, typed
from .input_rows import InputRows, Refuse, good_rows

_STEP = 1 << 20
_ABSENT = {"timestamp_type": 0}  # null means magic 0; a missing member means create time
_SPACE = " \t\r\n"
_BOM = b"\xef\xbb\xbf"

Line = tuple[int, bytes]
_Scan = Callable[[str, int], tuple[Any, int]]


def read(
    file: BinaryIO, name: str, forms: Mapping[str, str], columns: Sequence[str] | None, refuse: Refuse
) -> Iterator[InputRows]:
    """Yield the rows of a file in blocks of about a MiB.

    name       of the file, for messages
    forms      key, value -> encoding of the plain column
    columns    names of the columns to read, others are ignored; None: all, and WrongUse for an unknown one
    """
    parse = _parser([name for name, form in forms.items() if form == "json"])
    for lines in blocks(file):
        yield from good_rows(lines, partial(_columns, parse, forms, columns), refuse, f"{name}, line")


def blocks(file: BinaryIO) -> Iterator[list[Line]]:
    """Yield the lines of a file with their numbers, without empty lines."""
    number, held = 1, bytearray()
    while step := file.read(_STEP):
        if number == 1 and not held:
            step = step.removeprefix(_BOM)
        held += step
        end = held.rfind(b"\n", len(held) - len(step)) + 1
        if end:
            lines = bytes(held[:end]).split(b"\n")[:-1]
            del held[:end]
            yield from _numbered(lines, number)
            number += len(lines)
    yield from _numbered([bytes(held)], number)


def _numbered(lines: Sequence[bytes], first: int) -> Iterator[list[Line]]:
    numbered = [(number, line) for number, line in enumerate(lines, first) if not line.isspace() and line]
    if numbered:
        yield numbered


def _columns(
    parse: Callable[[str], Any], forms: Mapping[str, str], columns: Sequence[str] | None, lines: Sequence[Line]
) -> Columns:
    """Return the columns of some lines. The row of a BadCell is counted from the first of these lines."""
    rows = [_object(row, line, parse) for row, (_, line) in enumerate(lines)]
    names = {name: None for each in rows for name in each}

    def place(title: str) -> str:
        return f"line {next(number for each, (number, _) in zip(rows, lines, strict=True) if title in each)}"

    read = columns_of(names, columns, place)
    shown = {name: [each.get(title, _ABSENT.get(title)) for each in rows] for title, name in read.items()}
    return typed(shown, forms)


def _object(row: int, line: bytes, parse: Callable[[str], Any]) -> dict[str, Any]:
    try:
        cell = parse(line.decode())
    except UnicodeDecodeError as error:
        raise BadCell(row, "", f"UTF-8 is expected, byte {error.start + 1} of the line is invalid") from None
    except json.JSONDecodeError as error:
        why = error.msg.rstrip(": ").lower()
        raise BadCell(row, "", f"invalid JSON at column {error.colno} ({why}){_hint(line)}") from None
    except RecursionError:
        raise BadCell(row, "", "JSON is expected, found objects nested too deeply") from None
    except ValueError:  # a number of thousands of digits
        raise BadCell(row, "", "JSON is expected, found a number with too many digits") from None
    if type(cell) is not dict:
        hint = " (jq -c '.[]' makes lines of an array)" if isinstance(cell, list) else ""
        raise BadCell(row, "", f"an object on each line is expected, found {type_name(cell)}{hint}")
    return cell


def _hint(line: bytes) -> str:
    """Return a hint if a line is the first of JSON that is printed over several lines, such as `{`."""
    if line.strip() in (b"{", b"[", b"[{"):
        return " (an object on each line: jq -c . or jq -c '.[]' makes lines of it)"
    return ""


# ---- one line


def _parser(raw: Sequence[str]) -> Callable[[str], Any]:
    """Return a parser of one line. raw: names whose values are returned as JSON text."""
    decoder = json.JSONDecoder()
    scan: _Scan = scanner.make_scanner(decoder)  # type: ignore[arg-type]

    def parse(text: str) -> Any:
        try:
            whole, end = scan(text, 0)
        except StopIteration:
            whole, end = None, -1
        if end != len(text):
            whole = decoder.decode(text)  # with spaces around it, or invalid
        return _members_with_texts(text, scan, raw) if raw and isinstance(whole, dict) else whole

    return parse


def _members_with_texts(text: str, scan: _Scan, raw: Sequence[str]) -> dict[str, Any]:
    """Return the members of an object, those of `raw` as JsonText. The text must be valid JSON."""
    out: dict[str, Any] = {}
    at = _next(text, _next(text, 0) + 1)
    while text[at] != "}":
        name, at = scanstring(text, at + 1, True)
        at = _next(text, _next(text, at) + 1)  # after the colon
        value, end = scan(text, at)
        out[name] = JsonText(text[at:end]) if name in raw and value is not None else value
        at = _next(text, end)
        if text[at] == ",":
            at = _next(text, at + 1)
    return out


def _next(text: str, at: int) -> int:
    """Return the position of the next character that is not white space."""
    while text[at] in _SPACE:
        at += 1
    return at
