"""`study(spark, path)`: what other codecs, levels, batch sizes and formats would save, in each partition.

driver   lists the files; with Spark Connect a task does it
tasks    one per partition: kafkarec.study on its share of the bytes to read
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from . import bootstrap, shipping
from .read_functions import Tasks, only, over_tasks, planned, texts
from .source import description, options
from .source import selection as selecting
from .source.listing import Listing, retry
from .source.paths import open_segment
from .source.planning import Split
from .task_log import log_to_stderr
from .worker_errors import cause_first

OPTIONS = (
    "subscribe",
    "subscribePattern",
    "assign",
    "storageOptions",
    "basePath",
    "where",
    "maxDecompressedBytes",
    "failOnDataLoss",
)
SAMPLE = 16 << 20
_OF_LOG = "path string, topic string, partition int, log_size bigint, sampled bigint, damage int"
_OF_OUTCOME = (
    "format string, compression string, level int, batch_size bigint, share double, margin double, size bigint, "
    "batches bigint, write_rate double, read_rate double, losses map<string,bigint>, refused bigint, is_best boolean"
)
RESULT = f"{_OF_LOG}, {_OF_OUTCOME}"
_ASSUMED = 1 << 20  # bytes of a file whose size is unknown, as it is compressed


def study(spark: Any, path: str | Iterable[str], tried: Mapping[str, Any], sample: int | None, **given: Any) -> Any:
    """See `spark_udfs.study`. tried: the arguments of kafkarec.study that say what is tried."""
    only("study", given, OPTIONS)
    chosen = options.parse(texts(path, given), "read")
    known = {name: list(value) for name, value in tried.items() if value is not None}
    shipping.ship(spark)
    tasks = planned(spark, partial(plan, known), chosen)
    return over_tasks(spark, tasks, StudyTask, chosen, known, sample, result=RESULT)


def plan(tried: Mapping[str, Any], chosen: options.SourceOptions) -> Tasks:
    """The segments of each partition, whole; must run on a machine that can read the files. ValueError for a format,
    codec or level that does not exist."""
    bootstrap.load()
    import kafkarec

    with suppress(kafkarec.NothingToTry):  # an empty log: study looks at the names first
        kafkarec.study(kafkarec.Log("", ()), **tried)
    partitions = retry(lambda: selecting.chosen(chosen, Listing(chosen).current())).values()
    return [
        tuple(Split(each.path, one.topic, one.partition, end=each.size, keys=each.keys) for each in one.segments)
        for one in partitions
    ]


class StudyTask:
    """The function of `mapInArrow`, pickled to the tasks; each `id` is the number of a task and its splits."""

    def __init__(
        self, tasks: Tasks, chosen: options.SourceOptions, tried: Mapping[str, Any], sample: int | None
    ) -> None:
        self.tasks, self.options, self.tried, self.sample = tasks, chosen, tried, sample
        self.__name__ = f"study[{description.of_tasks(chosen, tasks)}]"  # explain() shows it

    @cause_first
    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa  # type: ignore[import-untyped]

        bootstrap.load()
        log_to_stderr()
        for batch in batches:
            for number in batch.column(0).to_pylist():
                rows = list(self._rows(number))
                if rows:
                    schema = _arrow_schema()
                    columns = [pa.array([row[field.name] for row in rows], field.type) for field in schema]
                    yield pa.RecordBatch.from_arrays(columns, schema=schema)

    def _rows(self, number: int) -> Iterator[dict[str, Any]]:
        import kafkarec

        splits, sample = self.tasks[number], self._sample(number)
        if not splits or sample == 0:
            return
        segments = []
        for split in splits:
            with suppress(FileNotFoundError):  # a broker has removed it since
                segments.append(open_segment(split.path, self.options, split.topic, split.partition))
        if not segments:
            return
        folder = os.path.dirname(splits[0].path)
        log = kafkarec.Log(folder, segments, topic=splits[0].topic, partition=splits[0].partition)
        limit = self.options["maxDecompressedBytes"]
        try:
            found = kafkarec.study(log, sample=sample, max_decompressed_bytes=limit, **self.tried)
        except kafkarec.NothingToTry:
            return
        of_log = {"path": folder, "topic": log.topic, "partition": log.partition}
        of_log |= {"log_size": found.size, "sampled": found.sampled, "damage": found.damage}
        for outcome in found.outcomes:
            row = outcome.as_dict()
            yield {**of_log, **row, "losses": list(row["losses"].items())}

    def _sample(self, number: int) -> int | None:
        """How many bytes this task reads; None: all, 0: nothing, as others are read for it."""
        from kafkarec import distributed

        if self.sample is None:
            return None
        sizes = [sum(_ASSUMED if each.end is None else each.end for each in splits) for splits in self.tasks]
        return distributed.sample_shares(sizes, self.sample)[number]


def _arrow_schema() -> Any:
    """The Arrow types of RESULT."""
    import pyarrow as pa

    types = {
        "string": pa.string(),
        "int": pa.int32(),
        "bigint": pa.int64(),
        "double": pa.float64(),
        "boolean": pa.bool_(),
        "map<string,bigint>": pa.map_(pa.string(), pa.int64()),
    }
    return pa.schema([(name, types[kind]) for name, kind in (column.split() for column in RESULT.split(", "))])
