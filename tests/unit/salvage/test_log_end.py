"""salvage: a log that was longer is no whole one; the new log's side files do not reach beyond its end."""

import json

import builders
import pytest
from plain_logs import batch, data_folder, exchange, log
from salvage_runs import assert_kafka_loads
from verify_reports import verified
from witness_folders import BORDERS, HEALTHY, LOSSES, NO_PRODUCERS, cut, cut_golden, golden, put, small

import kafkarec
from kafkarec import salvage
from kafkarec.sidecars import leader_epochs


@pytest.mark.parametrize("name", HEALTHY)
def test_a_healthy_log_is_saved_completely(name, tmp_path):
    folder = HEALTHY[name](tmp_path / "in")
    report = salvage(folder, tmp_path / "out")
    assert report.ok and all(not one.recorded_ends for one in report.partitions)
    assert salvage(tmp_path / "in", tmp_path / "again").ok


@pytest.mark.parametrize("name", LOSSES)
def test_salvage_says_what_verify_says(name, tmp_path):
    make, _, headline = LOSSES[name]
    folder = make(tmp_path / "in")
    expected = verified(folder).partitions[0].beyond_end
    for dry_run in (True, False):
        report = salvage(folder, tmp_path / "out", dry_run=dry_run)
        [one] = report.partitions
        assert not report.ok and f"  {headline}" in str(report).splitlines()
        assert one.beyond_end == expected and report.exit_status() == 1
    written = json.loads((tmp_path / "out" / "salvage.json").read_text())["partitions"][0]
    assert written["beyond_end"] == one.beyond_end and written["recorded_ends"] == one.recorded_ends
    assert verified(tmp_path / "out").exit_status() == 0
    assert salvage(tmp_path / "in", tmp_path / "again").partitions[0].beyond_end == expected


@pytest.mark.parametrize("name", LOSSES)
def test_keep_end_lets_the_log_end_where_it_ended(name, tmp_path):
    folder = LOSSES[name][0](tmp_path / "in")
    [before] = verified(folder).partitions
    top = max(one.end for one in before.end.higher)
    report = salvage(folder, tmp_path / "out", as_partition=True, keep_end=True)
    [one] = report.partitions
    assert not report.ok and (one.next_offset, one.log_end) == (top, before.end.end.offset)
    assert one.lost[-1] == (before.end.end.offset, top - 1)
    out = tmp_path / "out" / one.folder
    batches = list(kafkarec.open(out).scan())
    assert batches[-1]["last_offset"] == top - 1 if batches else name == "all segments gone", "consumers reach the end"
    after = verified(out)
    assert after.exit_status() == 0 and after.partitions[0].end.end.offset == top


@pytest.mark.parametrize("limit, is_checked", [(1 << 20, True), (1000, False)])
def test_a_last_batch_that_was_not_checked_is_no_end(tmp_path, limit, is_checked):
    large = batch(2, 1, codec="gzip", value=bytes(9000))
    folder = log(tmp_path / "orders-0", [batch(0, 2), large])
    put(folder, 20, snapshot=NO_PRODUCERS)
    report = salvage(folder, tmp_path / "out", max_decompressed_bytes=limit)
    assert bool(report.partitions[0].recorded_ends) == is_checked


def test_no_epoch_of_the_new_log_begins_above_its_end(tmp_path):
    folder = log(tmp_path / "orders-0", [batch(0, epoch=0)], epochs=[(0, 0), (4, 5), (6, 15)])
    report = salvage(folder, tmp_path / "out", as_partition=True)
    text = (tmp_path / "out" / "orders-0" / "leader-epoch-checkpoint").read_bytes()
    assert leader_epochs.read(text) == ((0, 0), (4, 5))
    assert "leader-epoch-checkpoint: epoch 6 from offset 15 on is left out" in report.partitions[0].problems
    salvage(folder, tmp_path / "kept", as_partition=True, keep_end=True)
    text = (tmp_path / "kept" / "orders-0" / "leader-epoch-checkpoint").read_bytes()
    assert leader_epochs.read(text) == ((0, 0), (4, 5), (6, 15))


def test_another_replica_may_have_the_rest(tmp_path):
    first = cut_golden(tmp_path / "a", ".snapshot")
    second = golden(tmp_path / "b", "all-codecs-0")
    report = salvage([first, second], tmp_path / "out")
    assert report.ok and report.partitions[0].next_offset == 865
    assert not salvage([first, cut_golden(tmp_path / "c")], tmp_path / "short").ok


@pytest.mark.parametrize("with_deleted", [False, True])
def test_the_start_offset_above_the_end_is_in_the_plan(tmp_path, with_deleted):
    """Said once, also if a file was looked into for what is missing."""
    folder = log(tmp_path / "data" / "orders-0", [batch(0)])
    if with_deleted:
        (folder / f"{60:020}.log.deleted").write_bytes(batch(60))
    data_folder(tmp_path / "data", log_start="orders 0 50")
    report = salvage(tmp_path / "data", tmp_path / "out", as_partition=True)
    [problem] = [one for one in report.partitions[0].problems if "log-start" in one]
    assert problem == (
        "log-start-offset-checkpoint has 50 as start offset, above the log's end: a broker that starts with that file "
        "deletes every segment"
    )


def test_an_index_proves_that_offsets_between_segments_are_lost(tmp_path):
    folder = golden(tmp_path / "in", "txn-0")
    cut(folder / f"{0:020}.log", BORDERS[next(path for path in BORDERS if path.parent.name == "txn-0")][5])
    report = salvage(folder, tmp_path / "out")
    [proof] = report.partitions[0].proofs
    assert not report.ok and proof == f"according to {0:020}.index {0:020}.log had offset 29"
    assert f"that were set aside ({proof})" in str(report)
    assert verified(tmp_path / "out" / "txn-0").exit_status() == 0


@pytest.mark.slow
def test_kafka_loads_a_log_with_its_end_kept(tmp_path, kafka):
    salvage(cut_golden(tmp_path / "in", ".snapshot"), tmp_path / "out", as_partition=True, keep_end=True)
    (tmp_path / "work").mkdir()
    assert_kafka_loads(kafka, tmp_path / "out" / "all-codecs-0", tmp_path / "work", 865)


def test_a_replica_without_segments_takes_nothing_from_the_other_one(tmp_path):
    whole = small(tmp_path / "one")
    (tmp_path / "two" / "orders-0").mkdir(parents=True)
    (tmp_path / "two" / "orders-0" / f"{10:020}.snapshot").write_bytes(b"")
    report = salvage([tmp_path / "two" / "orders-0", whole], tmp_path / "out")
    assert report.ok and (report.partitions[0].start_offset, report.partitions[0].next_offset) == (0, 10)


def test_a_segment_that_only_awaits_its_renaming(tmp_path):
    folder = small(tmp_path)
    log = folder / f"{0:020}.log"
    log.rename(f"{log}.swap")
    assert salvage(folder, tmp_path / "out").partitions[0].next_offset == 10
    (folder / f"{log.name}.swap").rename(f"{log}.deleted")
    text = str(salvage(folder, tmp_path / "again"))
    assert "not used:" in text and "offsets 0 to 9; the log has no segment left: they may have been deleted" in text


@pytest.mark.parametrize(
    "cleaner, segments, status, lines",
    [
        (
            None,
            [[batch(0)], [batch(20)]],
            0,
            ["offsets 5 to 19: in no source, or only in batches that were set aside (a missing"],
        ),
        (
            "orders 0 9",
            [[batch(0)], [batch(20)]],
            0,
            ["offsets 5 to 19: in no source, or only in batches that were set aside (a mi"],
        ),
        (
            "",
            [[batch(0)], [batch(20)]],
            1,
            ["offsets 5 to 19: in no source, or only in batches that were set aside (by cleaner-off"],
        ),
        (
            "",
            [[batch(0), batch(20)]],
            1,
            ["15 offsets between batches of a segment (by cleaner-offset-checkpoint the"],
        ),
        ("", [[batch(0), batch(20, 3, last_offset_delta=4)]], 0, []),
    ],
)
def test_gaps_are_a_loss_where_verify_says_so(tmp_path, cleaner, segments, status, lines):
    """In a log that was never cleaned, and only there."""
    folder = log(tmp_path / "disk" / "orders-0", *segments)
    data_folder(tmp_path / "disk", **({} if cleaner is None else {"cleaner": cleaner}))
    report = salvage(folder, tmp_path / "out")
    assert report.exit_status() == verified(folder).exit_status() == status
    found = [line.strip() for line in str(report).splitlines() if line.startswith("  missing: ")]
    assert len(found) == len(lines) and all(
        line.startswith(f"missing: {part}") for line, part in zip(found, lines, strict=True)
    )


@pytest.mark.parametrize("timestamp", [-1, builders.NOW])
def test_the_end_is_kept_behind_a_batch_with_or_without_a_time(timestamp, tmp_path):
    folder = log(tmp_path / "in" / "orders-0", [batch(0, 1, base_timestamp=timestamp)])
    put(folder, 6, snapshot=NO_PRODUCERS)
    [one] = salvage(folder, tmp_path / "out", keep_end=True).partitions
    assert one.next_offset == 6
    assert [row["max_timestamp"] for row in kafkarec.open(tmp_path / "out" / one.folder).scan()] == [
        None if timestamp < 0 else timestamp
    ] * 2


def test_the_end_of_a_log_whose_last_names_are_exchanged(tmp_path):
    """The last segment is lost; its snapshot and index are not."""
    folder = tmp_path / "orders-0"
    with kafkarec.SegmentWriter(folder, segment_bytes=200) as writer:
        for _ in range(12):
            writer.write([(0, builders.NOW, None, b"value", [])])
    *_, one, other, last = sorted(folder.glob("*.log"))
    last.unlink()
    expected = verified(folder).partitions[0].beyond_end
    exchange(folder, int(one.stem), int(other.stem))
    [found] = salvage(folder, tmp_path / "out", keep_end=True).partitions
    assert (found.beyond_end, found.next_offset) == (expected, 12) and expected


def test_the_leader_epoch_at_the_kept_end(tmp_path):
    """Another leader began in the part that is lost."""
    folder = log(tmp_path / "orders-0", [batch(0, epoch=0)], epochs=[(0, 0), (4, 12)])
    put(folder, 20, snapshot=NO_PRODUCERS)
    salvage(folder, tmp_path / "out", as_partition=True, keep_end=True)
    [*_, last] = kafkarec.open(tmp_path / "out" / "orders-0").scan()
    assert (last["last_offset"], last["partition_leader_epoch"]) == (19, 4)
    assert verified(tmp_path / "out").exit_status() == 0
