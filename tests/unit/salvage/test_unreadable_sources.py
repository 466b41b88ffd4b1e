"""A file that cannot be read never stops `salvage`, and `verify` says why it cannot be read."""

import errno
import json
import os

import pytest
from allocations import Preads
from plain_logs import batch, log
from unreadable_files import SPOILS, dangling_link, pipe, refuse_listing, refused
from witness_folders import golden, name_of

import kafkarec
from kafkarec import _core, salvage, verify

BASES = (0, 20, 40)
SEGMENTS = [b"".join(batch(base + at, 10) for at in (0, 10)) for base in BASES]
NAMES = [f"{base:020}.log" for base in BASES]


@pytest.fixture
def source(tmp_path):
    """Two partitions; the first one has three segments of two batches."""
    log(tmp_path / "data" / "orders-0", *([segment] for segment in SEGMENTS))
    log(tmp_path / "data" / "other-1", [batch(0, 5)], [batch(5, 5)])
    return tmp_path / "data"


@pytest.mark.parametrize("at", range(3))
@pytest.mark.parametrize("name", SPOILS)
def test_the_other_files_are_saved_and_verify_says_why(source, tmp_path, monkeypatch, name, at):
    spoil, cause, words = SPOILS[name]
    bad = source / "orders-0" / NAMES[at]
    spoil(bad, monkeypatch)
    verified = verify(source)
    [finding] = [one for one in verified.findings if one.severity == "error"]
    assert (finding.kind, finding.cause) == ("unreadable_file", cause) and words in finding.detail
    assert verified.exit_status() == 3 and verified.total("batches") == 6
    text = str(verified)
    unread = "COULD NOT READ EVERYTHING: 1 file or folder could not be read completely"
    assert text.startswith(f"{unread}; the rest is not damaged\n")
    assert ("ddrescue" in text) is (cause == "disk")
    report = salvage(source, tmp_path / "out")
    assert [(one.path, one.cause) for one in report.unread] == [(str(bad), cause)]
    assert words in report.unread[0].why
    assert f"not read: {bad}: {report.unread[0].why}" in str(report)
    assert (report.exit_status(), report.ok) == (3, False)
    made = tmp_path / "out" / "orders-0"
    for number, segment in enumerate(SEGMENTS):
        if number == at:
            assert not (made / NAMES[number]).exists()
            continue
        assert (made / NAMES[number]).read_bytes() == segment
        assert (made / NAMES[number]).with_suffix(".index").exists()
    assert sorted(path.name for path in (tmp_path / "out" / "other-1").glob("*.log")) == [NAMES[0], f"{5:020}.log"]
    written = json.loads((tmp_path / "out" / "salvage.json").read_text())
    assert written["unreadable"] == [str(bad)] and written["unread"][0]["cause"] == cause
    assert written == report.to_dict()
    assert not (tmp_path / "out" / ".unfinished").exists()


@pytest.mark.parametrize("spoil", [dangling_link, pipe])
def test_a_name_in_the_middle_of_another_segment_costs_none_of_its_batches(source, tmp_path, monkeypatch, spoil):
    name = source / "orders-0" / f"{30:020}.log"
    name.touch()
    spoil(name, monkeypatch)
    report = salvage(source, tmp_path / "out")
    assert report.exit_status() == 3 and len(report.unread) == 1
    [made] = [one for one in report.partitions if one.partition == 0]
    assert not made.set_aside and sum(file.size for file in made.files) == sum(map(len, SEGMENTS))


def test_errors_and_an_unreadable_file(source, monkeypatch):
    (source / "other-1" / f"{5:020}.log").write_bytes(batch(7, 3))
    (source / "meta.properties").write_text("version=1\nnode.id=0\ncluster.id=c\n")
    (source / "cleaner-offset-checkpoint").write_text("0\n0\n")  # so the log was never compacted
    pipe(source / "orders-0" / NAMES[1], monkeypatch)
    report = verify(source)
    assert report.exit_status() == 3
    assert str(report).startswith("INCONSISTENT: 1 error; 2 offsets")


def test_bad_sectors_in_a_file(source, tmp_path):
    """What is before and after them is kept. The output is shorter than the position of the bad sector."""
    parts = [batch(base, 1, value=b"x" * (100_000 if base == 5 else 3000)) for base in range(11)]
    folder = log(tmp_path / "sectors" / "orders-0", parts)
    with Preads(_core, bad=range(60_000, 60_001)):
        report = verify(folder)
        saved = salvage(folder, tmp_path / "out")
    assert report.exit_status() == saved.exit_status() == 3
    assert {one.reason for one in report.damage} == {"unreadable"}
    [file] = report.files
    assert file.unreadable_bytes >= 1 and file.batches == 10 and "ddrescue" in str(report) and "?" in str(report)
    [one] = saved.partitions
    assert {each["reason"] for each in one.damage} == {"unreadable"}
    assert [(each.path, each.cause) for each in saved.unread] == [(str(folder / NAMES[0]), "disk")]
    kept = (tmp_path / "out" / "orders-0" / NAMES[0]).read_bytes()
    assert kept == b"".join((*parts[:5], *parts[6:])) and one.lost == [(5, 5)]


def test_files_that_vanish_while_the_log_is_open(source, tmp_path):
    with kafkarec.open(source / "orders-0") as opened:
        (source / "orders-0" / NAMES[1]).unlink()
        report = salvage(opened, tmp_path / "out")
    assert [one.cause for one in report.unread] == ["missing"] and report.exit_status() == 3
    assert report.partitions[0].lost == [(20, 39)]


def test_one_of_several_sources(source, tmp_path):
    files = [source / "orders-0" / name for name in (NAMES[0], NAMES[2])]
    report = salvage([files[0], tmp_path / "gone.log", files[1]], tmp_path / "out")
    assert report.unreadable == [str(tmp_path / "gone.log")] and report.exit_status() == 3
    assert report.partitions[0].batches == 4
    with pytest.raises(FileNotFoundError):
        salvage(tmp_path / "gone.log", tmp_path / "other")


def test_a_snapshot_that_cannot_be_opened(source, tmp_path):
    os.mkfifo(source / "orders-0" / f"{40:020}-{1:010}.checkpoint")
    report = salvage(source, tmp_path / "out")
    assert [one.cause for one in report.unread] == ["not_a_file"] and report.exit_status() == 3
    assert not report.damage and report.partitions[0].batches == 6


def test_errors_of_the_process_stop_the_run(source, tmp_path, monkeypatch):
    """Too many open files: no other file could be read either. The next run continues."""
    with monkeypatch.context() as patched:
        refused(errno.EMFILE)(source / "orders-0" / NAMES[1], patched)
        with pytest.raises(OSError, match="Too many open files"):
            salvage(source, tmp_path / "out")
    assert salvage(source, tmp_path / "out").ok


# ---- side files: named by salvage as by verify, and nothing else is lost

SIDE_FILES = ["leader-epoch-checkpoint", "partition.metadata"]
SIDE_FILES += [name_of(30, suffix) for suffix in (".index", ".timeindex", ".txnindex", ".snapshot")]


@pytest.mark.parametrize("alone", [False, True], ids=["data folder", "partition"])
@pytest.mark.parametrize("kind", ["disk error", "pipe"])
@pytest.mark.parametrize("name", SIDE_FILES)
def test_a_side_file(tmp_path, monkeypatch, name, kind, alone):
    """Nothing is waited for that comes through a pipe."""
    spoil, cause, words = SPOILS[kind]
    folder = golden(tmp_path / "data", "txn-0")
    bad = folder / name
    spoil(bad, monkeypatch)
    source = folder if alone else folder.parent
    verified, report = verify(source), salvage(source, tmp_path / "out", as_partition=alone)
    assert (verified.exit_status(), report.exit_status()) == (3, 3)
    assert {one.cause for one in verified.findings if one.severity == "error"} == {cause}
    assert list(verified.unread) == report.unreadable == [str(bad)]
    [unread] = report.unread
    assert unread.cause == cause and words in unread.why
    told = [line for line in str(report).splitlines() if line.startswith("not read: ")]
    assert told == [f"not read: {bad}: {unread.why}"] and (alone or str(report).count(name) == 1)
    assert (report.partitions[0].batches, report.partitions[0].lost) == (149, [])


@pytest.mark.parametrize("kind", ["disk error", "pipe", "device"])
@pytest.mark.parametrize("name", ["meta.properties", "cleaner-offset-checkpoint"])
def test_a_file_of_the_data_folder(tmp_path, monkeypatch, name, kind):
    folder = golden(tmp_path / "data", "txn-0")
    bad = folder.parent / name
    bad.write_bytes(b"")
    SPOILS[kind][0](bad, monkeypatch)
    verified, report = verify(folder.parent), salvage(folder.parent, tmp_path / "out")
    assert list(verified.unread) == report.unreadable == [str(bad)]
    assert (verified.exit_status(), report.exit_status()) == (3, 3)
    assert "not copied" not in str(report)


def test_one_of_several_folders_that_cannot_be_listed(source, tmp_path, monkeypatch):
    other = tmp_path / "disk2"
    log(other / "third-2", [batch(0, 5)])
    refuse_listing(monkeypatch, "disk2", errno.EIO)
    report = salvage([source, other], tmp_path / "out")
    assert [one.folder for one in report.partitions] == ["orders-0", "other-1"]
    assert report.unreadable == [str(other)] and report.exit_status() == 3
    with pytest.raises(OSError, match="Input/output error"):
        salvage(other, tmp_path / "none")
