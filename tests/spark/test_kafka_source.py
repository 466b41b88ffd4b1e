"""Folders of a running broker have the rows that Spark's own Kafka source has of its topics: one spark-submit on bare
executors. Lag, backups, salvaged records and raw batches in topics: docs/howto/spark-and-kafka.md, whose blocks run."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any, NamedTuple

import golden
import pytest
from broker import serving
from kafka_session import SETTINGS, connector
from long_run import MINUTES
from paths import SEGMENTS
from spark_rows import record_row
from spark_submit import ONE_EXECUTOR, Application

import kafkarec

pytestmark = [pytest.mark.spark, pytest.mark.slow, MINUTES]

NOW = 1_700_000_000_000
ISOLATION = ("read_committed", "read_uncommitted")
TOPICS = ("txn", "all-codecs", "logappend", "compacted", "old")


def old_records(folder):
    """Magic 0, which has no timestamps, and magics 1 and 2 with some records without a timestamp."""
    with kafkarec.SegmentWriter(folder) as writer:
        for magic, codec in ((0, "none"), (0, "gzip"), (1, "none"), (1, "lz4"), (2, "zstd")):
            stamps = [-1 if magic == 0 or each % 5 == 0 else NOW + each for each in range(5)]
            records = [(each, stamp, b"k", b"%d" % magic, []) for each, stamp in enumerate(stamps)]
            writer.write(records, magic=magic, compression=codec)


class Run(NamedTuple):
    results: dict[str, Any]
    data: Path


@pytest.fixture(scope="module")
def ran(kafka, fat, bare_python, tmp_path_factory):
    jars, folder = connector(), tmp_path_factory.mktemp("kafka")
    served = {name: folder / "served" / f"{name}-0" for name in TOPICS}
    for name in TOPICS[:-1]:
        golden.copied(SEGMENTS / f"{name}-0", served[name])
    old_records(served["old"])
    (folder / "out").mkdir()
    with serving(kafka, folder / "broker", served, **SETTINGS) as broker:
        assert kafka.ask("produce", broker.address, "txn", 4).status == 0
        assert kafka.ask("create", broker.address, "growing:partitions=2").status == 0
        words = ("kafka_source.py", fat, bare_python, folder / "app", broker.address, str(broker.data), f"{folder}/out")
        yield Run(Application(*words, jars=jars, master=ONE_EXECUTOR).result(), broker.data)


def test_both_sources_have_one_schema(ran):
    for one, other in ran.results["schemas"].values():
        assert one == other


@pytest.mark.parametrize("isolation", ISOLATION)
def test_the_brokers_folders_and_its_topics_hold_the_same(ran, isolation):
    counts = {}
    for topic in TOPICS:
        with kafkarec.open(ran.data / f"{topic}-0") as log:
            counts[topic] = len(log.read(isolation=isolation))
    assert ran.results[f"counts {isolation}"] == counts
    assert ran.results[f"same {isolation}"] == [sum(counts.values()), 0, 0]
    sizes = [ran.results[f"counts {isolation}"]["txn"] for isolation in ISOLATION]
    assert sizes[0] < sizes[1]


def test_where_a_record_has_no_timestamp_the_sources_differ(ran):
    """1969-12-31 23:59:59.999 in Spark's Kafka source, null here, as docs/howto/spark-and-kafka.md says."""
    assert ran.results["untimed read_uncommitted"] == [13, 13]


@pytest.mark.parametrize("topic, isolation", [("growing", "read_uncommitted"), ("txn", "read_committed")])
def test_streams_of_a_running_brokers_folders_equal_the_kafka_source(ran, topic, isolation):
    """`growing` is written while the stream runs, and between its stop and its restart, by Spark's sink: a task that it
    runs again writes its records again."""
    expected = []
    for folder in sorted(ran.data.glob(f"{topic}-*")):
        with kafkarec.open(folder) as log:
            columns = log.read(isolation=isolation)
            expected += [[int(folder.name.rpartition("-")[2]), *record_row(record)[:6]] for record in columns]
    assert ran.results[f"rows of {topic}"] == expected
    assert ran.results[f"following {topic}"] == [len(expected), 0, 0]  # rows, only in ours, only in Spark's
    if topic == "growing":
        assert {base64.b64decode(row[4]) for row in expected} == {
            b"%d" % each for each in range(1200)
        }  # what was produced
    else:
        assert len(expected) == 194
