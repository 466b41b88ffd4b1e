"""verify while a broker truncates a log: it cuts the preallocated zeros of a segment that it completes, and the batches
that the leader does not have. Nothing of that is damage or a loss."""

import os

import pytest
from failing_calls import before
from plain_logs import batch, log, sequenced
from verify_reports import kinds, verified

from kafkarec.sidecars import producer_snapshot

_ZEROS = 1 << 20


def _truncating(monkeypatch, truncate, times=1):
    """Call `truncate` after a file was opened, the first `times` times; returns a list that has the size of each."""
    done, real = [], os.lseek

    def seek(descriptor, position, whence):
        size = real(descriptor, position, whence)
        if len(done) < times:
            done.append(size)
            truncate()
        return size

    monkeypatch.setattr(os, "lseek", seek)
    return done


@pytest.mark.parametrize("sequences", [False, True])
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("kept", [0, 1, 2, 3])
def test_a_log_that_gets_shorter(tmp_path, monkeypatch, sequences, threads, kept):
    batches = [batch(5 * i) for i in range(3)]
    folder = log(tmp_path / "orders-0", [*batches, bytes(_ZEROS)])
    path = folder / f"{0:020}.log"
    left = sum(map(len, batches[:kept]))
    done = _truncating(monkeypatch, lambda: os.truncate(path, left))
    report = verified(folder, sequences=sequences, threads=threads)
    assert report.exit_status() == 0 and kinds(report) <= {"empty_file"}, str(report)
    [file] = report.files
    assert (file.size, file.batches) == (left, kept)
    assert done == [len(b"".join(batches)) + _ZEROS]


def test_a_log_that_was_truncated_and_written_to(tmp_path, monkeypatch):
    """A follower truncates, and fetches other batches; each producer's sequences are checked along the new ones."""
    folder = log(tmp_path / "orders-0", [sequenced(5 * i, 5 * i) for i in range(9)])
    path = folder / f"{0:020}.log"

    def truncate():
        path.write_bytes(b"".join(sequenced(5 * i, 5 * i) for i in range(4)))

    _truncating(monkeypatch, truncate)
    report = verified(folder, sequences=True)
    assert report.exit_status() == 0 and not kinds(report) and [one.batches for one in report.files] == [4]


def test_a_leader_epoch_that_begins(tmp_path, monkeypatch):
    """A broker enters it, and appends batches of it, after the entries were read."""
    folder = log(tmp_path / "orders-0", [batch(0)])
    epochs = folder / "leader-epoch-checkpoint"
    epochs.write_text("0\n1\n0 0\n")

    def begin():
        (folder / "new").write_text("0\n2\n0 0\n1 5\n")
        (folder / "new").rename(epochs)
        with (folder / f"{0:020}.log").open("ab") as file:
            file.write(batch(5, epoch=1))

    done = []

    def opened(path, *_):
        if not done and str(path).endswith(".log"):
            done.append(True)
            begin()

    before(monkeypatch, os, "open", opened)
    report = verified(folder)
    assert done and report.exit_status() == 0 and [one.batches for one in report.files] == [2], str(report)


def test_a_snapshot_that_is_replaced(tmp_path, monkeypatch):
    """A broker truncates the log, and appends as many bytes with other sequences, between the reading of the batches
    and that of the snapshot."""
    folder = log(tmp_path / "orders-0", [sequenced(0, 0)])
    path, snapshot, later = folder / f"{0:020}.log", folder / f"{5:020}.snapshot", tmp_path / "later"
    first = producer_snapshot.SnapshotEntry(1, 0, 4, 4, 4, 1_700_000_000_004, -1, -1)
    snapshot.write_bytes(producer_snapshot.write([first]))
    later.write_bytes(producer_snapshot.write([first._replace(last_sequence=11)]))
    assert not kinds(verified(folder), "error")

    def opened(name, *_):
        if str(name).endswith(".snapshot") and later.exists():
            path.write_bytes(sequenced(0, 7))
            later.rename(snapshot)

    before(monkeypatch, os, "open", opened)
    report = verified(folder)
    assert not later.exists() and report.exit_status() == 0 and not kinds(report), str(report)


def test_a_log_that_is_changed_every_time(tmp_path, monkeypatch):
    """Nothing is known of it then; it is said, and ends."""
    folder = log(tmp_path / "orders-0", [batch(0), bytes(_ZEROS)])
    path = folder / f"{0:020}.log"
    done = _truncating(monkeypatch, lambda: os.truncate(path, path.stat().st_size - 4096), times=9)
    report = verified(folder)
    assert len(done) == 4, "the log is read twice, and each time the zeros at its end are looked at again"
    assert report.exit_status() == 0 and kinds(report, "note") == {"changed_meanwhile"}
    assert "changed twice while it was verified" in str(report)


def test_a_witness_of_what_was_truncated_meanwhile(tmp_path, monkeypatch):
    """The producer snapshot was there before the log was read, and is gone as the records that it speaks of."""
    folder = log(tmp_path / "orders-0", [batch(0), batch(5)])
    snapshot = folder / f"{10:020}.snapshot"
    snapshot.touch()
    path = folder / f"{0:020}.log"

    def truncate():
        snapshot.unlink()
        os.truncate(path, len(batch(0)))

    done = _truncating(monkeypatch, truncate)
    assert verified(folder).exit_status() == 0 and done
    snapshot.write_text("")
    report = verified(folder)
    assert report.exit_status() != 0 and "end_lost" in kinds(report)
