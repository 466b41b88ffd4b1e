"""The log segments of a Kafka broker as a table, on Spark executors that do not have kafkarec installed.

    spark-submit --py-files wheelhouse/spark_udfs-<version>-py3-none-any.whl examples/decode_segments.py
    [FOLDER]

Without FOLDER: the segments of a real broker in examples/data, and 1 GiB of repeated real batches that
`make demo` wrote below .work/demo. With FOLDER: every .log file below it. Each step prints its own source
and then runs.
"""

import json
import sys
import time
from base64 import b64decode
from pathlib import Path

import report
from log_pieces import log_pieces
from pyspark.errors import PythonException
from pyspark.sql import Column, DataFrame, Observation, Row, SparkSession
from pyspark.sql import functions as F

import spark_udfs
from spark_udfs.functions import kafka_explode

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT / "examples" / "data"
DEMO = ROOT / ".work" / "demo"
FOLDER = Path(sys.argv[1]) if len(sys.argv) > 1 else DATA

spark = SparkSession.builder.appName("kafkarec").getOrCreate()

SEGMENT = F.regexp_extract("path", "[^/]+/[^/]+$", 0).alias("segment")
LOST = F.from_json("_corrupt_record", "position long, length long, lost_from long, lost_to long, reason string").alias(
    "lost"
)


# ---- the steps, each printed before it runs --------------------------------------------------------------


def register():
    print(spark_udfs.register(spark))


def bytes_before():
    files = segments(DATA)
    files.select(SEGMENT, F.length("content").alias("bytes")).orderBy("segment").show(truncate=False)
    print(report.hexdump(files.where("path LIKE '%/all-codecs-0/%'").first().content[:112]))


def table_after():
    records = kafka_explode(segments(DATA), "content", keep=["path"])
    records.where("path LIKE '%/all-codecs-0/%'").select(*readable()).orderBy("offset").show(3, truncate=48)


def the_same_in_sql():
    segments(DATA / "txn-0").createOrReplaceTempView("files")
    spark.sql("""
        SELECT path, count(*) AS records, min(offset) AS first, max(offset) AS last
        FROM (SELECT right(path, 30) AS path, inline_outer(kafka_decode(content)) FROM files)
        GROUP BY path ORDER BY path""").show(truncate=False)


def equal_to_a_consumer():
    records = kafka_explode(segments(DATA), "content", keep=["path"])
    rows = records.orderBy("path", "offset").collect()
    for consumed in sorted(DATA.glob("*/read_uncommitted.json")):
        partition = consumed.parent.name
        ours = [as_consumed(row) for row in rows if f"/{partition}/" in row.path]
        theirs = [as_text(record) for record in json.loads(consumed.read_text())["records"]]
        verdict = "equal" if ours == theirs else "DIFFERENT"
        print(f"{partition:14} {len(ours):4} rows, {len(theirs):4} records from the consumer: {verdict}")


def who_decoded():
    print(spark_udfs.doctor(spark))


def speed():
    gib, a_tenth = segments(DEMO / "gib"), segments(DEMO / "gib", "*00.log")
    for warm_up in pass_through(a_tenth), kafka_explode(a_tenth, "content"):
        warm_up.write.format("noop").mode("overwrite").save()
    best, began = {"Spark alone": 1e9, "decode + explode": 1e9}, time.monotonic()
    for number in range(4):  # the best of two rounds, or of more if there is time
        if number >= 2 and time.monotonic() - began > 40:
            break
        for name, records in zip(best, (pass_through(gib), kafka_explode(gib, "content")), strict=True):
            best[name] = min(best[name], timed(name, records, DEMO / "gib"))
    print(f"decode + explode at {best['Spark alone'] / best['decode + explode']:.0%} of Spark's own speed")


def one_byte_flipped_failfast():
    damaged = segments(DEMO / "flipped")
    try:
        kafka_explode(damaged, "content").count()
    except PythonException as error:
        print(report.first_line(error))


def one_byte_flipped_permissive():
    damaged = segments(DEMO / "flipped")
    rows = kafka_explode(damaged, "content", mode="PERMISSIVE", keep=["path"])
    rows.groupBy(SEGMENT).agg(F.count("offset").alias("records kept")).show(truncate=False)
    lost = rows.where("_corrupt_record IS NOT NULL").select(SEGMENT, LOST)
    lost.select("segment", "lost.*").show(truncate=False)


def your_segments():
    pieces = log_pieces(FOLDER)
    names, size = {path for path, _, _ in pieces}, sum(stop - start for _, start, stop in pieces)
    print(f"{FOLDER}: {len(names)} segments, {size:,} bytes")


def your_records():
    records = kafka_explode(contents(FOLDER), "content", mode="PERMISSIVE", keep=["path"])
    records.where("_corrupt_record IS NULL").select(SEGMENT, *readable()).show(5, truncate=40)


def your_partitions():
    rows = kafka_explode(contents(FOLDER), "content", mode="PERMISSIVE", keep=["path", "start"])
    sums = ["count(offset) AS records", "min(offset) AS first", "max(offset) AS last"]
    rows.groupBy(SEGMENT).agg(*map(F.expr, sums)).orderBy("segment").show(40, truncate=False)
    lost = rows.where("_corrupt_record IS NOT NULL").select(SEGMENT, "start", LOST)
    place = (F.col("start") + F.col("lost.position")).alias("byte")
    lost.select("segment", place, "lost.length", "lost.lost_from", "lost.lost_to", "lost.reason").show()


def your_speed():
    timed("decode + explode", kafka_explode(contents(FOLDER), "content", mode="PERMISSIVE"), FOLDER)


# ---- their functions -------------------------------------------------------------------------------------


def segments(folder: Path, names: str = "*.log") -> DataFrame:
    """path, content: every such file below `folder`, whole, read by Spark's own binaryFile source."""
    files = spark.read.format("binaryFile").option("recursiveFileLookup", "true")
    return files.option("pathGlobFilter", names).load(f"file://{folder}").select("path", "content")


def readable() -> list[Column]:
    """Keys and values as text, headers as name=value."""
    pair = lambda header: F.concat(header.key, F.lit("="), header.value.cast("string"))  # noqa: E731
    text = [F.col(name).cast("string").alias(name) for name in ("key", "value")]
    return [F.col("offset"), F.col("timestamp"), *text, F.transform("headers", pair).alias("headers")]


def as_consumed(row: Row) -> tuple[object, ...]:
    """A record of the consumer's JSON as a row of `as_text`."""
    kind = {0: "CreateTime", 1: "LogAppendTime", -1: "NoTimestampType"}[row.timestampType]
    headers = tuple((header.key, plain(header.value)) for header in row.headers or ())
    milliseconds = round(row.timestamp.timestamp() * 1000)
    return row.offset, milliseconds, kind, plain(row.key), plain(row.value), headers


def as_text(record: dict) -> tuple[object, ...]:
    fields = [record[name] for name in ("offset", "timestamp", "timestampType")]
    headers = tuple((name, decoded(value)) for name, value in record["headers"])
    return *fields, decoded(record["key"]), decoded(record["value"]), headers


def plain(value: bytearray | None) -> bytes | None:
    return None if value is None else bytes(value)


def decoded(text: str | None) -> bytes | None:
    return None if text is None else b64decode(text)


def contents(folder: Path) -> DataFrame:
    """path, start, content: pieces of some MB, cut between batches, so that any segment fits into executors."""
    rows = log_pieces(folder)
    plan = spark.createDataFrame(rows, "path string, start long, stop long")
    return plan.repartition(min(len(rows), 64)).mapInArrow(read_pieces, "path string, start long, content binary")


def read_pieces(batches):
    """Runs in the workers, which see the same file system here."""
    import pyarrow

    for batch in batches:
        for piece in batch.to_pylist():
            with open(piece["path"], "rb") as file:
                file.seek(piece["start"])
                content = file.read(piece["stop"] - piece["start"])
            row = {"path": [piece["path"]], "start": [piece["start"]], "content": [content]}
            yield pyarrow.RecordBatch.from_pydict(row)


def pass_through(logs: DataFrame) -> DataFrame:
    """Spark's own speed: the same bytes in and the same columns out, by a function without work.

    All segments of the 1 GiB decode to the same number of bytes, so each worker decodes the first batch it
    gets and returns that result for every batch of as many segments.
    """
    from spark_udfs import decoding
    from spark_udfs.function_options import FunctionOptions

    explode = decoding.Explode(FunctionOptions())

    def again(batches):
        import sys

        kept = sys.modules.setdefault("kafkarec_demo_kept", {})
        for batch in batches:
            if batch.num_rows not in kept:
                kept[batch.num_rows] = list(explode(iter([batch])))
            yield from kept[batch.num_rows]

    return logs.select("content").mapInArrow(again, kafka_explode(logs, "content").schema)


def timed(what: str, records: DataFrame, folder: Path) -> float:
    """Seconds to produce every column of every record; prints MB of log and records per second."""
    seen = Observation()
    began = time.monotonic()
    records.observe(seen, F.count(F.lit(1)).alias("records")).write.format("noop").mode("overwrite").save()
    seconds = time.monotonic() - began
    count = seen.get["records"]
    size = sum(stop - start for _, start, stop in log_pieces(folder))
    rates = f"{size / seconds / 1e6:6.0f} MB/s of log  {count / seconds / 1e6:5.2f} M records/s"
    print(f"{what:17} {seconds:5.1f} s  {rates}", flush=True)
    return seconds


SHIPPED = (
    ("The wheel reaches the executors", register),
    ("The bytes before", bytes_before),
    ("The table after", table_after),
    ("The same in SQL", the_same_in_sql),
    ("Rows equal to what a real consumer returned", equal_to_a_consumer),
    ("Who decoded: kafkarec was not installed there", who_decoded),
    ("Speed: 1 GiB of repeated real batches, beside what Spark itself can move", speed),
    ("One flipped byte, FAILFAST (the default)", one_byte_flipped_failfast),
    ("One flipped byte, PERMISSIVE: every other batch is kept", one_byte_flipped_permissive),
)
YOURS = (
    ("The wheel reaches the executors", register),
    ("Your segments", your_segments),
    ("Your records", your_records),
    ("Your partitions, and what is damaged", your_partitions),
    ("Who decoded: kafkarec was not installed there", who_decoded),
    ("Speed", your_speed),
)

if __name__ == "__main__":
    try:
        for number, (title, step) in enumerate(YOURS if len(sys.argv) > 1 else SHIPPED, 1):
            report.show(number, title, step)
    finally:
        spark.stop()  # before the exception is shown: executors that still run would print their exceptions
