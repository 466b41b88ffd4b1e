"""A real broker serves partition folders of SegmentWriter after a simulated clean shutdown, so that it uses every index
and snapshot: it starts without a warning, consumers get the records, producers append, the log cleaner cleans."""

from __future__ import annotations

import random
import re
import shutil
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import builders
import pytest
from broker import Broker
from jvm_oracle import Oracle
from jvm_reading import ISOLATION, consumed_lines, consumer_lines
from killed_writer import batches, content, run

import kafkarec
from kafkarec.ops.compact import compact
from kafkarec.ops.segment_writer import SegmentWriter

pytestmark = pytest.mark.slow

_CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
_COMPACTED = "cleanup.policy=compact:min.cleanable.dirty.ratio=0.0001"
_KEYS = 7
_PRODUCER = 1 << 40  # a producer id that no broker of a test assigns


def rows(count: int = 300) -> list[tuple[Any, ...]]:
    """(offset, timestamp, key, value, headers) with nulls, empty values and all kinds of headers."""
    rng = random.Random(1)
    generated: list[tuple[Any, ...]] = []
    for number in range(count):
        value = rng.choice([None, b"", rng.randbytes(40), b"text " * 20])
        headers = rng.choice([[], [], [("h", b"x"), ("h", None)], [("ключ", b"")]])
        key = rng.choice([None, b"", b"k%d" % (number % _KEYS)])
        generated.append((number, builders.NOW + number, key, value, headers))
    return generated


def _write_transactions(folder: Path) -> None:
    """Two concurrent producers, commits and aborts over several segments; the last transaction stays open."""
    parts, offset = [], 0
    for number in range(30):
        producer = _PRODUCER + number % 2
        common: dict[str, Any] = {"producer_id": producer, "producer_epoch": 0}
        parts.append(
            builders.batch(
                builders.records(2, value=b"v" * 60),
                base_offset=offset,
                attributes=builders.TRANSACTIONAL,
                base_sequence=number // 2 * 2,
                **common,
            )
        )
        offset += 2
        if number % 4 > 1 and number < 29:
            parts.append(builders.end_marker(commit=number % 3 != 0, base_offset=offset, **common))
            offset += 1
    with SegmentWriter(folder, segment_bytes=1000) as writer:
        writer.append(b"".join(parts))


def _write_salvaged(folder: Path, parent: Path) -> None:
    run(parent / "damaged" / folder.name)
    for path in sorted((parent / "damaged" / folder.name).glob("*.log"))[1:3]:
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 1
        path.write_bytes(data)
    kafkarec.salvage(parent / "damaged" / folder.name, parent / "out", as_partition=True)
    shutil.copytree(parent / "out" / folder.name, folder)


def _write_compacted(folder: Path) -> None:
    """The output of compact() for a keyed log."""
    keyed = [(at, builders.NOW + at, b"k%d" % (at % _KEYS), b"%d" % at, []) for at in range(200)]
    with SegmentWriter(folder, segment_bytes=1500) as writer:
        writer.write(keyed, batch_size=400)
    data = b"".join(path.read_bytes() for path in sorted(folder.glob("*.log")))
    shutil.rmtree(folder)
    with SegmentWriter(folder, segment_bytes=1500) as writer:
        writer.append(compact(data))


def _write_by_spark(folder: Path) -> Path:
    """The folder that `df.write.format("kafkarec")` publishes: two tasks share a partition, a later job appends."""
    import pyarrow as pa

    from spark_udfs.source import destination
    from spark_udfs.source.staging import WriteJob, WriteSettings

    names = ("timestamp", "key", "value", "headers")
    kinds = (pa.int64(), pa.binary(), pa.binary(), pa.list_(pa.struct({"key": pa.string(), "value": pa.binary()})))
    for number in range(2):
        write_job = WriteJob(str(folder), f"job-{number}", None, WriteSettings("zstd", None, 1200, 6000))
        publisher = destination.publisher(write_job.path)
        publisher.begin(write_job)
        staged = []
        for task in range(2):
            some = rows()[task * 150 :][:150]
            part = [(at, key, value, [*map(_pair, headers)]) for _, at, key, value, headers in some]
            arrays = (pa.array(column, kind) for column, kind in zip(zip(*part, strict=True), kinds, strict=True))
            table = pa.table(dict(zip(names, arrays, strict=True)))
            with publisher.staging_writer(write_job, task, 0) as stage:
                stage.put("w-spark", 0, table, False)
                staged += stage.close()
        publisher.commit(write_job, staged)
    return folder / "w-spark-0"


def _pair(header: tuple[str, bytes | None]) -> dict[str, Any]:
    return {"key": header[0], "value": header[1]}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("written")
    folders_by_topic = {f"w-{codec}": folder / f"w-{codec}-0" for codec in _CODECS}
    for codec in _CODECS:
        with SegmentWriter(folders_by_topic[f"w-{codec}"], segment_bytes=6000) as writer:
            writer.write(rows(), compression=codec, batch_size=1200)
        assert len(writer.segments) > 1
    others = ("w-stamped", "w-later", "w-old", "w-kinds", "w-open", "w-saved", "w-compacted", "w-more", "w-keys")
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
    _write_transactions(folders_by_topic["w-open"])
    _write_salvaged(folders_by_topic["w-saved"], folder)
    _write_compacted(folders_by_topic["w-compacted"])
    with SegmentWriter(folders_by_topic["w-more"], segment_bytes=6000) as writer:
        writer.write(rows())
    with SegmentWriter(folders_by_topic["w-keys"], segment_bytes=1500) as writer:
        keyed = [(at, builders.NOW + at, b"k%d" % (at % _KEYS), b"%d" % at, []) for at in range(300)]
        writer.write(keyed, batch_size=400)
    if find_spec("pyspark"):
        folders_by_topic["w-spark"] = _write_by_spark(folder)
    return folders_by_topic


@pytest.fixture(scope="module")
def broker(kafka: Oracle, folders: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    started = Broker(
        tmp_path_factory.mktemp("broker"),
        log_cleaner_enable="true",
        log_cleaner_backoff_ms="200",
        transaction_state_log_num_partitions="1",
    )
    try:
        started.serve(kafka, folders, {"w-keys": _COMPACTED}, clean=True)
        yield started
    finally:
        started.stop()


@pytest.mark.parametrize("isolation", ISOLATION)
def test_a_consumer_gets_what_was_written(
    isolation: str, broker: Broker, folders: dict[str, Path], kafka: Oracle
) -> None:
    for topic, folder in folders.items():
        if topic in ("w-more", "w-keys"):  # see below
            continue
        # magic 0 has no timestamps
        expected = [line.replace(" -1 None ", " -1 -1 ", 1) for line in consumer_lines(folder, isolation)]
        assert consumed_lines(kafka, broker, topic, isolation) == expected, topic


def test_the_broker_starts_without_a_warning(broker: Broker, folders: dict[str, Path], kafka: Oracle) -> None:
    """No segment is recovered, no index rebuilt, no snapshot ignored. The leader epochs of w-saved come from another
    cluster and are above the topic's: the broker discards them with a warning."""
    consumed_lines(kafka, broker, "w-none", "read_uncommitted")  # the broker is running
    started = broker.log_text.rindex("Loading logs from log dirs")
    lines = [line for line in broker.log_text[started:].splitlines() if re.search(r"\bw-\w+-0\b", line)]
    assert len(lines) > len(folders)
    bad = re.compile(r"^(WARN|ERROR)|[Rr]ecover(ing|ed) |[Cc]orrupt|rebuild(ing)? index|[Ff]ailed|Found invalid|runcat")
    assert [line for line in lines if bad.search(line) and "[LeaderEpochCache w-saved-0]" not in line] == []
    for topic, folder in folders.items():
        snapshot = sorted(folder.glob("*.snapshot"))[-1]
        assert any(f"{topic}-0/{snapshot.name}" in line for line in lines), f"{topic}: {snapshot.name} was not loaded"


def test_closed_segments_stay_unchanged(broker: Broker, folders: dict[str, Path]) -> None:
    for topic, folder in folders.items():
        if topic in ("w-more", "w-keys"):
            continue
        served, last = content(broker.data / f"{topic}-0"), sorted(folder.glob("*.log"))[-1].stem
        for name, data in content(folder).items():
            if name.endswith(".log") or (name[:20] != last and name.endswith("index")):
                assert served[name] == data, f"{topic}: {name}"


def test_producers_append_to_the_folders(
    broker: Broker, folders: dict[str, Path], kafka: Oracle, tmp_path: Path
) -> None:
    """Plain records and transactions of the broker's own producers; then SegmentWriter appends to the broker's
    folder."""
    answer = kafka.ask("produce", broker.address, "w-more", 4)
    assert answer.status == 0, answer.err
    offsets = [int(line) for line in answer.out.split()]
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


def test_the_log_cleaner_cleans_the_folders(broker: Broker, folders: dict[str, Path], kafka: Oracle) -> None:
    """Cleaned segments keep the last record of each key, the last segment keeps all records."""
    checkpoint, deadline = broker.data / "cleaner-offset-checkpoint", time.monotonic() + 60
    dirty = None
    while dirty is None and time.monotonic() < deadline:
        text = checkpoint.read_text() if checkpoint.exists() else ""
        dirty = re.search(r"^w-keys 0 (\d+)$", text, re.MULTILINE)
        time.sleep(0.1)
    assert dirty is not None, broker.log_text[-2000:]
    cleaned_to = int(dirty[1])
    assert cleaned_to > 200
    kept = [*range(cleaned_to - _KEYS, cleaned_to), *range(cleaned_to, 300)]
    served = broker.data / "w-keys-0"
    assert [int(line.split()[0]) for line in consumed_lines(kafka, broker, "w-keys", "read_committed")] == kept
    assert kafkarec.verify(served).damage == ()
    assert consumer_lines(served, "read_uncommitted") == [
        line for line in consumer_lines(folders["w-keys"], "read_uncommitted") if int(line.split()[0]) in kept
    ]
