"""Records of internal topics in Spark: the functions on Arrow arrays, then SQL and DataFrames in local mode."""

import json

import pyarrow as pa
import pytest
from paths import SEGMENTS

import kafkarec
from kafkarec import internal_topics
from spark_udfs import internal, schema

OFFSETS = kafkarec.decode((SEGMENTS / "__consumer_offsets-0/00000000000000000000.log").read_bytes())


def topic_rows(rows):
    topics, keys, values = zip(*rows, strict=True)
    arrays = (pa.array(topics, pa.string()), pa.array(keys, pa.binary()), pa.array(values, pa.binary()))
    (result,) = internal.kafka_internal(iter([arrays]))
    assert result.type == schema.arrow_struct(internal.COLUMNS)
    return list(result.to_pylist())


def test_a_row_equals_that_of_internal_topics_read():
    rows = [("__consumer_offsets", record.key, record.value) for record in OFFSETS]
    for (topic, key, value), row in zip(rows, topic_rows(rows), strict=True):
        record = internal_topics.read(topic, key, value)
        tree = record.as_json()
        assert json.loads(row["key"]) == tree["key"]["data"]
        assert (None if row["value"] is None else json.loads(row["value"])) == (tree["value"] and tree["value"]["data"])
        assert (row["type"], row["version"], row["is_tombstone"]) == (record.type, record.version, record.is_tombstone)
        assert row["problem"] is None


def test_other_topics_and_bad_bytes_never_fail():
    nothing, bad, unknown = topic_rows(
        [("orders", b"k", b"v"), ("__consumer_offsets", b"\0\1\xff", b""), ("__cluster_metadata", None, b"\1\x63\0")]
    )
    assert nothing is None
    assert (bad["type"], bad["value"], bad["is_tombstone"]) == (None, None, False)
    assert bad["problem"].startswith("the message ends inside of")
    assert unknown["problem"] == "record type 99 of __cluster_metadata is not known to Kafka 4.4"


@pytest.mark.parametrize(
    "given, message",
    [
        ((), r"the call is kafka_internal\(topic, key, value\), and 0 arguments were given"),
        (pa.array(["t"]), "and 1 argument was given"),
        ((pa.array([1]), pa.array([b""]), pa.array([b""])), "kafka_internal takes a string topic, not bigint"),
        ((pa.array(["t"]), pa.array([1]), pa.array([b""])), "kafka_internal takes a binary key, not bigint"),
        ((pa.array(["t"]), pa.array([b""]), pa.array(["a"])), "kafka_internal takes a binary value, not string"),
    ],
)
def test_wrong_arguments_are_refused(given, message):
    with pytest.raises(TypeError, match=message):
        list(internal.kafka_internal(iter([given])))
