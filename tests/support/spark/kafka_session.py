"""Spark's own Kafka source and sink with a real broker: the jars, and consumer groups on the broker.

KAFKAREC_SPARK_KAFKA_JARS   folder of the connector's jars; default: next to Kafka's, where tools/kafka_jars puts them
"""

from __future__ import annotations

import os
import socket
import struct
import subprocess
from pathlib import Path

import jvm_oracle
import pytest
from broker import Broker
from jvm_oracle import Oracle
from paths import ROOT

CONNECTOR = Path(os.environ.get("KAFKAREC_SPARK_KAFKA_JARS") or Path(jvm_oracle.JARS).parent / "spark-kafka-4.2.0")
INTERCEPTOR = ROOT / "examples" / "RecordTimestamps.java"
# Few partitions of internal topics; expired offset commits are looked for twice a second.
SETTINGS = {
    "num_partitions": "2",
    "offsets_topic_num_partitions": "4",
    "transaction_state_log_num_partitions": "1",
    "offsets_retention_check_interval_ms": "500",
    "group_initial_rebalance_delay_ms": "0",
}
_OFFSET_COMMIT = 8


def connector() -> list[Path]:
    """Return the jars; skip the calling test, with the reason, if they are missing."""
    found = sorted(CONNECTOR.glob("*.jar"))
    if not (CONNECTOR / "complete").exists():
        pytest.skip(f"no Kafka source and sink of Spark in {CONNECTOR.name}; run tools/kafka_jars")
    return found


def interceptor(folder: Path) -> Path:
    """Build examples/RecordTimestamps.java as a jar, as its docs page says."""
    (clients,) = CONNECTOR.glob("kafka-clients-*.jar")
    java, jar = str(jvm_oracle.tool("javac")), str(jvm_oracle.tool("jar"))
    classes = folder / "classes"
    subprocess.run([java, "-cp", clients, "-d", classes, INTERCEPTOR], check=True, timeout=120)
    made = folder / "record-timestamps.jar"
    subprocess.run([jar, "--create", "--file", made, "-C", classes, "."], check=True, timeout=120)
    return made


class Groups:
    """Runs the verbs of tests/support/jvm/Groups.java against one broker."""

    def __init__(self, kafka: Oracle, broker: Broker) -> None:
        self._kafka, self._address = kafka, broker.address

    def __call__(self, *words: object) -> str:
        answer = self._kafka.ask("group", self._address, *words)
        assert answer.status == 0, answer.err
        return answer.out

    def lag(self) -> dict[tuple[str, str, int], tuple[int, int, int]]:
        """Return {(group, topic, partition): (committed, end, lag)}, as kafka-consumer-groups reports it."""
        found = {}
        for line in self("describe").splitlines():
            words = line.split()
            if len(words) > 5 and words[2].isdigit() and words[3] != "-":
                committed, end, lag = map(int, words[3:6])
                found[words[0], words[1], int(words[2])] = committed, end, lag
        return found

    def commit_for(self, milliseconds: int, group: str, topic: str, offset: int) -> None:
        """Send an OffsetCommit of version 2, as old clients do: the last version with a retention time."""
        body = struct.pack(">hhi", _OFFSET_COMMIT, 2, 1) + _text("old client") + _text(group)
        body += struct.pack(">i", -1) + _text("") + struct.pack(">qi", milliseconds, 1)
        body += _text(topic) + struct.pack(">iiqh", 1, 0, offset, -1)
        host, _, port = self._address.partition(":")
        with socket.create_connection((host, int(port)), 40) as connection, connection.makefile("rb") as answers:
            connection.sendall(struct.pack(">i", len(body)) + body)
            answer = answers.read(struct.unpack(">i", answers.read(4))[0])
        assert answer[-2:] == bytes(2), answer  # the error code of the one partition


def _text(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()
