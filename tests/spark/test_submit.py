"""The main job, literally `spark-submit --py-files wheelhouse/spark_udfs-<version>-py3-none-any.whl app.py`.

Two executor processes with pyspark, pyarrow and pandas only: the rows equal those of the standalone decode.
"""

from __future__ import annotations

import json
import re
from datetime import datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import builders
import golden
import pytest
import spark_rows
from spark_submit import WITH_CODEGEN, Application

import kafkarec
from spark_udfs import decoding, schema

pytestmark = [pytest.mark.spark, pytest.mark.slow]

# Two instants an hour apart with one local time of day in New York, when daylight saving time ends.
FIRST, SECOND = 1_699_162_200_000, 1_699_165_800_000


def dst_batch() -> bytes:
    body = [builders.record(offset_delta=i, timestamp_delta=i * (SECOND - FIRST)) for i in range(2)]
    return builders.batch(body, base_timestamp=FIRST, max_timestamp=SECOND)


@pytest.fixture(scope="module")
def results(fat: Path, bare_python: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("everything")
    vectors = str(golden.VECTORS)
    words = ("all_functions.py", fat, bare_python, folder, vectors, dst_batch().hex())
    return Application(*words, **WITH_CODEGEN).result()


@pytest.fixture(scope="module")
def expected() -> dict[str, Any]:
    return {case.name: spark_rows.value_rows(case.bytes) for case in golden.vectors()}


@pytest.mark.parametrize("way", ["sql", "column", "explode", "small_pieces", "large", "large_explode"])
def test_rows_equal_the_standalone_decode(results: dict[str, Any], expected: dict[str, Any], way: str) -> None:
    if way not in ("sql", "column", "large"):  # kafka_explode has no row for a value without records
        expected = {name: rows for name, rows in expected.items() if rows != [[None] * 9]}
    assert sorted(results[way]) == sorted(expected)
    differing = [name for name in expected if results[way][name] != expected[name]]
    assert differing == []
    assert sum(map(len, expected.values())) > 1000


def test_schema_is_that_of_the_table(results: dict[str, Any]) -> None:
    struct = schema.sql_struct(schema.RECORD_COLUMNS)
    assert results["schema"] == f"struct<kafka_decode(v):array<{struct}>>"


def test_permissive_keeps_everything_but_the_damage(results: dict[str, Any]) -> None:
    """All invalid vectors in one query: it raises nothing, and records and reasons are those of the core."""
    assert len(results["permissive"]) == len(golden.invalid())
    for case in golden.invalid():
        actual = kafkarec.decode(case.bytes, errors="skip")
        reasons = [decoding.corrupt_text(damage) for damage in actual.damage]
        rows = results["permissive"][case.name]
        assert [row[-1] for row in rows if row[-1]] == reasons, case
        good = [row for row in rows if row[-1] is None]
        assert good == ([spark_rows.record_row(record) for record in actual] or [[None] * 9] * (not reasons)), case


def test_failfast_message_has_byte_and_offset_in_its_first_line(results: dict[str, Any]) -> None:
    size = len(golden.vector("v2-none-logappend").bytes)
    for way in ("failfast", "failfast_explode"):
        message = results[way]["message"]
        line = next(line for line in message.splitlines() if "CorruptRecordError" in line)
        assert f"byte {size}" in line, message
        assert "base offset 10" in line
        assert "mode PERMISSIVE keeps everything else" in message
        assert "key-0" not in message


def test_wrong_use_is_reported_on_the_driver_or_at_the_first_batch(results: dict[str, Any]) -> None:
    assert "unknown mode 'LENIENT'; the modes are FAILFAST and PERMISSIVE" in results["wrong_mode"]["message"]
    assert results["wrong_mode_column"]["type"] == "ValueError"
    assert 'F.col("topic").alias("source_topic")' in results["name_twice"]["message"]


def test_permissive_under_case_when(results: dict[str, Any]) -> None:
    assert results["case_when"] == [11]


def test_null_and_empty_values(results: dict[str, Any]) -> None:
    assert results["few"] == {"null": None, "empty": 0, "one": 5}
    assert results["few_is_null"] == {"null": True, "empty": False, "one": False}
    assert results["few_inline"] == ["one"] * 5
    assert results["few_inline_outer"] == ["empty", "null", *["one"] * 5]
    assert results["no_rows"] == 0


def test_scan_returns_the_headers(results: dict[str, Any]) -> None:
    for case in golden.vectors():
        batches = [golden.expected_batch(batch) for batch in case.json["batches"]]
        actual = results["scan"].get(case.name, [])
        assert [row[:4] for row in actual] == [
            [batch["position"], batch["crc"], batch["record_count"], batch["compression"]] for batch in batches
        ]
        kinds = [-1 if batch["timestamp_type"] is None else batch["timestamp_type"] for batch in batches]
        assert [row[4] for row in actual] == kinds
        assert [row[5] for row in actual] == [spark_rows.micros(batch["max_timestamp"]) for batch in batches]
        assert [row[6] for row in actual] == [batch["producer_id"] for batch in batches]
    assert results["scan_bad"] == sum(
        len(table := kafkarec.scan(case.bytes, errors="skip")) + len(table.damage) for case in golden.invalid()
    )


def test_times_are_utc_whatever_the_session_zone(results: dict[str, Any]) -> None:
    utc, york = results["zones"]["UTC"], results["zones"]["America/New_York"]
    assert utc[1] == york[1]
    moment = datetime.fromisoformat(utc[0]).replace(tzinfo=ZoneInfo("UTC"))
    assert moment.astimezone(ZoneInfo("America/New_York")).replace(tzinfo=None) == datetime.fromisoformat(york[0])


def test_end_of_daylight_saving_time(results: dict[str, Any]) -> None:
    """One local time of day in New York, two instants: both stay distinct."""
    assert results["dst"] == [["2023-11-05 01:30:00", FIRST * 1000], ["2023-11-05 01:30:00", SECOND * 1000]]


def test_register_twice_ships_one_zip_and_changes_nothing(results: dict[str, Any], fat: Path) -> None:
    import wheelhouse_pack

    name = f"spark_udfs-{kafkarec.__version__}-{wheelhouse_pack.sha256(fat)[:8]}.zip"
    assert results["first_register"] == results["second_register"]
    assert name in results["first_register"]
    assert "kafka_decode(value[, mode])" in results["first_register"]
    assert sorted(path.rpartition("/")[2] for path in results["files"]) == sorted([name, fat.name])
    assert "replaced a previously registered function" not in results["log"]


def test_register_works_again_after_stop(results: dict[str, Any]) -> None:
    assert results["after_stop"] == 5


def test_doctor_reports_every_executor(results: dict[str, Any], bare_python: str) -> None:
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


def test_driver_needs_no_compiled_module(results: dict[str, Any]) -> None:
    assert results["driver_modules"] == []


def test_no_unexpected_warning(results: dict[str, Any]) -> None:
    lines = [line for line in results["log"].splitlines() if re.search(r"Warning\b", line)]
    assert lines == []


def test_result_is_json_that_spark_can_read(results: dict[str, Any]) -> None:
    """_corrupt_record is a JSON object with the documented names."""
    texts = [row[-1] for rows in results["permissive"].values() for row in rows if row[-1]]
    assert len(texts) > 100
    names = {"position", "length", "lost_from", "lost_to", "next_position", "reason", "detail"}
    assert {frozenset(json.loads(text)) for text in texts} == {frozenset(names)}
