"""Every kind of finding is produced by verify, of a damaged folder or of a vector, and each produced one has a row."""

import gzip
import json

import builders
import golden
import pytest
import witness_folders
from cluster_folders import cluster_folder
from plain_logs import batch, data_folder, exchange, log
from verify_reports import verified

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
    return batch(base, producer_id=7, producer_epoch=epoch, base_sequence=sequence, **fields)


def exchanged(to):
    folder = log(to / "orders-0", [batch(0), batch(5), batch(10)], [batch(15), batch(20), batch(25)], [batch(30)])
    exchange(folder, 0, 15)
    return folder


def with_file(folder, name, data):
    (folder / name).write_bytes(data)
    return folder


def wrong_base_offset(to):
    batches = [batch(5 * i) for i in range(20)]
    del batches[10]
    batches[9] = builders.patched(batches[9], 6, b"\x01")
    return log(to / "orders-0", batches)


def listed_by_salvage(to):
    report = {"folder": "orders-0", "lost": [[5, 9]], "missing": [], "set_aside": []}
    (to / "salvage.json").write_text(json.dumps({"partitions": [report]}))
    return log(to / "orders-0", [batch(0), batch(10)])


def found_after_a_crash(to):
    log(to / "orders-0", [batch(0)])
    (to / "lost+found").mkdir()
    with_file(to / "lost+found", "#12345", batch(5))
    return data_folder(to, cleaner="gone 0 4")


def index_of(batches, entries, to):
    return with_file(log(to / "orders-0", batches), f"{0:020}.index", offset_index.write(entries, 0))


def hanging(to):
    """A transaction of log append time, and a batch of an hour later."""
    flags, hour = builders.LOG_APPEND, 3_600_000
    later = batch(5, attributes=flags, max_timestamp=builders.NOW + hour)
    return log(to / "orders-0", [batch(0, transaction=7, attributes=flags | TRANSACTIONAL), later])


TRANSACTIONAL = builders.TRANSACTIONAL
# The segments of a log that has the kind, or what makes its folder.
MADE = {
    "base_offset_wrong": wrong_base_offset,
    "batches_left_out": found_after_a_crash,
    "count_above_offsets": [[batch(0, last_offset_delta=1)]],
    "cut_tail": [[batch(0), batch(5)[:-9]]],
    "duplicate_segment": lambda to: with_file(
        log(to / "orders-0", [batch(0)]), f"{0:020}.log.gz", gzip.compress(batch(0))
    ),
    "epoch_goes_back": [[batch(0, epoch=3), batch(5, epoch=2)]],
    "gaps_salvaged": listed_by_salvage,
    "folder_lost": lambda to: cluster_folder(to, "grouped"),
    "index_append": lambda to: index_of([batch(0), batch(5)], [(9, 0)], to),
    "index_coverage": lambda to: index_of([batch(n, 1, value=bytes(60_000)) for n in range(40)], [(0, 0)], to),
    "index_without_segment": lambda to: with_file(
        log(to / "orders-0", [batch(5)]), f"{0:020}.index", offset_index.write([(4, 0)], 0)
    ),
    "leader_epoch_negative": [[batch(0, epoch=-5)]],
    "log_missing": found_after_a_crash,
    "offset_below_file_name": [(10, batch(0))],
    "other_log_file": lambda to: with_file(log(to / "orders-0", [batch(0)]), f"{5:020}.log.deleted", batch(5)),
    "producer_epoch_goes_back": [[produced(1, 0, 0), produced(0, 0, 5)]],
    "producer_not_transactional": [[produced(0, 0, 0, attributes=TRANSACTIONAL), produced(0, 5, 5)]],
    "record_attributes_unknown": [[builders.batch([builders.record(attributes=4)])]],
    "segment_gap": [[batch(0)], [batch(10)]],
    "segment_misnamed": exchanged,
    "segment_overlap": [[batch(0), batch(5)], [batch(5)]],
    "sequence_duplicate": [[produced(0, 0, 0), produced(0, 0, 5)]],
    "sequence_gap": [[produced(0, 0, 0), produced(0, 9, 5)]],
    "sequence_order": [[produced(0, 10, 0), produced(0, 3, 5)]],
    "snapshot_incomplete": lambda to: with_file(
        log(to / "__cluster_metadata-0", [batch(0)]), f"{5:020}-{1:010}.checkpoint", batch(0)
    ),
    "transaction_hanging": hanging,
}


@pytest.mark.parametrize("kind", MADE)
def test_produced(kind, tmp_path):
    make = MADE[kind]
    make(tmp_path) if callable(make) else log(tmp_path / "orders-0", *make)
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
