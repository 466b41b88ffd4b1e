"""What an application does besides the steps of versions.py, on two executors: Spark's large types, null and empty
values, wrong calls, `register` and `doctor`.

Arguments: the result's path, the vectors' folder.
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

good = table([(path.stem, path.read_bytes()) for path in sorted((VECTORS / "vectors").glob("*.bin"))], "good")
# useLargeVarTypes is a runtime setting of the user: input arrives as large_binary, output is expected large
spark.conf.set("spark.sql.execution.arrow.useLargeVarTypes", "true")
results["large"] = rows(good.select("name", F.inline_outer(K.kafka_decode("v"))).selectExpr("name", *COLUMNS))
results["large_explode"] = rows(K.kafka_explode(good, "v", keep=["name"]).selectExpr("name", *COLUMNS))
spark.conf.set("spark.sql.execution.arrow.useLargeVarTypes", "false")

table([("spoiled", GOOD + GOOD[:-1] + bytes([GOOD[-1] ^ 1]) + GOOD)], "spoiled")
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
for verb in ("inline", "inline_outer"):
    found = spark.sql(f"SELECT name, {verb}(kafka_decode(v)) FROM few").collect()
    results[f"few_{verb}"] = sorted(row[0] for row in found)
results["no_rows"] = spark.sql("SELECT kafka_decode(v) FROM few WHERE name = 'none such'").count()

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
