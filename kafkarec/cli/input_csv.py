"""Reads rows from CSV as `cat --format csv` writes it (cli/cat_csv.py), and as other programs do.

A cell in quotes is text, even if it is empty; an empty cell without quotes is null. Quoted text may have line breaks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any, BinaryIO

from kafkarec.format.schema import RECORD_FIELDS

from .input_cells import ALIASES, BLOBS, BadCell, JsonText, columns_of, parsed_json, typed
from .input_rows import InputRows, Refuse, good_rows
from .shared_options import WrongUse

_STEP = 1 << 20
_CELL = re.compile(r'("[^"]*(?:""[^"]*)*"|[^",\r\n]*)(,|\r?\n|\r|\Z)')
_BOOLEANS = {"true": True, "false": False, "t": True, "f": False, "": None}
_NUMBER = re.compile(r"-?\d{1,20}")
_TEXT_COLUMNS = ("topic", "compression", "key_base64", "key_hex", "value_base64", "value_hex", "control")
_NUMBERS = ("l", "i", "s", "c", "tsm:UTC")

Record = tuple[int, list[str]]  # (number of its first line, its cells as in the input)


def read(
    file: BinaryIO, forms: Mapping[str, str], columns: Sequence[str] | None, refuse: Refuse
) -> Iterator[InputRows]:
    """Yield the rows of a file in blocks of about a MiB; see input_json.read."""
    titles: list[str] | None = None
    for records in _blocks(file):
        if titles is None:
            titles = _titles(records.pop(0)[1], columns)
        if len(titles) > 1:
            records = [record for record in records if record[1] != [""]]  # empty lines
        if records:
            yield from good_rows(records, partial(_rows, titles, forms), refuse)


def _titles(cells: Sequence[str], columns: Sequence[str] | None) -> list[str]:
    """Return the column of each cell of the first line; "" for one that is not read."""
    names = [cell.strip(' "') for cell in cells]
    names = [ALIASES.get(name, name) for name in names]
    read = columns_of(names, columns, lambda title: "line 1")
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise WrongUse(f"line 1: column named twice: {', '.join(twice)}")
    return [name if name in read else "" for name in names]


def _rows(titles: Sequence[str], forms: Mapping[str, str], records: Sequence[Record]) -> InputRows:
    for row, (_, cells) in enumerate(records):
        if len(cells) != len(titles):
            raise BadCell(row, "", f"{len(titles)} cells are expected, as in the first line, found {len(cells)}")
    shown = {}
    for number, name in enumerate(titles):
        if name:
            shown[name] = _values(name, [cells[number] for _, cells in records], forms)
    return InputRows(typed(shown, forms), [number for number, _ in records])


def _values(name: str, cells: Sequence[str], forms: Mapping[str, str]) -> list[Any]:
    texts = [(cell[1:-1].replace('""', '"') if cell[0] == '"' else cell) if cell else None for cell in cells]
    if forms.get(name) == "utf8" or name in _TEXT_COLUMNS:
        return texts
    return [None if text is None else _value(row, name, text, forms) for row, text in enumerate(texts)]


def _value(row: int, name: str, text: str, forms: Mapping[str, str]) -> Any:
    """Return the value of a cell's text, of the same type as in JSON Lines."""
    if name in BLOBS:
        if forms[name] == "json":
            _json(row, name, text)
            return JsonText(text)
        return _number(row, name, text) if forms[name] in ("int32", "int64") else text
    kind = RECORD_FIELDS[name].format if name in RECORD_FIELDS else "u"
    if name == "timestamp":
        return int(text) if _NUMBER.fullmatch(text) else text
    if kind in _NUMBERS:
        return _number(row, name, text)
    if kind == "b":
        if text.lower() not in _BOOLEANS:
            raise BadCell(row, name, "true or false is expected, found other text")
        return _BOOLEANS[text.lower()]
    return [] if text == "[]" else _json(row, name, text)


def _number(row: int, name: str, text: str) -> int:
    if not _NUMBER.fullmatch(text):
        raise BadCell(row, name, "a whole number is expected, found other text")
    return int(text)


def _json(row: int, name: str, text: str) -> Any:
    try:
        return parsed_json(text)
    except ValueError:
        raise BadCell(row, name, "JSON is expected, found other text") from None


# ---- text to cells


def _blocks(file: BinaryIO) -> Iterator[list[Record]]:
    """Yield the rows of a file in blocks, which end where a line ends outside of quotes."""
    number, held = 1, bytearray()
    while step := file.read(_STEP):
        held += step.removeprefix(b"\xef\xbb\xbf") if number == 1 and not held else step
        end = _last_end(held)
        if end:
            text = bytes(held[:end])
            del held[:end]
            yield from _records(text, number)
            number += text.count(b"\n")
    if held:
        if held.count(b'"') % 2:
            raise WrongUse(f"line {number}: a quote that is opened here or later is not closed: not valid CSV")
        yield from _records(bytes(held), number)


def _last_end(held: bytearray) -> int:
    """Return the position after the last line break with an even number of quotes before it; 0: there is none."""
    quotes, stop = held.count(b'"'), len(held)
    end = held.rfind(b"\n")
    while end >= 0:
        quotes -= held.count(b'"', end, stop)
        if quotes % 2 == 0:
            return end + 1
        stop, end = end, held.rfind(b"\n", 0, end)
    return 0


def _records(data: bytes, number: int) -> Iterator[list[Record]]:
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        line = number + data.count(b"\n", 0, error.start)
        at = error.start - data.rfind(b"\n", 0, error.start)
        raise WrongUse(f"line {line}: UTF-8 is expected, byte {at} of the line is invalid") from None
    flat = _CELL.findall(text)
    if "".join(chain.from_iterable(flat)) != text:
        at = _end_of_csv(text)
        line = number + text.count("\n", 0, at)
        raise WrongUse(f"line {line}: a quote inside a cell that does not begin with one: not valid CSV")
    rows: list[Record] = []
    cells: list[str] = []
    begins = number
    if not flat[-1][0] and not text.endswith(","):
        flat.pop()  # the empty match after the last line
    for cell, separator in flat:
        cells.append(cell)
        if "\n" in cell:
            number += cell.count("\n")
        if separator != ",":
            rows.append((begins, cells))
            number += 1
            begins, cells = number, []
    yield rows


def _end_of_csv(text: str) -> int:
    """Return the position of the first character that is not valid CSV."""
    at = 0
    while match := _CELL.match(text, at):
        at = match.end()
    return at
