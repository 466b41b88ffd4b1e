"""`kafkarec compact` keeps the last record of each key and reports the removed records by reason."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command import Here, own_process
from paths import SEGMENTS

import kafkarec
from kafkarec.ops.compact import compact
from kafkarec.write import encode

TXN, OFFSETS = SEGMENTS / "txn-0", SEGMENTS / "__consumer_offsets-0"
NOW = 1_800_000_000_000


def written_log(path: Path, *records: tuple[bytes | None, bytes | None], batch_size: int = 16384) -> Path:
    rows = [(n, NOW - 1000, key, value, []) for n, (key, value) in enumerate(records)]
    path.write_bytes(encode(rows, batch_size=batch_size))
    return path


def key_value_rows(path: Path) -> list[tuple[int, bytes | None]]:
    columns = kafkarec.decode(path.read_bytes())
    return list(zip(columns.column("offset"), columns.column("key"), strict=True))


@pytest.mark.parametrize("folder", [TXN, OFFSETS, SEGMENTS / "compacted-0", SEGMENTS / "all-codecs-0"])
def test_the_output_is_that_of_the_library(run: Here, tmp_path: Path, folder: Path) -> None:
    out = tmp_path / "new.log"
    ran = run("compact", folder, "-o", out, "--now", NOW)
    assert (ran.status, ran.out) == (0, b"")
    assert out.read_bytes() == compact(kafkarec.open(folder), now=NOW)


def test_a_folder_has_all_files_that_a_broker_needs(run: Here, tmp_path: Path) -> None:
    ran = run("compact", TXN, "-o", tmp_path / "new", "--now", NOW)
    new = tmp_path / "new" / "txn-0"
    assert ran.status == 0 and run("verify", new).status == 0
    assert {path.suffix for path in new.iterdir()} >= {".log", ".index", ".timeindex", ".snapshot"}
    lines = ran.err.splitlines()
    assert f"{TXN}: 293 records in 149 batches, 17.6 KiB -> {new}: " in lines[0]
    assert "  removed: records of aborted transactions: 91" in lines


def test_removed_records_are_reported_by_reason(run: Here, tmp_path: Path) -> None:
    log = written_log(tmp_path / "a.log", (b"a", b"1"), (None, b"2"), (b"a", b"3"), (b"b", None), (b"c", b"4"))
    ran = run("compact", log, "-o", tmp_path / "new.log", "--now", NOW)
    assert key_value_rows(tmp_path / "new.log") == [(2, b"a"), (3, b"b"), (4, b"c")]
    assert "5 records in 1 batch" in ran.err and "3 records in 1 batch" in ran.err
    assert (
        "  removed: records with a later record of the same key: 1\n" in ran.err
        and "  removed: records without a key: 1\n" in ran.err
    )


def test_tombstones_are_removed_in_a_second_pass(run: Here, tmp_path: Path) -> None:
    log = written_log(tmp_path / "a.log", (b"a", b"1"), (b"b", None), (b"c", b"4"))
    arguments = ("--now", NOW, "--delete-retention-ms", 0, "--format", "json")
    ran = run("compact", log, "-o", tmp_path / "one.log", *arguments)
    assert key_value_rows(tmp_path / "one.log") == [(0, b"a"), (1, b"b"), (2, b"c")]
    second_pass = ("--now", NOW + 1, *arguments[2:])
    first = json.loads(ran.err)
    ran = run("compact", tmp_path / "one.log", "-o", tmp_path / "then.log", *second_pass)
    assert key_value_rows(tmp_path / "then.log") == [(0, b"a"), (2, b"c")]
    assert (first["tombstones_removed"], first["horizons_set"]) == (0, 1)
    assert json.loads(ran.err)["tombstones_removed"] == 1


def test_young_records_are_left_unchanged(run: Here, tmp_path: Path) -> None:
    log = written_log(tmp_path / "a.log", (b"a", b"1"), (b"a", b"2"))
    ran = run("compact", log, "-o", tmp_path / "new.log", "--now", NOW, "--min-compaction-lag-ms", 5000)
    assert (tmp_path / "new.log").read_bytes() == log.read_bytes()
    assert ran.status == 0 and "not cleaned: " in ran.err and "from offset 0 on" in ran.err


def test_compact_from_a_pipe_to_a_pipe() -> None:
    raw = encode([(n, NOW, b"k", b"v%d" % n, []) for n in range(9)])
    ran = own_process("compact", "-", stdin=raw)
    assert ran.status == 0 and kafkarec.decode(ran.out).column("value") == [b"v8"]
    assert ran.err.startswith("standard input: 9 records in 1 batch")


def test_damage_is_reported_and_nothing_is_written(run: Here, tmp_path: Path) -> None:
    log = written_log(tmp_path / "a.log", *[(b"k%d" % n, b"v") for n in range(50)], batch_size=200)
    raw = bytearray(log.read_bytes())
    raw[700] ^= 1
    log.write_bytes(raw)
    ran = run("compact", log, "-o", tmp_path / "orders-0")
    assert ran.status == 1 and "a.log" in ran.complaint and "kafkarec salvage" in ran.complaint
    assert [path.name for path in tmp_path.iterdir()] == ["a.log"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([TXN, "-o", TXN], "is one of the inputs"),
        ([TXN, "--delete-retention-ms", "1d"], "'1d' is not a number of milliseconds"),
        ([TXN, "--now", "soon"], "'soon' is not a time"),
        ([TXN, OFFSETS, "-o", "both.log"], "a second partition"),
    ],
)
def test_wrong_use_is_refused(
    run: Here, tmp_path: Path, arguments: list[object], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ran = run("compact", *arguments)
    assert ran.status == 2 and message in ran.complaint and list(tmp_path.iterdir()) == []
