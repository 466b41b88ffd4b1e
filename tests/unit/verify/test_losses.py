"""verify: the total loss, missing segments and known ends included; misplaced batches; cut snapshots."""

import json
import os

import builders
import pytest
from measured_calls import calls_of
from paths import SEGMENTS
from plain_logs import batch, data_folder, log
from verify_reports import kinds, verified
from witness_folders import golden

import kafkarec

FIRST, SECOND, *_ = sorted(SEGMENTS.rglob("*.checkpoint"))


# ---- lost offsets without damaged bytes


def test_a_log_that_is_cleaned_for_the_first_time_while_it_is_read_lost_nothing(tmp_path):
    log(tmp_path / "orders-0", [batch(0), batch(20)], [batch(40)])
    data_folder(tmp_path, cleaner="")
    report = verified(tmp_path, progress=lambda *_: data_folder(tmp_path, cleaner="orders 0 40"))
    assert report.partitions[0].lost_offsets == 0 and "error" not in {one.severity for one in report.findings}


@pytest.mark.parametrize("replaced, severity", [(0, "anomaly"), (30, "error")])
def test_a_segment_that_the_cleaner_has_just_replaced_leaves_gaps_open(tmp_path, replaced, severity):
    """The cleaner enters a log into its checkpoint only when it is done with it. A segment of another base offset that
    is about to be deleted says nothing."""
    folder = log(tmp_path / "orders-0", [batch(0), batch(20)], [batch(40)])
    (folder / f"{replaced:020}.log.deleted").write_bytes(batch(0))
    data_folder(tmp_path, cleaner="")
    found = {one.kind: one.severity for one in verified(tmp_path).findings}
    assert (found["offset_gap"], found["segment_gap"]) == (severity, severity)


# ---- batches in files that no broker reads


def test_segments_with_other_names_in_their_folder_are_salvaged_together(tmp_path, tmp_path_factory, monkeypatch):
    """As upper case letters on a file system of another kind. The file of another folder has no offset that begins a
    gap."""
    folder = log(tmp_path / "orders-0", [batch(0)], [batch(20)])
    data_folder(tmp_path, cleaner="")
    files = [folder / f"{base:020}.LOG" for base in (5, 10)]
    for base, file in zip((5, 10), files, strict=True):
        file.write_bytes(batch(base))
    (tmp_path / "found").write_bytes(batch(15))
    text = str(verified(tmp_path))
    command = f"next: kafkarec salvage {folder} {files[0]} {files[1]} --topic orders --partition 0 -o rescued-orders-0"
    assert f"\n{command}\n      (orders-0 lacks the offsets from 5, 10 on)\n" in text
    assert f"kafkarec verify {tmp_path / 'found'}" in text
    monkeypatch.chdir(tmp_path_factory.mktemp("work"))
    os.mkdir("rescued-orders-0")
    assert f"\n{command}-2\n" in str(verified(tmp_path)), "salvage refuses a folder that is not new or empty"


def test_a_full_lost_and_found_is_counted(tmp_path):
    log(tmp_path / "orders-0", [batch(0)[:-1] + b"\xff", batch(5)])
    lost_and_found = tmp_path / "lost+found"
    lost_and_found.mkdir()
    for number in range(40):
        (lost_and_found / f"#{number:02}").write_bytes(batch(number))
    text = str(verified(tmp_path))
    assert "and 26 more findings: --all prints them\n" in text and "(and 37 more files)" in text
    assert len(text.splitlines()) < 45


# ---- KRaft snapshots


@pytest.mark.parametrize("snapshot", [FIRST, SECOND], ids=lambda path: path.name)
def test_a_cut_snapshot_is_not_a_live_tail(tmp_path, snapshot):
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


# ---- many markers


def test_ten_thousand_markers_are_decoded_together(tmp_path):
    batches = [builders.end_marker(offset, offset % 7, commit=bool(offset % 2)) for offset in range(10_000)]
    folder = log(tmp_path / "orders-0", batches)
    report, calls = calls_of(lambda: kafkarec.verify(folder, threads=1))
    assert report.ok and 0 < calls < 3 * len(batches), "a decode for each marker takes more calls"


def test_an_index_that_may_know_what_is_missing_is_not_replaced(tmp_path):
    """Two ABORT markers at the end of their segment are cut out: the .txnindex has the second one alone."""
    folder = golden(tmp_path, "txn-0")
    log = folder / f"{30:020}.log"
    data = log.read_bytes()
    for marker in [one for one in kafkarec.batches(data) if one.base_offset in (141, 146)]:
        data = data.replace(bytes(marker.raw), b"")
    log.write_bytes(data)
    data_folder(tmp_path, cleaner="")
    text = str(verified(folder))
    assert "[transaction_unknown]" in text and "next: kafkarec reindex" not in text
    assert "\nnext: kafkarec salvage " in text


def test_batches_that_salvage_set_aside_are_known_gaps(tmp_path):
    folder = log(tmp_path / "orders-0", [batch(0), batch(15), batch(25)], [batch(30)])
    aside = [{"first_offset": first, "last_offset": last} for first, last in ((10, 12), (13, 14), (20, 24))]
    for listed, found in ((2, {"offset_gap"}), (3, set())):
        report = {"folder": "orders-0", "lost": [[5, 9]], "missing": [], "set_aside": aside[:listed]}
        (tmp_path / "salvage.json").write_text(json.dumps({"partitions": [report]}))
        assert kinds(verified(folder)) == found, "20 to 24 are not listed at first"
    assert "gaps_salvaged" in kinds(verified(folder), "note")


def test_the_work_grows_as_the_known_gaps_do(tmp_path):
    counts = []
    for number in (300, 600):
        folder = log(tmp_path / "orders-0", [batch(10 * n) for n in range(number + 1)])
        lost = [[10 * n + 5, 10 * n + 9] for n in range(number)]
        report = {"folder": "orders-0", "lost": lost, "missing": [], "set_aside": []}
        (tmp_path / "salvage.json").write_text(json.dumps({"partitions": [report]}))
        found, calls = calls_of(lambda folder=folder: kafkarec.verify(folder, threads=1))
        assert f"{5 * number} offsets in {number} gaps, which salvage.json lists" in str(found)
        counts.append(calls)
    assert counts[1] < 2.2 * counts[0]
