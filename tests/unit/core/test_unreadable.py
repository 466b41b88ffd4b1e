"""Unreadable bytes: the zeros in their place are never treated as data, by any check.

tests/unit/read/test_windows.py has unreadable bytes anywhere in random logs, test_input.py errors that are no damage.
"""

import builders
import pytest
from core_reading import checked_rows
from fake_file import FakeFile, read
from plain_logs import batch

import kafkarec

pytestmark = pytest.mark.core

BEHIND = batch(1, 3)
BAD = range(8192, 8200)
"""In the middle of a value of zeros: the checksum is right with zeros in its place."""


def file(data, *bad):
    return FakeFile(data, 1 << 20, 8192, list(bad))


def refused(data, *bad, **options):
    with pytest.raises(kafkarec.KafkaRecordError) as caught:
        read(file(data, *bad), **options)
    return caught.value.reason, caught.value.position


def reasons(data, *bad):
    decoded = read(file(data, *bad), errors="skip")
    return [(damage.position, damage.length, damage.reason) for damage in decoded.damage]


def test_zeros_in_place_of_unreadable_bytes_pass_no_check():
    """Nor where no checksum is asked for, nor of an aborted transaction, whose records are left out."""
    aborted = batch(0, 1, transaction=7, key=None, value=bytes(20_000))
    left_out = {"engine": {"aborted": ((7, 0, 9),), "stable_offset": 1000}}
    assert [row["offset"] for row in checked_rows(read(file(aborted + BEHIND), **left_out))] == [1, 2, 3]
    for options in ({}, {"check_crcs": False}, left_out):
        assert refused(aborted + BEHIND, BAD, **options) == ("unreadable", 0)
        decoded = read(file(aborted + BEHIND, BAD), errors="skip", **options)
        assert [record.offset for record in decoded] == [1, 2, 3]
        assert [(one.position, one.length, one.reason) for one in decoded.damage] == [(0, len(aborted), "unreadable")]


def test_an_unreadable_end_is_damage():
    """A cut tail or batch is `unreadable` if any byte of it is; other errors keep their reason."""
    first, last = batch(0, 3), batch(3, 3)
    start = len(first)
    cut = builders.patched(last, 8, (10**6).to_bytes(4, "big"))
    for tail in (last[:5], last[:14], last[:80], cut, bytes(40)):
        assert reasons(first + tail) == []
        for at in {0, 4, len(tail) // 2, len(tail) - 1}:
            bad = range(start + at, start + at + 1)
            assert refused(first + tail, bad) == ("unreadable", start), (len(tail), at)
            assert reasons(first + tail, bad) == [(start, len(tail), "unreadable")], (len(tail), at)
        if len(tail) >= 12:  # fewer bytes are not read
            assert refused(tail, range(1)) == ("unreadable", 0)
            assert reasons(tail, range(1)) == [(0, len(tail), "unreadable")]
    # the unreadable byte is in a later batch
    data = first + cut + batch(6, 3) + last
    bad = range(len(data) - 1, len(data))
    assert reasons(data, bad)[0] == (start + len(cut) + len(last), len(last), "unreadable")
    assert reasons(data) == []  # the checksum proves the length of the cut one
    cut = cut[:-1] + b"!"
    data = first + cut + batch(6, 3) + last
    assert reasons(data, bad)[0] == (start, len(cut), "unreadable")
    assert reasons(data)[0] == (start, len(cut), "length_beyond_end")
    data = first + b"\xff" * 40 + batch(6, 3) + last
    assert reasons(data, range(len(data) - 1, len(data)))[0] == (start, 40, "size_too_small")
