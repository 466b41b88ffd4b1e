"""What questions cost on Spark, asked as of a table and as of a log: `python benchmarks/spark_questions.py`.

    slow   spark.read.format("kafkarec").load(path), then count(), where, select: every column of every record is
           decoded and sent to the JVM, since Spark passes neither columns nor filters that can be used
    fast   the same answer by an option, a view or a function

Both are checked to be the same, and measured one after the other in each round. The log is a topic of two partitions as
a broker writes it, with indexes, records of 100 bytes in batches of 16 KiB before compression. The table at the end is
that of docs/spark/read.md. Needs Java and the packages of `make test`.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from spark import session
from workloads import json_like

import kafkarec
import spark_udfs

START = 1_700_000_000_000
PARTITIONS = 2
PIECE = 200_000
VALUES = 20_000  # different ones
Ask = Callable[[], Any]

TIME = "timestamp_millis({})"


def write_topic(folder: Path, records: int, codec: str) -> int:
    """Writes the partitions; returns their bytes. One record for each millisecond."""
    chance = random.Random(7)
    values = pa.array([json_like(chance, 92) for _ in range(VALUES)], pa.binary())
    for partition in range(PARTITIONS):
        with kafkarec.SegmentWriter(folder / f"events-{partition}") as log:
            for first in range(0, records // PARTITIONS, PIECE):
                numbers = range(first, min(first + PIECE, records // PARTITIONS))
                columns = {
                    "timestamp": pa.array([START + n for n in numbers], pa.timestamp("ms", "UTC")),
                    "key": pa.array([b"%08d" % n for n in numbers], pa.binary()),
                    "value": values.take(pa.array(chance.choices(range(VALUES), k=len(numbers)))),
                }
                log.write(pa.table(columns), compression=codec)
    return sum(each.stat().st_size for each in folder.glob("*/*.log"))


def source(spark: SparkSession, path: str, **options: Any) -> DataFrame:
    return spark.read.format("kafkarec").options(**options).load(path)


def questions(spark: SparkSession, path: str, records: int) -> dict[str, tuple[str, str, Ask, Ask]]:
    """question: (how it is written, how it is faster, both as functions)."""
    every = source(spark, path)
    late = records // PARTITIONS * 99 // 100
    since = START + late
    bounds = json.dumps({"events": dict.fromkeys(map(str, range(PARTITIONS)), late)})
    batches = source(spark, path, view="batches").where("NOT is_control")

    def last(frame: DataFrame, column: str) -> list[Any]:
        return sorted(map(tuple, frame.groupBy("partition").agg(F.max(column)).collect()))

    def first_at(frame: DataFrame) -> dict[int, int]:
        return dict(map(tuple, frame.groupBy("partition").agg(F.min("offset")).collect()))

    after = every.where(F.col("timestamp") >= F.expr(TIME.format(since)))
    return {
        "how many records": (
            "`df.count()`",
            "`spark_udfs.count(spark, path)`",
            every.count,
            lambda: spark_udfs.count(spark, path),
        ),
        "how many, from all headers": (
            "`df.count()`",
            "`view=batches`, `sum(record_count)`",
            every.count,
            lambda: batches.agg(F.sum("record_count")).first()[0],
        ),
        "the last offset of each partition": (
            '`df.groupBy("partition").agg(max("offset"))`',
            "`view=batches`, `max(last_offset)`",
            lambda: last(every, "offset"),
            lambda: last(batches, "last_offset"),
        ),
        "something about offsets": (
            '`df.select("offset")`',
            "`columns=offset`",
            lambda: every.agg(F.sum("offset")).first()[0],
            lambda: source(spark, path, columns="offset").agg(F.sum("offset")).first()[0],
        ),
        "the last 1 % of the offsets": (
            '`df.where("offset >= n")`',
            "`startingOffsets`",
            every.where(f"offset >= {late}").count,
            source(spark, path, startingOffsets=bounds).count,
        ),
        "the last 1 % of the time": (
            '`df.where("timestamp >= t")`',
            "`startingTimestamp`",
            after.count,
            source(spark, path, startingTimestamp=str(since)).count,
        ),
        "one partition of two": (
            '`df.where("partition = 1")`',
            "`assign`",
            every.where("partition = 1").count,
            source(spark, path, assign='{"events": [1]}').count,
        ),
        "the offset at a time": (
            '`df.where("timestamp >= t")`, `min(offset)`',
            "`spark_udfs.offsets_at(spark, path, t)`",
            lambda: first_at(after),
            lambda: spark_udfs.offsets_at(spark, path, since)["events"],
        ),
    }


def seconds(ask: Callable[[], Any]) -> tuple[float, Any]:
    began = time.perf_counter()
    answer = ask()
    return time.perf_counter() - began, answer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--records", type=int, default=8_000_000)
    parser.add_argument("--codec", default="zstd")
    parser.add_argument("--rounds", type=int, default=5)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, session(len(os.sched_getaffinity(0))) as spark:
        size = write_topic(Path(folder), chosen.records, chosen.codec)
        print(
            f"{chosen.records:,} records in {size / 1e6:.0f} MB of {chosen.codec} and indexes; medians of "
            f"{chosen.rounds} rounds; kafkarec {kafkarec.__version__}, pyspark {spark.version}"
        )
        asked = questions(spark, folder, chosen.records)
        lines = []
        for question, (slow_text, fast_text, slow, fast) in asked.items():
            rounds = [(seconds(slow), seconds(fast)) for _ in range(chosen.rounds + 1)][1:]
            assert all(one[1] == other[1] for one, other in rounds), (question, rounds)
            times = [statistics.median(each[side][0] for each in rounds) for side in (0, 1)]
            ratio = statistics.median(one[0] / other[0] for one, other in rounds)
            cells = (question, f"{slow_text}: {times[0]:.2f} s", f"{fast_text}: {times[1]:.2f} s", f"{ratio:.0f} times")
            lines.append(f"| {' | '.join(cells)} |")
            print(question, f"{times[0]:.2f} {times[1]:.2f} x{ratio:.1f}", flush=True)
    print("\n| | written so | faster | |\n|---|---|---|---:|", *lines, sep="\n")


if __name__ == "__main__":
    main()
