"""Control records, compared with Kafka's own reading of the golden vectors; and malicious messages."""

import base64
import json
import struct
import tracemalloc
import uuid

import golden
import pytest
from paths import VECTORS

import kafkarec
from kafkarec import ControlRecordType, InvalidRecordError, LimitExceededError
from kafkarec.format import control

pytestmark = [pytest.mark.core, pytest.mark.python]

GOLDEN_FILES = sorted(
    [*VECTORS.glob("vectors/*.json"), *VECTORS.glob("invalid/*.json"), *VECTORS.glob("segments/*/*.json")]
)


def control_records_of(file):
    """Return (file name, record) of each record that Kafka read as a control record."""
    document = json.loads(file.read_text())
    document = document.get("read") or document
    batches = document.get("batches", [])
    records = [record for batch in batches for record in batch.get("records") or []]
    return [record | {"file": file.name} for record in records if "control" in record]


GOLDEN_RECORDS = [record for file in GOLDEN_FILES for record in control_records_of(file)]


def bytes_of(record, field):
    return None if record[field] is None else base64.b64decode(record[field])


def key_of(type_id, version=0, more=b""):
    return struct.pack(">hh", version, type_id) + more


@pytest.mark.parametrize("record", GOLDEN_RECORDS, ids=lambda r: f"{r['file']}-{r['offset']}")
def test_reads_what_kafka_read(record):
    parsed = control.parse(bytes_of(record, "key"), bytes_of(record, "value"))
    kafka = record["control"]
    ours = control.as_json(parsed)
    message = kafka.get("message", {})
    expected = {key: kafka[key] for key in ("type", "typeId", "coordinatorEpoch") if key in kafka} | message
    assert {name: ours[name] for name in expected} == expected
    assert set(ours) - set(expected) <= {"version"}
    assert parsed.type_id == kafka["typeId"] == control.type_id(bytes_of(record, "key"))
    if "messageVersionField" in kafka:
        assert parsed.version == kafka["messageVersionField"]


def invalid_control_cases():
    """Return key, value and Kafka's verdict of each golden/invalid/control-* (one record per batch)."""
    cases = {}
    for case in golden.invalid():
        if case.name.startswith("control-"):
            (record,) = kafkarec.decode(case.bytes, control=True)
            cases[case.name] = record.key, record.value, case.json["exception"] is not None
    assert len(cases) >= 9
    return cases


@pytest.mark.parametrize("name", invalid_control_cases())
def test_refuses_what_kafka_refuses(name):
    key, value, refused = invalid_control_cases()[name]
    if name == "control-leader-change-v1":  # a listed difference: Kafka writes version 1 and cannot read it
        record = control.parse(key, value)
        assert isinstance(record, control.LeaderChangeRecord)
        assert record.version == 1
        assert all(isinstance(voter.voter_directory_id, uuid.UUID) for voter in record.voters)
        assert record.voters and record.granting_voters
    elif refused:
        with pytest.raises(InvalidRecordError) as caught:
            control.parse(key, value)
        assert caught.value.reason == "control_record_invalid"
    else:
        control.parse(key, value)


MARKER = struct.pack(">hi", 0, 7)


@pytest.mark.parametrize("kind", [ControlRecordType.ABORT, ControlRecordType.COMMIT])
def test_end_txn_marker(kind):
    record = control.parse(key_of(kind), MARKER)
    assert record == control.EndTxnMarker(kind, int(kind), 0, coordinator_epoch=7)
    newer = control.parse(key_of(kind, version=9, more=b"more"), struct.pack(">hi", 5, -1) + b"and more")
    assert newer == control.EndTxnMarker(kind, int(kind), 5, coordinator_epoch=-1)


@pytest.mark.parametrize(
    "key, words",
    [
        (None, "key is null"),
        (b"", "too short"),
        (b"\0\0\0", "too short"),
        (key_of(0, version=-1), "negative version"),
    ],
)
def test_refused_keys(key, words):
    for read in (lambda: control.type_id(key), lambda: control.parse(key, MARKER)):
        with pytest.raises(InvalidRecordError, match=words):
            read()


@pytest.mark.parametrize("value", [b"", b"\0"])
def test_a_value_that_ends_inside_of_its_version_is_refused(value):
    with pytest.raises(InvalidRecordError, match="the message ends inside of its version") as caught:
        control.parse(key_of(0), value)
    assert (caught.value.expected, caught.value.found) == (2, len(value))


def uvarint(value):
    out = b""
    while value >= 128:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def text(value):
    return uvarint(len(value) + 1) + value


def voter_set(host, tags=b"\0"):
    endpoint = text(b"CONTROLLER") + text(host) + struct.pack(">H", 65535) + tags
    voter = struct.pack(">i", 1) + bytes(range(16)) + uvarint(2) + endpoint + struct.pack(">hh", 0, 1) + b"\0" + tags
    return struct.pack(">h", 0) + uvarint(2) + voter + tags


def test_tagged_fields_of_voters_are_skipped():
    tags = uvarint(2) + uvarint(0) + uvarint(3) + b"abc" + uvarint(200) + uvarint(0)
    plain = control.parse(key_of(6), voter_set(b"host"))
    assert control.parse(key_of(6), voter_set(b"host", tags)) == plain
    assert isinstance(plain, control.KRaftVotersRecord)
    (voter,) = plain.voters
    assert voter.endpoints == (control.Endpoint("CONTROLLER", "host", 65535),)
    assert voter.voter_directory_id == uuid.UUID(bytes=bytes(range(16)))
    assert voter.kraft_version_feature == control.KRaftVersionFeature(0, 1)


@pytest.mark.parametrize(
    "host, java",
    [
        (b"\xed\xa0\x80", "�"),
        (b"a\xed\xbf\xbfb", "a�b"),
        (b"\xed\xa0", "�"),
        (b"\xff\xfe", "��"),
        (b"\xf0\x9f\x98\x80", "😀"),
    ],
)
def test_text_that_is_not_utf8_is_decoded_as_in_java(host, java):
    record = control.parse(key_of(6), voter_set(host))
    assert isinstance(record, control.KRaftVotersRecord)
    assert record.voters[0].endpoints[0].host == java


VERSION_0 = b"\0\0"
LEADER = VERSION_0 + struct.pack(">i", 1)


@pytest.mark.parametrize(
    "kind, value, words",
    [
        (2, LEADER + uvarint(0), "voters is null"),
        (2, LEADER + uvarint(2**31), "declares more"),
        (2, LEADER + uvarint(2**32 - 1), "voters is null"),
        (2, LEADER + uvarint(3) + struct.pack(">i", 1) + b"\0", "ends inside of field voterId"),
        (2, LEADER + b"\xff" * 5, "longer than 5 bytes"),
        (5, VERSION_0 + b"\0\1" + uvarint(2**31 - 1), "number of tagged fields is out of range"),
        (5, VERSION_0 + b"\0\1" + uvarint(2**31), "number of tagged fields is out of range"),
        (5, VERSION_0 + b"\0\1" + uvarint(1) + b"\x80", "ends inside of a varint"),
        (5, VERSION_0 + b"\0\1" + uvarint(1) + uvarint(0) + uvarint(1), "tagged field 0 is longer"),
        (5, VERSION_0 + b"\0\1" + uvarint(1) + uvarint(0) + uvarint(2**31), "tagged field 0 has a negative size"),
        (6, voter_set(b"x" * 0x8000), "longer than its type"),
    ],
)
def test_counts_and_lengths_are_checked_before_memory_is_allocated(kind, value, words):
    with pytest.raises(InvalidRecordError, match=words):
        control.parse(key_of(kind), value)


def test_unknown_tagged_fields_become_no_objects():
    """CVE-2026-111115: two bytes of a tagged field become an object in Kafka."""
    value = VERSION_0 + b"\0\1" + uvarint(10_000) + b"\x63\0" * 10_000
    control.parse(key_of(5), VERSION_0 + b"\0\1\0")  # imports the reader
    tracemalloc.start()
    record = control.parse(key_of(5), value)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert record == control.KRaftVersionRecord(ControlRecordType.KRAFT_VERSION, 5, 0, 1)
    assert peak < 100_000


def test_a_huge_message_raises_limit_exceeded_and_a_marker_has_no_limit():
    huge = bytes(5 << 20)
    with pytest.raises(LimitExceededError) as caught:
        control.parse(key_of(6), huge)
    assert caught.value.reason == "limit_exceeded"
    assert control.parse(key_of(1), huge) == control.EndTxnMarker(ControlRecordType.COMMIT, 1, 0, 0)
