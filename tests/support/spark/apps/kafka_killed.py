"""Decodes a topic of raw batches into partition folders; the driver is killed in the middle of the third micro-batch.

Arguments: the result's path (nothing is written there), the broker, a folder, a JSON file of values to send.
"""

import json
import os
import signal
import sys
import time
from pathlib import Path

import kafka_archive
from pyspark.sql import SparkSession

import spark_udfs

_, BROKER, FOLDER, VALUES = sys.argv[1:]
KAFKA = {"kafka.bootstrap.servers": BROKER}
DRIVER = os.getppid()  # the JVM above this Python


def batches_in(name):
    return sorted(each for each in os.listdir(f"{FOLDER}/checkpoint/{name}") if each.isdigit())


def deadly(batches):
    """Pass rows on; after the first rows of the third micro-batch, kill the driver."""
    for batch in batches:
        yield batch
        if os.path.exists(f"{FOLDER}/checkpoint/commits/1"):
            Path(f"{FOLDER}/killed").write_text(json.dumps([batches_in("offsets"), batches_in("commits")]))
            os.kill(DRIVER, signal.SIGKILL)
            time.sleep(20)


spark = SparkSession.builder.config("spark.sql.execution.arrow.maxRecordsPerBatch", "5").getOrCreate()
spark_udfs.register(spark)
kafka_archive.send(spark, KAFKA, json.loads(Path(VALUES).read_text())[0])
rows = kafka_archive.decoded(spark, KAFKA)
kafka_archive.start(rows.mapInArrow(deadly, rows.schema), FOLDER).awaitTermination()
