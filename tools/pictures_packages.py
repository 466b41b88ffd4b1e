"""The packages and what each may import, drawn from docs/packages.toml; importers are above."""

from __future__ import annotations

import textwrap

import imports
from pictures_style import card, text

_W, _H, _GAP_X, _GAP_Y, _LEFT, _TOP = 164, 58, 20, 46, 24, 74
_LINE = 26  # characters of a box's text


def edges() -> dict[str, set[str]]:
    """Row -> the rows that it may import."""
    rows = imports.table()
    names = {row.name for row in rows}
    found: dict[str, set[str]] = {}
    for row in rows:
        wanted = [*row.imports, *(entry.partition(" -> ")[2] for entry in row.also)]
        found[row.name] = {name.split(".")[0] for name in wanted} & names - {row.name}
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
    members = {level: [row for row in rows if levels[row.name] == level] for level in range(highest + 1)}
    width = max(len(each) for each in members.values()) * (_W + _GAP_X) - _GAP_X + 2 * _LEFT
    places = {}
    for level, each in members.items():
        start = (width - len(each) * (_W + _GAP_X) + _GAP_X) / 2
        for at, row in enumerate(each):
            places[row.name] = (start + at * (_W + _GAP_X), _TOP + (highest - level) * (_H + _GAP_Y))
    drawn = [
        _arrow(places[name], places[other], "edge")
        for name, others in reduced(found).items()
        for other in sorted(others)
    ]
    for row in rows:
        targets = {entry.partition(" -> ")[2].split(".")[0] for entry in row.upward}
        drawn += [_arrow(places[row.name], places[target], "edge lazy") for target in sorted(targets)]
    for row in rows:
        x, y = places[row.name]
        drawn.append(f'<rect class="box" x="{x:.1f}" y="{y:.1f}" width="{_W}" height="{_H}" rx="8"/>')
        drawn.append(text(round(x + _W / 2, 1), y + 19, row.name, "package"))
        for at, line in enumerate(_short(row.holds)):
            drawn.append(text(round(x + _W / 2, 1), y + 35 + at * 12, line, "does"))
    note = "an arrow: may import; what follows from two arrows is left out; dashed: only when a method is called"
    head = text(_LEFT, 32, "The packages and their direction", "title") + text(_LEFT, 52, note, "soft")
    return card(width, _TOP + (highest + 1) * (_H + _GAP_Y), "Packages with directions", head + "".join(drawn))


def _short(words: str) -> list[str]:
    """The first two lines of what a package holds, up to its first colon, semicolon or comma that ends a phrase."""
    lines = textwrap.wrap(words.split(":")[0].split(";")[0], _LINE)
    return lines[:2] if len(lines) < 3 else [lines[0], textwrap.shorten(" ".join(lines[1:]), _LINE, placeholder=" ...")]


def _arrow(start: tuple[float, float], end: tuple[float, float], kind: str) -> str:
    down = start[1] < end[1]
    x1, y1 = start[0] + _W / 2, start[1] + (_H if down else 0)
    x2, y2 = end[0] + _W / 2, end[1] + (0 if down else _H)
    bend, tip = (y2 - y1) / 2, 7 if down else -7
    line = f"M {x1:.1f} {y1:.1f} C {x1:.1f} {y1 + bend:.1f} {x2:.1f} {y2 - bend:.1f} {x2:.1f} {y2 - tip:.1f}"
    head = f"M {x2:.1f} {y2:.1f} l -4 {-tip} h 8 z"
    return f'<path class="{kind}" d="{line}"/><path class="tip" d="{head}"/>'
