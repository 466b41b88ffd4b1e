"""Damaged logs: what is in front is printed, the complaint says where, skipping goes on."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import golden
import pytest
from command import Here, own_process
from paths import SEGMENTS

CODECS = sorted((SEGMENTS / "all-codecs-0").glob("*.log"))[0]
BATCHES: list[dict[str, Any]] = json.loads(Path(f"{CODECS}.json").read_text())["batches"]
BROKEN = BATCHES[3]


@pytest.fixture
def run(capsysbinary: pytest.CaptureFixture[bytes]) -> Here:
    return Here(capsysbinary)


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    """The log with one byte of its fourth batch's payload turned around."""
    data = bytearray(CODECS.read_bytes())
    data[BROKEN["position"] + 70] ^= 0xFF
    path = tmp_path / "orders-7" / CODECS.name
    path.parent.mkdir()
    path.write_bytes(data)
    return path


def offsets_of(batches: list[dict[str, Any]]) -> list[int]:
    return [record["offset"] for batch in batches for record in batch["records"]]


def test_everything_before_the_damage_is_printed(run: Here, damaged: Path) -> None:
    done = run("cat", damaged)
    assert done.status == 1
    assert [row["offset"] for row in done.rows] == offsets_of(BATCHES[:3])


def test_the_complaint_tells_all_that_is_needed(run: Here, damaged: Path) -> None:
    line = run("cat", damaged).complaint
    following = BATCHES[4]
    for part in (
        "crc mismatch",
        str(damaged),
        f"at byte {BROKEN['position']}",
        f"base offset {BROKEN['baseOffset']}",
        f"stored 0x{BROKEN['crc']:08x}",
        f"lost: {BROKEN['sizeInBytes']} bytes",
        f"offsets {BROKEN['baseOffset']} to {BROKEN['lastOffset']};",
        f"next good batch at byte {following['position']}",
        "[crc_mismatch]",
    ):
        assert part in line


def test_the_command_in_the_complaint_goes_on_after_the_damage(run: Here, damaged: Path) -> None:
    line = run("cat", "--errors=raise", damaged, "--columns", "offset").complaint
    command = shlex.split(line.partition("go on with: ")[2])
    assert command[0] == "kafkarec"
    done = run(*command[1:])
    assert done.status == 1
    assert [row["offset"] for row in done.rows] == offsets_of(BATCHES[:3] + BATCHES[4:])
    assert "go on with" not in done.complaint


def test_where_nothing_is_left_to_read_there_is_no_advice(run: Here, tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    data = bytearray(CODECS.read_bytes())
    data[BATCHES[-1]["position"] + 70] ^= 1
    path.write_bytes(data)
    assert run("cat", path).complaint.endswith("no good batch behind [crc_mismatch]")
    assert "go on with" in run("cat", path, CODECS).complaint


@pytest.mark.parametrize(
    ("start", "said"),
    [
        (b"\x1f\x8b\x08", "it looks like a gzip file: zcat "),
        (b"\x28\xb5\x2f\xfd", "it looks like a zstd file"),
        (b"PAR1", "it looks like a Parquet file"),
    ],
)
def test_a_file_that_is_no_log_is_called_what_it_is(run: Here, tmp_path: Path, start: bytes, said: str) -> None:
    path = tmp_path / "x"
    path.write_bytes(start + b"\x81" * 100)
    done = run("cat", path)
    assert done.status == 1
    assert said in done.complaint


def test_no_payload_byte_is_in_a_complaint(run: Here, tmp_path: Path) -> None:
    case = golden.vector("v2-none-text")
    data = bytearray(case.bytes)
    data[-1] ^= 1
    path = tmp_path / "x.log"
    path.write_bytes(data)
    line = run("cat", path).complaint
    assert "crc mismatch" in line
    words = case.json["batches"][0]["records"][0]
    assert golden.blob(words, "value").decode() not in line


def test_rows_that_are_complete_before_the_damage_are_fine(run: Here, damaged: Path) -> None:
    done = run("cat", damaged, "-n", len(offsets_of(BATCHES[:2])))
    assert (done.status, done.err) == (0, "")


def test_scan_reads_headers_only_and_so_finds_no_bad_checksum(run: Here, damaged: Path) -> None:
    done = run("scan", damaged, "--format", "json")
    assert (done.status, len(done.rows)) == (0, len(BATCHES))


@pytest.mark.parametrize("verb", ["cat", "scan"])
def test_a_destroyed_header_stops_or_is_stepped_over(run: Here, tmp_path: Path, verb: str) -> None:
    data = bytearray(CODECS.read_bytes())
    start = BROKEN["position"]
    data[start + 8 : start + 17] = b"\xff" * 9
    path = tmp_path / "x.log"
    path.write_bytes(data)
    stopped = run(verb, path, "--format", "json")
    assert stopped.status == 1
    assert f"at byte {start}" in stopped.complaint
    skipped = run(verb, path, "--format", "json", "--errors", "skip")
    assert skipped.status == 1
    for done, batches in ((stopped, BATCHES[:3]), (skipped, BATCHES[:3] + BATCHES[4:])):
        if verb == "cat":
            assert [row["offset"] for row in done.rows] == offsets_of(batches)
        else:
            assert [row["position"] for row in done.rows] == [batch["position"] for batch in batches]


def test_a_cut_segment_with_a_later_one_is_damage(run: Here, tmp_path: Path) -> None:
    folder = tmp_path / "txn-0"
    folder.mkdir()
    first, second = sorted((SEGMENTS / "txn-0").glob("*.log"))
    (folder / first.name).write_bytes(first.read_bytes()[:-10])
    (folder / second.name).write_bytes(second.read_bytes())
    stopped = run("cat", folder)
    assert stopped.status == 1
    assert "a later segment follows" in stopped.complaint
    assert max(row["offset"] for row in stopped.rows) < 30
    skipped = run("cat", folder, "--errors", "skip")
    assert skipped.status == 1
    assert max(row["offset"] for row in skipped.rows) > 30


def test_many_damages_are_told_in_few_lines(run: Here, tmp_path: Path) -> None:
    data = bytearray()
    for number in range(60):
        batch = bytearray(golden.vector("v2-none-single").bytes)
        batch[:8] = number.to_bytes(8, "big")
        if number % 2:
            batch[-1] ^= 1
        data += batch
    path = tmp_path / "x.log"
    path.write_bytes(data)
    done = run("cat", path, "--errors", "skip")
    assert (done.status, len(done.rows)) == (1, 30)
    lines = done.err.splitlines()
    assert len(lines) == 21
    assert lines[-1] == "kafkarec: and 10 more places like these, 30 in all"


def test_a_limit_is_no_damage_and_names_the_option(run: Here) -> None:
    path = golden.vector("v2-gzip-random-70k").bin_path
    stopped = run("cat", path, "--max-decompressed-bytes", "64k")
    assert (stopped.status, stopped.out) == (3, b"")
    command = shlex.split(stopped.complaint.partition("go on with: ")[2])
    done = run(*command[1:])
    assert (done.status, len(done.rows)) == (0, 1)


@pytest.mark.parametrize("case", golden.invalid(), ids=str)
def test_any_odd_file_ends_in_rows_and_a_status(run: Here, case: golden.Case) -> None:
    for words in (["cat"], ["cat", "--errors", "skip", "--control"], ["scan"], ["scan", "--errors", "skip"]):
        done = run(*words, case.bin_path, "--format", "json")
        assert done.status in (0, 1, 3)
        assert all(line.startswith("kafkarec: ") for line in done.err.splitlines())
        assert done.rows is not None
        assert "internal error" not in done.err
        if done.status:
            assert done.err


def test_damage_and_a_failing_file_in_one_run(damaged: Path, tmp_path: Path) -> None:
    done = own_process("cat", damaged, tmp_path / "missing.log", "--errors", "skip")
    assert done.status == 3
    assert "missing.log: no such file or directory" in done.err
    assert len(done.rows) == len(offsets_of(BATCHES)) - len(BROKEN["records"])
