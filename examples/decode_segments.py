"""The log segments of a Kafka broker as a table, on Spark executors that do not have kafkarec installed.

    spark-submit --py-files wheelhouse/spark_udfs-<version>-py3-none-any.whl examples/decode_segments.py [FOLDER]

Without FOLDER: the segments of a real broker in examples/data, and 1 GiB of repeated real batches that `make demo`
wrote below .work/demo. With FOLDER: every .log file below it.
Each step prints its own source before it runs: what is shown is what was run.
"""

import inspect
import json
import sys
import textwrap
from base64 import b64decode
from datetime import timedelta
from pathlib import Path

import report
import spark_udfs
from ceiling import pass_through, predecode
from pyspark.errors import PythonException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from spark_udfs.functions import kafka_explode

HERE = Path(__file__).resolve().parent
DEMO = HERE.parent / ".work" / "demo"
DATA = HERE / "data"


def segments(spark: SparkSession, folder: Path) -> DataFrame:
    """Every .log file below `folder`: path, modificationTime, length, content."""
    files = spark.read.format("binaryFile").option("recursiveFileLookup", "true")
    return files.option("pathGlobFilter", "*.log").load(f"file://{folder}")


def step_register(spark):
    """The wheel reaches the executors; the SQL functions are there"""
    print(spark_udfs.register(spark))


def step_before(spark):
    """The bytes before"""
    files = segments(spark, DATA)
    files.select(
        F.regexp_extract("path", "([^/]+/[^/]+)$", 1).alias("segment"),
        "length",
        F.lower(F.hex(F.substring("content", 1, 24))).alias("first 24 bytes"),
    ).orderBy("segment").show(truncate=False)


def step_after(spark):
    """The table after"""
    records = kafka_explode(segments(spark, DATA / "all-codecs-0"), "content")
    records.select(
        "offset",
        "timestamp",
        F.col("key").cast("string"),
        F.col("value").cast("string"),
        F.transform("headers", lambda h: F.concat(h.key, F.lit("="), h.value.cast("string"))).alias("headers"),
    ).orderBy("offset").show(4, truncate=False)


def step_sql(spark):
    """The same in SQL"""
    segments(spark, DATA / "txn-0").createOrReplaceTempView("segments")
    spark.sql("""
        SELECT regexp_extract(path, '([^/]+)$', 1) AS segment, count(*) AS records,
               min(r.offset) AS first, max(r.offset) AS last
        FROM (SELECT path, inline_outer(kafka_decode(content)) FROM segments) AS r
        GROUP BY ALL ORDER BY segment""").show(truncate=False)
