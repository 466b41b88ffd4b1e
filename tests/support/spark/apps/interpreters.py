"""On another Python version: doctor and decode; then executors with a different version than the driver's.

Arguments: the result's path, the vectors' folder, the Python that does not fit the driver.
"""

import json
import sys
from pathlib import Path

from pyspark.sql import SparkSession

import spark_udfs

OUT, VECTORS, FOREIGN = sys.argv[1], Path(sys.argv[2]), sys.argv[3]
results = {}
spark = SparkSession.builder.getOrCreate()
spark_udfs.register(spark)
good = (VECTORS / "vectors" / "v2-lz4-create.bin").read_bytes()
spark.createDataFrame([(good,)], "v binary").createOrReplaceTempView("t")
results["rows"] = spark.sql("SELECT size(kafka_decode(v)) FROM t").collect()[0][0]
results["doctor"] = list(spark_udfs.doctor(spark).rows)

spark.sparkContext.pythonExec = FOREIGN
from spark_udfs import functions as K  # noqa: E402

try:
    spark.table("t").select(K.kafka_decode("v")).collect()
    results["mismatch"] = None
except Exception as error:
    results["mismatch"] = str(error)
spark.stop()
Path(OUT).write_text(json.dumps(results))
