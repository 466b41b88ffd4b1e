"""Arrow columns of every layout against the same rows as tuples: nulls at each border of a byte, slices, every unit.

The encoder reads validity bits, offsets, views and lists itself; Python rows reach the same bytes by other code.
"""

import itertools
import struct

import pyarrow as pa
import pytest
from foreign_arrow import PAIR, as_arrow

import kafkarec
from kafkarec.write.encoding import record_input_of
from kafkarec.write.fields import BatchHeader

pytestmark = pytest.mark.core

COUNT = 19
SLICES = [(0, 19), (1, 18), (7, 2), (8, 9), (15, 2), (18, 1)]
NULLS = [set(), {7, 16}, {0, 8, 15, 18}, set(range(7, 17))]
BYTES = [pa.binary(), pa.large_binary(), pa.string(), pa.large_string(), pa.binary_view(), pa.string_view()]
PAIRS = [("a", b"1"), ("bb", None), ("", b""), ("key", b"x" * 13), ("d", b"22")]


def same(table, rows):
    """Assert the same bytes for the table whole, in slices and in chunks, of which two are empty."""
    for start, length in SLICES:
        assert kafkarec.encode(table.slice(start, length)) == kafkarec.encode(rows[start : start + length])
    pieces = pa.concat_tables([table[:1], table[5:5], table[1:9], table[9:], table[COUNT:]])
    assert kafkarec.encode(pieces) == kafkarec.encode(rows)


def test_cells_of_every_layout():
    texts = [
        b"%d" % n * (n % 5 * 4) for n in range(COUNT)
    ]  # 0 to 16 and more bytes: inline views, and views of a buffer
    for type_, nulls in itertools.product(BYTES, NULLS):
        cells = [None if n in nulls else text for n, text in enumerate(texts)]
        rows = [(n, 5, cell, cell, []) for n, cell in enumerate(cells)]
        both = pa.array(cells, pa.binary()).cast(type_)
        same(as_arrow(rows, key=both, value=both), rows)
    for width, nulls in itertools.product((0, 1, 12, 13), NULLS):
        cells = [None if n in nulls else bytes([n]) * width for n in range(COUNT)]
        rows = [(n, 5, b"k", cell, []) for n, cell in enumerate(cells)]
        same(as_arrow(rows, value=pa.array(cells, pa.binary(width))), rows)


def test_units_are_rounded_down_to_milliseconds():
    """Rounded down before 1970 as well, in any time zone; a second is 1000 milliseconds."""
    for unit, times, per in (("s", 1000, 1), ("ms", 1, 1), ("us", 1, 1000), ("ns", 1, 1_000_000)):
        near = (sign * (n * per + more) for n in range(4) for more in (-1, 0, 1) for sign in (-1, 1))
        for raw, zone in itertools.product((*near, -(2**63) if times == 1 else 2**40), (None, "UTC", "Asia/Kathmandu")):
            timestamps = pa.array([raw], pa.timestamp(unit, zone))
            data = record_input_of(pa.table({"value": ["v"], "timestamp": timestamps})).write(BatchHeader())
            assert struct.unpack_from(">q", data, 27)[0] == raw * times // per, (unit, raw)
    for raw, rounded in ((-1001, -2), (-2000, -2), (-2001, -3)):
        table = pa.table({"value": ["v"] * 3, "timestamp": pa.array([0, None, raw], pa.timestamp("us"))})
        with pytest.raises(ValueError, match=rf"^record 2: its timestamp {rounded} is negative"):
            kafkarec.encode(table)


def pairs_of(n):
    return [PAIRS[(n + i) % 5] for i in range(n % 4)]


def test_headers_of_every_layout():
    loose = pa.struct([pa.field("key", pa.large_binary()), pa.field("value", pa.binary_view())])
    viewed = pa.struct([pa.field("key", pa.string_view()), pa.field("value", pa.large_binary())])
    kinds = [(kind, element) for kind in (pa.list_, pa.large_list) for element in (PAIR, loose, viewed)]
    types = [kind(element) for kind, element in kinds] + [pa.map_(pa.string(), pa.binary())]
    for type_, nulls in itertools.product(types, NULLS):
        rows = [(n, 5, None, b"v", [] if n in nulls else pairs_of(n)) for n in range(COUNT)]
        lists = [
            None
            if n in nulls
            else pairs_of(n)
            if isinstance(type_, pa.MapType)
            else [{"key": key, "value": value} for key, value in pairs_of(n)]
            for n in range(COUNT)
        ]
        if not isinstance(type_, pa.MapType) and pa.types.is_large_binary(type_.value_type[0].type):
            lists = [row and [{**pair, "key": pair["key"].encode()} for pair in row] for row in lists]
        same(as_arrow(rows, headers=pa.array(lists, type_)), rows)


def test_names_of_codecs():
    """compression="keep" uses the column; null means none; a longer, shorter or other name is refused."""
    names = ["none", "gzip", "snappy", "lz4", "zstd", None]
    for type_ in (pa.string(), pa.large_string(), pa.string_view()):
        for around in itertools.permutations(names, 2):
            table = pa.table({"value": ["v", "w"], "compression": pa.array(around, type_)})
            result = kafkarec.scan(kafkarec.encode(table, compression="keep")).column("compression")
            assert result == list(dict.fromkeys(name or "none" for name in around))
    for bad in ("", "n", "non", "nonE", "none ", "gzi", "gzipp", "snappyy", "lz", "lz44", "lz5", "zst", "zstd1"):
        table = pa.table({"value": ["v", "w"], "compression": pa.array(["none", bad])})
        with pytest.raises(ValueError, match=r"^record 1: its compression is not one of"):
            kafkarec.encode(table, compression="keep")
