"""Everything that a user can do, one step after another in one session; written for every Spark from 3.5 on.

Arguments: the result's path, the vectors' folder, a folder to write to. Each step's result is its rows, or its error.
"""

import json
import shutil
import sys
import time
import traceback
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
from json_values import plain
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import spark_udfs
from spark_udfs import arrow_in_pandas
from spark_udfs import functions as K

OUT, VECTORS, WORK = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
SEGMENTS = VECTORS / "segments"
COLUMNS = ["offset", "unix_micros(timestamp)", "timestampType", "key", "value", "headers"]
COLUMNS += ["topic", "partition", "_corrupt_record"]
FROM_FILES = ["topic", "partition", "offset", "unix_micros(timestamp)", "timestampType", "key", "value", "headers"]
BATCHES = ["name", "position", "crc", "record_count", "compression", "timestampType", "unix_micros(max_timestamp)"]
HEADERS = {"includeHeaders": "true"}
RISING = (
    "v2-none-logappend",
    "v2-gzip-headers",
    "v2-zstd-transactional",
    "v1-lz4-gaps",
    "v2-null-key-null-value",
    "v2-ts-large-deltas",
)
results = {}
STEPS = []


def step(function):
    STEPS.append(function)
    return function


def files(folder):
    return [(path.stem, path.read_bytes()) for path in sorted((VECTORS / folder).glob("*.bin"))]


def table(frame_rows, name):
    frame = spark.createDataFrame(frame_rows, "name string, v binary").repartition(2, "name")
    frame.createOrReplaceTempView(name)
    return frame


def by_name(frame):
    """Return rows by name; the order of the records within a name is part of the result."""
    found = {}
    for row in frame.collect():
        found.setdefault(row[0], []).append(plain(list(row)[1:]))
    return found


def listed(frame):
    return sorted((plain(list(row)) for row in frame.collect()), key=json.dumps)


def of_files(frame):
    return listed(frame.selectExpr(*FROM_FILES))


def message(action):
    try:
        action()
    except Exception as error:
        return str(error)


def new_log(name, *segments):
    """A partition folder with some segments of txn-0, by base offset."""
    folder = WORK / name / "txn-0"
    folder.mkdir(parents=True, exist_ok=True)
    for base in segments:
        shutil.copy(SEGMENTS / "txn-0" / f"{base:020}.log", folder)
    return str(WORK / name)


def new_gap(name):
    """A log whose last segment begins at offset 400; the one before ends at 293."""
    import kafkarec

    path = new_log(name, 0, 30)
    (WORK / name / "txn-0" / f"{400:020}.log").write_bytes(kafkarec.encode([(400, 0, None, b"", [])]))
    return path


def internal():
    """The records of __consumer_offsets, and one of another topic."""
    groups = spark.read.format("binaryFile").load(str(SEGMENTS / "__consumer_offsets-0" / "*.log"))
    topic = F.when(F.col("offset") == 0, "orders").otherwise("__consumer_offsets")
    return K.kafka_explode(groups, "content").withColumn("topic", topic)


# ---- functions of columns


@step
def register():
    again = spark_udfs.register(spark)
    return [str(first), str(again) == str(first)]


@step
def doctor():
    found = spark_udfs.doctor(spark)
    return [found.healthy, str(found)]


@step
def arrow_values():
    """Whether the values of the functions stay Arrow arrays in the workers; null: this pyspark has Arrow functions."""
    from pyspark.sql.pandas import functions

    if hasattr(functions, "arrow_udf"):
        return None

    def probe(batches):
        for batch in batches:
            yield batch.append_column("kept", [arrow_in_pandas.worker_serializer_class() is not None]).select(["kept"])

    return [row.kept for row in spark.range(0, 1, 1, 1).mapInArrow(probe, "kept boolean").collect()]


@step
def sql_decode():
    return by_name(
        spark.sql(f"SELECT name, {', '.join(COLUMNS)} FROM (SELECT name, inline_outer(kafka_decode(v)) FROM good)")
    )


@step
def sql_decode_permissive():
    decoded = "SELECT name, inline_outer(kafka_decode(v, 'PERMISSIVE')) FROM bad"
    return by_name(spark.sql(f"SELECT name, {', '.join(COLUMNS)} FROM ({decoded})"))


@step
def sql_scan():
    return by_name(spark.sql(f"SELECT {', '.join(BATCHES)} FROM (SELECT name, inline(kafka_scan(v)) FROM good)"))


@step
def sql_encode():
    again = "kafka_decode(kafka_encode(kafka_decode(v), 'lz4'))"  # one function gets the values of another
    return by_name(
        spark.sql(f"SELECT name, {', '.join(COLUMNS)} FROM (SELECT name, inline_outer({again}) FROM rising)")
    )


@step
def sql_internal():
    internal().createOrReplaceTempView("source")
    return listed(spark.sql("SELECT offset, kafka_internal(topic, key, value) AS r FROM source"))


@step
def column_functions():
    good = spark.table("good")
    decoded = good.select("name", F.inline_outer(K.kafka_decode("v", control=True, max_output_bytes=1)))
    encoded = spark.table("rising").select("name", K.kafka_encode(K.kafka_decode("v"), "zstd").alias("v"))
    return {
        "decode": by_name(decoded.selectExpr("name", *COLUMNS)),
        "scan": by_name(good.select("name", F.inline(K.kafka_scan("v"))).selectExpr(*BATCHES)),
        "encode": by_name(encoded.select("name", F.inline_outer(K.kafka_decode("v"))).selectExpr("name", *COLUMNS)),
        "internal": listed(internal().select("offset", K.kafka_internal("topic", "key", "value"))),
    }


@step
def in_new_york():
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        return {
            "decode": sql_decode(),
            "encode": sql_encode(),
            "files": of_files(spark_udfs.read_log(spark, str(SEGMENTS / "txn-0"), **HEADERS)),
        }
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")


@step
def beside_a_function_of_the_user():
    """Spark passes the values of one iterator function directly to the next."""
    from pyspark.sql.functions import pandas_udf

    def twice(batches: Iterator[pd.Series]) -> Iterator[pd.Series]:
        for values in batches:
            yield values.map(lambda value: value + value)

    def sizes(batches: Iterator[pd.Series]) -> Iterator[pd.Series]:
        return (values.map(len) for values in batches)

    twice, sizes = pandas_udf(twice, "binary"), pandas_udf(sizes, "int")
    rising = spark.table("rising")
    return {
        "before": by_name(rising.select("name", F.size(K.kafka_decode(twice("v"))))),
        "after": by_name(rising.select("name", sizes(K.kafka_decode("v")))),
    }


@step
def failfast():
    return message(lambda: spark.sql("SELECT kafka_decode(v) FROM spoiled").collect())


# ---- functions of DataFrames


@step
def explode():
    frame = K.kafka_explode(spark.table("good"), "v", keep=["name"])
    return by_name(frame.selectExpr("name", *COLUMNS))


@step
def damage_report():
    report = spark_udfs.damage_report(spark, str(WORK / "damaged"))
    return [str(report), listed(report.frame.drop("file", "detail"))]


@step
def read_log():
    path = str(SEGMENTS)
    committed = {"subscribe": ["txn", "all-codecs"], "isolationLevel": "read_committed", "maxPartitionBytes": "8k"}
    few = {"subscribe": "txn", "columns": ["offset", "_file_position"], "startingOffsets": {"txn": {"0": 100}}}
    damaged = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": "bad", "columns": ["offset", "bad"]}
    spark_udfs.read_log(spark, new_gap("gap-read_log")).count()
    return {
        "all": of_files(spark_udfs.read_log(spark, path, subscribe=["txn", "all-codecs"], includeHeaders=True)),
        "committed": of_files(spark_udfs.read_log(spark, path, includeHeaders=True, **committed)),
        "few": listed(spark_udfs.read_log(spark, path, **few)),
        "batches": spark_udfs.read_log(spark, path, subscribe="txn", view="batches").count(),
        "damaged": listed(spark_udfs.read_log(spark, str(WORK / "damaged"), **damaged)),
        "none": spark_udfs.read_log(spark, path, subscribe="txn", endingOffsets={"txn": {"0": 0}}).count(),
    }


@step
def end_of_log():
    """A log, and a value of it, that stop in the middle of their last batch."""
    folder, data = WORK / "cut" / "txn-0", (SEGMENTS / "txn-0" / f"{30:020}.log").read_bytes()[:-5]
    folder.mkdir(parents=True)
    (folder / f"{30:020}.log").write_bytes(data)
    path, kept = str(folder), {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": "bad", "columns": ["offset", "bad"]}
    values = table([("cut", data)], "cut_values")
    json_options = json.dumps({"mode": "PERMISSIVE", "end_of_log": "strict"})
    decoded = "SELECT offset, _corrupt_record FROM (SELECT inline(kafka_decode(v{})) FROM cut_values)"
    return {
        "tail": spark_udfs.read_log(spark, path).count(),
        "strict": listed(spark_udfs.read_log(spark, path, endOfLog="strict", **kept).where("bad IS NOT NULL")),
        "failfast": message(lambda: spark_udfs.read_log(spark, path, endOfLog="strict").count()),
        "report": str(spark_udfs.damage_report(spark, path)),
        "values": spark.sql(decoded.format("")).count(),
        "strict values": listed(spark.sql(decoded.format(f", '{json_options}'")).where("_corrupt_record IS NOT NULL")),
        "strict column": message(values.select(K.kafka_decode("v", end_of_log="strict")).collect),
    }


@step
def count():
    path = str(SEGMENTS)
    committed = {"subscribe": ["txn", "all-codecs"], "isolationLevel": "read_committed", "maxPartitionBytes": "8k"}
    everything = spark_udfs.count(spark, path)
    return {
        "all": [everything, everything.partitions],
        "committed": spark_udfs.count(spark, path, **committed).partitions,
        "read": spark_udfs.read_log(spark, path).count(),
        "damaged": spark_udfs.count(spark, str(WORK / "damaged"), mode="PERMISSIVE"),
        "failfast": message(lambda: spark_udfs.count(spark, str(WORK / "damaged"))),
    }


@step
def offsets_at():
    path = str(SEGMENTS)
    found = spark_udfs.offsets_at(spark, path, "2023-11-14T22:13:20.005Z", subscribe=["txn", "all-codecs"])
    return [found, spark_udfs.count(spark, path, subscribe=["txn", "all-codecs"], startingOffsets=found)]


@step
def write_log():
    records = spark.range(100).selectExpr("'made' AS topic", "int(id % 2) AS partition", "id AS offset")
    records = records.selectExpr(
        "*", "string(offset) AS value", "timestamp_millis(1700000000000 + offset) AS timestamp"
    )
    path = str(WORK / "written")
    for some in (records.where("offset < 60"), records.where("offset >= 60")):
        spark_udfs.write_log(some, path, compression="lz4")
    return message(lambda: spark_udfs.write_log(records.where("offset < 10"), path))


@step
def write_table():
    """A table of the first segment, of the second one too, and again of nothing new."""
    path, out, calls = new_log("table-log", 0), str(WORK / "table"), []
    for segments in ((0,), (0, 30), (0, 30)):
        new_log("table-log", *segments)
        written = spark_udfs.write_table(spark, path, out, **HEADERS)
        calls.append([written.rows, written.offsets["txn"][0]])
    rows = spark.read.parquet(out)
    days = sorted(str(row.date) for row in rows.select("date").distinct().collect())
    return {"calls": calls, "rows": of_files(rows), "days": days}


# ---- what needs data sources


@step
def lateral():
    query = "SELECT name, {} FROM good LEFT JOIN LATERAL kafka_explode(v) ON TRUE"
    return by_name(spark.sql(query.format(", ".join(COLUMNS))))


@step
def read():
    reader = spark.read.format("kafkarec").option("subscribe", "txn,all-codecs").options(**HEADERS)
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW txn USING kafkarec OPTIONS (path '{SEGMENTS}/txn-0', view 'batches')")
    (WORK / "nothing-0").mkdir()
    none = spark.read.format("kafkarec").load(str(WORK / "nothing-0")).count()
    spark.read.format("kafkarec").load(new_gap("gap-read")).count()
    return {"all": of_files(reader.load(str(SEGMENTS))), "view": spark.table("txn").count(), "none": none}


@step
def write():
    records = spark.range(100).selectExpr("string(id) AS value", "string(id % 7) AS key")
    writer = records.write.format("kafkarec").option("topic", "made").option("numPartitions", 3)
    for mode in ("append", "append", "overwrite"):
        writer.mode(mode).save(str(WORK / f"made-{mode}"))


def started(path, name, **options):
    frame = spark.readStream.format("kafkarec").options(**HEADERS, **options).load(path).selectExpr(*FROM_FILES)
    frame = frame.withColumnRenamed("unix_micros(timestamp)", "micros")
    writer = frame.writeStream.format("parquet").option("checkpointLocation", str(WORK / name / "checkpoint"))
    return writer.option("path", str(WORK / name / "rows"))


def finished(query):
    query.awaitTermination()
    if query.exception() is not None:
        raise query.exception()


def rows_of(name):
    return listed(spark.read.parquet(str(WORK / name / "rows")))


@step
def stream():
    """Runs to the end, restarts, follows while it runs."""
    path, found = new_log("stream", 0), {}
    finished(started(path, "followed").trigger(availableNow=True).start())
    found["first"] = rows_of("followed")
    new_log("stream", 30)
    query = started(path, "followed").trigger(processingTime="200 milliseconds").start()
    query.processAllAvailable()
    found["second"] = rows_of("followed")
    lag = spark_udfs.lag(query)
    found["lag"] = lag and [lag.total, lag.partitions]
    number = query.lastProgress["batchId"]
    time.sleep(1)
    found["idle"] = [query.lastProgress["batchId"], number]
    shutil.move(f"{new_gap('gap-stream')}/txn-0", WORK / "stream" / "txn-1")
    query.processAllAvailable()
    found["new partition"] = rows_of("followed")
    query.stop()
    query = started(path, "committed", **{"kafka.isolation.level": "read_committed"})
    finished(query.trigger(availableNow=True).start())
    found["committed"] = rows_of("committed")
    return found


@step
def stream_data_loss():
    """A log was truncated while the first query of `stream` was stopped."""
    path = WORK / "stream"
    (path / "txn-0" / f"{30:020}.log").unlink(missing_ok=True)
    writer = started(str(path), "followed").trigger(availableNow=True)
    return message(lambda: finished(writer.start()))


@step
def stream_limit():
    query = started(new_log("limited", 0, 30), "limited", maxOffsetsPerTrigger="50").trigger(availableNow=True).start()
    finished(query)
    return [len(query.recentProgress) > 3, rows_of("limited")]


@step
def write_stream():
    """Two runs with one checkpoint."""
    path = new_log("copied", 0)
    for segments in ((0,), (0, 30)):
        new_log("copied", *segments)
        frame = spark.readStream.format("kafkarec").load(path).drop("timestampType")
        writer = frame.writeStream.format("kafkarec").option("checkpointLocation", str(WORK / "copy-checkpoint"))
        finished(writer.trigger(availableNow=True).start(str(WORK / "copy")))


def error_of(error):
    return {"error": type(error).__name__, "message": str(error), "trace": traceback.format_exc()}


spark = SparkSession.builder.getOrCreate()
first = spark_udfs.register(spark)
spark.conf.set("spark.sql.session.timeZone", "UTC")
GOOD = (VECTORS / "vectors" / "v2-none-logappend.bin").read_bytes()
table(files("vectors"), "good")
table([each for each in files("vectors") if each[0] in RISING], "rising")
table(files("invalid"), "bad")
spoiled = GOOD[:-1] + bytes([GOOD[-1] ^ 1])
table([("spoiled", GOOD + spoiled + GOOD)], "spoiled")
(WORK / "damaged" / "orders-0").mkdir(parents=True)
log = bytearray((SEGMENTS / "all-codecs-0" / f"{0:020}.log").read_bytes())
log[5000] ^= 1
(WORK / "damaged" / "orders-0" / f"{0:020}.log").write_bytes(log)
for each in STEPS:
    began = time.monotonic()
    try:
        results[each.__name__] = {"rows": each()}
    except Exception as error:
        results[each.__name__] = error_of(error)
    results[each.__name__]["seconds"] = round(time.monotonic() - began, 2)
Path(OUT).write_text(json.dumps(results))
spark.stop()
