"""The requests of a task to a bucket, counted by the server; options in both libraries' spelling; secrets in
messages."""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from paths import SEGMENTS
from s3server import BUCKET, WITH_INDEXES, Server, running, without_s3fs
from source_rows import Read, spoil
from stream_engine import Query

import kafkarec
from kafkarec.distributed import ended_and_open
from spark_udfs.source import options

pytestmark = [pytest.mark.spark]

LOG = (SEGMENTS / "all-codecs-0" / f"{0:020}.log").read_bytes()
SIZE = sum(path.stat().st_size for path in (SEGMENTS / "txn-0").glob("*.log"))
SPELLINGS = ("fsspec", "pyarrow")


@pytest.fixture(scope="module")
def bucket() -> Iterator[Server]:
    with running("s3fs", "pyarrow") as server:
        server.put_folder(SEGMENTS, "kafka", WITH_INDEXES)
        server.put(f"damaged/t-0/{0:020}.log", spoil(LOG, 3))
        yield server


@pytest.fixture(params=("s3fs", "pyarrow"))
def library(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Either library below fsspec: executors may have pyarrow alone."""
    if request.param == "pyarrow":
        without_s3fs(monkeypatch)
    return str(request.param)


def storage_options(bucket: Server, spelling: str) -> str:
    """storageOptions in the spelling of a library."""
    host = bucket.url.partition("//")[2]
    arrows = {"access_key": "an-id", "secret_key": "s", "endpoint_override": host, "scheme": "http", "region": "eu-x-1"}
    return json.dumps(bucket.options() if spelling == "fsspec" else arrows)


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_both_libraries_accept_both_spellings(bucket: Server, library: str, spelling: str) -> None:
    source_options = {"path": f"s3a://{BUCKET}/kafka/txn-0", "storageOptions": storage_options(bucket, spelling)}
    assert len(Read(source_options).rows) == 267


@pytest.mark.parametrize("level", ["read_uncommitted", "read_committed"])
def test_tasks_read_their_bytes_once_and_list_nothing(bucket: Server, library: str, level: str) -> None:
    source_options = {
        "path": f"s3://{BUCKET}/kafka/txn-0",
        "storageOptions": storage_options(bucket, "fsspec"),
        "isolationLevel": level,
    }
    for most, tasks in (("128m", 1), ("2500", 8)):
        job = Read({**source_options, "maxPartitionBytes": most})
        assert len(job.tasks) == tasks
        bucket.reset()
        rows = sum(batch.num_rows for task in job.tasks for batch in job.reader.read(task))
        assert rows == len(job.rows) and len(job.rows) == {"read_uncommitted": 267, "read_committed": 176}[level]
        pieces = max(tasks, 2)
        assert Counter(method for method, _, _ in bucket.requests) == {"HEAD": 2 * pieces, "GET": 2 * pieces}
        assert all(path.endswith(".log") for _, path, _ in bucket.requests)
        assert bucket.served == SIZE + 64 * pieces  # the head of a file shows whether it is a plain segment


def test_spans_planned_with_their_markers_are_used_unchanged() -> None:
    log = kafkarec.open(SEGMENTS / "txn-0")
    expected = log.read(isolation="read_committed")
    aborted = ended_and_open(log.segments, skip=False).aborted
    spans = {"aborted": aborted, "last_stable_offset": expected.last_stable_offset}
    assert [row.offset for row in log.read(isolation="read_committed", **spans)] == [row.offset for row in expected]
    last = log.segments[-1]
    of_last_segment = last.read(isolation="read_committed", **spans)
    assert [row.offset for row in of_last_segment] == [
        row.offset for row in expected if row.offset >= (last.base_offset or 0)
    ]
    producer = aborted[0][0]  # a span beyond its marker
    hidden = log.read(
        isolation="read_committed", aborted=[(producer, 0, 293)], last_stable_offset=293, columns=["producer_id"]
    )
    assert len(hidden) and producer not in hidden.column("producer_id")


def test_messages_show_no_keys(bucket: Server, library: str) -> None:
    with pytest.raises(ValueError) as raised:
        options.parse({"path": "x", "storageOptions": '{"secret": "TOP'}, "read")
    assert str(raised.value) == "option storageOptions: must be a JSON object"
    parsed = options.parse({"path": "x", "storageOptions": '{"secret": "TOP"}'}, "read")
    assert "TOP" not in f"{parsed} {parsed.storageOptions}"
    with pytest.raises(kafkarec.RemoteError) as refused:
        Read({"path": f"s3://an-id:TOP@{BUCKET}/kafka"})
    assert "a URL must not contain keys" in str(refused.value) and "TOP" not in str(refused.value)
    with pytest.raises(kafkarec.RemoteError, match="unexpected keyword argument 'secrt'") as wrong:
        Read({"path": f"s3://{BUCKET}/kafka", "storageOptions": '{"secrt": "TOP"}'})
    assert "TOP" not in str(wrong.value)


def test_messages_show_no_signature_of_a_url(bucket: Server, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "spark_udfs")
    signed = bucket.presigned(f"damaged/t-0/{0:020}.log")
    assert "Signature" in signed
    rows: list[dict[str, Any]] = Read(
        {"path": signed, "mode": "PERMISSIVE", "columnNameOfCorruptRecord": "bad", "includeMetadata": "true"}
    ).rows
    plain = f"{bucket.url}/{BUCKET}/damaged/t-0/{0:020}.log"
    assert {row["_file_path"] for row in rows} == {plain}
    bad = [row["bad"] for row in rows if row["bad"]]
    assert {json.loads(each)["path"] for each in bad} == {plain} and "Signature" not in "".join(bad)
    assert f"first={plain}" in caplog.text and "Signature" not in caplog.text


def test_a_stream_follows_an_object_that_is_replaced_by_a_longer_one(bucket: Server, library: str) -> None:
    """As the backup of a running broker uploads the last segment again, and then the next one."""
    borders = [batch.position for batch in kafkarec.batches(LOG)]
    middle, folder = borders[len(borders) // 2], f"growing-{library}/t-0"
    first = kafkarec.decode(LOG[:middle])
    bucket.put(f"{folder}/{0:020}.log", LOG[: middle - 10])
    query = Query(f"s3://{BUCKET}/growing-{library}", storageOptions=storage_options(bucket, "fsspec"))
    query.run()
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
    assert bucket.served < 70_000, "a trigger without new data reads the end of the log only"
    bucket.remove(f"{folder}/{865:020}.log")
    bucket.put(f"{folder}/{0:020}.log", LOG[:middle])
    with pytest.raises(RuntimeError, match=r"data loss in t-0: .*866"):
        query.run()


def test_an_object_that_stops_in_mid_batch_is_told(bucket: Server, library: str) -> None:
    position, size = (kafkarec.scan(LOG).column(name)[-1] for name in ("position", "size_in_bytes"))
    bucket.put(f"cut/t-0/{0:020}.log", LOG[:-7])
    given = {"path": f"s3://{BUCKET}/cut", "storageOptions": storage_options(bucket, "fsspec")}
    assert len(Read(given).rows) < 865
    kept = {"mode": "PERMISSIVE", "endOfLog": "strict", "columnNameOfCorruptRecord": "bad", "maxPartitionBytes": "4k"}
    (damage,) = (json.loads(row["bad"]) for row in Read({**given, **kept}).rows if row["bad"])
    assert (damage["position"], damage["length"]) == (position, size - 7)
    with pytest.raises(kafkarec.CorruptRecordError, match=f"at byte {position} .*left {size - 7}, the file ends"):
        Read({**given, "endOfLog": "strict"})
