"""Every heap block that reading, writing and exporting allocate: refused in turn, never overrun, freed.

Whichever allocation fails, the call raises MemoryError or a LimitExceededError with the place, or returns as if
nothing had happened. No block leaks, and no result is partial.
"""

import ctypes
import errno
import functools
import re

import builders
import c_stream
import plain_logs
import pytest
import reading
from allocations import Allocations
from fake_file import FakeFile, read
from foreign_arrow import as_arrow

import kafkarec
from kafkarec import _core, _writer

pytestmark = pytest.mark.core

ODD = [(b"h", b"v"), (b"\xff\xfe" * 3000, None), (b"g", b"w" * 5000)]
"""The second key triples, so that the third does not fit into the memory reserved for all keys."""
PLAIN = builders.batch(
    [
        builders.record(key=None, value=b"v" * 3000),
        builders.record(offset_delta=1, key=b"k" * 9000, value=None, headers=ODD),
        builders.record(offset_delta=2, timestamp_delta=-1 - builders.NOW),
    ]
)
PACKED = [plain_logs.batch(3 + 40 * n, 40, codec=codec, value=bytes(800)) for n, codec in enumerate(("lz4", "zstd"))]
MESSAGES = b"".join(
    [
        builders.message(magic=0, offset=0, key=None, value=b"v" * 9000),
        builders.message(magic=1, offset=1, key=b"k" * 9000, value=None),
        builders.wrapper(
            b"".join(builders.message(magic=1, offset=n, value=b"%d" % n * 7000) for n in range(3)),
            magic=1,
            codec="gzip",
            offset=4,
        ),
    ]
)

ROWS = [(n, n, b"k" * n * 30, b"v" * 900, [(f"h{n}", b"x")]) for n in range(60)]


def by_hand(source, wanted=None):
    """Return the schema and all arrays of a stream. A failed call is repeated, must return `wanted`, and MemoryError
    is raised."""
    capsule = source.__arrow_c_stream__()
    stream = c_stream.stream_of(capsule)
    result = []
    refused = False
    while True:
        struct = c_stream.ArrowArray() if result else c_stream.ArrowSchema()
        ask = stream.get_next if result else stream.get_schema
        status = ask(ctypes.byref(stream), ctypes.byref(struct))
        if status != 0:
            assert status == errno.ENOMEM and not struct.release and not refused
            assert stream.get_last_error(ctypes.byref(stream)) == b"out of memory"
            refused = True
            continue
        if not struct.release:
            break
        result.append(c_stream.array_fields(struct) if result else c_stream.schema_fields(struct))
        struct.release(ctypes.byref(struct))
        assert not struct.release
    if refused:
        assert result == wanted
        raise MemoryError
    return result


def rows_of(columns):
    return [reading.record_row(record) for record in columns]


def decoded(data, **options):
    columns = kafkarec.decode(data, columns=reading.RECORD_FIELDS, control=True, **options)
    return [rows_of(columns), columns.damage, columns.remaining]


def through_windows(errors):
    bad = [range(len(PLAIN) + 100, len(PLAIN) + 101)] if errors == "skip" else []
    columns = read(FakeFile(PLAIN + PLAIN + MESSAGES, 4096, 8192, bad), errors=errors)
    return [rows_of(columns), columns.damage, columns.remaining]


def scanned():
    pieces = reading.scan_pieces(FakeFile(PLAIN + MESSAGES, 64, 32))
    return [tuple(row) for piece in pieces for row in piece]


@functools.cache
def columns_to_export():
    """Return a chunk, and a slice of two columns."""
    return [kafkarec.decode(PLAIN + MESSAGES), kafkarec.decode(PLAIN, columns=["key", "headers"])[1:3]]


@functools.cache
def exports():
    return [*map(by_hand, columns_to_export())]


def lists():
    result = []
    for piece in kafkarec.decode_each([MESSAGES, None, MESSAGES], columns=["headers"]):
        schema, array = piece.__arrow_c_array__()
        result += [c_stream.schema_fields(c_stream.schema_of(schema)), c_stream.array_fields(c_stream.array_of(array))]
    return result


def built():
    """Return batches that are built record by record. A failed call is repeated, and MemoryError is raised at the
    end."""
    refused, batches = 0, []

    def again(call, *arguments):
        nonlocal refused
        try:
            return call(*arguments)
        except MemoryError:
            refused += 1
            return call(*arguments)

    for options in ({}, {"compression": "lz4"}, {"compression": "zstd"}, {"compression": "gzip"}, {"magic": 1}):
        builder = again(functools.partial(kafkarec.RecordBatchBuilder, batch_size=500, **options))
        for _, timestamp, key, value, headers in ROWS:
            fields = timestamp, key, value, headers if builder.magic == 2 else ()
            again(builder.has_room_for, *fields)
            again(builder.append, *fields)
        batches.append(again(builder.build))
    if refused:
        assert batches == built()
        raise MemoryError
    return batches


WAYS = {
    "batches": lambda: decoded(PLAIN),
    "messages": lambda: decoded(MESSAGES),
    "payloads": lambda: decoded(b"".join(PACKED)),
    "in windows": lambda: through_windows("raise"),
    "in windows, with an unreadable byte": lambda: through_windows("skip"),
    "a table of batches": scanned,
    "arrays": lambda: [*map(by_hand, columns_to_export(), exports())],
    "lists": lists,
    "rows, written": lambda: kafkarec.encode(ROWS, compression="lz4", batch_size=4096),
    "Arrow, written": lambda: kafkarec.encode(as_arrow(ROWS), compression="zstd", batch_size=4096),
    "columns, written": lambda: kafkarec.encode(columns_to_export()[1]),
    "built record by record": built,
}
# way: all (position, base offset, record) that an error may name
REFUSED = {
    "batches": {(0, 0, None), (0, 0, 1)},
    "messages": {(0, 0, None), (18060, 4, None), (18060, 4, 2)},
    "payloads": {(0, 3, None), (453, 43, None)},
    "in windows": {(0, -1, None), (0, 0, None), (0, 0, 1), (46212, 0, None), (55238, 1, None), (64272, 4, None)},
    "in windows, with an unreadable byte": {(0, -1, None), (0, 0, None), (0, 0, 1), (55238, 1, None), (64272, 4, None)},
    "a table of batches": {(0, -1, None), (0, 0, None), (23106, 0, None), (32132, 1, None), (41166, 4, None)},
    "arrays": set(),
    "lists": {(0, 0, None), (9026, 1, None), (18060, 4, None)},
    "rows, written": set(),
    "Arrow, written": set(),
    "columns, written": set(),
    "built record by record": set(),
}
ROW = 104
"""Bytes per row of the table of batches."""
# way: the bytes that were asked for
REQUESTED = {"batches": {ROW, 23045, 6000, 11011}, "messages": {9026, 3 * ROW, 7035}, "payloads": {ROW, 32400, 2 * ROW}}


def place_of(error):
    record = re.search(r"record (\d+) of its batch", str(error))
    return error.position, error.base_offset, int(record[1]) if record else None


@pytest.mark.parametrize("way", WAYS)
def test_any_allocation_may_fail(way):
    call = WAYS[way]
    wanted = call()
    with Allocations(_writer) as heap:  # and of _core
        assert call() == wanted
    assert (heap.overrun, heap.alive) == (0, 0)
    total, refusals, places, requested = heap.calls, 0, set(), set()
    assert total > 5
    for number in range(1, total + 1):
        with Allocations(_writer, refused=number) as heap:
            try:
                assert call() == wanted
            except MemoryError:
                refusals += 1
            except kafkarec.LimitExceededError as error:
                assert (error.reason, error.found) == ("out_of_memory", 0)
                places.add(place_of(error))
                requested.add(error.expected)
                refusals += 1
                del error
        assert (heap.overrun, heap.alive) == (0, 0), f"block {number} of {total}"
    # without the buffer of decompressed bytes, or gzip's state, Python calls decompress; estimates refuse nothing
    assert refusals >= total * 2 // 3
    assert places == REFUSED[way] and requested == REQUESTED.get(way, requested)


def test_nothing_is_written_after_a_column():
    """Header keys that triple leave the next key the rest of the buffer, to the byte; so do
    values after the first mebibyte, for which memory is reserved one by one."""
    following = builders.record(offset_delta=1, value=bytes(200))
    expected = []
    batches = []
    for more in range(-66, 4):
        headers = [(b"\xff" * 6000, None), (b"a" * (2480 + more), b""), (b"b", b"c")]
        batches.append(builders.batch([builders.record(value=None, headers=headers), following]))
        expected.append(["\ufffd" * 6000, "a" * (2480 + more), "b"])
    for batch, keys in zip(batches, expected, strict=True):
        with Allocations(_core) as heap:
            first, _ = kafkarec.decode(batch)
            assert [key for key, _ in first.headers] == keys
            del first, _
        assert heap.overrun == 0
    for more in (-64, -63, -32, -1, 0, 1, 31, 32, 33, 63, 64, 65, 100):
        sizes = [1_300_000, 10_720 - 64 + more, 5]
        records = [builders.record(offset_delta=n, key=None, value=bytes([n]) * size) for n, size in enumerate(sizes)]
        with Allocations(_core) as heap:
            result = kafkarec.decode(builders.batch([*records, following]))
            assert [len(record.value) for record in result] == [*sizes, 200]
            del result
        assert heap.overrun == 0, more


def test_columns_outside_of_the_projection_take_no_memory():
    """Count the blocks allocated for each column alone."""
    asked = {}
    for name in reading.RECORD_FIELDS:
        kafkarec.decode(PLAIN, columns=[name])
        with Allocations(_core) as heap:
            kafkarec.decode(PLAIN, columns=[name])
        asked[name] = heap.calls
    assert asked == {
        "offset": 9,
        "timestamp": 9,
        "timestamp_type": 9,
        "key": 10,
        "value": 10,
        "headers": 15,
        "sequence": 11,
    }
