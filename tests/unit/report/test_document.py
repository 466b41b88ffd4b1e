"""A document says the same as text and as a page; results are JSON values by one function."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from html_pages import parsed

import kafkarec
from kafkarec import report
from kafkarec.report import Bar, Commands, Document, ReportSection, ReportTable

BLOCKS = [
    "read: 3 of 4 files",
    "",
    ReportTable([("file", ["a", "b\x1b"]), ("bytes", ["7", "-"])]),
    Bar("  good 75 %, damaged 25 %", [("good", 3), ("damaged", 1)]),
    ReportSection("orders-0", ["<i>no batch</i>", ReportTable([("none", [])])]),
    Commands("next", [("look", "kafkarec ls 'a b'"), ("look", "kafkarec ls 'a b'"), ("mend", "kafkarec salvage a")]),
]
TEXT = """4 files
read: 3 of 4 files

file  bytes
a         7
b\ufffd        -
  good 75 %, damaged 25 %

orders-0
<i>no batch</i>
none
next
  look:
    kafkarec ls 'a b'
  mend:
    kafkarec salvage a
"""


def test_the_text_of_each_block() -> None:
    assert "".join(report.text(Document("ls", BLOCKS, "4 files"))) == TEXT
    assert "".join(report.text(iter(BLOCKS))) == TEXT.partition("\n")[2]


def test_the_page_has_every_line_and_cell_of_the_text(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_text("".join(report.html(Document("ls", BLOCKS, "4 files", "damaged"))))
    page = parsed(path)
    for line in TEXT.split("\n"):
        for cell in filter(None, line.strip(" :").split("  ")):
            assert cell.strip() in page.text, cell
    assert page.text.count("kafkarec ls 'a b'") == 1
    counts = {name: page.seen.count(name) for name in ("h1", "h2", "table", "svg", "rect", "section", "pre")}
    assert counts == {"h1": 1, "h2": 1, "table": 2, "svg": 1, "rect": 2, "section": 3, "pre": 1}
    assert '<header class="damaged">' in path.read_text() and 'rect class="damaged"' in path.read_text()


def test_a_bar_of_many_parts_stays_small_and_each_bad_part_is_seen() -> None:
    parts = [(name, size) for _ in range(20_000) for name, size in (("good", 1000), ("damaged", 1))]
    drawn = Bar("", parts).drawn()
    assert len(drawn) < 250_000
    marked = {int(at) for at in re.findall('class="damaged" x="([0-9]+)" width="3"', drawn)}
    assert marked == set(range(998)) and drawn.rindex('class="good"') < drawn.index('class="damaged"')


class Place(NamedTuple):
    file: str
    at: tuple[int, ...]


@dataclass
class Result:
    size: int
    places: list[Place]
    by_codec: dict[str, int] = field(default_factory=dict)
    rate: float | None = None


class Renamed(NamedTuple):
    one: Place

    def as_dict(self) -> dict[str, Any]:
        return {"first": self.one}


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        (None, None),
        (b"".hex(), ""),
        (Place("a", (1, 2)), {"file": "a", "at": [1, 2]}),
        (
            Result(5, [Place("a", ())], {"lz4": 3}),
            {"size": 5, "places": [{"file": "a", "at": []}], "by_codec": {"lz4": 3}, "rate": None},
        ),
        ([Renamed(Place("a", (7,)))], [{"first": {"file": "a", "at": [7]}}]),
    ],
)
def test_results_as_json_values(value: Any, wanted: Any) -> None:
    assert report.jsonable(value) == wanted == json.loads(json.dumps(report.jsonable(value)))


def test_damage_has_all_that_its_object_has() -> None:
    data = bytearray(kafkarec.encode([(0, 1, b"k", b"v", [])]))
    data[-1] ^= 1
    (damage,) = kafkarec.decode(bytes(data), errors="skip").damage
    assert report.jsonable(damage) == damage.as_dict() and report.jsonable(damage)["reason"] == "crc_mismatch"
