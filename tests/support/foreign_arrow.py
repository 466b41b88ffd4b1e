"""Rows as Arrow columns, and Arrow arrays over hand-made buffers that pyarrow does not check."""

from __future__ import annotations

import ctypes
import struct
from typing import Any

import c_stream
import pyarrow as pa
import pytest

import kafkarec

PAIR = pa.struct([pa.field("key", pa.string(), nullable=False), pa.field("value", pa.binary())])
LISTS = {
    "list": pa.list_(PAIR),
    "large_list": pa.large_list(PAIR),
    "map": pa.map_(pa.string(), pa.binary()),
}


def as_arrow(rows, **columns: pa.Array) -> pa.Table:
    """Return rows as encode takes them as a table, in which these columns replace others."""
    offsets, times, keys, values, headers = zip(*rows, strict=True)
    pairs = [[{"key": name, "value": value} for name, value in row] for row in headers]
    plain = {
        "offset": pa.array(offsets, pa.int64()),
        "timestamp": pa.array(times, pa.int64()),
        "key": pa.array(keys, pa.binary()),
        "value": pa.array(values, pa.binary()),
        "headers": pa.array(pairs, LISTS["list"]),
    }
    return pa.table({**plain, **columns})


def packed(format_: str, *numbers: int) -> bytes:
    return struct.pack(f"<{len(numbers)}{format_}", *numbers)


_empty: list[tuple[bytearray, bytes]] = []  # (buffer that is still zeros, its later content)


def array_over(type_: pa.DataType, rows: int, parts: list[bytes | None], children=None) -> pa.Array:
    """Return an array over zeroed buffers, which pyarrow accepts; `filled` writes the real content into them."""
    areas = [None if part is None else bytearray(len(part)) for part in parts]
    if areas[0] is not None:
        areas[0][:] = parts[0] or b""  # pyarrow counts the validity bits at once
    _empty.extend((area, part) for area, part in zip(areas, parts, strict=True) if area is not None and part)
    buffers = [None if area is None else pa.py_buffer(area) for area in areas]
    return pa.Array.from_buffers(type_, rows, buffers, children=children)


def filled(made):
    while _empty:
        area, part = _empty.pop()
        area[:] = part
    return made


def table_of(**columns) -> pa.Table:
    return filled(pa.table(columns))


def views_of(views: list[bytes], data: list[bytes], bits: bytes | None = None) -> pa.Array:
    return array_over(pa.binary_view(), len(views), [bits, b"".join(views), *data])


def view(length: int, index: int = 0, offset: int = 0) -> bytes:
    return struct.pack("<i4sii", length, b"abcd", index, offset)


def headers_of(kind: str, offsets: list[int], keys=None) -> pa.Array:
    """Return lists over four entries."""
    keys = pa.array([f"k{i}" for i in range(4)]) if keys is None else keys
    entries = pa.StructArray.from_arrays([keys, pa.array([b"1", b"2", b"3", b"4"])], fields=list(PAIR))
    format_ = "q" if kind.startswith("large") else "i"
    return array_over(LISTS[kind], len(offsets) - 1, [None, packed(format_, *offsets)], children=[entries])


def assert_refused(records, column: str | None, row: int | None, words: str) -> kafkarec.InvalidArrowError:
    with pytest.raises(kafkarec.InvalidArrowError, match=words) as caught:
        kafkarec.encode(records)
    error = caught.value
    assert (error.column, error.row, error.reason) == (column, row, "arrow_invalid"), error
    assert row is None or str(row) in str(error)
    assert column is None or repr(column) in str(error)
    return error


DATA = [b"0123456789abcdefghij", b"ABCDEFGHIJKLMNOPQRSTUVWXYZ"]


BYTES = {"binary": "i", "large_binary": "q"}


def bytes_of(kind: str, offsets: list[int], data: bytes = b"abcdefghijkl") -> pa.Array:
    """Return a binary array with these offsets."""
    return array_over(getattr(pa, kind)(), len(offsets) - 1, [None, packed(BYTES[kind], *offsets), data])


class ExportedBatch:
    """A record batch exported as two capsules whose structs can be changed before they are imported.

    The array's release callback does nothing: the producer's own would use the changed fields. `restore` resets all
    structs, after which the capsules release their content.
    """

    def __init__(self, **columns: pa.Array):
        self._capsules = pa.record_batch(columns).__arrow_c_array__()
        self.schema = c_stream.schema_of(self._capsules[0])
        self.array = c_stream.array_of(self._capsules[1])
        self._before = [(one, bytes(one)) for top in (self.schema, self.array) for one in _structs(top)]
        self._pointers = [(one, list(one.buffers[: one.n_buffers])) for one in _structs(self.array)]
        self.array.release = c_stream.NO_OP_RELEASE_ARRAY

    def __arrow_c_array__(self, requested_schema=None) -> tuple[object, object]:
        return self._capsules

    def child(self, *path: int):
        return _below(self.array, path)

    def schema_child(self, *path: int):
        return _below(self.schema, path)

    def restore(self):
        for one, was in self._before:
            ctypes.memmove(ctypes.addressof(one), was, len(was))
        for one, pointers in self._pointers:
            for i, pointer_ in enumerate(pointers):
                one.buffers[i] = pointer_


def _below(struct_, path: tuple[int, ...]):
    for i in path:
        struct_ = struct_.children[i].contents
    return struct_


def _structs(top) -> list[Any]:
    return [top, *(one for i in range(top.n_children) for one in _structs(top.children[i].contents))]
