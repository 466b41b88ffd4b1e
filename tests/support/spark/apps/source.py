"""Reads folders of segments with the data source on executors where kafkarec is not installed.

Arguments: the result's path, the vectors' segments, a folder of damaged copies, a large segment's folder, a file to
make when a worker has killed itself, the URL of a copy of the segments and its storageOptions.
"""

import json
import os
import resource
import signal
import sys
from pathlib import Path

from json_values import plain
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import spark_udfs
from spark_udfs import functions as K

OUT, SEGMENTS, DAMAGED, LARGE, KILLED, BUCKET, STORAGE = sys.argv[1:]
COLUMNS = ["offset", "unix_micros(timestamp)", "timestampType", "key", "value", "headers"]
results = {}


def load(path, **given):
    return spark.read.format("kafkarec").options(**given).load(path)


def rows(frame):
    """Return rows by file, in order."""
    by_file = {}
    for row in frame.collect():
        by_file.setdefault(row[0], []).append(plain(list(row)[1:]))
    return by_file


spark = SparkSession.builder.getOrCreate()
spark_udfs.register(spark)
spark.conf.set("spark.sql.session.timeZone", "America/New_York")

both = {"includeHeaders": "true", "includeMetadata": "true"}
results["source"] = rows(load(SEGMENTS, **both).selectExpr("_file_path", *COLUMNS))
results["splits"] = rows(load(SEGMENTS, maxPartitionBytes="2500", **both).selectExpr("_file_path", *COLUMNS))
blobs = spark.read.format("binaryFile").load(f"{SEGMENTS}/*-0/*.log").withColumn("path", F.expr("substr(path, 6)"))
results["udf"] = rows(K.kafka_explode(blobs, "content", keep=["path"]).selectExpr("path", *COLUMNS))
results["committed"] = {
    row[0]: row[1]
    for row in load(SEGMENTS, **{"kafka.isolation.level": "read_committed", "maxPartitionBytes": "2500"})
    .groupBy("topic")
    .agg(F.sort_array(F.collect_list("offset")))
    .collect()
}
results["bucket"] = rows(
    load(BUCKET, storageOptions=STORAGE, maxPartitionBytes="2500", **both).selectExpr("_file_path", *COLUMNS)
)

bad = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": "why"}
frame = load(DAMAGED, maxPartitionBytes="10000", includeMetadata="true", **bad)
results["damage"] = [json.loads(row[0]) for row in frame.where("why IS NOT NULL").select("why").collect()]
results["good"] = dict(tuple(row) for row in frame.where("why IS NULL").groupBy("_file_path").count().collect())
results["batches"] = load(DAMAGED, view="batches", mode="DROPMALFORMED").count()
try:
    load(DAMAGED).count()
except Exception as error:
    results["failfast"] = str(error)

large = load(LARGE, maxPartitionBytes="32m")
sums = large.selectExpr("count(*)", "sum(offset)", "sum(crc32(value))").first()
results["large"] = [large.rdd.getNumPartitions(), *sums]


def peak(batches):
    """Yield this worker's peak memory (KiB) and the limit that Spark has set (bytes)."""
    for batch in batches:
        yield batch.slice(0, 0)
    import pyarrow as pa

    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    yield pa.RecordBatch.from_arrays([pa.array([used]), pa.array([resource.getrlimit(resource.RLIMIT_AS)[0]])], names)


def once_killed(batches):
    """Pass rows on; the first worker is killed with rows of its split already sent."""
    for batch in batches:
        yield batch
        try:
            os.close(os.open(KILLED, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            continue
        os.kill(os.getpid(), signal.SIGKILL)


exact = large.select("offset").mapInArrow(once_killed, "offset long").selectExpr("count(*)", "sum(offset)")
results["killed"] = list(exact.first())
names = ["used", "limit"]
some = load(LARGE, columns="offset", maxPartitionBytes="32m").selectExpr("offset AS used", "offset AS limit")
results["memory"] = [list(row) for row in some.mapInArrow(peak, "used long, limit long").collect()]
spark.stop()
Path(OUT).write_text(json.dumps(results))
