"""A folder in a bucket that is written to: operations on objects, each of which succeeds completely or not at all

    put, upload, copy         make a whole object or none; copy runs in the store, without a download
    list_files, list_folders  current listings (S3 has been strongly consistent since December 2020)
    delete, drop              an object that does not exist is no error

Uses pyarrow.fs, which executors have. Its marker of an empty folder, an object of 0 bytes, may remain after a `delete`;
listings leave it out. Tested with S3; gs:// and abfs:// use the same calls.

Publishing consists of copies and deletions of whole objects; the steps are in `publishing`:

    0  stage      <local>/kafkarec-x1y2/orders-0/...     while a task runs, since objects cannot be appended to
                  <job>/00003.0-5f3a91c2/orders-0/...    when it ends
    1  prepare    <job>/new/orders-0      what the driver writes itself
    3  publish    orders-0/...            replaced objects are deleted, new ones copied

    partition.metadata  leader-epoch-checkpoint          for a new log only
    00000000000000000030.index  .timeindex  .snapshot    copied before their .log
    00000000000000000030.log

Appended records become segments after the last one, so no existing object is overwritten. Replaced segments are deleted
from the last one on, new ones copied from the first one on. Indexes and other small files are copied before their .log
and deleted after it, so a reader always finds whole segments from the start of the log, all old or all new, with
matching indexes. Producer snapshots are written for a new log only. Appending does not read the existing log, and
without it the producers are not known; a broker rebuilds missing snapshots.

SPARK_LOCAL_DIRS, which Spark sets, or TMPDIR must have space for everything that a task writes.

One job at a time publishes below a URL, by a lock made of objects, as object stores have none:

    _temporary/_commits/<job>.lock      the lock object: put before the job lists other locks, deleted when it is done

A job puts its lock object and then lists all lock objects. If there is no other, it holds the lock: of two jobs that
put theirs at the same time, at least one sees the other's, because a listing shows every object that was put before it.
Of two that see each other the one whose name sorts first waits and keeps its object; the other deletes its own and
tries again.

A job renews its object (puts it again) while it publishes. An object that was not renewed for STALE seconds, by the
store's clock, belongs to a dead driver and is ignored; a job that could not renew its own for half of that time stops
with LockLost. Two jobs could publish at once only if a driver was suspended for that long within a single request.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

from spark_udfs.bootstrap import distributed
from spark_udfs.errors import logger
from spark_udfs.schema import NamedValues

from .gaps import last_whole_batch
from .options import StorageOptions
from .paths import open_segment
from .staging import (
    BEGUN,
    EMPTY_LOG,
    LOCKS,
    METADATA,
    ListedFile,
    StagedPartition,
    Store,
    WriteJob,
    append_staged,
    journal_row,
    leader_epoch,
    not_following_error,
    staging_folder,
)

S3 = ("s3", "s3a", "s3n")
SCHEMES = (*S3, "gs", "gcs", "abfs", "abfss")
# These need one request for a small object instead of three, and no background threads in a worker.
_S3_DEFAULTS = {"allow_delayed_open": True, "background_writes": False}
_PIECE = 8 << 20
# Number of requests at the same time, each for another partition or file.
AT_ONCE = 16
STALE = 1200.0
_RENEW_AFTER = 60.0
_POLL = 2.0
_SEGMENT = re.compile(r"[0-9]{20}\.(index|timeindex|txnindex|snapshot|log)")
T = TypeVar("T")


class LockLost(RuntimeError):
    """The lock was not renewed in time, so another job may hold it by now."""


class Bucket(Store):
    """The objects below `path`, a URL; names are relative to it. Every failure is a RemoteError of one line.
    Thread-safe, and not picklable: each process makes its own."""

    _renewed = 0.0

    def __init__(self, url: str, storage: StorageOptions) -> None:
        scheme = url.partition("://")[0]
        given = {**storage, **_S3_DEFAULTS} if scheme in S3 else dict(storage)
        self._endpoint: str | None = None
        self.path = url.rstrip("/")
        with self._errors_named(""):
            self._fs, self._root, self._endpoint = distributed.arrow_filesystem(self.path, given)

    def check_access(self) -> None:
        """RemoteError where the bucket does not exist or cannot be accessed."""
        from pyarrow import fs  # type: ignore[import-untyped]

        name = self._root.partition("/")[0]
        with self._errors_named(""):
            if self._fs.get_file_info(name).type == fs.FileType.NotFound:
                raise FileNotFoundError("NoSuchBucket")

    # ---- write

    def put(self, name: str, data: bytes) -> None:
        with self._errors_named(name), self._fs.open_output_stream(self._path(name)) as out:
            out.write(data)

    def upload(self, path: str, name: str) -> None:
        with self._errors_named(name), open(path, "rb") as file, self._fs.open_output_stream(self._path(name)) as out:
            shutil.copyfileobj(file, out, _PIECE)

    def copy(self, source: str, target: str) -> None:
        with self._errors_named(source):
            self._fs.copy_file(self._path(source), self._path(target))

    def delete(self, name: str) -> None:
        with self._errors_named(name, may_be_missing=True):
            self._fs.delete_file(self._path(name))

    def drop(self, folder: str) -> None:
        """Deletes everything below a folder."""
        with self._errors_named(folder, may_be_missing=True):
            self._fs.delete_dir(self._path(folder))

    # ---- read

    def read(self, name: str) -> bytes | None:
        """The content of a small object; None: it does not exist."""
        with self._errors_named(name, may_be_missing=True), self._fs.open_input_file(self._path(name)) as file:
            return bytes(file.read())
        return None

    def download(self, name: str, path: str) -> None:
        with self._errors_named(name), self._fs.open_input_stream(self._path(name)) as file, open(path, "wb") as out:
            shutil.copyfileobj(file, out, _PIECE)

    def list_entries(self, folder: str, below: bool) -> list[ListedFile]:
        from pyarrow import fs

        root = self._path(folder)
        with self._errors_named(folder):
            entries = self._fs.get_file_info(fs.FileSelector(root, allow_not_found=True, recursive=below))
        return sorted(
            ListedFile(
                one.path[len(root) :].strip("/"),
                one.size or 0,
                one.mtime.timestamp() if one.mtime else 0.0,
                one.type == fs.FileType.Directory,
            )
            for one in entries
        )

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}" if name else self._root

    @contextmanager
    def _errors_named(self, name: str, *, may_be_missing: bool = False) -> Iterator[None]:
        """may_be_missing: no error if the object does not exist; a missing bucket stays one"""
        url = f"{self.path}/{name}" if name else self.path
        try:
            yield
        except Exception as error:
            failure = distributed.remote_error(error, url, self._endpoint)
            if may_be_missing and failure.kind == "not_found":
                return
            if failure.kind == "denied":
                words = f"{failure}; writing also needs s3:PutObject and s3:DeleteObject"
                failure = type(failure)(words, failure.filename or "", failure.kind)
            raise failure from error

    # ---- the lock

    @contextmanager
    def locked(self, job: str, stale: float | None = None) -> Iterator[None]:
        """Waits until no other job publishes here. stale: after so many seconds without renewal another job's lock is
        ignored."""
        self._lock = f"{LOCKS}/{job}.lock"
        try:
            self._wait(job, STALE if stale is None else min(STALE, stale))
            yield
        finally:
            with suppress(OSError):  # what was published stays; a lock that was not deleted becomes stale
                self.delete(self._lock)

    def heartbeat(self) -> None:
        """Renews the lock when it is due, before every step of publishing; LockLost if it was not renewed in time."""
        since = time.time() - self._renewed
        if since > STALE / 2:
            raise LockLost(f"{self.path}/{self._lock} was not renewed for {since:.0f} seconds")
        if since > _RENEW_AFTER:
            self._renew()

    def _renew(self) -> None:
        """Puts the lock object, with the store's current time."""
        begun = time.time()
        self.put(self._lock, b"")
        self._renewed = begun

    def _wait(self, own: str, stale: float) -> None:
        began, warned = time.time(), False
        while True:
            self._renew()
            locks = {one.name.removesuffix(".lock"): one.modified for one in self.list_files(LOCKS)}
            now = locks.pop(own, None)
            others = [job for job, modified in locks.items() if now is None or now - modified < stale]
            if now is not None and not others:
                return
            if others and not warned:
                text = "%s: waiting for job %s, which is publishing. If its driver is dead, call "
                logger.warning(text + "spark_udfs.sweep(path, 0)", self.path, others[0])
                warned = True
            if others and min(others) < own:
                self.delete(self._lock)
            time.sleep(random.uniform(0.5, 1.5) * min(_POLL, 0.1 + time.time() - began))

    # ---- stage

    @contextmanager
    def attempt_folder(self, job: WriteJob, name: str) -> Iterator[str]:
        """A local folder for files that are uploaded at the end as <job>/<name>/...; an error removes them. A job that
        fails meanwhile removes what it finds then, and the task the rest. FileNotFoundError if the job has ended, also
        if it ends meanwhile."""
        staging = staging_folder(job.job_id)

        def check_begun() -> None:
            if job.query is None and self.read(f"{staging}/{BEGUN}") is None:  # a stream's batches have no `begin`
                raise FileNotFoundError(f"{self.path}/{staging} is gone: the job has ended")

        def upload_and_remove(path: str) -> None:
            self.upload(path, f"{staging}/{name}/{os.path.relpath(path, local)}")
            os.unlink(path)

        try:
            with _local_folder() as local:
                yield local
                files = ((parent, each) for parent, _, names in os.walk(local) for each in names)
                paths = [os.path.join(*each) for each in files if not each[1].startswith(".")]
                if paths:
                    check_begun()
                    try:
                        _in_parallel(upload_and_remove, sorted(paths))
                    finally:
                        check_begun()
        except BaseException:
            with suppress(Exception):
                self.drop(f"{staging}/{name}")
            raise

    # ---- files of a table

    def replace_files(self, gone: Sequence[str], files: Sequence[tuple[str, str]]) -> None:
        """Deletes objects, and copies others to their final names."""

        _in_parallel(lambda name: self._renew_and(self.delete, name), gone)
        _in_parallel(lambda pair: self._renew_and(self.copy, *pair), files)
        self.heartbeat()

    def _renew_and(self, call: Callable[..., None], *names: str) -> None:
        self.heartbeat()
        call(*names)

    # ---- prepare

    def prepare_partitions(
        self, job: WriteJob, parts: Mapping[str, Sequence[StagedPartition]], ids: Mapping[str, bytes | None]
    ) -> list[NamedValues]:
        self.drop(f"{staging_folder(job.job_id)}/new")
        with _local_folder() as scratch:
            return _in_parallel(
                lambda name: self._prepare_partition(job, name, parts[name], ids[name], os.path.join(scratch, name)),
                parts,
            )

    def _prepare_partition(
        self,
        job: WriteJob,
        name: str,
        parts: Sequence[StagedPartition],
        topic_id: bytes | None,
        scratch: str,
    ) -> NamedValues:
        """The journal's row of one partition, with the objects that it will have. Segments that were staged with their
        final offsets and leader epoch are copied within the store; the driver rewrites the others."""
        self.heartbeat()
        staging = staging_folder(job.job_id)
        before = self.list_files(name, below=False)
        log = None if job.overwrite else self._next_offset_and_epoch(job, name, before)
        end, epoch = log or (0, 0)
        fit = bool(parts)
        if parts and log is not None:
            if parts[0].offsets_given and parts[0].first_offset < end:
                raise not_following_error(parts[0], end)
            fit = parts[0].offsets_given and not epoch
        rest, objects, offsets = parts, dict[str, tuple[str, int]](), (0, end)
        if fit:
            first, rest, offsets = parts[0], parts[1:], (parts[0].first_offset, parts[0].next_offset)
            objects = {
                one.name: (f"{staging}/{first.folder}/{one.name}", one.size)
                for one in first.files
                if log is None or _is_appended(one.name)
            }
        if rest:
            added = append_staged(
                scratch,
                rest,
                self._downloaded_segments(staging, rest, f"{scratch}.copy"),
                segment_bytes=job.options.segmentBytes,
                leader_epoch=epoch,
                start_offset=None if rest[0].offsets_given else offsets[1],
            )
            offsets = (offsets[0] if fit else added.start), added.stop
        new = f"{staging}/new/{name}"
        for file in sorted(filter(_is_appended, os.listdir(scratch) if rest else ())):
            path = os.path.join(scratch, file)
            objects[file] = f"{new}/{file}", os.path.getsize(path)
            self._renew_and(self.upload, path, f"{new}/{file}")
            os.unlink(path)
        small = {} if parts else {EMPTY_LOG: b""}
        if log is None and topic_id:
            small[METADATA] = topic_id
        for file, data in small.items():
            objects[file] = f"{new}/{file}", len(data)
            self.put(f"{new}/{file}", data)
        in_use = objects.keys() & {one.name for one in before}
        if log is not None and in_use:
            raise ValueError(f"{self.path}/{name}/{min(in_use)} is an object without records: remove it first")
        made = {
            "replaces": log is None,
            "objects": [(*objects[each], each) for each in sorted(objects, key=_copy_order)],
        }
        return journal_row(name, parts, [each[:2] for each in before], made, offsets)

    def _next_offset_and_epoch(self, job: WriteJob, name: str, listed: Sequence[ListedFile]) -> tuple[int, int] | None:
        """The next offset and the leader epoch of the log in a partition's folder, from the objects listed in it; None:
        it has no segments, or only the empty one that an overwrite has left, which a new log replaces."""
        logs = [one for one in listed if _SEGMENT.fullmatch(one.name) and one.name.endswith(".log")]
        compressed = [one.name for one in listed if one.name.endswith((".log.gz", ".log.zst"))]
        if compressed:
            raise ValueError(
                f"{self.path}/{name}/{compressed[0]}: cannot append to a log with compressed segment files"
            )
        if not logs or (logs[-1].name == EMPTY_LOG and not logs[-1].size):
            return None
        end = int(logs[-1].name[:20])
        for one in reversed([each for each in logs if each.size]):
            with open_segment(f"{self.path}/{name}/{one.name}", job.options.storageOptions) as segment:
                last = last_whole_batch(segment)
            if last is not None:
                end = max(end, last["next_offset"])  # behind a gap the last segment may be empty
                break
        return end, leader_epoch(lambda file: self.read(f"{name}/{file}"))

    def _downloaded_segments(self, staging: str, parts: Sequence[StagedPartition], path: str) -> Iterator[str]:
        """Each segment that tasks have staged in turn, as a local file."""
        for name in (f"{part.folder}/{one.name}" for part in parts for one in part.files if one.name.endswith(".log")):
            self._renew_and(self.download, f"{staging}/{name}", path)
            yield path
            os.unlink(path)

    # ---- publish

    def check_unchanged(self, row: NamedValues) -> dict[str, int]:
        """The sizes of a partition's objects. BlockingIOError if another writer has put one since it was prepared."""
        self.heartbeat()
        name, made = row["name"], row["made"]
        published = {one.name: one.size for one in self.list_files(name, below=False)}
        known = {*map(tuple, row["before"]), *((target, size) for _, size, target in made["objects"])}
        unknown = [each for each in published.items() if each not in known]
        if unknown:
            raise BlockingIOError(
                f"{self.path}/{name}/{min(unknown)[0]}: another writer has changed this folder meanwhile. If that was "
                f"after the commit, remove this object"
            )
        return published

    def publish(self, job: str, rows: Sequence[NamedValues]) -> None:
        """Publishes the partitions, continuing where an earlier attempt stopped."""
        _in_parallel(self._publish_partition, rows)
        self.heartbeat()

    def _publish_partition(self, row: NamedValues) -> None:
        """Deletes and copies the objects of one partition."""
        name, published = row["name"], self.check_unchanged(row)
        if row["made"]["replaces"]:
            # Last segment first, and of each segment the .log first, so that what is left is always the start of a log.
            for each in sorted(published, key=_copy_order, reverse=True):
                self._renew_and(self.delete, f"{name}/{each}")
            published = {}
        for source, size, target in row["made"]["objects"]:
            if published.get(target) != size:
                self._renew_and(self.copy, source, f"{name}/{target}")


def _is_appended(name: str) -> bool:
    """Whether a file of a staged log is published if the log exists already."""
    return _SEGMENT.fullmatch(name) is not None and not name.endswith(".snapshot")


def _copy_order(name: str) -> tuple[str, bool, str]:
    """Sort key of the order in which objects are copied: files of no segment, then each segment with its .log last."""
    return (name[:20] if _SEGMENT.fullmatch(name) else "", name.endswith(".log"), name)


def _in_parallel(work: Callable[[Any], T], items: Iterable[Any]) -> list[T]:
    """The results in order of the items; AT_ONCE threads, as each call waits for the store."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(work, items))


def _local_folder() -> tempfile.TemporaryDirectory[str]:
    """A new folder on this machine: in the first writable one of SPARK_LOCAL_DIRS, else where the system has them."""
    writable = (each for each in os.environ.get("SPARK_LOCAL_DIRS", "").split(",") if os.access(each, os.W_OK))
    return tempfile.TemporaryDirectory(prefix="kafkarec-", dir=next(writable, None))
