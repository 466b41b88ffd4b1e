"""`kafkarec verify`: the exit status, the text of at most one screen, the next command, JSON, a safe HTML page."""

from __future__ import annotations

import json
import shutil
import signal
import time
from pathlib import Path

import pytest
from command import Here, interruptible, own_process
from html_pages import parsed
from paths import SEGMENTS
from verify_reports import data_folder, good, made

import kafkarec

BAD = good(5)[:-1] + b"\xff"


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    """A data folder: partitions with damage, with a gap between segments, with an anomaly, and many good ones."""
    data = tmp_path / "data"
    made(data, {0: [good(0), BAD, good(10)]}, "orders-0")
    made(data, {0: [good(0)], 20: [good(20)]}, "gap-0")
    made(data, {0: [good(0, attributes=0x80)]}, "odd-0")
    data_folder(data, cleaner="")  # known: no log was cleaned
    for number in range(30):
        made(data, {0: [good(0)]}, f"fine-{number}")
    return data


def test_a_good_log_is_status_0(run: Here) -> None:
    ran = run("verify", SEGMENTS / "txn-0")
    assert (ran.status, ran.err) == (0, "")
    assert ran.out.startswith(b"NOT DAMAGED: every checksum is right")
    assert b"next:" not in ran.out


def test_damage_fits_on_one_screen_with_the_next_command(run: Here, damaged: Path) -> None:
    ran = run("verify", damaged)
    lines = ran.out.decode().splitlines()
    assert ran.status == 1 and ran.err == "" and len(lines) <= 40
    assert lines[0] == "DAMAGED: 1 range, 136 B lost, at most 20 offsets, 15 of them in gaps"
    table = [line.split() for line in lines if line.startswith(("orders-0 ", "gap-0 ", "odd-0 ", "fine-"))]
    assert [row[:2] for row in table[:3]] == [["gap-0", "error"], ["orders-0", "DAMAGED"], ["odd-0", "anomaly"]]
    assert "and 23 more, all ok: --all prints them" in lines
    assert any("bytes 136 to 271: offsets 5 to 9 lost; crc_mismatch" in line for line in lines)
    assert f"next: kafkarec salvage {damaged}/orders-0 -o rescued" in lines
    everything = run("verify", damaged, "--all")
    assert everything.status == 1 and everything.out.count(b"fine-") >= 30


def test_the_next_command_runs(run: Here, damaged: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(damaged.parent)
    line = next(line for line in run("verify", damaged).out.decode().splitlines() if line.startswith("next: "))
    arguments = line.removeprefix("next: kafkarec ").split()
    assert run(*arguments).status == 1  # damage found, the rest is saved
    assert len(kafkarec.open("rescued/orders-0").scan()) == 2
    again = run("verify", "rescued")
    assert again.status == 0 and again.out.startswith(b"NOT DAMAGED")


def test_files_of_the_working_directory_have_a_path(run: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(SEGMENTS / "txn-0")
    first, second = sorted(map(str, Path().glob("*.log")))
    for files, path in (([first, second], "."), ([first], first)):
        assert run("verify", *files).out.decode().splitlines()[1].startswith(f"{path}: ")


def test_the_exit_status_of_each_kind_of_log(run: Here, damaged: Path, tmp_path: Path) -> None:
    assert run("verify", damaged / "fine-1").status == 0
    assert run("verify", damaged / "odd-0").status == 0
    assert run("verify", damaged / "odd-0", "--strict").status == 1
    assert run("verify", damaged / "gap-0").status == 1
    for arguments, status, message in (
        ((tmp_path / "nothing",), 3, "no such file"),
        ((SEGMENTS / "txn-0" / f"{30:020}.index",), 2, "name its .log file"),
        ((), 2, "PATH"),
        ((damaged, "--threads", "0"), 2, "1 to 256"),
        ((damaged, "--frobnicate"), 2, "unrecognized arguments: --frobnicate (see kafkarec verify --help)"),
        ((damaged, "--thread", "2"), 2, "unrecognized arguments: --thread 2 (see kafkarec verify --help)"),
        ((damaged, "--format", "pdf"), 2, "(see kafkarec verify --help)"),
    ):
        ran = run("verify", *arguments)
        assert (ran.status, ran.out) == (status, b"") and message in ran.complaint
    (tmp_path / "empty-0").mkdir()
    assert run("verify", tmp_path / "empty-0").status == 3


def test_several_paths_and_standard_input_are_verified(run: Here, damaged: Path) -> None:
    ran = run("verify", damaged / "orders-0", damaged / "fine-3" / f"{0:020}.log")
    assert ran.status == 1 and b"orders-0" in ran.out and b"fine-3" in ran.out
    piped = own_process("verify", "-", stdin=good(0) + BAD)
    assert piped.status == 1 and b"bytes 136 to 271" in piped.out and not piped.err
    assert b"\nstandard input: 272 B in 1 file" in piped.out


@pytest.mark.parametrize("exists", [False, True])
def test_one_of_several_paths_is_not_there(run: Here, damaged: Path, tmp_path: Path, exists: bool) -> None:
    """Such as a disk that is not mounted: the others are verified, but that is not all."""
    disk = tmp_path / "disk"
    if exists:
        disk.mkdir()
    ran = run("verify", damaged / "fine-1", disk)
    assert ran.status == 3 and ran.out.startswith(b"COULD NOT READ EVERYTHING: ")
    assert f"  error    {disk}: " in ran.out.decode()


def test_a_log_without_segments_in_one_of_several_folders(run: Here, damaged: Path, tmp_path: Path) -> None:
    (tmp_path / "disk" / "gone-0").mkdir(parents=True)
    (tmp_path / "disk" / "gone-0" / f"{7:020}.snapshot").touch()
    ran = run("verify", damaged / "fine-1", tmp_path / "disk")
    assert ran.status == 1 and ran.out.splitlines()[0].endswith(f"according to {7:020}.snapshot (gone-0)".encode())


def test_files_beside_the_partitions_of_several_folders(run: Here, damaged: Path, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    made(disk, {0: [good(0)]}, "orders-9")
    made(disk, {0: [good(0)]}, f"old-0.{'a' * 32}-delete")
    (disk / "#12345").write_bytes(good(7))
    (disk / "replication-offset-checkpoint").write_bytes(bytes(9))
    ran = run("verify", damaged / "fine-1", disk, "--format", "json")
    found = {(one["kind"], one["file"]) for one in json.loads(ran.out)["findings"]}
    assert ran.status == 1 and found >= {
        ("small_file_unreadable", str(disk / "replication-offset-checkpoint")),
        ("batches_left_out", str(disk / "#12345")),
        ("file_left_out", str(disk / f"old-0.{'a' * 32}-delete")),
    }


def test_json_is_the_whole_report(run: Here, damaged: Path) -> None:
    ran = run("verify", damaged, "--format", "json", "--sequences")
    loaded = json.loads(ran.out)
    assert ran.status == 1 and loaded["state"] == "damaged" and not loaded["ok"]
    assert [one["state"] for one in loaded["partitions"]][:3] == ["error", "damaged", "anomaly"]
    assert [one["lost_offsets"] for one in loaded["partitions"]][:3] == [15, 5, 0]  # worst first
    first = loaded["partitions"][1]
    assert (first["topic"], first["partition"], first["lost_offsets"]) == ("orders", 0, 5)
    assert first["files"][0]["ranges"] == [["good", 0, 136], ["damaged", 136, 136], ["good", 272, 136]]
    report = kafkarec.verify(damaged, sequences=True).to_dict()
    del report["seconds"], loaded["seconds"]
    assert report == loaded


def test_the_report_can_go_to_a_file(run: Here, damaged: Path, tmp_path: Path) -> None:
    ran = run("verify", damaged, "-o", tmp_path / "report.txt")
    assert (ran.status, ran.out) == (1, b"") and (tmp_path / "report.txt").read_text().startswith("DAMAGED")


def test_control_characters_and_markup_in_names_are_escaped(run: Here, tmp_path: Path) -> None:
    """Terminals and browsers show any file name as text (P17)."""
    # together: a tag, its end, and control characters of a terminal
    path = tmp_path / "<script>alert(1)<" / "script>\x1b[2J&'\".log"
    path.parent.mkdir()
    path.write_bytes(good(0) + BAD)
    page = tmp_path / "page.html"
    ran = run("verify", path, "--html", page)
    assert ran.status == 1 and b"\x1b" not in ran.out
    text = page.read_text(encoding="utf-8")
    assert "<script" not in text and "&lt;script&gt;" in text and "\x1b" not in text
    no_text = tmp_path / "\udcff\udcfe.log"  # a name that is no UTF-8
    no_text.write_bytes(good(0) + BAD)
    for arguments in ((), ("--format", "json"), ("--html", page, "--force")):
        assert run("verify", no_text, *arguments).status == 1


def test_the_page_has_a_map_the_tables_and_the_next_command(run: Here, damaged: Path, tmp_path: Path) -> None:
    run("verify", damaged, "--html", tmp_path / "page.html")
    page = parsed(tmp_path / "page.html")
    assert "default-src 'none'" in (tmp_path / "page.html").read_text()
    assert page.seen.count("svg") == 33 + 4  # each partition, and each file with findings
    assert "damaged: bytes 136 to 271 (136 B)" in page.text
    assert "offsets 5 to 9 lost" in page.text and "kafkarec salvage" in page.text
    assert "url(" not in page.text and "@import" not in page.text
    run("verify", SEGMENTS / "logappend-0", "--html", tmp_path / "fine.html")
    assert "NOT DAMAGED" in parsed(tmp_path / "fine.html").text


def test_the_page_shows_the_bad_file_among_many(run: Here, tmp_path: Path) -> None:
    segments = {5 * i: [good(5 * i)] for i in range(300)}
    segments[1490] = [good(1490)[:-1] + b"\xff"]
    run("verify", made(tmp_path, segments), "--html", tmp_path / "page.html")
    page = parsed(tmp_path / "page.html")
    assert f"{1490:020}.log" in page.text and f"{5:020}.log" not in page.text
    assert "299 more files, without findings" in page.text


def test_a_page_with_10_000_damaged_ranges_stays_small(run: Here, tmp_path: Path) -> None:
    folder = made(tmp_path, {0: [good(10 * i) + good(10 * i + 5)[:-1] + b"\xff" for i in range(10_000)]})
    ran = run("verify", folder, "--html", tmp_path / "page.html")
    assert ran.status == 1 and len(ran.out.splitlines()) < 40
    page = parsed(tmp_path / "page.html")
    assert "9804 more ranges" in page.text
    assert (tmp_path / "page.html").stat().st_size < 400_000


def test_ctrl_c_ends_all_threads(tmp_path: Path) -> None:
    """Exit status 130 at once, without output."""
    block = b"".join(good(5 * i) for i in range(5000))
    for number in range(4):
        made(tmp_path, {0: [block] * 60}, f"t-{number}")
    child = interruptible("verify", tmp_path, "--threads", "3")
    time.sleep(1.5)
    begin = time.monotonic()
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=30)
    assert (child.returncode, out, err) == (130, b"", b"")
    assert time.monotonic() - begin < 5


def test_nothing_is_written_into_the_logs_folder(run: Here, tmp_path: Path) -> None:
    shutil.copytree(SEGMENTS / "txn-0", tmp_path / "txn-0")
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "txn-0").iterdir()}
    run("verify", tmp_path / "txn-0", "--sequences")
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "txn-0").iterdir()} == before


def test_batches_above_the_limit_are_neither_damaged_nor_lost(run: Here, tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    for name in ("all-codecs-0", "txn-0"):
        shutil.copytree(SEGMENTS / name, logs / name, ignore=shutil.ignore_patterns("*.txt", "*.json"))
    options = ("--max-decompressed-bytes", "3000")
    what = "4 batches, 23.8 KiB, above a limit or without a library"
    ran = run("verify", logs, *options)
    text = ran.out.decode()
    assert ran.status == 3
    assert text.startswith(f"NOT FULLY CHECKED: {what}; the rest is not damaged\n")
    assert " lost;" not in text and "X damaged" not in text and "DAMAGED" not in text.replace("NOT DAMAGED", "")
    assert "bytes 18364 to 24461: offset 345 not checked; limit_exceeded" in text and "- unchecked\n" in text
    [row] = [line.split() for line in text.splitlines() if line.startswith("all-codecs-0  ")]
    assert row[1] == "unchecked" and row[-5:] == ["4", "-", "-", "-", "-"]
    found = json.loads(run("verify", logs, *options, "--format", "json").out)["partitions"][0]
    assert (found["lost_offsets"], found["lost_at_an_end"]) == (0, False)
    assert [one[0] for one in found["files"][0]["ranges"]].count("unchecked") == 4
    (logs / "txn-0" / f"{30:020}.index").write_bytes(bytes(range(1, 251)))
    ran = run("verify", logs, *options)
    head = "INCONSISTENT: every batch that was checked can be read, but there"
    assert ran.status == 1 and ran.out.decode().startswith(head)
    assert ran.out.decode().splitlines()[0].endswith(f"; not checked: {what}")
    path = logs / "all-codecs-0" / f"{0:020}.log"
    path.write_bytes(b"\xff" + path.read_bytes()[1:1000] + b"\xff" + path.read_bytes()[1001:])
    ran = run("verify", path, *options)
    assert ran.status == 1
    assert (
        ran.out.decode().splitlines()[0] == f"DAMAGED: 1 range, 2.5 KiB lost, offsets 0 to 42 lost; not checked: {what}"
    )
