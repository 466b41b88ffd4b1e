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


def test_the_row_after_a_bad_batch_keeps_its_key() -> None:
    """The last record of a bad batch may have cleared the validity bit of one row more than a seventh of its bytes."""
    for nulls in (*range(10), 15, 16, 17, 31, 32):
        bad = builders.batch(payload=NULL_RECORD * nulls + bytes([8, 0, 0, 0, 1]), count=nulls + 1)
        for following in (
            good(nulls + 1),
            builders.message(magic=0, offset=nulls + 1),
            builders.message(offset=nulls + 1),
        ):
            skipped_as_alone([], bad, [following, following])


def test_null_keys_of_a_bad_batch_with_a_last_record_that_has_a_timestamp() -> None:
    """A null timestamp needs five bytes, a null key six, a null value seven."""
    for end in (bytes([2, 0, 0]), bytes([4, 0, 0, 0]), bytes([8, 0, 0, 0, 1]), bytes([10, 0, 0, 0, 1, 1])):
        for nulls in (0, 1, 7, 8, 15):
            bad = builders.batch(payload=NULL_RECORD * nulls + end, count=nulls + 1, base_timestamp=-1)
            skipped_as_alone([], bad, [good(nulls + 1)] * 2)


def test_a_bad_batch_of_many_more_bytes_than_rows() -> None:
    """Rollback of a batch with more rows than memory was reserved for."""
    for size in (100_000, 3_000_000):
        bad = builders.batch(payload=NULL_RECORD + bytes(size), count=1, base_offset=4)
        skipped_as_alone([good(0)], bad, [good(5)])


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


@pytest.mark.parametrize("magic", [0, 1])
def test_a_bad_message_is_removed(magic: int) -> None:
    for key, fields in ((None, {"value_length": 99}), (b"k", {"value_length": 99}), (b"k", {"key_length": 99})):
        bad = builders.message(magic=magic, offset=4, key=key, **fields)
        skipped_as_alone([good(0)], bad, [good(5)])
        skipped_as_alone([], bad, [good(5)])


def test_types_without_a_value_are_counted_as_such() -> None:
    """Magic 0 has no timestamp and no timestamp type: both nulls are removed with the messages."""
    old = [builders.message(magic=0, offset=n) for n in range(3)]
    wrapped = b"".join(builders.message(magic=0, offset=n) for n in (7, 8, 9))
    data = b"".join([*old, good(3), builders.wrapper(wrapped, magic=0, offset=9), good(10)])
    whole = reading.by_columns(data)
    assert [row["timestamp_type"] for row in whole] == [None] * 3 + [0] * 4 + [None] * 3 + [0] * 4
    for low, high in itertools.combinations((0, 1, 3, 4, 7, 8, 10, 14), 2):
        for names in (FIELDS, ["offset", "timestamp_type"], ["offset", "timestamp"]):
            wanted = [{name: row[name] for name in names} for row in whole if low <= row["offset"] < high]
            assert checked_rows(decode_range(data, (low, high), columns=names)) == wanted


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


def test_a_range_of_offsets_removes_rows_of_a_batch() -> None:
    data = mixed()
    whole = reading.by_columns(data)
    assert len(whole) == 27
    for low, high in itertools.combinations((0, 1, 2, 5, 8, 9, 10, 11, 13, 17, 18, 19, 25, 26, 27), 2):
        wanted = [row for row in whole if low <= row["offset"] < high]
        assert checked_rows(decode_range(data, (low, high), columns=FIELDS)) == wanted, (low, high)
    for names in PROJECTIONS[1:]:
        for low, high in ((1, 8), (8, 11), (3, 26), (26, 27), (27, 28)):
            wanted = [{n: row[n] for n in names} for row in whole if low <= row["offset"] < high]
            assert checked_rows(decode_range(data, (low, high), columns=names)) == wanted, (names, low, high)


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


def test_a_range_ends_before_a_batch_and_after_it() -> None:
    """Batches outside by their header are skipped; the first batch at the range's end is the last that is read."""
    data = b"".join(good(4 * n) for n in range(5))
    bad = builders.patched(data, 20, b"\xff")
    for low, high in itertools.combinations((4, 5, 7, 8, 9, 12, 16, 19, 20, 21), 2):
        assert [row["offset"] for row in checked_rows(decode_range(bad, (low, high)))] == list(
            range(low, min(high, 20))
        )
    last_bad = data[:-1] + bytes([data[-1] ^ 1])
    for high in range(1, 17):
        assert [row["offset"] for row in checked_rows(decode_range(last_bad, (0, high)))] == list(range(high))
    with pytest.raises(kafkarec.CorruptRecordError):
        decode_range(last_bad, (0, 17))


def test_an_implausible_base_offset_ends_no_range() -> None:
    """No checksum covers a base offset: one that the next batch contradicts ends no range, however large it is."""
    for jump in (4, 2**31, 2**31 + 1, 2**40):
        data = good(0) + good(4 + jump) + good(4)
        result = [row["offset"] for row in checked_rows(decode_range(data, (0, 8)))]
        assert result == list(range(8)), jump


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


def test_control_batches_and_unstable_batches_leave_no_trace() -> None:
    """Records from the last stable offset on are removed with their nulls and headers."""
    data = mixed()
    whole = reading.by_columns(data)
    for stable in range(29):
        columns = kafkarec.decode(
            data, columns=FIELDS, isolation="read_committed", last_stable_offset=stable, aborted=[]
        )
        assert checked_rows(columns) == [row for row in whole if row["offset"] < stable], stable
    marker = builders.end_marker(commit=True, producer_id=7, base_offset=27)
    empty = builders.batch(
        [builders.record(key=None, value=None, headers=HEADERS)] * 3, base_offset=28, attributes=0x20, base_timestamp=-1
    )
    assert checked_rows(kafkarec.decode(data + marker + empty + good(31), columns=FIELDS)) == (
        whole + reading.by_columns(good(31))
    )


@pytest.mark.parametrize("nulls", [3, 9, 29, 65])
def test_nulls_of_a_bad_batch_that_could_hold_far_more_rows_are_removed(nulls: int) -> None:
    """Its bytes could hold more rows than there are validity bits."""
    filler = builders.record(key=b"k", value=b"v" * 30_000)
    bad = builders.batch(
        payload=NULL_RECORD * nulls + filler + b"\x01", count=nulls + 2, base_offset=4, base_timestamp=-1
    )
    skipped_as_alone([good(0)], bad, [good(4 + nulls + 2 + 4 * n) for n in range(90)])
