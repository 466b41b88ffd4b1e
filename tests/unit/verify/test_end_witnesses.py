"""verify: what files beside a log say about its end; no false alarm on healthy logs; golden logs cut anywhere."""

from __future__ import annotations

import threading
from pathlib import Path

import builders
import pytest
from paths import SEGMENTS
from verify_reports import data_folder, good, kinds, made, verified
from witness_folders import BORDERS, HEALTHY, LOSSES, cut, cut_golden, flipped_index, golden, written

import kafkarec
from kafkarec.cli import main
from kafkarec.ops.verify import KINDS

END_KINDS = {name for name, kind in KINDS.items() if kind.subject == "end"}


@pytest.mark.parametrize("name", HEALTHY)
def test_a_healthy_log_gives_no_false_alarm(name: str, tmp_path: Path) -> None:
    folder = HEALTHY[name](tmp_path)
    for path in (folder, tmp_path):
        report = verified(path)
        assert report.exit_status() == 0, str(report)
        assert not kinds(report, "error", "anomaly", "note") & END_KINDS
        assert all(one.beyond_end == 0 and not one.end.higher for one in report.partitions)


@pytest.mark.parametrize("name", LOSSES)
def test_a_witness_above_the_end_is_a_loss(name: str, tmp_path: Path) -> None:
    make, kind, headline = LOSSES[name]
    folder = make(tmp_path / "data")
    report = verified(folder)
    assert report.exit_status() == 1 and not report.ok
    assert str(report).splitlines()[0].endswith(f"; {headline}")
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


def test_the_strongest_witness_of_all_partitions_is_in_the_headline(tmp_path: Path) -> None:
    for number in range(3):
        made(tmp_path, {0: [good(0), good(5)]}, f"orders-{number}")
    data_folder(tmp_path, replication="orders 0 20\norders 1 99", log_start="orders 2 50")
    report = verified(tmp_path)
    assert str(report).startswith(
        "INCOMPLETE: every batch can be read; at least 89 offsets after 9 are missing, according to "
        "replication-offset-checkpoint (orders-1); the same in 2 more partitions\n"
    )
    assert [(one.name, one.beyond_end) for one in report.partitions] == [
        ("orders-1", 89),
        ("orders-0", 10),
        ("orders-2", 0),
    ]
    damaged = "(2 partitions are damaged or incomplete;"
    assert f"next: kafkarec salvage {tmp_path} -o rescued\n      {damaged}" in str(report)


def test_zeros_and_a_cut_batch_are_damage_where_a_witness_reaches_past_them(tmp_path: Path) -> None:
    zeros = verified(cut_golden(tmp_path, ".snapshot", zeros=True))
    [damage] = zeros.damage
    assert (damage.reason, damage.lost_from, damage.lost_to) == ("size_too_small", 345, None)
    assert [one.state for one in zeros.files[0].ranges] == ["good", "damaged"]
    assert str(zeros).startswith(
        "DAMAGED: 1 range, 31.2 KiB lost; at least 520 offsets after 344 are missing, according to "
        f"{865:020}.snapshot\n"
    )
    folder = golden(tmp_path / "cut", "all-codecs-0")
    log = folder / f"{0:020}.log"
    cut(log, log.stat().st_size - 1)
    report = verified(folder)
    assert [one.reason for one in report.damage] == ["length_beyond_end"]
    (folder / f"{865:020}.snapshot").unlink()
    for name in (".index", ".timeindex"):
        (folder / f"{0:020}{name}").unlink()
    assert verified(folder).exit_status() == 0  # nothing tells: it may have been written at that moment


def test_an_opened_log_is_read_as_before_after_verify_and_salvage(tmp_path: Path) -> None:
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


def test_a_segment_keeps_its_offset_after_salvage(tmp_path: Path) -> None:
    """Of two segments with exchanged names salvage takes each for the other."""
    folder = golden(tmp_path, "txn-0")
    first, second = sorted(folder.glob("*.log"))
    first.rename(tmp_path / "held")
    second.rename(first)
    (tmp_path / "held").rename(second)
    log = kafkarec.open(folder)
    log.salvage(tmp_path / "out")
    assert [segment.base_offset for segment in log.segments] == [0, 30]


def test_damage_at_the_end_is_counted_by_a_witness(tmp_path: Path) -> None:
    folder = golden(tmp_path, "all-codecs-0")
    log = folder / f"{0:020}.log"
    raw = bytearray(log.read_bytes())
    raw[-1] ^= 1
    log.write_bytes(raw)
    report = verified(folder)
    assert "at least 1 offset after 863 is missing, according to" in str(report).splitlines()[0]
    assert report.partitions[0].lost_offsets == 1


def test_a_wrong_index_entry_is_no_witness(tmp_path: Path) -> None:
    report = verified(flipped_index(tmp_path))
    assert kinds(report, "error") == {"index_offset"} and "kafkarec reindex" in str(report)


def test_offsets_that_were_not_read_are_not_missing(tmp_path: Path) -> None:
    folder = golden(tmp_path, "all-codecs-0")
    limited = kafkarec.verify(folder, max_decompressed_bytes=100)
    assert {one.reason for one in limited.damage} == {"limit_exceeded"}
    assert limited.exit_status() == 3 and not kinds(limited) & END_KINDS
    salvaged = kafkarec.salvage(folder, tmp_path / "out", max_decompressed_bytes=100)
    assert not salvaged.ok and not salvaged.partitions[0].recorded_ends
    (folder / f"{0:020}.log").unlink()
    (folder / f"{0:020}.log").symlink_to(tmp_path / "nowhere")
    gone = kafkarec.verify(folder)
    assert gone.exit_status() == 3 and not kinds(gone) & END_KINDS


def test_one_segment_of_a_log_is_not_asked_for_the_logs_end(tmp_path: Path) -> None:
    folder = written(tmp_path)
    first, *_, last = sorted(folder.glob("*.log"))
    assert verified(first).exit_status() == verified([first, folder / last.name]).exit_status() == 0
    cut(last, len(good(0)))
    assert "end_lost" in kinds(verified(last), "error")
    assert verified(first).exit_status() == 0


@pytest.mark.parametrize("zeros", [False, True], ids=["cut", "zeros"])
@pytest.mark.parametrize("log", BORDERS, ids=lambda log: f"{log.parent.name}/{log.stem[-3:]}")
def test_every_golden_log_cut_at_every_batch(log: Path, zeros: bool, tmp_path: Path) -> None:
    folder = golden(tmp_path, log.parent.name)
    whole = log.read_bytes()
    for position in BORDERS[log]:
        (folder / log.name).write_bytes(whole)
        cut(folder / log.name, position, zeros=zeros)
        report = verified(folder)
        assert report.exit_status() == 1, position
        assert "reindex" not in str(report)


def test_a_log_that_is_written_meanwhile_is_never_damaged(tmp_path: Path) -> None:
    """A thread appends and rolls, while this one verifies; the checkpoint files are written in between, too."""
    folder = data_folder(tmp_path / "data")
    started = threading.Event()

    def write() -> None:
        with kafkarec.SegmentWriter(folder / "orders-0", segment_bytes=6000, index_interval_bytes=200) as writer:
            for number in range(3000):
                writer.append(builders.good_batch(5, base_offset=number * 5))
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


def test_golden_logs_have_borders() -> None:
    assert len(BORDERS) == 9 and sum(map(len, BORDERS.values())) > 300, SEGMENTS


def test_an_index_before_its_segment_may_be_of_an_unfinished_spark_job(tmp_path: Path) -> None:
    folder = golden(tmp_path / "disk", "txn-0")
    (folder / f"{30:020}.log").unlink()
    (folder / f"{293:020}.snapshot").unlink()

    def detail() -> str:
        [found] = [one for one in verified(folder).findings if one.kind == "end_was_longer"]
        return found.detail

    assert "Spark" not in detail()
    (tmp_path / "disk" / "_temporary").mkdir()
    assert "or a Spark job has not finished its commit: it writes a segment after its indexes" in detail()
    cut(golden(tmp_path / "other", "txn-0") / f"{30:020}.log", 78)
    (tmp_path / "other" / "_temporary").mkdir()
    assert "Spark" not in str(verified(tmp_path / "other")), "the segment is there, but it is cut"
