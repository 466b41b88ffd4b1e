"""The decoders against Kafka's own classes, on new random records of every type and version."""

from __future__ import annotations

import jvm_oracle
import message_corpus


def test_new_records_are_printed_and_written_as_kafka_does() -> None:
    jvm_oracle.needed()
    found = message_corpus.answered(seed=2026, count=jvm_oracle.count(4))
    assert [case for case in found if "unlike" in case] == []
    assert {case["what"] for case in found if message_corpus.is_whole(case)} >= {"OffsetCommit 4", "PartitionRecord 2"}
