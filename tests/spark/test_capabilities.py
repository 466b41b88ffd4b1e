"""What takes the place of what an older pyspark lacks, tried in this one; `test_versions.py` has the real ones."""

import json
import pickle
import sys
import zlib

import golden
import pandas as pd
import pyarrow as pa
import pytest
from paths import ROOT, SEGMENTS
from stream_engine import Query, strict_and_lenient
from subprocesses import output_of

import kafkarec
import spark_udfs
from spark_udfs import arrow_in_pandas, capabilities, decoding, encoding, internal, read_functions, schema
from spark_udfs.arrow_in_pandas import PandasUdfOverArrow
from spark_udfs.source import KafkarecDataSource, options
from spark_udfs.source.batch import BatchReader
from spark_udfs.source.listing import DataLoss

NAMES = ("v2-none-logappend", "v2-gzip-headers", "v2-ts-large-deltas", "v2-null-key-null-value", "empty-buffer")
VALUES = pa.array([golden.vector(name).bytes for name in NAMES] + [None], pa.binary())
DECODED = pa.concat_arrays(decoding.kafka_decode(iter([VALUES])))

# Imports everything where the names that came later are hidden, as if pyspark were 3.5.
AS_3_5 = """
import sys
import pyspark.sql.pandas.functions as functions, pyspark.sql.types as types, pyspark.sql.udtf as udtfs
for name in ("pyspark.sql.datasource", "pyspark.sql.streaming.datasource"):
    sys.modules[name] = None
functions.pandas_udf = lambda body, result, kind: body
del functions.arrow_udf, udtfs.AnalyzeArgument, udtfs.AnalyzeResult
from spark_udfs import capabilities, functions, registration, read_functions, write_functions, udtf, damage
from spark_udfs.source import batch, planning, stream, writing
from spark_udfs.source.options import parse
print([each.present for each in (capabilities.DATA_SOURCES, capabilities.ANALYZE, capabilities.LIMITS)])
print(type(functions.sql_function("kafka_decode")).__name__)
for feature in (capabilities.READ, capabilities.LATERAL):
    print(capabilities.why_missing(feature))
"""


def lacking(monkeypatch, **since):
    """pretends that this pyspark does not have these capabilities"""
    for name, version in since.items():
        monkeypatch.setattr(getattr(capabilities, name), "present", False)
        monkeypatch.setattr(getattr(capabilities, name), "since", version)


def test_this_pyspark_has_everything():
    for name in ("DATA_SOURCES", "ANALYZE", "LIMITS"):
        assert getattr(capabilities, name).present
    assert capabilities.why_missing(capabilities.READ) is None
    capabilities.check_options({"maxOffsetsPerTrigger": 1})


def test_everything_can_be_imported_without_what_came_after_3_5():
    lines = output_of(sys.executable, "-c", AS_3_5, cwd=ROOT).splitlines()
    assert lines[:2] == ["[False, False, False]", "PandasUdfOverArrow"]
    assert lines[2].startswith('spark.read.format("kafkarec") needs Spark 4.0, this is ')
    assert lines[2].endswith("; write spark_udfs.read_log(spark, path)")
    assert lines[3].endswith(
        "; write inline_outer(kafka_decode(value)), or spark_udfs.functions.kafka_explode(df, col)"
    )


def test_an_option_that_this_spark_cannot_do_is_refused_when_it_is_loaded(monkeypatch):
    lacking(monkeypatch, LIMITS="4.9")
    source = KafkarecDataSource({"path": str(SEGMENTS / "txn-0"), "maxoffsetspertrigger": "10"})
    with pytest.raises(
        spark_udfs.NeedsNewerSpark, match=r"^maxOffsetsPerTrigger needs Spark 4\.9, this is .*; "
    ) as caught:
        source.schema()
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
    columns = KafkarecDataSource({"path": str(SEGMENTS / "txn-0")}).schema()
    reader = source.streamReader(columns)  # with a schema of the user Spark does not ask for ours
    for refuse in (reader.initialOffset, reader.latestOffset, reader.getDefaultReadLimit):
        with pytest.raises(spark_udfs.NeedsNewerSpark):
            refuse()


# ---- functions without arrow_udf --------------------------------------------------------------------------------


def to_objects(array):
    return pd.Series(array.to_pylist(), dtype=object)


def test_values_pass_as_objects_where_the_serializer_has_other_methods():
    assert arrow_in_pandas.worker_serializer_class() is None  # in this pyspark it has
    (decoded,) = PandasUdfOverArrow(decoding.kafka_decode)(iter([to_objects(VALUES)]))
    assert decoded.tolist() == DECODED.to_pylist()
    mode = pd.Series(["PERMISSIVE"] * 2)
    (kept,) = PandasUdfOverArrow(decoding.kafka_decode)(iter([(pd.Series([bytes([9]) * 70, b""]), mode)]))
    assert json.loads(kept[0][0][schema.CORRUPT])["length"] == 70 and kept[1] == []
    records = pd.Series([[{"offset": 7, "key": b"k", "value": "v"}], [], None])
    (encoded,) = PandasUdfOverArrow(encoding.kafka_encode)(iter([records]))
    assert [each.offset for each in kafkarec.decode(encoded[0])] == [7]
    assert encoded[1:].tolist() == [b"", None]


def test_values_of_one_function_reach_the_next_as_they_are():
    """Times keep their zone, and null its difference from an empty list."""
    values = pd.Series([golden.vector("v2-gzip-headers").bytes, None, b""])
    decoded = PandasUdfOverArrow(decoding.kafka_decode)(iter([values]))
    encoded = next(PandasUdfOverArrow(encoding.kafka_encode)(decoded))
    given = [(each.timestamp, each.key, each.value, each.headers) for each in kafkarec.decode(values[0])]
    found = [(each.timestamp, each.key, each.value, each.headers) for each in kafkarec.decode(encoded[0])]
    assert found == given and encoded[1:].tolist() == [None, b""]
    lengths = PandasUdfOverArrow(decoding.kafka_decode)(iter([values]))
    assert [[None if each is None else len(each) for each in series] for series in lengths] == [[len(given), None, 0]]


def test_structs_pass_as_a_frame():
    record = next(iter(kafkarec.open(SEGMENTS / "__consumer_offsets-0").read(start_offset=2)))
    arguments = (
        pd.Series(["__consumer_offsets", "orders"]),
        pd.Series([record.key, b"k"]),
        pd.Series([record.value, b""]),
    )
    (frame,) = PandasUdfOverArrow(internal.kafka_internal)(iter([arguments]))
    assert list(frame.columns) == [column.name for column in internal.COLUMNS]
    assert frame["type"].tolist() == ["OffsetCommit", None]


def test_times_without_a_zone_are_refused():
    records = pd.Series([[{"offset": 7, "timestamp": pd.Timestamp("2024-01-01"), "value": b"v"}]])
    with pytest.raises(spark_udfs.NeedsNewerSpark, match="unix_millis"):
        list(PandasUdfOverArrow(encoding.kafka_encode)(iter([records])))


# ---- streams of a Spark that says neither where a batch begins nor how much it may read -------------------------


@pytest.fixture
def simple(monkeypatch):
    lacking(monkeypatch, LIMITS="4.2")


@pytest.mark.usefixtures("simple")
def test_a_simple_stream_returns_every_row_once_across_restarts(tmp_path, broker):
    broker.write(5)
    query = Query(broker.root)
    assert query.run() == 1
    broker.write(7)
    broker.write(3, partition=1)
    query.trigger(crash=True)
    assert query.run() == 0 and query.rows == broker.rows
    query.restart()
    assert query.run() == 0
    broker.write(2)
    query.restart()
    assert query.run() == 1 and query.rows == broker.rows
    assert query.texts()[-1] == {"orders": {"0": 14, "1": 3}}


@pytest.mark.usefixtures("simple")
def test_a_simple_stream_begins_at_the_end_that_the_query_saw(broker):
    broker.write(5)
    query = Query(broker.root, startingOffsets="latest")
    query.trigger()
    broker.write(4)
    query.run()
    assert query.rows["orders", 0] == broker.rows["orders", 0][5:]


@pytest.mark.usefixtures("simple")
@pytest.mark.parametrize("restarted", [True, False])
def test_a_simple_stream_reports_a_truncated_log(broker, restarted):
    for _ in range(3):
        broker.write(5)
    strict, lenient = strict_and_lenient(broker.root)
    broker.truncate(5)
    for query in (strict, lenient):
        if restarted:
            query.restart()
    with pytest.raises(DataLoss, match="orders-0: the next offset is 15, and the log ends at offset 5"):
        strict.run()
    lenient.run()
    broker.write(3)
    lenient.run()
    assert lenient.texts()[-1] == {"orders": {"0": 8}}
    assert lenient.offsets == [*range(15), *range(5, 8)]


# ---- read_log and write_log without data sources ----------------------------------------------------------------


def test_a_task_unpickles_its_own_splits_only():
    given = {"path": str(SEGMENTS), "subscribe": "txn", "isolationLevel": "read_committed", "maxPartitionBytes": "2k"}
    tasks = BatchReader(options.parse(given, "read"), ()).plan_tasks()
    assert len(tasks) > 3 and any(split.uncommitted.aborted for task in tasks for split in task)
    body = read_functions.SplitTaskFunction("read_log", tasks, iter)
    pickled = pickle.loads(zlib.decompress(body.packed))
    body.packed = zlib.compress(pickle.dumps([b"of another task", *pickled[1:]]))
    numbers = pa.RecordBatch.from_arrays([pa.array(range(1, len(tasks)))], ["id"])
    sent = pickle.loads(pickle.dumps(body))(iter([numbers]))
    assert list(sent) == [split for task in tasks[1:] for split in task]


@pytest.mark.spark
def test_write_log_without_data_sources(spark_session, tmp_path, monkeypatch):
    lacking(monkeypatch, DATA_SOURCES="4.0")
    records = spark_session.range(100).selectExpr(
        "'made' topic", "int(id % 3) partition", "id offset", "string(id) value"
    )
    spark_udfs.write_log(records.where("offset < 50"), str(tmp_path / "log"), compression="lz4")
    spark_udfs.write_log(records.where("offset >= 50"), str(tmp_path / "log"))
    logs = kafkarec.open(tmp_path / "log")
    found = sorted((each.offset, log.partition, each.value) for log in logs for each in log.read())
    assert found == [(n, n % 3, b"%d" % n) for n in range(100)]
    before = {path: path.read_bytes() for path in tmp_path.rglob("*.log")}
    with pytest.raises(ValueError, match="do not follow"):
        spark_udfs.write_log(records.where("offset < 50"), str(tmp_path / "log"))
    with pytest.raises(Exception, match="a row with _corrupt_record is damage"):
        spark_udfs.write_log(
            records.selectExpr("*", "'{}' AS _corrupt_record"), str(tmp_path / "log"), mode="overwrite"
        )
    assert {path: path.read_bytes() for path in tmp_path.rglob("*.log")} == before
    assert not list(tmp_path.rglob("*attempt*")) and not [*(tmp_path / "log" / "_temporary").glob("*/*")]
    with pytest.raises(ValueError, match='mode must be "append" or "overwrite", not \'ignore\''):
        spark_udfs.write_log(records, str(tmp_path / "log"), mode="ignore")
