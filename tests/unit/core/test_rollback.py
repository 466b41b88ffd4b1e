"""Rollback: a batch refused under errors="skip" leaves no trace in the columns; ranges also remove the rows' nulls.

A batch fills columns while it is read. If it is refused, rows, bytes, headers, validity bits and null counts become
what they were before it; the good batches around it must not differ from the same batches read alone.
"""

from __future__ import annotations

import itertools
from typing import Any

import builders
import pytest
import reading
from core_reading import FIELDS, checked_rows, decode_range
from view_layout import assert_viewed_as_copied

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


def good(offset: int, **fields: Any) -> bytes:
    rows = [builders.record(key=b"key", value=b"value", headers=[(b"h", b"x")], offset_delta=n) for n in range(4)]
    return builders.batch(rows, base_offset=offset, **fields)


def skipped_as_alone(before: list[bytes], bad: bytes, following: list[bytes]) -> None:
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
def test_nulls_of_a_bad_batch_are_removed(name: str, tail: bytes) -> None:
    for nulls in (0, 1, 6, 7, 8, 9):
        payload = NULL_RECORD * nulls + BAD_ENDS[name] + tail
        bad = builders.batch(payload=payload, count=nulls + 1, base_offset=4, base_timestamp=-1)
        skipped_as_alone([good(0)], bad, [good(4 + nulls + 1)])
        skipped_as_alone([], bad, [good(4 + nulls + 1)])


def inner(count: int, last: bytes, **fields: Any) -> bytes:
    return b"".join(builders.message(offset=n, **fields) for n in range(count)) + last


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4"])
def test_messages_of_a_bad_wrapper_are_removed(magic: int, codec: str) -> None:
    cut_field = builders.message(magic=magic, offset=99, key_length=999)
    compressed = builders.message(magic=magic, offset=99, attributes=1)
    for last in (cut_field, compressed):
        for count in (0, 1, 8, 9):
            payload = inner(count, last, magic=magic, key=None, value=None, timestamp=-1)
            bad = builders.wrapper(payload, magic=magic, codec=codec, offset=200)
            skipped_as_alone([good(0)], bad, [good(300)])
            skipped_as_alone([], bad, [builders.message(magic=1, offset=300)])
            skipped_as_alone([builders.message(magic=0, offset=0, key=None)], bad, [builders.message(offset=300)])


def mixed() -> bytes:
    """Return records with nulls in every column, headers of every count, and no two equal neighbours."""
    batches = []
    for base, size in ((0, 9), (9, 1), (10, 17)):
        rows = [
            builders.record(
                offset_delta=n,
                timestamp_delta=-1 if n % 4 == 1 else n + 1,
                key=None if n % 3 == 1 else b"k" * n,
                value=None if n % 3 == 2 else b"v" * (n % 5),
                headers=[(b"h" * i, None if i % 2 else b"x" * n) for i in range(n % 4)],
            )
            for n in range(size)
        ]
        batches.append(builders.batch(rows, base_offset=base, base_timestamp=0, max_timestamp=size))
    return b"".join(batches)


def test_a_range_of_times_removes_rows_and_those_without_a_timestamp() -> None:
    data = mixed()
    whole = reading.by_columns(data)
    assert sum(row["timestamp"] is None for row in whole) == 6
    for low, high in itertools.combinations([-(2**62), -1, 0, 1, 2, 3, 8, 9, 10, 17, 18, 2**62], 2):
        wanted = [row for row in whole if row["timestamp"] is not None and low <= row["timestamp"] < high]
        result = checked_rows(decode_range(data, None, (low, high), columns=FIELDS))
        assert result == wanted, (low, high)
        both = [row for row in wanted if 3 <= row["offset"] < 20]
        assert checked_rows(decode_range(data, (3, 20), (low, high), columns=FIELDS)) == both


def test_aborted_records_are_removed_from_their_first_to_their_last_offset() -> None:
    """Batches of the producer with a base offset in the transaction, both ends included; no other producer's."""
    producers = (6, 7, 8)
    pieces = [
        good(4 * n, producer_id=producer, producer_epoch=0, base_sequence=0, attributes=0x10)
        for n, producer in enumerate(itertools.chain.from_iterable([producers] * 5))
    ]
    bases = [(4 * n, producers[n % 3]) for n in range(len(pieces))]
    for first, last in itertools.combinations_with_replacement((0, 4, 5, 15, 16, 17, 52), 2):
        for others in ((), ((6, 0, 0), (8, 56, 99)), ((7, 52, 52),), ((6, 0, 99),)):
            aborted = tuple(sorted([(7, first, last), *others]))
            left_out = {"aborted": aborted, "stable_offset": 1000}
            columns = reading.decode_source(b"".join(pieces), columns=["offset", "key"], control=True, engine=left_out)
            result = checked_rows(columns)
            wanted = []
            for base, producer in bases:
                begun = [entry for entry in aborted if entry[0] == producer and entry[1] <= base]
                if not begun or base > begun[-1][2]:
                    wanted += [base + n for n in range(4)]
            assert [row["offset"] for row in result] == wanted, aborted
