"""Reads the HTML pages that verbs write."""

from __future__ import annotations

import html.parser
import re
from pathlib import Path


class Page(html.parser.HTMLParser):
    """Asserts that every tag is closed, and that nothing is loaded from elsewhere."""

    def __init__(self):
        super().__init__()
        self.open = []
        self.seen = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]):
        names = {name for name, _ in attrs}
        assert not names & {"src", "href", "srcset", "action", "style"} and not any(n.startswith("on") for n in names)
        assert tag not in ("script", "link", "iframe", "img", "object", "embed", "base", "form")
        self.seen.append(tag)
        if tag not in ("meta",):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]):
        self.seen.append(tag)

    def handle_endtag(self, tag: str):
        assert self.open.pop() == tag

    def handle_data(self, data: str):
        self.text += data


def parsed(path: Path) -> Page:
    text = path.read_text(encoding="utf-8")
    assert "default-src 'none'" in text and not re.search(r"https?:|url\(|@import", text)
    page = Page()
    page.feed(text)
    page.close()
    assert page.open == []
    return page
