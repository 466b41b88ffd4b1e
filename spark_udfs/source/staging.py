"""Stages a task's records in partition folders that no reader sees

    <path>/_temporary/<job>/00003.0-5f3a91c2/orders-0/00000000000000000000.log ...

An attempt's folder is named by task, attempt and random digits, so that no two attempts share one, even if the driver
was restarted while old tasks still run. kafkarec.SegmentWriter writes the segments and closes them when the
task ends. Publishing them is the driver's work: see publishing.
"""

from __future__ import annotations

import os
import re
import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple
from uuid import NAMESPACE_URL, uuid5

from pyspark import TaskContext

from spark_udfs.bootstrap import kafkarec
from spark_udfs.schema import NamedValues

from .options import StorageOptions, WriteOptions
from .paths import TopicPartition, open_segment

NO_STORAGE = StorageOptions()
TEMPORARY = "_temporary"
LOCKS = f"{TEMPORARY}/_commits"
# A file of a job whose driver has begun it, and has not ended it.
BEGUN = "_begun"
METADATA = "partition.metadata"
# The only segment of a log without records, as a broker makes it.
EMPTY_LOG = f"{0:020}.log"
ADVICE = "spark_udfs.write_log(df, path) moves each partition's records into one task, in order"
MAX_OPEN_WRITERS = 128
_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")
INT_MAX = (1 << 31) - 1


class ListedFile(NamedTuple):
    """One file, object or folder of a listing. name: relative to the listed folder. modified: seconds since 1970, by
    the clock of the system that stores it; 0: not known."""

    name: str
    size: int
    modified: float
    is_folder: bool


class Store(ABC):
    """What jobs write to, a folder or a part of a bucket; names are relative to its path."""

    @abstractmethod
    def list_entries(self, folder: str, below: bool) -> list[ListedFile]:
        """The files and folders in a folder, sorted by name; none if it does not exist. below: with those of the
        folders in it"""

    def list_files(self, folder: str = "", below: bool = True) -> list[ListedFile]:
        """The files of a folder, sorted by name; below: with those of the folders in it."""
        return [one for one in self.list_entries(folder, below) if not one.is_folder]

    def list_folders(self, folder: str = "") -> list[str]:
        """The names of the folders in a folder."""
        return [one.name for one in self.list_entries(folder, False) if one.is_folder]


@dataclass
class StagedPartition:
    """One partition's records of one task.

    folder: relative to the job's. offsets_given: the rows have offsets. size: of the segments. files: of the folder, as
    the driver finds them
    """

    topic: str
    partition: int
    task: int
    folder: str
    offsets_given: bool
    records: int = 0
    size: int = 0
    first_offset: int = -1
    next_offset: int = 0
    files: Sequence[ListedFile] = ()

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.partition}"


class WriteJob(NamedTuple):
    """One write to a path.

    query, batch: of a stream; job_id then consists of both, so that a batch that runs again is recognised.
    overwrite: one of options.OVERWRITES; None: append
    columns: of the rows. existing: topic -> number of its partitions below the path
    """

    path: str
    job_id: str
    overwrite: str | None
    options: WriteOptions
    query: str | None = None
    batch: int = -1
    columns: tuple[str, ...] = ()
    existing: Mapping[str, int] = {}

    @property
    def folder(self) -> str:
        return os.path.join(self.path, staging_folder(self.job_id))


def staging_folder(job: str) -> str:
    """The name of a job's folder, relative to the path or URL that it writes to."""
    return f"{TEMPORARY}/{job}"


def journal_row(
    name: str, parts: Sequence[StagedPartition], before: Any, made: Any, offsets: Sequence[int] = (0, 0)
) -> NamedValues:
    """A partition's row of a journal. before: what its folder has, by which a change is seen; made: what it will have;
    offsets: of the new records, the first one and the next one after them."""
    summary = {"records": sum(part.records for part in parts), "first_offset": offsets[0], "next_offset": offsets[1]}
    return {"name": name, "before": before, "made": made, "summary": summary}


def task_and_attempt() -> tuple[int, int]:
    """The numbers of the task that runs here, and of its attempt; 0 outside of Spark's tasks."""
    context = TaskContext.get()
    return (context.partitionId(), context.attemptNumber()) if context else (0, 0)


def attempt_name(task: int, attempt: int) -> str:
    return f"{task:05d}.{attempt}-{secrets.token_hex(4)}"


def make_attempt_folder(folder: str) -> None:
    """Makes a folder in the one of a job or of an attempt; FileNotFoundError if the job has ended."""
    try:
        with suppress(FileExistsError):
            os.mkdir(folder)
    except FileNotFoundError:
        job = os.path.dirname(folder)
        text = f"{job} is gone: the job has ended, or the driver and its executors do not share this folder"
        raise FileNotFoundError(text) from None


def check_topic(topic: str | None) -> None:
    """Kafka's rule for names (org.apache.kafka.common.internals.Topic); which also keeps paths inside the folder."""
    if topic is None:
        raise ValueError("a record's topic is null: give the column topic a value, or the option topic")
    if topic in (".", "..") or not _TOPIC.fullmatch(topic):
        raise ValueError(f"topic {topic!r}: 1 to 249 of a-z, A-Z, 0-9, '.', '_' and '-'")


class StagingWriter:
    """Writes the rows of a task, a table of one partition at a time, in their order. Not thread-safe.

    name: of the attempt; folder: of this machine, for its files
    """

    def __init__(self, job: WriteJob, task: int, name: str, folder: str) -> None:
        self._job, self._task, self._folder, self.name = job, task, folder, name
        self._partitions: dict[TopicPartition, StagedPartition] = {}
        self._writers: dict[TopicPartition, kafkarec.SegmentWriter] = {}

    def put(self, topic: str, partition: int, table: Any) -> None:
        """Writes a pyarrow.Table of the columns key, value, timestamp, headers and, where offsets are given, offset.
        The last batch may be short."""
        key, offsets_given = (topic, partition), "offset" in table.column_names
        one = self._partitions.get(key)
        if one is None:
            check_topic(topic)
            if not 0 <= partition <= INT_MAX:
                raise ValueError(f"partition {partition} of topic {topic}: must be 0 to {INT_MAX}")
            folder = f"{self.name}/{topic}-{partition}"
            one = self._partitions[key] = StagedPartition(topic, partition, self._task, folder, offsets_given)
        if one.offsets_given != offsets_given:
            raise ValueError(f"{one.name}: either all records must have an offset, or none")
        chosen = self._job.options
        options: NamedValues = {"compression": chosen.compression, "level": chosen.level}
        options["batch_size"] = min(chosen.batchSize, chosen.segmentBytes)
        if offsets_given:
            options["base_offset"] = None
        try:
            offsets = self._writer(key).write(table, **options)
        except ValueError as error:
            why = f"; {ADVICE}" if offsets_given else ""
            raise ValueError(f"{one.name}: {error}{why}") from None
        one.first_offset = offsets.start if one.first_offset < 0 else one.first_offset
        one.next_offset = offsets.stop
        one.records += table.num_rows

    def close(self) -> tuple[StagedPartition, ...]:
        """Closes all logs; returns what was staged so far."""
        for key, writer in self._writers.items():
            writer.close()
            self._partitions[key].size = sum(segment.size for segment in writer.segments)
        self._writers.clear()
        return tuple(self._partitions[key] for key in sorted(self._partitions))

    def close_after_error(self) -> None:
        """Closes the files that an error has left open."""
        for writer in self._writers.values():
            with suppress(Exception):
                writer.close()
        self._writers.clear()

    def _writer(self, key: TopicPartition) -> kafkarec.SegmentWriter:
        """The open writer of a partition. At most MAX_OPEN_WRITERS are open: before another one all are closed."""
        if key in self._writers:
            return self._writers[key]
        if len(self._writers) >= MAX_OPEN_WRITERS:
            self.close()
        topic, partition = key
        folder = os.path.join(self._folder, f"{topic}-{partition}")
        make_attempt_folder(folder)
        writer = kafkarec.SegmentWriter(
            folder,
            segment_bytes=self._job.options.segmentBytes,
            # all tasks use the same one for a new topic
            topic_id=uuid5(NAMESPACE_URL, f"kafkarec:{self._job.path}/{topic}"),
            check_all=False,
        )
        self._writers[key] = writer
        return writer


# ---- on the driver: staged segments that are appended to a log -------------------------------------------


_PIECE_BYTES = 8 << 20


def append_staged(folder: str, parts: Sequence[StagedPartition], segments: Iterable[str], **options: Any) -> range:
    """Appends to the log in a local folder; returns the range of the new offsets. Batches get their offsets and the
    log's leader epoch in header fields that the checksum does not cover.

    segments: their paths, in order; options: of kafkarec.SegmentWriter
    """
    first, offsets_given = parts[0], parts[0].offsets_given
    try:
        with kafkarec.SegmentWriter(folder, assign_offsets=not offsets_given, check_all=False, **options) as writer:
            end = writer.next_offset
            if not offsets_given or first.first_offset >= end:
                for path in segments:
                    with open_segment(path, NO_STORAGE) as segment:
                        for begin, stop in segment.splits(_PIECE_BYTES):
                            writer.append(segment.raw(begin, stop - begin))
                return range(first.first_offset if offsets_given else end, writer.next_offset)
    except ValueError as error:
        raise ValueError(f"{first.name}: {error}") from error
    raise not_following_error(first, end)


def not_following_error(part: StagedPartition, next_offset: int) -> ValueError:
    """The error for a task's records with offsets that the log has already. next_offset: of the log"""
    return ValueError(
        f"{part.name}: offsets {part.first_offset} to {part.next_offset - 1} do not follow: the next offset of the log "
        f'is {next_offset}; without the column offset, df.drop("offset"), records get the next ones'
    )


def leader_epoch(read: Callable[[str], bytes | None]) -> int:
    """The leader epoch of a log's last batches. read(name): the content of a file in its folder; None: there is
    none."""
    from kafkarec.sidecars import leader_epochs

    data = read(leader_epochs.NAME)
    entries = leader_epochs.read(data) if data else ()
    return entries[-1].epoch if entries else 0
