"""The memory of a chunk's buffers: what their rows need, and 64 bytes after them for wide copies.

No result would show a larger buffer, nor a smaller one that is written beyond its end. So each buffer's size
is read from the allocator, which rounds it up by a few bytes.
"""

import ctypes
from itertools import pairwise

import builders
import pyarrow as pa
import pytest
import reading
from fake_file import FakeFile

import kafkarec
from kafkarec._core import PassResult, Source

pytestmark = pytest.mark.core

SLACK, ROUNDED = 64, 80


def held(address):
    """Return the bytes of the allocation that begins at this address."""
    if not hasattr(ctypes.CDLL(None), "malloc_usable_size"):
        pytest.skip("this C library does not tell")
    ask = ctypes.CDLL(None).malloc_usable_size
    ask.restype, ask.argtypes = ctypes.c_size_t, [ctypes.c_void_p]
    return int(ask(address))


def given(size):
    """Return the allocated size: 64, 80, 96, 112, 128, 160, 192, 224, 256, 320 and so on."""
    return next(n for k in range(104) if (n := (4 + k % 4) << (4 + k // 4)) >= size)


def assert_takes(address, wanted, what):
    wanted = given(wanted)
    assert wanted <= held(address) < wanted + ROUNDED, (what, wanted, held(address))


def read(decoder, data):
    """Decode a file: of a small input in memory the buffers are parts of one page."""
    decoder.feed(Source(file=FakeFile(data, window_bytes=1 << 16)))
    assert not decoder.run()
    [chunk] = decoder.take().chunks
    return chunk


def of(count, key=None, value=None, headers=()):
    return builders.batch(
        [builders.record(offset_delta=n, key=key, value=value, headers=headers) for n in range(count)]
    )


def block(rows, *bits):
    """Return the bytes of arrays behind one another, each with one entry more and the slack, at a multiple of 64."""
    return sum((rows * width // 8 + 2 * SLACK) // SLACK * SLACK for width in bits)


@pytest.mark.parametrize(
    "names",
    [
        ["offset"],
        ["timestamp"],
        ["timestamp_type"],
        ["key"],
        ["key", "value"],
        ["headers"],
        ["offset", "timestamp", "timestamp_type", "key", "value", "headers"],
    ],
)
def test_the_buffers_of_a_small_input_in_memory_are_parts_of_one_page(names):
    """Each begins at a multiple of 64 bytes and has the slack; together they take no more than the page."""
    for count in (1, 2, 30, 300):
        data = of(count, b"k", b"v" * 3)
        columns = kafkarec.decode(data, columns=names)
        ((chunk, _, _),) = columns._slices
        found = [[chunk.address(index, buffer) for buffer in range(3)] for index in range(len(names))]
        page = min(address for buffers in found for address in buffers if address)
        wanted = 38 * SLACK + 56 * count + 2 * (len(data) - 61)
        assert_takes(page, wanted, (count, names))
        addresses = sorted({address for buffers in found for address in buffers if address})
        inside = [address for address in addresses if page <= address < page + given(wanted)]
        assert inside == addresses
        assert all(address % 64 == 0 for address in inside)
        assert all(b - a >= SLACK for a, b in pairwise(inside))


@pytest.mark.parametrize("header", [(b"name", b"a value"), (b"a longer name", b"1")])
def test_memory_of_a_chunk_is_reserved_in_advance(header):
    """After the first batch as much as all that follow take if they are like it, and a sixteenth more; keys and values
    also the batch's size, since the last one may consist of one."""
    names = ["offset", "timestamp", "timestamp_type", "key", "value", "headers"]
    for count, batches in ((5, 9), (16, 12), (32, 20), (200, 9)):
        asked, batch = reading.decode_request(columns=names), of(count, b"key", b"v" * 9, [header])
        chunk = read(asked.decoder(), batch * batches)
        alike = 1 + (batches - 1) * 17 // 16
        assert_takes(chunk.address(0, 1), block(count * alike, 64, 64, 1, 8, 32, 1, 32, 1, 32), count)
        for column, used in ((3, 3 * count), (4, 9 * count)):
            assert_takes(chunk.address(column, 2), used * alike + len(batch) - 61 + SLACK, (count, column))
        entries = pa.table(reading.as_columns(asked, PassResult([chunk], [], []))).column("headers").chunk(0).values
        (_, key_ends, keys), (*_, values) = (
            [None if buffer is None else buffer.address for buffer in field.buffers()] for field in entries.flatten()
        )
        longest = max(map(len, header)) * count
        for address, text in ((keys, header[0]), (values, header[1])):
            assert held(address) >= len(text) * count + longest * (alike - 1) + SLACK, count
        assert_takes(key_ends, block(count * alike, 32, 1, 32, 1), count)
