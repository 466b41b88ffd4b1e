"""Publishes what tasks have staged into the folders that readers see: all of a job, or nothing

    1  prepare    <job>/new/orders-0      the future folder: links to the existing log, and the tasks' batches
    2  journal    <job>/commit.json       which folder replaces which; from here on the commit can be finished
    3  exchange   orders-0 and new/orders-0 swap their names, one partition after the other
    4  mark done  _SUCCESS, or the stream's entry in _streams.json
    5  clean up   <job> is deleted, and the old folders with it

A crash before step 2 has changed nothing that a reader sees. After it, the same commit continues where it stopped,
while `abort`, `sweep` and the next job's commit restore the old folders, whatever step was reached: a job without step
4 leaves nothing. A partition's folder is always the complete old or the complete new one. Inodes tell which of them has
the name.
"""

from __future__ import annotations

import errno
import json
import logging
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

from . import folders
from .options import StorageOptions
from .staging import ADVICE, TEMPORARY, StagedPartition, StagingWriter, WriteSettings, job_folder, make

SUCCESS = "_SUCCESS"
STREAMS = "_streams.json"
JOURNAL = "commit.json"
UNDOING = "undo.json"
_NEW, _OLD, _UNDONE = "new", "old", "undone"
_DEAD = ".dead"
METADATA = "partition.metadata"
FOLDER = re.compile(r"(?P<topic>[a-zA-Z0-9._-]{1,249})-(?P<partition>0|[1-9][0-9]{0,9})")
NO_STORAGE = StorageOptions()
_log = logging.getLogger("spark_udfs")


class WriteJob(NamedTuple):
    """One write to a path.

    job: its id. query, batch: of a stream; the id is then made of both, so that a batch that runs again is recognised.
    storage: options of the library that opens a URL
    """

    path: str
    job: str
    overwrite: bool
    settings: WriteSettings
    query: str | None = None
    batch: int = -1
    storage: Mapping[str, Any] = NO_STORAGE

    @property
    def folder(self) -> str:
        return job_folder(self.path, self.job)


def begin(job: WriteJob) -> None:
    """Makes the folder without which tasks write nothing, so a task that outlives an abort leaves nothing behind."""
    make(job.folder)


def staging_writer(job: WriteJob, task: int, attempt: int) -> StagingWriter:
    return StagingWriter(job.path, job.job, task, attempt, job.settings, begun=job.query is None)


def commit(job: WriteJob, staged: Iterable[StagedPartition]) -> list[dict[str, Any]]:
    """Publishes what is staged, in order of the tasks, and nothing else. A repeated call continues, or does nothing.

    Returns a row per partition: name, records, first_offset, next_offset. ValueError, before anything is changed, for
    offsets that do not follow the existing log, and for two tasks with given offsets of one partition.
    """
    os.makedirs(job.path, exist_ok=True)
    with folders.locked(job.path):
        if _is_done(job):
            _clean_up(job.path, job.job)
            return []
        _undo_abandoned(job.path, job.job)
        os.makedirs(job.folder, exist_ok=True)
        _continue_undo(job.path, job.job)
        journal = _read(os.path.join(job.folder, JOURNAL))
        if journal is None:
            journal = _prepare(job, list(staged))
            folders.write_file(os.path.join(job.folder, JOURNAL), as_json(journal))
        if job.query is None:
            _move_success_away(job)
        for row in journal["partitions"]:
            _publish(job, row)
        folders.sync(job.path)
        _mark_done(job, journal["partitions"])
        _clean_up(job.path, job.job)
        if job.query is not None:
            _drop_other_batches(job)
    return [{"name": row["name"], **row["summary"]} for row in journal["partitions"]]


def abort(job: WriteJob) -> None:
    """Undoes an unfinished commit, and removes what is staged."""
    if os.path.isdir(os.path.dirname(job.folder)):
        with folders.locked(job.path):
            _undo(job.path, job.job)


def sweep(path: str, older_than_hours: float = 24.0) -> list[str]:
    """Removes what jobs of dead drivers have left below a path, and undoes their unfinished commits.

    A job with anything younger than `older_than_hours` may still run and is left alone. Returns the names of the jobs.
    """
    path = os.path.abspath(path)
    if not os.path.isdir(os.path.join(path, TEMPORARY)):
        return []
    with folders.locked(path):
        border = time.time() - older_than_hours * 3600
        found = [job for job in _jobs(path) if _newest(job_folder(path, job)) <= border]
        for job in found:
            _undo(path, job)
        return found


# ---- prepare ------------------------------------------------------------------------------------------------


def _prepare(job: WriteJob, staged: list[StagedPartition]) -> dict[str, Any]:
    new = os.path.join(job.folder, _NEW)
    folders.remove(new)
    os.makedirs(new)
    by_name: dict[str, list[StagedPartition]] = {}
    for one in sorted(staged, key=lambda one: (one.topic, one.partition, one.task)):
        by_name.setdefault(one.name, []).append(one)
    for name, parts in by_name.items():
        _check(job, name, parts)
    rows = [_prepared(job, name, parts) for name, parts in by_name.items()]
    folders.sync(new)
    return {"job": job.job, "query": job.query, "batch": job.batch, "partitions": rows}


def _check(job: WriteJob, name: str, parts: list[StagedPartition]) -> None:
    for part in parts:
        if not os.path.isdir(os.path.join(job.folder, part.folder)):
            raise FileNotFoundError(
                f"{os.path.join(job.folder, part.folder)} does not exist: {job.path} must be a folder that the driver "
                f"and all executors share"
            )
    demand_one_task(name, parts)


def demand_one_task(name: str, parts: list[StagedPartition]) -> None:
    """ValueError where several tasks have records with offsets of one partition."""
    if len(parts) > 1 and any(part.given for part in parts):
        raise ValueError(f"{len(parts)} tasks have records with offsets for {name}: {ADVICE}")


def _prepared(job: WriteJob, name: str, parts: list[StagedPartition]) -> dict[str, Any]:
    """Makes one partition's future folder; returns its row of the journal. A new log starts with links to the first
    task's segments; everything else is appended."""
    target, made = os.path.join(job.path, name), os.path.join(job.folder, _NEW, name)
    replaces = os.path.isdir(target)
    appends = replaces and not job.overwrite and folders.logs(target) != []
    base = target if appends else os.path.join(job.folder, parts[0].folder)
    appended = parts if appends else parts[1:]
    with folders.writer_locked(base):
        before = folders.end_of(target) if replaces else None
        limit = folders.clone(base, made, max((part.largest for part in appended), default=0))
    _keep_topic_id(job, parts[0], made)
    first, end = parts[0].first_offset, parts[0].next_offset
    if appended:
        added = _append(job, name, made, appended, limit)
        first, end = (added.start if appends else first), added.stop
    summary = {"records": sum(part.records for part in parts), "first_offset": first, "next_offset": end}
    return {"name": name, "replaces": replaces, "before": before, "inode": folders.inode(made), "summary": summary}


def _append(job: WriteJob, name: str, folder: str, parts: list[StagedPartition], limit: int | None) -> range:
    """Appends staged segments to a log; returns their range of offsets. Batches get their offsets and the log's leader
    epoch by a change of their headers outside of the checksum."""
    import kafkarec

    segment_bytes = job.settings.segment_bytes if limit is None else min(limit, job.settings.segment_bytes)
    try:
        with kafkarec.SegmentWriter(
            folder,
            segment_bytes=segment_bytes,
            assign_offsets=not parts[0].given,
            leader_epoch=leader_epoch(partial(folders.read_file, folder)),
            check_all=False,
        ) as writer:
            start = parts[0].first_offset if parts[0].given else writer.next_offset
            for part in parts:
                staged = os.path.join(job.folder, part.folder)
                for segment in folders.logs(staged):
                    for data in folders.batch_pieces(os.path.join(staged, segment)):
                        writer.append(data)
            return range(start, writer.next_offset)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from error


def leader_epoch(read: Callable[[str], bytes | None]) -> int:
    """The leader epoch of a log's last batches. read(name): the file of that name in its folder, None: there is
    none."""
    from kafkarec.sidecars import leader_epochs

    data = read(leader_epochs.NAME)
    entries = leader_epochs.read(data) if data else ()
    return entries[-1].epoch if entries else 0


def _keep_topic_id(job: WriteJob, part: StagedPartition, made: str) -> None:
    """Copies partition.metadata of an existing partition: all partitions of a topic share one topic id."""
    known = sorted(name for name in os.listdir(job.path) if _topic_of(name) == part.topic)
    for name in [part.name, *known]:
        path = os.path.join(job.path, name, METADATA)
        with suppress(FileNotFoundError, NotADirectoryError), open(path, "rb") as file:
            folders.write_file(os.path.join(made, METADATA), file.read())
            return


def _topic_of(name: str) -> str | None:
    topic, dash, number = name.rpartition("-")
    return topic if dash and number.isdecimal() else None


# ---- exchange -----------------------------------------------------------------------------------------------


def _publish(job: WriteJob, row: dict[str, Any]) -> None:
    """Gives the new folder its name, wherever an earlier attempt stopped; the old one stays in the job's folder."""
    name = row["name"]
    target, new, old = os.path.join(job.path, name), _path_of(job, _NEW, name), _path_of(job, _OLD, name)
    if folders.inode(target) == row["inode"]:
        return
    if not row["replaces"] or not os.path.isdir(target):
        os.rename(new, target)
        return
    with folders.writer_locked(target):
        if folders.end_of(target) != row["before"]:
            raise BlockingIOError(errno.EWOULDBLOCK, "another writer has changed this folder meanwhile", target)
        if not folders.exchange(new, target):
            _rename(target, old)
            os.rename(new, target)


def _restore(path: str, job: str, row: dict[str, Any]) -> None:
    """Gives the old folder its name back, or removes the new one, wherever an earlier attempt stopped."""
    name = row["name"]
    target = os.path.join(path, name)
    new, old, undone = (os.path.join(job_folder(path, job), kind, name) for kind in (_NEW, _OLD, _UNDONE))
    if folders.inode(target) == row["inode"]:
        if row["replaces"] and folders.exchange(new if os.path.isdir(new) else old, target):
            return
        _rename(target, undone)
    if row["replaces"] and not os.path.isdir(target):
        os.rename(old if os.path.isdir(old) else new, target)


def _path_of(job: WriteJob, kind: str, name: str) -> str:
    return os.path.join(job.folder, kind, name)


def _rename(source: str, target: str) -> None:
    os.makedirs(os.path.dirname(target), exist_ok=True)
    os.rename(source, target)


def _move_success_away(job: WriteJob) -> None:
    """Moves _SUCCESS into the job's folder: while a job is published its content is not true."""
    with suppress(FileNotFoundError):
        _rename(os.path.join(job.path, SUCCESS), _path_of(job, _OLD, SUCCESS))
        folders.sync(job.path)


def _undo(path: str, job: str) -> None:
    folder = job_folder(path, job)
    journal = _read(os.path.join(folder, JOURNAL))
    if journal is not None and not _is_done(_of_journal(path, journal)):
        os.rename(os.path.join(folder, JOURNAL), os.path.join(folder, UNDOING))  # from here on it can only be undone
        folders.sync(folder)
    _continue_undo(path, job)
    _clean_up(path, job)


def _continue_undo(path: str, job: str) -> None:
    """Finishes an undo that has begun, if any."""
    folder = job_folder(path, job)
    journal = _read(os.path.join(folder, UNDOING))
    if journal is None:
        return
    for row in reversed(journal["partitions"]):
        _restore(path, job, row)
    before = os.path.join(folder, _OLD, SUCCESS)
    if os.path.exists(before):
        os.rename(before, os.path.join(path, SUCCESS))
    folders.sync(path)
    os.unlink(os.path.join(folder, UNDOING))
    for kind in (_NEW, _OLD, _UNDONE):
        folders.remove(os.path.join(folder, kind))
    warn_undone(path, job)


def warn_undone(path: str, job: str) -> None:
    _log.warning("%s: the unfinished commit of job %s is undone", path, job)


def _undo_abandoned(path: str, own: str) -> None:
    """Undoes unfinished commits of other jobs: this job holds the lock, so nobody works on them."""
    for job in _jobs(path):
        if job != own and any(os.path.exists(os.path.join(job_folder(path, job), name)) for name in (JOURNAL, UNDOING)):
            _undo(path, job)


# ---- mark done ----------------------------------------------------------------------------------------------


def _mark_done(job: WriteJob, partitions: list[dict[str, Any]]) -> None:
    if job.query is None:
        summaries = {row["name"]: row["summary"] for row in partitions}
        folders.write_file(os.path.join(job.path, SUCCESS), as_json({"job": job.job, "partitions": summaries}))
        return
    known = _read(os.path.join(job.path, STREAMS)) or {}
    known[job.query] = {"batch": job.batch, "job": job.job}
    folders.write_file(os.path.join(job.path, STREAMS), as_json(known))


def _is_done(job: WriteJob) -> bool:
    if job.query is None:
        content = _read(os.path.join(job.path, SUCCESS))
        return content is not None and content.get("job") == job.job
    known = (_read(os.path.join(job.path, STREAMS)) or {}).get(job.query)
    return known is not None and known["batch"] >= job.batch


def _of_journal(path: str, journal: dict[str, Any]) -> WriteJob:
    return WriteJob(path, journal["job"], False, WriteSettings(), journal["query"], journal["batch"])


def as_json(content: dict[str, Any]) -> bytes:
    return json.dumps(content, sort_keys=True).encode() + b"\n"


def _read(path: str) -> dict[str, Any] | None:
    try:
        with open(path, "rb") as file:
            return from_json(file.read())
    except FileNotFoundError:
        return None


def from_json(data: bytes | None) -> dict[str, Any] | None:
    """The object of a JSON file; None: the file does not exist or is not ours (Hadoop's _SUCCESS is empty)."""
    try:
        content = json.loads(data or b"")
    except ValueError:
        return None
    return content if isinstance(content, dict) else None


# ---- clean up -----------------------------------------------------------------------------------------------


def _jobs(path: str) -> Iterator[str]:
    with suppress(FileNotFoundError):
        yield from sorted(entry.name for entry in os.scandir(os.path.join(path, TEMPORARY)) if entry.is_dir())


def _clean_up(path: str, job: str) -> None:
    """Deletes the journal first: without it there is nothing to undo. Then renames the folder, so that a task that is
    still running cannot write to it."""
    folder = job_folder(path, job)
    dead = folder + _DEAD
    with suppress(FileNotFoundError):
        os.unlink(os.path.join(folder, JOURNAL))
        folders.sync(folder)
    try:
        folders.remove(dead)
        with suppress(FileNotFoundError):
            os.rename(folder, dead)
        folders.remove(dead)
        with suppress(OSError):
            os.rmdir(os.path.join(path, TEMPORARY))
    except OSError as error:
        _log.warning("%s is left behind (%s): spark_udfs.sweep removes it", dead, error)


def _drop_other_batches(job: WriteJob) -> None:
    """A query runs one batch at a time, so what is staged of its other batches belongs to failed attempts."""
    for other in _jobs(job.path):
        if other.startswith(f"{job.query}-") and other != job.job:
            _clean_up(job.path, other)


def _newest(folder: str) -> float:
    """When anything in a folder was last changed."""
    newest = 0.0
    for parent, _, names in os.walk(folder):
        for path in (parent, *(os.path.join(parent, name) for name in names)):
            with suppress(FileNotFoundError):
                newest = max(newest, os.lstat(path).st_mtime)
    return newest
