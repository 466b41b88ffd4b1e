"""Frames and headers of every magic, messages of magic 0 and 1 and wrappers: each field at its limits.

Every changed batch has a right checksum, so that the field itself is judged. The oracle's verdict must hold for the
batch alone, with enough bytes after it to continue reading, and after a good batch.
"""

import struct

import builders
import oracle
import pytest
import reading
from builders import patched, with_crc, with_legacy_crc
from core_reading import INT_MAX, INT_MIN, decode_error, error_as_oracle, error_fields
from plain_logs import batch

import kafkarec

pytestmark = pytest.mark.core

GOOD = batch(1000, 3)
BORDERS = (INT_MIN, INT_MIN + 1, -2, -1, 0, 1, 2, 3, 4, INT_MAX - 13, INT_MAX - 12, INT_MAX - 11, INT_MAX - 1, INT_MAX)


def int32(value):
    return struct.pack(">i", value)


def in_every_place(data):
    """Return the error, equal for the bytes alone and followed by others; `scan` agrees with the oracle."""
    alone, followed = error_fields(error_as_oracle(data)), error_fields(error_as_oracle(data + GOOD * 2))
    assert followed == alone
    following = error_fields(error_as_oracle(GOOD + data))
    assert bool(following) == bool(alone)
    if following:
        assert following[:2] == alone[:2] and following[2] == alone[2] + len(GOOD)
    if not alone:
        wanted = [batch.columns for batch in oracle.decode(data).batches]
        assert reading.arrow_rows(kafkarec.scan(data)) == wanted
        assert reading.arrow_rows(kafkarec.decode(data, control=True).batches) == wanted
    return alone


@pytest.mark.parametrize("magic", [0, 1, 2])
def test_a_size_at_its_limits(magic):
    """Below 14 and above 2^31-13: no frame; then the header's minimum size counts; larger sizes are cut tails."""
    whole = batch(0, 2) if magic == 2 else builders.message(magic=magic, key=b"k" * 90)
    least = {0: 14, 1: 22, 2: 49}[magic]
    for claimed in (*BORDERS, *range(11, 24), *range(47, 52), len(whole) - 13, len(whole) - 12, len(whole) - 11):
        for following in (b"", GOOD):
            data = patched(whole, 8, int32(claimed))
            if 14 <= claimed <= len(data) - 12:
                data = data[: 12 + claimed]
                if magic == 2 and claimed >= 49:
                    data = with_crc(data)
                elif magic < 2:
                    data = with_legacy_crc(data)
                data += following
            verdict = error_fields(error_as_oracle(data))
            if claimed < 14:
                assert verdict == (kafkarec.CorruptRecordError, "size_too_small", 0, 0, 14, claimed)
            elif claimed > INT_MAX - 12:
                assert verdict == (kafkarec.CorruptRecordError, "size_overflow", 0, 0, INT_MAX - 12, claimed)
            elif claimed < least:
                assert verdict[1:] == ("batch_too_small", 0, 0, least + 12, claimed + 12)
            elif claimed > len(whole) - 12:
                assert verdict == () and kafkarec.decode(data).remaining == len(data)


MESSAGES = [("key_length", 3), ("value_length", 5)]


def legacy_places(raw, magic):
    """Yield a message alone, first, last; and as the first and last inner message of a wrapper."""
    long = builders.message(magic=magic, offset=7, key=b"K" * 60, value=b"V" * 90)
    yield raw, 0
    yield raw + GOOD, 0
    yield long + raw, len(long)
    if raw[17] & 7 == 0:
        for codec in ("gzip", "lz4"):
            yield builders.wrapper([raw, long], magic=magic, codec=codec, offset=9), 0
            yield builders.wrapper([long, raw], magic=magic, codec=codec, offset=9), 0
            yield builders.wrapper([raw], magic=magic, codec=codec, offset=9), 0


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("field, exact", MESSAGES)
def test_a_length_in_a_message_at_its_limits(magic, field, exact):
    for value in (
        *BORDERS,
        exact - 1,
        exact,
        exact + 1,
        exact + 4,
        exact + 5,
        exact + 8,
        exact + 9,
        exact + 10,
        20,
        1000,
    ):
        for following in (b"", b"x", b"xxxx"):
            raw = builders.message(magic=magic, key=b"key", value=b"value", trailing=following, **{field: value})
            refusals = []
            for data, position in legacy_places(raw, magic):
                error = error_fields(error_as_oracle(data))
                refusals.append((*error[:2], *error[4:]))
                assert error == () or error[2] == position
            assert all(other == refusals[0] for other in refusals), (value, refusals)
            if refusals[0]:
                assert refusals[0][1] == "message_truncated"


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4"])
def test_the_content_of_a_wrapper_at_its_limits(magic, codec):
    inner = [builders.message(magic=magic, offset=n, key=None, value=b"v" * 70) for n in range(3)]

    def verdict(parts, **fields):
        return in_every_place(
            builders.wrapper(parts, magic=magic, codec=codec, offset=fields.pop("offset", 2), **fields)
        )

    assert verdict(inner) == ()
    for claimed in (INT_MIN, -1, 0, 12, 13):
        small = patched(inner[0], 8, int32(claimed))
        for parts in ([small], [small, inner[1]], [*inner, small]):
            assert verdict(parts)[1:] == ("inner_size_too_small", 0, 2, 14, claimed)
        assert verdict([inner[0], small[:12]])[1:2] == ("inner_size_too_small",)
        assert verdict([inner[0], small[:11]]) == ()
    for nested in (1, 2, 3, 4, 7):
        bad = builders.message(magic=magic, attributes=nested)
        for parts in ([bad], [bad, *inner], [*inner, bad]):
            assert verdict(parts)[1:] == ("inner_compressed", 0, 2, 0, nested)
    assert verdict([])[1:2] == ("wrapper_empty",)
    for cut in range(1, len(inner[0])):
        error = error_as_oracle(builders.wrapper(inner[0][:cut], magic=magic, codec=codec))
        assert error is not None and error.reason == "wrapper_empty"
        assert error_as_oracle(builders.wrapper(inner[0] + inner[1][:cut], magic=magic, codec=codec, offset=2)) is None
    empty = builders.message(magic=magic, attributes=builders.CODEC_IDS[codec], value=b"")
    assert error_fields(decode_error(empty))[1] in ("payload_corrupt", "wrapper_empty")
    for length in (-1, -2, INT_MIN):
        raw = builders.message(magic=magic, attributes=builders.CODEC_IDS[codec], value=b"", value_length=length)
        assert in_every_place(raw)[1:] == ("wrapper_value_null", 0, 0, None, None)
