"""What all pictures share: colours for light and dark pages, the frame, a line of text."""

from __future__ import annotations

from html import escape

_LIGHT = {
    "page": "#ffffff",
    "ink": "#1b1f24",
    "soft": "#5b6470",
    "line": "#d5dae1",
    "frame": "#cfe3f7",
    "crc": "#f8d2dc",
    "attributes": "#fde3bd",
    "time": "#d9efd3",
    "producer": "#e2d8f5",
    "records": "#f3eba9",
    "record": "#e4e8ed",
    "other": "#cdd4dc",
    "good": "#2f9e63",
    "damaged": "#d6336c",
    "unreadable": "#e8590c",
    "preallocated": "#b9c2cc",
    "tail": "#f2b430",
    "edge": "#8a94a1",
    "box": "#f4f6f8",
}
_DARK = {
    "page": "#16191d",
    "ink": "#e8eaed",
    "soft": "#9aa4b0",
    "line": "#343b44",
    "frame": "#1f4669",
    "crc": "#6b2439",
    "attributes": "#6b4a17",
    "time": "#2a5a26",
    "producer": "#4a3a73",
    "records": "#5f5817",
    "record": "#333a43",
    "other": "#48515c",
    "good": "#3fb57a",
    "damaged": "#ff5c93",
    "unreadable": "#ff8a4c",
    "preallocated": "#4a535e",
    "tail": "#ffc94d",
    "edge": "#7d8896",
    "box": "#21262c",
}
_FILLED = ("frame", "crc", "attributes", "time", "producer", "records", "record", "other")
_STATES = ("good", "damaged", "unreadable", "preallocated", "tail")
_MONO = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"
_SANS = "system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif"


def _variables(colours: dict[str, str]) -> str:
    return "".join(f"--{name}:{value};" for name, value in colours.items())


STYLE = (
    f"svg{{{_variables(_LIGHT)}}}"
    f"@media (prefers-color-scheme: dark){{svg{{{_variables(_DARK)}}}}}"
    ".page{fill:var(--page);stroke:var(--line)}"
    f"text{{fill:var(--ink);font:14px {_SANS}}}"
    f".title{{font:600 18px {_SANS}}}.soft{{fill:var(--soft);font-size:13px}}"
    f".byte{{font:13px {_MONO};text-anchor:middle}}"
    f".address{{font:12px {_MONO};fill:var(--soft);text-anchor:end}}"
    ".label{font-size:13px}.mark{font-size:15px}"
    ".edge{fill:none;stroke:var(--edge);stroke-width:1.4}.lazy{stroke-dasharray:4 4}.tip{fill:var(--edge)}"
    ".box{fill:var(--box);stroke:var(--line)}"
    f".package{{font:600 14px {_MONO};text-anchor:middle}}.does{{fill:var(--soft);font-size:12px;text-anchor:middle}}"
    + "".join(f".{name}{{fill:var(--{name})}}" for name in (*_FILLED, *_STATES))
    # a mark in a text has the colour of its field, stronger than a cell's background
    + "".join(f".mark.{name}{{fill:var(--{name});stroke:var(--edge);stroke-width:.6}}" for name in _FILLED)
)


def card(width: float, height: float, title: str, inside: str) -> str:
    """A picture with its own border and background."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" role="img">'
        f"<title>{escape(title)}</title><style>{STYLE}</style>"
        f'<rect class="page" x=".5" y=".5" width="{width - 1:g}" height="{height - 1:g}" rx="10"/>{inside}</svg>\n'
    )


def text(x: float, y: float, words: str, kind: str) -> str:
    return f'<text class="{kind}" x="{x:g}" y="{y:g}">{escape(words)}</text>'
