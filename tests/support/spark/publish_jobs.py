"""Write jobs that stage and publish without Spark, the records that a reader then finds, and crashes at any step."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

import kafkarec

pytest.importorskip("pyspark", reason="pyspark is not installed")
pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")

from spark_udfs.source import destination, folders  # noqa: E402
from spark_udfs.source.publishing import Publisher  # noqa: E402
from spark_udfs.source.staging import StagedPartition, StagingWriter, WriteJob, WriteSettings  # noqa: E402

NOW = 1_700_000_000_000


def table(values: Iterable[str], offsets: list[int] | None = None) -> Any:
    content = [value.encode() for value in values]
    columns: dict[str, Any] = {"value": pa.array(content, pa.binary())}
    columns |= {"key": pa.nulls(len(content), pa.binary()), "timestamp": pa.array([NOW] * len(content), pa.int64())}
    if offsets is not None:
        columns["offset"] = pa.array(offsets, pa.int64())
    return pa.table(columns)


def stage(
    job: WriteJob, task: int, rows: dict[str, list[str]], offsets: dict[str, list[int]] | None = None
) -> list[StagedPartition]:
    """Stage the rows of one task. rows: by partition folder."""
    with staging_of(job, task) as made:
        for name, values in rows.items():
            topic, _, partition = name.rpartition("-")
            given = (offsets or {}).get(name)
            made.put(topic, int(partition), table(values, given), given is not None)
        return list(made.close())


def staging_of(job: WriteJob, task: int = 0) -> AbstractContextManager[StagingWriter]:
    """The writer of a task, also of a job that was not begun."""
    if "://" not in job.path:
        os.makedirs(job.folder, exist_ok=True)
    return publisher(job).staging_writer(job, task, 0)


def job(path: Path, name: str = "job-1", **options: Any) -> WriteJob:
    settings = WriteSettings(**{key: options.pop(key) for key in list(options) if key in WriteSettings._fields})
    return WriteJob(str(path), name, options.pop("overwrite", None), settings, **options)


def publisher(made: WriteJob) -> Publisher:
    return destination.publisher(made.path, made.storage)


def publish(path: Path, name: str, rows: dict[str, list[str]], **options: Any) -> None:
    made = job(path, name, **options)
    publisher(made).commit(made, stage(made, 0, rows))


def records(path: Path) -> dict[str, list[tuple[Any, ...]]]:
    """Verify each log, and return its records (offset, timestamp, key, value, headers) by partition folder."""
    found = {}
    with kafkarec.open(path) as opened:
        assert isinstance(opened, kafkarec.LogDir)
        for log in opened:
            report = kafkarec.verify(log.path)
            assert report.ok, report
            found[os.path.basename(log.path)] = [
                (row.offset, row.timestamp, row.key, row.value, row.headers) for row in log.read()
            ]
    return found


def content(path: Path) -> dict[str, list[tuple[int, str]]]:
    """Verify each log, and return its (offset, value) pairs by partition folder."""
    return {name: [(row[0], (row[3] or b"").decode()) for row in rows] for name, rows in records(path).items()}


def numbered(*values: str, start: int = 0) -> list[tuple[int, str]]:
    return list(enumerate(values, start))


def leftovers(path: Path) -> list[str]:
    return sorted(str(each.relative_to(path)) for each in (path / "_temporary").rglob("*"))


class Crash(BaseException):
    """Simulates the death of the process: no later call that changes the disk works."""


class crashing:
    """Counts every call that changes a folder; the process "dies" before the first call for which `at` is true."""

    PLACES = (
        (os, "rename"),
        (os, "replace"),
        (os, "link"),
        (os, "unlink"),
        (os, "mkdir"),
        (os, "rmdir"),
        (shutil, "copyfile"),
        (folders, "exchange"),
    )

    def __init__(self, monkeypatch: pytest.MonkeyPatch, at: Callable[[str, tuple[Any, ...]], bool]) -> None:
        self._patch, self._at, self.calls, self.dead = monkeypatch, at, 0, False
        self.names: list[str] = []

    def __enter__(self) -> crashing:
        self._context = self._patch.context()
        patch = self._context.__enter__()
        for module, name in self.PLACES:
            patch.setattr(module, name, self._watched(name, getattr(module, name)))
        return self

    def _watched(self, name: str, real: Any) -> Any:
        def call(*words: Any, **more: Any) -> Any:
            if self.dead or self._at(name, words):
                self.dead = True
                raise Crash(name)
            self.calls += 1
            self.names.append(os.path.basename(str(words[0])))
            return real(*words, **more)

        return call

    def __exit__(self, *failure: object) -> None:
        self._context.__exit__(None, None, None)


def crash_at(monkeypatch: pytest.MonkeyPatch, number: int) -> crashing:
    made = crashing(monkeypatch, lambda name, words: made.calls == number)
    return made
