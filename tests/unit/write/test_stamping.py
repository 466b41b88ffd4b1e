"""Headers changed in place: which fields change, when the checksum is computed again, and what is refused."""

import mmap

import pytest
from refusals import refused

import kafkarec
from kafkarec import RecordBatchBuilder, stamp

pytestmark = pytest.mark.core

APPEND_TIME = {"timestamp_type": "log_append_time", "max_timestamp": 99}


def batch(count=3, **options):
    builder = RecordBatchBuilder(base_offset=10, **options)
    for number in range(count):
        builder.append(1000 + number, b"key", b"value")
    return bytearray(builder.build())


def rows(data):
    """Return (offset, timestamp) of each record, with every checksum verified."""
    return [(r.offset, r.timestamp) for r in kafkarec.decode(data, check_crcs="all")]


@pytest.mark.parametrize("codec", ["none", "gzip", "zstd"])
def test_offsets_change_and_the_checksum_stays(codec):
    for name, value in (("base_offset", 500), ("last_offset", 502)):
        data = batch(compression=codec)
        crc = data[17:21]
        assert stamp(data, **{name: value}) == len(data)
        assert rows(data) == [(500, 1000), (501, 1001), (502, 1002)] and data[17:21] == crc


def test_offsets_of_magic_0_and_1():
    for magic in (0, 1):
        plain = batch(1, magic=magic)
        for name in ("base_offset", "last_offset"):
            stamp(plain, **{name: 77})
            assert rows(plain)[0][0] == 77
        wrapper = batch(magic=1, compression="gzip")
        stamp(wrapper, last_offset=500)
        assert [offset for offset, _ in rows(wrapper)] == [498, 499, 500]
        with pytest.raises(ValueError, match="give last_offset"):
            stamp(wrapper, base_offset=1)


def test_a_batch_with_the_right_values_is_not_changed():
    """Not even a wrong checksum or unused attribute bits."""
    data = batch()
    data[17] ^= 1
    data[21] |= 0x80
    before = bytes(data)
    stamp(data, timestamp_type="create_time", max_timestamp=1002)
    assert bytes(data) == before
    stamp(data, max_timestamp=1003)
    assert data[21] == 0 and rows(data)


def test_one_of_many():
    many = batch() + batch(1, magic=1) + batch(2, compression="zstd")
    first, second = len(batch()), len(batch(1, magic=1))
    assert stamp(many, position=first, base_offset=900) == first + second
    assert [offset for offset, _ in rows(many)] == [10, 11, 12, 900, 10, 11]
    assert stamp(many, position=first + second, base_offset=2**40) == len(many)
    assert [offset for offset, _ in rows(many)] == [10, 11, 12, 900, 2**40, 2**40 + 1]


def test_base_offsets_keep_the_gaps_of_a_compacted_batch():
    builder = RecordBatchBuilder(base_offset=10)
    builder.append(0, b"", b"", offset=15)
    builder.override_last_offset(19)
    data = bytearray(builder.build())
    assert stamp(data, base_offset=0) == len(data)
    assert [offset for offset, _ in rows(data)] == [5]


@pytest.mark.parametrize(
    "options, fields, words",
    [
        ({"magic": 0}, {"partition_leader_epoch": 1}, "no partition leader epoch"),
        ({"magic": 1}, {"partition_leader_epoch": 1}, "no partition leader epoch"),
        ({"magic": 0}, {"max_timestamp": 1}, "no timestamp"),
        ({"magic": 0}, {"timestamp_type": "create_time"}, "no timestamp"),
        ({}, {"base_offset": 1, "last_offset": 1}, "one of them"),
        ({}, {"base_offset": 2**63}, "does not fit 64 bits"),
        ({}, {"partition_leader_epoch": 2**31}, "does not fit 32 bits"),
        ({}, {"timestamp_type": "none"}, "create_time, log_append_time"),
        ({}, {"position": -1}, "below 0"),
        ({}, {"position": 2**63}, "does not fit 64 bits"),
    ],
)
def test_refusals_change_nothing(options, fields, words):
    data = batch(1, **options)
    before = bytes(data)
    fields = {"last_offset": 5, **fields} if "base_offset" not in fields else fields
    with pytest.raises(ValueError, match=words):
        stamp(data, **fields)
    assert bytes(data) == before


@pytest.mark.parametrize(
    "damage, reason",
    [
        (lambda data: data[:16], "batch_too_small"),
        (lambda data: data[:-1], "length_beyond_end"),
        (lambda data: data[:8] + b"\0\0\0\x0d" + data[12:], "size_too_small"),
        (lambda data: data[:8] + b"\0\0\0\x20" + data[12:], "batch_too_small"),
        (lambda data: data[:8] + b"\x7f\xff\xff\xff" + data[12:], "size_overflow"),
        (lambda data: data[:16] + b"\x03" + data[17:], "unsupported_magic"),
        (lambda data: data[:22] + b"\x07" + data[23:], "unsupported_codec"),
    ],
)
def test_what_is_no_batch(damage, reason):
    front = batch()
    error = refused(stamp, front + bytearray(damage(batch())), position=len(front), **APPEND_TIME)
    assert error.reason == reason and error.position == len(front)


def test_an_offset_that_is_no_number_is_refused():
    with pytest.raises(TypeError):
        stamp(batch(), base_offset="1")


def test_any_writable_buffer_is_stamped_in_place():
    with pytest.raises(TypeError, match="not writable"):
        stamp(bytes(batch()), base_offset=1)
    held = bytearray(b"####" + batch())
    stamp(memoryview(held)[4:], base_offset=7)
    assert held[:4] == b"####" and rows(held[4:])[0][0] == 7
    with mmap.mmap(-1, 4096) as pages:
        pages[: len(batch())] = bytes(batch())
        assert stamp(pages, base_offset=7, **APPEND_TIME) == len(batch())
        assert rows(pages[: len(batch())]) == [(7, 99), (8, 99), (9, 99)]
