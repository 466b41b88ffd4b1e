"""Spark's Kafka source and kafkarec's on folders of the same broker, on executors where neither is installed.

Arguments: the result's path, the broker, its data folder, a folder to write to.
"""

import json
import sys
import time
from pathlib import Path

from json_values import plain
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import spark_udfs

OUT, BROKER, DATA, FOLDER = sys.argv[1:]
KAFKA = {"kafka.bootstrap.servers": BROKER}
RECORD = ["offset", "unix_micros(timestamp)", "timestampType", "key", "value", "headers"]
TOPICS = "txn,all-codecs,logappend,compacted,old"
NONE = "timestamp_millis(-1)"  # a record without timestamp in Spark's Kafka source; null in kafkarec's
UNTIMED = f"nullif(timestamp, {NONE})"
results = {}


def kafka(topic, **more):
    return spark.read.format("kafka").options(**KAFKA, **more).option("subscribe", topic).load()


def folders(path, **more):
    return spark.read.format("kafkarec").options(**more).load(path)


def rows(frame):
    return [plain(list(row)) for row in frame.collect()]


def difference(one, other):
    """Return [rows of one, rows only in one, rows only in other]."""
    one, other = one.cache(), other.cache()
    return [one.count(), one.exceptAll(other).count(), other.exceptAll(one).count()]


def together():
    """Compare topics with folders."""
    results["schemas"] = {
        flag: [each.schema.json() for each in (kafka("txn", includeHeaders=flag), folders(DATA, includeHeaders=flag))]
        for flag in ("true", "false")
    }
    for isolation in ("read_committed", "read_uncommitted"):
        wanted = {"kafka.isolation.level": isolation, "includeHeaders": "true"}
        topics, ours = kafka(TOPICS, **wanted), folders(DATA, subscribe=TOPICS, **wanted)
        results[f"counts {isolation}"] = dict(rows(ours.groupBy("topic").count()))
        untimed = topics.where(f"timestamp = {NONE}"), ours.where("timestamp IS NULL")
        results[f"untimed {isolation}"] = [each.count() for each in untimed]
        results[f"same {isolation}"] = difference(topics.withColumn("timestamp", F.expr(UNTIMED)), ours)


def copied(topic, source, isolation):
    """Return a stream of the topic into parquet, not yet started."""
    reader = spark.readStream.format(source).option("kafka.isolation.level", isolation).option("subscribe", topic)
    given = {**KAFKA, "startingOffsets": "earliest"} if source == "kafka" else {"path": DATA}
    frame = reader.option("includeHeaders", "true").options(**given).load()
    writer = frame.writeStream.format("parquet").option("path", f"{FOLDER}/growing-{topic}-{source}")
    return writer.option("checkpointLocation", f"{FOLDER}/follow-{topic}-{source}")


def produce(turn):
    more = spark.range(turn * 300, turn * 300 + 300).selectExpr(
        "binary(string(id)) AS key",
        "binary(repeat(string(id), 20)) AS value",
        "int(id % 2) AS partition",
        "IF(id % 3 = 0, array(struct('h' AS key, binary(string(id)) AS value)), NULL) AS headers",
    )
    codec = {"kafka.compression.type": ("lz4", "zstd", "none", "gzip")[turn], "kafka.batch.size": "2000"}
    more.write.format("kafka").options(**KAFKA, **codec, topic="growing").save()


def following():
    """Stream folders of the running broker, while a producer writes, and after a restart of the query."""
    produce(0)
    query = copied("growing", "kafkarec", "read_uncommitted").trigger(processingTime="0 seconds").start()
    produce(1)
    produce(2)
    query.processAllAvailable()
    query.stop()
    produce(3)
    for topic, isolation in (("growing", "read_uncommitted"), ("txn", "read_committed")):
        for source in ("kafkarec", "kafka"):
            copied(topic, source, isolation).trigger(availableNow=True).start().awaitTermination()
        written = [f"{FOLDER}/growing-{topic}-{source}" for source in ("kafkarec", "kafka")]
        ours, sparks = map(spark.read.parquet, written)
        results[f"following {topic}"] = difference(ours, sparks)
        results[f"rows of {topic}"] = rows(ours.orderBy("partition", "offset").selectExpr("partition", *RECORD))


spark = SparkSession.builder.config("spark.sql.execution.arrow.maxRecordsPerBatch", "50").getOrCreate()
spark_udfs.register(spark)
for check in (together, following):
    begun = time.monotonic()
    check()
    print(f"{check.__name__} in {time.monotonic() - begun:.1f} s", flush=True)
spark.stop()
Path(OUT).write_text(json.dumps(results))
