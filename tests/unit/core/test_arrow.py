"""The exported C structs, field by field as the Arrow C data interface requires: chunks, slices and lists."""

import ctypes

import builders
import c_stream
import pytest
from allocations import Allocations
from plain_logs import batch

import kafkarec
from kafkarec import _core

pytestmark = pytest.mark.core

NULLABLE = 2
HEADERS = [(b"h", b"v"), (b"g", None)]
FOUR = builders.batch(
    [
        builders.record(key=None, headers=HEADERS),
        builders.record(offset_delta=1, value=None),
        builders.record(offset_delta=2, headers=HEADERS[:1]),
        builders.record(offset_delta=3, key=None),
    ]
)
ONE = batch(4, 1, key=b"k", value=b"v")
UNKNOWN = -1
"""The null count of a slice: unknown, the consumer counts."""


def field(name, format_, flags, *children):
    return name, format_, flags, None, False, list(children)


def fixed(rows, offset):
    return rows, 0, offset, [False, True], []


def binary(rows, offset=0, nulls=0):
    """A column without nulls has no validity buffer."""
    return rows, nulls, offset, [nulls != 0, True, True], []


def table(rows, key, value, headers, header_nulls, offset=0):
    """Return the six columns; `key`, `value`, `header_nulls`: null counts. Entries of headers are never sliced."""
    entries = headers, 0, 0, [False], [binary(headers), binary(headers, 0, header_nulls)]
    columns = [fixed(rows, offset), fixed(rows, offset), fixed(rows, offset)]
    columns += [binary(rows, offset, key), binary(rows, offset, value), (rows, 0, offset, [False, True], [entries])]
    return rows, 0, 0, [False], columns


def arrays(source):
    capsule = source.__arrow_c_stream__()
    result = []
    for array in c_stream.chunks(c_stream.stream_of(capsule)):
        result.append(c_stream.array_fields(array))
        array.release(ctypes.byref(array))
    return result


def schema_fields(key_format=b"u"):
    item = field(b"item", b"+s", 0, field(b"key", key_format, 0), field(b"value", b"z", NULLABLE))
    return field(
        b"",
        b"+s",
        0,
        field(b"offset", b"l", 0),
        field(b"timestamp", b"tsm:UTC", NULLABLE),
        field(b"timestamp_type", b"c", NULLABLE),
        field(b"key", b"z", NULLABLE),
        field(b"value", b"z", NULLABLE),
        field(b"headers", b"+l", 0, item),
    )


def test_the_fields_of_the_exported_schema():
    for keys, format_ in (("utf8", b"u"), ("binary", b"z")):
        capsule = kafkarec.decode(FOUR, header_keys=keys).__arrow_c_schema__()
        assert c_stream.schema_fields(c_stream.schema_of(capsule)) == schema_fields(format_)


def test_the_fields_of_exported_arrays_and_slices():
    columns = kafkarec.decode(FOUR)
    assert arrays(columns) == arrays(columns[:]) == [table(4, 2, 1, 3, 1)]
    assert arrays(columns[1:3]) == [table(2, UNKNOWN, UNKNOWN, 3, 1, offset=1)]
    assert arrays(columns[:3]) == [table(3, UNKNOWN, UNKNOWN, 3, 1)]
    assert arrays(columns[3:]) == [table(1, UNKNOWN, UNKNOWN, 3, 1, offset=3)]
    assert arrays(columns[2:2]) == []
    assert arrays(kafkarec.decode(ONE)) == [table(1, 0, 0, 0, 0)]
    assert arrays(kafkarec.decode(FOUR + FOUR)[3:5]) == [table(2, UNKNOWN, UNKNOWN, 6, 2, offset=3)]


def released_at_once(struct):
    struct.release(ctypes.byref(struct))
    assert not struct.release


def move_child(kind, parent, number):
    """Move a child as a consumer does: copy the struct, and mark the parent's child as released."""
    child = kind()
    ctypes.memmove(ctypes.byref(child), parent.children[number], ctypes.sizeof(kind))
    parent.children[number].contents.release = type(child.release)()
    return child


def test_moved_children_live_until_they_are_released():
    """For arrays and schemas, and the entries of headers; after the last release no memory is left."""
    with Allocations(_core) as heap:
        stream = c_stream.stream_of(capsule := kafkarec.decode(FOUR).__arrow_c_stream__())
        schema, array = c_stream.ArrowSchema(), c_stream.ArrowArray()
        assert stream.get_schema(ctypes.byref(stream), ctypes.byref(schema)) == 0
        assert stream.get_next(ctypes.byref(stream), ctypes.byref(array)) == 0
        released_at_once(stream)
        del capsule
        name, headers = move_child(c_stream.ArrowSchema, schema, 3), move_child(c_stream.ArrowSchema, schema, 5)
        entries = move_child(c_stream.ArrowSchema, headers, 0)
        keys, lists = move_child(c_stream.ArrowArray, array, 3), move_child(c_stream.ArrowArray, array, 5)
        values = move_child(c_stream.ArrowArray, lists.children[0].contents, 1)
        for struct in (schema, headers, array, lists):
            released_at_once(struct)
        assert c_stream.schema_fields(name) == field(b"key", b"z", NULLABLE)
        assert c_stream.schema_fields(entries) == schema_fields()[5][5][5][0]
        assert c_stream.array_fields(keys) == binary(4, 0, 2)
        assert ctypes.string_at(keys.buffers[2], 2) == b"kk"
        assert ctypes.string_at(values.buffers[2], 2) == b"vv"
        for struct in (name, entries, keys, values):
            released_at_once(struct)
    assert (heap.alive, heap.overrun) == (0, 0)


def test_a_struct_may_have_any_content_before_it_is_filled():
    """As uninitialised memory on a consumer's stack."""
    with Allocations(_core) as heap:
        stream = c_stream.stream_of(capsule := kafkarec.decode(ONE).__arrow_c_stream__())
        for kind, ask in ((c_stream.ArrowSchema, stream.get_schema), (c_stream.ArrowArray, stream.get_next)):
            struct = kind()
            ctypes.memset(ctypes.byref(struct), 0x5A, ctypes.sizeof(kind))
            assert ask(ctypes.byref(stream), ctypes.byref(struct)) == 0
            by_hand = c_stream.schema_fields if kind is c_stream.ArrowSchema else c_stream.array_fields
            assert by_hand(struct) == (schema_fields() if kind is c_stream.ArrowSchema else table(1, 0, 0, 0, 0))
            released_at_once(struct)
        end = c_stream.ArrowArray()
        ctypes.memset(ctypes.byref(end), 0x5A, ctypes.sizeof(end))
        for _ in range(2):
            assert stream.get_next(ctypes.byref(stream), ctypes.byref(end)) == 0
            assert bytes(end) == bytes(ctypes.sizeof(end)), "a released array is the end"
        del capsule, stream
    assert (heap.alive, heap.overrun) == (0, 0)
