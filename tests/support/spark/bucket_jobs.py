"""Jobs that publish below a URL without Spark, and a store in a local folder that can fail at any request."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import pytest
from published import Crash, table

import kafkarec
from spark_udfs.source import bucket_lock, bucket_publishing
from spark_udfs.source.buckets import Bucket
from spark_udfs.source.options import StorageOptions
from spark_udfs.source.publishing import WriteJob
from spark_udfs.source.staging import StagedPartition, WriteSettings

CALLS = ("put", "upload", "copy", "delete", "drop", "read", "download", "is_there", "names", "folders")
Rows = dict[str, list[str]]


class Folders(Bucket):
    """A bucket whose objects are files: a name needs no folder to be made for it."""

    def put(self, name: str, data: bytes) -> None:
        super().put(self._made(name), data)

    def upload(self, path: str, name: str) -> None:
        super().upload(path, self._made(name))

    def copy(self, source: str, target: str) -> None:
        super().copy(source, self._made(target))

    def _made(self, name: str) -> str:
        os.makedirs(os.path.dirname(self._path(name)), exist_ok=True)
        return name


class Dying(Folders):
    """`number` calls work; in front of the next one the process is gone. `log`: what was called."""

    number: ClassVar[int | None] = None
    log: ClassVar[list[str]] = []


def _watched(verb: str) -> Callable[..., Any]:
    def call(self: Dying, *words: Any, **more: Any) -> Any:
        if Dying.number is not None and len(Dying.log) >= Dying.number:
            raise Crash(verb)
        Dying.log.append(f"{verb} {words[0] if words else ''}")
        return getattr(Folders, verb)(self, *words, **more)

    return call


for _verb in CALLS:
    setattr(Dying, _verb, _watched(_verb))


def new_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The URL of a new folder in such a bucket; one request at a time."""
    monkeypatch.setattr(bucket_publishing, "Bucket", Dying)
    monkeypatch.setattr(bucket_publishing, "AT_ONCE", 1)
    monkeypatch.setattr(bucket_lock, "_POLL", 0.05)
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    Dying.number, Dying.log = None, []
    return f"file://{tmp_path}/bucket/out"


def job(url: str, name: str = "job-1", **options: Any) -> WriteJob:
    settings = WriteSettings(**{key: options.pop(key) for key in list(options) if key in WriteSettings._fields})
    return WriteJob(url, name, options.pop("overwrite", False), settings, **options)


def stage(made: WriteJob, task: int, rows: Rows, offsets: dict[str, list[int]] | None = None) -> list[StagedPartition]:
    """rows: by partition folder."""
    one = bucket_publishing.staging_writer(made, task, 0)
    for name, values in rows.items():
        topic, _, partition = name.rpartition("-")
        given = (offsets or {}).get(name)
        one.put(topic, int(partition), table(values, given), given is not None)
    return list(one.close())


def publish(url: str, name: str, *tasks: Rows, offsets: dict[str, list[int]] | None = None, **options: Any) -> Any:
    made = job(url, name, **options)
    bucket_publishing.begin(made)
    staged = [one for task, rows in enumerate(tasks) for one in stage(made, task, rows, offsets)]
    return bucket_publishing.commit(made, staged)


def content(url: str, storage: StorageOptions | None = None) -> dict[str, list[tuple[int, str]]]:
    """What a reader finds, each log verified: (offset, value) by partition folder."""
    found = {}
    try:
        opened = kafkarec.open(url, storage_options=dict(storage or {}))
    except FileNotFoundError:
        return {}
    for log in opened:
        report = log.verify()
        assert report.ok, report
        found[log.path.rpartition("/")[2]] = [(row.offset, (row.value or b"").decode()) for row in log.read()]
    return {name: rows for name, rows in found.items() if rows}  # S3 has no empty folders


def objects(url: str) -> dict[str, bytes]:
    """Of a bucket on this disk, without what jobs leave behind for a while."""
    root = Path(url.removeprefix("file://"))
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


def an_hour_later(url: str) -> None:
    """Makes all files an hour old: the drivers that hold locks are dead."""
    for path in Path(url.removeprefix("file://")).rglob("*"):
        before = path.stat().st_mtime - 3600
        os.utime(path, (before, before))
