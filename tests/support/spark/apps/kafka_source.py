"""Spark's Kafka source and sink together with kafkarec, on executors where neither is installed.

Arguments: the result's path, the broker, its data folder, a folder, a JSON file of values to send, a backup's folder,
a damaged log's folder.
"""

import json
import sys
import time
from pathlib import Path

import kafka_archive
from json_values import plain
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import spark_udfs
from spark_udfs import functions as K

OUT, BROKER, DATA, FOLDER, VALUES, BACKUP, DAMAGED = sys.argv[1:]
KAFKA = {"kafka.bootstrap.servers": BROKER}
RECORD = ["offset", "unix_micros(timestamp)", "timestampType", "key", "value", "headers"]
TOPICS = "txn,all-codecs,logappend,compacted,old"
NONE = "timestamp_millis(-1)"  # a record without timestamp in Spark's Kafka source; null in kafkarec's
UNTIMED = f"nullif(timestamp, {NONE})"
STAMP = "struct('record-timestamp' AS key, binary(string(unix_millis(timestamp))) AS value)"
PARTS = json.loads(Path(VALUES).read_text())[1:]
DECODED = ["part", "message", *RECORD, "_corrupt_record"]
WHERE = ["part", "message"]
MESSAGES = ["partition AS part", "offset AS message", "value"]
# As in docs/howto/spark-and-kafka.md.
COMMITS = """
    SELECT offset, get_json_object(r.key, '$.group') AS key_group, get_json_object(r.key, '$.topic') AS key_topic,
           int(get_json_object(r.key, '$.partition')) AS key_partition,
           bigint(get_json_object(r.value, '$.offset')) AS value_offset
    FROM (SELECT offset, kafka_internal(topic, key, value) AS r FROM offsets) WHERE r.type = 'OffsetCommit'
"""
LAG = """
    SELECT c.grp, topic, partition, c.committed, e.end, e.end - c.committed AS lag
    FROM (SELECT key_group AS grp, key_topic AS topic, key_partition AS partition,
                 max_by(value_offset, offset) AS committed
          FROM commits GROUP BY key_group, key_topic, key_partition) AS c
    JOIN ends AS e USING (topic, partition)
    WHERE c.committed IS NOT NULL
"""
TYPES = """
    SELECT r.type, count(*), count(r.problem) FROM (SELECT kafka_internal(topic, key, value) AS r FROM offsets)
    GROUP BY r.type ORDER BY r.type
"""
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


def archive():
    """Decode each value in a batch query, by each of three functions."""
    source = kafka("archive")
    source.createOrReplaceTempView("archive")
    results["sql"] = rows(
        spark.sql(f"""SELECT {", ".join(DECODED)} FROM (
            SELECT partition AS part, offset AS message, inline_outer(kafka_decode(value, 'PERMISSIVE')) AS
                   (topic, partition, offset, timestamp, timestampType, key, value, headers, _corrupt_record)
            FROM archive)""")
    )
    messages = source.selectExpr(*MESSAGES)
    column = messages.select(*WHERE, K.kafka_decode("value", "PERMISSIVE").alias("r"))
    results["column"] = rows(column.select(*WHERE, F.inline_outer("r")).selectExpr(*DECODED))
    explode = K.kafka_explode(messages, "value", "PERMISSIVE", keep=WHERE)
    results["explode"] = rows(explode.selectExpr(*DECODED))


def failing(batches):
    for batch in batches:
        yield batch
        raise RuntimeError("a task that fails after it has passed on rows")


def commits():
    return sorted(int(path.name) for path in Path(f"{FOLDER}/checkpoint/commits").iterdir() if path.name.isdigit())


def rejected():
    """Run a second stream: every row, damage included, into parquet."""
    arriving = kafka_archive.arriving(spark, KAFKA).selectExpr(*MESSAGES)
    exploded = K.kafka_explode(arriving, "value", "PERMISSIVE", keep=WHERE)
    writer = exploded.writeStream.format("parquet").option("checkpointLocation", f"{FOLDER}/checkpoint-parquet")
    writer.trigger(availableNow=True).start(f"{FOLDER}/parquet").awaitTermination()


def stream():
    """Continue after the killed application; then a failure inside a batch, and one between a batch and its commit."""
    kafka_archive.send(spark, KAFKA, PARTS[0])
    kafka_archive.start(kafka_archive.decoded(spark, KAFKA), FOLDER).awaitTermination()
    rejected()
    kafka_archive.send(spark, KAFKA, PARTS[1])
    decoded = kafka_archive.decoded(spark, KAFKA)
    results["before"] = commits()
    try:
        kafka_archive.start(decoded.mapInArrow(failing, decoded.schema), FOLDER).awaitTermination()
    except Exception as error:
        results["failed"] = str(error)
    results["after"] = commits()
    kafka_archive.start(kafka_archive.decoded(spark, KAFKA), FOLDER).awaitTermination()
    last = commits()[-1]
    for name in (str(last), f".{last}.crc"):
        Path(f"{FOLDER}/checkpoint/commits/{name}").unlink(missing_ok=True)
    kafka_archive.send(spark, KAFKA, PARTS[2])
    kafka_archive.start(kafka_archive.decoded(spark, KAFKA), FOLDER).awaitTermination()
    results["end"] = [last, commits()]
    rejected()
    results["parquet"] = rows(spark.read.parquet(f"{FOLDER}/parquet").selectExpr(*DECODED))


def ends(topics):
    """Return the end offsets of topics, from a query that starts at the end and reads nothing."""
    stream = spark.readStream.format("kafka").options(**KAFKA, subscribe=topics, startingOffsets="latest").load()
    query = stream.writeStream.format("noop").trigger(availableNow=True).start()
    query.awaitTermination()
    found = json.loads(query.lastProgress.json)["sources"][0]["endOffset"]
    return [(topic, int(partition), at) for topic, parts in found.items() for partition, at in parts.items()]


def lag():
    results["hidden"] = kafka("__consumer_offsets").count()
    spark.conf.set("spark.sql.streaming.kafka.useDeprecatedOffsetFetching", "true")
    for isolation in ("read_committed", "read_uncommitted"):
        offsets = kafka("__consumer_offsets", **{"kafka.isolation.level": isolation})
        offsets.createOrReplaceTempView("offsets")
        spark.sql(COMMITS).createOrReplaceTempView("commits")
        at = spark.createDataFrame(ends("txn,all-codecs"), "topic string, partition int, end bigint")
        at.createOrReplaceTempView("ends")
        results[f"lag {isolation}"] = rows(spark.sql(LAG))
    results["json"] = rows(spark.sql(TYPES))
    results["groups"] = dict(rows(spark.table("commits").groupBy("key_group").count()))
    spark.conf.unset("spark.sql.streaming.kafka.useDeprecatedOffsetFetching")


def rescued():
    """Send the good records of a damaged log to topics: with the interceptor their timestamps are kept."""
    bad = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": "_corrupt_record", "includeHeaders": "true"}
    frame = folders(DAMAGED, **bad)
    results["damage"] = frame.where("_corrupt_record IS NOT NULL").count()
    good = frame.where("_corrupt_record IS NULL").repartition(1).sortWithinPartitions("topic", "partition", "offset")
    good.write.format("kafka").options(**KAFKA).option("topic", "plain").save()
    stamped = good.withColumn("headers", F.expr(f"array_append(coalesce(headers, array()), {STAMP})"))
    writer = stamped.write.format("kafka").options(**KAFKA).option("topic", "rescued")
    writer.option("kafka.interceptor.classes", "RecordTimestamps").save()


def together():
    """Compare topics with folders, and join a backup with the live topic in one table."""
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
        live = kafka("cut", **wanted)
        starts = live.groupBy("topic", "partition").agg(F.min("offset").alias("at")).collect()
        until = {}
        for row in starts:
            until.setdefault(row.topic, {})[str(row.partition)] = row["at"]
        backup = folders(BACKUP, endingOffsets=json.dumps(until), **wanted)
        for name, frame in (("one way", backup.unionByName(live)), ("other way", live.unionByName(backup))):
            results[f"{name} {isolation}"] = rows(frame.orderBy("offset").selectExpr(*RECORD))
        results[f"starts {isolation}"] = until["cut"]["0"]


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
for check in (stream, archive, lag, rescued, together, following):
    begun = time.monotonic()
    check()
    print(f"{check.__name__} in {time.monotonic() - begun:.1f} s", flush=True)
spark.stop()
Path(OUT).write_text(json.dumps(results))
