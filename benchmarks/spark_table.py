"""What a table of Parquet files from segments costs: `python benchmarks/spark_table.py`.

    Spark   spark.read.format("kafkarec").load(path).write.parquet(out): each row goes from the worker to the JVM
    ours    spark_udfs.write_table(spark, path, out): the workers write

Both with zstd, once without partition columns and once by topic and date, one after the other in each round. Measured
is the processor time of the JVM and all Python processes of the session. Checked are the numbers of rows; the table
at the end is that of docs/spark/table.md. `--cold` has a new JVM for each job instead,
and says besides what the job takes with the start of its session, for Spark's with the registration of the source.
Records are JSON of about 160 bytes, all different, in two topics of two partitions and over four days, in batches of
16 KiB before compression. Needs Java and the packages of `make test`.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import statistics
import tempfile
from collections.abc import Callable
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from spark import Watch, processor_seconds, session

import kafkarec
import spark_udfs

START, DAYS, DAY = 1_700_006_400_000, 4, 86_400_000
LOGS = ("orders-0", "orders-1", "payments-0", "payments-1")
PIECE = 100_000
STATUS = ("created", "paid", "shipped", "returned")
WAYS = {"one folder": (), "by topic and date": ("topic", "date")}


def write_logs(folder: Path, records: int, codec: str) -> int:
    """Writes the partitions; returns the bytes of their segments."""
    chance, each = random.Random(7), records // len(LOGS)
    for name in LOGS:
        with kafkarec.SegmentWriter(folder / name) as log:
            for first in range(0, each, PIECE):
                numbers = range(first, min(first + PIECE, each))
                values = [_value(chance, n) for n in numbers]
                columns = {
                    "timestamp": pa.array([START + n * DAYS * DAY // each for n in numbers], pa.timestamp("ms", "UTC")),
                    "key": pa.array([b"customer-%05d" % chance.randrange(50_000) for _ in numbers], pa.binary()),
                    "value": pa.array(values, pa.binary()),
                }
                log.write(pa.table(columns), compression=codec)
    return sum(each.stat().st_size for each in folder.glob("*/*.log"))


def _value(chance: random.Random, number: int) -> bytes:
    text = '{"id":"%08x-%04x","number":%d,"customer":%d,"status":"%s","amount":%d.%02d,"items":[%d,%d,%d],"city":"%s"}'
    items = [chance.randrange(10_000) for _ in range(3)]
    amount = chance.randrange(100_000)
    city = chance.choice(("Lisbon", "Nairobi", "Osaka", "Quito", "Tromso")) * chance.randrange(1, 4)
    ids = chance.getrandbits(32), chance.getrandbits(16), number, chance.randrange(50_000)
    return (text % (*ids, chance.choice(STATUS), amount // 100, amount % 100, *items, city)).encode()


def by_spark(spark: SparkSession, path: str, out: str, by: tuple[str, ...]) -> None:
    rows = spark.read.format("kafkarec").load(path)
    if by:
        rows = rows.withColumn("date", F.to_date("timestamp"))
    rows.write.option("compression", "zstd").partitionBy(*by).parquet(out)


def by_tasks(spark: SparkSession, path: str, out: str, by: tuple[str, ...]) -> None:
    spark_udfs.write_table(spark, path, out, partition_by=by)


def measured(write: Callable[..., None], spark: SparkSession, path: str, out: Path, by: Any) -> tuple[float, int, int]:
    """Processor seconds, bytes of the files, their number."""
    shutil.rmtree(out, ignore_errors=True)
    began = processor_seconds()
    write(spark, path, str(out), by)
    seconds = processor_seconds() - began
    sizes = [each.stat().st_size for each in out.rglob("*.parquet")]
    return seconds, sum(sizes), len(sizes)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--records", type=int, default=3_000_000)
    parser.add_argument("--codec", default="snappy")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cold", action="store_true")
    chosen = parser.parse_args()
    cores = len(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory() as work:
        path, out = f"{work}/logs", Path(work, "table")
        size = write_logs(Path(path), chosen.records, chosen.codec)
        print(f"{chosen.records:,} records in {size / 1e6:.0f} MB of {chosen.codec}; kafkarec {kafkarec.__version__}")
        rounds: dict[str, list[Any]] = {name: [] for name in WAYS}
        if chosen.cold:
            for name, by in WAYS.items():
                for _ in range(chosen.rounds):
                    rounds[name].append([_cold(write, cores, path, out, by) for write in (by_spark, by_tasks)])
        else:
            with session(cores) as spark:
                for turn in range(chosen.rounds + 1):  # the first one warms up
                    for name, by in WAYS.items():
                        pair = [measured(write, spark, path, out, by) for write in (by_spark, by_tasks)]
                        rounds[name] += [pair] if turn else []
                rows = spark.read.parquet(str(out)).count()
                assert rows == spark_udfs.count(spark, path), rows
                with Watch() as seen:
                    measured(by_tasks, spark, path, out, WAYS["by topic and date"])
                print(f"largest peak of a Python worker: {seen.resident >> 10} MiB, {seen.anonymous >> 10} its own")
        print("\n| | Spark | the tasks | | size | files |\n|---|---:|---:|---:|---:|---:|")
        for name, found in rounds.items():
            spark_s, ours_s = (statistics.median(pair[side][0] for pair in found) for side in (0, 1))
            ratio = statistics.median(pair[0][0] / pair[1][0] for pair in found)
            (_, theirs, many, *_), (_, ours, few, *_) = found[-1]
            cells = (name, f"{spark_s:.1f} s", f"{ours_s:.1f} s", f"{ratio:.1f} times less", f"{ours / theirs:.2f}")
            print(f"| {' | '.join(cells)} | {few} : {many} |")
        for name, found in rounds.items() if chosen.cold else ():
            theirs, ours = (statistics.median(pair[side][3] for pair in found) for side in (0, 1))
            print(f"{name}, from the start of the JVM on: {theirs:.1f} s, {ours:.1f} s, {theirs / ours:.1f} times less")


def _cold(*job: Any) -> tuple[float, int, int, float]:
    """As `measured`, in a new process with a new JVM; at last the processor seconds from its start on."""
    with get_context("spawn").Pool(1) as pool:
        found: tuple[float, int, int, float] = pool.apply(_in_new_session, job)
        return found


def _in_new_session(
    write: Callable[..., None], cores: int, path: str, out: Path, by: tuple[str, ...]
) -> tuple[float, int, int, float]:
    with session(cores, registered=False) as spark:
        if write is by_spark:  # write_table needs no registered source
            spark_udfs.register(spark)
        return *measured(write, spark, path, out, by), processor_seconds()


if __name__ == "__main__":
    main()
