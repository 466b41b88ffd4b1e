"""The checks of side files: what they must find, and what they must not (KAFKA-7487)."""

import os
import shutil
import struct

import builders
import plain_logs
import pytest
from paths import VECTORS
from plain_logs import data_folder, flip
from verify_reports import kinds, verified
from witness_folders import golden, without_first, written

import kafkarec
from kafkarec.ops.verify import KINDS
from kafkarec.sidecars import leader_epochs, offset_index, producer_snapshot, time_index, txn_index

FOLDERS = sorted(path for path in VECTORS.glob("*/*-0") if path.is_dir())
FIRST, SECOND, END = f"{0:020d}", f"{30:020d}", f"{293:020d}"


def findings(folder):
    """What verify says of the folder's side files."""
    reported = [one for one in verified(folder).findings if not str(one.file or ".log").endswith(".log")]
    for one in reported:
        assert one.severity in KINDS[one.kind].severities and "\n" not in one.detail
    return reported


def words(reported):
    return {(one.kind, one.severity) for one in reported}


@pytest.fixture
def txn(tmp_path):
    """Return a copy of the broker's log with transactions over two segments."""
    return golden(tmp_path, "txn-0")


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: path.name)
def test_nothing_is_wrong_with_what_kafka_wrote(folder):
    """Recovery drops the epochs of emptied markers: a note in those folders, no finding in a broker's own."""
    allowed = {("producer_differs", "note")} if folder.parent.name == "indexes" else set()
    assert words(findings(folder)) <= allowed
    if folder.parent.name == "segments":
        assert verified(folder, sequences=True).exit_status(strict=True) == 0


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: path.name)
def test_a_folder_without_indexes_has_no_findings(folder, tmp_path):
    for path in folder.glob("*.log"):
        shutil.copy(path, tmp_path)
    assert findings(tmp_path) == []


def test_a_snapshot_of_recovery_without_the_epoch_of_an_emptied_marker_is_no_error(tmp_path):
    """Also in a log without a gap, as `compact` may write one."""
    marker = {"attributes": builders.CONTROL | builders.TRANSACTIONAL, "producer_id": 7, "producer_epoch": 0}
    with kafkarec.SegmentWriter(tmp_path / "t-0") as writer:
        writer.append(builders.batch([], last_offset_delta=0, **marker) + plain_logs.batch(1, 3))
    (entry,) = producer_snapshot.read((tmp_path / "t-0" / f"{4:020d}.snapshot").read_bytes())
    assert entry.producer_epoch == -1
    assert words(findings(tmp_path / "t-0")) == {("producer_differs", "note")}


def test_a_snapshot_behind_batches_that_the_cleaner_removed_is_no_error(tmp_path):
    """The last ones of a segment: only the name of the next one tells that they are missing."""
    batches = [plain_logs.batch(3 * n, 3, producer_id=7, producer_epoch=n, base_sequence=0) for n in (0, 1, 2)]
    with kafkarec.SegmentWriter(tmp_path / "t-0", segment_bytes=len(batches[0] + batches[1])) as writer:
        for batch in batches:
            writer.append(batch)
    (tmp_path / "t-0" / f"{0:020d}.log").write_bytes(batches[0])
    (entry,) = producer_snapshot.read((tmp_path / "t-0" / f"{6:020d}.snapshot").read_bytes())
    assert entry.producer_epoch == 1
    assert ("producer_differs", "note") in words(findings(tmp_path / "t-0"))


def test_the_snapshot_of_the_first_segment_is_read_as_the_others(tmp_path):
    """It says which producers there were before the log."""
    folder = without_first(tmp_path)
    assert words(findings(folder)) == set()
    flip(folder / f"{SECOND}.snapshot", 20)
    assert words(findings(folder)) == {("small_file_unreadable", "anomaly")}


# ---- each check finds its fault


def changed(name, change):
    """Return a function that changes a file's bytes, in place or as a new value."""

    def apply(folder):
        data = bytearray((folder / name).read_bytes())
        result = change(data)
        (folder / name).write_bytes(data if result is None else result)

    return apply


def added(place, by, size=4):
    """Return a function that adds to a big-endian number."""

    def change(data):
        value = int.from_bytes(data[place : place + size], "big", signed=True) + by
        data[place : place + size] = value.to_bytes(size, "big", signed=True)

    return change


def swapped(size, first, second):
    def change(data):
        a, b = (slice(n * size, n * size + size) for n in (first, second))
        data[a], data[b] = data[b], data[a]

    return change


def entry_dropped(data):
    return txn_index.write(txn_index.read(bytes(data))[1:])


def producer_with(**fields):
    def change(data):
        first, *rest = producer_snapshot.read(bytes(data))
        return producer_snapshot.write([first._replace(**fields), *rest])

    return change


def pipe_in_place_of(name):
    def spoil(folder):
        (folder / name).unlink()
        os.mkfifo(folder / name)

    return spoil


INDEX, TIMES, TXNS = (f"{SECOND}.{kind}" for kind in ("index", "timeindex", "txnindex"))
SPOILED = {
    "half an entry": (changed(INDEX, lambda data: data[:-3]), "small_file_unreadable", "error", "no multiple of 8"),
    "a pipe": (pipe_in_place_of(INDEX), "unreadable_file", "error", "a pipe, not a file"),
    "no .index": (lambda folder: (folder / INDEX).unlink(), "index_missing", "anomaly", "is missing"),
    "no .timeindex": (lambda folder: (folder / TIMES).unlink(), "index_missing", "anomaly", "is missing"),
    "zeros in a closed segment": (
        changed(f"{FIRST}.index", lambda data: data + bytes(80)),
        "small_file_preallocated",
        "anomaly",
        "80 bytes are preallocated zeros",
    ),
    "entries swapped": (changed(INDEX, swapped(8, 3, 4)), "index_order", "error", "does not ascend"),
    "position into a batch": (changed(INDEX, added(8 * 5 + 4, 7)), "index_position", "error", "points into a batch"),
    "position after the end": (
        changed(INDEX, added(8 * 57 + 4, 1 << 20)),
        "index_position",
        "error",
        "beyond the log's end",
    ),
    "offset of an earlier batch": (changed(INDEX, added(8 * 5, -3)), "index_offset", "error", "points too far"),
    "offset above the log": (changed(INDEX, added(8 * 57, 900)), "index_offset", "error", "above the segment's last"),
    "times swapped": (changed(TIMES, swapped(12, 3, 4)), "time_order", "error", "does not ascend"),
    "time too early": (changed(TIMES, added(12 * 4, -1, 8)), "time_largest", "error", "is too early"),
    "time too late": (changed(TIMES, added(12 * 4, 1, 8)), "time_largest", "anomaly", "is later than"),
    "time after the segment": (
        changed(f"{FIRST}.timeindex", added(8, 90)),
        "time_offset",
        "error",
        "beyond the segment",
    ),
    "no last time": (changed(f"{FIRST}.timeindex", lambda data: b""), "time_end", "anomaly", "too early"),
    "abort not listed": (changed(TXNS, entry_dropped), "transaction_missing", "error", "producer 19, offsets 0 to 30"),
    "no .txnindex": (lambda folder: (folder / TXNS).unlink(), "transaction_missing", "error", "read_committed"),
    "abort without a marker": (changed(TXNS, added(18, 1, 8)), "transaction_unknown", "error", "no ABORT marker"),
    "other first offset": (changed(TXNS, added(34 + 10, 1, 8)), "transaction_differs", "error", "begins at offset 3"),
    "other stable offset": (
        changed(TXNS, added(26, 5, 8)),
        "transaction_differs",
        "anomaly",
        "but 3 according to the batches",
    ),
    "txnindex version": (changed(TXNS, added(0, 1, 2)), "small_file_unreadable", "error", "version 1 of entry 0"),
    "snapshot crc": (changed(f"{SECOND}.snapshot", added(20, 1)), "small_file_unreadable", "anomaly", "crc mismatch"),
    "producer's offset": (
        changed(f"{SECOND}.snapshot", producer_with(last_offset=21)),
        "producer_differs",
        "error",
        "last offset 21, but 22 according to the batches",
    ),
    "producer's time": (
        changed(f"{END}.snapshot", producer_with(timestamp=5)),
        "producer_differs",
        "note",
        "last timestamp 5",
    ),
    "producer without batches": (
        changed(f"{END}.snapshot", producer_with(producer_id=77)),
        "producer_unknown",
        "anomaly",
        "producer 77",
    ),
    "epochs do not rise": (
        changed(leader_epochs.NAME, lambda data: b"0\n2\n1 0\n0 5\n"),
        "epoch_order",
        "error",
        "line 4",
    ),
    "another epoch": (
        changed(leader_epochs.NAME, lambda data: b"0\n2\n0 0\n1 40\n"),
        "epoch_differs",
        "error",
        "the file says 1",
    ),
    "epochs begin late": (
        changed(leader_epochs.NAME, lambda data: b"0\n1\n0 9\n"),
        "epoch_differs",
        "note",
        "before the first entry",
    ),
    "no epochs": (
        changed(leader_epochs.NAME, lambda data: b"0\n0\n"),
        "epoch_differs",
        "anomaly",
        "which has no entry",
    ),
    "epochs cut": (
        changed(leader_epochs.NAME, lambda data: b"0\n4\n0 0\n"),
        "small_file_unreadable",
        "error",
        "4 entries are declared",
    ),
    "zeros for metadata": (
        changed("partition.metadata", lambda data: bytes(43)),
        "small_file_unreadable",
        "error",
        "43 zero bytes",
    ),
}


@pytest.mark.parametrize("name", SPOILED)
def test_found(name, txn):
    spoil, kind, severity, sentence = SPOILED[name]
    spoil(txn)
    reported = findings(txn)
    assert (kind, severity) in words(reported)
    assert any(sentence in one.detail for one in reported if one.kind == kind), reported
    assert len({one.file for one in reported if one.severity == "error"}) <= 1


def test_every_comparison_is_tested():
    """The fence has index_append."""
    compared = {name for name, kind in KINDS.items() if kind.subject == "comparison"}
    assert compared - {kind for _, kind, _, _ in SPOILED.values()} == {"index_append", "index_coverage"}


# ---- what only looks wrong


def test_an_entry_that_fits_no_transaction_proves_nothing(txn):
    log = txn / f"{SECOND}.log"
    log.write_bytes(bytes(78) + log.read_bytes()[78:])
    changed(TXNS, added(10, 1, 8))(txn)  # its first offset
    report = verified(txn)
    assert ("transaction_unknown", "note") not in words(list(report.findings))
    assert ("sidefiles_unchecked", "note") in words(list(report.findings))


@pytest.mark.parametrize("change", [entry_dropped, added(10, 5, 8)], ids=["no entry", "it begins later"])
@pytest.mark.parametrize("start", [0, 1])
def test_transactions_that_begin_below_the_log_start(change, start, txn):
    """A broker that recovers a log knows nothing of what is below it; tests/jvm/test_transactions asks Kafka."""
    data_folder(txn.parent, log_start=f"txn 0 {start}")
    changed(TXNS, change)(txn)
    assert any(one.severity == "error" for one in findings(txn)) == (start == 0)


def log_of(tmp_path, *batches, index):
    (tmp_path / f"{FIRST}.log").write_bytes(b"".join(batches))
    (tmp_path / f"{FIRST}.index").write_bytes(offset_index.write(index, 0))
    return [one for one in findings(tmp_path) if one.kind != "index_missing"]


def test_an_entry_with_an_offset_between_batches_is_a_warning(tmp_path):
    batches = plain_logs.batches(6)
    reported = log_of(tmp_path, *batches, index=[(7, len(batches[0]))])
    assert words(reported) == {("index_offset", "anomaly")}


def test_an_index_that_ends_long_before_its_log_is_a_warning(tmp_path):
    batches = [plain_logs.batch(base, 1, value=bytes(60_000)) for base in range(40)]
    assert words(log_of(tmp_path, *batches, index=[(0, 0)])) == {("index_coverage", "anomaly")}


def test_entries_of_batches_that_the_cleaner_rewrote(tmp_path):
    """Empty batches and gaps: the last offset is the header's, whatever records are left."""
    empty = builders.batch(base_offset=20, last_offset_delta=9, count=0)
    gap = plain_logs.batch(50, 2, last_offset_delta=30)
    first = plain_logs.batch(0, 2)
    entries = [(29, len(first)), (80, len(first) + len(empty))]
    assert log_of(tmp_path, first, empty, gap, index=entries) == []
    inside = [(25, len(first)), (79, len(first) + len(empty))]
    assert log_of(tmp_path, first, empty, gap, index=inside) == []


def test_wrappers_of_old_messages(tmp_path):
    """A wrapper's header has its last offset only."""
    wrappers = [builders.wrapper([builders.message(offset=i) for i in range(3)], offset=3 * n + 2) for n in range(3)]
    size = len(wrappers[0])
    assert log_of(tmp_path, *wrappers, index=[(5, size), (8, 2 * size)]) == []


def test_entries_into_damage_are_not_index_errors(txn):
    log = txn / f"{SECOND}.log"
    data = bytearray(log.read_bytes())
    index = offset_index.read((txn / INDEX).read_bytes(), 30)
    position = index[5].position
    data[position + 8 : position + 12] = struct.pack(">i", 3)
    log.write_bytes(data)
    assert not [one for one in findings(txn) if one.kind.startswith("index_")]


def test_a_log_that_was_copied_before_its_live_index(tmp_path):
    """The index of a running broker may be ahead of a copied log; so may one after a crash, which recovery repairs."""
    folder = golden(tmp_path, "logappend-live-0")
    log = folder / f"{0:020d}.log"
    log.write_bytes(log.read_bytes()[:2466])
    assert kinds(verified(folder)) == {"end_was_longer"}
    end = kafkarec.open(folder).next_offset
    data_folder(tmp_path, replication=f"logappend-live 0 {end}")  # nothing that was replicated is missing
    reported = findings(folder)
    assert words(reported) == {("index_position", "anomaly"), ("time_offset", "anomaly")}
    assert all("the index is preallocated" in one.detail for one in reported)


def test_records_without_timestamps(tmp_path):
    times = tmp_path / f"{FIRST}.timeindex"
    times.write_bytes(b"")
    assert log_of(tmp_path, plain_logs.batch(0, 2, base_timestamp=-1, max_timestamp=-1), index=[]) == []
    times.write_bytes(time_index.write([(5, 1)], 0))
    assert words(findings(tmp_path)) == {("time_largest", "anomaly")}


@pytest.mark.parametrize("byte", [2, 6, 7, 9, 11, 12, 15], ids=lambda byte: f"byte {byte}")
@pytest.mark.parametrize("name", ["logappend-0", "all-codecs-0", "written"])
def test_side_files_are_right_beside_headers_that_a_reader_restores(name, byte, tmp_path):
    """One bit of a base offset, a length or a leader epoch is flipped: the side files are those of the log before."""
    folder = written(tmp_path) if name == "written" else golden(tmp_path, name)
    log = sorted(folder.glob("*.log"))[0]
    whole = log.read_bytes()
    positions = kafkarec.scan(whole).column("position")
    restored = 0
    for position in positions[1 : -1 : len(positions) // 6]:
        log.write_bytes(builders.flipped(whole, position + byte, 4))
        report = verified(folder)
        if any(file.restored for file in report.partitions[0].files):
            restored += 1
            assert kinds(report, "error", "anomaly", "note") == {"header_restored"}
    assert restored >= 2


def test_a_wrong_base_offset_that_no_reader_restores_blames_no_side_file(tmp_path):
    """In a compacted log the neighbours leave more than one offset possible: the header is the finding."""
    folder = golden(tmp_path, "compacted-0")
    log = sorted(folder.glob("*.log"))[0]
    flip(log, kafkarec.scan(log.read_bytes()).column("position")[1] + 2, 0x40)
    report = verified(folder)
    assert kinds(report, "error", "anomaly", "anomaly") == {"base_offset_wrong"}
    assert "sidefiles_unchecked" in kinds(report, "note")
