"""df.write.format("kafkarec"): written records are read back equal, and are verified; append, overwrite, failures."""

from __future__ import annotations

import json
import random
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import kafkarec

pytest.importorskip("pyspark", reason="pyspark is not installed")
pytest.importorskip("pyarrow", reason="pyarrow is not installed")

from publish_jobs import records

import spark_udfs
from spark_udfs import write_log
from spark_udfs.source.partitioner import murmur2

pytestmark = pytest.mark.spark

NOW = 1_700_000_000_000
SCHEMA = (
    "topic string, partition int, offset bigint, timestamp timestamp, key binary, value binary, "
    "headers array<struct<key:string,value:binary>>"
)


def at(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)


def rows(count: int, partitions: int = 3) -> list[tuple[Any, ...]]:
    """Records with all combinations of fields and nulls; offsets with gaps, by partition."""
    generated = []
    for number in range(count):
        key = None if number % 7 == 0 else b"k%d" % (number % 11)
        value = None if number % 13 == 0 else random.Random(number).randbytes(number % 200)
        headers = [("h", b"x"), ("ключ", None)] if number % 4 == 0 else None
        generated.append(("orders", number % partitions, number * 2, at(NOW + number), key, value, headers))
    return generated


def expected(rows_given: list[tuple[Any, ...]]) -> dict[str, list[tuple[Any, ...]]]:
    by_partition: dict[str, list[tuple[Any, ...]]] = {}
    for topic, partition, offset, timestamp, key, value, headers in sorted(rows_given, key=lambda row: row[:3]):
        stamp = int(timestamp.timestamp() * 1000)
        by_partition.setdefault(f"{topic}-{partition}", []).append((offset, stamp, key, value, headers or []))
    return by_partition


def numbered(spark: Any, count: int, tasks: int) -> Any:
    """A frame without offsets: 0, 1, 2, ... as values, even numbers in partition 0."""
    columns = ("'t' AS topic", "int(id % 2) AS partition", "string(id) AS value")
    return spark.range(0, count, 1, tasks).selectExpr(*columns)


def no_staging(path: Path) -> bool:
    return not (path / "_temporary").exists()


@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_records_with_offsets_are_read_back_unchanged(spark_session: Any, tmp_path: Path, compression: str) -> None:
    rows_given = rows(500)
    frame = spark_session.createDataFrame(rows_given, SCHEMA).repartition(4)
    write_log(frame, str(tmp_path / "out"), compression=compression, segmentBytes="4k", batchSize="1k")
    assert records(tmp_path / "out") == expected(rows_given)
    assert len(list((tmp_path / "out" / "orders-0").glob("*.log"))) > 1
    back = spark_session.read.format("kafkarec").option("includeHeaders", "true").load(str(tmp_path / "out"))
    names = ("topic", "partition", "offset", "timestamp", "key", "value", "headers")
    assert back.select(*names).exceptAll(frame.select(*names)).count() == 0 and back.count() == 500
    partitions = json.loads((tmp_path / "out" / "_SUCCESS").read_text())["partitions"]
    assert sum(row["records"] for row in partitions.values()) == 500
    assert no_staging(tmp_path / "out")


def test_appends_continue_each_partition_in_the_order_of_the_tasks(spark_session: Any, tmp_path: Path) -> None:
    path = str(tmp_path / "out")
    frame = numbered(spark_session, 300, 3)
    for mode in ("append", "append", "overwrite", "append"):
        frame.write.format("kafkarec").mode(mode).save(path)
        if mode == "append":
            continue
        dynamic = frame.limit(0).write.format("kafkarec").mode("overwrite").option("partitionOverwriteMode", "dynamic")
        dynamic.save(path)  # no partition has rows: nothing is replaced
    actual = records(tmp_path / "out")
    assert sorted(actual) == ["t-0", "t-1"]
    for number, written in enumerate(actual.values()):
        values = [str(each).encode() for each in range(number, 300, 2)]
        assert [record[0] for record in written] == list(range(300))
        assert [record[3] for record in written] == values * 2
        assert all(record[1] > NOW for record in written)  # no timestamp in the rows: the time of the write


def test_a_static_overwrite_leaves_what_the_frame_had(spark_session: Any, tmp_path: Path) -> None:
    path = str(tmp_path)
    numbered(spark_session, 1000, 2).write.format("kafkarec").mode("append").save(path)
    other = spark_session.range(5).selectExpr("'other' AS topic", "string(id) AS value")
    other.write.format("kafkarec").mode("append").save(path)

    def left() -> dict[str, int]:
        counts = spark_session.read.format("kafkarec").load(path).groupBy("topic").count().collect()
        return {row["topic"]: row["count"] for row in counts}

    assert left() == {"t": 1000, "other": 5}
    overwriting = numbered(spark_session, 1, 1).write.format("kafkarec").mode("overwrite")
    overwriting.save(path)
    assert left() == {"t": 1, "other": 5}
    assert len(list(tmp_path.glob("t-*"))) == 2  # the partition that has no rows now is empty
    empty = numbered(spark_session, 3, 1).limit(0).write.format("kafkarec").mode("overwrite")
    with pytest.raises(Exception, match="without the option topic no topic is known"):
        empty.save(path)
    assert left() == {"t": 1, "other": 5}
    empty.option("topic", "t").save(path)
    assert left() == {"other": 5}


def test_an_overwrite_follows_the_setting_of_the_session(spark_session: Any, tmp_path: Path) -> None:
    setting = "spark.sql.sources.partitionOverwriteMode"
    numbered(spark_session, 10, 1).write.format("kafkarec").mode("append").save(str(tmp_path))
    spark_session.conf.set(setting, "dynamic")
    try:
        spark_udfs.register(spark_session)
        numbered(spark_session, 1, 1).write.format("kafkarec").mode("overwrite").save(str(tmp_path))
        assert {name: len(rows) for name, rows in records(tmp_path).items()} == {"t-0": 1, "t-1": 5}
        static = numbered(spark_session, 1, 1).write.format("kafkarec").mode("overwrite")
        static.option("partitionOverwriteMode", "STATIC").save(str(tmp_path))
        assert {name: len(rows) for name, rows in records(tmp_path).items()} == {"t-0": 1, "t-1": 0}
    finally:
        spark_session.conf.unset(setting)
        spark_udfs.register(spark_session)


def test_keys_choose_the_partition_as_kafkas_producer_does(spark_session: Any, tmp_path: Path) -> None:
    import pyarrow as pa

    path = str(tmp_path / "out")
    frame = spark_session.range(200).selectExpr("string(id) AS key", "binary(string(id)) AS value")
    write = frame.write.format("kafkarec").mode("append").option("topic", "t")
    write.option("numPartitions", "5").save(path)
    write.save(path)  # as many partitions as the topic has
    actual = records(tmp_path / "out")
    keys = [str(number).encode() for number in range(200)]
    hashed = (murmur2(pa.array(keys, pa.binary())) & 0x7FFFFFFF) % 5
    for number in range(5):
        own = [key for key, partition in zip(keys, hashed, strict=True) if partition == number]
        assert sorted(record[2] for record in actual[f"t-{number}"]) == sorted(own * 2)


def test_null_partitions_are_assigned_and_the_others_kept(spark_session: Any, tmp_path: Path) -> None:
    frame = spark_session.createDataFrame(
        [("21", 2, b"a"), ("21", None, b"b"), (None, 6, b"c")], "key string, partition int, value binary"
    )
    frame.coalesce(1).write.format("kafkarec").mode("append").options(topic="t", numPartitions="7").save(str(tmp_path))
    assert {name: [row[3] for row in actual] for name, actual in records(tmp_path).items()} == {
        "t-2": [b"a"],
        "t-3": [b"b"],
        "t-6": [b"c"],
    }


@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        ("string(id) AS key, 't' AS topic", {}, "no column 'value'"),
        ("id AS value, 't' AS topic", {}, "column 'value' is bigint; it must be binary or string"),
        ("string(id) AS value", {}, "no topic"),
        (
            "string(id) AS value, 1 AS ky",
            {"topic": "t"},
            "cannot write the column 'ky', rename or drop it; did you mean key",
        ),
        ("string(id) AS value", {"topic": "a/b"}, "topic 'a/b'"),
        ("string(id) AS value", {"topic": "t", "compresion": "zstd"}, "did you mean compression"),
        ("string(id) AS value", {"topic": "t", "compression": "brotli"}, "one of none, gzip"),
        ("string(id) AS value", {"topic": "t", "compression": "zstd", "level": "99"}, "level"),
        ("string(id) AS value, if(id = 3, null, 't') AS topic", {}, "topic is null"),
        ("string(id) AS value, -1 AS partition", {"topic": "t"}, "partition -1"),
        (
            "string(id) AS value, if(id = 3, null, id) AS offset, 0 AS partition",
            {"topic": "t"},
            "must have an offset, or none",
        ),
        ("string(id) AS value, 9 - id AS offset, 0 AS partition", {"topic": "t"}, "write_log"),
        ("string(id) AS value, id AS offset, 0 AS partition, '{}' AS _corrupt_record", {"topic": "t"}, "damage"),
    ],
)
def test_unwritable_rows_are_reported_and_nothing_is_written(
    spark_session: Any, tmp_path: Path, columns: str, options: dict[str, str], message: str
) -> None:
    frame = spark_session.range(0, 10, 1, 1).selectExpr(*columns.split(", ")) if "if(" not in columns else None
    if frame is None:
        spark_session.range(0, 10, 1, 1).createOrReplaceTempView("ten")
        frame = spark_session.sql(f"SELECT {columns} FROM ten")
    with pytest.raises(Exception, match=re.escape(message)):
        frame.write.format("kafkarec").mode("append").options(**options).save(str(tmp_path / "out"))
    assert not (tmp_path / "out").exists() or leftovers(tmp_path / "out") == []


def leftovers(path: Path) -> list[str]:
    return sorted(str(each.relative_to(path)) for each in path.rglob("*") if each.name != "_temporary")


def test_two_tasks_with_offsets_of_one_partition_are_refused(spark_session: Any, tmp_path: Path) -> None:
    frame = spark_session.range(0, 10, 1, 2).selectExpr("string(id) AS value", "id AS offset", "0 AS partition")
    with pytest.raises(Exception, match=r"2 tasks have records with offsets for t-0: spark_udfs\.write_log"):
        frame.write.format("kafkarec").mode("append").option("topic", "t").save(str(tmp_path / "out"))
    assert leftovers(tmp_path / "out") == []
    write_log(frame, str(tmp_path / "out"), topic="t")
    assert [row[0] for row in records(tmp_path / "out")["t-0"]] == list(range(10))
    with pytest.raises(Exception, match=r"t-0: .*offsets 0 to 9 do not follow"):
        write_log(frame, str(tmp_path / "out"), topic="t")
    assert len(records(tmp_path / "out")["t-0"]) == 10


def test_write_log_names_the_missing_columns(spark_session: Any, tmp_path: Path) -> None:
    frame = spark_session.range(3).selectExpr("string(id) AS value", "id AS offset")
    with pytest.raises(ValueError, match="needs the column topic, partition; to write records without offsets use"):
        write_log(frame, str(tmp_path / "out"))


def test_folders_of_brokers_and_other_data_are_refused(spark_session: Any, tmp_path: Path) -> None:
    frame = spark_session.range(3).selectExpr("string(id) AS value", "'t' AS topic")
    (tmp_path / "broker").mkdir()
    (tmp_path / "broker" / "meta.properties").write_text("version=1\n")
    with kafkarec.SegmentWriter(tmp_path / "t-0") as writer:
        writer.write([(0, NOW, None, b"x", [])])
    (tmp_path / "file").write_text("")
    for path, message in (
        (tmp_path / "broker", "a broker's data folder"),
        (tmp_path / "t-0", "one partition's folder"),
        (tmp_path / "file", "is a file"),
        ("https://host/x", "cannot write to https://"),
    ):
        with pytest.raises(Exception, match=message):
            frame.write.format("kafkarec").mode("append").save(str(path))


def test_a_file_url_is_the_same_folder(spark_session: Any, tmp_path: Path) -> None:
    frame = spark_session.range(3).selectExpr("string(id) AS value", "'t' AS topic")
    frame.write.format("kafkarec").mode("append").save(f"file://{tmp_path}/out")
    frame.write.format("kafkarec").mode("append").save(f"file:{tmp_path}/out")
    assert len(records(tmp_path / "out")["t-0"]) == 6


def test_a_task_that_fails_in_the_middle_leaves_the_folder_as_it_was(spark_session: Any, tmp_path: Path) -> None:
    path = str(tmp_path / "out")
    good = numbered(spark_session, 100, 2)
    good.write.format("kafkarec").mode("append").save(path)
    before = records(tmp_path / "out")
    bad = good.selectExpr("topic", "partition", "if(value = '73', raise_error('no'), value) AS value")
    with pytest.raises(Exception, match="no"):
        bad.write.format("kafkarec").mode("append").save(path)
    assert records(tmp_path / "out") == before
    assert no_staging(tmp_path / "out") and (tmp_path / "out" / "_SUCCESS").exists()


def test_readers_ignore_staged_files(spark_session: Any, tmp_path: Path) -> None:
    frame = spark_session.range(5).selectExpr("string(id) AS value", "'t' AS topic")
    frame.write.format("kafkarec").mode("append").save(str(tmp_path / "out"))
    with kafkarec.SegmentWriter(tmp_path / "out" / "_temporary" / "job" / "00000.0-aa" / "t-0") as writer:
        writer.write([(0, NOW, None, b"x", [])])
    for pattern in ("out", "out/*", "o*/", "out/**/*.log", "out/*-0"):
        assert spark_session.read.format("kafkarec").load(str(tmp_path / pattern)).count() == 5, pattern


def test_a_stream_writes_each_batch_once(spark_session: Any, tmp_path: Path) -> None:
    """The driver crashes after the commit, before Spark logs it, so the batch runs again."""
    source, out, checkpoint = (str(tmp_path / name) for name in ("source", "out", "checkpoint"))
    frame = numbered(spark_session, 60, 2)

    def run() -> None:
        stream = spark_session.readStream.schema("topic string, partition int, value string")
        query = stream.parquet(source).writeStream.format("kafkarec").option("checkpointLocation", checkpoint)
        query.trigger(availableNow=True).start(out).awaitTermination()

    frame.write.parquet(source)
    run()
    assert {name: len(actual) for name, actual in records(tmp_path / "out").items()} == {"t-0": 30, "t-1": 30}
    before = records(tmp_path / "out")
    notes = sorted((tmp_path / "checkpoint" / "commits").glob("[0-9]*"))
    for note in (notes[-1], tmp_path / "checkpoint" / "commits" / f".{notes[-1].name}.crc"):
        note.unlink(missing_ok=True)
    run()
    assert records(tmp_path / "out") == before
    frame.write.mode("append").parquet(source)
    run()
    again = records(tmp_path / "out")
    assert {name: len(actual) for name, actual in again.items()} == {"t-0": 60, "t-1": 60}
    assert [row[0] for row in again["t-1"]] == list(range(60))
    assert no_staging(tmp_path / "out")
    assert (tmp_path / "out" / "_streams.json").exists()


def test_all_permitted_types_and_settings_write_the_same(spark_session: Any, tmp_path: Path) -> None:
    """Strings for bytes, milliseconds for timestamps, large Arrow types, another time zone."""
    rows_given = rows(100)
    wide = spark_session.createDataFrame(rows_given, SCHEMA).where("value IS NOT NULL").coalesce(1)
    columns = ("topic", "partition", "offset", "string(key) AS key", "hex(value) AS value", "headers")
    texts = wide.selectExpr(*columns, "unix_millis(timestamp) AS timestamp")
    expected_rows = {
        name: [
            (*actual[:3], actual[3].hex().upper().encode(), actual[4]) for actual in records if actual[3] is not None
        ]
        for name, records in expected(rows_given).items()
    }
    settings = {"spark.sql.execution.arrow.useLargeVarTypes": "true", "spark.sql.session.timeZone": "America/New_York"}
    before = {name: spark_session.conf.get(name) for name in settings}
    try:
        for name, value in settings.items():
            spark_session.conf.set(name, value)
        write_log(texts, str(tmp_path / "texts"))
        write_log(wide.selectExpr(*columns, "timestamp"), str(tmp_path / "wide"), compression="snappy")
    finally:
        for name, value in before.items():
            spark_session.conf.set(name, value)
    assert records(tmp_path / "texts") == records(tmp_path / "wide") == expected_rows


def test_complete_mode_replaces_the_partitions_with_each_batch(spark_session: Any, tmp_path: Path) -> None:
    source, out = str(tmp_path / "source"), str(tmp_path / "out")
    for round_ in range(2):
        numbered(spark_session, 10, 1).write.mode("append").parquet(source)
        stream = spark_session.readStream.schema("topic string, partition int, value string").parquet(source)
        sums = stream.groupBy("topic", "partition").count().selectExpr("topic", "partition", "string(count) AS value")
        query = sums.writeStream.outputMode("complete").format("kafkarec").queryName("sums")
        query = query.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True)
        query.start(out).awaitTermination()
        value = str(5 * (round_ + 1)).encode()
        actual = {name: [(row[0], row[3]) for row in written] for name, written in records(tmp_path / "out").items()}
        assert actual == {"t-0": [(0, value)], "t-1": [(0, value)]}
