"""decode_each and scan_each: a column whose values are raw batches, one list of rows per value."""

import builders
import golden
import pyarrow as pa
import pytest
import reading
from hypothesis import given
from hypothesis import strategies as st
from plain_logs import batch
from refusals import refused

import kafkarec

pytestmark = pytest.mark.core

GOOD = [case.bytes for case in golden.vectors() if case.bin_path.stat().st_size < 3000]
BAD = golden.invalid_case("v2-crc-flipped").bytes
TEXT = b"text instead of batches, a good deal of it"
CUT = golden.vector("v2-multi-batch").bytes[:300]
SEQUENCES = {
    "list": list,
    "binary": lambda values: pa.array(values, pa.binary()),
    "large_binary": lambda values: pa.array(values, pa.large_binary()),
    "binary_view": lambda values: pa.array(values, pa.binary_view()),
    "slice of binary": lambda values: pa.array([b"other", *values, b"more"], pa.binary())[1:-1],
    "slice after a null": lambda values: pa.array([None, None, b"x", *values], pa.large_binary())[3:],
}


def lists_of(pieces):
    """Return all lists of all pieces by Arrow, checked against the flat rows and the offsets."""
    out = []
    for piece in pieces:
        array = pa.array(piece)
        array.validate(full=True)
        assert len(array) == piece.stop - piece.start == len(piece.offsets) - 1
        assert piece.start == len(out)
        flat = reading.arrow_rows(piece.records)
        for i, scalar in enumerate(array):
            if not scalar.is_valid:
                assert piece.offsets[i] == piece.offsets[i + 1]
                out.append(None)
                continue
            rows = flat[piece.offsets[i] : piece.offsets[i + 1]]
            assert len(scalar.values) == len(rows)
            out.append(rows)
    return out


@pytest.mark.parametrize("kind", SEQUENCES)
def test_each_value_is_its_own_input(kind):
    values = [None, b"", *GOOD, None, GOOD[0], b""]
    pieces = list(kafkarec.decode_each(SEQUENCES[kind](values), columns=reading.RECORD_FIELDS))
    assert lists_of(pieces) == [None if value is None else reading.by_columns(value) for value in values]
    assert [damage for piece in pieces for damage in piece.damage] == []


@pytest.mark.parametrize(
    "each, value, reason",
    [
        (kafkarec.decode_each, BAD, "crc_mismatch"),
        (kafkarec.decode_each, TEXT, "unsupported_magic"),
        (kafkarec.scan_each, TEXT, "unsupported_magic"),
    ],
)
def test_an_error_names_its_value(each, value, reason):
    error = refused(list, each([GOOD[0], None, value]))
    assert (error.reason, error.value_index, error.position) == (reason, 2, 0)


def test_options_are_passed_to_the_engine():
    data = golden.vector("v2-txn-sequence").bytes
    [piece] = kafkarec.decode_each([data], control=True, columns=["is_control", "timestamp"], timestamp_unit="us")
    table = reading.arrow_table(piece.records)
    assert table.schema.names == ["is_control", "timestamp"]
    assert table.schema.field("timestamp").type == pa.timestamp("us", tz="UTC")
    assert table.column("is_control").to_pylist().count(True) == 2
    big = batch(0, 1, codec="gzip", value=bytes(5000))
    with pytest.raises(kafkarec.LimitExceededError):
        list(kafkarec.decode_each([big], max_decompressed_bytes=1000))
    assert len(next(kafkarec.decode_each([BAD], check_crcs=False)).records) == 3


@pytest.mark.parametrize("each", [kafkarec.decode_each, kafkarec.scan_each])
def test_values_without_batches_are_null_or_empty_lists(each):
    for values in ([], [None], [b""], [b"cut", None]):
        (piece,) = each(values)
        array = pa.array(piece)
        array.validate(full=True)
        assert array.to_pylist() == [None if value is None else [] for value in values] and len(piece.records) == 0


@pytest.mark.parametrize("wrong", ["text", b"bytes", 5, None, pa.array([1, 2])])
def test_objects_that_are_no_column_of_bytes_are_a_type_error(wrong):
    with pytest.raises((TypeError, ValueError)) as caught:
        list(kafkarec.decode_each(wrong))
    assert not isinstance(caught.value, kafkarec.KafkaRecordError)


@given(st.lists(st.sampled_from([None, b"", BAD, BAD[:70], TEXT, CUT, *GOOD[:25]]), max_size=12), st.integers(1, 5000))
def test_each_value_is_decoded_and_scanned_as_if_alone(values, most):
    pieces = list(kafkarec.decode_each(values, columns=reading.RECORD_FIELDS, errors="skip", max_output_bytes=most))
    wanted = [None if value is None else reading.by_columns(value, errors="skip") for value in values]
    assert lists_of(pieces) == wanted
    scanned = [None if value is None else reading.arrow_rows(kafkarec.scan(value, errors="skip")) for value in values]
    assert lists_of(kafkarec.scan_each(values, errors="skip", max_output_bytes=most)) == scanned
    damage = [(i, damaged) for piece in pieces for i, _, damaged in piece.damage]
    assert damage == [
        (i, damaged)
        for i, value in enumerate(values)
        if value is not None
        for damaged in kafkarec.decode(value, errors="skip").damage
    ]


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_a_value_has_one_budget_for_all_its_payloads(codec):
    """Twenty decompression bombs in one value count together: a task holds a whole value. Uncompressed batches do not
    count."""
    record = builders.record(value=bytes(50_000))
    one, plain, budget = builders.batch([record], codec=codec), builders.batch([record]), 2 * len(record)
    values = [one + plain + one, one * 3, None, one]
    for most, place in ((budget, (1, 2 * len(one))), (budget - 1, (0, len(one + plain)))):
        error = refused(list, kafkarec.decode_each(values, max_decompressed_bytes=most))
        assert (error.reason, error.value_index, error.position) == ("limit_exceeded", *place)
    [piece] = kafkarec.decode_each(values, max_decompressed_bytes=budget, errors="skip")
    assert list(piece.offsets) == [0, 3, 5, 5, 6]
    assert [(value, row, damage.reason) for value, row, damage in piece.damage] == [(1, 5, "limit_exceeded")]


@pytest.mark.parametrize("errors", ["raise", "skip"])
@pytest.mark.parametrize("max_output_bytes", [1, 1 << 20])
@pytest.mark.parametrize("each", [kafkarec.decode_each, kafkarec.scan_each])
def test_values_that_end_in_mid_batch_are_listed(each, errors, max_output_bytes):
    good = batch(7, 3)
    following = kafkarec.scan(good).column("next_offset")[0]
    values = [good + good[:30], None, b"", good, good[:11], bytearray(good * 2 + good[:12])]
    pieces = list(each(values, errors=errors, max_output_bytes=max_output_bytes))
    found = [(value, row - piece.offsets[0], *one) for piece in pieces for value, row, one in piece.incomplete]
    assert [(each[0], each[3], each[4], each[5], each[6], each[8]) for each in found] == [
        (0, len(good), 30, following, None, "length_beyond_end"),
        (4, 0, 11, None, None, "length_beyond_end"),
        (5, 2 * len(good), 12, following, None, "length_beyond_end"),
    ]
    for piece in pieces:
        for value, row, one in piece.incomplete:
            assert row == piece.offsets[value - piece.start + 1], "after the last row of its value"
            assert one.detail.endswith("the value ends in mid-batch") and one.file is None
    assert not any(piece.damage for piece in pieces)
