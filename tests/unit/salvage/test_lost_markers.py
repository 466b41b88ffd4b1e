"""Salvage writes the marker that damage destroyed, as far as its transaction's end is proven, and decides the rest."""

from __future__ import annotations

import json
from pathlib import Path

import builders
import hurt_markers
import pytest
import transaction_logs as txns
from hurt_markers import FOLDERS
from paths import SEGMENTS
from salvage_runs import set_aside
from transaction_logs import ABORT, COMMIT, DATA, PLAIN, Event

import kafkarec
from kafkarec.ops.salvage import SalvagedPartition, salvage
from kafkarec.sidecars import txn_index

EVENTS = [
    Event(DATA, 7, 0, 3, 2),
    Event(ABORT, 7, 3, 1, 2),
    Event(DATA, 7, 4, 2, 2),
    Event(COMMIT, 7, 6, 1, 2),
    Event(PLAIN, -1, 7, 1),
]


def source(folder: Path, events: list[Event] = EVENTS, lost: tuple[int, ...] = (3,), tail: bytes = b"") -> Path:
    """Write a log in which the events with these base offsets are zeros."""
    folder.mkdir(parents=True)
    parts = [bytes(len(event.batch)) if event.base in lost else event.batch for event in events]
    (folder / f"{0:020}.log").write_bytes(b"".join(parts) + tail)
    return folder


def index(folder: Path, *entries: tuple[int, int, int, int]) -> None:
    (folder / f"{0:020}.txnindex").write_bytes(txn_index.write([txns.AbortedTransaction(*entry) for entry in entries]))


def saved(folder: Path, out: Path, undecided: str = "abort") -> SalvagedPartition:
    [one] = salvage(folder, out, undecided=undecided).partitions
    return one


def rows(out: Path) -> list[tuple[int, bool]]:
    return [(row["base_offset"], row["is_control"]) for row in kafkarec.open(out / "a-0").scan()]


def committed(out: Path) -> list[int]:
    return list(kafkarec.open(out / "a-0").read(isolation="read_committed", columns=["offset"]).column("offset"))


def test_one_flipped_bit_is_repaired_byte_for_byte(tmp_path: Path) -> None:
    """The rebuilt .txnindex is that of the broker again."""
    original = SEGMENTS / "txn-0"
    for run in hurt_markers.runs(original, tmp_path, damage=("outcome",)):
        report = saved(run.folder, run.out)
        made = run.out / "orders-0"
        for name in ("00000000000000000000.log", "00000000000000000030.log", "00000000000000000030.txnindex"):
            assert (made / name).read_bytes() == (original / name).read_bytes(), run
        assert [(one.proof, one.proven, one.marker_offset) for one in report.markers] == [("marker", True, run.offset)]


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: path.name)
def test_each_marker_of_real_logs(folder: Path, tmp_path: Path) -> None:
    for run in hurt_markers.runs(folder, tmp_path, damage=("zeros",)):
        report = saved(run.folder, run.out)
        log = kafkarec.open(run.out / "orders-0")
        seen = set(log.read(isolation="read_committed", columns=["offset"]).column("offset"))
        assert hurt_markers.wrong(run, seen, report.markers) == (set(), set()), run
        assert [row["base_offset"] for row in log.scan()] == sorted(row["base_offset"] for row in log.scan())


def test_the_marker_that_txnindex_proves(tmp_path: Path) -> None:
    index(source(tmp_path / "a-0"), (7, 0, 3, 4))
    [one] = saved(tmp_path / "a-0", tmp_path / "out").markers
    assert (one.outcome, one.proven, one.proof, one.marker_offset) == ("abort", True, "txnindex", 3)
    marker = list(kafkarec.open(tmp_path / "out" / "a-0").batches())[1]
    fields = ("base_offset", "attributes", "base_sequence", "producer_id", "producer_epoch", "partition_leader_epoch")
    assert [getattr(marker, name) for name in fields] == [3, 0x30, None, 7, 2, 0]
    [record] = marker
    assert (record.control.type.name, record.control.coordinator_epoch) == ("ABORT", 0)
    assert record.timestamp == builders.NOW + 2, "of the batch before"
    assert (tmp_path / "out" / "a-0" / f"{0:020}.txnindex").read_bytes() == txn_index.write(
        [txns.AbortedTransaction(7, 0, 3, 4)]
    )
    assert committed(tmp_path / "out") == [4, 5, 7]


def test_the_coordinator_epoch_is_the_producers_last_one(tmp_path: Path) -> None:
    before = [Event(DATA, 7, 0, 1), Event(COMMIT, 7, 1, 1)]
    events = [*before, Event(DATA, 7, 2, 1), Event(ABORT, 7, 3, 1), *EVENTS[2:]]
    saved(source(tmp_path / "a-0", events), tmp_path / "out")
    [record] = list(kafkarec.open(tmp_path / "out" / "a-0").batches())[3]
    assert (record.offset, record.control.coordinator_epoch) == (3, 5)


@pytest.mark.parametrize(
    ("undecided", "batches", "visible"),
    [
        ("abort", [(0, False), (3, True), (4, False), (6, True), (7, False)], [4, 5, 7]),
        ("commit", [(0, False), (3, True), (4, False), (6, True), (7, False)], [0, 1, 2, 4, 5, 7]),
        ("open", [(0, False), (4, False), (6, True), (7, False)], [0, 1, 2, 4, 5, 7]),
        ("aside", [(4, False), (6, True), (7, False)], [4, 5, 7]),
    ],
)
def test_what_is_not_proven(
    tmp_path: Path, undecided: str, batches: list[tuple[int, bool]], visible: list[int]
) -> None:
    report = saved(source(tmp_path / "a-0"), tmp_path / "out", undecided)
    assert (rows(tmp_path / "out"), committed(tmp_path / "out")) == (batches, visible)
    [one] = report.markers
    assert (one.outcome, one.proven, one.first_offset, one.last_offset) == (undecided, False, 0, 2)
    assert one.coordinator_epoch == 0, "not that of the next marker, which would be too high"
    assert (one.lost_from, one.lost_to, one.marker_offset) == (3, 3, 3 if undecided in ("abort", "commit") else None)
    assert (report.batches, report.records) == (
        len(batches),
        sum(1 if control else 0 for _, control in batches) + (6 if undecided != "aside" else 3),
    )
    assert [(each.reason, each.first_offset) for each in report.set_aside] == (
        [("transaction_undecided", 0)] if undecided == "aside" else []
    )
    assert set_aside(tmp_path / "out") == (EVENTS[0].batch if undecided == "aside" else b"")
    written = json.loads((tmp_path / "out" / "salvage.json").read_text())["partitions"][0]["markers"]
    assert [marker["outcome"] for marker in written] == [undecided]


def test_a_proven_end_is_not_open_to_the_option(tmp_path: Path) -> None:
    index(source(tmp_path / "a-0"), (7, 0, 3, 4))
    assert saved(tmp_path / "a-0", tmp_path / "out", "commit").markers[0].outcome == "abort"
    assert committed(tmp_path / "out") == [4, 5, 7]


def test_two_transactions_and_one_offset(tmp_path: Path) -> None:
    """One marker was lost; of whom is not known. There is one offset to write a marker at."""
    events = [Event(DATA, 7, 0, 1), Event(DATA, 8, 1, 2), Event(ABORT, 8, 3, 1), Event(DATA, 7, 4, 1)]
    events += [Event(DATA, 8, 5, 1), Event(COMMIT, 7, 6, 1), Event(COMMIT, 8, 7, 1)]
    saved = salvage(source(tmp_path / "a-0", events), tmp_path / "out")
    assert [(one.producer_id, one.outcome, one.marker_offset) for one in saved.partitions[0].markers] == [
        (7, "abort", 3),
        (8, "aside", None),
    ]
    why = "its batches are set aside: no file shows whether it ended in the damage, or how; no offset is free"
    assert why in str(saved)
    assert rows(tmp_path / "out") == [(0, False), (3, True), (4, False), (5, False), (6, True), (7, True)]
    assert committed(tmp_path / "out") == [4, 5]


def test_two_markers_in_one_hole(tmp_path: Path) -> None:
    """That of the .txnindex at its offset, the other one at the last free offset."""
    events = [Event(DATA, 7, 0, 1), Event(DATA, 8, 1, 2), Event(ABORT, 7, 3, 1), Event(PLAIN, -1, 4, 1)]
    events += [Event(COMMIT, 8, 5, 1), Event(DATA, 8, 6, 1), Event(COMMIT, 8, 7, 1)]
    folder = source(tmp_path / "a-0", events, (3, 4, 5))
    index(folder, (7, 0, 3, 1))
    report = saved(folder, tmp_path / "out")
    assert [(one.producer_id, one.outcome, one.proven, one.marker_offset) for one in report.markers] == [
        (7, "abort", True, 3),
        (8, "abort", False, 5),
    ]
    assert committed(tmp_path / "out") == [6]


def test_at_the_logs_end_only_txnindex_counts(tmp_path: Path) -> None:
    events = [*EVENTS[:1], Event(PLAIN, -1, 3, 1), Event(COMMIT, 7, 4, 1)]
    folder = source(tmp_path / "a-0", events, (4,), tail=b"\xff" * 10)
    report = saved(folder, tmp_path / "out")
    assert (report.markers, committed(tmp_path / "out"), report.next_offset) == ([], [], 4)
    index(folder, (7, 0, 4, 5))
    report = saved(folder, tmp_path / "again")
    assert [(one.outcome, one.marker_offset) for one in report.markers] == [("abort", 4)]
    assert (committed(tmp_path / "again"), report.next_offset) == ([3], 5)


def test_an_end_that_was_cut_off(tmp_path: Path) -> None:
    """Not damaged: the log ends before the marker that its .txnindex has."""
    folder = source(tmp_path / "a-0", EVENTS[:1], ())
    index(folder, (7, 0, 9, 10))
    [one] = saved(folder, tmp_path / "out").markers
    assert (one.outcome, one.marker_offset, one.lost_from, one.lost_to) == ("abort", 9, 3, None)
    assert (rows(tmp_path / "out"), committed(tmp_path / "out")) == ([(0, False), (9, True)], [])


def test_replicas_prove_for_each_other(tmp_path: Path) -> None:
    """Both lost the marker; one has the .txnindex."""
    one, other = source(tmp_path / "one" / "a-0"), source(tmp_path / "other" / "a-0")
    index(other, (7, 0, 3, 4))
    [report] = salvage([one, other], tmp_path / "out").partitions
    assert [(marker.proof, marker.marker_offset) for marker in report.markers] == [("txnindex", 3)]
    assert committed(tmp_path / "out") == [4, 5, 7]


def test_between_two_segments(tmp_path: Path) -> None:
    """The zeros at the end of a segment that is not the last one are a lost marker: a broker trims what it rolls."""
    folder = source(tmp_path / "a-0", EVENTS[:2])
    (folder / f"{4:020}.log").write_bytes(b"".join(event.batch for event in EVENTS[2:]))
    report = saved(folder, tmp_path / "out")
    assert [(one.outcome, one.marker_offset) for one in report.markers] == [("abort", 3)]
    assert [(file.name, file.first_offset, file.last_offset) for file in report.files] == [
        (f"{0:020}.log", 0, 3),
        (f"{4:020}.log", 4, 7),
    ]
    assert committed(tmp_path / "out") == [4, 5, 7]


def test_a_wrong_base_offset_at_a_segments_end(tmp_path: Path) -> None:
    """The next segment's name proves where the marker was."""
    folder = source(tmp_path / "a-0", EVENTS[:2], ())
    log = folder / f"{0:020}.log"
    log.write_bytes(EVENTS[0].batch + builders.patched(EVENTS[1].batch, 7, b"\x07"))
    (folder / f"{4:020}.log").write_bytes(b"".join(event.batch for event in EVENTS[2:]))
    report = saved(folder, tmp_path / "out")
    assert report.markers == []
    assert [one["fields"]["base_offset"] for one in report.restored] == [{"stored": 7, "used": 3}]
    assert committed(tmp_path / "out") == [4, 5, 7]


@pytest.mark.parametrize("files", [1, 2])
def test_a_marker_that_was_cut_out(files: int, tmp_path: Path) -> None:
    """Only a gap is left, as in a compacted log; but the .txnindex lists the marker."""
    parts = [[event.batch for event in EVENTS if event.base != 3]]
    folder = source(tmp_path / "a-0", [], ())
    parts = [parts[0][:1], parts[0][1:]] if files == 2 else parts
    for base, batches in zip((0, 4), parts, strict=False):
        (folder / f"{base:020}.log").write_bytes(b"".join(batches))
    index(folder, (7, 0, 3, 4))
    [one] = saved(folder, tmp_path / "out").markers
    assert (one.outcome, one.proof, one.marker_offset) == ("abort", "txnindex", 3)
    assert committed(tmp_path / "out") == [4, 5, 7]


@pytest.mark.parametrize("files", [1, 2])
@pytest.mark.parametrize("cleaned", [None, "", "a 0 1\n", "b 0 1\n"])
def test_a_marker_that_was_cut_out_of_a_log_that_was_never_cleaned(
    files: int, cleaned: str | None, tmp_path: Path
) -> None:
    """Without .txnindex only the gap tells, and only where the log cleaner did not make it."""
    folder = source(tmp_path / "data" / "a-0", [], ())
    parts = [[EVENTS[0].batch], [event.batch for event in EVENTS[2:]]]
    for base, batches in zip((0, 4), parts if files == 2 else [parts[0] + parts[1]], strict=False):
        (folder / f"{base:020}.log").write_bytes(b"".join(batches))
    (folder.parent / "meta.properties").write_text("version=1\nbroker.id=1\n")
    if cleaned is not None:
        (folder.parent / "cleaner-offset-checkpoint").write_text(f"0\n{cleaned.count(chr(10))}\n{cleaned}")
    report = saved(folder, tmp_path / "out")
    if cleaned is None or cleaned.startswith("a 0"):
        assert report.markers == [] and committed(tmp_path / "out") == [0, 1, 2, 4, 5, 7]
    else:
        [one] = report.markers
        assert (one.outcome, one.proven, one.marker_offset) == ("abort", False, 3)
        assert committed(tmp_path / "out") == [4, 5, 7]
    assert salvage(folder, tmp_path / "tried", dry_run=True).partitions[0].markers == report.markers


@pytest.mark.parametrize(("status", "visible"), [(2, [0, 1, 2, 4, 5, 7]), (3, [4, 5, 7])])
def test_what_the_coordinator_was_about_to_do(tmp_path: Path, status: int, visible: list[int]) -> None:
    """PrepareCommit, PrepareAbort of the epoch behind the data's, with this partition."""
    here = {"producerEpoch": 3, "transactionPartitions": [{"topic": "a", "partitionIds": [1, 0]}]}
    folder = source(tmp_path / "a-0")
    txns.transaction_state(tmp_path / "__transaction_state-7", ("id", 7, status), **here)
    [one] = saved(folder, tmp_path / "out").markers
    assert (one.outcome, one.proven, one.proof) == ("commit" if status == 2 else "abort", True, "transaction_state")
    assert committed(tmp_path / "out") == visible
    for opened in (kafkarec.open(folder), kafkarec.open(folder / f"{0:020}.log")):
        read = opened.read(isolation="read_committed", errors="skip")
        assert (read.column("offset"), read.undecided) == (visible, ()), "reading hides what salvage hides"
        assert len(opened.transactions().aborted) == (status == 3)


@pytest.mark.parametrize(
    "other",
    [
        {"producerEpoch": 2},
        {"clientTransactionVersion": 1},
        {"transactionPartitions": [{"topic": "a", "partitionIds": [1]}]},
        {"producerId": 8},
        {"transactionStatus": 4},  # CompleteCommit
    ],
)
def test_what_is_no_proof_of_the_coordinator(tmp_path: Path, other: dict[str, object]) -> None:
    fields = {"producerEpoch": 3, "transactionPartitions": [{"topic": "a", "partitionIds": [0]}], **other}
    folder = source(tmp_path / "a-0")
    txns.transaction_state(tmp_path / "__transaction_state-7", ("id", 7, 2), **fields)
    assert [one.proven for one in saved(folder, tmp_path / "out").markers] == [False]


def test_an_entry_of_a_later_transaction_proves_no_abort_of_an_earlier_one(tmp_path: Path) -> None:
    """The batches between are missing with all of their bytes: nothing but the .txnindex shows that, and it may be that
    of another log."""
    events = [Event(DATA, 7, 0, 3), Event(PLAIN, -1, 8, 1)]
    index(source(tmp_path / "a-0", events, lost=()), (7, 4, 6, 4))
    read = kafkarec.open(tmp_path / "a-0").read(isolation="read_committed")
    assert [one.offset for one in read] == [8]
    assert [(one.first_offset, one.last_offset, one.lost_from, one.lost_to) for one in read.undecided] == [(0, 2, 3, 3)]
    [marker] = saved(tmp_path / "a-0", tmp_path / "out", undecided="commit").markers
    assert (marker.first_offset, marker.outcome, marker.proven, marker.marker_offset) == (0, "commit", False, 3)
    assert committed(tmp_path / "out") == [0, 1, 2, 8]


def test_an_entry_within_the_data_of_a_transaction_decides_nothing(tmp_path: Path) -> None:
    """The first COMMIT and the ABORT are missing: which of the data is of which transaction, no file shows."""
    events = [Event(DATA, 7, 0, 3), Event(DATA, 7, 4, 2), Event(PLAIN, -1, 8, 1)]
    index(source(tmp_path / "a-0", events, lost=()), (7, 4, 6, 4))
    read = kafkarec.open(tmp_path / "a-0").read(isolation="read_committed")
    assert [one.offset for one in read] == [8]
    assert [(one.first_offset, one.last_offset, one.lost_from, one.lost_to) for one in read.undecided] == [(0, 5, 6, 6)]


@pytest.mark.parametrize("behind", [[], [Event(PLAIN, -1, 9, 1)]], ids=["the log ends", "the log goes on"])
def test_an_entry_of_a_later_transaction_in_damage_proves_the_end_of_an_earlier_one(
    behind: list[Event], tmp_path: Path
) -> None:
    """The later one began in the damage, and the .txnindex has no ABORT before that."""
    events = [Event(DATA, 7, 0, 3), Event(COMMIT, 7, 3, 1), Event(DATA, 7, 4, 2), Event(ABORT, 7, 6, 1), *behind]
    index(source(tmp_path / "a-0", events, lost=(3, 4, 6), tail=b"?"), (7, 4, 6, 4))
    visible = [0, 1, 2, *(event.base for event in behind)]
    read = kafkarec.open(tmp_path / "a-0").read(isolation="read_committed", errors="skip")
    assert ([one.offset for one in read], read.undecided) == (visible, ())
    [marker] = saved(tmp_path / "a-0", tmp_path / "out").markers
    assert (marker.first_offset, marker.outcome, marker.proof, marker.marker_offset) == (0, "commit", "txnindex", 3)
    assert committed(tmp_path / "out") == visible


def test_an_entry_at_which_there_is_no_place_for_another_end_decides_nothing(tmp_path: Path) -> None:
    """The first offset of the entry follows the data at once: that is no .txnindex of this log."""
    index(source(tmp_path / "a-0", [Event(DATA, 7, 0, 3)], lost=(), tail=bytes(300)[:-1] + b"x"), (7, 3, 6, 3))
    read = kafkarec.open(tmp_path / "a-0").read(isolation="read_committed", errors="skip")
    assert [(one.first_offset, one.why) for one in read.undecided] == [
        (0, "it ended in the damage, and no file shows how")
    ]
