"""Files that are no good segments, and those that cannot be read: what each mode does, and what it says of them."""

from __future__ import annotations

import errno
import gzip
import json
import logging
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from damage_reports import nothing_is_shipped, report  # noqa: F401
from fake_file import FakeFile
from source_rows import Read, log_folder, read

import kafkarec
from kafkarec.storage import folders
from spark_udfs import schema
from spark_udfs.source import options, planning
from spark_udfs.source.listing import DataLoss

pytestmark = pytest.mark.spark

FIRST, BAD, LAST = (f"{offset:020}.log" for offset in (0, 1000, 2000))
VIEWS = ("records", "batches")
NOISE = random.Random(1).randbytes(5000)


def batch(base: int, count: int = 20) -> bytes:
    return bytes(kafkarec.encode([(base + n, 1, None, b"%d" % n, []) for n in range(count)]))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two good segments; what is bad gets its place between them."""
    return log_folder(tmp_path / "orders-0", (0, batch(0)), (2000, batch(2000)))


def got(folder: Path, mode: str, view: str) -> tuple[list[Any], list[dict[str, Any]]]:
    """What is good, as (offset or base offset), and what is told of the rest."""
    rows = read(folder.parent, mode=mode, view=view, columnNameOfCorruptRecord=schema.CORRUPT)
    name = "offset" if view == "records" else "base_offset"
    good = [row[name] for row in rows if not row[schema.CORRUPT]]
    return good, [json.loads(row[schema.CORRUPT]) for row in rows if row[schema.CORRUPT]]


def good(view: str) -> list[int]:
    return [0, 2000] if view == "batches" else [*range(20), *range(2000, 2020)]


# ---- what is no segment ---------------------------------------------------------------------------------------------

CONTENTS = {
    "noise": (NOISE, "", "at byte 0 "),
    "the packed object of a tiered store": (b"\x28\xb5\x2f\xfd" + NOISE, "tiered_object", "a zstd frame"),
    "gzip under a plain name": (gzip.compress(NOISE), "", "at byte 0 "),
    "a text": (b"2026-11-22 INFO no segment at all\n" * 100, "", "at byte 0 "),
}
"""name -> bytes, reason (any, where it is empty), what FAILFAST says."""


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("content", CONTENTS)
def test_bytes_that_are_no_segment(folder: Path, view: str, content: str) -> None:
    path = folder / BAD
    data, reason, words = CONTENTS[content]
    path.write_bytes(data)
    rest, told = got(folder, "PERMISSIVE", view)
    assert rest == good(view)
    assert {each["path"] for each in told} == {str(path)}
    assert sum(each["length"] for each in told) == len(data)
    assert not reason or {each["reason"] for each in told} == {reason}
    assert got(folder, "DROPMALFORMED", view) == (good(view), [])
    with pytest.raises(kafkarec.KafkaRecordError) as refused:
        got(folder, "FAILFAST", view)
    first = str(refused.value).splitlines()[0]
    assert str(path) in first and words in first
    found = report(folder)
    assert [each["damaged_bytes"] for each in found.files] == [0, len(data), 0]


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("mode", options.MODES)
def test_no_damage(folder: Path, view: str, mode: str) -> None:
    """A folder with the name of a segment, a preallocated file's zeros, an empty file."""
    (folder / BAD).mkdir()
    (folder / f"{1500:020}.log").write_bytes(bytes(5000))
    (folder / f"{3000:020}.log").write_bytes(b"")
    assert got(folder, mode, view) == (good(view), [])
    assert not report(folder).is_damaged


# ---- what cannot be read --------------------------------------------------------------------------------------------


def sources_of(monkeypatch: pytest.MonkeyPatch, path: Path, make: Callable[[], Any]) -> None:
    real = folders.LocalFolder.open
    monkeypatch.setattr(
        folders.LocalFolder, "open", lambda self, name: make() if self.join(name) == str(path) else real(self, name)
    )


@pytest.mark.parametrize("view", VIEWS)
def test_a_bad_sector(folder: Path, view: str, monkeypatch: pytest.MonkeyPatch) -> None:
    data = b"".join(batch(1000 + 20 * n) for n in range(40))
    path = folder / BAD
    path.write_bytes(data)
    begins = [row["position"] for row in kafkarec.open(path).scan()]
    bad = range(begins[20] + 5, begins[20] + 60)
    sources_of(monkeypatch, path, lambda: FakeFile(data, window_bytes=4096, unreadable=[bad], name=str(path)))
    rest, told = got(folder, "PERMISSIVE", view)
    assert len(told) == 1 and told[0]["reason"] == "unreadable" and told[0]["path"] == str(path)
    begin, end = told[0]["position"], told[0]["position"] + told[0]["length"]
    assert begin <= bad.start and bad.stop <= end <= begin + 8192
    assert set(good(view)) < set(rest) and rest == sorted(rest)
    with pytest.raises(kafkarec.KafkaRecordError) as refused:
        got(folder, "FAILFAST", view)
    assert f"could not be read here in {path} at byte {begin}" in str(refused.value).splitlines()[0]


@pytest.mark.parametrize("mode", options.MODES)
def test_a_file_that_may_not_be_read_fails_in_every_mode(
    folder: Path, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody knows that its bytes are bad; to leave them out would be a loss that nobody sees."""
    path = folder / BAD
    path.write_bytes(batch(1000))

    def refuse() -> Any:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))

    sources_of(monkeypatch, path, refuse)
    for view in VIEWS:
        with pytest.raises(PermissionError, match=f"Permission denied: '{path}'"):
            got(folder, mode, view)
    (row,) = report(folder).rows
    assert (row["file"], row["reason"]) == (str(path), "unreadable") and "Permission denied" in row["detail"]


@pytest.mark.parametrize("mode", options.MODES)
def test_a_link_that_leads_nowhere(folder: Path, mode: str, caplog: pytest.LogCaptureFixture) -> None:
    path = folder / BAD
    path.symlink_to("/not/mounted/here.log")
    words = f"data loss in orders-0: {path} is a link to /not/mounted/here.log, which is not there"
    for view in VIEWS:
        with pytest.raises(DataLoss, match=words):
            got(folder, mode, view)
    rows = read(folder, mode=mode, failOnDataLoss="false", columns="offset")
    assert [row["offset"] for row in rows] == good("records") and words in caplog.text
    (row,) = report(folder).rows
    assert (row["file"], row["reason"]) == (str(path), "unreadable")


def test_a_disk_that_tells_no_sizes(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that cannot be looked at while the folder is listed is not taken for an empty one."""
    (folder / BAD).write_bytes(batch(1000))
    real = folders.LocalFolder.entries

    def entries(self: folders.LocalFolder) -> list[Any]:
        return [each._replace(size=0) if each.name == BAD else each for each in real(self)]

    monkeypatch.setattr(folders.LocalFolder, "entries", entries)
    assert [row["offset"] for row in read(folder, columns="offset")] == [
        *range(20),
        *range(1000, 1020),
        *range(2000, 2020),
    ]


# ---- tasks ----------------------------------------------------------------------------------------------------------


def test_small_files_share_tasks_as_sparks_own_do() -> None:
    """FilePartition.maxSplitBytes: each file is worth 4 MiB more than its bytes."""
    small = [planning.Split(f"{n}.log", "t", 0, 0, 16 << 10) for n in range(5000)]
    for given, tasks in (({}, 162), ({"minPartitions": "400"}, 417), ({"maxPartitionBytes": "1g"}, 20)):
        chosen = options.parse({"path": "x", **given}, "read")
        found = planning.tasks(chosen, small)
        assert len(found) == tasks and [split for task in found for split in task] == small
    assert len(planning.tasks(options.parse({"path": "x"}, "read"), small[:20])) == 1


@pytest.mark.parametrize("view", VIEWS)
def test_the_line_of_a_task_counts_what_it_read(folder: Path, view: str, caplog: pytest.LogCaptureFixture) -> None:
    (folder / BAD).write_bytes(NOISE)
    size = sum(path.stat().st_size for path in folder.glob("*.log"))
    line = f"files=3 bytes={size} batches=2 records=40 damaged=1 seconds="
    with caplog.at_level(logging.INFO, "spark_udfs"):
        Read({"path": str(folder), "mode": "PERMISSIVE", "view": view})
        report(folder)
    lines = [each for each in caplog.messages if each.startswith("kafkarec ")]
    assert [each.partition(line)[0] for each in lines] == ["kafkarec read ", "kafkarec damage_report "]
    assert all(f"first={folder / FIRST}" in each for each in lines)
