"""`LATERAL kafka_explode(value)`: a table function of plain rows, one Python tuple per record.

    SELECT t.source, r.offset, r.key FROM t, LATERAL kafka_explode(t.value) AS r
    SELECT ... FROM t, LATERAL kafka_explode(t.value, mode => 'PERMISSIVE', control => true) AS r

Spark has no LATERAL join with an Arrow table function, so each record becomes a tuple here, which is pickled and
converted to a row in the JVM. `inline_outer(kafka_decode(value))` returns the same rows ten times as fast:
docs/spark/decode.md has both figures. Arguments are checked in `analyze`, before anything runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice, repeat
from typing import TYPE_CHECKING, Any, cast

from pyspark.sql.functions import udtf
from pyspark.sql.types import BinaryType, NullType

from . import bootstrap, capabilities, decoding, function_options, schema
from .capabilities import AnalyzeArgument, AnalyzeResult
from .source import columns
from .worker_errors import cause_first

if TYPE_CHECKING:
    import kafkarec

NAME = "kafka_explode"
_NAMES = tuple(column.name for column in schema.RECORD_COLUMNS)
_CONSTANTS = ("mode", "check_crcs", "max_decompressed_bytes", "control", "restore", "end_of_log")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NULLS = (None,) * (len(_NAMES) - 1)


class KafkaExplode:
    """The handler: Spark makes one per task and calls `eval` for each row."""

    def __init__(self) -> None:
        self._chosen: dict[tuple[Any, ...], function_options.FunctionOptions] = {}

    @staticmethod
    @cause_first
    def analyze(value: AnalyzeArgument, mode: AnalyzeArgument | None = None, **given: AnalyzeArgument) -> AnalyzeResult:
        """Checks the arguments; the columns are those of kafka_decode's struct."""
        if not isinstance(value.dataType, BinaryType | NullType):
            raise ValueError(f"kafka_explode takes a binary column, not {value.dataType.simpleString()}")
        constants = given if mode is None else {"mode": mode, **given}
        for name, argument in constants.items():
            if name not in _CONSTANTS:
                raise ValueError(f"kafka_explode has no argument {name!r}; there are: value, {', '.join(_CONSTANTS)}")
            if not argument.isConstantExpression:
                raise ValueError(f"the argument {name} of kafka_explode must be a literal")
        function_options.make(**{name: argument.value for name, argument in constants.items()})
        return AnalyzeResult(columns.struct(schema.RECORD_COLUMNS))

    @cause_first
    def eval(
        self,
        value: bytes | None,
        mode: str = function_options.FunctionOptions.mode,
        check_crcs: bool = function_options.FunctionOptions.check_crcs,
        max_decompressed_bytes: int = function_options.FunctionOptions.max_decompressed_bytes,
        control: bool = function_options.FunctionOptions.control,
        restore: bool = function_options.FunctionOptions.restore,
        end_of_log: str = function_options.FunctionOptions.end_of_log,
    ) -> Iterator[tuple[Any, ...]]:
        """The records of one value; none for NULL."""
        if value is None:
            return iter(())
        key = (mode, check_crcs, max_decompressed_bytes, control, restore, end_of_log)
        if key not in self._chosen:
            self._chosen[key] = function_options.make(**dict(zip(_CONSTANTS, key, strict=True)))
        bootstrap.load()
        return rows(bytes(value), self._chosen[key])


@cause_first
def rows(value: bytes, chosen: function_options.FunctionOptions) -> Iterator[tuple[Any, ...]]:
    """A tuple per record in the order of kafka_decode's columns, and one for each damaged range between them."""
    import kafkarec

    try:
        pieces = kafkarec.decode_each(
            [value],
            columns=schema.sources(schema.RECORD_COLUMNS),
            errors=chosen.errors,
            check_crcs=chosen.check_crcs,
            max_decompressed_bytes=chosen.max_decompressed_bytes,
            timestamp_unit="us",
            control=chosen.control,
            restore=chosen.restore,
        )
        for piece in pieces:
            yield from _with_damage(_records(piece), decoding.damage_of(piece, chosen))
    except kafkarec.KafkaRecordError as error:
        if chosen.mode != "PERMISSIVE":
            kept = "mode => 'PERMISSIVE' keeps everything else, with the reason in a separate row"
            error.add_note(decoding.NO_BATCH if decoding.begins_without_batch(error) else kept)
            raise
        # errors="skip" raises only for a value with more records than one array can have
        lost = kafkarec.Damage(None, 0, len(value), None, None, len(value), str(error.reason), str(error))
        yield (*_NULLS, decoding.corrupt_text(lost))


def _records(piece: kafkarec.RecordLists) -> Iterator[tuple[Any, ...]]:
    converted: dict[str, Callable[[Any], Any]] = {
        "timestamp": _time,
        "timestamp_type": lambda kind: schema.NO_TIMESTAMP_TYPE if kind is None else int(kind),
        "headers": lambda headers: list(headers) if headers else None,
    }
    filled: list[Iterable[Any]] = []
    for name in (column.source for column in schema.RECORD_COLUMNS):
        values = repeat(None) if name is None else piece.records.column(name)
        filled.append(map(converted[name], values) if name in converted else values)
    return zip(*filled, strict=False)  # columns without a source repeat None without end


def _with_damage(
    rows: Iterator[tuple[Any, ...]], damage: Iterable[tuple[int, int, kafkarec.Damage]]
) -> Iterator[tuple[Any, ...]]:
    done = 0
    for _, index, damaged in damage:
        yield from islice(rows, index - done)
        yield (*_NULLS, decoding.corrupt_text(damaged))
        done = index
    yield from rows


def _time(microseconds: int | None) -> datetime | None:
    """Aware, so that the session's zone does not matter; null beyond the year 9999, where Python's times end."""
    if microseconds is None:
        return None
    try:
        return _EPOCH + timedelta(microseconds=microseconds)
    except OverflowError:
        return None


class NoKafkaExplode:
    """The handler for a Spark without `analyze`: its rows are an error that says what to write instead."""

    @cause_first
    def eval(self, *values: Any) -> Iterator[tuple[Any, ...]]:
        capabilities.check(capabilities.LATERAL)
        return iter(())


def table_function() -> Any:
    """The argument of `spark.udtf.register`. The class can be imported by its name, so it is pickled by reference."""
    if capabilities.missing(capabilities.LATERAL):
        return udtf(cast(Any, NoKafkaExplode), returnType=columns.struct(schema.RECORD_COLUMNS))
    return udtf(cast(Any, KafkaExplode))
