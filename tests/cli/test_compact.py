"""`kafkarec compact` keeps the last record of each key."""

from __future__ import annotations

from pathlib import Path

import pytest
from command import Here, own_process
from paths import SEGMENTS

import kafkarec
from kafkarec.ops.compact import compact
from kafkarec.write import encode

TXN, OFFSETS = SEGMENTS / "txn-0", SEGMENTS / "__consumer_offsets-0"
NOW = 1_800_000_000_000


def written_log(path: Path, *records: tuple[bytes | None, bytes | None]) -> Path:
    path.write_bytes(encode([(n, NOW - 1000, key, value, []) for n, (key, value) in enumerate(records)]))
    return path


def offsets_and_keys(path: Path) -> list[tuple[int, bytes | None]]:
    columns = kafkarec.decode(path.read_bytes())
    return list(zip(columns.column("offset"), columns.column("key"), strict=True))


@pytest.mark.parametrize("folder", [TXN, OFFSETS, SEGMENTS / "compacted-0", SEGMENTS / "all-codecs-0"])
def test_the_output_is_that_of_the_library(run: Here, tmp_path: Path, folder: Path) -> None:
    out = tmp_path / "new.log"
    ran = run("compact", folder, "-o", out, "--now", NOW)
    assert (ran.status, ran.out) == (0, b"")
    assert out.read_bytes() == compact(kafkarec.open(folder), now=NOW)


def test_the_last_record_of_each_key_is_kept(run: Here, tmp_path: Path) -> None:
    log = written_log(tmp_path / "a.log", (b"a", b"1"), (None, b"2"), (b"a", b"3"), (b"b", None), (b"c", b"4"))
    assert run("compact", log, "-o", tmp_path / "new.log", "--now", NOW).status == 0
    assert offsets_and_keys(tmp_path / "new.log") == [(2, b"a"), (3, b"b"), (4, b"c")]
    assert run("compact", log, "-o", tmp_path / "same.log", "--now", NOW, "--min-compaction-lag-ms", 5000).status == 0
    assert (tmp_path / "same.log").read_bytes() == log.read_bytes()


def test_tombstones_are_removed_in_a_second_pass(run: Here, tmp_path: Path) -> None:
    log = written_log(tmp_path / "a.log", (b"a", b"1"), (b"b", None), (b"c", b"4"))
    for number, kept in enumerate(([(0, b"a"), (1, b"b"), (2, b"c")], [(0, b"a"), (2, b"c")])):
        new = tmp_path / f"{number}.log"
        assert run("compact", log, "-o", new, "--now", NOW + number, "--delete-retention-ms", 0).status == 0
        assert offsets_and_keys(log := new) == kept


def test_compact_from_a_pipe_to_a_pipe() -> None:
    raw = encode([(n, NOW, b"k", b"v%d" % n, []) for n in range(9)])
    ran = own_process("compact", "-", stdin=raw)
    assert ran.status == 0 and kafkarec.decode(ran.out).column("value") == [b"v8"]
    assert ran.err.startswith("standard input: 9 records in 1 batch")
