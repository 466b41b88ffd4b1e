"""What tasks stage and the driver publishes, without Spark: a crash at every step, and what readers see then."""

from __future__ import annotations

import json
import os
import shutil
import time
from pathlib import Path
from typing import Any

import pytest

import kafkarec

pytest.importorskip("pyspark", reason="pyspark is not installed")
pytest.importorskip("pyarrow", reason="pyarrow is not installed")

from published import (
    NOW,
    Crash,
    content,
    crash_at,
    crashing,
    job,
    leftovers,
    numbered,
    publish,
    stage,
    table,
)

from spark_udfs.source import folders, publishing, staging
from spark_udfs.source.staging import StagingWriter, WriteSettings


def test_what_is_staged_is_seen_by_nobody_until_it_is_published(tmp_path: Path) -> None:
    made = job(tmp_path)
    staged = stage(made, 0, {"orders-0": ["a", "b"], "orders-1": ["c"]})
    assert content(tmp_path) == {} and leftovers(tmp_path) != []
    told = publishing.commit(made, staged)
    assert content(tmp_path) == {"orders-0": numbered("a", "b"), "orders-1": numbered("c")}
    assert told == [
        {"name": "orders-0", "records": 2, "first_offset": 0, "next_offset": 2},
        {"name": "orders-1", "records": 1, "first_offset": 0, "next_offset": 1},
    ]
    assert not (tmp_path / "_temporary").exists()
    assert json.loads((tmp_path / "_SUCCESS").read_text())["partitions"]["orders-1"]["next_offset"] == 1


def test_tasks_follow_each_other_in_their_order_and_appends_go_on(tmp_path: Path) -> None:
    made = job(tmp_path)
    staged = stage(made, 1, {"t-0": ["c", "d"]}) + stage(made, 0, {"t-0": ["a", "b"]}) + stage(made, 2, {"t-0": ["e"]})
    publishing.commit(made, staged)
    publish(tmp_path, "job-2", {"t-0": ["f"], "t-1": ["g"]})
    assert content(tmp_path) == {"t-0": numbered(*"abcdef"), "t-1": numbered("g")}
    assert [each.name for each in (tmp_path / "t-0").glob("*.log")] == ["00000000000000000000.log"]


def test_overwriting_replaces_the_partitions_that_are_written_and_no_other(tmp_path: Path) -> None:
    publish(tmp_path, "job-1", {"t-0": ["a", "b"], "t-1": ["c"]})
    topic_id = (tmp_path / "t-0" / "partition.metadata").read_bytes()
    publish(tmp_path, "job-2", {"t-0": ["d"]}, overwrite=True)
    assert content(tmp_path) == {"t-0": numbered("d"), "t-1": numbered("c")}
    assert (tmp_path / "t-0" / "partition.metadata").read_bytes() == topic_id


def test_all_partitions_of_a_topic_have_the_id_of_those_that_are_there(tmp_path: Path) -> None:
    with kafkarec.SegmentWriter(tmp_path / "t-5") as writer:
        writer.write([(0, NOW, None, b"x", [])])
    publish(tmp_path, "job-1", {"t-0": ["a"], "u-0": ["b"], "u-1": ["c"]})
    ids = {name: (tmp_path / name / "partition.metadata").read_text() for name in ("t-0", "t-5", "u-0", "u-1")}
    assert ids["t-0"] == ids["t-5"] != ids["u-0"] == ids["u-1"]


def test_a_log_of_a_later_leader_keeps_its_epochs_and_its_records(tmp_path: Path) -> None:
    with kafkarec.SegmentWriter(tmp_path / "t-0", leader_epoch=7) as writer:
        writer.write([(0, NOW, None, b"x", []), (1, NOW, None, b"y", [])])
    made = job(tmp_path)
    publishing.commit(made, stage(made, 0, {"t-0": ["a"]}) + stage(made, 1, {"t-0": ["b"]}))
    assert content(tmp_path) == {"t-0": numbered("x", "y", "a", "b")}
    with kafkarec.open(tmp_path / "t-0") as log:
        assert set(log.scan().column("partition_leader_epoch")) == {7}


def test_given_offsets_are_kept_and_gaps_too(tmp_path: Path) -> None:
    made = job(tmp_path)
    publishing.commit(made, stage(made, 0, {"t-0": ["a", "b"]}, {"t-0": [100, 105]}))
    again = job(tmp_path, "job-2")
    publishing.commit(again, stage(again, 0, {"t-0": ["c"]}, {"t-0": [110]}))
    assert content(tmp_path) == {"t-0": [(100, "a"), (105, "b"), (110, "c")]}


def test_offsets_below_the_end_of_the_log_are_refused_and_nothing_changes(tmp_path: Path) -> None:
    publish(tmp_path, "job-1", {"t-0": ["a", "b"]})
    made = job(tmp_path, "job-2")
    staged = stage(made, 0, {"t-0": ["c"], "t-1": ["d"]}, {"t-0": [1]})
    with pytest.raises(ValueError, match=r"t-0: .*offsets 1 to 1 do not follow"):
        publishing.commit(made, staged)
    publishing.abort(made)
    assert content(tmp_path) == {"t-0": numbered("a", "b")}
    assert leftovers(tmp_path) == []


def test_two_tasks_with_offsets_for_one_partition_are_refused_by_the_name_of_the_way_out(tmp_path: Path) -> None:
    made = job(tmp_path)
    staged = stage(made, 0, {"t-0": ["a"]}, {"t-0": [0]}) + stage(made, 1, {"t-0": ["b"]}, {"t-0": [1]})
    with pytest.raises(ValueError, match=r"2 tasks have records with offsets for t-0: spark_udfs\.write_log"):
        publishing.commit(made, staged)
    assert content(tmp_path) == {}


def test_offsets_that_fall_within_a_task_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"t-0: .*write_log"):
        stage(job(tmp_path), 0, {"t-0": ["a", "b"]}, {"t-0": [5, 4]})


@pytest.mark.parametrize("topic", ["../out", "a/b", "", ".", "..", "x" * 250, "sp ace", None])
def test_a_topic_that_leads_out_of_the_folder_is_refused(tmp_path: Path, topic: Any) -> None:
    made = StagingWriter(str(tmp_path), "job-1", 0, 0, WriteSettings())
    with pytest.raises(ValueError, match="topic"):
        made.put(topic, 0, table(["a"]), False)


def test_a_part_that_no_message_names_is_not_published(tmp_path: Path) -> None:
    """The first attempt of a task that is run again, or a speculative one."""
    made = job(tmp_path)
    stage(made, 0, {"t-0": ["lost"]})
    publishing.commit(made, stage(made, 0, {"t-0": ["a"]}))
    assert content(tmp_path) == {"t-0": numbered("a")} and leftovers(tmp_path) == []


def test_a_task_that_outlives_its_job_brings_nothing_back(tmp_path: Path) -> None:
    made = job(tmp_path)
    publishing.begin(made)
    early, late = (StagingWriter(made.path, made.job, task, 0, made.settings, begun=True) for task in (0, 1))
    early.put("t", 0, table(["a"]), False)
    early._flush_all()
    publishing.abort(made)
    for one, number in ((early, 1), (late, 0)):
        one.put("t", number, table(["b"]), False)
        with pytest.raises(FileNotFoundError, match="the job has ended"):
            one.close()
        one.drop()
    assert leftovers(tmp_path) == [] and content(tmp_path) == {}


def test_more_partitions_than_open_files_are_allowed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staging, "MOST_OPEN", 2)
    monkeypatch.setattr(staging, "ENOUGH", 1)
    made = job(tmp_path, batch_size=1)
    one = StagingWriter(made.path, made.job, 0, 0, made.settings)
    for number in range(20):
        one.put("t", number % 5, table([str(number)]), False)
    publishing.commit(made, one.close())
    assert content(tmp_path) == {f"t-{n}": numbered(*(str(m) for m in range(n, 20, 5))) for n in range(5)}


def test_a_large_last_segment_is_left_alone_and_a_new_one_is_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folders, "SMALL_SEGMENT", 100)
    publish(tmp_path, "job-1", {"t-0": ["a" * 3000]}, batch_size=100)
    first = tmp_path / "t-0" / "00000000000000000000.log"
    before = (first.stat().st_ino, first.read_bytes())
    publish(tmp_path, "job-2", {"t-0": ["b"]}, batch_size=100)
    assert (first.stat().st_ino, first.read_bytes()) == before
    assert sorted(folders.logs(str(tmp_path / "t-0"))) == ["00000000000000000000.log", "00000000000000000001.log"]
    assert content(tmp_path) == {"t-0": numbered("a" * 3000, "b")}
    publish(tmp_path, "job-3", {"t-0": ["c" * 9000]}, batch_size=100)  # larger than that segment
    assert content(tmp_path) == {"t-0": numbered("a" * 3000, "b", "c" * 9000)}


def test_a_torn_end_is_cut_off_in_the_copy_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folders, "SMALL_SEGMENT", 100)
    publish(tmp_path, "job-1", {"t-0": ["a" * 3000]}, batch_size=100)
    log = tmp_path / "t-0" / "00000000000000000000.log"
    log.write_bytes(log.read_bytes() + b"\0" * 20)
    made = job(tmp_path, "job-2", batch_size=100)
    staged = stage(made, 0, {"t-0": ["b"]})
    size, inode = log.stat().st_size, log.stat().st_ino
    with pytest.raises(Crash), crashing(monkeypatch, lambda name, words: name == "write_file" and "commit" in words[0]):
        publishing.commit(made, staged)
    assert (log.stat().st_size, log.stat().st_ino) == (size, inode)
    publishing.commit(made, staged)
    assert content(tmp_path) == {"t-0": numbered("a" * 3000, "b")}


def test_who_writes_at_the_same_time_is_not_overwritten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    publish(tmp_path, "job-1", {"t-0": ["a"]})
    made = job(tmp_path, "job-2")
    staged = stage(made, 0, {"t-0": ["b"]})
    with kafkarec.SegmentWriter(tmp_path / "t-0") as writer:
        with pytest.raises(BlockingIOError, match="another writer"):
            publishing.commit(made, staged)
        writer.write([(0, NOW, None, b"x", [])])
    keep = folders.write_file

    def late(path: str, data: bytes) -> None:
        keep(path, data)
        if path.endswith("commit.json"):
            with kafkarec.SegmentWriter(tmp_path / "t-0") as writer:
                writer.write([(0, NOW, None, b"y", [])])

    monkeypatch.setattr(folders, "write_file", late)
    with pytest.raises(BlockingIOError, match="another writer"):
        publishing.commit(made, staged)
    publishing.abort(made)
    assert content(tmp_path) == {"t-0": numbered("a", "x", "y")}


def test_staging_that_the_driver_cannot_see_is_told(tmp_path: Path) -> None:
    made = job(tmp_path / "driver")
    staged = stage(job(tmp_path / "executor"), 0, {"t-0": ["a"]})
    with pytest.raises(FileNotFoundError, match="must be a folder that the driver and all executors share"):
        publishing.commit(made, staged)


# ---- crashes ------------------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def _quick_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes die here, not machines."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


OLD = {"t-0": numbered("a", "b"), "t-1": numbered("c")}
ADDED = {"t-0": numbered("a", "b", "d", "e"), "t-1": numbered("c", "f"), "t-2": numbered("g", "h")}
REPLACED = {"t-0": numbered("d", "e"), "t-1": numbered("f"), "t-2": numbered("g", "h")}


BOTH_WAYS = pytest.mark.parametrize("two_renames", [False, True])
ALL_WAYS = pytest.mark.parametrize(("two_renames", "overwrite"), [(False, False), (True, False), (False, True)])


def without_exchange(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folders, "exchange", lambda one, other: False)


def half_done(path: Path, monkeypatch: pytest.MonkeyPatch, number: int, two_renames: bool, overwrite: bool) -> Any:
    """A job that died at a step of its commit; its staging, and its steps if it came through."""
    shutil.rmtree(path, ignore_errors=True)
    publish(path, "job-1", {"t-0": ["a", "b"], "t-1": ["c"]})
    made = job(path, "job-2", overwrite=overwrite)
    staged = stage(made, 0, {"t-0": ["d"], "t-1": ["f"], "t-2": ["g"]}) + stage(made, 1, {"t-0": ["e"], "t-2": ["h"]})
    through = None
    try:
        with crash_at(monkeypatch, number) as crash:
            publishing.commit(made, staged)
            through = crash
    except Crash:
        seen, new = content(path), REPLACED if overwrite else ADDED
        for name in ("t-0", "t-1", "t-2"):
            allowed = [OLD.get(name), new[name]]
            if two_renames:
                allowed.append(None)  # between the two
            assert seen.pop(name, None) in allowed, (number, name)
        assert seen == {}
        done = json.loads((path / "_SUCCESS").read_text())["job"] if (path / "_SUCCESS").exists() else None
        assert content(path) == {"job-1": OLD, "job-2": new}.get(done, content(path))
    return made, staged, through


def steps(path: Path, monkeypatch: pytest.MonkeyPatch, overwrite: bool) -> list[int]:
    """Each step from the decision on, and some in front of it; the last one is behind the end."""
    whole = half_done(path, monkeypatch, -1, False, overwrite)[2]
    decision = whole.names.index("commit.json") - 1
    return [*range(0, decision, 5), *range(decision, whole.calls + 1)]


@ALL_WAYS
def test_a_commit_that_died_at_any_step_is_finished_by_the_same_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, two_renames: bool, overwrite: bool
) -> None:
    if two_renames:
        without_exchange(monkeypatch)
    for number in steps(tmp_path / "out", monkeypatch, overwrite):
        made, staged, through = half_done(tmp_path / "out", monkeypatch, number, two_renames, overwrite)
        publishing.commit(made, staged)
        assert content(tmp_path / "out") == (REPLACED if overwrite else ADDED), number
        assert leftovers(tmp_path / "out") == [], number
        assert json.loads((tmp_path / "out" / "_SUCCESS").read_text())["job"] == "job-2"
    assert through is not None and number > 40


@ALL_WAYS
def test_a_commit_that_died_at_any_step_is_undone_by_abort(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, two_renames: bool, overwrite: bool
) -> None:
    if two_renames:
        without_exchange(monkeypatch)
    for number in steps(tmp_path / "out", monkeypatch, overwrite):
        made, _, through = half_done(tmp_path / "out", monkeypatch, number, two_renames, overwrite)
        told = tmp_path / "out" / "_SUCCESS"
        done = told.exists() and json.loads(told.read_text())["job"] == "job-2"
        publishing.abort(made)
        assert content(tmp_path / "out") == ((REPLACED if overwrite else ADDED) if done else OLD), number
        assert leftovers(tmp_path / "out") == [], number
        assert json.loads((tmp_path / "out" / "_SUCCESS").read_text())["job"] == ("job-2" if done else "job-1")
    assert through is not None


@BOTH_WAYS
def test_an_undoing_that_died_at_any_step_is_taken_up_by_the_next_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, two_renames: bool
) -> None:
    if two_renames:
        without_exchange(monkeypatch)
    path = tmp_path / "out"
    number, through = 0, False
    while not through:
        last = crashing(monkeypatch, lambda name, words: name == "write_file" and words[0].endswith("_SUCCESS"))
        shutil.rmtree(path, ignore_errors=True)
        publish(path, "job-1", {"t-0": ["a", "b"], "t-1": ["c"]})
        made = job(path, "job-2")
        with pytest.raises(Crash), last:
            publishing.commit(made, stage(made, 0, {"t-0": ["d"], "t-1": ["f"], "t-2": ["g"]}))
        assert content(path) != OLD
        try:
            with crash_at(monkeypatch, number):
                publishing.abort(made)
                through = True
        except Crash:
            pass
        publish(path, "job-3", {"t-1": ["z"], "t-3": ["y"]})
        assert content(path) == OLD | {"t-1": numbered("c", "z"), "t-3": numbered("y")}, number
        number += 1
    assert number > 5


def test_a_stream_s_batch_that_is_run_again_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The driver died at any step, and the batch comes again, staged anew."""
    path = tmp_path / "out"
    number, through = 0, False
    while not through:
        shutil.rmtree(path, ignore_errors=True)
        before = job(path, "q-0", query="q", batch=0)
        publishing.commit(before, stage(before, 0, {"t-0": ["a"]}))
        made = job(path, "q-1", query="q", batch=1)
        try:
            with crash_at(monkeypatch, number):
                publishing.commit(made, stage(made, 0, {"t-0": ["b"], "t-1": ["c"]}))
                through = True
        except Crash:
            pass
        publishing.commit(made, stage(made, 0, {"t-0": ["b"], "t-1": ["c"]}))
        assert content(path) == {"t-0": numbered("a", "b"), "t-1": numbered("c")}, number
        assert leftovers(path) == [], number
        number += 1
    later = job(path, "q-2", query="q", batch=2)
    publishing.commit(later, stage(later, 0, {"t-1": ["d"]}))
    publishing.commit(made, stage(made, 0, {"t-0": ["b"]}))
    other = job(path, "r-0", query="r", batch=0)
    publishing.commit(other, stage(other, 0, {"t-0": ["e"]}))
    assert content(path) == {"t-0": numbered("a", "b", "e"), "t-1": numbered("c", "d")}
    assert not (path / "_SUCCESS").exists()


def test_the_sweep_removes_what_dead_drivers_left_and_no_running_job(tmp_path: Path) -> None:
    publish(tmp_path, "job-1", {"t-0": ["a"]})
    running, dead = job(tmp_path, "running"), job(tmp_path, "dead")
    staged = stage(running, 0, {"t-0": ["b"]})
    stage(dead, 0, {"t-0": ["c"]})
    assert publishing.sweep(str(tmp_path)) == []
    old = time.time() - 30 * 3600
    for each in [Path(dead.folder), *Path(dead.folder).rglob("*")]:
        os.utime(each, (old, old))
    assert publishing.sweep(str(tmp_path)) == ["dead"]
    publishing.commit(running, staged)
    assert content(tmp_path) == {"t-0": numbered("a", "b")} and leftovers(tmp_path) == []


def test_the_sweep_undoes_a_commit_that_died(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    publish(tmp_path, "job-1", {"t-0": ["a"]})
    made = job(tmp_path, "dead")
    staged = stage(made, 0, {"t-0": ["b"], "t-1": ["c"]})
    with pytest.raises(Crash), crashing(monkeypatch, lambda name, words: words[0] == str(tmp_path / "_SUCCESS")):
        publishing.commit(made, staged)
    assert publishing.sweep(str(tmp_path), older_than_hours=0) == ["dead"]
    assert content(tmp_path) == {"t-0": numbered("a")} and (tmp_path / "_SUCCESS").exists()


def test_where_files_cannot_be_linked_they_are_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: Any, **__: Any) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refused)
    publish(tmp_path, "job-1", {"t-0": ["a"]})
    publish(tmp_path, "job-2", {"t-0": ["b"]})
    assert content(tmp_path) == {"t-0": numbered("a", "b")}
