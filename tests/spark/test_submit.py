"""The main job, literally `spark-submit --py-files wheelhouse/spark_udfs-<version>-py3-none-any.whl app.py`.

Two executor processes with pyspark, pyarrow and pandas only. What each function returns: test_versions.py.
"""

import re

import golden
import pytest
import spark_rows
from spark_submit import Application

import kafkarec

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.fixture(scope="module")
def results(fat, bare_python, tmp_path_factory):
    folder = tmp_path_factory.mktemp("everything")
    vectors = str(golden.VECTORS)
    words = ("all_functions.py", fat, bare_python, folder, vectors)
    return Application(*words).result()


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
