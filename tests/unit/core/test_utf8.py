"""Header keys as Java reads them: all pairs of bytes, and three and four bytes at the limits, cut anywhere.

All are keys of a few records: as text, and as stored bytes under header_keys="binary".
"""

import itertools

import builders
import pyarrow as pa
import pytest
from java_text import java_utf8

import kafkarec

pytestmark = pytest.mark.core

BORDERS = (0x00, 0x41, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0, 0xC2, 0xE0, 0xED, 0xF0, 0xF4, 0xFF)
LAST = (0x41, 0x7F, 0x80, 0xBF, 0xC0, 0xF4)
LEADS = (0xE0, 0xE1, 0xEC, 0xED, 0xEE, 0xEF, 0xF0, 0xF1, 0xF3, 0xF4, 0xF5, 0xF7, 0xF8, 0xFF)


def sequences():
    yield from (bytes([first]) for first in range(256))
    yield from (bytes(two) for two in itertools.product((0x7F, 0x80, 0xBF, *range(0xC0, 256)), range(256)))
    yield from (bytes(three) for three in itertools.product(range(0xE0, 256), BORDERS, BORDERS))
    yield from (bytes(four) for four in itertools.product(LEADS, BORDERS, LAST, LAST))
    # a lead byte in the middle of a text, with one byte less after it than it needs
    for lead, text in itertools.product(LEADS, (b"ab\x80", b"\xc3\xbc", b"\x90\x80", b"\x80\x80\x80\x80", b"")):
        yield from (b"x" * n + bytes([lead]) + text + b"y" * (n % 3) for n in range(20))


def header_keys(keys, *, binary):
    """Return the decoded keys, from records of 5000 headers; no bytes follow the last record."""
    rows = [
        builders.record(headers=[(key, None) for key in keys[at : at + 5000]], offset_delta=at // 5000)
        for at in range(0, len(keys), 5000)
    ]
    columns = kafkarec.decode(builders.batch(rows), columns=["headers"], header_keys="binary" if binary else "utf8")
    table = pa.table(columns)
    table.validate(full=True)
    return table.column("headers").combine_chunks().flatten().field("key").to_pylist()


def test_every_malformed_key_is_replaced_as_java_does():
    keys = list(sequences())
    assert len(keys) > 30_000
    for key, result in zip(keys, header_keys(keys, binary=False), strict=True):
        assert result == java_utf8(key), key.hex()
    assert header_keys(keys, binary=True) == keys


def test_a_cut_key_uses_no_byte_after_it():
    """The following value's length may look like a continuation byte: 64 is 80 01, 95 is be 01."""
    cut = [b"\xc3", b"\xe4", b"\xe4\xb8", b"\xed\x9f", b"\xf0", b"\xf0\x90", b"\xf0\x90\x80", b"\xf4\x80\x80"]
    for size in (64, 72, 80, 95):
        headers = [(front + key, b"v" * size) for key in cut for front in (b"", b"abc")]
        for following in (b"", builders.record(value=bytes(100))):
            row = builders.record(headers=headers)
            data = builders.batch([row, following] if following else [row])
            result = kafkarec.decode(data)[0].headers
            assert [name for name, _ in result] == [java_utf8(key) for key, _ in headers]
            assert {value for _, value in result} == {b"v" * size}
