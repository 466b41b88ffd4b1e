"""The documentation: every block is run and prints what its page shows, the site builds without a warning."""

from __future__ import annotations

import importlib
import re
import shlex
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tools"))

import doc_blocks  # noqa: E402
import doc_standins  # noqa: E402

PAGES = [page for page in map(doc_blocks.read, doc_blocks.pages()) if page.blocks]


def page_id(page: doc_blocks.Page) -> str:
    return str(page.path.relative_to(ROOT)).removesuffix(".md")


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, id=page_id(page), marks=[pytest.mark.spark] if {"spark", "kafka"} & {*page.needs} else [])
        for page in PAGES
    ],
)
def test_every_block_of_the_page_runs_and_prints_what_it_shows(page: doc_blocks.Page) -> None:
    lacking = doc_standins.missing(page.needs)
    if lacking:
        pytest.skip(lacking)
    with doc_blocks.runner(page) as running:
        for block in page.blocks:
            if block.why_not is None:
                running.check(block)
            else:
                print(f"{block.place}: not run: {block.why_not}")


def test_blocks_that_are_not_run_say_why_and_are_few() -> None:
    blocks = [block for page in PAGES for block in page.blocks]
    idle = [block for block in blocks if block.why_not is not None]
    assert len(blocks) > 60
    assert all(len((block.why_not or "").split()) > 3 for block in idle), [block.place for block in idle]
    assert len(idle) <= 5, [block.place for block in idle]  # a cluster, a server, an installation


def test_pages_hold_real_output() -> None:
    """A page whose outputs are all wildcards would be one that nothing checks."""
    shown = [block.expected for page in PAGES for block in page.blocks if block.expected is not None]
    assert len(shown) > 40
    lines = [line for text in shown for line in text.splitlines()]
    assert sum(line.strip() == "..." for line in lines) < len(lines) / 20


@pytest.mark.parametrize(
    ("expected", "printed", "same"),
    [
        ("a\nb\n", "a\nb\n", True),
        ("a\nb\n", "a\nc\n", False),
        ("a\n", "a\nb\n", False),
        ("a\n...\nd\n", "a\nb\nc\nd\n", True),
        ("...\nd\n", "d\n", True),
        ("a ... s\n", "a 0.1 s  \n", True),
        ("a ... s\n", "a\ns\n", False),
        ("a.c\n", "abc\n", False),
        ("", "something\n", False),
    ],
)
def test_outputs_are_compared_line_by_line(expected: str, printed: str, same: bool) -> None:
    assert doc_blocks.agrees(expected, printed) is same


def test_a_block_that_ends_otherwise_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doc_blocks, "ROOT", tmp_path)
    path = tmp_path / "page.md"
    blocks = ("sh\nexit 1", "sh\necho a; exit 3", "python\nprint(1)", "text\n2")
    path.write_text("<!-- exit 1 -->\n" + "\n".join(f"```{block}\n```\n" for block in blocks))
    page = doc_blocks.read(path)
    found = [(block.line, block.exit, block.expected) for block in page.blocks]
    assert found == [(2, 1, None), (6, 0, None), (10, 0, "2\n")]
    with doc_standins.standing_in((), tmp_path) as standins:
        running = doc_blocks.Runner(tmp_path, standins)
        running.check(page.blocks[0])
        for block in page.blocks[1:]:
            with pytest.raises(doc_blocks.Wrong, match=r"page\.md"):
                running.check(block)


def test_a_block_in_another_language_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "page.md"
    path.write_text("```ruby\nputs 1\n```\n")
    with pytest.raises(doc_blocks.Wrong, match="ruby"):
        doc_blocks.read(path)


def build(to: Path) -> subprocess.CompletedProcess[str]:
    """As `make docs` builds it."""
    options = ["-n", "-W", "--keep-going", "-q", "-E", "-b", "html"]
    command = [sys.executable, "-m", "sphinx", *options, "docs", str(to)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=120)


def test_the_site_builds_without_a_warning_and_asks_nobody_else(tmp_path: Path) -> None:
    pytest.importorskip("sphinx", reason="sphinx is not installed: requirements/docs.in")
    done = build(tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    built = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.html")}
    for path in (ROOT / "docs").rglob("*.md"):
        assert str(path.relative_to(ROOT / "docs").with_suffix(".html")) in built
    home = (tmp_path / "index.html").read_text()
    for part in ("Start", "How-to", "Reference", "Explanation", "Limits"):
        assert f">{part}<" in home, part
    # no font, script or image from another host: it is read on machines without a network
    for path in tmp_path.rglob("*.html"):
        loaded = re.findall(r"<(?:script|link|img)[^>]+(?:src|href)=\"(https?://[^\"]+)", path.read_text())
        assert loaded == [], path.name


# ---- what is generated -------------------------------------------------------------------------------------


def verbs() -> dict[str, ModuleType]:
    from kafkarec.cli.app import VERBS

    return {verb: importlib.import_module(f"kafkarec.cli.{verb}") for verb in VERBS}


def test_every_verb_and_option_is_on_the_page() -> None:
    from kafkarec.cli import app

    page = (ROOT / "docs" / "reference" / "cli.md").read_text()
    for verb in verbs():
        section = page.split(f"\n## {verb}\n")[1].split("\n## ")[0]
        parser = app._parser(verb)
        (chosen,) = [action.choices for action in parser._actions if isinstance(action.choices, dict)]
        for action in chosen[verb]._actions:
            for option in action.option_strings:
                assert option in ("-h", "--help", "--debug") or f"`{option}" in section, f"{verb} {option}"


@pytest.mark.parametrize("verb", verbs())
def test_examples_of_a_verb_are_commands_that_it_takes(verb: str) -> None:
    from kafkarec.cli import app
    from kafkarec.cli.options import join_relative_times

    told = verbs()[verb].EXAMPLES.partition("examples:\n")[2]
    commands = [re.split(r"\s{2,}| \| ", line.strip())[0] for line in told.split("\n") if line.startswith("  ")]
    assert commands
    for command in commands:
        program, *words = shlex.split(command)
        assert program == "kafkarec" and words[0] == verb, command
        app._parser(verb).parse_args(join_relative_times(words))  # SystemExit where it does not fit


def test_every_public_name_is_on_the_page() -> None:
    import kafkarec

    page = (ROOT / "docs" / "reference" / "api.md").read_text()
    for name in kafkarec.__all__:
        assert name.startswith("__") or f"\n### {name}\n" in page, name
    for method in ("read", "stream", "scan", "batches", "verify", "salvage", "offset_for_timestamp"):
        assert f"#### Segment.{method}\n" in page, method


def test_every_reason_and_finding_is_on_the_page_with_what_to_do() -> None:
    from kafkarec.checks.kinds import KINDS
    from kafkarec.errors import REASONS

    page = (ROOT / "docs" / "damage.md").read_text()
    table = [[cell.strip() for cell in line.strip("| ").split(" | ")] for line in page.splitlines()]
    rows = {cells[0]: cells for cells in table}
    for word in [*REASONS, *KINDS]:
        cells = rows[f"`{word}`"]
        assert len(cells) >= 4 and cells[3], word


# ---- pictures ----------------------------------------------------------------------------------------------


def test_pictures_are_well_formed_and_readable_on_both_backgrounds() -> None:
    from xml.etree import ElementTree

    pictures = sorted((ROOT / "docs" / "pictures").glob("*.svg"))
    assert [path.stem for path in pictures] == ["batch", "damage", "rooms"]
    for path in pictures:
        text = path.read_text()
        ElementTree.fromstring(text)
        assert "prefers-color-scheme: dark" in text and 'class="page"' in text
        assert "<script" not in text and "http" not in text.replace("http://www.w3.org/2000/svg", "")


def test_the_picture_of_a_batch_shows_its_bytes() -> None:
    text = (ROOT / "docs" / "pictures" / "batch.svg").read_text()
    data = (ROOT / "examples" / "data" / "txn-0" / "00000000000000000000.log").read_bytes()
    shown = re.findall(r'class="byte"[^>]*>([0-9a-f]{2})<', text)
    assert bytes.fromhex("".join(shown)) == data[: len(shown)] and len(shown) == 112


def test_the_picture_of_the_rooms_has_no_arrow_upwards_but_those_of_methods() -> None:
    """storage's `.verify()` and `.salvage()` call the rooms above; a desk asks the codecs, and has refusals worded; the
    check of foreign Arrow makes its own error."""
    rooms = importlib.import_module("pictures_rooms")
    up = {(room, other) for room, other in rooms.edges() if rooms.ROOMS[other].row <= rooms.ROOMS[room].row}
    lazy = {pair for pair, at_import in rooms.edges().items() if not at_import}
    methods = {("storage", "checks"), ("storage", "rescue"), ("_writer", "codecs"), ("_writer", "writing")}
    methods |= {("_entry", "words")}
    assert up <= lazy and up <= methods
