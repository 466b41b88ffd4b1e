"""Stages a task's records in partition folders that no reader sees

    <path>/_temporary/<job>/00003.0-5f3a91c2/orders-0/00000000000000000000.log ...

An attempt's folder is named by task, attempt and random digits, so that no two attempts share one, not even of a driver
that was started again while old tasks still run. kafkarec.SegmentWriter writes the segments and closes them when the
task ends. Publishing them is the driver's work: see publishing.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
from collections import OrderedDict
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import NAMESPACE_URL, UUID, uuid5

if TYPE_CHECKING:
    import kafkarec

TEMPORARY = "_temporary"
ADVICE = "spark_udfs.write_log(df, path) brings each partition's records into one task, in order"
# Records of a partition are buffered up to so many bytes, so that batches are full.
ENOUGH = 1 << 20
MOST_WAITING = 64 << 20
MOST_OPEN = 128
_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")
INT_MAX = (1 << 31) - 1


class StagedPartition(NamedTuple):
    """One partition's records of one task. folder: relative to the job's. given: the rows have offsets of their own.
    largest: upper bound of a batch's size in bytes."""

    topic: str
    partition: int
    task: int
    folder: str
    records: int
    size: int
    largest: int
    first_offset: int
    next_offset: int
    given: bool

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.partition}"


class WriteSettings(NamedTuple):
    """How batches and segments are written; level None: Kafka's default of the codec."""

    compression: str = "none"
    level: int | None = None
    batch_size: int = 16384
    segment_bytes: int = 1 << 30


def job_folder(path: str, job: str) -> str:
    return os.path.join(path, TEMPORARY, job)


def attempt_name(task: int, attempt: int) -> str:
    return f"{task:05d}.{attempt}-{secrets.token_hex(4)}"


def topic_id(path: str, topic: str) -> UUID:
    """The id of a topic that is new below an absolute path or URL. It is derived from both, so all tasks get the
    same."""
    return uuid5(NAMESPACE_URL, f"kafkarec:{path}/{topic}")


def check_topic(topic: str | None) -> str:
    """Kafka's rule for names (org.apache.kafka.common.internals.Topic); so no name leads out of the folder."""
    if topic is None:
        raise ValueError("a record's topic is null: give the column topic a value, or the option topic")
    if topic in (".", "..") or not _TOPIC.fullmatch(topic):
        raise ValueError(f"topic {topic!r}: 1 to 249 of a-z, A-Z, 0-9, '.', '_' and '-'")
    return topic


class _OpenPartition:
    """One partition of the task. rows: buffered tables, of `waiting` bytes."""

    def __init__(self, given: bool) -> None:
        self.given, self.rows, self.waiting = given, list[Any](), 0
        self.records, self.first = 0, -1
        self.end, self.size, self.largest = 0, 0, 0


class StagingWriter:
    """Writes the rows of a task, a table of one partition at a time, in their order. Not thread-safe.

    begun: the driver has made the job's folder; where that is gone, nothing is written
    home: the path or URL that the job writes to, if that is not `path`
    """

    def __init__(
        self,
        path: str,
        job: str,
        task: int,
        attempt: int,
        settings: WriteSettings,
        begun: bool = False,
        home: str | None = None,
    ) -> None:
        self._begun, self._home = begun, home or os.path.abspath(path)
        self._path, self._settings, self._task = path, settings, task
        self._name = attempt_name(task, attempt)
        self.folder = os.path.join(job_folder(path, job), self._name)
        self._partitions: dict[tuple[str, int], _OpenPartition] = {}
        self._writers: OrderedDict[tuple[str, int], kafkarec.SegmentWriter] = OrderedDict()
        self._waiting = 0

    def put(self, topic: str, partition: int, table: Any, given: bool) -> None:
        """A pyarrow.Table of the columns key, value, timestamp, headers and, where they are given, offset."""
        key = topic, partition
        found = self._partitions.get(key)
        if found is None:
            check_topic(topic)
            if not 0 <= partition <= INT_MAX:
                raise ValueError(f"partition {partition} of topic {topic}: 0 or more")
            found = self._partitions[key] = _OpenPartition(given)
        if found.given != given:
            raise ValueError(f"{topic}-{partition}: either all records have an offset or none has")
        found.rows.append(table)
        found.waiting += table.nbytes
        self._waiting += table.nbytes
        if found.waiting >= max(ENOUGH, 4 * self._settings.batch_size):
            self._flush(key)
        elif self._waiting >= MOST_WAITING:
            self._flush_all()

    def close(self) -> tuple[StagedPartition, ...]:
        """Flushes and closes all logs; returns what was staged."""
        self._flush_all()
        while self._writers:
            self._close(next(iter(self._writers)))
        return tuple(
            StagedPartition(
                topic,
                partition,
                self._task,
                f"{self._name}/{topic}-{partition}",
                one.records,
                one.size,
                one.largest,
                one.first,
                one.end,
                one.given,
            )
            for (topic, partition), one in sorted(self._partitions.items())
        )

    def drop(self) -> None:
        """Removes what the failed task has written, as far as that is possible."""
        for writer in self._writers.values():
            with suppress(Exception):
                writer.close()
        self._writers.clear()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _flush_all(self) -> None:
        for key, one in self._partitions.items():
            if one.rows:
                self._flush(key)

    def _flush(self, key: tuple[str, int]) -> None:
        import pyarrow as pa  # type: ignore[import-untyped]

        one, (topic, partition) = self._partitions[key], key
        table = pa.concat_tables(one.rows)
        self._waiting -= one.waiting
        one.rows, one.waiting = [], 0
        settings = self._settings
        options: dict[str, Any] = {"compression": settings.compression, "level": settings.level}
        options["batch_size"] = min(settings.batch_size, settings.segment_bytes)
        if one.given:
            options["base_offset"] = None
        try:
            offsets = self._writer(key).write(table, **options)
        except ValueError as error:
            why = f"; {ADVICE}" if one.given else ""
            raise ValueError(f"{topic}-{partition}: {error}{why}") from None
        one.first = offsets.start if one.first < 0 else one.first
        one.end = offsets.stop
        one.records += table.num_rows
        one.largest = max(one.largest, 2 * settings.batch_size + _largest(table))

    def _writer(self, key: tuple[str, int]) -> kafkarec.SegmentWriter:
        """The open writer of a partition. At most MOST_OPEN are open: the least recently used one is closed, and opened
        again when needed."""
        import kafkarec

        found = self._writers.get(key)
        if found is not None:
            self._writers.move_to_end(key)
            return found
        while len(self._writers) >= MOST_OPEN:
            self._close(next(iter(self._writers)))
        topic, partition = key
        folder = os.path.join(self.folder, f"{topic}-{partition}")
        self._make(folder)
        writer = kafkarec.SegmentWriter(
            folder, segment_bytes=self._settings.segment_bytes, topic_id=topic_id(self._home, topic), check_all=False
        )
        self._writers[key] = writer
        return writer

    def _make(self, folder: str) -> None:
        if not self._begun:
            make(folder)
            return
        try:
            for each in (self.folder, folder):
                with suppress(FileExistsError):
                    os.mkdir(each)
        except FileNotFoundError:
            job = os.path.dirname(self.folder)
            text = f"{job} is gone: the job has ended, or the driver and its executors do not share this folder"
            raise FileNotFoundError(text) from None

    def _close(self, key: tuple[str, int]) -> None:
        writer = self._writers.pop(key)
        writer.close()
        self._partitions[key].size = sum(segment.size for segment in writer.segments)


def _largest(table: Any) -> int:
    """An upper bound of the size of a table's records, in bytes."""
    import pyarrow.compute as pc  # type: ignore[import-untyped]

    longest = (pc.max(pc.binary_length(table.column(name))).as_py() or 0 for name in ("key", "value"))
    headers = table.column("headers").nbytes if "headers" in table.column_names else 0
    return 1024 + sum(longest) + 4 * headers


def make(folder: str) -> None:
    """Makes a folder and those above it, while other tasks do the same and a job that ends removes _temporary."""
    for _ in range(10):
        with suppress(FileNotFoundError):
            os.makedirs(folder, exist_ok=True)
            return
    os.makedirs(folder, exist_ok=True)
