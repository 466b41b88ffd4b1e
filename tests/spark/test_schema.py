"""The column table agrees with pyspark: equal Arrow types, and the names of Spark's Kafka source."""

from __future__ import annotations

import pytest
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

import kafkarec
from spark_udfs import schema

# The names of the table's types, written out independently.
SPARK_TYPES: dict[str, DataType] = {
    "string": StringType(),
    "int": IntegerType(),
    "bigint": LongType(),
    "smallint": ShortType(),
    "tinyint": ByteType(),
    "boolean": BooleanType(),
    "binary": BinaryType(),
    "timestamp": TimestampType(),
    "array<struct<key:string,value:binary>>": ArrayType(
        StructType([StructField("key", StringType()), StructField("value", BinaryType())])
    ),
}


@pytest.mark.parametrize("columns", [schema.RECORD_COLUMNS, schema.BATCH_COLUMNS], ids=["records", "batches"])
def test_arrow_types_equal_sparks_so_that_nothing_is_cast(columns: tuple[schema.SparkColumn, ...]) -> None:
    struct = StructType([StructField(column.name, SPARK_TYPES[column.type]) for column in columns])
    expected = to_arrow_type(ArrayType(struct), timezone="UTC")
    ours = schema.arrow_result(columns)
    assert ours.equals(expected, check_metadata=True)
    assert str(ours) == str(expected)


def test_names_and_types_of_the_kafka_source() -> None:
    """org.apache.spark.sql.kafka010.KafkaRecordToRowConverter.schemaWithHeaders, plus the corrupt record."""
    types = {column.name: column.type for column in schema.RECORD_COLUMNS}
    assert types == {
        "topic": "string",
        "partition": "int",
        "offset": "bigint",
        "timestamp": "timestamp",
        "timestampType": "int",
        "key": "binary",
        "value": "binary",
        "headers": "array<struct<key:string,value:binary>>",
        "_corrupt_record": "string",
    }


def test_every_column_exists_in_kafkarec() -> None:
    records = kafkarec.decode(b"", columns=schema.sources(schema.RECORD_COLUMNS))
    assert list(records.schema.names) == schema.sources(schema.RECORD_COLUMNS)
    assert set(schema.sources(schema.BATCH_COLUMNS)) == set(kafkarec.scan(b"").schema.names)
