"""Reads folders of segments with the data source on executors that have never heard of kafkarec.

Arguments: the result's path, the vectors' segments, a folder of damaged copies, a large segment's folder, a file to
make when a worker has killed itself.
"""

import json
import os
import resource
import signal
import sys
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from telling import plain

import spark_udfs
from spark_udfs import functions as K

OUT, SEGMENTS, DAMAGED, LARGE, KILLED = sys.argv[1:]
COLUMNS = ["offset", "unix_micros(timestamp)", "timestampType", "key", "value", "headers"]
told = {}


def load(path, **given):
    return spark.read.format("kafkarec").options(**given).load(path)


def rows(frame):
    """By file, in the order of the rows."""
    by_file = {}
    for row in frame.collect():
        by_file.setdefault(row[0], []).append(plain(list(row)[1:]))
    return by_file


spark = SparkSession.builder.getOrCreate()
spark_udfs.register(spark)
spark.conf.set("spark.sql.session.timeZone", "America/New_York")

both = {"includeHeaders": "true", "includeMetadata": "true"}
told["source"] = rows(load(SEGMENTS, **both).selectExpr("_file_path", *COLUMNS))
told["splits"] = rows(load(SEGMENTS, maxPartitionBytes="2500", **both).selectExpr("_file_path", *COLUMNS))
blobs = spark.read.format("binaryFile").load(f"{SEGMENTS}/*-0/*.log").withColumn("path", F.expr("substr(path, 6)"))
told["udf"] = rows(K.kafka_explode(blobs, "content", keep=["path"]).selectExpr("path", *COLUMNS))
told["committed"] = {
    row[0]: row[1]
    for row in load(SEGMENTS, **{"kafka.isolation.level": "read_committed", "maxPartitionBytes": "2500"})
    .groupBy("topic")
    .agg(F.sort_array(F.collect_list("offset")))
    .collect()
}

bad = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": "why"}
frame = load(DAMAGED, maxPartitionBytes="10000", includeMetadata="true", **bad)
told["damage"] = [json.loads(row[0]) for row in frame.where("why IS NOT NULL").select("why").collect()]
told["good"] = dict(tuple(row) for row in frame.where("why IS NULL").groupBy("_file_path").count().collect())
told["batches"] = load(DAMAGED, view="batches", mode="DROPMALFORMED").count()
try:
    load(DAMAGED).count()
except Exception as error:
    told["failfast"] = str(error)

large = load(LARGE, maxPartitionBytes="32m")
sums = large.selectExpr("count(*)", "sum(offset)", "sum(crc32(value))").first()
told["large"] = [large.rdd.getNumPartitions(), *sums]


def peak(batches):
    """The most memory that this worker has ever had, and the limit that Spark has set; KiB, bytes."""
    for batch in batches:
        yield batch.slice(0, 0)
    import pyarrow as pa

    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    yield pa.RecordBatch.from_arrays([pa.array([used]), pa.array([resource.getrlimit(resource.RLIMIT_AS)[0]])], names)


def once_killed(batches):
    """The first worker that gets here dies with rows of its split already sent."""
    for batch in batches:
        yield batch
        try:
            os.close(os.open(KILLED, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            continue
        os.kill(os.getpid(), signal.SIGKILL)


exact = large.select("offset").mapInArrow(once_killed, "offset long").selectExpr("count(*)", "sum(offset)")
told["killed"] = list(exact.first())
names = ["used", "limit"]
some = load(LARGE, columns="offset", maxPartitionBytes="32m").selectExpr("offset AS used", "offset AS limit")
told["memory"] = [list(row) for row in some.mapInArrow(peak, "used long, limit long").collect()]
spark.stop()
Path(OUT).write_text(json.dumps(told))
