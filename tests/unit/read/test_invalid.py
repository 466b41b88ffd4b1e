"""All invalid or odd buffers: refused if and only if Kafka refuses, the others read as by Kafka."""

import differences
import golden
import pytest
import reading
from core_reading import assert_reads_as
from refusals import refused

import kafkarec
from kafkarec import errors

pytestmark = pytest.mark.core

CASES = golden.invalid()


def kafka_accepts(case):
    return case.json["exception"] is None or case.json["raised_by"] == "controlRecord"


ACCEPTED = [case for case in CASES if kafka_accepts(case)]
REFUSED = [case for case in CASES if not kafka_accepts(case)]
UNREADABLE_CONTROL = [case for case in CASES if case.json["raised_by"] == "controlRecord"]


@pytest.mark.parametrize("case", ACCEPTED, ids=str)
def test_accepts_what_kafka_accepts(case):
    if case.json["exception"] is None:
        assert_reads_as(case.bytes, case.json["read"])
    else:
        assert len(kafkarec.decode(case.bytes, control=True)) == 1


@pytest.mark.parametrize("case", REFUSED, ids=str)
def test_refuses_what_kafka_refuses(case):
    """Framing and checksum errors are CorruptRecordError; raw JVM exceptions become KafkaRecordErrors."""
    error = refused(kafkarec.decode, case.bytes)
    assert 0 <= error.position < len(case.bytes)
    assert error.next_position is None or error.position < error.next_position <= len(case.bytes)
    if case.json["raised_by"] in ("batches", "ensureValid"):
        assert isinstance(error, kafkarec.CorruptRecordError)
    if case.json["exception"] == "OutOfMemoryError":
        assert isinstance(error, kafkarec.LimitExceededError | kafkarec.CorruptRecordError)
    if "Unknown compression type" in (case.json["message"] or ""):
        assert isinstance(error, kafkarec.UnsupportedCompressionError)
    if "Invalid magic" in (case.json["message"] or ""):
        assert isinstance(error, kafkarec.UnsupportedMagicError)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_skip_never_raises_and_accounts_for_every_byte(case):
    skipped = kafkarec.decode(case.bytes, columns=reading.RECORD_FIELDS, errors="skip")
    reading.assert_tiles(case.bytes, skipped)
    if kafka_accepts(case):
        assert skipped.damage == ()
    else:
        assert skipped.damage != () or skipped.restored != () or skipped.remaining == len(case.bytes)
    for damage in skipped.damage:
        assert damage.reason in errors.REASONS
        assert damage.next_position is None or damage.next_position == damage.position + damage.length


@pytest.mark.parametrize("case", UNREADABLE_CONTROL, ids=str)
def test_unreadable_control_records_raise_on_access(case):
    [record] = kafkarec.decode(case.bytes, control=True)
    if case.name in differences.CONTROL:
        assert record.control.version == 1
        return
    assert refused(lambda: record.control).reason == "control_record_invalid"


def test_listed_differences_are_cases():
    names = {case.name for case in CASES}
    for table in (differences.CONTROL, differences.KINDS):
        assert set(table) <= names
        assert all(len(reason) > 20 for reason in table.values())
