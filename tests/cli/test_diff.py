"""`kafkarec diff`: the text of at most one screen, JSON, the exit status."""

from __future__ import annotations

import json
from pathlib import Path

import builders
from command import Here
from paths import SEGMENTS
from plain_logs import batch, log


def test_equal_logs_are_status_0(run: Here) -> None:
    ran = run("diff", SEGMENTS / "txn-0", SEGMENTS / "txn-0")
    assert ran.status == 0
    assert ran.out.decode().endswith("149 batches, 18016 bytes\nthe same, byte for byte\n")


def test_equal_records_in_other_batches_are_status_0(run: Here, tmp_path: Path) -> None:
    ran = run("diff", log(tmp_path / "a", [batch(0, 9)]), log(tmp_path / "b", [batch(0, 9, codec="lz4")]))
    assert ran.status == 0
    assert ran.out.decode().endswith("the same records, in other batches\n")


def test_logs_that_diverge_are_reported_from_the_first_difference(run: Here, tmp_path: Path) -> None:
    a = log(tmp_path / "a", [batch(0, 10), batch(10, 5, epoch=1)], epochs=[(0, 0), (1, 10)])
    b = log(tmp_path / "b", [batch(0, 10), batch(10, 9, epoch=2)], epochs=[(0, 0), (2, 10)])
    ran = run("diff", a, b)
    assert ran.status == 1 and not ran.err
    text = ran.out.decode()
    for line in (
        "identical, byte for byte, up to offset 10: 1 batch, ",
        "first difference at offset 10: leader epoch 1 in A, 2 in B: two leaders wrote here",
        "  different: offsets 10 to 14, 5 records, ",
        "  only in B: offsets 15 to 18, 4 records, ",
        "with B as the leader, A truncates to offset 10 and loses offsets 10 to 14 (by leader epochs)",
        "with A as the leader, B truncates to offset 10 and loses offsets 10 to 18 (by leader epochs)",
        "leader epochs 0 from 0, 1 from 10 (by its leader-epoch-checkpoint)",
    ):
        assert line in text
    report = json.loads(run("diff", a, b, "--format", "json").out)
    assert (report["same"], report["identical_to"], report["first"]["offset"]) == (False, 10, 10)
    assert report["a_follows_b"]["offset"] == 10 and report["a_follows_b"]["steps"][0]["asked_epoch"] == 1
    assert report["a"]["lineage"]["entries"] == [{"epoch": 0, "start_offset": 0}, {"epoch": 1, "start_offset": 10}]
    assert report["only_b"] == [
        {"first": 15, "last": 18, "records": 4, "size": report["only_b"][0]["size"], "kind": "tail"}
    ]


def test_logs_damaged_alike_are_not_equal(run: Here, tmp_path: Path) -> None:
    data = bytearray(batch(0, 10) + batch(10, 10) + batch(20, 1))
    data[len(batch(0, 10)) + 30] ^= 1
    a = log(tmp_path / "a", [bytes(data)])
    ran = run("diff", a, a)
    assert ran.status == 1
    assert "; 1 damaged range" in ran.out.decode() and "kafkarec verify" in ran.out.decode()
    assert "\nwhat can be read is the same, byte for byte\n" in ran.out.decode()
    assert json.loads(run("diff", a, a, "--format", "json").out)["a"]["damage"][0]["reason"] == "crc_mismatch"


def test_logs_without_a_good_batch_are_neither_equal_nor_a_leader(run: Here, tmp_path: Path) -> None:
    garbage = log(tmp_path / "garbage", [bytes(range(256)) * 10])
    text = run("diff", garbage, garbage).out.decode()
    assert "\nNOT COMPARED: there is no good batch\n" in text and "byte for byte" not in text
    ran = run("diff", garbage, log(tmp_path / "a", [batch(0, 10)]))
    assert ran.status == 1 and "DIFFERENT" in ran.out.decode() and "as the leader" not in ran.out.decode()


def test_many_ranges_are_summarized(run: Here, tmp_path: Path) -> None:
    parts = builders.records(60)
    a = log(tmp_path / "a", [builders.batch(parts, last_offset_delta=59)])
    b = log(tmp_path / "b", [builders.batch(parts[::2], last_offset_delta=59)])
    text = run("diff", a, b).out.decode()
    assert "  only in A: 22 ranges more up to offset 59, 22 records" in text
    assert "in a compacted topic, gaps are not a loss" in text


def test_wrong_use_is_refused(run: Here, tmp_path: Path) -> None:
    assert run("diff", SEGMENTS / "txn-0").status == 2
    assert "one is expected" in run("diff", SEGMENTS, SEGMENTS / "txn-0").complaint
    assert run("diff", SEGMENTS / "txn-0", tmp_path / "nope").status == 3
    ran = run("diff", SEGMENTS / "txn-0", "-")
    assert ran.status == 2 and "- is standard input" in ran.complaint
    (tmp_path / "orders-0").mkdir()
    assert "a folder without .log files" in run("diff", SEGMENTS / "txn-0", tmp_path / "orders-0").complaint
