"""The writer of `cat` for JSON Lines, and what all writers show. Arrow and Parquet: cat_arrow; CSV: cat_csv."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import kafkarec
from kafkarec.format import control
from kafkarec.storage.segment_file import SegmentFile
from kafkarec.tables.records import RecordColumns

from . import json_lines
from .cat_internal_topics import NEEDED, InternalTopicDecoder
from .output_files import Sink

CONSTANTS = ("topic", "partition", "file")
CONTROL = "control"  # a column that no decoder has: the control record as JSON


def constants(source: SegmentFile) -> dict[str, Any]:
    """Return the columns topic, partition and file, which are the same for all records of a segment."""
    # A path that is not UTF-8 is printed with U+FFFD, as JSON cannot represent its bytes.
    file = source.path.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    return {"topic": source.topic, "partition": source.partition, "file": file}


class JsonWriter:
    """Writes JSON Lines as `cat --help` describes them. `decoder` decodes the messages of internal topics."""

    timestamp_unit = "int64"

    def __init__(
        self,
        sink: Sink,
        names: Sequence[str],
        forms: Mapping[str, str],
        decoder: InternalTopicDecoder | None,
        iso_times: bool,
    ) -> None:
        self._sink = sink
        self._decoder = decoder
        self._names = list(names)
        self._forms = forms
        self._iso_times = iso_times
        self.needed_columns = needed_for_texts(names, decoder)

    def write(self, source: SegmentFile, table: RecordColumns) -> None:
        """Write records of a segment."""
        lines = json_lines.render(
            table,
            self._names,
            constants=constants(source),
            forms=self._forms,
            decoded=json_texts(self._names, self._decoder, source, table),
            iso_times=self._iso_times,
        )
        self._sink.write(lines)
        self._sink.flush()

    def finish(self, decode: Mapping[str, Any]) -> None:
        """End the output."""
        self._sink.flush()


def needed_for_texts(names: Sequence[str], decoder: InternalTopicDecoder | None) -> Sequence[str]:
    """Return the columns that `json_texts` reads."""
    return NEEDED if CONTROL in names or decoder else ()


def json_texts(
    names: Sequence[str], decoder: InternalTopicDecoder | None, source: SegmentFile, table: RecordColumns
) -> dict[str, Sequence[str | None]]:
    """Return the columns that are JSON text: decoded keys and values, and control records, None for other rows."""
    texts: dict[str, Sequence[str | None]] = dict(decoder.texts(source, table)) if decoder else {}
    if CONTROL in names:
        rows = zip(*map(table.column, NEEDED), strict=True)
        texts[CONTROL] = [_control_cell(key, value) if is_control else None for is_control, key, value in rows]
    return texts


def _control_cell(key: bytes | None, value: bytes | None) -> str:
    try:
        return json.dumps(control.as_json(control.parse(key, value)), ensure_ascii=False, separators=(",", ":"))
    except kafkarec.KafkaRecordError as error:
        return json.dumps({"unreadable": str(error)})
