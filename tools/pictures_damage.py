"""damage.svg and terminal.svg: what verify and salvage say of a file that is damaged here."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from html import escape
from pathlib import Path

from pictures_style import WIDTH, card, marked, text

import kafkarec
from kafkarec.ops.verify.report import Report
from kafkarec.ops.verify.report_data import GOOD, FileReport
from kafkarec.ops.verify.report_document import SIGNS
from kafkarec.report import Bar

ROOT = Path(__file__).resolve().parent.parent
_LOG = f"{0:020}.log"
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
_STATES = {sign: state for state, sign in SIGNS.items()}


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


# ---- damage.svg ----------------------------------------------------------------------------------------------


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


# ---- terminal.svg --------------------------------------------------------------------------------------------


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
        inside = "".join(f'<tspan class="{_STATES[sign]}">{escape(run)}</tspan>' for run, sign in runs)
        size = f'textLength="{_BAR}" lengthAdjust="spacingAndGlyphs"'
        return f'<text class="line" x="{_LEFT}" y="{y:g}" {size}>{inside}</text>'
    return text(_LEFT, y, words, kind)
