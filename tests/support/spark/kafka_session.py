"""Spark's own Kafka source and sink with a real broker: the jars, and what the broker is asked to do.

KAFKAREC_SPARK_KAFKA_JARS   folder of the connector's jars; default: next to Kafka's, where tools/kafka_jars puts them
"""

from __future__ import annotations

import os
from pathlib import Path

import jvm_oracle
import pytest
from broker import Broker
from jvm_oracle import Oracle

CONNECTOR = Path(os.environ.get("KAFKAREC_SPARK_KAFKA_JARS") or Path(jvm_oracle.JARS).parent / "spark-kafka-4.2.0")
# Few partitions of internal topics; expired offset commits are looked for twice a second.
SETTINGS = {
    "num_partitions": "2",
    "offsets_topic_num_partitions": "4",
    "transaction_state_log_num_partitions": "1",
    "offsets_retention_check_interval_ms": "500",
    "group_initial_rebalance_delay_ms": "0",
}


def connector() -> list[Path]:
    """Return the jars; skip the calling test, with the reason, if they are missing."""
    found = sorted(CONNECTOR.glob("*.jar"))
    if not (CONNECTOR / "complete").exists():
        pytest.skip(f"no Kafka source and sink of Spark in {CONNECTOR.name}; run tools/kafka_jars")
    return found


class Groups:
    """Runs the verbs of tests/support/jvm/Groups.java against one broker."""

    def __init__(self, kafka: Oracle, broker: Broker):
        self._kafka, self._address = kafka, broker.address

    def __call__(self, *words) -> str:
        answer = self._kafka.ask("group", self._address, *words)
        assert answer.status == 0, answer.err
        return answer.out
