"""Reads rows from JSON Lines and CSV as `cat` and other programs write them, a block of rows at a time.

In CSV, which pyarrow reads, a cell in quotes is text, even if it is empty; an empty cell without quotes is null. Quoted
text may have line breaks.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from json import scanner
from json.decoder import scanstring  # type: ignore[attr-defined]
from typing import Any, BinaryIO

from kafkarec.format.schema import RECORD_FIELDS

from .input_cells import (
    BLOBS,
    BadCell,
    Columns,
    JsonText,
    RowBlock,
    RowSource,
    columns_by_title,
    converted_cells,
    converted_columns,
    good_rows,
    type_name,
)
from .json_lines import JSON, parsed_json
from .shared_options import WrongUse, pyarrow_for

_STEP = 1 << 20
_SPACE = " \t\r\n"
_BOM = b"\xef\xbb\xbf"

Line = tuple[int, bytes]
_DECODER = json.JSONDecoder()
_scan: Callable[[str, int], tuple[Any, int]] = scanner.make_scanner(_DECODER)  # type: ignore[arg-type]


def read_json(file: BinaryIO, source: RowSource) -> Iterator[RowBlock]:
    """Yield the rows of a file in blocks of about a MiB."""
    number = 1
    titles: dict[str, str] = {}
    while lines := file.readlines(_STEP):
        if number == 1:
            lines[0] = lines[0].removeprefix(_BOM)
        texts = [(at, text) for at, line in enumerate(lines, number) if (text := line.rstrip())]
        number += len(lines)
        if texts:
            yield from good_rows(source, "line", texts, partial(_json_columns, source, titles))


def _json_columns(source: RowSource, titles: dict[str, str], lines: Sequence[Line]) -> Columns:
    """Return the columns of some lines. titles: those of the lines before, each with its column; is extended"""
    raw = [name for name, form in source.forms.items() if form == "json"]
    rows = [_json_object(line, raw) for _, line in lines]
    names = {name: None for each in rows for name in each}

    def first_line_with(title: str) -> str:
        return f"line {next(number for each, (number, _) in zip(rows, lines, strict=True) if title in each)}"

    titles.update(columns_by_title(list({**titles, **names}), source.columns, first_line_with))
    read = {title: name for title, name in titles.items() if title in names}
    shown = {name: [each.get(title, source.defaults.get(name)) for each in rows] for title, name in read.items()}
    return converted_columns(shown, source.forms)


def _json_object(line: bytes, raw: Sequence[str]) -> dict[str, Any]:
    """Return the object in a line. raw: names whose values are returned as JSON text"""
    try:
        text = line.decode()
        try:
            cell, end = _scan(text, 0)
        except StopIteration:
            cell, end = None, -1
        if end != len(text):
            cell = _DECODER.decode(text)  # with spaces around it, or invalid
        if raw and isinstance(cell, dict):
            cell = _members_with_json_text(text, raw)
    except UnicodeDecodeError as error:
        raise BadCell(f"UTF-8 is expected, byte {error.start + 1} of the line is invalid") from None
    except json.JSONDecodeError as error:
        why = error.msg.rstrip(": ").lower()
        is_first = line.strip() in (b"{", b"[", b"[{")  # of JSON that is printed over several lines
        hint = " (an object on each line: jq -c . or jq -c '.[]' makes lines of it)" if is_first else ""
        raise BadCell(f"invalid JSON at column {error.colno} ({why}){hint}") from None
    except (RecursionError, ValueError):
        raise BadCell("JSON is expected, found objects nested too deeply or a number with too many digits") from None
    if type(cell) is not dict:
        hint = " (jq -c '.[]' makes lines of an array)" if isinstance(cell, list) else ""
        raise BadCell(f"an object on each line is expected, found {type_name(cell)}{hint}")
    return cell


def _members_with_json_text(text: str, raw: Sequence[str]) -> dict[str, Any]:
    """Return the members of an object, those of `raw` as JsonText, without NaN or infinities. text: of valid JSON"""
    out: dict[str, Any] = {}
    at = _skip_space(text, _skip_space(text, 0) + 1)
    while text[at] != "}":
        name, at = scanstring(text, at + 1, True)
        at = _skip_space(text, _skip_space(text, at) + 1)  # after the colon
        try:
            value, end = (JSON.raw_decode if name in raw else _scan)(text, at)
        except ValueError:
            raise json.JSONDecodeError("a number is not finite", text, at) from None
        out[name] = JsonText(text[at:end]) if name in raw and value is not None else value
        at = _skip_space(text, end)
        if text[at] == ",":
            at = _skip_space(text, at + 1)
    return out


def _skip_space(text: str, at: int) -> int:
    """Return the position of the next character that is not white space."""
    while text[at] in _SPACE:
        at += 1
    return at


# ---- CSV

# A row with its line break, where each quote begins or ends a cell or is one of a pair in it: pyarrow takes any other
# for text, and an opened one that is not closed for the start of a cell as long as the file.
_ROW = re.compile(rb'(?:[^"\r\n]++|(?<![^,\r\n])"[^"]*+(?:""[^"]*+)*+"(?![^,\r\n]))*+(?:\r?\n|\r(?=[^\n]))')
# The start of such a row, up to the end of what is read.
_BEGUN = re.compile(
    rb'(?:[^"\r\n]++|(?<![^,\r\n])"[^"]*+(?:""[^"]*+)*+"(?![^,\r\n]))*+(?:(?<![^,\r\n])"[^"]*+(?:""[^"]*+)*+"?|\r)?\Z'
)
_BOOLEANS = {"true": True, "false": False, "t": True, "f": False, "": None}
_NUMBER = re.compile(r"-?\d{1,20}")


CsvRow = tuple[int, tuple[str | None, ...]]  # the same with its cells


def read_csv(file: BinaryIO, source: RowSource) -> Iterator[RowBlock]:
    """Yield the rows of a file in blocks of about a MiB."""
    pa = pyarrow_for("reading csv")
    titles: list[str] | None = None
    for lines in _csv_rows(file):
        if titles is None:
            try:
                cells = next(csv.reader([lines.pop(0)[1].decode()])) or [""]
            except csv.Error:
                raise WrongUse("line 1: a column's name is too long") from None
            named = [cell.strip(' "') for cell in cells]
            read = columns_by_title(named, source.columns, lambda title: "line 1")
            titles = [read.get(title, "") for title in named]  # "" for one that is not read
        if len(titles) > 1:
            lines = [line for line in lines if line[1].strip(b"\r\n")]
        if lines:
            rows = _parse_csv_rows(pa, lines, len(titles))
            yield from good_rows(source, "line", rows, partial(_csv_columns, titles, source.forms))


def _csv_rows(file: BinaryIO) -> Iterator[list[Line]]:
    """Yield the rows of a file, some at a time."""
    number, held = 1, file.read(_STEP).removeprefix(_BOM)
    while held:
        lines, at = [], 0
        while row := _ROW.match(held, at):
            try:
                row[0].decode()
            except UnicodeDecodeError as error:
                number += row[0].count(b"\n", 0, error.start)
                at = error.start - row[0].rfind(b"\n", 0, error.start)
                raise WrongUse(f"line {number}: UTF-8 is expected, byte {at} of the line is invalid") from None
            lines.append((number, row[0]))
            number += len(row[0].splitlines())
            at = row.end()
        if lines:
            yield lines
        is_valid = _BEGUN.match(held, at) is not None
        left, more = held[at:], file.read(max(_STEP, len(held) - at)) if is_valid else b""
        if left and not more:
            if not is_valid or left.endswith(b"\n"):
                raise WrongUse(f"line {number}: a quote inside a cell, or one that is not closed: not valid CSV")
            more = b"\n"
        held = left + more


def _parse_csv_rows(pa: Any, lines: Sequence[Line], width: int) -> list[CsvRow]:
    """Return the cells of rows; of one that has more or fewer than `width`, as many nulls."""
    others: dict[int, tuple[None, ...]] = {}

    def keep_other_width(row: Any) -> str:
        others[row.number] = (None,) * row.actual_columns
        return "skip"

    names = [str(number) for number in range(width)]
    data = b"\n" + b"".join(row for _, row in lines)  # row 1 is left out: a byte order mark would be
    table = pa.csv.read_csv(
        io.BytesIO(data),
        pa.csv.ReadOptions(use_threads=False, block_size=len(data) + 1, skip_rows=1, column_names=names),
        pa.csv.ParseOptions(
            newlines_in_values=True, ignore_empty_lines=width > 1, invalid_row_handler=keep_other_width
        ),
        pa.csv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.string()),
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )
    cells = zip(*(column.to_pylist() for column in table.columns), strict=True)
    return [(line, others.get(row) or next(cells)) for row, (line, _) in enumerate(lines, 2)]


def _csv_columns(titles: Sequence[str], forms: Mapping[str, str], rows: Sequence[CsvRow]) -> Columns:
    for _, cells in rows:
        if len(cells) != len(titles):
            raise BadCell(f"{len(titles)} cells are expected, as in the first line, found {len(cells)}")
    columns: Columns = {}
    for name, cells in zip(titles, zip(*(cells for _, cells in rows), strict=True), strict=True):
        kind = forms[name] if name in BLOBS else RECORD_FIELDS[name].format if name in RECORD_FIELDS else "u"
        if name:
            columns[name] = converted_cells(name, cells, *_PARSERS[kind]) if kind in _PARSERS else cells
    return converted_columns(columns, forms)


def _whole_number(text: str) -> int:
    if not _NUMBER.fullmatch(text):
        raise ValueError(text)
    return int(text)


# Arrow format of a column, or form of a key or value -> (function from its text, what is expected). Others are text.
_PARSERS: dict[str, tuple[Callable[[str], Any], str]] = {
    **dict.fromkeys(("l", "i", "s", "c", "int32", "int64"), (_whole_number, "a whole number")),
    "tsm:UTC": (lambda text: int(text) if _NUMBER.fullmatch(text) else text, "a time"),
    "b": (lambda text: _BOOLEANS[text.lower()], "true or false"),
    "json": (JsonText.checked, "JSON"),
    "+l": (parsed_json, "JSON"),
}
