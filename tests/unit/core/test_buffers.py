"""The memory of a chunk's buffers: what their rows need, and 64 bytes after them for wide copies.

No result would show a larger buffer, nor a smaller one that is written beyond its end. So each buffer's size
is read from the allocator, which rounds it up by a few bytes.
"""

from __future__ import annotations

import ctypes
import gc
from itertools import pairwise
from typing import Any

import builders
import pyarrow as pa
import pytest
import reading
from fake_file import FakeFile

import kafkarec
from kafkarec._core import Chunk, Source

pytestmark = pytest.mark.core

SLACK, ROUNDED = 64, 80
FIXED = {"offset": 8, "timestamp": 8, "timestamp_type": 1}


def held(address: int) -> int:
    """Return the bytes of the allocation that begins at this address."""
    if not hasattr(ctypes.CDLL(None), "malloc_usable_size"):
        pytest.skip("this C library does not tell")
    ask = ctypes.CDLL(None).malloc_usable_size
    ask.restype, ask.argtypes = ctypes.c_size_t, [ctypes.c_void_p]
    return int(ask(address))


def given(size: int) -> int:
    """Return the allocated size: 64, 80, 96, 112, 128, 160, 192, 224, 256, 320 and so on."""
    return next(n for k in range(104) if (n := (4 + k % 4) << (4 + k // 4)) >= size)


def assert_takes(address: int, wanted: int, what: object) -> None:
    wanted = given(wanted)
    assert wanted <= held(address) < wanted + ROUNDED, (what, wanted, held(address))


def source(data: bytes) -> Source:
    """Return a file: of a small input in memory the buffers are parts of one page."""
    return Source(file=FakeFile(data, window_bytes=1 << 16))


def read(decoder: Any, data: bytes) -> Chunk:
    decoder.feed(source(data))
    assert not decoder.run()
    chunk, _ = decoder.take()
    return chunk


def of(count: int, key: bytes | None = None, value: bytes | None = None, headers: Any = ()) -> bytes:
    return builders.batch(
        [builders.record(offset_delta=n, key=key, value=value, headers=headers) for n in range(count)]
    )


@pytest.mark.parametrize(
    ("names", "parts", "row", "values"),
    [
        (["offset"], 1, 8, 0),
        (["timestamp"], 2, 9, 0),
        (["timestamp_type"], 1, 1, 0),
        (["key"], 3, 5, 1),
        (["key", "value"], 6, 10, 2),
        (["headers"], 7, 4, 0),
        (["offset", "timestamp", "timestamp_type", "key", "value", "headers"], 17, 32, 2),
    ],
)
def test_the_buffers_of_a_small_input_in_memory_are_parts_of_one_page(
    names: list[str], parts: int, row: int, values: int
) -> None:
    """Each begins at a multiple of 64 bytes and has the slack; together they take no more than the page."""
    for count in (1, 2, 30, 300):
        data = of(count, b"k", b"v" * 3)
        columns = kafkarec.decode(data, columns=names)
        payload = len(data) - 61
        ((chunk, _, _),) = columns._pieces
        found = [[chunk.address(index, buffer) for buffer in range(3)] for index in range(len(names))]
        page = found[0][1]
        wanted = (parts + 1) * 2 * SLACK + count * row + payload * values
        assert_takes(page, wanted, (count, names))
        addresses = sorted({address for buffers in found for address in buffers if address})
        inside = [address for address in addresses if page <= address < page + given(wanted)]
        assert len(addresses) - len(inside) == ("timestamp_type" in names), "whose validity is made afterwards"
        assert all(address % 64 == 0 for address in inside)
        assert all(b - a >= SLACK for a, b in pairwise(inside))


@pytest.mark.parametrize("name", FIXED)
def test_memory_of_columns_of_numbers(name: str) -> None:
    """For one batch, and for a second that does not fit: half as much again, or what is needed. After the first there
    is space for as many more like it as the input has bytes for."""
    width = FIXED[name]

    def grown(size: int, rows: int) -> int:
        needed = rows * width + SLACK
        return size if needed <= size else given(max(needed, size + size // 2))

    for count in (*range(1, 30), 50, 100, 300):
        chunk = read(reading.decoder(name), of(count))
        assert_takes(chunk.address(0, 1), count * width + SLACK, count)
        for more in (1, count // 2 + 1, 2 * count):
            first, second = of(count), of(more)
            alike = len(first + second) // len(first) - 1
            size = grown(given(count * width + SLACK), count + alike * (count + count // 16))
            size = grown(size, count + more)
            if size < 4096:
                chunk = read(reading.decoder(name), first + second)
                assert_takes(chunk.address(0, 1), size, (count, more))


def test_memory_of_validity_bits() -> None:
    """One byte per 8 rows; a growing buffer is copied."""
    for count in (1, 7, 8, 9, 64, 500, 1000, 2000):
        for name, buffer in (("timestamp", 0), ("key", 0), ("value", 0), ("timestamp_type", 0), ("partition", 0)):
            chunk = read(reading.decoder(name), of(count))
            assert_takes(chunk.address(0, buffer), count // 8 + SLACK, (name, count))


@pytest.mark.parametrize("name", ["key", "value"])
def test_memory_of_columns_of_bytes(name: str) -> None:
    """End offsets of four bytes, one more than rows; and as many bytes of data as the batch's records have."""
    for count in (*range(1, 20), 50, 100, 500):
        for size in (0, 1, 5):
            data = of(count, **{name: b"x" * size})
            chunk = read(reading.decoder(name), data)
            assert_takes(chunk.address(0, 1), (count + 1) * 4 + SLACK, count)
            if len(data) < 4000:
                assert_takes(chunk.address(0, 2), len(data) - 61 + SLACK, (count, size))


def test_memory_of_headers() -> None:
    """End offsets, flags and bytes of keys and values, as many as a record has; more for the next record."""
    for count in (1, 2, 3, 7, 8, 40, 100):
        record = builders.record(headers=[(b"key", b"value")] * count)
        chunk = read(reading.decoder("headers"), builders.batch([record]))
        key_ends, keys, bits, value_ends, values = (pa.py_buffer(view).address for view in chunk.headers())
        left = len(record) - (len(builders.record()) - 1) - (len(record) > 70)
        for address, wanted in (
            (key_ends, (count + 1) * 4 + SLACK),
            (value_ends, (count + 1) * 4 + SLACK),
            (bits, count // 8 + SLACK),
        ):
            assert_takes(address, wanted, count)
        for address in (keys, values):
            assert left + SLACK - 2 <= held(address) < given(left + SLACK) + ROUNDED, count
        assert_takes(chunk.address(0, 1), (1 + 1) * 4 + SLACK, count)


def test_memory_of_derived_columns() -> None:
    """A number of at most eight bytes per row; a text once per row."""
    for count in (*range(1, 20), 100, 300):
        data = of(count, key=b"\0\0\0\0")
        for name in ("batch_position", "magic", "producer_id", "sequence", "partition", "is_control", "control_type"):
            chunk = read(reading.decoder(name), data)
            assert_takes(chunk.address(0, 1), count * 8 + SLACK, (name, count))
            assert_takes(chunk.address(0, 0), count // 8 + SLACK, (name, count))
        for name, named, size in (
            ("compression", {}, 8),
            ("topic", {}, 8),
            ("topic", {"topic": "abc"}, 3),
            ("file", {"file": "a" * 10}, 10),
        ):
            chunk = read(reading.decoder(name, named=named), data)
            assert_takes(chunk.address(0, 1), (count + 1) * 4 + SLACK, (name, count))
            assert_takes(chunk.address(0, 2), count * size + SLACK, (name, count))
            assert_takes(chunk.address(0, 0), count // 8 + SLACK, (name, count))


@pytest.mark.parametrize("header", [(b"name", b"a value"), (b"a longer name", b"1")])
def test_memory_of_a_chunk_is_reserved_in_advance(header: tuple[bytes, bytes]) -> None:
    """As much as the previous chunk had and a sixteenth more, whatever follows; keys and values also the batch's size,
    since it may consist of one."""
    names = ["offset", "timestamp", "timestamp_type", "key", "value", "headers"]
    for count in (5, 16, 17, 32, 160, 200):
        decoder = reading.decoder(*names)
        headers = [header]
        read(decoder, of(count, b"key", b"v" * 9, headers))
        last = of(1, b"k", b"v", headers)
        chunk = read(decoder, last)
        rows = count + count // 16
        for column, width in ((0, 8), (1, 8), (2, 1)):
            assert_takes(chunk.address(column, 1), rows * width + SLACK, (count, column))
        for column, used in ((3, 3 * count), (4, 9 * count)):
            assert_takes(chunk.address(column, 1), (rows + 1) * 4 + SLACK, (count, column))
            assert_takes(chunk.address(column, 2), used + used // 16 + len(last) - 61 + SLACK, (count, column))
        assert_takes(chunk.address(5, 1), (rows + 1) * 4 + SLACK, count)
        key_ends, keys, bits, value_ends, values = (pa.py_buffer(view).address for view in chunk.headers())
        used = max(map(len, header)) * count
        for address in (keys, values):
            assert_takes(address, max(used + used // 16, 20) + SLACK, count)
        for address in (key_ends, value_ends):
            assert_takes(address, (rows + 1) * 4 + SLACK, count)
        assert_takes(bits, rows // 8 + SLACK, count)


@pytest.mark.parametrize("alike", [1, 2, 7])
def test_memory_of_the_first_chunk_is_reserved_after_its_first_batch(alike: int) -> None:
    """For a sixteenth more than `alike` more batches of this kind have, in the input or until the chunk is full."""
    names = ("offset", "key", "value", "headers")
    batch = of(40, b"key", b"v" * 9, [(b"name", b"value")])
    payload = len(batch) - 61
    limited = reading.decoder(*names, engine={"chunk_bytes": payload * alike + 1})
    for decoder, data in (
        (reading.decoder(*names), batch * (alike + 1)),
        (reading.decoder(*names), batch * (alike + 1) + batch[:-1]),
        (limited, batch * 20),
    ):
        decoder.feed(source(data))
        decoder.run()
        chunk, _ = decoder.take()
        assert len(chunk) == 40 * (alike + 1)
        assert_takes(chunk.address(0, 1), (40 + 42 * alike) * 8 + SLACK, alike)
        for column, size in ((1, 3), (2, 9)):
            assert_takes(chunk.address(column, 1), (40 + 42 * alike + 1) * 4 + SLACK, alike)
            first = given(payload + SLACK)  # for each batch: it may consist of one value
            needed = 40 * size + (40 * size + 40 * size // 16) * alike + payload + SLACK
            wanted = first if needed <= first else max(needed, first + first // 2)
            assert_takes(chunk.address(column, 2), wanted, (alike, column))


def test_memory_is_not_reserved_by_what_another_call_has_read() -> None:
    reading.read_batches(source(of(900)), columns=["offset"])
    (chunk,) = reading.read_batches(source(of(1)), columns=["offset"]).chunks
    assert_takes(chunk.address(0, 1), 8 + SLACK, "one row")


def many(count: int, size: int = 0) -> bytes:
    """Return a batch of empty records; the first has a value of `size` bytes, if any."""
    first = builders.record(key=None, value=b"v" * size) if size else b""
    return builders.batch(payload=first + b"\x0c\0\0\0\1\1\0" * (count - bool(size)), count=count)


@pytest.mark.parametrize("step", [0, 1])
def test_memory_at_the_border_of_4_kib(step: int) -> None:
    """One more row or byte takes the next size."""
    for name, count, wanted in (
        ("offset", 504, 4096 + 8 * step),
        ("timestamp", 504, 4096 + 8 * step),
        ("timestamp_type", 4032, 4096 + step),
        ("headers", 1007, 4096 + 4 * step),
        ("key", 1007, 4096 + 4 * step),
        ("value", 1007, 4096 + 4 * step),
        ("compression", 1007, 4096 + 4 * step),
        ("producer_id", 504, 4096 + 8 * step),
        ("magic", 504, 4096 + 8 * step),
    ):
        chunk = read(reading.decoder(name), many(count + step))
        assert_takes(chunk.address(0, 1), wanted, name)
    for name in ("timestamp", "key", "value", "partition", "topic"):
        chunk = read(reading.decoder(name), many(8 * 4032 + 7 + step))
        assert_takes(chunk.address(0, 0), 4096 + step, name)
    data = many(1, 4032 + step - 9)
    assert len(data) - 61 == 4032 + step
    assert_takes(read(reading.decoder("value"), data).address(0, 2), 4096 + step, "value")
    for name, named, count in (("topic", {"topic": "abc"}, 1344), ("file", {"file": "a" * 4032}, 1)):
        data = many(count + step)
        chunk = read(reading.decoder(name, named=named), data)
        assert_takes(chunk.address(0, 2), 4096 + step * (3 if name == "topic" else 4032), name)


@pytest.mark.parametrize("count", [948, 949])
def test_memory_that_is_reserved_in_advance_at_the_border_of_4_kib(count: int) -> None:
    """1007 and 1008 headers: their end offsets take 4096 bytes, and four more."""
    decoder = reading.decoder("headers")
    read(decoder, of(count, headers=[(b"n", b"v")]))
    chunk = read(decoder, of(1, headers=[(b"n", b"v")]))
    key_ends, _, _, value_ends, _ = (pa.py_buffer(view).address for view in chunk.headers())
    for address in (key_ends, value_ends, chunk.address(0, 1)):
        assert_takes(address, (count + count // 16 + 1) * 4 + SLACK, count)
    last = of(1, value=b"v", headers=[(b"n", b"v")])
    for size in (3794, 3795):  # a sixteenth more: 4031 and 4032 bytes
        decoder = reading.decoder("headers")
        read(decoder, of(1, headers=[(b"n" * size, b"v")]))
        chunk = read(decoder, last)
        for view in (chunk.headers()[1], chunk.headers()[4]):
            assert_takes(pa.py_buffer(view).address, size + size // 16 + SLACK, size)
    payload = len(last) - 61
    for most in (4031, 4032):
        size = max(size for size in range(most) if size + size // 16 + payload <= most)
        decoder = reading.decoder("value")
        read(decoder, of(1, value=b"v" * size))
        assert_takes(read(decoder, last).address(0, 2), size + size // 16 + payload + SLACK, most)


class Allocator(ctypes.Structure):
    """mallinfo2 of glibc: bytes of the heap, and of separate mappings."""

    _fields_ = (
        *((name, ctypes.c_size_t) for name in ("arena", "free_chunks", "fast_chunks", "maps", "mapped")),
        *((name, ctypes.c_size_t) for name in ("_unused", "fast", "used", "free", "top")),
    )


def in_use() -> int:
    ask = ctypes.CDLL(None).mallinfo2
    ask.restype = Allocator
    kafkarec.release_memory()
    gc.collect()
    result = ask()
    return int(result.used + result.mapped)


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallinfo2"), reason="another C library")
@pytest.mark.parametrize("taken", [True, False])
def test_columns_keep_no_memory(taken: bool) -> None:
    """Neither a chunk's columns nor those of a decoder that is dropped before it returned a chunk."""
    headers = [(b"name", b"value")]
    data = of(30, b"key", b"value", headers) + of(5, None, None, headers)
    names = ("offset", "timestamp", "timestamp_type", "key", "value", "headers", "compression")

    def once() -> None:
        decoder = reading.decoder(*names)
        decoder.feed(Source(data))
        decoder.run()
        if taken:
            decoder.take()

    for _ in range(20):
        once()
    before = in_use()
    for _ in range(300):
        once()
    assert in_use() - before < 300 * 64
