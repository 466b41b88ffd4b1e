"""Throughput of decoding in Spark, as a share of what Spark itself can move: `python benchmarks/spark.py`.

    upper limit   the same bytes into Python and the same columns out, by a function without work: it returns its first
                  result repeatedly. No decoder with the same API can be faster
    kafkarec      decodes each batch and checks its CRC

Pairs, one after the other in each round, values of one batch of 100 records of 100 bytes:

    decode          SELECT kafka_decode(value)           array<struct>, an Arrow UDF
    inline          SELECT inline(kafka_decode(value))
    explode         functions.kafka_explode(df, "value") mapInArrow
    data source     spark.read.format("kafkarec") of one segment, split into tasks of 128 MiB
    LATERAL         FROM batches, LATERAL kafka_explode(value), a tuple at a time, without an upper limit

then one segment by one core and by all, compared with the pass-through source and Spark's own text source, and the
memory of the Python workers. Needs Java and the packages of `make test`; a temporary folder with space for the segment.

`--pairs` measures the pairs only. `--versions FOLDER` does so with each Spark of FOLDER (made by `make sparks`), with
the wheel of `make wheelhouse`, and with this one, and prints the table of docs/spark/reference.md; `--only 3.5 4.3`
some of them.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyspark
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

import spark_udfs

spark_udfs.activate()

import files  # noqa: E402

import kafkarec  # noqa: E402
from spark_udfs import capabilities, decoding, functions, read_functions, schema  # noqa: E402
from spark_udfs.function_options import FunctionOptions  # noqa: E402
from spark_udfs.source import KafkarecDataSource, batch, columns, options  # noqa: E402
from spark_udfs.source.planning import Split  # noqa: E402

ROOT = Path(__file__).resolve().parent.parent
CORES = len(os.sched_getaffinity(0))
RECORDS = 100
WORKERS_SEEN_EVERY = 0.02
LATERAL_PART = 8  # one Python tuple per record: a part of the table is enough
SOURCE = "data source"  # read_log in Spark 3.5
PAIRS = ("decode", "inline", "explode", SOURCE)
WARM_UPS = 3  # rounds until the JVM has compiled what runs


def one_batch() -> bytes:
    """100 records of 100 bytes with a key each, as one uncompressed batch."""
    rows = [(n, 1700000000000 + n, b"key-%04d" % n, bytes(92 - len(str(n))) + b"%d" % n, []) for n in range(RECORDS)]
    return kafkarec.encode(rows)


BATCH_BYTES = len(one_batch())


class PassThrough(KafkarecDataSource):
    """The data source, except that a task returns its first record batch until all its rows are counted."""

    @classmethod
    def name(cls) -> str:
        return "pass_through"

    def __reduce__(self) -> tuple[Any, ...]:  # by value: it is in no package that a worker could import
        return restored, (type(self), self.__dict__)

    def reader(self, schema: StructType) -> Any:
        return Repeating(super().reader(schema))


def restored(kind: type[PassThrough], state: dict[str, Any]) -> PassThrough:
    made = kind.__new__(kind)
    made.__dict__.update(state)
    return made


class Repeating(batch.BatchReader):
    def __init__(self, real: batch.BatchReader) -> None:
        super().__init__(real.options, real.columns)

    def read(self, partition: capabilities.InputPartition) -> Iterator[pa.RecordBatch]:
        for split in partition.value:
            yield from repeated(split, super().read(type(partition)((split,))))


def repeated_splits(
    chosen: options.ReadOptions, wanted: tuple[schema.SparkColumn, ...], splits: tuple[Split, ...]
) -> Iterator[pa.RecordBatch]:
    """The same for `read_log`, which reads where Spark has no data sources in Python."""
    from spark_udfs.source import reading

    for split in splits:
        yield from repeated(split, reading.read_splits((split,), chosen, wanted))


def repeated(split: Split, read: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The first record batch of a split until all its rows are counted."""
    end = split.end or Path(split.path).stat().st_size
    left = (end - split.begin) // BATCH_BYTES * RECORDS
    first = next(iter(read))
    while left > 0:
        yield first.slice(0, min(left, len(first)))
        left -= len(first)


def of_files(spark: SparkSession, segment: Path) -> tuple[DataFrame, DataFrame]:
    """The pass-through and kafkarec: data sources or, without these, what `read_log` does."""
    if capabilities.DATA_SOURCES.present:
        through = spark.read.format("pass_through").load(str(segment))
        return through, spark.read.format("kafkarec").load(str(segment))
    chosen = options.parse({"path": str(segment)}, "read")
    wanted = columns.select_columns(chosen)
    tasks = read_functions.plan_tasks(chosen)
    body = partial(repeated_splits, chosen, wanted)
    through = read_functions.task_frame(spark, "pass_through", tasks, chosen, body, columns.spark_schema(wanted))
    return through, spark_udfs.read_log(spark, str(segment))


def again(body: Callable[[Any], Any], key: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Calls `body` for the first batch of each size, and then repeats that result."""

    def repeat(batches: Iterator[Any]) -> Iterator[Any]:
        kept: dict[Any, list[Any]] = {}
        for each in batches:
            if key(each) not in kept:
                kept[key(each)] = list(body(iter([each])))
            yield from kept[key(each)]

    return repeat


def pass_through_udf() -> Any:
    repeat = again(decoding.kafka_decode, len)

    def decode_nothing(batches: Iterator[pa.Array]) -> Iterator[pa.Array]:
        yield from repeat(batches)

    return capabilities.arrow_function(decode_nothing, f"array<{schema.sql_struct(schema.RECORD_COLUMNS)}>")


def pairs(spark: SparkSession, segment: Path, values: int) -> dict[str, tuple[DataFrame, DataFrame, int]]:
    """name: (upper limit, kafkarec, records)."""
    blob = one_batch()
    table = spark.range(0, values, 1, CORES).select(F.lit(blob).alias("value"))
    nothing = pass_through_udf()
    exploded = functions.kafka_explode(table, "value")
    explode = decoding.Explode(FunctionOptions())
    through, ours = of_files(spark, segment)
    count = values * RECORDS
    return {
        "decode": (table.select(nothing("value")), table.select(functions.kafka_decode("value")), count),
        "inline": (
            table.select(F.inline(nothing("value"))),
            table.select(F.inline(functions.kafka_decode("value"))),
            count,
        ),
        "explode": (
            table.mapInArrow(again(explode, lambda each: each.num_rows), exploded.schema),
            exploded,
            count,
        ),
        SOURCE: (through, ours, segment.stat().st_size // len(blob) * RECORDS),
    }


class Seconds(NamedTuple):
    wall: float
    processor: float  # of this process, the JVM and the Python workers; other work on the machine changes it less


def seconds(frame: DataFrame) -> Seconds:
    began, used = time.perf_counter(), processor_seconds()
    frame.write.format("noop").mode("overwrite").save()
    return Seconds(time.perf_counter() - began, processor_seconds() - used)


def processor_seconds() -> float:
    """The processor time of this process and its descendants; that of ended ones is in their parents'."""
    parents, used = {}, {}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            state = (process / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        parents[process.name], used[process.name] = state[1], sum(map(int, state[11:15]))
    ours, size = {str(os.getpid())}, 0
    while len(ours) > size:
        size = len(ours)
        ours |= {process for process, parent in parents.items() if parent in ours}
    return sum(used[process] for process in ours) / os.sysconf("SC_CLK_TCK")


class Pair(NamedTuple):
    """Million records per second of the upper limit and of kafkarec, and kafkarec's share of the limit by three ways:
    by the best times, by the median of the rounds, by processor time."""

    name: str
    limit: float
    ours: float
    best: float
    median: float
    processor: float


def measured(spark: SparkSession, segment: Path, values: int, rounds: int) -> Iterator[Pair]:
    for name, (limit, ours, count) in pairs(spark, segment, values).items():
        taken = []
        for number in range(rounds + WARM_UPS):  # each is first in every other round
            first, second = (limit, ours) if number % 2 else (ours, limit)
            times = seconds(first), seconds(second)
            taken.append(times if number % 2 else times[::-1])
        taken = taken[WARM_UPS:]
        least = [min(each) for each in zip(*[(through.wall, decoded.wall) for through, decoded in taken], strict=True)]
        middle = statistics.median(through.wall / decoded.wall for through, decoded in taken)
        processor = statistics.median(through.processor / decoded.processor for through, decoded in taken)
        yield Pair(name, *(count / each / 1e6 for each in least), least[0] / least[1], middle, processor)


def throughput(spark: SparkSession, segment: Path, values: int, rounds: int) -> list[Pair]:
    print(f"\n{CORES} cores, {rounds} rounds. Upper limit / kafkarec: best times, median of rounds, processor time")
    print(f"{'':12} {'M records/s':>17} {'best':>6} {'median':>7} {'processor':>10} {'MB/s':>6}")
    found = []
    for pair in measured(spark, segment, values, rounds):
        size = pair.ours * BATCH_BYTES / RECORDS
        shares = f"{pair.best:6.0%} {pair.median:7.0%} {pair.processor:10.0%}"
        print(f"{pair.name:12} {pair.limit:8.2f} {pair.ours:8.2f} {shares} {size:6.0f}", flush=True)
        found.append(pair)
    return found


def lateral(spark: SparkSession, values: int, rounds: int) -> None:
    table = spark.range(0, values // LATERAL_PART, 1, CORES).select(F.lit(one_batch()).alias("value"))
    table.createOrReplaceTempView("batches")
    rows = spark.sql("SELECT r.* FROM batches, LATERAL kafka_explode(value) AS r")
    quickest = min(seconds(rows).wall for _ in range(1 + rounds // 2))
    print(f"{'LATERAL':12} {'':8} {values // LATERAL_PART * RECORDS / quickest / 1e6:8.2f}", flush=True)


def scaling(folder: Path, segment: Path) -> None:
    text = folder / "lines.txt"
    line = b"x" * 99 + b"\n"
    with open(text, "wb") as file:
        for _ in range(segment.stat().st_size // (len(line) << 14)):
            file.write(line * (1 << 14))
    reads: dict[str, Callable[[SparkSession], DataFrame]] = {
        "kafkarec": lambda spark: spark.read.format("kafkarec").load(str(segment)),
        "pass-through": lambda spark: spark.read.format("pass_through").load(str(segment)),
        "Spark's text": lambda spark: spark.read.text(f"file://{text}"),
    }
    print(f"\none segment of {segment.stat().st_size >> 20} MiB, seconds, best of 3")
    found: dict[str, list[float]] = {name: [] for name in reads}
    for cores in (1, CORES):
        with session(cores) as spark:
            for name, read in reads.items():
                found[name].append(min(seconds(read(spark)).wall for _ in range(3)))
    for name, (alone, together) in found.items():
        print(f"{name:12} 1 core {alone:6.2f}   {CORES} cores {together:6.2f}   x{alone / together:.2f}")


def memory(segment: Path) -> None:
    """In a separate session, since a worker that has run other tasks keeps the memory of their pools."""
    print("\nPython workers of the data source, MiB at most: resident, of which anonymous")
    for name in ("pass_through", "kafkarec"):
        with session(CORES) as spark, Watch() as seen:
            seconds(spark.read.format(name).load(str(segment)))
        print(f"{name:12} {seen.resident >> 10:5} {seen.anonymous >> 10:5}")


class Watch(threading.Thread):
    """The peaks of any one Python worker of this machine's user, in KiB."""

    def __enter__(self) -> Watch:
        self.done, self.resident, self.anonymous = threading.Event(), 0, 0
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.done.set()
        self.join()

    def run(self) -> None:
        while not self.done.wait(WORKERS_SEEN_EVERY):
            for process in Path("/proc").glob("[0-9]*"):
                try:
                    if b"pyspark.daemon" not in (process / "cmdline").read_bytes():
                        continue
                    status = dict(line.split(":", 1) for line in (process / "status").read_text().splitlines())
                except OSError:
                    continue  # it has ended
                self.resident = max(self.resident, int(status["VmRSS"].split()[0]))
                self.anonymous = max(self.anonymous, int(status["RssAnon"].split()[0]))


@contextmanager
def session(cores: int, *, registered: bool = True) -> Iterator[SparkSession]:
    os.environ["PYTHONWARNINGS"] = "ignore"
    quiet = {"spark.ui.enabled": "false", "spark.log.level": "ERROR", "spark.ui.showConsoleProgress": "false"}
    builder = SparkSession.builder.master(f"local[{cores}]").appName("kafkarec benchmark")
    for key, value in (quiet | {"spark.driver.memory": "2g"}).items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    try:
        if registered:
            spark_udfs.register(spark)
            if capabilities.DATA_SOURCES.present:
                spark.dataSource.register(PassThrough)
        yield spark
    finally:
        spark.stop()


def of_versions(folder: Path, only: list[str], arguments: list[str]) -> None:
    """Measures each Spark in a process of its own, and prints a table with the share of the upper limit."""
    pythons = {path.parents[1].name: str(path) for path in sorted(folder.glob("*/bin/python"))}
    pythons[pyspark.__version__[:3]] = sys.executable
    (wheel,) = (ROOT / "wheelhouse").glob("spark_udfs-*.whl")
    lines = {}
    for version, python in pythons.items():
        if only and version not in only:
            continue
        with tempfile.TemporaryDirectory() as work:  # workers have the working folder on their path: not the checkout
            environment = os.environ | {"PYTHONPATH": str(wheel), "KAFKAREC_CACHE": work}
            command = [python, __file__, "--pairs", "--json", f"{work}/pairs.json", *arguments]
            with open(f"{work}/log", "w") as log:
                done = subprocess.run(command, env=environment, check=False, cwd=work, stderr=log)
            if done.returncode:
                sys.exit(Path(work, "log").read_text()[-3000:])
            lines[version] = json.loads(Path(work, "pairs.json").read_text())
    print(f"\n| | {' | '.join(line['pyspark'] for line in lines.values())} |\n|---|{'---:|' * len(lines)}")
    for number, name in enumerate(PAIRS):
        cells = []
        for line in lines.values():
            pair = Pair(*line["pairs"][number])
            cells.append(f"{pair.ours:.1f} of {pair.limit:.1f}: {pair.best:.0%}, {pair.processor:.0%}")
        print(f"| {name} | {' | '.join(cells)} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--gib", type=float, default=1.0, help="size of the segment")
    parser.add_argument("--values", type=int, default=40_000, help="rows of the table of batches")
    parser.add_argument("--pairs", action="store_true", help="only these")
    parser.add_argument("--json", type=Path, help="a file for the figures of the pairs")
    parser.add_argument("--versions", type=Path, help="the folder that tools/spark_versions made")
    parser.add_argument("--only", nargs="+", default=[], help="some of the versions")
    chosen = parser.parse_args()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    if chosen.versions:
        passed = ("--rounds", str(chosen.rounds), "--gib", str(chosen.gib), "--values", str(chosen.values))
        of_versions(chosen.versions, chosen.only, list(passed))
        return
    with tempfile.TemporaryDirectory() as folder:
        segment = Path(folder) / "bench-0" / f"{0:020}.log"
        segment.parent.mkdir()
        files.write_repeated(segment, [one_batch()], RECORDS, int(chosen.gib * files.GIB))
        versions = f"kafkarec {kafkarec.__version__}, pyspark {pyspark.__version__}, pyarrow {pa.__version__}"
        print(f"{versions}, Python {sys.version.split()[0]}; load {os.getloadavg()[0]:.1f}")
        with session(CORES) as spark:
            found = throughput(spark, segment, chosen.values, chosen.rounds)
            if not chosen.pairs:
                lateral(spark, chosen.values, chosen.rounds)
        if chosen.json:
            chosen.json.write_text(json.dumps({"pyspark": pyspark.__version__, "pairs": found}))
        if chosen.pairs:
            return
        memory(segment)
        scaling(Path(folder), segment)


if __name__ == "__main__":
    main()
