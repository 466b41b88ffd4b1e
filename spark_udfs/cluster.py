"""A session and its cluster: whether it is one of Spark Connect; `ship(spark)`, which adds this package to its Python
files; calls of a function in a task; what tasks return to the driver.

With Connect the Python program runs on another machine: paths are those of the server and its executors, and only a
task can list them. A client may not have kafkarec, so no result has objects of it; some have those of
spark_udfs, which must be of the same version there.

Spark copies a `--py-files x.whl` to every executor but puts only `.zip` files on their sys.path. So the wheel is added
again under a .zip name that contains eight digits of its hash, so that two versions on one node have different names.

A DataFrame with a Python function keeps the list of files that the session had when the function was made: what is
added later does not reach its tasks. So everything that makes such a function ships first.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import pickle
import shutil
import tempfile
import zipfile
from collections.abc import Callable, Iterable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import functions

from . import bootstrap
from .errors import Conflict, report_cause_first
from .source.listing import DataLoss

# Errors of a call that are raised again here with the same message, without the worker's traceback. A subclass arrives
# as one of these: a client may not have kafkarec.
_RAISED_AGAIN = (AnalysisException, Conflict, DataLoss, FileNotFoundError, PermissionError, ValueError)
RESULT = "result binary"
# Of sessions of Spark Connect.
_cores: dict[str, int] = {}


def is_connect(spark: Any) -> bool:
    """Whether this is a session of Spark Connect. TypeError for what is no session."""
    if type(spark).__module__.startswith("pyspark.sql.connect."):
        return True
    if not hasattr(spark, "sparkContext"):
        raise TypeError(f"spark must be a SparkSession, not {type(spark).__name__}")
    return False


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
    cluster can read the files. spark: None is the driver, too"""
    if spark is not None and is_connect(spark):
        return call_in_task(spark, function, *arguments)
    return function(*arguments)


def call_in_task(spark: Any, function: Callable[..., Any], *arguments: Any) -> Any:
    """`function(*arguments)` in one task. The function is pickled by its name."""
    ship(spark)
    frame = spark.range(0, 1, 1, 1).mapInArrow(partial(yield_result, partial(_outcome, function, arguments)), RESULT)
    ((error, result),) = unpickled_results(frame.collect())
    if error is not None:
        raise error(result)
    return result


@report_cause_first
def _outcome(
    function: Callable[..., Any], arguments: tuple[Any, ...], batches: Iterator[Any]
) -> tuple[type[Exception] | None, Any]:
    """In a task: None and the result, or the class and the text of an error that is raised again on the driver."""
    for _ in batches:  # Spark wants them read
        pass
    try:
        return None, function(*arguments)
    except _RAISED_AGAIN as error:
        return next(each for each in _RAISED_AGAIN if isinstance(error, each)), str(error)


def yield_result(body: Callable[[Any], Any], argument: Any) -> Iterator[Any]:
    """The body of a task with one result, a record batch of the schema RESULT: what `body` returns for the splits or
    batches of the task."""
    import pyarrow as pa  # type: ignore[import-untyped]

    yield pa.RecordBatch.from_arrays([pa.array([pickle.dumps(body(argument))], pa.binary())], ["result"])


def unpickled_results(rows: Iterable[Any]) -> list[Any]:
    """On the driver: the results of tasks, from their rows."""
    return [pickle.loads(row[0]) for row in rows]


# ---- the package for executors ---------------------------------------------------------------------------


# Sessions of Spark Connect that have the file, which cannot be asked for their files.
_shipped: set[str] = set()


def shipped_version() -> str:
    """The version of kafkarec that is shipped."""
    index = bootstrap.trees_index()
    return str(index["version"] if index else bootstrap.activate().version)


def session_id(spark: Any) -> str:
    """Differs between sessions, also where they share a SparkContext."""
    if is_connect(spark):
        return f"connect {spark.session_id}"
    return f"{spark.sparkContext.applicationId} {spark._jsparkSession.sessionUUID()}"


def ship(spark: Any) -> str:
    """Adds spark_udfs to the session's Python files, once; returns its file name there."""
    name = os.path.basename(bootstrap.ORIGIN)
    if bootstrap.IS_ARCHIVE and name.endswith(".zip") and name in _added_file_names(spark):
        return name  # added already, by --py-files with a .zip name
    path = _zip_copy()
    name = os.path.basename(path)
    if is_connect(spark):
        key = f"{session_id(spark)} {name}"
        if key not in _shipped:
            spark.addArtifacts(path, pyfile=True)
            _shipped.add(key)
    elif name not in _added_file_names(spark):
        spark.sparkContext.addPyFile(path)
    return name


def _added_file_names(spark: Any) -> list[str]:
    """The names of the session's files; Spark Connect does not say them."""
    return [] if is_connect(spark) else [os.path.basename(each) for each in spark.sparkContext.listFiles]


@cache
def _zip_copy() -> str:
    """Copies spark_udfs to `spark_udfs-<version>-<sha8>.zip` in a temporary folder; returns that path."""
    folder = tempfile.mkdtemp(prefix="spark_udfs-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    temporary = os.path.join(folder, "copy")
    if bootstrap.IS_ARCHIVE:
        shutil.copyfile(bootstrap.ORIGIN, temporary)
    else:
        _zip_package(bootstrap.ORIGIN, temporary)
    with open(temporary, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    final = os.path.join(folder, f"spark_udfs-{shipped_version()}-{digest[:8]}.zip")
    os.rename(temporary, final)
    return final


def _zip_package(location: str, target: str) -> None:
    """Writes an installed `spark_udfs` folder, with its trees, as a zip; the same files always make the same bytes."""
    with zipfile.ZipFile(target, "w", strict_timestamps=False) as archive:
        for path in sorted(Path(location, "spark_udfs").rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                archive.write(path, path.relative_to(location))
