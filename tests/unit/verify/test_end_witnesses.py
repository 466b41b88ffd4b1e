"""verify: what files beside a log say about its end; no false alarm on healthy logs; golden logs cut anywhere."""

import threading

import pytest
from paths import SEGMENTS
from plain_logs import batch, data_folder, exchange
from verify_reports import kinds, verified
from witness_folders import BORDERS, HEALTHY, LOSSES, cut, flipped_index, golden, written

import kafkarec
from kafkarec.cli import main
from kafkarec.ops.verify import KINDS

END_KINDS = {name for name, kind in KINDS.items() if kind.subject == "end"}


@pytest.mark.parametrize("name", HEALTHY)
def test_a_healthy_log_gives_no_false_alarm(name, tmp_path):
    folder = HEALTHY[name](tmp_path)
    for path in (folder, tmp_path):
        report = verified(path)
        assert report.exit_status() == 0, str(report)
        assert not kinds(report, "error", "anomaly", "note") & END_KINDS
        assert all(one.beyond_end == 0 and not one.end.higher for one in report.partitions)


@pytest.mark.parametrize("name", LOSSES)
def test_a_witness_above_the_end_is_a_loss(name, tmp_path):
    make, kind, headline = LOSSES[name]
    folder = make(tmp_path / "data")
    report = verified(folder)
    assert report.exit_status() == 1 and not report.ok
    assert str(report).splitlines()[0].endswith(headline)
    [log] = report.partitions
    assert kind in kinds(report, "error") and kinds(report, "error") <= END_KINDS
    assert "kafkarec reindex /" not in str(report), "no command that makes new indexes, without the witness"
    assert (log.end.headline == headline and f"at least {log.beyond_end} offset" in headline) or not log.beyond_end
    shown = log.to_dict()
    assert shown["beyond_end"] == log.beyond_end == log.lost_offsets
    assert shown["recorded_ends"][0] == log.end.higher[0].to_dict()
    assert main(["verify", str(folder), "--html", str(tmp_path / "page.html")]) == 1
    assert headline in (tmp_path / "page.html").read_text()
    if log.files:
        assert verified(tmp_path / "data").exit_status() == 1


def test_an_opened_log_is_read_as_before_after_verify_and_salvage(tmp_path):
    """Both read its last segment as one that others follow, where a file names offsets above its end."""
    folder = golden(tmp_path, "all-codecs-0")
    last = folder / f"{0:020}.log"
    cut(last, last.stat().st_size - 1)
    log = kafkarec.open(folder)
    before = log.read()
    assert before.remaining
    assert log.verify().exit_status() == log.salvage(tmp_path / "out").exit_status() == 1
    after = log.read()
    assert (len(after), after.remaining, after.damage) == (len(before), before.remaining, ())


def test_a_segment_keeps_its_offset_after_salvage(tmp_path):
    """Of two segments with exchanged names salvage takes each for the other."""
    folder = golden(tmp_path, "txn-0")
    exchange(folder, 0, 30)
    log = kafkarec.open(folder)
    log.salvage(tmp_path / "out")
    assert [segment.base_offset for segment in log.segments] == [0, 30]


def test_a_wrong_index_entry_is_no_witness(tmp_path):
    report = verified(flipped_index(tmp_path))
    assert kinds(report, "error") == {"index_offset"} and "kafkarec reindex" in str(report)


def test_one_segment_of_a_log_is_not_asked_for_the_logs_end(tmp_path):
    folder = written(tmp_path)
    first, *_, last = sorted(folder.glob("*.log"))
    assert verified(first).exit_status() == verified([first, folder / last.name]).exit_status() == 0
    cut(last, len(batch(0)))
    assert "end_lost" in kinds(verified(last), "error")
    assert verified(first).exit_status() == 0


@pytest.mark.parametrize("zeros", [False, True], ids=["cut", "zeros"])
@pytest.mark.parametrize("log", BORDERS, ids=lambda log: f"{log.parent.name}/{log.stem[-3:]}")
def test_every_golden_log_cut_at_every_batch(log, zeros, tmp_path):
    folder = golden(tmp_path, log.parent.name)
    whole = log.read_bytes()
    for position in BORDERS[log]:
        (folder / log.name).write_bytes(whole)
        cut(folder / log.name, position, zeros=zeros)
        report = verified(folder)
        assert report.exit_status() == 1, position
        assert "reindex" not in str(report)


def test_a_log_that_is_written_meanwhile_is_never_damaged(tmp_path):
    """A thread appends and rolls, while this one verifies; the checkpoint files are written in between, too."""
    folder = data_folder(tmp_path / "data")
    started = threading.Event()

    def write():
        with kafkarec.SegmentWriter(folder / "orders-0", segment_bytes=6000, index_interval_bytes=200) as writer:
            for number in range(3000):
                writer.append(batch(number * 5))
                if number % 50 == 0:
                    data_folder(folder, replication=f"orders 0 {number * 5}")
                    started.set()

    writing = threading.Thread(target=write)
    writing.start()
    started.wait()
    runs = 0
    while writing.is_alive() or not runs:
        for path in (folder, folder / "orders-0"):
            report = kafkarec.verify(path)
            assert report.exit_status() == 0, str(report)
            runs += 1
    writing.join()
    assert kafkarec.verify(folder).partitions[0].end.end.offset == 15_000


def test_golden_logs_have_borders():
    assert len(BORDERS) == 9 and sum(map(len, BORDERS.values())) > 300, SEGMENTS


def test_an_index_before_its_segment_may_be_of_an_unfinished_spark_job(tmp_path):
    folder = golden(tmp_path / "disk", "txn-0")
    (folder / f"{30:020}.log").unlink()
    (folder / f"{293:020}.snapshot").unlink()

    def detail():
        [found] = [one for one in verified(folder).findings if one.kind == "end_was_longer"]
        return found.detail

    assert "Spark" not in detail()
    (tmp_path / "disk" / "_temporary").mkdir()
    assert "or a Spark job has not finished its commit: it writes a segment after its indexes" in detail()
    cut(golden(tmp_path / "other", "txn-0") / f"{30:020}.log", 78)
    (tmp_path / "other" / "_temporary").mkdir()
    assert "Spark" not in str(verified(tmp_path / "other")), "the segment is there, but it is cut"
