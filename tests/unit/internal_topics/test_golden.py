"""The texts of kafka-dump-log's decoders, as Kafka's own classes print them; those of a real broker's segments are in
tests/unit/dump."""

import json

import pytest
from paths import VECTORS

from kafkarec.internal_topics.dump_text import DECODERS, MissingKey, json_text
from kafkarec.internal_topics.topics import TOPICS
from kafkarec.storage.names import ALWAYS_COMPACTED

CORPUS = [json.loads(line) for line in (VECTORS / "messages" / "corpus.jsonl").read_text(encoding="utf-8").splitlines()]


def blob(case, name):
    return None if case[name] is None else bytes.fromhex(case[name])


@pytest.mark.parametrize("case", CORPUS, ids=lambda case: f"{case['offset']} {case['what']}")
def test_what_kafka_s_own_classes_print(case):
    decode = DECODERS[case["flag"]]
    if "dies" in case:
        with pytest.raises(MissingKey) as caught:
            decode(blob(case, "key"), blob(case, "value"), case["offset"])
        assert str(caught.value) == case["dies"]
        return
    texts = decode(blob(case, "key"), blob(case, "value"), case["offset"])
    assert texts == (case["key_text"], case["payload_text"])


def test_the_table_has_the_types_that_kafka_4_4_has():
    """The ids of Kafka's enums CoordinatorRecordType and MetadataRecordType."""
    assert {name: sorted(topic.types) for name, topic in TOPICS.items()} == {
        "__consumer_offsets": [*range(9), *range(10, 18), *range(19, 24)],
        "__transaction_state": [0],
        "__share_group_state": [0, 1],
        "__cluster_metadata": [0, 1, 2, 3, 4, 5, 7, 8, 9, 10, 11, 12, 14, 15, *range(17, 30)],
        "__remote_log_metadata": [0, 1, 2, 3],
    }
    assert {topic.name for topic in TOPICS.values() if topic.has_keys} == {*ALWAYS_COMPACTED}


# As Double.toString prints them from JDK 19 on, but of 5e-324, which it prints with two digits.
DOUBLES = """
0.0                     0.0
-0.0                    -0.0
1.0                     1.0
1e7                     1.0E7
12345678.9              1.23456789E7
0.001                   0.001
0.00099                 9.9E-4
-2.5e-10                -2.5E-10
1.7976931348623157e308  1.7976931348623157E308
5e-324                  5.0E-324
9007199254740993.0      9.007199254740992E15
1152921504606846976.0   1.152921504606847E18
1e23                    1.0E23
inf                     "Infinity"
-inf                    "-Infinity"
nan                     "NaN"
"""


@pytest.mark.parametrize("row", DOUBLES.strip().splitlines())
def test_doubles_are_printed_as_java_does(row):
    value, text = row.split()
    assert json_text(float(value)) == text
