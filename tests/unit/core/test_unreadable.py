"""Unreadable bytes: the zeros in their place are never treated as data, by any check.

An error of the reader that is no damage ends reading at once, wherever it occurs.
"""

from __future__ import annotations

from typing import Any

import builders
import pytest
import reading
from core_reading import checked_rows
from fake_file import FakeFile, read

import kafkarec

pytestmark = pytest.mark.core

ZEROS = builders.batch([builders.record(key=None, value=bytes(20_000))])
BEHIND = builders.batch(builders.records(3), base_offset=1)
BAD = range(8192, 8200)
"""In the middle of the zeros of ZEROS: the checksum is right with zeros in its place."""
UNREADABLE = ("unreadable", 0, 0, len(ZEROS), None, None)


def refused(data: bytes, *bad: range, window: int = 1 << 20, **options: Any) -> tuple[Any, ...]:
    with pytest.raises(kafkarec.KafkaRecordError) as caught:
        read(FakeFile(data, window, 8192, list(bad)), **options)
    error = caught.value
    return error.reason, error.position, error.base_offset, error.next_position, error.expected, error.found


@pytest.mark.parametrize("check_crcs", [True, False])
@pytest.mark.parametrize("window", [64, 4096, 1 << 20])
def test_a_batch_with_an_unreadable_byte_is_refused_whole(check_crcs: bool, window: int) -> None:
    assert refused(ZEROS + BEHIND, BAD, window=window, check_crcs=check_crcs) == UNREADABLE
    assert refused(BEHIND + ZEROS, BAD, window=window, check_crcs=check_crcs)[:2] == ("unreadable", len(BEHIND))


def test_an_unreadable_byte_next_to_a_batch_does_not_affect_it() -> None:
    first, middle, last = (builders.good_batch(3, base_offset=3 * n) for n in range(3))
    data = first + middle + last
    start, stop = len(first), len(first) + len(middle)
    for bad, touched in (
        (range(start - 1, start), [0]),
        (range(start, start + 1), [1]),
        (range(stop - 1, stop), [1]),
        (range(stop, stop + 1), [2]),
        (range(start - 1, stop + 1), [0, 1, 2]),
        (range(start, stop), [1]),
        (range(len(data) - 1, len(data)), [2]),
        (range(1), [0]),
    ):
        for window in (64, 512, 1 << 20):
            for check_crcs in (True, False):
                decoded = read(FakeFile(data, window, 8192, [bad]), errors="skip", check_crcs=check_crcs)
                kept = [n for n in range(3) if n not in touched]
                assert [row["offset"] for row in checked_rows(decoded)] == [
                    3 * n + m for n in kept for m in range(3)
                ], bad
                assert {damage.reason for damage in decoded.damage} == {"unreadable"}
                borders = [0, start, stop, len(data)]
                assert decoded.damage[0].position == borders[touched[0]]
                assert decoded.damage[-1].position + decoded.damage[-1].length == borders[touched[-1] + 1]


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


def test_unreadable_zeros_between_batches_hide_no_batch() -> None:
    """Damage of 40 bytes, some of them unreadable, before a batch."""
    data = BEHIND + b"\xff" * 40 + builders.good_batch(3, base_offset=4)
    start = len(BEHIND)
    for bad in (range(start + 10, start + 20), range(start + 39, start + 40), range(start, start + 40)):
        decoded = read(FakeFile(data, 1 << 20, 8192, [bad]), errors="skip")
        assert [row["offset"] for row in checked_rows(decoded)] == [1, 2, 3, 4, 5, 6]
        assert (decoded.damage[0].position, decoded.damage[0].length) == (start, 40)


class Refusing(FakeFile):
    """Returns data up to `gone`, and then raises an error that is no damage."""

    gone = 0

    def is_damage(self, error: OSError) -> bool:
        return False

    def read_at(self, position: int, length: int) -> bytes:
        if position + length > self.gone:
            raise ConnectionResetError("the server went away")
        return super().read_at(position, length)


def test_a_reader_is_not_called_after_an_error_that_is_no_damage() -> None:
    """Wherever it occurs: in a header, in a payload whose checksum is not checked, in the search after damage."""
    data = BEHIND + b"\xff" * 500 + ZEROS + BEHIND
    for window in (64, 256, 4096):
        for gone in (0, 30, 64, 128, 300, 512, 1024, 5000, 12_000):
            for check_crcs in (True, False):
                for errors in ("raise", "skip"):
                    fake = Refusing(
                        data[: len(BEHIND)] + data[len(BEHIND) + 500 :] if errors == "raise" else data, window
                    )
                    fake.gone = gone
                    with pytest.raises(ConnectionResetError, match="went away"):
                        read(fake, errors=errors, check_crcs=check_crcs)
            fake = Refusing(ZEROS + BEHIND, window, 8192)
            fake.gone = gone
            with pytest.raises(ConnectionResetError):
                reading.scan(fake)


def test_two_unreadable_bytes_of_neighbouring_pages_are_two_spans() -> None:
    """After a failure a file is read page by page: only between two unreadable bytes of one page all is lost."""
    first = builders.batch([builders.record(value=bytes(2000))])
    middle = b"".join(builders.good_batch(2, base_offset=1 + 2 * n) for n in range(4))
    over_the_border = builders.batch([builders.record(value=bytes(4096))], base_offset=9)
    data = first + middle + over_the_border + builders.good_batch(1, base_offset=10)
    assert len(first + middle) < 4095
    for other, kept in ((4095, False), (4096, True), (4097, True)):
        decoded = read(FakeFile(data, 1 << 20, 8192, [range(100, 101), range(other, other + 1)]), errors="skip")
        assert [row["offset"] for row in checked_rows(decoded)] == [*(range(1, 9) if kept else ()), 10], other
        assert {damage.reason for damage in decoded.damage} == {"unreadable"}


def test_the_last_byte_of_a_file_on_a_separate_page() -> None:
    first = builders.batch([builders.record(value=bytes(2000))])
    middle = b"".join(builders.good_batch(2, base_offset=1 + 2 * n) for n in range(4))
    missing = 4097 - len(first + middle)
    value = bytes(missing - len(builders.batch([builders.record(value=bytes(missing - 100))])) + missing - 100)
    last = builders.batch([builders.record(value=value)], base_offset=9)
    data = first + middle + last
    assert len(data) == 4097
    decoded = read(FakeFile(data, 1 << 20, 8192, [range(100, 101), range(4096, 4097)]), errors="skip")
    assert [row["offset"] for row in checked_rows(decoded)] == list(range(1, 9))


def test_a_window_is_filled_completely() -> None:
    """One request per window of 1000 bytes, not one per batch."""
    data = b"".join(builders.good_batch(2, base_offset=2 * n) for n in range(100))
    for window in (1000, 5000, len(data)):
        fake = FakeFile(data, window)
        assert len(read(fake)) == 200
        assert fake.calls <= 2 * len(data) // window, window


def test_zeros_to_the_end_are_preallocated_if_all_are_readable() -> None:
    """Even with unreadable bytes before them; but not if one of the zeros, even the last, is unreadable."""
    first, second = builders.good_batch(3), builders.good_batch(3, base_offset=3)
    for zeros in (12, 40, 5000, 9000):
        data = first + second + bytes(zeros)
        following = len(first + second)
        for window in (64, 4096, 1 << 20):
            for bad, lost in (
                (range(70, 71), (0, len(first))),
                (range(following - 1, following), (len(first), len(second))),
                (range(following, following + 1), (following, zeros)),
                (range(following + 11, following + 12), (following, zeros)),
                (range(len(data) - 1, len(data)), (following, zeros)),
            ):
                decoded = read(FakeFile(data, window, 8192, [bad]), errors="skip")
                assert [(damage.position, damage.length) for damage in decoded.damage] == [lost], (zeros, window, bad)
                assert decoded.damage[0].reason == "unreadable", (zeros, window, bad)
                assert decoded.remaining == (zeros if lost[0] < following else 0)


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
