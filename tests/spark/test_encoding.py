"""kafka_encode in a worker, without Spark: arrays of structs become batches; null, offset gaps, bad rows, options."""

import golden
import pyarrow as pa
import pytest
from arrow_values import decode
from builders import CODECS, flipped

import kafkarec
from spark_udfs import encoding

# Their wrapper gives each record the same offset, which no written batch can have.
NOT_RISING = {"v1-wrapper-all-inner-offsets-zero"}
READABLE = [case for case in golden.vectors() if case.name not in NOT_RISING]


def encoded(list_array, **options):
    pieces = list(encoding.encode_values(list_array, options))
    assert {piece.type for piece in pieces} == {pa.binary()}
    batches = pa.concat_arrays(pieces).to_pylist()
    assert len(batches) == len(list_array)
    return batches


def records_of(rows, **types):
    return pa.array([rows], pa.list_(pa.struct(list(types.items()))))


@pytest.mark.parametrize("codec", CODECS)
def test_decode_of_encode_returns_the_same_rows(codec):
    """All vectors in one column, as in a job. Only magic 0's lack of a timestamp type cannot be expressed in magic
    2."""
    list_array = decode([None, *(case.bytes for case in READABLE), b""])
    encoded_again = encoded(list_array, compression=codec)
    assert (encoded_again[0], encoded_again[-1]) == (None, b"")
    again = decode(encoded_again)
    assert len(again.values) == len(list_array.values) > 1000
    expected, actual = list_array.to_pylist(), again.to_pylist()
    for case, one, other in zip(READABLE, expected[1:-1], actual[1:-1], strict=True):
        if {row["timestampType"] for row in one} & {-1}:
            one, other = ([row | {"timestampType": None} for row in rows] for rows in (one, other))
        assert one == other, case.name
    codecs = {each for raw in encoded_again if raw for each in kafkarec.scan(raw).column("compression")}
    assert codecs == {codec}


def test_strings_and_milliseconds_are_accepted():
    types = {"offset": pa.int32(), "timestamp": pa.int64(), "key": pa.string(), "value": pa.string()}
    (raw,) = encoded(records_of([{"offset": 7, "timestamp": 1, "key": "ä", "value": "b"}], **types))
    (one,) = kafkarec.decode(raw or b"")
    assert (one.offset, one.timestamp, one.key, one.value) == (7, 1, "ä".encode(), b"b")


def test_a_null_list_with_children_below_it_is_null():
    """Arrow permits elements of a null list; they must not be written."""
    whole = records_of([{"value": b"a"}, {"value": b"b"}], value=pa.binary())
    mask = pa.array([True, False])
    list_array = pa.ListArray.from_arrays(pa.array([0, 1, 2], pa.int32()), whole.values, mask=mask)
    first, second = encoded(list_array)
    assert first is None and [one.value for one in kafkarec.decode(second or b"")] == [b"b"]


def test_output_is_split_between_values():
    one = [{"value": b"v" * (3 << 20)}]
    list_array = pa.array([one] * 7, pa.list_(pa.struct([("value", pa.binary())])))
    pieces = list(encoding.encode_values(list_array, {}))
    assert [len(piece) for piece in pieces] == [3, 3, 1]
    assert [len(piece) for piece in encoding.encode_values(list_array[:0], {})] == [0]


@pytest.mark.parametrize(
    "rows, message",
    [
        ([{"offset": 5}, {"offset": 5}], r"row 1 of an input batch of 2, 2 records with offsets 5 to 5: record 1: .*5"),
        ([{"offset": 5}, {"offset": None}], "row 1 of .*offsets 5 to None: record 1: its offset is null"),
        ([{"offset": 5}, None], "record 1: it is null; leave it out: filter"),
        ([{"offset": 5, "timestamp": -7}], "record 0: its timestamp -7 is negative"),
        ([{"offset": 5, "headers": [{"key": None, "value": b""}]}], "record 0: a header key is null"),
    ],
)
def test_the_error_names_value_and_row(rows, message):
    pair = pa.struct([("key", pa.string()), ("value", pa.binary())])
    types = [("offset", pa.int64()), ("timestamp", pa.int64()), ("value", pa.binary()), ("headers", pa.list_(pair))]
    list_array = pa.array([[{"offset": 1, "value": b"good"}], rows], pa.list_(pa.struct(types)))
    with pytest.raises(ValueError, match=message):
        encoded(list_array)
    assert encoded(list_array[:1]) != [None]


def test_damage_of_a_permissive_decode_is_refused_and_can_be_filtered():
    case = golden.vector("v2-none-logappend")
    list_array = decode([case.bytes + flipped(case.bytes)], "PERMISSIVE")
    with pytest.raises(ValueError, match="record 5: _corrupt_record is set, so it is damage, not a record"):
        encoded(list_array)
    kept = pa.array([[row for row in list_array.to_pylist()[0] if row["_corrupt_record"] is None]], list_array.type)
    assert decode(encoded(kept)).equals(kept)


@pytest.mark.parametrize(
    "array, message",
    [
        (pa.array([b"a"]), "takes array<struct<.*not binary"),
        (pa.array([[b"a"]]), "takes array<struct<.*not array<binary>"),
        (records_of([{"value": 7}], value=pa.int32()), "column 'value' has Arrow type 'i'; binary or utf8 is needed"),
    ],
)
def test_a_wrong_type_is_refused(array, message):
    with pytest.raises(TypeError, match=message):
        list(encoding.kafka_encode(iter([array])))


# ---- options ----


@pytest.mark.parametrize(
    "given, literal",
    [
        ({}, None),
        ({"compression": "none", "magic": 2, "level": None}, None),
        ({"compression": "zstd"}, "zstd"),
        ({"compression": "zstd", "level": 9}, '{"compression": "zstd", "level": 9}'),
        ({"magic": 0}, '{"magic": 0}'),
        ({"batch_size": 100, "base_offset": 0}, '{"base_offset": 0, "batch_size": 100}'),
    ],
)
def test_options_are_passed_as_one_literal(given, literal):
    assert encoding.to_literal(given) == literal
    if literal is not None:
        assert encoding.from_literal(literal) == {name: each for name, each in given.items() if each is not None}


@pytest.mark.parametrize(
    "text, message",
    [
        ("zst", "compression 'zst': one of none"),
        ('{"levl": 3}', "no option 'levl'; did you mean level?"),
        ('{"xyz": 3}', "no option 'xyz'; there are: compression, level"),
        ('{"compression": "zstd", "level": 99}', "levels -131072 to 22, not 99"),
        ('{"magic": 5}', "magic 5: one of 0, 1, 2"),
        ('{"base_offset": -1}', "base_offset -1"),
        ('{"magic"', 'the options of kafka_encode must be JSON such as {"compression": "zstd", "level": 3}: '),
        (None, 'the compression of kafka_encode is null; pass one, or JSON such as {"compression": "zstd"'),
    ],
)
def test_wrong_options_are_refused(text, message):
    with pytest.raises(ValueError, match=message):
        encoding.from_literal(text)


def test_options_set_fields_of_the_batches():
    list_array = records_of([{"value": b"a"}, {"value": b"b"}], value=pa.binary())
    literal = '{"compression": "gzip", "base_offset": 40, "batch_size": 1}'
    (batches,) = encoding.kafka_encode(iter([(list_array, pa.array([literal]))]))
    table = kafkarec.scan(batches[0].as_py())
    assert table.column("base_offset") == [40, 41]
    assert set(table.column("compression")) == {"gzip"}


@pytest.mark.parametrize(
    "arguments, error, message",
    [
        ((["none", "zstd"],), ValueError, "must be a literal"),
        ((["zstd"] * 2, ["more"] * 2), TypeError, r"the call is kafka_encode\(records\[, options\]\), and 3"),
    ],
)
def test_wrong_arguments_are_refused(arguments, error, message):
    list_array = decode([READABLE[0].bytes] * 2)
    with pytest.raises(error, match=message):
        list(encoding.kafka_encode(iter([(list_array, *map(pa.array, arguments))])))
