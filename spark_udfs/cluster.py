"""The session's cluster: whether it is on the other side of Spark Connect, and a call that runs there.

With Connect the Python program is on a machine of its own: paths are the server's and its executors', and what lies
below them can be looked up in a task only.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

from pyspark.errors import AnalysisException

# What a call may raise; it is raised again here with its message, and without the worker's traceback.
_ERRORS = {each.__name__: each for each in (AnalysisException, FileNotFoundError, PermissionError, ValueError)}


def is_connect(spark: Any) -> bool:
    """Whether this is a session of Spark Connect."""
    return type(spark).__module__.startswith("pyspark.sql.connect.")


def call(spark: Any, function: Callable[..., Any], *arguments: Any) -> Any:
    """`function(*arguments)` in one task. The function travels by its name; its result must be fit for JSON."""
    told = json.loads(spark.range(0, 1, 1, 1).mapInArrow(_RemoteCall(function, arguments), "told string").first()[0])
    if "error" in told:
        raise _ERRORS[told["error"]](told["message"])
    return told["result"]


class _RemoteCall:
    def __init__(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
        self.function = function
        self.arguments = arguments

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa  # type: ignore[import-untyped]

        for _ in batches:
            try:
                told = {"result": self.function(*self.arguments)}
            except tuple(_ERRORS.values()) as error:
                kind = next(name for name, each in _ERRORS.items() if isinstance(error, each))
                told = {"error": kind, "message": str(error)}
            yield pa.RecordBatch.from_arrays([pa.array([json.dumps(told)], pa.string())], ["told"])
