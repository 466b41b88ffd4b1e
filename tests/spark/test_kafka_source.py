"""Spark's own Kafka source and sink against a real broker, one spark-submit on bare executors, one killed before it."""

from __future__ import annotations

import base64
import json
import random
import shutil
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from broker import Broker
from jvm_oracle import Oracle
from jvm_reading import consumer_lines
from kafka_session import SETTINGS, Groups, connector, interceptor
from long_run import MINUTES
from paths import SEGMENTS
from spark_rows import record_row
from submitting import Application

import kafkarec
from spark_udfs import decoding

pytestmark = [pytest.mark.spark, pytest.mark.slow, MINUTES]

Value = tuple[int, bytes | None]
NOW = 1_700_000_000_000
ISOLATION = ("read_committed", "read_uncommitted")
NOTHING = [None] * 7


def values() -> list[Value]:
    """(partition, value) of the topic of raw batches: one batch or some of a segment, and what is none."""
    dice, found = random.Random(7), []
    for name in ("all-codecs-0", "logappend-0", "txn-0"):
        for path in sorted((SEGMENTS / name).glob("*.log")):
            batches = [bytes(batch.raw) for batch in kafkarec.batches(path.read_bytes())]
            while batches:
                count = dice.randint(1, 3)
                found.append(b"".join(batches[:count]))
                del batches[:count]
    spoiled = bytearray(found[3])
    spoiled[-1] ^= 1
    odd = [None, b"", b"hello", found[0][:-5], bytes(spoiled), found[2] + bytes(spoiled) + found[1], bytes(100)]
    for one in odd * 3:
        found.insert(dice.randrange(len(found)), one)  # type: ignore[arg-type]
    return [(dice.randrange(2), one) for one in found]


def odd_records(folder: Path) -> None:
    """A log of everything that a record can be, with a damaged batch in its middle."""
    headers: list[list[tuple[str, bytes | None]]] = [
        [],
        [("h", b"x")],
        [("empty", b""), ("null", None)],
        [("twice", b"1"), ("twice", b"2"), ("twice", b"1")],
        [("ключ", b"\x00\xff"), ("", b"no name")],
    ]
    with kafkarec.SegmentWriter(folder) as writer:
        for number, codec in enumerate(("none", "gzip", "snappy", "lz4", "zstd")):
            made = []
            for each in range(40):
                key = (None, b"", b"key %d" % each)[each % 3]
                value = (None, b"", b"value %d" % each, b"\x00\x80\xff")[each % 4]
                made.append((number * 40 + each, NOW + 1000 * number - 7 * each, key, value, headers[each % 5]))
            writer.append(bytes(kafkarec.encode(made, compression=codec)))
    (path,) = folder.glob("*.log")
    data = bytearray(path.read_bytes())
    third = kafkarec.scan(data).column("position")[2]
    data[third + 100] ^= 1
    path.write_bytes(data)


def old_records(folder: Path) -> None:
    """Magic 0, which has no timestamps, 1 and 2 with records that have none."""
    with kafkarec.SegmentWriter(folder) as writer:
        for magic, codec in ((0, "none"), (0, "gzip"), (1, "none"), (1, "lz4"), (2, "zstd")):
            stamps = [-1 if magic == 0 or each % 5 == 0 else NOW + each for each in range(5)]
            records = [(each, stamp, b"k", b"%d" % magic, []) for each, stamp in enumerate(stamps)]
            writer.write(records, magic=magic, compression=codec)


def plain_folder(name: str, here: Path) -> Path:
    shutil.copytree(SEGMENTS / name, here / name, ignore=shutil.ignore_patterns("*.json", "*.txt"))
    return here / name


class Ran:
    """What the applications told, and what there was before and after."""

    def __init__(self, folder: Path, broker: Broker, kafka: Oracle) -> None:
        self.folder, self.broker, self.kafka = folder, broker, kafka
        self.told: dict[str, Any] = {}
        self.values = values()
        self.lag: dict[tuple[str, str, int], tuple[int, int, int]] = {}

    def messages(self) -> dict[tuple[int, int], bytes | None]:
        """The archive's values by partition and offset."""
        count: dict[int, int] = defaultdict(int)
        found = {}
        for partition, value in self.values:
            found[partition, count[partition]] = value
            count[partition] += 1
        return found

    def consumed(self, topic: str) -> list[str]:
        """Without their offsets, in the words of tests/support/jvm/Reading.java."""
        answer = self.kafka.ask("consume", self.broker.address, topic, "read_uncommitted")
        assert answer.status == 0, answer.err
        return [line.partition(" ")[2] for line in answer.out.splitlines()[:-1]]


def groups_at_work(ask: Groups) -> None:
    """Every way to commit an offset, and to take it back."""
    ask("join", "readers", "classic", "txn", 20)
    ask("join", "new-readers", "consumer", "all-codecs", 20)
    ask("commit", "later", "all-codecs:0=500")
    ask("commit", "later", "all-codecs:0=50", "txn:0=60")
    ask("commit", "half", "txn:0=7", "all-codecs:0=9")
    ask("forget", "half", "txn:0=7")
    ask("commit", "gone", "txn:0=7", "all-codecs:0=8")
    ask("disband", "gone")
    ask("transact", "exact", "commit", "txn:0=30")
    ask("transact", "exact", "abort", "txn:0=99")
    ask.commit_for(10**9, "kept", "txn", 3)
    ask.commit_for(1, "expired", "txn", 3)


@pytest.fixture(scope="module")
def ran(kafka: Oracle, fat: Path, bare_python: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ran]:
    jars, folder = connector(), tmp_path_factory.mktemp("kafka")
    jars.append(interceptor(folder))
    real = ("txn", "all-codecs", "logappend", "compacted")
    served = {name: plain_folder(f"{name}-0", folder / "served") for name in real}
    served["old"] = folder / "served" / "old-0"
    old_records(served["old"])
    shutil.copytree(served["txn"], folder / "backup" / "cut-0")
    odd_records(folder / "damaged" / "rescued-0")
    (folder / "none").mkdir()
    broker = Broker(folder / "broker", **SETTINGS)
    try:
        broker.serve(kafka, {**served, "cut": served["txn"], "rescued": folder / "none", "plain": folder / "none"})
        told = Ran(folder, broker, kafka)
        ask = Groups(kafka, broker)
        for topic in ("txn", "cut"):
            assert kafka.ask("produce", broker.address, topic, 4).status == 0
        ask("topic", "archive", 2)
        groups_at_work(ask)
        ask("cut", "cut:0=150")
        parts = [told.values[start:stop] for start, stop in ((0, 45), (45, 75), (75, 95), (95, None))]
        sent = [[(at, None if one is None else base64.b64encode(one).decode()) for at, one in part] for part in parts]
        (folder / "values.json").write_text(json.dumps(sent))
        (folder / "out").mkdir()
        common = [broker.address, str(folder / "out"), str(folder / "values.json")]
        Application("kafka_killed.py", fat, bare_python, folder / "killed", *common, jars=jars).killed()
        arguments = [broker.address, broker.data, folder / "out", folder / "values.json", folder / "backup"]
        arguments.append(folder / "damaged")
        words = map(str, arguments)
        told.told = Application("kafka_source.py", fat, bare_python, folder / "app", *words, jars=jars).result()
        told.lag = ask.lag()
        yield told
    finally:
        broker.stop()


def by_message(rows: list[list[Any]]) -> dict[tuple[int, int], list[list[Any]]]:
    found = defaultdict(list)
    for partition, message, *row in rows:
        found[partition, message].append(row)
    return found


def decoded(value: bytes | None) -> list[list[Any]]:
    """A value's rows by the local API: its records, then the damage; one of nulls where there is neither."""
    if value is None:
        return [NOTHING]
    columns = kafkarec.decode(value, errors="skip")
    rows = [[*record_row(record)[:6], None] for record in columns]
    rows += [[*NOTHING[:6], decoding.corrupt_text(damage)] for damage in columns.damage]
    return rows or [NOTHING]


@pytest.mark.parametrize("way", ["sql", "column", "explode", "parquet"])
def test_values_that_are_raw_batches_become_the_records_of_the_local_api(ran: Ran, way: str) -> None:
    """`parquet`: a stream that ran twice, with values sent in between."""
    found, messages = by_message(ran.told[way]), ran.messages()
    assert sorted(found) == sorted(messages)
    for at, value in messages.items():
        wanted = decoded(value)
        assert sorted(found[at], key=repr) == sorted(wanted, key=repr), at
        good = [row for row in found[at] if row[6] is None]
        assert good == [row for row in wanted if row[6] is None], at
    rows = [row for each in found.values() for row in each]
    assert len(rows) > 1000 and sum(row[6] is not None for row in rows) == 9


def test_a_stream_that_was_killed_stopped_and_failed_has_every_record_once(ran: Ran) -> None:
    offsets, committed = json.loads((ran.folder / "out" / "killed").read_text())
    assert offsets == ["0", "1", "2"] and committed == ["0", "1"], "it was killed inside of its third batch"
    assert "a task that fails" in ran.told["failed"]
    assert ran.told["before"] == ran.told["after"]
    last, end = ran.told["end"]
    assert end == list(range(end[-1] + 1)) and end[-1] > last > ran.told["after"][-1] > 2
    wanted = []
    for (partition, message), value in ran.messages().items():
        for record in kafkarec.decode(value or b"", errors="skip"):
            source = f"{partition}/{message}/{record.offset}".encode()
            headers = [*record.headers, ("source", source)]
            wanted.append((record.timestamp, record.key, record.value, headers))
    found = []
    for folder in (ran.folder / "out" / "decoded").glob("decoded-*"):
        with kafkarec.open(folder) as log:
            records = list(log.read())
        assert [record.offset for record in records] == list(range(len(records)))
        found += [(record.timestamp, record.key, record.value, record.headers) for record in records]
    assert sorted(found, key=repr) == sorted(wanted, key=repr)


def test_lag_in_sql_is_what_kafka_consumer_groups_tells(ran: Ran) -> None:
    found = {(group, topic, at): tuple(rest) for group, topic, at, *rest in ran.told["lag read_committed"]}
    wanted = {key: told for key, told in ran.lag.items() if not key[0].startswith("spark-kafka")}
    assert found == wanted
    assert {key[0] for key in found} == {"readers", "new-readers", "later", "half", "exact", "kept"}
    assert found["later", "all-codecs", 0][0] == 50 and found["exact", "txn", 0][0] == 30
    assert ("half", "txn", 0) not in found
    assert {"gone", "expired"} <= set(ran.told["groups"])


def test_without_read_committed_an_aborted_commit_counts(ran: Ran) -> None:
    found = {(group, topic, at): tuple(rest) for group, topic, at, *rest in ran.told["lag read_uncommitted"]}
    assert found["exact", "txn", 0][0] == 99


def test_every_record_of_consumer_offsets_is_understood(ran: Ran) -> None:
    types = {name: (count, problems) for name, count, problems in ran.told["json"]}
    assert {"OffsetCommit", "GroupMetadata", "ConsumerGroupMetadata"} <= set(types)
    assert all(name is not None and problems == 0 for name, (_, problems) in types.items())


def test_sparks_source_hides_internal_topics_by_default(ran: Ran) -> None:
    """docs/spark.md says which setting shows them; where this fails, it need not any more."""
    assert ran.told["hidden"] == 0


def saved(ran: Ran) -> list[kafkarec.Record]:
    found = kafkarec.open(ran.folder / "damaged" / "rescued-0").read(errors="skip")
    assert ran.told["damage"] == len(found.damage) == 1
    return list(found)


def test_salvaged_records_are_in_the_live_topic_as_they_were(ran: Ran) -> None:
    good = saved(ran)
    assert len(good) == 160
    folder = ran.folder / "good" / "rescued-0"
    with kafkarec.SegmentWriter(folder) as writer:
        writer.write([(at, one.timestamp, one.key, one.value, one.headers) for at, one in enumerate(good)])
    assert ran.consumed("rescued") == [line.partition(" ")[2] for line in consumer_lines(folder, "read_uncommitted")]


def test_the_sink_alone_keeps_all_but_the_times(ran: Ran) -> None:
    """docs/spark.md says so; where this fails, Spark's sink knows the column and needs no interceptor any more."""
    wanted, found = ran.consumed("rescued"), ran.consumed("plain")
    assert [line.split(" ", 1)[1] for line in found] == [line.split(" ", 1)[1] for line in wanted]
    assert {int(line.split()[0]) for line in found}.isdisjoint(int(line.split()[0]) for line in wanted)


def test_both_sources_have_one_schema(ran: Ran) -> None:
    for one, other in ran.told["schemas"].values():
        assert one == other


@pytest.mark.parametrize("isolation", ISOLATION)
def test_the_brokers_folders_and_its_topics_hold_the_same(ran: Ran, isolation: str) -> None:
    counts = {}
    for topic in ("txn", "all-codecs", "logappend", "compacted", "old"):
        with kafkarec.open(ran.broker.data / f"{topic}-0") as log:
            counts[topic] = len(log.read(isolation=isolation))
    assert ran.told[f"counts {isolation}"] == counts
    assert ran.told[f"same {isolation}"] == [sum(counts.values()), 0, 0]
    sizes = [ran.told[f"counts {isolation}"]["txn"] for isolation in ISOLATION]
    assert sizes[0] < sizes[1]


def test_where_a_record_has_no_timestamp_the_sources_differ(ran: Ran) -> None:
    """1969-12-31 23:59:59.999 in Spark's Kafka source, null here: docs/howto/spark-and-kafka.md says so."""
    assert ran.told["untimed read_uncommitted"] == [13, 13]


@pytest.mark.parametrize("isolation", ISOLATION)
def test_a_backup_before_a_live_topic(ran: Ran, isolation: str) -> None:
    """The topic has lost everything before offset 150; the backup ends at 293."""
    with kafkarec.open(ran.folder / "backup" / "cut-0") as log:
        wanted = [record_row(record)[:6] for record in log.read(isolation=isolation, end_offset=150)]
    with kafkarec.open(ran.broker.data / "cut-0") as log:
        wanted += [record_row(record)[:6] for record in log.read(isolation=isolation, start_offset=150)]
    for way in ("one way", "other way"):
        assert ran.told[f"{way} {isolation}"] == wanted
    assert 150 <= ran.told[f"starts {isolation}"] < 160
    assert wanted[0][0] < 10 and wanted[-1][0] > 300


@pytest.mark.parametrize(("topic", "isolation"), [("later_segment", "read_uncommitted"), ("txn", "read_committed")])
def test_folders_of_a_running_broker_as_streams_hold_what_the_kafka_source_gives(
    ran: Ran, topic: str, isolation: str
) -> None:
    """`later_segment` is written to while the stream runs, and between its stop and its restart."""
    wanted = []
    for folder in sorted(ran.broker.data.glob(f"{topic}-*")):
        with kafkarec.open(folder) as log:
            found = log.read(isolation=isolation)
            wanted += [[int(folder.name.rpartition("-")[2]), *record_row(record)[:6]] for record in found]
    assert ran.told[f"rows of {topic}"] == wanted
    assert ran.told[f"following {topic}"] == [len(wanted), 0, 0]
    assert len(wanted) == (1200 if topic == "later_segment" else 194)
