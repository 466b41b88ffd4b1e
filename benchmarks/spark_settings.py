"""What Spark's own settings give `kafka_decode`: `python benchmarks/spark_settings.py [--rounds N]`.

Decodes 20,000 values of 100 records of 100 bytes, on as many cores as there are, with each setting in a Spark of its
own, one after the other in each round: MB of values a second, the best query of all rounds.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time

from shared import ROOT, machine

ROWS = {"spark.sql.execution.arrow.maxRecordsPerBatch": "500"}
SOCKETS = {"spark.python.unix.domain.socket.enabled": "true"}
TRIED = {"as Spark sets them": {}, "500 rows": ROWS, "Unix sockets": SOCKETS, "both": ROWS | SOCKETS}
VALUES = 20_000
QUERIES = 7  # the first ones are slower: the JVM compiles what runs


def measure(settings: dict[str, str]) -> float:
    """MB/s of the fastest query of a new Spark."""
    from pyspark.sql import SparkSession
    from pyspark.sql import functions as F

    import kafkarec
    import spark_udfs

    builder = SparkSession.builder.master("local[*]").config("spark.ui.enabled", "false")
    for name, value in {"spark.driver.memory": "3g", **settings}.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark_udfs.register(spark)
    value = kafkarec.encode([(n, 1700000000000 + n, b"key-%04d" % n, b"%0100d" % n, []) for n in range(100)])
    values = spark.range(0, VALUES, 1, 4).select(F.lit(bytearray(value)).alias("value")).cache()
    values.count()
    best = 0.0
    for _ in range(QUERIES):
        began = time.perf_counter()
        values.select(F.expr("size(kafka_decode(value)) AS n")).agg(F.sum("n")).collect()
        best = max(best, VALUES * len(value) / (time.perf_counter() - began) / 1e6)
    spark.stop()
    return best


def in_a_process(settings: dict[str, str]) -> float:
    words = [sys.executable, __file__, "--settings", json.dumps(settings)]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": sys.executable}
    run = subprocess.run(words, env=environment, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    return float(run.stdout.split()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--settings", type=json.loads, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.settings is not None:
        print(measure(args.settings))
        return
    best = dict.fromkeys(TRIED, 0.0)
    for _ in range(args.rounds):
        for name, settings in TRIED.items():
            best[name] = max(best[name], in_a_process(settings))
    print(f"{machine()}; {args.rounds} rounds")
    for name, rate in best.items():
        print(f"  {name:20}{rate:6.0f} MB/s")


if __name__ == "__main__":
    main()
