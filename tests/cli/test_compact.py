"""`kafkarec compact`: the last record of each key stays; the numbers of removed records are reported by reason."""

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


@pytest.fixture
def run(capfdbinary: pytest.CaptureFixture[bytes]) -> Here:
    return Here(capfdbinary)


def written(path: Path, *records: tuple[bytes | None, bytes | None], batch_size: int = 16384) -> Path:
    rows = [(n, NOW - 1000, key, value, []) for n, (key, value) in enumerate(records)]
    path.write_bytes(encode(rows, batch_size=batch_size))
    return path


def kept(path: Path) -> list[tuple[int, bytes | None]]:
    found = kafkarec.decode(path.read_bytes())
    return list(zip(found.column("offset"), found.column("key"), strict=True))


@pytest.mark.parametrize("folder", [TXN, OFFSETS, SEGMENTS / "compacted-0", SEGMENTS / "all-codecs-0"])
def test_the_same_as_the_library(run: Here, tmp_path: Path, folder: Path) -> None:
    out = tmp_path / "new.log"
    ran = run("compact", folder, "-o", out, "--now", NOW)
    assert (ran.status, ran.out) == (0, b"")
    assert out.read_bytes() == compact(kafkarec.open(folder), now=NOW)


def test_a_folder_with_all_that_a_broker_needs(run: Here, tmp_path: Path) -> None:
    ran = run("compact", TXN, "-o", tmp_path / "new", "--now", NOW)
    new = tmp_path / "new" / "txn-0"
    assert ran.status == 0 and run("verify", new).status == 0
    assert {path.suffix for path in new.iterdir()} >= {".log", ".index", ".timeindex", ".snapshot"}
    lines = ran.err.splitlines()
    assert f"{TXN}: 293 records in 149 batches, 17.6 KiB -> {new}: " in lines[0]
    assert "  gone: of aborted transactions: 91" in lines


def test_why_records_went(run: Here, tmp_path: Path) -> None:
    log = written(tmp_path / "a.log", (b"a", b"1"), (None, b"2"), (b"a", b"3"), (b"b", None), (b"c", b"4"))
    ran = run("compact", log, "-o", tmp_path / "new.log", "--now", NOW)
    assert kept(tmp_path / "new.log") == [(2, b"a"), (3, b"b"), (4, b"c")]
    assert "5 records in 1 batch" in ran.err and "3 records in 1 batch" in ran.err
    assert "  gone: with a later record of their key: 1\n" in ran.err and "  gone: without a key: 1\n" in ran.err


def test_tombstones_go_in_a_second_pass(run: Here, tmp_path: Path) -> None:
    log = written(tmp_path / "a.log", (b"a", b"1"), (b"b", None), (b"c", b"4"))
    words = ("--now", NOW, "--delete-retention-ms", 0, "--format", "json")
    ran = run("compact", log, "-o", tmp_path / "two.log", *words, "--passes", 2)
    assert kept(tmp_path / "two.log") == [(0, b"a"), (2, b"c")]
    told = json.loads(ran.err)["passes"]
    assert [one["tombstones_removed"] for one in told] == [0, 1] and told[0]["horizons_set"] == 1
    run("compact", log, "-o", tmp_path / "one.log", *words)
    assert kept(tmp_path / "one.log") == [(0, b"a"), (1, b"b"), (2, b"c")]
    later = ("--now", NOW + 1, *words[2:])
    run("compact", tmp_path / "one.log", "-o", tmp_path / "then.log", *later)
    assert kept(tmp_path / "then.log") == kept(tmp_path / "two.log")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.log", "one.log", "then.log", "two.log"]


def test_what_is_young_is_left_alone(run: Here, tmp_path: Path) -> None:
    log = written(tmp_path / "a.log", (b"a", b"1"), (b"a", b"2"))
    ran = run("compact", log, "-o", tmp_path / "new.log", "--now", NOW, "--min-compaction-lag-ms", 5000)
    assert (tmp_path / "new.log").read_bytes() == log.read_bytes()
    assert ran.status == 0 and "left alone: " in ran.err and "from offset 0 on" in ran.err


def test_a_pipe_in_and_a_pipe_out() -> None:
    raw = encode([(n, NOW, b"k", b"v%d" % n, []) for n in range(9)])
    ran = own_process("compact", "-", stdin=raw)
    assert ran.status == 0 and kafkarec.decode(ran.out).column("value") == [b"v8"]
    assert ran.err.startswith("standard input: 9 records in 1 batch")


def test_damage_is_named_and_leaves_nothing(run: Here, tmp_path: Path) -> None:
    log = written(tmp_path / "a.log", *[(b"k%d" % n, b"v") for n in range(50)], batch_size=200)
    raw = bytearray(log.read_bytes())
    raw[700] ^= 1
    log.write_bytes(raw)
    ran = run("compact", log, "-o", tmp_path / "orders-0")
    assert ran.status == 1 and "a.log" in ran.complaint and "kafkarec salvage" in ran.complaint
    assert [path.name for path in tmp_path.iterdir()] == ["a.log"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([TXN, "-o", TXN], "is one of the inputs"),
        ([TXN, "--passes", "0"], "'0': 1 to 10 passes"),
        ([TXN, "--delete-retention-ms", "1d"], "'1d' is no number of milliseconds"),
        ([TXN, "--now", "soon"], "'soon' is no time"),
        ([TXN, OFFSETS, "-o", "both.log"], "another partition than before"),
    ],
)
def test_wrong_use(run: Here, tmp_path: Path, words: list[object], said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    ran = run("compact", *words)
    assert ran.status == 2 and said in ran.complaint and list(tmp_path.iterdir()) == []
