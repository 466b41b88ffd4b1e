"""Every length and count of a magic 2 record at its borders: as the oracle has it, at any position of the record.

A record with 64 bytes behind it is read in the quick form, the last ones of a payload in the exact form. Each spoiled
record is tried alone (exact), in front of a long one (quick), behind one (exact), and with one byte less than the quick
form wants behind it. What is refused is refused for the same reason in both.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import builders
import pytest
import reading
from builders import varint
from core_reading import INT_MAX, INT_MIN, LONG_MAX, LONG_MIN, judge, refusal, sound_rows, spellings, told
from core_records import FIELDS, GOOD, LENGTHS, REFUSED, body, near

import kafkarec

pytestmark = pytest.mark.core

LONG = builders.record(offset_delta=7, timestamp_delta=9, key=b"K" * 40, value=b"V" * 90)


def placed(record: bytes) -> Iterator[bytes]:
    """The record alone, first, last, and at either side of the quick form's border."""
    yield builders.batch([record])
    yield builders.batch([record, LONG])
    yield builders.batch([LONG, record])
    for behind in (30, 31, 64):
        filler = builders.record(key=None, value=b"x" * (behind - 7))
        assert len(filler) == behind
        yield builders.batch([record, filler])


def judged(record: bytes) -> tuple[Any, ...]:
    """The oracle's verdict in every place; the refusal, which is the same in all of them."""
    refusals = [told(judge(data)) for data in placed(record)]
    first = refusals[0]
    for number, other in enumerate(refusals):
        assert other == first, f"{record.hex()}: alone {first}, in place {number} {other}"
    return first


@pytest.mark.parametrize("field", LENGTHS)
def test_a_length_or_count_in_a_record_at_its_borders(field: str) -> None:
    for value in near(LENGTHS[field]) | {len(body()) - n for n in range(16)}:
        spoiled = body(**{field: varint(value)})
        judged(builders.sized(spoiled))


@pytest.mark.parametrize("field", LENGTHS)
def test_every_spelling_of_a_length_or_count(field: str) -> None:
    for spelling in spellings(LENGTHS[field], 5):
        found = judged(builders.sized(body(**{field: spelling})))
        if len(spelling) == 6 or spelling[4:5] >= b"\x80":
            assert found[1] == "varint_too_long", spelling.hex()


@pytest.mark.parametrize(("field", "most"), [("timestamp_delta", 10), ("offset_delta", 5)])
def test_every_spelling_of_a_delta(field: str, most: int) -> None:
    values = {0, -1, 63, 64, -64, -65, 8192, 2**20, 2**27 - 1, 2**27, INT_MAX, INT_MIN}
    if most == 10:
        values = {0, -1, 64, 2**34, 2**55, 2**62 - 1, 2**62, LONG_MAX, LONG_MIN}
    for value in values:
        for spelling in spellings(value, most):
            found = judged(builders.sized(body(**{field: spelling})))
            too_long = len(spelling) > most or spelling[-1] >= 0x80
            assert (found[1:2] == ("varint_too_long",)) == too_long, spelling.hex()


def test_a_records_length_at_its_borders() -> None:
    for fields in (body(), body(header_count=b"\x00", **dict.fromkeys(FIELDS[8:], b"")), b"\0\0\0\1\1\0"):
        for length in near(len(fields)) | set(range(-3, len(fields) + 3)):
            for data in placed(builders.sized(fields, length)):
                judge(data)
        for spelling in spellings(len(fields), 5):
            for data in placed(spelling + fields):
                judge(data)


def test_a_records_attributes_are_passed_over() -> None:
    for attributes in (1, 0x7F, 0x80, 0xFF):
        assert judged(builders.sized(body(attributes=bytes([attributes])))) == ()


def cut(field: str, behind: bytes = b"") -> bytes:
    """A record that ends right in front of a field, or with these bytes of it."""
    parts = [GOOD[name] for name in FIELDS[: FIELDS.index(field)]]
    return builders.sized(b"".join(parts) + behind)


@pytest.mark.parametrize("field", FIELDS)
def test_a_record_that_ends_before_a_field(field: str) -> None:
    """What stands behind the record's end is no part of it, whatever it would say."""
    assert judged(cut(field)) != ()


@pytest.mark.parametrize("field", [name for name in FIELDS if name.endswith(("delta", "length", "count"))])
def test_a_record_that_ends_in_a_varint(field: str) -> None:
    """It needs one byte more, of which none is left. A header takes two bytes at least, or its count is refused."""
    for behind in (b"", b"\x80", b"\x80\x80"):
        found = judged(cut(field, behind))
        if field == "header_key_length" and len(behind) < 2:
            assert found[1:] == ("header_count_invalid", 0, 0, 0, 1)
        else:
            assert found[1:] == ("message_truncated", 0, 0, 1, 0), behind


@pytest.mark.parametrize("reason", REFUSED)
def test_a_bad_record_is_refused_for_its_reason_in_the_quick_and_the_exact_form(reason: str) -> None:
    for fields, expected, found in REFUSED[reason]:
        said = judged(builders.sized(fields))
        assert said[:4] == (kafkarec.InvalidRecordError, reason, 0, 0), fields.hex()
        if expected is not None:
            assert said[4] == expected, fields.hex()
        if found is not None:
            assert said[5] == found, fields.hex()


def test_a_record_length_beyond_its_payload() -> None:
    for length, behind in ((7, b""), (-1, b""), (INT_MAX, b""), (107, b"x" * 100), (-1, b"x" * 100)):
        error = judge(builders.batch([builders.sized(b"\0\0\0\1\1\0" + behind, length)]))
        assert told(error)[1:] == ("record_length_invalid", 0, 0, 6 + len(behind), length)
    for spelling in (b"\x80" * 5 + b"\0", b"\xff" * 5):
        for behind in (b"", b"x" * 100):
            assert told(judge(builders.batch([spelling + b"\0\0\0\1\1\0" + behind])))[1] == "varint_too_long"


def test_the_number_of_records_at_its_borders() -> None:
    """Each record takes seven bytes at least; a batch with a larger record count is too short."""
    least = builders.record(key=None, value=None)
    assert len(least) == 7
    for records in ([], [least], [least] * 2, [least] * 20, [LONG], [least, LONG], [LONG, least]):
        size = sum(map(len, records))
        exact = len(records)
        for count in near(exact) | {size // 7 - 1, size // 7, size // 7 + 1, size // 7 + 2, -INT_MAX}:
            found = told(judge(builders.batch(records, count=count)))
            if count < 0:
                assert found[1:] == ("record_count_negative", 0, 0, 0, count)
            elif count > exact:
                assert found[1:] == ("records_missing", 0, 0, count, exact)
            elif 0 < count < exact:
                assert found[1:] == ("records_left_over", 0, 0, count, sum(map(len, records[count:])))
            else:
                assert found == ()


def test_every_record_of_the_smallest_has_its_timestamp_type() -> None:
    """What is set aside for a batch goes by seven bytes a record: as many records as its bytes allow get their type."""
    for count in (1, 2, 3, 8, 9, 63, 64, 65, 200):
        data = builders.batch([builders.record(key=None, value=None)] * count, attributes=8, max_timestamp=5)
        assert judge(data) is None
        assert [row["timestamp_type"] for row in sound_rows(kafkarec.decode(data))] == [1] * count


def test_the_record_that_is_at_fault_is_named() -> None:
    bad = builders.record(key_length=99)
    for before in range(4):
        for behind in range(3):
            error = refusal(builders.batch([LONG] * before + [bad] + [LONG] * behind))
            assert error is not None and f"record {before} of its batch" in str(error)


@pytest.mark.parametrize("size", [0, 1, 31, 32, 33, 64, 512, 513, 544, 8192])
def test_keys_and_values_of_every_size_are_copied_whole(size: int) -> None:
    text = (b"0123456789abcdefghijklmnopqrstuvwxyz" * 300)[:size]
    for key, value in ((text, b"v"), (b"k", text), (text, text), (None, text), (text, None)):
        for header in (text, None):
            record = builders.record(key=key, value=value, headers=[(text, header), (b"h", b"")])
            for data in (builders.batch([record]), builders.batch([record, LONG]), builders.batch([record] * 3)):
                assert judge(data) is None


def test_header_counts_at_varint_borders() -> None:
    for count in (1, 2, 63, 64, 65, 8192):
        record = builders.record(headers=[(b"", None)] * count)
        for records in ([record], [record, LONG]):
            assert judge(builders.batch(records)) is None


def test_a_header_takes_two_bytes_at_least() -> None:
    """A count above half of what is left of the record is refused before anything is set aside for it."""
    for left in range(12):
        for count in range(left // 2 + 1, left + 2):
            said = judged(builders.sized(b"\0\0\0\1\1" + varint(count) + b"\0\1" * (left // 2) + b"\0" * (left % 2)))
            assert said[1:] == ("header_count_invalid", 0, 0, left // 2, count)


def test_header_keys_that_are_not_utf8_take_their_room() -> None:
    """Each stray byte becomes three; what was set aside for the keys behind is made again."""
    for size in (1, 21, 22, 63, 64, 65, 1000, 5000):
        for behind in (b"", b"h" * size):
            record = builders.record(key=None, value=None, headers=[(b"\xff" * size, b"v" * size), (behind, None)] * 3)
            for records in ([record], [record, LONG]):
                assert judge(builders.batch(records)) is None


def test_header_keys_become_text_as_in_java() -> None:
    """Every lead byte with followers at the borders of their ranges, whole and cut; a stray byte in every place."""
    followers = (0x00, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0)
    leads = (
        0x7F,
        0x80,
        0xBF,
        0xC0,
        0xC1,
        0xC2,
        0xDF,
        0xE0,
        0xE1,
        0xEC,
        0xED,
        0xEE,
        0xEF,
        0xF0,
        0xF1,
        0xF3,
        0xF4,
        0xF5,
        0xF7,
        0xF8,
        0xFF,
    )
    keys = [bytes([lead]) for lead in range(256)]
    for lead in leads:
        for second in followers:
            keys += [bytes([lead, second]), bytes([lead, second]) + b"a", bytes([lead, second, 0x80])]
            keys += [bytes([lead, second, third, 0x80]) for third in followers]
            keys += [bytes([lead, second, 0x80, fourth]) for fourth in followers]
    keys += [
        b"a" * at + stray + b"a" * (n - at)
        for stray in (b"\xc3\xa9", b"\xff")
        for n in range(18)
        for at in range(n + 1)
    ]
    for behind in ([], [LONG]):
        rows = [builders.record(headers=[(key, None) for key in keys[n : n + 500]]) for n in range(0, len(keys), 500)]
        assert judge(builders.batch([*rows, *behind])) is None


def test_a_projection_passes_through_the_same_checks() -> None:
    good = builders.batch([builders.sized(body()), LONG, builders.record(key=None, value=None)])
    wanted = reading.by_columns(good)
    for names in (["offset"], ["timestamp"], ["timestamp_type"], ["key"], ["value"], ["headers"], ["value", "offset"]):
        assert sound_rows(kafkarec.decode(good, columns=names)) == [{n: row[n] for n in names} for row in wanted]
        for records in REFUSED.values():
            for fields, *_ in records:
                for data in (builders.batch([builders.sized(fields)]), builders.batch([builders.sized(fields), LONG])):
                    assert told(refusal(data, columns=names)) == told(refusal(data))


def test_a_bad_record_is_counted_within_its_batch() -> None:
    """Behind other batches of the same chunk."""

    def payload(third: bytes) -> bytes:
        return builders.batch(payload=LONG * 2 + third, base_offset=5, count=3)

    bad = builders.sized(body(key_length=varint(INT_MAX)))
    for batch, reason, expected, found in (
        (builders.batch([LONG, LONG, bad], base_offset=5), "key_length_invalid", 17, INT_MAX),
        (builders.batch([LONG, LONG, bad, LONG], base_offset=5), "key_length_invalid", 17, INT_MAX),
        (builders.batch([LONG, LONG], base_offset=5, count=4), "records_missing", 4, 2),
        (payload(varint(9) + bytes(8)), "record_length_invalid", 8, 9),
        (payload(b"\xff" * 6), "varint_too_long", None, None),
    ):
        for before in (b"", builders.good_batch(5)):
            error = refusal(before + batch)
            assert told(error)[1:] == (reason, len(before), 5, expected, found)
            assert "record 2 of its batch" in str(error)
    for before in (b"", builders.good_batch(5)):
        left = refusal(before + builders.batch([LONG, LONG], base_offset=5, count=1))
        assert told(left)[1:] == ("records_left_over", len(before), 5, 1, len(LONG))
        assert "record" not in str(left).partition(" at byte ")[2]
