"""The reader of Kafka's message protocol on untrusted bytes: errors, and their cost in memory and time."""

import pickle
import time

import message_samples as samples
import pytest
import subprocesses
from hypothesis import given, settings
from hypothesis import strategies as st
from long_run import examples
from measured_calls import peak_of
from message_samples import write_key, write_value

import kafkarec
from kafkarec import internal_topics
from kafkarec.errors import REASONS
from kafkarec.format.java_integers import unsigned_varint
from kafkarec.format.message_schemas import parse
from kafkarec.format.messages import MAX_OBJECTS, Cursor, MessageError, read_message
from kafkarec.internal_topics.dump_text import DECODERS
from kafkarec.internal_topics.topics import TOPICS

KINDS = list(samples.kinds())


def same(read, wrote):
    """Return whether values are equal; NaN equals NaN, lists of tags equal lists of pairs."""
    return repr(read) == repr({name: wrote[name] for name in read}) and set(read) == set(wrote)


@pytest.mark.parametrize("topic, kind, version", KINDS, ids=lambda it: str(getattr(it, "name", it)))
def test_what_is_written_is_read(topic, kind, version):
    maker = samples.Maker(version)
    for _ in range(20):
        sample = maker.record(topic, kind, version)
        decoded = internal_topics.read(topic.name, sample.key, sample.value, errors="raise")
        assert (decoded.type, decoded.version, decoded.key) == (kind.name, version, sample.key_fields)
        assert decoded.value is not None and same(decoded.value, sample.value_fields)


@settings(max_examples=examples(300))
@given(seed=st.integers(0, 2**32), at=st.integers(0, len(KINDS) - 1))
def test_spoiled_bytes_are_read_or_refused(seed, at):
    """Only KafkaRecordErrors are raised; undecoded bytes have a reason; everything can be printed in Kafka's text."""
    maker = samples.Maker(seed)
    sample = maker.record(*KINDS[at])
    topic = sample.topic.name
    key = maker.spoil(sample.key) if sample.key is not None and seed % 3 == 0 else sample.key
    value = maker.spoil(sample.value)
    kept = internal_topics.read(topic, key, value)
    assert kept.raw_value == value and (kept.value is None) == (kept.problem is not None)
    DECODERS[samples.FLAGS[topic]](key, value, 7)
    kept.as_json()
    try:
        strict = internal_topics.read(topic, key, value, errors="raise")
    except kafkarec.KafkaRecordError as error:
        assert str(error) == kept.problem and error.reason in REASONS
    else:
        assert repr(strict) == repr(kept)


@pytest.mark.parametrize("topic, kind, version", KINDS, ids=lambda it: str(getattr(it, "name", it)))
def test_a_record_cut_anywhere_is_refused_with_expected_and_found(topic, kind, version):
    """No prefix of a record is a valid record."""
    sample = samples.Maker(version + 1).record(topic, kind, version)
    for cut in range(len(sample.value)):
        with pytest.raises(kafkarec.InvalidRecordError) as caught:
            internal_topics.read(topic.name, sample.key, sample.value[:cut], errors="raise")
        assert caught.value.reason in ("message_invalid", "message_unknown")
        for text in (sample.value[-cut:], sample.value[:cut]):
            assert len(text) < 4 or text.decode("latin-1") not in str(caught.value)


def test_what_kafka_does_not_know_stays_bytes():
    kept = internal_topics.read("__consumer_offsets", b"\0\x09\0\1a", b"\0\0")
    assert (kept.type, kept.key, kept.value, kept.raw_key) == (None, None, None, b"\0\x09\0\1a")
    assert kept.problem == "record type 9 of __consumer_offsets is not known to Kafka 4.4"
    kind = TOPICS["__consumer_offsets"].type_named("OffsetCommit")
    key = write_key(kind, {"group": "g", "topic": "t", "partition": 3})
    unknown = internal_topics.read("__consumer_offsets", key, b"\0\5" + b"x" * 30)
    assert unknown.key == {"group": "g", "topic": "t", "partition": 3}
    assert (unknown.type, unknown.version, unknown.value) == ("OffsetCommit", None, None)
    assert unknown.problem == "version 5 of OffsetCommitValue is not known to Kafka 4.4"
    with pytest.raises(kafkarec.InvalidRecordError) as caught:
        internal_topics.read("__consumer_offsets", key, b"\0\5", errors="raise")
    assert caught.value.reason == "message_unknown"
    framed = internal_topics.read("__cluster_metadata", None, b"\1\x63\0")
    assert framed.problem == "record type 99 of __cluster_metadata is not known to Kafka 4.4"
    newer = internal_topics.read("__cluster_metadata", None, b"\1\x02\7\0")
    assert newer.problem == "version 7 of TopicRecord is not known to Kafka 4.4"
    large = internal_topics.read("__cluster_metadata", None, b"\1\x02\x80\x80\2")
    assert large.problem is not None and "the version is too large" in large.problem


SCHEMA = """
0 Hostile
value 0-1 flexible 1+
  texts [string]
  numbers [int8]
  structs [Small]
  blob bytes?
  Small:
    a [int8]
    b [int8]
"""
HOSTILE = parse(SCHEMA)["Hostile"].value
PEAK_OF = f"""
{subprocesses.PEAK}
from kafkarec import LimitExceededError
from kafkarec.format.message_schemas import parse
from kafkarec.format.messages import Cursor, read_message
from kafkarec.format.java_integers import unsigned_varint
hostile, data = parse({SCHEMA!r})["Hostile"].value, eval(DATA)
begin()
try:
    read_message(hostile, 1, Cursor(data))
except LimitExceededError:
    print(peak())
"""


@pytest.mark.parametrize("count", [1 << 20, (1 << 31) - 2, 1 << 31])
def test_a_claimed_count_allocates_nothing(count):
    """CVE-2022-34917: the count is first compared with the remaining bytes."""
    for data in (unsigned_varint(count) + b"\0" * 64, b"\1" * 3 + unsigned_varint(count) + b"\0" * 64):

        def refused(data=data):
            with pytest.raises(MessageError):
                read_message(HOSTILE, 1, Cursor(data))

        assert peak_of(refused)[1] < 100_000


@pytest.mark.parametrize(
    "data",
    [
        r'b"\1\1" + unsigned_varint(61) + (b"\1\1" + unsigned_varint(10_000) + b"\x63\0" * 10_000) * 60',
        r'unsigned_varint(8 << 20) + b"\1" * (8 << 20)',
        r'b"\1" + unsigned_varint(8 << 20) + b"\0" * (8 << 20)',
        r'b"\1\1" + unsigned_varint(3 << 20) + b"\1\1\0" * (3 << 20)',
    ],
    ids=["tagged fields", "empty strings", "numbers", "structs"],
)
def test_small_bytes_do_not_become_many_objects(data):
    """CVE-2026-111115: two bytes of a tagged field become an object; here their number per message is limited."""
    assert int(subprocesses.run(PEAK_OF.replace("DATA", repr(data)))) < 200 << 20
    made = eval(data)
    began = time.process_time()
    with pytest.raises(kafkarec.LimitExceededError) as caught:
        read_message(HOSTILE, 1, Cursor(made))
    assert time.process_time() - began < 10
    assert (caught.value.reason, caught.value.expected) == ("message_too_large", MAX_OBJECTS)


def test_members_of_a_group_share_one_budget():
    """Members are bytes in the record and become objects only in JSON, where they count together."""
    kind = TOPICS["__consumer_offsets"].type_named("GroupMetadata")
    blob = b"\0\1" + (0).to_bytes(4, "big") + b"\xff" * 4 + (100_000).to_bytes(4, "big") + b"\0" * 6 * 100_000
    member = {"memberId": "m", "clientId": "c", "clientHost": "h", "sessionTimeout": 1}
    member |= {"groupInstanceId": None, "rebalanceTimeout": 1, "subscription": blob, "assignment": b""}
    group = {"protocolType": "consumer", "generation": 1, "protocol": None, "leader": None, "members": [member] * 6}
    fields = group | {"currentStateTimestamp": 1}
    value = write_value(TOPICS["__consumer_offsets"], kind, 3, fields)
    record = internal_topics.read("__consumer_offsets", write_key(kind, {"group": "g"}), value, errors="raise")
    members = record.as_json()["value"]["data"]["members"]
    opened = [isinstance(each["subscription"], dict) for each in members]
    assert opened == [True, True, False, False, False, False]
    assert DECODERS["--offsets-decoder"](record.raw_key, value, 0)[1] is not None


TOO_MANY = "Tried to allocate a collection of size 2147483647, but there are only 1 bytes remaining."
TOO_MANY_TAGS = "Tried to read 10001 tagged fields, which exceeds the maximum allowed count of 10000."
TOO_LONG = "Varint is too long, the most significant bit in the 5th byte is set, converted value: 0"


@pytest.mark.parametrize(
    "data, version, kafka",
    [
        (b"\0\0\0\1\0", 0, None),
        (b"\0\0\0\1\xff\xff", 0, "non-nullable field texts element was serialized as null"),
        (b"\xff\xff\xff\xff", 0, "non-nullable field texts was serialized as null"),
        (b"\x7f\xff\xff\xff\0", 0, TOO_MANY),
        (b"\2\x09ab", 1, "Error reading byte array of 8 byte(s): only 2 byte(s) available"),
        (b"\2\x81\x80\x02", 1, "string field texts element had invalid length 32768"),
        (b"\x80\x80\x80\x80\x80", 1, TOO_LONG),
        (b"\1\1\1\1\1\x05\xff\xff\xff\xff\x0f", 1, "-1"),
        (b"\1\1\1\1\2\x63", 1, "Tried to read 2 tagged fields, but there are only 1 bytes remaining."),
        (b"\1\1\1\1\xff\xff\xff\xff\x0f", 1, "Invalid negative number of tagged fields -1"),
        (b"\1\1\1\1\x91\x4e" + b"\x63\0" * 10_001, 1, TOO_MANY_TAGS),
    ],
)
def test_refusals_carry_kafka_s_text(data, version, kafka):
    with pytest.raises(MessageError) as caught:
        read_message(HOSTILE, version, Cursor(data))
    assert caught.value.kafka == kafka
    again = pickle.loads(pickle.dumps(caught.value))
    assert (str(again), again.reason) == (str(caught.value), "message_invalid")
