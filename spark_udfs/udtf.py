"""`LATERAL kafka_explode(value)`: a table function of plain rows, one Python tuple per record.

    SELECT t.source, r.offset, r.key FROM t, LATERAL kafka_explode(t.value) AS r
    SELECT ... FROM t, LATERAL kafka_explode(t.value, mode => 'PERMISSIVE', control => true) AS r

Spark has no LATERAL join with an Arrow table function, so each record becomes a tuple here, which is pickled and
converted to a row in the JVM. `inline_outer(kafka_decode(value))` returns the same rows ten times as fast:
docs/spark/decode.md has both figures. Arguments are checked in `analyze`, before anything runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, cast

from pyspark.sql.functions import udtf
from pyspark.sql.types import BinaryType, NullType

from . import decoding, function_options, schema
from .capabilities import AnalyzeArgument, AnalyzeResult
from .decoding import FROM_TEXT
from .errors import report_cause_first
from .function_options import FunctionOptions
from .source.columns import spark_schema

NAME = "kafka_explode"
_TIME = [column.name for column in schema.RECORD_COLUMNS].index("timestamp")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class KafkaExplode:
    """The handler: Spark makes one per task and calls `eval` for each row."""

    @staticmethod
    @report_cause_first
    def analyze(value: AnalyzeArgument, mode: AnalyzeArgument | None = None, **given: AnalyzeArgument) -> AnalyzeResult:
        """Checks the arguments; the columns are those of kafka_decode's struct."""
        if not isinstance(value.dataType, BinaryType | NullType):
            raise ValueError(f"kafka_explode takes a binary column, not {value.dataType.simpleString()}{FROM_TEXT}")
        constants = given if mode is None else {"mode": mode, **given}
        for name, argument in constants.items():
            if not argument.isConstantExpression:
                raise ValueError(f"the argument {name} of kafka_explode must be a literal")
        function_options.from_keywords(**{name: argument.value for name, argument in constants.items()})
        return AnalyzeResult(spark_schema(schema.RECORD_COLUMNS))

    @report_cause_first
    def eval(self, value: bytes | None, mode: str = FunctionOptions.mode, **given: Any) -> Iterator[tuple[Any, ...]]:
        """The records of one value; none for NULL. The arguments are checked in `analyze`."""
        return record_tuples(value, _cached_options(mode=mode, **given))


_cached_options = cache(function_options.from_keywords)


@report_cause_first
def record_tuples(value: bytes | None, chosen: FunctionOptions) -> Iterator[tuple[Any, ...]]:
    """A tuple per record in the order of kafka_decode's columns, and one for each damaged range between them."""
    import pyarrow as pa  # type: ignore[import-untyped]

    for lists in decoding.decode_values(pa.array([value], pa.binary()), chosen):
        columns = lists.values.flatten()
        times = columns[_TIME].cast(pa.int64()).to_pylist()
        cells = [
            each.to_pylist() if number != _TIME else map(_datetime_or_null, times)
            for number, each in enumerate(columns)
        ]
        yield from zip(*cells, strict=True)


def _datetime_or_null(microseconds: int | None) -> datetime | None:
    """Aware, so that the session's zone does not matter; null beyond the year 9999, where Python's times end."""
    if microseconds is None:
        return None
    try:
        return _EPOCH + timedelta(microseconds=microseconds)
    except OverflowError:
        return None


def table_function() -> Any:
    """The argument of `spark.udtf.register`. The class can be imported by its name, so it is pickled by reference."""
    return udtf(cast(Any, KafkaExplode))
