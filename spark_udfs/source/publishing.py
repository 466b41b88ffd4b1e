"""Publishes what tasks have staged to the partition folders, or the table, that readers see: all of a job, or nothing

    1  prepare    what each partition will have, below _temporary/<job>
    2  commit     the journal _temporary/<job>/commit.json is written: what replaces what
    3  publish    each partition, or each file of a table
    4  mark done  _SUCCESS, the stream's entry in _streams.json, or the table's _table.json
    5  clean up   the journal is deleted, then everything below _temporary/<job>

Before step 2 nothing that a reader sees is changed, and a job that fails leaves nothing. After it the job is never
undone: steps 3 to 5, each of which may be repeated, are finished by its own commit or abort, by the next job that
writes there, or by `sweep`. How a partition is prepared and published is up to the store:

folders   a folder that driver and executors share: renames
buckets   a URL: copies and deletions of whole objects
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress

from spark_udfs.bootstrap import distributed
from spark_udfs.errors import Conflict, logger
from spark_udfs.schema import NamedValues

from .buckets import SCHEMES, Bucket
from .folders import SharedFolder
from .options import StorageOptions
from .paths import FOLDERS, absolute_path, hadoop_scheme
from .staging import (
    ADVICE,
    BEGUN,
    LOCKS,
    METADATA,
    NO_STORAGE,
    TEMPORARY,
    ListedFile,
    StagedPartition,
    StagingWriter,
    WriteJob,
    attempt_name,
    staging_folder,
)

SUCCESS = "_SUCCESS"
STREAMS = "_streams.json"
TABLE = "_table.json"
FILE_OF_A_TABLE = ".parquet"


class UnfinishedCommit(RuntimeError):
    """A job is committed, and not all of its partitions are published yet."""


class Publisher:
    """One path or URL that jobs write to."""

    def __init__(self, path: str, storage: StorageOptions = NO_STORAGE) -> None:
        self.store: SharedFolder | Bucket = Bucket(path, storage) if "://" in path else SharedFolder(path)

    def begin(self, job: WriteJob) -> None:
        """Makes that without which tasks write nothing, so that a task that outlives an abort leaves nothing."""
        self.store.put(f"{staging_folder(job.job_id)}/{BEGUN}", b"")

    @contextmanager
    def staging_writer(self, job: WriteJob, task: int, attempt: int) -> Iterator[StagingWriter]:
        """What an attempt of a task writes with. What is written when it is closed is staged at the end; nothing after
        an error."""
        name = attempt_name(task, attempt)
        with self.store.attempt_folder(job, name) as folder:
            writer = StagingWriter(job, task, name, folder)
            try:
                yield writer
            finally:
                writer.close_after_error()

    def commit(self, job: WriteJob, staged: Iterable[StagedPartition]) -> list[NamedValues]:
        """Publishes what is staged, in order of the tasks. A repeated call finishes an unfinished commit, or does
        nothing.

        Returns a row per partition: name, records, first_offset, next_offset. ValueError, before anything is changed,
        for offsets that do not follow the existing log, and for two tasks with given offsets of one partition.
        UnfinishedCommit, if what follows the journal fails.
        """
        journal = self._commit_once(job, lambda: self._new_journal(job, staged))
        return [{"name": row["name"], **row["summary"]} for row in journal["partitions"]] if journal else []

    def commit_table(
        self, job: WriteJob, follows: str | None, files: Sequence[tuple[str, str]], table_content: NamedValues
    ) -> None:
        """As `commit`, for files of a table; job.overwrite: instead of those that it has. Conflict, before anything is
        changed, if another job has changed the table.

        follows: the job of the commit after which this one planned; None: there was no table
        files: (staged name, relative to the job's folder; its name in the table)
        table_content: the content of _table.json, without the job
        """

        def _new_journal() -> NamedValues:
            last = self._read_json(TABLE)
            if last.get("job") != follows:
                other = (
                    f"job {last['job']} has changed the table" if "job" in last else f"{TABLE} is not there any more"
                )
                raise Conflict(
                    f"{self.store.path}: {other} since this job planned what to write; nothing of this job is there. "
                    f"Run it again: it will write what the table then lacks"
                )
            folder = staging_folder(job.job_id)
            staged = {one.name for one in self.store.list_files(folder)}
            for name, _ in files:
                if name not in staged:
                    raise self._not_staged_error(job, name)
            moved = [(f"{folder}/{name}", target) for name, target in files]
            gone = [one.name for one in self.store.list_files()] if job.overwrite else []
            # what readers take for files with rows
            gone = [name for name in gone if name.endswith(FILE_OF_A_TABLE) and not re.search("(^|/)[_.]", name)]
            table = {"job": job.job_id, **table_content}
            return {"files": moved, "gone": gone, "table": table}

        self._commit_once(job, _new_journal)

    def finish_and_read_table(self) -> NamedValues:
        """The content of the table's last commit, which is finished first if it is not; empty: there is no table."""
        if any(map(self._read_journal, self.store.list_folders(TEMPORARY))):
            own = f"table-{os.getpid()}-{time.time_ns()}"
            with self.store.locked(own):
                self._finish_others(own, "nothing was read yet; an earlier job,")
        return self._read_json(TABLE)

    def _commit_once(self, job: WriteJob, prepare: Callable[[], NamedValues]) -> NamedValues | None:
        """The journal of the job, which is finished; None: it was done before."""
        identity = {"job": job.job_id, "query": job.query, "batch": job.batch}
        with self.store.locked(job.job_id):
            if self._is_done(identity):
                self._clean_up(job.job_id)
                return None
            self._finish_others(job.job_id, "nothing of this job is written; an earlier job,")
            journal = self._read_journal(job.job_id)
            if not journal:
                journal = identity | prepare()
                self.store.heartbeat()
                try:
                    self._put_json(_journal_name(job.job_id), journal)
                except Exception as error:
                    if self._read_journal(job.job_id):
                        raise self._unfinished_error(job.job_id, error) from error
                    raise
            self._finish(journal)
            if job.query is not None:  # it runs one batch at a time: what others have staged is of failed attempts
                for other in self.store.list_folders(TEMPORARY):
                    if other.startswith(f"{job.query}-") and other != job.job_id:
                        self._discard(other)
        return journal

    def _finish_others(self, job: str, which: str) -> None:
        for other in self.store.list_folders(TEMPORARY):
            if other != job and self._read_journal(other):
                self._finish_or_discard(other, which)

    def abort(self, job: WriteJob) -> None:
        """Removes what is staged; finishes a commit whose journal is written."""
        if job.query is None and not self._read_journal(job.job_id):
            self._discard(job.job_id)
            return
        with self.store.locked(job.job_id):  # a process of a dead driver may still be at work on this batch
            self._finish_or_discard(job.job_id)

    def sweep(self, older_than_hours: float = 24.0) -> list[str]:
        """Removes what jobs of dead drivers have left below the path, and finishes their commits.

        A job with a file or object younger than `older_than_hours` may still be running and is left unchanged. Returns
        the ids of the jobs that were removed or finished.
        """
        seconds = older_than_hours * 3600
        if not self._jobs_older_than(seconds):
            return []
        own = f"sweep-{os.getpid()}-{time.time_ns()}"
        with self.store.locked(own, seconds):
            jobs = [job for job in self._jobs_older_than(seconds) if job != own]
            for job in jobs:
                self._finish_or_discard(job)
                self.store.delete(f"{LOCKS}/{job}.lock")
            return jobs

    def _jobs_older_than(self, seconds: float) -> list[str]:
        """The jobs of which nothing is younger."""
        newest: dict[str, float] = {}
        locks = os.path.basename(LOCKS)
        for one in self.store.list_entries(TEMPORARY, below=True):
            job = one.name.removeprefix(f"{locks}/").removesuffix(".lock").partition("/")[0]
            if one.modified and job != locks:  # folders in buckets have no time
                newest[job] = max(newest.get(job, 0.0), one.modified)
        return sorted(job for job, at in newest.items() if time.time() - at >= seconds)

    # ---- before the journal is written

    def _new_journal(self, job: WriteJob, staged: Iterable[StagedPartition]) -> NamedValues:
        """The journal: job, query, batch and partitions, a list of rows with name, summary and the store's own. That of
        a table: `files` and `gone` in place of rows, and `table`, its content."""
        parts: dict[str, list[StagedPartition]] = {}
        for one in sorted(staged, key=lambda one: (one.topic, one.partition, one.task)):
            parts.setdefault(one.name, []).append(one)
        for name, each in parts.items():
            if len(each) > 1 and any(part.offsets_given for part in each):
                raise ValueError(f"{len(each)} tasks have records with offsets for {name}: {ADVICE}")
        topics = {each[0].topic for each in parts.values()} | ({job.options.topic} if job.options.topic else set())
        if job.overwrite == "static" and not topics and job.query is None:
            raise ValueError(
                f"overwrite of {self.store.path}: without rows and without the option topic no topic is known. "
                f'option("topic", NAME) empties that topic; partitionOverwriteMode=dynamic changes nothing'
            )
        ids: dict[str, bytes] = {}  # all partitions of a topic share one topic id
        for name in self.store.list_folders():
            topic, _ = partition_of(name) or ("", -1)
            if topic not in topics:
                continue
            if topic not in ids and (found := self.store.read(f"{name}/{METADATA}")):
                ids[topic] = found
            if job.overwrite != "static" or name in parts:
                continue
            if any(one.name.endswith(".log") for one in self.store.list_files(name, below=False)):
                parts[name] = []  # it will have an empty log
        files: dict[str, list[ListedFile]] = {}
        for file in self.store.list_files(staging_folder(job.job_id)):
            folder, _, name = file.name.rpartition("/")
            files.setdefault(folder, []).append(file._replace(name=name))
        for part in (part for each in parts.values() for part in each):
            part.files = files.get(part.folder, [])
            if sum(file.size for file in part.files if file.name.endswith(".log")) != part.size:
                raise self._not_staged_error(job, part.folder)
        rows = self.store.prepare_partitions(job, parts, {name: ids.get(name.rpartition("-")[0]) for name in parts})
        for row in rows:
            self.store.check_unchanged(row)
        return {"partitions": rows}

    def _not_staged_error(self, job: WriteJob, name: str) -> FileNotFoundError:
        path = self.store.path
        return FileNotFoundError(
            f"{path}/{staging_folder(job.job_id)}/{name} is not as its task has written it: {path} must be a folder "
            f"that the driver and all executors share"
        )

    # ---- from then on

    def _read_journal(self, job: str) -> NamedValues:
        return self._read_json(_journal_name(job))

    def _read_json(self, name: str) -> NamedValues:
        """The object of a JSON file; empty: the file does not exist or is not ours (Hadoop's _SUCCESS is empty)."""
        content = None
        with suppress(ValueError):
            content = json.loads(self.store.read(name) or b"")
        return content if isinstance(content, dict) else {}

    def _put_json(self, name: str, content: NamedValues) -> None:
        self.store.put(name, json.dumps(content, sort_keys=True).encode() + b"\n")

    def _finish_or_discard(self, job: str, which: str = "job") -> None:
        """Finishes the commit of another job, or removes what it has staged: this one holds the lock, so nobody else is
        at work on it."""
        journal = self._read_journal(job)
        if not journal:
            self._discard(job)
            return
        self._finish(journal, which)
        logger.warning("%s: the commit of job %s, which its driver had not finished, is finished", self.store.path, job)

    def _finish(self, journal: NamedValues, which: str = "job") -> None:
        """Steps 3 to 5, as far as an earlier attempt has not done them."""
        job, query = journal["job"], journal["query"]
        try:
            if not self._is_done(journal):
                if "table" in journal:
                    self.store.replace_files(journal["gone"], journal["files"])
                    self._put_json(TABLE, journal["table"])
                elif query is None:
                    self.store.delete(SUCCESS)  # while a job is being published its content is wrong
                    self.store.publish(job, journal["partitions"])
                    summaries = {row["name"]: row["summary"] for row in journal["partitions"]}
                    self._put_json(SUCCESS, {"job": job, "partitions": summaries})
                else:
                    self.store.publish(job, journal["partitions"])
                    self._put_json(
                        STREAMS, {**self._read_json(STREAMS), query: {"batch": journal["batch"], "job": job}}
                    )
            self._clean_up(job)
        except Exception as error:
            raise self._unfinished_error(job, error, which) from error

    def _unfinished_error(self, job: str, error: Exception, which: str = "job") -> UnfinishedCommit:
        path = self.store.path
        return UnfinishedCommit(
            f"{path}: {which} {job} is committed, being finished: do not run it again. The next job that "
            f"writes there finishes it, or spark_udfs.sweep({path!r}, 0), once this is no more: {error}"
        )

    def _is_done(self, journal: NamedValues) -> bool:
        if journal["query"] is None:
            return any(self._read_json(mark).get("job") == journal["job"] for mark in (SUCCESS, TABLE))
        known = self._read_json(STREAMS).get(journal["query"])
        return known is not None and known["batch"] >= journal["batch"]

    def _clean_up(self, job: str) -> None:
        """Deletes the journal first: if that fails, the job must not count as finished, as a later job marks itself
        done in its place."""
        self.store.delete(_journal_name(job))
        self._discard(job)

    def _discard(self, job: str) -> None:
        """Deletes everything below a job's staging folder."""
        folder = staging_folder(job)
        try:
            self.store.drop(folder)
        except OSError as error:
            logger.warning("%s/%s could not be removed (%s): sweep removes it", self.store.path, folder, error)


def partition_of(name: str) -> tuple[str, int] | None:
    """Topic and partition of a folder; None: the name is not one of a partition that jobs write."""
    topic, partition = distributed.folder_owner([name])
    return (topic, partition) if topic and partition is not None and name == f"{topic}-{partition}" else None


def _journal_name(job: str) -> str:
    return f"{staging_folder(job)}/commit.json"


# ---- the path that a job writes to -----------------------------------------------------------------------


# What Spark, Delta, Hudi, Iceberg and write_table write to a table's folder.
_OF_TABLES = re.compile(rf"part-[0-9]{{5}}.*|_delta_log|_spark_metadata|\.hoodie|{TABLE}|.*\.(parquet|orc|avro)")


def publisher(job: WriteJob) -> Publisher:
    return Publisher(job.path, job.options.storageOptions)


def resolve_folder(path: str | None, storage: StorageOptions) -> tuple[str, dict[str, int]]:
    """The absolute path or URL, and topic -> number of partitions below it. ValueError for a path that must not be
    written to."""
    if not path:
        raise ValueError('kafkarec needs a path, and has no tables: .mode("append").save("/backup/kafka")')
    path, names = _path_and_names(path, storage)
    if "meta.properties" in names:
        raise ValueError(
            f"{path} is a broker's data folder: write to another one, and move the partitions' folders while the "
            f"broker is stopped"
        )
    tables = sorted(name for name in names if _OF_TABLES.fullmatch(name))
    if tables:
        raise ValueError(
            f"{path} holds another table ({tables[0]}), which partition folders would spoil: name a folder of their own"
        )
    if any(map(distributed.is_segment, names)):
        raise ValueError(f"{path} is one partition's folder: name the folder above it")
    partition_counts: dict[str, int] = {}
    for topic, partition in filter(None, map(partition_of, names)):
        partition_counts[topic] = max(partition_counts.get(topic, 0), partition + 1)
    return path, partition_counts


def resolve_table(path: str, storage: StorageOptions) -> str:
    """The absolute path or URL of a table; ValueError for one that holds anything else."""
    path, names = _path_and_names(path, storage)
    others = sorted(name for name in names if not name.startswith((TEMPORARY, ".")))
    if others and TABLE not in names and not Publisher(path, storage).finish_and_read_table():
        raise ValueError(f"{path} holds {others[0]}, and no table that write_table has made: name a new folder")
    return path


def _path_and_names(path: str, storage: StorageOptions) -> tuple[str, list[str]]:
    """The absolute path or URL, and the names in it. ValueError for a path that is relative to the working folder that
    Spark makes for a session of Spark Connect, or in it: Spark removes it, and those around it."""
    given, path = path, absolute_path(path)
    session = os.environ.get("SPARK_JOB_ARTIFACT_UUID", "default")  # "default": there is no such folder
    scheme, is_url, _ = path.partition("://")
    if hadoop_scheme(path) is not None or (is_url and scheme not in SCHEMES):
        raise ValueError(f"kafkarec cannot write to {scheme + is_url if is_url else path}. {FOLDERS}")
    if session != "default" and not is_url:
        working = os.getcwd()
        is_relative = "://" not in given and not given.startswith((os.sep, "file:/"))
        is_below = f"{path}{os.sep}".startswith(f"{working}{os.sep}")
        if os.path.basename(working) == session and (is_relative or is_below):
            raise ValueError(f"{given} is in a temporary folder of this session on the cluster; name an absolute path")
    store = Publisher(path, storage).store
    store.check_access()
    return store.path, [one.name for one in store.list_entries("", below=False)]
