"""A report as a title and blocks, and its two forms.

    block           as text                                   as HTML
    str             a line; "" is an empty one                a paragraph; "" is nothing
    ReportTable     columns as wide as their widest cell,     a table; with columns of bars, which the text has not
                    or its lines
    Bar             its lines                                 its title and line, a bar of coloured parts, their names
    Commands        a title; purpose and command, indented    a title; commands that can be copied at once
                    title: the commands, if all have no purpose
    ReportSection   a title, its blocks; an empty line above  a card with a heading
                    it, unless it and that above are titles

A block of a verb's own is a class with `text` and `html`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby, takewhile
from typing import Any, Protocol, TypeVar

from kafkarec.support import html_page
from kafkarec.support.html_page import text as escaped
from kafkarec.support.text_table import byte_size, render, safe

T = TypeVar("T")
Columns = Sequence[tuple[str, Sequence[str]]]
"""Title and cells of each column; a column of numbers is right-aligned. Those of the columns "state" and "severity" are
coloured on a page."""


class Drawn(Protocol):
    """A block that knows both its forms, in pieces; lines end with a line end."""

    def text(self) -> Iterator[str]: ...

    def html(self) -> Iterator[str]: ...


Block = str | Drawn
STATES = ("good", "damaged", "unreadable", "unchecked", "preallocated", "tail")
"""Of bytes: parts of bars with colours of their own."""


@dataclass(frozen=True)
class Document:
    """A report.

    verb      what made it
    title     "": the text has none
    state     a class of html_page's header, for its colour
    css       of the page, for blocks of the verb's own, with their colours
    """

    verb: str
    blocks: Sequence[Block]
    title: str = ""
    state: str = ""
    css: str = ""
    colours: html_page.Colours = field(default_factory=dict)


@dataclass(frozen=True)
class ReportTable:
    """A table, without rows, too.

    bars    a title and a bar of each row, the last column of a page
    lines   what the text has instead
    """

    columns: Columns
    bars: tuple[str, Sequence[Bar]] | None = None
    lines: Sequence[str] | None = None

    @classmethod
    def of(cls, rows: Sequence[T], columns: Mapping[str, Callable[[T], str]], **options: Any) -> ReportTable:
        """The table of some rows. columns: title -> the cell of a row"""
        return cls([(title, [cell(row) for row in rows]) for title, cell in columns.items()], **options)

    def text(self) -> Iterator[str]:
        if self.lines is None:
            yield render(self.columns)
        else:
            yield from (f"{safe(line)}\n" for line in self.lines)

    def html(self) -> Iterator[str]:
        drawn = None if self.bars is None else (self.bars[0], [bar.drawn() for bar in self.bars[1]])
        return html_page.table(self.columns, drawn)


@dataclass(frozen=True)
class Bar:
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
            yield f"<h3>{escaped(self.title)}</h3>\n"
        yield f"<p>{escaped(self.line.strip())}</p>\n{self.drawn()}\n"
        keys = (f'<span class="key"><i class="{name}"></i>{name}</span>' for name in dict(self.parts))
        yield f'<p class="legend">{" ".join(keys)}</p>\n'

    def drawn(self) -> str:
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
        yield f"<h3>{escaped(self.title)}</h3>\n<pre>"
        yield from dict.fromkeys(
            f"# {escaped(purpose)}\n{escaped(command)}\n" if purpose else f"{escaped(command)}\n"
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
        yield f"<section><h2>{escaped(self.title)}{state}</h2>\n"
        yield from _html_of(self.blocks)
        yield "</section>\n"


def text(report: Document | Iterable[Block]) -> Iterator[str]:
    """The report as text, in pieces that end with a line end; blocks are read one by one."""
    title = report.title if isinstance(report, Document) else ""
    if title:
        yield f"{safe(title)}\n"
    before: Block | None = title or None
    for block in report.blocks if isinstance(report, Document) else report:
        if isinstance(block, str):
            yield f"{safe(block)}\n"
        else:
            if isinstance(block, ReportSection) and before is not None and not (_is_line(before) and _is_line(block)):
                yield "\n"
            yield from block.text()
        before = block


def _is_line(block: Block) -> bool:
    """Whether it is a section that is its title alone."""
    return isinstance(block, ReportSection) and not block.blocks


def html(report: Document) -> Iterator[str]:
    """The report as one HTML page, in pieces."""
    title = report.title or f"kafkarec {report.verb}"
    return html_page.page(title, _body(report, title), _STYLE + report.css, report.colours)


def _body(report: Document, title: str) -> Iterator[str]:
    state = f' class="{report.state}"' if report.state else ""
    yield f'<header{state}>\n<p class="kicker">kafkarec {report.verb}</p>\n'
    yield f"<h1>{escaped(title)}</h1>\n"
    lead = list(takewhile(lambda block: isinstance(block, str), report.blocks))
    yield from _html_of(lead)
    yield "</header>\n"
    for is_section, blocks in groupby(report.blocks[len(lead) :], lambda block: isinstance(block, ReportSection)):
        if is_section:
            yield from _html_of(blocks)
        else:
            yield "<section>\n"
            yield from _html_of(blocks)
            yield "</section>\n"


def _html_of(blocks: Iterable[Block]) -> Iterator[str]:
    for block in blocks:
        if not isinstance(block, str):
            yield from block.html()
        elif block:
            yield f"<p>{escaped(block.strip())}</p>\n"


_WIDTH, _MIN_WIDTH = 1000, 3  # of a bar and of its parts
# state or severity -> its colour
_COLOURS = {
    "ok": "good",
    "damaged": "damaged",
    "unchecked": "tail",
    "error": "unreadable",
    "anomaly": "anomaly",
    "note": "note",
}
_STYLE = (
    """svg.bar { display: block; width: 100%; height: 22px; border-radius: 4px; background: var(--line); }
td.bar { width: 30%; min-width: 160px; } td svg.bar { height: 14px; margin-top: 4px; }
rect:hover { opacity: .75; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; }
h2 b { font-size: .8rem; margin-left: 8px; }
"""
    + "".join(f"i.{name} {{ background: var(--{name}); }} rect.{name} {{ fill: var(--{name}); }}\n" for name in STATES)
    + "".join(f"b.{word} {{ color: var(--{colour}); }}\n" for word, colour in _COLOURS.items())
)
