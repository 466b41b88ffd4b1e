"""A real broker serves random partitions and salvaged ones: its consumers get the records that kafkarec reads, in both
isolation levels."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import jvm_oracle
import pytest
from broker import Broker, serving
from broker_logs import partition
from jvm_oracle import Oracle
from jvm_reading import ISOLATION, consumer_lines
from paths import SEGMENTS
from random_logs import Maker

import kafkarec

GOLDEN = ("all-codecs-0", "txn-0", "compacted-0", "logappend-0")


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Topic -> folder: golden segments, and random partitions that have segment files only."""
    folders_by_topic = {}
    for name in GOLDEN:
        folder = tmp_path_factory.mktemp("real") / name
        folder.mkdir()
        for path in (SEGMENTS / name).iterdir():
            if not path.name.endswith((".json", ".txt")):
                shutil.copy(path, folder)
        folders_by_topic[name.removesuffix("-0")] = folder
    for seed in range(jvm_oracle.count(6)):
        folder = tmp_path_factory.mktemp("random") / f"r{seed}-0"
        partition(seed, folder)
        folders_by_topic[f"r{seed}"] = folder
        folders_by_topic[f"s{seed}"] = salvaged(seed, tmp_path_factory.mktemp("damaged"))
    return {topic: folder for topic, folder in folders_by_topic.items() if folder.exists()}  # some cannot be saved


def salvaged(seed: int, parent: Path) -> Path:
    """Damage each segment of a random partition, then salvage it with `as_partition`."""
    name, maker = f"s{seed}-0", Maker(seed)
    folder = parent / name
    partition(seed, folder)
    for path in folder.iterdir():
        path.write_bytes(maker.damaged(path.read_bytes()))
    kafkarec.salvage(folder, parent / "out", as_partition=True)
    return parent / "out" / name


@pytest.fixture(scope="module")
def broker(kafka: Oracle, folders: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with serving(kafka, tmp_path_factory.mktemp("broker"), folders) as started:
        yield started


@pytest.mark.slow
@pytest.mark.parametrize("isolation", ISOLATION)
def test_a_consumer_gets_the_records_that_kafkarec_reads(
    isolation: str, broker: Broker, folders: dict[str, Path], kafka: Oracle
) -> None:
    for topic, folder in folders.items():
        answer = kafka.ask("consume", broker.address, topic, isolation)
        assert answer.status == 0, answer.err
        assert consumer_lines(folder, isolation) == answer.out.splitlines()[:-1], topic


@pytest.mark.slow
def test_the_broker_truncates_nothing(broker: Broker, folders: dict[str, Path]) -> None:
    for topic, folder in folders.items():
        served = {path.name: path.read_bytes() for path in (broker.data / f"{topic}-0").glob("*.log")}
        for path in folder.glob("*.log"):
            assert served[path.name] == path.read_bytes(), path
