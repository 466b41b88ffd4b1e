"""Arrow arrays that contradict their schema: refused with column and row before a pointer is dereferenced.

The tests change fields of the C structs by ctypes and make buffers that pyarrow does not check by default.
test_arrow_check.py has offsets, views and lists of every shape.
"""

import ast
import ctypes
import re
import struct

import c_stream
import pyarrow as pa
import pytest
from foreign_arrow import (
    BYTES,
    DATA,
    LISTS,
    ExportedBatch,
    array_over,
    assert_refused,
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


def usual():
    return ExportedBatch(
        key=pa.array([b"a", None, b"ccc"], pa.binary()),
        value=pa.array([b"x" * 20, b"y", None], pa.binary_view()),
        headers=pa.array([[("h", b"1")], [], [("i", None), ("j", b"22")]], LISTS["list"]),
        offset=pa.array([5, 6, 7], pa.int64()),
    )


def test_the_usual_batch_is_accepted():
    """The array is read without the changes of the tests below."""
    result = kafkarec.decode(kafkarec.encode(usual()))
    assert [(r.offset, r.key, r.value, r.headers) for r in result] == [
        (5, b"a", b"x" * 20, [("h", b"1")]),
        (6, None, b"y", []),
        (7, b"ccc", None, [("i", None), ("j", b"22")]),
    ]


# What is changed of which struct, the column that is named, words of the message; none: a type that is not supported.
CHANGES = r"""
array n_children = 1                    |               | '\+s' with 1 children, 4 are
schema n_children = 3                   |               | 4 children, 3 are
array n_children = -1                   |               | -1 children
array children = None                   |               | has none
schema children = None                  |               | has none
array n_buffers = 0                     |               | '\+s' with 0 buffers, 1 are
array length = -1                       |               | -1 rows
array offset = -1                       |               | from row -1 on
array length = 4611686018427387904      |               | 4611686018427387904 rows
array length = 4                        | key           | 3 rows where 4 are needed
array offset = 1                        | key           | 3 rows where 4 are needed
schema offset.format = b"z"             | offset        |
schema key.format = b"l"                | key           |
schema key.format = b"+s"               | key           |
schema value.format = b"Z"              | value         | 4 buffers, 3 are
array key.n_buffers = 2                 | key           | 2 buffers, 3 are
array value.n_buffers = 2               | value         | 2 buffers, 3 are
array offset.n_buffers = 1              | offset        | 1 buffers, 2 are
array key.buffers = None                | key           | has none
array key.buffers[1] = None             | key           | no buffer of values or offsets
array value.buffers[1] = None           | value         | no buffer of values or offsets
array offset.buffers[1] = None          | offset        | no buffer of values or offsets
array key.buffers[2] = None             | key           | its offsets need 4 bytes of data
array value.buffers[3] = None           | value         | no sizes of them
array headers.buffers[1] = None         | headers       | no buffer of values or offsets
array key.buffers[0] = None             | key           | 1 nulls and has no validity bits
array key.null_count = 0                | key           | 0 nulls, its validity bits have 1
array key.null_count = 2                | key           | 2 nulls, its validity bits have 1
array key.null_count = 4                | key           | 4 nulls in 3 rows
array key.null_count = -2               | key           | -2 nulls in 3 rows
array key.release = released            | key           | already released
array key.length = 2                    | key           | 2 rows where 3 are needed
schema key.format = None                | key           |
array headers.entry.length = 2          | headers       | 3 entries, and there are 2
array headers.key.length = 2            | headers.key   | 2 rows where 3 are needed
array headers.entry.offset = 1          | headers.key   | 3 rows where 4 are needed
array headers.key.buffers[1] = None     | headers.key   | no buffer of values or
array headers.children = None           | headers       | has none
array headers.entry.n_children = 0      | headers.entry | 0 children, 2 are
array key.dictionary = the column value | key           | dictionary
"""
ROW = re.compile(r"(array|schema) (?:([\w.]+)\.)?(\w+)(?:\[(\d)\])? = (.+?) +\| (\S*) +\|(?: (.+))?")
PLACES = {
    None: (),
    "key": (0,),
    "value": (1,),
    "headers": (2,),
    "offset": (3,),
    "headers.entry": (2, 0),
    "headers.key": (2, 0, 0),
}


@pytest.mark.parametrize("row", CHANGES.strip().splitlines(), ids=lambda row: row.partition("|")[0].strip())
def test_wrong_fields_of_the_structs_are_refused(row):
    kind, place, field, buffer, value, column, words = ROW.fullmatch(row).groups()
    made = usual()
    changed = (made.child if kind == "array" else made.schema_child)(*PLACES[place])
    special = {"release": c_stream.ReleaseArray(), "dictionary": made.array.children[1]}
    if buffer:
        changed.buffers[int(buffer)] = None
    else:
        setattr(changed, field, special[field] if field in special else ast.literal_eval(value))
    try:
        if words:
            assert_refused(made, column or None, None, words)
        else:  # an unsupported type has its own message
            with pytest.raises((TypeError, kafkarec.InvalidArrowError), match=f"{column!r}"):
                kafkarec.encode(made)
    finally:
        made.restore()


@pytest.mark.parametrize("width", [b"w:-3", b"w:", b"w:4294967296", b"w:3x", b"w:99999999999999999999"])
def test_a_fixed_size_format_without_a_valid_width(width):
    made = ExportedBatch(value=pa.array([b"abc"], pa.binary(3)))
    made.schema_child(0).format = width
    assert_refused(made, "value", None, "no width from 0 to 2147483647")
    made.restore()


# ---- offsets


@pytest.mark.parametrize(
    "column, array, words",
    [
        ("value", lambda: bytes_of("binary", [0, 3, 2, 5]), "offset 2 is below the previous one"),
        ("key", lambda: bytes_of("large_binary", [0, 3, -2, 6]), "offset -2 is negative"),
        ("value", lambda: views_of([view(3), view(-1), view(3)], DATA), "view has length -1"),
        ("value", lambda: views_of([view(3), view(13, 2), view(3)], DATA), "view is in buffer 2, and there are 2"),
        ("key", lambda: views_of([view(3), view(13, 0, 8), view(3)], DATA), "view ends at byte 21 of a buffer of 20"),
        ("headers", lambda: headers_of("map", [0, 3, 2, 4]), "offset 2 is below"),
    ],
)
def test_the_column_and_the_row_are_named(column, array, words):
    """Rows are counted over the whole stream. test_arrow_check.py has buffers of every shape."""
    wrong = table_of(**{"key": [b""] * 3, column: array()})
    assert_refused(wrong, column, 1, words)
    assert_refused(pa.concat_tables([table_of(**{"key": [b""], column: array().slice(0, 1)}), wrong]), column, 2, words)


# ---- views


def test_a_view_of_a_missing_buffer():
    made = usual()
    made.child(1).buffers[2] = None
    assert_refused(made, "value", 0, "its view is in buffer 0, and there are 1")
    made.restore()


def test_a_negative_size_of_a_views_buffer():
    made = ExportedBatch(value=filled(views_of([view(13)], DATA)))
    sizes = ctypes.create_string_buffer(struct.pack("<qq", 20, -5), 16)
    made.child(0).buffers[4] = ctypes.addressof(sizes)
    assert_refused(made, "value", None, "-5 bytes for buffer 1")
    made.restore()


# ---- lists


@pytest.mark.parametrize("kind", LISTS)
def test_only_the_entries_of_the_rows_are_checked(kind):
    """Of a slice only its own entries are checked, none before or after it."""
    keys = array_over(pa.string(), 4, [None, packed("i", 5, 1, 2, 3, 1), b"abcdefgh"])
    table = table_of(value=[b"a", b"b", b"c"], headers=headers_of(kind, [0, 1, 3, 4], keys))
    assert [r.headers for r in kafkarec.decode(kafkarec.encode(table.slice(1, 1)))] == [[("b", b"2"), ("c", b"3")]]
    assert_refused(table.slice(0, 2), "headers.key", 0, "offset 1 is below")
    assert_refused(table.slice(1), "headers.key", 3, "offset 1 is below")


# ---- streams and capsules


def test_a_stream_is_consumed_once():
    """A second import found no data, and wrote an empty log."""
    batch = pa.record_batch({"key": [b"a"], "value": [b"b"]})
    schema, array = batch.__arrow_c_array__()
    stream = c_stream.Stream(schema, [array])
    assert len(kafkarec.decode(kafkarec.encode(stream))) == 1
    assert stream.released == 1
    assert_refused(stream, None, None, "its stream was already consumed")
    assert stream.released == 1


def test_an_array_is_consumed_once():
    pair = pa.record_batch({"key": [b"a"]}).__arrow_c_array__()
    assert len(kafkarec.decode(kafkarec.encode(c_stream.Capsules(array=pair)))) == 1
    assert_refused(c_stream.Capsules(array=pair), None, None, "its array was already consumed")


@pytest.mark.parametrize("other", [{"key": [b"a"]}, {"key": [1], "value": [2]}, {"key": [[1]], "value": [b""]}])
def test_a_later_batch_of_another_layout(other):
    first = pa.record_batch({"key": [b"a"], "value": [b"b"]})
    schema, array = first.__arrow_c_array__()
    stream = c_stream.Stream(schema, [array, pa.record_batch(other).__arrow_c_array__()[1]])
    with pytest.raises(kafkarec.InvalidArrowError, match="are expected"):
        kafkarec.encode(stream)
    assert stream.released == 1


def test_objects_that_are_no_capsules_are_named():
    schema, array = pa.record_batch({"key": [b"a"]}).__arrow_c_array__()
    for source, words in (
        (c_stream.Capsules(stream=17), "'arrow_array_stream' is needed, not 17"),
        (c_stream.Capsules(array=(array, schema)), "'arrow_schema' is needed"),
        (c_stream.Capsules(stream=schema), "'arrow_array_stream' is needed"),
    ):
        with pytest.raises(TypeError, match=f"an Arrow capsule {words}"):
            kafkarec.encode(source)


# ---- columns whose values are batches


@pytest.mark.parametrize("read", [kafkarec.decode_each, kafkarec.scan_each])
@pytest.mark.parametrize("kind", BYTES)
def test_a_column_of_batches_is_checked_too(read, kind):
    batch = kafkarec.encode([(0, 1, b"k", b"v", [])])
    size = len(batch)
    good = filled(bytes_of(kind, [0, size, 2 * size], batch * 2))
    assert sum(len(lists) for lists in read(good)) == 2
    for offsets, row in (([0, 2 * size, size], 1), ([-size, 0, size], 0)):
        with pytest.raises(kafkarec.InvalidArrowError) as caught:
            list(read(filled(bytes_of(kind, offsets, batch * 2))))
        assert (caught.value.column, caught.value.row) == ("values", row)
    schema, array = good.__arrow_c_array__()
    c_stream.array_of(array).n_buffers = 2
    with pytest.raises(kafkarec.InvalidArrowError, match="2 buffers, 3 are expected"):
        list(read(c_stream.Capsules(array=(schema, array))))
