"""Copies Parquet files to partition folders, a micro-batch for each file. `killing_hook` kills it at a chosen call.

Arguments: the result's path, a folder with `source`, in which `checkpoint` is made, the path or URL to write to.
"""

import json
import os
import sys
from pathlib import Path

from pyspark.sql import SparkSession

import spark_udfs

OUT, FOLDER, TARGET = sys.argv[1:]
(Path(FOLDER) / "driver").write_text(str(os.getppid()))  # the JVM above this Python

spark = SparkSession.builder.getOrCreate()
spark_udfs.register(spark)
files = spark.readStream.schema("partition int, key string, value string").option("maxFilesPerTrigger", 1)
rows = files.parquet(f"{FOLDER}/source").selectExpr("'t' AS topic", "*").repartition(2, "key")
writer = rows.writeStream.format("kafkarec").option("checkpointLocation", f"{FOLDER}/checkpoint")
query = writer.trigger(availableNow=True).start(TARGET)
query.awaitTermination()
if query.exception() is not None:
    raise query.exception()
Path(OUT).write_text(json.dumps({"batches": [each["batchId"] for each in query.recentProgress]}))
spark.stop()
