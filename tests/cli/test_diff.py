"""`kafkarec diff`: the text of at most one screen, JSON, the exit status."""

from __future__ import annotations

import json
from pathlib import Path

from command import Here
from plain_logs import batch, log


def test_equal_records_are_status_0_also_in_other_batches(run: Here, tmp_path: Path) -> None:
    a, b = log(tmp_path / "a", [batch(0, 9)]), log(tmp_path / "b", [batch(0, 9, codec="lz4")])
    assert (run("diff", a, a).status, run("diff", a, b).status) == (0, 0)


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
