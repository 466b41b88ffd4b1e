"""Commits of each kind, whose process is killed (SIGKILL) at places all over it, in a folder and in a bucket: what was
committed is finished by whoever comes next, what was not is not there, and nothing is there twice."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from killed_commits import (
    CONFLICT,
    FIRST,
    FOLDER_KINDS,
    KILLED,
    SECOND,
    TABLE_KINDS,
    Commits,
    chosen,
    download,
    write_folders,
    write_table,
)
from long_run import LONG
from s3server import BUCKET, Server, running

import kafkarec
import spark_udfs

pytest.importorskip("pyspark", reason="pyspark is not installed")
pytest.importorskip("pyarrow", reason="pyarrow is not installed")

import pyarrow.dataset as ds
from damage_reports import nothing_is_shipped  # noqa: F401
from publish_jobs import content as content_of_folder
from publish_jobs import numbered

from spark_udfs.source import bucket_lock
from spark_udfs.source.bucket_publishing import PublishingBucket

pytestmark = [pytest.mark.slow]
KILLS = 34 if LONG else 7 if os.environ.get("CI") else 4
LOCKED = PublishingBucket.locked
DAY = 86_400_000
KINDS = (*TABLE_KINDS, *FOLDER_KINDS)
OLD = {"t-0": numbered("a", "b"), "t-1": numbered("c"), "t-9": numbered("i"), "u-0": numbered("j")}
ADDED = OLD | {"t-0": numbered("a", "b", "d", "e"), "t-1": numbered("c", "f"), "t-2": numbered("g", "h")}
REPLACED = OLD | {"t-0": numbered("d", "e"), "t-1": numbered("f"), "t-2": numbered("g", "h"), "t-9": []}
TABLE_OLD = [("t", 0, offset, b"old") for offset in range(3)]
TABLE_NEW = [*TABLE_OLD, *(("t", 0, offset, b"new") for offset in range(3, 7)), ("t", 1, 0, b"other")]


class Place:
    """What jobs write to, and the logs of which tables are made. `url`: None in a folder."""

    def __init__(self, root: Path, server: Server | None) -> None:
        self.root, self.server, self.number = root, server, 0
        self.storage = server.options() if server else {}
        self.commits = Commits()

    def new(self, kind: str) -> None:
        """Another place, with what an earlier job has written there; what the next job adds is in `source`."""
        self.number += 1
        self.source = self.root / "source"
        self.path = f"s3://{BUCKET}/out{self.number}" if self.server else str(self.root / f"out{self.number}")
        if kind not in TABLE_KINDS:
            options = {"query": "q", "batch": 0} if kind == "stream" else {}
            write_folders(self.path, "job-1", FIRST, self.storage, **options)
            return
        shutil.rmtree(self.source, ignore_errors=True)
        self.write_log(0, *(b"old",) * 3)
        write_table(str(self.source), self.path, self.storage)
        self.write_log(0, *(b"new",) * 4)
        self.write_log(1, b"other")

    def write_log(self, partition: int, *values: bytes) -> None:
        with kafkarec.SegmentWriter(self.source / f"t-{partition}") as log:
            for value in values:
                log.write([(0, DAY * (log.next_offset + 1), None, value, [])])

    def job(self, kind: str) -> tuple[Any, ...]:
        return kind, self.path, str(self.source) if kind in TABLE_KINDS else "", self.storage

    def killed(self, kind: str, number: int) -> tuple[int, int, int]:
        """The exit code of one job that was killed at that call or request; how many it made, and made before the
        journal."""
        if self.server is None:
            return self.commits.in_folder(number, *self.job(kind))
        return self.commits.in_bucket(self.server, number, *self.job(kind))

    def look(self, kind: str) -> Seen:
        """What is there now; from a bucket, a copy of it."""
        if self.server is None:
            return Seen(kind, Path(self.path))
        shutil.rmtree(self.root / "copy", ignore_errors=True)
        (self.root / "copy").mkdir()
        return Seen(kind, download(self.server, self.path.removeprefix(f"s3://{BUCKET}/"), self.root / "copy"))


class Seen(NamedTuple):
    kind: str
    folder: Path

    @property
    def rows(self) -> Any:
        """What readers see: rows of the table, or records by partition folder."""
        if self.kind not in TABLE_KINDS:
            return {name: each for name, each in content_of_folder(self.folder).items() if each}
        names = ["topic", "partition", "offset", "value"]
        table = ds.dataset(self.folder, partitioning="hive") if list(self.folder.rglob("*.parquet")) else None
        return sorted(tuple(row[name] for name in names) for row in table.to_table().to_pylist()) if table else []

    @property
    def is_committed(self) -> bool:
        """Whether the job has its journal, or is done."""
        if list(self.folder.glob("_temporary/*/commit.json")):
            return True
        if self.kind == "stream":
            return self._json("_streams.json")["q"]["batch"] == 1
        if self.kind in TABLE_KINDS:
            return self._json("_table.json")["offsets"]["t"]["0"] == 7
        return self._json("_SUCCESS")["job"] == "job-2"

    def _json(self, name: str) -> Any:
        return json.loads((self.folder / name).read_text())

    @property
    def left(self) -> list[str]:
        return [str(path) for path in self.folder.rglob("*") if path.is_file() and "_temporary" in path.parts]


@pytest.fixture(params=["folder", "bucket"])
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    monkeypatch.setattr(bucket_lock, "_POLL", 0.05)
    with ExitStack() as stack:
        yield Place(tmp_path, stack.enter_context(running("pyarrow")) if request.param == "bucket" else None)


def before_and_after(kind: str) -> tuple[Any, Any]:
    if kind in TABLE_KINDS:
        return TABLE_OLD, TABLE_NEW
    after = REPLACED if kind == "overwrite" else ADDED
    return OLD, {name: rows for name, rows in after.items() if rows}


@pytest.mark.parametrize("kind", KINDS)
def test_a_killed_job_is_finished_or_has_left_nothing(place: Place, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before, after = before_and_after(kind)
    place.new(kind)
    code, calls, journal = place.killed(kind, -1)
    done = place.look(kind)
    assert (code, done.rows, done.left) == (0, after, [])
    kills, committed = 0, 0
    for number in chosen(calls, journal, KILLS):
        place.new(kind)
        code, _, _ = place.killed(kind, number)
        found = place.look(kind)
        decided = found.is_committed
        kills, committed = kills + (code == KILLED), committed + (code == KILLED and decided)
        assert decided or found.rows == before, number
        if number % 3:
            spark_udfs.sweep(place.path, 0, **({"storage_options": place.storage} if place.server else {}))
            found = place.look(kind)
            assert (found.rows, found.left) == (after if decided else before, []), number
        with monkeypatch.context() as patch:
            # the lock of a dead client is an object
            patch.setattr(PublishingBucket, "locked", lambda self, job, stale=None: LOCKED(self, job, 0))
            if kind in TABLE_KINDS:  # the same call again
                write_table(str(place.source), place.path, place.storage)
                expected = after
            elif kind == "stream":  # the same micro-batch again
                write_folders(place.path, "job-2", SECOND, place.storage, **FOLDER_KINDS[kind])
                expected = after
            else:  # another job
                write_folders(place.path, "job-3", ({"t-3": ["y"]},), place.storage)
                expected = (after if decided else before) | {"t-3": numbered("y")}
        assert place.look(kind).rows == expected, number
    assert kills >= KILLS - 4 and 0 < committed < kills, (kills, committed)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "stream"])
def test_of_two_jobs_at_once_none_is_lost_or_there_twice(place: Place, kind: str) -> None:
    after, conflicts = before_and_after(kind)[1], 0
    for _ in range(KILLS // 4):
        place.new(kind)
        started = [place.commits.start(*place.job(kind), name) for name in ("job-2", "job-3")]
        codes = [place.commits.ended(process) for process, _ in started]
        conflicts += codes.count(CONFLICT)
        seen = place.look(kind)
        rows = seen.rows
        if kind == "append":
            assert codes == [0, 0]
            assert {name: sorted(value for _, value in each) for name, each in rows.items()} == {
                name: sorted([value for _, value in each] + [value for _, value in each if value in "defgh"])
                for name, each in after.items()
            }
            assert all([offset for offset, _ in each] == [*range(len(each))] for each in rows.values())
        else:
            assert rows == after and codes in ([0, 0], [0, CONFLICT], [CONFLICT, 0]), codes
        assert seen.left == []
    assert conflicts or kind not in TABLE_KINDS or not LONG
