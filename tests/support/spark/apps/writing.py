"""Writes partition folders on executors where kafkarec is not installed; one executor is killed in each job.

Arguments: the result's path, a folder to write to, a URL to write to and its storageOptions.
"""

import json
import os
import signal
import sys
import time
from pathlib import Path

from pyspark.sql import SparkSession

import spark_udfs

OUT, FOLDER, BUCKET, STORAGE = sys.argv[1:]
COUNT = 40_000
RECORDS = (
    "'t' AS topic",
    "int(id % 4) AS partition",
    "id AS offset",
    "timestamp_millis(1700000000000 + id) AS timestamp",
    "string(id % 1000) AS key",
    "concat('value ', id) AS value",
    "array(named_struct('key', 'h', 'value', binary(string(id)))) AS headers",
)
results = {}


def executor():
    """Return the process id of this worker's executor: the parent of its daemon."""
    return int(Path(f"/proc/{os.getppid()}/stat").read_text().rpartition(")")[2].split()[1])


def killer(mark):
    """Return a function for mapInArrow that passes rows on, and once kills the executor after a task's first rows."""

    def run(batches):
        for number, batch in enumerate(batches):
            yield batch
            if number == 2 and not os.path.exists(mark):
                Path(mark).write_text(str(sorted(os.listdir(f"{FOLDER}"))))
                os.kill(executor(), signal.SIGKILL)
                time.sleep(60)

    return run


def deadly(frame, name):
    return frame.mapInArrow(killer(f"{FOLDER}/{name}.killed"), frame.schema)


spark = SparkSession.builder.config("spark.sql.execution.arrow.maxRecordsPerBatch", "500").getOrCreate()
spark_udfs.register(spark)
os.makedirs(FOLDER)
rows = spark.range(0, COUNT, 1, 4).selectExpr(*RECORDS)

ordered = deadly(rows.repartition("topic", "partition").sortWithinPartitions("partition", "offset"), "log")
ordered.write.format("kafkarec").mode("append").option("compression", "lz4").save(f"{FOLDER}/log")

rows.drop("offset").write.parquet(f"{FOLDER}/source")
stream = spark.readStream.schema(rows.drop("offset").schema).option("maxFilesPerTrigger", 2).parquet(f"{FOLDER}/source")
query = deadly(stream, "stream").writeStream.format("kafkarec").option("checkpointLocation", f"{FOLDER}/checkpoint")
query.trigger(availableNow=True).start(f"{FOLDER}/stream").awaitTermination()

remote = {"storageOptions": STORAGE, "compression": "zstd"}
for name, frame in (("log", rows.where("offset < 30000")), ("more", rows.where("offset >= 30000"))):
    ordered = frame.repartition("topic", "partition").sortWithinPartitions("partition", "offset")
    made = (deadly(ordered, f"bucket-{name}") if name == "more" else ordered).write.format("kafkarec").mode("append")
    made.options(**remote).save(BUCKET)
read = spark.read.format("kafkarec").option("storageOptions", STORAGE).option("maxPartitionBytes", "100k").load(BUCKET)
results["bucket"] = list(read.selectExpr("count(*)", "sum(offset)", "count(DISTINCT offset)").first())

results["read"] = {name: spark.read.format("kafkarec").load(f"{FOLDER}/{name}").count() for name in ("log", "stream")}
results["swept"] = spark_udfs.sweep(f"{FOLDER}/log", older_than_hours=0)
Path(OUT).write_text(json.dumps(results))
spark.stop()
