"""The decoders of internal topics compared with Kafka's own classes on random records of every type and version."""

import jvm_oracle
import message_corpus


def test_random_records_are_formatted_and_encoded_as_by_kafka():
    jvm_oracle.needed()
    answered = message_corpus.answered(seed=2026, count=jvm_oracle.count(4))
    assert [case for case in answered if "unlike" in case] == []
    assert {case["what"] for case in answered if message_corpus.is_whole(case)} >= {
        "OffsetCommit 4",
        "PartitionRecord 2",
    }
