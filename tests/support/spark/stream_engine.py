"""A simulation of Spark's micro-batch engine with the stream reader: offsets as JSON in a log, and crashes.

    query = Query(folder, maxOffsetsPerTrigger="100")
    query.run()                  triggers until there is nothing new
    query.rows["orders", 0]      the sink's rows, in order

As MicroBatchExecution: the end of a batch is written down before it is planned; a batch is committed when its rows are
in the sink; after a crash the batch that was not committed is planned again from what was written down.
"""

from __future__ import annotations

import json
import pickle
import sys
from pathlib import Path
from typing import Any

from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes, ReadMaxRows

from spark_udfs import capabilities
from spark_udfs.source import KafkarecDataSource

Row = tuple[int, bytes | None]


class Query:
    """`log`: the end offsets of each batch as Spark writes them; `committed`: how many batches are committed."""

    def __init__(self, path: Path | str, **options: str):
        self.options = {name.lower(): value for name, value in options.items()} | {"path": str(path)}
        self.log = []
        self.committed = 0
        self.rows = {}
        self.damage = []
        self.sizes = []
        self.restart()

    def restart(self, available_now: bool = False):
        """Start a new process: the batch that was not committed is planned again."""
        self.reader = self._reader()
        self._initial = None
        if available_now:
            self.reader.prepareForTriggerAvailableNow()
        if self.committed < len(self.log):
            self._run_last()

    def _reader(self):
        source = KafkarecDataSource(dict(self.options))
        return source.streamReader(source.schema())

    def _start(self) -> dict[str, Any]:
        if self.committed:
            return json.loads(self.log[self.committed - 1])
        if self._initial is None:
            self._initial = json.loads(json.dumps(self.reader.initialOffset()))
        return self._initial

    def trigger(self, crash: bool = False, all_available: bool = False) -> bool:
        """Run one micro-batch, if there are new offsets. crash: the process ends after the offsets are written."""
        end = json.dumps(self._latest(self._start(), all_available))
        if self.committed and end == self.log[-1]:
            return False
        self.log.append(end)
        if crash:
            self.restart()
        else:
            self._run_last()
        return True

    def _latest(self, start: dict[str, Any], all_available: bool):
        if not capabilities.LIMITS.present:  # Spark 4.0 and 4.1
            return self.reader.latestOffset()
        limit = ReadAllAvailable() if all_available else self.reader.getDefaultReadLimit()
        assert isinstance(limit, ReadAllAvailable | ReadMaxRows | ReadMaxBytes)
        return self.reader.latestOffset(start, limit)

    def _run_last(self):
        tasks = self.reader.partitions(self._start(), json.loads(self.log[-1]))
        got = [row for task in tasks for row in self._task(task)]
        for row in got:
            if row.get("_corrupt_record") is not None:
                self.damage.append(row["_corrupt_record"])
            else:
                self.rows.setdefault((row["topic"], row["partition"]), []).append((row["offset"], row["value"]))
        self.sizes.append(len(got))
        self.committed = len(self.log)

    def _task(self, task) -> list[dict[str, Any]]:
        worker = pickle.loads(pickle.dumps(self._reader()))  # a copy, as on an executor
        return [row for batch in worker.read(pickle.loads(pickle.dumps(task))) for row in batch.to_pylist()]

    @property
    def offsets(self) -> list[int]:
        """Those of the rows of orders-0."""
        return [offset for offset, _ in self.rows.get(("orders", 0), [])]

    def texts(self) -> list[Any]:
        """Return the log's offsets, parsed."""
        return [json.loads(each) for each in self.log]

    def run(self, most: int = 1000) -> int:
        """Trigger until there is nothing new; return how many batches ran."""
        for done in range(most):
            if not self.trigger():
                return done
        raise AssertionError(f"still going on after {most} batches: {self.log[-3:]}")


def caught_up(path: Path | str, **options) -> Query:
    """A query that has read all."""
    query = Query(path, **options)
    query.run()
    return query


def strict_and_lenient(path: Path | str) -> tuple[Query, Query]:
    """Two queries that have read all: the one fails at a loss of data, the other one goes on."""
    return caught_up(path, failOnDataLoss="true"), caught_up(path, failOnDataLoss="false")


class Reads:
    """What this process has read while the `with` statement ran: the paths that it opened, and how many bytes."""

    def __enter__(self) -> Reads:
        self.opened = []
        self._begin = _bytes_read()
        _counting.append(self)
        return self

    def __exit__(self, *failure):
        _counting.remove(self)
        self.bytes = _bytes_read() - self._begin


_counting: list[Reads] = []


def _bytes_read() -> int:
    return int(Path("/proc/self/io").read_text().split()[1])


def _count(event: str, arguments: tuple[Any, ...]):
    if event == "open" and _counting:
        for each in _counting:
            each.opened.append(str(arguments[0]))


sys.addaudithook(_count)
