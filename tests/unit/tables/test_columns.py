"""RecordColumns, BatchTable, Record and RecordBatch as Python objects, and decode's options."""

import copy
import gc
import pickle
import types

import builders
import golden
import numpy as np
import pyarrow as pa
import pytest
from core_reading import checked_table
from plain_logs import batch

import kafkarec

pytestmark = pytest.mark.core

DATA = golden.vector("v2-multi-batch").bytes
HEADERS = golden.vector("v2-headers-unicode").bytes


def test_length_index_iteration_and_slices_agree():
    columns = kafkarec.decode(DATA)
    rows = list(columns)
    assert len(columns) == len(rows) > 5
    assert [columns[i] for i in range(len(columns))] == rows
    assert [columns[i - len(columns)] for i in range(len(columns))] == rows
    assert columns[np.int64(-2)] == rows[-2] and columns.batches[np.uint8(0)] == columns.batches[0]
    assert list(columns[2:5]) == rows[2:5]
    assert list(columns[2:]) == rows[2:]
    assert list(columns[-3:-1]) == rows[-3:-1]
    assert list(columns[3:][1:2]) == rows[4:5]
    assert list(columns[4:2]) == []
    assert len(columns[1:10_000]) == len(rows) - 1
    for beyond in (10_000, -10_000, 2**70):
        with pytest.raises(IndexError):
            columns[beyond]


def test_values_of_a_slice_with_and_without_nulls():
    columns = kafkarec.decode(kafkarec.encode([{"timestamp": 5}, {"timestamp": 6}, {"timestamp": None}]))
    parts = [columns[:2], columns[1:], columns[2:]]
    assert [part.column("timestamp") for part in parts] == [[5, 6], [6, None], [None]]
    assert list(parts[1].zip_columns("offset", "timestamp")) == [(1, 6), (2, None)]
    assert list(columns.batches.zip_columns("position", "record_count")) == [(0, 3)]


@pytest.mark.parametrize("options", [{}, {"columns": ["value"]}, {"timestamp_unit": "ns"}, {"header_keys": "binary"}])
def test_tuples_are_the_fields_of_the_records(options):
    for case in golden.vectors():
        columns = kafkarec.decode(case.bytes, control=True, **options)
        fields = [(row.offset, row.timestamp, row.key, row.value, tuple(row.headers)) for row in columns]
        assert columns.tuples() == fields
        assert columns[1:3].tuples() == fields[1:3]
    written = kafkarec.encode(kafkarec.decode(HEADERS).tuples())
    assert kafkarec.decode(written).tuples() == kafkarec.decode(HEADERS).tuples()


def test_the_garbage_collector_does_not_look_at_tuples():
    """A large result would be looked through again and again."""
    rows = kafkarec.decode(HEADERS).tuples()
    of_headers = [row[4] for row in rows if row[4]]
    pairs = [pair for headers in of_headers for pair in headers]
    pairs += [pair for record in kafkarec.decode(HEADERS) for pair in record.headers]
    assert pairs and not any(map(gc.is_tracked, [*rows, *of_headers, *pairs]))


def test_a_batch_has_the_columns_of_the_batch_table_and_no_others():
    batch = next(kafkarec.batches(DATA))
    assert set(kafkarec.scan(DATA).schema.names) < set(dir(batch)) and not hasattr(batch, "offset")
    assert copy.copy(batch).base_offset == batch.base_offset


def test_header_keys_that_differ_in_one_byte_are_kept_apart():
    """Texts of keys are used again; the last byte and the length choose which is compared."""
    keys = ["aa", "ba", "a", "", "\u00e9\u00e9", "aa", "", "q", "ba", "\u00e8\u00e9", "aaaaaaaaaaaaaaaaaa", "a"]
    rows = [(n, 1, None, None, [(key, key.encode()) for key in keys[n:] + keys[:n]]) for n in range(len(keys))]
    columns = kafkarec.decode(kafkarec.encode(rows))
    assert [row.headers for row in columns] == [row[4] for row in rows]
    assert [list(row[4]) for row in columns.tuples()] == [row[4] for row in rows]
    malformed = batch(0, 1, headers=[(b"\xff\xfe", b"1"), (b"\xfd\xfe", b"2"), (b"\xff\xfe", b"3")])
    assert [key for key, _ in kafkarec.decode(malformed)[0].headers] == ["\ufffd\ufffd"] * 3


def test_the_fields_of_a_record_are_members():
    """As with `__slots__`: the interpreter reads them without a call, which is a quarter of the time of five fields."""
    for name in ("offset", "timestamp", "timestamp_type", "key", "value", "sequence"):
        member = vars(kafkarec.Record)[name]
        assert isinstance(member, types.MemberDescriptorType), name
        one = kafkarec.Record(1, 2, 3, b"4", b"5", [("6", b"7")], 8, True)
        assert member.__get__(one) == getattr(one, name)
        with pytest.raises(AttributeError):
            setattr(one, name, None)


def test_records_have_the_sequences_of_a_column_without_offsets():
    data = batch(0, 2, producer_id=1, producer_epoch=0, base_sequence=5)
    for names in (["sequence"], ["value", "sequence"], ["offset"]):
        assert [record.sequence for record in kafkarec.decode(data, columns=names)] == [5, 6], names
    without = kafkarec.decode(data, columns=["value"], isolation="read_committed", last_stable_offset=2)
    assert [record.sequence for record in without] == [None, None]


def test_records_are_frozen_comparable_and_hash_like_equals():
    one, two, other = kafkarec.decode(DATA)[0], kafkarec.decode(DATA)[0], kafkarec.decode(DATA)[1]
    assert one == two
    assert one != other
    assert hash(one) == hash(two)
    assert one != "something else"
    for name in ("offset", "key", "value", "timestamp", "headers"):
        with pytest.raises((AttributeError, TypeError)):
            setattr(one, name, None)
    with pytest.raises((AttributeError, TypeError)):
        one.new_attribute = 1
    assert pickle.loads(pickle.dumps(one)) == one


def test_changing_the_input_afterwards_changes_nothing():
    data = bytearray(DATA)
    columns = kafkarec.decode(data)
    wanted = list(columns)
    data[:] = bytes(len(data))
    assert list(columns) == wanted
    data.clear()  # raises BufferError while a view of it is held


@pytest.mark.parametrize(
    "options",
    [
        {"errors": "ignore"},
        {"isolation": "read_everything"},
        {"timestamp_unit": "fortnight"},
        {"header_keys": "latin1"},
        {"max_decompressed_bytes": -1},
        {"threads": -1},
        {"check_crcs": "maybe"},
    ],
)
def test_a_wrong_option_is_a_plain_value_error(options):
    with pytest.raises((ValueError, TypeError)) as caught:
        kafkarec.decode(DATA, **options)
    assert not isinstance(caught.value, kafkarec.KafkaRecordError)


UNITS = {
    "ms": (1, pa.timestamp("ms", tz="UTC")),
    "us": (1000, pa.timestamp("us", tz="UTC")),
    "ns": (1_000_000, pa.timestamp("ns", tz="UTC")),
    "int64": (1, pa.int64()),
}


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("sign", [1, -1])
def test_a_timestamp_that_does_not_fit_is_null_and_counted(tmp_path, unit, sign):
    factor = UNITS[unit][0]
    largest = sign * ((2**63 - 1) // factor)
    inside = [builders.record(timestamp_delta=0), builders.record(timestamp_delta=-sign, offset_delta=1)]
    fits = kafkarec.decode(builders.batch(inside, base_timestamp=largest, max_timestamp=0), timestamp_unit=unit)
    assert fits.timestamps_out_of_range == 0
    assert checked_table(fits).column("timestamp").null_count == 0
    if factor == 1:
        return
    beyond = builders.batch(inside, base_timestamp=largest + sign, max_timestamp=0)
    columns = kafkarec.decode(beyond, timestamp_unit=unit)
    assert columns.timestamps_out_of_range == 1
    assert checked_table(columns).column("timestamp").is_null().to_pylist() == [True, False]
    assert columns[1:].timestamps_out_of_range == columns[:0].timestamps_out_of_range == 1  # as the damage of a slice
    (tmp_path / "a.log").write_bytes(beyond)
    without = kafkarec.open(tmp_path / "a.log").read(start_timestamp=-(2**63), columns=["offset"], timestamp_unit=unit)
    assert len(without) == 2 and without.timestamps_out_of_range == 0


@pytest.mark.parametrize(
    "name", ["v2-crc-flipped", "v2-key-overruns-record", "v2-magic-3", "v2-codec-5", "v2-length-zero"]
)
def test_errors_survive_pickling_and_copying(name):
    with pytest.raises(kafkarec.KafkaRecordError) as caught:
        kafkarec.decode(golden.invalid_case(name).bytes)
    for twin in (pickle.loads(pickle.dumps(caught.value)), copy.copy(caught.value)):
        assert type(twin) is type(caught.value)
        assert str(twin) == str(caught.value)
        for field in ("position", "base_offset", "next_position", "reason", "expected", "found", "file"):
            assert getattr(twin, field) == getattr(caught.value, field)


def test_damage_survives_pickling():
    skipped = kafkarec.decode(golden.invalid_case("v2-crc-flipped").bytes, errors="skip")
    assert pickle.loads(pickle.dumps(skipped.damage)) == skipped.damage
    (damage,) = skipped.damage
    with pytest.raises(kafkarec.CorruptRecordError) as caught:
        kafkarec.decode(golden.invalid_case("v2-crc-flipped").bytes)
    assert len(damage) == 8 and damage._fields[-1] == "detail"
    for twin in (damage, pickle.loads(pickle.dumps(damage)), copy.copy(damage), damage._replace(file="x")):
        assert (twin.expected, twin.found, twin.cause) == (caught.value.expected, caught.value.found, None)
        assert set(twin.as_dict()) == {*damage._fields, "expected", "found", "cause"}


def test_batches_are_lazy_and_keep_their_bytes_alive():
    iterator = kafkarec.batches(DATA + b"\0" * 12)
    first = next(iterator)
    assert first.base_offset == 0
    assert isinstance(first.raw, memoryview)
    assert first.raw.readonly
    with pytest.raises(kafkarec.CorruptRecordError):
        list(iterator)
