"""The tables of columns: kafkarec's name, Spark's name, Spark's type. All schemas are derived from them.

Names and types are those of Spark's Kafka source (`timestampType` and so on; org.apache.spark.sql.kafka010,
KafkaRecordToRowConverter), all of them nullable. Spark compares Arrow schemas exactly, so the Arrow types
here are the ones that pyspark derives from the Spark types; a test compares the two.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow  # type: ignore[import-untyped]

CORRUPT = "_corrupt_record"
# Spark's Kafka source gives -1 where the record's format has no timestamp type (magic 0).
NO_TIMESTAMP_TYPE = -1


@dataclass(frozen=True)
class SparkColumn:
    """One column: `source` is kafkarec's name, None where kafkarec does not fill it (null in a UDF)."""

    source: str | None
    name: str
    type: str  # Spark SQL type


Columns = tuple[SparkColumn, ...]
NamedValues = dict[str, Any]
"""Values by name."""

# The columns of a record. Raw bytes have no topic and no partition, a file has both; the columns exist for both, so
# that the rows of a UDF and those of a file have the same schema.
RECORD_COLUMNS = (
    SparkColumn(None, "topic", "string"),
    SparkColumn(None, "partition", "int"),
    SparkColumn("offset", "offset", "bigint"),
    SparkColumn("timestamp", "timestamp", "timestamp"),
    SparkColumn("timestamp_type", "timestampType", "int"),
    SparkColumn("key", "key", "binary"),
    SparkColumn("value", "value", "binary"),
    SparkColumn("headers", "headers", "array<struct<key:string,value:binary>>"),
    SparkColumn(None, CORRUPT, "string"),
)

# kafkarec.scan: one row per batch, headers only. Spark has no unsigned int: crc is a bigint.
BATCH_COLUMNS = (
    *(SparkColumn(name, name, "bigint") for name in ("position", "base_offset", "last_offset", "next_offset")),
    *(SparkColumn(name, name, "int") for name in ("batch_length", "size_in_bytes", "partition_leader_epoch")),
    SparkColumn("magic", "magic", "tinyint"),
    SparkColumn("crc", "crc", "bigint"),
    SparkColumn("attributes", "attributes", "smallint"),
    SparkColumn("compression", "compression", "string"),
    SparkColumn("timestamp_type", "timestampType", "int"),
    SparkColumn("is_transactional", "is_transactional", "boolean"),
    SparkColumn("is_control", "is_control", "boolean"),
    SparkColumn("delete_horizon_ms", "delete_horizon_ms", "bigint"),
    SparkColumn("base_timestamp", "base_timestamp", "timestamp"),
    SparkColumn("max_timestamp", "max_timestamp", "timestamp"),
    SparkColumn("producer_id", "producer_id", "bigint"),
    SparkColumn("producer_epoch", "producer_epoch", "smallint"),
    *(SparkColumn(name, name, "int") for name in ("base_sequence", "last_sequence", "record_count")),
    SparkColumn(None, CORRUPT, "string"),
)


def kafkarec_names(columns: Columns) -> list[str]:
    """The names of the columns that kafkarec decodes."""
    return [column.source for column in columns if column.source]


def sql_struct(columns: Columns) -> str:
    """`struct<topic:string,...>`, the element type of what the functions return."""
    return "struct<" + ",".join(f"{column.name}:{column.type}" for column in columns) + ">"


@cache
def arrow_type(name: str) -> pyarrow.DataType:
    """The Arrow type that pyspark derives from a Spark SQL type of the tables above (small variants)."""
    import pyarrow as pa

    return {
        "string": pa.string(),
        "int": pa.int32(),
        "bigint": pa.int64(),
        "smallint": pa.int16(),
        "tinyint": pa.int8(),
        "boolean": pa.bool_(),
        "binary": pa.binary(),
        "date": pa.date32(),
        "timestamp": pa.timestamp("us", tz="UTC"),
        "array<struct<key:string,value:binary>>": pa.list_(
            pa.field("element", pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))
        ),
    }[name]


@cache
def arrow_struct(columns: Columns) -> pyarrow.StructType:
    import pyarrow as pa

    return pa.struct([pa.field(column.name, arrow_type(column.type)) for column in columns])


@cache
def arrow_struct_list(columns: Columns) -> pyarrow.ListType:
    """array<struct<...>>: what kafka_decode and kafka_scan return."""
    import pyarrow as pa

    return pa.list_(pa.field("element", arrow_struct(columns)))
