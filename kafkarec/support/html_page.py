"""One HTML page without a script, a font or an image: light or dark by the system's setting, readable on a phone.

Its Content-Security-Policy forbids to load anything. All text must go through `text`: names of topics and files may
contain any character.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from .text_table import NOTHING, safe

Colours = Mapping[str, tuple[str, str]]
# name -> on a light page, on a dark one. CSS uses each as var(--name).
COLOURS: Colours = {
    "page": ("#f6f7f9", "#14171b"),
    "card": ("#ffffff", "#1d2127"),
    "code": ("#eef1f4", "#282e36"),
    "line": ("#dfe3e8", "#323942"),
    "ink": ("#1b1f24", "#e8eaed"),
    "soft": ("#5b6470", "#9aa4b0"),
    # states of bytes, files and findings
    "good": ("#2f9e63", "#3fb57a"),
    "damaged": ("#d6336c", "#ff5c93"),
    "unreadable": ("#e8590c", "#ff8a4c"),
    "unchecked": ("#8a6fd1", "#a78bfa"),
    "preallocated": ("#b9c2cc", "#4a535e"),
    "tail": ("#f2b430", "#ffc94d"),
    "anomaly": ("#a66a00", "#ffc94d"),
    "note": ("#5b6470", "#9aa4b0"),
}
_HEAD = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
"""
_CSS = """* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink); font: 15px/1.5 system-ui, sans-serif; }
main { max-width: 1120px; margin: 0 auto; padding: 24px 20px 64px; }
header, section { background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: 18px 22px;
  margin: 0 0 16px; }
header { border-left: 8px solid var(--good); }
header.damaged { border-left-color: var(--damaged); }
header.error { border-left-color: var(--unreadable); }
header.anomaly, header.unchecked { border-left-color: var(--tail); }
h1 { font-size: 1.45rem; line-height: 1.3; margin: 2px 0 8px; overflow-wrap: anywhere; }
h2 { font-size: 1.1rem; margin: 0 0 8px; overflow-wrap: anywhere; }
h3 { font: 600 .9rem ui-monospace, monospace; margin: 18px 0 6px; }
h3 small { font: .82rem system-ui, sans-serif; color: var(--soft); margin-left: 8px; }
p { margin: 0 0 6px; overflow-wrap: anywhere; }
.kicker { color: var(--soft); font-size: .8rem; letter-spacing: .06em; text-transform: uppercase; margin: 0; }
.path { color: var(--soft); font: .82rem ui-monospace, monospace; }
pre { margin: 0; padding: 12px 14px; background: var(--code); border-radius: 6px; overflow-x: auto;
  font: .86rem/1.7 ui-monospace, monospace; }
code { background: var(--code); border-radius: 4px; padding: 1px 5px; font: .82em ui-monospace, monospace; }
.legend { color: var(--soft); font-size: .86rem; margin: 4px 4px 16px; }
.legend span { margin-right: 16px; }
.key { display: inline-block; }
.key i { display: inline-block; width: 12px; height: 12px; border-radius: 3px; margin-right: 6px;
  vertical-align: -1px; }
.none { color: var(--soft); }
.wide { overflow-x: auto; margin: 10px 0; }
table { border-collapse: collapse; width: 100%; font-size: .86rem; }
th, td { text-align: left; padding: 5px 10px; border-bottom: 1px solid var(--line); vertical-align: top; }
th { color: var(--soft); font-weight: 600; white-space: nowrap; }
td { overflow-wrap: anywhere; }
td b, td code { white-space: nowrap; }
.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
tbody tr:last-child td { border-bottom: 0; }
@media (max-width: 640px) { main { padding: 10px 8px 40px; } header, section { padding: 14px 12px; }
  h1 { font-size: 1.2rem; } .wide table { min-width: 640px; } }
@media print { body { background: #fff; } section { break-inside: avoid-page; } }
"""


def text(value: object) -> str:
    """The value as text of the page: escaped, without control characters and lone surrogates."""
    from html import escape  # not at the top: its table of entities takes longer than all else of a report in text

    return escape(safe(str(value)))


def page(title: str, body: Iterable[str], css: str = "", colours: Colours | None = None) -> Iterator[str]:
    """Yields the page in pieces.

    title     plain text
    body      pieces of HTML: one <header> and <section>s
    css       what the page needs beside this module's CSS
    colours   its own colours, beside COLOURS
    """
    style = f"{variables({**COLOURS, **(colours or {})})}{_CSS}{css}"
    yield f"{_HEAD}<title>{text(title)}</title>\n<style>\n{style}</style>\n</head>\n<body>\n<main>\n"
    yield from body
    yield "</main>\n</body>\n</html>\n"


def variables(colours: Colours) -> str:
    """The CSS that defines the colours as variables, for light and for dark."""
    light, dark = (" ".join(f"--{name}: {both[at]};" for name, both in colours.items()) for at in (0, 1))
    return f":root {{ {light} }}\n@media (prefers-color-scheme: dark) {{ :root {{ {dark} }} }}\n"


def table(
    columns: Sequence[tuple[str, Sequence[str]]], drawn: tuple[str, Sequence[str]] | None = None
) -> Iterator[str]:
    """Yields a table of the same columns as text_table.render: title and cells; numbers are right-aligned. drawn: the
    title and the HTML of the cells of one more column, the last."""
    shown: list[tuple[str, str, Sequence[str]]]
    shown = [(text(title), "" if _is_text(cells) else " class=n", _cells(title, cells)) for title, cells in columns]
    shown += [(text(drawn[0]), " class=bar", drawn[1])] if drawn else []
    yield f"""<div class="wide"><table><thead><tr>{"".join(f"<th{kind}>{title}</th>" for title, kind, _ in shown)}"""
    yield "</tr></thead><tbody>\n"
    for row in zip(*(cells for _, _, cells in shown), strict=True):
        yield f"<tr>{''.join(f'<td{kind}>{cell}</td>' for cell, (_, kind, _) in zip(row, shown, strict=True))}</tr>\n"
    yield "</tbody></table></div>\n"


def _cells(title: str, cells: Sequence[str]) -> list[str]:
    if title in ("state", "severity"):
        return [f'<b class="{text(cell.lower())}">{text(cell)}</b>' for cell in cells]
    return list(map(text, cells))


def _is_text(cells: Sequence[str]) -> bool:
    return not all(cell == NOTHING or cell[:1].isdigit() for cell in cells)
