"""Folders that `build`, `convert` and `compact` made, under a real broker: its consumers get the records of the log
that they were made from, in both isolation levels."""

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


def made(here: Path, source: str) -> dict[str, Path]:
    """Topic -> its folder, for all that is made of a source."""
    folder, plain = SEGMENTS / source, source.removesuffix("-0")
    rows, bare = here / "rows.jsonl", here / "bare.csv"
    ways = {
        "built": ("build", rows, "--segment-bytes", "8k"),
        "plain": ("build", bare, "--compression", "snappy"),
        "zstd": ("convert", folder, "--compression", "zstd", *LARGER),
        "lz4": ("convert", folder, "--compression", "lz4", "--level", "12", *LARGER),
        "gzip": ("convert", folder, "--compression", "gzip", *LARGER),
        "clean": ("compact", folder),
    }
    for path, words in ((rows, ["--control", "--columns", WIDE]), (bare, ["--format", "csv"])):
        assert own_process("cat", folder, *words, "-o", path).status == 0
    found = {}
    for way, (verb, *words) in ways.items():
        topic = f"{plain}-{way}"
        out = here / f"{topic}-0"
        ran = own_process(verb, *words, "-o", out)
        assert ran.status == 0, ran.err
        found[topic] = out
    return found


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return {topic: path for source in SOURCES for topic, path in made(tmp_path_factory.mktemp("made"), source).items()}


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
        source, _, way = topic.rpartition("-")
        # without markers nothing is aborted: `plain` was made of all records
        wanted = consumer_lines(SEGMENTS / f"{source}-0", "read_uncommitted" if way == "plain" else isolation)
        if way == "clean":
            assert set(served) <= set(wanted) and len(served) < len(wanted)
        else:
            assert served == wanted, topic


@pytest.mark.slow
def test_the_broker_took_the_files_as_they_are(broker: Broker, folders: dict[str, Path]) -> None:
    for topic, folder in folders.items():
        served = broker.data / f"{topic}-0"
        for path in folder.glob("*.log"):
            assert (served / path.name).read_bytes() == path.read_bytes(), path
        epochs, ours = ((at / "leader-epoch-checkpoint").read_text().split("\n")[2:-1] for at in (served, folder))
        assert epochs[: len(ours)] == ours
