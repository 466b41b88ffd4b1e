"""Batches byte by byte.

| picture | the batch |
|---|---|
| batch.svg | the first one of examples/data/txn-0, written by a real broker |
| worked-example.svg | two records without keys, by `kafkarec.encode` |
"""

from __future__ import annotations

import re
from pathlib import Path

from pictures_bytes import Field, panel
from pictures_style import WIDTH, card

import kafkarec
from kafkarec.ops.explain import Explanation, Span, explain
from kafkarec.ops.explain.field_groups import group_of

ROOT = Path(__file__).resolve().parent.parent
BROKERS = ROOT / "examples" / "data" / "txn-0" / "00000000000000000000.log"
EXAMPLE = [{"timestamp": 1714000000000, "value": b"hello"}, {"timestamp": 1714000000000, "value": b"world"}]
_WORDS = {"crc": "CRC-32C", "timestamp_delta": "time", "offset_delta": "offset", "header_count": "headers"}


def batch() -> str:
    """The broker's batch, up to the row in which its first record ends."""
    return _draw(explain(BROKERS.read_bytes()), "A record batch on a broker's disk", 104)


def worked_example() -> str:
    """All bytes of the worked example."""
    return _draw(explain(kafkarec.encode(EXAMPLE)), "Two records, hello and world", 85)


def _draw(explained: Explanation, title: str, shown: int) -> str:
    only = "" if shown == explained.size else f"; the first {shown} bytes"
    fields = [Field(span.start, span.length, span.path, group_of(span), _words(span)) for span in explained.spans]
    data = bytes(explained.sections[0].data)
    drawn, end = panel(title, explained.headline + only, data, fields, shown, 0)
    return card(WIDTH, end, f"{title}, byte by byte", drawn)


def _words(span: Span) -> str:
    record, _, name = span.path.rpartition(".")
    value = span.value
    if isinstance(value, bytes):
        value = f'"{value.decode()}"'
    elif name.endswith("_delta") and record:
        value = f"+{value}"
    elif isinstance(value, str) and record:
        value = int(value, 16)
    number = re.sub(r"records\[(\d+)\]", r"record \1: ", record) if name == "length" else ""
    return f"{number}{_WORDS.get(name, name.replace('_', ' '))} {value}"
