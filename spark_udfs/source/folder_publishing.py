"""Publishing to a folder that driver and executors share, with renames; the steps are in `publishing`

    1  prepare    <job>/new/orders-0      the future folder: links to the existing log, and the tasks' batches
    2  journal    <job>/commit.json       which folder replaces which; undo.json: it can only be undone
    3  publish    orders-0 and new/orders-0 swap their names, one partition after the other
    5  clean up   <job> is deleted, and the old folders with it

A partition's folder is always the complete old or the complete new one; its inode shows which of them.
"""

from __future__ import annotations

import errno
import logging
import os
import time
from collections.abc import Iterator, Set
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

from . import folders
from .publishing import METADATA, NO_RECORDS, SUCCESS, Publisher, as_json, from_json, topic_of
from .staging import EMPTY_LOG, TEMPORARY, StagedPartition, StagingWriter, WriteJob, job_folder, make_folder

_JOURNAL = "commit.json"
_UNDOING = "undo.json"
_NEW, _OLD, _UNDONE = "new", "old", "undone"
_DEAD = ".dead"
_log = logging.getLogger("spark_udfs")


class FolderPublisher(Publisher):
    def __init__(self, path: str) -> None:
        self.path = os.path.abspath(path)

    def begin(self, job: WriteJob) -> None:
        make_folder(job.folder)

    def staging_writer(self, job: WriteJob, task: int, attempt: int) -> StagingWriter:
        return StagingWriter(job.path, job.job, task, attempt, job.settings, begun=job.query is None)

    def abort(self, job: WriteJob) -> None:
        if os.path.isdir(self._in(TEMPORARY)):
            super().abort(job)

    @contextmanager
    def locked(self, job: str, stale: float | None = None) -> Iterator[None]:
        os.makedirs(self.path, exist_ok=True)
        with folders.locked(self.path):
            yield

    def remove_lock(self, job: str) -> None:
        """Does nothing: the system releases it when the driver dies."""

    def read(self, name: str) -> bytes | None:
        return folders.read_file(self.path, name)

    def write(self, name: str, data: bytes) -> None:
        folders.write_file(self._in(name), data)

    # ---- jobs and journals

    def staged_jobs(self) -> list[str]:
        with suppress(FileNotFoundError):
            return sorted(entry.name for entry in os.scandir(self._in(TEMPORARY)) if entry.is_dir())
        return []

    def jobs_older_than(self, seconds: float) -> list[str]:
        limit = time.time() - seconds
        return [job for job in self.staged_jobs() if _newest(job_folder(self.path, job)) <= limit]

    def jobs_with_journal(self) -> list[str]:
        return [
            job
            for job in self.staged_jobs()
            if any(os.path.exists(self._of(job, name)) for name in (_JOURNAL, _UNDOING))
        ]

    def journal(self, job: str) -> dict[str, Any] | None:
        folder = job_folder(self.path, job)
        undoing = from_json(folders.read_file(folder, _UNDOING))
        return from_json(folders.read_file(folder, _JOURNAL)) if undoing is None else {**undoing, "undo": True}

    def write_journal(self, journal: dict[str, Any]) -> None:
        folders.write_file(self._of(journal["job"], _JOURNAL), as_json(journal))

    def mark_undo(self, journal: dict[str, Any]) -> None:
        folder = job_folder(self.path, journal["job"])
        os.rename(os.path.join(folder, _JOURNAL), os.path.join(folder, _UNDOING))
        folders.sync(folder)

    def delete_journal(self, job: str) -> None:
        with suppress(FileNotFoundError):
            os.unlink(self._of(job, _JOURNAL))
            folders.sync(job_folder(self.path, job))

    def discard(self, job: str) -> None:
        """Renames the folder first, so that a task that is still running cannot write to it."""
        folder = job_folder(self.path, job)
        dead = folder + _DEAD
        try:
            folders.remove(dead)
            with suppress(FileNotFoundError):
                os.rename(folder, dead)
            folders.remove(dead)
            with suppress(OSError):
                os.rmdir(self._in(TEMPORARY))
        except OSError as error:
            _log.warning("%s could not be removed (%s): spark_udfs.sweep removes it", dead, error)

    # ---- prepare

    def partitions_of(self, topics: Set[str]) -> list[str]:
        with suppress(FileNotFoundError):
            names = sorted(entry.name for entry in os.scandir(self.path) if entry.is_dir())
            return [name for name in names if topic_of(name) in topics and folders.logs(self._in(name))]
        return []

    def prepare(self, job: WriteJob, parts: dict[str, list[StagedPartition]], emptied: list[str]) -> dict[str, Any]:
        new = self._of(job.job, _NEW)
        folders.remove(new)
        os.makedirs(new)
        for part in (part for each in parts.values() for part in each):
            folder = os.path.join(job.folder, part.folder)
            if not os.path.isdir(folder):
                raise FileNotFoundError(
                    f"{folder} does not exist: {job.path} must be a folder that the driver and all executors share"
                )
        rows = [_prepare_partition(job, name, each) for name, each in parts.items()]
        rows += [_prepare_empty(job, name) for name in emptied]
        folders.sync(new)
        return {"partitions": rows}

    # ---- publish

    def withdraw_success(self, job: str) -> None:
        with suppress(FileNotFoundError):
            _rename(self._in(SUCCESS), self._of(job, _OLD, SUCCESS))
            folders.sync(self.path)

    def publish(self, journal: dict[str, Any]) -> None:
        for row in journal["partitions"]:
            self._publish_partition(journal["job"], row)
        folders.sync(self.path)

    def _publish_partition(self, job: str, row: dict[str, Any]) -> None:
        """Renames the new folder to its final name, unless that is done; the old one stays in the job's folder."""
        target, new = self._in(row["name"]), self._of(job, _NEW, row["name"])
        if folders.inode(target) == row["inode"]:
            return
        if not row["replaces"] or not os.path.isdir(target):
            os.rename(new, target)
            return
        with folders.writer_locked(target):
            if folders.end_of(target) != row["before"]:
                raise BlockingIOError(errno.EWOULDBLOCK, "another writer has changed this folder meanwhile", target)
            if not folders.exchange(new, target):
                _rename(target, self._of(job, _OLD, row["name"]))
                os.rename(new, target)

    def restore(self, journal: dict[str, Any]) -> None:
        job = journal["job"]
        for row in reversed(journal["partitions"]):
            self._restore_partition(job, row)
        before = self._of(job, _OLD, SUCCESS)
        if os.path.exists(before):
            os.rename(before, self._in(SUCCESS))
        folders.sync(self.path)
        os.unlink(self._of(job, _UNDOING))
        for kind in (_NEW, _OLD, _UNDONE):
            folders.remove(self._of(job, kind))

    def _restore_partition(self, job: str, row: dict[str, Any]) -> None:
        """Renames the old folder back, or removes the new one, as far as an earlier attempt has not."""
        target = self._in(row["name"])
        new, old, undone = (self._of(job, kind, row["name"]) for kind in (_NEW, _OLD, _UNDONE))
        if folders.inode(target) == row["inode"]:
            if row["replaces"] and folders.exchange(new if os.path.isdir(new) else old, target):
                return
            _rename(target, undone)
        if row["replaces"] and not os.path.isdir(target):
            os.rename(old if os.path.isdir(old) else new, target)

    def _in(self, name: str) -> str:
        return os.path.join(self.path, name)

    def _of(self, job: str, *names: str) -> str:
        return os.path.join(job_folder(self.path, job), *names)


def _prepare_partition(job: WriteJob, name: str, parts: list[StagedPartition]) -> dict[str, Any]:
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
    _copy_topic_id(job, name, made)
    first, end = parts[0].first_offset, parts[0].next_offset
    if appended:
        added = _append(job, name, made, appended, limit)
        first, end = (added.start if appends else first), added.stop
    summary = {"records": sum(part.records for part in parts), "first_offset": first, "next_offset": end}
    return {"name": name, "replaces": replaces, "before": before, "inode": folders.inode(made), "summary": summary}


def _prepare_empty(job: WriteJob, name: str) -> dict[str, Any]:
    """The same for a partition that an overwrite leaves without records."""
    target, made = os.path.join(job.path, name), os.path.join(job.folder, _NEW, name)
    with folders.writer_locked(target):
        before = folders.end_of(target)
    os.makedirs(made)
    folders.write_file(os.path.join(made, EMPTY_LOG), b"")
    _copy_topic_id(job, name, made)
    return {"name": name, "replaces": True, "before": before, "inode": folders.inode(made), "summary": NO_RECORDS}


def _append(job: WriteJob, name: str, folder: str, parts: list[StagedPartition], limit: int | None) -> range:
    """Appends staged segments to a log; returns their range of offsets. Batches get their offsets and the log's leader
    epoch in header fields that the checksum does not cover."""
    import kafkarec

    segment_bytes = job.settings.segment_bytes if limit is None else min(limit, job.settings.segment_bytes)
    try:
        with kafkarec.SegmentWriter(
            folder,
            segment_bytes=segment_bytes,
            assign_offsets=not parts[0].given,
            leader_epoch=folders.leader_epoch(partial(folders.read_file, folder)),
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


def _copy_topic_id(job: WriteJob, partition: str, made: str) -> None:
    """Copies partition.metadata of an existing partition: all partitions of a topic share one topic id."""
    known = sorted(name for name in os.listdir(job.path) if topic_of(name) == topic_of(partition))
    for name in [partition, *known]:
        path = os.path.join(job.path, name, METADATA)
        with suppress(FileNotFoundError, NotADirectoryError), open(path, "rb") as file:
            folders.write_file(os.path.join(made, METADATA), file.read())
            return


def _rename(source: str, target: str) -> None:
    os.makedirs(os.path.dirname(target), exist_ok=True)
    os.rename(source, target)


def _newest(folder: str) -> float:
    """The time at which a folder or a file below it was last changed."""
    newest = 0.0
    for parent, _, names in os.walk(folder):
        for path in (parent, *(os.path.join(parent, name) for name in names)):
            with suppress(FileNotFoundError):
                newest = max(newest, os.lstat(path).st_mtime)
    return newest
