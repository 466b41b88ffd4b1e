"""Batches inside record values, and how far the search reads before it accepts a candidate.

Whether a candidate is a value shows in the bytes around it, in the records of the damaged batch, or in the bytes
after it. Every limit is tested at its last value and one above.
"""

from __future__ import annotations

import itertools
from typing import Any

import builders
import pytest
import reading
from builders import patched, varint
from core_damage import damaged, good, offsets
from core_damage import read as read_memory
from core_reading import raw_varint, zigzag
from fake_file import FakeFile

import kafkarec

pytestmark = pytest.mark.core

JUNK = b"\xff" * 40
FORGED = (10**7).to_bytes(4, "big")
"""A batch length that exceeds the input."""
HOPS, CLAIMS = 1024, 64


def outer(*values: bytes, base: int = 4, **fields: Any) -> bytes:
    rows = [builders.record(offset_delta=n, key=b"key", value=value, **fields) for n, value in enumerate(values)]
    return builders.batch(rows, base_offset=base)


def read(data: bytes) -> kafkarec.RecordColumns:
    """Read from memory and through small windows, where the search fetches bytes separately; assert equal results."""
    result = read_memory(data)
    for window in (64, 256) if len(data) < 5000 else ():
        other = reading.decode_source(FakeFile(data, window), errors="skip", control=True, restore=False)
        assert offsets(other) == offsets(result) and damaged(other) == damaged(result), window
    return result


def lost(bad: bytes, results: bytes) -> list[int]:
    """Return the offsets read around `bad`, between good(0) and `behind`, and whether exactly `bad` is the damage."""
    return offsets(read(good(0) + bad + results))


def test_candidates_at_a_records_value_are_not_batches_of_the_log() -> None:
    """The header's length is wrong, the records are right: a candidate where a value begins is no batch of the log."""
    inside = good(5, 1)
    for value in (inside + b"!", inside + JUNK, inside + inside[:50], inside):
        for before in ((), (b"v",), (b"v" * 300, b"w"), (b"",)):
            bad = patched(outer(*before, value, b"last"), 8, FORGED)
            columns = read(good(0) + bad + good(8))
            assert offsets(columns) == [0, 1, 2, 3, 8, 9, 10, 11]
            assert damaged(columns) == [(len(good(0)), len(bad), "length_beyond_end")]
    for key in (None, b"", b"k" * 200):  # the first record has 6 bytes after its length, the minimum
        rows = [builders.record(key=key, value=None), builders.record(key=key, value=inside + b"!", timestamp_delta=-1)]
        bad = patched(builders.batch(rows, base_offset=4), 8, FORGED)
        assert lost(bad, good(8)) == [0, 1, 2, 3, 8, 9, 10, 11], key


def test_a_batch_behind_the_place_of_a_removed_value() -> None:
    """The records of the damaged batch lead to it, but the batch behind it reaches beyond the value's end."""
    first, second = builders.message(magic=1, offset=5), good(7)
    whole = outer(bytes(len(first) + 20))
    cut = whole[: whole.index(bytes(len(first) + 20))]
    assert read(cut + first + second).batches.column("position") == [len(cut), len(cut) + len(first)]
    longer = outer(first + b"no batch" + second)  # a value of two batches with other bytes between
    spoiled = patched(longer, len(longer) - 1, b"!") + good(9)
    assert read(spoiled).batches.column("position") == [len(longer)]


def test_bytes_that_are_no_record_rule_out_no_candidate() -> None:
    """A field before the candidate is invalid in a record: then the candidate is a batch of the log."""
    inside = good(5, 1)
    value = inside + b"!"
    whole = {
        "attributes": b"\0",
        "timestamp": b"\0",
        "offset": b"\0",
        "key": b"\6key",
        "value": varint(len(value)),
    }

    def is_found(**spoiled: bytes) -> bool:
        length = spoiled.pop("length", None)
        body = b"".join({**whole, **spoiled}.values()) + value + b"\0"
        payload = (varint(len(body)) if length is None else length) + body
        bad = patched(builders.batch(payload=payload, base_offset=4), 8, FORGED)
        return 5 in lost(bad, good(8))

    assert not is_found()
    assert not is_found(timestamp=b"\x80\x80\x80\x80\x80\x80\x80\x80\x80\1")
    assert not is_found(key=b"\0") and not is_found(key=b"\1")
    for spoiled in (
        {"attributes": b"\1"},
        {"length": varint(0)},
        {"length": varint(-1)},
        {"length": varint(5)},
        {"length": varint(6)},
        {"length": b"\x80\x80\x80\x80\x80\1"},
        {"timestamp": b"\x80" * 10 + b"\1"},
        {"offset": b"\x80" * 5 + b"\1"},
        {"key": varint(4) + b"key"},
        {"key": varint(2) + b"key"},
        {"key": varint(3 + 10**6) + b"key"},
        {"value": varint(len(inside) - 1)},  # shorter than the candidate
        {"value": varint(len(value) + 10**6)},
    ):
        assert is_found(**spoiled), spoiled
    # the key ends after its record, where the value's length is stored
    far = varint(8) + b"\0\0\0" + varint(30) + b"k" * 30 + varint(len(value))
    bad = patched(builders.batch(payload=far + value + b"\0", base_offset=4), 8, FORGED)
    assert 5 in lost(bad, good(8))


def in_front_of(results: bytes) -> bytes:
    """Return a damaged batch whose value has a prefix and a batch that a search would accept; and later batches."""
    bad = outer(b"\0\0\0\0\7" + good(5, 1) + b"!")
    return good(0) + bad[:-1] + bytes([bad[-1] ^ 1]) + results


def spoiled(offset: int, count: int) -> bytes:
    raw = good(offset, count)
    return raw[:-1] + bytes([raw[-1] ^ 1])


def test_claimed_lengths_are_followed_while_offsets_rise() -> None:
    """For several consecutive damaged batches; otherwise the first is searched, and the batch in its value accepted."""
    for base, count, following, led in (
        (8, 4, 7, False),
        (8, 4, 8, False),
        (8, 4, 9, True),
        (8, 4, 12, True),
        (8, 1, 7, False),
        (8, 1, 8, True),
        (3, 1, 12, False),
        (4, 1, 12, True),
        (2**40, 1, 2**40 + 1, False),
    ):
        data = in_front_of(spoiled(base, count) + spoiled(following, 1) + good(20))
        assert (5 not in offsets(read(data))) == led, (base, count, following)
    assert offsets(read(in_front_of(good(8)))) == [0, 1, 2, 3, 8, 9, 10, 11]
    assert offsets(read(in_front_of(b""))) == [0, 1, 2, 3]
    for left in range(1, 14):
        assert 5 in offsets(read(in_front_of(b"\xff" * left))), left


def test_64_claimed_lengths_are_followed_and_no_more() -> None:
    for more, led in ((CLAIMS - 1, True), (CLAIMS, False)):
        data = in_front_of(b"".join(spoiled(8 + n, 1) for n in range(more)) + good(200))
        assert (5 not in offsets(read(data))) == led


def test_a_run_of_1024_batches_is_no_value() -> None:
    """1024 batches after the candidate are the log, even if the varint before them is their length."""
    batch = good(50, 1)
    for more, kept in ((HOPS - 1, False), (HOPS, True)):
        run = batch * (1 + more)
        data = good(0) + JUNK + varint(len(run)) + run + JUNK
        assert offsets(read(data)) == [0, 1, 2, 3] + [50] * (1 + more) * kept, more


def test_a_run_ends_at_the_end_at_zeros_or_at_a_cut_batch() -> None:
    """A run that ends in any other way may be a value, and is one if its length is stored before it."""
    run = good(50, 1) + good(51, 1)
    front = good(0) + JUNK + varint(len(run)) + run
    cut = good(52, 1)
    for results, goes_on in (
        (b"", True),
        (bytes(12), True),
        (bytes(40), True),
        (bytes(11) + b"\1" * 9, False),
        (bytes(11), False),
        (b"\0", False),
        (b"\xff" * 11, False),
        (cut[:17], True),
        (cut[:60], True),
        (good(51, 1)[:60], False),
        (good(50, 1)[:60], False),
        (good(51 + 2**31, 1)[:60], True),
        (good(53 + 2**31, 1)[:60], False),
        (cut[:11], False),
    ):
        assert (50 in offsets(read(front + results))) == goes_on, results


def test_the_end_of_a_value_whose_last_batch_is_damaged() -> None:
    """Only the bytes before that batch are skipped: it may be a batch of the log."""
    run = good(50, 1) + spoiled(51, 1)
    data = good(0) + JUNK + varint(len(run)) + run + JUNK + good(60, 1)
    columns = read(data)
    assert offsets(columns) == [0, 1, 2, 3, 60]
    assert len(damaged(columns)) == 1


@pytest.mark.parametrize("odd", [False, True])
def test_checksum_work_is_limited_per_byte_of_input(odd: bool) -> None:
    """Headers that claim all bytes after them: six bytes per byte plus 4096 for plausible headers, two for odd."""
    last = builders.batch(builders.records(1), base_offset=90, attributes=0x80 if odd else 0)
    assert last[17] != 0
    over = set()  # the bytes left for the last checksum
    for count, more, pad in itertools.product(range(1, 40), range(3), range(9, 60)):
        sizes = [(count - n) * len(last) + more for n in range(count)]
        length = len(good(0)) + pad + (count + 1) * len(last) + more
        left = length * 2 if odd else length * 6 + 4096
        for size in sizes:
            left -= size if size <= left else 0
        if abs(left - len(last)) > 3:
            continue
        headers = [patched(patched(last, 8, (size - 12).to_bytes(4, "big")), 17, b"\0") for size in sizes]
        data = good(0) + b"\xff" * pad + b"".join(headers) + bytes(more) + last
        assert len(data) == length
        assert (90 in offsets(read_memory(data))) == (left >= len(last)), (count, more, pad)
        over.add(left - len(last))
    assert over >= {-1, 0} if odd else over >= {-2, 0}, over


def test_a_large_batch_that_no_frame_follows_is_found() -> None:
    """It counts against the budget of odd headers, two bytes per byte of input."""
    for size in ((1 << 14) - 200, 1 << 14, 40_000):
        large = builders.batch([builders.record(value=bytes(size))], base_offset=4)
        for results in (b"", JUNK, bytes(30), good(5, 1)):
            assert offsets(read(good(0) + JUNK + large + results))[:5] == [0, 1, 2, 3, 4], size


def test_a_large_candidate_with_a_frame_after_it_does_not_count_as_odd() -> None:
    """Odd headers use up their budget of two bytes per byte; then a large batch is found if a frame follows it."""
    for size, without in ((1 << 13, True), (1 << 15, False)):
        large = builders.batch([builders.record(value=bytes(size))], base_offset=4)
        odd = builders.batch(builders.records(1), base_offset=4, attributes=0x80)
        for results, result in ((good(5, 1), True), (JUNK, without)):
            tail = large + results + good(9, 1)
            claims = b""
            for n in (3, 2, 1, 0):
                claim = n * len(odd) + len(tail)
                claims += patched(patched(odd, 8, (claim - 12).to_bytes(4, "big")), 17, b"\0")
            data = good(0) + b"\xff" * 9 + claims + tail
            assert (4 in offsets(read(data))) == result, size


def test_a_search_keeps_no_state_of_another_value() -> None:
    """One engine reads all values: positions with a failed checksum in one value are checked in the next."""
    right, wrong = (good(0) + JUNK + one + JUNK for one in (good(4, 1), spoiled(4, 1)))
    barren = good(0) + b"\xff" * 300
    for values in ([wrong, right], [right, wrong, right], [barren, right, barren], [wrong, wrong, right, right]):
        [piece] = kafkarec.decode_each(values, errors="skip")
        ends = list(piece.offsets)
        rows = offsets(piece.records)
        result = [rows[start:stop] for start, stop in itertools.pairwise(ends)]
        assert result == [[0, 1, 2, 3, 4] if value is right else [0, 1, 2, 3] for value in values]


def test_the_length_before_a_value_is_a_whole_varint() -> None:
    """Of up to five bytes, also padded; each byte but the last has its top bit set, and the last has not."""
    inside = good(50, 1)
    raw = zigzag(len(inside))
    assert 0x80 <= raw < 0x4000
    for spelled, hidden in (
        *((raw_varint(raw, n), n <= 5) for n in range(2, 8)),
        (bytes([raw & 0x7F, raw >> 7]), False),
        (bytes([raw & 0x7F | 0x80, raw >> 7 | 0x80]), False),
        (bytes([raw & 0x7F | 0x80, 0x80, raw >> 7]), False),
        (bytes([raw & 0x7F | 0x80, raw >> 7, 0]), False),
    ):
        data = good(0) + b"\x7f" * 40 + spelled + inside + JUNK
        assert (50 not in offsets(read(data))) == hidden, spelled
    short = builders.message(magic=0, offset=50, key=None, value=None)
    for wrong in (0, 1):
        data = good(0) + b"\x7f" * 40 + varint(len(short) + wrong) + short + JUNK
        assert len(read(data).batches) == 1 + wrong


def test_messages_are_found_through_small_windows() -> None:
    """Their lengths are read one by one, wherever a window ends; the last byte of each counts."""
    for magic, size in itertools.product((0, 1), (0, 1, 60, 255, 256, 257, 300)):
        for key, value in ((b"k" * size, b"v"), (b"k", b"v" * size), (None, b"v" * size), (b"k" * size, None)):
            written = builders.message(magic=magic, offset=4, key=key, value=value)
            spare = builders.message(magic=magic, offset=4, key=key, value=value, trailing=b"x")
            assert offsets(read(good(0) + JUNK + written + JUNK)) == [0, 1, 2, 3, 4]
            assert offsets(read(good(0) + JUNK + spare + JUNK)) == [0, 1, 2, 3]
            assert offsets(read(good(0) + JUNK + spare + good(5, 1))) == [0, 1, 2, 3, 4, 5]
