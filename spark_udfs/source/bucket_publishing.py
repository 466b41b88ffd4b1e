"""Publishing below a URL, with copies and deletions of whole objects; the steps are in `publishing`

    1  prepare    <job>/new/orders-0      what the driver writes itself; <job>/old/orders-0: what is replaced
    2  journal    _commits/<job>.json     which object is copied to which name
    3  publish    orders-0/...            old objects are deleted, new ones copied
    5  clean up   the journal is deleted, then everything below <job>

An existing object is never overwritten: appended records become segments after the last one. Old segments are deleted
from the last one on, new ones copied from the first one on. Indexes and other small files are copied before their .log
and deleted after it, so a reader always finds whole segments from the start of the log, all old or all new, with
matching indexes.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

from spark_udfs import bootstrap

from . import bucket_lock
from . import bucket_segments as segments
from .bucket_lock import COMMITS, BucketLock
from .bucket_staging import BEGUN, BucketStagingWriter
from .buckets import Bucket, ListedObject
from .publishing import FOLDER, METADATA, NO_RECORDS, SUCCESS, Publisher, as_json, from_json, topic_of
from .staging import EMPTY_LOG, NO_STORAGE, TEMPORARY, StagedPartition, WriteJob

_COMMITS_FOLDER = os.path.basename(COMMITS)
# Number of requests at the same time, each for another partition.
AT_ONCE = 16
T = TypeVar("T")


class BucketPublisher(Publisher):
    def __init__(self, url: str, storage: Mapping[str, Any] = NO_STORAGE) -> None:
        bootstrap.load()
        self._bucket = Bucket(url, storage)
        self.path = self._bucket.url
        self._lock: BucketLock | None = None

    def begin(self, job: WriteJob) -> None:
        self._bucket.put(f"{_staging(job.job)}/{BEGUN}", b"")

    def staging_writer(self, job: WriteJob, task: int, attempt: int) -> BucketStagingWriter:
        return BucketStagingWriter(self._bucket, job, task, attempt)

    def abort(self, job: WriteJob) -> None:
        if self.journal(job.job) is None:
            self.discard(job.job)
        else:
            super().abort(job)

    @contextmanager
    def locked(self, job: str, stale: float | None = None) -> Iterator[None]:
        stale = None if stale is None else min(bucket_lock.STALE, stale)
        with bucket_lock.acquired(self._bucket, job, stale) as self._lock:
            yield

    def remove_lock(self, job: str) -> None:
        self._bucket.delete(f"{COMMITS}/{job}{bucket_lock.SUFFIX}")

    def heartbeat(self) -> None:
        """Renews the lock, before every step of publishing; LockLost if another job may hold it by now."""
        assert self._lock is not None
        self._lock.heartbeat()

    def read(self, name: str) -> bytes | None:
        return self._bucket.read(name)

    def write(self, name: str, data: bytes) -> None:
        self._bucket.put(name, data)

    # ---- jobs and journals

    def staged_jobs(self) -> list[str]:
        return self._bucket.folders(TEMPORARY)

    def jobs_older_than(self, seconds: float) -> list[str]:
        newest: dict[str, float] = {}
        for one in self._bucket.names(TEMPORARY):
            folder, _, rest = one.name.partition("/")
            job = rest.removesuffix(".json").removesuffix(bucket_lock.SUFFIX) if folder == _COMMITS_FOLDER else folder
            newest[job] = max(newest.get(job, 0.0), one.modified)
        if self._lock is not None:
            newest.pop(self._lock.job, None)
        return sorted(job for job, at in newest.items() if time.time() - at >= seconds)

    def jobs_with_journal(self) -> list[str]:
        names = (one.name for one in self._bucket.names(COMMITS))
        return [name.removesuffix(".json") for name in names if name.endswith(".json")]

    def journal(self, job: str) -> dict[str, Any] | None:
        return from_json(self._bucket.read(_journal_name(job)))

    def write_journal(self, journal: dict[str, Any]) -> None:
        self.heartbeat()
        self._bucket.put(_journal_name(journal["job"]), as_json(journal))

    def mark_undo(self, journal: dict[str, Any]) -> None:
        self.write_journal(journal | {"undo": True})

    def delete_journal(self, job: str) -> None:
        self._bucket.delete(_journal_name(job))

    def discard(self, job: str) -> None:
        self._bucket.drop(_staging(job))

    # ---- prepare

    def partitions_of(self, topics: Set[str]) -> list[str]:
        names = [name for name in self._bucket.folders() if topic_of(name) in topics]
        return [name for name in names if any(one.name.endswith(".log") for one in self._bucket.names(name, False))]

    def prepare(self, job: WriteJob, parts: dict[str, list[StagedPartition]], emptied: list[str]) -> dict[str, Any]:
        for kind in ("new", "old"):
            self._bucket.drop(f"{_staging(job.job)}/{kind}")
        staged_objects: dict[str, list[ListedObject]] = {}
        for listed in self._bucket.names(_staging(job.job)):
            folder, _, name = listed.name.rpartition("/")
            staged_objects.setdefault(folder, []).append(listed._replace(name=name))
        ids = self._topic_ids({each[0].topic for each in parts.values()})
        with tempfile.TemporaryDirectory(prefix="kafkarec-", dir=segments.temporary_folder()) as scratch:

            def prepared(name: str) -> dict[str, Any]:
                return self._prepare_partition(job, name, parts[name], staged_objects, ids, scratch)

            rows = _in_parallel(prepared, parts)
        rows += _in_parallel(lambda name: self._prepare_empty(job, name), emptied)
        before = self._bucket.read(SUCCESS) if job.query is None else None
        return {"partitions": rows, "success": None if before is None else before.decode(errors="replace")}

    def _prepare_partition(
        self,
        job: WriteJob,
        name: str,
        parts: list[StagedPartition],
        staged_objects: dict[str, list[ListedObject]],
        ids: dict[str, bytes],
        scratch: str,
    ) -> dict[str, Any]:
        """The journal's row of one partition, with the objects that it will have. Segments that were staged with their
        final offsets and leader epoch are copied within the store; the driver rewrites the others."""
        bucket = self._bucket
        self.heartbeat()
        before = bucket.names(name, below=False)
        log = None if job.overwrite else segments.log_of(bucket, job, name, before)
        fit = log is None or (parts[0].given and log.accepts_unchanged(parts[0]))
        own = [
            one
            for one in staged_objects.get(parts[0].folder, ())
            if fit and segments.is_wanted(one.name, new=log is None)
        ]
        staged = f"{_staging(job.job)}/{parts[0].folder}"
        objects: list[list[Any]] = [[f"{staged}/{one.name}", one.name, one.size] for one in own]
        if fit and sum(one.size for one in own if one.name.endswith(".log")) != parts[0].size:
            raise FileNotFoundError(f"{bucket.url}/{staged} has changed since the task wrote it")
        rest = parts[1:] if fit else parts
        start = parts[0].first_offset if log is None or parts[0].given else log.end
        end = parts[0].next_offset
        if rest:
            begin_at = end if fit else start
            folder = os.path.join(scratch, name)
            end = segments.append(bucket, job, folder, rest, begin_at, log.epoch if log else 0)
            for file in segments.files(folder):
                if segments.is_wanted(file, new=False):
                    path = os.path.join(folder, file)
                    size = os.path.getsize(path)
                    bucket.upload(path, f"{_staging(job.job)}/new/{name}/{file}")
                    objects.append([f"{_staging(job.job)}/new/{name}/{file}", file, size])
                    os.unlink(path)
        topic_id = ids.get(parts[0].topic)
        if log is None and topic_id is not None:
            bucket.put(f"{_staging(job.job)}/new/{name}/{METADATA}", topic_id)
            objects = [each for each in objects if each[1] != METADATA]
            objects.append([f"{_staging(job.job)}/new/{name}/{METADATA}", METADATA, len(topic_id)])
        objects.sort(key=lambda each: segments.order(each[1]))
        old = self._copied_old(job, name, before) if log is None else []
        names_in_use = {one.name for one in before} & {each[1] for each in objects}
        if log is not None and names_in_use:
            raise ValueError(f"{bucket.url}/{name}/{min(names_in_use)} is an object without records: remove it first")
        summary = {"records": sum(part.records for part in parts), "first_offset": start, "next_offset": end}
        return _row(name, objects, old, before, summary)

    def _prepare_empty(self, job: WriteJob, name: str) -> dict[str, Any]:
        """The same for a partition that an overwrite leaves without records. It keeps its topic id."""
        self.heartbeat()
        before = self._bucket.names(name, below=False)
        old, new = self._copied_old(job, name, before), f"{_staging(job.job)}/new/{name}"
        self._bucket.put(f"{new}/{EMPTY_LOG}", b"")
        objects: list[list[Any]] = [
            [f"{_staging(job.job)}/old/{name}/{METADATA}", METADATA, one.size] for one in before if one.name == METADATA
        ]
        objects.append([f"{new}/{EMPTY_LOG}", EMPTY_LOG, 0])
        return _row(name, objects, old, before, NO_RECORDS)

    def _copied_old(self, job: WriteJob, name: str, before: list[ListedObject]) -> list[str]:
        """Copies the objects that are replaced to the job's folder; returns their names in order."""
        old = sorted((one.name for one in before), key=segments.order)
        for each in old:
            self.heartbeat()
            self._bucket.copy(f"{name}/{each}", f"{_staging(job.job)}/old/{name}/{each}")
        return old

    def _topic_ids(self, topics: set[str]) -> dict[str, bytes]:
        """Topic -> partition.metadata of its existing partitions: all partitions of a topic share one topic id."""
        ids: dict[str, bytes] = {}
        for name in self._bucket.folders():
            match = FOLDER.fullmatch(name)
            if match and match["topic"] in topics and match["topic"] not in ids:
                data = self._bucket.read(f"{name}/{METADATA}")
                if data is not None:
                    ids[match["topic"]] = data
        return ids

    # ---- publish

    def withdraw_success(self, job: str) -> None:
        self._bucket.delete(SUCCESS)

    def publish(self, journal: dict[str, Any]) -> None:
        _in_parallel(self._publish_partition, journal["partitions"])
        self.heartbeat()

    def _publish_partition(self, row: dict[str, Any]) -> None:
        """Deletes and copies the objects of one partition, continuing where an earlier attempt stopped."""
        name = row["name"]
        self.heartbeat()
        published = {one.name: one.size for one in self._bucket.names(name, below=False)}
        known = {*map(tuple, row["before"]), *_published_by(row)}
        unknown = [each for each, size in published.items() if (each, size) not in known]
        if unknown:
            raise BlockingIOError(
                f"{self._bucket.url}/{name}/{min(unknown)}: another writer has changed this folder meanwhile"
            )
        if row["old"]:
            self._remove(name, published)
            published = {}
        for source, target, size in row["objects"]:
            if published.get(target) != size:
                self.heartbeat()
                self._bucket.copy(source, f"{name}/{target}")

    def restore(self, journal: dict[str, Any]) -> None:
        def restore_partition(row: dict[str, Any]) -> None:
            name, gone = row["name"], {*_published_by(row), *(tuple(each) for each in row["before"] if row["old"])}
            self.heartbeat()
            listed = self._bucket.names(name, below=False)
            self._remove(name, [one[0] for one in listed if one[:2] in gone])
            for each in row["old"]:
                self.heartbeat()
                self._bucket.copy(f"{_staging(journal['job'])}/old/{name}/{each}", f"{name}/{each}")

        _in_parallel(restore_partition, journal["partitions"])
        if journal["success"] is not None:
            self._bucket.put(SUCCESS, journal["success"].encode())

    def _remove(self, name: str, files: Iterable[str]) -> None:
        """Last segment first, and of each segment the .log first, so that what is left is always the start of a log."""
        for each in sorted(files, key=segments.order, reverse=True):
            self.heartbeat()
            self._bucket.delete(f"{name}/{each}")


def _row(
    name: str, objects: list[list[Any]], old: list[str], before: list[ListedObject], summary: Mapping[str, int]
) -> dict[str, Any]:
    """The journal's row of a partition. before: the objects of its folder."""
    known = [list(each[:2]) for each in before]
    return {"name": name, "objects": objects, "old": old, "before": known, "summary": summary}


def _published_by(row: dict[str, Any]) -> set[tuple[str, int]]:
    return {(target, size) for _, target, size in row["objects"]}


def _journal_name(job: str) -> str:
    return f"{COMMITS}/{job}.json"


def _staging(job: str) -> str:
    return f"{TEMPORARY}/{job}"


def _in_parallel(work: Callable[[Any], T], items: Iterable[Any]) -> list[T]:
    """The results in order of the items; AT_ONCE threads, as each call waits for the store."""
    given = list(items)
    if AT_ONCE < 2 or len(given) < 2:
        return [work(each) for each in given]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(work, given))
