"""Commits of each kind whose driver dies before any of its changes, in a folder and in a bucket: what was committed is
finished by whoever comes next, what was not is not there, and nothing is there twice. Real drivers are killed by
test_stream_kills.py and test_bucket_kills.py."""

import json
import os
import shutil

import pyarrow.dataset as ds
import pytest
from damage_reports import Frames, nothing_is_shipped  # noqa: F401
from long_run import LONG
from publish_jobs import (
    UNFINISHED,
    abort,
    an_hour_later,
    begun,
    commit,
    content,
    dying,
    left,
    numbered,
    on_disk,
    publish,
    stage,
)

import kafkarec
import spark_udfs
from spark_udfs.source import folders, publishing

pytestmark = pytest.mark.slow

# Each change in CI and in `make fuzz`, else every third.
STEP = 1 if LONG or os.environ.get("CI") else 3
OLD = {"t-0": numbered("a", "b"), "t-1": numbered("c"), "t-9": numbered("i"), "u-0": numbered("j")}
ADDED = OLD | {"t-0": numbered("a", "b", "d", "e"), "t-1": numbered("c", "f"), "t-2": numbered("g", "h")}
# A static overwrite leaves the partition that the new rows do not have empty, and other topics as they are.
REPLACED = {"t-0": numbered("d", "e"), "t-1": numbered("f"), "t-2": numbered("g", "h"), "u-0": numbered("j")}
FIRST = {"t-0": ["a", "b"], "t-1": ["c"], "t-9": ["i"], "u-0": ["j"]}
SECOND = ({"t-0": ["d"], "t-1": ["f"], "t-2": ["g"]}, {"t-0": ["e"], "t-2": ["h"]})


class Partitions:
    """A job that writes partition folders. `options` of it, and what is there before and after it.

    first: where a job was published before; the others begin with a copy of what it wrote.
    """

    def __init__(self, out, first, after, **options):
        self.out, self.before, self.after, self.options = out, OLD, after, options
        if not on_disk(first).exists():
            publish(first, "job-1", FIRST, **({"query": "q", "batch": 0} if "query" in options else {}))
        shutil.copytree(on_disk(first), on_disk(out))
        self.job = begun(out, "job-2", **options)
        self.staged = stage(self.job, *SECOND)

    def commit(self):
        commit(self.job, self.staged)

    def again(self):
        """The driver tries again; a micro-batch is run again."""
        if self.job.query is None:
            self.commit()
        else:
            commit(self.job, stage(self.job, *SECOND))

    def abort(self):
        abort(self.job)

    def another(self, there):
        """Another job, and what is there after it."""
        publish(self.out, "job-3", {"t-1": ["z"], "t-3": ["y"]})
        return there | {"t-1": [*there["t-1"], (len(there["t-1"]), "z")], "t-3": numbered("y")}

    def read(self):
        return content(self.out, UNFINISHED)

    def last_done(self):
        success = on_disk(self.out) / "_SUCCESS"
        return json.loads(success.read_text())["job"] if success.exists() else None

    def is_done(self):
        if self.job.query is not None:
            return bool(json.loads((on_disk(self.out) / "_streams.json").read_text())["q"]["batch"] == 1)
        return self.last_done() == "job-2"

    def check_readers(self, found, two_renames):
        """Each partition is the old or the new one; in a bucket the beginning of one of them; between two renames it is
        missing. What _SUCCESS says is there as a whole."""
        for name in {*found, *self.before, *self.after}:
            allowed = [self.before.get(name, []), self.after.get(name, [])]
            if "://" in self.out:
                allowed = [log[:count] for log in allowed for count in range(len(log) + 1)]
            assert found.get(name, []) in [*allowed, *([[]] if two_renames else [])], name
        assert found == {"job-1": self.before, "job-2": self.after}.get(self.last_done() or "", found)


class Table:
    """write_table of a log that has grown. What is there are (topic, partition, offset, value)."""

    def __init__(self, out, first, source, mode):
        self.out, self.source, self.mode = out, source, mode
        self.before = [("t", 0, offset, b"old") for offset in range(3)]
        self.after = [*self.before, *(("t", 0, offset, b"new") for offset in range(3, 6)), ("t", 1, 0, b"other")]
        self._grow(0, *(b"old",) * 3)
        if not on_disk(first).exists():
            spark_udfs.write_table(Frames(), source, first)
        shutil.copytree(on_disk(first), on_disk(out))
        self._grow(0, *(b"new",) * 3)
        self._grow(1, b"other")

    def _grow(self, partition, *values):
        with kafkarec.SegmentWriter(self.source / f"t-{partition}") as log:
            for value in values:
                log.write([(0, 86_400_000 * (log.next_offset + 1), None, value, [])])

    def commit(self):
        spark_udfs.write_table(Frames(), self.source, self.out, mode=self.mode)

    def again(self):
        spark_udfs.write_table(Frames(), self.source, self.out)

    def abort(self):
        publishing.Publisher(self.out).sweep(0)

    def another(self, there):
        self._grow(1, b"more")
        self.again()
        return [*self.after, ("t", 1, 1, b"more")]

    def read(self):
        folder = on_disk(self.out)
        if not list(folder.rglob("*.parquet")):
            return []
        rows = ds.dataset(folder, partitioning="hive").to_table().to_pylist()
        return sorted((row["topic"], row["partition"], row["offset"], row["value"]) for row in rows)

    def is_done(self):
        offsets = json.loads((on_disk(self.out) / "_table.json").read_text())["offsets"]
        return bool(offsets["t"]["0"] == 6)

    def check_readers(self, found, two_renames):
        """Readers may see a part of a commit, as docs/spark/table.md says."""
        assert set(found) <= set(self.after)


KINDS = {
    "append": lambda out, first, source: Partitions(out, first, ADDED),
    "overwrite": lambda out, first, source: Partitions(out, first, REPLACED, overwrite="static"),
    "stream": lambda out, first, source: Partitions(out, first, ADDED, query="q", batch=1),
    "table append": lambda out, first, source: Table(out, first, source, "append"),
    "table overwrite": lambda out, first, source: Table(out, first, source, "overwrite"),
}


def dies_everywhere(out, kind, source, monkeypatch, two_renames=False):
    number, ended, decisions = 0, False, set()
    while not ended:
        path, at = f"{out}{number}", number // STEP
        job = KINDS[kind](path, f"{out}-first", source / str(number))
        with dying(path, number, monkeypatch) as died:
            job.commit()
        ended = not died
        found = job.read()
        job.check_readers(found, two_renames)
        decided = bool(list(on_disk(path).glob("_temporary/*/commit.json"))) or job.is_done()
        decisions.add(decided)
        assert decided or found == job.before, number
        assert not job.is_done() or found == job.after, number
        an_hour_later(path)
        if at % 2:
            with dying(path, at % 7, monkeypatch):
                job.abort()
            an_hour_later(path)
        expected, way = job.after if decided else job.before, at // 2 % 4
        if way == 0 and (decided or not at % 2):
            job.again()
            expected = job.after
        elif way < 2:
            job.abort()
        elif way == 2:
            publishing.Publisher(path).sweep(0)
        else:
            expected = job.another(expected)
        assert job.read() == expected, number
        if way == 3 or kind.startswith("table"):  # the next job does not know whether one that has staged still runs
            publishing.Publisher(path).sweep(0)
            assert job.read() == expected, number
        assert left(path) == [], number
        number += STEP
    assert decisions == {True, False} and number > 15


@pytest.mark.parametrize("kind", KINDS)
def test_a_dead_drivers_commit_is_finished_or_has_left_nothing(out, kind, tmp_path, monkeypatch):
    """By the same job again, by its abort, by a sweep, or by another job; each second time its abort dies first."""
    dies_everywhere(out, kind, tmp_path / "source", monkeypatch)


@pytest.mark.parametrize("kind", ["append", "overwrite"])
def test_the_same_where_names_of_folders_cannot_be_swapped(kind, tmp_path, monkeypatch):
    monkeypatch.setattr(folders, "swap_folders", lambda one, other: False)
    dies_everywhere(f"{tmp_path}/out", kind, tmp_path / "source", monkeypatch, two_renames=True)
