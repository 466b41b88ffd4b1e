"""Error messages: place, expected and found, never a byte of a key, a value or a header."""

import builders
import pytest
from plain_logs import batch

import kafkarec
from kafkarec import damage

SECRET = b"s3cr3t"
SPOILED = {
    "record_length_invalid": builders.record(key=SECRET, value=SECRET, headers=[(SECRET, SECRET)], length=200),
    "key_length_invalid": builders.record(key=SECRET, key_length=90),
    "value_length_invalid": builders.record(value=SECRET, value_length=90),
    "header_count_invalid": builders.record(headers=[(SECRET, SECRET)], header_count=90),
    "header_key_invalid": builders.record(headers=[(SECRET, SECRET)], header_key_length=90),
    "header_value_invalid": builders.record(headers=[(SECRET, SECRET)], header_value_length=90),
    "record_structure_invalid": builders.record(key=SECRET, value=SECRET, key_length=3),
}


@pytest.mark.parametrize("codec", builders.CODECS)
@pytest.mark.parametrize("reason", SPOILED)
def test_each_wrong_field_has_its_own_reason_and_no_payload_in_the_message(reason, codec):
    good = batch(40, 2)
    parts = [builders.record(key=SECRET), SPOILED[reason]]
    bad = builders.batch(parts, codec=codec, base_offset=42)
    with pytest.raises(kafkarec.InvalidRecordError) as caught:
        kafkarec.decode(good + bad + good)
    error = caught.value
    assert (error.position, error.base_offset) == (len(good), 42)
    assert error.next_position == len(good) + len(bad)
    if reason != "record_structure_invalid":
        assert error.reason == reason
    assert str(len(good)) in str(error)
    assert "42" in str(error)
    assert_no_payload(error)


@pytest.mark.parametrize("codec", builders.CODECS)
@pytest.mark.parametrize("reason", SPOILED)
def test_an_error_of_a_batch_alone_can_be_relocated_to_the_file(reason, codec, tmp_path):
    good = batch(40, 2)
    bad = builders.batch([builders.record(key=SECRET), SPOILED[reason]], codec=codec, base_offset=42)
    (path := tmp_path / "00000000000000000040.log").write_bytes(good + bad + good)
    with pytest.raises(kafkarec.InvalidRecordError) as alone:
        kafkarec.decode(bad)
    with kafkarec.open(path) as segment, pytest.raises(kafkarec.InvalidRecordError) as in_file:
        segment.read()
    moved = damage.relocated(alone.value, position=len(good), file=str(path))
    assert (str(moved), vars(moved)) == (str(in_file.value), vars(in_file.value))
    assert f"{path} at byte {len(good)} (base offset 42), record 1 of its batch" in str(moved) and moved.record == 1


def assert_no_payload(error):
    text = f"{error} {error!r}"
    assert SECRET.decode() not in text
    assert SECRET.hex() not in text.lower()
    assert error.__cause__ is None or SECRET.decode() not in str(error.__cause__)
