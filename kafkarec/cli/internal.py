"""Internal topics in `cat`: keys and values as objects, by the name of the partition's folder (`--raw`: as bytes).

    {"key": {"type": "OffsetCommit", "data": {"group": "g", ...}},
     "value": {"type": "OffsetCommit", "version": 4, "data": {"offset": 10, ...}}}

The data is what kafka-dump-log's decoders print. Bytes that are no message of Kafka 4.3 are shown as in other topics.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from kafkarec import internal_topics
from kafkarec.internal_topics import json_view
from kafkarec.storage import Segment

from .selection import SelectedRows

NEEDED = ("is_control", "key", "value")


class Decoding:
    """Which columns are shown decoded."""

    def __init__(self, columns: Sequence[str]) -> None:
        self._columns = columns

    def texts(self, piece: SelectedRows) -> dict[str, list[str | None]]:
        """For each decoded column its JSON text per row of the piece's table; None where the bytes are no message
        (and for rows not chosen)."""
        topic = piece.source.topic
        if topic is None or topic not in internal_topics.TOPICS:
            return {}
        controls, keys, values = map(piece.table.column, NEEDED)
        texts: dict[str, list[str | None]] = {name: [None] * len(piece.table) for name in self._columns}
        for row in range(len(piece.table)) if piece.rows is None else piece.rows:
            if controls[row]:
                continue
            shown = internal_topics.read(topic, keys[row], values[row]).as_json()
            for name in self._columns:
                tree = shown.get(name)
                if tree is not None:
                    texts[name][row] = json_view.text(tree)
        return texts


def wanted(sources: Iterable[Segment], names: Sequence[str], forms: Mapping[str, str]) -> Decoding | None:
    """None when no source is an internal topic, or no column of theirs is shown in its plain form."""
    columns = [name for name in ("key", "value") if name in names and forms[name] == "utf8"]
    if not columns or not any(source.topic in internal_topics.TOPICS for source in sources):
        return None
    return Decoding(columns)
