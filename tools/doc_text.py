"""Markdown that the generated pages have in common."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table with these titles, which may be empty."""
    first, *others = (f"| {' | '.join(cells)} |\n" for cells in (head, *rows))
    return f"{first}|{'---|' * len(head)}\n{''.join(others)}"


def cell(text: str) -> str:
    return escaped(" ".join(text.split())).replace("|", "\\|")


def escaped(line: str) -> str:
    """Angle brackets outside of code would be tags, stars emphasis; options and names with underscores are code."""
    return "`".join(
        part
        if at % 2
        else re.sub(r"(?<![\w/.])(--[a-z][\w-]*|\w*_\w+)(?!\w)", r"`\1`", part.replace("<", "&lt;").replace("*", "\\*"))
        for at, part in enumerate(line.split("`"))
    )
