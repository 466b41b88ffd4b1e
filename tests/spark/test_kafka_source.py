"""Spark's own Kafka source and sink against a real broker: one spark-submit on bare executors, after one that was
killed."""

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
from spark_submit import Application

import kafkarec
from spark_udfs import decoding

pytestmark = [pytest.mark.spark, pytest.mark.slow, MINUTES]

Value = tuple[int, bytes | None]
NOW = 1_700_000_000_000
ISOLATION = ("read_committed", "read_uncommitted")
NOTHING = [None] * 7


def values() -> list[Value]:
    """(partition, value) of the topic of raw batches: one or several batches of a segment, and values that hold
    none."""
    rng, messages = random.Random(7), []
    for name in ("all-codecs-0", "logappend-0", "txn-0"):
        for path in sorted((SEGMENTS / name).glob("*.log")):
            batches = [bytes(batch.raw) for batch in kafkarec.batches(path.read_bytes())]
            while batches:
                count = rng.randint(1, 3)
                messages.append(b"".join(batches[:count]))
                del batches[:count]
    spoiled = bytearray(messages[3])
    spoiled[-1] ^= 1
    odd = [
        None,
        b"",
        b"hello",
        messages[0][:-5],
        bytes(spoiled),
        messages[2] + bytes(spoiled) + messages[1],
        bytes(100),
    ]
    for one in odd * 3:
        messages.insert(rng.randrange(len(messages)), one)  # type: ignore[arg-type]
    return [(rng.randrange(2), one) for one in messages]


def odd_records(folder: Path) -> None:
    """A log with all variants of records, and a damaged batch in its middle."""
    headers: list[list[tuple[str, bytes | None]]] = [
        [],
        [("h", b"x")],
        [("empty", b""), ("null", None)],
        [("twice", b"1"), ("twice", b"2"), ("twice", b"1")],
        [("ключ", b"\x00\xff"), ("", b"no name")],
    ]
    with kafkarec.SegmentWriter(folder) as writer:
        for number, codec in enumerate(("none", "gzip", "snappy", "lz4", "zstd")):
            records = []
            for each in range(40):
                key = (None, b"", b"key %d" % each)[each % 3]
                value = (None, b"", b"value %d" % each, b"\x00\x80\xff")[each % 4]
                records.append((number * 40 + each, NOW + 1000 * number - 7 * each, key, value, headers[each % 5]))
            writer.append(bytes(kafkarec.encode(records, compression=codec)))
    (path,) = folder.glob("*.log")
    data = bytearray(path.read_bytes())
    third = kafkarec.scan(data).column("position")[2]
    data[third + 100] ^= 1
    path.write_bytes(data)


def old_records(folder: Path) -> None:
    """Magic 0, which has no timestamps, and magics 1 and 2 with some records without a timestamp."""
    with kafkarec.SegmentWriter(folder) as writer:
        for magic, codec in ((0, "none"), (0, "gzip"), (1, "none"), (1, "lz4"), (2, "zstd")):
            stamps = [-1 if magic == 0 or each % 5 == 0 else NOW + each for each in range(5)]
            records = [(each, stamp, b"k", b"%d" % magic, []) for each, stamp in enumerate(stamps)]
            writer.write(records, magic=magic, compression=codec)


def plain_folder(name: str, parent: Path) -> Path:
    shutil.copytree(SEGMENTS / name, parent / name, ignore=shutil.ignore_patterns("*.json", "*.txt"))
    return parent / name


class RunResults:
    """The results of the applications, and the inputs before and after them."""

    def __init__(self, folder: Path, broker: Broker, kafka: Oracle) -> None:
        self.folder, self.broker, self.kafka = folder, broker, kafka
        self.results: dict[str, Any] = {}
        self.values = values()
        self.lag: dict[tuple[str, str, int], tuple[int, int, int]] = {}

    def messages(self) -> dict[tuple[int, int], bytes | None]:
        """The topic's values by partition and offset."""
        count: dict[int, int] = defaultdict(int)
        values_by_position = {}
        for partition, value in self.values:
            values_by_position[partition, count[partition]] = value
            count[partition] += 1
        return values_by_position

    def consumed(self, topic: str) -> list[str]:
        """The records without offsets, as tests/support/jvm/Reading.java prints them."""
        answer = self.kafka.ask("consume", self.broker.address, topic, "read_uncommitted")
        assert answer.status == 0, answer.err
        return [line.partition(" ")[2] for line in answer.out.splitlines()[:-1]]


def commit_offsets(groups: Groups) -> None:
    """Commit offsets in every way, and remove some again."""
    groups("join", "readers", "classic", "txn", 20)
    groups("join", "new-readers", "consumer", "all-codecs", 20)
    groups("commit", "later", "all-codecs:0=500")
    groups("commit", "later", "all-codecs:0=50", "txn:0=60")
    groups("commit", "half", "txn:0=7", "all-codecs:0=9")
    groups("forget", "half", "txn:0=7")
    groups("commit", "gone", "txn:0=7", "all-codecs:0=8")
    groups("disband", "gone")
    groups("transact", "exact", "commit", "txn:0=30")
    groups("transact", "exact", "abort", "txn:0=99")
    groups.commit_for(10**9, "kept", "txn", 3)
    groups.commit_for(1, "expired", "txn", 3)


@pytest.fixture(scope="module")
def ran(kafka: Oracle, fat: Path, bare_python: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunResults]:
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
        run = RunResults(folder, broker, kafka)
        groups = Groups(kafka, broker)
        for topic in ("txn", "cut"):
            assert kafka.ask("produce", broker.address, topic, 4).status == 0
        for topic in ("archive", "growing"):
            groups("topic", topic, 2)
        commit_offsets(groups)
        groups("cut", "cut:0=150")
        parts = [run.values[start:stop] for start, stop in ((0, 45), (45, 75), (75, 95), (95, None))]
        sent = [[(at, None if one is None else base64.b64encode(one).decode()) for at, one in part] for part in parts]
        (folder / "values.json").write_text(json.dumps(sent))
        (folder / "out").mkdir()
        common = [broker.address, str(folder / "out"), str(folder / "values.json")]
        Application("kafka_killed.py", fat, bare_python, folder / "killed", *common, jars=jars).killed()
        arguments = [broker.address, broker.data, folder / "out", folder / "values.json", folder / "backup"]
        arguments.append(folder / "damaged")
        texts = map(str, arguments)
        run.results = Application("kafka_source.py", fat, bare_python, folder / "app", *texts, jars=jars).result()
        run.lag = groups.lag()
        yield run
    finally:
        broker.stop()


def by_message(rows: list[list[Any]]) -> dict[tuple[int, int], list[list[Any]]]:
    grouped = defaultdict(list)
    for partition, message, *row in rows:
        grouped[partition, message].append(row)
    return grouped


def decoded(value: bytes | None) -> list[list[Any]]:
    """A value's rows by the local API: its records, then the damage; one row of nulls where there is neither."""
    if value is None:
        return [NOTHING]
    columns = kafkarec.decode(value, errors="skip")
    rows = [[*record_row(record)[:6], None] for record in columns]
    rows += [[*NOTHING[:6], decoding.corrupt_text(damage)] for damage in columns.damage]
    return rows or [NOTHING]


@pytest.mark.parametrize("way", ["sql", "column", "explode", "parquet"])
def test_raw_batches_become_the_records_of_the_local_api(ran: RunResults, way: str) -> None:
    """`parquet`: a stream that ran twice, with new values in between."""
    actual, messages = by_message(ran.results[way]), ran.messages()
    if way in ("explode", "parquet"):  # kafka_explode has no row for a value without records
        messages = {at: value for at, value in messages.items() if decoded(value) != [NOTHING]}
    assert sorted(actual) == sorted(messages)
    for at, value in messages.items():
        expected = decoded(value)
        assert sorted(actual[at], key=repr) == sorted(expected, key=repr), at
        good = [row for row in actual[at] if row[6] is None]
        assert good == [row for row in expected if row[6] is None], at
    rows = [row for each in actual.values() for row in each]
    assert len(rows) > 1000 and sum(row[6] is not None for row in rows) == 9


def test_a_killed_stopped_and_failed_stream_has_every_record_once(ran: RunResults) -> None:
    offsets, committed = json.loads((ran.folder / "out" / "killed").read_text())
    assert offsets == ["0", "1", "2"] and committed == ["0", "1"], "the stream was killed during its third batch"
    assert "a task that fails" in ran.results["failed"]
    assert ran.results["before"] == ran.results["after"]
    last, end = ran.results["end"]
    assert end == list(range(end[-1] + 1)) and end[-1] > last > ran.results["after"][-1] > 2
    expected = []
    for (partition, message), value in ran.messages().items():
        for record in kafkarec.decode(value or b"", errors="skip"):
            source = f"{partition}/{message}/{record.offset}".encode()
            headers = [*record.headers, ("source", source)]
            expected.append((record.timestamp, record.key, record.value, headers))
    actual = []
    for folder in (ran.folder / "out" / "decoded").glob("decoded-*"):
        with kafkarec.open(folder) as log:
            records = list(log.read())
        assert [record.offset for record in records] == list(range(len(records)))
        actual += [(record.timestamp, record.key, record.value, record.headers) for record in records]
    assert sorted(actual, key=repr) == sorted(expected, key=repr)


def test_lag_in_sql_equals_that_of_kafka_consumer_groups(ran: RunResults) -> None:
    actual = {(group, topic, at): tuple(rest) for group, topic, at, *rest in ran.results["lag read_committed"]}
    expected = {key: lag for key, lag in ran.lag.items() if not key[0].startswith("spark-kafka")}
    assert actual == expected
    assert {key[0] for key in actual} == {"readers", "new-readers", "later", "half", "exact", "kept"}
    assert actual["later", "all-codecs", 0][0] == 50 and actual["exact", "txn", 0][0] == 30
    assert ("half", "txn", 0) not in actual
    assert {"gone", "expired"} <= set(ran.results["groups"])


def test_without_read_committed_an_aborted_commit_counts(ran: RunResults) -> None:
    actual = {(group, topic, at): tuple(rest) for group, topic, at, *rest in ran.results["lag read_uncommitted"]}
    assert actual["exact", "txn", 0][0] == 99


def test_every_record_of_consumer_offsets_is_decoded(ran: RunResults) -> None:
    types = {name: (count, problems) for name, count, problems in ran.results["json"]}
    assert {"OffsetCommit", "GroupMetadata", "ConsumerGroupMetadata"} <= set(types)
    assert all(name is not None and problems == 0 for name, (_, problems) in types.items())


def test_sparks_source_hides_internal_topics_by_default(ran: RunResults) -> None:
    """docs/spark/decode.md names the setting that shows them. If this fails, the setting is no longer needed."""
    assert ran.results["hidden"] == 0


def saved(ran: RunResults) -> list[kafkarec.Record]:
    columns = kafkarec.open(ran.folder / "damaged" / "rescued-0").read(errors="skip")
    assert ran.results["damage"] == len(columns.damage) == 1
    return list(columns)


def test_salvaged_records_arrive_unchanged_in_the_live_topic(ran: RunResults) -> None:
    good = saved(ran)
    assert len(good) == 160
    folder = ran.folder / "good" / "rescued-0"
    with kafkarec.SegmentWriter(folder) as writer:
        writer.write([(at, one.timestamp, one.key, one.value, one.headers) for at, one in enumerate(good)])
    assert ran.consumed("rescued") == [line.partition(" ")[2] for line in consumer_lines(folder, "read_uncommitted")]


def test_the_sink_alone_loses_only_the_timestamps(ran: RunResults) -> None:
    """docs/spark/decode.md says so. If this fails, Spark's sink has a timestamp column and needs no interceptor."""
    expected, actual = ran.consumed("rescued"), ran.consumed("plain")
    assert [line.split(" ", 1)[1] for line in actual] == [line.split(" ", 1)[1] for line in expected]
    assert {int(line.split()[0]) for line in actual}.isdisjoint(int(line.split()[0]) for line in expected)


def test_both_sources_have_one_schema(ran: RunResults) -> None:
    for one, other in ran.results["schemas"].values():
        assert one == other


@pytest.mark.parametrize("isolation", ISOLATION)
def test_the_brokers_folders_and_its_topics_hold_the_same(ran: RunResults, isolation: str) -> None:
    counts = {}
    for topic in ("txn", "all-codecs", "logappend", "compacted", "old"):
        with kafkarec.open(ran.broker.data / f"{topic}-0") as log:
            counts[topic] = len(log.read(isolation=isolation))
    assert ran.results[f"counts {isolation}"] == counts
    assert ran.results[f"same {isolation}"] == [sum(counts.values()), 0, 0]
    sizes = [ran.results[f"counts {isolation}"]["txn"] for isolation in ISOLATION]
    assert sizes[0] < sizes[1]


def test_where_a_record_has_no_timestamp_the_sources_differ(ran: RunResults) -> None:
    """1969-12-31 23:59:59.999 in Spark's Kafka source, null here, as docs/howto/spark-and-kafka.md says."""
    assert ran.results["untimed read_uncommitted"] == [13, 13]


@pytest.mark.parametrize("isolation", ISOLATION)
def test_a_backup_before_a_live_topic(ran: RunResults, isolation: str) -> None:
    """The topic has no records below offset 150; the backup ends at 293."""
    with kafkarec.open(ran.folder / "backup" / "cut-0") as log:
        expected = [record_row(record)[:6] for record in log.read(isolation=isolation, end_offset=150)]
    with kafkarec.open(ran.broker.data / "cut-0") as log:
        expected += [record_row(record)[:6] for record in log.read(isolation=isolation, start_offset=150)]
    for way in ("one way", "other way"):
        assert ran.results[f"{way} {isolation}"] == expected
    assert 150 <= ran.results[f"starts {isolation}"] < 160
    assert expected[0][0] < 10 and expected[-1][0] > 300


@pytest.mark.parametrize(("topic", "isolation"), [("growing", "read_uncommitted"), ("txn", "read_committed")])
def test_streams_of_a_running_brokers_folders_equal_the_kafka_source(
    ran: RunResults, topic: str, isolation: str
) -> None:
    """`growing` is written while the stream runs, and between its stop and its restart, by Spark's sink: a task that it
    runs again writes its records again."""
    expected = []
    for folder in sorted(ran.broker.data.glob(f"{topic}-*")):
        with kafkarec.open(folder) as log:
            columns = log.read(isolation=isolation)
            expected += [[int(folder.name.rpartition("-")[2]), *record_row(record)[:6]] for record in columns]
    assert ran.results[f"rows of {topic}"] == expected
    assert ran.results[f"following {topic}"] == [len(expected), 0, 0]
    if topic == "growing":
        assert {base64.b64decode(row[4]) for row in expected} == {b"%d" % each for each in range(1200)}
    else:
        assert len(expected) == 194
