"""Sums over the records of a produce request (`_c/record_stats.pxd`), compared with sums over the oracle's rows.

The code skips keys, values and headers. Its limits are the reader's, so each damaged
record must get the reader's verdict.
"""

import struct

import builders
import oracle
import pytest
from core_reading import INT_MAX, INT_MIN, LONG_MAX, decode_error, error_fields
from core_records import REFUSED, RULES, stats_of, summed

import kafkarec

pytestmark = pytest.mark.core

LONG = builders.record(offset_delta=7, timestamp_delta=9, key=b"K" * 40, value=b"V" * 90)
NO_KEY, OUT_OF_RANGE, APPEND_TIME, OTHER_MAGIC = 2, 3, 4, 1


def error_of(call, *arguments, **options):
    try:
        call(*arguments, **options)
    except kafkarec.KafkaRecordError as error:
        return error
    return None


def refused_as_by_the_reader(data, payload=None, **options):
    """Return the refusal; assert that its fields and its message are those of `decode`."""
    found, wanted = error_of(stats_of, data, payload=payload), decode_error(data, **options)
    assert (error_fields(found), str(found)) == (error_fields(wanted), str(wanted)), data.hex()
    return found


def sums(data, magic):
    rows = oracle.decode(data).records
    stamps = [-1 if row["timestamp"] is None else row["timestamp"] for row in rows]
    headers = sum(len(row["raw_headers"]) for row in rows)
    return (
        len(rows),
        [row["offset"] for row in rows] == list(range(len(rows))),
        min(stamps, default=LONG_MAX),
        max([-1, *stamps]),
        headers,
        any(stamp < -1 for stamp in stamps) or (magic < 2 and headers > 0),
    )


def test_the_sums_of_a_batch():
    sizes = (0, 1, 63, 64, 127, 128, 8191, 8192)
    records = [
        builders.record(
            offset_delta=n,
            timestamp_delta=delta,
            key=None if n % 3 == 1 else b"k" * sizes[n % 8],
            value=None if n % 4 == 1 else b"v" * sizes[n % 7],
            headers=[(b"h" * sizes[n % 5], None if i % 2 else b"x" * sizes[i % 6]) for i in range(n % 4)],
        )
        for n, delta in enumerate([5, 4, -1, 0, 63, 64, 65, -64, -65, 8191, 8192, 2**27, 2**34, 5, 5])
    ]
    records += [builders.record(offset_delta=n, headers=[(b"", None)] * (63 + n % 2)) for n in range(15, 17)]
    for count in range(len(records) + 1):
        for base_timestamp in (builders.NOW, 0, 60):
            for base_offset in (0, 1):
                data = builders.batch(records[:count], base_timestamp=base_timestamp, base_offset=base_offset)
                for magic in (0, 1, 2):
                    result = stats_of(data, RULES._replace(magic=magic)).stats
                    assert result == sums(data, magic), (count, magic)
    stamped = builders.batch(records, attributes=8, max_timestamp=99)
    assert stats_of(stamped, RULES._replace(create_time=True)).stats == sums(stamped, 2)
    out_of_order = builders.batch([records[1], records[0]])
    assert not stats_of(out_of_order).stats[1]


@pytest.mark.parametrize("reason", REFUSED)
def test_each_bad_record_is_refused_as_by_the_reader(reason):
    for fields, *_ in REFUSED[reason]:
        record = builders.sized(fields)
        for data in (builders.batch([record]), builders.batch([record, LONG])):
            refused_as_by_the_reader(data)


def test_counts_of_records_are_refused_as_by_the_reader():
    for records in ([LONG], [LONG] * 3):
        for count in (INT_MIN, -1, 0, 1, 2, 3, 4, INT_MAX):
            refused_as_by_the_reader(builders.batch(records, count=count))
    for cut in (1, 2, 3, 4):
        said = str(error_of(stats_of, builders.batch(payload=LONG + b"\x80" * cut, count=2)))
        assert "ends inside a field" in said and "record 1 of its batch" in said
    for more in (5, 6, 20):
        data = builders.batch(payload=LONG + b"\x80" * more, count=2)
        assert str(error_of(stats_of, data, partly=True)) == str(refused_as_by_the_reader(data))
    said = str(error_of(stats_of, builders.batch([LONG], count=-1)))
    assert said != "None" and "of its batch" not in said, "no record is to blame"


@pytest.mark.parametrize("magic", [0, 1])
def test_the_sums_of_messages(magic):
    rows = [(None, None), (b"", b""), (b"k", None), (None, b"v" * 200), (b"k" * 300, b"v")]
    parts = [
        builders.message(magic=magic, offset=n, key=key, value=value, timestamp=time)
        for n, ((key, value), time) in enumerate(zip(rows, (5, -1, 7, 0, -2), strict=True))
    ]
    for count in range(1, len(parts) + 1):
        data = b"".join(parts[:count])
        for to_magic in (0, 1, 2):
            result = stats_of(data, RULES._replace(magic=to_magic)).stats
            assert result == sums(data, to_magic), (count, to_magic)
            wrapped = builders.wrapper(data, magic=magic, offset=count - 1)
            result = stats_of(wrapped, RULES._replace(magic=to_magic), payload=data).stats
            assert result == sums(wrapped, to_magic), (count, to_magic)


@pytest.mark.parametrize("magic", [0, 1])
def test_inner_messages_are_refused_as_by_the_reader(magic):
    good = builders.message(magic=magic, offset=1, value=b"v" * 80)
    crc = builders.patched(good, 13, b"\x55")
    last = good[:-1] + b"!"
    nested = builders.message(magic=magic, attributes=1)
    stamped = builders.message(magic=magic, attributes=8 + 3)
    small = builders.patched(good, 8, struct.pack(">i", 13))
    for parts, reason in (
        ([good], None),
        ([good[:20]], "wrapper_empty"),
        ([], "wrapper_empty"),
        ([good, good[:50]], None),
        ([crc], "inner_crc_mismatch"),
        ([good, crc], "inner_crc_mismatch"),
        ([last], "inner_crc_mismatch"),
        ([nested], "inner_compressed"),
        ([nested, good], "inner_compressed"),
        ([stamped], "inner_compressed"),
        ([small], "inner_size_too_small"),
    ):
        payload = b"".join(parts)
        data = builders.wrapper(payload, magic=magic, offset=1)
        error = refused_as_by_the_reader(data, payload, check_crcs="all")
        assert (error and error.reason) == reason


def test_timestamps_at_the_limits_that_a_topic_accepts():
    """Both limits are inclusive; one millisecond beyond is refused; -1 is no timestamp."""
    now = builders.NOW
    rules = RULES._replace(before_ms=100, after_ms=50)
    times = {now: 0, now - 100: 0, now - 101: OUT_OF_RANGE, now + 50: 0, now + 51: OUT_OF_RANGE, -1: 0, 0: OUT_OF_RANGE}
    for time, why in times.items():
        for data in (builders.batch([builders.record()], base_timestamp=time), builders.message(timestamp=time)):
            count, late, notes = stats_of(data, rules).refused_records()
            assert (count, late) == (bool(why), bool(why)), time - now
            assert [note[:3] for note in notes] == ([(0, why, time)] if why else [])
    stamped = builders.batch([builders.record()] * 2, attributes=8, max_timestamp=now)
    assert stats_of(stamped, rules).refused_records()[0] == 0
    appended = stats_of(stamped, rules._replace(create_time=False)).refused_records()
    assert [note[:2] for note in appended[2]] == [(0, APPEND_TIME), (1, APPEND_TIME)] and appended[1]


def test_what_is_checked_of_a_batch_before_its_records():
    data = builders.good_batch(2, base_offset=5, leader_epoch=3)
    following = {base: data + builders.good_batch(1, base_offset=base) for base in (5, 6, 7)}
    short, least = (
        builders.with_crc(builders.patched(builders.batch(count=0)[:size], 8, struct.pack(">i", size - 12)))
        for size in (60, 61)
    )
    for request, demands, words, sides in (
        (data, {"most_bytes": len(data) - 1}, "larger", (len(data) - 1, len(data))),
        (data, {"leader_epoch": 2}, "leader", (2, 3)),
        (data, {"leader_epoch": 4}, "leader", (4, 3)),
        (data, {"from_zero": True}, "offset 0", (0, 5)),
        (following[5], {"rising": True}, "out of order", (6, 5)),
        (following[6], {"rising": True}, "out of order", (6, 6)),
        (short, {}, "", (61, 60)),
    ):
        error = error_of(summed, request, **demands)
        assert error is not None and words in str(error), demands
        assert (error.expected, error.found) == sides, demands
    for most in (len(data), len(data) + 1):
        assert summed(data, most_bytes=most).batches == 1
    assert summed(data, leader_epoch=3).end == len(data)
    request = summed(following[7], rising=True)
    assert (request.batches, request.last_offset, request.end) == (2, 7, len(following[7]))
    for cut in range(len(data)):
        assert summed(data + data[:cut]).end == len(data)
    assert summed(least).batches == 1


def test_what_is_listed_of_a_refused_record():
    """Index in the batch, reason, timestamp, offset and magic; of wrappers the inner messages are counted."""
    rules = RULES._replace(compacted=True)
    keys = [b"k", None, b"k", None, None]
    rows = [builders.record(key=key, offset_delta=n, timestamp_delta=n) for n, key in enumerate(keys)]
    bad = [1, 3, 4]
    data = builders.batch(rows, base_offset=70, base_timestamp=50)
    assert stats_of(data, rules).refused_records()[2] == [(n, NO_KEY, 50 + n, 70 + n, 2) for n in bad]
    for magic in (0, 1):
        parts = [builders.message(magic=magic, offset=n, key=key, timestamp=50 + n) for n, key in enumerate(keys)]
        inside = b"".join(parts)
        result = stats_of(builders.wrapper(inside, magic=magic, offset=4), rules, payload=inside).refused_records()[2]
        assert result == [(n, NO_KEY, 50 + n if magic else -1, n, magic) for n in bad]
        assert stats_of(inside, rules).refused_records()[2] == [(0, NO_KEY, 51 if magic else -1, 1, magic)]
        for following in range(4):
            short = builders.message(magic=magic, key=None)[: (26 if magic else 18) + following]
            short = builders.with_legacy_crc(builders.patched(short, 8, struct.pack(">i", len(short) - 12)))
            if len(short) >= 26:  # the shortest possible frame
                error = error_of(stats_of, short, rules)
                assert error is not None and (error.expected, error.found) == (4, following)
        wrong = builders.patched(inside, 2 * len(parts[0]) + 13, b"\0")
        with pytest.raises(kafkarec.CorruptRecordError, match=r"of an inner message .*record 2 of its batch"):
            stats_of(builders.wrapper(wrong, magic=magic, offset=4), payload=wrong)
