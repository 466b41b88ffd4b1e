"""Partition folders written by spark-submit on bare executors, one of which is killed in a job: each record is stored
once, on a disk and in a bucket."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from long_run import MINUTES
from s3server import BUCKET, Server, running
from spark_submit import Application

import kafkarec

pytestmark = [pytest.mark.spark, pytest.mark.slow, MINUTES]

COUNT = 40_000
NOW = 1_700_000_000_000


@pytest.fixture(scope="module")
def bucket() -> Iterator[Server]:
    with running() as server:
        yield server


@pytest.fixture(scope="module")
def written(
    fat: Path, bare_python: str, bucket: Server, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("writing")
    arguments = (str(folder / "out"), f"s3a://{BUCKET}/out", json.dumps(bucket.options()))
    results = Application("writing.py", fat, bare_python, folder / "app", *arguments).result()
    for name in ("log", "stream", "bucket-more"):
        assert (folder / "out" / f"{name}.killed").exists(), f"{name}: no executor was killed"
    return folder / "out", results


def expected_record(number: int) -> tuple[Any, ...]:
    headers = [("h", str(number).encode())]
    return NOW + number, str(number % 1000).encode(), b"value %d" % number, headers


def content(path: Path | str, storage: dict[str, Any] | None = None, gaps: str = "") -> list[list[Any]]:
    """The records of each partition; every log is verified. gaps: the kind of finding permitted between jobs."""
    records = []
    for partition in range(4):
        with kafkarec.open(f"{path}/t-{partition}", storage_options=storage) as log:
            report = log.verify()
            errors = {one.kind for one in report.findings if one.severity == "error"}
            assert errors <= {gaps} and not report.damage, report
            records.append(list(log.read()))
    return records


def test_write_log_keeps_every_offset(written: tuple[Path, dict[str, Any]]) -> None:
    for partition, records in enumerate(content(written[0] / "log")):
        actual = [(one.offset, one.timestamp, one.key, one.value, one.headers) for one in records]
        assert actual == [(number, *expected_record(number)) for number in range(partition, COUNT, 4)]


def test_a_bucket_keeps_every_offset_of_two_jobs(written: tuple[Path, dict[str, Any]], bucket: Server) -> None:
    for partition, records in enumerate(content(f"s3://{BUCKET}/out", bucket.options(), "segment_gap")):
        actual = [(one.offset, one.timestamp, one.key, one.value, one.headers) for one in records]
        assert actual == [(number, *expected_record(number)) for number in range(partition, COUNT, 4)]
    assert written[1]["bucket"] == [COUNT, COUNT * (COUNT - 1) // 2, COUNT]


def test_a_stream_stores_each_record_once_under_offsets_without_gaps(written: tuple[Path, dict[str, Any]]) -> None:
    for partition, records in enumerate(content(written[0] / "stream")):
        assert [one.offset for one in records] == list(range(COUNT // 4))
        actual = sorted((one.timestamp, one.key, one.value, one.headers) for one in records)
        assert actual == [expected_record(number) for number in range(partition, COUNT, 4)]


def test_files_staged_by_killed_executors_are_removed(written: tuple[Path, dict[str, Any]]) -> None:
    folder, results = written
    assert results["read"] == dict.fromkeys(("log", "stream"), COUNT)
    assert [name for name in ("log", "stream") if (folder / name / "_temporary").exists()] == []
    assert results["swept"] == []
