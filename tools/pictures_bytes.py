"""Bytes as cells, 16 in a row, a colour for each group of fields, and the fields that begin in a row beside it."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from pictures_style import text

PER_ROW, CELL_W, CELL_H = 16, 29, 30

Span = tuple[int, int, str, str, str]
"""Start, length, path, group, label (empty: none)."""


def cells(data: bytes, spans: Iterable[Span], rows: int, top: float) -> str:
    """The first rows of `data`, of which the spans are the fields in order."""
    parts = []
    shown = min(PER_ROW * rows, len(data))
    labels: dict[int, list[tuple[str, str]]] = {}
    for start, length, path, group, words in spans:
        if start >= shown:
            break
        title = f"{path}: bytes {start} to {start + length - 1}"
        for at in range(start, min(start + length, shown)):
            row, column = divmod(at, PER_ROW)
            x, y = 76 + column * CELL_W, top + row * CELL_H
            parts.append(
                f'<g><title>{escape(title)}</title><rect class="{group}" x="{x + 1}" y="{y + 1}" '
                f'width="{CELL_W - (2 if at == start + length - 1 else 0)}" height="{CELL_H - 3}"/>'
                f"{text(x + CELL_W / 2, y + 19, f'{data[at]:02x}', 'byte')}</g>"
            )
        if words:
            labels.setdefault(start // PER_ROW, []).append((group, words))
    for row in range(-(-shown // PER_ROW)):
        y = top + row * CELL_H + 19
        parts.append(text(66, y, str(row * PER_ROW), "address"))
        parts.append(_labels(562, y, labels.get(row, [])))
    return "".join(parts)


def _labels(x: float, y: float, found: list[tuple[str, str]]) -> str:
    """The fields that begin in a row, each with its colour."""
    spans = "".join(
        f'<tspan class="mark {group}" dx="{10 if at else 0}">■</tspan><tspan dx="4">{escape(words)}</tspan>'
        for at, (group, words) in enumerate(found)
    )
    return f'<text class="label" x="{x}" y="{y}">{spans}</text>'
