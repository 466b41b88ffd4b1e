"""Keys and values of internal topics as objects, for `cat` (`--raw` prints bytes). The folder's name has the topic.

    {"key": {"type": "OffsetCommit", "data": {"group": "g", ...}},
     "value": {"type": "OffsetCommit", "version": 4, "data": {"offset": 10, ...}}}

The data is what kafka-dump-log's decoders print. Bytes that are not a message are printed as in other topics.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from kafkarec import internal_topics
from kafkarec.internal_topics.dump_text import json_text
from kafkarec.logs import Segment
from kafkarec.storage.segment_file import SegmentFile
from kafkarec.tables.records import RecordColumns

NEEDED = ("is_control", "key", "value")


class InternalTopicDecoder:
    """Decodes the columns `columns` (key, value) of internal topics to JSON text."""

    def __init__(self, columns: Sequence[str]) -> None:
        self.columns = columns

    def texts(self, source: SegmentFile, table: RecordColumns) -> dict[str, list[str | None]]:
        """Return, for each decoded column, JSON text per row; None for bytes that are not a message."""
        topic = source.topic
        if topic is None or topic not in internal_topics.TOPICS:
            return {}
        texts: dict[str, list[str | None]] = {name: [] for name in self.columns}
        for is_control, key, value in zip(*map(table.column, NEEDED), strict=True):
            shown = {} if is_control else internal_topics.read(topic, key, value).as_json()
            for name in self.columns:
                tree = shown.get(name)
                texts[name].append(None if tree is None else json_text(tree))
        return texts


def is_internal(source: Segment) -> bool:
    return source.topic in internal_topics.TOPICS


def decoder_for(
    sources: Iterable[Segment], names: Sequence[str], forms: Mapping[str, str]
) -> InternalTopicDecoder | None:
    """Return the decoder; None if no source is an internal topic, or if no key or value column is printed as utf8."""
    columns = [name for name in ("key", "value") if name in names and forms[name] == "utf8"]
    if not columns or not any(map(is_internal, sources)):
        return None
    return InternalTopicDecoder(columns)
