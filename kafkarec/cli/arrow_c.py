"""Columns out of `__arrow_c_stream__` with nothing but ctypes, so that text and JSON need no pyarrow.

Bytes are copied out window by window, so what Python makes of a batch that decompressed to a hundred megabytes
stays small, and nothing here points into memory that somebody else owns. Only the types of kafkarec's own two
schemas are known.
Layout: https://arrow.apache.org/docs/format/CDataInterface.html
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count, pairwise
from typing import Any

_POINTER = ctypes.POINTER


class _Schema(ctypes.Structure):
    pass


class _Array(ctypes.Structure):
    pass


class _Stream(ctypes.Structure):
    pass


_Schema._fields_ = [
    ("format", ctypes.c_char_p),
    ("name", ctypes.c_char_p),
    ("metadata", ctypes.c_void_p),
    ("flags", ctypes.c_int64),
    ("n_children", ctypes.c_int64),
    ("children", _POINTER(_POINTER(_Schema))),
    ("dictionary", ctypes.c_void_p),
    ("release", ctypes.CFUNCTYPE(None, _POINTER(_Schema))),
    ("private_data", ctypes.c_void_p),
]
_Array._fields_ = [
    ("length", ctypes.c_int64),
    ("null_count", ctypes.c_int64),
    ("offset", ctypes.c_int64),
    ("n_buffers", ctypes.c_int64),
    ("n_children", ctypes.c_int64),
    ("buffers", _POINTER(ctypes.c_void_p)),
    ("children", _POINTER(_POINTER(_Array))),
    ("dictionary", ctypes.c_void_p),
    ("release", ctypes.CFUNCTYPE(None, _POINTER(_Array))),
    ("private_data", ctypes.c_void_p),
]
_Stream._fields_ = [
    ("get_schema", ctypes.CFUNCTYPE(ctypes.c_int, _POINTER(_Stream), _POINTER(_Schema))),
    ("get_next", ctypes.CFUNCTYPE(ctypes.c_int, _POINTER(_Stream), _POINTER(_Array))),
    ("get_last_error", ctypes.CFUNCTYPE(ctypes.c_char_p, _POINTER(_Stream))),
    ("release", ctypes.CFUNCTYPE(None, _POINTER(_Stream))),
    ("private_data", ctypes.c_void_p),
]

_get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_get_pointer.restype = ctypes.c_void_p
_get_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]

# Arrow format string -> struct code of one value; timestamps are 64-bit numbers whatever their unit.
_NUMBERS = {"c": "b", "s": "h", "i": "i", "I": "I", "l": "q"}
_OFFSETS = {"z": "i", "u": "i", "+l": "i", "Z": "q", "U": "q", "+L": "q"}


@dataclass(slots=True)
class Column:
    """One column of one chunk. Numbers and booleans: `values`. Binary and text: slices of `data` between
    neighbours of `offsets`. Lists: runs of `children[0]`; structs: `children`, by name."""

    name: str
    length: int
    valid: str | None = None  # "1" and "0" a row; None: no nulls
    values: Sequence[Any] = ()
    data: bytes = b""
    offsets: Sequence[int] = ()
    text: bool = False
    children: list[Column] = field(default_factory=list)

    def numbers(self) -> Sequence[Any]:
        """The values, None for null."""
        if self.valid is None:
            return self.values
        return [value if bit == "1" else None for value, bit in zip(self.values, self.valid, strict=True)]

    def blobs(self) -> list[bytes | None]:
        """The byte strings, None for null."""
        data = self.data
        found: list[bytes | None] = [data[a:b] for a, b in pairwise(self.offsets)]
        if self.valid is not None:
            return [blob if bit == "1" else None for blob, bit in zip(found, self.valid, strict=True)]
        return found

    def objects(self) -> Sequence[Any]:
        """Numbers, booleans or text as Python values, None for null."""
        if self.text:
            return [None if blob is None else blob.decode() for blob in self.blobs()]
        return self.numbers()


@dataclass(slots=True)
class Chunk:
    """Columns of equal length, by name, in the order of the schema."""

    length: int
    columns: dict[str, Column]
    batch: int = 0  # the number of the record batch in the stream
    start: int = 0  # the row of that batch where this window of it begins


def chunks(exporter: Any, rows: int = 1 << 16, size: int = 4 << 20) -> Iterator[Chunk]:
    """Anything with `__arrow_c_stream__` whose rows are structs (a table), a window of some rows at a time.

    A window has `rows` rows at most and, where rows are alike, about `size` bytes.
    """
    capsule = exporter.__arrow_c_stream__()
    stream = _Stream.from_address(_get_pointer(capsule, b"arrow_array_stream"))
    pointer = ctypes.byref(stream)
    schema = _Schema()
    _check(stream, stream.get_schema(pointer, ctypes.byref(schema)))
    try:
        for batch in count():
            array = _Array()
            _check(stream, stream.get_next(pointer, ctypes.byref(array)))
            if not array.release:
                return
            try:
                weight = _weight(schema, array, 0, array.length)
                step = max(1, min(rows, array.length * size // max(weight, 1)))
                for start in range(0, array.length, step):
                    length = min(step, array.length - start)
                    columns = {column.name: column for column in _children(schema, array, start, length)}
                    yield Chunk(length, columns, batch, start)
            finally:
                array.release(ctypes.byref(array))
    finally:
        schema.release(ctypes.byref(schema))
        if stream.release:
            stream.release(pointer)


def _check(stream: _Stream, status: int) -> None:
    if status:
        message = stream.get_last_error(ctypes.byref(stream)) or b"no reason given"
        raise OSError(status, message.decode("utf-8", "replace"))


def _children(schema: _Schema, array: _Array, start: int, length: int) -> list[Column]:
    """A struct's own offset shifts the rows of all of its children."""
    at = start + array.offset
    pairs = ((schema.children[i].contents, array.children[i].contents) for i in range(schema.n_children))
    return [_column(child_schema, child, at, length) for child_schema, child in pairs]


def _weight(schema: _Schema, array: _Array, start: int, length: int) -> int:
    """About how many bytes `length` rows from `start` on hold, from their offsets alone."""
    kind, at = schema.format.decode(), start + array.offset
    if kind in _OFFSETS and length:
        (first,), (last,) = (_values(array.buffers[1], _OFFSETS[kind], row, 1) or (0,) for row in (at, at + length))
        if kind not in ("+l", "+L"):
            return int(8 * length + last - first)
        return 8 * length + _weight(schema.children[0].contents, array.children[0].contents, first, last - first)
    if kind == "+s":
        pairs = ((schema.children[i].contents, array.children[i].contents) for i in range(schema.n_children))
        return sum(_weight(child_schema, child, at, length) for child_schema, child in pairs)
    return 8 * length


def _column(schema: _Schema, array: _Array, start: int, length: int) -> Column:
    """Rows start .. start + length of `array`, whose own offset comes on top."""
    kind = schema.format.decode()
    column = Column(schema.name.decode(), length, text=kind in ("u", "U"))
    at = start + array.offset
    if array.null_count and array.buffers[0]:
        bits = _bits(array.buffers[0], at, length)
        column.valid = bits if "0" in bits else None
    code = "q" if kind.startswith("ts") else _NUMBERS.get(kind)
    if code:
        column.values = _values(array.buffers[1], code, at, length)
    elif kind == "b":
        column.values = [bit == "1" for bit in _bits(array.buffers[1], at, length)]
    elif kind == "+s":
        column.children = _children(schema, array, start, length)
    elif kind in _OFFSETS:
        offsets = _values(array.buffers[1], _OFFSETS[kind], at, length + 1) if length else (0,)
        first, last = offsets[0], offsets[-1]
        column.offsets = [offset - first for offset in offsets] if first else offsets
        if kind in ("+l", "+L"):
            child = array.children[0].contents
            column.children = [_column(schema.children[0].contents, child, first, last - first)]
        elif last > first:
            column.data = ctypes.string_at(array.buffers[2] + first, last - first)
    else:
        raise TypeError(f"column {column.name} has the Arrow type {kind!r}, which this reader does not know")
    return column


def _values(address: int | None, code: str, start: int, count: int) -> tuple[Any, ...]:
    if not count or not address:
        return ()
    size = struct.calcsize("=" + code)
    return struct.unpack(f"={count}{code}", ctypes.string_at(address + start * size, count * size))


def _bits(address: int | None, start: int, count: int) -> str:
    """Bits start .. start + count of a bitmap as a string of 0 and 1, the first bit first."""
    if not count or not address:
        return ""
    first, last = start // 8, (start + count + 7) // 8
    number = int.from_bytes(ctypes.string_at(address + first, last - first), "little")
    text = f"{number:0{(last - first) * 8}b}"[::-1]
    return text[start - first * 8 : start - first * 8 + count]
