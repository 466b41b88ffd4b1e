"""What tasks stage and the driver publishes below a URL, without Spark: a crash in front of every request."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import threading
from pathlib import Path
from typing import Any

import pytest

import kafkarec

pytest.importorskip("pyspark", reason="pyspark is not installed")
pytest.importorskip("pyarrow", reason="pyarrow is not installed")

from bucket_jobs import Dying, an_hour_later, content, job, new_store, objects, publish, stage
from long_run import LONG
from published import Crash, numbered, table

from spark_udfs.source import bucket_lock, bucket_publishing, destination
from spark_udfs.source.options import StorageOptions

OLD = {"t-0": numbered("a", "b"), "t-1": numbered("c")}
ADDED = {"t-0": numbered("a", "b", "d", "e"), "t-1": numbered("c", "f"), "t-2": numbered("g", "h")}
REPLACED = {"t-0": numbered("d", "e"), "t-1": numbered("f"), "t-2": numbered("g", "h")}
FIRST = {"t-0": ["a", "b"], "t-1": ["c"]}
SECOND = ({"t-0": ["d"], "t-1": ["f"], "t-2": ["g"]}, {"t-0": ["e"], "t-2": ["h"]})
# Every request in CI and by `make fuzz`, else every third one.
STEP = 1 if LONG or os.environ.get("CI") else 3
BOTH_WAYS = pytest.mark.parametrize("overwrite", [False, True])


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    return new_store(tmp_path, monkeypatch)


def test_a_new_log_has_what_a_broker_leaves_there_and_what_is_added_comes_after_it(store: str) -> None:
    told = publish(store, "job-1", {"t-0": ["a", "b"], "t-1": ["c"]})
    assert told == [
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
    told = publish(store, "job-2", {"t-0": ["d"]}, {"t-0": ["e"]})
    assert told == [{"name": "t-0", "records": 2, "first_offset": 2, "next_offset": 4}]
    after = objects(store)
    assert {name: after[name] for name in before if name != "_SUCCESS"} == {
        name: data for name, data in before.items() if name != "_SUCCESS"
    }
    assert sorted(after.keys() - before.keys()) == [f"t-0/{2:020}.{kind}" for kind in ("index", "log", "timeindex")]
    assert content(store) == {"t-0": numbered(*"abde"), "t-1": numbered("c")}
    assert json.loads(after["_SUCCESS"])["partitions"] == {"t-0": {"records": 2, "first_offset": 2, "next_offset": 4}}


def test_a_part_that_fits_is_copied_by_the_store_and_no_byte_comes_here(store: str) -> None:
    publish(store, "job-1", {"t-0": ["a", "b"]}, offsets={"t-0": [0, 1]})
    Dying.log.clear()
    publish(store, "job-2", {"t-0": ["c"]}, offsets={"t-0": [2]})
    assert content(store) == {"t-0": numbered("a", "b", "c")}
    assert [each for each in Dying.log if each.startswith("download")] == []


def test_a_log_of_a_later_leader_keeps_its_epoch_and_the_topic_its_id(store: str) -> None:
    with kafkarec.SegmentWriter(Path(store.removeprefix("file://")) / "t-0", leader_epoch=7) as writer:
        writer.write([(0, 1000, None, b"x", []), (1, 1000, None, b"y", [])])
    given = {"t-0": [2], "t-1": [0]}
    publish(store, "job-1", {"t-0": ["a"], "t-1": ["b"]}, offsets=given)
    assert content(store) == {"t-0": numbered("x", "y", "a"), "t-1": numbered("b")}
    log = kafkarec.open(f"{store}/t-0")
    assert set(log.scan().column("partition_leader_epoch")) == {7}
    found = objects(store)
    assert found["t-0/partition.metadata"] == found["t-1/partition.metadata"]


def test_overwriting_replaces_the_partitions_that_are_written_and_no_other(store: str) -> None:
    publish(store, "job-1", {"t-0": ["a"], "t-1": ["c"]})
    publish(store, "job-2", {"t-0": ["b"]})
    topic_id = objects(store)["t-0/partition.metadata"]
    publish(store, "job-3", {"t-0": ["d"]}, overwrite=True)
    assert content(store) == {"t-0": numbered("d"), "t-1": numbered("c")}
    assert objects(store)["t-0/partition.metadata"] == topic_id
    assert [name for name in objects(store) if name.startswith(("_temporary", f"t-0/{1:020}.log"))] == []


@pytest.mark.parametrize(
    ("tasks", "offsets", "words"),
    [
        (({"t-0": ["c"]},), {"t-0": [1]}, r"t-0: offsets 1 to 1 do not follow: the log goes on at offset 2"),
        (({"t-0": ["c"]}, {"t-0": ["d"]}), {"t-0": [5]}, r"2 tasks have records with offsets for t-0: .*write_log"),
    ],
)
def test_offsets_that_cannot_be_are_refused_and_nothing_changes(
    store: str, tasks: Any, offsets: Any, words: str
) -> None:
    publish(store, "job-1", {"t-0": ["a", "b"]})
    before = objects(store)
    with pytest.raises(ValueError, match=words):
        publish(store, "job-2", *tasks, offsets=offsets)
    bucket_publishing.abort(job(store, "job-2"))
    assert objects(store) == before


def test_a_log_that_ends_within_a_batch_is_not_appended_to(store: str) -> None:
    publish(store, "job-1", {"t-0": ["a", "b"]})
    path = Path(store.removeprefix("file://")) / "t-0" / f"{0:020}.log"
    path.write_bytes(path.read_bytes() + b"\0\0")
    with pytest.raises(ValueError, match=r"t-0/0{20}\.log does not end with a whole batch: salvage"):
        publish(store, "job-2", {"t-0": ["c"]})


def test_only_what_the_messages_name_is_published(store: str) -> None:
    """Not a first attempt that was lost, nor the slower one of two that ran at once, nor one that comes too late."""
    made = job(store)
    bucket_publishing.begin(made)
    stage(made, 0, {"t-0": ["lost"]})
    good = stage(made, 0, {"t-0": ["a"]})
    late = bucket_publishing.staging_writer(made, 0, 2)
    bucket_publishing.commit(made, good)
    assert content(store) == {"t-0": numbered("a")}
    late.put("t", 0, table(["late"]), False)
    with pytest.raises(FileNotFoundError, match="the job has ended"):
        late.close()
    late.drop()
    assert [name for name in objects(store) if name.startswith("_temporary")] == []


def test_an_attempt_that_is_not_as_it_was_left_is_not_published(store: str) -> None:
    made = job(store)
    bucket_publishing.begin(made)
    staged = stage(made, 0, {"t-0": ["a"]})
    shutil.rmtree(Path(store.removeprefix("file://")) / "_temporary" / "job-1" / staged[0].folder)
    with pytest.raises(FileNotFoundError, match="is not as the task left it"):
        bucket_publishing.commit(made, staged)


# ---- crashes ------------------------------------------------------------------------------------------------


def half_done(url: str, number: int | None, overwrite: bool) -> Any:
    """A job whose driver died in front of a request of its commit; whether it came through."""
    shutil.rmtree(url.removeprefix("file://"), ignore_errors=True)
    Dying.number = None
    publish(url, "job-1", FIRST)
    made = job(url, "job-2", overwrite=overwrite)
    bucket_publishing.begin(made)
    staged = [one for task, rows in enumerate(SECOND) for one in stage(made, task, rows)]
    Dying.log.clear()
    Dying.number = number
    through = False
    try:
        bucket_publishing.commit(made, staged)
        through = True
    except Crash:
        pass
    finally:
        Dying.number = None
    seen, new = content(url), REPLACED if overwrite else ADDED
    for name in ("t-0", "t-1", "t-2"):
        assert seen.get(name, []) in [*parts(OLD.get(name, [])), *parts(new[name])], (number, name)
    done = json.loads(objects(url).get("_SUCCESS", b"null"))
    if done is not None:
        assert seen == {"job-1": OLD, "job-2": new}[done["job"]], number
    return made, staged, through


def parts(log: list[Any]) -> list[list[Any]]:
    """A reader may see the front of a log while its segments come or go."""
    return [log[:count] for count in range(len(log) + 1)]


def clean(url: str) -> bool:
    return not any(name.startswith("_temporary") for name in objects(url))


@BOTH_WAYS
def test_a_commit_that_died_anywhere_is_finished_by_the_same_commit(store: str, overwrite: bool) -> None:
    number, through = 0, False
    while not through:
        made, staged, through = half_done(store, number, overwrite)
        bucket_publishing.commit(made, staged)
        assert content(store) == (REPLACED if overwrite else ADDED), number
        assert json.loads(objects(store)["_SUCCESS"])["job"] == "job-2" and clean(store), number
        number += STEP
    assert number > 50


@BOTH_WAYS
def test_a_commit_that_died_anywhere_is_undone_by_abort(store: str, overwrite: bool) -> None:
    publish(store, "job-1", FIRST)
    before = objects(store)
    number, through = 0, False
    while not through:
        made, _, through = half_done(store, number, overwrite)
        done = json.loads(objects(store).get("_SUCCESS", b"{}")).get("job") == "job-2"
        bucket_publishing.abort(made)
        if done:
            assert content(store) == (REPLACED if overwrite else ADDED), number
        else:
            left = {name: data for name, data in objects(store).items() if not name.endswith(".lock")}
            assert left == before, number
        number += STEP


@BOTH_WAYS
def test_a_dead_driver_s_commit_is_undone_by_the_next_job(store: str, overwrite: bool) -> None:
    number, through = 0, False
    while not through:
        _, _, through = half_done(store, number, overwrite)
        done = json.loads(objects(store).get("_SUCCESS", b"{}")).get("job") == "job-2"
        an_hour_later(store)
        publish(store, "job-3", {"t-1": ["z"], "t-3": ["y"]})
        expected = {**((REPLACED if overwrite else ADDED) if done else OLD), "t-3": numbered("y")}
        expected["t-1"] = [*expected["t-1"], (len(expected["t-1"]), "z")]
        assert content(store) == expected, number
        number += STEP


@BOTH_WAYS
def test_an_undoing_that_died_anywhere_is_taken_up_again(store: str, overwrite: bool) -> None:
    half_done(store, None, overwrite)
    last = Dying.log.index("put _SUCCESS")
    number, through = 0, False
    while not through:
        made, staged, _ = half_done(store, last, overwrite)
        assert content(store) == (REPLACED if overwrite else ADDED)
        Dying.log.clear()
        Dying.number = number
        try:
            bucket_publishing.abort(made)
            through = True
        except Crash:
            pass
        Dying.number = None
        if number % 2 and not through:  # the driver tries again
            expected = REPLACED if overwrite else ADDED
            try:
                bucket_publishing.commit(made, staged)
            except FileNotFoundError:  # nothing is left of what was staged
                expected = OLD
                assert number > 20
            assert content(store) == expected, number
        else:
            an_hour_later(store)
            publish(store, "job-3", {"t-1": ["z"]})
            assert content(store) == OLD | {"t-1": numbered("c", "z")}, number
        number += STEP
    assert number > 10


def test_a_stream_s_batch_that_is_run_again_changes_nothing(store: str) -> None:
    """The driver died in front of any request, and the batch comes again, staged anew."""
    number, through = 0, False
    while not through:
        shutil.rmtree(store.removeprefix("file://"), ignore_errors=True)
        Dying.number = None
        publish(store, "q-0", {"t-0": ["a"]}, query="q", batch=0)
        made = job(store, "q-1", query="q", batch=1)
        staged = stage(made, 0, {"t-0": ["b"], "t-1": ["c"]})
        Dying.log.clear()
        Dying.number = number
        try:
            bucket_publishing.commit(made, staged)
            through = True
        except Crash:
            pass
        Dying.number = None
        bucket_publishing.commit(made, stage(made, 0, {"t-0": ["b"], "t-1": ["c"]}))
        assert content(store) == {"t-0": numbered("a", "b"), "t-1": numbered("c")}, number
        assert clean(store), number
        number += STEP
    publish(store, "q-2", {"t-1": ["d"]}, query="q", batch=2)
    bucket_publishing.commit(made, stage(made, 0, {"t-0": ["b"]}))
    publish(store, "r-0", {"t-0": ["e"]}, query="r", batch=0)
    assert content(store) == {"t-0": numbered("a", "b", "e"), "t-1": numbered("c", "d")}
    assert "_SUCCESS" not in objects(store)


def test_the_sweep_undoes_what_died_and_lets_running_jobs_alone(store: str) -> None:
    half_done(store, None, False)
    half_done(store, Dying.log.index("put _SUCCESS"), False)
    assert bucket_publishing.sweep(store) == []
    running = job(store, "running")
    an_hour_later(store)
    bucket_publishing.begin(running)
    staged = stage(running, 0, {"t-0": ["z"]})
    assert bucket_publishing.sweep(store, older_than_hours=0.5) == ["job-2"]
    assert content(store) == OLD
    bucket_publishing.commit(running, staged)
    assert content(store) == OLD | {"t-0": numbered("a", "b", "z")} and clean(store)
    assert bucket_publishing.sweep(store, older_than_hours=0) == []


# ---- at the same time -----------------------------------------------------------------------------------------


def test_jobs_publish_one_after_the_other(store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    inside, most = [0], [0]
    keep = bucket_publishing._prepare

    def counted(*words: Any) -> Any:
        inside[0] += 1
        most[0] = max(most[0], inside[0])
        try:
            return keep(*words)
        finally:
            inside[0] -= 1

    monkeypatch.setattr(bucket_publishing, "_prepare", counted)
    threads = [threading.Thread(target=publish, args=(store, f"job-{n}", {"t-0": [f"v{n}"]})) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    found = content(store)["t-0"]
    assert [offset for offset, _ in found] == list(range(6)) and {value for _, value in found} == {
        f"v{n}" for n in range(6)
    }
    assert most == [1] and clean(store)


def test_a_driver_that_slept_too_long_stops_before_the_next_request(
    store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(store, "job-1", FIRST)
    made = job(store, "job-2")
    bucket_publishing.begin(made)
    staged = stage(made, 0, {"t-0": ["d"], "t-1": ["e"]})
    keep, slept = Dying.copy, []

    def copy(self: Any, source: str, target: str) -> None:
        keep(self, source, target)
        if not slept:
            slept.append(monkeypatch.setattr(bucket_lock, "STALE", -1.0))

    monkeypatch.setattr(Dying, "copy", copy)
    with pytest.raises(bucket_lock.LockLost, match="was not renewed"):
        bucket_publishing.commit(made, staged)
    monkeypatch.setattr(bucket_lock, "STALE", 1200.0)
    monkeypatch.setattr(Dying, "copy", keep)
    publish(store, "job-3", {"t-1": ["z"]})
    assert content(store) == {"t-0": numbered("a", "b"), "t-1": numbered("c", "z")}


def test_who_else_writes_there_meanwhile_is_not_overwritten(store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    publish(store, "job-1", FIRST)
    foreign = Path(store.removeprefix("file://")) / "t-0" / f"{2:020}.log"
    keep = Dying.put

    def put(self: Any, name: str, data: bytes) -> None:
        keep(self, name, data)
        if name.endswith("job-2.json"):
            foreign.write_bytes(kafkarec.encode([(2, 0, None, b"somebody else's", [])]))

    monkeypatch.setattr(Dying, "put", put)
    with pytest.raises(BlockingIOError, match=rf"t-0/{2:020}\.log: another writer has changed"):
        publish(store, "job-2", {"t-0": ["d"], "t-1": ["e"]})
    bucket_publishing.abort(job(store, "job-2"))
    assert content(store) == OLD | {"t-0": numbered("a", "b", "somebody else's")}


def test_a_job_travels_without_showing_its_keys(store: str) -> None:
    made = job(store, storage=StorageOptions({"key": "an-id", "secret": "top-secret"}))
    again = pickle.loads(pickle.dumps(made))
    assert again == made and again.storage["secret"] == "top-secret"
    assert "top-secret" not in repr(again) + str(again) + f"{again.storage}"
    assert "StorageOptions(key, secret)" in repr(again)


def test_a_url_that_cannot_be_written_is_told() -> None:
    with pytest.raises(ValueError, match=r"does not write to https://, but to s3, "):
        destination.resolve("https://example.invalid/x", {})
