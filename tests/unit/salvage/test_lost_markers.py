"""Salvage writes the marker that damage destroyed, as far as its transaction's end is proven, and decides the rest."""

from __future__ import annotations

from typing import NamedTuple

import builders
import hurt_markers
import plain_logs
import pytest
import transaction_logs as txns
from hurt_markers import FOLDERS
from paths import SEGMENTS
from plain_logs import content
from transaction_logs import ABORT, COMMIT, DATA, PLAIN, Event, write_index, write_log

import kafkarec
from kafkarec.format.side_files import SnapshotEntry
from kafkarec.ops.salvage import salvage
from kafkarec.sidecars import producer_snapshot

EVENTS = [
    Event(DATA, 7, 0, 3, 2),
    Event(ABORT, 7, 3, 1, 2),
    Event(DATA, 7, 4, 2, 2),
    Event(COMMIT, 7, 6, 1, 2),
    Event(PLAIN, -1, 7, 1),
]


def source(folder):
    """The log without its ABORT marker."""
    return write_log(folder, EVENTS, [3])


@pytest.fixture
def out(tmp_path):
    return tmp_path / "out"


def saved(folder, out, undecided="abort"):
    [one] = salvage(folder, out, undecided=undecided).partitions
    return one


def rows(out):
    return [(row["base_offset"], row["is_control"]) for row in kafkarec.open(out / "a-0").scan()]


def committed(out):
    return list(kafkarec.open(out / "a-0").read(isolation="read_committed", columns=["offset"]).column("offset"))


def test_one_flipped_bit_is_repaired_byte_for_byte(tmp_path):
    """The rebuilt .txnindex is that of the broker again."""
    original = SEGMENTS / "txn-0"
    for run in hurt_markers.runs(original, tmp_path, damage=("outcome",)):
        report = saved(run.folder, run.out)
        made = run.out / "orders-0"
        for name in ("00000000000000000000.log", "00000000000000000030.log", "00000000000000000030.txnindex"):
            assert (made / name).read_bytes() == (original / name).read_bytes(), run
        assert [(one.proof, one.proven, one.marker_offset) for one in report.markers] == [("marker", True, run.offset)]


@pytest.mark.parametrize("logs_only", [False, True])
@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: path.name)
def test_each_marker_of_real_logs(folder, logs_only, tmp_path):
    """Neither a consumer nor salvage publishes what was not committed; all that was and is hidden is listed."""
    damage = ("outcome", "zeros") if logs_only else tuple(hurt_markers.DAMAGE)
    for run in hurt_markers.runs(folder, tmp_path, (".log",) if logs_only else (), damage):
        found = txns.read_committed(run.folder)
        assert hurt_markers.wrong(run, set(found.column("offset")), found.undecided) == (set(), set()), run
        if folder.name == "txn-0" and not logs_only and run.offset != 292 and run.damage != hurt_markers.CUT_OUT:
            assert (len(found), found.undecided) == (176, ()), run
        if run.damage == "zeros" and not logs_only:
            report = saved(run.folder, run.out)
            log = kafkarec.open(run.out / "orders-0")
            seen = set(log.read(isolation="read_committed", columns=["offset"]).column("offset"))
            assert hurt_markers.wrong(run, seen, report.markers) == (set(), set()), run
            assert [row["base_offset"] for row in log.scan()] == sorted(row["base_offset"] for row in log.scan())


def test_the_coordinator_epoch_is_the_producers_last_one(tmp_path, out):
    before = [Event(DATA, 7, 0, 1), Event(COMMIT, 7, 1, 1)]
    events = [*before, Event(DATA, 7, 2, 1), Event(ABORT, 7, 3, 1), *EVENTS[2:]]
    saved(write_log(tmp_path / "a-0", events, [3]), out)
    [record] = list(kafkarec.open(out / "a-0").batches())[3]
    assert (record.offset, record.control.coordinator_epoch) == (3, 5)


class Case(NamedTuple):
    """A log in which the events with the base offsets `lost` are zeros.

    visible: what a read_committed consumer gets
    markers: (producer, first offset, what salvage decides, by which proof, marker's offset, lost from, lost to)
    said: in the report
    """

    events: list[Event]
    lost: tuple[int, ...]
    visible: list[int]
    markers: list[tuple[int, int, str, str, int | None, int, int | None]]
    index: tuple[tuple[int, int, int, int], ...] = ()
    tail: bytes = b""
    said: str = ""


ALONE = [Event(DATA, 7, 0, 3)]
OF_TWO = [Event(DATA, 7, 0, 1), Event(DATA, 8, 1, 2)]
AT_THE_END = [*ALONE, Event(PLAIN, -1, 3, 1), Event(COMMIT, 7, 4, 1)]
OF_ANOTHER = [*ALONE, Event(ABORT, 8, 3, 1)]
WITHOUT_DATA = [*OF_ANOTHER, Event(COMMIT, 7, 4, 1), Event(DATA, 9, 5, 1), Event(ABORT, 9, 6, 1)]
TWICE = [*ALONE, Event(COMMIT, 7, 3, 1), Event(DATA, 7, 4, 2), Event(ABORT, 7, 6, 1)]
NOTHING = (7, 0, "abort", "nothing", 3, 3, 3)
CASES = {
    "nothing proves an end": Case(EVENTS, (3,), [4, 5, 7], [NOTHING]),
    "the index proves it": Case(EVENTS, (3,), [4, 5, 7], [(7, 0, "abort", "txnindex", 3, 3, 3)], ((7, 0, 3, 4),)),
    # One marker was lost; of whom is not known. There is one offset to write a marker at.
    "two transactions and one offset": Case(
        [
            *(*OF_TWO, Event(ABORT, 8, 3, 1), Event(DATA, 7, 4, 1)),
            *(Event(DATA, 8, 5, 1), Event(COMMIT, 7, 6, 1), Event(COMMIT, 8, 7, 1)),
        ],
        (3,),
        [4, 5],
        [NOTHING, (8, 1, "aside", "nothing", None, 3, 3)],
        said="its batches are set aside: no file shows whether it ended in the damage, or how; no offset is free",
    ),
    # That of the .txnindex at its offset, the other one at the last free offset.
    "two markers in one hole": Case(
        [
            *(*OF_TWO, Event(ABORT, 7, 3, 1), Event(PLAIN, -1, 4, 1)),
            *(Event(COMMIT, 8, 5, 1), Event(DATA, 8, 6, 1), Event(COMMIT, 8, 7, 1)),
        ],
        (3, 4, 5),
        [6],
        [(7, 0, "abort", "txnindex", 3, 3, 5), (8, 1, "abort", "nothing", 5, 3, 5)],
        ((7, 0, 3, 1),),
    ),
    "at the log's end it may stay open": Case(AT_THE_END, (4,), [], [], tail=b"\xff" * 10),
    "at the log's end only the index counts": Case(
        AT_THE_END, (4,), [3], [(7, 0, "abort", "txnindex", 4, 4, None)], ((7, 0, 4, 5),), tail=b"\xff" * 10
    ),
    # Not damaged: the log ends before the marker that its .txnindex has.
    "an end that was cut off": Case(ALONE, (), [], [(7, 0, "abort", "txnindex", 9, 3, None)], ((7, 0, 9, 10),)),
    # Compacted, and the base offset of the batch behind the gap is wrong.
    "a batch has the offset of the marker": Case(
        [*ALONE, Event(PLAIN, -1, 3, 1), Event(PLAIN, -1, 8, 1)],
        (),
        [3, 8],
        [(7, 0, "aside", "txnindex", None, 3, 3)],
        ((7, 0, 3, 4),),
        said="its batches are set aside: the .txnindex lists it; a batch has the offset of its marker",
    ),
    # The batches between are missing with all of their bytes: nothing but the .txnindex shows that, and it may be that
    # of another log.
    "an entry of a later transaction proves no abort of an earlier one": Case(
        [*ALONE, Event(PLAIN, -1, 8, 1)], (), [8], [(7, 0, "abort", "end_unknown", 3, 3, 3)], ((7, 4, 6, 4),)
    ),
    # The first COMMIT and the ABORT are missing: which of the data is of which transaction, no file shows.
    "an entry within the data of a transaction decides nothing": Case(
        [*ALONE, Event(DATA, 7, 4, 2), Event(PLAIN, -1, 8, 1)],
        (),
        [8],
        [(7, 0, "abort", "nothing", 6, 6, 6)],
        ((7, 4, 6, 4),),
    ),
    # The later one began in the damage, and the .txnindex has no ABORT before that.
    "an entry of a later transaction in damage proves the end of an earlier one": Case(
        TWICE, (3, 4, 6), [0, 1, 2], [(7, 0, "commit", "txnindex", 3, 3, 3)], ((7, 4, 6, 4),), tail=b"?"
    ),
    "the same where the log goes on": Case(
        [*TWICE, Event(PLAIN, -1, 9, 1)],
        (3, 4, 6),
        [0, 1, 2, 9],
        [(7, 0, "commit", "txnindex", 3, 3, 3)],
        ((7, 4, 6, 4),),
        tail=b"?",
    ),
    # The first offset of the entry follows the data at once: that is no .txnindex of this log.
    "an entry at which there is no place for another end decides nothing": Case(
        ALONE, (), [], [(7, 0, "aside", "end_unknown", None, 3, None)], ((7, 3, 6, 3),), tail=bytes(299) + b"x"
    ),
    # So the next marker is no proof that the damaged one was of another producer; its .txnindex entry is.
    "a marker may end a transaction without data": Case(WITHOUT_DATA, (3,), [], [NOTHING]),
    "the damaged one was of another producer": Case(WITHOUT_DATA, (3,), [0, 1, 2], [], ((8, 3, 3, 4), (9, 5, 6, 7))),
    # KIP-890: the damage had nothing to do with it.
    "a commit of the next epoch": Case(
        [*OF_ANOTHER, Event(DATA, 7, 4, 2), Event(COMMIT, 7, 6, 1, 1)], (3,), [0, 1, 2, 4, 5], []
    ),
    "a commit of the same epoch": Case(
        [*OF_ANOTHER, Event(DATA, 7, 4, 2), Event(COMMIT, 7, 6, 1, 0)], (3,), [4, 5], [NOTHING]
    ),
}
WHY = {
    "nothing": "no file shows whether it ended in the damage, or how",
    "end_unknown": "it ended in the damage, and no file shows how",
}


@pytest.mark.parametrize("name", CASES)
def test_reading_hides_what_salvage_hides(name, tmp_path, out):
    case = CASES[name]
    folder = write_log(tmp_path / "a-0", case.events, case.lost, tail=case.tail)
    if case.index:
        write_index(folder, *case.index)
    read = txns.read_committed(folder)
    report = salvage(folder, out)
    assert read.column("offset") == committed(out) == case.visible
    [one] = report.partitions
    names = ("producer_id", "first_offset", "outcome", "proof", "marker_offset", "lost_from", "lost_to")
    assert [tuple(getattr(marker, name) for name in names) for marker in one.markers] == case.markers
    unproven = [marker for marker in one.markers if not marker.proven]
    assert unproven == [marker for marker in one.markers if marker.proof in WHY]
    assert [
        (each.producer_id, each.first_offset, each.lost_from, each.lost_to, each.why) for each in read.undecided
    ] == [
        (marker.producer_id, marker.first_offset, marker.lost_from, marker.lost_to, WHY[marker.proof])
        for marker in unproven
    ]
    assert case.said in str(report)
    aside = [(marker.producer_id, marker.first_offset) for marker in one.markers if marker.outcome == "aside"]
    kept = [event for event in case.events if event.base not in case.lost and (event.producer, event.base) not in aside]
    batches = [(event.base, event.kind in txns.MARKERS) for event in kept]
    batches += [(marker.marker_offset, True) for marker in one.markers if marker.marker_offset is not None]
    assert rows(out) == sorted(batches)
    if unproven:
        decided = saved(folder, tmp_path / "decided", "commit").markers
        assert [(one.outcome, one.marker_offset) for one in decided] == [
            ("commit" if marker in unproven and marker.outcome == "abort" else marker.outcome, marker.marker_offset)
            for marker in one.markers
        ]
        published = [
            offset
            for marker in unproven
            for event in kept
            if event.producer == marker.producer_id and marker.first_offset <= event.base <= marker.last_offset
            for offset in range(event.base, event.last + 1)
        ]
        assert committed(tmp_path / "decided") == sorted([*case.visible, *published])


def test_segments_that_are_emptied(tmp_path):
    """None stays but the last one, whose name has the log's end: a second salvage changes nothing."""
    data = [Event(DATA, 7, 3 * n, 3) for n in range(3)]
    folder = plain_logs.log(tmp_path / "a-0", *([one.batch] for one in data))
    log = folder / f"{6:020}.log"
    log.write_bytes(bytes(len(EVENTS[1].batch)) + Event(COMMIT, 7, 9, 1).batch)
    (folder / f"{10:020}.log").write_bytes(Event(PLAIN, -1, 10, 1).batch)
    report = saved(folder, tmp_path / "out", "aside")
    assert [file.name for file in report.files] == [f"{6:020}.log", f"{10:020}.log"]
    salvage(tmp_path / "out" / "a-0", tmp_path / "again", undecided="aside")
    assert content(tmp_path / "again" / "a-0") == content(tmp_path / "out" / "a-0")


def test_replicas_prove_for_each_other(tmp_path, out):
    """Both lost the marker; one has the .txnindex."""
    one, other = source(tmp_path / "one" / "a-0"), source(tmp_path / "other" / "a-0")
    write_index(other, (7, 0, 3, 4))
    [report] = salvage([one, other], out).partitions
    assert [(marker.proof, marker.marker_offset) for marker in report.markers] == [("txnindex", 3)]
    assert committed(out) == [4, 5, 7]


def test_a_wrong_base_offset_at_a_segments_end(tmp_path, out):
    """The next segment's name proves where the marker was."""
    first, marker, *behind = (event.batch for event in EVENTS)
    folder = plain_logs.log(tmp_path / "a-0", [first, builders.patched(marker, 7, b"\x07")], behind)
    report = saved(folder, out)
    assert report.markers == []
    assert [one["fields"]["base_offset"] for one in report.restored] == [{"stored": 7, "used": 3}]
    assert committed(out) == [4, 5, 7]


def without_marker(folder, files=2):
    """The ABORT is not there: its segment is gone, or its bytes were cut out of the only one."""
    before, *behind = (event.batch for event in EVENTS if event.base != 3)
    return plain_logs.log(folder, *([[before], behind] if files == 2 else [[before, *behind]]))


@pytest.mark.parametrize("files, base", [(1, 0), (2, 0), (2, 3)])
def test_a_marker_that_was_cut_out(files, base, tmp_path, out):
    """Only a gap is left, as in a compacted log; but a .txnindex lists the marker, also one without its segment."""
    folder = without_marker(tmp_path / "a-0", files)
    write_index(folder, (7, 0, 3, 4), base=base)
    [one] = saved(folder, out).markers
    assert (one.outcome, one.proof, one.marker_offset) == ("abort", "txnindex", 3)
    assert committed(out) == committed(tmp_path) == [4, 5, 7]
    assert kafkarec.open(folder).transactions().count("aborted") == 1


@pytest.mark.parametrize("files", [1, 2])
@pytest.mark.parametrize("cleaned", [None, "", "a 0 1\n", "b 0 1\n"])
def test_a_marker_that_was_cut_out_of_a_log_that_was_never_cleaned(files, cleaned, tmp_path, out):
    """Without .txnindex only the gap tells, and only where the log cleaner did not make it."""
    folder = without_marker(tmp_path / "data" / "a-0", files)
    (folder.parent / "meta.properties").write_text("version=1\nbroker.id=1\n")
    if cleaned is not None:
        (folder.parent / "cleaner-offset-checkpoint").write_text(f"0\n{cleaned.count(chr(10))}\n{cleaned}")
    report = saved(folder, out)
    if cleaned is None or cleaned.startswith("a 0"):
        assert report.markers == [] and committed(out) == [0, 1, 2, 4, 5, 7]
    else:
        [one] = report.markers
        assert (one.outcome, one.proven, one.marker_offset) == ("abort", False, 3)
        assert committed(out) == [4, 5, 7]
    assert salvage(folder, tmp_path / "tried", dry_run=True).partitions[0].markers == report.markers


@pytest.mark.parametrize("status, visible", [(2, [0, 1, 2, 4, 5, 7]), (3, [4, 5, 7])])
def test_what_the_coordinator_was_about_to_do(tmp_path, out, status, visible):
    """PrepareCommit, PrepareAbort of the epoch behind the data's, with this partition."""
    here = {"producerEpoch": 3, "transactionPartitions": [{"topic": "a", "partitionIds": [1, 0]}]}
    folder = source(tmp_path / "a-0")
    txns.transaction_state(tmp_path / "__transaction_state-7", ("id", 7, status), **here)
    [one] = saved(folder, out).markers
    assert (one.outcome, one.proven, one.proof) == ("commit" if status == 2 else "abort", True, "transaction_state")
    assert committed(out) == visible
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
def test_what_is_no_proof_of_the_coordinator(tmp_path, other):
    fields = {"producerEpoch": 3, "transactionPartitions": [{"topic": "a", "partitionIds": [0]}], **other}
    folder = source(tmp_path / "a-0")
    txns.transaction_state(tmp_path / "__transaction_state-7", ("id", 7, 2), **fields)
    assert [one.proven for one in saved(folder, tmp_path / "out").markers] == [False]


def test_a_deleted_file_has_the_marker(tmp_path, out):
    folder = without_marker(tmp_path / "a-0")
    write_index(folder, (7, 0, 3, 4), base=3)
    (folder / f"{3:020}.log.deleted").write_bytes(EVENTS[1].batch)
    assert not saved(folder, out).markers
    assert rows(out) == [(event.base, event.kind in txns.MARKERS) for event in EVENTS]


def test_an_index_without_its_segment_proves_that_markers_may_be_lost(tmp_path, out):
    folder = without_marker(tmp_path / "a-0")
    (folder / f"{3:020}.index").touch()
    [one] = saved(folder, out).markers
    assert (one.outcome, one.proof, one.marker_offset) == ("abort", "nothing", 3)
    read = txns.read_committed(folder)
    assert committed(out) == read.column("offset") == [4, 5, 7]
    assert [(one.producer_id, one.lost_from, one.lost_to) for one in read.undecided] == [(7, 3, 3)]


@pytest.mark.parametrize("is_open", [False, True])
def test_a_snapshot_proves_that_a_missing_segment_had_the_marker(tmp_path, out, is_open):
    """The log cleaner leaves gaps, too, but keeps the marker of a transaction as long as it has data."""
    folder = without_marker(tmp_path / "a-0")
    entry = SnapshotEntry(7, 2, 0, 2, 2, builders.NOW, 0, 0 if is_open else -1)
    (folder / f"{4:020}.snapshot").write_bytes(producer_snapshot.write([entry]))
    report = saved(folder, out)
    assert [(one.proof, one.marker_offset) for one in report.markers] == ([] if is_open else [("end_unknown", 3)])
    assert report.proofs == ([] if is_open else ["producer 7's transaction from offset 0 ended there"])
    assert report.ok is is_open
    assert committed(out) == ([0, 1, 2, 4, 5, 7] if is_open else [4, 5, 7])
    read = txns.read_committed(folder)
    assert read.column("offset") == committed(out), "reading hides what salvage hides"
    assert [(one.producer_id, one.lost_from) for one in read.undecided] == ([] if is_open else [(7, 3)])


def test_a_txnindex_entry_outside_of_its_segment_proves_nothing(tmp_path):
    """One flipped bit puts the marker far behind the log's end, which is damaged, and where a transaction is open."""
    damaged = builders.flipped(Event(PLAIN, -1, 6, 1).batch)
    first, second = [event.batch for event in EVENTS[:2]], [EVENTS[2].batch, damaged]
    folder = plain_logs.log(tmp_path / "a-0", first, second)
    write_index(folder, (7, 0, 3 + (1 << 20), 4))
    report = saved(folder, tmp_path / "out")
    assert (report.markers, report.next_offset) == ([], 6)


def test_the_leader_epoch_of_a_marker_is_that_of_its_offset(tmp_path, out):
    """A leader may have begun in the damage."""
    parts = [builders.patched(event.batch, 12, bytes([0, 0, 0, 3 if event.base > 3 else 1])) for event in EVENTS]
    folder = plain_logs.log(tmp_path / "a-0", [parts[0], bytes(78), *parts[2:]], epochs=[(1, 0), (2, 3), (3, 4)])
    salvage(folder, out, as_partition=True)
    made = out / "a-0"
    assert [row["partition_leader_epoch"] for row in kafkarec.open(made).scan()] == [1, 2, 3, 3, 3]
    assert kafkarec.verify(made).ok
