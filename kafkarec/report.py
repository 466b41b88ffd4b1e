"""A report as a title and blocks, and its two forms; results as JSON values.

    block           as text                                   as HTML
    str             a line; "" is an empty one                a paragraph; "" is nothing
    ReportTable     columns as wide as their widest cell,     a table; with columns of bars, which the text has not
                    or its lines
    BytesBar        its lines                                 its title and line, a bar of coloured parts, their names
    Commands        a title; purpose and command, indented    a title; commands that can be copied at once
                    title: the commands, if all have no purpose
    ReportSection   a title, its blocks; an empty line above  a card with a heading
                    it, unless it and that above are titles

A block of a verb's own is a class with `text` and `html`.

The HTML page has no script, font or image: light or dark by the system's setting, readable on a phone. Its
Content-Security-Policy forbids to load anything. All text must go through `escaped_html`: names of topics and files may
contain any character.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from itertools import groupby, takewhile
from typing import Any, Protocol, TypeVar

from kafkarec.support.text_table import NOTHING, byte_size, duration_text, render, safe, timestamp_text

T = TypeVar("T")
Colours = Mapping[str, tuple[str, str]]
Columns = Sequence[tuple[str, Sequence[str]]]
"""Title and cells of each column; a column of numbers is right-aligned. Those of the columns "state" and "severity" are
coloured on a page."""


class RenderableBlock(Protocol):
    """A block that knows both its forms, in pieces; lines end with a line end."""

    def text(self) -> Iterator[str]: ...

    def html(self) -> Iterator[str]: ...


Block = str | RenderableBlock
ColumnOf = str | Callable[[T], object]
"""What a column shows of its rows: the field of this name (of a dict the item), or the value of a function."""
STATES = ("good", "damaged", "unreadable", "unchecked", "preallocated", "tail")
"""Of bytes: parts of bars with colours of their own."""


@dataclass(frozen=True)
class Document:
    """A report.

    verb      what made it
    title     "": the text has none
    state     a class of the page's header, for its colour
    css       of the page, for blocks of the verb's own, with their colours
    """

    verb: str
    blocks: Sequence[Block]
    title: str = ""
    state: str = ""
    css: str = ""
    colours: Colours = field(default_factory=dict)


@dataclass(frozen=True)
class ReportTable:
    """A table, without rows, too.

    bars    a title and a bar of each row, the last column of a page
    lines   what the text has instead
    """

    columns: Columns
    bars: tuple[str, Sequence[BytesBar]] | None = None
    lines: Sequence[str] | None = None

    @classmethod
    def of(cls, rows: Sequence[T], columns: Mapping[str, ColumnOf[T]], **options: Any) -> ReportTable:
        """The table of some rows. columns: title -> what the cell of a row shows"""
        return cls([(title, _cells(rows, shown)) for title, shown in columns.items()], **options)

    def text(self) -> Iterator[str]:
        if self.lines is None:
            yield render(self.columns)
        else:
            yield from (f"{safe(line)}\n" for line in self.lines)

    def html(self) -> Iterator[str]:
        shown: list[tuple[str, str, Sequence[str]]] = []
        for title, cells in self.columns:
            is_number = all(cell == NOTHING or cell[:1].isdigit() for cell in cells)
            drawn = list(map(escaped_html, cells))
            if title in ("state", "severity"):
                drawn = [f'<b class="{escaped_html(cell.lower())}">{escaped_html(cell)}</b>' for cell in cells]
            shown.append((escaped_html(title), " class=n" if is_number else "", drawn))
        if self.bars is not None:
            title, bars = self.bars
            shown.append((escaped_html(title), " class=bar", [bar.svg() for bar in bars]))
        heads = "".join(f"<th{kind}>{title}</th>" for title, kind, _ in shown)
        yield f'<div class="wide"><table><thead><tr>{heads}</tr></thead><tbody>\n'
        for row in zip(*(cells for _, _, cells in shown), strict=True):
            drawn_row = (f"<td{kind}>{cell}</td>" for cell, (_, kind, _) in zip(row, shown, strict=True))
            yield f"<tr>{''.join(drawn_row)}</tr>\n"
        yield "</tbody></table></div>\n"


@dataclass(frozen=True)
class BytesBar:
    """The bytes of files, in order.

    line        above the bar, and what the text has instead
    parts       (state, size), of STATES
    title       of a page; empty: none
    drawing     lines that the text has instead of `line`
    """

    line: str
    parts: Sequence[tuple[str, int]]
    title: str = ""
    drawing: Sequence[str] = ()

    def text(self) -> Iterator[str]:
        yield from (f"{safe(line)}\n" for line in self.drawing or (self.line,))

    def html(self) -> Iterator[str]:
        if self.title:
            yield f"<h3>{escaped_html(self.title)}</h3>\n"
        yield f"<p>{escaped_html(self.line.strip())}</p>\n{self.svg()}\n"
        keys = (f'<span class="key"><i class="{name}"></i>{name}</span>' for name in dict(self.parts))
        yield f'<p class="legend">{" ".join(keys)}</p>\n'

    def svg(self) -> str:
        """The bar alone. Parts that look the same are drawn once, what is not good and what is small last, so that none
        is covered."""
        whole, at = sum(size for _, size in self.parts) or 1, 0
        rects: dict[tuple[str, str], tuple[bool, int, str]] = {}
        for name, size in self.parts:
            width = max(round(_WIDTH * size / whole), _MIN_WIDTH)
            left = min(round(_WIDTH * at / whole), _WIDTH - width)
            if size:
                title = f"<title>{name}: bytes {at} to {at + size - 1} ({byte_size(size)})</title>"
                key = name, f'x="{left}" width="{width}"'
                rects.setdefault(key, (name == STATES[0], size, title))
            at += size
        drawn = "".join(
            f'<rect class="{kind}" {place} height="20">{title}</rect>'
            for (kind, place), (_, _, title) in sorted(rects.items(), key=lambda one: one[1][:2], reverse=True)
        )
        return f'<svg class="bar" viewBox="0 0 {_WIDTH} 20" preserveAspectRatio="none" role="img">{drawn}</svg>'


@dataclass(frozen=True)
class Commands:
    """What to do next: (purpose, command) in order; the same one twice is printed once. purpose: "" if the command says
    it; all have one, or none."""

    title: str
    steps: Sequence[tuple[str, str]]

    def text(self) -> Iterator[str]:
        if all(purpose for purpose, _ in self.steps):
            yield f"{self.title}\n"
            yield from dict.fromkeys(f"  {safe(purpose)}:\n    {safe(command)}\n" for purpose, command in self.steps)
        else:
            start = f"{self.title}: "
            yield start + f"\n{' ' * len(start)}".join(safe(command) for _, command in self.steps) + "\n"

    def html(self) -> Iterator[str]:
        yield f"<h3>{escaped_html(self.title)}</h3>\n<pre>"
        yield from dict.fromkeys(
            f"# {escaped_html(purpose)}\n{escaped_html(command)}\n" if purpose else f"{escaped_html(command)}\n"
            for purpose, command in self.steps
        )
        yield "</pre>\n"


@dataclass(frozen=True)
class ReportSection:
    """A part of a report with a heading, which the text may do without. state: shown at the heading of a page, in its
    colour."""

    title: str
    blocks: Sequence[Block]
    title_in_text: bool = True
    state: str = ""

    def text(self) -> Iterator[str]:
        if self.title_in_text:
            yield f"{safe(self.title)}\n"
        yield from text(self.blocks)

    def html(self) -> Iterator[str]:
        state = f' <b class="{self.state}">{self.state}</b>' if self.state else ""
        yield f"<section><h2>{escaped_html(self.title)}{state}</h2>\n"
        yield from _blocks_html(self.blocks)
        yield "</section>\n"


# Fields that are not shown as they are.
_FIELD_TEXTS: dict[str, Callable[[Any], str]] = {
    **dict.fromkeys(("base_timestamp", "first_timestamp", "max_timestamp", "delete_horizon_ms"), timestamp_text),
    "duration_ms": duration_text,
    "stuck_ms": duration_text,
    "crc": "0x{:08x}".format,
    "write_rate": "{:.0f}".format,
    "read_rate": "{:.0f}".format,
}


# Values that are not shown by `str`. By their exact type: a function for every cell takes longer than all the rest.
_VALUE_TEXTS: dict[type, Callable[[Any], str]] = {
    type(None): lambda _: NOTHING,
    bool: lambda value: "true" if value else "false",
    list: lambda value: ", ".join(value) or NOTHING,
}


def _cells(rows: Sequence[Any], shown: ColumnOf[Any]) -> list[str]:
    """The cells of a column; - for None and for an empty list."""
    if isinstance(shown, str):
        values = [row.get(shown) if isinstance(row, dict) else getattr(row, shown) for row in rows]
        if shown in _FIELD_TEXTS:
            return [NOTHING if value is None else _FIELD_TEXTS[shown](value) for value in values]
    else:
        values = list(map(shown, rows))
    return [_VALUE_TEXTS.get(type(value), str)(value) for value in values]


def text(report: Document | Iterable[Block]) -> Iterator[str]:
    """The report as text, in pieces that end with a line end; blocks are read one by one."""
    title = report.title if isinstance(report, Document) else ""
    if title:
        yield f"{safe(title)}\n"
    before, was_title = bool(title), False
    for block in report.blocks if isinstance(report, Document) else report:
        is_title = isinstance(block, ReportSection) and not block.blocks
        if isinstance(block, str):
            yield f"{safe(block)}\n"
        else:
            if isinstance(block, ReportSection) and before and not (is_title and was_title):
                yield "\n"
            yield from block.text()
        before, was_title = True, is_title


def html(report: Document) -> Iterator[str]:
    """The report as one HTML page, in pieces."""
    title = report.title or f"kafkarec {report.verb}"
    colours = {**_COLOURS, **report.colours}
    light, dark = (" ".join(f"--{name}: {both[at]};" for name, both in colours.items()) for at in (0, 1))
    style = f":root {{ {light} }}\n@media (prefers-color-scheme: dark) {{ :root {{ {dark} }} }}\n{_CSS}{report.css}"
    yield f"{_HEAD}<title>{escaped_html(title)}</title>\n<style>\n{style}</style>\n</head>\n<body>\n<main>\n"
    state = f' class="{report.state}"' if report.state else ""
    yield f'<header{state}>\n<p class="kicker">kafkarec {report.verb}</p>\n'
    yield f"<h1>{escaped_html(title)}</h1>\n"
    lead = list(takewhile(lambda block: isinstance(block, str), report.blocks))
    yield from _blocks_html(lead)
    yield "</header>\n"
    for is_section, blocks in groupby(report.blocks[len(lead) :], lambda block: isinstance(block, ReportSection)):
        if is_section:
            yield from _blocks_html(blocks)
        else:
            yield "<section>\n"
            yield from _blocks_html(blocks)
            yield "</section>\n"
    yield "</main>\n</body>\n</html>\n"


def _blocks_html(blocks: Iterable[Block]) -> Iterator[str]:
    for block in blocks:
        if not isinstance(block, str):
            yield from block.html()
        elif block:
            yield f"<p>{escaped_html(block.strip())}</p>\n"


def escaped_html(value: object) -> str:
    """The value as text of the page: escaped, without control characters and lone surrogates."""
    from html import escape  # not at the top: its table of entities takes longer than all else of a report in text

    return escape(safe(str(value)))


_WIDTH, _MIN_WIDTH = 1000, 3  # of a bar and of its parts
# state or severity -> its colour
_COLOUR_OF = {
    "ok": "good",
    "damaged": "damaged",
    "unchecked": "tail",
    "error": "unreadable",
    "anomaly": "anomaly",
    "note": "note",
}
# name -> on a light page, on a dark one. CSS uses each as var(--name).
_COLOURS: Colours = {
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
_CSS = (
    """* { box-sizing: border-box; }
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
svg.bar { display: block; width: 100%; height: 22px; border-radius: 4px; background: var(--line); }
td.bar { width: 30%; min-width: 160px; } td svg.bar { height: 14px; margin-top: 4px; }
rect:hover { opacity: .75; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; }
h2 b { font-size: .8rem; margin-left: 8px; }
"""
    + "".join(f"i.{name} {{ background: var(--{name}); }} rect.{name} {{ fill: var(--{name}); }}\n" for name in STATES)
    + "".join(f"b.{word} {{ color: var(--{colour}); }}\n" for word, colour in _COLOUR_OF.items())
)


def jsonable(value: Any) -> Any:
    """A result as JSON values: dataclasses and named tuples are objects of their fields, other sequences arrays. A
    class whose object has more or other keys than its fields has a method `as_dict`."""
    if hasattr(value, "as_dict"):
        return jsonable(value.as_dict())
    if is_dataclass(value):
        return {field.name: jsonable(getattr(value, field.name)) for field in fields(value)}
    if hasattr(value, "_asdict"):
        return jsonable(value._asdict())
    if isinstance(value, Mapping):
        return {key: jsonable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [jsonable(item) for item in value]
    return value
