"""Error messages: place, expected and found, never a byte of a key, a value or a header."""

import builders
import pytest
from plain_logs import batch
from refusals import refused

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
def test_each_wrong_field_has_its_own_reason_and_no_payload_in_the_message(reason, codec, tmp_path):
    """The error of a batch alone can be relocated to the file."""
    good, path = batch(40, 2), tmp_path / f"{40:020}.log"
    bad = builders.batch([builders.record(key=SECRET), SPOILED[reason]], codec=codec, base_offset=42)
    path.write_bytes(good + bad + good)
    in_buffer, alone = (refused(kafkarec.decode, data) for data in (good + bad + good, bad))
    in_file = refused(kafkarec.open(path).read)
    assert isinstance(in_buffer, kafkarec.InvalidRecordError)
    assert (in_buffer.position, in_buffer.base_offset) == (len(good), 42)
    assert in_buffer.next_position == len(good) + len(bad)
    if reason != "record_structure_invalid":
        assert in_buffer.reason == reason
    assert str(len(good)) in str(in_buffer) and "42" in str(in_buffer)
    text = f"{in_buffer} {in_buffer!r} {in_buffer.__cause__}"
    assert SECRET.decode() not in text and SECRET.hex() not in text.lower()
    moved = damage.relocated(alone, position=len(good), file=str(path))
    assert (str(moved), vars(moved)) == (str(in_file), vars(in_file))
    assert f"{path} at byte {len(good)} (base offset 42), record 1 of its batch" in str(moved) and moved.record == 1
