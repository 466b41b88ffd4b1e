"""What a user reads when something fails: the text of each error.

Arguments: the result's path, the vectors' folder, a folder to write to. The result: {case: {place, cause, message}},
and what a DataFrame did that was made before `register`.
"""

import json
import shutil
import sys
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import spark_udfs
from spark_udfs import capabilities
from spark_udfs import functions as K

OUT, VECTORS, WORK = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
SEGMENTS = VECTORS / "segments"
TXN = str(SEGMENTS / "txn-0")
DAMAGED = WORK / "damaged"
cases = {}


def message(action):
    try:
        action()
    except Exception as error:
        return str(error)
    return None


def case(name, place, cause, action):
    cases[name] = {"place": place, "cause": cause, "message": message(action)}


def finished(query):
    query.awaitTermination()
    if query.exception() is not None:
        raise query.exception()


def options(frame, **given):
    return frame.format("kafkarec").options(**given)


def stream(path, name, **given):
    writer = options(spark.readStream, **given).load(path).writeStream.format("noop")
    writer = writer.option("checkpointLocation", str(WORK / f"checkpoint-{name}"))
    return writer.trigger(availableNow=True).start()


def records(*columns):
    return spark.range(3).selectExpr("'made' AS topic", "string(id) AS value", *columns)


def streamed():
    """A stream of three rows."""
    path = WORK / "rows"
    if not path.exists():
        records().coalesce(1).write.parquet(str(path))  # one file, so the order stays
    return spark.readStream.schema("topic string, value string").parquet(str(path))


def copy(frame, name, **given):
    sink = options(frame.writeStream, checkpointLocation=str(WORK / f"checkpoint-{name}"), **given)
    return sink.trigger(availableNow=True).start(str(WORK / "made"))


def save(frame, path="made", **given):
    options(frame.write, **given).mode("append").save(str(WORK / path))


# ---- functions: every Spark


def functions():
    damage = "CorruptRecordError: crc mismatch at byte "
    case("decode", "function", damage, lambda: bad.select(K.kafka_decode("v")).collect())
    case("decode in SQL", "function", damage, lambda: spark.sql("SELECT kafka_decode(v) FROM bad").collect())
    case("explode", "map", damage, lambda: K.kafka_explode(bad, "v").collect())
    for name, call, cause in (
        ("mode", "kafka_decode(v, 'LENIENT')", "option mode must be one of FAILFAST, PERMISSIVE, not 'LENIENT'"),
        ("type of decode", "kafka_decode('text')", "kafka_decode takes a binary column, not string"),
        ("type of scan", "kafka_scan(5)", "kafka_scan takes a binary column, not int"),
        ("type of encode", "kafka_encode(v)", "kafka_encode takes array<struct<"),
        ("type of internal", "kafka_internal('t', 1, v)", "kafka_internal takes a binary key, not int"),
        ("codec", "kafka_encode(array(struct(v AS value)), 'zip')", "'zip'"),
    ):
        case(name, "function", cause, lambda call=call: spark.sql(f"SELECT {call} FROM good").collect())
    case(
        "offsets of encode",
        "function",
        "kafka_encode, row 0 of an input batch of",
        lambda: spark.sql("SELECT kafka_encode(array(null, struct(v AS value))) FROM good").collect(),
    )
    damage = f"CorruptRecordError: crc mismatch in {DAMAGED}"
    case("read_log", "map", damage, lambda: spark_udfs.read_log(spark, str(DAMAGED)).collect())
    vanishing = WORK / "vanishing" / "txn-0"
    shutil.copytree(TXN, vanishing)
    frame = spark_udfs.read_log(spark, str(vanishing))
    shutil.rmtree(vanishing)
    case("read_log of what is gone", "map", "DataLoss: data loss in txn-0: ", frame.collect)
    given = records("0 AS partition", "id AS offset")
    if capabilities.why_missing(capabilities.WRITE):
        null = given.withColumn("topic", F.lit(None).cast("string"))
        case("write_log", "map", "a record's topic is null", lambda: spark_udfs.write_log(null, str(WORK / "none")))


# ---- table functions and data sources: Spark 4.0 and later


def table_function():
    case(
        "type of LATERAL",
        "analyze",
        "kafka_explode takes a binary column, not string",
        lambda: spark.sql("SELECT * FROM kafka_explode('text')"),
    )
    case(
        "LATERAL",
        "eval",
        "CorruptRecordError: crc mismatch at byte ",
        lambda: spark.sql("SELECT * FROM bad, LATERAL kafka_explode(v)").collect(),
    )


def source():
    for name, cause, given in (
        (
            "option",
            "'maxpartitonbytes', as Spark passes it, in lower case; did you mean maxPartitionBytes?",
            ("maxPartitonBytes", 1),
        ),
        (
            "value of an option",
            "option maxPartitionBytes='much': must be a number of bytes",
            ("maxPartitionBytes", "much"),
        ),
        ("column", "kafkarec has no column 'ofset'; did you mean offset?", ("columns", "ofset")),
    ):
        case(name, "schema", cause, lambda given=given: options(spark.read, **dict([given])).load(TXN))
    case(
        "path", "schema", "[PATH_NOT_FOUND] Path does not exist: /missing", lambda: options(spark.read).load("/missing")
    )
    case("no path", "schema", "kafkarec needs a path", lambda: options(spark.read).load())
    case("scheme", "schema", "kafkarec cannot read hdfs://", lambda: options(spark.read).load("hdfs://namenode/kafka"))
    typed = options(spark.read).schema("offset string")
    case("schema", "reader", "column offset is bigint, not string", lambda: typed.load(TXN).collect())
    given = {"startingOffsets": '{"txn": {"7": 0}}'}
    case("offsets", "partitions", "startingOffsets", lambda: options(spark.read, **given).load(TXN).collect())
    case(
        "topic", "partitions", "subscribe: cannot find", lambda: options(spark.read, subscribe="no").load(TXN).collect()
    )
    damage = f"CorruptRecordError: crc mismatch in {DAMAGED}"
    case("damage", "read", damage, lambda: options(spark.read).load(str(DAMAGED)).collect())
    case("no segment", "read", "at byte 0", lambda: options(spark.read).load(str(WORK / "text.log")).collect())


def sink():
    case("no topic", "writer", "no topic: add the column topic", lambda: save(records().drop("topic")))
    case("type of a column", "writer", "column 'key' is int", lambda: save(records("int(id) AS key")))
    case("option of write", "writer", "numPartitions='no': must be", lambda: save(records(), numPartitions="no"))
    nulls = spark.range(1).selectExpr("string(NULL) AS topic", "'x' AS value")
    case("null topic", "write", "a record's topic is null", lambda: save(nulls))
    given = records("0 AS partition", "id AS offset").coalesce(1)
    save(given, "twice")
    case("offsets that do not follow", "commit", "do not follow", lambda: save(given, "twice"))


def stream_sink():
    frame = streamed()
    given = frame.selectExpr("topic", "value", "0 AS partition", "int(value) AS offset")
    cause = "column 'key' is int"
    case(cause, "streamWriter", cause, lambda: finished(copy(frame.selectExpr("*", "1 AS key"), "key")))
    null = frame.withColumn("topic", F.lit(None).cast("string"))
    case("null topic in a stream", "stream write", "a record's topic is null", lambda: finished(copy(null, "null")))
    finished(copy(given.coalesce(1), "first"))
    case("offsets in a stream", "stream commit", "do not follow", lambda: finished(copy(given.coalesce(1), "second")))


def streams():
    case(
        "option of a stream",
        "streamReader",
        "option view is for read, not for stream",
        lambda: finished(stream(TXN, "option", view="batches")),
    )
    given = {"startingOffsets": '{"txn": {"0": 999999}}'}
    lost = "DataLoss: data loss in txn-0"
    case("start of a stream", "initialOffset", lost, lambda: finished(stream(TXN, "start", **given)))
    losing = WORK / "losing" / "txn-0"
    shutil.copytree(TXN, losing)
    finished(stream(str(losing), "losing"))
    (losing / f"{30:020}.log").unlink()
    case("truncated log", "latestOffset", lost, lambda: finished(stream(str(losing), "losing")))
    case(
        "damage in a stream",
        "stream read",
        f"CorruptRecordError: crc mismatch in {DAMAGED}",
        lambda: finished(stream(str(DAMAGED), "damage")),
    )


spark = SparkSession.builder.getOrCreate()
WORK.mkdir(parents=True, exist_ok=True)
(DAMAGED / "orders-0").mkdir(parents=True)
log = bytearray((SEGMENTS / "all-codecs-0" / f"{0:020}.log").read_bytes())
log[5000] ^= 1
(DAMAGED / "orders-0" / f"{0:020}.log").write_bytes(log)
(WORK / "text.log").write_text("2026-11-22 INFO no segment at all\n" * 100)
GOOD = (VECTORS / "vectors" / "v2-none-logappend.bin").read_bytes()
good = spark.createDataFrame([(GOOD,)], "v binary")
bad = spark.createDataFrame([(GOOD + GOOD[:-1] + bytes([GOOD[-1] ^ 1]),)], "v binary")
good.createOrReplaceTempView("good")
bad.createOrReplaceTempView("bad")
before = K.kafka_explode(good, "v"), good.select(F.size(K.kafka_decode("v")).alias("n"))
spark_udfs.register(spark)
early = [before[0].count(), before[1].first().n]

steps = [functions]
if not capabilities.why_missing(capabilities.READ):
    steps += [table_function, source, sink, stream_sink, streams]
for step in steps:
    step()
Path(OUT).write_text(json.dumps({"cases": cases, "early": early}))
spark.stop()
