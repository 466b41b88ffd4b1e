"""Stages what a task writes for a bucket: first on the local disk, since objects cannot be appended to, then there

    <local>/kafkarec-x1y2/_temporary/<job>/00003.0-5f3a91c2/orders-0/...     while the task runs
    <url>/_temporary/<job>/00003.0-5f3a91c2/orders-0/...                     when it ends

So SPARK_LOCAL_DIRS, which Spark sets, or TMPDIR must have space for everything that a task writes.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

from .buckets import Bucket
from .staging import BEGUN, StagedPartition, StagingWriter, WriteJob, job_folder, staging_folder

_AT_ONCE = 8


class BucketStagingWriter:
    """The staging.StagingWriter for a URL."""

    def __init__(self, bucket: Bucket, job: WriteJob, task: int, attempt: int) -> None:
        self._bucket, self._job = bucket, job
        self._local = tempfile.mkdtemp(prefix="kafkarec-", dir=temporary_folder())
        self._stage = StagingWriter(self._local, job.job, task, attempt, job.settings, target=job.path)
        self._staging = staging_folder(job.job)
        self._name = f"{self._staging}/{os.path.basename(self._stage.folder)}"
        self.folder = f"{bucket.path}/{self._name}"

    def put(self, topic: str, partition: int, table: Any, given: bool) -> None:
        self._stage.put(topic, partition, table, given)

    def close(self) -> tuple[StagedPartition, ...]:
        """Closes the logs and uploads them; returns what was staged. A job that fails meanwhile removes what it finds
        then, so afterwards the task looks again, also if that made an upload fail, and `drop` removes the rest."""
        staged = self._stage.close()
        if staged:
            self._check_begun()
            try:
                self._upload(staged)
            finally:
                self._check_begun()
        shutil.rmtree(self._local, ignore_errors=True)
        return staged

    def drop(self) -> None:
        """Removes what the failed task has written, as far as that is possible."""
        with suppress(Exception):
            self._stage.drop()
        shutil.rmtree(self._local, ignore_errors=True)
        with suppress(Exception):
            self._bucket.drop(self._name)

    def _check_begun(self) -> None:
        """FileNotFoundError if the job has ended. Not checked for a stream: its batches have no `begin`."""
        if self._job.query is None and self._bucket.read(f"{self._staging}/{BEGUN}") is None:
            raise FileNotFoundError(f"{self._bucket.path}/{self._staging} is gone: the job has ended")

    def _upload(self, staged: tuple[StagedPartition, ...]) -> None:
        root = job_folder(self._local, self._job.job)
        names = [os.path.join(one.folder, name) for one in staged for name in files(f"{root}/{one.folder}")]

        def send(name: str) -> None:
            path = os.path.join(root, name)
            self._bucket.upload(path, f"{self._staging}/{name}")
            os.unlink(path)

        with ThreadPoolExecutor(_AT_ONCE) as pool:
            list(pool.map(send, names))


def files(folder: str) -> list[str]:
    return sorted(entry.name for entry in os.scandir(folder) if entry.is_file() and not entry.name.startswith("."))


def temporary_folder() -> str | None:
    """The folder for temporary files of this machine: the first writable one of SPARK_LOCAL_DIRS, else the system's."""
    writable = (each for each in os.environ.get("SPARK_LOCAL_DIRS", "").split(",") if os.access(each, os.W_OK))
    return next(writable, tempfile.gettempdir())
