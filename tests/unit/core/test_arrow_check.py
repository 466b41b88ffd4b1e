"""Arrow buffers of every shape: which are accepted, and the row and both sides of the comparison where one is refused.

Accepted are arrays with any offset, and invalid values in null rows.
"""

import itertools

import pytest
from foreign_arrow import (
    BYTES,
    DATA,
    bytes_of,
    headers_of,
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
