"""Follows partition folders, which this application writes, into Parquet files; it is killed in a micro-batch.

Arguments: the result's path, a folder, where to kill the driver (or "nowhere") in the second of the batches that are
not committed yet, the name of a file that tells so, the stream's options as JSON. Each run has a file of its own: tasks
of a dead driver go on for a while.
"""

import json
import os
import signal
import sys
import threading
import time
from pathlib import Path

from pyspark.sql import SparkSession

import spark_udfs

OUT, FOLDER, PLACE, MARK, OPTIONS = sys.argv[1:]
PARTITIONS, ROUNDS, COUNT = 3, 5, 600
CHECKPOINT, ROWS = f"{FOLDER}/checkpoint", f"{FOLDER}/rows"
JVM = os.getppid()


def numbers(name):
    """The micro-batches with an entry in offsets, or in commits."""
    folder = Path(CHECKPOINT) / name
    return sorted(int(each.name) for each in folder.iterdir() if each.name.isdigit()) if folder.exists() else []


def kill(batch):
    try:
        mark = os.open(f"{FOLDER}/{MARK}", os.O_CREAT | os.O_EXCL | os.O_WRONLY)
    except FileExistsError:
        return
    os.kill(JVM, signal.SIGSTOP)  # what is written here is what the driver has left
    os.write(mark, json.dumps({"batch": batch, "offsets": numbers("offsets"), "commits": numbers("commits")}).encode())
    os.close(mark)
    os.kill(JVM, signal.SIGKILL)


def in_a_task(batch):
    """Return a function for mapInArrow that kills the driver after the first rows of a task."""
    began = f"{CHECKPOINT}/offsets/{batch}"

    def body(records):
        for each in records:
            yield each
            if os.path.exists(began):
                kill(batch)

    return body


def when_there_is(path, batch):
    while not os.path.exists(path):
        time.sleep(0.001)
    kill(batch)


def write(target):
    """Extend each partition's log to `target` records; those of a dead application may end in half a batch."""
    for partition in range(PARTITIONS):
        if target <= partition * COUNT:
            continue  # it is made later
        with kafkarec.SegmentWriter(f"{FOLDER}/logs/orders-{partition}", segment_bytes=9000) as writer:
            while writer.next_offset < target:
                numbers = range(writer.next_offset, min(writer.next_offset + 50, target))
                rows = [(None, 1_700_000_000_000, None, b"%d/%d" % (partition, n), []) for n in numbers]
                writer.write(rows, compression="lz4")


spark = SparkSession.builder.config("spark.sql.execution.arrow.maxRecordsPerBatch", "100").getOrCreate()
spark_udfs.register(spark)
kafkarec = spark_udfs.bootstrap.kafkarec
batch = max(numbers("commits"), default=-1) + 2
finished = Path(f"{FOLDER}/finished")
first_round = int(finished.read_text()) + 1 if finished.exists() else 0
write((first_round + 1) * COUNT)  # the logs have grown when a batch is run again
frame = spark.readStream.format("kafkarec").options(**json.loads(OPTIONS)).load(f"{FOLDER}/logs")
frame = frame.selectExpr("partition", "offset", "string(value) AS value")
if PLACE == "reading":
    frame = frame.mapInArrow(in_a_task(batch), frame.schema)
if PLACE == "planned":
    threading.Thread(target=when_there_is, args=(f"{CHECKPOINT}/offsets/{batch}", batch), daemon=True).start()
query = frame.writeStream.format("parquet").option("checkpointLocation", CHECKPOINT)
query = query.trigger(processingTime="50 milliseconds").start(ROWS)
for number in range(first_round, ROUNDS):
    write((number + 1) * COUNT)
    query.processAllAvailable()
    finished.write_text(str(number))
query.stop()
if PLACE == "nowhere":
    found = [[row.partition, row.offset, row.value] for row in spark.read.parquet(ROWS).collect()]
    Path(OUT).write_text(json.dumps({"rows": found, "batches": numbers("commits")}))
spark.stop()
