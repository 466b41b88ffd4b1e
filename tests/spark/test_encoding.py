"""kafka_encode in a worker, without Spark: arrays of structs back to batches; null, gaps, bad rows, options."""

from __future__ import annotations

from typing import Any

import golden
import pyarrow as pa
import pytest

import kafkarec
from spark_udfs import decoding, encoding, function_options

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
# Their wrapper gives each record the same offset; no batch can be written like that.
NOT_RISING = {"v1-wrapper-all-inner-offsets-zero"}
READABLE = [case for case in golden.vectors() if case.name not in NOT_RISING]


def decoded(values: list[bytes | None], mode: str = "FAILFAST") -> pa.ListArray:
    chosen = function_options.make(mode=mode)
    return pa.concat_arrays(decoding.decode_values(pa.array(values, pa.binary()), chosen))


def encoded(lists: pa.Array, **chosen: Any) -> list[bytes | None]:
    pieces = list(encoding.encode_values(lists, chosen))
    assert {piece.type for piece in pieces} == {pa.binary()}
    found: list[bytes | None] = pa.concat_arrays(pieces).to_pylist()
    assert len(found) == len(lists)
    return found


def records_of(rows: list[dict[str, Any] | None], **types: pa.DataType) -> pa.ListArray:
    return pa.array([rows], pa.list_(pa.struct(list(types.items()))))


def magics(raw: bytes | None) -> set[int]:
    return set(kafkarec.scan(raw or b"").column("magic"))


@pytest.mark.parametrize("codec", CODECS)
def test_decode_of_encode_of_decode_is_the_same(codec: str) -> None:
    """All vectors in one column, as a job sees them. What magic 2 cannot say is magic 0's lack of a timestamp type."""
    lists = decoded([None, *(case.bytes for case in READABLE), b""])
    back = encoded(lists, compression=codec)
    assert (back[0], back[-1]) == (None, b"")
    again = decoded(back)
    assert len(again.values) == len(lists.values) > 1000
    wanted, found = lists.to_pylist(), again.to_pylist()
    for case, one, other in zip(READABLE, wanted[1:-1], found[1:-1], strict=True):
        if {row["timestampType"] for row in one} & {-1}:
            one, other = ([row | {"timestampType": None} for row in rows] for rows in (one, other))
        assert one == other, case.name
    codecs = {each for raw in back if raw for each in kafkarec.scan(raw).column("compression")}
    assert codecs == {codec}


@pytest.mark.parametrize("magic", [0, 1])
def test_old_magics_come_back_as_they_were(magic: int) -> None:
    values = [case.bytes for case in READABLE if magics(case.bytes) == {magic}]
    lists = decoded(values)
    kinds = {kind for rows in lists.to_pylist() for kind in [row["timestampType"] for row in rows]}
    assert len(values) > 10 and (kinds == {-1} if magic == 0 else kinds <= {0, 1, -1})
    back = encoded(lists, magic=magic)
    assert {each for raw in back for each in magics(raw)} == {magic}
    same = [one == other for one, other in zip(lists.to_pylist(), decoded(back).to_pylist(), strict=True)]
    odd = [name for name, equal in zip(names_of(magic), same, strict=True) if not equal]
    # a wrapper of magic 1 around messages of magic 0: they have no timestamp type, the new ones do
    assert odd == (["v1-wrapper-with-v0-inner"] if magic else [])


def names_of(magic: int) -> list[str]:
    return [case.name for case in READABLE if magics(case.bytes) == {magic}]


def test_canonical_bytes_come_back_to_the_byte() -> None:
    raw = kafkarec.encode([(offset, 5, b"k", b"v", [("h", None)]) for offset in (3, 4, 9)])
    assert encoded(decoded([raw, raw + raw[:0]])) == [raw, raw]


def test_columns_that_are_missing_are_null_and_offsets_are_counted() -> None:
    lists = records_of([{"value": b"a"}, {"value": None}], value=pa.binary())
    (raw,) = encoded(lists)
    found = [(one.offset, one.timestamp, one.key, one.value, one.headers) for one in kafkarec.decode(raw or b"")]
    assert found == [(0, None, None, b"a", []), (1, None, None, None, [])]


def test_texts_and_milliseconds_are_taken() -> None:
    types = {"offset": pa.int32(), "timestamp": pa.int64(), "key": pa.string(), "value": pa.string()}
    (raw,) = encoded(records_of([{"offset": 7, "timestamp": 1, "key": "ä", "value": "b"}], **types))
    (one,) = kafkarec.decode(raw or b"")
    assert (one.offset, one.timestamp, one.key, one.value) == (7, 1, "ä".encode(), b"b")


def test_slices_and_large_lists() -> None:
    lists = decoded([b"", None, *(case.bytes for case in READABLE[:4])])
    wanted = encoded(lists)
    assert encoded(lists[1:5]) == wanted[1:5]
    large = lists.cast(pa.large_list(lists.type.value_field))
    assert encoded(large[3:]) == wanted[3:]


def test_a_null_list_with_children_below_it_is_null() -> None:
    """Arrow lets a null list have elements; nobody may write them."""
    whole = records_of([{"value": b"a"}, {"value": b"b"}], value=pa.binary())
    mask = pa.array([True, False])
    lists = pa.ListArray.from_arrays(pa.array([0, 1, 2], pa.int32()), whole.values, mask=mask)
    first, second = encoded(lists)
    assert first is None and [one.value for one in kafkarec.decode(second or b"")] == [b"b"]


def test_output_goes_in_pieces_between_values() -> None:
    one = [{"value": b"v" * (3 << 20)}]
    lists = pa.array([one] * 7, pa.list_(pa.struct([("value", pa.binary())])))
    pieces = list(encoding.encode_values(lists, {}))
    assert [len(piece) for piece in pieces] == [3, 3, 1]
    assert [len(piece) for piece in encoding.encode_values(lists[:0], {})] == [0]


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([{"offset": 5}, {"offset": 5}], r"row 1 of an input batch of 2, 2 records with offsets 5 to 5: record 1: .*5"),
        ([{"offset": 5}, {"offset": None}], "row 1 of .*offsets 5 to None: record 1: its offset is null"),
        ([{"offset": 5}, None], "record 1: it is null; leave it out: filter"),
        ([{"offset": 5, "timestamp": -7}], "record 0: its timestamp -7 is negative"),
        ([{"offset": 5, "_corrupt_record": "{}"}], "record 0: _corrupt_record is set, so it is damage and no record"),
        ([{"offset": 5, "headers": [{"key": None, "value": b""}]}], "record 0: a header key is null"),
    ],
)
def test_a_bad_row_is_named_with_its_place(rows: list[dict[str, Any] | None], words: str) -> None:
    pair = pa.struct([("key", pa.string()), ("value", pa.binary())])
    types = [("offset", pa.int64()), ("timestamp", pa.int64()), ("value", pa.binary()), ("headers", pa.list_(pair))]
    struct = pa.struct([*types, ("_corrupt_record", pa.string())])
    lists = pa.array([[{"offset": 1, "value": b"good"}], rows], pa.list_(struct))
    with pytest.raises(ValueError, match=words):
        encoded(lists)
    assert encoded(lists[:1]) != [None]


def test_damage_of_a_permissive_decode_is_refused_and_can_be_filtered() -> None:
    case = golden.vector("v2-none-logappend")
    bad = bytearray(case.bytes)
    bad[-1] ^= 1
    lists = decoded([case.bytes + bytes(bad)], "PERMISSIVE")
    with pytest.raises(ValueError, match="record 5: _corrupt_record is set"):
        encoded(lists)
    kept = pa.array([[row for row in lists.to_pylist()[0] if row["_corrupt_record"] is None]], lists.type)
    assert decoded(encoded(kept)).equals(kept)


@pytest.mark.parametrize(
    ("array", "words"),
    [
        (pa.array([b"a"]), "takes array<struct<.*not binary"),
        (pa.array([[b"a"]]), "takes array<struct<.*not list"),
        (records_of([{"value": 7}], value=pa.int32()), "column 'value' has Arrow type 'i'; binary or utf8 is needed"),
    ],
)
def test_wrong_type(array: pa.Array, words: str) -> None:
    with pytest.raises(TypeError, match=words):
        list(encoding.kafka_encode(iter([array])))


def test_unknown_field_is_named() -> None:
    with pytest.raises(ValueError, match="unknown column 'valeu'"):
        encoded(records_of([{"valeu": b"", "value": b""}], valeu=pa.binary(), value=pa.binary()))


# ---- options ----


@pytest.mark.parametrize(
    ("given", "literal"),
    [
        ({}, None),
        ({"compression": "none", "magic": 2, "level": None}, None),
        ({"compression": "zstd"}, "zstd"),
        ({"compression": "zstd", "level": 9}, '{"compression": "zstd", "level": 9}'),
        ({"magic": 0}, '{"magic": 0}'),
        (
            {"producer_id": 0, "producer_epoch": 0, "base_sequence": 0},
            '{"base_sequence": 0, "producer_epoch": 0, "producer_id": 0}',
        ),
    ],
)
def test_options_travel_as_one_literal(given: dict[str, Any], literal: str | None) -> None:
    assert encoding.options_of(given) == literal
    if literal is not None:
        assert encoding.from_literal(literal) == {name: each for name, each in given.items() if each is not None}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("zst", "compression 'zst': one of none"),
        ('{"levl": 3}', "no option 'levl'; did you mean level?"),
        ('{"xyz": 3}', "no option 'xyz'; there are: compression, level"),
        ('{"compression": "zstd", "level": 99}', "levels -131072 to 22, not 99"),
        ('{"magic": 5}', "magic 5: one of 0, 1, 2"),
        ('{"base_offset": -1}', "base_offset -1"),
        ('{"magic"', "no JSON object"),
        (None, "are null: name a codec"),
    ],
)
def test_wrong_options(text: str | None, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        encoding.from_literal(text)


def test_options_reach_the_batches() -> None:
    lists = records_of([{"value": b"a"}, {"value": b"b"}], value=pa.binary())
    literal = '{"compression": "gzip", "base_offset": 40, "batch_size": 1, "partition_leader_epoch": 6}'
    (found,) = encoding.kafka_encode(iter([(lists, pa.array([literal]))]))
    table = kafkarec.scan(found[0].as_py())
    assert table.column("base_offset") == [40, 41]
    assert set(table.column("partition_leader_epoch")) == {6} and set(table.column("compression")) == {"gzip"}


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ((["none", "zstd"],), ValueError, "must be a literal"),
        ((["zstd"] * 2, ["more"] * 2), TypeError, r"the call is kafka_encode\(records\[, options\]\), and 3"),
    ],
)
def test_wrong_arguments(arguments: tuple[list[str], ...], error: type[Exception], words: str) -> None:
    lists = decoded([READABLE[0].bytes] * 2)
    with pytest.raises(error, match=words):
        list(encoding.kafka_encode(iter([(lists, *map(pa.array, arguments))])))
