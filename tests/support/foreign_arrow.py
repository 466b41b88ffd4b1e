"""Arrow arrays over buffers made by hand, which pyarrow does not check."""

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
    "list_view": pa.list_view(PAIR),
    "large_list_view": pa.large_list_view(PAIR),
    "map": pa.map_(pa.string(), pa.binary()),
}


def packed(format_: str, *numbers: int) -> bytes:
    return struct.pack(f"<{len(numbers)}{format_}", *numbers)


_empty: list[tuple[bytearray, bytes]] = []  # buffers that are still zeros, and what belongs into them


def array_over(type_: pa.DataType, rows: int, parts: list[bytes | None], children: Any = None) -> pa.Array:
    """An array over these buffers, whatever they hold: `filled` fills them, when pyarrow has looked at zeros."""
    areas = [None if part is None else bytearray(len(part)) for part in parts]
    if areas[0] is not None:
        areas[0][:] = parts[0] or b""  # validity bits are counted at once
    _empty.extend((area, part) for area, part in zip(areas, parts, strict=True) if area is not None and part)
    buffers = [None if area is None else pa.py_buffer(area) for area in areas]
    return pa.Array.from_buffers(type_, rows, buffers, children=children)


def filled(made: Any) -> Any:
    while _empty:
        area, part = _empty.pop()
        area[:] = part
    return made


def table_of(**columns: Any) -> pa.Table:
    return filled(pa.table(columns))


def views_of(views: list[bytes], data: list[bytes], bits: bytes | None = None) -> pa.Array:
    return array_over(pa.binary_view(), len(views), [bits, b"".join(views), *data])


def view(length: int, index: int = 0, offset: int = 0) -> bytes:
    return struct.pack("<i4sii", length, b"abcd", index, offset)


def headers_of(kind: str, first: list[int], second: list[int] | None = None, keys: Any = None) -> pa.Array:
    """Lists over four entries: offsets, or starts and sizes."""
    keys = pa.array([f"k{i}" for i in range(4)]) if keys is None else keys
    entries = pa.StructArray.from_arrays([keys, pa.array([b"1", b"2", b"3", b"4"])], fields=list(PAIR))
    format_ = "q" if kind.startswith("large") else "i"
    parts = [None, packed(format_, *first)] + ([] if second is None else [packed(format_, *second)])
    return array_over(LISTS[kind], len(first) - (second is None), parts, children=[entries])


def refused(records: Any, column: str | None, row: int | None, words: str) -> kafkarec.InvalidArrowError:
    with pytest.raises(kafkarec.InvalidArrowError, match=words) as caught:
        kafkarec.encode(records)
    error = caught.value
    assert (error.column, error.row, error.reason) == (column, row, "arrow_invalid"), error
    assert row is None or str(row) in str(error)
    assert column is None or repr(column) in str(error)
    return error


DATA = [b"0123456789abcdefghij", b"ABCDEFGHIJKLMNOPQRSTUVWXYZ"]


BYTES = {"binary": "i", "large_binary": "q"}


def bytes_of(kind: str, offsets: list[int], data: bytes = b"abcdefghijkl", bits: bytes | None = None) -> pa.Array:
    """A binary array over these offsets."""
    return array_over(getattr(pa, kind)(), len(offsets) - 1, [bits, packed(BYTES[kind], *offsets), data])


class Made:
    """A record batch given out as two capsules whose structs can be changed before anybody reads them.

    The array's release does nothing: the producer's own would follow the changed fields. `restore` puts everything
    back, and the capsules release what they hold.
    """

    def __init__(self, **columns: pa.Array) -> None:
        self._capsules = pa.record_batch(columns).__arrow_c_array__()
        self.schema = c_stream.schema_of(self._capsules[0])
        self.array = c_stream.array_of(self._capsules[1])
        self._before = [(one, bytes(one)) for top in (self.schema, self.array) for one in _structs(top)]
        self._pointers = [(one, list(one.buffers[: one.n_buffers])) for one in _structs(self.array)]
        self.array.release = c_stream.KEEPS_ARRAY

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]:
        return self._capsules

    def child(self, *path: int) -> Any:
        found = self.array
        for i in path:
            found = found.children[i].contents
        return found

    def schema_child(self, *path: int) -> Any:
        found = self.schema
        for i in path:
            found = found.children[i].contents
        return found

    def restore(self) -> None:
        for one, was in self._before:
            ctypes.memmove(ctypes.addressof(one), was, len(was))
        for one, pointers in self._pointers:
            for i, pointer_ in enumerate(pointers):
                one.buffers[i] = pointer_


def _structs(top: Any) -> list[Any]:
    return [top, *(one for i in range(top.n_children) for one in _structs(top.children[i].contents))]
