"""Buckets: the requests of a task, counted by the server; options in both libraries' spelling; secrets in messages,
plans and logs; what cannot be read or written."""

import json
import logging
import re
from collections import Counter

import pytest
from paths import SEGMENTS
from pyspark.errors import AnalysisException
from pyspark.sql import types as T
from s3server import BUCKET, WITH_INDEXES, Refusal, running, without_s3fs
from source_rows import Read, read, spoil
from stream_engine import caught_up

import kafkarec
from spark_udfs.source import KafkarecDataSource, options
from spark_udfs.source.listing import DataLoss

LOG = (SEGMENTS / "all-codecs-0" / f"{0:020}.log").read_bytes()
SIZE = sum(path.stat().st_size for path in (SEGMENTS / "txn-0").glob("*.log"))
SPELLINGS = ("fsspec", "pyarrow")


@pytest.fixture(scope="module")
def bucket():
    with running("s3fs", "pyarrow") as server:
        server.put_folder(SEGMENTS, "kafka", WITH_INDEXES)
        server.put(f"damaged/t-0/{0:020}.log", spoil(LOG, 3))
        server.put(f"plain/orders-0/{0:020}.log", LOG)
        yield server


@pytest.fixture(params=("s3fs", "pyarrow"))
def library(request, monkeypatch):
    """Either library below fsspec: executors may have pyarrow alone."""
    if request.param == "pyarrow":
        without_s3fs(monkeypatch)
    return str(request.param)


def url(path):
    return f"s3://{BUCKET}/{path}"


def storage_options(bucket, spelling):
    """storageOptions in the spelling of a library."""
    host = bucket.url.partition("//")[2]
    arrows = {"access_key": "an-id", "secret_key": "s", "endpoint_override": host, "scheme": "http", "region": "eu-x-1"}
    return json.dumps(bucket.options() if spelling == "fsspec" else arrows)


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_both_libraries_accept_both_spellings(bucket, library, spelling):
    assert len(read(f"s3a://{BUCKET}/kafka/txn-0", storageOptions=storage_options(bucket, spelling))) == 267


@pytest.mark.parametrize("level", ["read_uncommitted", "read_committed"])
def test_tasks_read_their_bytes_once_and_list_nothing(bucket, library, level):
    source_options = {"storageOptions": storage_options(bucket, "fsspec"), "isolationLevel": level}
    for most, tasks in (("128m", 1), ("2500", 8)):
        job = Read(url("kafka/txn-0"), maxPartitionBytes=most, **source_options)
        assert len(job.tasks) == tasks
        bucket.reset()
        assert job.again() == job.rows and len(job.rows) == {"read_uncommitted": 267, "read_committed": 176}[level]
        pieces = max(tasks, 2)
        assert Counter(method for method, _, _ in bucket.requests) == {"HEAD": 2 * pieces, "GET": 2 * pieces}
        assert all(path.endswith(".log") for _, path, _ in bucket.requests)
        assert bucket.served == SIZE + 64 * pieces  # the head of a file shows whether it is a plain segment


def test_keys_come_from_the_environment_and_missing_objects_are_reported(bucket, monkeypatch):
    for name, value in bucket.environment().items():
        monkeypatch.setenv(name, value)
    assert len(read(f"s3a://{BUCKET}/kafka/txn-0")) == 267
    for path in ("none", "kafka/none-*", "kafka/txn-0/none.log"):
        message = f"[PATH_NOT_FOUND] Path does not exist: {url(path)}"
        with pytest.raises(AnalysisException, match=f"^{re.escape(message)}"):
            read(url(path))


def test_an_object_without_an_index_is_one_task_by_default(bucket):
    options = {"storageOptions": json.dumps(bucket.options()), "maxPartitionBytes": "8000"}
    bucket.reset()
    one = Read(url("plain/orders-0"), **options)
    assert len(one.tasks) == 1 and bucket.served < len(LOG) + 10_000
    many = Read(url("plain/orders-0"), splitScan="true", **options)
    assert len(many.tasks) > 3 and many.rows == one.rows and len(one.rows) == 865


def test_messages_show_no_keys(bucket, library):
    with pytest.raises(ValueError) as raised:
        options.parse({"path": "x", "storageOptions": '{"secret": "TOP'}, "read")
    assert str(raised.value) == "option storageOptions: must be a JSON object"
    parsed = options.parse({"path": "x", "storageOptions": '{"secret": "TOP"}'}, "read")
    assert "TOP" not in f"{parsed} {parsed.storageOptions}"
    with pytest.raises(kafkarec.RemoteError) as refused:
        read(f"s3://an-id:TOP@{BUCKET}/kafka")
    assert "a URL must not contain keys" in str(refused.value) and "TOP" not in str(refused.value)
    with pytest.raises(kafkarec.RemoteError, match="unexpected keyword argument 'secrt'") as wrong:
        read(url("kafka"), storageOptions='{"secrt": "TOP"}')
    assert "TOP" not in str(wrong.value)


def test_messages_show_no_signature_of_a_url(bucket, caplog):
    caplog.set_level(logging.INFO, "spark_udfs")
    signed = bucket.presigned(f"damaged/t-0/{0:020}.log")
    assert "Signature" in signed
    rows = read(signed, mode="PERMISSIVE", columnNameOfCorruptRecord="bad", includeMetadata="true")
    plain = f"{bucket.url}/{BUCKET}/damaged/t-0/{0:020}.log"
    assert {row["_file_path"] for row in rows} == {plain}
    bad = [row["bad"] for row in rows if row["bad"]]
    assert {json.loads(each)["path"] for each in bad} == {plain} and "Signature" not in "".join(bad)
    assert f"first={plain}" in caplog.text and "Signature" not in caplog.text


def test_a_stream_follows_an_object_that_is_replaced_by_a_longer_one(bucket, library):
    """As the backup of a running broker uploads the last segment again, and then the next one."""
    borders = [batch.position for batch in kafkarec.batches(LOG)]
    middle, folder = borders[len(borders) // 2], f"growing-{library}/t-0"
    first = kafkarec.decode(LOG[:middle])
    bucket.put(f"{folder}/{0:020}.log", LOG[: middle - 10])
    given = {"storageOptions": storage_options(bucket, "fsspec"), "maxOffsetsPerTrigger": "100"}
    query = caught_up(url(f"growing-{library}"), **given)
    half = len(query.rows["t", 0])
    assert 0 < half < len(first)
    bucket.put(f"{folder}/{0:020}.log", LOG)
    query.restart()
    query.run()
    following = kafkarec.encode([(865, 0, None, b"rolled", [])])
    bucket.put(f"{folder}/{865:020}.log", following)
    query.run()
    assert [offset for offset, _ in query.rows["t", 0]] == list(range(866)) and query.rows["t", 0][-1][1] == b"rolled"
    bucket.reset()
    assert query.run() == 0
    assert bucket.served == 0, "an idle source reads no segments"
    bucket.remove(f"{folder}/{865:020}.log")
    bucket.put(f"{folder}/{0:020}.log", LOG[:middle])
    with pytest.raises(RuntimeError, match=r"data loss in t-0: .*866"):
        query.run()


def test_an_object_replaced_or_deleted_before_it_is_read(bucket):
    name, given = f"going/t-0/{0:020}.log", {"storageOptions": json.dumps(bucket.options())}
    bucket.put(name, LOG)
    strict, lenient = (Read(url("going"), failOnDataLoss=flag, **given) for flag in ("true", "false"))
    for change, message, left in (
        (lambda: bucket.put(name, LOG[:5169]), f"{url(name)} has 5169 bytes, and had {len(LOG)} when", LOG[:5169]),
        (lambda: bucket.remove(name), "", b""),
    ):
        change()
        with pytest.raises(DataLoss, match=rf"data loss in t-0: {message}"):
            strict.again()
        assert len(lenient.again()) == len(kafkarec.decode(left))


# ---- writing ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path, message",
    [
        ("s3://no-such-bucket/x", "there is no bucket no-such-bucket"),
        (f"s3://{BUCKET}/kafka/txn-0", "is one partition's folder: name the folder above it"),
        ("https://example.invalid/x", r"kafkarec cannot write to https://\. It reads and writes folders"),
        (f"s3://{BUCKET}/denied", r"s3://my-bucket/denied.*access denied.*s3:PutObject"),
    ],
)
def test_what_cannot_be_written_is_refused_before_the_tasks_run(bucket, path, message):
    given = {"path": path, "storageoptions": json.dumps(bucket.options())}
    if path.endswith("denied"):
        bucket.refusal = Refusal("403 Forbidden", "AccessDenied", "Access Denied")
    try:
        with pytest.raises(Exception, match=message) as raised:
            KafkarecDataSource(given).writer(T.StructType().add("topic", "string").add("value", "binary"), False)
    finally:
        bucket.refusal = None
    assert bucket.options()["secret"] not in str(raised.value)


# ---- in a session -------------------------------------------------------------------------------------------


@pytest.mark.spark
def test_no_secret_is_shown(spark_session, bucket, pytestconfig):
    """Neither in plans, nor in the UI and the event log, nor in errors, nor in the executors' log."""
    host = bucket.url.partition("//")[2]
    keys = {"access_key": "an-id", "secret_key": "TOP-SECRET", "scheme": "http", "region": "us-east-1"}
    storage = json.dumps({**keys, "endpoint_override": host})

    def load(path):
        return spark_session.read.format("kafkarec").option("storageOptions", storage).load(path)

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
    with pytest.raises(Exception) as raised:
        load(url("damaged")).count()
    problems.append(str(raised.value))
    kept = spark_session._jsparkSession.sharedState().statusStore().executionsList()
    plans = [kept.apply(number).physicalPlanDescription() for number in range(kept.size())]
    out, errors = pytestconfig.pluginmanager.getplugin("capturemanager").read_global_capture()
    assert [each for each in (*problems, *plans, out, errors) if "TOP-SECRET" in each] == []
    assert any("kafkarec" in each for each in plans)
    assert "kafkarec read files=" in errors and "RelationV2" in out
