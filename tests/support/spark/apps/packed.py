"""Runs with a Python in which kafkarec and spark_udfs are installed; the executors' Python is from --archives.

usage: packed.py RESULT SEGMENTS ARCHIVE
"""

import json
import sys
import tarfile
import warnings

from pyspark.sql import SparkSession

OUT, SEGMENTS, ARCHIVE = sys.argv[1:]
TXN = f"{SEGMENTS}/txn-0"
results = {}


def failure(call):
    try:
        call()
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def records():
    return spark.read.format("kafkarec").load(TXN).count()


def lateral():
    return spark.sql("SELECT r.offset FROM t, LATERAL kafka_explode(v) AS r").count()


spark = SparkSession.builder.getOrCreate()
results["by itself"] = records()
spark.sql(f"CREATE TEMPORARY VIEW batches USING kafkarec OPTIONS (path '{TXN}', view 'batches')")
results["view"] = spark.sql("SELECT count(*) FROM batches").first()[0]
results["modules"] = [name for name in ("spark_udfs", "pyspark_kafkarec") if name in sys.modules]

import spark_udfs  # noqa: E402

with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    results["registered"] = str(spark_udfs.register(spark))
results["warned"] = [[str(each.message), each.filename] for each in caught]
results["registered too"] = records()
spark.read.format("binaryFile").load(f"{TXN}/*.log").selectExpr("content AS v").createOrReplaceTempView("t")
results["decode"] = spark.sql("SELECT inline(kafka_decode(v)) FROM t").count()
results["lateral"] = failure(lateral)
query = spark.readStream.format("kafkarec").load(TXN).writeStream.format("kafkarec")
query = query.option("checkpointLocation", "checkpoint").trigger(availableNow=True).start("copied")
query.awaitTermination(120)
results["stream"] = spark.read.format("kafkarec").load("copied").count()
results["doctor"] = list(spark_udfs.doctor(spark).rows)

with tarfile.open(ARCHIVE) as archive:
    archive.extractall("environment", filter="fully_trusted")
results["lateral unpacked"] = lateral()
results["registered again"] = str(spark_udfs.register(spark))
spark.stop()
with open(OUT, "w", encoding="utf-8") as file:
    json.dump(results, file)
