"""The writer of `cat` for CSV (RFC 4180): a line of names, CRLF after each row, text in quotes, null as an empty cell.

    topic,partition,offset,timestamp,timestamp_type,key,key_base64,value,value_base64,headers
    "orders",0,17,1700000000000,0,"user-1",,"it says ""hi"" twice",,"[{""key"":""k"",""value"":""v""}]"

Null has no quotes, an empty text has. A key or value that is not text is in NAME_base64 instead of its own column;
null is in neither. For the reasons see docs/decisions/0013-csv.md.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain, repeat
from typing import Any

from kafkarec.tables.table import Table

from . import cat_internal_topics, json_lines
from .cat_writer import constants, control_cells
from .output_files import Sink
from .selection import SelectedRows
from .table_windows import cells

# Control characters except tab, line feed and carriage return; line and paragraph separators.
_CONTROLS = bytes({*range(32), 127} - {9, 10, 13})
_NO_TEXT = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029]")
# Characters that begin a formula in spreadsheets, including full-width forms.
_FORMULA = re.compile(r'^"(?=[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20])')
_EMPTY = ""


def quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


def _as_text(blob: bytes) -> str:
    text = blob.decode()
    if _NO_TEXT.search(text):
        raise ValueError("control characters")
    return quoted(text)


def _as_json(blob: bytes) -> str:
    return _as_text(json_lines.FORMS["json"][1](blob).encode())


def _as_base64(blob: bytes) -> str:
    return quoted(base64.b64encode(blob).decode())


# Value of --key-as and --value-as -> (suffix of the column's name, function from bytes to a cell or ValueError).
_FORMS: dict[str, tuple[str, Callable[[bytes], str]]] = {
    "utf8": ("", _as_text),
    "json": ("", _as_json),
    "base64": ("_base64", _as_base64),
    "hex": ("_hex", json_lines.FORMS["hex"][1]),
    "int32": ("", json_lines.FORMS["int32"][1]),
    "int64": ("", json_lines.FORMS["int64"][1]),
}
_ALWAYS_FIT = ("base64", "hex")


class CsvWriter:
    """Writes CSV rows. `spreadsheet` adds a byte order mark, and an apostrophe before cells that a spreadsheet would
    take for a formula (such cells do not read back unchanged)."""

    timestamp_unit = "int64"

    def __init__(
        self,
        sink: Sink,
        names: Sequence[str],
        control: bool,
        forms: Mapping[str, str],
        decoder: cat_internal_topics.InternalTopicDecoder | None = None,
        spreadsheet: bool = False,
        iso_times: bool = False,
    ) -> None:
        self._sink = sink
        self._names = [*names, "control"] if control else list(names)
        self._forms = forms
        self._decoder = decoder
        self._spreadsheet = spreadsheet
        self._iso_times = iso_times
        self._begun = False
        self.needed_columns: Sequence[str] = cat_internal_topics.NEEDED if control or decoder else ()

    def write(self, piece: SelectedRows) -> None:
        known = constants(piece.source)
        decoded = self._decoder.texts(piece) if self._decoder else {}
        columns: list[list[str]] = []
        for name in self._names:
            if name in known:
                columns.append([_constant(known[name])] * piece.count)
            elif name == "control":
                shown = json_lines.select(control_cells(piece.table), piece.rows)
                columns.append([_EMPTY if text == json_lines.NULL else quoted(text) for text in shown])
            else:
                texts = json_lines.select(decoded[name], piece.rows) if name in decoded else None
                columns += self._columns(piece, name, texts)
        if self._spreadsheet:
            columns = [[_FORMULA.sub("\"'", cell, count=1) for cell in cells] for cells in columns]
        self._put("".join(chain.from_iterable(zip(*_with_commas(columns, piece.count), strict=True))))

    def finish(self, decode: Mapping[str, Any]) -> None:
        self._put("")

    def _put(self, lines: str) -> None:
        if not self._begun:
            self._begun = True
            self._sink.write((("\ufeff" if self._spreadsheet else "") + ",".join(self._titles()) + "\r\n").encode())
        self._sink.write(json_lines.escaped(lines))  # only JSON cells can still have characters to escape
        self._sink.flush()

    def _titles(self) -> Iterable[str]:
        for name in self._names:
            form = self._forms.get(name)
            suffix = _FORMS[form][0] if form else ""
            yield name + suffix
            if form and form not in _ALWAYS_FIT:
                yield f"{name}_base64"

    def _columns(self, piece: SelectedRows, name: str, decoded: Sequence[str | None] | None) -> list[list[str]]:
        """Return the cells of one column; for a key or value also those of NAME_base64."""
        values = cells(piece.table, name, piece.rows)
        form = self._forms.get(name)
        if name == "timestamp" and self._iso_times:
            return [[_EMPTY if value is None else json_lines.iso_time(value) for value in values]]
        if form is None:
            return [_others(piece.table, name, values)]
        plain, base64_cells = _blobs(values, form, decoded)
        return [plain] if form in _ALWAYS_FIT else [plain, base64_cells]


def _constant(value: str | int | None) -> str:
    """Return the cell of topic, partition or file. Text is quoted, as a file's name may contain any character."""
    if value is None:
        return _EMPTY
    return quoted(_NO_TEXT.sub("\ufffd", value)) if isinstance(value, str) else str(value)


def _others(table: Table, name: str, values: Sequence[Any]) -> list[str]:
    kind = table.schema[table.schema.names.index(name)].format
    if kind == "+l":
        return [quoted(json_lines.headers(pairs)) if pairs else '"[]"' for pairs in values]
    if kind == "u":
        return [_EMPTY if text is None else quoted(text) for text in values]
    if kind == "b":
        return [_EMPTY if value is None else json_lines.BOOLEANS[value] for value in values]
    return [_EMPTY if value is None else str(value) for value in values]


def _blobs(
    values: Sequence[bytes | None], form: str, decoded: Sequence[str | None] | None
) -> tuple[list[str], list[str]]:
    """Return (cells, cells of NAME_base64); the latter have the values that the form cannot represent."""
    if form == "utf8" and decoded is None and (whole := _all_text(values)) is not None:
        return whole, [_EMPTY] * len(values)
    show = _FORMS[form][1]
    plain, base64_cells = [_EMPTY] * len(values), [_EMPTY] * len(values)
    for row, blob in enumerate(values):
        text = decoded[row] if decoded is not None else None
        if text is not None:
            plain[row] = quoted(text)
        elif blob is not None:
            try:
                plain[row] = show(blob)
            except ValueError:
                base64_cells[row] = _as_base64(blob)
    return plain, base64_cells


def _all_text(values: Sequence[bytes | None]) -> list[str] | None:
    """Return the cells if all values are ASCII text, else None. One search over all their bytes decides."""
    together = b"".join([blob for blob in values if blob])
    if not together.isascii() or len(together.translate(None, _CONTROLS)) < len(together):
        return None
    return [_EMPTY if blob is None else quoted(blob.decode()) for blob in values]


def _with_commas(columns: Sequence[Iterable[str]], count: int) -> Iterable[Iterable[str]]:
    """Yield the columns with a column of commas between each two, and a column of line ends."""
    for number, column in enumerate(columns):
        if number:
            yield repeat(",", count)
        yield column
    yield repeat("\r\n", count)
