"""Publishing below a URL: what `publishing` does with renames, done with copies and deletions of whole objects

    1  prepare    <job>/new/orders-0      what the driver has to write itself; <job>/old/orders-0 what is replaced
    2  decide     _commits/<job>.json     which object is copied to which name; from here on it can be finished
    3  put        orders-0/...            old objects go, last segment first; new ones come, first segment first
    4  tell       _SUCCESS, or a stream's line in _streams.json: the job is done
    5  clean up   the decision goes, then all that is below <job>

An object that is there is never written over: on append the records come as segments behind the last one. Small files
come before their .log, and go after it, so at each moment a reader finds whole segments from the log's begin on, either
old ones or new ones, and indexes that fit. A crash in front of 2 has changed nothing that a reader sees. Behind it the
same commit goes on, and `abort`, `sweep` and the next job's commit undo it: what came is deleted, what went is copied
back. Each of these steps may be done twice.
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
from .bucket_lock import COMMITS, Turn
from .bucket_staging import BEGUN, BucketStage
from .buckets import Bucket, Listed
from .publishing import (
    FOLDER,
    METADATA,
    NO_STORAGE,
    STREAMS,
    SUCCESS,
    Job,
    as_json,
    demand_one_task,
    from_json,
    warn_undone,
)  # fmt: skip
from .staging import TEMPORARY, Settings, Staged

_OWN = os.path.basename(COMMITS)
# Requests at the same time, each for another partition.
AT_ONCE = 16
T = TypeVar("T")


def begin(job: Job) -> None:
    """Without this mark tasks write nothing: one that outlives an abort brings nothing back."""
    bootstrap.load()
    _bucket(job).put(f"{_staging(job.job)}/{BEGUN}", b"")


def stage(job: Job, task: int, attempt: int) -> BucketStage:
    return BucketStage(_bucket(job), job, task, attempt)


def commit(job: Job, staged: Iterable[Staged]) -> list[dict[str, Any]]:
    """Publishes what is staged, in order of the tasks, and nothing else. Again: goes on, or does nothing.

    Gives a row per partition: name, records, first_offset, next_offset. ValueError, before anything is changed, for
    offsets that do not follow what is there and for two tasks that bring offsets of one partition.
    """
    bucket = _bucket(job)
    with bucket_lock.taken(bucket, job.job) as turn:
        if _is_done(bucket, job):
            _clean_up(bucket, job.job)
            return []
        _settle(bucket, turn, job.job)
        journal = _journal(bucket, job.job)
        if journal is not None and journal.get("undo"):
            _take_back(bucket, turn, journal)
            journal = None
        if journal is None:
            journal = _prepare(bucket, turn, job, list(staged))
            turn.beat()
            bucket.put(_journal_name(job.job), as_json(journal))
        if job.query is None:
            bucket.delete(SUCCESS)
        _side_by_side(lambda row: _put(bucket, turn, row), journal["partitions"])
        turn.beat()
        _tell(bucket, job, journal["partitions"])
        _clean_up(bucket, job.job)
        if job.query is not None:
            _drop_other_batches(bucket, job)
    return [{"name": row["name"], **row["told"]} for row in journal["partitions"]]


def abort(job: Job) -> None:
    """Undoes what a commit has done that did not come to its end, and removes what is staged."""
    bootstrap.load()
    bucket = _bucket(job)
    if _journal(bucket, job.job) is None:
        bucket.drop(_staging(job.job))
        return
    with bucket_lock.taken(bucket, job.job) as turn:
        _undo(bucket, turn, job.job)


def sweep(path: str, older_than_hours: float = 24.0, storage: Mapping[str, Any] = NO_STORAGE) -> list[str]:
    """Removes what jobs have left behind below a URL whose driver died; undoes commits that did not come to their end.

    A job is let alone while anything of it is younger: it may still run. Gives the names of the jobs.
    """
    bootstrap.load()
    bucket = Bucket(path, storage)
    border = older_than_hours * 3600
    if not _older(bucket, border):
        return []
    with bucket_lock.taken(bucket, f"sweep-{os.getpid()}-{time.time_ns()}", min(bucket_lock.STALE, border)) as turn:
        found = [job for job in _older(bucket, border) if job != turn.job]
        for job in found:
            _undo(bucket, turn, job)
            bucket.delete(f"{COMMITS}/{job}{bucket_lock.SUFFIX}")
        return found


def _older(bucket: Bucket, seconds: float) -> list[str]:
    """The jobs of which nothing is younger."""
    newest: dict[str, float] = {}
    for one in bucket.names(TEMPORARY):
        folder, _, rest = one.name.partition("/")
        job = rest.removesuffix(".json").removesuffix(bucket_lock.SUFFIX) if folder == _OWN else folder
        newest[job] = max(newest.get(job, 0.0), one.modified)
    return sorted(job for job, at in newest.items() if time.time() - at >= seconds)


# ---- prepare ------------------------------------------------------------------------------------------------


def _prepare(bucket: Bucket, turn: Turn, job: Job, staged: list[Staged]) -> dict[str, Any]:
    for kind in ("new", "old"):
        bucket.drop(f"{_staging(job.job)}/{kind}")
    parts: dict[str, list[Staged]] = {}
    for one in sorted(staged, key=lambda one: (one.topic, one.partition, one.task)):
        parts.setdefault(one.name, []).append(one)
    for name, each in parts.items():
        demand_one_task(name, each)
    there: dict[str, list[Listed]] = {}
    for found in bucket.names(_staging(job.job)):
        folder, _, name = found.name.rpartition("/")
        there.setdefault(folder, []).append(found._replace(name=name))
    ids = _topic_ids(bucket, sorted({one.topic for one in staged}))
    with tempfile.TemporaryDirectory(prefix="kafkarec-", dir=segments.local_folder()) as scratch:

        def prepared(name: str) -> dict[str, Any]:
            return _prepared(bucket, turn, job, name, parts[name], there, ids, scratch)

        rows = _side_by_side(prepared, parts)
    before = bucket.read(SUCCESS) if job.query is None else None
    return {
        "job": job.job, "query": job.query, "batch": job.batch, "partitions": rows,
        "success": None if before is None else before.decode(errors="replace"),
    }  # fmt: skip


def _prepared(
    bucket: Bucket, turn: Turn, job: Job, name: str, parts: list[Staged],
    there: dict[str, list[Listed]], ids: dict[str, bytes], scratch: str,
) -> dict[str, Any]:  # fmt: skip
    """What one partition's objects will be. A part whose batches have their offsets and epoch is copied as it lies
    there; others go through the driver."""
    turn.beat()
    before = bucket.names(name, below=False)
    log = None if job.overwrite else segments.log_of(bucket, job, name, before)
    fit = log is None or (parts[0].given and log.fits(parts[0]))
    own = [one for one in there.get(parts[0].folder, ()) if fit and segments.is_wanted(one.name, new=log is None)]
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
        turn.beat()
        bucket.copy(f"{name}/{each}", f"{_staging(job.job)}/old/{name}/{each}")
    taken = {one.name for one in before} & {each[1] for each in objects}
    if log is not None and taken:
        raise ValueError(f"{bucket.url}/{name}/{min(taken)} is an object without records: remove it first")
    told = {"records": sum(part.records for part in parts), "first_offset": start, "next_offset": end}
    return {"name": name, "objects": objects, "old": old, "before": [list(each[:2]) for each in before], "told": told}


def _topic_ids(bucket: Bucket, topics: list[str]) -> dict[str, bytes]:
    """All partitions of a topic have one id: that of the ones that are there."""
    found: dict[str, bytes] = {}
    for name in bucket.folders():
        match = FOLDER.fullmatch(name)
        if match and match["topic"] in topics and match["topic"] not in found:
            data = bucket.read(f"{name}/{METADATA}")
            if data is not None:
                found[match["topic"]] = data
    return found


# ---- put ----------------------------------------------------------------------------------------------------


def _put(bucket: Bucket, turn: Turn, row: dict[str, Any]) -> None:
    """From wherever it stopped."""
    name = row["name"]
    turn.beat()
    found = {one.name: one.size for one in bucket.names(name, below=False)}
    known = {*map(tuple, row["before"]), *_ours(row)}
    strange = [each for each, size in found.items() if (each, size) not in known]
    if strange:
        raise BlockingIOError(f"{bucket.url}/{name}/{min(strange)}: somebody else has written to this folder meanwhile")
    if row["old"]:
        _remove(bucket, turn, name, found)
        found = {}
    for source, target, size in row["objects"]:
        if found.get(target) != size:
            turn.beat()
            bucket.copy(source, f"{name}/{target}")


def _ours(row: dict[str, Any]) -> set[tuple[str, int]]:
    return {(target, size) for _, target, size in row["objects"]}


def _take_back(bucket: Bucket, turn: Turn, journal: dict[str, Any]) -> None:
    """What a commit has done and what an undoing has not yet done."""

    def back(row: dict[str, Any]) -> None:
        name, gone = row["name"], {*_ours(row), *(tuple(each) for each in row["before"] if row["old"])}
        turn.beat()
        _remove(bucket, turn, name, [one[0] for one in bucket.names(name, below=False) if one[:2] in gone])
        for each in row["old"]:
            turn.beat()
            bucket.copy(f"{_staging(journal['job'])}/old/{name}/{each}", f"{name}/{each}")

    _side_by_side(back, journal["partitions"])
    if journal["success"] is not None:
        bucket.put(SUCCESS, journal["success"].encode())
    warn_undone(bucket.url, journal["job"])


def _remove(bucket: Bucket, turn: Turn, name: str, files: Iterable[str]) -> None:
    """Last segment first, and of each the .log first: what stays is the front of a log."""
    for each in sorted(files, key=segments.order, reverse=True):
        turn.beat()
        bucket.delete(f"{name}/{each}")


def _undo(bucket: Bucket, turn: Turn, job: str) -> None:
    journal = _journal(bucket, job)
    if journal is not None and not _is_done(bucket, _of_journal(bucket.url, journal)):
        turn.beat()
        bucket.put(_journal_name(job), as_json(journal | {"undo": True}))  # it cannot be finished any more
        _take_back(bucket, turn, journal)
    _clean_up(bucket, job)


def _settle(bucket: Bucket, turn: Turn, own: str) -> None:
    """Commits that did not come to their end: it is nobody else's turn, so their drivers have given up."""
    for one in bucket.names(COMMITS):
        job = one.name.removesuffix(".json")
        if one.name.endswith(".json") and job != own:
            _undo(bucket, turn, job)


# ---- tell ---------------------------------------------------------------------------------------------------


def _tell(bucket: Bucket, job: Job, partitions: list[dict[str, Any]]) -> None:
    if job.query is None:
        told = {row["name"]: row["told"] for row in partitions}
        bucket.put(SUCCESS, as_json({"job": job.job, "partitions": told}))
        return
    known = from_json(bucket.read(STREAMS)) or {}
    known[job.query] = {"batch": job.batch, "job": job.job}
    bucket.put(STREAMS, as_json(known))


def _is_done(bucket: Bucket, job: Job) -> bool:
    if job.query is None:
        told = from_json(bucket.read(SUCCESS))
        return told is not None and told.get("job") == job.job
    known = (from_json(bucket.read(STREAMS)) or {}).get(job.query)
    return known is not None and known["batch"] >= job.batch


def _of_journal(path: str, journal: dict[str, Any]) -> Job:
    return Job(path, journal["job"], False, Settings(), journal["query"], journal["batch"])


def _journal(bucket: Bucket, job: str) -> dict[str, Any] | None:
    return from_json(bucket.read(_journal_name(job)))


def _journal_name(job: str) -> str:
    return f"{COMMITS}/{job}.json"


# ---- clean up -----------------------------------------------------------------------------------------------


def _bucket(job: Job) -> Bucket:
    return Bucket(job.path, job.storage)


def _staging(job: str) -> str:
    return f"{TEMPORARY}/{job}"


def _clean_up(bucket: Bucket, job: str) -> None:
    """The journal first: without it nothing is left to undo."""
    bucket.delete(_journal_name(job))
    bucket.drop(_staging(job))


def _drop_other_batches(bucket: Bucket, job: Job) -> None:
    """A query runs once at a time: what is staged of its other batches is of dead ones."""
    for other in bucket.folders(TEMPORARY):
        if other.startswith(f"{job.query}-") and other != job.job:
            bucket.drop(_staging(other))


def _side_by_side(work: Callable[[Any], T], items: Iterable[Any]) -> list[T]:
    """In order; many at once, as each waits for the store."""
    given = list(items)
    if AT_ONCE < 2 or len(given) < 2:
        return [work(each) for each in given]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(work, given))
