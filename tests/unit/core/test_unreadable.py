"""Unreadable bytes: the zeros in their place are never treated as data, by any check.

tests/unit/read/test_windows.py has unreadable bytes anywhere in random logs, and errors that are no damage.
"""

from __future__ import annotations

from typing import Any

import builders
import pytest
from core_reading import checked_rows
from fake_file import FakeFile, read

import kafkarec

pytestmark = pytest.mark.core

ZEROS = builders.batch([builders.record(key=None, value=bytes(20_000))])
BEHIND = builders.batch(builders.records(3), base_offset=1)
BAD = range(8192, 8200)
"""In the middle of the zeros of ZEROS: the checksum is right with zeros in its place."""


def refused(data: bytes, *bad: range, window: int = 1 << 20, **options: Any) -> tuple[Any, ...]:
    with pytest.raises(kafkarec.KafkaRecordError) as caught:
        read(FakeFile(data, window, 8192, list(bad)), **options)
    error = caught.value
    return error.reason, error.position, error.base_offset, error.next_position, error.expected, error.found


def test_zeros_of_an_unreadable_span_pass_no_check_of_records_left_out() -> None:
    """The records of an aborted transaction are left out, but its batch is checked."""
    aborted = builders.batch(
        [builders.record(key=None, value=bytes(20_000))],
        attributes=0x10,
        producer_id=7,
        producer_epoch=0,
        base_sequence=0,
    )
    for bad, verdict in (([], None), ([BAD], "unreadable")):
        fake = FakeFile(aborted + BEHIND, 1 << 20, 8192, bad)
        left_out = {"aborted": ((7, 0, 9),), "stable_offset": 1000}
        if verdict is None:
            assert [row["offset"] for row in checked_rows(read(fake, engine=left_out))] == [1, 2, 3]
        else:
            with pytest.raises(kafkarec.CorruptRecordError) as caught:
                read(fake, engine=left_out)
            assert (caught.value.reason, caught.value.position) == (verdict, 0)


def reasons(data: bytes, *bad: range, window: int = 1 << 20) -> list[tuple[int, int, str]]:
    decoded = read(FakeFile(data, window, 8192, list(bad)), errors="skip")
    return [(damage.position, damage.length, damage.reason) for damage in decoded.damage]


def test_an_unreadable_end_is_damage() -> None:
    """A cut tail or batch is `unreadable` if any byte of it is; other errors keep their reason."""
    first, last = builders.good_batch(3), builders.good_batch(3, base_offset=3)
    start = len(first)
    cut = builders.patched(last, 8, (10**6).to_bytes(4, "big"))
    for tail in (last[:5], last[:14], last[:80], cut, bytes(40)):
        assert reasons(first + tail) == []
        for at in {0, 4, len(tail) // 2, len(tail) - 1}:
            bad = range(start + at, start + at + 1)
            assert refused(first + tail, bad)[:2] == ("unreadable", start), (len(tail), at)
            assert reasons(first + tail, bad) == [(start, len(tail), "unreadable")], (len(tail), at)
        if len(tail) >= 12:  # fewer bytes are not read
            assert refused(tail, range(1))[:2] == ("unreadable", 0)
            assert reasons(tail, range(1)) == [(0, len(tail), "unreadable")]
    # the unreadable byte is in a later batch
    data = first + cut + builders.good_batch(3, base_offset=6) + last
    bad = range(len(data) - 1, len(data))
    assert reasons(data, bad)[0] == (start + len(cut) + len(last), len(last), "unreadable")
    assert reasons(data) == []  # the checksum proves the length of the cut one
    cut = cut[:-1] + b"!"
    data = first + cut + builders.good_batch(3, base_offset=6) + last
    assert reasons(data, bad)[0] == (start, len(cut), "unreadable")
    assert reasons(data)[0] == (start, len(cut), "length_beyond_end")
    data = first + b"\xff" * 40 + builders.good_batch(3, base_offset=6) + last
    assert reasons(data, range(len(data) - 1, len(data)))[0] == (start, 40, "size_too_small")


def test_the_reason_is_unreadable_if_the_header_is() -> None:
    """Only its 61 bytes count; an unreadable byte after them does not change the reason."""
    first = builders.good_batch(3)
    for claim, reason in ((13, "size_too_small"), (40, "batch_too_small"), (2**31 - 1, "size_overflow")):
        bad_batch = builders.patched(builders.good_batch(3, base_offset=3), 8, claim.to_bytes(4, "big"))
        data = first + bad_batch + BEHIND
        for at, decoded in ((0, "unreadable"), (20, "unreadable"), (60, "unreadable"), (61, reason), (62, reason)):
            at += len(first)
            assert refused(data, range(at, at + 1))[:2] == (decoded, len(first)), (claim, at)


def test_an_unreadable_length_is_not_followed() -> None:
    """It would end in the middle of a batch, so batches inside it are searched for."""
    forged = builders.batch(count=1, length=300, base_offset=1)
    inner = builders.good_batch(3, base_offset=2) + builders.good_batch(3, base_offset=5)
    data = builders.good_batch(1) + forged + b"\xff" * 20 + inner + builders.batch([builders.record(value=bytes(90))])
    start = len(builders.good_batch(1))
    bad = range(start + 70, start + 72)
    assert reasons(data, bad)[0] == (start, len(forged) + 20, "unreadable")
