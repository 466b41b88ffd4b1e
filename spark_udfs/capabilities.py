"""What this pyspark has, and what takes its place where it is missing: every difference between Spark 3.5 and 4.3.

| pyspark has | since | without it |
|---|---|---|
| Python data sources | 4.0 | `read_log` and `write_log` use mapInArrow; empty classes take the place of pyspark's |
| `analyze` of table functions | 4.0 | LATERAL kafka_explode is not registered |
| sessions that replace an installed data source | 4.1 | the installed one is used (`register_source`) |
| `arrow_udf` | 4.1 | an iterator pandas_udf whose values stay Arrow arrays (`arrow_in_pandas`) |
| `DataSourceStreamArrowWriter` | 4.1 | the stream's writer is also a batch's Arrow writer, and so gets Arrow batches |
| workers that can leave out tracebacks | 4.0 | the traceback is cut to its first line by Python's own limit |
| limits of micro-batches | 4.2 | a reader that is not told where a batch begins; maxOffsetsPerTrigger raises |

What pyspark has decides, not its version: vendors add features of later versions. Versions are for messages.
"""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import pyspark

from .errors import NeedsNewerSpark

if TYPE_CHECKING:
    # For type checkers, all that pyspark has: which of it is used here stands in the calls of `_import_classes` below.
    from pyspark.sql.datasource import *  # noqa: F403
    from pyspark.sql.streaming.datasource import *  # noqa: F403
    from pyspark.sql.udtf import *  # noqa: F403


@dataclass
class Capability:
    """present: whether this pyspark has it; since: the first Spark that has it."""

    present: bool
    since: str


def _import_classes(since: str, module: str, *names: str) -> Capability:
    """Takes these classes of a pyspark module into this one; where it has not all of them, empty classes."""
    present = True
    try:
        found = importlib.import_module(module)
        classes = {name: getattr(found, name) for name in names}
    except (ImportError, AttributeError):
        classes = {name: type(name, (), {"__module__": __name__}) for name in names}
        present = False
    globals().update(classes)
    return Capability(present, since)


_SOURCES = "pyspark.sql.datasource"
DATA_SOURCES = _import_classes(
    "4.0",
    _SOURCES,
    "DataSource",
    "DataSourceReader",
    "DataSourceStreamReader",
    "DataSourceArrowWriter",
    "InputPartition",
    "WriterCommitMessage",
)
ANALYZE = _import_classes("4.0", "pyspark.sql.udtf", "AnalyzeArgument", "AnalyzeResult")
LIMITS = _import_classes(
    "4.2",
    "pyspark.sql.streaming.datasource",
    "ReadAllAvailable",
    "ReadLimit",
    "ReadMaxBytes",
    "ReadMaxRows",
    "SupportsTriggerAvailableNow",
)
if (
    not TYPE_CHECKING
    and not _import_classes("4.1", _SOURCES, "DataSourceStreamArrowWriter").present
    and DATA_SOURCES.present
):
    from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamWriter

    class DataSourceStreamArrowWriter(DataSourceStreamWriter, DataSourceArrowWriter):
        """A stream's writer that gets Arrow batches: 4.0's worker passes them to every DataSourceArrowWriter."""


# ---- what is missing here --------------------------------------------------------------------------------------


class Feature(NamedTuple):
    """Something that a user writes, what it needs, and what does the same without that."""

    written: str
    needs: Capability
    instead: str


LATERAL = Feature(
    "LATERAL kafka_explode",
    ANALYZE,
    "write inline_outer(kafka_decode(value)), or spark_udfs.functions.kafka_explode(df, col)",
)
READ = Feature('spark.read.format("kafkarec")', DATA_SOURCES, "write spark_udfs.read_log(spark, path)")
STREAM = Feature(
    'spark.readStream.format("kafkarec")',
    DATA_SOURCES,
    "run a job with spark_udfs.read_log(spark, path, startingOffsets=...) again and again",
)
WRITE = Feature('df.write.format("kafkarec")', DATA_SOURCES, "write spark_udfs.write_log(df, path)")
_OPTIONS = {
    name: Feature(name, LIMITS, "leave it out: a micro-batch then reads all that is there")
    for name in ("maxOffsetsPerTrigger", "maxBytesPerTrigger")
}


def why_missing(feature: Feature) -> str | None:
    """What to tell a user who wants it; None: this Spark can do it."""
    if feature.needs.present:
        return None
    return f"{feature.written} needs Spark {feature.needs.since}, this is {pyspark.__version__}; {feature.instead}"


def check_options(given: Iterable[str]) -> None:
    """NeedsNewerSpark for an option of the data source that this Spark cannot do."""
    for name, feature in _OPTIONS.items():
        text = why_missing(feature) if name in given else None
        if text is not None:
            raise NeedsNewerSpark(text)


# ---- what is done in another way -------------------------------------------------------------------------------


def register_source(spark: Any, source: type) -> bool:
    """Registers a data source for a session. False: Spark has found one of this name in the driver's Python, and does
    not let a session replace it; so that one is used."""
    from pyspark.errors import AnalysisException

    try:
        spark.dataSource.register(source)
    except AnalysisException as error:
        if error.getCondition() != "DATA_SOURCE_ALREADY_EXISTS":
            raise
        return False
    return True


def arrow_function(body: Callable[..., Any], result: str) -> Any:
    """A function of Spark SQL, for `spark.udf.register` and for calls on Columns.

    body: an iterator of Arrow arrays (or of tuples of them) to an iterator of Arrow arrays; result: its type in SQL
    """
    try:
        from pyspark.sql.pandas.functions import arrow_udf
    except ImportError:
        from pyspark.sql.pandas.functions import PandasUDFType, pandas_udf

        from .arrow_in_pandas import PandasUdfOverArrow

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # it asks for type hints of pandas
            return cast(Any, pandas_udf)(PandasUdfOverArrow(body), result, PandasUDFType.SCALAR_ITER)
    return cast(Any, arrow_udf)(body, result)  # its overloads do not accept `Callable[..., Any]`
