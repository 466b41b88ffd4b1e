"""Every length and count of a magic 2 record at its limits: the oracle's verdict, at any position of the record.

A record with 64 bytes after it is read by the fast path, the last records of a payload by the exact path. Each changed
record is tried alone (exact), before a long record (fast), after one (exact), and with one byte less after it than the
fast path needs. Both refuse for the same reason.
"""

import itertools

import builders
import pytest
import reading
from core_reading import (
    INT_MAX,
    assert_viewed_as_copied,
    checked_rows,
    error_as_oracle,
    error_fields,
    varint_encodings,
)
from core_records import LENGTHS, REFUSED, body, near

import kafkarec

pytestmark = pytest.mark.core

LONG = builders.record(offset_delta=7, timestamp_delta=9, key=b"K" * 40, value=b"V" * 90)
PROJECTIONS = [*([name] for name in reading.DEFAULT_COLUMNS), ["value", "key"], reading.RECORD_FIELDS]


def placed(record):
    """Yield the record alone, first, last, and with just enough and one too few bytes after it for the fast path."""
    yield builders.batch([record])
    yield builders.batch([record, LONG])
    yield builders.batch([LONG, record])
    for following in (30, 31, 64):
        filler = builders.record(key=None, value=b"x" * (following - 7))
        assert len(filler) == following
        yield builders.batch([record, filler])


def judged(record):
    """Assert the oracle's verdict at every position; return the error, which is equal at all."""
    refusals = [error_fields(error_as_oracle(data)) for data in placed(record)]
    first = refusals[0]
    for number, other in enumerate(refusals):
        assert other == first, f"{record.hex()}: alone {first}, in place {number} {other}"
    return first


@pytest.mark.parametrize("field", [*LENGTHS, "offset_delta", "timestamp_delta"])
def test_every_encoding_of_a_length_count_or_delta(field):
    most = 10 if field == "timestamp_delta" else 5
    for spelling in varint_encodings(LENGTHS.get(field, 3), most):
        judged_error = judged(builders.sized(body(**{field: spelling})))
        if len(spelling) > most or spelling[most - 1 : most] >= b"\x80":
            assert judged_error[1] == "varint_too_long", spelling.hex()


def test_a_records_attributes_are_ignored():
    for attributes in (1, 0x7F, 0x80, 0xFF):
        assert judged(builders.sized(body(attributes=bytes([attributes])))) == ()


@pytest.mark.parametrize("reason", REFUSED)
def test_a_bad_record_is_refused_for_the_same_reason_on_the_fast_and_the_exact_path(reason):
    for fields, expected, found in REFUSED[reason]:
        error_of_record = judged(builders.sized(fields))
        assert error_of_record[:4] == (kafkarec.InvalidRecordError, reason, 0, 0), fields.hex()
        if expected is not None:
            assert error_of_record[4] == expected, fields.hex()
        if found is not None:
            assert error_of_record[5] == found, fields.hex()


@pytest.mark.parametrize("reason", REFUSED)
def test_a_refused_batch_leaves_no_trace_in_the_columns(reason):
    """Under "skip": the bad record is after null cells of more and less than a byte of validity bits."""
    kept = [
        builders.batch([builders.record(headers=[(b"h", b"x")], offset_delta=n) for n in range(4)], base_offset=base)
        for base in (0, 50)
    ]
    for fields, _, _ in REFUSED[reason]:
        for nulls, tail in itertools.product((0, 1, 7, 8, 9), (b"", bytes(64))):
            payload = builders.record(key=None, value=None) * nulls + builders.sized(fields) + tail
            bad = builders.batch(payload=payload, count=nulls + 1, base_offset=4, base_timestamp=-1)
            for before, behind in (kept, (b"", kept[1])):
                alone = reading.by_columns(before + behind)
                for names in PROJECTIONS:
                    columns = kafkarec.decode(before + bad + behind, columns=names, errors="skip")
                    assert checked_rows(columns) == [{name: row[name] for name in names} for row in alone]
                    assert [(one.position, one.length) for one in columns.damage] == [(len(before), len(bad))]
                assert_viewed_as_copied(before + bad + behind, errors="skip")


def test_the_record_count_at_its_limits():
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
