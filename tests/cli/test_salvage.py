"""`kafkarec salvage`: what is saved with each option, and how a run ends that cannot write, or is interrupted."""

import errno
import os
import shutil
import signal
import time
from pathlib import Path

import pytest
from builders import flipped
from command import interruptible, own_process
from failing_calls import before, failing, is_folder
from paths import SEGMENTS
from plain_logs import batch, flip, log
from witness_folders import golden

TXN = SEGMENTS / "txn-0"


@pytest.fixture
def damaged(tmp_path):
    parts = [batch(i * 10, 10) for i in range(4)]
    parts[1] = flipped(parts[1], 90)
    return log(tmp_path / "orders-0", parts)


def test_too_little_disk_space_is_reported_first(run, tmp_path, monkeypatch):
    class Small:
        f_bavail, f_frsize = 3, 4096

    monkeypatch.setattr(os, "statvfs", lambda path: Small)
    ran = run("salvage", TXN, "-o", tmp_path / "out")
    assert ran.status == 3 and "12288 bytes free" in ran.complaint
    assert not (tmp_path / "out").exists()
    assert run("salvage", TXN, "-o", tmp_path / "out", "--dry-run").status == 0
    assert run("salvage", TXN, "-o", tmp_path / "out", "--ignore-space").status == 0


def test_a_failure_says_that_the_command_can_continue(run, damaged, tmp_path, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(os, "pwrite", failing(errno.ENOSPC))
        ran = run("salvage", damaged, "-o", tmp_path / "out")
    assert ran.status == 3
    assert "no space left on device; what was copied so far is kept, and the same command continues" in ran.complaint
    assert run("salvage", damaged, "-o", tmp_path / "out").status == 1
    assert (tmp_path / "out" / "salvage.json").exists()


def test_an_interrupted_run_can_be_continued(tmp_path):
    """Ctrl-C leaves notes and no partial files; the same command continues."""
    source = tmp_path / "big"
    value = b"x" * 900
    parts = b"".join(batch(i * 100, 100, value=value) for i in range(40))
    for number in range(6):
        log(source / f"orders-{number}", [parts])
    child = interruptible("salvage", source, "-o", tmp_path / "out")
    notes = tmp_path / "out" / ".unfinished"
    while child.poll() is None and not list(notes.glob("orders-*.json")):
        time.sleep(0.002)
    child.send_signal(signal.SIGINT)
    child.communicate()
    assert child.returncode in (0, 130)
    if child.returncode == 130:
        assert notes.exists() and not list((tmp_path / "out").rglob("*.part"))
        assert own_process("salvage", source, "-o", tmp_path / "out").status == 0
    for number in range(6):
        assert (tmp_path / "out" / f"orders-{number}" / f"{0:020}.log").read_bytes() == parts


def test_many_deleted_files_are_one_line(run, tmp_path):
    folder = golden(tmp_path, "txn-0")
    for number in range(8):
        shutil.copy(folder / f"{0:020}.log", folder / f"{number:020}.log.deleted")
    lines = run("salvage", folder, "-o", tmp_path / "out").text.splitlines()
    first = folder / f"{0:020}.log.deleted"
    assert [line for line in lines if "not used" in line] == [
        f"  not used: {first} and 7 more: offsets 0 to 29 are in the log already"
    ]


def test_a_deleted_partitions_folder_is_named_as_it_is_to_be_typed(run, tmp_path):
    source = tmp_path / "D24"
    deleted = log(source / "orders-0.0123456789abcdef0123456789abcdef-delete", [batch(0, 10)])
    ran = run("salvage", source, "-o", tmp_path / "out")
    assert ran.status == 2 and f"no .log file was found; kafkarec verify {source} lists other files" in ran.complaint
    assert run("verify", source).text.splitlines()[-1] == f"next: kafkarec verify {deleted}"
    ran = run("salvage", deleted, "-o", tmp_path / "out")
    assert ran.status == 0 and ran.text.startswith("orders-0: saved 1 batch")


@pytest.mark.parametrize("code, status", [(errno.EINVAL, 0), (errno.EIO, 3)])
def test_a_folder_that_cannot_be_synced(run, tmp_path, monkeypatch, code, status):
    """EINVAL: some network filesystems and FUSE cannot; EIO: the disk did not."""
    before(monkeypatch, os, "fsync", failing(code, is_folder))
    source, out = log(tmp_path / "Orders-0", [batch(0, 10)]), tmp_path / "Out"
    ran = run("salvage", source, "-o", out)
    assert ran.status == status
    assert (out / "salvage.json").exists() == (status == 0)
    assert status == 0 or f"{tmp_path}: fsync of the folder failed: input/output error" in ran.err


def test_a_damaged_copy_names_its_path_as_it_is_and_another_disk(run, tmp_path, monkeypatch):
    real, spoiled = os.replace, [f"{10:020}.log"]

    def replace(part, path):
        real(part, path)
        if Path(path).name in spoiled:
            flip(Path(path), 70)

    monkeypatch.setattr(os, "replace", replace)
    log(tmp_path / "Data" / "Other-0", [batch(0, 10)])
    log(tmp_path / "Data" / "Orders-0", [batch(0, 10)], [batch(10, 10)])
    out = tmp_path / "Rescued"
    for _ in range(2):
        ran = run("salvage", tmp_path / "Data", "-o", out)
        assert ran.status == 3
        assert ran.complaint.startswith(f"kafkarec: {out / 'Orders-0'}: the copy is damaged (")
        assert f" in {out / 'Orders-0' / f'{10:020}.log'} at byte 0 " in ran.complaint
        assert "salvage to a folder on another disk" in ran.complaint and "continues" not in ran.complaint
    spoiled.clear()
    assert run("salvage", tmp_path / "Data", "-o", out).status == 0
    assert run("verify", out).status == 0


def test_standard_input_is_a_source_that_cannot_be_read_again(damaged, tmp_path, monkeypatch):
    file = next(damaged.glob("*.log"))
    for out, source, data in (("a", file, b""), ("b", "-", file.read_bytes())):
        ran = own_process("salvage", source, "--topic", "t", "--partition", "0", "-o", tmp_path / out, stdin=data)
        assert ran.status == 1, ran
    saved, from_pipe = ((tmp_path / out / "t-0" / file.name).read_bytes() for out in "ab")
    assert saved == from_pipe
    assert b"standard input, byte " in ran.out and b"explain" not in ran.out  # - cannot be read once more
    (tmp_path / "c" / ".unfinished").mkdir(parents=True)
    ran = own_process("salvage", "-", "-o", tmp_path / "c", stdin=file.read_bytes())
    assert ran.status == 2 and "a run that reads standard input cannot continue" in ran.complaint
