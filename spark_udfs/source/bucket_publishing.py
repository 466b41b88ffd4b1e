"""Publishing below a URL: what `publishing` does with renames, done with copies and deletions of whole objects

    1  prepare    <job>/new/orders-0      what the driver has to write itself; <job>/old/orders-0 what is replaced
    2  journal    _commits/<job>.json     which object is copied to which name; from here on the commit can be finished
    3  publish    orders-0/...            old objects are deleted, new ones copied
    4  mark done  _SUCCESS, or the stream's entry in _streams.json
    5  clean up   the journal is deleted, then everything below <job>

An existing object is never overwritten: appended records become segments after the last one. Old segments are deleted
from the last one on, new ones copied from the first one on. Indexes and other small files are copied before their .log
and deleted after it, so a reader always finds whole segments from the start of the log, either old or new ones, with
matching indexes. A crash before step 2 has changed nothing that a reader sees. After it, the same commit continues
where it stopped, while `abort`, `sweep` and the next job's commit undo it: new objects are deleted, old ones copied
back. Every step may be repeated.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from spark_udfs import bootstrap

from . import bucket_lock
from . import bucket_segments as segments
from .bucket_lock import COMMITS, BucketLock
from .bucket_staging import BEGUN, BucketStagingWriter
from .buckets import Bucket, ListedObject
from .publishing import (
    FOLDER,
    METADATA,
    NO_STORAGE,
    STREAMS,
    SUCCESS,
    WriteJob,
    as_json,
    demand_one_task,
    from_json,
    warn_undone,
)
from .staging import TEMPORARY, StagedPartition, WriteSettings

_OWN = os.path.basename(COMMITS)
# Requests at the same time, each for another partition.
AT_ONCE = 16
T = TypeVar("T")


def begin(job: WriteJob) -> None:
    """Puts the object without which tasks write nothing, so a task that outlives an abort leaves nothing behind."""
    bootstrap.load()
    _bucket(job).put(f"{_staging(job.job)}/{BEGUN}", b"")


def staging_writer(job: WriteJob, task: int, attempt: int) -> BucketStagingWriter:
    return BucketStagingWriter(_bucket(job), job, task, attempt)


def commit(job: WriteJob, staged: Iterable[StagedPartition]) -> list[dict[str, Any]]:
    """Publishes what is staged, in order of the tasks, and nothing else. A repeated call continues, or does nothing.

    Returns a row per partition: name, records, first_offset, next_offset. ValueError, before anything is changed, for
    offsets that do not follow the existing log, and for two tasks with given offsets of one partition.
    """
    bucket = _bucket(job)
    with bucket_lock.acquired(bucket, job.job) as lock:
        if _is_done(bucket, job):
            _clean_up(bucket, job.job)
            return []
        _undo_abandoned(bucket, lock, job.job)
        journal = _journal(bucket, job.job)
        if journal is not None and journal.get("undo"):
            _restore(bucket, lock, journal)
            journal = None
        if journal is None:
            journal = _prepare(bucket, lock, job, list(staged))
            lock.heartbeat()
            bucket.put(_journal_name(job.job), as_json(journal))
        if job.query is None:
            bucket.delete(SUCCESS)
        _in_parallel(lambda row: _publish(bucket, lock, row), journal["partitions"])
        lock.heartbeat()
        _mark_done(bucket, job, journal["partitions"])
        _clean_up(bucket, job.job)
        if job.query is not None:
            _drop_other_batches(bucket, job)
    return [{"name": row["name"], **row["summary"]} for row in journal["partitions"]]


def abort(job: WriteJob) -> None:
    """Undoes an unfinished commit, and removes what is staged."""
    bootstrap.load()
    bucket = _bucket(job)
    if _journal(bucket, job.job) is None:
        bucket.drop(_staging(job.job))
        return
    with bucket_lock.acquired(bucket, job.job) as lock:
        _undo(bucket, lock, job.job)


def sweep(path: str, older_than_hours: float = 24.0, storage: Mapping[str, Any] = NO_STORAGE) -> list[str]:
    """Removes what jobs of dead drivers have left below a URL, and undoes their unfinished commits.

    A job with anything younger than `older_than_hours` may still run and is left alone. Returns the names of the jobs.
    """
    bootstrap.load()
    bucket = Bucket(path, storage)
    border = older_than_hours * 3600
    if not _jobs_older_than(bucket, border):
        return []
    with bucket_lock.acquired(bucket, f"sweep-{os.getpid()}-{time.time_ns()}", min(bucket_lock.STALE, border)) as lock:
        found = [job for job in _jobs_older_than(bucket, border) if job != lock.job]
        for job in found:
            _undo(bucket, lock, job)
            bucket.delete(f"{COMMITS}/{job}{bucket_lock.SUFFIX}")
        return found


def _jobs_older_than(bucket: Bucket, seconds: float) -> list[str]:
    """The jobs all of whose objects are at least so many seconds old."""
    newest: dict[str, float] = {}
    for one in bucket.names(TEMPORARY):
        folder, _, rest = one.name.partition("/")
        job = rest.removesuffix(".json").removesuffix(bucket_lock.SUFFIX) if folder == _OWN else folder
        newest[job] = max(newest.get(job, 0.0), one.modified)
    return sorted(job for job, at in newest.items() if time.time() - at >= seconds)


# ---- prepare ------------------------------------------------------------------------------------------------


def _prepare(bucket: Bucket, lock: BucketLock, job: WriteJob, staged: list[StagedPartition]) -> dict[str, Any]:
    for kind in ("new", "old"):
        bucket.drop(f"{_staging(job.job)}/{kind}")
    parts: dict[str, list[StagedPartition]] = {}
    for one in sorted(staged, key=lambda one: (one.topic, one.partition, one.task)):
        parts.setdefault(one.name, []).append(one)
    for name, each in parts.items():
        demand_one_task(name, each)
    staged_objects: dict[str, list[ListedObject]] = {}
    for found in bucket.names(_staging(job.job)):
        folder, _, name = found.name.rpartition("/")
        staged_objects.setdefault(folder, []).append(found._replace(name=name))
    ids = _topic_ids(bucket, sorted({one.topic for one in staged}))
    with tempfile.TemporaryDirectory(prefix="kafkarec-", dir=segments.local_folder()) as scratch:

        def prepared(name: str) -> dict[str, Any]:
            return _prepared(bucket, lock, job, name, parts[name], staged_objects, ids, scratch)

        rows = _in_parallel(prepared, parts)
    before = bucket.read(SUCCESS) if job.query is None else None
    return {
        "job": job.job,
        "query": job.query,
        "batch": job.batch,
        "partitions": rows,
        "success": None if before is None else before.decode(errors="replace"),
    }


def _prepared(
    bucket: Bucket,
    lock: BucketLock,
    job: WriteJob,
    name: str,
    parts: list[StagedPartition],
    staged_objects: dict[str, list[ListedObject]],
    ids: dict[str, bytes],
    scratch: str,
) -> dict[str, Any]:
    """The journal's row of one partition: which objects it will have. Segments that were staged with their
    final offsets and leader epoch are copied within the store; the driver rewrites the others."""
    lock.heartbeat()
    before = bucket.names(name, below=False)
    log = None if job.overwrite else segments.log_of(bucket, job, name, before)
    fit = log is None or (parts[0].given and log.accepts_unchanged(parts[0]))
    own = [
        one for one in staged_objects.get(parts[0].folder, ()) if fit and segments.is_wanted(one.name, new=log is None)
    ]
    staged = f"{_staging(job.job)}/{parts[0].folder}"
    objects: list[list[Any]] = [[f"{staged}/{one.name}", one.name, one.size] for one in own]
    if fit and sum(one.size for one in own if one.name.endswith(".log")) != parts[0].size:
        raise FileNotFoundError(f"{bucket.url}/{staged} is not as the task left it")
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
    old = sorted((one.name for one in before), key=segments.order) if log is None else []
    for each in old:
        lock.heartbeat()
        bucket.copy(f"{name}/{each}", f"{_staging(job.job)}/old/{name}/{each}")
    names_in_use = {one.name for one in before} & {each[1] for each in objects}
    if log is not None and names_in_use:
        raise ValueError(f"{bucket.url}/{name}/{min(names_in_use)} is an object without records: remove it first")
    summary = {"records": sum(part.records for part in parts), "first_offset": start, "next_offset": end}
    return {
        "name": name,
        "objects": objects,
        "old": old,
        "before": [list(each[:2]) for each in before],
        "summary": summary,
    }


def _topic_ids(bucket: Bucket, topics: list[str]) -> dict[str, bytes]:
    """Topic -> partition.metadata of its existing partitions: all partitions of a topic share one topic id."""
    found: dict[str, bytes] = {}
    for name in bucket.folders():
        match = FOLDER.fullmatch(name)
        if match and match["topic"] in topics and match["topic"] not in found:
            data = bucket.read(f"{name}/{METADATA}")
            if data is not None:
                found[match["topic"]] = data
    return found


# ---- publish ---------------------------------------------------------------------------------------------------


def _publish(bucket: Bucket, lock: BucketLock, row: dict[str, Any]) -> None:
    """Deletes and copies the objects of one partition, continuing where an earlier attempt stopped."""
    name = row["name"]
    lock.heartbeat()
    found = {one.name: one.size for one in bucket.names(name, below=False)}
    known = {*map(tuple, row["before"]), *_published_by(row)}
    unknown = [each for each, size in found.items() if (each, size) not in known]
    if unknown:
        raise BlockingIOError(f"{bucket.url}/{name}/{min(unknown)}: another writer has changed this folder meanwhile")
    if row["old"]:
        _remove(bucket, lock, name, found)
        found = {}
    for source, target, size in row["objects"]:
        if found.get(target) != size:
            lock.heartbeat()
            bucket.copy(source, f"{name}/{target}")


def _published_by(row: dict[str, Any]) -> set[tuple[str, int]]:
    return {(target, size) for _, target, size in row["objects"]}


def _restore(bucket: Bucket, lock: BucketLock, journal: dict[str, Any]) -> None:
    """Undoes what a commit has published, as far as an earlier attempt has not."""

    def restore_objects(row: dict[str, Any]) -> None:
        name, gone = row["name"], {*_published_by(row), *(tuple(each) for each in row["before"] if row["old"])}
        lock.heartbeat()
        _remove(bucket, lock, name, [one[0] for one in bucket.names(name, below=False) if one[:2] in gone])
        for each in row["old"]:
            lock.heartbeat()
            bucket.copy(f"{_staging(journal['job'])}/old/{name}/{each}", f"{name}/{each}")

    _in_parallel(restore_objects, journal["partitions"])
    if journal["success"] is not None:
        bucket.put(SUCCESS, journal["success"].encode())
    warn_undone(bucket.url, journal["job"])


def _remove(bucket: Bucket, lock: BucketLock, name: str, files: Iterable[str]) -> None:
    """Last segment first, and of each segment the .log first, so that the rest is always the front of a log."""
    for each in sorted(files, key=segments.order, reverse=True):
        lock.heartbeat()
        bucket.delete(f"{name}/{each}")


def _undo(bucket: Bucket, lock: BucketLock, job: str) -> None:
    journal = _journal(bucket, job)
    if journal is not None and not _is_done(bucket, _of_journal(bucket.url, journal)):
        lock.heartbeat()
        bucket.put(_journal_name(job), as_json(journal | {"undo": True}))  # from here on it can only be undone
        _restore(bucket, lock, journal)
    _clean_up(bucket, job)


def _undo_abandoned(bucket: Bucket, lock: BucketLock, own: str) -> None:
    """Undoes unfinished commits of other jobs: this job holds the lock, so nobody works on them."""
    for one in bucket.names(COMMITS):
        job = one.name.removesuffix(".json")
        if one.name.endswith(".json") and job != own:
            _undo(bucket, lock, job)


# ---- mark done --------------------------------------------------------------------------------------------------


def _mark_done(bucket: Bucket, job: WriteJob, partitions: list[dict[str, Any]]) -> None:
    if job.query is None:
        summaries = {row["name"]: row["summary"] for row in partitions}
        bucket.put(SUCCESS, as_json({"job": job.job, "partitions": summaries}))
        return
    known = from_json(bucket.read(STREAMS)) or {}
    known[job.query] = {"batch": job.batch, "job": job.job}
    bucket.put(STREAMS, as_json(known))


def _is_done(bucket: Bucket, job: WriteJob) -> bool:
    if job.query is None:
        content = from_json(bucket.read(SUCCESS))
        return content is not None and content.get("job") == job.job
    known = (from_json(bucket.read(STREAMS)) or {}).get(job.query)
    return known is not None and known["batch"] >= job.batch


def _of_journal(path: str, journal: dict[str, Any]) -> WriteJob:
    return WriteJob(path, journal["job"], False, WriteSettings(), journal["query"], journal["batch"])


def _journal(bucket: Bucket, job: str) -> dict[str, Any] | None:
    return from_json(bucket.read(_journal_name(job)))


def _journal_name(job: str) -> str:
    return f"{COMMITS}/{job}.json"


# ---- clean up -----------------------------------------------------------------------------------------------


def _bucket(job: WriteJob) -> Bucket:
    return Bucket(job.path, job.storage)


def _staging(job: str) -> str:
    return f"{TEMPORARY}/{job}"


def _clean_up(bucket: Bucket, job: str) -> None:
    """The journal first: without it nothing is left to undo."""
    bucket.delete(_journal_name(job))
    bucket.drop(_staging(job))


def _drop_other_batches(bucket: Bucket, job: WriteJob) -> None:
    """A query runs one batch at a time, so what is staged of its other batches belongs to failed attempts."""
    for other in bucket.folders(TEMPORARY):
        if other.startswith(f"{job.query}-") and other != job.job:
            bucket.drop(_staging(other))


def _in_parallel(work: Callable[[Any], T], items: Iterable[Any]) -> list[T]:
    """The results in order of the items; AT_ONCE threads, as each call waits for the store."""
    given = list(items)
    if AT_ONCE < 2 or len(given) < 2:
        return [work(each) for each in given]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(work, given))
