"""`kafkarec cat s3://...`: against an S3 API server on loopback that counts what it serves."""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator

import builders
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from command import Here
from paths import SEGMENTS
from s3server import BUCKET, Server, running

import kafkarec

BIG = f"big/orders-0/{0:020}.log"


@pytest.fixture(scope="module")
def bucket() -> Iterator[Server]:
    with running("s3fs") as server:
        server.put_folder(SEGMENTS / "txn-0", "kafka-backup/txn-0", (".log", ".index", ".txnindex"))
        one = builders.batch(builders.records(4, value=b"x" * 50_000))
        server.put(BIG, b"".join((4 * i).to_bytes(8, "big") + one[8:] for i in range(64)))  # 12.8 MB
        index = b"".join(struct.pack(">ii", 4 * i, i * len(one)) for i in range(1, 64))
        server.put(BIG.replace(".log", ".index"), index)
        yield server


@pytest.fixture
def server(bucket: Server, monkeypatch: pytest.MonkeyPatch) -> Server:
    for name, value in bucket.environment().items():
        monkeypatch.setenv(name, value)
    bucket.reset()
    return bucket


@pytest.fixture
def run(capsysbinary: pytest.CaptureFixture[bytes]) -> Here:
    return Here(capsysbinary)


@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
def test_a_partition_in_a_bucket_is_that_on_the_disk(run: Here, server: Server, isolation: str) -> None:
    words = ("--isolation", isolation)
    wanted = run("cat", SEGMENTS / "txn-0", *words)
    done = run("cat", f"s3://{BUCKET}/kafka-backup/txn-0", *words)
    assert (done.status, done.err, done.out) == (0, "", wanted.out)
    assert server.served > 0


def test_from_a_bucket_to_parquet(run: Here, server: Server) -> None:
    done = run("cat", f"s3://{BUCKET}/kafka-backup/txn-0/{30:020}.log", "--format", "parquet")
    segment = SEGMENTS / "txn-0" / f"{30:020}.log"
    assert pq.read_table(io.BytesIO(done.out)).equals(pa.table(kafkarec.decode(segment.read_bytes())))


def test_ends_of_a_long_segment_cost_little(run: Here, server: Server) -> None:
    url = f"s3://{BUCKET}/big/orders-0"
    for words, wanted in ((["-n", 2], [0, 1]), (["--last", 2], [254, 255])):
        server.reset()
        rows = run("cat", url, "--columns", "offset", *words).rows
        assert [row["offset"] for row in rows] == wanted
        assert server.served < 6 << 20  # of 12.8 MB


def test_what_is_not_there_and_what_does_not_grow(run: Here, server: Server) -> None:
    done = run("cat", f"s3://{BUCKET}/no-such-thing")
    assert done.status == 3 and "no-such-thing" in done.complaint
    done = run("cat", f"s3://{BUCKET}/{BIG}", "--follow")
    assert done.status == 2 and "--follow looks at local files" in done.complaint
