"""`df.writeStream.format("kafkarec")`: each micro-batch is a separate job, published once

The job's id consists of query and batch, which Spark passes to every task: a batch that runs again after a restart
finds that it is already published (_streams.json below the path), and changes nothing. Spark unpickles a new writer for
each commit, so the tasks' messages contain everything that a commit needs.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pyspark import TaskContext

from spark_udfs.capabilities import DataSourceStreamArrowWriter
from spark_udfs.worker_errors import cause_first

from . import destination, options
from .rows_by_partition import WritePlan
from .staging import WriteJob
from .worker_path import PicklesWithPackage
from .writing import StagedMessage, log_commit, planned, staged_of, write

_QUERY, _BATCH = "sql.streaming.queryId", "streaming.sql.batchId"
# Spark's own options of a stream, which it passes on.
_SPARK_OPTIONS = ("checkpointlocation", "queryname")


def writer(given: Mapping[str, str], schema: Any, overwrite: str | None) -> DataSourceStreamArrowWriter:
    """The writer of `df.writeStream`. overwrite: complete mode, in which each batch overwrites, see options.OVERWRITES;
    None: append."""
    chosen = options.parse_for_write({name: text for name, text in given.items() if name.lower() not in _SPARK_OPTIONS})
    path, plan = planned(chosen, schema)
    overwrite = overwrite and (chosen.partitionOverwriteMode or overwrite)
    return StreamWriter(path, plan, overwrite, chosen.storageOptions)


class StreamWriter(PicklesWithPackage, DataSourceStreamArrowWriter):
    """Pickled to each task for `write`, and unpickled again for each commit or abort."""

    def __init__(self, path: str, plan: WritePlan, overwrite: str | None, storage: Mapping[str, Any]) -> None:
        self.path, self.plan, self.overwrite, self.storage = path, plan, overwrite, storage

    @cause_first
    def write(self, iterator: Iterator[Any]) -> StagedMessage:
        context = TaskContext.get()
        query = context.getLocalProperty(_QUERY) if context else None
        batch = context.getLocalProperty(_BATCH) if context else None
        if query is None or batch is None:
            raise RuntimeError(f"Spark has not set the properties {_QUERY} and {_BATCH} of its task")
        name = f"{query}-{batch}"
        plan = self.plan
        job = WriteJob(self.path, name, self.overwrite, plan.settings, plan.topic, query, int(batch), self.storage)
        return write(job, plan, iterator)

    @cause_first
    def commit(self, messages: Sequence[Any], batchId: int) -> None:
        job = _job_of(messages)
        if job is not None:
            started = time.monotonic()
            rows = destination.publisher(job.path, job.storage).commit(job, staged_of(messages))
            log_commit(job, rows, started)

    @cause_first
    def abort(self, messages: Sequence[Any], batchId: int) -> None:
        """Ends the batch's job. If there is no message, the query's next commit or a sweep removes what is staged."""
        job = _job_of(messages)
        if job is not None:
            destination.publisher(job.path, job.storage).abort(job)


def _job_of(messages: Sequence[Any]) -> WriteJob | None:
    return next((message.job for message in messages if message is not None), None)
