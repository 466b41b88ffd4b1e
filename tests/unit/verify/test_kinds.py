"""Every kind of finding is produced by verify, of a damaged folder or of a vector, and each produced one has a row."""

import gzip
import json

import builders
import golden
import pytest
import witness_folders
from cluster_folders import cluster_folder
from plain_logs import exchange
from verify_reports import data_folder, good, made, verified

import kafkarec
from kafkarec.ops.verify import KINDS
from kafkarec.sidecars import offset_index

# Produced in test_truncated_meanwhile, test_unreadable_files and, as all comparisons of side files, test_side_files.
# bytes_unaccounted would be a bug in kafkarec, on which verify_reports.assert_tiles fails.
ELSEWHERE = {
    "bytes_unaccounted",
    "changed_meanwhile",
    "removed_meanwhile",
    "small_file_preallocated",
    "unreadable_file",
    "unreadable_folder",
}


def produced(epoch, sequence, base, **fields):
    return good(base, producer_id=7, producer_epoch=epoch, base_sequence=sequence, **fields)


def exchanged(to):
    folder = made(to, {0: [good(0), good(5), good(10)], 15: [good(15), good(20), good(25)], 30: [good(30)]})
    exchange(folder, 0, 15)
    return folder


def with_file(folder, name, data):
    (folder / name).write_bytes(data)
    return folder


def wrong_base_offset(to):
    batches = [good(5 * i) for i in range(20)]
    del batches[10]
    batches[9] = builders.patched(batches[9], 6, b"\x01")
    return made(to, {0: batches})


def listed_by_salvage(to):
    report = {"folder": "orders-0", "lost": [[5, 9]], "missing": [], "set_aside": []}
    (to / "salvage.json").write_text(json.dumps({"partitions": [report]}))
    return made(to, {0: [good(0), good(10)]})


def found_after_a_crash(to):
    made(to, {0: [good(0)]})
    (to / "lost+found").mkdir()
    with_file(to / "lost+found", "#12345", good(5))
    return data_folder(to, cleaner="gone 0 4")


def index_of(batches, entries, to):
    return with_file(made(to, {0: batches}), f"{0:020}.index", offset_index.write(entries, 0))


def hanging(to):
    """A transaction of log append time, and a batch of an hour later."""
    flags, hour = builders.LOG_APPEND, 3_600_000
    txn = {"attributes": flags | TRANSACTIONAL, "producer_id": 7, "producer_epoch": 0, "base_sequence": 0}
    later = good(5, attributes=flags, max_timestamp=builders.NOW + hour)
    return made(to, {0: [good(0, **txn), later]})


TRANSACTIONAL = builders.TRANSACTIONAL
# The segments of a log that has the kind, or what makes its folder.
MADE = {
    "base_offset_wrong": wrong_base_offset,
    "batches_left_out": found_after_a_crash,
    "count_above_offsets": {0: [good(0, last_offset_delta=1)]},
    "cut_tail": {0: [good(0), good(5)[:-9]]},
    "duplicate_segment": lambda to: with_file(made(to, {0: [good(0)]}), f"{0:020}.log.gz", gzip.compress(good(0))),
    "epoch_goes_back": {0: [good(0, leader_epoch=3), good(5, leader_epoch=2)]},
    "gaps_salvaged": listed_by_salvage,
    "folder_lost": lambda to: cluster_folder(to, "grouped"),
    "index_append": lambda to: index_of([good(0), good(5)], [(9, 0)], to),
    "index_coverage": lambda to: index_of(
        [builders.batch([builders.record(value=bytes(60_000))], base_offset=n) for n in range(40)], [(0, 0)], to
    ),
    "index_without_segment": lambda to: with_file(
        made(to, {5: [good(5)]}), f"{0:020}.index", offset_index.write([(4, 0)], 0)
    ),
    "leader_epoch_negative": {0: [good(0, leader_epoch=-5)]},
    "log_missing": found_after_a_crash,
    "offset_below_file_name": {10: [good(0)]},
    "other_log_file": lambda to: with_file(made(to, {0: [good(0)]}), f"{5:020}.log.deleted", good(5)),
    "producer_epoch_goes_back": {0: [produced(1, 0, 0), produced(0, 0, 5)]},
    "producer_not_transactional": {0: [produced(0, 0, 0, attributes=TRANSACTIONAL), produced(0, 5, 5)]},
    "record_attributes_unknown": {0: [builders.batch([builders.record(attributes=4)])]},
    "segment_gap": {0: [good(0)], 10: [good(10)]},
    "segment_misnamed": exchanged,
    "segment_overlap": {0: [good(0), good(5)], 5: [good(5)]},
    "sequence_duplicate": {0: [produced(0, 0, 0), produced(0, 0, 5)]},
    "sequence_gap": {0: [produced(0, 0, 0), produced(0, 9, 5)]},
    "sequence_order": {0: [produced(0, 10, 0), produced(0, 3, 5)]},
    "snapshot_incomplete": lambda to: with_file(
        made(to, {0: [good(0)]}, "__cluster_metadata-0"), f"{5:020}-{1:010}.checkpoint", good(0)
    ),
    "transaction_hanging": hanging,
}


@pytest.mark.parametrize("kind", MADE)
def test_produced(kind, tmp_path):
    make = MADE[kind]
    make(tmp_path) if callable(make) else made(tmp_path, make)
    found = [one for one in verified(tmp_path, sequences=True).findings if one.kind == kind]
    assert found and {one.severity for one in found} <= set(KINDS[kind].severities)


def test_all_others_are_produced_too(tmp_path):
    found = set()
    for case in golden.vectors() + golden.invalid():
        path = tmp_path / "vector.log"
        path.write_bytes(case.bytes)
        found |= {one.kind for one in kafkarec.verify(path).findings}
    makers = [make for make, *_ in witness_folders.LOSSES.values()]
    for number, make in enumerate([*makers, *witness_folders.HEALTHY.values()]):
        found |= {one.kind for one in kafkarec.verify(make(tmp_path / f"ends-{number}")).findings}
    assert found <= set(KINDS)
    rest = set(KINDS) - found - set(MADE)
    assert {kind for kind in rest if KINDS[kind].step != "reindex" and KINDS[kind].subject != "comparison"} == ELSEWHERE
