"""Publishes what tasks have staged to the partition folders that readers see: all records of a job, or none

    1  prepare    what each partition will have, still below <job>
    2  journal    what replaces what; from now on the commit can be finished
    3  publish    each partition
    4  mark done  _SUCCESS, or the stream's entry in _streams.json
    5  clean up   the journal is deleted, then everything below <job>

Before step 2 nothing that a reader sees is changed. If the driver dies after it, the same commit continues where it
stopped, while `abort`, `sweep` and the next job's commit undo it, whatever step was reached: a job without step 4
leaves nothing. Every step may be repeated. How a partition is prepared, published and restored is up to the path:

folder_publishing   a folder that driver and executors share: renames
bucket_publishing   a URL: copies and deletions of whole objects
"""

from __future__ import annotations

import json
import logging
import os
import re
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Set
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from .staging import ADVICE, StagedPartition, StagingWriter, WriteJob

if TYPE_CHECKING:
    from .bucket_staging import BucketStagingWriter

SUCCESS = "_SUCCESS"
STREAMS = "_streams.json"
METADATA = "partition.metadata"
NO_RECORDS = {"records": 0, "first_offset": 0, "next_offset": 0}
FOLDER = re.compile(r"(?P<topic>[a-zA-Z0-9._-]{1,249})-(?P<partition>0|[1-9][0-9]{0,9})")
_log = logging.getLogger("spark_udfs")


class Publisher(ABC):
    """One path or URL that jobs write to. A journal is a dict with job, query, batch and partitions, a list of rows
    with name and summary; `undo` in it: it can only be undone."""

    path: str

    def commit(self, job: WriteJob, staged: Iterable[StagedPartition]) -> list[dict[str, Any]]:
        """Publishes what is staged, in order of the tasks. A repeated call continues an unfinished commit, or does
        nothing.

        Returns a row per partition: name, records, first_offset, next_offset. ValueError, before anything is changed,
        for offsets that do not follow the existing log, and for two tasks with given offsets of one partition.
        """
        with self.locked(job.job):
            if self._is_done(job.job, job.query, job.batch):
                self._clean_up(job.job)
                return []
            for other in self.jobs_with_journal():
                if other != job.job:
                    self._undo(other)  # this job holds the lock, so no other process is working on it
            journal = self.journal(job.job)
            if journal is not None and journal.get("undo"):
                self._restore(journal)
                journal = None
            if journal is None:
                journal = self._prepare(job, staged)
                self.write_journal(journal)
            if job.query is None:
                self.withdraw_success(job.job)  # while a job is being published its content is wrong
            self.publish(journal)
            self._mark_done(job, journal["partitions"])
            self._clean_up(job.job)
            if job.query is not None:
                self._drop_other_batches(job)
        return [{"name": row["name"], **row["summary"]} for row in journal["partitions"]]

    def abort(self, job: WriteJob) -> None:
        """Undoes an unfinished commit, and removes what is staged."""
        with self.locked(job.job):
            self._undo(job.job)

    def sweep(self, older_than_hours: float = 24.0) -> list[str]:
        """Removes what jobs of dead drivers have left below the path, and undoes their unfinished commits.

        A job with a file or object younger than `older_than_hours` may still be running and is left unchanged. Returns
        the ids of the jobs that were removed.
        """
        seconds = older_than_hours * 3600
        if not self.jobs_older_than(seconds):
            return []
        with self.locked(f"sweep-{os.getpid()}-{time.time_ns()}", seconds):
            jobs = self.jobs_older_than(seconds)
            for job in jobs:
                self._undo(job)
                self.remove_lock(job)
            return jobs

    # ---- what depends on the path

    @abstractmethod
    def begin(self, job: WriteJob) -> None:
        """Makes that without which tasks write nothing, so that a task that outlives an abort leaves nothing."""

    @abstractmethod
    def staging_writer(self, job: WriteJob, task: int, attempt: int) -> StagingWriter | BucketStagingWriter: ...

    @abstractmethod
    def locked(self, job: str, stale: float | None = None) -> AbstractContextManager[Any]:
        """Waits until no other job publishes here. stale: after so many seconds without renewal another job's lock is
        ignored, where the system does not release it."""

    @abstractmethod
    def remove_lock(self, job: str) -> None:
        """Removes the lock of a dead driver, where the system does not release it."""

    @abstractmethod
    def read(self, name: str) -> bytes | None:
        """The content of a small file directly below the path; None: it does not exist."""

    @abstractmethod
    def write(self, name: str, data: bytes) -> None:
        """Writes such a file; it is complete or does not exist."""

    @abstractmethod
    def staged_jobs(self) -> list[str]: ...

    @abstractmethod
    def jobs_older_than(self, seconds: float) -> list[str]:
        """The jobs of which nothing is younger."""

    @abstractmethod
    def jobs_with_journal(self) -> list[str]: ...

    @abstractmethod
    def journal(self, job: str) -> dict[str, Any] | None: ...

    @abstractmethod
    def write_journal(self, journal: dict[str, Any]) -> None: ...

    @abstractmethod
    def mark_undo(self, journal: dict[str, Any]) -> None:
        """Changes a stored journal to one that can only be undone."""

    @abstractmethod
    def delete_journal(self, job: str) -> None: ...

    @abstractmethod
    def partitions_of(self, topics: Set[str]) -> list[str]:
        """The names of the folders of these topics that have a log."""

    @abstractmethod
    def prepare(self, job: WriteJob, parts: dict[str, list[StagedPartition]], emptied: list[str]) -> dict[str, Any]:
        """The journal's `partitions`, and what else undoing needs. parts: by partition, in order of the tasks. emptied:
        existing partitions that will have an empty log."""

    @abstractmethod
    def withdraw_success(self, job: str) -> None:
        """Removes _SUCCESS; `restore` puts it back."""

    @abstractmethod
    def publish(self, journal: dict[str, Any]) -> None:
        """Publishes the partitions, continuing where an earlier attempt stopped."""

    @abstractmethod
    def restore(self, journal: dict[str, Any]) -> None:
        """Undoes `publish` and `withdraw_success`, as far as an earlier attempt has not."""

    @abstractmethod
    def discard(self, job: str) -> None:
        """Deletes everything below a job's staging folder."""

    # ---- what does not

    def _prepare(self, job: WriteJob, staged: Iterable[StagedPartition]) -> dict[str, Any]:
        parts: dict[str, list[StagedPartition]] = {}
        for one in sorted(staged, key=lambda one: (one.topic, one.partition, one.task)):
            parts.setdefault(one.name, []).append(one)
        for name, each in parts.items():
            if len(each) > 1 and any(part.given for part in each):
                raise ValueError(f"{len(each)} tasks have records with offsets for {name}: {ADVICE}")
        emptied = self._emptied(job, parts)
        return {"job": job.job, "query": job.query, "batch": job.batch, **self.prepare(job, parts, emptied)}

    def _emptied(self, job: WriteJob, parts: dict[str, list[StagedPartition]]) -> list[str]:
        """The existing partitions that an overwrite leaves without records."""
        if job.overwrite != "static":
            return []
        topics = {each[0].topic for each in parts.values()} | ({job.topic} if job.topic else set())
        if not topics and job.query is None:
            raise ValueError(
                f"overwrite of {self.path}: without rows and without the option topic no topic is known. "
                f'option("topic", NAME) empties that topic; partitionOverwriteMode=dynamic changes nothing'
            )
        return [name for name in self.partitions_of(topics) if name not in parts]

    def _undo(self, job: str) -> None:
        journal = self.journal(job)
        if journal is not None and journal.get("undo"):
            self._restore(journal)
        elif journal is not None and not self._is_done(journal["job"], journal["query"], journal["batch"]):
            self.mark_undo(journal)
            self._restore(journal)
        self._clean_up(job)

    def _restore(self, journal: dict[str, Any]) -> None:
        self.restore(journal)
        _log.warning("%s: the unfinished commit of job %s is undone", self.path, journal["job"])

    def _mark_done(self, job: WriteJob, partitions: list[dict[str, Any]]) -> None:
        if job.query is None:
            summaries = {row["name"]: row["summary"] for row in partitions}
            self.write(SUCCESS, as_json({"job": job.job, "partitions": summaries}))
            return
        known = from_json(self.read(STREAMS)) or {}
        known[job.query] = {"batch": job.batch, "job": job.job}
        self.write(STREAMS, as_json(known))

    def _is_done(self, job: str, query: str | None, batch: int) -> bool:
        if query is None:
            content = from_json(self.read(SUCCESS))
            return content is not None and content.get("job") == job
        known = (from_json(self.read(STREAMS)) or {}).get(query)
        return known is not None and known["batch"] >= batch

    def _clean_up(self, job: str) -> None:
        """Deletes the journal first: without it there is nothing to undo."""
        self.delete_journal(job)
        self.discard(job)

    def _drop_other_batches(self, job: WriteJob) -> None:
        """A query runs one batch at a time, so anything staged of its other batches is from failed attempts."""
        for other in self.staged_jobs():
            if other.startswith(f"{job.query}-") and other != job.job:
                self.discard(other)


def topic_of(name: str) -> str | None:
    """The topic of a partition's folder; None: the name is not one of a partition."""
    match = FOLDER.fullmatch(name)
    return match and match["topic"]


def as_json(content: dict[str, Any]) -> bytes:
    return json.dumps(content, sort_keys=True).encode() + b"\n"


def from_json(data: bytes | None) -> dict[str, Any] | None:
    """The object of a JSON file; None: the file does not exist or is not ours (Hadoop's _SUCCESS is empty)."""
    try:
        content = json.loads(data or b"")
    except ValueError:
        return None
    return content if isinstance(content, dict) else None
