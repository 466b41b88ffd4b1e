"""df.write.format("kafkarec"): written records are read back equal; append, overwrite, what cannot be written. Without
Spark but for two tests; write_log on every Spark: test_versions.py."""

import json
import pickle
import random

import pyarrow as pa
import pytest
from publish_jobs import NOW, content, left, numbered, records
from pyspark.sql.pandas.types import from_arrow_schema

import kafkarec
from spark_udfs import write_log
from spark_udfs.source import KafkarecDataSource
from spark_udfs.source.rows_by_partition import murmur2

BATCHES = 100
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
TYPES = {
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": pa.timestamp("us", "UTC"),
    "key": pa.binary(),
    "value": pa.binary(),
    "headers": HEADERS,
}


def save(path, table, mode="append", source=KafkarecDataSource, fails=False, **options):
    """As Spark does, with one task. fails: after its rows."""
    given = {name.lower(): value for name, value in options.items()}
    writer = source({"path": str(path), **given}).writer(from_arrow_schema(table.schema), mode == "overwrite")

    def batches():
        yield from table.to_batches(max_chunksize=BATCHES)
        if fails:
            raise RuntimeError("no")

    try:
        message = pickle.loads(pickle.dumps(writer)).write(batches())
        pickle.loads(pickle.dumps(writer)).commit([pickle.loads(pickle.dumps(message))])
    except Exception:
        writer.abort([])
        raise


def a_table(columns, **types):
    return pa.table({name: pa.array(values, (TYPES | types)[name]) for name, values in columns.items()})


def values(*numbers, topic="t"):
    """Rows without offsets: the even numbers in partition 0."""
    columns = {"topic": [topic] * len(numbers), "partition": [number % 2 for number in numbers]}
    return a_table({**columns, "value": [str(number).encode() for number in numbers]})


def counts(path):
    return {name: len(rows) for name, rows in content(path).items()}


def rows(count):
    """Records with all combinations of fields and nulls, and gaps between offsets; what is read of them."""
    expected = {"orders-0": [], "orders-1": []}
    for number in range(count):
        key = None if number % 7 == 0 else b"k%d" % (number % 11)
        value = None if number % 13 == 0 else random.Random(number).randbytes(number % 200)
        headers = [("h", b"x"), ("ключ", None)] if number % 4 == 0 else []
        expected[f"orders-{number % 2}"].append((number * 2, NOW + number, key, value, headers))
    flat = [("orders", int(name[-1]), *row) for name, rows in expected.items() for row in rows]
    columns = dict(zip(TYPES, map(list, zip(*flat, strict=True)), strict=True))
    columns["timestamp"] = [time * 1000 for time in columns["timestamp"]]
    columns["headers"] = [[{"key": k, "value": v} for k, v in headers] or None for headers in columns["headers"]]
    return a_table(columns), expected


@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_records_with_offsets_are_read_back_unchanged(tmp_path, compression):
    table, expected = rows(500)
    save(tmp_path / "out", table, compression=compression, segmentBytes="4k", batchSize="1k")
    assert records(tmp_path / "out") == expected
    assert len(list((tmp_path / "out" / "orders-0").glob("*.log"))) > 1
    partitions = json.loads((tmp_path / "out" / "_SUCCESS").read_text())["partitions"]
    assert sum(row["records"] for row in partitions.values()) == 500 and left(tmp_path / "out") == []


def test_all_permitted_types_write_the_same(tmp_path):
    """Strings for bytes, milliseconds for timestamps, large Arrow types, another time zone, values of headers as
    text."""
    table = a_table({"offset": [3, 7], "key": [b"k", None], "value": [b"a", b"b"], "timestamp": [NOW * 1000, None]})
    pair = pa.struct([("key", pa.string()), ("value", pa.string())])
    texts = {"key": pa.large_string(), "value": pa.string(), "timestamp": pa.int64(), "offset": pa.int32()}
    headers = [[("color", "red"), ("size", None)], None]
    for number, types in enumerate(
        (texts, {"value": pa.large_binary(), "timestamp": pa.timestamp("us", "Asia/Tokyo")})
    ):
        columns = {name: table[name].to_pylist() for name in table.schema.names}
        if number == 0:
            columns |= {"key": ["k", None], "value": ["a", "b"], "timestamp": [NOW, None]}
        made = a_table({**columns, "partition": [0, 0], "headers": headers}, headers=pa.list_(pair), **types)
        save(tmp_path / str(number), made, topic="t")
        first, second = records(tmp_path / str(number))["t-0"]
        assert first == (3, NOW, b"k", b"a", [("color", b"red"), ("size", None)])
        assert (second[0], *second[2:]) == (7, None, b"b", []) and second[1] > NOW  # the time of the write


def test_appends_continue_and_overwrites_replace(tmp_path):
    for mode in ("append", "append", "overwrite", "append"):
        save(tmp_path, values(*range(300)), mode)
    for number in range(2):
        texts = [str(each) for each in range(number, 300, 2)]
        assert content(tmp_path)[f"t-{number}"] == numbered(*texts, *texts)
    save(tmp_path, values(*range(5), topic="other"))
    dynamic = type("DynamicSession", (KafkarecDataSource,), {"overwrites": "dynamic"})
    for source, options, left_over in (
        (dynamic, {}, {"t-0": 1, "t-1": 300}),
        (KafkarecDataSource, {"partitionOverwriteMode": "dynamic"}, {"t-0": 1, "t-1": 300}),
        (dynamic, {"partitionOverwriteMode": "STATIC"}, {"t-0": 1}),
    ):
        save(tmp_path, values(0), "overwrite", source, **options)
        assert counts(tmp_path) == {"other-0": 3, "other-1": 2} | left_over
    with pytest.raises(ValueError, match="without the option topic no topic is known"):
        save(tmp_path, values(), "overwrite")
    save(tmp_path, values(), "overwrite", topic="t")
    assert counts(tmp_path) == {"other-0": 3, "other-1": 2} and (tmp_path / "t-1").is_dir()


def test_keys_choose_the_partition_as_kafkas_producer_does(tmp_path):
    keys = [str(number).encode() for number in range(200)]
    table = a_table({"key": keys, "value": keys})
    save(tmp_path, table, topic="t", numPartitions="5")
    save(tmp_path, table, topic="t")  # as many partitions as the topic has
    hashed = (murmur2(pa.array(keys, pa.large_binary())) & 0x7FFFFFFF) % 5
    for number in range(5):
        own = [key for key, partition in zip(keys, hashed, strict=True) if partition == number]
        assert sorted(record[2] for record in records(tmp_path)[f"t-{number}"]) == sorted(own * 2)


def test_null_partitions_are_assigned_and_the_others_kept(tmp_path):
    columns = {"key": [b"21", b"21", None], "partition": [2, None, 6], "value": [b"a", b"b", b"c"]}
    save(tmp_path, a_table(columns), topic="t", numPartitions="7")
    assert content(tmp_path) == {"t-2": numbered("a"), "t-3": numbered("b"), "t-6": numbered("c")}
    save(tmp_path, a_table({"value": [b"a", b"b", b"c"]}), topic="without-keys", numPartitions="2")
    found = {name: rows for name, rows in content(tmp_path).items() if name.startswith("without")}
    assert found == {"without-keys-0": numbered("a", "c"), "without-keys-1": numbered("b")}


X = [b"x", b"y"]


@pytest.mark.parametrize(
    "columns, options, message",
    [
        ({"key": X, "topic": ["t"] * 2}, {}, "no column 'value'"),
        ({"value": [1, 2], "topic": ["t"] * 2}, {}, "column 'value' is bigint; it must be binary or string"),
        ({"value": X}, {}, "no topic"),
        ({"value": X, "ky": X}, {"topic": "t"}, "cannot write the column 'ky', rename or drop it; did you mean key"),
        ({"value": X}, {"topic": "a/b"}, "topic 'a/b'"),
        ({"value": X}, {"topic": "t", "compresion": "zstd"}, "did you mean compression"),
        ({"value": X}, {"topic": "t", "compression": "brotli"}, "one of none, gzip"),
        ({"value": X}, {"topic": "t", "compression": "zstd", "level": "99"}, "level"),
        ({"value": X, "topic": ["t", None]}, {}, "topic is null"),
        ({"value": X, "partition": [0, -1]}, {"topic": "t"}, "partition -1"),
        ({"value": X, "partition": [0, 0], "offset": [1, None]}, {"topic": "t"}, "must have an offset, or none"),
        ({"value": X, "partition": [0, 0], "offset": [2, 1]}, {"topic": "t"}, "write_log"),
        ({"value": X, "_corrupt_record": [None, "{}"]}, {"topic": "t"}, "damage"),
    ],
)
def test_unwritable_rows_are_reported_and_nothing_is_written(tmp_path, columns, options, message):
    types = {"value": pa.int64()} if columns.get("value") == [1, 2] else {}
    table = a_table(columns, ky=pa.binary(), _corrupt_record=pa.string(), **types)
    with pytest.raises(Exception, match=message):
        save(tmp_path / "out", table, **options)
    assert not (tmp_path / "out").exists() or [*(tmp_path / "out").rglob("*")] == []


def test_a_task_that_fails_in_the_middle_leaves_the_folder_as_it_was(tmp_path):
    save(tmp_path, values(*range(100)))
    before = records(tmp_path)
    with pytest.raises(RuntimeError, match="no"):
        save(tmp_path, values(*range(2 * BATCHES)), fails=True)
    assert records(tmp_path) == before and left(tmp_path) == [] and (tmp_path / "_SUCCESS").exists()


def test_folders_of_brokers_and_other_data_are_refused_and_a_file_url_is_the_same_folder(tmp_path):
    (tmp_path / "broker").mkdir()
    (tmp_path / "broker" / "meta.properties").write_text("version=1\n")
    with kafkarec.SegmentWriter(tmp_path / "t-0") as writer:
        writer.write([(0, NOW, None, b"x", [])])
    (tmp_path / "file").write_text("")
    for name, message in (
        ("broker", "a broker's data folder"),
        ("t-0", "one partition's folder"),
        ("file", "is a file"),
    ):
        with pytest.raises((ValueError, OSError), match=message):
            save(tmp_path / name, values(1))
    for scheme in ("file://", "file:"):
        save(f"{scheme}{tmp_path}/out", values(1))
    assert counts(tmp_path / "out") == {"t-1": 2}


# ---- in a session -------------------------------------------------------------------------------------------


@pytest.mark.spark
def test_two_tasks_with_offsets_of_one_partition_are_refused_and_write_log_joins_them(spark_session, tmp_path):
    frame = spark_session.range(0, 10, 1, 2).selectExpr("string(id) AS value", "id AS offset", "0 AS partition")
    out = tmp_path / "out"
    with pytest.raises(Exception, match=r"2 tasks have records with offsets for t-0: spark_udfs\.write_log"):
        frame.write.format("kafkarec").mode("append").option("topic", "t").save(str(out))
    assert left(out) == []
    write_log(frame, out, topic="t")
    with pytest.raises(Exception, match=r"t-0: .*offsets 0 to 9 do not follow"):
        write_log(frame, str(out), topic="t")
    assert [row[0] for row in records(out)["t-0"]] == list(range(10))
    with pytest.raises(
        ValueError, match=r"needs .* value; topic, partition missing\. To write .* use df\.write\.format"
    ):
        write_log(frame.drop("partition"), str(out))


@pytest.mark.spark
def test_complete_mode_replaces_the_partitions_with_each_batch(spark_session, tmp_path):
    source, out = str(tmp_path / "source"), tmp_path / "out"
    for number in (1, 2):
        rows = spark_session.range(10).selectExpr("'t' AS topic", "int(id % 2) AS partition", "string(id) AS value")
        rows.coalesce(1).write.mode("append").parquet(source)
        stream = spark_session.readStream.schema("topic string, partition int, value string").parquet(source)
        sums = stream.groupBy("topic", "partition").count().selectExpr("topic", "partition", "string(count) AS value")
        query = sums.writeStream.outputMode("complete").format("kafkarec").queryName("sums")
        query = query.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True)
        query.start(str(out)).awaitTermination()
        assert content(out) == {"t-0": numbered(str(5 * number)), "t-1": numbered(str(5 * number))}
