"""`kafkarec diff`: many ranges, nothing to compare. The fence has the rest."""

import builders
from plain_logs import log


def test_many_ranges_are_summarized(run, tmp_path):
    parts = builders.records(60)
    a, b = (log(tmp_path / f"{n}", [builders.batch(parts[::n], last_offset_delta=59)]) for n in (1, 2))
    assert "  only in A: 22 ranges more up to offset 59, 22 records" in run("diff", a, b).text


def test_logs_without_a_good_batch_are_not_compared(run, tmp_path):
    garbage = log(tmp_path / "garbage", [bytes(range(256)) * 10])
    ran = run("diff", garbage, garbage)
    assert ran.status == 1 and "\nNOT COMPARED: there is no good batch\n" in ran.text
