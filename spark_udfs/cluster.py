"""Spark Connect: whether a session uses it; calls a function on the cluster; what tasks return to the driver.

With Connect the Python program runs on another machine: paths are those of the server and its executors, and only a
task can list them. A client may not have kafkarec, so no result has objects of it; some have those of
spark_udfs, which must be of the same version there.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import functions

from . import bootstrap
from .errors import Conflict
from .source.listing import DataLoss
from .worker_errors import cause_first

# Errors of a call that are raised again here with the same message, without the worker's traceback. A subclass arrives
# as one of these: a client may not have kafkarec.
_RAISED_AGAIN = (AnalysisException, Conflict, DataLoss, FileNotFoundError, PermissionError, ValueError)
RESULT = "result binary"
# Of sessions of Spark Connect.
_cores: dict[str, int] = {}


def is_connect(spark: Any) -> bool:
    """Whether this is a session of Spark Connect."""
    return type(spark).__module__.startswith("pyspark.sql.connect.")


def cores(spark: Any) -> int:
    """The cores of the cluster, as far as Spark knows them; with Spark Connect the number of partitions that it makes
    of a range, by a small job in each session."""
    if not is_connect(spark):
        return int(spark.sparkContext.defaultParallelism)
    if spark.session_id not in _cores:
        numbers = spark.range(1 << 12).select(functions.spark_partition_id().alias("number"))
        _cores[spark.session_id] = numbers.agg(functions.max("number")).first()[0] + 1
    return _cores[spark.session_id]


def call_where_files_are(spark: Any, function: Callable[..., Any], *arguments: Any) -> Any:
    """`function(*arguments)`, which may import kafkarec, on the driver or, with Spark Connect, in a task: only the
    cluster can read the files."""
    if is_connect(spark):
        return call(spark, function, *arguments)
    bootstrap.load()
    return function(*arguments)


def call(spark: Any, function: Callable[..., Any], *arguments: Any) -> Any:
    """`function(*arguments)` in one task. The function is pickled by its name."""
    frame = spark.range(0, 1, 1, 1).mapInArrow(partial(_called, function, arguments), RESULT)
    ((error, result),) = results(frame.collect())
    if error is not None:
        raise error(result)
    return result


@cause_first
def _called(function: Callable[..., Any], arguments: tuple[Any, ...], batches: Iterator[Any]) -> Iterator[Any]:
    bootstrap.load()
    for _ in batches:
        outcome: tuple[type[Exception] | None, Any]
        try:
            outcome = None, function(*arguments)
        except _RAISED_AGAIN as error:
            outcome = next(each for each in _RAISED_AGAIN if isinstance(error, each)), str(error)
        yield as_result(outcome)


def as_result(value: Any) -> Any:
    """In a task: a value for the driver, as a record batch of the schema RESULT."""
    import pyarrow as pa  # type: ignore[import-untyped]

    return pa.RecordBatch.from_arrays([pa.array([pickle.dumps(value)], pa.binary())], ["result"])


def results(rows: Iterable[Any]) -> list[Any]:
    """On the driver: the values in the rows that `as_result` has made."""
    return [pickle.loads(row[0]) for row in rows]
