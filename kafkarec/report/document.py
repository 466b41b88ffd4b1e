"""A report as a title and blocks, and its two forms.

    block           as text                                   as HTML
    str             a line; "" is an empty one                a paragraph; "" is nothing
    ReportTable     columns as wide as their widest cell      a table
    Bar             its line                                  its line, a bar of coloured parts, their names
    Commands        a title; purpose and command, indented    a title; commands that can be copied at once
    ReportSection   a title, its blocks; empty line above     a card with a heading

A block of a verb's own is a class with `text` and `html`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby, takewhile
from typing import Protocol

from kafkarec.support import html_page
from kafkarec.support.html_page import text as escaped
from kafkarec.support.text_table import render, safe

Columns = Sequence[tuple[str, Sequence[str]]]
"""Title and cells of each column; a column of numbers is right-aligned."""


class Drawn(Protocol):
    """A block that knows both its forms, in pieces; lines end with a line end."""

    def text(self) -> Iterator[str]: ...

    def html(self) -> Iterator[str]: ...


Block = str | Drawn
STATES = ("good", "damaged", "unreadable", "preallocated", "tail")
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
    """A table, without rows, too."""

    columns: Columns

    def text(self) -> Iterator[str]:
        yield render(self.columns)

    def html(self) -> Iterator[str]:
        return html_page.table(self.columns)


@dataclass(frozen=True)
class Bar:
    """A whole and its parts, in order. line: what the text has instead; parts: (name, size); a name in STATES
    has the colour of html_page."""

    line: str
    parts: Sequence[tuple[str, int]]

    def text(self) -> Iterator[str]:
        yield f"{safe(self.line)}\n"

    def html(self) -> Iterator[str]:
        yield f"<p>{escaped(self.line.strip())}</p>\n"
        whole, at = sum(size for _, size in self.parts) or 1, 0
        kinds = {name: name for name, _ in self.parts if name in STATES}
        rects = []
        for name, size in self.parts:
            kind = kinds.setdefault(name, f"part{len(kinds) % len(_COLOURS)}")
            width = max(_WIDTH * size / whole, _MIN_WIDTH)
            left = min(_WIDTH * at / whole, _WIDTH - width)
            title = f"<title>{escaped(f'{name}: {size}')}</title>"
            rect = f'<rect class="{kind}" x="{left:.2f}" width="{width:.2f}" height="20">{title}</rect>'
            rects += [(size, rect)] if size else []
            at += size
        drawn = "".join(rect for _, rect in sorted(rects, reverse=True))  # the small ones last: none is covered
        yield f'<svg class="bar" viewBox="0 0 {_WIDTH} 20" preserveAspectRatio="none" role="img">{drawn}</svg>\n'
        keys = (f'<span class="key"><i class="{kind}"></i>{escaped(name)}</span>' for name, kind in kinds.items())
        yield f'<p class="legend">{" ".join(keys)}</p>\n'


@dataclass(frozen=True)
class Commands:
    """What to do next: (purpose, command) in order; the same one twice is printed once."""

    title: str
    steps: Sequence[tuple[str, str]]

    def text(self) -> Iterator[str]:
        yield f"{self.title}\n"
        yield from dict.fromkeys(f"  {safe(purpose)}:\n    {safe(command)}\n" for purpose, command in self.steps)

    def html(self) -> Iterator[str]:
        yield f"<h3>{escaped(self.title)}</h3>\n<pre>"
        yield from dict.fromkeys(f"# {escaped(purpose)}\n{escaped(command)}\n" for purpose, command in self.steps)
        yield "</pre>\n"


@dataclass(frozen=True)
class ReportSection:
    """A part of a report with a heading, which the text may do without."""

    title: str
    blocks: Sequence[Block]
    title_in_text: bool = True

    def text(self) -> Iterator[str]:
        if self.title_in_text:
            yield f"{safe(self.title)}\n"
        yield from text(self.blocks)

    def html(self) -> Iterator[str]:
        yield f"<section><h2>{escaped(self.title)}</h2>\n"
        yield from _html_of(self.blocks)
        yield "</section>\n"


def text(report: Document | Iterable[Block]) -> Iterator[str]:
    """The report as text, in pieces that end with a line end; blocks are read one by one."""
    title = report.title if isinstance(report, Document) else ""
    if title:
        yield f"{safe(title)}\n"
    for number, block in enumerate(report.blocks if isinstance(report, Document) else report):
        if isinstance(block, str):
            yield f"{safe(block)}\n"
            continue
        if isinstance(block, ReportSection) and (number or title):
            yield "\n"
        yield from block.text()


def html(report: Document) -> Iterator[str]:
    """The report as one HTML page, in pieces."""
    title = report.title or f"kafkarec {report.verb}"
    return html_page.page(title, _body(report, title), _STYLE + report.css, {**_COLOURS, **report.colours})


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
_COLOURS = {
    "part0": ("#4477aa", "#7ba7d9"),
    "part1": ("#ee6677", "#ff8f9c"),
    "part2": ("#228833", "#58bf6b"),
    "part3": ("#b59a1f", "#d9c25a"),
    "part4": ("#8e5aa8", "#c693df"),
}
_STYLE = """svg.bar { display: block; width: 100%; height: 22px; border-radius: 4px; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; }
""" + "".join(
    f"i.{name} {{ background: var(--{name}); }} rect.{name} {{ fill: var(--{name}); }}\n"
    for name in (*STATES, *_COLOURS)
)
