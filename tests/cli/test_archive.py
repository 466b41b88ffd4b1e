"""Globs and folders key=value on the command line: several folders of one partition as one log."""

import json
import shutil
from pathlib import Path

import pytest
from paths import SEGMENTS
from plain_logs import flip

import kafkarec

TXN = SEGMENTS / "txn-0"
OFFSETS = [f"{0:020}.log", f"{30:020}.log"]
DAYS = ("2026-11-01", "2026-11-02")


@pytest.fixture
def archive(tmp_path, monkeypatch):
    """A segment of txn-0 in the folder of each day; the folder above `archive` is the current one."""
    monkeypatch.chdir(tmp_path)
    for day, name in zip(DAYS, OFFSETS, strict=True):
        folder = Path("archive", f"date={day}", "txn-0")
        folder.mkdir(parents=True)
        shutil.copy(TXN / name, folder)
    return tmp_path / "archive"


@pytest.mark.parametrize("path", ["archive", "archive/date=*", "archive/*/txn-0", "arch*/date=2026-11-0[12]/{txn,x}-*"])
def test_folders_of_one_partition_are_one_log(path, archive, run):
    rows = run("cat", path, "--columns", "offset", "--isolation", "read_committed").rows
    assert rows == run("cat", TXN, "--columns", "offset", "--isolation", "read_committed").rows
    report = json.loads(run("verify", path, "--format", "json").out)
    assert (report["state"], len(report["partitions"])) == ("ok", 1)
    assert [file["name"] for file in report["partitions"][0]["files"]] == OFFSETS
    listed = [row for row in run("ls", path, "--format", "json").rows if row["kind"] == "segment"]
    assert [row["next_offset"] for row in listed] == [30, 293]
    assert len(run("scan", path, "--format", "json").rows) == 149
    assert run("txn", path).out.startswith(b"txn-0: 2 segments")


@pytest.mark.parametrize("path", ["archive", "archive/date=*/txn-0"])
def test_diff_compares_it_with_a_replica(path, archive, run):
    for sides in ((path, TXN), (TXN, path)):
        ran = run("diff", *sides)
        assert ran.status == 0 and ran.text.endswith("149 batches, 18016 bytes\nthe same, byte for byte\n")


def test_convert_writes_one_log_and_never_into_a_folder_that_is_read(archive, run):
    for number, path in enumerate(("archive", "archive/date=*")):
        assert run("convert", path, "-o", f"out{number}", "--compression", "zstd").status == 0
        assert len(run("cat", f"out{number}/txn-0", "--columns", "offset").rows) == 267
        for output in ("archive/date=2026-11-02/txn-0/x.json", "archive/date=2026-11-02/txn-0/x/y.json"):
            refused = run("verify", path, "-o", output)
            assert refused.status == 2 and "nothing is written there" in refused.complaint
        force = run("cat", path, "-o", f"archive/date=2026-11-02/txn-0/{OFFSETS[1]}", "--force")
        assert force.status == 2 and (archive / "date=2026-11-02" / "txn-0" / OFFSETS[1]).stat().st_size == 16370


def test_a_hard_link_to_a_file_deep_in_an_archive_is_no_output(archive, run):
    deep = archive / "date=2026-11-03" / "hour=05" / "region=eu" / "orders-0"
    deep.mkdir(parents=True)
    shutil.copy(TXN / OFFSETS[0], deep)
    linked = Path("linked.json")
    linked.hardlink_to(deep / OFFSETS[0])
    refused = run("verify", "archive", "-o", linked, "--force")
    assert refused.status == 2 and "has other names (hard links)" in refused.complaint
    assert linked.samefile(deep / OFFSETS[0])


@pytest.mark.parametrize(
    "path, status, message",
    [
        ("archive/date=2027*", 3, "archive/date=2027*: no such file or directory"),
        ("archive/[x]", 3, "archive/[x]: no such file or directory"),
        ("overlap", 2, "they overlap, so records would be read twice"),
        ("bad", 2, "the folder 'date=' has no value: expected <name>=<value>"),
    ],
)
def test_what_cannot_be_read_is_one_line(path, status, message, archive, run):
    for day in DAYS:
        shutil.copytree(TXN, Path("overlap", f"date={day}", "txn-0"))
    shutil.copytree(TXN, Path("bad", "date=", "txn-0"))
    for verb in ("cat", "verify", "ls"):
        ran = run(verb, path)
        assert ran.status == status and message in ran.complaint


def test_a_glob_of_nothing_stops_no_other_path(archive, run):
    ran = run("verify", "archive/date=*", "nothing*")
    assert ran.status == 3 and b"nothing*: no such file or directory" in ran.out and b"in 2 files" in ran.out


def test_reindex_takes_one_folder(archive, run):
    refused = run("reindex", "archive", "-o", "new")
    assert refused.status == 2 and "in several folders; rebuild them one at a time" in refused.complaint
    assert not Path("new").exists()
    assert run("reindex", "archive/date=2026-11-01/txn-0", "-o", "new").status == 0
    assert Path("new", OFFSETS[0].replace(".log", ".timeindex")).stat().st_size


def test_a_data_folder_beside_a_key_folder_is_read_as_before(archive, run):
    shutil.copytree(TXN, archive / "txn-0")
    report = json.loads(run("verify", "archive", "--format", "json").out)
    assert [Path(each["path"]).name for each in report["partitions"]] == ["txn-0"]
    shutil.copytree(TXN, "a[1]/txn-0")
    assert len(run("cat", "a[1]", "--columns", "offset").rows) == 267


def test_a_damaged_archive_is_salvaged_by_the_command_that_verify_prints(archive, run):
    path = archive / "date=2026-11-02" / "txn-0" / OFFSETS[1]
    flip(path, 5000)
    assert run("verify", "archive").out.endswith(b"next: kafkarec salvage archive -o rescued\n")
    assert run("salvage", "archive", "-o", "rescued").status == 1
    assert kafkarec.open("rescued/txn-0").next_offset == 293 and run("verify", "rescued").status == 0
