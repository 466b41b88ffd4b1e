"""Spark Connect: whether a session uses it; calls a function on the cluster.

With Connect the Python program runs on another machine: paths are those of the server and its executors, and only a
task can list them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import functions

from .worker_errors import cause_first

# Errors of a call that are raised again here with the same message, without the worker's traceback.
_ERRORS = {each.__name__: each for each in (AnalysisException, FileNotFoundError, PermissionError, ValueError)}
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
    """`function(*arguments)` on the driver or, with Spark Connect, in a task: only the cluster can read the files. Its
    result must be JSON-serialisable."""
    return call(spark, function, *arguments) if is_connect(spark) else function(*arguments)


def call(spark: Any, function: Callable[..., Any], *arguments: Any) -> Any:
    """`function(*arguments)` in one task. The function is pickled by its name; its result must be JSON-serialisable."""
    frame = spark.range(0, 1, 1, 1).mapInArrow(_RemoteCall(function, arguments), "result string")
    result = json.loads(frame.first()[0])
    if "error" in result:
        raise _ERRORS[result["error"]](result["message"])
    return result["result"]


class _RemoteCall:
    def __init__(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
        self.function = function
        self.arguments = arguments

    @cause_first
    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa  # type: ignore[import-untyped]

        for _ in batches:
            try:
                result = {"result": self.function(*self.arguments)}
            except tuple(_ERRORS.values()) as error:
                kind = next(name for name, each in _ERRORS.items() if isinstance(error, each))
                result = {"error": kind, "message": str(error)}
            yield pa.RecordBatch.from_arrays([pa.array([json.dumps(result)], pa.string())], ["result"])
