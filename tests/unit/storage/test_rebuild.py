"""Indexes made from the batches, byte for byte as LogSegment.recover() of Kafka 4.4 made them (vectors/indexes), and
as the broker that wrote the log left them (vectors/segments)."""

from __future__ import annotations

import shutil
from pathlib import Path

import builders
import pytest
import reading
from fake_file import FakeFile
from paths import VECTORS

import kafkarec
from kafkarec._core import Source
from kafkarec.read.walk import Buffer
from kafkarec.sidecars import leader_epochs, offset_index, producer_snapshot, time_index, txn_index
from kafkarec.state.index_builders import SegmentIndexBuilder
from kafkarec.state.producers import RECOVERY, ProducerStates, at_log_start
from kafkarec.storage.rebuild_folder import RebuiltSideFiles, rebuild_log

# The index interval of each topic.
BROKER = {
    "__cluster_metadata-0": 4096,
    "__consumer_offsets-0": 4096,
    "all-codecs-0": 256,
    "compacted-0": 4096,
    "logappend-0": 256,
    "txn-0": 256,
}
RECOVERED = sorted(path.name for path in (VECTORS / "indexes").iterdir() if path.is_dir())
SMALL = {".index", ".timeindex", ".txnindex", ".snapshot"}


def rebuilt(folder: Path, interval: int = 4096) -> tuple[dict[str, bytes], list[RebuiltSideFiles]]:
    """Return all rebuilt files by name, and the opened source."""
    parts = list(rebuild_log(kafkarec.open(folder), interval))
    return {name: data for part in parts for name, data in part.files.items()}, parts


def small_files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.suffix in SMALL}


def logs_alone(folder: Path, to: Path) -> Path:
    """Return a copy of the log's segments without side files."""
    for path in folder.glob("*.log"):
        shutil.copy(path, to / path.name)
    return to


@pytest.mark.parametrize("name", BROKER)
def test_rebuilt_files_are_as_the_broker_left_them(name: str) -> None:
    folder = VECTORS / "segments" / name
    made, parts = rebuilt(folder, BROKER[name])
    assert made.pop(leader_epochs.NAME) == (folder / leader_epochs.NAME).read_bytes()
    assert made == small_files(folder)
    assert not any(part.damage or part.problems for part in parts)


@pytest.mark.parametrize("name", BROKER)
def test_files_are_rebuilt_from_the_log_files_alone(name: str, tmp_path: Path) -> None:
    folder = VECTORS / "segments" / name
    made, _ = rebuilt(logs_alone(folder, tmp_path), BROKER[name])
    assert made.pop(leader_epochs.NAME) == (folder / leader_epochs.NAME).read_bytes()
    assert made == small_files(folder)


def test_files_of_a_running_broker_are_rebuilt_without_the_zeros() -> None:
    folder = VECTORS / "segments" / "logappend-live-0"
    made, _ = rebuilt(folder, 256)
    for name, read in (("index", offset_index.read), ("timeindex", time_index.read)):
        old = (folder / f"{0:020d}.{name}").read_bytes()
        assert made[f"{0:020d}.{name}"] == read(old, 0).used != old


@pytest.mark.parametrize("name", RECOVERED)
def test_rebuilt_files_are_as_recovery_makes_them(name: str, tmp_path: Path) -> None:
    folder = VECTORS / "indexes" / name
    interval = int((folder / "interval").read_text())
    made, parts = rebuilt(logs_alone(folder, tmp_path), interval)
    assert [part.problems for part in parts if part.problems] == []
    epochs = leader_epochs.read(made.pop(leader_epochs.NAME))
    expected = leader_epochs.read((folder / leader_epochs.NAME).read_bytes())
    assert epochs[1:] == expected[1:]
    assert epochs[0].epoch == expected[0].epoch and epochs[0].start_offset <= expected[0].start_offset
    assert made == small_files(folder)


def test_the_vectors_cover_all_cases() -> None:
    counts = dict.fromkeys(SMALL, 0)
    for name in RECOVERED:
        for file, data in small_files(VECTORS / "indexes" / name).items():
            counts[Path(file).suffix] += bool(data)
    assert min(counts.values()) >= 15


def test_a_transaction_that_begins_in_an_earlier_segment() -> None:
    """The segment alone, with the snapshot at its begin, is enough."""
    folder = VECTORS / "segments" / "txn-0"
    log = kafkarec.logs.logs_of(kafkarec.open(folder / f"{30:020d}.log"))[0]
    made = {name: data for part in rebuild_log(log, 256) for name, data in part.files.items()}
    assert made[f"{30:020d}.txnindex"] == (folder / f"{30:020d}.txnindex").read_bytes()
    assert made[f"{293:020d}.snapshot"] == (folder / f"{293:020d}.snapshot").read_bytes()


def test_without_that_snapshot_the_transactions_start_is_unknown(tmp_path: Path) -> None:
    folder = VECTORS / "segments" / "txn-0"
    shutil.copy(folder / f"{30:020d}.log", tmp_path)
    made, _ = rebuilt(tmp_path, 256)
    old = txn_index.read((folder / f"{30:020d}.txnindex").read_bytes())
    assert set(txn_index.read(made[f"{30:020d}.txnindex"])) < set(old)


def test_a_broken_snapshot_is_skipped(tmp_path: Path) -> None:
    folder = VECTORS / "segments" / "txn-0"
    shutil.copy(folder / f"{30:020d}.log", tmp_path)
    (tmp_path / f"{30:020d}.snapshot").write_bytes(b"\0\1" + bytes(8))
    _, parts = rebuilt(tmp_path, 256)
    assert "first snapshot is ignored: crc mismatch" in parts[-1].problems[0]


def test_old_epochs_without_batches_are_kept(tmp_path: Path) -> None:
    (tmp_path / f"{0:020d}.log").write_bytes(builders.good_batch(2, base_offset=5, leader_epoch=4))
    (tmp_path / leader_epochs.NAME).write_bytes(b"0\n2\n1 0\n3 5\n")
    assert leader_epochs.read(rebuilt(tmp_path)[0][leader_epochs.NAME]) == ((1, 0), (4, 5))


# ---- damage


def test_the_indexes_have_no_entries_into_damage(tmp_path: Path) -> None:
    batches = [builders.good_batch(3, base_offset=3 * n) for n in range(6)]
    spoiled = bytearray(b"".join(batches))
    size = len(batches[0])
    spoiled[2 * size + 70] ^= 1
    (tmp_path / f"{0:020d}.log").write_bytes(spoiled)
    made, parts = rebuilt(tmp_path, 0)
    assert [(one.position, one.length, one.reason) for one in parts[0].damage] == [(2 * size, size, "crc_mismatch")]
    index = offset_index.read(made[f"{0:020d}.index"], 0)
    assert [entry.position for entry in index] == [size, 3 * size, 4 * size, 5 * size]


def test_a_segment_that_cannot_be_read_in_places() -> None:
    """A failing disk: the unreadable batch is damage, the rest is read."""
    segment = kafkarec.open(VECTORS / "segments" / "all-codecs-0").segments[0]
    position = segment.scan()[5]["position"]
    file = FakeFile(segment.raw(0, segment.size), 512, unreadable=[range(position + 100, position + 101)])
    failing = Buffer(b"", source=Source(file=file))
    steps = reading.walk_markers(failing, check_crcs=True, errors="skip", restore=False)
    damage = [one for step in steps for one in step.damage]
    good = sum(map(len, steps))
    assert {one.reason for one in damage} == {"unreadable"} and position in [one.position for one in damage]
    assert len(damage) + good == len(segment.scan())


def test_offsets_that_no_entry_can_hold(tmp_path: Path) -> None:
    far = builders.good_batch(1, base_offset=2**31 + 5)
    back = builders.good_batch(1, base_offset=1)
    data = builders.good_batch(3) + builders.good_batch(3, base_offset=3) + far + back
    (tmp_path / f"{0:020d}.log").write_bytes(data)
    made, parts = rebuilt(tmp_path, 0)
    assert [entry.offset for entry in offset_index.read(made[f"{0:020d}.index"], 0)] == [5]
    assert len(parts[0].problems) == 2 and "does not fit an index" in parts[0].problems[0]


@pytest.mark.core
def test_the_first_batch_with_a_lower_epoch(tmp_path: Path) -> None:
    """Over all segments; a batch without an epoch does not count."""
    offset = 0
    for segment in ((3, -1, 3), (4, 4), (-1, 2), (1,)):
        batches = [builders.good_batch(1, base_offset=offset + n, leader_epoch=one) for n, one in enumerate(segment)]
        (tmp_path / f"{offset:020d}.log").write_bytes(b"".join(batches))
        offset += len(segment)
    *_, log = rebuilt(tmp_path)[1]
    assert log.lower_epoch == (6, 2, 4)
    for base in (5, 7):
        (tmp_path / f"{base:020d}.log").unlink()
    *_, log = rebuilt(tmp_path)[1]
    assert log.lower_epoch is None


def test_an_empty_folder_segment(tmp_path: Path) -> None:
    (tmp_path / f"{0:020d}.log").write_bytes(b"")
    made, parts = rebuilt(tmp_path)
    assert made == {f"{0:020d}.index": b"", f"{0:020d}.timeindex": b"", leader_epochs.NAME: b"0\n0\n"}
    assert len(parts) == 2


def test_emptied_markers_keep_their_epochs_except_as_in_recovery() -> None:
    folder = VECTORS / "segments" / "compacted-0"
    name = f"{568:020d}.snapshot"
    ours = {one.producer_id: one for one in producer_snapshot.read(rebuilt(folder)[0][name])}
    *segments, after = kafkarec.open(folder).segments
    assert after.base_offset == 568
    recovered = at_log_start(segments[0].sidecar, segments[0].base_offset, RECOVERY).states
    for segment in segments:
        for step in reading.walk_markers(segment):
            recovered.take(step)
    kafkas = {one.producer_id: one for one in recovered.snapshot()}
    assert (ours[5].producer_epoch, kafkas[5].producer_epoch) == (6, 5)
    assert {k: v for k, v in ours.items() if k != 5} == {k: v for k, v in kafkas.items() if k != 5}


def test_single_batches_give_the_same_files() -> None:
    folder = VECTORS / "segments" / "txn-0"
    segment = kafkarec.open(folder).segments[0]
    (step,) = reading.walk_markers(segment)
    maker, states = SegmentIndexBuilder(0, interval=256), ProducerStates()
    names = ("position", "base_offset", "last_offset", "max_timestamp", "partition_leader_epoch")
    for row, batch in enumerate(zip(*map(step.column, names), strict=True)):
        maker.append([batch], states.take(step, row, row + 1).aborted)
    assert maker.finish().files == {
        suffix: (folder / f"{0:020d}{suffix}").read_bytes() for suffix in (".index", ".timeindex")
    }
