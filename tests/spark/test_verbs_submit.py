"""kafka_encode, LATERAL kafka_explode and damage_report by spark-submit, on executors without our packages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from long_run import MINUTES
from paths import SEGMENTS
from source_rows import log_folder, spoil
from submitting import Application, lines_of_tasks

import kafkarec

pytestmark = [pytest.mark.spark, pytest.mark.slow, MINUTES]

# Transactions under several codecs, and their markers.
BATCHES = (SEGMENTS / "txn-0" / "00000000000000000030.log").read_bytes()


@pytest.fixture(scope="module")
def told(fat: Path, bare_python: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("verbs")
    data = (SEGMENTS / "txn-0" / "00000000000000000000.log").read_bytes()
    for partition in range(4):
        log_folder(folder / "data" / f"orders-{partition}", (0, spoil(data, partition) if partition else data))
    found = Application("verbs.py", fat, bare_python, folder, BATCHES.hex(), str(folder / "data")).result()
    lines = lines_of_tasks(bare_python, "damage_report", folder / "data")
    return found | {"folder": folder / "data", "lines": lines}


def test_encode_and_back(told: dict[str, Any]) -> None:
    assert told["sql"] == [[True, 8]]
    assert told["column"] == 8 * len(kafkarec.decode(BATCHES))


def test_lateral_gives_the_rows_of_the_verb(told: dict[str, Any]) -> None:
    assert told["lateral"] == [8 * len(kafkarec.decode(BATCHES, control=True)), 0, 0]


def test_damage_is_that_of_the_local_api(told: dict[str, Any]) -> None:
    paths = sorted(told["folder"].glob("*/*.log"))
    wanted = [
        (str(path), each.position, each.length, each.reason)
        for path in paths
        for each in kafkarec.open(path).read(errors="skip").damage
    ]
    found = told["report"]
    assert [(row["file"], row["position"], row["length"], row["reason"]) for row in found["rows"]] == wanted
    assert len(wanted) >= 3 and told["frame"] == len(wanted)
    assert [each["bytes"] for each in found["files"]] == [path.stat().st_size for path in paths]
    assert found["text"].startswith("3 of 4 files damaged: ")
    assert told["lines"] and all(" files=" in line and " damaged=" in line for line in told["lines"])
