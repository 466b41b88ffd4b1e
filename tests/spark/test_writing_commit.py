"""Staging by the tasks and publication by the driver, without Spark; a crash at every step, and what readers see
then."""

from __future__ import annotations

import json
import os
import shutil
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import kafkarec

pytest.importorskip("pyspark", reason="pyspark is not installed")
pytest.importorskip("pyarrow", reason="pyarrow is not installed")

import pyarrow as pa
from publish_jobs import (
    NOW,
    Crash,
    content,
    crash_at,
    crashing,
    job,
    leftovers,
    numbered,
    publish,
    publisher,
    stage,
    staging_of,
    table,
)
from pyspark.sql import types as T

from spark_udfs.source import KafkarecDataSource, destination, folders, staging
from spark_udfs.source.publishing import UnfinishedCommit


def test_staged_data_is_invisible_until_it_is_published(tmp_path: Path) -> None:
    write_job = job(tmp_path)
    staged = stage(write_job, 0, {"orders-0": ["a", "b"], "orders-1": ["c"]})
    assert content(tmp_path) == {} and leftovers(tmp_path) != []
    partitions = publisher(write_job).commit(write_job, staged)
    assert content(tmp_path) == {"orders-0": numbered("a", "b"), "orders-1": numbered("c")}
    assert partitions == [
        {"name": "orders-0", "records": 2, "first_offset": 0, "next_offset": 2},
        {"name": "orders-1", "records": 1, "first_offset": 0, "next_offset": 1},
    ]
    assert not (tmp_path / "_temporary").exists()
    assert json.loads((tmp_path / "_SUCCESS").read_text())["partitions"]["orders-1"]["next_offset"] == 1


def test_tasks_are_published_in_order_and_appends_follow(tmp_path: Path) -> None:
    write_job = job(tmp_path)
    staged = (
        stage(write_job, 1, {"t-0": ["c", "d"]})
        + stage(write_job, 0, {"t-0": ["a", "b"]})
        + stage(write_job, 2, {"t-0": ["e"]})
    )
    publisher(write_job).commit(write_job, staged)
    publish(tmp_path, "job-2", {"t-0": ["f"], "t-1": ["g"]})
    assert content(tmp_path) == {"t-0": numbered(*"abcdef"), "t-1": numbered("g")}
    assert [each.name for each in (tmp_path / "t-0").glob("*.log")] == ["00000000000000000000.log"]


def test_a_dynamic_overwrite_replaces_only_the_written_partitions(tmp_path: Path) -> None:
    publish(tmp_path, "job-1", {"t-0": ["a", "b"], "t-1": ["c"]})
    topic_id = (tmp_path / "t-0" / "partition.metadata").read_bytes()
    publish(tmp_path, "job-2", {"t-0": ["d"]}, overwrite="dynamic")
    assert content(tmp_path) == {"t-0": numbered("d"), "t-1": numbered("c")}
    assert (tmp_path / "t-0" / "partition.metadata").read_bytes() == topic_id


def test_a_reader_during_overwrites_finds_the_whole_old_or_the_whole_new_log(tmp_path: Path) -> None:
    values = [[f"{version}/{number}" for number in range(300)] for version in range(12)]
    versions = [numbered(*each) for each in values]
    found: list[int] = []
    read, stop = threading.Semaphore(0), threading.Event()

    def reading() -> None:
        while not stop.is_set():
            with kafkarec.open(tmp_path / "t-0") as log:
                rows = [(row.offset, (row.value or b"").decode()) for row in log.read()]
            found.append(versions.index(rows) if rows in versions else -1)
            read.release()

    publish(tmp_path, "job-0", {"t-0": values[0], "t-1": ["a"]})
    reader = threading.Thread(target=reading)
    reader.start()
    try:
        for version in range(1, len(versions)):
            assert read.acquire(timeout=60)
            publish(tmp_path, f"job-{version}", {"t-0": values[version]}, overwrite="static")
    finally:
        stop.set()
        reader.join(60)
    assert found == sorted(found) and found[0] == 0 and len(set(found)) > 1


def test_a_static_overwrite_replaces_all_partitions_of_a_topic(tmp_path: Path) -> None:
    publish(tmp_path, "job-1", {"t-0": ["a", "b"], "t-1": ["c"], "t-x-1": ["x"], "u-0": ["k"]})
    (tmp_path / "t-7").mkdir()  # not a log: it is left alone
    (tmp_path / "t-7" / "notes.txt").write_text("mine")
    topic_id = (tmp_path / "t-1" / "partition.metadata").read_bytes()
    publish(tmp_path, "job-2", {"t-0": ["d"]}, overwrite="static")
    others = {"t-7": list[Any](), "t-x-1": numbered("x"), "u-0": numbered("k")}
    assert content(tmp_path) == {"t-0": numbered("d"), "t-1": [], **others}
    assert {file.name: file.read_bytes() for file in (tmp_path / "t-1").iterdir()} == {
        "partition.metadata": topic_id,
        f"{0:020}.log": b"",
    }
    assert (tmp_path / "t-7" / "notes.txt").read_text() == "mine"
    publish(tmp_path, "job-3", {"t-1": ["e"]})
    assert content(tmp_path) == {"t-0": numbered("d"), "t-1": numbered("e"), **others}
    publish(tmp_path, "job-4", {}, overwrite="static", topic="t")
    assert content(tmp_path) == {"t-0": [], "t-1": [], **others}
    done = json.loads((tmp_path / "_SUCCESS").read_text())["partitions"]
    nothing = {"records": 0, "first_offset": 0, "next_offset": 0}
    assert done == {"t-0": nothing, "t-1": nothing}
    with pytest.raises(ValueError, match="no topic is known"):
        publish(tmp_path, "job-5", {}, overwrite="static")
    publish(tmp_path, "job-6", {}, overwrite="dynamic", topic="u")
    assert content(tmp_path) == {"t-0": [], "t-1": [], **others}


def test_new_partitions_get_the_topic_id_of_existing_ones(tmp_path: Path) -> None:
    with kafkarec.SegmentWriter(tmp_path / "t-5") as writer:
        writer.write([(0, NOW, None, b"x", [])])
    publish(tmp_path, "job-1", {"t-0": ["a"], "u-0": ["b"], "u-1": ["c"]})
    ids = {name: (tmp_path / name / "partition.metadata").read_text() for name in ("t-0", "t-5", "u-0", "u-1")}
    assert ids["t-0"] == ids["t-5"] != ids["u-0"] == ids["u-1"]


def test_a_log_of_a_later_leader_keeps_its_epochs_and_its_records(tmp_path: Path) -> None:
    with kafkarec.SegmentWriter(tmp_path / "t-0", leader_epoch=7) as writer:
        writer.write([(0, NOW, None, b"x", []), (1, NOW, None, b"y", [])])
    write_job = job(tmp_path)
    publisher(write_job).commit(write_job, stage(write_job, 0, {"t-0": ["a"]}) + stage(write_job, 1, {"t-0": ["b"]}))
    assert content(tmp_path) == {"t-0": numbered("x", "y", "a", "b")}
    with kafkarec.open(tmp_path / "t-0") as log:
        assert set(log.scan().column("partition_leader_epoch")) == {7}


def test_given_offsets_and_their_gaps_are_kept(tmp_path: Path) -> None:
    write_job = job(tmp_path)
    publisher(write_job).commit(write_job, stage(write_job, 0, {"t-0": ["a", "b"]}, {"t-0": [100, 105]}))
    again = job(tmp_path, "job-2")
    publisher(again).commit(again, stage(again, 0, {"t-0": ["c"]}, {"t-0": [110]}))
    assert content(tmp_path) == {"t-0": [(100, "a"), (105, "b"), (110, "c")]}


def test_offsets_below_the_end_of_the_log_are_refused_and_nothing_changes(tmp_path: Path) -> None:
    publish(tmp_path, "job-1", {"t-0": ["a", "b"]})
    write_job = job(tmp_path, "job-2")
    staged = stage(write_job, 0, {"t-0": ["c"], "t-1": ["d"]}, {"t-0": [1]})
    with pytest.raises(ValueError, match=r"t-0: .*offsets 1 to 1 do not follow.*df\.drop\(.offset.\)"):
        publisher(write_job).commit(write_job, staged)
    publisher(write_job).abort(write_job)
    assert content(tmp_path) == {"t-0": numbered("a", "b")}
    assert leftovers(tmp_path) == []


def test_two_tasks_with_offsets_for_one_partition_are_refused_with_advice(tmp_path: Path) -> None:
    write_job = job(tmp_path)
    staged = stage(write_job, 0, {"t-0": ["a"]}, {"t-0": [0]}) + stage(write_job, 1, {"t-0": ["b"]}, {"t-0": [1]})
    with pytest.raises(ValueError, match=r"2 tasks have records with offsets for t-0: spark_udfs\.write_log"):
        publisher(write_job).commit(write_job, staged)
    assert content(tmp_path) == {}


def test_descending_offsets_within_a_task_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"t-0: .*write_log"):
        stage(job(tmp_path), 0, {"t-0": ["a", "b"]}, {"t-0": [5, 4]})


@pytest.mark.parametrize("topic", ["../out", "a/b", "", ".", "..", "x" * 250, "sp ace", None])
def test_invalid_topic_names_are_refused(tmp_path: Path, topic: Any) -> None:
    with staging_of(job(tmp_path)) as writer, pytest.raises(ValueError, match="topic"):
        writer.put(topic, 0, table(["a"]), False)


def test_a_part_that_no_message_names_is_not_published(tmp_path: Path) -> None:
    """As after the first attempt of a repeated task, or a speculative attempt."""
    write_job = job(tmp_path)
    stage(write_job, 0, {"t-0": ["lost"]})
    publisher(write_job).commit(write_job, stage(write_job, 0, {"t-0": ["a"]}))
    assert content(tmp_path) == {"t-0": numbered("a")} and leftovers(tmp_path) == []


def test_a_task_that_outlives_its_job_publishes_nothing(tmp_path: Path) -> None:
    write_job = job(tmp_path)
    publisher(write_job).begin(write_job)
    with (
        pytest.raises(FileNotFoundError, match="the job has ended"),
        publisher(write_job).staging_writer(write_job, 0, 0) as early,
    ):
        early.put("t", 0, table(["a"]), False)
        early._flush_all()
        publisher(write_job).abort(write_job)
        early.put("t", 1, table(["b"]), False)
        early.close()
    late = publisher(write_job).staging_writer(write_job, 1, 0)
    with pytest.raises(FileNotFoundError, match="the job has ended"), late:
        pass
    assert leftovers(tmp_path) == [] and content(tmp_path) == {}


def test_more_partitions_than_permitted_open_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staging, "MAX_OPEN_WRITERS", 2)
    monkeypatch.setattr(staging, "FLUSH_BYTES", 1)
    write_job = job(tmp_path, batch_size=1)
    with staging_of(write_job) as one:
        for number in range(20):
            one.put("t", number % 5, table([str(number)]), False)
        staged = one.close()
    publisher(write_job).commit(write_job, staged)
    assert content(tmp_path) == {f"t-{n}": numbered(*(str(m) for m in range(n, 20, 5))) for n in range(5)}


def test_a_large_last_segment_stays_unchanged_and_a_new_one_is_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folders, "SMALL_SEGMENT", 100)
    publish(tmp_path, "job-1", {"t-0": ["a" * 3000]}, batch_size=100)
    first = tmp_path / "t-0" / "00000000000000000000.log"
    before = (first.stat().st_ino, first.read_bytes())
    publish(tmp_path, "job-2", {"t-0": ["b"]}, batch_size=100)
    assert (first.stat().st_ino, first.read_bytes()) == before
    assert sorted(each.name for each in (tmp_path / "t-0").glob("*.log")) == [f"{0:020}.log", f"{1:020}.log"]
    assert content(tmp_path) == {"t-0": numbered("a" * 3000, "b")}
    publish(tmp_path, "job-3", {"t-0": ["c" * 9000]}, batch_size=100)  # larger than that segment
    assert content(tmp_path) == {"t-0": numbered("a" * 3000, "b", "c" * 9000)}


@pytest.mark.parametrize("bad", [False, True], ids=["zeros", "wrong checksum"])
def test_a_bad_last_batch_is_truncated_in_the_copy_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bad: bool
) -> None:
    monkeypatch.setattr(folders, "SMALL_SEGMENT", 100)
    publish(tmp_path, "job-1", {"t-0": ["a" * 3000]}, batch_size=100)
    log = tmp_path / "t-0" / "00000000000000000000.log"
    whole = log.read_bytes()
    log.write_bytes(whole + ((1).to_bytes(8, "big") + whole[8:-1] + b"?" if bad else b"\0" * 20))
    write_job = job(tmp_path, "job-2", batch_size=100)
    staged = stage(write_job, 0, {"t-0": ["b"]})
    size, inode = log.stat().st_size, log.stat().st_ino
    with (
        pytest.raises(Crash),
        crashing(monkeypatch, lambda name, words: words[0].endswith("commit.json.part")),
    ):
        publisher(write_job).commit(write_job, staged)
    assert (log.stat().st_size, log.stat().st_ino) == (size, inode)
    publisher(write_job).commit(write_job, staged)
    assert content(tmp_path) == {"t-0": numbered("a" * 3000, "b")}


def test_a_concurrent_foreign_write_is_not_overwritten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    publish(tmp_path, "job-1", {"t-0": ["a"]})
    write_job = job(tmp_path, "job-2")
    staged = stage(write_job, 0, {"t-0": ["b"]})
    with kafkarec.SegmentWriter(tmp_path / "t-0") as writer:
        with pytest.raises(BlockingIOError, match="another writer"):
            publisher(write_job).commit(write_job, staged)
        writer.write([(0, NOW, None, b"x", [])])
    put = folders.SharedFolder.put

    def late(self: folders.SharedFolder, name: str, data: bytes) -> None:
        put(self, name, data)
        if name.endswith("commit.json"):
            with kafkarec.SegmentWriter(tmp_path / "t-0") as writer:
                writer.write([(0, NOW, None, b"y", [])])

    with monkeypatch.context() as patch:
        patch.setattr(folders.SharedFolder, "put", late)
        with pytest.raises(
            UnfinishedCommit, match=r"another writer has changed this folder.* move it elsewhere: .*t-0"
        ):
            publisher(write_job).commit(write_job, staged)
    with pytest.raises(UnfinishedCommit, match="job-2 is committed, being finished: do not run it again"):
        publisher(write_job).abort(write_job)
    assert content(tmp_path) == {"t-0": numbered("a", "x", "y")}
    with pytest.raises(UnfinishedCommit, match="nothing of this job is written; an earlier job, job-2 is committed"):
        publish(tmp_path, "job-3", {"t-1": ["c"]})
    assert content(tmp_path) == {"t-0": numbered("a", "x", "y")}
    (tmp_path / "t-0").rename(tmp_path / "changed meanwhile")
    publish(tmp_path, "job-4", {"t-1": ["c"]})
    assert content(tmp_path) == {"t-0": numbered("a", "x", "b"), "t-1": numbered("c")}


@pytest.mark.parametrize("seen", [0, 40])
def test_staged_files_that_are_not_whole_change_nothing(seen: int, tmp_path: Path) -> None:
    """A listing may lag behind, a file may be cut: without the largest batch a last segment is linked, not copied."""
    publish(tmp_path, "job-1", {"t-0": ["a"]})
    [live] = (tmp_path / "t-0").glob("*.log")
    with live.open("ab") as log:
        log.write(bytes(40))  # what another program has begun to write
    before = live.read_bytes()
    write_job = job(tmp_path, "job-2")
    staged = stage(write_job, 0, {"t-0": ["b"]})
    [log] = (Path(write_job.folder) / staged[0].folder).glob("*.log")
    log.write_bytes(log.read_bytes()[:seen])
    with pytest.raises(FileNotFoundError, match="is not as its task has written it"):
        publisher(write_job).commit(write_job, staged)
    assert live.read_bytes() == before


def test_staging_that_the_driver_cannot_see_is_reported(tmp_path: Path) -> None:
    write_job = job(tmp_path / "driver")
    staged = stage(job(tmp_path / "executor"), 0, {"t-0": ["a"]})
    with pytest.raises(FileNotFoundError, match="must be a folder that the driver and all executors share"):
        publisher(write_job).commit(write_job, staged)


# ---- crashes ------------------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def _no_fsync(monkeypatch: pytest.MonkeyPatch) -> None:
    """Skip fsync: in these tests processes crash, machines do not."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


FIRST = {"t-0": ["a", "b"], "t-1": ["c"], "t-9": ["i"], "u-0": ["j"]}
OLD = {"t-0": numbered("a", "b"), "t-1": numbered("c"), "t-9": numbered("i"), "u-0": numbered("j")}
ADDED = OLD | {"t-0": numbered("a", "b", "d", "e"), "t-1": numbered("c", "f"), "t-2": numbered("g", "h")}
# A static overwrite leaves the partition that the new rows do not have empty, and other topics as they are.
REPLACED = OLD | {"t-0": numbered("d", "e"), "t-1": numbered("f"), "t-2": numbered("g", "h"), "t-9": []}


BOTH_WAYS = pytest.mark.parametrize("two_renames", [False, True])
ALL_WAYS = pytest.mark.parametrize(
    ("two_renames", "overwrite"), [(False, None), (True, None), (False, "static"), (True, "static")]
)


def without_exchange(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folders, "exchange", lambda one, other_query: False)


def crashed_commit(
    path: Path, monkeypatch: pytest.MonkeyPatch, number: int, two_renames: bool, overwrite: str | None
) -> Any:
    """A job that crashed at a step of its commit, its staged parts, and its recorded steps if the commit completed."""
    shutil.rmtree(path, ignore_errors=True)
    publish(path, "job-1", FIRST)
    write_job = job(path, "job-2", overwrite=overwrite)
    staged = stage(write_job, 0, {"t-0": ["d"], "t-1": ["f"], "t-2": ["g"]}) + stage(
        write_job, 1, {"t-0": ["e"], "t-2": ["h"]}
    )
    completed = None
    try:
        with crash_at(monkeypatch, number) as crash:
            publisher(write_job).commit(write_job, staged)
            completed = crash
    except Crash:
        readable, new = content(path), REPLACED if overwrite else ADDED
        for name in ("t-0", "t-1", "t-2", "t-9", "u-0"):
            allowed = [OLD.get(name), new[name]]
            if two_renames:
                allowed.append(None)  # the partition is missing between the two renames
            assert readable.pop(name, None) in allowed, (number, name)
        assert readable == {}
        done = json.loads((path / "_SUCCESS").read_text())["job"] if (path / "_SUCCESS").exists() else None
        assert content(path) == {"job-1": OLD, "job-2": new}.get(done, content(path))
    return write_job, staged, completed


def steps(path: Path, monkeypatch: pytest.MonkeyPatch, overwrite: str | None) -> list[int]:
    """Each step from the commit point on, and some before it; the last number is beyond the end."""
    whole = crashed_commit(path, monkeypatch, -1, False, overwrite)[2]
    decision = whole.names.index("commit.json.part") - 1
    return [*range(0, decision, 5), *range(decision, whole.calls + 1)]


@ALL_WAYS
def test_a_crashed_commit_is_finished_by_a_second_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, two_renames: bool, overwrite: str | None
) -> None:
    if two_renames:
        without_exchange(monkeypatch)
    for number in steps(tmp_path / "out", monkeypatch, overwrite):
        write_job, staged, completed = crashed_commit(tmp_path / "out", monkeypatch, number, two_renames, overwrite)
        publisher(write_job).commit(write_job, staged)
        assert content(tmp_path / "out") == (REPLACED if overwrite else ADDED), number
        assert leftovers(tmp_path / "out") == [], number
        assert json.loads((tmp_path / "out" / "_SUCCESS").read_text())["job"] == "job-2"
    assert completed is not None and number > 40


@ALL_WAYS
def test_a_crashed_commit_is_finished_by_abort_or_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, two_renames: bool, overwrite: str | None
) -> None:
    """As is decided by the journal. A sweep and the next job do the same."""
    if two_renames:
        without_exchange(monkeypatch)
    path = tmp_path / "out"
    for number in steps(path, monkeypatch, overwrite):
        write_job, _, completed = crashed_commit(path, monkeypatch, number, two_renames, overwrite)
        decided = completed is not None or is_decided(path, "job-2")
        new, mine = REPLACED if overwrite else ADDED, dict[str, list[tuple[int, str]]]()
        if number % 3 == 0:
            publisher(write_job).abort(write_job)
        elif number % 3 == 1:
            swept = destination.publisher(str(path)).sweep(0)
            assert {name.removesuffix(".dead") for name in swept} <= {"job-2"}
        else:
            publish(path, "job-3", {"t-3": ["y"]})
            mine = {"t-3": numbered("y")}
        assert content(path) == (new if decided else OLD) | mine, number
        if number % 3 != 2:  # the next job does not know whether one that has only staged is still running
            assert leftovers(path) == [], number
            assert json.loads((path / "_SUCCESS").read_text())["job"] == ("job-2" if decided else "job-1")
    assert completed is not None


def is_decided(path: Path, name: str) -> bool:
    """Whether a job is committed: its journal exists, or it is done."""
    success = path / "_SUCCESS"
    done = success.exists() and json.loads(success.read_text())["job"] == name
    return done or (path / "_temporary" / name / "commit.json").exists()


@BOTH_WAYS
def test_a_crashed_finish_is_continued_by_the_next_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, two_renames: bool
) -> None:
    if two_renames:
        without_exchange(monkeypatch)
    path = tmp_path / "out"
    number, completed = 0, False
    while not completed:
        shutil.rmtree(path, ignore_errors=True)
        publish(path, "job-1", FIRST)
        write_job = job(path, "job-2", overwrite="static")
        rows = {"t-0": ["d"], "t-1": ["f"], "t-2": ["g"]}
        with pytest.raises(Crash), crashing(monkeypatch, lambda name, words: str(path / "t-1") in words[:2]):
            publisher(write_job).commit(write_job, stage(write_job, 0, rows))
        assert content(path) != OLD
        try:
            with crash_at(monkeypatch, number):
                publisher(write_job).abort(write_job)
                completed = True
        except Crash:
            pass
        publish(path, "job-3", {"t-1": ["z"], "t-3": ["y"]})
        replaced = {"t-0": numbered("d"), "t-1": numbered("f", "z"), "t-2": numbered("g"), "t-9": []}
        assert content(path) == OLD | replaced | {"t-3": numbered("y")}, number
        destination.publisher(str(path)).sweep(0)
        assert leftovers(path) == [], number
        number += 1
    assert number > 5


def test_a_repeated_micro_batch_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The driver crashes at any step, and the batch runs again with newly staged data."""
    path = tmp_path / "out"
    number, completed = 0, False
    while not completed:
        shutil.rmtree(path, ignore_errors=True)
        before = job(path, "q-0", query="q", batch=0)
        publisher(before).commit(before, stage(before, 0, {"t-0": ["a"]}))
        write_job = job(path, "q-1", query="q", batch=1)
        try:
            with crash_at(monkeypatch, number):
                publisher(write_job).commit(write_job, stage(write_job, 0, {"t-0": ["b"], "t-1": ["c"]}))
                completed = True
        except Crash:
            pass
        publisher(write_job).commit(write_job, stage(write_job, 0, {"t-0": ["b"], "t-1": ["c"]}))
        assert content(path) == {"t-0": numbered("a", "b"), "t-1": numbered("c")}, number
        assert leftovers(path) == [], number
        number += 1
    next_batch = job(path, "q-2", query="q", batch=2)
    publisher(next_batch).commit(next_batch, stage(next_batch, 0, {"t-1": ["d"]}))
    publisher(write_job).commit(write_job, stage(write_job, 0, {"t-0": ["b"]}))
    other_query = job(path, "r-0", query="r", batch=0)
    publisher(other_query).commit(other_query, stage(other_query, 0, {"t-0": ["e"]}))
    assert content(path) == {"t-0": numbered("a", "b", "e"), "t-1": numbered("c", "d")}
    assert not (path / "_SUCCESS").exists()


def test_the_sweep_removes_files_of_crashed_drivers_and_no_running_job(tmp_path: Path) -> None:
    publish(tmp_path, "job-1", {"t-0": ["a"]})
    running, dead = job(tmp_path, "running"), job(tmp_path, "dead")
    staged = stage(running, 0, {"t-0": ["b"]})
    stage(dead, 0, {"t-0": ["c"]})
    assert destination.publisher(str(tmp_path)).sweep() == []
    old = time.time() - 30 * 3600
    for each in [Path(dead.folder), *Path(dead.folder).rglob("*")]:
        os.utime(each, (old, old))
    assert destination.publisher(str(tmp_path)).sweep() == ["dead"]
    publisher(running).commit(running, staged)
    assert content(tmp_path) == {"t-0": numbered("a", "b")} and leftovers(tmp_path) == []


def test_the_sweep_finishes_a_crashed_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    publish(tmp_path, "job-1", {"t-0": ["a"]})
    write_job = job(tmp_path, "dead")
    staged = stage(write_job, 0, {"t-0": ["b"], "t-1": ["c"]})
    with pytest.raises(Crash), crashing(monkeypatch, lambda name, words: words[0] == str(tmp_path / "_SUCCESS.part")):
        publisher(write_job).commit(write_job, staged)
    assert destination.publisher(str(tmp_path)).sweep(older_than_hours=0) == ["dead"]
    assert content(tmp_path) == {"t-0": numbered("a", "b"), "t-1": numbered("c")} and leftovers(tmp_path) == []
    assert json.loads((tmp_path / "_SUCCESS").read_text())["job"] == "dead"
    publisher(write_job).commit(write_job, staged)  # recognised
    assert content(tmp_path) == {"t-0": numbered("a", "b"), "t-1": numbered("c")}


def test_files_that_cannot_be_linked_are_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: Any, **__: Any) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refused)
    publish(tmp_path, "job-1", {"t-0": ["a"]})
    publish(tmp_path, "job-2", {"t-0": ["b"]})
    assert content(tmp_path) == {"t-0": numbered("a", "b")}


# ---- what a job may write, and where --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["part-00000-1f.c000.snappy.parquet", "_delta_log", "events.parquet"])
def test_partition_folders_are_not_written_beside_another_table(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    with pytest.raises(ValueError, match=rf"{tmp_path} holds another table \({name}\)"):
        destination.resolve(str(tmp_path), {})


def test_values_of_headers_may_be_strings(tmp_path: Path) -> None:
    pair = T.StructType([T.StructField("key", T.StringType()), T.StructField("value", T.StringType())])
    columns = T.StructType([T.StructField("value", T.BinaryType()), T.StructField("headers", T.ArrayType(pair))])
    source = KafkarecDataSource({"path": str(tmp_path), "topic": "t"})
    writing = source.writer(columns, False)
    headers = pa.array(
        [[("color", "red"), ("size", None)]], pa.list_(pa.struct([("key", pa.string()), ("value", pa.string())]))
    )
    writing.commit([writing.write(iter([pa.record_batch([pa.array([b"a"]), headers], ["value", "headers"])]))])
    (record,) = kafkarec.open(tmp_path / "t-0").read()
    assert record.headers == [("color", b"red"), ("size", None)]
