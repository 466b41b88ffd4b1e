"""A stream reads a folder that this application writes to; a worker and an executor are killed meanwhile, and the
query is stopped and started again.

Arguments: the result's path, the data folder, the checkpoint, a folder for a marker file per killed process.
"""

import json
import os
import signal
import sys
import time
from pathlib import Path

from pyspark.sql import SparkSession

import spark_udfs

OUT, DATA, CHECKPOINT, KILLED = sys.argv[1:]
PARTITIONS, ROUNDS = 3, 8
batches, progress = {}, []


def killing(mark, executor):
    """Return a function for mapInArrow: the first worker, or its executor, is killed with a row already sent."""

    def body(records):
        for number, batch in enumerate(records):
            yield batch.slice(0, 1)
            if number == 0:
                try:
                    os.close(os.open(mark, os.O_CREAT | os.O_EXCL))
                except FileExistsError:
                    pass
                else:
                    # worker -> the daemon that forked it -> the executor's JVM
                    daemon = os.getppid()
                    jvm = int(Path(f"/proc/{daemon}/stat").read_text().rpartition(")")[2].split()[1])
                    os.kill(jvm if executor else os.getpid(), signal.SIGKILL)
                    time.sleep(60)
            yield batch.slice(1)

    return body


def take(frame, number):
    if number in (1, 3):
        mark = f"{KILLED}/{'executor' if number == 3 else 'worker'}"
        frame = frame.mapInArrow(killing(mark, number == 3), frame.schema)
    rows = sorted([row.partition, row.offset, bytes(row.value).decode()] for row in frame.collect())
    batches.setdefault(number, []).append(rows)


def started():
    frame = spark.readStream.format("kafkarec").option("maxPartitionBytes", "2k").load(DATA)
    frame = frame.select("partition", "offset", "value")
    writer = frame.writeStream.foreachBatch(take).option("checkpointLocation", CHECKPOINT)
    return writer.trigger(processingTime="100 milliseconds").start()


def write(partition, count):
    writer = writers[partition]
    rows = [(None, f"{partition}/{writer.next_offset + n}".encode()) for n in range(count)]
    writer.write([(None, 1_700_000_000_000, key, value, []) for key, value in rows], compression="lz4")


def wait_for(query, offsets):
    for _ in range(1200):
        seen = {row[0]: row[1] for number in sorted(batches) for row in batches[number][-1]}
        if all(seen.get(partition, -1) == offset - 1 for partition, offset in offsets.items()):
            return
        if query.exception() is not None:
            raise query.exception()
        time.sleep(0.1)
    raise TimeoutError(json.dumps([offsets, query.lastProgress], default=str))


spark = SparkSession.builder.getOrCreate()
spark_udfs.register(spark)
kafkarec = spark_udfs.bootstrap.load()
writers = {}
for round_number in range(ROUNDS):
    for partition in range(min(PARTITIONS, 1 + round_number)):
        if partition not in writers:
            folder = f"{DATA}/orders-{partition}"
            writers[partition] = kafkarec.SegmentWriter(folder, segment_bytes=8000, start_offset=0)
        for _ in range(5):
            write(partition, 100)
    if round_number == 0:
        query = started()
    if round_number in (2, 5):
        query.stop()  # wherever it is
        query = started()
    if round_number % 2:
        wait_for(query, {partition: writer.next_offset for partition, writer in writers.items()})
query.stop()
segments = [len(writer.segments) for writer in writers.values()]
for writer in writers.values():
    writer.close()
spark.stop()
Path(OUT).write_text(json.dumps({"batches": batches, "segments": segments}))
