"""Decoding an Arrow array of bytes in a worker: shared buffers, damage in order, all forms of input."""

import base64
import gzip
import json
from inspect import signature

import golden
import pyarrow as pa
import pytest
from arrow_values import GOOD, decode, scan
from builders import flipped
from source_rows import expected

import kafkarec
from spark_udfs import decoding, function_options, schema, udtf
from spark_udfs.function_options import FunctionOptions
from spark_udfs.source import options as source_options

FIELDS = [column.name for column in schema.RECORD_COLUMNS]


@pytest.mark.parametrize("case", golden.vectors(), ids=str)
def test_rows_equal_those_of_the_standalone_decode(case):
    assert decode([case.bytes]).to_pylist() == [[expected(each, None, None) for each in kafkarec.decode(case.bytes)]]


def addresses(array):
    return {buffer.address for buffer in array.buffers() if buffer is not None}


def test_record_data_is_not_copied():
    values = pa.array([GOOD, None, b"", GOOD * 3])
    (piece,) = kafkarec.decode_each(values, columns=schema.kafkarec_names(schema.RECORD_COLUMNS), timestamp_unit="us")
    theirs = pa.array(piece).values
    ours = decoding.to_spark_lists(piece, schema.RECORD_COLUMNS).values
    for name in ("offset", "timestamp", "key", "value"):
        assert addresses(ours.field(name)) == addresses(theirs.field(name)), name
    shared = addresses(ours.field("headers").values) & addresses(theirs.field("headers").values)
    assert len(shared) >= 4  # offsets and bytes of header keys and of header values


@pytest.mark.parametrize("type_", [pa.binary(), pa.large_binary()], ids=str)
def test_null_gives_null_and_empty_gives_empty(type_):
    rows = decode([None, b"", GOOD, None], type_=type_)
    assert [None if row is None else len(row) for row in rows.to_pylist()] == [None, 0, 5, None]
    assert rows.to_pylist()[2][0]["key"] == b"key-0"


def test_damage_is_one_element_between_the_good_records():
    rows = decode([GOOD, None, GOOD + flipped(GOOD) + GOOD, b"", flipped(GOOD)], "PERMISSIVE").to_pylist()
    assert [None if row is None else len(row) for row in rows] == [5, None, 11, 0, 1]
    middle = rows[2]
    assert [row["offset"] for row in middle] == [10, 11, 12, 13, 14, None, 10, 11, 12, 13, 14]
    assert [row["_corrupt_record"] is None for row in middle].count(False) == 1
    damage = json.loads(middle[5].pop("_corrupt_record"))
    assert set(middle[5].values()) == {None}
    assert list(damage) == ["position", "length", "lost_from", "lost_to", "next_position", "reason", "detail"]
    assert (damage["position"], damage["length"], damage["reason"]) == (len(GOOD), len(GOOD), "crc_mismatch")
    assert damage["next_position"] == 2 * len(GOOD)
    assert middle[:5] == middle[6:] == rows[0]
    assert json.loads(rows[4][0]["_corrupt_record"])["position"] == 0


@pytest.mark.parametrize("case", golden.invalid(), ids=str)
def test_permissive_never_raises_and_reports_each_damage(case):
    """The core's errors="skip" and the elements report the same damage; a value after a bad one is whole."""
    rows = decode([case.bytes, GOOD], "PERMISSIVE").to_pylist()
    standalone = kafkarec.decode(case.bytes, errors="skip")
    expected = [decoding.corrupt_record_json(damage) for damage in standalone.damage]
    assert [row["_corrupt_record"] for row in rows[0] if row["_corrupt_record"]] == expected
    assert len(rows[0]) == len(standalone) + len(expected)
    assert len(rows[1]) == 5


def test_failfast_names_byte_and_offset_in_the_first_line():
    with pytest.raises(kafkarec.CorruptRecordError) as caught:
        decode([GOOD, GOOD + flipped(GOOD)])
    first = str(caught.value).splitlines()[0]
    assert f"byte {len(GOOD)}" in first
    assert "base offset 10" in first
    assert any("in row 1 of an input batch of 2" in note for note in caught.value.__notes__)
    assert b"key-0" not in str(caught.value).encode()


def test_explode_splits_a_large_value_between_records():
    batch = pa.RecordBatch.from_arrays([pa.array(["a"]), pa.array([GOOD * 50])], ["name", "value"])
    chosen = function_options.from_keywords(max_output_bytes=4 * len(GOOD))
    pieces = list(decoding.Explode(chosen)(iter([batch])))
    whole = list(decoding.Explode(FunctionOptions())(iter([batch])))
    assert len(whole) == 1 and len(pieces) > 5
    assert pa.Table.from_batches(pieces).equals(pa.Table.from_batches(whole))


def test_an_exceeded_payload_limit_is_an_error_or_a_reason():
    raw = golden.vector("v2-zstd-transactional").bytes
    with pytest.raises(kafkarec.LimitExceededError, match="max_decompressed_bytes"):
        decode([raw], max_decompressed_bytes=1)
    (rows,) = decode([raw], "PERMISSIVE", max_decompressed_bytes=1).to_pylist()
    assert json.loads(rows[0]["_corrupt_record"])["reason"] == "limit_exceeded"


def test_timestamp_beyond_microseconds_is_null():
    """A Kafka timestamp is 64 bits of milliseconds; Spark's is in microseconds, so a huge one does not fit."""
    vector = golden.vector("v2-ts-delta-wraps")
    rows = decode([vector.bytes])
    raw = [record["timestamp"] for batch in vector.json["batches"] for record in batch["records"]]
    milliseconds = rows.values.field("timestamp").cast(pa.int64()).to_pylist()
    assert milliseconds == [ms * 1000 if -(2**63) <= ms * 1000 < 2**63 and ms != -1 else None for ms in raw]
    assert None in milliseconds


@pytest.mark.parametrize("value", [b'{"id": 7, "text": "paid by card, sent by mail"}', base64.b64encode(GOOD)])
def test_a_value_that_is_no_batch_is_told_with_what_to_use(value):
    rows = [
        lambda: decode([GOOD, value]),
        lambda: list(udtf.record_tuples(value, function_options.from_keywords())),
        lambda: list(decoding.kafka_scan(iter([pa.array([value])]))),
    ]
    for each in rows:
        with pytest.raises(kafkarec.UnsupportedMagicError) as caught:
            each()
        (note,) = [note for note in caught.value.__notes__ if not note.startswith("in row")]
        assert note.startswith("this is not a record batch, or its first bytes are damaged. The value of a record is")
        assert "string(value)" in note and "unbase64(value)" in note and "PERMISSIVE" in note


# The header of a zstd file, and then bytes as zstd has them, which a batch could have too: the first ones of a batch as
# literals, so the magic is 0, and the length is larger than the value.
ZSTD = b"\x28\xb5\x2f\xfd\x60\x6e\x01\x05" + b"\x10" + bytes(60)


@pytest.mark.parametrize("end_of_log", ["tail", "strict"])
@pytest.mark.parametrize(
    ("value", "note"),
    [
        (gzip.compress(GOOD), "looks like a gzip file: unpack it first; record batches are compressed within"),
        (ZSTD, "looks like a zstd file: unpack it first; record batches are compressed within"),
        (b"PAR1" + bytes(60), "looks like a Parquet file, not a Kafka log"),
    ],
)
def test_a_value_of_another_type_is_no_incomplete_batch(value, note, end_of_log):
    with pytest.raises(kafkarec.KafkaRecordError) as caught:
        decode([GOOD, value], end_of_log=end_of_log)
    assert any(each.startswith("in row 1 of an input batch of 2") for each in caught.value.__notes__)
    assert f"the value {note}" in caught.value.__notes__
    damaged, good = decode([value, GOOD], mode="PERMISSIVE", end_of_log=end_of_log).to_pylist()
    assert [json.loads(row["_corrupt_record"])["length"] for row in damaged] == [len(value)]
    assert [row["_corrupt_record"] for row in good] == [None] * 5


def test_a_larger_value_than_allowed_is_refused_with_what_reads_it():
    literal = function_options.to_literal(function_options.from_keywords(max_value_bytes=len(GOOD)))
    values, batch = pa.array([GOOD]), pa.record_batch([pa.array([GOOD * 2])], ["value"])
    assert len(list(decoding.kafka_decode(iter([(values, pa.array([literal]))])))) == 1
    for refused in (
        lambda: list(decoding.kafka_decode(iter([(pa.array([GOOD * 2]), pa.array([literal]))]))),
        lambda: list(decoding.Explode(function_options.from_literal(literal))(iter([batch]))),
    ):
        with pytest.raises(ValueError, match=rf"a value has {2 * len(GOOD)} bytes.*spark.read.format\("):
            refused()


def test_scan_reports_damage():
    bad = bytearray(GOOD)
    bad[8:12] = (3).to_bytes(4, "big")  # the size field is below that of any header
    with pytest.raises(kafkarec.CorruptRecordError):
        scan([bytes(bad)])
    later_batch = (20).to_bytes(8, "big") + GOOD[8:]  # the checksum does not cover the base offset
    (rows,) = scan([GOOD + bytes(bad) + later_batch], "PERMISSIVE")
    assert [row["_corrupt_record"] is None for row in rows] == [True, False, True]
    assert json.loads(rows[1]["_corrupt_record"])["reason"] == "size_too_small"


# ---- arguments ----


def test_options_are_passed_as_one_literal():
    for options in ({"mode": "permissive"}, {"mode": "PERMISSIVE", "control": True, "max_output_bytes": 5}):
        chosen = function_options.from_keywords(**options)
        assert function_options.from_literal(function_options.to_literal(chosen)) == chosen
    assert function_options.to_literal(function_options.from_keywords(mode="permissive")) == "PERMISSIVE"
    assert function_options.to_literal(function_options.from_keywords(mode="failfast")) is None


@pytest.mark.parametrize(
    "options, error, message",
    [
        ({"mode": "DROPMALFORMED"}, ValueError, "option mode must be one of FAILFAST, PERMISSIVE"),
        ({"max_output_byte": 5}, ValueError, "did you mean max_output_bytes?"),
        ({"max_output_bytes": 0}, ValueError, "must be above 0"),
        ({"max_output_bytes": True}, TypeError, "max_output_bytes must be int, not bool"),
    ],
)
def test_wrong_options_are_refused(options, error, message):
    with pytest.raises(error, match=message):
        function_options.from_keywords(**options)


@pytest.mark.parametrize(
    "arguments, error, message",
    [
        (pa.array(["text"]), TypeError, "takes a binary column, not string"),
        ((pa.array([GOOD, GOOD]), pa.array(["FAILFAST", "PERMISSIVE"])), ValueError, "must be a literal"),
        ((pa.array([GOOD]), pa.array([None], pa.string())), ValueError, "the mode of kafka_decode is null"),
        ((pa.array([GOOD]), pa.array([1])), ValueError, "the mode of kafka_decode is 1; pass one, or JSON such as"),
        ((pa.array([GOOD]), pa.array([{"mode": "a"}])), TypeError, r"mode\]\) must be a text, not struct<mode:string>"),
        ((pa.array([GOOD]), pa.array(["a"]), pa.array(["b"])), TypeError, r"is kafka_decode\(value\[, mode\]\), and 3"),
        ((), TypeError, r"the call is kafka_decode\(value\[, mode\]\), and 0 arguments were given"),
    ],
)
def test_wrong_arguments_of_the_sql_function_are_refused(arguments, error, message):
    with pytest.raises(error, match=message):
        list(decoding.kafka_decode(iter([arguments])))


def test_a_null_without_a_type_is_null():
    (list_array,) = decoding.kafka_decode(iter([pa.nulls(2)]))
    assert list_array.to_pylist() == [None, None]


def test_explode_repeats_kept_columns():
    batch = pa.RecordBatch.from_arrays(
        [pa.array(["a", "b", "c", "d"]), pa.array([None, GOOD, b"", GOOD + flipped(GOOD)])], ["name", "value"]
    )
    literal = function_options.to_literal(function_options.from_keywords(mode="PERMISSIVE", max_output_bytes=1))
    rows = pa.Table.from_batches(decoding.Explode(function_options.from_literal(literal))(iter([batch])))
    rows.validate(full=True)
    assert rows.schema.names == ["name", *FIELDS]
    assert "".join(rows.column("name").to_pylist()) == "bbbbb" + "dddddd"


def test_options_have_the_defaults_of_decode():
    standalone = signature(kafkarec.decode).parameters
    options = function_options.FunctionOptions()
    for name in ("check_crcs", "control", "max_decompressed_bytes", "restore"):
        assert getattr(options, name) == standalone[name].default
    source = {option.name: option.default for option in source_options.TABLE}
    assert source["checkCrcs"] == standalone["check_crcs"].default
    assert source["restore"] == standalone["restore"].default
    assert source["includeControl"] == standalone["control"].default
    assert source["maxDecompressedBytes"] == standalone["max_decompressed_bytes"].default
