"""`kafkarec reindex` writes new files to a new folder and nowhere else; the report."""

import errno
import gzip
import os
import shlex
import shutil
from pathlib import Path

import pytest
from command import COMMAND, SHELL, own_process
from failing_calls import before, failing
from paths import SEGMENTS

TXN = SEGMENTS / "txn-0"
SUFFIXES = (".index", ".timeindex", ".txnindex", ".snapshot")


def sidecars(folder):
    names = (path for path in folder.iterdir() if path.suffix in SUFFIXES or path.name == "leader-epoch-checkpoint")
    return {path.name: path.read_bytes() for path in names}


# ---- what is refused


def test_a_single_file_may_have_any_name(run, tmp_path):
    shutil.copy(TXN / f"{0:020d}.log", tmp_path / "image.bin")
    assert run("reindex", tmp_path / "image.bin", "-o", tmp_path / "new", "--index-interval", 256).status == 0
    assert (tmp_path / "new" / f"{0:020d}.index").read_bytes() == (TXN / f"{0:020d}.index").read_bytes()


def test_the_command_that_shows_damage_names_what_has_it(run, tmp_path):
    """The folder leaves a file out whose name is none of Kafka's."""
    copy, image = tmp_path / "orders-0" / f"{0:020d}.log", tmp_path / "image.bin"
    copy.parent.mkdir()
    for path, shown in ((copy, copy.parent), (image, image)):
        path.write_bytes(bytes(100) + (TXN / f"{0:020d}.log").read_bytes())
        assert run("reindex", path, "--dry-run").err.endswith(f" See kafkarec verify {shown}\n")
        assert run("verify", shown).status == 1


def test_the_indexes_of_standard_input_have_no_folder_to_be_copied_to(tmp_path):
    with open(TXN / f"{0:020d}.log", "rb") as log:
        ran = own_process("reindex", "-", "-o", tmp_path / "new", file=log)
    out = ran.text
    assert ran.status == 0 and out.startswith("standard input\n") and out.endswith(f"written to {tmp_path}/new\n")


def test_preallocated_zeros_are_no_difference(run):
    ran = run("reindex", SEGMENTS / "logappend-live-0", "--dry-run", "--index-interval", 256)
    assert "equal to the old one without its 4040 preallocated zero bytes" in ran.text


def test_a_closed_pipe_does_not_stop_the_run(tmp_path):
    script = f"{shlex.join(COMMAND)} reindex {TXN} --index-interval 256 -o {tmp_path}/new | true"
    for _ in range(3):
        shutil.rmtree(tmp_path / "new", ignore_errors=True)
        assert own_process(script, program=SHELL).err == ""
        assert sidecars(tmp_path / "new") == sidecars(TXN)


def test_a_failed_run_leaves_the_files_of_others(run, tmp_path, monkeypatch):
    monkeypatch.setattr(os, "fsync", failing(errno.ENOSPC))
    before(monkeypatch, os, "fsync", lambda _: (tmp_path / "new" / "other").mkdir(parents=True, exist_ok=True))
    assert run("reindex", TXN, "-o", tmp_path / "new" / "txn-0").status == 3
    assert os.listdir(tmp_path / "new") == ["other"]
    (tmp_path / "new" / "txn-0").mkdir()
    assert run("reindex", TXN, "-o", tmp_path / "new" / "txn-0").status == 3
    assert sorted(os.listdir(tmp_path / "new")) == ["other", "txn-0"]


def test_two_segments_with_the_same_side_files_are_refused(run, tmp_path):
    """The second ones would replace the first ones. In a folder a compressed copy is left out."""
    shutil.copytree(TXN, tmp_path / "a-0")
    segment = tmp_path / "a-0" / f"{0:020}.log"
    Path(f"{segment}.gz").write_bytes(gzip.compress(segment.read_bytes()))
    ran = run("reindex", segment, f"{segment}.gz", "-o", tmp_path / "new")
    assert ran.status == 3 and ran.complaint == f"kafkarec: {tmp_path / 'new' / segment.stem}.index: file exists"
    assert not (tmp_path / "new").exists()
    assert run("reindex", tmp_path / "a-0", "-o", tmp_path / "new").status == 0


def spoiled(top):
    """A data folder with three logs, of which the second one has a segment that cannot be read after a good one."""
    for name in ("a-0", "b-0", "c-0"):
        shutil.copytree(TXN, top / name)
    segment = top / "b-0" / f"{30:020}.log"
    segment.unlink()
    segment.symlink_to("nowhere")
    return segment


@pytest.mark.parametrize("options", [(), ("--format", "json")])
def test_a_log_that_cannot_be_read_does_not_stop_the_others(run, tmp_path, options):
    segment = spoiled(tmp_path / "data")
    ran = run("reindex", tmp_path / "data", "--index-interval", 256, "-o", tmp_path / "new", *options)
    assert ran.status == 3
    assert ran.complaint == f"kafkarec: {segment}: a link to nowhere, which cannot be found; its log is left out"
    assert b"a-0" in ran.out and b"c-0" in ran.out and b"b-0" not in ran.out
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == ["a-0", "c-0"]
    for name in ("a-0", "c-0"):
        assert sidecars(tmp_path / "new" / name) == sidecars(TXN)
