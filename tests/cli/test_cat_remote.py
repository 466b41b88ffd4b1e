"""`kafkarec cat s3://...` against an S3 server on the loopback interface that counts the bytes it serves."""

import struct

import pytest
from paths import SEGMENTS
from plain_logs import batch
from s3server import BUCKET, running

from kafkarec.cli import progress

BIG = f"big/orders-0/{0:020}.log"


@pytest.fixture(scope="module")
def bucket():
    with running("s3fs") as server:
        server.put_folder(SEGMENTS / "txn-0", "kafka-backup/txn-0", (".log", ".index", ".txnindex"))
        one = batch(0, 4, value=b"x" * 50_000)
        server.put(BIG, b"".join((4 * i).to_bytes(8, "big") + one[8:] for i in range(64)))  # 12.8 MB
        index = b"".join(struct.pack(">ii", 4 * i, i * len(one)) for i in range(1, 64))
        server.put(BIG.replace(".log", ".index"), index)
        yield server


@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
def test_a_partition_in_a_bucket_has_the_rows_of_the_folder(run, server, isolation):
    arguments = ("--isolation", isolation)
    expected = run("cat", SEGMENTS / "txn-0", *arguments)
    ran = run("cat", f"s3://{BUCKET}/kafka-backup/txn-0", *arguments)
    assert (ran.status, ran.err, ran.out) == (0, "", expected.out)
    assert server.served > 0


def test_a_file_of_the_current_folder_is_no_part_of_a_bucket(run, server, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run("cat", f"s3://{BUCKET}/kafka-backup/txn-0", "-o", "rows.jsonl").status == 0
    assert (tmp_path / "rows.jsonl").read_text().count("\n") == len(run("cat", SEGMENTS / "txn-0").rows)


def test_n_and_last_of_a_large_object_fetch_little(run, server):
    url = f"s3://{BUCKET}/big/orders-0"
    for arguments, expected in ((["-n", 2], [0, 1]), (["--last", 2], [254, 255])):
        server.reset()
        rows = run("cat", url, "--columns", "offset", *arguments).rows
        assert [row["offset"] for row in rows] == expected
        assert server.served < 6 << 20  # the object has 12.8 MB


def test_a_missing_object_and_follow_of_a_url_are_refused(run, server):
    ran = run("cat", f"s3://{BUCKET}/no-such-thing")
    assert ran.status == 3 and "no-such-thing" in ran.complaint
    ran = run("cat", f"s3://{BUCKET}/{BIG}", "--follow")
    assert ran.status == 2 and "--follow reads local files" in ran.complaint


def test_progress_has_the_size_of_what_is_in_a_bucket(server):
    folder, object_url = f"s3://{BUCKET}/kafka-backup/txn-0", f"s3://{BUCKET}/{BIG}"
    sizes = [path.stat().st_size for path in (SEGMENTS / "txn-0").glob("*.log")]
    assert progress.bytes_in([folder]) == sum(sizes)
    assert progress.bytes_in([object_url, str(SEGMENTS / "txn-0")]) == sum(sizes) + progress.bytes_in([object_url])
    assert progress.bytes_in([object_url]) > 12_000_000
    assert progress.bytes_in([f"s3://{BUCKET}/no-such-thing"]) == 0
