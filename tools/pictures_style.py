"""What all pictures share: colours for light and dark pages, the frame, a line of text.

A picture is some 400 units wide, so that its text can be read on a phone, where that is about the page's width.
"""

from __future__ import annotations

from html import escape

from kafkarec.ops.explain import field_groups
from kafkarec.support import html_page

WIDTH = 400
_SHOWN = 1.25  # pixels per unit on a wide page
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
    size = f'width="{width * _SHOWN:g}" height="{height * _SHOWN:g}" viewBox="0 0 {width:g} {height:g}"'
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
