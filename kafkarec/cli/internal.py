"""Internal topics in `cat`: keys and values as objects, by the name of the partition's folder (`--raw`: as bytes).

    {"key": {"type": "OffsetCommit", "data": {"group": "g", ...}},
     "value": {"type": "OffsetCommit", "version": 4, "data": {"offset": 10, ...}}}

The data is what kafka-dump-log's decoders print. What is no message of Kafka 4.3 is shown as any other bytes are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from kafkarec import messages
from kafkarec.messages import json_view
from kafkarec.storage import Segment

from .jsonlines import whole_cell
from .selection import Piece

NEEDED = ("is_control", "key", "value")


class Decoding:
    """Which columns are shown decoded; `forms` says how what cannot be is shown."""

    def __init__(self, columns: Sequence[str], forms: Mapping[str, str]) -> None:
        self._columns = columns
        self._forms = forms

    def cells(self, piece: Piece) -> dict[str, list[str]]:
        """For each decoded column a whole cell, `"name":text`, per row of the chunk (empty for rows not chosen)."""
        topic = piece.source.topic
        if topic is None or topic not in messages.TOPICS:
            return {}
        columns = piece.chunk.columns
        controls = columns["is_control"].numbers()
        keys, values = columns["key"].blobs(), columns["value"].blobs()
        cells = {name: [""] * piece.chunk.length for name in self._columns}
        for row in range(piece.chunk.length) if piece.rows is None else piece.rows:
            stored = {"key": keys[row], "value": values[row]}
            shown = {} if controls[row] else messages.read(topic, stored["key"], stored["value"]).as_json()
            for name in self._columns:
                tree = shown.get(name)
                cells[name][row] = (
                    whole_cell(name, stored[name], self._forms[name])
                    if tree is None
                    else f'"{name}":{json_view.text(tree)}'
                )
        return cells


def wanted(sources: Iterable[Segment], names: Sequence[str], forms: Mapping[str, str]) -> Decoding | None:
    """None when no source is an internal topic, or no column of theirs is shown in its plain form."""
    columns = [name for name in ("key", "value") if name in names and forms[name] == "utf8"]
    if not columns or not any(source.topic in messages.TOPICS for source in sources):
        return None
    return Decoding(columns, forms)
