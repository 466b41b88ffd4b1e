"""`--new-cluster`: no producer ids, no aborted records, no markers; the same records, times and offsets."""

import random

import builders
import pytest
from plain_logs import batch, log
from random_transactions import choices, random_log
from salvage_runs import FOLDERS
from verify_reports import verified

import kafkarec
from kafkarec import salvage

_COLUMNS = ("offset", "timestamp", "timestamp_type", "key", "value", "headers")
_PRODUCER = {"producer_id": 7, "producer_epoch": 3}


def data(base, count=2, **fields):
    """A transactional batch of producer 7."""
    return batch(base, count, transaction=7, epoch=4, **{"producer_epoch": 3, "base_sequence": base, **fields})


def records(folder, isolation="read_uncommitted"):
    with kafkarec.open(folder) as opened:
        found = opened.read(isolation=isolation)
        return list(zip(*map(found.column, _COLUMNS), strict=True))


def assert_for_another_cluster(made):
    """Nothing refers to a producer or leader of the old one, and checksums are right."""
    rows = list(kafkarec.open(made).scan())
    assert not any(row["is_control"] or row["is_transactional"] for row in rows)
    assert {row["producer_id"] for row in rows} <= {None}
    assert {row["partition_leader_epoch"] for row in rows if row["magic"] > 1} <= {0, None}
    assert not (made / "partition.metadata").exists() and verified(made).exit_status() == 0


@pytest.mark.parametrize(
    "folder", [one for one in FOLDERS if one.name != "__cluster_metadata-0"], ids=lambda one: one.name
)
def test_logs_of_kafka(folder, tmp_path):
    report = salvage(folder, tmp_path / "out", new_cluster=True)
    made = tmp_path / "out" / report.partitions[0].folder
    assert_for_another_cluster(made)
    assert records(made) == records(folder, "read_committed")
    assert kafkarec.open(made).next_offset == kafkarec.open(folder).next_offset
    assert report.ok or report.partitions[0].set_aside
    assert salvage(folder, tmp_path / "again", new_cluster=True, dry_run=True).partitions[0].size == report.size


def test_open_transactions_are_set_aside(tmp_path):
    """Nobody can end them there; what others committed after them is kept."""
    source = log(tmp_path / "orders-0", [data(0), batch(2, 3), data(5), batch(7, 1)])
    report = salvage(source, tmp_path / "out", new_cluster=True)
    [one] = report.partitions
    assert [each.reason for each in one.set_aside] == ["transaction_not_ended"] * 2 and report.exit_status() == 1
    assert [row[0] for row in records(tmp_path / "out" / "orders-0")] == [2, 3, 4, 7]
    assert "[transaction_not_ended]: its transaction is open, and cannot be ended in another cluster" in str(report)
    saved = kafkarec.open(tmp_path / "out" / one.set_aside[0].saved_as).read()
    assert saved.column("offset") == [0, 1, 5, 6]


@pytest.mark.parametrize(
    "undecided, said, kept",
    [("abort", "aborted: its batches are left out", [5]), ("commit", "committed: its batches stay", [0, 1, 5])],
)
def test_what_is_decided_of_lost_markers(tmp_path, undecided, said, kept):
    """No marker is written, but it counts."""
    lost = bytes(builders.end_marker(2, commit=True, **_PRODUCER)[:-2]) + b"\xff\xff"
    after = builders.end_marker(6, commit=True, **_PRODUCER)
    source = log(tmp_path / "orders-0", [data(0), lost, data(5, 1, base_sequence=2), after])
    report = salvage(source, tmp_path / "out", new_cluster=True, undecided=undecided)
    assert f"undecided: producer 7's transaction from offset 0: {said}" in str(report)
    assert [row[0] for row in records(tmp_path / "out" / "orders-0")] == kept


def test_random_transactions_with_damage(tmp_path):
    """All that a consumer gets from the salvaged log is there, and no more than that log has."""
    left_out = 0
    for seed in range(40):
        chance = random.Random(seed)
        source = random_log(chance, tmp_path / f"{seed}" / "orders-0")
        options = choices(chance) | {"as_partition": False, "new_cluster": False}
        report = salvage(source, tmp_path / f"{seed}" / "same", **options)
        other = salvage(source, tmp_path / f"{seed}" / "other", **options | {"new_cluster": True})
        same, made = (tmp_path / f"{seed}" / name / "orders-0" for name in ("same", "other"))
        if not report.partitions[0].batches:
            continue
        assert_for_another_cluster(made)
        kept, everything = records(made), records(same)
        assert set(map(repr, records(same, "read_committed"))) <= set(map(repr, kept)) <= set(map(repr, everything))
        assert other.partitions[0].next_offset == report.partitions[0].next_offset
        left_out += len(everything) - len(kept)
    assert left_out > 20
