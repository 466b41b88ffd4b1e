"""`kafkarec explain --html`: every byte in its colour, damage marked, nothing hidden shown, one safe page."""

import re

import builders
import pytest
from html_pages import parsed
from paths import SEGMENTS
from plain_logs import batch

import kafkarec
from kafkarec.ops.explain import explain, group_of

LOG = SEGMENTS / "txn-0" / "00000000000000000030.log"
CELL = re.compile(r"<i>([0-9a-f]{2}|··)</i>")
ROW = re.compile(
    r'<tr class="g-\w+( wrong)?"><td class=n>\d+</td>\s*<td class="hex">[^<]*</td><td class="field">(.*?)</td>'
)
FIELD = re.compile(r'<span class="f g-(\w+)([^"]*)" title="([^"]*)">(.*?)</span>')


@pytest.fixture
def page(run, tmp_path):
    def written(*arguments, status=0):
        to = tmp_path / "x.html"
        ran = run("explain", *arguments, "--html", to, "--force")
        assert ran.status == status, ran
        parsed(to)  # well-formed, and loads nothing
        return to.read_text(encoding="utf-8")

    return written


@pytest.mark.parametrize("batch", range(12))
def test_the_grid_has_every_byte_in_the_colour_of_its_field(page, batch):
    at = list(kafkarec.scan(LOG.read_bytes()))[batch]["position"]
    text = page(LOG, "--at", at, "--records", "all", "--full")
    explained = explain(LOG.read_bytes(), at)
    sections = text.split("<section>")[1:]
    assert len(sections) == len(explained.sections)
    for number, (section, drawn) in enumerate(zip(explained.sections, sections, strict=True)):
        fields = FIELD.findall(drawn)
        shown = [(group, byte) for group, _, _, cells in fields for byte in CELL.findall(cells)]
        assert bytes.fromhex("".join(byte for _, byte in shown)) == bytes(section.data)
        expected = [group_of(span) for span in section.spans for _ in range(span.length)]
        assert [group for group, _ in shown] == expected
        starts = [int(label) for label in re.findall(r'<span class="half"><b>(\d+)</b>', drawn)]
        assert starts == [(0 if number else at) + 8 * i for i in range(len(starts))]
        assert drawn.count("<tr class=") == len(section.spans)
        for span in section.spans:
            assert f'<td class="field">{span.path}</td>' in drawn


def test_what_the_text_leaves_out_is_counted(page, tmp_path):
    records = [builders.record(value=bytes(100), offset_delta=i) for i in range(9)]
    (tmp_path / "x.log").write_bytes(builders.batch(records))
    text = page(tmp_path / "x.log", "--records", 2)
    skipped = explain((tmp_path / "x.log").read_bytes(), records=2).spans[-1].length
    assert text.count("68 more bytes: records[") == 2 and f">{skipped} bytes: records[2..8]<" in text
    assert len(CELL.findall(text)) == (tmp_path / "x.log").stat().st_size - 2 * 68 - skipped


WRONG_VALUE = [builders.record(), builders.record(offset_delta=1, value_length=40), builders.record(offset_delta=2)]


@pytest.mark.parametrize(
    "data, field",
    [
        (builders.patched(batch(0, 9), 70, b"\xff"), "crc"),
        *((builders.batch(WRONG_VALUE, codec=codec), "records[1].value_length") for codec in ("none", "lz4")),
    ],
    ids=["checksum", "value", "compressed value"],
)
def test_a_wrong_field_and_its_row_are_marked(page, tmp_path, data, field):
    (tmp_path / "x.log").write_bytes(data)
    text = page(tmp_path / "x.log", status=1)
    assert '<header class="damaged">' in text
    assert re.findall(r"<p>WRONG at byte .*?, (\S+): ", text) == [field]
    assert [row for wrong, row in ROW.findall(text) if wrong] == [field]
    marked = [title for _, classes, title, _ in FIELD.findall(text) if "wrong" in classes.split()]
    assert len(marked) == 1 and field in marked[0]


def test_a_restored_field_is_marked(page, tmp_path):
    at = explain(LOG.read_bytes()).size  # of the second batch: its base offset
    (tmp_path / LOG.name).write_bytes(builders.flipped(LOG.read_bytes(), at, 0x40))
    text = page(tmp_path / LOG.name, "--at", at, status=1)
    assert "<p>RESTORED" in text
    assert [cells[:13] for _, classes, _, cells in FIELD.findall(text) if "wrong" in classes] == ["<i>40</i><i>0"]


def test_names_and_values_are_escaped(page, tmp_path):
    path = tmp_path / "<i>&\x1b'\".log"
    path.write_bytes(batch(0, 1, value=b"<script>'\"</td>"))
    text = page(path)
    assert "<script" not in text and "&lt;script&gt;" in text and "\x1b" not in text
    page(path, "--at", "0", "--format", "json")


def test_damaged_and_odd_inputs_have_a_page(page, tmp_path):
    good = batch(0, 3)
    for data in (b"", b"\0" * 700, good[:40], good[:16] + b"\x07" + good[17:], good[:8] + b"\x7f" + good[9:]):
        (tmp_path / "x.log").write_bytes(data)
        text = page(tmp_path / "x.log", "--full", status=1 if data else 0)
        assert "".join(CELL.findall(text)) == data.hex()
