"""`df.writeStream.format("kafkarec")`: each micro-batch as a job of its own, published once

The job is named by query and batch, which every task knows from Spark: a batch that is run again after a restart finds
that it is published already (_streams.json below the path), and changes nothing. Spark makes a writer of its own for
each commit, so what a commit has to know comes with the messages.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceStreamArrowWriter

from spark_udfs import bootstrap

from . import destination, options
from .publishing import WriteJob
from .rows_by_partition import WritePlan
from .worker_path import PicklesWithPackage
from .writing import StagedMessage, log_commit, planned, staged_of, write

_QUERY, _BATCH = "sql.streaming.queryId", "streaming.sql.batchId"
# What Spark's own options of a stream are; they arrive here too.
_SPARKS = ("checkpointlocation", "queryname")


def writer(given: Mapping[str, str], schema: Any, overwrite: bool) -> DataSourceStreamArrowWriter:
    """For spark.writeStream. overwrite: complete mode, which replaces the partitions with each batch."""
    chosen = options.parse({name: text for name, text in given.items() if name.lower() not in _SPARKS}, "write")
    path, plan = planned(chosen, schema)
    return StreamWriter(path, plan, overwrite, chosen["storageOptions"])


class StreamWriter(PicklesWithPackage, DataSourceStreamArrowWriter):
    """Run by each task of each batch."""

    def __init__(self, path: str, plan: WritePlan, overwrite: bool, storage: Mapping[str, Any]) -> None:
        self.path, self.plan, self.overwrite, self.storage = path, plan, overwrite, storage

    def write(self, iterator: Iterator[Any]) -> StagedMessage:
        context = TaskContext.get()
        query = context.getLocalProperty(_QUERY) if context else None
        batch = context.getLocalProperty(_BATCH) if context else None
        if query is None or batch is None:
            raise RuntimeError(f"Spark has not told its task {_QUERY} and {_BATCH}")
        name = f"{query}-{batch}"
        job = WriteJob(self.path, name, self.overwrite, self.plan.settings, query, int(batch), self.storage)
        return write(job, self.plan, iterator)

    def commit(self, messages: Sequence[Any], batchId: int) -> None:
        job = _job_of(messages)
        if job is not None:
            started = time.monotonic()
            bootstrap.load()
            rows = destination.publisher(job.path).commit(job, staged_of(messages))
            log_commit(job, rows, started)

    def abort(self, messages: Sequence[Any], batchId: int) -> None:
        """Where no task has told anything the query's next commit, or a sweep, removes what is staged."""
        job = _job_of(messages)
        if job is not None:
            destination.publisher(job.path).abort(job)


def _job_of(messages: Sequence[Any]) -> WriteJob | None:
    return next((message.job for message in messages if message is not None), None)
