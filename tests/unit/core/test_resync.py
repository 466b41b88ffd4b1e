"""Where an input ends and where damage ends, byte by byte at each limit.

A cut tail, its zeros, the segment that follows, candidates too low or too high, and batches that are a value.
"""

from __future__ import annotations

import builders
import pytest
from core_damage import damaged, good, offsets, read
from core_reading import decode_error

import kafkarec

pytestmark = pytest.mark.core

FAR = 2**31
FILE = "00000000000000000000.log"

TAILS = {
    "zeros": lambda n: bytes(n),
    "of a batch": lambda n: good(4)[:n],
    "of a message": lambda n: builders.message(magic=0, offset=4, value=b"v" * 90)[:n],
}


@pytest.mark.parametrize("kind", TAILS)
def test_a_tail_of_every_length(kind: str) -> None:
    """Fewer than 12 bytes, or 17, end an input, and zeros to a file's end are preallocated; before a later segment both
    are damage."""
    for n in (*range(30), 45, 60, 61, 62, 69):
        tail = TAILS[kind](n)
        data = good(0) + tail
        zeros = not any(tail)
        for file in (None, FILE):
            for later_segment in (False, True):
                columns = read(data, file=file, later_segment=later_segment)
                assert offsets(columns) == [0, 1, 2, 3]
                ends = not n or not later_segment
                if n >= 12 and zeros and not file:
                    ends = False
                if ends:
                    assert damaged(columns) == [] and columns.remaining == n, (n, file, later_segment)
                    assert len(read(data, skip=False, file=file, later_segment=later_segment)) == 4
                else:
                    reason = "size_too_small" if n >= 12 and zeros else "length_beyond_end"
                    assert damaged(columns) == [(len(good(0)), n, reason)], (n, file, later_segment)
                    assert columns.remaining == 0
                    if file or zeros or n < 17:  # in memory a cut frame is the end, as in Kafka
                        with pytest.raises(kafkarec.CorruptRecordError):
                            read(data, skip=False, file=file, later_segment=later_segment)


def test_a_length_beyond_the_end_is_damage_if_a_batch_follows() -> None:
    """In files, and under errors="skip"; otherwise it is the end."""
    cut = builders.patched(good(4), 8, (10**6).to_bytes(4, "big"))
    data = good(0) + cut + good(8)
    assert offsets(read(data)) == [0, 1, 2, 3, 8, 9, 10, 11]
    assert damaged(read(data)) == [(len(good(0)), len(cut), "length_beyond_end")]
    assert read(data, skip=False).remaining == len(cut) + len(good(8))
    with pytest.raises(kafkarec.CorruptRecordError, match="claims"):
        read(data, skip=False, file=FILE)
    assert read(good(0) + cut, skip=False, file=FILE).remaining == len(cut)


def test_damage_of_every_length_ends_at_the_next_batch() -> None:
    for n in (*range(1, 30), 60, 61, 62, 69):
        for junk in (b"\xff" * n, bytes(n), b"PNG" * 23):
            junk = junk[:n]
            data = good(0) + junk + good(4)
            columns = read(data)
            assert offsets(columns) == list(range(8)), n
            assert [(at, size) for at, size, _ in damaged(columns)] == [(len(good(0)), n)]


def test_the_smallest_batch_of_each_magic_is_found_at_the_very_end() -> None:
    for last in (
        builders.message(magic=0, offset=4, key=None, value=None),
        builders.message(magic=1, offset=4, key=None, value=None),
        builders.batch(count=0, base_offset=4),
        good(4, 1),
    ):
        for n in (1, 5, 16, 17, 30):
            columns = read(good(0) + b"\xff" * n + last)
            assert damaged(columns)[0][:2] == (len(good(0)), n) and len(columns.damage) == 1
            assert len(columns.batches) == 2
    for size, found in ((13, False), (14, True)):
        raw = builders.with_legacy_crc(b"\0" * 7 + b"\4" + size.to_bytes(4, "big") + b"\0" * 6 + b"\xff" * 8)
        assert len(read(good(0) + b"\xff" * 5 + raw).batches) == (2 if found else 1)


def test_no_offset_rejects_a_candidate_in_a_buffer() -> None:
    """Base offsets may repeat or fall there, and no checksum covers them."""
    for offset in (-9, 0, 2, 3, 4, 5, 4 + FAR, 5 + FAR, 2**40, 2**62):
        data = good(0) + b"\xff" * 9 + good(offset, 1)
        assert offsets(read(data)) == [0, 1, 2, 3, offset]
        assert offsets(read(data + good(5, 1))) == [0, 1, 2, 3, offset, 5]
        assert offsets(read(data + b"\xff" * 40)) == [0, 1, 2, 3, offset]
        assert offsets(read(data + b"\xff" * 40 + good(4, 1))) == [0, 1, 2, 3, offset, 4]


def test_a_batch_that_is_a_value_does_not_count() -> None:
    """Batches that end without a following frame, with their length stored before them, as in a record."""
    inside = good(50, 1)
    for wrong, hidden in ((-1, False), (0, True), (1, False)):
        length = builders.varint(len(inside) + wrong)
        data = good(0) + b"\xff" * 9 + length + inside + b"\xff" * 40
        assert (50 in offsets(read(data))) != hidden, wrong
    two = good(50, 1) + good(51, 1)
    data = good(0) + b"\xff" * 9 + builders.varint(len(two)) + two + b"\xff" * 40
    assert offsets(read(data)) == [0, 1, 2, 3]


def test_an_odd_candidate_needs_a_frame_after_it() -> None:
    """Unusual fields are legal; then a frame must follow the batch."""
    odd = {
        "unused attribute": builders.with_crc(builders.patched(good(4, 1), 21, b"\0\x80")),
        "last offset": good(4, 1, last_offset_delta=-1),
        "producer": good(4, 1, producer_id=-2),
        "epoch": good(4, 1, producer_epoch=-2),
        "sequence": good(4, 1, base_sequence=-2),
        "message attribute": builders.message(offset=4, attributes=0x10),
        "message length": builders.message(offset=4, trailing=b"x"),
    }
    for name, raw in odd.items():
        start = good(0) + b"\xff" * 9
        assert len(read(start + raw).batches) == 2, f"{name}: at the very end"
        assert len(read(start + raw + good(5, 1)).batches) == 3, name
        assert len(read(start + raw + b"\xff" * 40).batches) == 1, name
    usual = [good(4, 1), good(4, 1, attributes=0x40), good(4, 1, producer_id=0, producer_epoch=0, base_sequence=0)]
    usual += [builders.message(offset=4), builders.message(offset=4, attributes=8, key=None, value=None)]
    for raw in usual:
        assert len(read(good(0) + b"\xff" * 9 + raw + b"\xff" * 40).batches) == 2


def test_an_error_says_where_reading_can_continue() -> None:
    for data, following in (
        (good(0), True),
        (builders.message(), True),
        (builders.patched(good(0), 8, b"\0\0\0\1"), False),
    ):
        bad = data[:-1] + bytes([data[-1] ^ 1])
        error = decode_error(good(0) + bad + good(4))
        assert error is not None and error.position == len(good(0))
        assert error.next_position == (len(good(0)) + len(bad) if following else None)
