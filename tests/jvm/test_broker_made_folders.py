"""A real broker serves folders that `build`, `convert` and `compact` wrote: its consumers get the records of the
source, in both isolation levels."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from broker import Broker, serving
from command import WIDE, own_process
from jvm_oracle import Oracle
from jvm_reading import ISOLATION, consumer_lines
from paths import SEGMENTS

SOURCES = ("all-codecs-0", "txn-0", "compacted-0", "logappend-0")
LARGER = ("--batch-size", "16k", "--segment-bytes", "17k")


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
        assert own_process("cat", folder, *arguments, "-o", path).status == 0
    folders_by_topic = {}
    for command, (verb, *arguments) in commands.items():
        topic = f"{plain}-{command}"
        out = target / f"{topic}-0"
        ran = own_process(verb, *arguments, "-o", out)
        assert ran.status == 0, ran.err
        folders_by_topic[topic] = out
    return folders_by_topic


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return {
        topic: path for source in SOURCES for topic, path in outputs_of(tmp_path_factory.mktemp("made"), source).items()
    }


@pytest.fixture(scope="module")
def broker(kafka: Oracle, folders: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with serving(kafka, tmp_path_factory.mktemp("broker"), folders) as started:
        yield started


@pytest.mark.slow
@pytest.mark.parametrize("isolation", ISOLATION)
def test_a_consumer_gets_the_records_of_the_source(
    isolation: str, broker: Broker, folders: dict[str, Path], kafka: Oracle
) -> None:
    for topic, folder in folders.items():
        answer = kafka.ask("consume", broker.address, topic, isolation)
        assert answer.status == 0, answer.err
        served = answer.out.splitlines()[:-1]
        assert served == consumer_lines(folder, isolation), topic
        source, _, command = topic.rpartition("-")
        # without markers nothing is aborted: `plain` has all records of the source
        expected = consumer_lines(SEGMENTS / f"{source}-0", "read_uncommitted" if command == "plain" else isolation)
        if command == "clean":
            assert set(served) <= set(expected) and len(served) < len(expected)
        else:
            assert served == expected, topic


@pytest.mark.slow
def test_the_broker_leaves_the_files_unchanged(broker: Broker, folders: dict[str, Path]) -> None:
    for topic, folder in folders.items():
        served = broker.data / f"{topic}-0"
        for path in folder.glob("*.log"):
            assert (served / path.name).read_bytes() == path.read_bytes(), path
        epochs, copied = ((at / "leader-epoch-checkpoint").read_text().split("\n")[2:-1] for at in (served, folder))
        assert epochs[: len(copied)] == copied
