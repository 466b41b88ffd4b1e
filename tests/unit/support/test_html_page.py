"""A page is complete, loads nothing, and escapes what it is given."""

from __future__ import annotations

from pathlib import Path

from html_pages import parsed

from kafkarec.support import html_page


def test_a_page_is_well_formed_and_its_title_escaped(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    body = ["<header><h1>", html_page.text("<b>\x1b&\udcff"), "</h1></header>\n"]
    path.write_text(
        "".join(html_page.page("a</title><i>", body, "i.x { color: var(--mine); }", {"mine": ("#111", "#eee")}))
    )
    page = parsed(path)
    assert page.seen == ["html", "head", *["meta"] * 4, "title", "style", "body", "main", "header", "h1"]
    assert "a</title><i>" in page.text and "<b>\ufffd&\ufffd" in page.text
    assert "default-src 'none'" in path.read_text()


def test_every_colour_has_a_light_and_a_dark_value() -> None:
    style = html_page.variables({"ink": ("#000", "#fff")})
    assert style == ":root { --ink: #000; }\n@media (prefers-color-scheme: dark) { :root { --ink: #fff; } }\n"
    page = "".join(html_page.page("", ()))
    assert {f"--{name}: " for name in html_page.COLOURS if page.count(f"--{name}: ") != 2} == set()
