"""Bytes that cannot be read, to the byte: the zeros in their place are never taken for data, by any check.

And what a reader refuses ends reading at once, whichever bytes it was asked for.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import builders
import pytest
from core_reading import sound_rows
from fake_file import FakeFile, read

import kafkarec
from kafkarec._core import Source
from kafkarec.read.decode_options import request
from kafkarec.read.passes import as_columns, read_part, scan_pieces
from kafkarec.tables.records import BatchTable

pytestmark = pytest.mark.core

ZEROS = builders.batch([builders.record(key=None, value=bytes(20_000))])
BEHIND = builders.batch(builders.records(3), base_offset=1)
BAD = range(8192, 8200)
"""In the middle of the zeros of ZEROS: the checksum holds for what is read instead."""
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


def test_the_byte_at_either_side_of_a_batch_is_not_its_own() -> None:
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
                found = read(FakeFile(data, window, 8192, [bad]), errors="skip", check_crcs=check_crcs)
                kept = [n for n in range(3) if n not in touched]
                assert [row["offset"] for row in sound_rows(found)] == [3 * n + m for n in kept for m in range(3)], bad
                assert {damage.reason for damage in found.damage} == {"unreadable"}
                borders = [0, start, stop, len(data)]
                assert found.damage[0].position == borders[touched[0]]
                assert found.damage[-1].position + found.damage[-1].length == borders[touched[-1] + 1]


def test_zeros_of_an_unreadable_span_pass_no_check_of_what_is_not_wanted() -> None:
    """The records of an aborted transaction are left out, its batch is checked all the same."""
    aborted = builders.batch(
        [builders.record(key=None, value=bytes(20_000))],
        attributes=0x10,
        producer_id=7,
        producer_epoch=0,
        base_sequence=0,
    )
    for bad, verdict in (([], None), ([BAD], "unreadable")):
        asked = request(control=True, _file="test.log")
        asked = asked._replace(options=replace(asked.options, aborted=((7, 0, 9),), stable_offset=1000))
        source = Source(file=FakeFile(aborted + BEHIND, 1 << 20, 8192, bad))
        if verdict is None:
            assert [row["offset"] for row in sound_rows(as_columns(asked, read_part(asked, source)))] == [1, 2, 3]
        else:
            with pytest.raises(kafkarec.CorruptRecordError) as caught:
                read_part(asked, source)
            assert (caught.value.reason, caught.value.position) == (verdict, 0)


def test_unreadable_zeros_between_batches_hide_no_batch() -> None:
    """Damage of 40 bytes, of which some cannot be read, in front of a batch."""
    data = BEHIND + b"\xff" * 40 + builders.good_batch(3, base_offset=4)
    start = len(BEHIND)
    for bad in (range(start + 10, start + 20), range(start + 39, start + 40), range(start, start + 40)):
        found = read(FakeFile(data, 1 << 20, 8192, [bad]), errors="skip")
        assert [row["offset"] for row in sound_rows(found)] == [1, 2, 3, 4, 5, 6]
        assert (found.damage[0].position, found.damage[0].length) == (start, 40)


class Refusing(FakeFile):
    """Gives what it holds up to `gone`, and then an error that is no damage."""

    gone = 0

    def is_damage(self, error: OSError) -> bool:
        return False

    def read_at(self, position: int, length: int) -> bytes:
        if position + length > self.gone:
            raise ConnectionResetError("the server went away")
        return super().read_at(position, length)


def test_a_reader_that_refuses_is_asked_nothing_more() -> None:
    """Wherever it does: in a header, in a payload whose checksum is not looked at, in the damage of a search."""
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
                BatchTable.joined(list(scan_pieces(request(_file="x"), Source(file=fake))))


def test_two_unreadable_bytes_of_neighbouring_pages_are_two_spans() -> None:
    """After a failure a file is read page by page: only between two such bytes of one page everything is lost."""
    first = builders.batch([builders.record(value=bytes(2000))])
    middle = b"".join(builders.good_batch(2, base_offset=1 + 2 * n) for n in range(4))
    over_the_border = builders.batch([builders.record(value=bytes(4096))], base_offset=9)
    data = first + middle + over_the_border + builders.good_batch(1, base_offset=10)
    assert len(first + middle) < 4095
    for other, kept in ((4095, False), (4096, True), (4097, True)):
        found = read(FakeFile(data, 1 << 20, 8192, [range(100, 101), range(other, other + 1)]), errors="skip")
        assert [row["offset"] for row in sound_rows(found)] == [*(range(1, 9) if kept else ()), 10], other
        assert {damage.reason for damage in found.damage} == {"unreadable"}


def test_the_last_byte_of_a_file_on_a_page_of_its_own() -> None:
    first = builders.batch([builders.record(value=bytes(2000))])
    middle = b"".join(builders.good_batch(2, base_offset=1 + 2 * n) for n in range(4))
    missing = 4097 - len(first + middle)
    value = bytes(missing - len(builders.batch([builders.record(value=bytes(missing - 100))])) + missing - 100)
    last = builders.batch([builders.record(value=value)], base_offset=9)
    data = first + middle + last
    assert len(data) == 4097
    found = read(FakeFile(data, 1 << 20, 8192, [range(100, 101), range(4096, 4097)]), errors="skip")
    assert [row["offset"] for row in sound_rows(found)] == list(range(1, 9))


def test_a_window_takes_all_that_it_may() -> None:
    """One request for each window of 1000 bytes, not one for each batch."""
    data = b"".join(builders.good_batch(2, base_offset=2 * n) for n in range(100))
    for window in (1000, 5000, len(data)):
        fake = FakeFile(data, window)
        assert len(read(fake)) == 200
        assert fake.calls <= 2 * len(data) // window, window


def test_zeros_to_the_end_are_room_where_all_of_them_are_read() -> None:
    """Also where something in front of them could not be; not where one of them could not be, be it the last."""
    first, second = builders.good_batch(3), builders.good_batch(3, base_offset=3)
    for zeros in (12, 40, 5000, 9000):
        data = first + second + bytes(zeros)
        behind = len(first + second)
        for window in (64, 4096, 1 << 20):
            for bad, lost in (
                (range(70, 71), (0, len(first))),
                (range(behind - 1, behind), (len(first), len(second))),
                (range(behind, behind + 1), (behind, zeros)),
                (range(behind + 11, behind + 12), (behind, zeros)),
                (range(len(data) - 1, len(data)), (behind, zeros)),
            ):
                found = read(FakeFile(data, window, 8192, [bad]), errors="skip")
                assert [(damage.position, damage.length) for damage in found.damage] == [lost], (zeros, window, bad)
                assert found.damage[0].reason == "unreadable", (zeros, window, bad)
                assert found.remaining == (zeros if lost[0] < behind else 0)


def reasons(data: bytes, *bad: range, window: int = 1 << 20) -> list[tuple[int, int, str]]:
    found = read(FakeFile(data, window, 8192, list(bad)), errors="skip")
    return [(damage.position, damage.length, damage.reason) for damage in found.damage]


def test_an_end_that_cannot_be_read_is_none() -> None:
    """A tail or a batch that is cut is unreadable where a byte of it is, wherever; another refusal keeps its reason."""
    first, last = builders.good_batch(3), builders.good_batch(3, base_offset=3)
    start = len(first)
    cut = builders.patched(last, 8, (10**6).to_bytes(4, "big"))
    for tail in (last[:5], last[:14], last[:80], cut, bytes(40)):
        assert reasons(first + tail) == []
        for at in {0, 4, len(tail) // 2, len(tail) - 1}:
            bad = range(start + at, start + at + 1)
            assert refused(first + tail, bad)[:2] == ("unreadable", start), (len(tail), at)
            assert reasons(first + tail, bad) == [(start, len(tail), "unreadable")], (len(tail), at)
        if len(tail) >= 12:  # of fewer none is looked at
            assert refused(tail, range(1))[:2] == ("unreadable", 0)
            assert reasons(tail, range(1)) == [(0, len(tail), "unreadable")]
    # the byte that cannot be read is in a batch further on
    data = first + cut + builders.good_batch(3, base_offset=6) + last
    bad = range(len(data) - 1, len(data))
    assert reasons(data, bad)[0] == (start, len(cut), "unreadable")
    assert reasons(data)[0] == (start, len(cut), "length_beyond_end")
    data = first + b"\xff" * 40 + builders.good_batch(3, base_offset=6) + last
    assert reasons(data, range(len(data) - 1, len(data)))[0] == (start, 40, "size_too_small")


def test_a_refusal_is_unreadable_where_its_header_is() -> None:
    """61 bytes of it; a byte behind them changes nothing of what the header says."""
    first = builders.good_batch(3)
    for claim, reason in ((13, "size_too_small"), (40, "batch_too_small"), (2**31 - 1, "size_overflow")):
        bad_batch = builders.patched(builders.good_batch(3, base_offset=3), 8, claim.to_bytes(4, "big"))
        data = first + bad_batch + BEHIND
        for at, found in ((0, "unreadable"), (20, "unreadable"), (60, "unreadable"), (61, reason), (62, reason)):
            at += len(first)
            assert refused(data, range(at, at + 1))[:2] == (found, len(first)), (claim, at)


def test_a_claim_of_what_cannot_be_read_is_not_trusted() -> None:
    """It ends in the middle of a batch, so the batches inside of it are looked for."""
    forged = builders.batch(count=1, length=300, base_offset=1)
    inner = builders.good_batch(3, base_offset=2) + builders.good_batch(3, base_offset=5)
    data = builders.good_batch(1) + forged + b"\xff" * 20 + inner + builders.batch([builders.record(value=bytes(90))])
    start = len(builders.good_batch(1))
    bad = range(start + 70, start + 72)
    assert reasons(data, bad)[0] == (start, len(forged) + 20, "unreadable")
