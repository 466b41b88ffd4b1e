"""Column functions and DataFrame functions. Arguments are checked here, on the driver.

    from spark_udfs import functions as K

    df.select(K.kafka_decode("value").alias("records"))            # array<struct<topic, ..., headers>>
    df.select("source", F.inline_outer(K.kafka_decode("value", mode="PERMISSIVE")))
    K.kafka_explode(df, "value", keep=["source"])                  # one row per record, the fastest way
    df.select(K.kafka_encode("records", "zstd"))                   # the inverse: array<struct<...>> to raw batches
    df.select(F.inline(K.kafka_scan("value")))                     # one row per batch, headers only

A NULL value gives NULL and an empty value an empty array; `inline` drops both, `inline_outer` keeps them.
FAILFAST (the default, as `from_avro`) fails the query at the first damage; its message names byte and
offset. PERMISSIVE never fails on bad bytes: each damaged range is one element in which only
`_corrupt_record` is set, JSON with position, length, lost_from, lost_to, next_position, reason and detail;
the good records around it stay.

In the examples below `df` has two segments of a broker (file, value), `source` the records of its __consumer_offsets
(topic, offset, key, value).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.functions import arrow_udf
from pyspark.sql.types import StructType

from . import decoding, encoding, function_options, internal, schema

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["kafka_decode", "kafka_encode", "kafka_explode", "kafka_internal", "kafka_internal_rows", "kafka_scan"]

# name -> (body, type of the result, call, description)
SQL_FUNCTIONS: dict[str, tuple[Callable[..., Any], str, str, str]] = {
    "kafka_decode": (
        decoding.kafka_decode,
        f"array<{schema.sql_struct(schema.RECORD_COLUMNS)}>",
        "kafka_decode(value[, mode])",
        "the records of a column of raw batches",
    ),
    "kafka_scan": (
        decoding.kafka_scan,
        f"array<{schema.sql_struct(schema.BATCH_COLUMNS)}>",
        "kafka_scan(value[, mode])",
        "its batches, headers only, nothing decompressed",
    ),
    "kafka_encode": (
        encoding.kafka_encode,
        "binary",
        "kafka_encode(records[, options])",
        "array<struct<offset, timestamp, key, value, headers>> to raw batches",
    ),
    "kafka_internal": (
        internal.kafka_internal,
        schema.sql_struct(internal.COLUMNS),
        "kafka_internal(topic, key, value)",
        "a record of __consumer_offsets, __transaction_state, ... as JSON",
    ),
}


def sql_function(name: str) -> Any:
    """The Arrow function of `SQL_FUNCTIONS`, as `spark.udf.register` and a Column call take it."""
    body, result, _, _ = SQL_FUNCTIONS[name]
    make: Any = arrow_udf  # its overloads know no `Callable[..., Any]`
    return make(body, result)


def kafka_decode(
    col: Column | str,
    mode: str = "FAILFAST",
    *,
    check_crcs: bool = True,
    max_decompressed_bytes: int = function_options.FunctionOptions.max_decompressed_bytes,
    max_output_bytes: int = function_options.FunctionOptions.max_output_bytes,
    control: bool = False,
) -> Column:
    """The records of a binary column of raw batches: array<struct<...>>, names as in Spark's Kafka source.

    col: binary; each value one or many batches, magics 0, 1, 2 mixed, any codec
    mode: FAILFAST or PERMISSIVE, see the head of this module
    check_crcs: verify checksums
    max_decompressed_bytes: budget of one value, all its compressed payloads together; beyond it: limit_exceeded
    max_output_bytes: a task sends its output in pieces of about this size, cut between values
    control: also the records of control batches (transaction markers)

    >>> df.select("file", kafka_decode("value")[0]["offset"].alias("first")).orderBy("file").collect()
    [Row(file='00000000000000000000.log', first=0), Row(file='00000000000000000030.log', first=31)]
    """
    chosen = function_options.make(
        mode=mode,
        check_crcs=check_crcs,
        max_decompressed_bytes=max_decompressed_bytes,
        max_output_bytes=max_output_bytes,
        control=control,
    )
    return _call("kafka_decode", col, chosen)


def kafka_scan(col: Column | str, mode: str = "FAILFAST") -> Column:
    """The batches of a binary column of raw record batches, from their headers alone: array<struct<...>>.

    >>> batches = df.select(F.inline(kafka_scan("value")))
    >>> batches.groupBy("compression").count().orderBy("compression").collect()[:2]
    [Row(compression='gzip', count=24), Row(compression='lz4', count=49)]
    """
    return _call("kafka_scan", col, function_options.make(mode=mode))


def kafka_encode(
    col: Column | str,
    compression: str = "none",
    *,
    level: int | None = None,
    magic: int | str = 2,
    batch_size: int | None = None,
    base_offset: int | None = None,
    timestamp_type: str | None = None,
    log_append_time: int | None = None,
    partition_leader_epoch: int | None = None,
    producer_id: int | None = None,
    producer_epoch: int | None = None,
    base_sequence: int | None = None,
    is_transactional: bool | None = None,
) -> Column:
    """The inverse of kafka_decode: an array of records to a binary of raw batches, one after the other.

    col: array<struct<...>>, fields as in kafka_decode's struct: offset, timestamp, timestampType, key, value, headers.
         Missing ones are null (offsets: counted from 0); topic and partition are ignored. key, value: binary or
         string; timestamp: timestamp, or bigint of ms. Offsets must rise: sort_array(collect_list(struct(offset, ...)))
    compression: none, gzip, snappy, lz4, zstd; level: None is Kafka's default
    magic: 2, 1 or 0
    batch_size: bytes of a batch before it is compressed; None: 16384, as batch.size of a producer
    base_offset: offset of the first record; None: the records' own offsets
    The other arguments are written into every batch header, as in kafkarec.encode.

    A null array gives null, an empty one an empty binary. Records that no batch can hold fail the query; the
    message names the row, its offsets and the record: offsets that do not rise, a null struct, an element with
    _corrupt_record. kafka_decode of the result gives the same structs again; but magic 2 has a timestamp type, where
    magic 0 has -1.

    >>> orders = spark.createDataFrame([(7, 0, b"a"), (7, 1, None)], "id int, offset bigint, value binary")
    >>> arrays = orders.groupBy("id").agg(F.sort_array(F.collect_list(F.struct("offset", "value"))).alias("records"))
    >>> raw = arrays.select(kafka_encode("records", "lz4").alias("raw"))
    >>> raw.select(F.inline(kafka_decode("raw"))).select("offset", "timestamp", "value").collect()
    [Row(offset=0, timestamp=None, value=b'a'), Row(offset=1, timestamp=None, value=None)]
    """
    given = {name: each for name, each in locals().items() if name in encoding.OPTIONS}
    literal = encoding.options_of(given)
    column = F.col(col) if isinstance(col, str) else col
    function = sql_function("kafka_encode")
    return function(column) if literal is None else function(column, F.lit(literal))  # type: ignore[no-any-return]


def _call(name: str, col: Column | str, chosen: function_options.FunctionOptions) -> Column:
    column = F.col(col) if isinstance(col, str) else col
    function = sql_function(name)
    if chosen == function_options.FunctionOptions():
        return function(column)  # type: ignore[no-any-return]
    return function(column, F.lit(function_options.to_literal(chosen)))  # type: ignore[no-any-return]


def kafka_explode(
    df: DataFrame,
    col: Column | str,
    mode: str = "FAILFAST",
    *,
    keep: Sequence[Column | str] = (),
    outer: bool = False,
    check_crcs: bool = True,
    max_decompressed_bytes: int = function_options.FunctionOptions.max_decompressed_bytes,
    max_output_bytes: int = function_options.FunctionOptions.max_output_bytes,
    control: bool = False,
) -> DataFrame:
    """One row per record of a binary column: the columns of `keep`, then those of `kafka_decode`'s struct.

    keep: columns of `df` to repeat beside each record; none by default
    outer: also one row for a NULL or empty value, with nulls in place of a record
    The other arguments are those of `kafka_decode`; pieces of output are cut between records.

    >>> rows = kafka_explode(df, "value", "PERMISSIVE", keep=["file"]).where("offset > 30")
    >>> rows.groupBy("file").count().collect()
    [Row(file='00000000000000000030.log', count=237)]
    """
    chosen = function_options.make(
        mode=mode,
        check_crcs=check_crcs,
        max_decompressed_bytes=max_decompressed_bytes,
        max_output_bytes=max_output_bytes,
        control=control,
    )
    value = F.col(col) if isinstance(col, str) else col
    kept = df.select(*keep).schema.fields if keep else []
    records = cast(StructType, StructType.fromDDL(schema.sql_columns(schema.RECORD_COLUMNS))).fields
    names = [field.name.lower() for field in [*kept, *records]]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(
            f"keep has columns that a record has too: {', '.join(twice)}; "
            f'rename them, as in keep=[F.col("{twice[0]}").alias("source_{twice[0]}")]'
        )
    body = decoding.Explode(function_options.to_literal(chosen), outer)
    return df.select(*keep, value).mapInArrow(body, StructType([*kept, *records]))


def kafka_internal(topic: Column | str, key: Column | str, value: Column | str) -> Column:
    """A record of an internal topic: struct<type, version, is_tombstone, key, value, problem>, key and value JSON.

    topic: its name; the result is null where that is no internal topic. A plain string names a column: for a constant
           say F.lit("__consumer_offsets")
    key, value: as Spark's Kafka source has them; it reads internal topics only where
           spark.sql.streaming.kafka.useDeprecatedOffsetFetching is true, otherwise it gives no rows and no error
    problem: why key or value could not be read; then they are null. Bad bytes never fail the query

    >>> records = source.select("offset", kafka_internal("topic", "key", "value").alias("r"))
    >>> records.where("r.type = 'OffsetCommit'").select("offset", F.get_json_object("r.value", "$.offset")).first()
    Row(offset=2, get_json_object(r.value, $.offset)='10')
    """
    columns = [F.col(each) if isinstance(each, str) else each for each in (topic, key, value)]
    return sql_function("kafka_internal")(*columns)  # type: ignore[no-any-return]


def kafka_internal_rows(
    df: DataFrame,
    topic: str,
    type: str,
    *,
    key: Column | str = "key",
    value: Column | str = "value",
    keep: Sequence[Column | str] = (),
) -> DataFrame:
    """The records of one type, each field a column with its own type: `key_group`, `value_offset`, ...

    topic, type: as in `kafkarec.internal_topics.schema(topic, type)`, which lists the columns; ValueError for others
    key, value: the binary columns of the records
    keep: columns of `df` to repeat in front, such as offset and timestamp
    Then follow version, is_tombstone, the fields, and `problem`: why key or value could not be read.
    From Spark's Kafka source: see kafka_internal, and read with kafka.isolation.level=read_committed.

    >>> commits = kafka_internal_rows(source, "__consumer_offsets", "OffsetCommit", keep=["offset"])
    >>> commits.select("offset", "key_group", "key_topic", "value_offset").first()
    Row(offset=2, key_group='readers-classic', key_topic='grouped', value_offset=10)
    """
    columns = internal.typed_columns(topic, type)
    pair = [F.col(each) if isinstance(each, str) else each for each in (key, value)]
    kept = df.select(*keep).schema.fields if keep else []
    typed = cast(StructType, StructType.fromDDL(schema.sql_columns(columns))).fields
    return df.select(*keep, *pair).mapInArrow(internal.TypedRows(topic, type), StructType([*kept, *typed]))
