"""SegmentWriter: what it accepts and refuses, when it rolls, how it continues an existing folder."""

import fcntl
import gc
import os
import pickle
import shutil
import subprocess
import sys
import time
from pathlib import Path
from uuid import UUID

import builders
import plain_logs
import pytest
from killed_writer import GOOD, REFUSED, batch, content
from salvage_runs import run_in_child

import kafkarec
from kafkarec import SegmentWriter
from kafkarec.ops.segment_writer import AppendRefused
from kafkarec.sidecars import leader_epochs, partition_metadata, producer_snapshot

WEEK = 7 * 24 * 60 * 60 * 1000


def bases(writer):
    return [one.base_offset for one in writer.segments]


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "orders-7"


# What is written


def test_a_folder_like_a_brokers(folder):
    with SegmentWriter(folder) as writer:
        assert (writer.topic, writer.partition, writer.next_offset, writer.position) == ("orders", 7, 0, 0)
        assert writer.append(batch()) == range(3)
        assert writer.append(batch(3) + batch(6)) == range(3, 9)
        assert writer.position == 3 * len(batch()) and bases(writer) == [0]
        assert "1 segment, next offset 9" in repr(writer)
    assert sorted(content(folder)) == [
        "00000000000000000000.index",
        "00000000000000000000.log",
        "00000000000000000000.timeindex",
        "00000000000000000009.snapshot",
        "leader-epoch-checkpoint",
        "partition.metadata",
    ]
    assert (folder / "00000000000000000000.log").read_bytes() == batch() + batch(3) + batch(6)
    assert "closed" in repr(writer)
    report = kafkarec.verify(folder)
    assert not report.damage and not report.findings


def test_a_log_without_batches_is_one_empty_segment(folder):
    with SegmentWriter(folder, start_offset=40) as writer:
        assert writer.next_offset == 40
    assert kafkarec.open(folder).next_offset == 40
    assert (folder / "00000000000000000040.log").read_bytes() == b""
    with SegmentWriter(folder) as writer:
        assert writer.append(batch(40)) == range(40, 43) and bases(writer) == [40]


def test_the_topic_id(folder):
    made = UUID("a666f06b-0f09-4509-8209-fcef4dab6a13")
    SegmentWriter(folder, topic_id=made).close()
    assert partition_metadata.read((folder / partition_metadata.NAME).read_bytes()).uuid == made
    SegmentWriter(folder).close()
    SegmentWriter(folder, topic_id="pmbwaw8JRQmCCfzvTatqEw").close()
    assert partition_metadata.read((folder / partition_metadata.NAME).read_bytes()).uuid == made
    with pytest.raises(ValueError, match="the folder has the topic id"):
        SegmentWriter(folder, topic_id=UUID(int=5))
    with pytest.raises(ValueError, match="22 characters"):
        SegmentWriter(folder, topic_id="short")


def test_producers_epochs_and_aborted_transactions(folder):
    with SegmentWriter(folder) as writer:
        writer.append(batch(0, transaction=9))
        writer.append(builders.end_marker(3, 9, commit=False, leader_epoch=2))
    [entry] = producer_snapshot.read((folder / "00000000000000000004.snapshot").read_bytes())
    assert (entry.producer_id, entry.last_sequence, entry.current_txn_first_offset) == (9, 2, -1)
    assert leader_epochs.read((folder / leader_epochs.NAME).read_bytes()) == ((0, 0), (2, 3))
    assert len((folder / "00000000000000000000.txnindex").read_bytes()) == 34
    with kafkarec.open(folder) as log:
        assert len(log.read(isolation="read_committed")) == 0 and len(log.read()) == 3


# Offsets and epochs of a leader


def test_offsets_are_kept_or_assigned(folder):
    with SegmentWriter(folder) as writer:
        assert writer.append(batch(5)) == range(5, 8)
        assert writer.append(batch(100)) == range(100, 103)
        assert bases(writer) == [5]
    with SegmentWriter(folder, assign_offsets=True, leader_epoch=4) as writer:
        assert writer.append(batch(0) + batch(0) + builders.message(offset=9)) == range(103, 110)
    with kafkarec.open(folder) as log:
        table = log.scan()
        assert list(table.column("base_offset")) == [5, 100, 103, 106, 109]
        assert list(table.column("partition_leader_epoch")) == [0, 0, 4, 4, None]


def test_offsets_cannot_be_assigned_within_a_compressed_message_set(folder):
    wrapper = builders.wrapper([builders.message(offset=i) for i in range(3)], offset=2)
    with SegmentWriter(folder, assign_offsets=True) as writer, pytest.raises(AppendRefused, match="convert"):
        writer.append(wrapper)
    with SegmentWriter(folder) as writer:
        assert writer.append(wrapper) == range(3)


def test_no_offsets_above_the_largest_are_assigned(folder):
    with (
        SegmentWriter(folder, assign_offsets=True, start_offset=2**63 - 3) as writer,
        pytest.raises(AppendRefused, match=r"at byte 0 .*do not follow"),
    ):
        writer.append(batch(0) + batch(0))


def test_records_get_the_next_offsets(folder):
    rows = [(i, builders.NOW + i, b"k%d" % i, b"v", []) for i in range(5)]
    with SegmentWriter(folder) as writer:
        assert writer.write(rows, compression="zstd") == range(5)
        assert writer.write(rows) == range(5, 10)
        assert writer.write([(30, 1, None, None, [])], base_offset=None) == range(30, 31)
    with kafkarec.open(folder) as log:
        assert [record.key for record in log.read()] == [b"k0", b"k1", b"k2", b"k3", b"k4"] * 2 + [None]
        assert set(log.scan().column("partition_leader_epoch")) == {0}


def test_decoded_columns_are_written_as_they_were(folder):
    given = batch(0, epoch=3, producer_id=5, producer_epoch=1, base_sequence=7)
    with SegmentWriter(folder) as writer:
        writer.write(kafkarec.decode(given))
    assert (folder / "00000000000000000000.log").read_bytes() == given


# Rolling


def test_records_are_cut_into_batches_that_fit_a_segment(folder):
    with SegmentWriter(folder, segment_bytes=1000) as writer:
        writer.write([(i, builders.NOW, b"k", b"v" * 90, []) for i in range(100)])
        assert len(writer.segments) > 10 and all(one.size <= 1000 for one in writer.segments)


def test_without_record_times_the_clock_decides(folder, monkeypatch):
    clock = [builders.NOW]
    monkeypatch.setattr(time, "time_ns", lambda: clock[0] * 1_000_000)
    with SegmentWriter(folder) as writer:
        for offset in range(4):
            writer.append(builders.message(magic=0, offset=offset))
            clock[0] += WEEK // 2
        assert bases(writer) == [0, 3]


def test_a_segment_is_rolled_where_offsets_do_not_fit_an_index(folder):
    far = 2**31
    with SegmentWriter(folder) as writer:
        writer.append(batch(0, 1))
        writer.append(batch(far - 1, 1))
        writer.append(batch(far, 1))
        writer.append(builders.wrapper([builders.message(offset=0)], offset=3 * far))
        assert bases(writer) == [0, far, 2 * far + 1]  # an old message has only a last offset: minus 2^31-1


def test_a_batch_larger_than_a_segment_is_refused(folder):
    with SegmentWriter(folder, segment_bytes=200) as writer, pytest.raises(AppendRefused) as refused:
        writer.append(batch(9))
    again, size = pickle.loads(pickle.dumps(refused.value)), len(batch())
    assert (again.position, again.base_offset, again.size) == (0, 9, size)
    why = f"{size} bytes are above the limit of a segment (segment_bytes=200)"
    assert str(again) == f"the batch at byte 0 (base offset 9) was refused and nothing was written: {why}"
    assert again.why == why


def test_a_log_that_is_rolled_to_an_offset_ends_there(folder):
    with SegmentWriter(folder) as writer:
        writer.append(batch())
        for offset in (1, 3, 10, 10):
            writer.roll_to(offset)
        assert (writer.next_offset, bases(writer)) == (10, [0, 10])
        with pytest.raises(AppendRefused, match="ends before offset 10"):
            writer.append(batch(3))
    assert sorted(path.name for path in folder.glob("*.log")) == [f"{base:020}.log" for base in (0, 10)]
    with SegmentWriter(folder) as writer:
        assert writer.next_offset == 10 and writer.append(batch(10)) == range(10, 13)
    with pytest.raises(ValueError, match="is closed"):
        writer.roll_to(20)
    assert [one.kind for one in kafkarec.verify(folder).findings] == ["segment_gap"]


# Refused appends: no byte is written


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name, folder):
    data, kind, words, position = REFUSED[name]
    with SegmentWriter(folder) as writer:
        writer.append(batch(0))
        with pytest.raises(kind, match=words) as refused:
            writer.append(data)
        assert type(refused.value) is kind and refused.value.position == position
        assert (writer.next_offset, writer.position) == (3, len(batch()))
        writer.append(GOOD)
    assert (folder / "00000000000000000000.log").read_bytes() == batch(0) + GOOD


def test_a_changed_byte_is_refused_unless_no_checksum_covers_it(folder):
    good = batch(3)
    with SegmentWriter(folder) as writer:
        writer.append(batch(0))
        for position in range(8, len(good)):
            changed = builders.flipped(good, position)
            if not 12 <= position < 16:  # the leader epoch
                with pytest.raises((AppendRefused, kafkarec.KafkaRecordError)):
                    writer.append(changed)
        assert writer.position == len(batch(0))


def test_a_transaction_may_end_and_a_plain_batch_follow_in_one_append(folder):
    plain = batch(4, producer_id=9, producer_epoch=0, base_sequence=3)
    with SegmentWriter(folder) as writer:
        writer.append(batch(0, transaction=9))
    with SegmentWriter(folder) as writer:
        with pytest.raises(AppendRefused, match="transaction is open"):
            writer.append(plain)
        writer.append(builders.end_marker(3, 9, commit=True) + plain)


def test_control_records_of_kraft_that_cannot_be_read_are_refused(folder):
    bad = builders.batch(payload=b"xx", count=1, attributes=builders.CONTROL, base_offset=3)
    with SegmentWriter(folder) as writer:
        with pytest.raises(kafkarec.InvalidRecordError, match="record length"):
            writer.append(batch() + bad)
        assert writer.next_offset == 0


def test_one_append_of_more_batches_than_a_step_has_is_as_several(tmp_path):
    """In the first step a transaction begins that a later one aborts."""
    data = batch(0, transaction=9)
    plain = plain_logs.batch(0, 1)
    parts = [data, *(base.to_bytes(8, "big") + plain[8:] for base in range(3, 12_003))]
    parts.append(builders.end_marker(12_003, 9, commit=False))
    for name, pieces in {"one-0": [b"".join(parts)], "several-0": [b"".join(parts[:7000]), *parts[7000:]]}.items():
        with SegmentWriter(tmp_path / name, topic_id=UUID(int=1), segment_bytes=500_000) as writer:
            for piece in pieces:
                writer.append(piece)
            assert writer.next_offset == 12_004 and len(writer.segments) == 2
    assert content(tmp_path / "one-0") == content(tmp_path / "several-0")
    assert kafkarec.verify(tmp_path / "one-0").ok


@pytest.mark.parametrize(
    "setting, value, kind",
    [
        ("segment_bytes", 2**31, ValueError),
        ("segment_ms", 0, ValueError),
        ("index_interval_bytes", -1, ValueError),
        ("max_index_size", 23, ValueError),
        ("segment_bytes", None, TypeError),
    ],
)
def test_settings_out_of_range(setting, value, kind, folder):
    with pytest.raises(kind, match=setting):
        SegmentWriter(folder, **{setting: value})
    assert not folder.exists()


# Flush and close


def test_the_flushed_offset_is_reported(folder):
    with SegmentWriter(folder, segment_bytes=2 * len(batch())) as writer:
        assert writer.flush() == 0 == writer.recovery_point
        writer.append(batch(0))
        assert writer.recovery_point == 0
        assert writer.flush() == 3 == writer.recovery_point
        writer.append(batch(3) + batch(6))
        assert writer.recovery_point == 6  # rolled: the previous segment is on the disk
    assert writer.recovery_point == 9


def test_a_closed_writer(folder):
    writer = SegmentWriter(folder)
    writer.append(batch())
    writer.close()
    writer.close()
    for call in (lambda: writer.append(batch(3)), writer.flush, lambda: writer.write([])):
        with pytest.raises(ValueError, match="closed"):
            call()


def test_a_forgotten_writer_warns_and_releases_its_files(folder):
    writer = SegmentWriter(folder)
    writer.append(batch())
    with pytest.warns(ResourceWarning, match="not closed"):
        del writer
        gc.collect()
    with SegmentWriter(folder) as writer:
        assert writer.next_offset == 3


def test_preallocated_bytes_are_released(folder):
    writer = SegmentWriter(folder, preallocate=True, segment_bytes=100_000)
    writer.append(batch())
    path = Path(writer.segments[0].path)
    assert path.stat().st_size == 100_000
    shutil.copytree(folder, folder.with_name("killed-7"))
    writer.close()
    assert path.read_bytes() == batch()
    with SegmentWriter(folder.with_name("killed-7")) as writer:
        assert writer.next_offset == 3 and writer.cut == 100_000 - len(batch())


# One writer at a time


def test_two_writers_cannot_share_a_folder(folder):
    with SegmentWriter(folder), pytest.raises(BlockingIOError, match="another writer"):
        SegmentWriter(folder)
    SegmentWriter(folder).close()
    assert ".kafkarec.lock" not in content(folder)


def test_a_forked_child_can_neither_write_nor_release_the_lock(folder):
    with SegmentWriter(folder) as writer:

        def action():
            with pytest.raises(ValueError, match="belongs to the process"):
                writer.append(batch())
            writer.__del__()
            os._exit(5)

        assert os.waitstatus_to_exitcode(run_in_child(action)) == 5
        with pytest.raises(BlockingIOError):
            SegmentWriter(folder)
        writer.append(batch())


def test_a_folder_of_partitions_is_refused(folder):
    SegmentWriter(folder).close()
    before = sorted(folder.parent.iterdir())
    with pytest.raises(ValueError, match="folder with partition folders"):
        SegmentWriter(folder.parent)
    data = folder.parent / "data"
    data.mkdir()
    (data / "meta.properties").write_text("version=1\n")
    with pytest.raises(ValueError, match="folder with partition folders"):
        SegmentWriter(data)
    assert sorted(folder.parent.iterdir()) == [data, *before]


_TAKE = """
import fcntl, sys
file = open(sys.argv[1], "r+")
fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
print("taken", flush=True)
input()
"""


def test_a_running_broker_keeps_writers_out_and_the_other_way_round(folder):
    lock = folder.parent / ".lock"
    lock.touch()

    def broker():
        return subprocess.Popen(
            [sys.executable, "-c", _TAKE, str(lock)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    running = broker()
    assert running.stdout is not None and running.stdout.readline() == "taken\n"
    with pytest.raises(BlockingIOError, match="broker"):
        SegmentWriter(folder)
    running.communicate("\n")
    with SegmentWriter(folder), SegmentWriter(folder.with_name("orders-8")):
        kept_out = broker()
        assert kept_out.communicate()[0] == "" and kept_out.returncode == 1
    fcntl.lockf(lock.open("r+"), fcntl.LOCK_EX | fcntl.LOCK_NB)
