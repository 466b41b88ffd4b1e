"""Random partitions, and what was salvaged of damaged ones, under a real broker: its consumers get what kafkarec reads,
in both isolation levels."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import jvm_oracle
import pytest
from broker import Broker, serving
from jvm_oracle import Oracle
from jvm_reading import ISOLATION, consumer_lines
from paths import SEGMENTS
from random_folders import partition
from random_logs import Maker

import kafkarec

REAL = ("all-codecs-0", "txn-0", "compacted-0", "logappend-0")


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Real ones, and random ones without anything but their segments."""
    found = {}
    for name in REAL:
        folder = tmp_path_factory.mktemp("real") / name
        folder.mkdir()
        for path in (SEGMENTS / name).iterdir():
            if not path.name.endswith((".json", ".txt")):
                shutil.copy(path, folder)
        found[name.removesuffix("-0")] = folder
    for seed in range(jvm_oracle.count(6)):
        folder = tmp_path_factory.mktemp("random") / f"r{seed}-0"
        folder.mkdir()
        partition(Maker(seed), folder)
        found[f"r{seed}"] = folder
        found[f"s{seed}"] = salvaged(f"s{seed}-0", Maker(seed), tmp_path_factory.mktemp("damaged"))
    return {topic: folder for topic, folder in found.items() if folder.exists()}  # not every one could be saved


def salvaged(name: str, maker: Maker, here: Path) -> Path:
    """A partition with each of its segments damaged, and then salvaged for a broker."""
    folder = here / name
    folder.mkdir()
    partition(maker, folder)
    for path in folder.iterdir():
        path.write_bytes(maker.damaged(path.read_bytes()))
    kafkarec.salvage(folder, here / "out", as_partition=True)
    return here / "out" / name


@pytest.fixture(scope="module")
def broker(kafka: Oracle, folders: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with serving(kafka, tmp_path_factory.mktemp("broker"), folders) as started:
        yield started


@pytest.mark.slow
@pytest.mark.parametrize("isolation", ISOLATION)
def test_a_consumer_gets_what_is_read_here(
    isolation: str, broker: Broker, folders: dict[str, Path], kafka: Oracle
) -> None:
    for topic, folder in folders.items():
        answer = kafka.ask("consume", broker.address, topic, isolation)
        assert answer.status == 0, answer.err
        assert consumer_lines(folder, isolation) == answer.out.splitlines()[:-1], topic


@pytest.mark.slow
def test_the_broker_cut_nothing_off(broker: Broker, folders: dict[str, Path]) -> None:
    for topic, folder in folders.items():
        served = {path.name: path.read_bytes() for path in (broker.data / f"{topic}-0").glob("*.log")}
        for path in folder.glob("*.log"):
            assert served[path.name] == path.read_bytes(), path
