"""SegmentWriter on an existing folder: torn ends are cut off, damage is refused, side files are
repaired; a real broker's folders are unchanged."""

import errno
import os
import shutil

import builders
import golden
import pytest
from failing_calls import before, failing
from fake_file import FakeFile
from killed_writer import SETTINGS, batch, content, ends, run
from paths import SEGMENTS
from plain_logs import flip

import kafkarec
from kafkarec import CorruptRecordError, SegmentWriter
from kafkarec.format.side_files import AbortedTransaction
from kafkarec.sidecars import leader_epochs, producer_snapshot, txn_index
from kafkarec.sources import folders


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "orders-7"


@pytest.fixture
def written(folder):
    run(folder)
    return folder


def _last(folder):
    return sorted(folder.glob("*.log"))[-1]


@pytest.mark.parametrize("junk", [b"", b"\0" * 5000, b"\xff" * 7, b"junk" * 30, batch(900, 1)[:-2] + b"??"])
@pytest.mark.parametrize("torn", [0, 1, 30, 60, 61, 90])
def test_a_torn_end_is_cut_off_with_what_follows(torn, junk, written, caplog):
    whole, path = content(written), _last(written)
    data = path.read_bytes()
    size = path.write_bytes(data[: len(data) - torn] + junk)
    with SegmentWriter(written, **SETTINGS) as writer:
        assert writer.next_offset in (ends() if torn else ends()[-1:])
        assert writer.cut == size - writer.position and (torn or writer.cut == len(junk))
        assert not writer.cut or "truncated" in caplog.text
    run(written)
    assert content(written) == whole


@pytest.mark.parametrize("place", ["first segment", "its end", "last segment"])
def test_a_folder_damaged_in_the_middle_is_refused_and_unchanged(place, written):
    logs = sorted(written.glob("*.log"))
    path = logs[-1] if place == "last segment" else logs[0]
    assert len(kafkarec.scan(path.read_bytes())) > 1
    flip(path, -1 if place == "its end" else 80)
    before = content(written)
    with pytest.raises(CorruptRecordError, match="kafkarec salvage") as refused:
        SegmentWriter(written, **SETTINGS)
    assert refused.value.reason == "crc_mismatch" and refused.value.file == str(path)
    assert content(written) == before


def test_segments_that_overlap_are_refused(written):
    shutil.copy(_last(written), written / "00000000000000000001.log")
    with pytest.raises(CorruptRecordError, match="below offset"):
        SegmentWriter(written)


def test_falling_offsets_are_refused(folder):
    folder.mkdir()
    (folder / "00000000000000000000.log").write_bytes(batch(0) + batch(9) + batch(3))
    with pytest.raises(CorruptRecordError, match="offset 3 is below 12"):
        SegmentWriter(folder)


def test_an_unreadable_sector_is_not_cut_off(written, monkeypatch):
    last = _last(written)
    failing = FakeFile(last.read_bytes(), unreadable=[range(100, 101)])
    real = folders.LocalFile
    monkeypatch.setattr(folders, "LocalFile", lambda path, *more: failing if path == str(last) else real(path, *more))
    before = content(written)
    with pytest.raises(OSError, match="nothing was changed"):
        SegmentWriter(written)
    assert content(written) == before


SMALL = [".index", ".timeindex", ".txnindex", ".snapshot", "leader-epoch-checkpoint", "partition.metadata"]


@pytest.mark.parametrize("check_all", [True, False])
@pytest.mark.parametrize("state", ["missing", "spoiled", "empty"])
@pytest.mark.parametrize("kind", SMALL[:-1])
def test_side_files_are_repaired(kind, state, check_all, written):
    whole = content(written)
    for path in written.iterdir():
        if path.name.endswith(kind):
            if state == "missing":
                path.unlink()
            else:
                path.write_bytes(b"\xff" * 7 if state == "spoiled" else b"")
    if not check_all and kind in (".index", ".timeindex", ".txnindex"):
        for path in sorted(written.glob("*.log"))[:-1]:  # those of earlier segments are then not checked
            mended = path.with_suffix(kind)
            if mended.name in whole:
                mended.write_bytes(whole[mended.name])
    with SegmentWriter(written, check_all=check_all, **SETTINGS) as writer:
        assert writer.next_offset == ends()[-1]
    files = content(written)
    assert {name: data for name, data in files.items() if whole[name] != data} == {}
    assert files.keys() == whole.keys()


def test_unfinished_files_of_a_killed_writer_are_removed(written):
    whole = content(written)
    for name in ("00000000000000000000.index.part", "leader-epoch-checkpoint.part", "partition.metadata.part"):
        (written / name).write_bytes(b"half")
    (written / "mine.part").write_bytes(b"kept")
    SegmentWriter(written, **SETTINGS).close()
    assert content(written) == whole | {"mine.part": b"kept"}


def test_epochs_and_snapshots_beyond_the_end_are_removed(written):
    whole, end = content(written), ends()[-1]
    name = f"{end + 50:020d}.snapshot"
    (written / name).write_bytes(producer_snapshot.write([]))
    (written / leader_epochs.NAME).write_bytes(leader_epochs.write([(0, 0), (3, 25), (8, end), (9, end + 5)]))
    SegmentWriter(written, **SETTINGS).close()
    files = content(written)
    assert name not in files and files[leader_epochs.NAME] == whole[leader_epochs.NAME]


def test_a_log_with_another_start_offset(written):
    with pytest.raises(ValueError, match="begins at offset 0"):
        SegmentWriter(written, start_offset=3)
    SegmentWriter(written, start_offset=0).close()


def test_names_that_no_broker_uses_are_refused(written):
    (written / "orders-7-00000000000000000900.log").write_bytes(b"")
    with pytest.raises(ValueError, match="does not have a name as in a broker's folder"):
        SegmentWriter(written)


def test_an_interrupted_replacement_is_left_to_the_broker(written):
    (written / "00000000000000000000.log.swap").write_bytes(b"")
    with pytest.raises(ValueError, match="must first swap in"):
        SegmentWriter(written)


def test_a_folder_can_be_read_while_it_is_written(written):
    """The last segment's indexes are removed: old indexes with new batches would hide aborted transactions."""
    with SegmentWriter(written, **SETTINGS) as writer:
        assert not [suffix for suffix in (".index", ".txnindex") if _last(written).with_suffix(suffix).exists()]
        offset = writer.next_offset
        writer.append(batch(offset, transaction=9, epoch=3))
        writer.append(builders.end_marker(offset + 3, 9, commit=False, leader_epoch=3))
        with kafkarec.open(written) as log:
            assert len(log.read(start_offset=offset)) == 3
            assert len(log.read(start_offset=offset, isolation="read_committed")) == 0


def test_the_index_of_a_lost_segment_is_not_that_of_a_new_one(folder):
    """A consumer would skip the records of a transaction that it says was aborted."""
    SegmentWriter(folder).close()
    index = folder / "00000000000000000003.txnindex"
    index.write_bytes(txn_index.write([AbortedTransaction(9, 3, 8, 9)]))
    with SegmentWriter(folder, segment_bytes=len(batch())) as writer:
        writer.append(batch() + batch(3))
        assert not index.exists() and len(writer.segments) == 2
    assert kafkarec.verify(folder).findings == ()


def test_a_log_that_cannot_be_opened_keeps_its_indexes(written, monkeypatch):
    files = content(written)
    before(monkeypatch, os, "posix_fallocate", failing(errno.ENOSPC))
    with pytest.raises(OSError, match="No space"):
        SegmentWriter(written, preallocate=True, **SETTINGS)
    assert content(written) == files


REAL = ("all-codecs-0", "txn-0", "compacted-0", "logappend-0", "__consumer_offsets-0", "__cluster_metadata-0")


@pytest.mark.parametrize("name", REAL)
def test_a_real_brokers_folder(name, tmp_path):
    """Snapshots and epochs of a broker have more than its batches, and are kept; indexes are those of recovery."""
    folder = golden.copied(SEGMENTS / name, tmp_path / name)
    before, last = content(folder), _last(folder).stem
    with SegmentWriter(folder) as writer:
        assert writer.next_offset == kafkarec.open(folder).next_offset
    after = content(folder)
    assert after.keys() == before.keys()
    changed = {name for name, data in after.items() if before[name] != data}
    assert changed <= {f"{last}.index", f"{last}.timeindex"}
    assert kafkarec.verify(folder).damage == ()


def test_a_copy_of_a_running_broker(tmp_path):
    """Indexes that end in zeros, no snapshot at the end, no checkpoint: afterwards as after a clean shutdown."""
    with SegmentWriter(golden.copied(SEGMENTS / "logappend-live-0", tmp_path / "logappend-0")) as writer:
        assert writer.next_offset == 150
    files, stopped = content(tmp_path / "logappend-0"), content(SEGMENTS / "logappend-0")
    for name in files.keys() - {"partition.metadata"}:
        assert files[name] == stopped[name] or name.endswith("index"), name
