"""The data source by spark-submit on executors with pyspark, pyarrow and pandas only, 512 MiB for each Python."""

from __future__ import annotations

import re
import zlib
from pathlib import Path
from typing import Any

import pytest
from paths import SEGMENTS
from source_rows import LOGS, log_folder, repeated, spoil
from spark_rows import record_row
from submitting import Application, said_by_executors

import kafkarec

pytestmark = [pytest.mark.spark, pytest.mark.slow]

TIMES = 120
CONF = {"spark.executor.pyspark.memory": "512m", "spark.executor.memory": "512m"}


def large(folder: Path) -> Path:
    """Some 120 MB in one segment: 1 000 records of 1 kB, half of each hard to compress, again and again."""
    noise = [spoil(bytes(500), seed, 400) + bytes(500) for seed in range(50)]
    once = kafkarec.encode([(i, 1000 + i, None, noise[i % 50], []) for i in range(1000)], batch_size=1 << 16)
    return log_folder(folder, (0, repeated(once, TIMES, 1000)))


@pytest.fixture(scope="module")
def told(fat: Path, bare_python: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("source")
    for number, path in enumerate(LOGS):
        log_folder(folder / "damaged" / f"t-{number}", (0, spoil(path.read_bytes(), number, 1)))
    heavy = large(folder / "large-0")
    arguments = [SEGMENTS, folder / "damaged", heavy, folder / "killed"]
    result = Application("source.py", fat, bare_python, folder / "app", *map(str, arguments), **CONF).result()
    return result | {"folder": folder, "executors": said_by_executors(bare_python)}


def local(path: Path, **options: Any) -> list[list[Any]]:
    return [record_row(each)[:6] for each in kafkarec.open(path).read(**options)]


def test_source_udf_and_local_api_give_the_same_rows(told: dict[str, Any]) -> None:
    wanted = {str(path): local(path) for path in LOGS}
    assert told["source"] == {path: each for path, each in wanted.items() if each}
    assert told["splits"] == told["udf"] == told["source"]


def test_read_committed_across_splits(told: dict[str, Any]) -> None:
    for topic in ("txn", "all-codecs", "compacted"):
        log = kafkarec.open(SEGMENTS / f"{topic}-0")
        assert told["committed"][topic] == [each.offset for each in log.read(isolation="read_committed")]


def test_a_permissive_job_finishes_and_says_which_bytes_of_which_file(told: dict[str, Any]) -> None:
    paths = sorted((told["folder"] / "damaged").glob("*/*.log"))
    found = {str(path): kafkarec.open(path).read(errors="skip") for path in paths}
    wanted = sorted(each[:3] for columns in found.values() for each in columns.damage)
    assert sorted((each["path"], each["position"], each["length"]) for each in told["damage"]) == wanted
    assert len({path for path, _, _ in wanted}) > 4
    assert told["good"] == {path: len(columns) for path, columns in found.items() if len(columns)}
    assert told["batches"] == sum(len(kafkarec.open(path).scan(errors="skip")) for path in paths)
    assert any(f"{path} at byte {position}" in told["failfast"] for path, position, _ in wanted)


def test_a_large_segment_in_512_mib(told: dict[str, Any]) -> None:
    count = TIMES * 1000
    once = kafkarec.open(told["folder"] / "large-0").read(end_offset=1000)
    checks = sum(zlib.crc32(each.value or b"") for each in once) * TIMES
    tasks, *sums = told["large"]
    assert sums == [count, count * (count - 1) // 2, checks]
    size = sum(path.stat().st_size for path in (told["folder"] / "large-0").glob("*.log"))
    assert tasks == -(-size // (32 << 20))
    assert {limit for _, limit in told["memory"]} == {512 << 20}
    assert max(used for used, _ in told["memory"]) < 256 << 10


def test_results_are_exact_when_a_worker_is_killed_in_between(told: dict[str, Any]) -> None:
    count = TIMES * 1000
    assert (told["folder"] / "killed").exists()
    assert told["killed"] == [count, count * (count - 1) // 2]


def test_one_line_per_task_in_the_executors_log(told: dict[str, Any]) -> None:
    line = r"kafkarec read files=\d+ bytes=\d+ batches=\d+ records=\d+ damaged=(\d+) seconds=[\d.]+ first=\S+"
    found = re.findall(line, told["executors"])
    assert len(found) > 50 and any(int(each) for each in found)
    assert "damaged: {" in told["executors"]
