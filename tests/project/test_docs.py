"""The documentation: every block runs and prints what its page shows, and the site builds without a warning."""

import importlib
import re
import shlex
import sys

import doc_api
import doc_blocks
import doc_standins
import make_docs
import pytest
from paths import ROOT
from subprocesses import output_of, run_program

import kafkarec
from kafkarec import distributed

PAGES = [page for page in map(doc_blocks.read, doc_blocks.pages()) if page.blocks]


def page_id(page):
    return str(page.path.relative_to(ROOT)).removesuffix(".md")


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_every_block_of_the_page_runs_and_prints_what_it_shows(page):
    lacking = doc_standins.missing(page.needs)
    if lacking:
        pytest.skip(lacking)
    with doc_blocks.runner(page) as running:
        for block in page.blocks:
            running.check(block)


def test_blocks_that_are_not_run_say_why_and_are_few():
    blocks = [block for page in PAGES for block in page.blocks]
    not_run = [block for block in blocks if block.why_not is not None]
    assert len(blocks) > 60
    assert all(len((block.why_not or "").split()) > 3 for block in not_run), [block.place for block in not_run]
    assert len(not_run) <= 6, [block.place for block in not_run]  # they need a cluster, a server, an installation, jars


def test_pages_hold_real_output():
    """A page whose outputs are all wildcards would not be checked."""
    shown = [block.expected for page in PAGES for block in page.blocks if block.expected is not None]
    assert len(shown) > 40
    lines = [line for text in shown for line in text.splitlines()]
    assert sum(line.strip() == "..." for line in lines) < len(lines) / 20


@pytest.mark.parametrize(
    "expected, printed, same",
    [
        ("a\nb\n", "a\nb\n", True),
        ("a\n", "a\nb\n", False),
        ("a\n...\nd\n", "a\nb\nc\nd\n", True),
        ("...\nd\n", "d\n", True),
        ("a ... s\n", "a 0.1 s  \n", True),
        ("a.c\n", "abc\n", False),
        ("", "something\n", False),
    ],
)
def test_outputs_are_compared_line_by_line(expected, printed, same):
    assert doc_blocks.agrees(expected, printed) is same


def test_a_block_with_another_result_fails(tmp_path, monkeypatch):
    monkeypatch.setattr(doc_blocks, "ROOT", tmp_path)
    path = tmp_path / "page.md"
    blocks = ("sh\nexit 1", "sh\necho a; exit 3", "python\nprint(1)", "text\n2")
    path.write_text("<!-- exit 1 -->\n" + "\n".join(f"```{block}\n```\n" for block in blocks))
    page = doc_blocks.read(path)
    parsed = [(block.line, block.exit, block.expected) for block in page.blocks]
    assert parsed == [(2, 1, None), (6, 0, None), (10, 0, "2\n")]
    with doc_standins.standing_in((), tmp_path) as standins:
        running = doc_blocks.Runner(tmp_path, standins)
        running.check(page.blocks[0])
        for block in page.blocks[1:]:
            with pytest.raises(doc_blocks.BlockError, match=r"page\.md"):
                running.check(block)


def test_a_block_in_another_language_is_refused(tmp_path):
    path = tmp_path / "page.md"
    path.write_text("```ruby\nputs 1\n```\n")
    with pytest.raises(doc_blocks.BlockError, match="ruby"):
        doc_blocks.read(path)


def test_the_site_builds_without_a_warning_and_loads_nothing_from_other_hosts(tmp_path):
    pytest.importorskip("sphinx", reason="sphinx is not installed: requirements/test.in")
    options = ("-n", "-W", "--keep-going", "-q", "-E", "-b", "html")  # those of make docs
    output_of(sys.executable, "-m", "sphinx", *options, "docs", tmp_path, cwd=ROOT)
    built = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.html")}
    assert {"reference/api.html", "reference/cli.html"} <= built  # written by docs/conf.py, not in the repository
    for path in (ROOT / "docs").rglob("*.md"):
        assert str(path.relative_to(ROOT / "docs").with_suffix(".html")) in built
    described = set(re.findall(r'id="kafkarec\.([\w.]+)"', (tmp_path / "reference" / "api.html").read_text()))
    wanted = {name for name in kafkarec.__all__ if not name.startswith("__")}
    wanted |= {f"distributed.{name}" for name in {*distributed.__all__} - doc_api.PACKAGES["distributed"]}
    methods = ("read", "stream", "scan", "batches", "verify", "salvage", "offset_for_timestamp")
    assert wanted | {f"Segment.{name}" for name in methods} | {"Segment.size", "Report.damage"} <= described
    assert not {f"distributed.{name}" for name in doc_api.PACKAGES["distributed"]} & described
    home = (tmp_path / "index.html").read_text()
    for part in ("Start", "How-to", "Reference", "Explanation", "Limits"):
        assert f">{part}<" in home, part
    # no font, script or image from another host: the site is read on machines without a network
    for path in tmp_path.rglob("*.html"):
        text = path.read_text()
        loaded = re.findall(r"<(?:script|link|img)[^>]+(?:src|href)=\"(https?://[^\"]+)", text)
        assert loaded == [], path.name
        # array<struct<key:string>> without backquotes becomes a link
        assert {*re.findall(r'href="(\w+):', text)} <= {"https", "http", "file"}, path.name


# ---- generated pages ---------------------------------------------------------------------------------------


def verbs():
    from kafkarec.cli.verb_parsers import VERBS

    return {verb: importlib.import_module(f"kafkarec.cli.{verb}") for verb in VERBS}


def test_every_verb_and_option_is_on_the_page():
    page = make_docs.command_line()
    for verb in verbs():
        section = page.split(f"\n## {verb}\n")[1].split("\n## ")[0]
        for action in make_docs.parser_of_verb(verb)._actions:
            for option in action.option_strings:
                assert re.search(rf"\n  (?:\S.*, )?{option}\b", section), f"{verb} {option}"


@pytest.mark.parametrize("verb", verbs())
def test_examples_of_a_verb_are_valid_commands(verb):
    from kafkarec.cli.verb_parsers import parser_of

    examples = verbs()[verb].EXAMPLES.partition("examples:\n")[2]
    commands = [re.split(r"\s{2,}| \| ", line.strip())[0] for line in examples.split("\n") if line.startswith("  ")]
    assert commands
    for command in commands:
        program, *arguments = shlex.split(command)
        assert program == "kafkarec" and arguments[0] == verb, command
        parser_of(verb).parse_args(arguments)  # SystemExit where an option does not exist


def test_the_modules_on_the_page_of_the_design_are_there():
    named = re.findall(r"`([a-z_0-9/]+(?:/|\.py|\.pxd))`", (ROOT / "docs/explanation/design.md").read_text())
    there = [name for name in named if (ROOT / "kafkarec" / name).exists() or (ROOT / name).exists()]
    assert len(named) > 40 and there == named


def test_every_reason_and_finding_is_on_the_page_with_advice():
    from kafkarec.errors import REASONS
    from kafkarec.ops.verify import KINDS

    page = (ROOT / "docs" / "damage.md").read_text()
    table = [[cell.strip() for cell in line.strip("| ").split(" | ")] for line in page.splitlines()]
    rows = {cells[0]: cells for cells in table}
    letters = set(re.findall(r"(?m)^\* ([A-Z]): \S", page))  # each stands for an advice that many have
    for word in [*REASONS, *KINDS]:
        cells = rows[f"`{word}`"]
        assert len(cells) >= 4 and cells[3], word
        assert len(cells[3]) > 1 or cells[3] in letters, word


def test_errors_by_their_text_are_texts_of_the_code():
    from kafkarec.errors import REASONS

    page = (ROOT / "docs" / "spark" / "reference.md").read_text()
    rows = page.partition("<!-- errors -->")[2].partition("<!-- end of errors -->")[0].strip().splitlines()[2:]
    cells = [[cell.strip() for cell in row.strip("| ").split(" | ")] for row in rows]
    ours = [re.findall(r"`([^`]+)`", text)[0] for text, whose, _ in cells if whose.startswith("kafkarec")]
    code = "".join(path.read_text() for name in ("kafkarec", "spark_udfs") for path in (ROOT / name).rglob("*.py"))
    assert len(ours) > 7
    assert [text for text in ours if text not in code and text.replace(" ", "_") not in REASONS] == []


# ---- pictures ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def damaged(tmp_path_factory):
    """What the pictures show: a segment of a real broker with a flipped bit, a page of zeros, a truncated end."""
    name = "00000000000000000000.log"
    data = bytearray((ROOT / "examples" / "data" / "all-codecs-0" / name).read_bytes())
    data[9_000] ^= 0x10
    data[20_480:24_576] = bytes(4096)
    path = tmp_path_factory.mktemp("damaged") / "logs" / "orders-0" / name
    path.parent.mkdir(parents=True)
    path.write_bytes(data[:-300])
    return path


def texts_of(picture):
    """Its lines of text, each with single spaces."""
    from xml.etree import ElementTree

    root = ElementTree.parse(ROOT / "docs" / "pictures" / f"{picture}.svg").getroot()
    return [" ".join("".join(each.itertext()).split()) for each in root.iter("{http://www.w3.org/2000/svg}text")]


def test_the_picture_of_a_terminal_shows_what_the_commands_print(damaged):
    *lines, note = texts_of("terminal")
    assert note == "for a damaged copy of a real broker's segment; shortened"
    commands = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
    assert [command.split()[1] for command in commands] == ["verify", "salvage", "verify"]
    environment = {"PYTHONPATH": str(ROOT)}
    printed = ""
    for command in commands:
        done = run_program(sys.executable, "-m", *command.split(), cwd=damaged.parents[2], env=environment)
        printed += f"$ {command}\n{done.stdout}"
    words = " ".join(printed.split())
    assert [line for line in lines if line not in words] == []


def test_the_picture_of_a_map_shows_what_verify_finds(damaged):
    from kafkarec.report import BytesBar

    (file,) = kafkarec.verify(damaged).partitions[0].files
    damage_at = {one.position: one for one in file.damage}
    shown = [f"{file.size} bytes, {file.batches} good batches, {file.records} records"]
    for one in file.ranges:
        if one.state != "good":
            shown.append(f"■bytes {one.position} to {one.position + one.length - 1}: {one.state}")
        if one.position in damage_at:
            found = damage_at[one.position]
            shown.append(f"{found.reason}, offsets {found.lost_from} to {found.lost_to} lost")
    assert [line for line in shown if line not in texts_of("damage")] == []
    bar = BytesBar("", [(one.state, one.length) for one in file.ranges]).svg()
    assert bar.removeprefix("<svg ") in (ROOT / "docs" / "pictures" / "damage.svg").read_text()


def test_pictures_are_readable_on_both_backgrounds_and_on_a_phone():
    """400 units on 358 pixels: no text is smaller than 10 pixels."""
    from xml.etree import ElementTree

    pictures = sorted((ROOT / "docs" / "pictures").glob("*.svg"))
    assert [path.stem for path in pictures] == ["batch", "damage", "terminal"]
    for path in pictures:
        text = path.read_text()
        ElementTree.fromstring(text)
        assert "prefers-color-scheme: dark" in text and 'class="page"' in text
        assert "<script" not in text and "http" not in text.replace("http://www.w3.org/2000/svg", "")
        assert float(re.findall(r'viewBox="0 0 (\S+) ', text)[0]) <= 400, path.name
        sizes = [float(size) for size in re.findall(r"font(?:-size)?:(?:[67]00 )?([\d.]+)px", text)]
        assert min(sizes) * 358 / 400 > 10, path.name


def test_the_picture_of_a_batch_shows_its_bytes():
    text = (ROOT / "docs" / "pictures" / "batch.svg").read_text()
    data = (ROOT / "examples" / "data" / "txn-0" / "00000000000000000000.log").read_bytes()
    shown = re.findall(r'class="byte"[^>]*>([0-9a-f]{2})<', text)
    assert bytes.fromhex("".join(shown)) == data[:104]
