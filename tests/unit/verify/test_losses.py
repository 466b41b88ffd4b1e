"""verify: the total loss, missing segments and known ends included; misplaced batches; cut snapshots."""

from __future__ import annotations

import json
import shutil
import struct
import time
from pathlib import Path

import builders
import pytest
from paths import SEGMENTS
from verify_reports import data_folder, good, kinds, made, verified

import kafkarec
from kafkarec.ops import verify

SNAPSHOTS = sorted(SEGMENTS.rglob("*.checkpoint"))


# ---- lost offsets without damaged bytes


def test_a_segment_that_is_gone_counts_as_lost(tmp_path: Path) -> None:
    report = verified(made(tmp_path, {0: [good(0), good(5)[:-1] + b"\xff"], 10: [good(10)], 40: [good(40)]}))
    [log] = report.partitions
    assert (log.missing, log.missing_offsets, log.lost_offsets) == (((15, 39),), 25, 30)
    assert str(report).startswith("DAMAGED: 1 range, 136 B lost, at most 30 offsets, 25 of them in gaps\n")
    assert log.to_dict()["missing_offsets"] == 25


def test_a_gap_without_damage_is_in_the_headline(tmp_path: Path) -> None:
    folder = made(tmp_path, {0: [good(0)], 6: [good(6)]})
    data_folder(tmp_path, cleaner="")
    report = verified(folder)
    assert str(report).startswith("INCONSISTENT: every batch can be read, but there is 1 error; 1 offset lost in a gap")


def test_offsets_removed_by_the_cleaner_are_not_lost(tmp_path: Path) -> None:
    made(tmp_path, {0: [good(0), good(20)], 40: [good(40)]})
    data_folder(tmp_path, cleaner="orders 0 40")
    assert verified(tmp_path).partitions[0].lost_offsets == 0
    data_folder(tmp_path, cleaner="")  # never cleaned
    log = verified(tmp_path).partitions[0]
    assert log.missing == ((5, 19), (25, 39)) and log.lost_offsets == 30


def test_a_log_that_is_cleaned_for_the_first_time_while_it_is_read_lost_nothing(tmp_path: Path) -> None:
    made(tmp_path, {0: [good(0), good(20)], 40: [good(40)]})
    data_folder(tmp_path, cleaner="")
    report = verified(tmp_path, progress=lambda *_: data_folder(tmp_path, cleaner="orders 0 40"))
    assert report.partitions[0].lost_offsets == 0 and "error" not in {one.severity for one in report.findings}


@pytest.mark.parametrize(("replaced", "severity"), [(0, "anomaly"), (30, "error")])
def test_a_segment_that_the_cleaner_has_just_replaced_leaves_gaps_open(
    tmp_path: Path, replaced: int, severity: str
) -> None:
    """The cleaner enters a log into its checkpoint only when it is done with it. A segment of another base offset that
    is about to be deleted says nothing."""
    folder = made(tmp_path, {0: [good(0), good(20)], 40: [good(40)]})
    (folder / f"{replaced:020}.log.deleted").write_bytes(good(0))
    data_folder(tmp_path, cleaner="")
    found = {one.kind: one.severity for one in verified(tmp_path).findings}
    assert (found["offset_gap"], found["segment_gap"]) == (severity, severity)


def test_the_worst_partition_lost_most_offsets_then_bytes(tmp_path: Path) -> None:
    bad = good(5)[:-1] + b"\xff"
    large = builders.batch(builders.records(5, value=bytes(900)), base_offset=5)[:-1] + b"\xff"
    made(tmp_path, {0: [good(0), bad, good(10)]}, "small-0")
    made(tmp_path, {0: [good(0), large, good(10)]}, "large-0")
    made(tmp_path, {0: [good(0)], 500: [good(500)]}, "gap-0")
    made(tmp_path, {0: [good(0), good(5)]}, "fine-0")
    assert [one.name for one in verified(tmp_path).partitions] == ["gap-0", "large-0", "small-0", "fine-0"]


# ---- advice and wording


def test_several_damaged_partitions_are_salvaged_by_one_command(tmp_path: Path) -> None:
    for number in range(5):
        made(tmp_path, {0: [good(0), good(5)[:-1] + b"\xff", good(10)]}, f"orders-{number}")
    text = str(verified(tmp_path))
    assert text.count("kafkarec salvage") == 1
    assert f"next: kafkarec salvage {tmp_path} -o rescued\n      (5 partitions are damaged" in text
    assert "and 2 more partitions with findings: --all prints them" in text
    two = str(verified([tmp_path / "orders-0", tmp_path / "orders-1"]))
    assert two.count("kafkarec salvage") == 2  # no data folder was named


def test_one_further_partition_is_worded_in_the_singular(tmp_path: Path) -> None:
    bad = good(5)[:-1] + b"\xff"
    for number in range(4):
        made(tmp_path, {0: [good(0), bad, good(10), bad, good(20)]}, f"orders-{number}")
    text = str(verified(tmp_path))
    assert "and 1 more range: --all prints it\n" in text
    assert "and 1 more partition with findings: --all prints it\n" in text


def test_zeros_are_called_zeros(tmp_path: Path) -> None:
    batch = good(5)
    page = made(tmp_path, {0: [good(0), bytes(len(batch)), good(10)]}, "page-0")
    half = made(tmp_path, {0: [good(0), bytes(100) + batch[100:], good(10)]}, "half-0")
    for folder in (page, half):
        assert "offsets 5 to 9 lost; zeros [size_too_small]" in str(verified(folder))
    assert "lost; zeros" not in str(verified(made(tmp_path, {0: [good(0), batch[:-1] + b"\xff"]})))


# ---- batches in folders that no broker reads


def test_a_missing_segment_is_found_in_lost_and_found(tmp_path: Path) -> None:
    log = made(tmp_path, {0: [good(0)], 10: [good(10)]})
    data_folder(tmp_path, cleaner="")
    lost_and_found = tmp_path / "lost+found"
    lost_and_found.mkdir()
    (lost_and_found / "#12345").write_bytes(good(5))
    (lost_and_found / "#12346").write_bytes(b"no batch, and long enough to be one" * 3)
    (lost_and_found / "#12347").write_bytes(good(900))
    report = verified(tmp_path)
    strays = [one for one in report.findings if one.kind == "batches_left_out"]
    assert [(one.file, one.offset) for one in strays] == [
        (str(lost_and_found / "#12345"), 5),
        (str(lost_and_found / "#12347"), 900),
    ]
    text = str(report)
    assert (
        "lost+found/#12345: not verified: its name is not a segment's; it contains record batches starting at offset 5"
        in text
    )
    assert f"kafkarec salvage {log} '{lost_and_found}/#12345' --topic orders --partition 0 -o rescued\n      (" in text
    assert f"kafkarec verify '{lost_and_found}/#12347'" in text
    alone = verified(lost_and_found)
    assert str(alone).startswith("NOTHING TO VERIFY")
    assert f"next: kafkarec verify '{lost_and_found}/#12345' '{lost_and_found}/#12347'" in str(alone)


def test_segments_with_other_names_in_their_folder_are_salvaged_together(tmp_path: Path) -> None:
    """As upper case letters on a file system of another kind. The file of another folder has no offset that begins a
    gap."""
    log = made(tmp_path, {0: [good(0)], 20: [good(20)]})
    data_folder(tmp_path, cleaner="")
    files = [log / f"{base:020}.LOG" for base in (5, 10)]
    for base, file in zip((5, 10), files, strict=True):
        file.write_bytes(good(base))
    (tmp_path / "found").write_bytes(good(15))
    text = str(verified(tmp_path))
    command = f"next: kafkarec salvage {log} {files[0]} {files[1]} --topic orders --partition 0 -o rescued"
    assert f"\n{command}\n      (orders-0 lacks offsets 5, 10, where the files begin)\n" in text
    assert f"kafkarec verify {tmp_path / 'found'}" in text


def test_a_controllers_own_folder_has_no_misplaced_batches() -> None:
    assert "metadata-root" in [path.name for path in SEGMENTS.iterdir()]
    assert not [one for one in verified(SEGMENTS).findings if one.kind == "batches_left_out"]


def test_a_full_lost_and_found_is_counted(tmp_path: Path) -> None:
    made(tmp_path, {0: [good(0)[:-1] + b"\xff", good(5)]})
    lost_and_found = tmp_path / "lost+found"
    lost_and_found.mkdir()
    for number in range(40):
        (lost_and_found / f"#{number:02}").write_bytes(good(number))
    text = str(verified(tmp_path))
    assert "and 26 more findings: --all prints them\n" in text and "(and 37 more files)" in text
    assert len(text.splitlines()) < 45


def test_a_copy_put_aside_is_reported_without_advice(tmp_path: Path) -> None:
    folder = made(tmp_path, {0: [good(0)]})
    shutil.copy(folder / f"{0:020}.log", folder / "before-the-crash")
    report = verified(folder)
    assert kinds(report, "note") == {"batches_left_out"} and report.state == "ok" and "next:" not in str(report)


# ---- KRaft snapshots


@pytest.mark.parametrize("snapshot", SNAPSHOTS[:2], ids=lambda path: path.name)
def test_a_cut_snapshot_is_not_a_live_tail(tmp_path: Path, snapshot: Path) -> None:
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


def test_ten_thousand_markers_are_decoded_together(tmp_path: Path) -> None:
    batches = [
        builders.end_marker(commit=bool(offset % 2), producer_id=offset % 7, producer_epoch=0, base_offset=offset)
        for offset in range(10_000)
    ]
    folder = made(tmp_path, {0: batches})
    begin = time.process_time()
    report = verify.verify(folder)
    assert report.ok and time.process_time() - begin < 2  # one decode per marker took that long


def test_replicas_that_are_verified_together_are_salvaged_together(tmp_path: Path) -> None:
    """Each lacks something that the other one has."""
    first = made(tmp_path / "one", {0: [good(0), good(5)[:-1] + b"\xff", good(10)]})
    second = made(tmp_path / "two", {0: [good(0), good(5)], 30: [good(30)]})
    whole = made(tmp_path / "two", {0: [good(0)]}, "other-0")
    text = str(verify.verify(kafkarec.open([first, second, whole])))
    [command] = [line for line in text.splitlines() if "kafkarec salvage" in line]
    assert command.split()[1:5] == ["kafkarec", "salvage", str(first), str(second)]
    assert f"\n{first}  " in text and f"\n{second}  " in text and "\nother-0 " in text, "rows of one name have paths"


@pytest.mark.parametrize("bases", [{0: [0, 5, 0, 5]}, {0: [0, 5, 10], 10: [10]}])
def test_batches_that_do_not_fit_are_salvaged(tmp_path: Path, bases: dict[int, list[int]]) -> None:
    folder = made(tmp_path, {name: [good(base) for base in each] for name, each in bases.items()})
    assert "\nnext: kafkarec salvage " in str(verified(folder))


def test_an_index_that_may_know_what_is_missing_is_not_replaced(tmp_path: Path) -> None:
    """Two ABORT markers at the end of their segment are cut out: the .txnindex has the second one alone."""
    folder = tmp_path / "txn-0"
    shutil.copytree(SEGMENTS / "txn-0", folder)
    log = folder / f"{30:020}.log"
    data = log.read_bytes()
    for marker in [one for one in kafkarec.batches(data) if one.base_offset in (141, 146)]:
        data = data.replace(bytes(marker.raw), b"")
    log.write_bytes(data)
    data_folder(tmp_path, cleaner="")
    text = str(verified(folder))
    assert "[transaction_unknown]" in text and "next: kafkarec reindex" not in text
    assert "\nnext: kafkarec salvage " in text


def test_leader_epochs_that_cannot_be_read_are_made_anew(tmp_path: Path) -> None:
    folder = made(tmp_path, {0: [good(0)]})
    (folder / "leader-epoch-checkpoint").write_bytes(bytes(40))
    assert "\nnext: kafkarec reindex " in str(verified(folder))


def test_advice_is_no_command_with_a_placeholder(tmp_path: Path) -> None:
    folder = made(tmp_path, {0: [good(0)], 6: [good(6)]})
    data_folder(tmp_path, cleaner="")
    last = str(verified(folder)).splitlines()[-1]
    assert last == "next: (orders-0: salvage takes what is missing from a replica, if both folders are named)"


def test_transactions_of_a_damaged_log_are_looked_at_after_salvage(tmp_path: Path) -> None:
    """Those of exchanged segments seem to be open, and the next command would end them."""
    folder = shutil.copytree(SEGMENTS / "txn-0", tmp_path / "txn-0", ignore=shutil.ignore_patterns("*.txt", "*.json"))
    one, other = sorted(folder.glob("*.log"))
    one.rename(tmp_path / "aside")
    other.rename(one)
    (tmp_path / "aside").rename(other)
    report = verified(folder)
    assert "segment_misnamed" in kinds(report) and "kafkarec txn" not in str(report)


def test_a_log_of_which_nothing_is_left(tmp_path: Path) -> None:
    folder = made(tmp_path, {})
    data_folder(tmp_path, replication="orders 0 300")
    report = verified(folder)
    assert report.exit_status() == 1
    text = str(report)
    assert text.startswith(
        "INCOMPLETE: there are no batches; at least 1 offset up to 299 is missing, according to "
        "replication-offset-checkpoint\n"
    )
    assert "the log has no batches, but had at least 1 offset, up to 299: they are lost" in text
    assert text.endswith("next: (orders-0: no batch is left to save; look for a backup or a replica)\n")


def test_an_index_before_the_first_segment_is_a_note(tmp_path: Path) -> None:
    folder = made(tmp_path, {30: [good(30)]})
    (folder / f"{0:020}.timeindex").write_bytes(b"")
    report = verified(folder)
    assert report.exit_status() == 0 and kinds(report, "note") == {"index_without_segment"}
    (folder / f"{0:020}.timeindex").unlink()
    assert kinds(verified(folder), "note") == set()


def test_the_first_batch_with_a_wrong_offset_is_a_case_for_salvage_not_for_reindex(tmp_path: Path) -> None:
    """An offset below the name that nothing corrects: new indexes would be built from it."""
    folder = made(tmp_path, {0: [good(0)], 30: [good(7), good(60)]})
    report = verified(folder)
    assert "offset_below_file_name" in kinds(report)
    assert "kafkarec salvage" in str(report) and "reindex" not in str(report)


def test_only_payloads_above_a_limit_are_no_damage_in_the_headline(tmp_path: Path) -> None:
    report = verify.verify(SEGMENTS / "all-codecs-0", max_decompressed_bytes=100)
    lines = str(report).splitlines()
    assert report.exit_status() == 3 and lines[0].startswith("NOT FULLY CHECKED: 20 batches, 33.1 KiB, above")
    assert [line for line in lines if "kafkarec" in line] == [
        f"next: kafkarec verify {SEGMENTS / 'all-codecs-0'} --max-decompressed-bytes 1g"
    ]


def test_an_index_is_not_called_wrong_where_the_log_is(tmp_path: Path) -> None:
    """The marker's bytes are zeros behind its header: it is a lost marker, not a wrong entry."""
    folder = shutil.copytree(SEGMENTS / "txn-0", tmp_path / "txn-0", ignore=shutil.ignore_patterns("*.txt", "*.json"))
    log = folder / f"{30:020}.log"
    log.write_bytes(log.read_bytes()[:17] + bytes(61) + log.read_bytes()[78:])
    found = [one for one in verified(folder).findings if one.kind.startswith("transaction_")]
    assert found and {one.severity for one in found} == {"note"}
    for one in found:
        assert "valid" not in one.detail and "reindex" not in one.detail


# ---- what salvage.json lists


def test_batches_that_salvage_set_aside_are_known_gaps(tmp_path: Path) -> None:
    folder = made(tmp_path, {0: [good(0), good(15), good(25)], 30: [good(30)]})
    report = {"folder": "orders-0", "lost": [[5, 9]], "missing": []}
    aside = [{"first_offset": 10, "last_offset": 12}, {"first_offset": 13, "last_offset": 14}]
    (tmp_path / "salvage.json").write_text(json.dumps({"partitions": [report | {"set_aside": aside}]}))
    assert kinds(verified(folder)) == {"offset_gap"}, "20 to 24 are not listed"
    aside.append({"first_offset": 20, "last_offset": 24})
    (tmp_path / "salvage.json").write_text(json.dumps({"partitions": [report | {"set_aside": aside}]}))
    assert kinds(verified(folder)) == set() and "gaps_salvaged" in kinds(verified(folder), "note")
