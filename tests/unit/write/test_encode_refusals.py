"""encode's refusals: messages name the column or the record, never the content of keys, values and headers."""

from collections import UserDict
from collections.abc import Iterator
from datetime import UTC, date, datetime
from types import SimpleNamespace

import builders
import c_stream
import pyarrow as pa
import pytest
import subprocesses
from foreign_arrow import PAIR
from plain_logs import batch

import kafkarec

NOW = builders.NOW
TABLE = pa.table({"offset": [3, 4], "key": [None, b"k"], "value": [b"x", None]})
GOOD = (0, NOW, b"k", b"v", [("a", b"b")])
SECRET = "s3cr\u00e9t"


# ---- Python records


def row(**changed):
    fields = {"offset": 1, "timestamp": NOW, "key": b"k", "value": b"v", "headers": []}
    return tuple((fields | changed).values())


RECORDS = {
    "None": (None, TypeError, ""),
    "bytes": (b"abcde", TypeError, ""),
    "a tuple of six": ((1, NOW, b"k", b"v", [], 0), TypeError, ""),
    "an unknown name": ({"offset": 1, "vlaue": b"v"}, ValueError, "vlaue"),
    "a batch field in a dict": ({"offset": 1, "value": b"v", "producer_id": 5}, ValueError, "producer_id"),
    "an offset with a fraction": (row(offset=1.5), TypeError, "offset"),
    "an offset above 64 bits": (row(offset=2**63), ValueError, "offset"),
    "an offset below 0": (row(offset=-1), ValueError, "offset -1"),
    "an offset that does not rise": (row(offset=0), ValueError, "offset 0 does not follow 0"),
    "a timestamp of text": (row(timestamp=SECRET), TypeError, "timestamp"),
    "a timestamp above 64 bits": (row(timestamp=2**63), ValueError, "timestamp"),
    "a day": (row(timestamp=date(2020, 1, 1)), TypeError, "timestamp"),
    "a time without a zone": (row(timestamp=datetime(2020, 1, 1)), ValueError, "time zone"),
    "a time before 1970": (row(timestamp=datetime(1969, 12, 31, tzinfo=UTC)), ValueError, "negative"),
    "a key of text": (row(key=SECRET), TypeError, "key"),
    "a value of text": (row(value=SECRET), TypeError, "value"),
    "headers of text": (row(headers=SECRET), TypeError, ""),
    "a header of three": (row(headers=[("a", b"b", b"c")]), TypeError, ""),
    "a header key of a number": (row(headers=[(5, b"v")]), TypeError, ""),
    "a header key of half a character": (row(headers=[(f"{SECRET}\ud800", b"v")]), ValueError, ""),
    "headers that fail": (row(headers=iter([("a", b"b"), 5])), TypeError, ""),
}


@pytest.mark.parametrize("name", RECORDS)
@pytest.mark.parametrize("lazily", [False, True], ids=["list", "generator"])
def test_a_wrong_record_is_named(name, lazily):
    record, error, words = RECORDS[name]
    if isinstance(record, tuple) and isinstance(record[-1], Iterator):
        record = (*record[:-1], iter([("a", b"b"), 5]))
    rows = [GOOD, record]
    with pytest.raises(error) as refused:
        kafkarec.encode(iter(rows) if lazily else rows)
    text = str(refused.value)
    assert "record 1" in text and words in text
    assert type(refused.value) is error
    errors = [refused.value, refused.value.__cause__]
    if not refused.value.__suppress_context__:
        errors.append(refused.value.__context__)
    assert not any(SECRET in str(one) or "\\ud800" in str(one) for one in errors)


def test_offsets_for_all_or_for_none():
    with pytest.raises(ValueError, match="1 of 2 records have no offset"):
        kafkarec.encode([GOOD, (None, NOW, None, None, [])])


@pytest.mark.parametrize("thing", [None, 5, b"bytes", "text", bytearray(b"b"), {}, UserDict(value=b"v"), object()])
def test_objects_that_are_no_records_are_refused(thing):
    with pytest.raises(TypeError, match="records or Arrow columns are needed, not"):
        kafkarec.encode(thing)


def test_records_too_big_for_a_batch():
    """A value of 2 GiB of untouched memory."""
    subprocesses.run("""
import mmap, kafkarec, pyarrow as pa
size = 2**31 - 1
area = mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000)
data = pa.py_buffer(area)
def of(length):
    ends = pa.py_buffer(b"".join(n.to_bytes(8, "little") for n in (0, 1, 1 + length)))
    return pa.table({"value": pa.Array.from_buffers(pa.large_binary(), 2, [None, ends, data])})
for length in (size - 1, size - 70):
    for codec in ("none", "lz4"):
        try:
            kafkarec.encode(of(length), compression=codec)
        except ValueError as refused:
            assert "2^31-1 bytes" in str(refused), refused
        else:
            raise SystemExit("taken")
""")


# ---- options

WHOLE = {"producer_id": 1, "producer_epoch": 0, "base_sequence": 0}
OPTIONS = {
    "magic True": ({"magic": True}, ValueError),
    "a codec": ({"compression": "lzo"}, ValueError),
    "a level too high": ({"compression": "gzip", "level": 10}, ValueError),
    "a level of text": ({"compression": "gzip", "level": "9"}, TypeError),
    "a level with keep": ({"compression": "keep", "level": 3}, ValueError),
    "a base offset below 0": ({"base_offset": -1}, ValueError),
    "a base offset of text": ({"base_offset": "1"}, (TypeError, ValueError)),
    "a base offset whose records do not fit": ({"base_offset": 2**63 - 1}, ValueError),
    "a batch size below 0": ({"batch_size": -1}, ValueError),
    "a batch size of True": ({"batch_size": True}, (TypeError, ValueError)),
    "a timestamp type": ({"timestamp_type": "now"}, ValueError),
    "append time without a time": ({"timestamp_type": "log_append_time"}, ValueError),
    "a leader epoch below -1": ({"partition_leader_epoch": -2}, ValueError),
    "a producer alone": ({"producer_id": 1}, ValueError),
    "a transaction alone": ({"is_transactional": True}, ValueError),
    "a sequence above int": ({**WHOLE, "base_sequence": 2**31}, ValueError),
    "a producer above long": ({**WHOLE, "producer_id": 2**63}, ValueError),
    "a producer in magic 1": ({**WHOLE, "magic": 1}, ValueError),
    "zstd in magic 1": ({"magic": 1, "compression": "zstd"}, ValueError),
}


@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.parametrize("columns", [False, True], ids=["rows", "columns"])
def test_wrong_options_are_named(name, columns):
    options, error = OPTIONS[name]
    rows = [(0, NOW, b"k", b"v", []), (1, NOW, b"k", b"v", [])]
    records = kafkarec.decode(kafkarec.encode(rows)) if columns else rows
    with pytest.raises(error) as refused:
        kafkarec.encode(records, **options)
    assert "not supported between" not in str(refused.value), "an operator's words, not ours"


# ---- Arrow


def failing():
    yield TABLE.to_batches()[0]
    raise OSError("the disk is gone")


def test_a_stream_that_fails_in_the_middle():
    reader = pa.RecordBatchReader.from_batches(TABLE.schema, failing())
    with pytest.raises(ValueError, match=r"the Arrow stream failed: .*the disk is gone"):
        kafkarec.encode(reader)


def pairs_of(keys, values):
    structs = pa.StructArray.from_arrays([keys, values], ["key", "value"])
    return pa.ListArray.from_arrays(pa.array([0, 1], pa.int32()), structs)


ONE = pa.array([b"a"])
TYPES = {
    "a dictionary": (lambda: {"value": ONE.dictionary_encode()}, "'value' is dictionary-encoded"),
    "a dictionary of header keys": (
        lambda: {"value": ONE, "headers": pairs_of(pa.array(["a"]).dictionary_encode(), ONE)},
        "'headers.key' is dictionary-encoded",
    ),
    "a dictionary of offsets": (
        lambda: {"value": ONE, "offset": pa.array([1]).dictionary_encode()},
        "'offset' is dictionary-encoded",
    ),
    "numbers as values": (lambda: {"value": [1]}, "'value' has Arrow type 'l'; binary or utf8"),
    "runs": (lambda: {"value": pa.RunEndEncodedArray.from_arrays([1], ["a"])}, "'value' has Arrow type"),
    "fractions as offsets": (lambda: {"value": ONE, "offset": [1.0]}, "'offset' has Arrow type 'g'"),
    "days as timestamps": (lambda: {"value": ONE, "timestamp": pa.array([1], pa.date32())}, "'timestamp' has Arrow"),
    "lists of nulls as headers": (lambda: {"value": ONE, "headers": [[None]]}, "'headers' has Arrow type 'n'"),
    "numbers as header values": (
        lambda: {"value": ONE, "headers": pairs_of(pa.array(["a"]), pa.array([1]))},
        "'headers.value' has Arrow type 'l'",
    ),
}


@pytest.mark.parametrize("name", TYPES)
def test_wrong_types_name_the_column(name):
    columns, words = TYPES[name]
    with pytest.raises(TypeError, match=words):
        kafkarec.encode(pa.table(columns()))


@pytest.mark.parametrize(
    "table, words",
    [
        (pa.table({}), "neither a column 'key' nor a column 'value'"),
        (pa.table({"offset": [1]}), "neither a column 'key' nor a column 'value'"),
        (pa.table({"value": ["a"], "valeu": ["b"]}), "unknown column 'valeu'; there are: .*value"),
        (pa.table({"value": ["a", "b"], "offset": [1, None]}), "record 1: its offset is null"),
        (pa.table({"value": ["a", "b"], "offset": [1, 1]}), "record 1: its offset 1 does not follow 1"),
        (pa.table({"value": ["a"], "headers": pa.array([[None]], pa.list_(PAIR))}), "record 0: a header key is null"),
        (pa.table({"value": ["a"] * 2, "headers": [[], [{"key": None, "value": b""}]]}), "record 1: a header key is"),
        (pa.Table.from_arrays([ONE, ONE], ["value", "value"]), "value"),
    ],
    ids=["no columns", "no key", "a name", "a null", "twice", "a null entry", "a null header key", "two of it"],
)
def test_refusals_name_column_or_record(table, words):
    with pytest.raises(ValueError, match=words):
        kafkarec.encode(table)


@pytest.mark.parametrize("first", [-7, 0])
def test_offsets_that_a_base_offset_moves_beyond_the_last_one(first):
    """Of the batches that rows were read from: as columns, and as Arrow with the base offsets."""
    names = ["offset", "timestamp", "base_offset", "key"]
    columns = kafkarec.decode(batch(first, 2), columns=names)
    for records in (columns, columns.to_arrow()):
        with pytest.raises(ValueError, match=r"the last offset would be above|record 1: its offset"):
            kafkarec.encode(records, base_offset=2**63 - 1)
        moved = kafkarec.decode(kafkarec.encode(records, base_offset=2**63 - 9))
        assert moved.column("offset") == [2**63 - 9, 2**63 - 8]


def test_rows_that_are_null_as_a_whole():
    rows = pa.array([{"value": "a"}, None, {"value": "c"}])
    with pytest.raises((ValueError, TypeError), match="null as a whole"):
        kafkarec.encode(rows)
    assert [record.value for record in kafkarec.decode(kafkarec.encode(rows[2:]))] == [b"c"]
    capsules = rows[2:].__arrow_c_array__()
    c_stream.array_of(capsules[1]).null_count = -1  # not counted
    [record] = kafkarec.decode(kafkarec.encode(SimpleNamespace(__arrow_c_array__=lambda: capsules)))
    assert record.value == b"c"


@pytest.mark.parametrize("array", [ONE, pa.chunked_array([ONE])], ids=["array", "chunked"])
def test_an_array_that_is_no_table(array):
    with pytest.raises(TypeError, match="a table or a struct is needed, not an array of Arrow type 'z'"):
        kafkarec.encode(array)


FACTS = {
    "magic 3": ({"magic": [3]}, {"magic": "keep"}),
    "magic 256": ({"magic": [256]}, {"magic": "keep"}),
    "zstd in magic 1": ({"magic": [1], "compression": ["zstd"]}, {"magic": "keep", "compression": "keep"}),
    "a producer in magic 1": (
        {"magic": [1], "producer_id": [1], "producer_epoch": [0], "sequence": [0]},
        {"magic": "keep"},
    ),
    "an epoch above 2^15-1": ({"producer_id": [1], "producer_epoch": [2**15], "sequence": [0]}, {}),
    "a sequence above 2^31-1": ({"producer_id": [1], "producer_epoch": [0], "sequence": [2**31]}, {}),
    "a timestamp type of 256": ({"timestamp_type": [256]}, {}),
    "a timestamp above 2^63-1": ({"timestamp": pa.array([2**63], pa.uint64())}, {}),
    "a timestamp above 2^63-1 ms": ({"timestamp": pa.array([2**60], pa.timestamp("s"))}, {}),
    "an offset below 0": ({"offset": [-5]}, {}),
}


@pytest.mark.parametrize("name", FACTS)
def test_invalid_batch_fields_are_refused(name):
    columns, options = FACTS[name]
    columns = {"value": pa.array([b"v"]), **columns}
    with pytest.raises(ValueError, match="record 0"):
        kafkarec.encode(pa.table(columns), **options)
