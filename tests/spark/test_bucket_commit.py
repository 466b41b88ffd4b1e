"""Staging by the tasks and publication by the driver below a URL, without Spark; a crash before every request."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import threading
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import kafkarec

pytest.importorskip("pyspark", reason="pyspark is not installed")
pytest.importorskip("pyarrow", reason="pyarrow is not installed")

from bucket_jobs import Dying, an_hour_later, content, job, new_store, objects, publish
from long_run import LONG
from publish_jobs import Crash, numbered, publisher, stage, staging_of, table

from spark_udfs.source import bucket_lock, destination
from spark_udfs.source.options import StorageOptions
from spark_udfs.source.publishing import UnfinishedCommit

OLD = {"t-0": numbered("a", "b"), "t-1": numbered("c"), "t-9": numbered("i"), "u-0": numbered("j")}
ADDED = OLD | {"t-0": numbered("a", "b", "d", "e"), "t-1": numbered("c", "f"), "t-2": numbered("g", "h")}
# A static overwrite leaves the partition that the new rows do not have empty (`content` leaves it out), and other
# topics as they are.
REPLACED = {"t-0": numbered("d", "e"), "t-1": numbered("f"), "t-2": numbered("g", "h"), "u-0": numbered("j")}
FIRST = {"t-0": ["a", "b"], "t-1": ["c"], "t-9": ["i"], "u-0": ["j"]}
SECOND = ({"t-0": ["d"], "t-1": ["f"], "t-2": ["g"]}, {"t-0": ["e"], "t-2": ["h"]})
# Every request in CI and in `make fuzz`, else every third request.
STEP = 1 if LONG or os.environ.get("CI") else 3
BOTH_WAYS = pytest.mark.parametrize("overwrite", [None, "static"])


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    return new_store(tmp_path, monkeypatch)


def test_a_new_log_has_a_brokers_files_and_appends_follow_it(store: str) -> None:
    partitions = publish(store, "job-1", {"t-0": ["a", "b"], "t-1": ["c"]})
    assert partitions == [
        {"name": "t-0", "records": 2, "first_offset": 0, "next_offset": 2},
        {"name": "t-1", "records": 1, "first_offset": 0, "next_offset": 1},
    ]
    before = objects(store)
    assert sorted(before) == [
        "_SUCCESS",
        *(f"t-0/{name}" for name in (f"{0:020}.index", f"{0:020}.log", f"{0:020}.timeindex", f"{2:020}.snapshot")),
        "t-0/leader-epoch-checkpoint",
        "t-0/partition.metadata",
        *(f"t-1/{name}" for name in (f"{0:020}.index", f"{0:020}.log", f"{0:020}.timeindex", f"{1:020}.snapshot")),
        "t-1/leader-epoch-checkpoint",
        "t-1/partition.metadata",
    ]
    partitions = publish(store, "job-2", {"t-0": ["d"]}, {"t-0": ["e"]})
    assert partitions == [{"name": "t-0", "records": 2, "first_offset": 2, "next_offset": 4}]
    after = objects(store)
    assert {name: after[name] for name in before if name != "_SUCCESS"} == {
        name: data for name, data in before.items() if name != "_SUCCESS"
    }
    assert sorted(after.keys() - before.keys()) == [f"t-0/{2:020}.{kind}" for kind in ("index", "log", "timeindex")]
    assert content(store) == {"t-0": numbered(*"abde"), "t-1": numbered("c")}
    assert json.loads(after["_SUCCESS"])["partitions"] == {"t-0": {"records": 2, "first_offset": 2, "next_offset": 4}}


def test_a_part_with_matching_offsets_is_copied_by_the_store_without_a_download(store: str) -> None:
    publish(store, "job-1", {"t-0": ["a", "b"]}, offsets={"t-0": [0, 1]})
    Dying.log.clear()
    publish(store, "job-2", {"t-0": ["c"]}, offsets={"t-0": [2]})
    assert content(store) == {"t-0": numbered("a", "b", "c")}
    assert [each for each in Dying.log if each.startswith("download")] == []


def test_a_log_of_a_later_leader_keeps_its_epoch_and_the_topic_its_id(store: str) -> None:
    with kafkarec.SegmentWriter(Path(store.removeprefix("file://")) / "t-0", leader_epoch=7) as writer:
        writer.write([(0, 1000, None, b"x", []), (1, 1000, None, b"y", [])])
    offsets = {"t-0": [2], "t-1": [0]}
    publish(store, "job-1", {"t-0": ["a"], "t-1": ["b"]}, offsets=offsets)
    assert content(store) == {"t-0": numbered("x", "y", "a"), "t-1": numbered("b")}
    log = kafkarec.open(f"{store}/t-0")
    assert set(log.scan().column("partition_leader_epoch")) == {7}
    files = objects(store)
    assert files["t-0/partition.metadata"] == files["t-1/partition.metadata"]


@pytest.mark.parametrize("refused", [False, True], ids=["uploads succeed", "an upload fails"])
def test_a_task_removes_what_it_has_uploaded_to_a_job_that_failed_meanwhile(
    store: str, monkeypatch: pytest.MonkeyPatch, refused: bool
) -> None:
    publish(store, "job-1", {"t-0": ["a"]})
    before = objects(store)
    made = job(store, "job-2")
    publisher(made).begin(made)
    upload, first = Dying.upload, threading.Lock()
    aborted = threading.Event()

    def failing_meanwhile(bucket: Dying, path: str, name: str) -> None:
        # Files are uploaded by several threads: one of them removes the job, the others go on afterwards.
        if first.acquire(blocking=False):
            publisher(made).abort(made)
            aborted.set()
            if refused:
                raise FileNotFoundError(f"{name} was removed during the upload")
        assert aborted.wait(60)
        upload(bucket, path, name)

    monkeypatch.setattr(Dying, "upload", failing_meanwhile)
    with pytest.raises(FileNotFoundError, match="job-2 is gone: the job has ended"), staging_of(made) as writer:
        writer.put("t", 0, table(["b"], None), False)
        writer.close()
    assert objects(store) == before


def test_a_dynamic_overwrite_replaces_only_the_written_partitions(store: str) -> None:
    publish(store, "job-1", {"t-0": ["a"], "t-1": ["c"]})
    publish(store, "job-2", {"t-0": ["b"]})
    topic_id = objects(store)["t-0/partition.metadata"]
    publish(store, "job-3", {"t-0": ["d"]}, overwrite="dynamic")
    assert content(store) == {"t-0": numbered("d"), "t-1": numbered("c")}
    assert objects(store)["t-0/partition.metadata"] == topic_id
    assert [name for name in objects(store) if name.startswith(("_temporary", f"t-0/{1:020}.log"))] == []


def test_a_static_overwrite_replaces_all_partitions_of_a_topic(store: str) -> None:
    publish(store, "job-1", {"t-0": ["a"], "t-1": ["c"], "u-0": ["k"]})
    topic_id = objects(store)["t-1/partition.metadata"]
    publish(store, "job-2", {"t-0": ["d"]}, overwrite="static")
    assert content(store) == {"t-0": numbered("d"), "u-0": numbered("k")}
    files = {name: data for name, data in objects(store).items() if name.startswith("t-1/")}
    assert files == {"t-1/partition.metadata": topic_id, f"t-1/{0:020}.log": b""}
    publish(store, "job-3", {"t-1": ["e"]})
    assert content(store) == {"t-0": numbered("d"), "t-1": numbered("e"), "u-0": numbered("k")}
    publish(store, "job-4", overwrite="static", topic="t")
    assert content(store) == {"u-0": numbered("k")}
    with pytest.raises(ValueError, match="no topic is known"):
        publish(store, "job-5", overwrite="static")
    publish(store, "job-6", overwrite="dynamic", topic="u")
    assert content(store) == {"u-0": numbered("k")}


def test_a_reader_during_an_overwrite_finds_the_start_of_the_old_or_of_the_new_log(
    store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(store, "job-1", {"t-0": ["a", "b"]})
    publish(store, "job-2", {"t-0": ["c"]})
    old, new = numbered("a", "b", "c"), numbered("d", "e", "f")
    found: list[list[tuple[int, str]]] = []

    def reading(verb: str) -> Any:
        original = getattr(Dying, verb)

        def call(*words: Any) -> Any:
            found.append(content(store, unfinished=True).get("t-0", []))
            return original(*words)

        return call

    for verb in ("put", "copy", "delete"):
        monkeypatch.setattr(Dying, verb, reading(verb))
    publish(store, "job-3", {"t-0": ["d"]}, {"t-0": ["e", "f"]}, overwrite="static")
    steps = [each for number, each in enumerate(found) if not number or each != found[number - 1]]
    assert steps == [old, old[:2], [], new[:1], new]


@pytest.mark.parametrize(
    ("tasks", "offsets", "message"),
    [
        (
            ({"t-0": ["c"]},),
            {"t-0": [1]},
            r"t-0: offsets 1 to 1 do not follow: the next offset .* is 2; without the column",
        ),
        (({"t-0": ["c"]}, {"t-0": ["d"]}), {"t-0": [5]}, r"2 tasks have records with offsets for t-0: .*write_log"),
    ],
)
def test_impossible_offsets_are_refused_and_nothing_changes(store: str, tasks: Any, offsets: Any, message: str) -> None:
    publish(store, "job-1", {"t-0": ["a", "b"]})
    before = objects(store)
    with pytest.raises(ValueError, match=message):
        publish(store, "job-2", *tasks, offsets=offsets)
    publisher(job(store, "job-2")).abort(job(store, "job-2"))
    assert objects(store) == before


def test_a_log_that_ends_within_a_batch_is_not_appended_to(store: str) -> None:
    publish(store, "job-1", {"t-0": ["a", "b"]})
    path = Path(store.removeprefix("file://")) / "t-0" / f"{0:020}.log"
    path.write_bytes(path.read_bytes() + b"\0\0")
    with pytest.raises(ValueError, match=r"t-0/0{20}\.log does not end with a whole batch: salvage"):
        publish(store, "job-2", {"t-0": ["c"]})


def test_only_the_attempts_named_by_commit_messages_are_published(store: str) -> None:
    """Neither a lost first attempt, nor the slower of two concurrent attempts, nor a late one."""
    write_job = job(store)
    publisher(write_job).begin(write_job)
    stage(write_job, 0, {"t-0": ["lost"]})
    good = stage(write_job, 0, {"t-0": ["a"]})
    with pytest.raises(FileNotFoundError, match="the job has ended"), staging_of(write_job) as late:
        publisher(write_job).commit(write_job, good)
        assert content(store) == {"t-0": numbered("a")}
        late.put("t", 0, table(["late"]), False)
        late.close()
    assert [name for name in objects(store) if name.startswith("_temporary")] == []


def test_a_changed_attempt_is_not_published(store: str) -> None:
    write_job = job(store)
    publisher(write_job).begin(write_job)
    staged = stage(write_job, 0, {"t-0": ["a"]})
    shutil.rmtree(Path(store.removeprefix("file://")) / "_temporary" / "job-1" / staged[0].folder)
    with pytest.raises(FileNotFoundError, match="has changed since the task wrote it"):
        publisher(write_job).commit(write_job, staged)


# ---- crashes ------------------------------------------------------------------------------------------------


@cache
def staged_job(url: str, overwrite: str | None) -> tuple[Any, list[Any], Path]:
    """A job after its tasks, what they staged, and a copy of the store as it is then."""
    root = Path(url.removeprefix("file://"))
    shutil.rmtree(root, ignore_errors=True)
    publish(url, "job-1", FIRST)
    write_job = job(url, "job-2", overwrite=overwrite)
    publisher(write_job).begin(write_job)
    staged = [one for task, rows in enumerate(SECOND) for one in stage(write_job, task, rows)]
    return write_job, staged, shutil.copytree(root, root.with_name(f"staged-{overwrite}"))


def crashed_commit(url: str, number: int | None, overwrite: str | None) -> Any:
    """A job whose driver crashed before a request of its commit, its staged parts, and whether the commit completed."""
    Dying.number = None
    write_job, staged, store = staged_job(url, overwrite)
    shutil.rmtree(url.removeprefix("file://"), ignore_errors=True)
    shutil.copytree(store, url.removeprefix("file://"))
    Dying.log.clear()
    Dying.number = number
    completed = False
    try:
        publisher(write_job).commit(write_job, staged)
        completed = True
    except Crash:
        pass
    finally:
        Dying.number = None
    readable, new = content(url, unfinished=True), REPLACED if overwrite else ADDED
    for name in ("t-0", "t-1", "t-2", "t-9", "u-0"):
        assert readable.get(name, []) in [*parts(OLD.get(name, [])), *parts(new.get(name, []))], (number, name)
    done = json.loads(objects(url).get("_SUCCESS", b"null"))
    if done is not None:
        assert readable == {"job-1": OLD, "job-2": new}[done["job"]], number
    return write_job, staged, completed


def parts(log: list[Any]) -> list[list[Any]]:
    """All prefixes of a log: a reader may see only its first segments while others are added or removed."""
    return [log[:count] for count in range(len(log) + 1)]


def clean(url: str) -> bool:
    return not any(name.startswith("_temporary") for name in objects(url))


@BOTH_WAYS
def test_a_crashed_commit_is_finished_by_a_second_commit(store: str, overwrite: str | None) -> None:
    number, completed = 0, False
    while not completed:
        write_job, staged, completed = crashed_commit(store, number, overwrite)
        publisher(write_job).commit(write_job, staged)
        assert content(store) == (REPLACED if overwrite else ADDED), number
        assert json.loads(objects(store)["_SUCCESS"])["job"] == "job-2" and clean(store), number
        number += STEP
    assert number > 50


@BOTH_WAYS
def test_a_crashed_commit_is_finished_by_abort_or_leaves_nothing(store: str, overwrite: str | None) -> None:
    publish(store, "job-1", FIRST)
    before = objects(store)
    number, completed = 0, False
    while not completed:
        write_job, _, completed = crashed_commit(store, number, overwrite)
        decided = completed or is_decided(store, "job-2")
        publisher(write_job).abort(write_job)
        left = {name: data for name, data in objects(store).items() if not name.endswith(".lock")}
        if decided:
            assert content(store) == (REPLACED if overwrite else ADDED), number
            assert [name for name in left if name.startswith("_temporary")] == [], number
        else:
            assert left == before, number
        number += STEP


def is_decided(url: str, name: str) -> bool:
    """Whether a job is committed: its journal exists, or it is done."""
    found = objects(url)
    return json.loads(found.get("_SUCCESS", b"{}")).get("job") == name or f"_temporary/{name}/commit.json" in found


@BOTH_WAYS
def test_a_crashed_drivers_commit_is_finished_by_the_next_job(store: str, overwrite: str | None) -> None:
    number, completed = 0, False
    while not completed:
        _, _, completed = crashed_commit(store, number, overwrite)
        decided = completed or is_decided(store, "job-2")
        an_hour_later(store)
        publish(store, "job-3", {"t-1": ["z"], "t-3": ["y"]})
        expected = {**((REPLACED if overwrite else ADDED) if decided else OLD), "t-3": numbered("y")}
        expected["t-1"] = [*expected["t-1"], (len(expected["t-1"]), "z")]
        assert content(store) == expected, number
        number += STEP


@BOTH_WAYS
def test_a_crashed_finish_is_continued(store: str, overwrite: str | None) -> None:
    crashed_commit(store, None, overwrite)
    first = next(number for number, each in enumerate(Dying.log) if each.startswith("copy _temporary/job-2"))
    new = REPLACED if overwrite else ADDED
    number, completed = 0, False
    while not completed:
        write_job, staged, _ = crashed_commit(store, first + 3, overwrite)
        Dying.log.clear()
        Dying.number = number
        try:
            publisher(write_job).abort(write_job)
            completed = True
        except Crash:
            pass
        Dying.number = None
        if number % 2 and not completed:  # the driver retries
            publisher(write_job).commit(write_job, staged)
            assert content(store) == new, number
        else:
            an_hour_later(store)
            publish(store, "job-3", {"t-1": ["z"]})
            assert content(store) == new | {"t-1": [*new["t-1"], (len(new["t-1"]), "z")]}, number
        number += STEP
    assert number > 10


def test_a_repeated_micro_batch_changes_nothing(store: str) -> None:
    """The driver crashes before any request, and the batch runs again with newly staged data."""
    number, completed = 0, False
    while not completed:
        shutil.rmtree(store.removeprefix("file://"), ignore_errors=True)
        Dying.number = None
        publish(store, "q-0", {"t-0": ["a"]}, query="q", batch=0)
        write_job = job(store, "q-1", query="q", batch=1)
        staged = stage(write_job, 0, {"t-0": ["b"], "t-1": ["c"]})
        Dying.log.clear()
        Dying.number = number
        try:
            publisher(write_job).commit(write_job, staged)
            completed = True
        except Crash:
            pass
        Dying.number = None
        publisher(write_job).commit(write_job, stage(write_job, 0, {"t-0": ["b"], "t-1": ["c"]}))
        assert content(store) == {"t-0": numbered("a", "b"), "t-1": numbered("c")}, number
        assert clean(store), number
        number += STEP
    publish(store, "q-2", {"t-1": ["d"]}, query="q", batch=2)
    publisher(write_job).commit(write_job, stage(write_job, 0, {"t-0": ["b"]}))
    publish(store, "r-0", {"t-0": ["e"]}, query="r", batch=0)
    assert content(store) == {"t-0": numbered("a", "b", "e"), "t-1": numbered("c", "d")}
    assert "_SUCCESS" not in objects(store)


def test_the_sweep_finishes_crashed_jobs_and_leaves_running_ones(store: str) -> None:
    crashed_commit(store, None, False)
    crashed_commit(store, Dying.log.index("put _SUCCESS"), False)
    assert destination.publisher(store).sweep() == []
    running = job(store, "running")
    an_hour_later(store)
    publisher(running).begin(running)
    staged = stage(running, 0, {"t-0": ["z"]})
    assert destination.publisher(store).sweep(older_than_hours=0.5) == ["job-2"]
    assert content(store) == ADDED
    publisher(running).commit(running, staged)
    assert content(store) == ADDED | {"t-0": numbered("a", "b", "d", "e", "z")} and clean(store)
    assert destination.publisher(store).sweep(older_than_hours=0) == []


# ---- concurrent jobs ------------------------------------------------------------------------------------------


def test_concurrent_jobs_publish_one_after_the_other(store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    inside, most = [0], [0]
    original = Dying.prepare

    def counted(*arguments: Any) -> Any:
        inside[0] += 1
        most[0] = max(most[0], inside[0])
        try:
            return original(*arguments)
        finally:
            inside[0] -= 1

    monkeypatch.setattr(Dying, "prepare", counted)
    threads = [threading.Thread(target=publish, args=(store, f"job-{n}", {"t-0": [f"v{n}"]})) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    records = content(store)["t-0"]
    assert [offset for offset, _ in records] == list(range(6)) and {value for _, value in records} == {
        f"v{n}" for n in range(6)
    }
    assert most == [1] and clean(store)


def test_a_driver_whose_lock_expired_stops_before_the_next_request(store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    publish(store, "job-1", FIRST)
    write_job = job(store, "job-2")
    publisher(write_job).begin(write_job)
    staged = stage(write_job, 0, {"t-0": ["d"], "t-1": ["e"]})
    original, expired = Dying.copy, []

    def copy(self: Any, source: str, target: str) -> None:
        original(self, source, target)
        if not expired:
            expired.append(monkeypatch.setattr(bucket_lock, "STALE", -1.0))

    monkeypatch.setattr(Dying, "copy", copy)
    with pytest.raises(UnfinishedCommit, match=r"job-2 is committed, being finished: .* was not renewed"):
        publisher(write_job).commit(write_job, staged)
    monkeypatch.setattr(bucket_lock, "STALE", 1200.0)
    monkeypatch.setattr(Dying, "copy", original)
    publish(store, "job-3", {"t-1": ["z"]})
    assert content(store) == OLD | {"t-0": numbered("a", "b", "d"), "t-1": numbered("c", "e", "z")}


def test_a_driver_whose_lock_expired_before_its_journal_leaves_nothing(
    store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(store, "job-1", FIRST)
    before = objects(store)
    write_job = job(store, "job-2")
    publisher(write_job).begin(write_job)
    staged = stage(write_job, 0, {"t-0": ["d"], "t-1": ["e"]})
    original = Dying.upload

    def upload(self: Any, path: str, name: str) -> None:
        original(self, path, name)
        monkeypatch.setattr(bucket_lock, "STALE", -1.0)

    with monkeypatch.context() as patch:
        patch.setattr(Dying, "upload", upload)
        with pytest.raises(bucket_lock.LockLost, match="was not renewed"):
            publisher(write_job).commit(write_job, staged)
    monkeypatch.setattr(bucket_lock, "STALE", 1200.0)
    publisher(write_job).abort(write_job)
    assert objects(store) == before


def test_a_concurrent_foreign_write_is_not_overwritten(store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    publish(store, "job-1", FIRST)
    foreign = Path(store.removeprefix("file://")) / "t-0" / f"{2:020}.log"
    original = Dying.put

    def put(self: Any, name: str, data: bytes) -> None:
        original(self, name, data)
        if name.endswith("job-2/commit.json"):
            foreign.write_bytes(kafkarec.encode([(2, 0, None, b"somebody else's", [])]))

    monkeypatch.setattr(Dying, "put", put)
    with pytest.raises(UnfinishedCommit, match=rf"t-0/{2:020}\.log: another writer has changed.* remove this object"):
        publish(store, "job-2", {"t-0": ["d"], "t-1": ["e"]})
    assert content(store)["t-0"] == numbered("a", "b", "somebody else's")
    with pytest.raises(UnfinishedCommit, match="nothing of this job is written; an earlier job, job-2 is committed"):
        publish(store, "job-3", {"t-1": ["z"]})
    foreign.unlink()
    publish(store, "job-3", {"t-1": ["z"]})
    assert content(store) == OLD | {"t-0": numbered("a", "b", "d"), "t-1": numbered("c", "e", "z")}


def test_a_pickled_job_shows_no_keys(store: str) -> None:
    write_job = job(store, storage=StorageOptions({"key": "an-id", "secret": "top-secret"}))
    again = pickle.loads(pickle.dumps(write_job))
    assert again == write_job and again.storage["secret"] == "top-secret"
    assert "top-secret" not in repr(again) + str(again) + f"{again.storage}"
    assert "StorageOptions(key, secret)" in repr(again)


def test_a_url_that_cannot_be_written_is_refused() -> None:
    with pytest.raises(ValueError, match=r"cannot write to https://\. It reads and writes folders"):
        destination.resolve("https://example.invalid/x", {})
