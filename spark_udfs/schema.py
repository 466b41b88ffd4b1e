"""The tables of columns: kafkarec's name, Spark's name, Spark's type. All schemas are derived from them.

Names and types are those of Spark's Kafka source (`timestampType` and so on; org.apache.spark.sql.kafka010,
KafkaRecordToRowConverter), all of them nullable. Spark compares Arrow schemas exactly, so the Arrow types
here are the ones that pyspark derives from the Spark types; a test compares the two.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import pyarrow  # type: ignore[import-untyped]

CORRUPT = "_corrupt_record"
# Spark's Kafka source gives -1 where the record's format has no timestamp type (magic 0).
NO_TIMESTAMP_TYPE = -1


class SparkColumn(NamedTuple):
    """One column: `source` is kafkarec's name, None where kafkarec does not fill it (null in a UDF)."""

    name: str
    type: str  # Spark SQL type
    source: str | None = None


Columns = tuple[SparkColumn, ...]
NamedValues = dict[str, Any]
"""Values by name."""
Paths = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]
"""One path or URL, or several."""


def column_table(text: str) -> Columns:
    """The columns of a table of lines: name, type and, where kafkarec fills it, kafkarec's name."""
    return tuple(SparkColumn(*line.split()) for line in text.strip().splitlines())


# The columns of a record. Raw bytes have no topic and no partition, a file has both; the columns exist for both, so
# that the rows of a UDF and those of a file have the same schema.
RECORD_COLUMNS = column_table(f"""
    topic               string
    partition           int
    offset              bigint                                      offset
    timestamp           timestamp                                   timestamp
    timestampType       int                                         timestamp_type
    key                 binary                                      key
    value               binary                                      value
    headers             array<struct<key:string,value:binary>>      headers
    {CORRUPT}           string
""")

# kafkarec.scan: one row per batch, headers only. Spark has no unsigned int: crc is a bigint.
BATCH_COLUMNS = column_table(f"""
    position                bigint      position
    base_offset             bigint      base_offset
    last_offset             bigint      last_offset
    next_offset             bigint      next_offset
    batch_length            int         batch_length
    size_in_bytes           int         size_in_bytes
    partition_leader_epoch  int         partition_leader_epoch
    magic                   tinyint     magic
    crc                     bigint      crc
    attributes              smallint    attributes
    compression             string      compression
    timestampType           int         timestamp_type
    is_transactional        boolean     is_transactional
    is_control              boolean     is_control
    delete_horizon_ms       bigint      delete_horizon_ms
    base_timestamp          timestamp   base_timestamp
    max_timestamp           timestamp   max_timestamp
    producer_id             bigint      producer_id
    producer_epoch          smallint    producer_epoch
    base_sequence           int         base_sequence
    last_sequence           int         last_sequence
    record_count            int         record_count
    {CORRUPT}               string
""")


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
