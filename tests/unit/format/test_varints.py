"""Varints in Python: ByteUtils' rules, and the same as the engine's."""

import builders
import pytest

import kafkarec
from kafkarec.format import java_integers as varints

BORDERS = sorted({sign * (2**bits + step) for bits in range(64) for step in (-1, 0, 1) for sign in (1, -1)})


def zigzag(value):
    return varints.unsigned_varint((value << 1 ^ value >> 63) & (2**64 - 1))


@pytest.mark.parametrize("value", [value for value in BORDERS if -(2**63) <= value < 2**63])
def test_a_varlong_is_read_as_written_and_as_the_engine_reads_it(value):
    written = zigzag(value)
    for data in (written, written[:9] + bytes(byte | 0x7E for byte in written[9:])):  # excess bits are dropped
        assert varints.read_signed(data, 0, len(data), varints.VARLONG_BYTES) == (value, len(data))
        record = builders.sized(b"\0" + data + b"\0\1\1\0")
        (record,) = kafkarec.decode(builders.batch([record], base_timestamp=0))
        assert record.timestamp == (None if value == -1 else value)


@pytest.mark.parametrize(
    "data, value",
    [
        (b"\x00", 0),
        (b"\x01", -1),
        (b"\x02", 1),
        (b"\x7f", -64),
        (b"\x80\x01", 64),
        (b"\xfe\xff\xff\xff\x0f", 2**31 - 1),
        (b"\xff\xff\xff\xff\x0f", -(2**31)),
        (b"\xff\xff\xff\xff\x7f", -(2**31)),  # excess bits of the fifth byte are dropped
        (b"\x80\x80\x80\x80\x00", 0),
    ],
)
def test_a_varint_of_32_bits(data, value):
    assert varints.read_signed(data, 0, len(data)) == (value, len(data))
    assert varints.read_signed(b"\xff" + data + b"\xff", 1, 9) == (value, 1 + len(data))
