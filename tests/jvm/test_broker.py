"""A real broker serves random partitions, salvaged ones, and what `build`, `convert` and `compact` wrote: its consumers
get the records that kafkarec reads, or those of the source, in both isolation levels."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import jvm_oracle
import pytest
from broker import Broker, serving
from broker_logs import partition
from command import WIDE
from jvm_oracle import Oracle
from jvm_reading import ISOLATION, consumed_lines, consumer_lines
from paths import SEGMENTS
from random_logs import Maker

import kafkarec
from kafkarec.cli import main

GOLDEN = ("all-codecs-0", "txn-0", "compacted-0", "logappend-0")
LARGER = ("--batch-size", "16k", "--segment-bytes", "17k")


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


def outputs_of(target: Path, source: str) -> dict[str, Path]:
    """Topic -> folder, for every output made from one source."""
    folder, plain = SEGMENTS / source, source.removesuffix("-0")
    rows, bare = target / "rows.jsonl", target / "bare.csv"
    commands = {
        "built": ("build", rows, "--segment-bytes", "8k"),
        "plain": ("build", bare, "--compression", "snappy"),
        "zstd": ("convert", folder, "--compression", "zstd", *LARGER),
        "lz4": ("convert", folder, "--compression", "lz4", "--level", "12", *LARGER),
        "gzip": ("convert", folder, "--compression", "gzip", *LARGER),
        "clean": ("compact", folder),
    }
    for path, arguments in ((rows, ["--control", "--columns", WIDE]), (bare, ["--format", "csv"])):
        assert main(["cat", str(folder), *arguments, "-o", str(path)]) == 0
    folders_by_topic = {}
    for command, words in commands.items():
        topic = f"{plain}-{command}"
        out = target / f"{topic}-0"
        assert main([*map(str, words), "-o", str(out)]) == 0
        folders_by_topic[topic] = out
    return folders_by_topic


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return {
        topic: path for source in GOLDEN for topic, path in outputs_of(tmp_path_factory.mktemp("made"), source).items()
    }


@pytest.fixture(scope="module")
def broker(
    kafka: Oracle, folders: dict[str, Path], made: dict[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Broker]:
    with serving(kafka, tmp_path_factory.mktemp("broker"), folders | made) as started:
        yield started


@pytest.mark.slow
@pytest.mark.parametrize("isolation", ISOLATION)
def test_a_consumer_gets_the_records_that_kafkarec_reads(
    isolation: str, broker: Broker, folders: dict[str, Path], kafka: Oracle
) -> None:
    for topic, folder in folders.items():
        assert consumer_lines(folder, isolation) == consumed_lines(kafka, broker, topic, isolation), topic


@pytest.mark.slow
def test_the_broker_truncates_nothing(broker: Broker, folders: dict[str, Path]) -> None:
    for topic, folder in folders.items():
        served = {path.name: path.read_bytes() for path in (broker.data / f"{topic}-0").glob("*.log")}
        for path in folder.glob("*.log"):
            assert served[path.name] == path.read_bytes(), path


@pytest.mark.slow
@pytest.mark.parametrize("isolation", ISOLATION)
def test_a_consumer_gets_the_records_of_the_source(
    isolation: str, broker: Broker, made: dict[str, Path], kafka: Oracle
) -> None:
    for topic, folder in made.items():
        served = consumed_lines(kafka, broker, topic, isolation)
        assert served == consumer_lines(folder, isolation), topic
        source, _, command = topic.rpartition("-")
        # without markers nothing is aborted: `plain` has all records of the source
        expected = consumer_lines(SEGMENTS / f"{source}-0", "read_uncommitted" if command == "plain" else isolation)
        if command == "clean":
            assert set(served) <= set(expected) and len(served) < len(expected)
        else:
            assert served == expected, topic


@pytest.mark.slow
def test_the_broker_leaves_what_was_made_unchanged(broker: Broker, made: dict[str, Path]) -> None:
    for topic, folder in made.items():
        served = broker.data / f"{topic}-0"
        for path in folder.glob("*.log"):
            assert (served / path.name).read_bytes() == path.read_bytes(), path
        epochs, copied = ((at / "leader-epoch-checkpoint").read_text().split("\n")[2:-1] for at in (served, folder))
        assert epochs[: len(copied)] == copied
