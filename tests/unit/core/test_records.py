"""Every length and count of a magic 2 record at its limits: the oracle's verdict, at any position of the record.

A record with 64 bytes after it is read by the fast path, the last records of a payload by the exact path. Each changed
record is tried alone (exact), before a long record (fast), after one (exact), and with one byte less after it than the
fast path needs. Both refuse for the same reason.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import builders
import pytest
import reading
from builders import varint
from core_reading import (
    INT_MAX,
    INT_MIN,
    LONG_MAX,
    LONG_MIN,
    checked_rows,
    decode_error,
    error_as_oracle,
    error_fields,
    varint_encodings,
)
from core_records import FIELDS, GOOD, LENGTHS, REFUSED, body, near

import kafkarec

pytestmark = pytest.mark.core

LONG = builders.record(offset_delta=7, timestamp_delta=9, key=b"K" * 40, value=b"V" * 90)


def placed(record: bytes) -> Iterator[bytes]:
    """Yield the record alone, first, last, and with just enough and one too few bytes after it for the fast path."""
    yield builders.batch([record])
    yield builders.batch([record, LONG])
    yield builders.batch([LONG, record])
    for following in (30, 31, 64):
        filler = builders.record(key=None, value=b"x" * (following - 7))
        assert len(filler) == following
        yield builders.batch([record, filler])


def judged(record: bytes) -> tuple[Any, ...]:
    """Assert the oracle's verdict at every position; return the error, which is equal at all."""
    refusals = [error_fields(error_as_oracle(data)) for data in placed(record)]
    first = refusals[0]
    for number, other in enumerate(refusals):
        assert other == first, f"{record.hex()}: alone {first}, in place {number} {other}"
    return first


@pytest.mark.parametrize("field", LENGTHS)
def test_a_length_or_count_in_a_record_at_its_limits(field: str) -> None:
    for value in near(LENGTHS[field]) | {len(body()) - n for n in range(16)}:
        spoiled = body(**{field: varint(value)})
        judged(builders.sized(spoiled))


@pytest.mark.parametrize("field", LENGTHS)
def test_every_encoding_of_a_length_or_count(field: str) -> None:
    for spelling in varint_encodings(LENGTHS[field], 5):
        judged_error = judged(builders.sized(body(**{field: spelling})))
        if len(spelling) == 6 or spelling[4:5] >= b"\x80":
            assert judged_error[1] == "varint_too_long", spelling.hex()


@pytest.mark.parametrize(("field", "most"), [("timestamp_delta", 10), ("offset_delta", 5)])
def test_every_encoding_of_a_delta(field: str, most: int) -> None:
    values = {0, -1, 63, 64, -64, -65, 8192, 2**20, 2**27 - 1, 2**27, INT_MAX, INT_MIN}
    if most == 10:
        values = {0, -1, 64, 2**34, 2**55, 2**62 - 1, 2**62, LONG_MAX, LONG_MIN}
    for value in values:
        for spelling in varint_encodings(value, most):
            judged_error = judged(builders.sized(body(**{field: spelling})))
            too_long = len(spelling) > most or spelling[-1] >= 0x80
            assert (judged_error[1:2] == ("varint_too_long",)) == too_long, spelling.hex()


def test_a_records_length_at_its_limits() -> None:
    for fields in (body(), body(header_count=b"\x00", **dict.fromkeys(FIELDS[8:], b"")), b"\0\0\0\1\1\0"):
        for length in near(len(fields)) | set(range(-3, len(fields) + 3)):
            for data in placed(builders.sized(fields, length)):
                error_as_oracle(data)
        for spelling in varint_encodings(len(fields), 5):
            for data in placed(spelling + fields):
                error_as_oracle(data)


def test_a_records_attributes_are_ignored() -> None:
    for attributes in (1, 0x7F, 0x80, 0xFF):
        assert judged(builders.sized(body(attributes=bytes([attributes])))) == ()


def cut(field: str, following: bytes = b"") -> bytes:
    """Return a record that ends right before a field, or with these bytes of it."""
    parts = [GOOD[name] for name in FIELDS[: FIELDS.index(field)]]
    return builders.sized(b"".join(parts) + following)


@pytest.mark.parametrize("field", FIELDS)
def test_a_record_that_ends_before_a_field(field: str) -> None:
    """Bytes after the record's end are not part of it, even if they complete the field."""
    assert judged(cut(field)) != ()


@pytest.mark.parametrize("field", [name for name in FIELDS if name.endswith(("delta", "length", "count"))])
def test_a_record_that_ends_in_a_varint(field: str) -> None:
    """The varint needs one more byte. A header takes at least two bytes, or the header count is refused."""
    for following in (b"", b"\x80", b"\x80\x80"):
        judged_error = judged(cut(field, following))
        if field == "header_key_length" and len(following) < 2:
            assert judged_error[1:] == ("header_count_invalid", 0, 0, 0, 1)
        else:
            assert judged_error[1:] == ("message_truncated", 0, 0, 1, 0), following


@pytest.mark.parametrize("reason", REFUSED)
def test_a_bad_record_is_refused_for_the_same_reason_on_the_fast_and_the_exact_path(reason: str) -> None:
    for fields, expected, found in REFUSED[reason]:
        error_of_record = judged(builders.sized(fields))
        assert error_of_record[:4] == (kafkarec.InvalidRecordError, reason, 0, 0), fields.hex()
        if expected is not None:
            assert error_of_record[4] == expected, fields.hex()
        if found is not None:
            assert error_of_record[5] == found, fields.hex()


def test_a_record_length_beyond_its_payload() -> None:
    for length, following in ((7, b""), (-1, b""), (INT_MAX, b""), (107, b"x" * 100), (-1, b"x" * 100)):
        error = error_as_oracle(builders.batch([builders.sized(b"\0\0\0\1\1\0" + following, length)]))
        assert error_fields(error)[1:] == ("record_length_invalid", 0, 0, 6 + len(following), length)
    for spelling in (b"\x80" * 5 + b"\0", b"\xff" * 5):
        for following in (b"", b"x" * 100):
            assert (
                error_fields(error_as_oracle(builders.batch([spelling + b"\0\0\0\1\1\0" + following])))[1]
                == "varint_too_long"
            )


def test_the_record_count_at_its_limits() -> None:
    """Each record takes at least seven bytes; a batch with a larger record count is too short."""
    least = builders.record(key=None, value=None)
    assert len(least) == 7
    for records in ([], [least], [least] * 2, [least] * 20, [LONG], [least, LONG], [LONG, least]):
        size = sum(map(len, records))
        exact = len(records)
        for count in near(exact) | {size // 7 - 1, size // 7, size // 7 + 1, size // 7 + 2, -INT_MAX}:
            judged_error = error_fields(error_as_oracle(builders.batch(records, count=count)))
            if count < 0:
                assert judged_error[1:] == ("record_count_negative", 0, 0, 0, count)
            elif count > exact:
                assert judged_error[1:] == ("records_missing", 0, 0, count, exact)
            elif 0 < count < exact:
                assert judged_error[1:] == ("records_left_over", 0, 0, count, sum(map(len, records[count:])))
            else:
                assert judged_error == ()


def test_every_record_of_the_smallest_has_its_timestamp_type() -> None:
    """Memory is reserved for a record per seven bytes: as many records as the bytes allow get their type."""
    for count in (1, 2, 3, 8, 9, 63, 64, 65, 200):
        data = builders.batch([builders.record(key=None, value=None)] * count, attributes=8, max_timestamp=5)
        assert error_as_oracle(data) is None
        assert [row["timestamp_type"] for row in checked_rows(kafkarec.decode(data))] == [1] * count


def test_the_refused_record_is_named() -> None:
    bad = builders.record(key_length=99)
    for before in range(4):
        for following in range(3):
            error = decode_error(builders.batch([LONG] * before + [bad] + [LONG] * following))
            assert error is not None and f"record {before} of its batch" in str(error)


@pytest.mark.parametrize("size", [0, 1, 31, 32, 33, 64, 512, 513, 544, 8192])
def test_keys_and_values_of_every_size_are_copied_completely(size: int) -> None:
    text = (b"0123456789abcdefghijklmnopqrstuvwxyz" * 300)[:size]
    for key, value in ((text, b"v"), (b"k", text), (text, text), (None, text), (text, None)):
        for header in (text, None):
            record = builders.record(key=key, value=value, headers=[(text, header), (b"h", b"")])
            for data in (builders.batch([record]), builders.batch([record, LONG]), builders.batch([record] * 3)):
                assert error_as_oracle(data) is None


def test_header_counts_at_varint_borders() -> None:
    for count in (1, 2, 63, 64, 65, 8192):
        record = builders.record(headers=[(b"", None)] * count)
        for records in ([record], [record, LONG]):
            assert error_as_oracle(builders.batch(records)) is None


def test_a_header_takes_two_bytes_at_least() -> None:
    """A count above half of the record's remaining bytes is refused before memory is reserved for it."""
    for left in range(12):
        for count in range(left // 2 + 1, left + 2):
            said = judged(builders.sized(b"\0\0\0\1\1" + varint(count) + b"\0\1" * (left // 2) + b"\0" * (left % 2)))
            assert said[1:] == ("header_count_invalid", 0, 0, left // 2, count)


def test_header_keys_that_are_not_utf8_take_more_memory() -> None:
    """Each invalid byte becomes three; the memory for the following keys is reserved again."""
    for size in (1, 21, 22, 63, 64, 65, 1000, 5000):
        for following in (b"", b"h" * size):
            record = builders.record(
                key=None, value=None, headers=[(b"\xff" * size, b"v" * size), (following, None)] * 3
            )
            for records in ([record], [record, LONG]):
                assert error_as_oracle(builders.batch(records)) is None


def test_a_projection_passes_through_the_same_checks() -> None:
    good = builders.batch([builders.sized(body()), LONG, builders.record(key=None, value=None)])
    wanted = reading.by_columns(good)
    for names in (["offset"], ["timestamp"], ["timestamp_type"], ["key"], ["value"], ["headers"], ["value", "offset"]):
        assert checked_rows(kafkarec.decode(good, columns=names)) == [{n: row[n] for n in names} for row in wanted]
        for records in REFUSED.values():
            for fields, *_ in records:
                for data in (builders.batch([builders.sized(fields)]), builders.batch([builders.sized(fields), LONG])):
                    assert error_fields(decode_error(data, columns=names)) == error_fields(decode_error(data))


def test_a_bad_record_is_counted_within_its_batch() -> None:
    """After other batches of the same chunk too."""

    def payload(third: bytes) -> bytes:
        return builders.batch(payload=LONG * 2 + third, base_offset=5, count=3)

    bad = builders.sized(body(key_length=varint(INT_MAX)))
    for batch, reason, expected, found in (
        (builders.batch([LONG, LONG, bad], base_offset=5), "key_length_invalid", 17, INT_MAX),
        (builders.batch([LONG, LONG, bad, LONG], base_offset=5), "key_length_invalid", 17, INT_MAX),
        (builders.batch([LONG, LONG], base_offset=5, count=4), "records_missing", 4, 2),
        (payload(varint(9) + bytes(8)), "record_length_invalid", 8, 9),
        (payload(b"\xff" * 6), "varint_too_long", None, None),
    ):
        for before in (b"", builders.good_batch(5)):
            error = decode_error(before + batch)
            assert error_fields(error)[1:] == (reason, len(before), 5, expected, found)
            assert "record 2 of its batch" in str(error)
    for before in (b"", builders.good_batch(5)):
        left = decode_error(before + builders.batch([LONG, LONG], base_offset=5, count=1))
        assert error_fields(left)[1:] == ("records_left_over", len(before), 5, 1, len(LONG))
        assert "record" not in str(left).partition(" at byte ")[2]
