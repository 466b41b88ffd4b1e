"""A client that runs at the same time as others of another version: one query before the file GO exists, one after.

usage: connect_version.py RESULT sc://HOST:PORT SEGMENTS READY GO
"""

import json
import sys
import time
from pathlib import Path

from pyspark.sql import SparkSession

import spark_udfs

OUT, REMOTE, SEGMENTS, READY, GO = sys.argv[1:]
spark = SparkSession.builder.remote(REMOTE).create()
spark_udfs.register(spark)


def look():
    count = spark.read.format("kafkarec").load(f"{SEGMENTS}/txn-0").count()
    return count, sorted({row["versions"]["kafkarec"] for row in spark_udfs.doctor(spark).rows})


results = [look()]
Path(READY).touch()
deadline = time.monotonic() + 240
while not Path(GO).exists() and time.monotonic() < deadline:
    time.sleep(0.2)
results.append(look())
spark.stop()
Path(OUT).write_text(json.dumps(results))
