"""`kafkarec salvage`: the text of at most one screen, JSON, the exit status, standard input, refusals."""

from __future__ import annotations

import errno
import json
import os
import shlex
import shutil
import signal
import stat
import time
from pathlib import Path

import pytest
from command import Here, interruptible, own_process
from paths import SEGMENTS
from plain_logs import batch, log
from witness_folders import golden

TXN = SEGMENTS / "txn-0"


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    parts = [batch(i * 10, 10) for i in range(4)]
    parts[1] = parts[1][:90] + bytes([parts[1][90] ^ 1]) + parts[1][91:]
    return log(tmp_path / "orders-0", parts)


def test_a_sound_log_is_copied(run: Here, tmp_path: Path) -> None:
    ran = run("salvage", TXN, "-o", tmp_path / "out")
    assert ran.status == 0 and not ran.err
    lines = ran.out.decode().splitlines()
    assert (
        lines[0] == "txn-0: saved 149 batches, 293 records, 18016 bytes (offsets 0 to 292) in 2 segments, from 2 files"
    )
    assert lines[2] == "not read: 13 more names, listed in salvage.json"
    assert lines[-3] == f"next: kafkarec verify {tmp_path}/out/txn-0"


def test_damage_is_left_out_and_reported(run: Here, damaged: Path, tmp_path: Path) -> None:
    ran = run("salvage", damaged, "-o", tmp_path / "out")
    assert ran.status == 1
    text = ran.out.decode()
    size = len(batch(0, 10))
    for line in (
        f"orders-0: saved 3 batches, 30 records, {3 * size} bytes (offsets 0 to 39) in 1 segment, from 1 file",
        f"  lost: {size} bytes in 1 range; offsets 10 to 19 (fewer if the topic is compacted)",
        f"    {damaged}/{0:020}.log, byte {size}, {size} bytes [crc_mismatch]",
        f"the full list of copied and lost data: {tmp_path}/out/salvage.json",
    ):
        assert line in text.splitlines()
    report = json.loads((tmp_path / "out" / "salvage.json").read_text())
    assert report["partitions"][0]["lost"] == [[10, 19]] and report["ok"] is False
    shown = run("salvage", damaged, "-o", tmp_path / "json", "--format", "json")
    assert shown.status == 1
    assert json.loads(shown.out) == json.loads((tmp_path / "json" / "salvage.json").read_text())


def test_a_dry_run_writes_nothing(run: Here, damaged: Path, tmp_path: Path) -> None:
    before = sorted(tmp_path.rglob("*"))
    for arguments in ((), ("-o", tmp_path / "out")):
        ran = run("salvage", damaged, "--dry-run", *arguments)
        assert ran.status == 1
        assert "orders-0: would save 3 batches" in ran.out.decode()
        assert ran.out.decode().endswith("nothing was written (--dry-run)\n")
    assert sorted(tmp_path.rglob("*")) == before


def test_standard_input_is_salvaged(tmp_path: Path) -> None:
    data = (TXN / f"{30:020}.log").read_bytes()
    arguments = ("salvage", "-", "-o", tmp_path / "out", "--topic", "txn", "--partition", "0", "--as-partition")
    ran = own_process(*arguments, stdin=b"\1" * 99 + data)
    assert ran.status == 1, ran.err
    assert (tmp_path / "out" / "txn-0" / f"{30:020}.log").read_bytes() == data
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    text = ran.out.decode()
    assert "    standard input, byte 0, 99 bytes [" in text and "stdin" not in text
    report = json.loads((tmp_path / "out" / "salvage.json").read_text())
    assert report["partitions"][0]["sources"] == ["standard input"]


def test_any_file_name_is_accepted(run: Here, tmp_path: Path) -> None:
    path = tmp_path / "lost+found" / "#12345"
    path.parent.mkdir()
    path.write_bytes((TXN / f"{30:020}.log").read_bytes())
    ran = run("salvage", path, "-o", tmp_path / "out")
    assert ran.status == 0 and ran.out.decode().startswith("unnamed-0: saved 137 batches")


def test_as_partition_prints_the_next_steps(run: Here, tmp_path: Path) -> None:
    ran = run("salvage", TXN, "-o", tmp_path / "out", "--as-partition")
    assert ran.status == 0
    assert f"NEW={tmp_path}/out\n" in ran.out.decode() and "  9. # start the broker; later" in ran.out.decode()
    assert (tmp_path / "out/txn-0/partition.metadata").exists()


def test_conflicts_are_reported(run: Here, tmp_path: Path) -> None:
    a = log(tmp_path / "a" / "orders-0", [batch(0, 10), batch(10, 5, epoch=1)])
    b = log(tmp_path / "b" / "orders-0", [batch(0, 10), batch(10, 9, epoch=2)])
    ran = run("salvage", a, b, "-o", tmp_path / "out")
    assert ran.status == 1
    text = ran.out.decode()
    assert "set aside: 1 batch, " in text and "[conflict_epoch]: another source has these offsets from a later" in text
    assert "kept in set-aside/orders-0/conflict_epoch-0.log" in text


def test_many_partitions_fit_on_one_screen(run: Here, damaged: Path, tmp_path: Path) -> None:
    for number in range(1, 30):
        log(tmp_path / f"orders-{number}", [batch(0, 1)])
    ran = run("salvage", tmp_path, "-o", tmp_path.parent / f"{tmp_path.name}-out")
    lines = ran.out.decode().splitlines()
    assert ran.status == 1 and len(lines) < 24
    assert lines[0].startswith("orders-0: saved 3 batches")
    assert any(line == "and 24 more partitions, all complete" for line in lines)
    assert any(line.startswith("total: 32 batches, ") for line in lines)


def test_wrong_use_is_refused(run: Here, tmp_path: Path) -> None:
    for arguments, complaint in {
        (TXN,): "name a new or empty folder with -o DIR",
        (TXN, "-o", tmp_path, "--topic", "x"): "--topic and --partition must be given together",
        (TXN, "-o", TXN / "new"): f"is in {TXN}, one of the inputs",
        (TXN / f"{0:020}.index", "-o", tmp_path / "x"): "holds no records",
        ("-", "-", "-o", tmp_path / "x"): "can be read only once",
    }.items():
        ran = run("salvage", *arguments)
        assert ran.status == 2, arguments
        assert complaint in ran.complaint
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").touch()
    assert "is not empty" in run("salvage", TXN, "-o", tmp_path / "full").complaint
    assert run("salvage", tmp_path / "nope", "-o", tmp_path / "x").status == 3


def test_too_little_disk_space_is_reported_first(run: Here, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Small:
        f_bavail, f_frsize = 3, 4096

    monkeypatch.setattr(os, "statvfs", lambda path: Small)
    ran = run("salvage", TXN, "-o", tmp_path / "out")
    assert ran.status == 3 and "12288 bytes free" in ran.complaint
    assert run("salvage", TXN, "-o", tmp_path / "out", "--ignore-space").status == 0


def test_a_failure_says_that_the_command_can_continue(
    run: Here, damaged: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "pwrite", full)
        ran = run("salvage", damaged, "-o", tmp_path / "out")
    assert ran.status == 3
    assert "no space left on device; what was copied so far is kept, and the same command continues" in ran.complaint
    assert run("salvage", damaged, "-o", tmp_path / "out").status == 1
    assert (tmp_path / "out" / "salvage.json").exists()


def test_an_interrupted_run_can_be_continued(tmp_path: Path) -> None:
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
    child.communicate(timeout=30)
    assert child.returncode in (0, 130)
    if child.returncode == 130:
        assert notes.exists() and not list((tmp_path / "out").rglob("*.part"))
        assert own_process("salvage", source, "-o", tmp_path / "out").status == 0
    for number in range(6):
        assert (tmp_path / "out" / f"orders-{number}" / f"{0:020}.log").read_bytes() == parts


def test_a_file_beside_the_log_is_used_when_it_is_named(run: Here, tmp_path: Path) -> None:
    folder = log(tmp_path / "orders-0", [batch(0, 10)], [batch(10, 10)])
    beside = folder / f"{10:020}.log.deleted"
    (folder / f"{10:020}.log").rename(beside)
    ran = run("salvage", folder, "-o", tmp_path / "one")
    assert f"  not used: {beside}: offsets 10 to 19 are after the log's end" in ran.out.decode()
    ran = run("salvage", folder, "-o", tmp_path / "two", "--use", beside)
    assert ran.status == 0 and ran.out.decode().startswith("orders-0: saved 2 batches")
    assert "not used" not in ran.out.decode()
    assert run("salvage", folder, "-o", beside, "--use", beside).status == 2


def test_many_deleted_files_are_one_line_behind_what_matters(run: Here, tmp_path: Path) -> None:
    folder = golden(tmp_path / "data", "txn-0")
    (folder / "partition.metadata").unlink()
    for number in range(8):
        for suffix in (".log", ".index"):
            shutil.copy(folder / f"{0:020}{suffix}", folder / f"{number:020}{suffix}.deleted")
    shutil.copytree(folder, tmp_path / "data" / "gone-0.0123456789abcdef0123456789abcdef-delete")
    ran = run("salvage", tmp_path / "data", "-o", tmp_path / "out", "--as-partition")
    lines = ran.out.decode().splitlines()
    [unused] = [line for line in lines if line.startswith("  not used: ")]
    first = folder / f"{0:020}.log.deleted"
    assert unused == f"  not used: {first} and 7 more: offsets 0 to 29 are in the log already"
    assert all(lines.index(line) < lines.index(unused) for line in lines if line.startswith("  note: "))
    assert lines[lines.index(unused) + 1] == "    --use FILE adds such a file nevertheless"
    assert not any(".index.deleted" in line for line in lines)
    [_] = [line for line in lines if line.startswith("not read: ") and "-delete: a partition that was deleted" in line]
    assert "not read: 8 more names, listed in salvage.json" in lines
    report = json.loads((tmp_path / "out" / "salvage.json").read_text())
    assert len(report["partitions"][0]["other_files"]) == 8 and len(report["left_out"]) == 9


@pytest.mark.parametrize(("code", "status"), [(errno.EINVAL, 0), (errno.EIO, 3)])
def test_a_folder_that_cannot_be_synced(
    run: Here, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, status: int
) -> None:
    """EINVAL: some network filesystems and FUSE cannot; EIO: the disk did not."""
    real = os.fsync

    def fsync(descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(code, os.strerror(code))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    source, out = log(tmp_path / "Orders-0", [batch(0, 10)]), tmp_path / "Out"
    ran = run("salvage", source, "-o", out)
    assert ran.status == status
    assert (out / "salvage.json").exists() == (status == 0)
    assert status == 0 or f"{tmp_path}: fsync of the folder failed: input/output error" in ran.err


def test_a_damaged_copy_names_its_path_as_it_is_and_another_disk(
    run: Here, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, spoiled = os.replace, [f"{10:020}.log"]

    def replace(part: str, path: str) -> None:
        real(part, path)
        if Path(path).name in spoiled:
            data = bytearray(Path(path).read_bytes())
            data[70] ^= 1
            Path(path).write_bytes(data)

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


def test_a_deleted_partitions_folder_is_named_as_it_is_to_be_typed(run: Here, tmp_path: Path) -> None:
    source = tmp_path / "D24"
    deleted = source / "orders-0.0123456789abcdef0123456789abcdef-delete"
    log(deleted, [batch(0, 10)])
    ran = run("salvage", source, "-o", tmp_path / "out")
    assert ran.status == 2 and ran.complaint.endswith(f"no .log file was found; name what is to be read: {deleted}")
    assert run("verify", source).out.decode().splitlines()[-1] == f"next: kafkarec verify {deleted}"
    [typed] = shlex.split(ran.complaint.rpartition(": ")[2])
    ran = run("salvage", typed, "-o", tmp_path / "out")
    assert ran.status == 0 and ran.out.decode().startswith("orders-0: saved 1 batch")
    assert "cp " not in run("reindex", deleted, "-o", tmp_path / "indexes").out.decode()
    (tmp_path / "empty").mkdir()
    complaint = run("salvage", tmp_path / "empty", "-o", tmp_path / "new").complaint
    assert complaint.endswith("no .log file was found, and no other file that begins with a batch")
