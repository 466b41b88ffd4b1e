"""Partition folders written by spark-submit on bare executors, one of which is killed in a job: each record is stored
once, on a disk and in a bucket."""

import json

import pytest
from long_run import MINUTES
from publish_jobs import records
from s3server import BUCKET, running
from spark_submit import Application

pytestmark = [pytest.mark.spark, pytest.mark.slow, MINUTES]

COUNT = 40_000
NOW = 1_700_000_000_000


@pytest.fixture(scope="module")
def bucket():
    with running() as server:
        yield server


@pytest.fixture(scope="module")
def written(fat, bare_python, bucket, tmp_path_factory):
    folder = tmp_path_factory.mktemp("writing")
    arguments = (str(folder / "out"), f"s3a://{BUCKET}/out", json.dumps(bucket.options()))
    results = Application("writing.py", fat, bare_python, folder / "app", *arguments).result()
    for name in ("log", "stream", "bucket-more"):
        assert (folder / "out" / f"{name}.killed").exists(), f"{name}: no executor was killed"
    return folder / "out", results


def expected(partition):
    """The records of a partition: offset, timestamp, key, value, headers."""
    return [
        (each, NOW + each, str(each % 1000).encode(), b"value %d" % each, [("h", str(each).encode())])
        for each in range(partition, COUNT, 4)
    ]


EXPECTED = {f"t-{partition}": expected(partition) for partition in range(4)}


def test_write_log_keeps_every_offset(written):
    assert records(written[0] / "log") == EXPECTED


def test_a_bucket_keeps_every_offset_of_two_jobs(written, bucket):
    assert records(f"s3://{BUCKET}/out", "segment_gap", storage_options=bucket.options()) == EXPECTED
    assert written[1]["bucket"] == [COUNT, COUNT * (COUNT - 1) // 2, COUNT]


def test_a_stream_stores_each_record_once_under_offsets_without_gaps(written):
    for name, rows in records(written[0] / "stream").items():
        assert [row[0] for row in rows] == list(range(COUNT // 4))
        assert sorted(row[1:] for row in rows) == [row[1:] for row in EXPECTED[name]]


def test_files_staged_by_killed_executors_are_removed(written):
    folder, results = written
    assert results["read"] == dict.fromkeys(("log", "stream"), COUNT)
    assert [name for name in ("log", "stream") if (folder / name / "_temporary").exists()] == []
    assert results["swept"] == []
