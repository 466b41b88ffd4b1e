"""What an application does besides the steps of versions.py, on two executors where kafkarec is not installed.

First Spark's large types, null and empty values, wrong calls, `register` and `doctor`; then, in a second session whose
workers have little memory, the data source: a bucket, damaged logs and a large segment.

Arguments: the result's path, the vectors' folder, a folder of damaged logs, a large segment's folder, a file to make
when a worker has killed itself, the URL of segments and its storageOptions.
"""

import json
import os
import resource
import signal
import sys
import traceback
from pathlib import Path

from json_values import plain
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import spark_udfs
from spark_udfs import functions as K

OUT, VECTORS, DAMAGED, LARGE, KILLED, BUCKET, STORAGE = sys.argv[1:]
FROM_FILES = ["offset", "unix_micros(timestamp)", "timestampType", "key", "value", "headers"]
COLUMNS = [*FROM_FILES, "topic", "partition", "_corrupt_record"]
LITTLE = {"spark.executor.pyspark.memory": "512m", "spark.executor.memory": "512m"}
GOOD = Path(VECTORS, "vectors", "v2-none-logappend.bin").read_bytes()
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


def load(path, **given):
    return spark.read.format("kafkarec").options(**given).load(path)


def peak(batches):
    """Yield this worker's peak memory (KiB) and the limit that Spark has set (bytes)."""
    for batch in batches:
        yield batch.slice(0, 0)
    import pyarrow as pa

    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    yield pa.RecordBatch.from_pydict({"used": [used], "limit": [limit]})


def once_killed(batches):
    """Pass rows on; the first worker is killed with rows of its split already sent."""
    for batch in batches:
        yield batch
        try:
            os.close(os.open(KILLED, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            continue
        os.kill(os.getpid(), signal.SIGKILL)


spark = SparkSession.builder.getOrCreate()
results["first_register"] = str(spark_udfs.register(spark))
results["second_register"] = str(spark_udfs.register(spark))
results["files"] = [each for each in spark.sparkContext.listFiles if each.endswith((".zip", ".whl"))]

good = table([(path.stem, path.read_bytes()) for path in sorted(Path(VECTORS, "vectors").glob("*.bin"))], "good")
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
os.environ["PYSPARK_PYTHON"] = sys.executable  # workers with little memory load nothing that they do not use
spark = SparkSession.builder.config(map=LITTLE).getOrCreate()
spark_udfs.register(spark)
spark.conf.set("spark.sql.session.timeZone", "America/New_York")
table([("one", GOOD)], "again")
results["after_stop"] = spark.sql("SELECT size(kafka_decode(v)) FROM again").collect()[0][0]

bad = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": "why"}
damage = load(DAMAGED, maxPartitionBytes="10000", **bad).where("why IS NOT NULL").select("why")
results["damage"] = [json.loads(row[0]) for row in damage.collect()]

options = {"storageOptions": STORAGE, "maxPartitionBytes": "2500", "includeHeaders": "true", "includeMetadata": "true"}
results["bucket"] = {}
for row in load(BUCKET, **options).selectExpr("_file_path", *FROM_FILES).collect():
    results["bucket"].setdefault(row[0], []).append(plain(list(row)[1:]))

large = load(LARGE, maxPartitionBytes="32m")
sums = large.selectExpr("count(*)", "sum(offset)", "sum(crc32(value))").first()
results["segment"] = [large.rdd.getNumPartitions(), *sums]
exact = large.select("offset").mapInArrow(once_killed, "offset long").selectExpr("count(*)", "sum(offset)")
results["killed"] = list(exact.first())
some = load(LARGE, columns="offset", maxPartitionBytes="32m").selectExpr("offset AS used", "offset AS limit")
results["memory"] = [list(row) for row in some.mapInArrow(peak, "used long, limit long").collect()]
spark.stop()
Path(OUT).write_text(json.dumps(results))
