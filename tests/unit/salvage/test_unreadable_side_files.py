"""A side file of the source that cannot be read is named by `salvage` as by `verify`, and nothing else is lost."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest
from unreadable_files import refused
from witness_folders import cut, golden, name_of

from kafkarec.ops.salvage import salvage
from kafkarec.ops.verify import verify

FILES = ["leader-epoch-checkpoint", "partition.metadata"]
FILES += [name_of(30, suffix) for suffix in (".index", ".timeindex", ".txnindex", ".snapshot")]


@pytest.mark.parametrize("alone", [False, True], ids=["data folder", "partition"])
@pytest.mark.parametrize("name", FILES)
def test_a_disk_error_in_a_side_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, alone: bool) -> None:
    folder = golden(tmp_path / "data", "txn-0")
    bad = folder / name
    refused(errno.EIO)(bad, monkeypatch)
    source = folder if alone else folder.parent
    verified, report = verify(source), salvage(source, tmp_path / "out")
    assert (verified.exit_status(), report.exit_status()) == (3, 3)
    assert list(verified.unread) == report.unreadable == [str(bad)]
    assert [one.cause for one in report.unread] == ["disk"]
    text = str(report)
    assert f"not read: {bad}: cannot be read: input/output error\n" in text and text.count(name) == 1
    assert "more name" not in text
    assert (report.partitions[0].batches, report.partitions[0].lost) == (149, [])


def test_a_disk_error_in_the_index_of_a_named_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = golden(tmp_path / "data", "txn-0")
    bad = folder / name_of(30, ".index")
    refused(errno.EIO)(bad, monkeypatch)
    report = salvage(folder / name_of(30, ".log"), tmp_path / "out", topic="txn", partition=0)
    assert (report.unreadable, report.exit_status()) == ([str(bad)], 3)


def test_a_disk_error_in_a_file_of_the_data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = golden(tmp_path / "data", "txn-0")
    bad = folder.parent / "meta.properties"
    bad.write_text("version=1\n")
    refused(errno.EIO)(bad, monkeypatch)
    verified, report = verify(folder.parent), salvage(folder.parent, tmp_path / "out")
    assert list(verified.unread) == report.unreadable == [str(bad)]
    assert (verified.exit_status(), report.exit_status()) == (3, 3)
    assert "not copied" not in str(report)


def test_damage_and_a_disk_error_in_the_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = golden(tmp_path / "data", "txn-0")
    cut(folder / name_of(30, ".log"), 9000, zeros=True)
    refused(errno.EIO)(folder / name_of(30, ".index"), monkeypatch)
    report = salvage(folder, tmp_path / "out")
    assert report.exit_status() == 3 and report.partitions[0].damage
    assert [Path(one.path).suffix for one in report.unread] == [".index"]
