"""The Arrow C data interface by ctypes: reads the structs of a capsule, for buffer addresses and release callbacks.

Layouts from the Arrow C Data Interface and C Stream Interface specifications.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import Any


class ArrowSchema(ctypes.Structure):
    pass


class ArrowArray(ctypes.Structure):
    pass


class ArrowArrayStream(ctypes.Structure):
    pass


ReleaseSchema = ctypes.CFUNCTYPE(None, ctypes.POINTER(ArrowSchema))
ReleaseArray = ctypes.CFUNCTYPE(None, ctypes.POINTER(ArrowArray))
ReleaseStream = ctypes.CFUNCTYPE(None, ctypes.POINTER(ArrowArrayStream))
ArrowSchema._fields_ = [
    ("format", ctypes.c_char_p),
    ("name", ctypes.c_char_p),
    ("metadata", ctypes.c_char_p),
    ("flags", ctypes.c_int64),
    ("n_children", ctypes.c_int64),
    ("children", ctypes.POINTER(ctypes.POINTER(ArrowSchema))),
    ("dictionary", ctypes.POINTER(ArrowSchema)),
    ("release", ReleaseSchema),
    ("private_data", ctypes.c_void_p),
]
ArrowArray._fields_ = [
    ("length", ctypes.c_int64),
    ("null_count", ctypes.c_int64),
    ("offset", ctypes.c_int64),
    ("n_buffers", ctypes.c_int64),
    ("n_children", ctypes.c_int64),
    ("buffers", ctypes.POINTER(ctypes.c_void_p)),
    ("children", ctypes.POINTER(ctypes.POINTER(ArrowArray))),
    ("dictionary", ctypes.POINTER(ArrowArray)),
    ("release", ReleaseArray),
    ("private_data", ctypes.c_void_p),
]
ArrowArrayStream._fields_ = [
    (
        "get_schema",
        ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ArrowArrayStream), ctypes.POINTER(ArrowSchema)),
    ),
    (
        "get_next",
        ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ArrowArrayStream), ctypes.POINTER(ArrowArray)),
    ),
    ("get_last_error", ctypes.CFUNCTYPE(ctypes.c_char_p, ctypes.POINTER(ArrowArrayStream))),
    ("release", ReleaseStream),
    ("private_data", ctypes.c_void_p),
]

_get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_get_pointer.restype = ctypes.c_void_p
_get_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]


class StreamMethodOnly:
    """An object with `__arrow_c_stream__` and no other method: the least that a consumer may rely on."""

    def __init__(self, source):
        self._source = source

    def __arrow_c_stream__(self, requested_schema=None) -> object:
        return self._source.__arrow_c_stream__(requested_schema)


class Capsules:
    """An object whose Arrow methods return the same capsules at every call."""

    def __init__(self, stream=None, array=None):
        if stream is not None:
            self.__arrow_c_stream__ = lambda requested_schema=None: stream
        if array is not None:
            self.__arrow_c_array__ = lambda requested_schema=None: array


def stream_of(capsule) -> ArrowArrayStream:
    """Return the struct of the capsule, which must outlive it."""
    return ArrowArrayStream.from_address(_get_pointer(capsule, b"arrow_array_stream"))


def schema_of(capsule) -> ArrowSchema:
    return ArrowSchema.from_address(_get_pointer(capsule, b"arrow_schema"))


def chunks(stream: ArrowArrayStream) -> Iterator[ArrowArray]:
    """Yield every chunk of the stream; the caller releases it."""
    while True:
        array = ArrowArray()
        assert stream.get_next(ctypes.byref(stream), ctypes.byref(array)) == 0
        if not array.release:
            return
        yield array


def addresses(array: ArrowArray) -> list[int]:
    """Return the addresses of all buffers of the array and its children, depth first; 0 for an absent buffer."""
    buffer_addresses = [array.buffers[i] or 0 for i in range(array.n_buffers)]
    for i in range(array.n_children):
        buffer_addresses += addresses(array.children[i].contents)
    return buffer_addresses


def schema_fields(schema: ArrowSchema) -> tuple[Any, ...]:
    """Return name, format, flags, metadata, whether there is a dictionary, and the same of the children."""
    children = [schema_fields(schema.children[n].contents) for n in range(schema.n_children)]
    return schema.name, schema.format, schema.flags, schema.metadata, bool(schema.dictionary), children


def array_fields(array: ArrowArray) -> tuple[Any, ...]:
    """Return length, null count, offset, which buffers are present, and the same of the children."""
    buffers = [bool(array.buffers[n]) for n in range(array.n_buffers)]
    children = [array_fields(array.children[n].contents) for n in range(array.n_children)]
    assert not array.dictionary
    return array.length, array.null_count, array.offset, buffers, children


def stream_addresses(source) -> list[int]:
    """Return all buffer addresses of one export, which is read and released through the C interface alone."""
    capsule = source.__arrow_c_stream__()
    stream = stream_of(capsule)
    buffer_addresses = []
    for array in chunks(stream):
        buffer_addresses += addresses(array)
        array.release(ctypes.byref(array))
        assert not array.release, "a released array has no release callback"
    stream.release(ctypes.byref(stream))
    assert not stream.release, "a released stream has no release callback"
    return buffer_addresses


def array_of(capsule) -> ArrowArray:
    """Return the struct of the capsule, which must outlive it."""
    return ArrowArray.from_address(_get_pointer(capsule, b"arrow_array"))


def _released(struct):
    struct.contents.release = type(struct.contents.release)()


# Release callbacks that free nothing, as another owner does. Kept for the process: an array may call them at its end.
NO_OP_RELEASE_ARRAY = ReleaseArray(_released)
NO_OP_RELEASE_SCHEMA = ReleaseSchema(_released)

_new_capsule = ctypes.pythonapi.PyCapsule_New
_new_capsule.restype = ctypes.py_object
_new_capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]


class Stream:
    """A stream of one schema and of arrays that need not match it. Counts releases of the stream."""

    def __init__(self, schema, arrays: list[object]):
        self._kept = (schema, arrays)
        self._remaining = list(arrays)
        self.released = 0
        self.struct = ArrowArrayStream()
        for name, function in (("get_schema", self._schema), ("get_next", self._next), ("release", self._release)):
            setattr(self.struct, name, dict(ArrowArrayStream._fields_)[name](function))
        self.capsule = _new_capsule(ctypes.addressof(self.struct), b"arrow_array_stream", None)

    def __arrow_c_stream__(self, requested_schema=None) -> object:
        return self.capsule

    def _schema(self, _, out) -> int:
        ctypes.memmove(out, _get_pointer(self._kept[0], b"arrow_schema"), ctypes.sizeof(ArrowSchema))
        out.contents.release = NO_OP_RELEASE_SCHEMA  # the capsule keeps the schema's memory alive
        return 0

    def _next(self, _, out) -> int:
        if not self._remaining:
            ctypes.memset(out, 0, ctypes.sizeof(ArrowArray))
            return 0
        array = array_of(self._remaining.pop(0))
        ctypes.memmove(out, ctypes.addressof(array), ctypes.sizeof(ArrowArray))
        array.release = ReleaseArray()  # ownership passes to the consumer
        return 0

    def _release(self, stream):
        self.released += 1
        stream.contents.release = ReleaseStream()
