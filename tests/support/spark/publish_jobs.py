"""Write jobs that stage and publish without Spark, in a folder or in a bucket on this disk; the records that a reader
then finds; and the death of the driver at any of its changes."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, ClassVar

import plain_logs
import pyarrow as pa
import pytest
from failing_calls import counted_calls

import kafkarec
from spark_udfs.schema import NamedValues
from spark_udfs.source import buckets, folders, publishing
from spark_udfs.source.options import WriteOptions
from spark_udfs.source.publishing import UnfinishedCommit, publisher
from spark_udfs.source.staging import StagedPartition, StagingWriter, WriteJob

NOW = 1_700_000_000_000
Rows = dict[str, list[str]]
Offsets = dict[str, list[int]]


def table(values: Iterable[str], offsets: list[int] | None = None):
    content = [value.encode() for value in values]
    columns = {"value": pa.array(content, pa.binary())}
    columns |= {"key": pa.nulls(len(content), pa.binary()), "timestamp": pa.array([NOW] * len(content), pa.int64())}
    if offsets is not None:
        columns["offset"] = pa.array(offsets, pa.int64())
    return pa.table(columns)


def job(path: Path | str, name: str = "job-1", **options) -> WriteJob:
    of_stream = {each: options.pop(each) for each in ("query", "batch") if each in options}
    return WriteJob(str(path), name, options.pop("overwrite", None), WriteOptions(**options), **of_stream)


def begun(path: Path | str, name: str = "job-1", **options) -> WriteJob:
    made = job(path, name, **options)
    publisher(made).begin(made)
    return made


def staging_of(job: WriteJob, task: int = 0) -> AbstractContextManager[StagingWriter]:
    return publisher(job).staging_writer(job, task, 0)


def commit(made: WriteJob, staged: Iterable[StagedPartition]) -> list[NamedValues]:
    return publisher(made).commit(made, staged)


def abort(made: WriteJob):
    publisher(made).abort(made)


def stage(job: WriteJob, *tasks: Rows, offsets: Offsets | None = None) -> list[StagedPartition]:
    """Stage the rows of each task, by partition folder."""
    staged = []
    for task, rows in enumerate(tasks):
        with staging_of(job, task) as made:
            for name, values in rows.items():
                topic, _, partition = name.rpartition("-")
                given = (offsets or {}).get(name)
                made.put(topic, int(partition), table(values, given))
            staged += made.close()
    return staged


def publish(path: Path | str, name: str, *tasks: Rows, offsets: Offsets | None = None, **options):
    made = begun(path, name, **options)
    return commit(made, stage(made, *tasks, offsets=offsets))


# In the middle of a commit an index may be there before its segment, and says that more was there.
UNFINISHED = "end_was_longer"


def records(path: Path | str, permitted: str = "", **options) -> dict[str, list[tuple[Any, ...]]]:
    """Verify each log, and return its records (offset, timestamp, key, value, headers) by partition folder, of those
    that have some. permitted: the one kind of error that a log may have"""
    found = {}
    try:
        opened = kafkarec.open(path, **options)
    except FileNotFoundError:
        return {}
    with opened:
        for log in opened:
            report = log.verify()
            errors = {one.kind for one in report.findings if one.severity == "error"}
            assert errors <= {permitted} and not report.damage, report
            rows = [(row.offset, row.timestamp, row.key, row.value, row.headers) for row in log.read()]
            found[os.path.basename(log.path)] = rows
    return {name: rows for name, rows in found.items() if rows}


def content(path: Path | str, permitted: str = "") -> dict[str, list[tuple[int, str]]]:
    """Verify each log, and return its (offset, value) pairs by partition folder, of those that have some."""
    found = records(path, permitted)
    return {name: [(row[0], (row[3] or b"").decode()) for row in rows] for name, rows in found.items()}


def numbered(*values: str, start: int = 0) -> list[tuple[int, str]]:
    return list(enumerate(values, start))


def on_disk(path: Path | str) -> Path:
    """The folder of a path, or of a bucket on this disk."""
    return Path(str(path).removeprefix("file://"))


def objects(path: Path | str) -> dict[str, bytes]:
    """The content of all files by name, without locks and what marks a job as done."""
    found = plain_logs.content(on_disk(path))
    return {name: data for name, data in found.items() if name != "_SUCCESS" and not name.endswith(".lock")}


def left(path: Path | str) -> list[str]:
    """What jobs have left."""
    return [name for name in objects(path) if name.startswith("_temporary")]


def an_hour_later(path: Path | str):
    """Make all files an hour older, so that locks count as left by dead drivers."""
    for each in on_disk(path).rglob("*"):
        before = each.stat().st_mtime - 3600
        os.utime(each, (before, before))


# ---- a driver that dies


class Crash(BaseException):
    """Simulates the death of the process: no later call that changes the disk works."""


CHANGES = (
    *((os, name) for name in ("rename", "replace", "link", "unlink", "mkdir", "rmdir")),
    (shutil, "copyfile"),
    (folders, "swap_folders"),
)


class Dying(buckets.Bucket):
    """A bucket whose objects are local files. The first `number` requests succeed, the next raises Crash. `log`: the
    requests made."""

    number: ClassVar[int | None] = None
    log: ClassVar[list[str]] = []

    def _made(self, name: str) -> str:
        os.makedirs(os.path.dirname(self._path(name)), exist_ok=True)
        return name


def _watched(verb: str) -> Callable[..., Any]:
    real = getattr(buckets.Bucket, verb)

    def call(self, *words, **more):
        if Dying.number is not None and len(Dying.log) >= Dying.number:
            raise Crash(verb)
        Dying.log.append(f"{verb} {words[0] if words else ''}")
        if verb in ("put", "upload", "copy"):
            self._made(words[0 if verb == "put" else 1])
        return real(self, *words, **more)

    return call


for _verb in ("put", "upload", "copy", "delete", "drop", "read", "download", "list_files", "list_folders"):
    setattr(Dying, _verb, _watched(_verb))


def new_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the URL of a new folder in such a bucket; requests are sequential."""
    listed = publishing._path_and_names

    def of_bucket(path, storage):
        if "://" not in path:
            return listed(path, storage)
        store = Dying(path, storage)
        return path, [one.name for one in store.list_entries("", below=False)]

    monkeypatch.setattr(publishing, "Bucket", Dying)
    monkeypatch.setattr(publishing, "_path_and_names", of_bucket)
    monkeypatch.setattr(buckets, "AT_ONCE", 1)
    monkeypatch.setattr(buckets, "_POLL", 0.05)
    Dying.number, Dying.log = None, []
    return f"file://{tmp_path}/bucket/out"


@contextmanager
def dying(path: str, number: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[bool]]:
    """The driver dies before its change of that number, and what it was doing ends there; the list is true then."""
    died = []
    Dying.log.clear()
    Dying.number = number

    def at(count, name):
        if count > number:
            raise Crash(name)

    try:
        with counted_calls((), at, *(() if "://" in path else CHANGES)):
            yield died
    except (Crash, UnfinishedCommit):
        died.append(True)
    finally:
        Dying.number = None
