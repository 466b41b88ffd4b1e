"""The data source by spark-submit on executors with pyspark, pyarrow and pandas only, and 512 MiB for each Python."""

import json
import re
import zlib

import pytest
from paths import SEGMENTS
from s3server import BUCKET, WITH_INDEXES, running
from source_rows import LOGS, log_folder, repeated, spoil
from spark_rows import record_row
from spark_submit import Application, executor_stderr

import kafkarec

pytestmark = [pytest.mark.spark, pytest.mark.slow]

REPEATS = 120
BUCKET_URL = f"s3a://{BUCKET}/kafka"
CONF = {"spark.executor.pyspark.memory": "512m", "spark.executor.memory": "512m"}


def large(folder):
    """One segment of about 120 MB: the same 1 000 records of 1 kB, half incompressible, repeated."""
    noise = [spoil(bytes(500), seed, 400) + bytes(500) for seed in range(50)]
    once = kafkarec.encode([(i, 1000 + i, None, noise[i % 50], []) for i in range(1000)], batch_size=1 << 16)
    return log_folder(folder, (0, repeated(once, REPEATS, 1000)))


@pytest.fixture(scope="module")
def results(fat, bare_python, tmp_path_factory):
    folder = tmp_path_factory.mktemp("source")
    for number, path in enumerate(LOGS):
        log_folder(folder / "damaged" / f"t-{number}", (0, spoil(path.read_bytes(), number, 1)))
    heavy = large(folder / "large-0")
    with running("pyarrow") as bucket:
        bucket.put_folder(SEGMENTS, "kafka", WITH_INDEXES)
        arguments = [folder / "damaged", heavy, folder / "killed", BUCKET_URL, json.dumps(bucket.options())]
        plain = {"PYSPARK_PYTHON": bare_python}  # workers with little memory load nothing that they do not use
        result = Application(
            "source.py", fat, bare_python, folder / "app", *map(str, arguments), environ=plain, **CONF
        ).result()
    return result | {"folder": folder, "executors": executor_stderr(bare_python)}


def test_executors_read_a_bucket_with_pyarrow_and_the_fsspec_of_the_wheel(results):
    expected = {str(path).replace(str(SEGMENTS), BUCKET_URL): kafkarec.open(path).read() for path in LOGS}
    assert results["bucket"] == {url: [record_row(each)[:6] for each in rows] for url, rows in expected.items() if rows}


def test_a_permissive_job_finishes_and_reports_files_and_byte_ranges(results):
    paths = sorted((results["folder"] / "damaged").glob("*/*.log"))
    expected = sorted(each[:3] for path in paths for each in kafkarec.open(path).read(errors="skip").damage)
    assert sorted((each["path"], each["position"], each["length"]) for each in results["damage"]) == expected
    assert len({path for path, _, _ in expected}) > 4


def test_a_large_segment_is_read_in_512_mib(results):
    count = REPEATS * 1000
    once = kafkarec.open(results["folder"] / "large-0").read(end_offset=1000)
    checks = sum(zlib.crc32(each.value or b"") for each in once) * REPEATS
    tasks, *sums = results["large"]
    assert sums == [count, count * (count - 1) // 2, checks]
    size = sum(path.stat().st_size for path in (results["folder"] / "large-0").glob("*.log"))
    assert tasks == -(-size // (32 << 20))
    assert {limit for _, limit in results["memory"]} == {512 << 20}
    assert max(used for used, _ in results["memory"]) < 256 << 10


def test_results_are_exact_when_a_worker_is_killed(results):
    count = REPEATS * 1000
    assert (results["folder"] / "killed").exists()
    assert results["killed"] == [count, count * (count - 1) // 2]


def test_one_line_per_task_in_the_executors_log(results):
    line = (
        r"kafkarec read files=\d+ bytes=\d+ batches=\d+ records=\d+ damaged=(\d+) incomplete=0 seconds=[\d.]+ first=\S+"
    )
    counts = re.findall(line, results["executors"])
    assert len(counts) > 20 and any(int(each) for each in counts)
    assert "damaged: {" in results["executors"]
