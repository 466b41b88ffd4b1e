"""`kafkarec reindex` writes new files to a new folder and nowhere else; the report."""

from __future__ import annotations

import errno
import gzip
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from command import ENVIRONMENT, Here
from paths import SEGMENTS
from unlistable_folders import refuse_listing

from kafkarec.cli import reindex

TXN = SEGMENTS / "txn-0"
SUFFIXES = (".index", ".timeindex", ".txnindex", ".snapshot")


def sidecars(folder: Path) -> dict[str, bytes]:
    names = (path for path in folder.iterdir() if path.suffix in SUFFIXES or path.name == "leader-epoch-checkpoint")
    return {path.name: path.read_bytes() for path in names}


def test_new_files_equal_those_of_the_broker(run: Here, tmp_path: Path) -> None:
    ran = run("reindex", TXN, "--index-interval", 256, "-o", tmp_path / "a" / "new")
    assert (ran.status, ran.err) == (0, "")
    assert (
        sidecars(tmp_path / "a" / "new")
        == sidecars(TXN)
        == {p.name: p.read_bytes() for p in (tmp_path / "a/new").iterdir()}
    )
    text = ran.out.decode()
    assert "8 files (8 equal), written to" in text and text.count("equal to the old one") == 8


def test_a_dry_run_writes_nothing(run: Here, tmp_path: Path) -> None:
    before = sidecars(TXN)
    ran = run("reindex", TXN, "--dry-run", "-o", tmp_path / "new", "--index-interval", 256)
    assert ran.status == 0 and list(tmp_path.iterdir()) == [] and sidecars(TXN) == before
    assert "nothing is written (--dry-run)" in ran.out.decode()


def test_json_is_a_line_for_each_file(run: Here, tmp_path: Path) -> None:
    new = tmp_path / "new"
    ran = run("reindex", TXN, "--index-interval", 256, "-o", new, "--format", "json")
    assert ran.status == 0 and {row["file"] for row in ran.rows} == set(sidecars(TXN))
    for row in ran.rows:
        assert Path(row["written"]).read_bytes() == (TXN / row["file"]).read_bytes()
        assert row["compared"] == "equal" and row["bytes"] == (TXN / row["file"]).stat().st_size
    assert {row["file"]: row["entries"] for row in ran.rows}[f"{30:020d}.txnindex"] == 11


def test_each_log_gets_its_own_folder(run: Here, tmp_path: Path) -> None:
    ran = run("reindex", TXN, SEGMENTS / "logappend-0", "--index-interval", 256, "-o", tmp_path / "new")
    assert ran.status == 0
    for name in ("txn-0", "logappend-0"):
        assert sidecars(tmp_path / "new" / name) == sidecars(SEGMENTS / name)


def test_preallocated_zeros_are_reported(run: Here) -> None:
    ran = run("reindex", SEGMENTS / "logappend-live-0", "--dry-run", "--index-interval", 256)
    assert "equal to the old one without its 4040 preallocated zero bytes" in ran.out.decode()
    assert "2 equal, 2 new" in ran.out.decode()


def test_another_interval_is_explained(run: Here) -> None:
    ran = run("reindex", TXN, "--dry-run")
    assert ran.status == 0
    assert "differs from the old one" in ran.out.decode() and "(--index-interval)" in ran.out.decode()
    ran = run("reindex", TXN, "--dry-run", "--index-interval", 256)
    assert ran.status == 0 and "--index-interval" not in ran.out.decode()


def test_a_needless_txnindex_is_reported(run: Here, tmp_path: Path) -> None:
    folder = tmp_path / "logappend-0"
    shutil.copytree(SEGMENTS / "logappend-0", folder)
    (folder / f"{0:020d}.txnindex").write_bytes(bytes(34))
    ran = run("reindex", folder, "-o", tmp_path / "new", "--index-interval", 256)
    assert ran.status == 0 and "not written: no aborted transactions" in ran.out.decode()
    assert not (tmp_path / "new" / f"{0:020d}.txnindex").exists()


def test_damage_is_reported_and_left_out_of_the_indexes(run: Here, tmp_path: Path) -> None:
    folder = tmp_path / "src" / "txn-0"
    shutil.copytree(TXN, folder)
    log = folder / f"{30:020d}.log"
    data = bytearray(log.read_bytes())
    data[5000] ^= 1
    log.write_bytes(data)
    ran = run("reindex", folder, "-o", tmp_path / "new", "--index-interval", 256)
    assert ran.status == 1 and "[crc_mismatch]" in ran.err and "1 damaged range at byte" in ran.err
    assert (tmp_path / "new" / f"{30:020d}.index").stat().st_size > 300


def test_a_wrong_old_index_is_reported(run: Here, tmp_path: Path) -> None:
    folder = tmp_path / "txn-0"
    shutil.copytree(TXN, folder)
    (folder / f"{30:020d}.index").write_bytes(b"\0\0\0\1\0\0\0\7")
    ran = run("reindex", folder, "--dry-run", "--index-interval", 256)
    assert ran.status == 0 and "verify says which entries are wrong" in ran.out.decode()


# ---- what is refused


def test_an_output_folder_is_required(run: Here) -> None:
    ran = run("reindex", TXN)
    assert ran.status == 2 and "-o DIR" in ran.complaint


def test_a_folder_that_is_not_empty_is_refused(run: Here, tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"")
    ran = run("reindex", TXN, "-o", tmp_path)
    assert ran.status == 2 and "not empty" in ran.complaint
    ran = run("reindex", TXN, "-o", tmp_path / "x")
    assert ran.status == 2 and "is not a folder" in ran.complaint


@pytest.mark.parametrize("inside", ["", "new", "a/b"])
def test_the_source_folder_is_refused(inside: str, run: Here, tmp_path: Path) -> None:
    folder = tmp_path / "txn-0"
    shutil.copytree(TXN, folder)
    (tmp_path / "link").symlink_to(folder)
    before = sorted(folder.iterdir())
    for source in (folder, folder / f"{30:020d}.log"):
        ran = run("reindex", source, "-o", tmp_path / "link" / inside)
        assert ran.status == 2 and "nothing is written" in ran.complaint
    assert sorted(folder.iterdir()) == before


def test_the_folder_of_a_single_file_is_accepted(run: Here, tmp_path: Path) -> None:
    shutil.copy(TXN / f"{0:020d}.log", tmp_path / "image.bin")
    ran = run("reindex", tmp_path / "image.bin", "-o", tmp_path / "new", "--index-interval", 256)
    assert ran.status == 0
    assert (tmp_path / "new" / f"{0:020d}.index").read_bytes() == (TXN / f"{0:020d}.index").read_bytes()
    assert f"With the broker stopped: cp {tmp_path}/new/* {tmp_path}/" in ran.out.decode()


def test_beside_a_damaged_log_no_command_replaces_the_old_files(run: Here, tmp_path: Path) -> None:
    shutil.copytree(TXN, tmp_path / "txn-0")
    log = tmp_path / "txn-0" / f"{0:020d}.log"
    data = bytearray(log.read_bytes())
    data[300] ^= 1
    log.write_bytes(data)
    ran = run("reindex", tmp_path / "txn-0", "-o", tmp_path / "new")
    assert ran.status == 1 and "written to" in ran.out.decode() and "cp " not in ran.out.decode()
    assert "kafkarec verify" in ran.err


@pytest.mark.parametrize("text", ["-1", "x", "2147483648", "99999999999", "1.5"])
def test_wrong_intervals_are_refused(text: str, run: Here) -> None:
    ran = run("reindex", TXN, "--dry-run", f"--index-interval={text}")
    assert ran.status == 2 and "not a number of bytes" in ran.complaint


def test_two_logs_of_one_name_are_refused(run: Here, tmp_path: Path) -> None:
    for disk in ("a", "b"):
        shutil.copytree(TXN, tmp_path / disk / "txn-0")
    ran = run("reindex", tmp_path / "a/txn-0", tmp_path / "b/txn-0", "-o", tmp_path / "new")
    assert ran.status == 2 and "same name" in ran.complaint
    assert not (tmp_path / "new").exists()


def test_a_closed_pipe_does_not_stop_the_run(tmp_path: Path) -> None:
    script = f"{sys.executable} -m kafkarec reindex {TXN} --index-interval 256 -o {tmp_path}/new | true"
    for _ in range(3):
        shutil.rmtree(tmp_path / "new", ignore_errors=True)
        ran = subprocess.run(["bash", "-c", script], capture_output=True, env=ENVIRONMENT, timeout=60, check=False)
        assert ran.stderr == b"" and sidecars(tmp_path / "new") == sidecars(TXN)


def test_a_failed_run_leaves_nothing(run: Here, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def full(descriptor: int) -> None:
        calls.append(descriptor)
        if len(calls) == 4:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(reindex.os, "fsync", full)
    ran = run("reindex", TXN, "-o", tmp_path / "a" / "new")
    assert ran.status == 3 and "no space left" in ran.complaint
    assert list(tmp_path.iterdir()) == []


def test_a_failed_run_leaves_the_files_of_others(run: Here, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        (tmp_path / "new" / "other").mkdir(parents=True, exist_ok=True)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(reindex.os, "fsync", full)
    assert run("reindex", TXN, "-o", tmp_path / "new" / "txn-0").status == 3
    assert os.listdir(tmp_path / "new") == ["other"]
    (tmp_path / "new" / "txn-0").mkdir()
    assert run("reindex", TXN, "-o", tmp_path / "new" / "txn-0").status == 3
    assert sorted(os.listdir(tmp_path / "new")) == ["other", "txn-0"]


def test_two_segments_with_the_same_side_files_are_refused(run: Here, tmp_path: Path) -> None:
    """The second ones would replace the first ones."""
    shutil.copytree(TXN, tmp_path / "a-0")
    segment = tmp_path / "a-0" / f"{0:020}.log"
    Path(f"{segment}.gz").write_bytes(gzip.compress(segment.read_bytes()))
    ran = run("reindex", tmp_path / "a-0", "-o", tmp_path / "new")
    assert ran.status == 3 and ran.complaint == f"kafkarec: {tmp_path / 'new' / segment.stem}.index: file exists"
    assert not (tmp_path / "new").exists()


def spoiled(top: Path) -> Path:
    """A data folder with three logs, of which the second one has a segment that cannot be read after a good one."""
    for name in ("a-0", "b-0", "c-0"):
        shutil.copytree(TXN, top / name)
    segment = top / "b-0" / f"{30:020}.log"
    segment.unlink()
    segment.symlink_to("nowhere")
    return segment


@pytest.mark.parametrize("options", [(), ("--format", "json")])
def test_a_log_that_cannot_be_read_does_not_stop_the_others(
    run: Here, tmp_path: Path, options: tuple[str, ...]
) -> None:
    segment = spoiled(tmp_path / "data")
    ran = run("reindex", tmp_path / "data", "--index-interval", 256, "-o", tmp_path / "new", *options)
    assert ran.status == 3
    assert ran.complaint == f"kafkarec: {segment}: a link to nowhere, which cannot be found; its log is left out"
    assert b"a-0" in ran.out and b"c-0" in ran.out and b"b-0" not in ran.out
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == ["a-0", "c-0"]
    for name in ("a-0", "c-0"):
        assert sidecars(tmp_path / "new" / name) == sidecars(TXN)


def test_a_missing_path_does_not_stop_the_others(run: Here, tmp_path: Path) -> None:
    ran = run("reindex", TXN, tmp_path / "gone.log", "--dry-run")
    assert ran.status == 3
    assert "gone.log: no such file or directory; its log is left out" in ran.complaint
    assert b"nothing is written (--dry-run)" in ran.out


def test_without_a_readable_log_nothing_is_written(run: Here, tmp_path: Path) -> None:
    segment = spoiled(tmp_path / "data")
    ran = run("reindex", segment.parent, "-o", tmp_path / "new")
    assert (ran.status, ran.out) == (3, b"")
    assert f"{segment}: a link to nowhere" in ran.complaint
    assert not (tmp_path / "new").exists()


def test_a_folder_that_cannot_be_listed_is_reported(run: Here, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a-0", "b-0"):
        shutil.copytree(TXN, tmp_path / name)
    refuse_listing(monkeypatch, "a-0", errno.EACCES)
    ran = run("reindex", tmp_path, "--dry-run")
    assert ran.status == 3
    assert ran.complaint == "kafkarec: a-0 is left out: cannot be listed: permission denied"
    assert b"b-0" in ran.out
