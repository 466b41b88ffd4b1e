"""A client of Spark Connect. It must not touch the cluster's files: code that opens or lists one here is an error.

usage: connect.py RESULT sc://HOST:PORT SEGMENTS FOLDER   (folders of the cluster)
"""

import json
import sys

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import spark_udfs
from spark_udfs import functions as K

OUT, REMOTE, SEGMENTS, FOLDER = sys.argv[1:]
TXN = f"{SEGMENTS}/txn-0"


def watch(event, arguments):
    if event in ("open", "os.listdir", "os.scandir", "os.mkdir") and str(arguments[0]).startswith((SEGMENTS, FOLDER)):
        raise AssertionError(f"the client does {event} of {arguments[0]}")


sys.addaudithook(watch)


def failure(call):
    try:
        call()
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def rows(frame):
    return sorted(json.dumps([str(cell) for cell in row]) for row in frame.collect())


def same(one, other):
    return rows(one) == rows(other)


def finished(writer, path):
    query = writer.trigger(availableNow=True).start(path)
    assert query.awaitTermination(120)
    sources = [json.loads(each.json)["sources"][0] for each in query.recentProgress]
    return len([each for each in sources if each["startOffset"] != each["endOffset"]])


results = {}
spark = SparkSession.builder.remote(REMOTE).create()
results["unregistered"] = failure(lambda: spark.read.format("kafkarec").load(TXN).count())
results["registered"] = [str(spark_udfs.register(spark)) for _ in range(2)]

files = spark.read.format("binaryFile").load(f"{TXN}/*.log").selectExpr("content AS v")
files.createOrReplaceTempView("t")
plain = spark.read.format("kafkarec").load(TXN)
names = ["offset", "unix_micros(timestamp)", "timestampType", "hex(key)", "hex(value)"]
results["records"] = plain.count()
ways = {
    "sql": spark.sql("SELECT inline(kafka_decode(v)) FROM t"),
    "column": files.select(F.inline(K.kafka_decode("v", "PERMISSIVE"))),
    "explode": K.kafka_explode(files, "v"),
    "lateral": spark.sql("SELECT r.* FROM t, LATERAL kafka_explode(v, mode => 'PERMISSIVE') r"),
}
results["ways"] = {way: same(frame.selectExpr(*names), plain.selectExpr(*names)) for way, frame in ways.items()}
again = "kafka_decode(kafka_encode(kafka_decode(v), 'lz4')) <=> kafka_decode(v)"
results["encode"] = spark.sql(f"SELECT count_if({again}) FROM t").first()[0]
spark.sql(f"CREATE TEMPORARY VIEW batches USING kafkarec OPTIONS (path '{TXN}', view 'batches')")
results["view"] = spark.sql("SELECT count(*) FROM batches").first()[0]
results["missing"] = failure(lambda: spark.read.format("kafkarec").load(f"{SEGMENTS}/none").count())

events = spark.range(300).selectExpr("'events' AS topic", "string(id) AS key", "string(id) AS value")
writer = events.write.format("kafkarec").option("numPartitions", 2)
made = spark.read.format("kafkarec")
for mode in ("append", "append", "overwrite", "append"):
    writer.mode(mode).save(f"{FOLDER}/made")
results["written"] = (
    made.load(f"{FOLDER}/made").groupBy("partition").count().count(),
    made.load(f"{FOLDER}/made").count(),
)
spark_udfs.write_log(made.load(f"{FOLDER}/made").where("offset >= 10"), f"{FOLDER}/log", compression="gzip")
results["log"] = made.load(f"{FOLDER}/log").agg(F.min("offset")).first()[0]

table = f"{FOLDER}/table"
written = [
    spark_udfs.write_table(spark, f"{FOLDER}/made", table, partition_by="topic", **options)
    for options in ({"endingOffsets": {"events": {"0": 50, "1": 50}}}, {})
]
results["table"] = [[each.rows for each in written], spark.read.parquet(table).count(), written[1].offsets["events"]]
results["table_twice"] = failure(lambda: spark_udfs.write_table(spark, TXN, table, mode="errorifexists"))

# The first stream of a session, on executors where no task has loaded its files.
stream = spark.readStream.format("kafkarec").option("maxOffsetsPerTrigger", 400).load(f"{FOLDER}/made")
copying = stream.writeStream.format("kafkarec").option("checkpointLocation", f"{FOLDER}/checkpoint")
results["batches"] = [finished(copying, f"{FOLDER}/copied")]
results["copied"] = same(
    made.load(f"{FOLDER}/copied"), made.load(f"{FOLDER}/made").withColumn("timestampType", F.lit(0))
)
writer.mode("append").save(f"{FOLDER}/made")
results["batches"].append(finished(copying, f"{FOLDER}/copied"))
results["copied rows"] = made.load(f"{FOLDER}/copied").count()

report = spark_udfs.damage_report(spark, [f"{FOLDER}/bad/*", TXN], minPartitions=3)
results["report"] = {"rows": list(report.rows), "files": len(report.files), "frame": report.frame.count()}
results["report_missing"] = failure(lambda: spark_udfs.damage_report(spark, f"{FOLDER}/none"))
results["report_wrong"] = failure(lambda: spark_udfs.damage_report(spark, TXN, subscribe="nobody"))
found = spark_udfs.count(spark, SEGMENTS, subscribe="txn", minPartitions=2)
results["count"] = [found, found.partitions]
results["count_missing"] = failure(lambda: spark_udfs.count(spark, f"{FOLDER}/none"))
results["offsets_at"] = spark_udfs.offsets_at(spark, SEGMENTS, 1700000000005, subscribe=["txn", "all-codecs"])
results["offsets_at_wrong"] = failure(lambda: spark_udfs.offsets_at(spark, TXN, 0, subscribe="nobody"))
results["sweep"] = spark_udfs.sweep(f"{FOLDER}/made", spark=spark)
results["sweep_missing"] = [
    failure(lambda: spark_udfs.sweep(f"{FOLDER}/none", spark=spark)),
    failure(lambda: spark_udfs.sweep(f"{FOLDER}/none")),
]
found = spark_udfs.doctor(spark)
results["doctor"] = {"rows": list(found.rows), "healthy": found.healthy}

other = SparkSession.builder.remote(REMOTE).create()
results["other_unregistered"] = failure(lambda: other.sql("SELECT kafka_decode(X'')").collect())
spark_udfs.register(other)
results["other"] = other.read.format("kafkarec").load(TXN).count()
other.stop()
results["after_other"] = spark.sql("SELECT size(kafka_decode(v)) FROM t").count()
spark.stop()
results["stopped"] = failure(lambda: spark_udfs.register(spark))
spark = SparkSession.builder.remote(REMOTE).create()
spark_udfs.register(spark)
results["again"] = spark.read.format("kafkarec").load(TXN).count()
spark.stop()

with open(OUT, "w", encoding="utf-8") as file:
    json.dump(results, file)
