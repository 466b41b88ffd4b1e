"""How what tasks have staged becomes part of the folders that everybody reads: all of a job, or nothing

    1  prepare    <job>/new/orders-0      the folder as it will be: what is there, linked, and the tasks' batches
    2  decide     <job>/commit.json       which folders take which one's place; from here on it can be finished
    3  exchange   orders-0 and new/orders-0 change places, one partition after the other
    4  tell       _SUCCESS, or a stream's line in _streams.json: the job is done
    5  clean up   <job> goes, and with it the old folders

A crash in front of 2 has changed nothing that a reader sees. Behind it the same commit goes on where it stopped, and
`abort`, `sweep` and the next job's commit put the old folders back, whatever step was reached: of a job without 4
nothing stays. Each partition's folder is always the old or the new one, complete. Steps are told by inodes, since a
name may hold either.
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
from .staging import ADVICE, TEMPORARY, Settings, Stage, Staged, job_folder, make

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


class Job(NamedTuple):
    """query, batch: of a stream; job is then made of both, so that a batch that is run again finds itself. storage:
    for the library behind a URL."""

    path: str
    job: str
    overwrite: bool
    settings: Settings
    query: str | None = None
    batch: int = -1
    storage: Mapping[str, Any] = NO_STORAGE

    @property
    def folder(self) -> str:
        return job_folder(self.path, self.job)


def begin(job: Job) -> None:
    """Makes the job's folder. Without it tasks write nothing: one that outlives an abort brings nothing back."""
    make(job.folder)


def stage(job: Job, task: int, attempt: int) -> Stage:
    return Stage(job.path, job.job, task, attempt, job.settings, begun=job.query is None)


def commit(job: Job, staged: Iterable[Staged]) -> list[dict[str, Any]]:
    """Publishes what is staged, in order of the tasks, and nothing else. Again: goes on, or does nothing.

    Gives a row per partition: name, records, first_offset, next_offset. ValueError, before anything is changed, for
    offsets that do not follow what is there and for two tasks that bring offsets of one partition.
    """
    os.makedirs(job.path, exist_ok=True)
    with folders.locked(job.path):
        if _is_done(job):
            _clean_up(job.path, job.job)
            return []
        _settle(job.path, job.job)
        os.makedirs(job.folder, exist_ok=True)
        _take_all_back(job.path, job.job)
        journal = _read(os.path.join(job.folder, JOURNAL))
        if journal is None:
            journal = _prepare(job, list(staged))
            folders.write_file(os.path.join(job.folder, JOURNAL), as_json(journal))
        if job.query is None:
            _set_aside(job)
        for row in journal["partitions"]:
            _put(job, row)
        folders.sync(job.path)
        _tell(job, journal["partitions"])
        _clean_up(job.path, job.job)
        if job.query is not None:
            _drop_other_batches(job)
    return [{"name": row["name"], **row["told"]} for row in journal["partitions"]]


def abort(job: Job) -> None:
    """Undoes what a commit has done that did not come to its end, and removes what is staged."""
    if os.path.isdir(os.path.dirname(job.folder)):
        with folders.locked(job.path):
            _undo(job.path, job.job)


def sweep(path: str, older_than_hours: float = 24.0) -> list[str]:
    """Removes what jobs have left behind below a path whose driver died; undoes commits that did not come to their end.

    A job is let alone while anything of it is younger: it may still run. Gives the names of the jobs.
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


def _prepare(job: Job, staged: list[Staged]) -> dict[str, Any]:
    new = os.path.join(job.folder, _NEW)
    folders.remove(new)
    os.makedirs(new)
    by_name: dict[str, list[Staged]] = {}
    for one in sorted(staged, key=lambda one: (one.topic, one.partition, one.task)):
        by_name.setdefault(one.name, []).append(one)
    for name, parts in by_name.items():
        _check(job, name, parts)
    rows = [_prepared(job, name, parts) for name, parts in by_name.items()]
    folders.sync(new)
    return {"job": job.job, "query": job.query, "batch": job.batch, "partitions": rows}


def _check(job: Job, name: str, parts: list[Staged]) -> None:
    for part in parts:
        if not os.path.isdir(os.path.join(job.folder, part.folder)):
            raise FileNotFoundError(
                f"{os.path.join(job.folder, part.folder)} is not there: {job.path} must be a folder that the driver "
                f"and all executors share"
            )
    demand_one_task(name, parts)


def demand_one_task(name: str, parts: list[Staged]) -> None:
    """ValueError where several have given offsets."""
    if len(parts) > 1 and any(part.given for part in parts):
        raise ValueError(f"{len(parts)} tasks have records with offsets for {name}: {ADVICE}")


def _prepared(job: Job, name: str, parts: list[Staged]) -> dict[str, Any]:
    """The folder that one partition will have. Its first part is taken as it is where nothing is in front of it."""
    target, made = os.path.join(job.path, name), os.path.join(job.folder, _NEW, name)
    replaces = os.path.isdir(target)
    goes_on = replaces and not job.overwrite and folders.logs(target) != []
    base = target if goes_on else os.path.join(job.folder, parts[0].folder)
    behind = parts if goes_on else parts[1:]
    with folders.held(base):
        before = folders.end_of(target) if replaces else None
        limit = folders.clone(base, made, max((part.largest for part in behind), default=0))
    _keep_topic_id(job, parts[0], made)
    first, end = parts[0].first_offset, parts[0].next_offset
    if behind:
        added = _append(job, name, made, behind, limit)
        first, end = (added.start if goes_on else first), added.stop
    told = {"records": sum(part.records for part in parts), "first_offset": first, "next_offset": end}
    return {"name": name, "replaces": replaces, "before": before, "inode": folders.inode(made), "told": told}


def _append(job: Job, name: str, folder: str, parts: list[Staged], limit: int | None) -> range:
    """Batches get their offsets and the log's leader epoch in their headers, outside of the checksum."""
    import kafkarec

    segment_bytes = job.settings.segment_bytes if limit is None else min(limit, job.settings.segment_bytes)
    try:
        with kafkarec.SegmentWriter(
            folder, segment_bytes=segment_bytes, assign_offsets=not parts[0].given,
            leader_epoch=leader_epoch(partial(folders.read_file, folder)), check_all=False,
        ) as writer:  # fmt: skip
            start = parts[0].first_offset if parts[0].given else writer.next_offset
            for part in parts:
                staged = os.path.join(job.folder, part.folder)
                for segment in folders.logs(staged):
                    for data in folders.pieces(os.path.join(staged, segment)):
                        writer.append(data)
            return range(start, writer.next_offset)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from error


def leader_epoch(read: Callable[[str], bytes | None]) -> int:
    """Of a log's last leader. read: a file beside the log by its name, None where there is none."""
    from kafkarec.sidecars import leader_epochs

    data = read(leader_epochs.NAME)
    entries = leader_epochs.read(data) if data else ()
    return entries[-1].epoch if entries else 0


def _keep_topic_id(job: Job, part: Staged, made: str) -> None:
    """All partitions of a topic have one id: that of the ones that are there."""
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


def _put(job: Job, row: dict[str, Any]) -> None:
    """From wherever it stopped: the new folder has the name, the old one is where it was, or aside."""
    name = row["name"]
    target, new, old = os.path.join(job.path, name), _place(job, _NEW, name), _place(job, _OLD, name)
    if folders.inode(target) == row["inode"]:
        return
    if not row["replaces"] or not os.path.isdir(target):
        os.rename(new, target)
        return
    with folders.held(target):
        if folders.end_of(target) != row["before"]:
            raise BlockingIOError(errno.EWOULDBLOCK, "somebody else has written to this folder meanwhile", target)
        if not folders.exchange(new, target):
            _move(target, old)
            os.rename(new, target)


def _take_back(path: str, job: str, row: dict[str, Any]) -> None:
    """From wherever it stopped: the old folder has the name, or nothing where there was none."""
    name = row["name"]
    target = os.path.join(path, name)
    new, old, undone = (os.path.join(job_folder(path, job), kind, name) for kind in (_NEW, _OLD, _UNDONE))
    if folders.inode(target) == row["inode"]:
        if row["replaces"] and folders.exchange(new if os.path.isdir(new) else old, target):
            return
        _move(target, undone)
    if row["replaces"] and not os.path.isdir(target):
        os.rename(old if os.path.isdir(old) else new, target)


def _place(job: Job, kind: str, name: str) -> str:
    return os.path.join(job.folder, kind, name)


def _move(source: str, target: str) -> None:
    os.makedirs(os.path.dirname(target), exist_ok=True)
    os.rename(source, target)


def _set_aside(job: Job) -> None:
    """While a job is published the folder is not as _SUCCESS says."""
    with suppress(FileNotFoundError):
        _move(os.path.join(job.path, SUCCESS), _place(job, _OLD, SUCCESS))
        folders.sync(job.path)


def _undo(path: str, job: str) -> None:
    folder = job_folder(path, job)
    journal = _read(os.path.join(folder, JOURNAL))
    if journal is not None and not _is_done(_of_journal(path, journal)):
        os.rename(os.path.join(folder, JOURNAL), os.path.join(folder, UNDOING))  # it cannot be finished any more
        folders.sync(folder)
    _take_all_back(path, job)
    _clean_up(path, job)


def _take_all_back(path: str, job: str) -> None:
    """What an undoing has begun; nothing where there is none."""
    folder = job_folder(path, job)
    journal = _read(os.path.join(folder, UNDOING))
    if journal is None:
        return
    for row in reversed(journal["partitions"]):
        _take_back(path, job, row)
    before = os.path.join(folder, _OLD, SUCCESS)
    if os.path.exists(before):
        os.rename(before, os.path.join(path, SUCCESS))
    folders.sync(path)
    os.unlink(os.path.join(folder, UNDOING))
    for kind in (_NEW, _OLD, _UNDONE):
        folders.remove(os.path.join(folder, kind))
    warn_undone(path, job)


def warn_undone(path: str, job: str) -> None:
    _log.warning("%s: the commit of job %s did not come to its end and is undone", path, job)


def _settle(path: str, own: str) -> None:
    """Commits that did not come to their end: nobody else commits now, so their drivers have given up."""
    for job in _jobs(path):
        if job != own and any(os.path.exists(os.path.join(job_folder(path, job), name)) for name in (JOURNAL, UNDOING)):
            _undo(path, job)


# ---- tell ---------------------------------------------------------------------------------------------------


def _tell(job: Job, partitions: list[dict[str, Any]]) -> None:
    if job.query is None:
        told = {row["name"]: row["told"] for row in partitions}
        folders.write_file(os.path.join(job.path, SUCCESS), as_json({"job": job.job, "partitions": told}))
        return
    known = _read(os.path.join(job.path, STREAMS)) or {}
    known[job.query] = {"batch": job.batch, "job": job.job}
    folders.write_file(os.path.join(job.path, STREAMS), as_json(known))


def _is_done(job: Job) -> bool:
    if job.query is None:
        told = _read(os.path.join(job.path, SUCCESS))
        return told is not None and told.get("job") == job.job
    known = (_read(os.path.join(job.path, STREAMS)) or {}).get(job.query)
    return known is not None and known["batch"] >= job.batch


def _of_journal(path: str, journal: dict[str, Any]) -> Job:
    return Job(path, journal["job"], False, Settings(), journal["query"], journal["batch"])


def as_json(told: dict[str, Any]) -> bytes:
    return json.dumps(told, sort_keys=True).encode() + b"\n"


def _read(path: str) -> dict[str, Any] | None:
    try:
        with open(path, "rb") as file:
            return from_json(file.read())
    except FileNotFoundError:
        return None


def from_json(data: bytes | None) -> dict[str, Any] | None:
    """None: it is not there, or not ours (Hadoop's _SUCCESS is empty)."""
    try:
        told = json.loads(data or b"")
    except ValueError:
        return None
    return told if isinstance(told, dict) else None


# ---- clean up -----------------------------------------------------------------------------------------------


def _jobs(path: str) -> Iterator[str]:
    with suppress(FileNotFoundError):
        yield from sorted(entry.name for entry in os.scandir(os.path.join(path, TEMPORARY)) if entry.is_dir())


def _clean_up(path: str, job: str) -> None:
    """The journal first: without it nothing is left to undo. Then the name: a task that nobody waits for is cut off."""
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


def _drop_other_batches(job: Job) -> None:
    """A query runs once at a time: what is staged of its other batches is of dead ones."""
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
