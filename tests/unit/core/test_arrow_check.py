"""Arrow buffers of every shape: which are accepted, and the row and both sides of the comparison where one is refused.

Accepted are arrays with any offset, and invalid values in null rows.
"""

import itertools

import pyarrow as pa
import pytest
from foreign_arrow import (
    BYTES,
    DATA,
    LISTS,
    ExportedBatch,
    array_over,
    bytes_of,
    filled,
    headers_of,
    packed,
    table_of,
    view,
    views_of,
)

import kafkarec

pytestmark = pytest.mark.core


def values(table):
    return kafkarec.decode(kafkarec.encode(table), columns=["value"]).column("value")


def complaint(table):
    """Return row, expected and found of the error, or None."""
    try:
        kafkarec.encode(table)
    except kafkarec.InvalidArrowError as error:
        return error.row, error.expected, error.found
    return None


@pytest.mark.parametrize("kind", [*BYTES, "list", "large_list"])
def test_offsets_of_every_shape(kind):
    """The first offset is not negative, and none is below the previous: row, expected, found."""
    for offsets in itertools.product((-1, 0, 1, 3), repeat=3):
        falls = [
            (row, here, following)
            for row, (here, following) in enumerate(itertools.pairwise(offsets))
            if following < here
        ]
        wanted = (0, 0, offsets[0]) if offsets[0] < 0 else falls[0] if falls else None
        if "list" in kind:
            table = table_of(value=[b"v"] * 2, headers=headers_of(kind, list(offsets)))
        else:
            table = table_of(value=bytes_of(kind, list(offsets)))
        assert complaint(table) == wanted, offsets


def test_views_of_every_shape():
    """Above 12 bytes a view needs an existing buffer, and a range inside it."""
    sizes = [len(part) for part in DATA]
    for length, index, offset in itertools.product((-1, 0, 12, 13, 20, 21, 26, 27), (-1, 0, 1, 2), (-1, 0, 1, 6, 7, 8)):
        wanted = None
        if length < 0:
            wanted = (1, 0, length)
        elif length > 12:
            if index not in (0, 1):
                wanted = (1, 2, index)
            elif offset < 0 or offset + length > sizes[index]:
                wanted = (1, sizes[index], offset + length)
        table = table_of(value=views_of([view(0), view(length, index, offset), view(99, 9)], DATA, bits=b"\3"))
        assert complaint(table) == wanted, (length, index, offset)


@pytest.mark.parametrize("kind", ["list_view", "large_list_view"])
def test_list_views_of_every_shape(kind):
    """Neither number is negative, and the range ends within the four entries."""
    for start, size in itertools.product((-2, -1, 0, 1, 3, 4, 5, 6), (-2, -1, 0, 1, 3, 4, 5)):
        wanted = None
        if start < 0 or size < 0:
            wanted = (1, 0, start if start < 0 else size)
        elif start > 4:
            wanted = (1, 4, start)
        elif start + size > 4:
            wanted = (1, 4, start + size)
        table = table_of(value=[b"v"] * 3, headers=headers_of(kind, [3, start, 4], [1, size, 0]))
        assert complaint(table) == wanted, (start, size)
        if wanted is None:
            rows = [record.headers for record in kafkarec.decode(kafkarec.encode(table))]
            each = [(f"k{n}", b"%d" % (n + 1)) for n in range(4)]
            assert rows == [each[3:], each[start : start + size], []]


@pytest.mark.parametrize("kind", ["list_view", "large_list_view"])
def test_list_views_without_an_entry(kind):
    """No row has an entry; then no key is checked, though each key ends before its start."""
    for start in (0, 2, 4):
        keys = array_over(pa.string(), 4, [None, packed("i", 4, 3, 2, 1, 0), b"abcd"])
        table = table_of(value=[b"v"] * 2, headers=headers_of(kind, [start, start], [0, 0], keys))
        assert [record.headers for record in kafkarec.decode(kafkarec.encode(table))] == [[], []], start
    keys = array_over(pa.string(), 4, [None, packed("i", 4, 3, 2, 1, 0), b"abcd"])
    with_null = headers_of(kind, [0, 0], [4, 4], keys)
    parts = [pa.py_buffer(b"\0"), *with_null.buffers()[1:3]]
    nulls = pa.Array.from_buffers(LISTS[kind], 2, parts, children=[with_null.values])
    made = filled(ExportedBatch(value=pa.array([b"v"] * 2, pa.binary()), headers=nulls))
    made.child(1, 0, 0).buffers[2] = None  # of the keys; not used
    rows = kafkarec.decode(kafkarec.encode(made))
    made.restore()
    assert [record.headers for record in rows] == [[], []]


def test_the_longest_field_with_64_bit_offsets():
    """A field has at most 2^31-1 bytes; that no record can hold so many is found when it is written."""
    most = 2**31 - 1
    for rows, long in ((1, 0), (3, 0), (3, 1), (3, 2)):
        for size in (most - 1, most, most + 1, most + 2):
            start = 5
            offsets = [start + (size if row > long else 0) for row in range(rows + 1)]
            with pytest.raises(ValueError) as caught:
                kafkarec.encode(table_of(value=bytes_of("large_binary", offsets)))
            if size > most:
                wanted = f"column 'value', row {long}: {size} bytes, and a field of a record has {most} at most"
                assert str(caught.value) == wanted
            else:
                assert f"record {long}: its key, value and headers take more than 2^31-1 bytes" in str(caught.value)
