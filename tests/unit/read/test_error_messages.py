"""Error messages: place, expected and found, never a byte of a key, a value or a header."""

from __future__ import annotations

from pathlib import Path

import builders
import golden
import pytest

import kafkarec
from kafkarec import damage, errors

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


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("reason", SPOILED)
def test_each_wrong_field_has_its_own_reason_and_no_payload_in_the_message(reason: str, codec: str) -> None:
    good = builders.good_batch(2, base_offset=40)
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


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("reason", SPOILED)
def test_an_error_of_a_batch_alone_can_be_relocated_to_the_file(reason: str, codec: str, tmp_path: Path) -> None:
    good = builders.good_batch(2, base_offset=40)
    bad = builders.batch([builders.record(key=SECRET), SPOILED[reason]], codec=codec, base_offset=42)
    (path := tmp_path / "00000000000000000040.log").write_bytes(good + bad + good)
    with pytest.raises(kafkarec.InvalidRecordError) as alone:
        kafkarec.decode(bad)
    with kafkarec.open(path) as segment, pytest.raises(kafkarec.InvalidRecordError) as in_file:
        segment.read()
    moved = damage.relocated(alone.value, position=len(good), file=str(path))
    assert (str(moved), vars(moved)) == (str(in_file.value), vars(in_file.value))
    assert f"{path} at byte {len(good)} (base offset 42), record 1 of its batch" in str(moved) and moved.record == 1


@pytest.mark.parametrize("reason", [*SPOILED, "crc_mismatch"])
def test_damage_has_the_values_of_the_error(reason: str) -> None:
    good = builders.good_batch(2, base_offset=40)
    crc = {"crc": 5} if reason == "crc_mismatch" else {}
    bad = builders.batch([SPOILED.get(reason, builders.record())], base_offset=42, **crc)
    with pytest.raises(kafkarec.KafkaRecordError) as caught:
        kafkarec.decode(good + bad + good)
    (one,) = kafkarec.decode(good + bad + good, errors="skip").damage
    error = caught.value
    assert (one.expected, one.found, one.cause) == (error.expected, error.found, error.cause)
    assert one.expected is not None and one.found is not None and one.detail == str(error)


def assert_no_payload(error: BaseException) -> None:
    text = f"{error} {error!r}"
    assert SECRET.decode() not in text
    assert SECRET.hex() not in text.lower()
    assert error.__cause__ is None or SECRET.decode() not in str(error.__cause__)


FIELDS = {
    "record_count_negative": (builders.batch(builders.records(1), count=-1), 0, -1),
    "crc_mismatch": (builders.batch(builders.records(1), crc=5), 5, None),
    "records_missing": (builders.batch(builders.records(2), count=9), 9, 2),
    "records_left_over": (builders.batch(builders.records(3), count=2), 2, None),
    "size_too_small": (builders.good_batch(1, length=13), 14, 13),
    "unsupported_magic": (builders.good_batch(1, magic=3), 2, 3),
    "unsupported_codec": (builders.batch(codec=7, payload=b"", count=0), None, 7),
    "wrapper_value_null": (builders.message(value=None, attributes=1), None, None),
    "wrapper_empty": (builders.wrapper(b""), None, None),
    "wrapper_offset_too_small": (builders.wrapper([builders.message(offset=9)], offset=3), 9, 3),
    "inner_compressed": (builders.wrapper([builders.wrapper([builders.message()])]), None, 1),
    "inner_size_too_small": (builders.wrapper(builders.message(size=13)), 14, 13),
    "payload_corrupt": (builders.batch(codec="lz4", payload=b"not a frame", count=1), None, None),
    "message_truncated": (golden.invalid_case("v0-size-14").bytes, None, None),
    "batch_too_small": (golden.invalid_case("v2-length-14-alone").bytes, None, None),
    "varint_too_long": (builders.batch(payload=b"\x80" * 12, count=1), None, None),
}


@pytest.mark.parametrize("reason", FIELDS)
def test_reason_class_expected_and_found(reason: str) -> None:
    data, expected, found = FIELDS[reason]
    with pytest.raises(kafkarec.KafkaRecordError) as caught:
        kafkarec.decode(data)
    error = caught.value
    assert error.reason == reason
    assert type(error) is errors.REASONS[reason][0]
    assert error.position == 0
    for side, wanted in (("expected", expected), ("found", found)):
        if wanted is not None:
            assert getattr(error, side) == wanted
    skipped = kafkarec.decode(data, errors="skip", restore=False)
    assert reason in [damage.reason for damage in skipped.damage]


def test_the_hierarchy_of_exceptions() -> None:
    kinds = "CorruptRecord InvalidRecord UnsupportedMagic UnsupportedCompression LimitExceeded MissingCodec"
    for name in (f"{kind}Error" for kind in kinds.split()):
        assert issubclass(getattr(kafkarec, name), kafkarec.KafkaRecordError)
    assert issubclass(kafkarec.KafkaRecordError, ValueError)
