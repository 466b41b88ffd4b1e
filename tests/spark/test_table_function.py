"""The table function kafka_explode: the rows of kafka_decode one at a time, and arguments checked before it runs."""

import pickle

import golden
import pyarrow as pa
import pytest
from arrow_values import GOOD
from builders import flipped
from pyspark.serializers import CloudPickleSerializer
from pyspark.sql.types import BinaryType, BooleanType, StringType
from pyspark.sql.udtf import AnalyzeArgument

import kafkarec
from spark_udfs import decoding, function_options, schema, udtf

NAMES = [column.name for column in schema.RECORD_COLUMNS]


def rows_of_kafka_decode(value, options):
    """The rows of kafka_decode, with timestamps as Python's datetime."""
    list_array = pa.concat_arrays(decoding.decode_values(pa.array([value], pa.binary()), options))
    at = NAMES.index("timestamp")
    columns = [
        [udtf._datetime_or_null(each) for each in column.cast(pa.int64()).to_pylist()]
        if number == at
        else column.to_pylist()
        for number, column in enumerate(list_array.values.flatten())
    ]
    return [dict(zip(NAMES, row, strict=True)) for row in zip(*columns, strict=True)]


def rows_of_udtf(value, options):
    return [dict(zip(NAMES, row, strict=True)) for row in udtf.record_tuples(value, options)]


@pytest.mark.parametrize("case", golden.vectors() + golden.invalid(), ids=str)
def test_rows_equal_those_of_kafka_decode(case):
    options = function_options.from_keywords(mode="PERMISSIVE", control=True)
    assert rows_of_udtf(case.bytes, options) == rows_of_kafka_decode(case.bytes, options)


def test_damage_is_a_row_or_an_error():
    value = flipped(GOOD) + GOOD + flipped(GOOD) * 2 + GOOD
    rows = rows_of_udtf(value, function_options.from_keywords(mode="permissive"))
    assert rows[0][schema.CORRUPT] and 2 <= sum(row[schema.CORRUPT] is not None for row in rows) == len(rows) - 10
    with pytest.raises(kafkarec.CorruptRecordError, match="at byte 0"):
        list(udtf.record_tuples(value, function_options.FunctionOptions()))


def test_null_has_no_rows_and_other_values_have_those_of_kafka_decode():
    handler = udtf.KafkaExplode()
    assert list(handler.eval(None)) == []
    found = [dict(zip(NAMES, row, strict=True)) for row in handler.eval(bytearray(GOOD), "PERMISSIVE")]
    assert found == rows_of_kafka_decode(GOOD, function_options.from_keywords(mode="PERMISSIVE")) and len(found) == 5
    with pytest.raises(ValueError, match="max_value_bytes is 9"):
        list(handler.eval(GOOD, max_value_bytes=9))


def test_the_handler_is_sent_to_workers_by_reference():
    sent = CloudPickleSerializer().dumps(udtf.table_function().func)
    assert pickle.loads(sent) is udtf.KafkaExplode and len(sent) < 200


def argument(value, kind, constant=True):
    return AnalyzeArgument(dataType=kind, value=value, isTable=False, isConstantExpression=constant)


VALUE = argument(None, BinaryType(), constant=False)


def test_the_schema_is_that_of_kafka_decode():
    mode, control = argument("permissive", StringType()), argument(True, BooleanType())
    analyzed = udtf.KafkaExplode.analyze(VALUE, mode, control=control)
    assert [(each.name, each.dataType.simpleString()) for each in analyzed.schema] == [
        (column.name, column.type) for column in schema.RECORD_COLUMNS
    ]


@pytest.mark.parametrize(
    "arguments, error, message",
    [
        ({"value": argument("a", StringType())}, ValueError, "takes a binary column, not string"),
        ({"mode": argument("LENIENT", StringType())}, ValueError, "option mode must be one of FAILFAST, PERMISSIVE"),
        ({"mode": argument(None, StringType(), False)}, ValueError, "the argument mode of kafka_explode must be"),
        ({"mode": argument(None, StringType())}, TypeError, "mode must be str"),
        ({"control": argument("yes", StringType())}, TypeError, "control must be bool, not str"),
        ({"end_of_logs": argument("tail", StringType())}, ValueError, "no option 'end_of_logs'; did you mean end_of"),
    ],
)
def test_wrong_arguments_are_refused(arguments, error, message):
    with pytest.raises(error, match=message):
        udtf.KafkaExplode.analyze(**({"value": VALUE} | arguments))
