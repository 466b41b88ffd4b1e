"""The stand-in `kafka` of the documentation's pages: a real broker on loopback, and the jars of Spark's connector.

Pages contain localhost:9092, which is replaced by the broker's port in what is run. The broker serves the partitions
below as topics, some groups have committed offsets, and the first records of topic `txn` are deleted, as by retention.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ADDRESS = "localhost:9092"
TOPICS = ("txn", "all-codecs")
GROUPS = (
    ("commit", "billing", "txn:0=100", "all-codecs:0=865"),
    ("commit", "billing", "txn:0=260"),
    ("commit", "audit", "txn:0=170", "all-codecs:0=400"),
    ("forget", "audit", "all-codecs:0=400"),
    ("transact", "loader", "commit", "all-codecs:0=845"),
    ("transact", "loader", "abort", "all-codecs:0=865"),
    ("commit", "retired", "txn:0=20"),
    ("disband", "retired"),
    ("cut", "txn:0=150"),
)


def missing() -> str | None:
    """Why no broker can be started here; None: one can."""
    _find_tests()
    from jvm_oracle import missing as without
    from kafka_session import CONNECTOR

    if not (os.environ.get("CI") or os.environ.get("KAFKAREC_LONG") == "1"):
        return "a broker and another Spark session, left out of `make test`; CI=1 or KAFKAREC_LONG=1"
    if not (CONNECTOR / "complete").exists():
        return f"no Kafka source and sink of Spark in {CONNECTOR.name}; run tools/kafka_jars"
    return without()


def _find_tests() -> None:
    """Adds the folders of the tests to sys.path: broker and jars are theirs."""
    for folder in (ROOT / "tests" / "support" / "spark", ROOT / "tests" / "support"):
        if str(folder) not in sys.path:
            sys.path.append(str(folder))


@contextlib.contextmanager
def broker(page: Path) -> Iterator[str]:
    """Yields its address. page: the folder in which the page runs; the connector's jars are copied to `jars` in it."""
    _find_tests()
    from broker import Broker
    from jvm_oracle import Oracle
    from kafka_session import CONNECTOR, SETTINGS, Groups

    (page / "jars").symlink_to(CONNECTOR)
    with tempfile.TemporaryDirectory(prefix="broker-") as name, contextlib.ExitStack() as stack:
        folder = Path(name)
        (folder / "classes").mkdir()
        kafka = Oracle(folder / "classes")
        stack.callback(kafka.close)
        served = {}
        for topic in TOPICS:
            served[topic] = folder / "served" / topic
            segments = ROOT / "tests" / "vectors" / "segments" / f"{topic}-0"
            shutil.copytree(segments, served[topic], ignore=shutil.ignore_patterns("*.json", "*.txt"))
        started = Broker(folder / "broker", **(SETTINGS | {"num_partitions": "1"}))
        stack.callback(started.stop)
        started.serve(kafka, served)
        ask = Groups(kafka, started)
        for words in GROUPS:
            ask(*words)
        yield started.address


def jars() -> list[Path]:
    """The jars of Spark's Kafka source and sink."""
    _find_tests()
    from kafka_session import CONNECTOR

    return sorted(CONNECTOR.glob("*.jar"))
