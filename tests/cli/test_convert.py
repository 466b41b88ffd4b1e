"""`kafkarec convert` keeps the records, reports what the new format cannot hold, and overwrites nothing."""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from pathlib import Path

import builders
import pytest
from command import Here, interruptible, own_process
from paths import SEGMENTS

import kafkarec
from kafkarec.write import encode

TXN, CODECS = SEGMENTS / "txn-0", SEGMENTS / "all-codecs-0"
CODEC_LOG = CODECS / f"{0:020d}.log"


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("folder", ["txn-0", "all-codecs-0", "compacted-0", "logappend-0"])
def test_another_codec_changes_no_record(run: Here, tmp_path: Path, folder: str, codec: str) -> None:
    new = tmp_path / folder
    ran = run("convert", SEGMENTS / folder, "-o", new, "--compression", codec, "--batch-size", "4k")
    assert (ran.status, ran.out) == (0, b"")
    for arguments in (["--control"], ["--isolation", "read_committed"]):
        assert run("cat", new, *arguments).out == run("cat", SEGMENTS / folder, *arguments).out
    data = {
        row["compression"]
        for log in sorted(new.glob("*.log"))
        for row in kafkarec.scan(log.read_bytes())
        if row["record_count"] and not row["is_control"]
    }
    assert data == {codec} and run("verify", new).status == 0


def test_fewer_and_larger_batches(run: Here, tmp_path: Path) -> None:
    ran = run("convert", CODECS, "-o", tmp_path / "new", "--batch-size", "1m", "--compression", "zstd", "--level", 19)
    assert ran.status == 0
    new = tmp_path / "new" / "all-codecs-0" / f"{0:020d}.log"
    assert len(kafkarec.scan(new.read_bytes())) < 25 and new.stat().st_size < CODEC_LOG.stat().st_size
    first = ran.err.splitlines()[0]
    assert first.startswith(f"{CODECS}") and "865 records in 25 batches, 49.1 KiB -> " in first


@pytest.mark.parametrize("size", ["16k", "256k", "2m"])
def test_no_record_is_lost_when_batches_are_merged(run: Here, tmp_path: Path, size: str) -> None:
    log = tmp_path / "users-0"
    rows = [(n, n, b"user-%d" % (n % 500), b"%050d" % n, []) for n in range(20_000)]
    assert run("build", _lines(tmp_path / "rows.jsonl", rows), "-o", log, "--batch-size", "400").status == 0
    assert run("convert", log, "-o", tmp_path / "new", "--batch-size", size, "--compression", "lz4").status == 0
    assert run("cat", tmp_path / "new" / "users-0").out == run("cat", log).out


def _lines(path: Path, rows: list[tuple[int, int, bytes, bytes, list[object]]]) -> Path:
    names = ("offset", "timestamp", "key", "value")
    cells = ((offset, time, key.decode(), value.decode()) for offset, time, key, value, _ in rows)
    path.write_text("".join(json.dumps(dict(zip(names, row, strict=True))) + "\n" for row in cells))
    return path


def test_fields_that_magic_1_lacks_are_counted(run: Here, tmp_path: Path) -> None:
    arguments = ("--magic", 1, "--compression", "gzip", "--format", "json", "-o", tmp_path / "down.log")
    ran = run("convert", TXN, *arguments)
    report = json.loads(ran.err)
    assert ran.status == 0 and report["source"] == str(TXN) and report["output"] == str(tmp_path / "down.log")
    assert report["lost"]["control_batches"] == report["lost"]["control_records"] == 26
    assert report["records_in"] == 293 and report["records_out"] == 267
    assert {row["magic"] for row in kafkarec.scan((tmp_path / "down.log").read_bytes())} == {1}
    text = run("convert", TXN, *arguments[:4], "-o", tmp_path / "text.log").err
    assert "  lost: control records: 26\n" in text


def test_a_codec_that_the_magic_lacks_is_named_with_the_command_for_another(run: Here, tmp_path: Path) -> None:
    ran = run("convert", TXN, "--magic", 1, "-o", tmp_path / "new.log")
    assert ran.status == 1 and "magic 1 does not support zstd; choose another compression" in ran.complaint
    command = f"kafkarec convert --compression lz4 {TXN} --magic 1 -o {tmp_path / 'new.log'}"
    assert ran.complaint.endswith(f"; nothing is written. With a codec that it supports: {command}")
    assert run(*command.split()[1:]).status == 0


def test_on_loss_raise_writes_nothing(run: Here, tmp_path: Path) -> None:
    ran = run("convert", TXN, "--magic", 1, "--compression", "gzip", "--on-loss", "raise", "-o", tmp_path / "new/")
    assert ran.status == 1 and "nothing is written: magic 1 cannot store" in ran.err
    assert "control batches: 26\n" in ran.err
    assert not any(files for _, _, files in os.walk(tmp_path))


def test_old_magics_are_converted_to_magic_2(run: Here, tmp_path: Path) -> None:
    log = tmp_path / "old.log"
    inner = [builders.message(magic=1, offset=n) for n in range(3)]
    log.write_bytes(builders.message(magic=0) + builders.wrapper(inner, codec="gzip", offset=3))
    assert run("convert", log, "-o", tmp_path / "new.log").status == 0
    table = kafkarec.scan((tmp_path / "new.log").read_bytes())
    assert table.column("magic") == [2, 2] and table.column("last_offset") == [0, 3]
    kept = run("convert", log, "-o", tmp_path / "kept.log", "--magic", "keep", "--compression", "lz4")
    assert kept.status == 0 and kafkarec.scan((tmp_path / "kept.log").read_bytes()).column("magic") == [0, 1]


def test_a_log_that_needs_no_change_is_copied(run: Here, tmp_path: Path) -> None:
    new = tmp_path / "txn-0"
    assert run("convert", TXN, "-o", new).status == 0
    before, after = (b"".join(path.read_bytes() for path in sorted(at.glob("*.log"))) for at in (TXN, new))
    assert after == before


def test_a_loss_in_standard_input_is_reported() -> None:
    arguments = ("--magic", 1, "--compression", "lz4", "--on-loss", "raise")
    ran = own_process("convert", "-", *arguments, stdin=CODEC_LOG.read_bytes())
    assert ran.status == 1 and ran.out == b"" and "nothing is written: magic 1 cannot store" in ran.err


def test_on_loss_raise_writes_all_or_nothing_to_a_pipe() -> None:
    arguments = ("convert", "-", "--compression", "none", "--on-loss", "raise")
    ran = own_process(*arguments, stdin=CODEC_LOG.read_bytes())
    assert ran.status == 0 and kafkarec.scan(ran.out).column("compression") == ["none"] * 25
    hurt = CODEC_LOG.read_bytes()
    ran = own_process(*arguments, stdin=hurt[:-1] + bytes([hurt[-1] ^ 1]))
    assert ran.status == 1 and ran.out == b"" and "[crc_mismatch]; nothing is written." in ran.err


def test_convert_from_a_pipe_to_a_pipe() -> None:
    ran = own_process("convert", "-", "-o", "-", "--compression", "none", stdin=CODEC_LOG.read_bytes())
    assert ran.status == 0 and kafkarec.scan(ran.out).column("compression") == ["none"] * 25
    assert ran.err.startswith("standard input: 865 records in 25 batches")


def test_segments_have_the_given_size_and_the_start_stays(run: Here, tmp_path: Path) -> None:
    old = tmp_path / "orders-3"
    old.mkdir()
    shutil.copy(CODEC_LOG, old / f"{0:020d}.log")
    (old / "partition.metadata").write_text("version: 0\ntopic_id: HKQG1EoyTJaEEjFfrhX73A")
    ran = run("convert", old, "-o", tmp_path / "new", "--segment-bytes", "8k", "--compression", "lz4")
    assert ran.status == 0
    new = tmp_path / "new" / "orders-3"
    logs = sorted(new.glob("*.log"))
    assert len(logs) > 3 and all(path.stat().st_size <= 8192 for path in logs)
    assert logs[0].name == f"{0:020}.log" and "HKQG1EoyTJaEEjFfrhX73A" in (new / "partition.metadata").read_text()


def test_a_log_that_begins_with_a_gap_keeps_its_start(run: Here, tmp_path: Path) -> None:
    """Without its start offset, consumers with a position in the gap would be out of range."""
    old = tmp_path / "orders-3"
    old.mkdir()
    (old / f"{5:020d}.log").write_bytes(builders.good_batch(3, base_offset=90))
    assert run("convert", old, "-o", tmp_path / "new", "--compression", "lz4").status == 0
    assert (tmp_path / "new" / "orders-3" / f"{5:020d}.log").exists()


def test_damage_stops_the_run_or_is_left_out(run: Here, tmp_path: Path) -> None:
    raw = bytearray(CODEC_LOG.read_bytes())
    raw[2700] ^= 1
    (tmp_path / "bad.log").write_bytes(raw)
    new = tmp_path / "new.log"
    ran = run("convert", tmp_path / "bad.log", "-o", new, "--compression", "lz4")
    assert ran.status == 1 and not new.exists() and "bad.log" in ran.complaint and "crc_mismatch" in ran.complaint
    assert "--errors skip" in ran.complaint
    ran = run("convert", tmp_path / "bad.log", "-o", new, "--compression", "lz4", "--errors", "skip")
    assert ran.status == 1 and "crc_mismatch" in ran.err and len(kafkarec.scan(new.read_bytes())) == 24


def test_ctrl_c_leaves_nothing(tmp_path: Path) -> None:
    arguments = ["convert", "--compression", "zstd", "--level", "22", "--batch-size", "1m"]
    log = tmp_path / "a.log"
    log.write_bytes(encode([(n, n, b"k%d" % n, b"%0100d" % (n * n), []) for n in range(150_000)]))
    process = interruptible(*arguments, "a.log", "-o", "orders-0", stdout=None, cwd=tmp_path)
    deadline = time.monotonic() + 30
    while not any(name.endswith(".part") for name in os.listdir(tmp_path)) and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    assert process.stderr is not None and process.stderr.read() == b""
    assert process.wait(30) == 130 and os.listdir(tmp_path) == ["a.log"]


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        ([CODECS, "-o", CODECS], 2, "is one of the inputs"),
        ([CODECS, "-o", CODECS / "new-0"], 2, "one of the inputs: nothing is written there"),
        ([CODEC_LOG, "-o", CODECS], 2, "is the partition folder of"),
        ([TXN, CODECS, "-o", "both.log"], 2, "a second partition, and both.log is for one"),
        ([CODECS, "--level", "3"], 2, "--level needs --compression"),
        ([CODECS, "--magic", "1", "--compression", "zstd"], 2, "--magic 1 does not support zstd"),
        (["gone.log"], 3, "gone.log: no such file or directory"),
        ([CODECS, "-o", "gone.log", "--batch-size", "x"], 2, "'x' is not a size"),
    ],
)
def test_wrong_use_is_refused(
    run: Here, tmp_path: Path, arguments: list[object], status: int, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ran = run("convert", *arguments)
    assert ran.status == status and message in ran.complaint and list(tmp_path.iterdir()) == []


def test_a_data_folder_becomes_a_folder_of_partitions(run: Here, tmp_path: Path) -> None:
    for folder in (TXN, CODECS):
        shutil.copytree(folder, tmp_path / "old" / folder.name, ignore=shutil.ignore_patterns("*.json", "*.txt"))
    ran = run("convert", tmp_path / "old", "-o", tmp_path / "new", "--compression", "snappy", "--format", "json")
    assert ran.status == 0 and sorted(os.listdir(tmp_path / "new")) == ["all-codecs-0", "txn-0"]
    report = [json.loads(line) for line in ran.err.splitlines()]
    assert [one["output"] for one in report] == [str(tmp_path / "new" / name) for name in ("all-codecs-0", "txn-0")]
    assert all(one["records_in"] == one["records_out"] for one in report)
