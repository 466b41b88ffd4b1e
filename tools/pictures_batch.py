"""Batches byte by byte: a cell for each byte, a colour for each group of fields, the fields below their row.

| picture | the batch |
|---|---|
| batch.svg | the first one of examples/data/txn-0, written by a real broker |
| worked-example.svg | two records without keys, by `kafkarec.encode` |
"""

from __future__ import annotations

import re
import textwrap
from html import escape
from pathlib import Path

from pictures_style import WIDTH, card, marked, text

import kafkarec
from kafkarec.ops.explain import Explanation, Span, explain
from kafkarec.ops.explain.field_groups import group_of

ROOT = Path(__file__).resolve().parent.parent
BROKERS = ROOT / "examples" / "data" / "txn-0" / "00000000000000000000.log"
EXAMPLE = [{"timestamp": 1714000000000, "value": b"hello"}, {"timestamp": 1714000000000, "value": b"world"}]
_PER_ROW, _CELL, _HEIGHT, _LEFT, _LABELS = 8, 43, 28, 38, 17
_CHARACTER = 7  # of a label: its width in a wide font
_MARK = 3.5  # characters
_WORDS = {"crc": "CRC-32C", "timestamp_delta": "time", "offset_delta": "offset", "header_count": "headers"}


def batch() -> str:
    """The broker's batch, up to the row in which its first record ends."""
    return _draw(explain(BROKERS.read_bytes()), "A record batch on a broker's disk", 104)


def worked_example() -> str:
    """All bytes of the worked example."""
    return _draw(explain(kafkarec.encode(EXAMPLE)), "Two records, hello and world", 85)


def _draw(explained: Explanation, title: str, shown: int) -> str:
    data = bytes(explained.sections[0].data)
    parts, labels = [text(16, 28, title, "title")], _labels(explained)
    only = "" if shown == explained.size else f"; the first {shown} bytes"
    y = 31
    for line in textwrap.wrap(explained.headline + only, 58):
        y += 17
        parts.append(text(16, y, line, "soft"))
    y += 12
    spans = [span for span in explained.spans for _ in range(span.length)]
    for row in range(0, shown, _PER_ROW):
        parts.append(text(_LEFT - 6, y + 19, str(row), "address"))
        for at in range(row, min(row + _PER_ROW, shown)):
            parts.append(_cell(spans[at], at, data[at], _LEFT + (at - row) * _CELL, y))
        y += _HEIGHT + 2
        for marks in _wrapped([label for at, label in labels if row <= at < row + _PER_ROW]):
            parts.append(marked(_LEFT, y + 13, marks))
            y += _LABELS
        y += 8
    return card(WIDTH, y + 6, f"{title}, byte by byte", "".join(parts))


def _cell(span: Span, at: int, byte: int, x: float, y: float) -> str:
    last = span.start + span.length - 1
    title = f"{span.path}: byte {at}" if span.length == 1 else f"{span.path}: bytes {span.start} to {last}"
    return (
        f'<g><title>{escape(title)}</title><rect class="{group_of(span)}" x="{x}" y="{y}" '
        f'width="{_CELL - (2 if at == last else 0)}" height="{_HEIGHT}"/>'
        f"{text(x + _CELL / 2, y + 19, f'{byte:02x}', 'byte')}</g>"
    )


def _labels(explained: Explanation) -> list[tuple[int, tuple[str, str]]]:
    """(first byte, (group, words)) of each field."""
    return [(span.start, (group_of(span), _words(span))) for span in explained.spans]


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


def _wrapped(labels: list[tuple[str, str]]) -> list[list[tuple[str, str]]]:
    """The labels in lines that fit below the cells."""
    lines: list[list[tuple[str, str]]] = []
    left = 0.0
    for group, words in labels:
        needed = (len(words) + _MARK) * _CHARACTER
        if not lines or needed > left:
            lines.append([])
            left = WIDTH - _LEFT - 10
        lines[-1].append((group, words))
        left -= needed
    return lines
