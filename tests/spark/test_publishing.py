"""Staging by the tasks and publication by the driver, without Spark, in a folder and in a bucket: what readers find.
Drivers that die: test_crashed_commits.py."""

import errno
import json
import os
import pickle
import threading
import time
from types import SimpleNamespace

import pytest
from publish_jobs import (
    NOW,
    UNFINISHED,
    Dying,
    abort,
    begun,
    commit,
    content,
    job,
    left,
    new_store,
    numbered,
    objects,
    on_disk,
    publish,
    stage,
    staging_of,
    table,
)

import kafkarec
from spark_udfs.source import buckets, folders, publishing, staging
from spark_udfs.source.options import StorageOptions
from spark_udfs.source.publishing import UnfinishedCommit

NOTHING = {"records": 0, "first_offset": 0, "next_offset": 0}


def done(out):
    """What the last job says of its partitions."""
    return json.loads((on_disk(out) / "_SUCCESS").read_text())["partitions"]


def objects_of(out, name):
    """What is in the folder of one partition."""
    return {path: data for path, data in objects(out).items() if path.startswith(f"{name}/")}


def topic_id(out, name):
    return (on_disk(out) / name / "partition.metadata").read_bytes()


# ---- what is published --------------------------------------------------------------------------------------


def test_staged_data_is_invisible_until_it_is_published_with_a_brokers_files(out):
    made = begun(out)
    staged = stage(made, {"t-0": ["a", "b"], "t-1": ["c"]})
    assert content(out) == {} and left(out) != []
    rows = commit(made, staged)
    assert content(out) == {"t-0": numbered("a", "b"), "t-1": numbered("c")}
    assert rows == [
        {"name": "t-0", "records": 2, "first_offset": 0, "next_offset": 2},
        {"name": "t-1", "records": 1, "first_offset": 0, "next_offset": 1},
    ]
    assert done(out)["t-1"] == {"records": 1, "first_offset": 0, "next_offset": 1}
    assert left(out) == []
    names = {name.partition("/")[2] for name in objects_of(out, "t-0")} - {".kafkarec.lock"}
    segment = {f"{0:020}.{kind}" for kind in ("index", "log", "timeindex")}
    assert names == {*segment, f"{2:020}.snapshot", "leader-epoch-checkpoint", "partition.metadata"}


def test_tasks_are_published_in_order_and_appends_follow(out):
    made = begun(out)
    staged = stage(made, {"t-0": ["a", "b"]}, {"t-0": ["c", "d"]}, {"t-0": ["e"]})
    commit(made, staged[::-1])
    before = objects(out)
    rows = publish(out, "job-2", {"t-0": ["f"], "t-1": ["g"]})
    assert rows[0] == {"name": "t-0", "records": 1, "first_offset": 5, "next_offset": 6}
    assert content(out) == {"t-0": numbered(*"abcdef"), "t-1": numbered("g")}
    logs = [each.name for each in (on_disk(out) / "t-0").glob("*.log")]
    if "://" in out:  # nothing that is there is written again
        assert {name: objects(out)[name] for name in before} == before and len(logs) > 1
    else:
        assert logs == [f"{0:020}.log"]


def test_a_dynamic_overwrite_replaces_only_the_written_partitions(out):
    publish(out, "job-1", {"t-0": ["a", "b"], "t-1": ["c"]})
    publish(out, "job-2", {"t-0": ["x"]})
    before = topic_id(out, "t-0")
    publish(out, "job-3", {"t-0": ["d"]}, overwrite="dynamic")
    assert content(out) == {"t-0": numbered("d"), "t-1": numbered("c")}
    assert topic_id(out, "t-0") == before and len(list((on_disk(out) / "t-0").glob("*.log"))) == 1
    publish(out, "job-4", overwrite="dynamic", topic="t")
    assert content(out) == {"t-0": numbered("d"), "t-1": numbered("c")}


def test_a_static_overwrite_replaces_all_partitions_of_a_topic(out):
    publish(out, "job-1", {"t-0": ["a", "b"], "t-1": ["c"], "t-x-1": ["x"], "u-0": ["k"]})
    (on_disk(out) / "t-7").mkdir()  # not a log: it is left alone
    (on_disk(out) / "t-7" / "notes.txt").write_text("mine")
    before, others = topic_id(out, "t-1"), {"t-x-1": numbered("x"), "u-0": numbered("k")}
    publish(out, "job-2", {"t-0": ["d"]}, overwrite="static")
    assert content(out) == {"t-0": numbered("d"), **others}
    assert objects_of(out, "t-1") == {"t-1/partition.metadata": before, f"t-1/{0:020}.log": b""}
    assert (on_disk(out) / "t-7" / "notes.txt").read_text() == "mine"
    publish(out, "job-3", {"t-1": ["e"]})
    assert content(out) == {"t-0": numbered("d"), "t-1": numbered("e"), **others}
    publish(out, "job-4", overwrite="static", topic="t")
    assert content(out) == others and done(out) == {"t-0": NOTHING, "t-1": NOTHING}
    with pytest.raises(ValueError, match="no topic is known"):
        publish(out, "job-5", overwrite="static")


def test_a_reader_during_an_overwrite_in_a_bucket_finds_the_start_of_the_old_or_of_the_new_log(tmp_path, monkeypatch):
    store = new_store(tmp_path, monkeypatch)
    publish(store, "job-1", {"t-0": ["a", "b"]})
    publish(store, "job-2", {"t-0": ["c"]})
    old, new = numbered("a", "b", "c"), numbered("d", "e", "f")
    found = []

    def reading(verb):
        original = getattr(Dying, verb)

        def call(*words):
            found.append(content(store, UNFINISHED).get("t-0", []))
            there = objects(store).keys()
            assert all(name.replace(".log", ".index") in there for name in there if name.endswith(".log"))
            return original(*words)

        return call

    for verb in ("put", "copy", "delete"):
        monkeypatch.setattr(Dying, verb, reading(verb))
    publish(store, "job-3", {"t-0": ["d"]}, {"t-0": ["e", "f"]}, overwrite="static")
    steps = [each for number, each in enumerate(found) if not number or each != found[number - 1]]
    assert steps == [old, old[:2], [], new[:1], new]


def test_a_log_of_a_later_leader_keeps_its_epoch_and_the_topic_its_id(out):
    with kafkarec.SegmentWriter(on_disk(out) / "t-5", leader_epoch=7) as writer:
        writer.write([(0, NOW, None, b"x", []), (1, NOW, None, b"y", [])])
    publish(out, "job-1", {"t-5": ["a"], "t-0": ["b"], "u-0": ["c"]}, {"t-5": ["d"]})
    publish(out, "job-2", {"t-5": ["e"]}, offsets={"t-5": [4]})  # as staged but for the epoch
    assert content(out) == {"t-5": numbered("x", "y", "a", "d", "e"), "t-0": numbered("b"), "u-0": numbered("c")}
    assert set(kafkarec.open(f"{out}/t-5").scan().column("partition_leader_epoch")) == {7}
    assert topic_id(out, "t-0") == topic_id(out, "t-5") != topic_id(out, "u-0")


def test_given_offsets_and_their_gaps_are_kept(out):
    publish(out, "job-1", {"t-0": ["a", "b"]}, offsets={"t-0": [100, 105]})
    Dying.log.clear()
    publish(out, "job-2", {"t-0": ["c"]}, offsets={"t-0": [106]})
    assert content(out) == {"t-0": [(100, "a"), (105, "b"), (106, "c")]}
    assert not [each for each in Dying.log if each.startswith("download")]  # the store copies it


@pytest.mark.parametrize(
    "tasks, offsets, message",
    [
        (({"t-0": ["c"], "t-1": ["d"]},), {"t-0": [1]}, r"t-0: offsets 1 to 1 do not follow: the next .* is 2; "),
        (({"t-0": ["c"]}, {"t-0": ["d"]}), {"t-0": [5]}, r"2 tasks have records with offsets for t-0: .*write_log"),
        (({"t-0": ["c", "d"]},), {"t-0": [5, 4]}, r"t-0: .*write_log"),
    ],
)
def test_impossible_offsets_are_refused_and_nothing_changes(out, tasks, offsets, message):
    publish(out, "job-1", {"t-0": ["a", "b"]})
    before = objects(out)
    with pytest.raises(ValueError, match=message):
        publish(out, "job-2", *tasks, offsets=offsets)
    abort(job(out, "job-2"))
    assert objects(out) == before


@pytest.mark.parametrize("topic", ["../out", "a/b", "", ".", "..", "x" * 250, "sp ace", None])
def test_invalid_topic_names_are_refused(tmp_path, topic):
    with staging_of(begun(tmp_path)) as writer, pytest.raises(ValueError, match="topic"):
        writer.put(topic, 0, table(["a"]))


def test_only_the_attempts_named_by_commit_messages_are_published(out):
    """Neither a lost first attempt, nor one that outlives its job, nor one that begins after it."""
    made = begun(out)
    stage(made, {"t-0": ["lost"]})
    good = stage(made, {"t-0": ["a"]})
    with pytest.raises(FileNotFoundError, match="the job has ended"), staging_of(made) as late:
        late.put("t", 0, table(["late"]))
        commit(made, good)
        late.put("t", 1, table(["later"]))
        late.close()
    with pytest.raises(FileNotFoundError, match="the job has ended"), staging_of(made, 1) as late:
        late.put("t", 1, table(["later"]))
        late.close()
    assert content(out) == {"t-0": numbered("a")} and left(out) == []


@pytest.mark.parametrize("refused", [False, True], ids=["uploads succeed", "an upload fails"])
def test_a_task_removes_what_it_has_uploaded_to_a_job_that_failed_meanwhile(tmp_path, monkeypatch, refused):
    store = new_store(tmp_path, monkeypatch)
    publish(store, "job-1", {"t-0": ["a"]})
    before, made = objects(store), begun(store, "job-2")
    upload, first, aborted = Dying.upload, threading.Lock(), threading.Event()

    def failing_meanwhile(bucket, path, name):
        # Files are uploaded by several threads: one of them removes the job, the others go on afterwards.
        if first.acquire(blocking=False):
            abort(made)
            aborted.set()
            if refused:
                raise FileNotFoundError(f"{name} was removed during the upload")
        assert aborted.wait(60)
        upload(bucket, path, name)

    monkeypatch.setattr(Dying, "upload", failing_meanwhile)
    with pytest.raises(FileNotFoundError, match="job-2 is gone: the job has ended"):
        stage(made, {"t-0": ["b"]})
    assert objects(store) == before


def test_a_micro_batch_that_is_done_is_not_written_again_and_that_of_another_query_is(out):
    for query, batch, rows in (("q", 0, "a"), ("q", 1, "b"), ("q", 0, "a"), ("q", 1, "b"), ("r", 0, "c")):
        publish(out, f"{query}-{batch}", {"t-0": [rows]}, query=query, batch=batch)
    assert content(out) == {"t-0": numbered("a", "b", "c")} and left(out) == []
    assert not (on_disk(out) / "_SUCCESS").exists()


# ---- files that are not as expected -------------------------------------------------------------------------


def test_more_partitions_than_permitted_open_files(tmp_path, monkeypatch):
    monkeypatch.setattr(staging, "MAX_OPEN_WRITERS", 2)
    made = begun(tmp_path, batchSize=1)
    with staging_of(made) as one:
        for number in range(20):
            one.put("t", number % 5, table([str(number)]))
        staged = one.close()
    commit(made, staged)
    assert content(tmp_path) == {f"t-{n}": numbered(*(str(m) for m in range(n, 20, 5))) for n in range(5)}


def test_a_large_last_segment_stays_unchanged_and_a_new_one_is_begun(tmp_path, monkeypatch):
    monkeypatch.setattr(folders, "SMALL_SEGMENT", 100)
    publish(tmp_path, "job-1", {"t-0": ["a" * 3000]}, batchSize=100)
    first = tmp_path / "t-0" / f"{0:020}.log"
    before = (first.stat().st_ino, first.read_bytes())
    publish(tmp_path, "job-2", {"t-0": ["b"]}, batchSize=100)
    assert (first.stat().st_ino, first.read_bytes()) == before
    assert sorted(each.name for each in (tmp_path / "t-0").glob("*.log")) == [f"{0:020}.log", f"{1:020}.log"]
    publish(tmp_path, "job-3", {"t-0": ["c" * 9000]}, batchSize=100)  # larger than that segment
    assert content(tmp_path) == {"t-0": numbered("a" * 3000, "b", "c" * 9000)}


@pytest.mark.parametrize("bad", [False, True], ids=["zeros", "wrong checksum"])
def test_a_bad_last_batch_is_truncated_in_the_copy_only(tmp_path, monkeypatch, bad):
    monkeypatch.setattr(folders, "SMALL_SEGMENT", 100)
    publish(tmp_path, "job-1", {"t-0": ["a" * 3000]}, batchSize=100)
    log = tmp_path / "t-0" / f"{0:020}.log"
    whole = log.read_bytes()
    log.write_bytes(whole + ((1).to_bytes(8, "big") + whole[8:-1] + b"?" if bad else b"\0" * 20))
    with log.open("rb") as old:
        spoiled = log.read_bytes()
        publish(tmp_path, "job-2", {"t-0": ["b"]}, batchSize=100)
        assert old.read() == spoiled
    assert content(tmp_path) == {"t-0": numbered("a" * 3000, "b")}


def test_a_log_in_a_bucket_that_ends_within_a_batch_is_not_appended_to(tmp_path, monkeypatch):
    store = new_store(tmp_path, monkeypatch)
    publish(store, "job-1", {"t-0": ["a", "b"]})
    with (on_disk(store) / "t-0" / f"{0:020}.log").open("ab") as log:
        log.write(b"\0\0")
    with pytest.raises(ValueError, match=r"t-0/0{20}\.log does not end with a whole batch: salvage"):
        publish(store, "job-2", {"t-0": ["c"]})


@pytest.mark.parametrize("seen", [0, 40])
def test_staged_files_that_are_not_whole_change_nothing(seen, out):
    """A listing may lag behind, a file may be cut: without the largest batch a last segment is linked, not copied."""
    publish(out, "job-1", {"t-0": ["a"]})
    if "://" not in out:
        with (on_disk(out) / "t-0" / f"{0:020}.log").open("ab") as log:
            log.write(bytes(40))  # what another program has begun to write
    made = begun(out, "job-2", overwrite=None if "://" not in out else "dynamic")
    staged = stage(made, {"t-0": ["b"]})
    before = objects_of(out, "t-0")
    (log_file,) = (on_disk(out) / "_temporary" / "job-2" / staged[0].folder).glob("*.log")
    log_file.write_bytes(log_file.read_bytes()[:seen])
    with pytest.raises(FileNotFoundError, match="is not as its task has written it"):
        commit(made, staged)
    assert objects_of(out, "t-0") == before


def test_staging_that_the_driver_cannot_see_is_reported(tmp_path):
    made = job(tmp_path / "driver")
    staged = stage(begun(tmp_path / "executor"), {"t-0": ["a"]})
    with pytest.raises(FileNotFoundError, match="must be a folder that the driver and all executors share"):
        commit(made, staged)


def test_a_folder_that_cannot_be_listed_is_an_error(tmp_path, monkeypatch):
    """As an empty one it would lose what an overwrite replaces, and the journals of other jobs."""
    publish(tmp_path, "job-1", {"t-0": ["a"], "t-1": ["b"]})
    made = begun(tmp_path, "job-2", overwrite="static")
    staged, scan = stage(made, {"t-0": ["c"]}), os.scandir

    def scandir(path):
        if isinstance(path, str) and path.rstrip("/") == str(tmp_path):
            raise OSError(errno.EIO, "Input/output error", str(path))
        return scan(path)

    monkeypatch.setattr(os, "scandir", scandir)
    with pytest.raises(OSError, match="Input/output error"):
        commit(made, staged)
    monkeypatch.undo()
    assert content(tmp_path) == {"t-0": numbered("a"), "t-1": numbered("b")}


def test_files_that_cannot_be_linked_are_copied(tmp_path, monkeypatch):
    def refused(*_, **__):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refused)
    publish(tmp_path, "job-1", {"t-0": ["a"]})
    publish(tmp_path, "job-2", {"t-0": ["b"]})
    assert content(tmp_path) == {"t-0": numbered("a", "b")}


# ---- others that write at the same time ---------------------------------------------------------------------


def test_jobs_at_once_publish_one_after_the_other(out):
    jobs = [threading.Thread(target=publish, args=(out, f"job-{n}", {"t-0": [f"v{n}"]})) for n in range(6)]
    for each in jobs:
        each.start()
    for each in jobs:
        each.join(60)
    records = content(out)["t-0"]
    assert [offset for offset, _ in records] == [*range(6)] and {value for _, value in records} == {
        f"v{n}" for n in range(6)
    }
    assert left(out) == []


def test_a_foreign_write_after_the_commit_is_not_overwritten(out, monkeypatch):
    publish(out, "job-1", {"t-0": ["a"]})
    made = begun(out, "job-2")
    staged = stage(made, {"t-0": ["b"]})
    if "://" not in out:
        with kafkarec.SegmentWriter(on_disk(out) / "t-0"), pytest.raises(BlockingIOError, match="another writer"):
            commit(made, staged)
    store = type(publishing.publisher(made).store)
    put, foreign = store.put, on_disk(out) / "t-0" / f"{1:020}.log"

    def late(self, name, data):
        put(self, name, data)
        if name.endswith("commit.json"):
            foreign.write_bytes(kafkarec.encode([(1, 0, None, b"somebody else's", [])]))

    with monkeypatch.context() as patch:
        patch.setattr(store, "put", late)
        advice = r"remove this object" if "://" in out else "move it elsewhere: .*t-0"
        with pytest.raises(UnfinishedCommit, match=f"another writer has changed.* {advice}"):
            commit(made, staged)
    with pytest.raises(UnfinishedCommit, match="job-2 is committed, being finished: do not run it again"):
        abort(made)
    with pytest.raises(UnfinishedCommit, match="nothing of this job is written; an earlier job, job-2 is committed"):
        publish(out, "job-3", {"t-1": ["c"]})
    assert content(out, UNFINISHED) == {"t-0": numbered("a", "somebody else's")}
    foreign.unlink()
    publish(out, "job-4", {"t-1": ["c"]})
    assert content(out) == {"t-0": numbered("a", "b"), "t-1": numbered("c")}


def test_a_driver_on_another_machine_finishes_a_commit(tmp_path, monkeypatch):
    """There the same folder has another device number, by which the system knows where it is mounted."""
    out = tmp_path / "out"
    publish(out, "job-1", {"t-0": ["a"], "t-1": ["b"]})
    made = begun(out, "job-2")
    staged, swap = stage(made, {"t-0": ["c"], "t-1": ["d"]}), folders.swap_folders

    def first_only(new, target):
        if target.endswith("t-1"):
            raise OSError(errno.EIO, "the driver's machine is gone", target)
        return swap(new, target)

    with monkeypatch.context() as patch:
        patch.setattr(folders, "swap_folders", first_only)
        with pytest.raises(UnfinishedCommit, match="the driver's machine is gone"):
            commit(made, staged)
    assert content(out) == {"t-0": numbered("a", "c"), "t-1": numbered("b")}

    def elsewhere(path):
        status = os.lstat(path)
        return os.stat_result((*status[:2], status.st_dev + 1, *status[3:]))

    monkeypatch.setattr(folders, "os", SimpleNamespace(**{**vars(os), "lstat": elsewhere}))
    publish(out, "job-3", {"t-0": ["e"]})
    assert content(out) == {"t-0": numbered("a", "c", "e"), "t-1": numbered("b", "d")} and left(out) == []


def test_a_driver_whose_lock_expired_stops_before_the_next_request(tmp_path, monkeypatch):
    """Before its journal it leaves nothing; after it others finish the commit."""
    store = new_store(tmp_path, monkeypatch)
    publish(store, "job-1", {"t-0": ["a"], "t-1": ["b"]})
    before = objects(store)
    for verb, error in (("upload", buckets.LockLost), ("copy", UnfinishedCommit)):
        made, original = begun(store, "job-2"), getattr(Dying, verb)
        staged = stage(made, {"t-0": ["d"], "t-1": ["e"]})

        def expiring(self, *words, original=original):
            original(self, *words)
            monkeypatch.setattr(buckets, "STALE", -1.0)

        with monkeypatch.context() as patch:
            patch.setattr(Dying, verb, expiring)
            with pytest.raises(error, match="was not renewed"):
                commit(made, staged)
        monkeypatch.setattr(buckets, "STALE", 1200.0)
        if verb == "upload":
            abort(made)
            assert objects(store) == before
    publish(store, "job-3", {"t-1": ["z"]})
    assert content(store) == {"t-0": numbered("a", "d"), "t-1": numbered("b", "e", "z")}


def test_a_driver_that_rewrites_one_partition_for_long_renews_its_lock(tmp_path, monkeypatch):
    """Each download and upload takes 400 seconds; without a renewal for 600 a driver stops."""
    store, clock = new_store(tmp_path, monkeypatch), [time.time()]
    publish(store, "job-1", {"t-0": ["a"]})
    staged = stage(made := begun(store, "job-2"), {"t-0": ["b"]}, {"t-0": ["c"]}, {"t-0": ["d"]})
    monkeypatch.setattr(buckets, "time", SimpleNamespace(time=lambda: clock[0], sleep=time.sleep))
    for verb in ("download", "upload"):
        real = getattr(Dying, verb)

        def slow(self, *words, original=real):
            clock[0] += 400
            original(self, *words)

        monkeypatch.setattr(Dying, verb, slow)
    commit(made, staged)
    assert content(store) == {"t-0": numbered("a", "b", "c", "d")} and left(store) == []


@pytest.mark.parametrize("base", [1, 7])
def test_appends_continue_at_an_empty_last_segment(out, base):
    """Its name has the end of the log, also behind a gap: offsets below it may have been consumed."""
    publish(out, "job-1", {"t-0": ["a"]})
    (on_disk(out) / "t-0" / f"{base:020}.log").touch()
    if "://" in out:
        with pytest.raises(ValueError, match=rf"{base:020}\.log is an object without records: remove it first"):
            publish(out, "job-2", {"t-0": ["b"]})
    else:
        publish(out, "job-2", {"t-0": ["b"]})
        assert content(out) == {"t-0": [(0, "a"), (base, "b")]}


def test_the_sweep_leaves_running_jobs(out):
    dead = begun(out, "dead")
    stage(dead, {"t-0": ["c"]})
    sweep = publishing.Publisher(out).sweep
    assert sweep() == []
    for each in [on_disk(dead.folder), *on_disk(dead.folder).rglob("*")]:
        os.utime(each, (time.time() - 30 * 3600,) * 2)
    running = begun(out, "running")
    staged = stage(running, {"t-0": ["b"]})
    assert sweep() == ["dead"]
    commit(running, staged)
    assert content(out) == {"t-0": numbered("b")} and left(out) == [] and sweep(0) == []


# ---- what a job may write, and where --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["part-00000-1f.c000.snappy.parquet", "_delta_log", "events.parquet"])
def test_partition_folders_are_not_written_beside_another_table(tmp_path, name):
    (tmp_path / name).mkdir()
    with pytest.raises(ValueError, match=rf"{tmp_path} holds another table \({name}\)"):
        publishing.resolve_folder(str(tmp_path), {})


def test_a_pickled_job_shows_no_keys(tmp_path):
    made = job(tmp_path, storageOptions=StorageOptions({"key": "an-id", "secret": "top-secret"}))
    again = pickle.loads(pickle.dumps(made))
    assert again == made and again.options.storageOptions["secret"] == "top-secret"
    assert "top-secret" not in repr(again) + str(again) + f"{again.options}"
    assert "StorageOptions(key, secret)" in repr(again)
