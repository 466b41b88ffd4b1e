"""The writer of `cat` for CSV (RFC 4180): a line of names, CRLF after each row, text in quotes, null as an empty cell.

    topic,partition,offset,timestamp,timestamp_type,key,key_base64,value,value_base64,headers
    "orders",0,17,1700000000000,0,"user-1",,"it says ""hi"" twice",,"[{""key"":""k"",""value"":""v""}]"

Null has no quotes, an empty text has. A key or value that is not text is in NAME_base64 instead of its own column;
null is in neither. For the reasons see docs/explanation/design.md, Writing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from kafkarec._verbs import Escapes
from kafkarec.tables.table import Table

from . import json_lines, line_columns
from .cat_writer import CONTROL, LineWriter, constants, control_cells
from .line_columns import FORMS, READY, LineColumn
from .selection import SelectedRows

# Control characters except tab, line feed and carriage return; line and paragraph separators.
_NO_TEXT = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029]")
_ALWAYS_FIT = ("base64", "hex")

_QUOTED: dict[int, bytes | None] = {byte: None for byte in (*range(32), 127) if byte not in (9, 10, 13)}
_QUOTED[34] = b'""'
_TEXT = Escapes(_QUOTED)
_ENTRY = json_lines.entry(Escapes({byte: text.replace(b'"', b'""') for byte, text in json_lines.STRING.items()}), '""')


def quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


class CsvWriter(LineWriter):
    """Writes CSV rows, behind a line of names."""

    _begun = False

    def _lines(self, piece: SelectedRows, decoded: Mapping[str, Sequence[str | None]]) -> bytes:
        known = constants(piece.source)
        columns: list[LineColumn] = []
        prefix = ""  # the text before the next cell
        for number, name in enumerate(self._names):
            prefix += "," if number else ""
            if name in known:
                prefix += self._constant(known[name])
                continue
            if name == CONTROL:
                columns.append(LineColumn(name, READY, prefix, ready=_whole(prefix, control_cells(piece.table), "")))
            else:
                columns.append(self._column(prefix, piece.table, name, decoded.get(name)))
            prefix = ""
        return line_columns.lines(piece.table, columns, prefix + "\r\n", piece.rows)

    def _put(self, lines: bytes) -> None:
        if not self._begun:
            self._begun = True
            self._sink.write((",".join(self._titles()) + "\r\n").encode())
        super()._put(lines)

    def _titles(self) -> Iterable[str]:
        for name in self._names:
            form = self._forms.get(name)
            yield name + (FORMS[form] if form else "")
            if form and form not in _ALWAYS_FIT:
                yield f"{name}_base64"

    def _constant(self, value: str | int | None) -> str:
        """Return the cell of topic, partition or file. Text is quoted, as a file's name may contain any character."""
        if value is None:
            return ""
        return quoted(_NO_TEXT.sub("\ufffd", value)) if isinstance(value, str) else str(value)

    def _column(self, prefix: str, table: Table, name: str, decoded: Sequence[str | None] | None) -> LineColumn:
        """Return one column; for a key or value with the cell of NAME_base64."""
        form = self._forms.get(name)
        how, decoded = line_columns.how_and_texts(table, name, form, decoded, self._iso_times)
        quote = f'{prefix}"'
        if how == "headers":
            return LineColumn(name, how, "", f"{quote}[", ']"', entry=_ENTRY)
        if how == "time":
            return LineColumn(name, how, prefix, quote, '"', prefix)
        if how not in FORMS:
            return LineColumn(name, how, prefix, prefix)
        comma = "," if form and form not in _ALWAYS_FIT else ""
        before, after = (prefix, comma) if how in ("int32", "int64") else (quote, f'"{comma}')
        texts = prefix + comma, before, after, f'{prefix}{comma}"', '"'
        ready = _whole(prefix, decoded, comma)
        return LineColumn(name, how, *texts, _TEXT if how == "utf8" else None, ready)


def _whole(prefix: str, texts: Sequence[str | None] | None, after: str) -> list[bytes | None] | None:
    """Return whole cells of JSON text; None where there is no text."""
    if texts is None:
        return None
    return [None if text is None else f"{prefix}{quoted(json_lines.escaped(text))}{after}".encode() for text in texts]
