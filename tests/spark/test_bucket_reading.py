"""What a task asks a bucket for, counted by the server; options in both libraries' words; what shows no keys."""

from __future__ import annotations

import json
import logging
import sys
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from paths import SEGMENTS
from s3server import BUCKET, WITH_INDEXES, Server, running
from source_rows import Read, spoil
from stream_engine import Query

import kafkarec
from kafkarec.storage import remote
from spark_udfs.source import options

pytestmark = [pytest.mark.spark]

LOG = (SEGMENTS / "all-codecs-0" / f"{0:020}.log").read_bytes()
SIZE = sum(path.stat().st_size for path in (SEGMENTS / "txn-0").glob("*.log"))
WORDS = ("fsspec", "pyarrow")


@pytest.fixture(scope="module")
def bucket() -> Iterator[Server]:
    with running("s3fs", "pyarrow") as server:
        server.put_folder(SEGMENTS, "kafka", WITH_INDEXES)
        server.put(f"damaged/t-0/{0:020}.log", spoil(LOG, 3))
        yield server


@pytest.fixture(params=WORDS)
def library(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both that may be there: executors have pyarrow alone."""
    if request.param == "pyarrow":
        monkeypatch.setitem(sys.modules, "s3fs", None)
    return str(request.param)


def told(bucket: Server, words: str) -> str:
    """storageOptions in the words of a library."""
    host = bucket.url.partition("//")[2]
    arrows = {"access_key": "an-id", "secret_key": "s", "endpoint_override": host, "scheme": "http", "region": "eu-x-1"}
    return json.dumps(bucket.options() if words == "fsspec" else arrows)


@pytest.mark.parametrize("words", WORDS)
def test_both_libraries_understand_both_words(bucket: Server, library: str, words: str) -> None:
    given = {"path": f"s3a://{BUCKET}/kafka/txn-0", "storageOptions": told(bucket, words)}
    assert len(Read(given).rows) == 267


@pytest.mark.parametrize("level", ["read_uncommitted", "read_committed"])
def test_tasks_read_their_bytes_once_and_list_nothing(bucket: Server, library: str, level: str) -> None:
    given = {"path": f"s3://{BUCKET}/kafka/txn-0", "storageOptions": told(bucket, "fsspec"), "isolationLevel": level}
    for most, tasks in (("128m", 1), ("2500", 7)):
        made = Read({**given, "maxPartitionBytes": most})
        assert len(made.tasks) == tasks
        bucket.reset()
        rows = sum(batch.num_rows for task in made.tasks for batch in made.reader.read(task))
        assert rows == len(made.rows) and len(made.rows) == {"read_uncommitted": 267, "read_committed": 176}[level]
        pieces = max(tasks, 2)
        assert Counter(method for method, _, _ in bucket.requests) == {"HEAD": 2 * pieces, "GET": 2 * pieces}
        assert all(path.endswith(".log") for _, path, _ in bucket.requests)
        assert bucket.served == SIZE + 64 * pieces  # the head of a file tells whether it is a plain segment


def test_spans_that_come_with_their_markers_are_taken_as_they_are() -> None:
    log = kafkarec.open(SEGMENTS / "txn-0")
    wanted = log.read(isolation="read_committed")
    from kafkarec.read import isolation

    hidden = isolation.excluded(log.segments)
    spans = {"aborted": hidden.aborted, "last_stable_offset": wanted.last_stable_offset}
    assert [row.offset for row in log.read(isolation="read_committed", **spans)] == [row.offset for row in wanted]
    last = log.segments[-1]
    of_last = last.read(isolation="read_committed", **spans)
    assert [row.offset for row in of_last] == [row.offset for row in wanted if row.offset >= (last.base_offset or 0)]
    assert isolation.excluded(iter(()), hidden.aborted, 293).aborted == hidden.aborted


def test_messages_show_no_keys(bucket: Server, library: str) -> None:
    with pytest.raises(ValueError) as raised:
        options.parse({"path": "x", "storageOptions": '{"secret": "TOP'}, "read")
    assert str(raised.value) == "option storageOptions: a JSON object"
    chosen = options.parse({"path": "x", "storageOptions": '{"secret": "TOP"}'}, "read")
    assert "TOP" not in f"{chosen} {chosen['storageOptions']}"
    with pytest.raises(remote.RemoteError) as refused:
        Read({"path": f"s3://an-id:TOP@{BUCKET}/kafka"})
    assert "keys do not belong into a URL" in str(refused.value) and "TOP" not in str(refused.value)
    with pytest.raises(remote.RemoteError, match="unexpected keyword argument 'secrt'") as wrong:
        Read({"path": f"s3://{BUCKET}/kafka", "storageOptions": '{"secrt": "TOP"}'})
    assert "TOP" not in str(wrong.value)


def test_a_signature_in_a_url_is_not_shown(bucket: Server, caplog: pytest.LogCaptureFixture) -> None:
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


def test_a_stream_follows_an_object_that_is_uploaded_again_and_longer(bucket: Server, library: str) -> None:
    """What a backup of a running broker does with the last segment, and with the one behind it."""
    borders = [batch.position for batch in kafkarec.batches(LOG)]
    middle, folder = borders[len(borders) // 2], f"growing-{library}/t-0"
    first = kafkarec.decode(LOG[:middle])
    bucket.put(f"{folder}/{0:020}.log", LOG[: middle - 10])
    query = Query(f"s3://{BUCKET}/growing-{library}", storageOptions=told(bucket, "fsspec"))
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
    assert bucket.served < 70_000, "an idle trigger looks at the log's end only"
    bucket.remove(f"{folder}/{865:020}.log")
    bucket.put(f"{folder}/{0:020}.log", LOG[:middle])
    with pytest.raises(RuntimeError, match=r"data loss in t-0: .*866"):
        query.run()
