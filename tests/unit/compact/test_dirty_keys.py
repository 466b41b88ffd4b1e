"""Keys of transactions that last: the map has them once they are committed, in constant memory."""

import random

import pytest
from builders import NOW, end_marker
from measured_calls import peak_of
from plain_logs import batch

import kafkarec
from kafkarec import compact
from kafkarec.ops.compact import cleaned


def data(key, base, producer, value=bytes(20_000)):
    return batch(base, 1, key=key, value=value, transaction=producer)


def long_transactions(seed):
    """Some MB, so several steps: transactions that overlap, few of which end, and data without any."""
    dice = random.Random(seed)
    is_open = set()
    for base in range(400):
        producer = dice.choice([1, 2, 3, None])
        if producer in is_open and dice.randrange(60) == 0:
            is_open.remove(producer)
            yield end_marker(base, producer, commit=dice.random() < 0.5)
        else:
            is_open |= {producer} if producer else set()
            yield data(b"%d" % dice.randrange(150), base, producer)
    if seed % 3:
        yield from (
            end_marker(base, producer, commit=dice.random() < 0.5) for base, producer in enumerate(is_open, 400)
        )


def test_the_last_committed_record_of_each_key_stays():
    for seed in range(6):
        log = b"".join(long_transactions(seed))
        left = compact(log, now=NOW)
        end_offset = left.stats.first_uncleanable_offset
        committed = kafkarec.decode(log, isolation="read_committed")
        last = {record.key: record.offset for record in committed if record.offset < end_offset}
        assert {r.key: r.offset for r in kafkarec.decode(left) if r.offset < end_offset} == last
        assert left.stats.keys == len(last)
        assert left.stats.map_messages_read == sum(record.offset < end_offset for record in committed)


def test_memory_is_limited_while_a_transaction_hangs():
    log = b"".join(data(b"%d" % base + bytes(20_000), base, 1 if base == 5 else None, b"") for base in range(2500))
    cleaning = cleaned(log, now=NOW)
    _, peak = peak_of(lambda: sum(map(len, cleaning)))
    assert (cleaning.stats.first_uncleanable_offset, cleaning.stats.keys) == (5, 5)
    assert peak < 10 << 20


def test_damage_is_no_error_where_nothing_is_cleaned():
    damaged = data(b"a", 3, None)[:-1] + b"\1"
    rest = data(b"b", 2, 1) + damaged + data(b"a", 4, None)
    left = compact(data(b"a", 0, None) + data(b"a", 1, None) + rest, now=NOW)
    assert left == data(b"a", 1, None) + rest
    with pytest.raises(kafkarec.CorruptRecordError):
        compact(rest + end_marker(5, 1, commit=True), now=NOW)


def test_the_payload_of_an_aborted_transaction_may_be_unreadable():
    aborted = batch(0, 1, transaction=1, codec="gzip", payload=b"no gzip")
    log = aborted + data(b"a", 1, None) + end_marker(2, 1, commit=False) + data(b"a", 3, None)
    left = compact(log, now=NOW, producer_expiration_ms=0)
    assert [record.offset for record in kafkarec.decode(left)] == [3]


def test_where_offsets_fall_nothing_is_cleaned_from_the_first_uncleanable_offset_on():
    """The last batch ends below an open transaction, whose keys replace nothing."""
    log = data(b"a", 0, None) + data(b"a", 1, None) + data(b"b", 2, None) + data(b"b", 3, 1) + data(b"c", 1, None)
    left = compact(log, now=NOW)
    assert left.stats.first_uncleanable_offset == 2 and left.stats.keys == 1
    assert left == log[len(log) // 5 :]
