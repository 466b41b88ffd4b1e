"""`salvage` under failures: a power failure at any system call, kills, a full disk, a failing source.

Reported work is on the disk, the next run does the rest, and the source is never changed.
"""

import errno
import hashlib
import io
import json
import os
import random
import resource
import shutil
from contextlib import suppress
from functools import partial
from itertools import count

import pytest
from failing_calls import before, failing, killed_before, run_in_child, without_power_from
from killed_writer import Disk
from plain_logs import batch, content, log
from salvage_runs import LARGE, WRITING, logs, make_source
from unreadable_files import refuse_listing, refused

import kafkarec
from kafkarec import salvage
from kafkarec.support import durable

UNFINISHED = ".unfinished"


@pytest.fixture
def source(tmp_path):
    return make_source(tmp_path / "data")


def check_reported_work(out, expected):
    """Files under their final names are complete, and those of partitions that are noted as finished exist."""
    if not out.exists():
        return
    files = logs(content(out))
    assert all(expected.get(name) == digest for name, digest in files.items())
    for note in (out / UNFINISHED).glob("*-*.json"):
        for report in json.loads(note.read_text()).get("reports", ()):
            for file in report["files"]:
                data = files[f"{report['folder']}/{file['name']}"]
                assert hashlib.sha256(data).hexdigest() == file["sha256"]


@pytest.mark.parametrize("group_files", [2, 96])
@pytest.mark.parametrize("as_partition", [False, True])
def test_a_power_failure_at_any_call(source, tmp_path, monkeypatch, group_files, as_partition):
    """What was not synced is lost in whole or in part. Files of a partition are synced together: none of them is noted,
    or has its final name, before it is on the disk."""
    rewritten = [
        batch(0, 3, transaction=7),
        batch(3, 3, producer_id=7, producer_epoch=0),  # in its transaction: removed for a broker
    ]
    log(source / "third-0", rewritten, [batch(6, 3)])
    monkeypatch.setattr(durable, "_GROUP_FILES", group_files)
    whole = tmp_path / "whole"
    salvage(source, whole, as_partition=as_partition)
    expected, rng = {name: data for name, data in content(whole).items() if name != "salvage.json"}, random.Random(3)
    names = tuple(name for name in WRITING if name != "close")
    call_number, failures = 1, 0
    while True:
        out, left = tmp_path / f"out{call_number}", tmp_path / f"left{call_number}"
        disk = Disk(out)
        with disk.watching():
            finished = without_power_from(call_number, names, partial(salvage, source, out, as_partition=as_partition))
        if out.exists():
            failures += 1
            disk.leave(left, rng)
            disk.forget()
            if not as_partition:  # else a log is rewritten
                check_reported_work(left, expected)
            if not (left / "salvage.json").exists():
                salvage(source, left, as_partition=as_partition)
                report = (left / "salvage.json").read_text().replace(str(left), str(whole))
                assert report == (whole / "salvage.json").read_text(), f"failed at call {call_number}"
            files = {
                name: data for name, data in content(left).items() if not name.startswith(("salvage.", UNFINISHED))
            }
            assert files == expected, f"failed at call {call_number}"
            shutil.rmtree(out)
            shutil.rmtree(left)
        if finished:
            break
        call_number += 4
    assert failures > 30


def test_killed_again_and_again(source, tmp_path):
    """Each run gets a little further than the one before, and the last one finishes."""
    salvage(source, tmp_path / "whole")
    out = tmp_path / "out"
    rng = random.Random(11)
    for attempt in range(200):
        call_number = rng.randint(5, 60 + 4 * attempt)  # a whole run makes some 220 calls
        if killed_before(call_number, WRITING, partial(salvage, source, out)) == 0:
            break
        check_reported_work(out, content(tmp_path / "whole"))
        if (out / "salvage.json").exists():
            break
    assert attempt > 10
    assert logs(content(out)) == logs(content(tmp_path / "whole"))


@pytest.mark.parametrize("limit", [0, 5_000, 25_000])
def test_a_full_disk_loses_nothing_that_was_reported(source, tmp_path, limit):
    """RLIMIT_FSIZE: the kernel refuses to let any file grow beyond a limit, so writes fail at any call."""
    out = tmp_path / "out"

    def action():
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        try:
            salvage(source, out)
        except OSError as error:
            os._exit(3 if error.errno in (errno.EFBIG, errno.ENOSPC) else 4)

    status = run_in_child(action)
    assert os.WEXITSTATUS(status) == 3
    salvage(source, tmp_path / "whole")
    check_reported_work(out, content(tmp_path / "whole"))
    assert not (out / "salvage.json").exists()
    assert not list(out.rglob("*.part")) if limit else True
    salvage(source, out)
    assert logs(content(out)) == logs(content(tmp_path / "whole"))


def test_a_failing_fsync_is_never_reported_as_done(source, tmp_path):
    """Each fsync of a run fails once. Unsynced data is neither reported as done nor under its final name."""
    whole = tmp_path / "whole"
    salvage(source, whole)
    expected = content(whole)
    for fail_at in count(1):
        out, calls = tmp_path / f"out{fail_at}", iter(range(1, fail_at + 1))
        with pytest.MonkeyPatch.context() as patch:
            before(patch, os, "fsync", failing(errno.EIO, lambda _, last=fail_at, calls=calls: next(calls, 0) == last))
            with suppress(OSError):
                salvage(source, out)
                break
        check_reported_work(out, expected)
        if not (out / "salvage.json").exists():
            salvage(source, out)
        assert logs(content(out)) == logs(expected)
    assert fail_at > 20


class FailingFile(io.BytesIO):
    """A file with unreadable ranges: (start, stop, number of reads that succeed first)."""

    name = "dying.img"

    def __init__(self, data, *bad):
        super().__init__(data)
        self.size, self.fetched = len(data), 0
        self._bad = [list(one) for one in bad]

    def read_at(self, position, length):
        for one in self._bad:
            if position < one[1] and one[0] < position + length:
                if one[2] == 0:
                    raise OSError(errno.EIO, "Input/output error")
                one[2] -= 1
        self.fetched += min(length, self.size - position)
        return self.getvalue()[position : position + length]


def test_a_source_that_fails_between_checking_and_copying(tmp_path):
    parts = [batch(i * 10, 10, value=LARGE) for i in range(12)]
    at = sum(map(len, parts[:5])) + 300
    opened = kafkarec.open(FailingFile(b"".join(parts), (at, at + 10, 1)), topic="orders", partition=0)
    report = salvage(opened, tmp_path / "out")
    (one,) = report.partitions
    kept = (tmp_path / "out" / "orders-0" / f"{0:020}.log").read_bytes()
    assert kept == b"".join(parts[:5] + parts[6:])
    assert [(d["reason"], d["position"]) for d in one.damage] == [("unreadable", sum(map(len, parts[:5])))]
    assert one.lost == [(50, 59)] and (one.batches, one.size) == (11, len(kept))


class ShrinkingFile(FailingFile):
    """It has no bytes where the other one cannot be read."""

    def read_at(self, position: int, length: int) -> bytes:
        try:
            return super().read_at(position, length)
        except OSError:
            return b""


@pytest.mark.parametrize("dry_run", [False, True])
@pytest.mark.parametrize("kind", [FailingFile, ShrinkingFile])
def test_a_source_that_fails_when_the_plan_is_read(tmp_path, kind, dry_run):
    parts = [batch(base, 10, transaction=7, base_sequence=base, value=LARGE) for base in range(0, 120, 10)]
    at = sum(map(len, parts[:5])) + 300
    for reads in range(1, 4):
        source = kafkarec.open(kind(b"".join(parts), (at, at + 10, reads)), topic="orders", partition=0)
        out = tmp_path / f"out{reads}"
        (one,) = salvage(source, out, new_cluster=True, dry_run=dry_run).partitions
        assert [damage["reason"] for damage in one.damage] == ["unreadable"] * (reads < 3 or not dry_run)


@pytest.mark.parametrize("read_once", [False, True])
def test_how_often_a_source_is_read(tmp_path, read_once):
    """Twice, as batches are copied when all are planned; with read_once each batch is copied when it has been read."""
    parts = [batch(i * 10, 10, value=LARGE) for i in range(300)]
    source = FailingFile(b"".join(parts))
    salvage(kafkarec.open(source, topic="orders", partition=0), tmp_path / "out", read_once=read_once)
    assert source.fetched <= 2.02 * source.size
    assert (tmp_path / "out" / "orders-0" / f"{0:020}.log").read_bytes() == source.getvalue()


def test_a_side_file_that_cannot_be_read_back_is_an_error_of_the_output(tmp_path, monkeypatch):
    """It has epochs that are in no batch."""
    log(tmp_path / "orders-0", [batch(0, 5)], epochs=[(0, 0), (3, 5)])
    refused(errno.EIO)(tmp_path / "out" / "orders-0" / "leader-epoch-checkpoint", monkeypatch)
    with pytest.raises(OSError, match=r"Input/output error: .*/out/orders-0/leader-epoch-checkpoint"):
        salvage(tmp_path / "orders-0", tmp_path / "out", as_partition=True)
    assert not (tmp_path / "out" / "salvage.json").exists()


def test_a_folder_that_cannot_be_listed_is_reported(source, tmp_path, monkeypatch):
    refuse_listing(monkeypatch, "orders-0", errno.EIO)
    report = salvage(source, tmp_path / "out")
    assert [one.folder for one in report.partitions] == ["other-1"]
    assert (str(source / "orders-0"), "cannot be listed: input/output error") in report.left_out
    assert report.unreadable == report.to_dict()["unreadable"] == [str(source / "orders-0")]
    assert not report.ok and "not read: " + str(source / "orders-0") in str(report)
    shutil.rmtree(source / "other-1")
    with pytest.raises(OSError, match="cannot be listed: input/output error"):
        salvage(source, tmp_path / "none")
