"""`kafkarec diff`: the text of at most one screen, JSON, the exit status."""

from __future__ import annotations

import json
from pathlib import Path

import builders
from command import Here
from plain_logs import batch, log


def test_equal_records_are_status_0_also_in_other_batches(run: Here, tmp_path: Path) -> None:
    a, b = log(tmp_path / "a", [batch(0, 9)]), log(tmp_path / "b", [batch(0, 9, codec="lz4")])
    for other, said in ((a, "the same, byte for byte"), (b, "the same records, in other batches")):
        ran = run("diff", a, other)
        assert ran.status == 0 and ran.out.decode().endswith(f"{said}\n")


def test_logs_that_diverge_are_reported_from_the_first_difference(run: Here, tmp_path: Path) -> None:
    a = log(tmp_path / "a", [batch(0, 10), batch(10, 5, epoch=1)], epochs=[(0, 0), (1, 10)])
    b = log(tmp_path / "b", [batch(0, 10), batch(10, 9, epoch=2)], epochs=[(0, 0), (2, 10)])
    ran = run("diff", a, b)
    assert ran.status == 1 and not ran.err
    report = json.loads(run("diff", a, b, "--format", "json").out)
    assert (report["same"], report["identical_to"], report["first"]["offset"]) == (False, 10, 10)
    assert (report["a_follows_b"]["offset"], report["b_follows_a"]["offset"]) == (10, 10)
    only = report["only_b"]
    assert [(one["first"], one["last"], one["records"], one["kind"]) for one in only] == [(15, 18, 4, "tail")]
    text = ran.out.decode()
    assert "first difference at offset 10: leader epoch 1 in A, 2 in B: two leaders wrote here" in text
    assert "with B as the leader, A truncates to offset 10 and loses offsets 10 to 14 (by leader epochs)" in text


def test_logs_damaged_alike_are_not_equal(run: Here, tmp_path: Path) -> None:
    a = log(tmp_path / "a", [batch(0, 10), builders.patched(batch(10, 10), 30, b"x"), batch(20, 1)])
    ran = run("diff", a, a)
    assert ran.status == 1 and "\nwhat can be read is the same, byte for byte\n" in ran.out.decode()


def test_logs_without_a_good_batch_are_not_compared(run: Here, tmp_path: Path) -> None:
    garbage = log(tmp_path / "garbage", [bytes(range(256)) * 10])
    ran = run("diff", garbage, garbage)
    assert ran.status == 1 and "\nNOT COMPARED: there is no good batch\n" in ran.out.decode()


def test_many_ranges_are_summarized(run: Here, tmp_path: Path) -> None:
    parts = builders.records(60)
    a, b = (log(tmp_path / f"{n}", [builders.batch(parts[::n], last_offset_delta=59)]) for n in (1, 2))
    assert "  only in A: 22 ranges more up to offset 59, 22 records" in run("diff", a, b).out.decode()
