"""`register(spark)`: ships the wheel to the executors and registers the SQL functions."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import warnings
from dataclasses import dataclass
from functools import cache
from typing import Any

from . import capabilities, cluster, functions, udtf
from .capabilities import LATERAL, READ, STREAM, WRITE, Feature
from .diagnosis import PACKAGES, missing_packages_problem
from .source import NAME

# Sessions that have our functions: registering them again would only make Spark log warnings.
_registered: set[str] = set()
# What the data source of each of them knows of its session.
_sources: dict[str, dict[str, Any]] = {}
_OVERWRITE_MODE = "spark.sql.sources.partitionOverwriteMode"
# The setting of Spark for how many values it holds in its heap for an Arrow function, and what it is unless it is set.
ROWS, DEFAULT_ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch", "10000"


@dataclass(frozen=True)
class Registered:
    """What `register` has registered. Printable."""

    version: str
    shipped: str
    rows: tuple[tuple[str, str], ...]
    problem: str | None = None  # what does not work, and how to fix it
    advice: str | None = None  # a setting of Spark that is as Spark sets it, and may end the job

    def __str__(self) -> str:
        width = max(len(call) for call, _ in self.rows)
        lines = [f"kafkarec {self.version} in this Spark session; executors get it from {self.shipped}"]
        lines += [f"  {call:<{width}}  {meaning}" for call, meaning in self.rows]
        lines += [f"Memory: {self.advice}"] if self.advice else []
        return "\n".join(lines + ([f"Problem: {self.problem}"] if self.problem else []))

    __repr__ = __str__


def register(spark: Any, *, rows_at_once: int | None = None) -> Registered:
    """Ships kafkarec to the executors of this session and registers its SQL functions; may be called again.

    spark         a SparkSession, classic or Connect
    rows_at_once  sets spark.sql.execution.arrow.maxRecordsPerBatch of this session, the values that Spark holds in its
                  heap for a SQL function: 500 for values of 10 kB and more. None: leaves it as it is.
                  ValueError for anything but a whole number above 0

    Returns a printable table of what is registered.
    """
    # with 0 no stream of this session can start
    if rows_at_once is not None and (type(rows_at_once) is not int or rows_at_once < 1):
        raise ValueError(f"rows_at_once={rows_at_once!r}: must be a whole number above 0")
    shipped = cluster.ship(spark)
    if rows_at_once is not None:
        spark.conf.set(ROWS, str(rows_at_once))
    session = cluster.session_id(spark)
    problem = _problem(spark)
    for name in functions.SQL_FUNCTIONS:
        if session not in _registered or not spark.catalog.functionExists(name):
            spark.udf.register(name, functions.sql_function(name))
    if capabilities.DATA_SOURCES.present and (
        problem is None or not spark._jsparkSession.sessionState().dataSourceManager().dataSourceExists(NAME)
    ):
        problem = _register_source(spark, session) or problem
    if session not in _registered and not capabilities.why_missing(LATERAL):
        spark.udtf.register(udtf.NAME, udtf.table_function())
    _registered.add(session)
    advice = None
    if spark.conf.get(ROWS, DEFAULT_ROWS) == DEFAULT_ROWS:
        advice = (
            f"Spark holds {DEFAULT_ROWS} values at once for a SQL function ({ROWS}): whole batches of 10 kB and more "
            f"may fill its heap. register(spark, rows_at_once=500) sets it; for files read format({NAME!r})"
        )
    rows = [(f"SQL  {one.call}", one.meaning) for one in functions.SQL_FUNCTIONS.values()]
    rows += [
        ("SQL  inline_outer(kafka_decode(value))", "one row per record"),
        _feature_row(LATERAL, "SQL  {}(value[, mode => ...])", "the same rows by a table function, slower"),
        ("spark_udfs.functions", "the same as Column functions, with all options"),
        ("spark_udfs.functions.kafka_explode(df, col)", "one row per record, the fastest way"),
        _feature_row(READ, "{}.load(path)", "reads partition folders, data folders, segments, buckets"),
        ("spark_udfs.read_log(spark, path)", "the same rows by mapInArrow, for Spark 3.5"),
        _feature_row(STREAM, "{}.load(path)", "reads the same as a stream, while they grow"),
        _feature_row(WRITE, "{}.save(path)", "writes partition folders for a broker; also df.writeStream"),
        ("help(spark_udfs)", "functions of files: write_table, write_log, damage_report, count, ..."),
    ]
    return Registered(cluster.shipped_version(), shipped, tuple(rows), problem, advice)


def _feature_row(feature: Feature, call: str, meaning: str) -> tuple[str, str]:
    """A row of what `register` prints, which says so where this Spark cannot do it."""
    text = capabilities.why_missing(feature)
    return call.format(feature.written), meaning if text is None else f"NOT HERE: {text}"


def _register_source(spark: Any, session: str) -> str | None:
    """Registers the class for the session's setting of what an overwrite replaces, again if that has changed. Returns
    a description and a fix if this Spark keeps an installed class, which does not know the setting; None if all is
    well."""
    from .source import KafkarecDataSource

    is_dynamic = str(spark.conf.get(_OVERWRITE_MODE, "static")).lower() == "dynamic"
    known = {"overwrites": "dynamic" if is_dynamic else "static", "cores": cluster.cores(spark)}
    # the class is pickled with this: the processes that plan know neither session nor cluster
    of_session = type("SessionSource", (KafkarecDataSource,), {**known, "__module__": __name__})
    if _sources.get(session) == known or capabilities.register_source(spark, of_session):
        _sources[session] = known
        return None
    if not is_dynamic:
        return None
    problem = (
        f"this Spark uses the installed data source, for which {_OVERWRITE_MODE}=dynamic has no effect: an overwrite "
        f'replaces whole topics, unless each has option("partitionOverwriteMode", "dynamic")'
    )
    warnings.warn(problem, stacklevel=3)
    return problem


def _problem(spark: Any) -> str | None:
    """A description and a fix if the driver does not have the executors' Python, as with --archives and
    PYSPARK_PYTHON=./environment/bin/python, or if that has another version or lacks a package; None: all is
    well."""
    if cluster.is_connect(spark):
        return None
    python = spark.sparkContext.pythonExec
    found = shutil.which(python)
    if found is not None:
        problem = _problem_of_python(found)
        if problem is None:
            return None
    else:
        folder = os.path.dirname(os.path.dirname(python)) or "."
        problem = (
            f"the driver has no {python}, and Spark runs it there to plan LATERAL kafka_explode and, where the "
            f'driver\'s Python has no spark_udfs installed, format("kafkarec"). Unpack the archive there too, in '
            f"{os.getcwd()}: mkdir -p {folder} && tar -xzf ARCHIVE -C {folder}"
        )
    warnings.warn(problem, stacklevel=3)
    return problem


@cache
def _problem_of_python(python: str) -> str | None:
    """Why Spark's workers cannot run with this Python: it has another version than the driver's, or lacks packages."""
    own = "{}.{}".format(*sys.version_info)
    code = (
        "import sys, importlib.util as u; "
        f"print('{{}}.{{}}'.format(*sys.version_info), *(n for n in {PACKAGES} if not u.find_spec(n)))"
    )
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=False)
    version, *lacking = done.stdout.split() or [own]
    if version != own:
        return (
            f"{python}, the Python of Spark's workers, is {version}, and the driver's is {own}: Spark refuses every "
            f"query. Set PYSPARK_PYTHON to a Python {own}, before the session begins"
        )
    return missing_packages_problem(python, " and ".join(lacking)) if lacking else None
