"""Log segments to typed tables, with a quarantine; each run adds what has arrived since the one before, once.

    spark-submit --py-files wheelhouse/spark_udfs-0.2.0-py3-none-any.whl examples/pipeline.py FOLDER

    FOLDER/bronze      segments as they arrive, <topic>-<partition>/<base offset>.log; nothing ever changes them
    FOLDER/silver      a row per record with typed columns; topic, partition, offset are its key
    FOLDER/quarantine  damaged ranges of bytes, and records whose value is not what silver expects, with the reason

Silver and quarantine are two streaming queries that read what is new and end. A query's checkpoint has the range of
offsets of each micro-batch before it is read, and the Parquet sink recognises a micro-batch by its number: whatever is
killed, and however often this is run, each record is in exactly one of the two tables, once. Needs Spark 4.0.
"""

import sys
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import spark_udfs

FOLDER = Path(sys.argv[1] if len(sys.argv) > 1 else ".work/pipeline").absolute()
SOURCE = Path(__file__).parent / "data" / "all-codecs-0" / f"{0:020}.log"
JSON = "codec STRING, round INT, n INT, bad STRING"
TABLES = {
    "silver": ("problem IS NULL", ["value IS NULL AS deleted", "json.codec", "json.round", "json.n"]),
    "quarantine": (
        "problem IS NOT NULL",
        ["problem", "_corrupt_record AS damage", "key AS raw_key", "value AS raw_value"],
    ),
}


def arrive(number: int) -> None:
    """Copies half of a real log to bronze, as one segment; one bit of the second half is wrong. Not if it is there."""
    import kafkarec

    data = SOURCE.read_bytes()
    batches = kafkarec.scan(data)
    middle = batches[len(batches) // 2]
    start, end, name = ((0, middle["position"], 0), (middle["position"], len(data), middle["base_offset"]))[number]
    segment = bytearray(data[start:end])
    segment[len(segment) // 4] ^= number
    path = FOLDER / "bronze" / "orders-0" / f"{name:020}.log"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.with_suffix(".arriving").write_bytes(segment)
        path.with_suffix(".arriving").rename(path)  # complete, before it has a segment's name
        print(f"\n{path.name} arrives, {len(segment)} bytes")


def records() -> DataFrame:
    """What has arrived, with the value as JSON, and what is wrong with it: `problem`."""
    reader = spark.readStream.format("kafkarec").option("mode", "PERMISSIVE")
    rows = reader.option("columnNameOfCorruptRecord", "_corrupt_record").load(str(FOLDER / "bronze"))
    json = F.from_json(F.col("value").cast("string"), JSON, {"columnNameOfCorruptRecord": "bad"})
    problem = F.expr("""
        CASE WHEN _corrupt_record IS NOT NULL THEN concat('damaged: ', get_json_object(_corrupt_record, '$.reason'))
             WHEN value IS NULL OR (json.n IS NOT NULL AND json.bad IS NULL) THEN NULL
             ELSE 'not JSON with n' END""")
    return rows.withColumn("json", json).withColumn("problem", problem)


def run() -> None:
    """Adds what is new to both tables. With Delta Lake or Iceberg: the same with format("delta") or format("iceberg")
    instead of format("parquet"), which was not run here."""
    queries = []
    for table, (condition, columns) in TABLES.items():
        rows = records().where(condition).selectExpr("topic", "partition", "offset", "timestamp", *columns)
        writer = rows.writeStream.format("parquet").option("checkpointLocation", str(FOLDER / "checkpoints" / table))
        queries.append(writer.trigger(availableNow=True).start(str(FOLDER / table)))
    for query in queries:
        query.awaitTermination()


def count(table: str) -> int:
    return spark.read.parquet(str(FOLDER / table)).count() if (FOLDER / table).exists() else 0


if __name__ == "__main__":
    spark = SparkSession.builder.config("spark.sql.session.timeZone", "UTC").getOrCreate()
    spark_udfs.register(spark)
    spark_udfs.activate()  # kafkarec in this process
    for step in (lambda: arrive(0), lambda: print("\nnothing arrives"), lambda: arrive(1)):
        before = {table: count(table) for table in TABLES}
        step()
        run()
        for table, rows in before.items():
            print(f"  {table:10} {rows:4} rows, {count(table) - rows:+d}", flush=True)
    silver, quarantine = (spark.read.parquet(str(FOLDER / table)) for table in TABLES)
    assert silver.select("topic", "partition", "offset").distinct().count() == silver.count()
    silver.groupBy("codec", "deleted").agg(F.count("*").alias("records")).orderBy("codec", "deleted").show()
    lost = "bigint(get_json_object(damage, '$.lost_to')) - bigint(get_json_object(damage, '$.lost_from')) + 1"
    by_problem = quarantine.groupBy("problem").agg(F.count("*").alias("rows"), F.expr(f"sum({lost}) AS lost_offsets"))
    by_problem.orderBy("problem").show(truncate=False)
    spark.stop()
