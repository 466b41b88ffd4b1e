"""The main job, literally `spark-submit --py-files wheelhouse/spark_udfs-<version>-py3-none-any.whl app.py`.

Two executor processes with pyspark, pyarrow and pandas only. What each function returns: test_versions.py. Then the
data source, in a session of 512 MiB for each Python.
"""

import json
import re
import zlib

import golden
import pytest
import spark_rows
from paths import SEGMENTS
from plain_logs import log
from s3server import BUCKET, WITH_INDEXES, running
from source_rows import LOGS, repeated, spoil
from spark_submit import Application, executor_stderr

import kafkarec

pytestmark = [pytest.mark.spark, pytest.mark.slow]


REPEATS = 120
BUCKET_URL = f"s3a://{BUCKET}/kafka"


def large(folder):
    """One segment of about 120 MB: the same 1 000 records of 1 kB, half incompressible, repeated."""
    noise = [spoil(bytes(500), seed, 400) + bytes(500) for seed in range(50)]
    once = kafkarec.encode([(i, 1000 + i, None, noise[i % 50], []) for i in range(1000)], batch_size=1 << 16)
    return log(folder, (0, repeated(once, REPEATS, 1000)))


@pytest.fixture(scope="module")
def results(fat, bare_python, tmp_path_factory):
    folder = tmp_path_factory.mktemp("everything")
    for number, path in enumerate(LOGS):
        log(folder / "damaged" / f"t-{number}", (0, spoil(path.read_bytes(), number, 1)))
    heavy = large(folder / "large-0")
    with running("pyarrow") as bucket:
        bucket.put_folder(SEGMENTS, "kafka", WITH_INDEXES)
        words = (golden.VECTORS, folder / "damaged", heavy, folder / "killed", BUCKET_URL, json.dumps(bucket.options()))
        result = Application("two_executors.py", fat, bare_python, folder / "app", *map(str, words)).result()
    return result | {"folder": folder, "executors": executor_stderr(bare_python)}


@pytest.mark.parametrize("way", ["large", "large_explode"])
def test_rows_of_large_types_equal_the_standalone_decode(results, way):
    expected = {case.name: spark_rows.value_rows(case.bytes) for case in golden.vectors()}
    if way == "large_explode":  # kafka_explode has no row for a value without records
        expected = {name: rows for name, rows in expected.items() if rows != [[None] * 9]}
    assert results[way] == expected
    assert sum(map(len, expected.values())) > 1000


def test_wrong_use_is_reported_on_the_driver(results):
    assert results["wrong_mode_column"]["type"] == "ValueError"
    assert 'F.col("topic").alias("source_topic")' in results["name_twice"]["message"]


def test_permissive_under_case_when(results):
    assert results["case_when"] == [11]


def test_null_and_empty_values(results):
    assert results["few"] == {"null": None, "empty": 0, "one": 5}
    assert results["few_inline"] == ["one"] * 5
    assert results["few_inline_outer"] == ["empty", "null", *["one"] * 5]
    assert results["no_rows"] == 0


def test_register_twice_ships_one_zip_and_changes_nothing(results, fat):
    import wheelhouse_pack

    name = f"spark_udfs-{kafkarec.__version__}-{wheelhouse_pack.sha256(fat)[:8]}.zip"
    assert results["first_register"] == results["second_register"]
    assert name in results["first_register"]
    assert "kafka_decode(value[, mode])" in results["first_register"]
    assert sorted(path.rpartition("/")[2] for path in results["files"]) == sorted([name, fat.name])
    assert "replaced a previously registered function" not in results["log"]


def test_register_works_again_after_stop(results):
    assert results["after_stop"] == 5


def test_doctor_reports_every_executor(results, bare_python):
    rows = results["doctor"]["rows"]
    assert results["doctor"]["healthy"]
    assert len(rows) == 2
    assert len({row["path"] for row in rows}) == 2  # each executor has its own local dir
    for row in rows:
        assert row["source"] == "unpacked"
        assert row["executable"] == bare_python
        assert re.search(r"/kafkarec-cache-\d+/[0-9a-f]{32}$", row["path"])
        assert row["versions"]["kafkarec"] == kafkarec.__version__
        assert len(row["wheels"]) == 8
        assert row["path"] in results["doctor"]["text"]


def test_driver_needs_no_compiled_module(results):
    assert results["driver_modules"] == []


def test_no_unexpected_warning(results):
    assert "SparkContext" in results["log"], "it is the log of the application"
    assert [line for line in results["log"].splitlines() if re.search(r"Warning\b", line)] == []


# ---- the data source, in the second session


def test_executors_read_a_bucket_with_pyarrow_and_the_fsspec_of_the_wheel(results):
    expected = {str(path).replace(str(SEGMENTS), BUCKET_URL): kafkarec.open(path).read() for path in LOGS}
    assert results["bucket"] == {
        url: [spark_rows.record_row(each)[:6] for each in rows] for url, rows in expected.items() if rows
    }


def test_a_permissive_job_finishes_and_reports_files_and_byte_ranges(results):
    paths = sorted((results["folder"] / "damaged").glob("*/*.log"))
    expected = sorted(each[:3] for path in paths for each in kafkarec.open(path).read(errors="skip").damage)
    assert sorted((each["path"], each["position"], each["length"]) for each in results["damage"]) == expected
    assert len({path for path, _, _ in expected}) > 4


def test_a_large_segment_is_read_in_512_mib(results):
    count = REPEATS * 1000
    once = kafkarec.open(results["folder"] / "large-0").read(end_offset=1000)
    checks = sum(zlib.crc32(each.value or b"") for each in once) * REPEATS
    tasks, *sums = results["segment"]
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
