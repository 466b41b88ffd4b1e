"""kafka_encode, LATERAL kafka_explode and damage_report by spark-submit on bare executors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from long_run import MINUTES
from paths import SEGMENTS
from source_rows import log_folder, spoil
from spark_submit import ONE_EXECUTOR, Application, lines_of_tasks

import kafkarec

pytestmark = [pytest.mark.spark, pytest.mark.slow, MINUTES]

# Transactions in several codecs, and their markers.
BATCHES = (SEGMENTS / "txn-0" / "00000000000000000030.log").read_bytes()


@pytest.fixture(scope="module")
def results(fat: Path, bare_python: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("verbs")
    data = (SEGMENTS / "txn-0" / "00000000000000000000.log").read_bytes()
    for partition in range(4):
        log_folder(folder / "data" / f"orders-{partition}", (0, spoil(data, partition) if partition else data))
    words = ("verbs.py", fat, bare_python, folder, BATCHES.hex(), str(folder / "data"))
    application_results = Application(*words, master=ONE_EXECUTOR).result()
    lines = lines_of_tasks(bare_python, "damage_report", folder / "data")
    return application_results | {"folder": folder / "data", "lines": lines}


def test_encoded_values_decode_to_the_same_rows(results: dict[str, Any]) -> None:
    assert results["sql"] == [[True, 8]]
    assert results["column"] == 8 * len(kafkarec.decode(BATCHES))


def test_lateral_returns_the_rows_of_the_dataframe_function(results: dict[str, Any]) -> None:
    assert results["lateral"] == [8 * len(kafkarec.decode(BATCHES, control=True)), 0, 0]


def test_damage_equals_that_of_the_local_api(results: dict[str, Any]) -> None:
    paths = sorted(results["folder"].glob("*/*.log"))
    expected = [
        (str(path), each.position, each.length, each.reason)
        for path in paths
        for each in kafkarec.open(path).read(errors="skip").damage
    ]
    report = results["report"]
    assert [(row["file"], row["position"], row["length"], row["reason"]) for row in report["rows"]] == expected
    assert len(expected) >= 3 and results["frame"] == len(expected)
    assert [each["bytes"] for each in report["files"]] == [path.stat().st_size for path in paths]
    assert report["text"].startswith("3 of 4 files damaged: ")
    assert results["lines"] and all(" files=" in line and " damaged=" in line for line in results["lines"])
