"""Write jobs below a URL without Spark, and a bucket in a local folder whose requests can fail."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import pytest
from publish_jobs import Crash, publisher, stage

import kafkarec
from spark_udfs.source import bucket_lock, bucket_publishing, destination
from spark_udfs.source.bucket_publishing import PublishingBucket
from spark_udfs.source.options import StorageOptions
from spark_udfs.source.staging import WriteJob, WriteSettings

CALLS = ("put", "upload", "copy", "delete", "drop", "read", "download", "names", "folders")
Rows = dict[str, list[str]]


class Folders(PublishingBucket):
    """A bucket whose objects are local files; folders are made as needed."""

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
    """The first `number` requests succeed, the next raises Crash. `log`: the requests made."""

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
    """Return the URL of a new folder in such a bucket; requests are sequential."""
    monkeypatch.setattr(destination, "PublishingBucket", Dying)
    monkeypatch.setattr(bucket_publishing, "AT_ONCE", 1)
    monkeypatch.setattr(bucket_lock, "_POLL", 0.05)
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    Dying.number, Dying.log = None, []
    return f"file://{tmp_path}/bucket/out"


def job(url: str, name: str = "job-1", **options: Any) -> WriteJob:
    settings = WriteSettings(**{key: options.pop(key) for key in list(options) if key in WriteSettings._fields})
    return WriteJob(url, name, options.pop("overwrite", None), settings, **options)


def publish(url: str, name: str, *tasks: Rows, offsets: dict[str, list[int]] | None = None, **options: Any) -> Any:
    made = job(url, name, **options)
    publisher(made).begin(made)
    staged = [one for task, rows in enumerate(tasks) for one in stage(made, task, rows, offsets)]
    return publisher(made).commit(made, staged)


def content(
    url: str, storage: StorageOptions | None = None, *, unfinished: bool = False
) -> dict[str, list[tuple[int, str]]]:
    """Verify each log, and return its (offset, value) pairs by partition folder.

    unfinished: in the middle of a commit an index may be there before its segment, and says that more was there."""
    found = {}
    try:
        opened = kafkarec.open(url, storage_options=dict(storage or {}))
    except FileNotFoundError:
        return {}
    for log in opened:
        report = log.verify()
        errors = {one.kind for one in report.findings if one.severity == "error"}
        assert report.ok or (unfinished and errors == {"end_was_longer"}), report
        found[log.path.rpartition("/")[2]] = [(row.offset, (row.value or b"").decode()) for row in log.read()]
    return {name: rows for name, rows in found.items() if rows}  # S3 has no empty folders


def objects(url: str) -> dict[str, bytes]:
    """Return the content of all files of a bucket on this disk, by name."""
    root = Path(url.removeprefix("file://"))
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


def an_hour_later(url: str) -> None:
    """Make all files an hour older, so that locks count as left by dead drivers."""
    for path in Path(url.removeprefix("file://")).rglob("*"):
        before = path.stat().st_mtime - 3600
        os.utime(path, (before, before))
