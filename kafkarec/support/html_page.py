"""What HTML reports share: the frame of a page, its style, escaped text, tables.

A page has no script and loads no font or image; its Content-Security-Policy forbids them. All text is escaped, as names
of topics and files may contain any character. Light or dark is the system's setting.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from .text_table import NOTHING, safe

_HEAD = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
"""
END = "</main>\n</body>\n</html>\n"
_STYLE = """
:root { --page: #f6f7f9; --card: #fff; --ink: #1b1f24; --soft: #5b6470; --line: #dfe3e8; --good: #2f9e63;
  --code: #eef1f4; }
@media (prefers-color-scheme: dark) { :root { --page: #14171b; --card: #1d2127; --ink: #e8eaed; --soft: #9aa4b0;
  --line: #323942; --good: #3fb57a; --code: #282e36; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink); font: 15px/1.5 system-ui, sans-serif; }
main { max-width: 1120px; margin: 0 auto; padding: 24px 20px 64px; }
header, section { background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: 18px 22px;
  margin: 0 0 16px; }
header { border-left: 8px solid var(--good); }
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
.key i { display: inline-block; width: 12px; height: 12px; border-radius: 3px; margin-right: 6px;
  vertical-align: -1px; }
svg { display: block; width: 100%; }
.none { color: var(--soft); }
.wide { overflow-x: auto; margin: 10px 0; }
table { border-collapse: collapse; width: 100%; font-size: .86rem; }
th, td { text-align: left; padding: 5px 10px; border-bottom: 1px solid var(--line); vertical-align: top; }
th { color: var(--soft); font-weight: 600; white-space: nowrap; }
td { overflow-wrap: anywhere; }
td b, td code { white-space: nowrap; }
.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
tbody tr:last-child td { border-bottom: 0; }
@media print { body { background: #fff; } section { break-inside: avoid-page; } }
"""


def text(value: object) -> str:
    """A value as escaped text of one line."""
    return escape(safe(str(value)))


def begin(title: str, kicker: str, lines: Sequence[str], *, style: str = "", state: str = "") -> Iterator[str]:
    """Yields the page up to the end of its header: title, lines below it. state: the header's class. Ends with END."""
    yield f"{_HEAD}<title>{text(title)}</title>\n<style>{_STYLE}{style}</style>\n</head>\n<body>\n<main>\n"
    yield f'<header class="{state}">\n<p class="kicker">{text(kicker)}</p>\n<h1>{text(title)}</h1>\n'
    yield "".join(f"<p>{text(line)}</p>\n" for line in lines)
    yield "</header>\n"


def table(columns: Sequence[tuple[str, Sequence[str]]], kind: str = "") -> Iterator[str]:
    """Yields a table of the same columns as text_table.render: title and cells; numbers are right-aligned. kind: its
    class."""
    classes = ["" if _is_text(cells) else " class=n" for _, cells in columns]
    yield f'<div class="wide"><table class="{kind}"><thead><tr>'
    yield "".join(f"<th{each}>{text(title)}</th>" for (title, _), each in zip(columns, classes, strict=True))
    yield "</tr></thead><tbody>\n"
    for row in zip(*(cells for _, cells in columns), strict=True):
        yield f"<tr>{''.join(f'<td{each}>{text(cell)}</td>' for cell, each in zip(row, classes, strict=True))}</tr>\n"
    yield "</tbody></table></div>\n"


def _is_text(cells: Sequence[str]) -> bool:
    return not all(cell == NOTHING or cell[:1].isdigit() for cell in cells)
