"""Column functions and DataFrame functions. Arguments are checked here, on the driver.

    from spark_udfs import functions as K

    df.select(K.kafka_decode("value").alias("records"))            # array<struct<topic, ..., headers>>
    df.select("source", F.inline_outer(K.kafka_decode("value", mode="PERMISSIVE")))
    K.kafka_explode(df, "value", keep=["source"])                  # one row per record, the fastest way
    df.select(K.kafka_encode("records", "zstd"))                   # the inverse: array<struct<...>> to raw batches
    df.select(F.inline(K.kafka_scan("value")))                     # one row per batch, headers only

A NULL value becomes NULL and an empty value an empty array; `inline` and `kafka_explode` drop both, and `inline_outer`
keeps them.
FAILFAST (the default, as `from_avro`) fails the query at the first damage; its message names byte and
offset. PERMISSIVE never fails on bad bytes: each damaged range is one element in which only
`_corrupt_record` is set, JSON with position, length, lost_from, lost_to, next_position, reason and detail;
the good records around it stay.

In the examples below `df` has two segments of a broker (file, value), `source` the records of its __consumer_offsets
(topic, offset, key, value).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, NullType, StructType

from . import capabilities, cluster, decoding, encoding, function_options, internal, schema
from .function_options import FunctionOptions
from .source import columns


class SqlFunction(NamedTuple):
    """A function of Spark SQL that is also a Column function of this module, with the name of its body.

    body: runs in the workers: an iterator of Arrow arrays to an iterator of Arrow arrays
    result: its type in Spark SQL
    call, meaning: what `register` prints
    """

    body: Callable[..., Any]
    result: str
    call: str
    meaning: str


SQL_FUNCTIONS = {
    function.body.__name__: function
    for function in (
        SqlFunction(
            decoding.kafka_decode,
            f"array<{schema.sql_struct(schema.RECORD_COLUMNS)}>",
            "kafka_decode(value[, mode])",
            "the records of a column of raw batches",
        ),
        SqlFunction(
            decoding.kafka_scan,
            f"array<{schema.sql_struct(schema.BATCH_COLUMNS)}>",
            "kafka_scan(value[, mode])",
            "the batches of such a column, headers only, nothing decompressed",
        ),
        SqlFunction(
            encoding.kafka_encode,
            "binary",
            "kafka_encode(records[, options])",
            "array<struct<offset, timestamp, key, value, headers>> to raw batches",
        ),
        SqlFunction(
            internal.kafka_internal,
            schema.sql_struct(internal.COLUMNS),
            "kafka_internal(topic, key, value)",
            "a record of __consumer_offsets, __transaction_state, ... as JSON",
        ),
    )
}


def sql_function(name: str) -> Any:
    """The Arrow function of `SQL_FUNCTIONS`, for `spark.udf.register` and for calls on Columns."""
    return capabilities.arrow_function(SQL_FUNCTIONS[name].body, SQL_FUNCTIONS[name].result)


def _call(name: str, *arguments: Column | str, options: str | None = None) -> Column:
    """A call of a SQL function; its options are a last argument, if there are any."""
    session = SparkSession.getActiveSession()
    if session is not None:
        cluster.ship(session)
    literals = [] if options is None else [F.lit(options)]
    return sql_function(name)(*map(_column, arguments), *literals)  # type: ignore[no-any-return]


def _column(col: Column | str) -> Column:
    return F.col(col) if isinstance(col, str) else col


def kafka_decode(
    col: Column | str,
    mode: str = "FAILFAST",
    *,
    check_crcs: bool = True,
    max_decompressed_bytes: int = FunctionOptions.max_decompressed_bytes,
    max_output_bytes: int = FunctionOptions.max_output_bytes,
    control: bool = False,
    restore: bool = True,
    end_of_log: str = "tail",
    max_value_bytes: int = FunctionOptions.max_value_bytes,
) -> Column:
    """The records of a binary column of raw batches: array<struct<...>>, names as in Spark's Kafka source.

    col: binary; each value one or many batches, magics 0, 1, 2 mixed, any codec
    mode: FAILFAST or PERMISSIVE, see the docstring of this module
    check_crcs: verify checksums
    max_value_bytes: a larger value is refused: Spark holds values in its heap several times; for files there is the
        data source
    max_decompressed_bytes: limit of one value, all its compressed payloads together; above it: limit_exceeded
    max_output_bytes: a task sends its output in pieces of about this size, cut between values
    control: also the records of control batches (transaction markers)
    restore: PERMISSIVE returns batches of which only length or magic is damaged and the checksum proves the right one
    end_of_log: tail leaves an incomplete batch at a value's end out, as a consumer does: a Fetch response often ends in
        one; strict makes it damage. In SQL: kafka_decode(value, '{"mode": "PERMISSIVE", "end_of_log": "strict"}')

    >>> df.select("file", kafka_decode("value")[0]["offset"].alias("first")).orderBy("file").collect()
    [Row(file='00000000000000000000.log', first=0), Row(file='00000000000000000030.log', first=31)]
    """
    chosen = function_options.from_arguments(locals())
    return _call("kafka_decode", col, options=function_options.to_literal(chosen))


def kafka_scan(col: Column | str, mode: str = "FAILFAST", *, end_of_log: str = "tail") -> Column:
    """The batches of a binary column of raw record batches, from their headers alone: array<struct<...>>.

    mode, end_of_log: as for kafka_decode

    >>> batches = df.select(F.inline(kafka_scan("value")))
    >>> batches.groupBy("compression").count().orderBy("compression").collect()[:2]
    [Row(compression='gzip', count=24), Row(compression='lz4', count=49)]
    """
    chosen = function_options.from_keywords(mode=mode, end_of_log=end_of_log)
    return _call("kafka_scan", col, options=function_options.to_literal(chosen))


def kafka_encode(
    col: Column | str,
    compression: str = "none",
    *,
    level: int | None = None,
    magic: int | str = 2,
    batch_size: int | None = None,
    base_offset: int | None = None,
) -> Column:
    """The inverse of kafka_decode: an array of records to a binary of raw batches, one after the other.

    col: array<struct<...>>, fields as in kafka_decode's struct: offset, timestamp, timestampType, key, value, headers.
         Missing ones are null (offsets: counted from 0); topic and partition are ignored. key, value: binary or
         string; timestamp: timestamp, or bigint of ms. Offsets must rise: sort_array(collect_list(struct(offset, ...)))
    compression: the name of a codec, such as zstd; level: None is Kafka's default
    magic: 2, 1 or 0
    batch_size: bytes of a batch before it is compressed; None: 16384, as batch.size of a producer
    base_offset: offset of the first record; None: the records' own offsets

    A null array becomes null, an empty array an empty binary. Records that cannot be encoded fail the query: offsets
    that do not rise, a null struct, an element with _corrupt_record. The message names the row, its offsets and the
    record. kafka_decode of the result returns the same structs, except that a record of magic 0, whose timestampType is
    -1, has a timestamp type when it is written with magic 2.

    >>> orders = spark.createDataFrame([(7, 0, b"a"), (7, 1, None)], "id int, offset bigint, value binary")
    >>> arrays = orders.groupBy("id").agg(F.sort_array(F.collect_list(F.struct("offset", "value"))).alias("records"))
    >>> raw = arrays.select(kafka_encode("records", "lz4").alias("raw"))
    >>> raw.select(F.inline(kafka_decode("raw"))).select("offset", "timestamp", "value").collect()
    [Row(offset=0, timestamp=None, value=b'a'), Row(offset=1, timestamp=None, value=None)]
    """
    given = {name: each for name, each in locals().items() if name in encoding.OPTIONS}
    return _call("kafka_encode", col, options=encoding.to_literal(given))


def kafka_explode(
    df: DataFrame,
    col: Column | str,
    mode: str = "FAILFAST",
    *,
    keep: str | Sequence[Column | str] = (),
    check_crcs: bool = True,
    max_decompressed_bytes: int = FunctionOptions.max_decompressed_bytes,
    max_output_bytes: int = FunctionOptions.max_output_bytes,
    control: bool = False,
    restore: bool = True,
    end_of_log: str = "tail",
    max_value_bytes: int = FunctionOptions.max_value_bytes,
) -> DataFrame:
    """One row per record of a binary column: the columns of `keep`, then those of `kafka_decode`'s struct.

    col: a binary column; TypeError for another type
    keep: columns of `df` to repeat for each record, or the name of one; none by default
    The other arguments are those of `kafka_decode`; pieces of output are cut between records.

    >>> rows = kafka_explode(df, "value", "PERMISSIVE", keep=["file"]).where("offset > 30")
    >>> rows.groupBy("file").count().collect()
    [Row(file='00000000000000000030.log', count=237)]
    """
    chosen = function_options.from_arguments(locals())
    if not hasattr(type(df), "mapInArrow"):
        raise TypeError(f"the call is kafka_explode(df, col); df must be a DataFrame, not {type(df).__name__}")
    selected = df.select(*([keep] if isinstance(keep, str) else keep), _column(col))
    *kept, given = selected.schema.fields
    if not isinstance(given.dataType, BinaryType | NullType):
        raise TypeError(
            f"kafka_explode takes a binary column; {given.name} is {given.dataType.simpleString()}. "
            f"Bytes as text: unbase64({given.name}) or unhex({given.name})"
        )
    cluster.ship(df.sparkSession)
    records = columns.spark_schema(schema.RECORD_COLUMNS).fields
    names = [field.name.lower() for field in [*kept, *records]]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(
            f"keep has columns that a record has too: {', '.join(twice)}; "
            f'rename them, as in keep=[F.col("{twice[0]}").alias("source_{twice[0]}")]'
        )
    return selected.mapInArrow(decoding.Explode(chosen), StructType([*kept, *records]))


def kafka_internal(topic: Column | str, key: Column | str, value: Column | str) -> Column:
    """A record of an internal topic: struct<type, version, is_tombstone, key, value, problem>, key and value JSON.

    topic: its name; the result is null for other topics. A plain string names a column: for a constant use
           F.lit("__consumer_offsets")
    key, value: as Spark's Kafka source has them; it reads internal topics only where
           spark.sql.streaming.kafka.useDeprecatedOffsetFetching is true, otherwise it returns no rows, and no error
    problem: why key or value could not be read; that one is then null. Bad bytes never fail the query

    >>> records = source.select("offset", kafka_internal("topic", "key", "value").alias("r"))
    >>> records.where("r.type = 'OffsetCommit'").select("offset", F.get_json_object("r.value", "$.offset")).first()
    Row(offset=2, get_json_object(r.value, $.offset)='10')
    """
    return _call("kafka_internal", topic, key, value)


__all__ = [*SQL_FUNCTIONS, "kafka_explode"]
