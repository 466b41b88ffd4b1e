"""Runs every SQL function on the golden vectors, and writes the results.

Arguments: the result's path, the vectors' folder, a batch around the end of daylight saving time in hex.
"""

import json
import sys
import traceback
from pathlib import Path

from json_values import plain
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import spark_udfs
from spark_udfs import functions as K

OUT, VECTORS = sys.argv[1], Path(sys.argv[2])
COLUMNS = ["offset", "unix_micros(timestamp)", "timestampType", "key", "value", "headers"]
COLUMNS += ["topic", "partition", "_corrupt_record"]
GOOD = (VECTORS / "vectors" / "v2-none-logappend.bin").read_bytes()
results = {}


def files(folder):
    return [(path.stem, path.read_bytes()) for path in sorted((VECTORS / folder).glob("*.bin"))]


def rows(frame):
    """Return rows by name; the order of the records within a name is part of the result."""
    by_name = {}
    for row in frame.collect():
        by_name.setdefault(row[0], []).append(plain(list(row)[1:]))
    return by_name


def table(frame_rows, name):
    frame = spark.createDataFrame(frame_rows, "name string, v binary").repartition(6, "name")
    frame.createOrReplaceTempView(name)
    return frame


def failure(action):
    try:
        action()
    except Exception as error:
        return {"type": type(error).__name__, "message": str(error), "trace": traceback.format_exc()}
    return None


spark = SparkSession.builder.getOrCreate()
results["first_register"] = str(spark_udfs.register(spark))
results["second_register"] = str(spark_udfs.register(spark))
results["files"] = [each for each in spark.sparkContext.listFiles if each.endswith((".zip", ".whl"))]

good = table(files("vectors"), "good")
results["sql"] = rows(
    spark.sql(f"SELECT name, {', '.join(COLUMNS)} FROM (SELECT name, inline_outer(kafka_decode(v)) FROM good)")
)
results["column"] = rows(good.select("name", F.inline_outer(K.kafka_decode("v"))).selectExpr("name", *COLUMNS))
results["explode"] = rows(K.kafka_explode(good, "v", keep=["name"]).selectExpr("name", *COLUMNS))
results["schema"] = spark.sql("SELECT kafka_decode(v) FROM good").schema.simpleString()
results["small_pieces"] = rows(
    K.kafka_explode(good, "v", keep=["name"], max_output_bytes=1).selectExpr("name", *COLUMNS)
)

# useLargeVarTypes is a runtime setting of the user: input arrives as large_binary, output is expected large
spark.conf.set("spark.sql.execution.arrow.useLargeVarTypes", "true")
results["large"] = rows(good.select("name", F.inline_outer(K.kafka_decode("v"))).selectExpr("name", *COLUMNS))
results["large_explode"] = rows(K.kafka_explode(good, "v", keep=["name"]).selectExpr("name", *COLUMNS))
spark.conf.set("spark.sql.execution.arrow.useLargeVarTypes", "false")

table(files("invalid"), "bad")
results["permissive"] = rows(
    spark.sql(
        f"SELECT name, {', '.join(COLUMNS)} FROM (SELECT name, inline_outer(kafka_decode(v, 'PERMISSIVE')) FROM bad)"
    )
)
spoiled = bytearray(GOOD)
spoiled[-1] ^= 1
table([("spoiled", GOOD + bytes(spoiled) + GOOD)], "spoiled")
results["failfast"] = failure(lambda: spark.sql("SELECT kafka_decode(v) FROM spoiled").collect())
results["failfast_explode"] = failure(lambda: K.kafka_explode(spark.table("spoiled"), "v").collect())
results["wrong_mode"] = failure(lambda: spark.sql("SELECT kafka_decode(v, 'LENIENT') FROM good").collect())
results["wrong_mode_column"] = failure(lambda: K.kafka_decode("v", mode="LENIENT"))
results["name_twice"] = failure(lambda: K.kafka_explode(good.withColumn("topic", F.lit("t")), "v", keep=["topic"]))
results["case_when"] = [
    row[0]
    for row in spark.sql(
        "SELECT CASE WHEN v IS NOT NULL THEN size(kafka_decode(v, 'PERMISSIVE')) END FROM spoiled"
    ).collect()
]

table([("null", None), ("empty", b""), ("one", GOOD)], "few")
results["few"] = {row.name: row.n for row in spark.sql("SELECT name, size(kafka_decode(v)) AS n FROM few").collect()}
results["few_is_null"] = {
    row.name: row.n for row in spark.sql("SELECT name, kafka_decode(v) IS NULL AS n FROM few").collect()
}
for verb in ("inline", "inline_outer"):
    found = spark.sql(f"SELECT name, {verb}(kafka_decode(v)) FROM few").collect()
    results[f"few_{verb}"] = sorted(row[0] for row in found)
results["no_rows"] = spark.sql("SELECT kafka_decode(v) FROM few WHERE name = 'none such'").count()

results["scan"] = rows(
    spark.sql(
        "SELECT name, position, crc, record_count, compression, timestampType, "
        "unix_micros(max_timestamp), producer_id "
        "FROM (SELECT name, inline(kafka_scan(v)) FROM good)"
    )
)
results["scan_bad"] = spark.sql("SELECT inline(kafka_scan(v, 'PERMISSIVE')) FROM bad").count()

# The same instants whatever the session's zone; the texts follow the zone and its daylight saving time.
results["zones"] = {}
for zone in ("UTC", "America/New_York"):
    spark.conf.set("spark.sql.session.timeZone", zone)
    frame = spark.sql(
        "SELECT string(min(timestamp)) AS text, min(unix_micros(timestamp)) AS us "
        "FROM (SELECT inline(kafka_decode(v)) FROM few)"
    ).collect()[0]
    results["zones"][zone] = [frame.text, frame.us]
table([("dst", bytes.fromhex(sys.argv[3]))], "dst")
query = "SELECT string(timestamp), unix_micros(timestamp) FROM (SELECT inline(kafka_decode(v)) FROM dst)"
results["dst"] = [list(row) for row in spark.sql(query).collect()]

found = spark_udfs.doctor(spark)
results["doctor"] = {"rows": list(found.rows), "text": str(found), "healthy": found.healthy}
results["driver_modules"] = sorted(name for name in sys.modules if name in ("kafkarec", "lz4", "crc32c"))

spark.stop()
spark = SparkSession.builder.getOrCreate()
spark_udfs.register(spark)
table([("one", GOOD)], "again")
results["after_stop"] = spark.sql("SELECT size(kafka_decode(v)) FROM again").collect()[0][0]
spark.stop()
Path(OUT).write_text(json.dumps(results))
