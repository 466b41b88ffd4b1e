"""verify on files that cannot be read, and on those that a broker replaces or removes meanwhile."""

import errno
import sys

import builders
import pytest
from plain_logs import batch, log
from unreadable_files import refuse_listing
from verify_reports import kinds, verified
from witness_folders import golden

import kafkarec
from kafkarec.sidecars import time_index


def test_a_folder_that_cannot_be_listed_is_reported_and_the_rest_is_verified(tmp_path, monkeypatch):
    for name in ("good-0", "locked-0"):
        log(tmp_path / name, [batch(0)])
    refuse_listing(monkeypatch, "locked-0", errno.EACCES)
    report = verified(tmp_path)
    [finding] = report.own_findings
    assert (finding.kind, finding.severity) == ("unreadable_folder", "error")
    assert "locked-0: cannot be listed: permission denied" in str(report)
    assert report.exit_status() == 3 and report.total("batches") == 1
    assert str(report).startswith("COULD NOT READ EVERYTHING: 1 file or folder could not be read completely")


def test_damage_beyond_a_limit_is_counted(tmp_path, monkeypatch):
    """The report on millions of damaged places fits in memory: the first are listed, all are counted."""
    monkeypatch.setattr("kafkarec.ops.verify.segment_check.MOST_DAMAGE", 3)
    batches = [batch(5 * i)[:-1] + b"\xff" if i % 2 else batch(5 * i) for i in range(21)]
    report = verified(log(tmp_path / "orders-0", batches))
    [file] = report.files
    assert (len(file.damage), file.damage_left_out, file.places, file.batches) == (3, 7, 10, 11)
    assert file.damaged_bytes == 10 * len(batches[0])
    assert "and 7 more ranges" in str(report) and "10 ranges" in str(report)


# ---- failures and changes meanwhile


def test_a_failure_of_the_second_reading_costs_the_comparisons_alone(tmp_path, monkeypatch):
    """The segments of a large remote log are read by several threads, and once more for the checks along it."""
    folder = golden(tmp_path, "txn-0")
    batches = verified(folder).total("batches")

    def failing(*_, **__):
        raise OSError(errno.EMFILE, "too many open files", "a socket")

    monkeypatch.setattr("kafkarec.ops.verify.run.is_local", lambda log: False)
    monkeypatch.setattr("kafkarec.ops.verify.run.walk", failing)
    report = verified(folder)
    [finding] = [one for one in report.findings if one.severity != "note"]
    assert (finding.kind, finding.severity) == ("sidefiles_unchecked", "anomaly")
    assert "a socket: too many open files" in finding.detail and report.total("batches") == batches
    for path in folder.glob("*index"):
        path.unlink()
    assert kinds(verified(folder)) == set(), "a remote log without indexes is not read again"


def test_a_file_that_a_broker_removes_meanwhile(tmp_path):
    """It was there when the folder was listed: retention, the log cleaner and topic deletion do that."""
    folder = log(tmp_path / "orders-0", [batch(0)], [batch(5)])
    with kafkarec.open(folder) as opened:
        assert len(opened.segments) == 2
        (folder / f"{0:020}.log").unlink()
        report = verified(opened)
    assert report.exit_status() == 0 and report.unread == {}
    assert "removed_meanwhile" in kinds(report, "note")


def test_a_segment_that_the_cleaner_replaces_meanwhile(tmp_path):
    """The new segment's index reaches behind the end of the old one, which was read."""
    folder = log(tmp_path / "orders-0", [batch(0)], [batch(20)])

    def clean(path, done, size):
        if path.endswith(f"{20:020}.log"):
            (folder / f"{0:020}.log").write_bytes(batch(0) + batch(10))
            (folder / f"{0:020}.timeindex").write_bytes(time_index.write([(builders.NOW + 4, 14)], 0))

    report = verified(folder, progress=clean)
    assert report.exit_status() == 0, str(report)


_watched = []


def _file_operation(event, arguments):
    if _watched and event in ("open", "os.scandir", "os.listdir"):
        _watched[0](str(arguments[0]))


@pytest.fixture(scope="module")
def file_operations():
    """What is called with the path before each file or folder is opened or listed. An audit hook stays for ever."""
    sys.addaudithook(_file_operation)
    return _watched


@pytest.mark.parametrize("name", ["txn-0", "all-codecs-0", "compacted-0"])
def test_a_topic_that_is_deleted_at_any_moment(tmp_path, name, file_operations):
    """A broker renames the partition's folder before any one of the files that verify opens."""
    topic = name.rpartition("-")[0]
    deleted = operation = 0
    while deleted == operation:
        folder = golden(tmp_path / f"data-{operation}", name)
        for checkpoint in ("replication-offset-checkpoint", "recovery-point-offset-checkpoint"):
            (folder.parent / checkpoint).write_text(f"0\n1\n{topic} 0 60\n")
        left = operation

        def opened(path, folder=folder):
            nonlocal left, deleted
            if path.startswith(str(folder.parent)):
                left -= 1
                if left == -1:
                    folder.rename(f"{folder}.{'a' * 32}-delete")
                    deleted += 1

        file_operations.append(opened)
        try:
            report = verified(folder.parent)
        finally:
            file_operations.clear()
        assert report.exit_status() == 0, f"deleted before operation {operation}: {report}"
        operation += 1
    assert deleted > 15
