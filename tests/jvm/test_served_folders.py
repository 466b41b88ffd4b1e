"""A real broker serves partition folders after a simulated clean shutdown, so that it uses every index and snapshot:
those of SegmentWriter, salvaged ones, what `build`, `convert` and `compact` wrote, random partitions, those of another
broker. It starts without a warning, consumers get the records that kafkarec reads, producers append."""

import random
import re
import shutil

import builders
import golden
import jvm_oracle
import pytest
from broker import Broker
from broker_logs import partition
from command import WIDE
from damage import damage_file
from jvm_reading import ISOLATION, consumed_lines, consumer_lines
from killed_writer import batches, content
from paths import SEGMENTS

import kafkarec
from kafkarec import SegmentWriter
from kafkarec.cli import main

pytestmark = pytest.mark.slow

_GOLDEN = ("all-codecs", "txn", "compacted", "logappend")
_LARGER = ("--batch-size", "16k", "--segment-bytes", "17k")


def rows():
    """(offset, timestamp, key, value, headers) with nulls, empty values and all kinds of headers."""
    rng = random.Random(1)
    generated = []
    for number in range(300):
        value = rng.choice([None, b"", rng.randbytes(40), b"text " * 20])
        headers = rng.choice([[], [], [("h", b"x"), ("h", None)], [("ключ", b"")]])
        key = rng.choice([None, b"", b"k%d" % (number % 7)])
        generated.append((number, builders.NOW + number, key, value, headers))
    return generated


def _write_salvaged(folder, seed, parent):
    """Damage each segment of a random partition, then salvage it with `as_partition`."""
    damaged = parent / "damaged" / folder.name
    chance = partition(seed, damaged).random
    for path in sorted(damaged.iterdir()):
        damage_file(chance, path)
    kafkarec.salvage(damaged, parent / f"out{seed}", as_partition=True)
    if (parent / f"out{seed}" / folder.name).exists():  # some cannot be saved
        shutil.copytree(parent / f"out{seed}" / folder.name, folder)


def _write_by_commands(source, parent):
    """Topic -> folder, for every output made from one source."""
    rows, bare = parent / f"{source.name}.jsonl", parent / f"{source.name}.csv"
    commands = {
        "built": ("build", rows, "--segment-bytes", "8k"),
        "plain": ("build", bare, "--compression", "snappy"),
        "zstd": ("convert", source, "--compression", "zstd", *_LARGER),
        "lz4": ("convert", source, "--compression", "lz4", "--level", "12", *_LARGER),
        "gzip": ("convert", source, "--compression", "gzip", *_LARGER),
        "clean": ("compact", source),
    }
    for path, arguments in ((rows, ["--control", "--columns", WIDE]), (bare, ["--format", "csv"])):
        assert main(["cat", str(source), *arguments, "-o", str(path)]) == 0
    folders_by_topic = {}
    for command, words in commands.items():
        topic = f"w-{source.name[:-2].replace('-', '_')}_{command}"
        folders_by_topic[topic] = parent / f"{topic}-0"
        assert main([*map(str, words), "-o", str(folders_by_topic[topic])]) == 0
    return folders_by_topic


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    folder = tmp_path_factory.mktemp("written")
    folders_by_topic = {f"w-{codec}": folder / f"w-{codec}-0" for codec in builders.CODECS}
    for codec in builders.CODECS:
        with SegmentWriter(folders_by_topic[f"w-{codec}"], segment_bytes=6000) as writer:
            writer.write(rows(), compression=codec, batch_size=1200)
        assert len(writer.segments) > 1
    others = ("w-stamped", "w-later", "w-old", "w-kinds", "w-more")
    folders_by_topic |= {topic: folder / f"{topic}-0" for topic in others}
    with SegmentWriter(folders_by_topic["w-stamped"]) as writer:
        writer.write(rows(), timestamp_type="log_append_time", log_append_time=builders.NOW + 5, compression="lz4")
    with SegmentWriter(folders_by_topic["w-later"], start_offset=1000) as writer:
        writer.write(rows())
    with SegmentWriter(folders_by_topic["w-old"], segment_bytes=6000) as writer:
        for magic in (0, 1):
            plain = [(at, stamp if magic else -1, key, value, []) for at, stamp, key, value, _ in rows()]
            writer.write(plain, magic=magic)
            writer.write(plain, magic=magic, compression="gzip")
    with SegmentWriter(folders_by_topic["w-kinds"], segment_bytes=1300, leader_epoch=0) as writer:
        writer.append(b"".join(batches()))
    with SegmentWriter(folders_by_topic["w-more"], segment_bytes=6000) as writer:
        writer.write(rows())
    for seed in range(jvm_oracle.count(6)):
        topics = f"random{seed}", f"w-saved{seed}"  # segment files only; and what salvage wrote
        folders_by_topic |= {topic: folder / f"{topic}-0" for topic in topics}
        partition(seed, folders_by_topic[topics[0]])
        _write_salvaged(folders_by_topic[topics[1]], seed, folder)
    for name in _GOLDEN:
        folders_by_topic[name] = golden.copied(SEGMENTS / f"{name}-0", folder / f"{name}-0")
        folders_by_topic |= _write_by_commands(SEGMENTS / f"{name}-0", folder)
    return {topic: path for topic, path in folders_by_topic.items() if path.exists()}


@pytest.fixture(scope="module")
def broker(kafka, folders, tmp_path_factory):
    started = Broker(tmp_path_factory.mktemp("broker"))
    try:
        started.serve(kafka, folders, clean=True)
        yield started
    finally:
        started.stop()


@pytest.mark.parametrize("isolation", ISOLATION)
def test_a_consumer_gets_what_was_written(isolation, broker, folders, kafka):
    for topic, folder in folders.items():
        if topic == "w-more":  # see below
            continue
        # magic 0 has no timestamps
        expected = [line.replace(" -1 None ", " -1 -1 ", 1) for line in consumer_lines(folder, isolation)]
        assert consumed_lines(kafka, broker, topic, isolation) == expected, topic


def test_the_broker_starts_without_a_warning(broker, folders, kafka):
    """No segment is recovered, no index rebuilt, no snapshot ignored. The leader epochs of a salvaged log and of those
    of another broker are above the topic's: the broker discards them with a warning."""
    consumed_lines(kafka, broker, "w-none", "read_uncommitted")  # the broker is running
    started = broker.log_text.rindex("Loading logs from log dirs")
    lines = [line for line in broker.log_text[started:].splitlines() if re.search(r"\bw-\w+-0\b", line)]
    assert len(lines) > len(folders) > 40
    bad = re.compile(r"^(WARN|ERROR)|[Rr]ecover(ing|ed) |[Cc]orrupt|rebuild(ing)? index|[Ff]ailed|Found invalid|runcat")
    foreign = re.compile(r"\[LeaderEpochCache w-(saved\d|\w+_\w+)-0\]")
    assert [line for line in lines if bad.search(line) and not foreign.search(line)] == []
    for topic, folder in folders.items():
        if not topic.startswith("w-"):
            continue
        snapshot = sorted(folder.glob("*.snapshot"))[-1]
        assert any(f"{topic}-0/{snapshot.name}" in line for line in lines), f"{topic}: {snapshot.name} was not loaded"


def test_segments_and_the_indexes_of_closed_ones_stay_unchanged(broker, folders):
    for topic, folder in folders.items():
        if topic == "w-more":
            continue
        served, last = content(broker.data / f"{topic}-0"), sorted(folder.glob("*.log"))[-1].stem
        for name, data in content(folder).items():
            if name.endswith(".log") or (name[:20] != last and name.endswith("index")):
                assert served[name] == data, f"{topic}: {name}"


def test_producers_append_to_the_folders(broker, folders, kafka, tmp_path):
    """Plain records and transactions of the broker's own producers; then SegmentWriter appends to the broker's
    folder."""
    offsets = [*map(int, kafka.lines("produce", broker.address, "w-more", 4))]
    assert offsets[0] == 300 and len(offsets) == 24
    served = broker.data / "w-more-0"
    for isolation in ISOLATION:
        consumed = consumed_lines(kafka, broker, "w-more", isolation)
        assert consumed[:300] == consumer_lines(folders["w-more"], isolation)
        assert consumed == consumer_lines(served, isolation)
        assert len(consumed) == 300 + (24 if isolation == "read_uncommitted" else 18)
    copied = tmp_path / "w-more-0"
    shutil.copytree(served, copied)
    with SegmentWriter(copied) as writer:
        end = writer.next_offset
        assert end == offsets[-1] + 2  # after the last marker
        writer.write([(0, builders.NOW, b"k", b"v", [])])
    assert kafkarec.verify(copied).damage == ()
    assert consumer_lines(copied, "read_committed")[:-1] == consumer_lines(served, "read_committed")
