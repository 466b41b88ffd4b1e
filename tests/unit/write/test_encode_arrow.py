"""encode from Arrow of all types and array offsets: it writes the rows that pyarrow lists."""

import builders
import c_stream
import duckdb
import polars as pl
import pyarrow as pa
import pytest
from foreign_arrow import PAIR
from reading import by_tuples

import kafkarec

pytestmark = pytest.mark.core


def column(data, name):
    result = kafkarec.decode(data, columns=[name], timestamp_unit="int64").column(name)
    return [list(pairs) for pairs in result] if name == "headers" else result


# ---- types


def test_every_array_may_have_another_offset():
    """Different offsets of table, struct, list, list's struct, and its children."""
    keys = pa.array(["skipped", "no", "k0", "k1", "k2", "k3"])[2:]
    contents = pa.array([b"skipped", b"v0", None, b"v2", b"v3"])[1:]
    pairs = pa.StructArray.from_arrays([keys, contents], ["key", "value"])[1:]
    lists = pa.ListArray.from_arrays(pa.array([0, 0, 1, 1, 3], pa.int32()), pairs)[1:]
    rows = pa.StructArray.from_arrays(
        [
            pa.array([7, 8, 9, 10, 11])[2:],
            pa.array([1, 2, 3, 4])[1:],
            pa.array([b"a", b"b", b"c", None])[1:],
            pa.array(["x", "y", "z", "zz", "zzz", "end"], pa.string_view())[3:],
            lists,
        ],
        ["offset", "timestamp", "key", "value", "headers"],
    )
    wanted = [
        (9, 2, b"b", b"zz", [("k1", None)]),
        (10, 3, b"c", b"zzz", []),
        (11, 4, None, b"end", [("k2", b"v2"), ("k3", b"v3")]),
    ]
    for start in range(4):
        part = rows[start:]
        assert by_tuples(kafkarec.encode(part)) == wanted[start:]
        assert by_tuples(kafkarec.encode(pa.chunked_array([rows[:start], part]))) == wanted
        assert by_tuples(kafkarec.encode(pa.table(pa.RecordBatch.from_struct_array(part)))) == wanted[start:]
    assert by_tuples(kafkarec.encode(rows[1:2])) == wanted[1:2]


def test_columns_of_type_null():
    nothing = pa.nulls(2)
    table = pa.table({"timestamp": nothing, "key": nothing, "value": ["a", "b"], "headers": nothing})
    assert by_tuples(kafkarec.encode(table)) == [(0, None, None, b"a", []), (1, None, None, b"b", [])]
    pairs = pa.list_(pa.struct([("key", pa.string()), ("value", pa.null())]))
    table = pa.table({"value": ["a"], "headers": pa.array([[{"key": "k", "value": None}]], pairs)})
    assert column(kafkarec.encode(table), "headers") == [[("k", None)]]


EMPTY_LISTS = {
    "pandas": lambda: kafkarec.decode(kafkarec.encode([(0, None, None, b"a", ())])).to_pandas(),
    "polars": lambda: pl.DataFrame({"value": [b"a"], "headers": [[]]}),
    "duckdb": lambda: duckdb.sql("select 'a'::blob as value, [] as headers"),
    "a null list": lambda: pa.table({"value": [b"a"], "headers": pa.array([None], pa.list_(pa.null()))}),
    "a slice": lambda: pa.table({"value": [b"x", b"a"], "headers": pa.array([[None], []])}).slice(1),
}


@pytest.mark.parametrize("name", EMPTY_LISTS)
def test_lists_that_are_all_empty_have_no_type(name):
    assert by_tuples(kafkarec.encode(EMPTY_LISTS[name]())) == [(0, None, None, b"a", [])]


# ---- shapes


@pytest.mark.parametrize(
    "table",
    [
        pa.table({"value": pa.array([], pa.binary())}),
        pa.table({"value": pa.chunked_array([], pa.binary())}),
        pa.table({"value": [b"a"]}).slice(1),
        pa.record_batch({"value": pa.array([], pa.binary()), "headers": pa.array([], pa.list_(PAIR))}),
        pa.RecordBatchReader.from_batches(pa.schema([("value", pa.binary())]), []),
    ],
    ids=["no rows", "no chunks", "nothing left", "record batch", "reader"],
)
@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_no_rows_give_no_bytes(table, codec):
    assert kafkarec.encode(table, compression=codec) == b""


# ---- other libraries

LIKE_SPARK = pa.table(
    {
        "offset": [3, 4],
        "timestamp": pa.array([1, 2], pa.timestamp("ms", "UTC")),
        "key": pa.array([None, b"k"]),
        "value": pa.array([b"x" * 20, None]),
        "headers": pa.array([[{"key": "a", "value": b"v"}], []], pa.list_(PAIR)),
    }
)
ITS_ROWS = [(3, 1, None, b"x" * 20, [("a", b"v")]), (4, 2, b"k", None, [])]
OTHERS = {
    "pyarrow table": lambda: LIKE_SPARK,
    "pyarrow record batch": lambda: LIKE_SPARK.to_batches()[0],
    "pyarrow reader": LIKE_SPARK.to_reader,
    "pyarrow struct array": lambda: LIKE_SPARK.to_struct_array().combine_chunks(),
    "polars": lambda: pl.DataFrame(LIKE_SPARK),
    "duckdb relation": lambda: duckdb.sql("from LIKE_SPARK"),
    "duckdb reader": lambda: duckdb.sql("from LIKE_SPARK").to_arrow_reader(1),
    "pandas": LIKE_SPARK.to_pandas,
    "a foreign stream": lambda: c_stream.StreamMethodOnly(LIKE_SPARK),
    "kafkarec's columns": lambda: kafkarec.decode(kafkarec.encode(LIKE_SPARK)),
}


@pytest.mark.parametrize("name", OTHERS)
def test_anything_with_the_arrow_protocol(name):
    assert by_tuples(kafkarec.encode(OTHERS[name]())) == ITS_ROWS


def test_texts_of_polars_and_duckdb():
    """Both export string views."""
    frame = pl.DataFrame({"key": ["a", None], "value": ["x" * 30, "short"]})
    assert by_tuples(kafkarec.encode(frame)) == [(0, None, b"a", b"x" * 30, []), (1, None, None, b"short", [])]
    result = duckdb.sql("select 'a' || i as key, make_timestamp(1000000 * i) as timestamp from range(3) t(i)")
    assert by_tuples(kafkarec.encode(result)) == [(i, 1000 * i, b"a%d" % i, None, []) for i in range(3)]
    result = duckdb.sql("select 'a'::blob as value, map {'h': 'v'::blob} as headers")
    assert by_tuples(kafkarec.encode(result)) == [(0, None, None, b"a", [("h", b"v")])]


# ---- columns of batch fields


def test_each_log_append_time_of_a_column_begins_a_batch():
    table = pa.table({"value": ["a", "b", "c"], "timestamp": [50, 50, 60], "timestamp_type": [1, 1, 1]})
    batches = kafkarec.batches(kafkarec.encode(table))
    assert [(one.record_count, one.timestamp_type, one.max_timestamp) for one in batches] == [(2, 1, 50), (1, 1, 60)]


# ---- columns that decode left out


@pytest.fixture
def decoded_part():
    rows = [(1000 + n, builders.NOW + n, b"k", b"v%d" % n, []) for n in range(5)]
    data = kafkarec.encode(rows, producer_id=4, producer_epoch=0, base_sequence=5)
    return lambda *names: kafkarec.decode(data, columns=names)


def test_columns_that_decode_left_out_are_missing_not_wrong(decoded_part):
    """A kept header must agree with its records' offsets and timestamps."""
    for names in (("value",), ("key", "value"), ("offset", "value"), ("timestamp", "value")):
        for part in (decoded_part(*names), decoded_part(*names)[1:]):
            data = kafkarec.encode(part)
            rows = by_tuples(data)
            (batch,) = kafkarec.batches(data)
            assert (batch.base_offset, batch.last_offset) == (rows[0][0], rows[-1][0]), names
            times = [row[1] for row in rows if row[1] is not None]
            assert batch.max_timestamp == max(times, default=None), names
