"""`kafkarec diff`: logs that diverge, many ranges, nothing to compare. The fence has the rest."""

import builders
from plain_logs import batch, log


def test_logs_that_diverge_are_reported_from_the_first_difference(run, tmp_path):
    a = log(tmp_path / "a", [batch(0, 10), batch(10, 5, epoch=1)], epochs=[(0, 0), (1, 10)])
    b = log(tmp_path / "b", [batch(0, 10), batch(10, 9, epoch=2)], epochs=[(0, 0), (2, 10)])
    ran = run("diff", a, b)
    text = ran.out.decode()
    assert ran.status == 1 and not ran.err
    assert "first difference at offset 10: leader epoch 1 in A, 2 in B: two leaders wrote here" in text
    assert "  only in B: offsets 15 to 18, 4 records, " in text
    assert "with B as the leader, A truncates to offset 10 and loses offsets 10 to 14 (by leader epochs)" in text


def test_many_ranges_are_summarized(run, tmp_path):
    parts = builders.records(60)
    a, b = (log(tmp_path / f"{n}", [builders.batch(parts[::n], last_offset_delta=59)]) for n in (1, 2))
    assert "  only in A: 22 ranges more up to offset 59, 22 records" in run("diff", a, b).out.decode()


def test_logs_without_a_good_batch_are_not_compared(run, tmp_path):
    garbage = log(tmp_path / "garbage", [bytes(range(256)) * 10])
    ran = run("diff", garbage, garbage)
    assert ran.status == 1 and "\nNOT COMPARED: there is no good batch\n" in ran.out.decode()
