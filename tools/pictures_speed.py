"""speed.svg: how many times faster than each peer kafkarec decodes, from the table of benchmarks/RESULTS.md."""

from __future__ import annotations

import re
from pathlib import Path

from pictures_style import WIDTH, card, text

ROOT = Path(__file__).resolve().parent.parent
PATH = ROOT / "docs" / "pictures" / "speed.svg"
RESULTS = ROOT / "benchmarks" / "RESULTS.md"
TITLE = "kafkarec decodes so many times faster than:"
_NAMES = {"none": "no codec", "none_h3": "no codec, 3 headers", "none_small": "no codec, 10 bytes"}
_LEFT, _LABELS, _PANEL, _BAR, _ROW, _TOP = 12, 122, 91, 48, 23, 92


def ratios() -> tuple[list[str], dict[str, list[float]]]:
    """(names of the workloads, the mean last; peer -> how many times faster)."""
    table = RESULTS.read_text(encoding="utf-8").split(f"\n{TITLE}\n\n")[1].split("\n\n")[0].splitlines()
    rows = [[cell.strip() for cell in line.strip("| ").split(" | ")] for line in table]
    peers = {row[0]: [float(cell.rstrip("x")) for cell in row[1:]] for row in rows[2:]}
    return rows[0][-len(next(iter(peers.values()))) :], peers


def speed() -> str:
    """A panel for each peer, each with its own scale from 0; a bar for each workload, a line at 1."""
    names, peers = ratios()
    bottom = _TOP + len(names) * _ROW
    (version,) = re.findall(r"kafkarec (\d\S*);", RESULTS.read_text(encoding="utf-8"))
    parts = [
        text(_LEFT, 28, "Decoding: times faster than the peers", "title"),
        text(_LEFT, 48, f"kafkarec {version}, one thread, every field of every record", "soft"),
    ]
    for row, name in enumerate(names):
        y, label = _TOP + row * _ROW + 16, _NAMES.get(name, name)
        parts.append(f'<text class="small" x="{_LABELS}" y="{y}" text-anchor="end">{label}</text>')
    for panel, (peer, found) in enumerate(peers.items()):
        x, scale = _LABELS + 6 + panel * _PANEL, _BAR / max(found)
        parts.append(text(x, _TOP - 8, peer, "small"))
        for row, ratio in enumerate(found):
            y, width = _TOP + row * _ROW, ratio * scale
            kind = "tail" if row == len(found) - 1 else "good"
            parts.append(f'<rect class="{kind}" x="{x}" y="{y + 3}" width="{width:.1f}" height="{_ROW - 6}"/>')
            number = f"{ratio:.1f}x" if ratio < 100 else f"{ratio:.0f}x"
            parts.append(text(x + max(width, scale) + 4, y + 16, number, "small"))
        parts.append(f'<path class="edge lazy" d="M {x + scale:.1f} {_TOP} V {bottom}"/>')
    parts.append(text(_LEFT, bottom + 20, "dashed: as fast as the peer. Each panel has its own scale.", "soft"))
    return card(WIDTH, bottom + 32, "Times faster than the peers", "".join(parts))
