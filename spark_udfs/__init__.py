"""Kafka record batches in Spark: decode, explode and scan columns of raw bytes with kafkarec.

    spark-submit --py-files wheelhouse/spark_udfs-<version>-py3-none-any.whl app.py

    import spark_udfs
    spark_udfs.register(spark)      # ships kafkarec to the executors, registers the SQL functions
    spark.sql("SELECT inline_outer(kafka_decode(value)) FROM raw")

    from spark_udfs import functions as K
    df.select(K.kafka_decode("value", mode="PERMISSIVE"))
    K.kafka_explode(df, "value", keep=["source"])

| file | what |
|---|---|
| registration | `register(spark)`: registers the SQL functions and the data source |
| shipping | adds the wheel to the session's files, so that executors can import it |
| cluster | whether a session uses Spark Connect; calls a function in a task |
| functions | the SQL functions, also as Column functions, and DataFrame functions |
| capabilities, errors | what this pyspark has, and what takes its place where it is missing |
| schema | the one table of columns: kafkarec's name, Spark's name, Spark type, Arrow type |
| decoding | runs in the workers: Arrow arrays of bytes in, Arrow arrays of structs out |
| encoding | runs in the workers of `kafka_encode`: arrays of structs in, raw batches out |
| arrow_in_pandas | runs in the workers of a pyspark without Arrow functions |
| udtf | `LATERAL kafka_explode(value)`: a table function |
| internal | runs in the workers: decodes the records of internal topics |
| arguments | the arguments of a SQL function, as Spark passes them |
| function_options | the options of kafka_decode and kafka_scan, checked on the driver |
| source/ | `spark.read`, `df.write`, `readStream` and `writeStream` with `format("kafkarec")` |
| read_functions | `read_log(spark, path)`: the rows of the data source by mapInArrow |
| write_functions | `write_log(df, path)`: writes records with the offsets they have to partition folders |
| table_writing | `write_table(spark, path, out)`: tasks write the records to a table of Parquet files |
| counting | `count(spark, path)`: the number of records, by the headers of their batches |
| offsets_by_time | `offsets_at(spark, path, time)`: the offset at a time, in each partition |
| damage | `damage_report(spark, path)`: which bytes of which files are damaged |
| worker_errors, task_log | what a worker reports and logs when it fails: the cause first |
| stream_lag | `lag(query)`: how many offsets a stream has still to read |
| diagnosis | `doctor(spark)`: the Python and kafkarec of each executor |
| bootstrap | makes kafkarec's compiled packages importable on executors; standard library only |

Importing this package imports neither pyspark nor kafkarec.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .bootstrap import Activation, BootstrapError, activate
from .errors import Conflict, NeedsNewerSpark

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import date

    from .counting import RecordCount
    from .damage import DamageReport
    from .diagnosis import Diagnosis
    from .registration import Registered
    from .stream_lag import Lag
    from .table_writing import WrittenTable

__all__ = [
    "Activation",
    "BootstrapError",
    "Conflict",
    "NeedsNewerSpark",
    "activate",
    "count",
    "damage_report",
    "doctor",
    "lag",
    "offsets_at",
    "read_log",
    "register",
    "sweep",
    "write_log",
    "write_table",
]


def register(spark: Any, *, rows_at_once: int | None = None) -> Registered:
    """Ships kafkarec to the executors of this session and registers its SQL functions; may be called again.

    spark         a SparkSession, classic or Connect
    rows_at_once  sets spark.sql.execution.arrow.maxRecordsPerBatch of this session, the values that Spark holds in its
                  heap for a SQL function: 500 for values of 10 kB and more. None: leaves it as it is

    Returns a printable table of what is registered.
    """
    from .registration import register as run

    return run(spark, rows_at_once)


def doctor(spark: Any) -> Diagnosis:
    """Runs a small job and reports, per executor: Python, libc, cache path, wheels, versions. Also which settings of
    Spark are faster. Printable."""
    from .diagnosis import doctor as run

    return run(spark)


def read_log(spark: Any, path: str | Iterable[str], **options: Any) -> Any:
    """The rows of spark.read.format("kafkarec").load(path) by mapInArrow; for Spark 3.5.

    path     files, folders, globs or URLs
    options  of that source, as Python values: subscribe="orders", columns=["offset", "value"], view="batches", ...

    Returns a DataFrame. The files are listed, and options checked, at once; tasks read what was listed then.

    >>> read_log(spark, "tests/vectors/segments", subscribe="txn").groupBy("topic", "partition").count().first()
    Row(topic='txn', partition=0, count=267)
    """
    from .read_functions import read_log as run

    return run(spark, path, **options)


def write_log(df: Any, path: str, *, mode: str = "append", **options: Any) -> None:
    """Writes records with their offsets to partition folders below `path`; each partition by one task, sorted.

    df       columns topic (or the option topic), partition, offset and value; key, headers and timestamp are optional
    path     the folder that holds the partitions' folders; driver and executors must share it
    mode     "append": offsets must follow the end of the existing log; "overwrite": replaces the partitions of df
    options  of df.write.format("kafkarec"): compression="zstd", segmentBytes="256m", ...

    ValueError for a missing column. An offset that occurs twice in a partition fails the job, and nothing is published.
    """
    from .write_functions import write_log as run

    run(df, path, mode=mode, **options)


def write_table(
    spark: Any,
    path: str | Iterable[str],
    out: str,
    *,
    format: str = "parquet",
    partition_by: str | Iterable[str] = ("topic", "date"),
    columns: Sequence[str] | None = None,
    value_as: str | None = None,
    compression: str = "zstd",
    mode: str = "append",
    read_mode: str = "FAILFAST",
    **options: Any,
) -> WrittenTable:
    """Writes the records of logs to a table, a folder of Parquet files; the tasks write them, no row passes the JVM.

    path          files, folders, globs or URLs, as for spark.read.format("kafkarec")
    out           a new folder that driver and executors share, a table that write_table has made, or a URL of one
    format        "parquet"; "iceberg" and "delta" are a ValueError
    partition_by  some of topic, partition, date (the UTC day of the timestamp) and the keys of key=value folders
    columns       as the option of that source: without it key, value, topic, partition, offset, timestamp, ...
    value_as      "utf8": the value is a string, and bytes that are not UTF-8 are a ValueError. None: bytes
    compression   "zstd", "snappy", "gzip", "lz4" or "none"
    mode          "append": what the table lacks, by the offsets of its last commit; "overwrite"; "errorifexists"
    read_mode     the source's option mode. "FAILFAST": damage fails the job. "PERMISSIVE", "DROPMALFORMED": it is left
                  out, and stands in the result and in <out>/_quarantine, as JSON Lines
    options       of that source, as Python values: subscribe="orders", isolationLevel="read_committed", ...

    All of a call is in the table, or nothing. DataLoss where a log ends before the table's end, or begins after it:
    failOnDataLoss=False continues with the records that exist. Conflict if another job has changed the table meanwhile.

    >>> write_table(spark, "tests/vectors/segments", "table", subscribe="txn").offsets
    {'txn': {0: [0, 293]}}
    """
    from .table_writing import write_table as run

    return run(
        spark,
        path,
        out,
        format=format,
        partition_by=partition_by,
        columns=columns,
        value_as=value_as,
        compression=compression,
        mode=mode,
        read_mode=read_mode,
        **options,
    )


def sweep(
    path: str,
    older_than_hours: float = 24.0,
    *,
    spark: Any = None,
    storage_options: Mapping[str, Any] | None = None,
) -> list[str]:
    """Removes what jobs of dead drivers have left below `path`, also in a table, and finishes their commits.

    A job with a file younger than `older_than_hours` may still be running and is left unchanged. Returns the ids of the
    jobs that were removed.

    spark: the session; needed with Spark Connect only, where a task does the work and `path` is a path of the cluster.
        Without it, `path` is a path of this machine; FileNotFoundError if there is no such folder
    storage_options: for a URL, as the option storageOptions of the job; None: from the environment
    """
    from .write_functions import sweep as run

    return run(path, older_than_hours, spark, storage_options)


def count(spark: Any, path: str | Iterable[str], **options: Any) -> RecordCount:
    """The number of records: that of spark.read.format("kafkarec").load(path).count(), many times faster.

    path     files, folders, globs or URLs
    options  of that source, as Python values: subscribe="orders", startingOffsets, isolationLevel, includeControl, ...

    The result is an int; its `.partitions` has the records of each partition: {"orders-0": 70, ...}.

    The headers of batches have the numbers, so nothing is decompressed, except the batches that a bound of the offsets
    cuts, and those of magic 0 and 1, whose headers have none. Checksums are checked, and damage is treated as by the
    source: FAILFAST raises its error, the other modes count the records that they would return. What only decoding
    shows is not seen: records that do not agree with a header whose checksum is right.

    checkCrcs=False reads headers only, and counts the records of damaged payloads.

    >>> count(spark, "tests/vectors/segments", subscribe="txn", isolationLevel="read_committed").partitions
    {'txn-0': 176}
    """
    from .counting import count as run

    return run(spark, path, **options)


def offsets_at(
    spark: Any, path: str | Iterable[str], time: int | str | date, **options: Any
) -> dict[str, dict[int, int]]:
    """The offset of the first record at or after a time: {"orders": {0: 42, 1: 57}}.

    path     files, folders, globs or URLs
    time     milliseconds since 1970, an aware datetime, a date, or a text such as 2026-11-01T12:30+02:00 (UTC without a
             zone), as the option startingTimestamp takes it
    options  of the data source: subscribe, subscribePattern, assign, storageOptions, basePath, where, failOnDataLoss

    A partition without a record that late has its end: the offset of the next record that is written. So each number is
    valid in startingOffsets and endingOffsets: `.option("endingOffsets", json.dumps(offsets_at(...)))`.

    It is what KafkaConsumer.offsetsForTimes has: the record may be a transaction marker, and if times do not rise with
    offsets, later records may be older than `time`.

    >>> offsets_at(spark, "tests/vectors/segments", "2023-11-14T22:13:20.300Z", subscribe="txn")
    {'txn': {0: 30}}
    """
    from .offsets_by_time import offsets_at as run

    return run(spark, path, time, **options)


def damage_report(spark: Any, path: str | Iterable[str], **options: Any) -> DamageReport:
    """Reads and checks every batch below `path` on the executors; reports each damaged range. Printable.

    path     files, folders, globs or URLs, as for spark.read.format("kafkarec")
    options  of that source: subscribe, subscribePattern, assign, where, basePath, storageOptions, maxPartitionBytes,
             minPartitions, splitScan, checkCrcs, restore, maxDecompressedBytes, endOfLog

    `.rows` and `.frame` (a DataFrame) have one row per damaged range: topic, partition, file, position, length,
    lost_from, lost_to, next_position, reason, detail. They are the ranges that mode PERMISSIVE returns with the same
    options, and offsets that no segment has, between two (reason segment_gap). `.files` has sums per file, and where a
    log stops in mid-batch: `incomplete`, `incomplete_position`, `last_offset`; with endOfLog="strict" that is a damaged
    range, too. A file that cannot be read is damage with the reason `unreadable`; damage never fails the job.

    >>> print(damage_report(spark, "tests/vectors/segments/txn-0"))
    0 of 2 files damaged: 0 ranges, 0 of 18016 bytes; 149 batches with 267 records and 26 control records are good
    """
    from .damage import damage_report as run

    return run(spark, path, **options)


def lag(of: Any) -> Lag | None:
    """The lag of a stream in offsets. Printable. None if the query has made no progress report yet.

    of: a StreamingQuery, one of its progress reports (also as dict or JSON), or the event of a StreamingQueryListener

    `.partitions` is {"clicks-0": 70, ...}, `.total` their sum; `.metrics` uses the names of the metrics of Spark's
    Kafka source. Queries that read from Spark's Kafka source are accepted too.
    """
    from .stream_lag import lag as run

    return run(of)
