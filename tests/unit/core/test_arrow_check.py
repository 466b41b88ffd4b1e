"""What the checks of Arrow buffers may not refuse: arrays that begin anywhere, and nonsense in rows that are null."""

from __future__ import annotations

import itertools
import random

import pyarrow as pa
import pytest
from foreign_arrow import DATA, LISTS, headers_of, packed, refused, table_of, view, views_of

import kafkarec

pytestmark = pytest.mark.core


def values(table: pa.Table) -> list[bytes | None]:
    return kafkarec.decode(kafkarec.encode(table), columns=["value"]).column("value")


def test_nulls_are_counted_from_any_row_to_any_row() -> None:
    """Bit by bit up to a whole byte, 64 at once, and bit by bit again."""
    dice = random.Random(3)
    cells = [None if dice.random() < 0.4 else b"%d" % n for n in range(300)]
    cells[:12] = [None, b"1", None, b"3", b"4", None, None, None, b"8", None, b"10", b"11"]
    whole = pa.array(cells, pa.binary())
    lengths = (1, 7, 8, 9, 62, 63, 64, 65, 71, 72, 73, 127, 128, 200)
    for first, rows in itertools.product((*range(10), 63, 64, 65), lengths):
        part = whole.slice(first, rows)
        assert part.null_count == cells[first : first + rows].count(None)  # and so pyarrow states it
        assert values(pa.table({"value": part})) == cells[first : first + rows], (first, rows)
    for single in (0, 1, 7, 8, 63, 64, 65, 127, 128, 129):
        cells = [None if n == single else b"x" for n in range(130)]
        for first in (0, 1, 2, 7, 8, 9):
            part = pa.array(cells, pa.binary()).slice(first)
            assert part.null_count == (single >= first)
            assert values(pa.table({"value": part})) == cells[first:]


def test_a_null_list_view_may_lead_anywhere() -> None:
    """Row by row, and in slices: each bad one is seen where it is not null, and nowhere else."""
    for kind, row in itertools.product(("list_view", "large_list_view"), range(9)):
        starts, sizes = [n % 3 for n in range(9)], [1] * 9
        starts[row], sizes[row] = 77, 5
        table = table_of(value=[b"v"] * 9, headers=headers_of(kind, starts, sizes))
        refused(table, "headers", row, "and there are 4")
        bits = (0x1FF & ~(1 << row)).to_bytes(2, "little")
        array = table.column("headers").chunk(0)
        hidden = pa.Array.from_buffers(
            LISTS[kind], 9, [pa.py_buffer(bits), *array.buffers()[1:3]], children=[array.values]
        )  # fmt: skip
        found = table_of(value=[b"v"] * 9, headers=hidden)
        wanted = [[] if n == row else [(f"k{n % 3}", b"%d" % (n % 3 + 1))] for n in range(9)]
        for first in range(9):
            part = kafkarec.decode(kafkarec.encode(found.slice(first)))
            assert [record.headers for record in part] == wanted[first:], (row, first)


def test_a_null_view_may_lead_anywhere_in_a_slice_too() -> None:
    for row in range(9):
        views = [view(13, 0, n % 3) for n in range(9)]
        views[row] = view(99, 9)
        hidden = views_of(views, DATA, bits=(0x1FF & ~(1 << row)).to_bytes(2, "little"))
        table = table_of(value=hidden)
        for first in range(9):
            wanted = [None if n == row else DATA[0][n % 3 : n % 3 + 13] for n in range(first, 9)]
            assert values(table.slice(first)) == wanted
        bare = table_of(value=views_of(views, DATA))
        refused(bare, "value", row, "in buffer 9, and there are 2")
        for first in range(row + 1):
            refused(bare.slice(first), "value", row - first, "in buffer 9, and there are 2")


def test_the_entries_of_list_views_lie_between_the_first_and_the_last() -> None:
    """Keys in front of the first entry that is used and behind the last are not looked at, each one between is."""
    for kind, (low, high) in itertools.product(("list_view", "large_list_view"), itertools.combinations(range(5), 2)):
        for bad in range(4):
            offsets = [20 if n <= bad else 10 + n for n in range(5)]  # the entry `bad` ends before it begins
            room = bytearray(20)
            keys = pa.Array.from_buffers(pa.string(), 4, [None, pa.py_buffer(room), pa.py_buffer(bytes(20))])
            table = table_of(value=[b"v"] * 2, headers=headers_of(kind, [low, high - 1], [1, 1], keys))
            room[:] = packed("i", *offsets)
            if low <= bad < high:
                refused(table, "headers.key", bad, "is below")
            else:
                assert [len(record.headers) for record in kafkarec.decode(kafkarec.encode(table))] == [1, 1]
