"""growth.svg: how time and memory of the operations grow with their input, from the tables of benchmarks/GROWTH.md."""

from __future__ import annotations

import math
import re
from pathlib import Path

from pictures_style import WIDTH, card, marked, text

ROOT = Path(__file__).resolve().parent.parent
PATH = ROOT / "docs" / "pictures" / "growth.svg"
TABLES = ROOT / "benchmarks" / "GROWTH.md"
_COLOURS = {
    "decode": "good",
    "stream": "tail",
    "verify": "unreadable",
    "salvage": "damaged",
    "cat": "unchecked",
    "convert": "preallocated",
}
_CELL = re.compile(r"([\d.]+) s, (\d+) MiB")
_RANGES = ("s", 0.1, 100.0), ("MiB", 8.0, 1024.0)
_LEFT, _PANEL, _GAP, _HEIGHT, _TOP, _STEP = 12, 180, 16, 62, 96, 98

Points = list[tuple[float, float]]  # (size, value)


def dimensions() -> dict[str, dict[str, tuple[Points, Points]]]:
    """dimension -> operation -> its seconds, and its MiB."""
    found: dict[str, dict[str, tuple[Points, Points]]] = {}
    for table in re.findall(r"(?:^\|.*\n)+", TABLES.read_text(encoding="utf-8"), re.MULTILINE):
        first, _, *rows = ([cell.strip() for cell in line.strip("| ").split(" | ")] for line in table.splitlines())
        sizes = [float(cell.replace(",", "")) for cell in first[1:] if cell.replace(",", "").isdigit()]
        for name, *cells in rows if sizes else ():
            pairs = [_CELL.fullmatch(cell) for cell in cells[: len(sizes)]]
            values = [[float(pair[at]) for pair in pairs if pair] for at in (1, 2)]
            times, memory = (list(zip(sizes, one, strict=True)) for one in values)
            found.setdefault(first[0], {})[name.split(",")[0]] = times, memory
    return found


def _panel(x: float, y: float, lines: dict[str, Points], unit: str, low: float, high: float) -> str:
    """Curves on two logarithmic axes: y from `low` to `high`, below that at the bottom; dashed: slope 1."""
    sizes = [math.log(size) for points in lines.values() for size, _ in points]
    start, across = min(sizes), max(sizes) - min(sizes)
    up = _HEIGHT / math.log(high / low)

    def place(size: float, value: float) -> str:
        right = (math.log(size) - start) / across * _PANEL
        return f"{x + right:.1f} {y + _HEIGHT - math.log(min(max(value, low), high) / low) * up:.1f}"

    rise = min(across, math.log(high / low))
    drawn = [
        f'<rect class="box" x="{x}" y="{y}" width="{_PANEL}" height="{_HEIGHT}"/>',
        f'<path class="edge lazy" d="M {x} {y + _HEIGHT} l {rise / across * _PANEL:.1f} {-rise * up:.1f}"/>',
    ]
    for name, points in lines.items():
        path = " L ".join(place(*point) for point in points)
        drawn.append(f'<path class="curve {_COLOURS[name]}" d="M {path}"/>')
    drawn.append(text(x + 4, y + 13, f"{high:g} {unit}", "small"))
    return "".join(drawn)


def growth() -> str:
    """A row for each dimension: processor time at the left, peak memory at the right."""
    found = dimensions()
    names = list(_COLOURS.items())
    parts = [
        text(_LEFT, 28, "Time and memory by size of input", "title"),
        *(
            marked(_LEFT, 48 + 18 * row, [(colour, name) for name, colour in names[3 * row : 3 * row + 3]])
            for row in (0, 1)
        ),
    ]
    for row, (dimension, operations) in enumerate(found.items()):
        y = _TOP + row * _STEP
        sizes = [size for size, _ in next(iter(operations.values()))[0]]
        parts.append(text(_LEFT, y, f"{dimension}: {sizes[0]:,.0f} to {sizes[-1]:,.0f}", "label"))
        for at, (unit, low, high) in enumerate(_RANGES):
            lines = {name: both[at] for name, both in operations.items()}
            parts.append(_panel(_LEFT + at * (_PANEL + _GAP), y + 8, lines, unit, low, high))
    bottom = _TOP + len(found) * _STEP
    said = "Processor time from 0.1 s, peak memory from 8 MiB.", "Both axes are logarithmic. Dashed: in proportion."
    parts += [text(_LEFT, bottom + 18 * row, words, "soft") for row, words in enumerate(said)]
    return card(WIDTH, bottom + 32, "Time and memory by size of input", "".join(parts))
