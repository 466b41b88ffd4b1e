"""Reads a bucket, damaged logs and a large segment with the data source on executors where kafkarec is not installed.

Arguments: the result's path, a folder of damaged logs, a large segment's folder, a file to make when a worker has
killed itself, the URL of segments and its storageOptions.
"""

import json
import os
import resource
import signal
import sys
from pathlib import Path

from json_values import plain
from pyspark.sql import SparkSession

import spark_udfs

OUT, DAMAGED, LARGE, KILLED, BUCKET, STORAGE = sys.argv[1:]
COLUMNS = ["offset", "unix_micros(timestamp)", "timestampType", "key", "value", "headers"]
results = {}


def load(path, **given):
    return spark.read.format("kafkarec").options(**given).load(path)


spark = SparkSession.builder.getOrCreate()
spark_udfs.register(spark)
spark.conf.set("spark.sql.session.timeZone", "America/New_York")

bad = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": "why"}
damage = load(DAMAGED, maxPartitionBytes="10000", **bad).where("why IS NOT NULL").select("why")
results["damage"] = [json.loads(row[0]) for row in damage.collect()]

options = {"storageOptions": STORAGE, "maxPartitionBytes": "2500", "includeHeaders": "true", "includeMetadata": "true"}
results["bucket"] = {}
for row in load(BUCKET, **options).selectExpr("_file_path", *COLUMNS).collect():
    results["bucket"].setdefault(row[0], []).append(plain(list(row)[1:]))

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
