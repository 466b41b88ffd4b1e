"""The packages and what each may import, drawn from docs/packages.toml; importers are above."""

from __future__ import annotations

from html import escape
from typing import NamedTuple

import imports
from pictures_style import WIDTH, card, text

_H, _GAP, _TOP, _CHARACTER = 26, 36, 82, 7


class _Box(NamedTuple):
    """A package's box: its left edge, its top, its width."""

    x: float
    y: float
    width: float

    @property
    def middle(self) -> float:
        return self.x + self.width / 2


def edges() -> dict[str, set[str]]:
    """Row -> the rows that it may import."""
    rows = imports.table()
    names = {row.name for row in rows}
    found: dict[str, set[str]] = {}
    for row in rows:
        wanted = [*row.imports, *(entry.partition(" -> ")[2] for entry in row.also)]
        found[row.name] = {imports.row_of(f"kafkarec.{name}") for name in wanted} & names - {row.name}
    return found


def _levels(found: dict[str, set[str]]) -> dict[str, int]:
    """The length of the longest path down from each row."""
    levels: dict[str, int] = {}
    for row in imports.table():  # the table's order: what is imported comes first
        levels[row.name] = 1 + max((levels[name] for name in found[row.name]), default=-1)
    return levels


def _below(found: dict[str, set[str]], name: str) -> set[str]:
    near = found[name]
    return near.union(*(_below(found, one) for one in near)) if near else set()


def reduced(found: dict[str, set[str]]) -> dict[str, set[str]]:
    """The edges without those that follow from two others."""
    return {
        name: {one for one in near if not any(one in _below(found, two) for two in near)}
        for name, near in found.items()
    }


def packages() -> str:
    """Boxes in levels, arrows downwards; dashed: upwards, when a method is called."""
    found, rows = edges(), imports.table()
    levels = _levels(found)
    highest = max(levels.values())
    boxes: dict[str, _Box] = {}
    for level in range(highest + 1):
        names = [row.name for row in rows if levels[row.name] == level]
        widths = [len(name) * _CHARACTER + 12.0 for name in names]
        between = (WIDTH - sum(widths)) / (len(names) + 1)
        x = between
        for name, width in zip(names, widths, strict=True):
            boxes[name] = _Box(x, _TOP + (highest - level) * (_H + _GAP), width)
            x += width + between
    drawn = [
        _arrow(boxes[name], boxes[other], "edge") for name, others in reduced(found).items() for other in sorted(others)
    ]
    for row in rows:
        targets = {entry.partition(" -> ")[2].split(".")[0] for entry in row.upward}
        drawn += [_arrow(boxes[row.name], boxes[target], "edge lazy") for target in sorted(targets)]
    for row in rows:
        x, y, width = boxes[row.name]
        label = text(round(boxes[row.name].middle, 1), y + 17, row.name, "package")
        place = f'x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{_H}"'
        drawn.append(f'<g><title>{escape(row.holds)}</title><rect class="box" {place} rx="6"/>{label}</g>')
    head = text(16, 28, "The packages and their direction", "title")
    head += text(16, 48, "an arrow: may import; what follows from two others is", "soft")
    head += text(16, 64, "left out; dashed: only when a method is called", "soft")
    height = _TOP + highest * (_H + _GAP) + _H + 16
    return card(WIDTH, height, "Packages with directions", head + "".join(drawn))


def _arrow(start: _Box, end: _Box, kind: str) -> str:
    down = start.y < end.y
    x1, y1 = start.middle, start.y + (_H if down else 0)
    x2, y2 = end.middle, end.y + (0 if down else _H)
    bend, tip = (y2 - y1) / 2, 7 if down else -7
    line = f"M {x1:.1f} {y1:.1f} C {x1:.1f} {y1 + bend:.1f} {x2:.1f} {y2 - bend:.1f} {x2:.1f} {y2 - tip:.1f}"
    head = f"M {x2:.1f} {y2:.1f} l -4 {-tip} h 8 z"
    return f'<path class="{kind}" d="{line}"/><path class="tip" d="{head}"/>'
