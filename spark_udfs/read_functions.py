"""`read_log`, `count` and `offsets_at`: what reads files without a data source, and what such functions share.

read_log has the rows of spark.read.format("kafkarec"):

driver   lists the files and plans the splits, as the data source does; with Spark Connect a task does it
tasks    mapInArrow over their numbers: each unpickles and reads its own splits
"""

from __future__ import annotations

import json
import os
import pickle
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from datetime import date, datetime
from functools import partial
from itertools import chain
from typing import Any

from . import cluster
from .errors import log_to_stderr, logger, report_cause_first
from .schema import NamedValues, Paths
from .source import columns, planning, selection
from .source.batch import BatchReader, warn_of_mode
from .source.counters import counted_splits, gap_texts
from .source.header_counts import count_split
from .source.listing import Listing
from .source.options import ReadOptions, StorageOptions, instant, parse
from .source.paths import Partitions, TopicPartition, key_types
from .source.planning import Split
from .source.reading import read_splits

Splits = tuple[Split, ...]
Tasks = list[Splits]
_DESCRIPTION = "spark.job.description"


def read_log(spark: Any, path: Paths, **options: Any) -> Any:
    """The rows of spark.read.format("kafkarec").load(path) by mapInArrow; for Spark 3.5.

    path     files, folders, globs or URLs
    options  of that source, as Python values: subscribe="orders", columns=["offset", "value"], view="batches", ...

    Returns a DataFrame. The files are listed, and options checked, at once; tasks read what was listed then.

    >>> read_log(spark, "tests/vectors/segments", subscribe="txn").groupBy("topic", "partition").count().first()
    Row(topic='txn', partition=0, count=267)
    """
    chosen = read_options(spark, path, options)
    cluster.ship(spark)
    wanted = columns.select_columns(chosen, cluster.call_where_files_are(spark, key_types, chosen))
    log_to_stderr()
    warn_of_mode(chosen, wanted)
    tasks = cluster.call_where_files_are(spark, BatchReader(chosen, wanted).plan_tasks)
    body = partial(read_splits, options=chosen, columns=wanted)
    return task_frame(spark, "read_log", tasks, chosen, body, columns.spark_schema(wanted))


class SplitTaskFunction:
    """The function of `mapInArrow`, pickled to the tasks; each `id` is the number of one.

    name: explain() and the UI show it
    body: yields the record batches of some splits
    """

    def __init__(self, name: str, tasks: Tasks, body: Callable[[Splits], Iterator[Any]]) -> None:
        self.__name__ = name
        self.body = body
        # so that a task unpickles no splits of others; compressed, since Spark sends it with each task: 5,000 splits
        # are 70 kB, and not 860
        self.packed = zlib.compress(pickle.dumps([pickle.dumps(each) for each in tasks]), 1)

    @report_cause_first
    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        pickled = pickle.loads(zlib.decompress(self.packed))
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from self.body(pickle.loads(pickled[number]))


# ---- for every function that reads files -----------------------------------------------------------------------


def option_texts(path: Paths, given: NamedValues) -> dict[str, str]:
    """Path or paths, and options as Python values, as Spark passes them to a data source: texts, true and not True,
    lists with commas, dicts as JSON. None: not set. TypeError for other values."""
    if isinstance(path, str | os.PathLike):
        texts = {"path": os.fspath(path)}
    elif isinstance(path, Iterable) and not isinstance(path, bytes):
        texts = {"paths": json.dumps([os.fspath(each) for each in path])}
    else:
        raise TypeError(f"path {path!r}: a str or Path, or several of them")
    for name, value in given.items():
        try:
            if isinstance(value, date):
                value = time_text(value)
            elif isinstance(value, list | tuple | set):
                value = ",".join(value)
            if value is not None:
                texts[name] = value if isinstance(value, str) else json.dumps(value)
        except (TypeError, ValueError) as error:
            is_secret = name.lower() == "storageoptions" and isinstance(value, dict)
            shown = StorageOptions(value) if is_secret else repr(value)
            raise type(error)(f"option {name}={shown}: {error}") from None
    return texts


def read_options(spark: Any, path: Paths, given: NamedValues, verb: str = "read") -> ReadOptions:
    """The options of a function that reads, from its arguments."""
    return parse(option_texts(path, given), verb, cluster.cores(spark))


def time_text(value: date) -> str:
    """A date, or a datetime with its zone, as the text of an option. ValueError for a datetime without one: Python
    takes its zone from the machine, and the options take UTC."""
    if isinstance(value, datetime) and value.tzinfo is None:
        raise ValueError("has no time zone; set one, for example .replace(tzinfo=datetime.timezone.utc)")
    return value.isoformat()


def task_frame(
    spark: Any,
    verb: str,
    tasks: Tasks,
    chosen: ReadOptions,
    body: Callable[[Splits], Iterator[Any]],
    result: Any,
) -> Any:
    """A DataFrame of what `body` yields for the splits of each task. result: its schema."""
    numbers = spark.range(0, len(tasks), 1, max(1, len(tasks)))
    name = f"{verb}[{planning.plan_text(chosen, tasks)}]"
    return numbers.mapInArrow(SplitTaskFunction(name, tasks, body), result)


def plan_and_run(spark: Any, verb: str, chosen: ReadOptions, body: Callable[[Splits], Any]) -> list[Any]:
    """Plans, and returns what `body` returns for the splits of each task, in their order."""
    log_to_stderr()
    cluster.ship(spark)
    plan = partial(BatchReader(chosen, ()).plan_tasks, logs_gaps=False)
    return run_tasks(spark, verb, cluster.call_where_files_are(spark, plan), chosen, body)


def run_tasks(
    spark: Any, verb: str, tasks: Tasks, chosen: ReadOptions, body: Callable[[Splits], Any], what: str = ""
) -> list[Any]:
    """As plan_and_run, for tasks that are planned already; without any no job. Spark's UI shows verb, paths and
    `what` for the job, unless the user has set a description."""
    if not tasks:
        return []
    frame = task_frame(spark, verb, tasks, chosen, partial(cluster.yield_result, body), cluster.RESULT)
    context = None if cluster.is_connect(spark) else spark.sparkContext
    if context is None or context.getLocalProperty(_DESCRIPTION):
        return cluster.unpickled_results(frame.collect())
    context.setLocalProperty(_DESCRIPTION, f"kafkarec {verb} {planning.paths_text(chosen)}{what}")
    try:
        return cluster.unpickled_results(frame.collect())
    finally:
        context.setLocalProperty(_DESCRIPTION, None)


# ---- count -----------------------------------------------------------------------------------------------
#
# driver   lists the files and plans the splits, as the data source does; with Spark Connect a task does it
# tasks    count each split: source/header_counts.py
# driver   adds the counts of each partition


class RecordCount(int):
    """A number of records.

    partitions: "topic-number" -> its records, without partitions that have none; a file whose name has no topic is
    there with its path
    """

    partitions: dict[str, int]


def count(spark: Any, path: Paths, **options: Any) -> RecordCount:
    """The number of records: that of spark.read.format("kafkarec").load(path).count(), many times faster.

    path     files, folders, globs or URLs
    options  of that source, as Python values: subscribe="orders", startingOffsets, isolationLevel, includeControl, ...

    The result is an int; its `.partitions` has the records of each partition: {"orders-0": 70, ...}.

    The headers of batches have the numbers, so nothing is decompressed, except the splits with a batch that a bound of
    the offsets cuts, of magic 0 and 1, whose headers have none, and with read_committed of transactions one of which
    was aborted. Checksums are checked, and damage is treated as by the source: FAILFAST raises its error, the other
    modes count the records that they would return. What only decoding shows is not seen: records that do not agree with
    a header whose checksum is right.

    checkCrcs=False reads headers only, and counts the records of damaged payloads.

    >>> count(spark, "tests/vectors/segments", subscribe="txn", isolationLevel="read_committed").partitions
    {'txn-0': 176}
    """
    chosen = read_options(spark, path, options, "count")
    partitions = Counter[str]()
    call = planning.damage_report_call(chosen)
    body = partial(counted_splits, "count", partial(count_split, options=chosen))
    for row in chain.from_iterable(plan_and_run(spark, "count", chosen, body)):  # in order of the partitions
        name = row["file"] if row["partition"] is None else f"{row['topic']}-{row['partition']}"
        partitions[name] += row["records"]
        missing = gap_texts(row)
        if row["damaged"]:
            ranges = "1 damaged range is" if row["damaged"] == 1 else f"{row['damaged']} damaged ranges are"
            missing.append(f"{row['file']}: {ranges} left out")
        for each in missing:
            logger.warning("kafkarec count: %s; %s", each, call)
    records = RecordCount(partitions.total())
    records.partitions = dict(+partitions)
    return records


# ---- offsets_at ------------------------------------------------------------------------------------------
#
# It is the offset at which `startingTimestamp` begins to read, found through the .timeindex where there is one,
# otherwise by the headers of the batches. The driver looks; with Spark Connect a task does.


def offsets_at(spark: Any, path: Paths, time: int | str | date, **options: Any) -> dict[str, dict[int, int]]:
    """The offset of the first record at or after a time: {"orders": {0: 42, 1: 57}}.

    path     files, folders, globs or URLs
    time     milliseconds since 1970, an aware datetime, a date, or a text such as 2026-11-01T12:30+02:00 (UTC without a
             zone), as the option startingTimestamp takes it
    options  of the data source: subscribe, subscribePattern, assign, storageOptions, basePath, where, failOnDataLoss

    A partition without a record that late has its end: the offset of the next record that is written. So each number is
    valid in startingOffsets and endingOffsets: `.option("endingOffsets", json.dumps(offsets_at(...)))`.

    It is what KafkaConsumer.offsetsForTimes has: the record may be a transaction marker, and if times do not rise with
    offsets, later records may be older than `time`.

    >>> offsets_at(spark, "tests/vectors/segments", "2023-11-14T22:13:20.300Z", subscribe="txn")
    {'txn': {0: 30}}
    """
    try:
        since = instant(time_text(time) if isinstance(time, date) else str(time))
    except ValueError as error:
        raise ValueError(f"time {time!r}: {error}") from None
    chosen = parse(option_texts(path, options), "offsets_at")
    if cluster.is_connect(spark):
        cluster.ship(spark)
    found: dict[str, dict[int, int]] = {}
    for (topic, partition), offset in cluster.call_where_files_are(spark, find_offsets_at, chosen, since).items():
        found.setdefault(topic, {})[partition] = offset
    return found


def find_offsets_at(chosen: ReadOptions, since: int) -> dict[TopicPartition, int]:
    """The offset of each partition; must run on a machine that can read the files."""

    def offsets(found: Partitions) -> dict[TopicPartition, int]:
        selected = selection.select_partitions(chosen, found)
        bound = "time", since
        return {
            key: selection.resolved_offset(chosen, each.log, bound, key, "latest") or 0
            for key, each in selected.items()
        }

    return Listing(chosen).retry(offsets)
