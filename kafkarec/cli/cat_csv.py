"""The writer of `cat` for CSV, by pyarrow: a line of names, text in quotes, null as an empty cell, LF after each row.

    topic,partition,offset,timestamp,timestamp_type,key,key_base64,value,value_base64,headers
    "orders",0,17,1700000000000,0,"user-1",,"it says ""hi"" twice",,"[{""key"":""k"",""value"":""v""}]"

Null has no quotes, an empty text has. A key or value that is not text is in NAME_base64 instead of its own column;
null is in neither. For the reasons see docs/explanation/design.md, Writing.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kafkarec.storage.segment_file import SegmentFile
from kafkarec.tables.records import RecordColumns

from . import json_lines
from .cat_arrow import ArrowWriter, Texts, undecoded
from .cat_internal_topics import InternalTopicDecoder
from .json_lines import FORMS, escaped, stored_json
from .output_files import Sink

# Control characters except tab, line feed and carriage return; line and paragraph separators.
_NO_TEXT = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029]")
# The bytes of UTF-8 without them.
_TEXT = (
    r"\A(?:[\t\n\r -~]|\xc2[\xa0-\xbf]|[\xc3-\xdf][\x80-\xbf]"
    r"|\xe0[\xa0-\xbf][\x80-\xbf]|\xe2\x80[\x80-\xa7\xaa-\xbf]|\xe2[\x81-\xbf][\x80-\xbf]|\xed[\x80-\x9f][\x80-\xbf]"
    r"|[\xe1\xe3-\xec\xee\xef][\x80-\xbf]{2}"
    r"|\xf0[\x90-\xbf][\x80-\xbf]{2}|[\xf1-\xf3][\x80-\xbf]{3}|\xf4[\x80-\x8f][\x80-\xbf]{2})*\z"
)


def _integer(size: int) -> Callable[[bytes], int | None]:
    return lambda blob: int.from_bytes(blob, "big", signed=True) if len(blob) == size else None


# Form of a key or value -> its cell, None if it does not fit. Those of utf8 are found all at once.
_CELLS: dict[str, Callable[[bytes], str | int | None]] = {
    "json": lambda blob: (text := stored_json(blob)) and escaped(text),
    "base64": lambda blob: base64.b64encode(blob).decode(),
    "hex": bytes.hex,
    "int32": _integer(4),
    "int64": _integer(8),
}


class CsvWriter(ArrowWriter):
    """Writes CSV rows, behind a line of names."""

    format = "csv"
    timestamp_unit = "int64"

    def __init__(
        self,
        sink: Sink,
        names: Sequence[str],
        forms: Mapping[str, str],
        decoder: InternalTopicDecoder | None,
        iso_times: bool,
    ) -> None:
        super().__init__(sink, names, decoder)
        import pyarrow.compute as functions  # type: ignore[import-untyped,unused-ignore]

        self._functions = functions
        self._forms = forms
        self._as_json = [name for name in names if name == "headers" or (name == "timestamp" and iso_times)]

    def _texts(self, source: SegmentFile, table: RecordColumns) -> Texts:
        pa, functions, texts = self._pa, self._functions, super()._texts(source, table)
        for name in self._as_json:
            lines = json_lines.render(table, [name], iso_times=True)
            members = functions.split_pattern(pa.array([lines], pa.binary()), "\n").flatten()[:-1]
            cells = functions.binary_slice(members, len(name) + 4, -1).cast(pa.string())
            nulls = functions.equal(cells, json_lines.NULL)
            texts[name] = functions.if_else(nulls, None, functions.utf8_trim(cells, '"'))
        return texts

    def _shown(self, batch: Any, known: Mapping[str, Any], texts: Texts) -> Any:
        # A file's name may have any character.
        clean = {name: _NO_TEXT.sub("\ufffd", cell) if isinstance(cell, str) else cell for name, cell in known.items()}
        none = self._pa.nulls(batch.num_rows, self._pa.string())
        return super()._shown(batch, clean, dict.fromkeys(self._as_json, none) | texts)

    def _columns(self, name: str, batch: Any, known: Mapping[str, Any], texts: Texts) -> dict[str, Any]:
        form = self._forms.get(name)
        if form is None:
            return super()._columns(name, batch, known, texts)
        pa, functions, blobs = self._pa, self._functions, batch.column(name)
        if form == "utf8":
            shown = blobs.cast(pa.string(), safe=False)
            if not functions.all(functions.ascii_is_printable(shown)).as_py():  # a tenth of the expression's time
                shown = functions.if_else(functions.match_substring_regex(blobs, _TEXT), shown, None)
        else:
            show, type_ = _CELLS[form], getattr(pa, form) if form.startswith("int") else pa.string
            shown = pa.array([None if blob is None else show(blob) for blob in blobs.to_pylist()], type_())
        if FORMS[form]:
            return {name + FORMS[form]: shown}
        if name in texts:
            shown = functions.coalesce(texts[name], shown)
        return {name: shown, f"{name}_base64": undecoded(pa, blobs, shown)}

    def _opened(self, schema: Any) -> Any:
        if self._out is None:
            self._sink.write((",".join(schema.names) + "\n").encode())
            options = self._pa.csv.WriteOptions(include_header=False)
            self._out = self._pa.csv.CSVWriter(self._sink, schema, write_options=options)
        return self._out
