"""The table function kafka_explode: the rows of kafka_decode one by one, and its arguments checked before it runs."""

from __future__ import annotations

import json
import pickle
from datetime import UTC, datetime
from typing import Any

import golden
import pyarrow as pa
import pytest
from pyspark.sql.types import BinaryType, BooleanType, StringType
from pyspark.sql.udtf import AnalyzeArgument

import kafkarec
from spark_udfs import decoding, function_options, schema, udtf

GOOD = golden.vector("v2-none-logappend").bytes
NAMES = [column.name for column in schema.RECORD_COLUMNS]


def in_arrow(value: bytes, chosen: function_options.FunctionOptions) -> list[dict[str, Any]]:
    """What kafka_decode gives, times as Python has them."""
    lists = pa.concat_arrays(decoding.decode_values(pa.array([value], pa.binary()), chosen))
    at = NAMES.index("timestamp")
    columns = [
        [udtf._time(each) for each in column.cast(pa.int64()).to_pylist()] if number == at else column.to_pylist()
        for number, column in enumerate(lists.values.flatten())
    ]
    return [dict(zip(NAMES, row, strict=True)) for row in zip(*columns, strict=True)]


def in_rows(value: bytes, chosen: function_options.FunctionOptions) -> list[dict[str, Any]]:
    found = [dict(zip(NAMES, row, strict=True)) for row in udtf.rows(value, chosen)]
    for row in found:
        if row["headers"] is not None:
            row["headers"] = [{"key": key, "value": each} for key, each in row["headers"]]
    return found


@pytest.mark.parametrize("case", golden.vectors() + golden.invalid(), ids=str)
def test_rows_are_those_of_kafka_decode(case: golden.Case) -> None:
    chosen = function_options.make(mode="PERMISSIVE", control=True)
    assert in_rows(case.bytes, chosen) == in_arrow(case.bytes, chosen)


def test_damage_has_its_position() -> None:
    bad = bytearray(GOOD)
    bad[-1] ^= 1
    value = bytes(bad) + GOOD + bytes(bad) + bytes(bad) + GOOD
    chosen = function_options.make(mode="permissive")
    found = in_rows(value, chosen)
    assert found == in_arrow(value, chosen)
    places = [number for number, row in enumerate(found) if row[schema.CORRUPT]]
    assert (len(found), len(places), places[0]) == (10 + len(places), len(places), 0) and len(places) >= 2
    with pytest.raises(kafkarec.CorruptRecordError, match="at byte 0"):
        list(udtf.rows(value, function_options.FunctionOptions()))


def test_value_that_cannot_be_held_is_a_reason() -> None:
    raw = golden.vector("v2-zstd-create").bytes
    (row,) = in_rows(raw, function_options.make(mode="PERMISSIVE", max_decompressed_bytes=1))
    assert json.loads(row[schema.CORRUPT])["reason"] == "limit_exceeded"
    with pytest.raises(kafkarec.LimitExceededError):
        list(udtf.rows(raw, function_options.make(max_decompressed_bytes=1)))


@pytest.mark.parametrize(
    ("microseconds", "wanted"),
    [
        (None, None),
        (0, datetime(1970, 1, 1, tzinfo=UTC)),
        (-1000, datetime(1969, 12, 31, 23, 59, 59, 999000, UTC)),
        (2**62, None),
        (253_402_300_799_000_000, datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)),
    ],
)
def test_times(microseconds: int | None, wanted: datetime | None) -> None:
    assert udtf._time(microseconds) == wanted


def test_null_gives_no_rows_and_the_handler_travels_by_reference() -> None:
    handler = udtf.KafkaExplode()
    assert list(handler.eval(None)) == []
    assert len(list(handler.eval(bytearray(GOOD), "PERMISSIVE"))) == 5
    assert pickle.loads(pickle.dumps(udtf.KafkaExplode)) is udtf.KafkaExplode
    assert udtf.table_function().func is udtf.KafkaExplode


def argument(value: Any, kind: Any, constant: bool = True) -> AnalyzeArgument:
    return AnalyzeArgument(dataType=kind, value=value, isTable=False, isConstantExpression=constant)


VALUE = argument(None, BinaryType(), constant=False)


def test_the_schema_is_that_of_kafka_decode() -> None:
    mode, control = argument("permissive", StringType()), argument(True, BooleanType())
    found = udtf.KafkaExplode.analyze(VALUE, mode, control=control)
    assert [(each.name, each.dataType.simpleString()) for each in found.schema] == [
        (column.name, column.type) for column in schema.RECORD_COLUMNS
    ]


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"value": argument("a", StringType())}, ValueError, "takes a binary column, not string"),
        ({"mode": argument("LENIENT", StringType())}, ValueError, "the modes are FAILFAST and PERMISSIVE"),
        ({"mode": argument(None, StringType(), False)}, ValueError, "the argument mode of kafka_explode must be"),
        ({"mode": argument(None, StringType())}, TypeError, "mode must be str"),
        ({"control": argument("yes", StringType())}, TypeError, "control must be bool, not str"),
        ({"max_output_bytes": argument(1, StringType())}, ValueError, "no argument 'max_output_bytes'; there are: val"),
    ],
)
def test_wrong_arguments(arguments: dict[str, Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        udtf.KafkaExplode.analyze(**({"value": VALUE} | arguments))
