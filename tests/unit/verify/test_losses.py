"""verify: what is lost in all, missing segments and known ends included; batches put elsewhere; snapshots cut short."""

from __future__ import annotations

import shutil
import struct
import time
from pathlib import Path

import builders
import pytest
from paths import SEGMENTS
from verifying import good, kinds, made, verified

import kafkarec
from kafkarec.ops import verify

SNAPSHOTS = sorted(SEGMENTS.rglob("*.checkpoint"))


# ---- offsets that left no bytes


def test_a_segment_that_is_gone_counts_as_lost(tmp_path: Path) -> None:
    report = verified(made(tmp_path, {0: [good(0), good(5)[:-1] + b"\xff"], 10: [good(10)], 40: [good(40)]}))
    [log] = report.partitions
    assert (log.missing, log.missing_offsets, log.lost_offsets) == (((15, 39),), 25, 30)
    assert str(report).startswith("DAMAGED: 1 place, 136 B lost, at most 30 offsets (25 in gaps)\n")
    assert log.to_dict()["missing_offsets"] == 25


def test_a_gap_without_damage_is_in_the_headline(tmp_path: Path) -> None:
    report = verified(made(tmp_path, {0: [good(0)], 6: [good(6)]}))
    assert str(report).startswith("NOT RIGHT: every batch can be read, but there is 1 error; 1 offset lost (1 in gaps)")


def test_what_the_cleaner_took_is_not_lost(tmp_path: Path) -> None:
    made(tmp_path, {0: [good(0), good(20)], 40: [good(40)]})
    (tmp_path / "cleaner-offset-checkpoint").write_text("0\n1\norders 0 40\n")
    assert verified(tmp_path).partitions[0].lost_offsets == 0
    (tmp_path / "cleaner-offset-checkpoint").write_text("0\n0\n")  # never cleaned
    log = verified(tmp_path).partitions[0]
    assert log.missing == ((5, 19), (25, 39)) and log.lost_offsets == 30


@pytest.mark.parametrize(
    ("name", "lost"),
    [
        ("replication-offset-checkpoint", 7),
        ("recovery-point-offset-checkpoint", 7),
        ("cleaner-offset-checkpoint", 7),
        ("log-start-offset-checkpoint", 0),
    ],
)
def test_a_checkpoint_knows_how_far_the_log_went(tmp_path: Path, name: str, lost: int) -> None:
    made(tmp_path, {0: [good(0), good(5)]})
    (tmp_path / name).write_text("0\n1\norders 0 17\n")
    report = verified(tmp_path)
    assert kinds(report, "error") == {"offset_beyond_log"}
    assert (report.partitions[0].beyond_end, report.partitions[0].lost_offsets) == (lost, lost)
    assert (f"{lost} offsets lost ({lost} above a log's end)" in str(report)) == bool(lost)


def test_the_worst_is_what_lost_most_offsets_then_bytes(tmp_path: Path) -> None:
    bad = good(5)[:-1] + b"\xff"
    large = builders.batch(builders.records(5, value=bytes(900)), base_offset=5)[:-1] + b"\xff"
    made(tmp_path, {0: [good(0), bad, good(10)]}, "small-0")
    made(tmp_path, {0: [good(0), large, good(10)]}, "large-0")
    made(tmp_path, {0: [good(0)], 500: [good(500)]}, "gap-0")
    made(tmp_path, {0: [good(0), good(5)]}, "fine-0")
    assert [one.name for one in verified(tmp_path).partitions] == ["gap-0", "large-0", "small-0", "fine-0"]


# ---- one command, the right words


def test_several_damaged_partitions_are_salvaged_by_one_command(tmp_path: Path) -> None:
    for number in range(5):
        made(tmp_path, {0: [good(0), good(5)[:-1] + b"\xff", good(10)]}, f"orders-{number}")
    text = str(verified(tmp_path))
    assert text.count("kafkarec salvage") == 1
    assert f"next: kafkarec salvage {tmp_path} -o rescued   (5 partitions are damaged" in text
    assert "and 2 more partitions with findings: --all prints them" in text
    two = str(verified([tmp_path / "orders-0", tmp_path / "orders-1"]))
    assert two.count("kafkarec salvage") == 2  # no data folder was named


def test_one_more_is_said_as_one(tmp_path: Path) -> None:
    bad = good(5)[:-1] + b"\xff"
    for number in range(4):
        made(tmp_path, {0: [good(0), bad, good(10), bad, good(20)]}, f"orders-{number}")
    text = str(verified(tmp_path))
    assert "and 1 more place: --all prints it\n" in text
    assert "and 1 more partition with findings: --all prints it\n" in text


def test_zeros_are_called_zeros(tmp_path: Path) -> None:
    batch = good(5)
    page = made(tmp_path, {0: [good(0), bytes(len(batch)), good(10)]}, "page-0")
    half = made(tmp_path, {0: [good(0), bytes(100) + batch[100:], good(10)]}, "half-0")
    report = verified(page)
    assert report.files[0].zeros == ((len(batch), len(batch)),)
    assert "offsets 5 to 9 lost; all of it is zeros [size_too_small]" in str(report)
    assert "offsets 5 to 9 lost; zeros, for 100 bytes [size_too_small]" in str(verified(half))
    assert verified(made(tmp_path, {0: [good(0), batch[:-1] + b"\xff"]})).files[0].zeros == ()


# ---- batches where no broker looks


def test_the_missing_segment_in_lost_and_found(tmp_path: Path) -> None:
    log = made(tmp_path, {0: [good(0)], 10: [good(10)]})
    found = tmp_path / "lost+found"
    found.mkdir()
    (found / "#12345").write_bytes(good(5))
    (found / "#12346").write_bytes(b"no batch, and long enough to be one" * 3)
    (found / "#12347").write_bytes(good(900))
    report = verified(tmp_path)
    strays = [one for one in report.findings if one.kind == "batches_left_out"]
    assert [(one.file, one.offset) for one in strays] == [(str(found / "#12345"), 5), (str(found / "#12347"), 900)]
    text = str(report)
    assert "lost+found/#12345: holds record batches, from offset 5 on" in text
    assert f"kafkarec salvage {log} '{found}/#12345' --topic orders --partition 0 -o merged/orders-0   (" in text
    assert f"kafkarec verify '{found}/#12347'" in text
    alone = verified(found)
    assert str(alone).startswith("NOTHING TO VERIFY")
    assert f"next: kafkarec verify '{found}/#12345' '{found}/#12347'" in str(alone)


def test_a_controllers_own_folder_holds_no_strays() -> None:
    assert "metadata-root" in [path.name for path in SEGMENTS.iterdir()]
    assert not [one for one in verified(SEGMENTS).findings if one.kind == "batches_left_out"]


def test_a_full_lost_and_found_is_counted(tmp_path: Path) -> None:
    made(tmp_path, {0: [good(0)[:-1] + b"\xff", good(5)]})
    found = tmp_path / "lost+found"
    found.mkdir()
    for number in range(40):
        (found / f"#{number:02}").write_bytes(good(number))
    text = str(verified(tmp_path))
    assert "and 26 more findings: --all prints them\n" in text and "(and 37 more)" in text
    assert len(text.splitlines()) < 45


def test_a_copy_put_aside_is_reported_without_advice(tmp_path: Path) -> None:
    folder = made(tmp_path, {0: [good(0)]})
    shutil.copy(folder / f"{0:020}.log", folder / "before-the-crash")
    report = verified(folder)
    assert kinds(report, "note") == {"batches_left_out"} and report.state == "ok" and "next:" not in str(report)


# ---- KRaft snapshots


@pytest.mark.parametrize("snapshot", SNAPSHOTS[:2], ids=lambda path: path.name)
def test_a_snapshot_cut_anywhere_is_no_live_tail(tmp_path: Path, snapshot: Path) -> None:
    whole = snapshot.read_bytes()
    ends = [row["position"] for row in kafkarec.scan(whole)]
    path = tmp_path / snapshot.name
    for size in (0, 10, ends[1], ends[1] + 1, len(whole) // 2, ends[-1], len(whole) - 1):
        path.write_bytes(whole[:size])
        report = verified(path)
        assert report.exit_status() == 1 and "snapshot_incomplete" in kinds(report, "error"), size
    path.write_bytes(whole + bytes(4096))
    assert kinds(verified(path), "error") == {"snapshot_incomplete"}
    path.write_bytes(whole)
    assert verified(path).ok


def test_snapshots_were_found() -> None:
    assert len(SNAPSHOTS) >= 2


# ---- many markers


def test_each_control_record_is_reported_at_its_own_offset(tmp_path: Path) -> None:
    fine = [builders.end_marker(commit=True, producer_id=1, base_offset=offset) for offset in range(50)]
    odd = [_control(99, base_offset=50), good(51, 1), _control(98, base_offset=52), _control(99, base_offset=53)]
    report = verified(made(tmp_path, {0: [*fine, *odd]}))
    [finding] = [one for one in report.findings if one.kind == "control_type_unknown"]
    assert (finding.offset, finding.count, finding.detail) == (50, 3, "control record type 99")
    size = len(fine[0])
    assert (finding.position, finding.more) == (50 * size, tuple(50 * size + sum(map(len, odd[:n])) for n in (2, 3)))


def _control(kind: int, base_offset: int) -> bytes:
    record = builders.record(key=struct.pack(">hh", 0, kind), value=b"\0\0")
    return builders.batch([record], base_offset=base_offset, attributes=builders.CONTROL, producer_id=1)


def test_ten_thousand_markers_take_a_moment(tmp_path: Path) -> None:
    batches = [
        builders.end_marker(commit=bool(offset % 2), producer_id=offset % 7, producer_epoch=0, base_offset=offset)
        for offset in range(10_000)
    ]
    folder = made(tmp_path, {0: batches})
    begin = time.process_time()
    report = verify.verify(folder, deep=False)
    assert report.ok and time.process_time() - begin < 2  # a decode for each marker took that long
