"""batch.svg: the first batch of examples/data/txn-0, written by a real broker, byte by byte: 8 cells in a row, a colour
for each group of fields, and the fields that begin in a row below it."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable
from html import escape
from pathlib import Path
from typing import NamedTuple

from pictures_style import WIDTH, card, marked, text

from kafkarec.ops.explain import Span, explain
from kafkarec.ops.explain.field_groups import group_of

ROOT = Path(__file__).resolve().parent.parent
BROKERS = ROOT / "examples" / "data" / "txn-0" / "00000000000000000000.log"
_SHOWN = 104  # bytes: up to the row in which the first record ends
_WORDS = {"crc": "CRC-32C", "timestamp_delta": "time", "offset_delta": "offset", "header_count": "headers"}
_PER_ROW, _CELL, _HEIGHT, _LEFT, _LABELS = 8, 43, 28, 38, 17
_CHARACTER = 7  # of a label: its width in a wide font
_MARK = 3.5  # characters


class Field(NamedTuple):
    """A field of a batch; without words it has no label."""

    start: int
    length: int
    path: str
    group: str
    words: str


def batch() -> str:
    explained = explain(BROKERS.read_bytes())
    title = "A record batch on a broker's disk"
    about = f"{explained.headline}; the first {_SHOWN} bytes"
    fields = [Field(span.start, span.length, span.path, group_of(span), _words(span)) for span in explained.spans]
    drawn, end = _panel(title, about, bytes(explained.sections[0].data), fields)
    return card(WIDTH, end, f"{title}, byte by byte", drawn)


def _panel(title: str, about: str, data: bytes, fields: Iterable[Field]) -> tuple[str, float]:
    """(the first bytes of `data` below a title and a sentence, where the drawing ends)."""
    parts = [text(16, 28, title, "title")]
    y: float = 31
    for line in textwrap.wrap(about, 58):
        y += 17
        parts.append(text(16, y, line, "soft"))
    y += 12
    found = list(fields)
    field_of = [field for field in found for _ in range(field.length)]
    for row in range(0, _SHOWN, _PER_ROW):
        parts.append(text(_LEFT - 6, y + 19, str(row), "address"))
        for at in range(row, min(row + _PER_ROW, _SHOWN)):
            parts.append(_cell(field_of[at], at, data[at], _LEFT + (at - row) * _CELL, y))
        y += _HEIGHT + 2
        for marks in _wrapped([field for field in found if row <= field.start < row + _PER_ROW and field.words]):
            parts.append(marked(_LEFT, y + 13, marks))
            y += _LABELS
        y += 8
    return "".join(parts), y + 6


def _cell(field: Field, at: int, byte: int, x: float, y: float) -> str:
    last = field.start + field.length - 1
    title = f"{field.path}: byte {at}" if field.length == 1 else f"{field.path}: bytes {field.start} to {last}"
    return (
        f'<g><title>{escape(title)}</title><rect class="{field.group}" x="{x}" y="{y}" '
        f'width="{_CELL - (2 if at == last else 0)}" height="{_HEIGHT}"/>'
        f"{text(x + _CELL / 2, y + 19, f'{byte:02x}', 'byte')}</g>"
    )


def _wrapped(fields: list[Field]) -> list[list[tuple[str, str]]]:
    """The labels in lines that fit below the cells."""
    lines: list[list[tuple[str, str]]] = []
    left = 0.0
    for field in fields:
        needed = (len(field.words) + _MARK) * _CHARACTER
        if not lines or needed > left:
            lines.append([])
            left = WIDTH - _LEFT - 10
        lines[-1].append((field.group, field.words))
        left -= needed
    return lines


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
