"""`df.write` and `df.writeStream` with `format("kafkarec")`: rows to partition folders

    driver   writer(): checks options and columns, names the job
    tasks    stage_rows(): stages the rows by topic and partition; returns a StagedMessage
    driver   commit(): publishes what the messages list; abort(): removes what is staged; see publishing

The columns are those of Spark's Kafka sink, and offset: value; key, headers, timestamp, topic, partition, offset.

Of a stream each micro-batch is a job of its own, whose id consists of query and batch, which Spark passes to every
task: a batch that runs again after a restart finds that it is already published (_streams.json below the path), and
changes nothing. Spark unpickles a new writer for each commit, so the tasks' messages contain everything that a commit
needs.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from uuid import uuid4

import pyarrow as pa  # type: ignore[import-untyped]
from pyspark import TaskContext

from spark_udfs import function_options
from spark_udfs.bootstrap import kafkarec
from spark_udfs.capabilities import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from spark_udfs.errors import logger, report_cause_first
from spark_udfs.schema import CORRUPT

from . import options, publishing
from .publishing import publisher
from .rows_by_partition import rows_by_partition
from .staging import StagedPartition, WriteJob, check_topic, task_and_attempt
from .worker_path import PicklesWithPackage

_BYTES = ("binary", "string")
_HEADERS = "array<struct<key:string,value:binary>>"
_COLUMNS = {
    "value": _BYTES,
    "key": _BYTES,
    "headers": (_HEADERS, _HEADERS.replace("binary", "string")),
    "timestamp": ("timestamp", "bigint"),
    "topic": ("string",),
    "partition": ("int", "bigint", "smallint", "tinyint"),
    "offset": ("bigint", "int"),
}
# Columns of spark.read that are ignored: they follow from the records.
_NOT_WRITTEN = ("timestampType", CORRUPT)
_QUERY, _BATCH = "sql.streaming.queryId", "streaming.sql.batchId"
JOINED_BYTES = 16 << 20
# Spark's own options of a stream, which it passes on.
_SPARK_OPTIONS = ("checkpointlocation", "queryname")


class StagedMessage(WriterCommitMessage):
    """The message from a task to the driver."""

    def __init__(self, job: WriteJob, staged: tuple[StagedPartition, ...]) -> None:
        self.job, self.staged = job, staged


def writer(given: options.Given, schema: Any, overwrite: str | None, *, is_stream: bool = False) -> Writer:
    """The writer of `df.write`, or of `df.writeStream`. overwrite: what the session's overwrites replace, one of
    options.OVERWRITES; None: append. In complete mode each batch of a stream overwrites. ValueError for options,
    columns and paths that cannot be written."""
    if is_stream:
        given = {name: text for name, text in given.items() if name.lower() not in _SPARK_OPTIONS}
    chosen = options.parse_for_write(given)
    path, existing = publishing.resolve_folder(chosen.path, chosen.storageOptions)
    names = check_columns({field.name: field.dataType.simpleString() for field in schema.fields})
    if chosen.topic is not None:
        check_topic(chosen.topic)
    elif "topic" not in names:
        raise ValueError("no topic: add the column topic, or set the option topic")
    # so that a wrong level is an error here and not in every task
    kafkarec.encode([(0, 0, None, b"", [])], compression=chosen.compression, level=chosen.level)
    overwrite = overwrite and (chosen.partitionOverwriteMode or overwrite)
    job_id = "" if is_stream else str(uuid4())
    job = WriteJob(path, job_id, overwrite, chosen, columns=names, existing=existing)
    if not is_stream:
        publisher(job).begin(job)
    return Writer(job)


class Writer(PicklesWithPackage, DataSourceStreamArrowWriter, DataSourceArrowWriter):
    """Made on the driver; pickled to each task for `write`, and to a process of the driver for each commit or abort.

    job: of a stream without id, query and batch, which only its tasks know
    """

    def __init__(self, job: WriteJob) -> None:
        self.job = job

    @report_cause_first
    def write(self, iterator: Iterator[Any]) -> StagedMessage:
        if self.job.job_id:
            return stage_rows(self.job, iterator)
        context = TaskContext.get()
        query, batch = (context.getLocalProperty(name) if context else None for name in (_QUERY, _BATCH))
        if query is None or batch is None:
            raise RuntimeError(f"Spark has not set the properties {_QUERY} and {_BATCH} of its task")
        return stage_rows(self.job._replace(job_id=f"{query}-{batch}", query=query, batch=int(batch)), iterator)

    @report_cause_first
    def commit(self, messages: Sequence[Any], batchId: int | None = None) -> None:
        started, job = time.monotonic(), self._written_job(messages)
        if job is None:
            return
        staged = [one for message in messages if message is not None for one in message.staged]
        rows = publisher(job).commit(job, staged)
        records, seconds = sum(row["records"] for row in rows), time.monotonic() - started
        text = "kafkarec published partitions=%d records=%d seconds=%.3f path=%s"
        logger.info(text, len(rows), records, seconds, job.path)

    @report_cause_first
    def abort(self, messages: Sequence[Any], batchId: int | None = None) -> None:
        job = self._written_job(messages)
        if job is not None:
            publisher(job).abort(job)

    def _written_job(self, messages: Sequence[Any]) -> WriteJob | None:
        """The job that the messages are of. None: a stream's batch without any; its next commit or a sweep removes what
        is staged."""
        jobs = [self.job] if self.job.job_id else [message.job for message in messages if message is not None]
        return next(iter(jobs), None)


def check_columns(types: Mapping[str, str]) -> tuple[str, ...]:
    """The names of the columns that are written. ValueError names a wrong column and its allowed types."""
    if "value" not in types:
        raise ValueError(f"no column 'value'; there are: {', '.join(types)}")
    for name, kind in types.items():
        if name in _NOT_WRITTEN or name.startswith("_"):
            continue
        if name not in _COLUMNS:
            hint = function_options.did_you_mean(name, _COLUMNS)
            raise ValueError(f"kafkarec cannot write the column {name!r}, rename or drop it; {hint}")
        if kind not in _COLUMNS[name]:
            raise ValueError(f"column {name!r} is {kind}; it must be {' or '.join(_COLUMNS[name])}")
    return tuple(name for name in types if name in _COLUMNS or name == CORRUPT)


# ---- in a task ----------------------------------------------------------------------------------------------


def stage_rows(job: WriteJob, batches: Iterator[Any]) -> StagedMessage:
    """Stages a task's rows; removes what is staged if the task fails."""
    task, attempt = task_and_attempt()
    started = time.monotonic()
    with publisher(job).staging_writer(job, task, attempt) as staging:
        for part in rows_by_partition(job, task, _joined(batches)):
            staging.put(*part)
        staged = staging.close()
    records, size = sum(one.records for one in staged), sum(one.size for one in staged)
    seconds = time.monotonic() - started
    text = "kafkarec staged partitions=%d bytes=%d records=%d seconds=%.3f path=%s"
    logger.info(text, len(staged), size, records, seconds, f"{job.folder}/{staging.name}")
    return StagedMessage(job._replace(existing={}), staged)


def _joined(batches: Iterator[Any]) -> Iterator[Any]:
    """The rows in batches of at least JOINED_BYTES, so that what is written of a partition at once fills Kafka's
    batches."""
    while True:
        held, size = list[Any](), 0
        for batch in batches:
            held.append(batch)
            size += batch.nbytes
            if size >= JOINED_BYTES:
                break
        if not held:
            return
        joined = pa.Table.from_batches(held).combine_chunks()
        held.clear()  # they need memory, too
        yield from joined.to_batches()
