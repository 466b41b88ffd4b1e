"""Runs kafka_encode, LATERAL kafka_explode and damage_report on executors that have pyspark, pyarrow and pandas only.

usage: verbs.py RESULT BATCHES FOLDER   (BATCHES: raw batches in hexadecimal)
"""

import json
import sys

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import spark_udfs
from spark_udfs import functions as K

spark = SparkSession.builder.getOrCreate()
spark_udfs.register(spark)
result, raw, folder = sys.argv[1], bytes.fromhex(sys.argv[2]), sys.argv[3]
results = {}

values = spark.range(0, 8, 1, 4).select(F.lit(bytearray(raw)).alias("v"))
values.createOrReplaceTempView("t")
same = "kafka_decode(kafka_encode(kafka_decode(v), 'zstd')) <=> kafka_decode(v)"
results["sql"] = [list(row) for row in spark.sql(f"SELECT {same}, count(*) FROM t GROUP BY 1").collect()]
column = values.select(F.inline(K.kafka_decode(K.kafka_encode(K.kafka_decode("v"), "gzip", level=9))))
results["column"] = column.count()

lateral = spark.sql("SELECT r.* FROM t, LATERAL kafka_explode(v, control => true) AS r")
arrow = K.kafka_explode(values, "v", control=True)
results["lateral"] = [lateral.count(), lateral.exceptAll(arrow).count(), arrow.exceptAll(lateral).count()]

report = spark_udfs.damage_report(spark, folder, minPartitions=4)
results["report"] = {"rows": list(report.rows), "files": list(report.files), "text": str(report)}
results["frame"] = report.frame.count()

with open(result, "w", encoding="utf-8") as file:
    json.dump(results, file)
spark.stop()
