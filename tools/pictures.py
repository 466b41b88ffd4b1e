"""The pictures of docs/pictures, in colours for light and dark pages.

batch.svg      the first batch of examples/data/txn-0, written by a real broker: 8 bytes in a row, a colour
               for each group of fields, and the fields that begin in a row below it
damage.svg     verify's own map of a file that is damaged here, with its message for each range
terminal.svg   what verify and salvage print of it

A picture is some 400 units wide, so that its text can be read on a phone, where that is about the page's width.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterable, Iterator
from html import escape
from pathlib import Path
from typing import NamedTuple

import kafkarec
from kafkarec.ops.explain import Span, explain, field_groups
from kafkarec.ops.verify.report import Report
from kafkarec.ops.verify.report_data import GOOD, FileReport
from kafkarec.ops.verify.report_document import SIGNS
from kafkarec.report import Bar
from kafkarec.support import html_page

ROOT = Path(__file__).resolve().parent.parent
_LOG = f"{0:020}.log"
WIDTH = 400
_SCALE = 1.25  # pixels per unit on a wide page
_COLOURS = {
    **html_page.COLOURS,
    **field_groups.COLOURS,
    "page": html_page.COLOURS["card"],
    "edge": ("#8a94a1", "#7d8896"),
}
_STATES = ("good", "damaged", "unreadable", "unchecked", "preallocated", "tail")
_MONO = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"
_SANS = "system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif"
_STYLE = {
    ".page": "fill:var(--page);stroke:var(--line)",
    "text": f"fill:var(--ink);font:13px {_SANS}",
    ".title": f"font:600 16px {_SANS}",
    ".soft": "fill:var(--soft);font-size:12px",
    ".label": "font-size:12.5px",
    ".mark": "font-size:14px",
    ".byte": f"font:14px {_MONO};text-anchor:middle",
    ".address": f"font:11.5px {_MONO};fill:var(--soft);text-anchor:end",
    ".line": f"font:11.5px {_MONO};white-space:pre",
    ".command": "font-weight:700",
    **{f".{name}": f"fill:var(--{name})" for name in (*field_groups.GROUPS, *_STATES)},
    # a mark in a text has the colour of its field, with an edge
    **{f".mark.{name}": "stroke:var(--edge);stroke-width:.6" for name in field_groups.GROUPS},
}


def card(width: float, height: float, title: str, inside: str) -> str:
    """A picture with its own border and background, and only the rules and colours that it uses."""
    rules = "".join(f"{name}{{{rule}}}" for name, rule in _STYLE.items() if _is_used(name, inside))
    used = {name: both for name, both in _COLOURS.items() if f"var(--{name})" in rules + _STYLE[".page"]}
    style = html_page.variables(used, "svg").replace("\n", "") + f".page{{{_STYLE['.page']}}}{rules}"
    size = f'width="{width * _SCALE:g}" height="{height * _SCALE:g}" viewBox="0 0 {width:g} {height:g}"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">'
        f"<title>{escape(title)}</title><style>{style}</style>"
        f'<rect class="page" x=".5" y=".5" width="{width - 1:g}" height="{height - 1:g}" rx="10"/>{inside}</svg>\n'
    )


def _is_used(name: str, inside: str) -> bool:
    words = {word for classes in inside.split('class="')[1:] for word in classes.split('"')[0].split()}
    return name == "text" or set(name.strip(".").split(".")) <= words


def text(x: float, y: float, words: str, kind: str) -> str:
    return f'<text class="{kind}" x="{x:g}" y="{y:g}">{escape(words)}</text>'


def marked(x: float, y: float, parts: list[tuple[str, str]]) -> str:
    """A line of (colour, words), each behind a mark of its colour."""
    spans = "".join(
        f'<tspan class="mark {colour}" dx="{9 if at else 0}">■</tspan><tspan dx="4">{escape(words)}</tspan>'
        for at, (colour, words) in enumerate(parts)
    )
    return f'<text class="label" x="{x:g}" y="{y:g}">{spans}</text>'


# ---- batch.svg

_BYTES = 104  # bytes: up to the row in which the first record ends
_NAMES = {"crc": "CRC-32C", "timestamp_delta": "time", "offset_delta": "offset", "header_count": "headers"}
_PER_ROW, _CELL, _HEIGHT, _CELLS_AT, _LABELS = 8, 43, 28, 38, 17
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
    explained = explain((ROOT / "examples" / "data" / "txn-0" / _LOG).read_bytes())
    title = "A record batch on a broker's disk"
    about = f"{explained.headline}; the first {_BYTES} bytes"
    fields = [
        Field(span.start, span.length, span.path, field_groups.group_of(span), _label(span)) for span in explained.spans
    ]
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
    for row in range(0, _BYTES, _PER_ROW):
        parts.append(text(_CELLS_AT - 6, y + 19, str(row), "address"))
        for at in range(row, min(row + _PER_ROW, _BYTES)):
            parts.append(_cell(field_of[at], at, data[at], _CELLS_AT + (at - row) * _CELL, y))
        y += _HEIGHT + 2
        for marks in _label_lines([field for field in found if row <= field.start < row + _PER_ROW and field.words]):
            parts.append(marked(_CELLS_AT, y + 13, marks))
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


def _label_lines(fields: list[Field]) -> list[list[tuple[str, str]]]:
    """The labels in lines that fit below the cells."""
    lines: list[list[tuple[str, str]]] = []
    left = 0.0
    for field in fields:
        needed = (len(field.words) + _MARK) * _CHARACTER
        if not lines or needed > left:
            lines.append([])
            left = WIDTH - _CELLS_AT - 10
        lines[-1].append((field.group, field.words))
        left -= needed
    return lines


def _label(span: Span) -> str:
    record, _, name = span.path.rpartition(".")
    value = span.value
    if isinstance(value, bytes):
        value = f'"{value.decode()}"'
    elif name.endswith("_delta") and record:
        value = f"+{value}"
    elif isinstance(value, str) and record:
        value = int(value, 16)
    number = re.sub(r"records\[(\d+)\]", r"record \1: ", record) if name == "length" else ""
    return f"{number}{_NAMES.get(name, name.replace('_', ' '))} {value}"


# ---- damage.svg, terminal.svg

_BROKERS = ROOT / "examples" / "data" / "all-codecs-0" / _LOG
_DATA = "logs"
_LEFT, _BAR = 16, WIDTH - 32
# command -> how the lines of its output begin that are shown
_COMMANDS = {
    f"kafkarec verify {_DATA}": ("DAMAGED", f"  {_LOG}", "  |", "    bytes", "next"),
    f"kafkarec salvage {_DATA}/orders-0 -o rescued": ("orders-0", "  lost"),
    "kafkarec verify rescued": ("NOT DAMAGED",),
}
_KINDS = {"$": "line command", "DAMAGED": "line damaged", "NOT DAMAGED": "line good"}
_NOTE = "for a damaged copy of a real broker's segment; shortened"
_COLUMNS, _LINE = 53, 15.5
_STATE_OF = {sign: state for state, sign in SIGNS.items()}


def broken_file(folder: Path) -> Path:
    """A data folder with a segment of a real broker: a flipped bit, a page of zeros, a truncated end."""
    data = bytearray(_BROKERS.read_bytes())
    data[9_000] ^= 0x10
    data[20_480:24_576] = bytes(4096)
    path = folder / _DATA / "orders-0" / _LOG
    path.parent.mkdir(parents=True)
    path.write_bytes(data[:-300])
    return path


def _report() -> Report:
    with tempfile.TemporaryDirectory() as name:
        return kafkarec.verify(broken_file(Path(name)))


def damage() -> str:
    """verify's own map of the file, with its message for each range below it."""
    (file,) = _report().partitions[0].files
    bar = Bar("", [(one.state, one.length) for one in file.ranges], is_of_file=True)
    size = f'x="{_LEFT}" y="78" width="{_BAR}" height="40"'
    parts = [
        text(_LEFT, 28, "A damaged segment, as verify sees it", "title"),
        text(_LEFT, 48, f"{file.size} bytes, {file.batches} good batches, {file.records} records", "soft"),
        text(_LEFT, 70, "byte 0", "soft"),
        f'<text class="soft" x="{_LEFT + _BAR}" y="70" text-anchor="end">byte {file.size - 1}</text>',
        bar.drawn().replace("<svg ", f"<svg {size} "),
    ]
    y = 143
    for state, words, more in _places(file):
        parts.append(marked(_LEFT, y, [(state, words)]))
        if more:
            y += 17
            parts.append(text(_LEFT + 16, y, more, "soft"))
        y += 23
    return card(WIDTH, y - 6, "A damage map", "".join(parts))


def _places(file: FileReport) -> Iterator[tuple[str, str, str]]:
    """(state, range, damage) of every range that is not good."""
    damage_at = {one.position: one for one in file.damage}
    for one in file.ranges:
        if one.state != GOOD:
            found = damage_at.get(one.position)
            more = f"{found.reason}, offsets {found.lost_from} to {found.lost_to} lost" if found else ""
            yield one.state, f"bytes {one.position} to {one.position + one.length - 1}: {one.state}", more


def terminal() -> str:
    """The commands and the most important lines that they print, wrapped."""
    parts, y = [], 4.0
    for command, lines in _printed().items():
        y += _LINE / 2
        for line in [f"$ {command}", *lines]:
            kind = next((kind for start, kind in _KINDS.items() if line.startswith(start)), "line")
            for words in _wrapped(line):
                y += _LINE
                parts.append(_drawn(words, kind, y))
    parts.append(text(_LEFT, y + 24, _NOTE, "soft"))
    return card(WIDTH, y + 36, "verify finds the damage, salvage copies what is good", "".join(parts))


def _printed() -> dict[str, list[str]]:
    """command -> its lines."""
    found = {}
    with tempfile.TemporaryDirectory() as name:
        broken_file(Path(name))
        for command, shown in _COMMANDS.items():
            program = [sys.executable, "-m", *command.split()]
            done = subprocess.run(
                program, cwd=name, env={"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False
            )
            found[command] = [line for line in done.stdout.split("\n") if line.startswith(shown)]
            if len(found[command]) < len(shown):
                raise RuntimeError(f"{command}: {done.stdout}{done.stderr}")
    return found


def _wrapped(line: str) -> list[str]:
    """The line in the terminal's width; a map and its legend are two lines."""
    if line.lstrip().startswith("|"):
        bar, _, legend = line.rpartition("|  ")
        return [f"{bar}|", f"  {legend}"]
    indent = " " * (len(line) - len(line.lstrip()) + 2)
    return textwrap.wrap(line, _COLUMNS, subsequent_indent=indent, break_on_hyphens=False) or [""]


def _drawn(words: str, kind: str, y: float) -> str:
    """A line; a map is as wide as the terminal, and its signs have the colours of their states."""
    if words.lstrip().startswith("|"):
        runs = re.findall(r"(([^|\s])\2*)", words)
        inside = "".join(f'<tspan class="{_STATE_OF[sign]}">{escape(run)}</tspan>' for run, sign in runs)
        size = f'textLength="{_BAR}" lengthAdjust="spacingAndGlyphs"'
        return f'<text class="line" x="{_LEFT}" y="{y:g}" {size}>{inside}</text>'
    return text(_LEFT, y, words, kind)
