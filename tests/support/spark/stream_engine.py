"""Spark's micro-batch engine around the stream reader, without Spark: offsets as text in a log, and crashes.

    query = Query(folder, maxOffsetsPerTrigger="100")
    query.run()                  triggers until there is nothing new
    query.rows["orders", 0]      what the sink has, in order

As MicroBatchExecution: the end of a batch is written down before it is planned; a batch is committed when its rows are
in the sink; after a crash the batch that was not committed is planned again from what was written down.
"""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes, ReadMaxRows

from spark_udfs.source import KafkarecDataSource

Row = tuple[int, bytes | None]


class Query:
    """`log`: the offsets of each batch as Spark writes them; `committed`: how many of them are through."""

    def __init__(self, path: Path | str, **options: str) -> None:
        self.options = {name.lower(): value for name, value in options.items()} | {"path": str(path)}
        self.log: list[str] = []
        self.committed = 0
        self.rows: dict[tuple[str, int], list[Row]] = {}
        self.damage: list[str] = []
        self.sizes: list[int] = []
        self.restart()

    def restart(self, available_now: bool = False) -> None:
        """A new process: what was not committed is planned again."""
        self.reader = self._reader()
        self._initial: dict[str, Any] | None = None
        if available_now:
            self.reader.prepareForTriggerAvailableNow()
        if self.committed < len(self.log):
            self._run_last()

    def _reader(self) -> Any:
        source = KafkarecDataSource(dict(self.options))
        return source.streamReader(source.schema())

    def _start(self) -> dict[str, Any]:
        if self.committed:
            return json.loads(self.log[self.committed - 1])
        if self._initial is None:
            self._initial = json.loads(json.dumps(self.reader.initialOffset()))
        return self._initial

    def trigger(self, crash: bool = False, all_available: bool = False) -> bool:
        """One micro-batch, if there is news. crash: the process ends when the offsets are written down."""
        start = self._start()
        limit = ReadAllAvailable() if all_available else self.reader.getDefaultReadLimit()
        assert isinstance(limit, ReadAllAvailable | ReadMaxRows | ReadMaxBytes)
        end = json.dumps(self.reader.latestOffset(start, limit))
        if self.committed and end == self.log[-1]:
            return False
        self.log.append(end)
        if crash:
            self.restart()
        else:
            self._run_last()
        return True

    def _run_last(self) -> None:
        tasks = self.reader.partitions(self._start(), json.loads(self.log[-1]))
        got = [row for task in tasks for row in self._task(task)]
        for row in got:
            if row.get("_corrupt_record") is not None:
                self.damage.append(row["_corrupt_record"])
            else:
                self.rows.setdefault((row["topic"], row["partition"]), []).append((row["offset"], row["value"]))
        self.sizes.append(len(got))
        self.committed = len(self.log)

    def _task(self, task: Any) -> list[dict[str, Any]]:
        worker = pickle.loads(pickle.dumps(self._reader()))  # never the driver's
        return [row for batch in worker.read(pickle.loads(pickle.dumps(task))) for row in batch.to_pylist()]

    def texts(self) -> list[Any]:
        """The log, as numbers."""
        return [json.loads(each) for each in self.log]

    def run(self, most: int = 1000) -> int:
        """Triggers until there is nothing new; how many batches."""
        for done in range(most):
            if not self.trigger():
                return done
        raise AssertionError(f"still going on after {most} batches: {self.log[-3:]}")
