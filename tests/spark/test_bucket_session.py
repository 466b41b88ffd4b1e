"""Spark reads and writes a bucket: a session in this process and an S3 server on the loopback interface."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from long_run import MINUTES
from paths import SEGMENTS
from s3server import BUCKET, Server, running
from source_rows import spoil
from tiered_names import SEGMENT_ID, TOPIC_ID

import kafkarec

pytest.importorskip("pyspark", reason="pyspark is not installed")
from pyspark.errors import AnalysisException
from pyspark.sql import functions as F

import spark_udfs

pytestmark = [pytest.mark.spark]

LOG = (SEGMENTS / "all-codecs-0" / f"{0:020}.log").read_bytes()
COUNTS = {
    "__cluster_metadata": 142,
    "__consumer_offsets": 18,
    "all-codecs": 865,
    "compacted": 25,
    "logappend": 150,
    "logappend-live": 150,
    "txn": 267,
}


@pytest.fixture(scope="module")
def bucket() -> Iterator[Server]:
    with running("pyarrow") as server:
        server.put_folder(SEGMENTS, "kafka", (".log", ".index", ".timeindex", ".txnindex"))
        server.put(f"tiered/orders-{TOPIC_ID}/7/{0:020}-{SEGMENT_ID}.log", LOG)
        server.put(f"damaged/t-0/{0:020}.log", spoil(LOG, 3))
        yield server


@pytest.fixture
def storage(bucket: Server) -> str:
    """The option in pyarrow's spelling; its secret must not appear anywhere."""
    pyarrow_options = {"access_key": "an-id", "secret_key": "TOP-SECRET", "scheme": "http", "region": "us-east-1"}
    return json.dumps({**pyarrow_options, "endpoint_override": bucket.url.partition("//")[2]})


def url(path: str, scheme: str = "s3") -> str:
    return f"{scheme}://{BUCKET}/{path}"


@pytest.fixture
def load(spark_session: Any, storage: str) -> Any:
    def run(path: str, /, **options: str) -> Any:
        reader = spark_session.read.format("kafkarec").option("storageOptions", storage).options(**options)
        return reader.load(path)

    return run


def counts(frame: Any) -> dict[str, int]:
    return {row[0]: row[1] for row in frame.groupBy("topic").count().collect()}


def test_a_bucket_is_read(load: Any, bucket: Server) -> None:
    assert counts(load(url("kafka"), maxPartitionBytes="5000")) == COUNTS
    assert counts(load(url("kafka/{txn,comp*}-[0-9]", "s3a"))) == {"txn": 267, "compacted": 25}
    tiered = load(url("tiered"), includeMetadata="true").groupBy("topic", "partition", "_file_path").count().collect()
    path = url(f"tiered/orders-{TOPIC_ID}/7/{0:020}-{SEGMENT_ID}.log")
    assert [tuple(row) for row in tiered] == [("orders", 7, path, 865)]
    expected = kafkarec.open(SEGMENTS / "txn-0").read(isolation="read_committed")
    committed = load(url("kafka/txn-0"), **{"kafka.isolation.level": "read_committed", "maxPartitionBytes": "2500"})
    assert committed.rdd.getNumPartitions() > 3
    assert [row[0] for row in committed.select("offset").collect()] == [row.offset for row in expected]


def test_damage_names_the_url(load: Any, spark_session: Any, storage: str) -> None:
    frame = load(url("damaged"), mode="PERMISSIVE", columnNameOfCorruptRecord="bad").where("bad IS NOT NULL")
    reports = [json.loads(row[0]) for row in frame.select("bad").collect()]
    damage = kafkarec.decode(spoil(LOG, 3), errors="skip").damage
    assert [(each["path"], each["position"]) for each in reports] == [
        (url(f"damaged/t-0/{0:020}.log"), each.position) for each in damage
    ]
    report = spark_udfs.damage_report(spark_session, url("damaged"), storageOptions=storage)
    assert [(row["file"], row["position"]) for row in report.rows] == [
        (each["path"], each["position"]) for each in reports
    ]
    with pytest.raises(Exception, match=rf"{BUCKET}/damaged/t-0/{0:020}\.log at byte {damage[0].position}"):
        load(url("damaged")).count()


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("s3://no-such-bucket/x", "there is no bucket no-such-bucket"),
        (f"s3://{BUCKET}/none", r"\[PATH_NOT_FOUND\] Path does not exist: s3://my-bucket/none"),
        (f"s3://{BUCKET}/kafka/none-*", r"\[PATH_NOT_FOUND\]"),
    ],
)
def test_missing_objects_are_reported_at_planning(load: Any, path: str, message: str) -> None:
    with pytest.raises(AnalysisException, match=message):
        load(path)


def test_an_object_replaced_or_deleted_before_it_is_read(load: Any, bucket: Server) -> None:
    name = f"going/t-0/{0:020}.log"
    bucket.put(name, LOG)
    frame, lenient = load(url("going")), load(url("going"), failOnDataLoss="false")
    assert frame.count() == lenient.count() == 865
    bucket.put(name, LOG[:5169])
    with pytest.raises(Exception, match=rf"data loss in t-0: {url(name)} has 5169 bytes, and had {len(LOG)} when"):
        frame.count()
    assert lenient.count() == len(kafkarec.decode(LOG[:5169]))
    bucket.remove(name)
    with pytest.raises(Exception, match=r"data loss in t-0"):
        frame.count()
    assert lenient.count() == 0


def test_no_secret_is_shown(
    spark_session: Any, load: Any, storage: str, bucket: Server, pytestconfig: pytest.Config
) -> None:
    """Neither in plans, nor in the UI and the event log, nor in errors, nor in the executors' log."""
    frame = load(url("kafka/txn-0"))
    frame.explain(True)
    frame.write.format("kafkarec").mode("append").option("storageOptions", storage).save(url("secret"))
    spark_session.sql(
        f"CREATE OR REPLACE TEMPORARY VIEW hidden USING kafkarec OPTIONS (path '{url('kafka/txn-0')}', "
        f"storageOptions '{storage}')"
    )
    spark_session.sql("SELECT count(*) FROM hidden").explain(True)
    problems = []
    for broken in ("not JSON TOP-SECRET", '{"secret_key": "TOP-SECRET", "endpointt": 1}', '{"secret": "TOP-SECRET"}'):
        with pytest.raises(Exception) as raised:
            spark_session.read.format("kafkarec").option("storageOptions", broken).load(url("kafka")).count()
        problems.append(str(raised.value))
    with pytest.raises(Exception, match="a URL must not contain keys") as raised:
        load(f"s3://an-id:TOP-SECRET@{BUCKET}/kafka")
    problems.append(str(raised.value))
    bucket.put(f"damaged2/t-0/{0:020}.log", spoil(LOG, 3))
    with pytest.raises(Exception) as raised:
        load(url("damaged2")).count()
    problems.append(str(raised.value))
    kept = spark_session._jsparkSession.sharedState().statusStore().executionsList()
    plans = [kept.apply(number).physicalPlanDescription() for number in range(kept.size())]
    out, errors = pytestconfig.pluginmanager.getplugin("capturemanager").read_global_capture()
    assert [each for each in (*problems, *plans, out, errors) if "TOP-SECRET" in each] == []
    assert any("kafkarec" in each for each in plans)
    assert "kafkarec read files=" in errors and "RelationV2" in out


# ---- writing ------------------------------------------------------------------------------------------------


@pytest.fixture
def save(storage: str) -> Any:
    def run(frame: Any, path: str, mode: str = "append", **options: str) -> None:
        frame.write.format("kafkarec").mode(mode).option("storageOptions", storage).options(**options).save(url(path))

    return run


def content(bucket: Server, path: str) -> dict[str, list[tuple[int, bytes | None, bytes | None]]]:
    """(offset, key, value) by partition folder; every log is verified."""
    rows_by_folder = {}
    for log in kafkarec.open(url(path), storage_options=bucket.options()):
        report = log.verify()
        assert report.ok, report
        rows_by_folder[log.path.rpartition("/")[2]] = [(row.offset, row.key, row.value) for row in log.read()]
    return rows_by_folder


def numbers(spark: Any, first: int, last: int, tasks: int = 3) -> Any:
    return spark.range(first, last, 1, tasks).selectExpr(
        "'n' AS topic", "int(id % 2) AS partition", "string(id) AS key", "string(id) AS value"
    )


def test_append_and_overwrite(spark_session: Any, save: Any, load: Any, bucket: Server) -> None:
    save(numbers(spark_session, 0, 100), "made", compression="zstd")
    save(numbers(spark_session, 100, 160), "made", segmentBytes="500", batchSize="200")
    for partition, rows in enumerate(content(bucket, "made").values()):
        assert [offset for offset, _, _ in rows] == list(range(80))
        assert [int(value) for _, _, value in rows] == list(range(partition, 160, 2))
    assert sorted(row[0] for row in load(url("made")).selectExpr("int(string(value))").collect()) == list(range(160))
    assert not [name for name in bucket.names("made") if "_temporary" in name]
    save(numbers(spark_session, 0, 4, 1).where("partition = 1"), "made", "overwrite", partitionOverwriteMode="dynamic")
    after = content(bucket, "made")
    assert [value for _, _, value in after["n-1"]] == [b"1", b"3"] and len(after["n-0"]) == 80
    save(numbers(spark_session, 0, 4, 1).where("partition = 1"), "made", "overwrite")
    assert load(url("made")).count() == 2


def test_write_log_keeps_offsets_and_the_store_copies(
    spark_session: Any, storage: str, load: Any, bucket: Server
) -> None:
    backup = spark_session.read.format("kafkarec").option("includeHeaders", "true").load(str(SEGMENTS / "all-codecs-0"))
    for part in ("offset < 500", "offset >= 500"):
        spark_udfs.write_log(backup.where(part), url("restored"), compression="lz4", storageOptions=storage)
    columns = ("offset", "timestamp", "key", "value", "headers")
    again = load(url("restored"), includeHeaders="true").select(*columns)
    assert again.count() == 865 and again.exceptAll(backup.select(*columns)).count() == 0
    assert sum(name.endswith(".log") for name in bucket.names("restored")) == 2
    with pytest.raises(Exception, match="offsets 0 to 864 do not follow: the next offset of the log is 865"):
        spark_udfs.write_log(backup, url("restored"), storageOptions=storage)
    assert not [name for name in bucket.names("restored") if "_temporary" in name]


def test_a_job_that_fails_leaves_nothing(spark_session: Any, save: Any, bucket: Server) -> None:
    save(numbers(spark_session, 0, 10), "failing")
    before = bucket.names("failing")
    bad = numbers(spark_session, 0, 1000).withColumn(
        "value", F.when(F.col("value") == "999", F.expr("raise_error('no')")).otherwise(F.col("value"))
    )
    with pytest.raises(Exception, match="no"):
        save(bad, "failing")
    deadline = time.monotonic() + 30  # a task that was uploading then removes what it has uploaded
    while bucket.names("failing") != before and time.monotonic() < deadline:
        time.sleep(0.1)
    assert bucket.names("failing") == before


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("s3://no-such-bucket/x", "there is no bucket no-such-bucket"),
        (url("kafka/txn-0"), "is one partition's folder: name the folder above it"),
        ("https://example.invalid/x", r"kafkarec cannot write to https://\. It reads and writes folders"),
    ],
)
def test_unsupported_targets_are_refused(spark_session: Any, storage: str, path: str, message: str) -> None:
    writer = numbers(spark_session, 0, 4).write.format("kafkarec").mode("append").option("storageOptions", storage)
    with pytest.raises(Exception, match=message):
        writer.save(path)


def test_missing_write_permission_is_reported_before_the_tasks_run(
    spark_session: Any, save: Any, bucket: Server
) -> None:
    from s3server import Refusal

    bucket.refusal = Refusal("403 Forbidden", "AccessDenied", "Access Denied")
    try:
        with pytest.raises(Exception, match=r"s3://my-bucket/denied.*access denied.*s3:PutObject") as raised:
            save(numbers(spark_session, 0, 4), "denied")
    finally:
        bucket.refusal = None
    assert "TOP-SECRET" not in str(raised.value)


@MINUTES
def test_a_stream_from_bucket_to_bucket(
    spark_session: Any, storage: str, save: Any, bucket: Server, tmp_path: Path
) -> None:
    """New objects and rolled segments are followed; each record is delivered once, also across a restart."""

    def run() -> int:
        source = spark_session.readStream.format("kafkarec").option("storageOptions", storage)
        frame = source.option("maxOffsetsPerTrigger", 40).load(url("flowing"))
        sink = frame.select("topic", "partition", "key", "value").writeStream.format("kafkarec")
        sink = sink.option("storageOptions", storage).option("checkpointLocation", str(tmp_path / "checkpoint"))
        query = sink.trigger(availableNow=True).start(url("flown"))
        assert query.awaitTermination(120)
        return len(query.recentProgress)

    save(numbers(spark_session, 0, 60), "flowing")
    run()
    assert {name: len(rows) for name, rows in content(bucket, "flown").items()} == {"n-0": 30, "n-1": 30}
    save(numbers(spark_session, 60, 100), "flowing", segmentBytes="500", batchSize="100")
    run()
    rows_by_folder = content(bucket, "flown")
    for partition in (0, 1):
        assert [int(value) for _, _, value in rows_by_folder[f"n-{partition}"]] == list(range(partition, 100, 2))
    assert not [name for name in bucket.names("flown") if "_temporary" in name]
    checkpoint = "".join(
        path.read_text(errors="replace") for path in (tmp_path / "checkpoint").rglob("*") if path.is_file()
    )
    assert "TOP-SECRET" not in checkpoint and re.search(r'"n"', checkpoint)


def test_access_keys_from_the_environment(bucket: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the processes that run the tasks; tested without Spark, whose workers keep the environment of their start."""
    from source_rows import read

    for name, value in bucket.environment().items():
        monkeypatch.setenv(name, value)
    assert len(read(url("kafka/txn-0"))) == 267
    assert os.environ["AWS_ENDPOINT_URL"] == bucket.url
    assert spark_udfs.sweep(url("kafka"), older_than_hours=0) == []
