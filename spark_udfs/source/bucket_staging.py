"""Stages what a task writes for a bucket: first on the local disk, since objects cannot be appended to, then there

    <local>/kafkarec-x1y2/orders-0/...                       while the task runs
    <url>/_temporary/<job>/00003.0-5f3a91c2/orders-0/...     when it ends

So SPARK_LOCAL_DIRS, which Spark sets, or TMPDIR must have space for everything that a task writes.
"""

from __future__ import annotations

import os
import tempfile
from concurrent.futures import ThreadPoolExecutor

from .buckets import Bucket
from .staging import BEGUN, WriteJob, staging_folder

_AT_ONCE = 8


def upload(bucket: Bucket, job: WriteJob, folder: str, name: str) -> None:
    """Uploads the files of a local folder, and of those in it, to <job>/<name>, and deletes them here.
    FileNotFoundError if the job has ended, also if it ends meanwhile."""
    staging = staging_folder(job.job)
    paths = [os.path.join(parent, each) for parent, _, names in os.walk(folder) for each in names]

    def send(path: str) -> None:
        bucket.upload(path, f"{staging}/{name}/{os.path.relpath(path, folder)}")
        os.unlink(path)

    def check_begun() -> None:
        if job.query is None and bucket.read(f"{staging}/{BEGUN}") is None:  # a stream's batches have no `begin`
            raise FileNotFoundError(f"{bucket.path}/{staging} is gone: the job has ended")

    check_begun()
    try:
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            list(pool.map(send, sorted(path for path in paths if not os.path.basename(path).startswith("."))))
    finally:
        check_begun()


def files(folder: str) -> list[str]:
    return sorted(entry.name for entry in os.scandir(folder) if entry.is_file() and not entry.name.startswith("."))


def temporary_folder() -> str | None:
    """The folder for temporary files of this machine: the first writable one of SPARK_LOCAL_DIRS, else the system's."""
    writable = (each for each in os.environ.get("SPARK_LOCAL_DIRS", "").split(",") if os.access(each, os.W_OK))
    return next(writable, tempfile.gettempdir())
