"""Rollback: a batch refused under errors="skip" leaves no trace in the columns.

A batch fills columns while it is read. If it is refused, rows, bytes, headers, validity bits and null counts become
what they were before it; the good batches around it must not differ from the same batches read alone.
"""

import builders
import pytest
import reading
from core_reading import FIELDS, assert_viewed_as_copied, checked_rows

import kafkarec

pytestmark = pytest.mark.core

NULL_RECORD = builders.record(key=None, value=None)
HEADERS = [(b"a", None), (b"b", b"v"), (b"c", None)]
BAD_ENDS = {
    "attributes missing": bytes([0]),
    "delta cut": bytes([2, 0, 0x80]),
    "key too long": builders.record(key=None, key_length=9),
    "cut before the value": bytes([8, 0, 0, 0, 1]),
    "value too long": builders.record(key=None, value=None, value_length=9),
    "header count": builders.record(key=None, value=None, header_count=9),
    "header key": builders.record(key=None, value=None, headers=[*HEADERS, (b"", None)], header_key_length=-1),
    "header value": builders.sized(b"\0\0\0\1\1\4\0\1\0" + builders.varint(9)),
    "header keys and nulls": builders.sized(b"\0\0\0\1\1\6\0\1\0\1\0" + builders.varint(9)),
    "bytes after the last field": builders.sized(b"\0\0\0\1\1\0!"),
}
PROJECTIONS = [FIELDS, ["key"], ["value"], ["headers"], ["timestamp"], ["timestamp_type"], ["offset"], ["value", "key"]]


def good(offset, **fields):
    rows = [builders.record(key=b"key", value=b"value", headers=[(b"h", b"x")], offset_delta=n) for n in range(4)]
    return builders.batch(rows, base_offset=offset, **fields)


def skipped_as_alone(before, bad, following):
    """Assert that the rows around a bad batch, in every projection, are those of the batches read without it."""
    data = b"".join([*before, bad, *following])
    alone = reading.by_columns(b"".join([*before, *following]), control=True)
    for names in PROJECTIONS:
        columns = kafkarec.decode(data, columns=names, control=True, errors="skip")
        assert checked_rows(columns) == [{name: row[name] for name in names} for row in alone]
        assert_viewed_as_copied(data, columns=names, control=True, errors="skip")
        assert [(damage.position, damage.length) for damage in columns.damage] == [(sum(map(len, before)), len(bad))]


@pytest.mark.parametrize("name", BAD_ENDS)
@pytest.mark.parametrize("tail", [b"", b"\0" * 64], ids=["exact", "quick"])
def test_nulls_of_a_bad_batch_are_removed(name, tail):
    for nulls in (0, 1, 6, 7, 8, 9):
        payload = NULL_RECORD * nulls + BAD_ENDS[name] + tail
        bad = builders.batch(payload=payload, count=nulls + 1, base_offset=4, base_timestamp=-1)
        skipped_as_alone([good(0)], bad, [good(4 + nulls + 1)])
        skipped_as_alone([], bad, [good(4 + nulls + 1)])
