"""Control records, compared with Kafka's own reading of the golden vectors; test_messages.py of internal_topics has
malicious messages, which are read alike."""

import base64
import json

import pytest
from measured_calls import peak_of
from paths import VECTORS

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


MARKER = bytes(5) + b"\7"


@pytest.mark.parametrize(
    "key, words",
    [
        (None, "key is null"),
        (b"", "too short"),
        (b"\0\0\0", "too short"),
        (b"\xff\xff\0\0", "negative version"),
    ],
)
def test_refused_keys(key, words):
    for read in (lambda: control.type_id(key), lambda: control.parse(key, MARKER)):
        with pytest.raises(InvalidRecordError, match=words):
            read()


def test_a_marker_of_newer_versions_is_read():
    newer = control.parse(b"\0\x09\0\1more", b"\0\5" + MARKER[2:] + b"and more")
    assert newer == control.EndTxnMarker(ControlRecordType.COMMIT, 1, 5, coordinator_epoch=7)


def test_unknown_tagged_fields_become_no_objects():
    """CVE-2026-111115: two bytes of a tagged field become an object in Kafka."""
    value = bytes(3) + b"\1\x90\x4e" + b"\x63\0" * 10_000
    control.parse(b"\0\0\0\5", bytes(3) + b"\1\0")  # imports the reader
    record, peak = peak_of(lambda: control.parse(b"\0\0\0\5", value))
    assert record == control.KRaftVersionRecord(ControlRecordType.KRAFT_VERSION, 5, 0, 1)
    assert peak < 100_000


def test_a_huge_message_raises_limit_exceeded_and_a_marker_has_no_limit():
    huge = bytes(5 << 20)
    with pytest.raises(LimitExceededError) as caught:
        control.parse(b"\0\0\0\6", huge)
    assert caught.value.reason == "limit_exceeded"
    assert control.parse(b"\0\0\0\1", huge) == control.EndTxnMarker(ControlRecordType.COMMIT, 1, 0, 0)


@pytest.mark.parametrize("value", [b"", b"\0"])
def test_a_value_that_ends_inside_of_its_version_is_refused(value):
    with pytest.raises(InvalidRecordError, match="the message ends inside of its version") as caught:
        control.parse(bytes(4), value)
    assert (caught.value.expected, caught.value.found) == (2, len(value))
