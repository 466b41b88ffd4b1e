"""encode of decoded batches that are kept, whole and in part; and which fields make a record begin a new batch.

Each batch field alone must separate two records whose other fields are equal; where batches are not kept, no field
may separate them.
"""

import itertools
import struct

import builders
import pyarrow as pa
import pytest
from core_reading import INT_MAX
from plain_logs import batch

import kafkarec

pytestmark = pytest.mark.core

PRODUCER = {"producer_id": 7, "producer_epoch": 2, "base_sequence": 10}
ATTRIBUTES_AT = 21
CODECS = builders.CODEC_IDS


def one(offset, timestamp=50, sequence=None, **fields):
    """Return a batch of one record; with a sequence, also with a producer."""
    producer = {} if sequence is None else {**PRODUCER, "base_sequence": sequence}
    defaults = {"epoch": 3, "base_timestamp": timestamp, "max_timestamp": timestamp, **producer}
    return batch(offset, 1, **{**defaults, **fields}, value=b"v%d" % offset)


def kept(data, **options):
    columns = kafkarec.decode(data, control=True, timestamp_unit="int64")
    return kafkarec.encode(columns, magic="keep", compression="keep", **options)


# (fields of the first batch, fields of the second that differ)
DIFFERENCES = {
    "producer id": ({"sequence": 10}, {"sequence": 11, "producer_id": 8}),
    "producer epoch": ({"sequence": 10}, {"sequence": 11, "producer_epoch": 3}),
    "transaction": ({"sequence": 10}, {"sequence": 11, "attributes": builders.TRANSACTIONAL}),
    "leader epoch": ({}, {"epoch": 4}),
    "log append time": ({}, {"attributes": 8}),
    "another log append time": ({"attributes": 8}, {"attributes": 8, "max_timestamp": 51}),
    "a delete horizon": ({}, {"attributes": builders.DELETE_HORIZON}),
    "another horizon": (
        {"attributes": builders.DELETE_HORIZON},
        {"attributes": builders.DELETE_HORIZON, "timestamp": 60},
    ),
    "a gap in the sequence": ({"sequence": 10}, {"sequence": 12}),
    "the same sequence": ({"sequence": 10}, {"sequence": 10}),
    "a sequence of 0": ({"sequence": 10}, {"sequence": 0}),
    "no producer in the first": ({}, {"sequence": 0}),
    "no producer in the second": ({"sequence": 0}, {}),
    "no sequence in the second": ({"sequence": 0}, {"sequence": -1}),
    "offsets further apart than an int": ({}, {"offset": 8 + INT_MAX}),
}
ALIKE = {
    "no fields": ({}, {}),
    "another time": ({}, {"timestamp": 90}),
    "the next sequence": ({"sequence": 0}, {"sequence": 1}),
    "the next sequence, after the largest int": ({"sequence": INT_MAX}, {"sequence": 0}),
    "a gap in offsets and sequence": ({"sequence": 10}, {"sequence": 14, "offset": 11}),
    "the same transaction": (
        {"sequence": 10, "attributes": builders.TRANSACTIONAL},
        {"sequence": 11, "attributes": builders.TRANSACTIONAL},
    ),
    "the same log append time": ({"attributes": 8}, {"attributes": 8}),
    "the same horizon": ({"attributes": builders.DELETE_HORIZON}, {"attributes": builders.DELETE_HORIZON}),
    "as far as an int goes": ({}, {"offset": 7 + INT_MAX}),
}


def test_each_difference_begins_a_batch_and_equal_fields_do_not():
    for pairs, count in ((DIFFERENCES, 2), (ALIKE, 1)):
        for name, (first, second) in pairs.items():
            data = one(7, **first) + one(**{"offset": 8, **second})
            columns = kafkarec.decode(data, control=True, timestamp_unit="int64")
            result = kafkarec.scan(kafkarec.encode(columns, batch_size=16384))
            assert len(result) == count, name
            assert result.column("base_sequence")[0] == kafkarec.scan(data).column("base_sequence")[0], name
            if name != "another log append time":  # create times stored in such a batch are not returned
                assert kept(data) == data, name
                assert count == 1 or kafkarec.encode(kafkarec.decode(data, control=True), batch_size=16384) == data


def test_a_column_of_magics_writes_each_row_in_its_magic():
    """Magic 2 where it is null or not kept; consecutive rows of one magic are one batch."""
    values = [f"v{n}" for n in range(10)]
    table = pa.table({"offset": range(10), "timestamp": range(50, 60), "key": ["k"] * 10, "value": values})
    wide = table.append_column("magic", pa.array([0, 0, 1, 2, 2, None, 1, 0, 2, 0], pa.int8()))
    runs = [(0, 2, 0), (2, 3, 1), (3, 6, 2), (6, 7, 1), (7, 8, 0), (8, 9, 2), (9, 10, 0)]
    wanted = b"".join(kafkarec.encode(table[start:stop], magic=magic) for start, stop, magic in runs)
    assert kafkarec.encode(wide, magic="keep") == wanted
    for magic in (0, 2):
        assert kafkarec.encode(wide, magic=magic) == kafkarec.encode(table, magic=magic)
    assert len(kafkarec.scan(kafkarec.encode(wide))) == 1


def test_empty_batches_stay_where_they_were():
    """61 bytes with their codec; an empty batch with bytes after its header loses them and its codec."""
    streams = [(CODECS[name], builders.compress(name, b"")) for name in CODECS]
    for codec, more in [*streams, (0, b"\0"), (0, bytes(20)), (CODECS["zstd"], b"")]:
        fields = {"base_offset": 5, "last_offset_delta": 4, "count": 0, "leader_epoch": 9}
        empty = builders.batch(payload=more, codec=codec, **fields)
        plain = builders.batch(payload=b"", codec=0 if more else codec, **fields)
        for before, following in ((b"", b""), (one(1), b""), (b"", one(10)), (one(1), one(10) + one(11))):
            assert kept(before + empty + following) == before + plain + following, (codec, more)
            columns = kafkarec.decode(before + empty + following, control=True)
            without = builders.patched(plain, ATTRIBUTES_AT, bytes(2))
            assert kafkarec.encode(columns) == before + builders.with_crc(without) + following
            assert kafkarec.encode(columns, magic=1) == kafkarec.encode(list(columns), magic=1)
            assert len(kafkarec.scan(kafkarec.encode(columns, batch_size=16384))) == bool(before or following)
    two = builders.batch(base_offset=2) + builders.batch(base_offset=3, attributes=builders.DELETE_HORIZON)
    assert kept(two) == two and kept(two + one(9) + two) == two + one(9) + two


def test_a_part_of_a_batch_keeps_producer_and_sequences():
    """Rows [low, high) of five, with gaps in offsets: base offset and sequence are those of the first remaining row."""
    deltas = [0, 1, 3, 7, 8]
    rows = [builders.record(offset_delta=delta, value=b"%d" % delta) for delta in deltas]
    for sequence, shift in itertools.product((0, 1, INT_MAX - 3, INT_MAX), (None, 0, 100, 107, 2**40)):
        data = builders.batch(rows, base_offset=100, last_offset_delta=9, **{**PRODUCER, "base_sequence": sequence})
        columns = kafkarec.decode(data, control=True)
        for low, high in itertools.combinations(range(6), 2):
            result = kafkarec.encode(columns[low:high], base_offset=shift)
            whole = (low, high) == (0, 5)
            begin = 100 if shift is None else shift - (0 if whole or low == 0 else deltas[low])
            header = kafkarec.scan(result)[0]
            assert header["base_offset"] == begin + deltas[low], (low, high, shift)
            assert header["last_offset"] == begin + (9 if whole else deltas[high - 1])
            assert header["base_sequence"] == (sequence + deltas[low]) % 2**31
            assert header["record_count"] == high - low
            if whole:
                assert struct.unpack_from(">q", result)[0] == begin and result[8:] == data[8:]
        again = [kafkarec.encode(columns[n : n + 1]) for n in range(5)]
        sequences = [record.sequence for record in kafkarec.decode(b"".join(again))]
        assert sequences == [(sequence + delta) % 2**31 for delta in deltas]


def test_sequences_of_records_below_their_batchs_base_offset():
    """No Kafka writes them. Wherever the batch is cut, its sequence is that of its first record, counted back."""
    rows = [builders.record(offset_delta=delta) for delta in range(-4, 4)]
    for sequence in (0, 2, 7, INT_MAX):
        data = builders.batch(rows, base_offset=100, last_offset_delta=3, **{**PRODUCER, "base_sequence": sequence})
        columns = kafkarec.decode(data, control=True)
        for batch_size in (75, 100, 16384):
            written = kafkarec.scan(kafkarec.encode(columns, batch_size=batch_size))
            assert sum(written.column("record_count")) == 8 and (len(written) == 1) == (batch_size == 16384)
            counted = [(sequence + base - 100) % 2**31 for base in written.column("base_offset")]
            assert written.column("base_sequence") == counted
        for low in range(8):
            [part] = kafkarec.scan(kafkarec.encode(columns[low:], batch_size=16384))
            assert part["base_sequence"] == (sequence + low - 4) % 2**31


def test_negative_offsets_are_kept_in_kept_batches():
    for codec in ("none", "gzip", "lz4"):
        data = one(-5, codec=codec)
        again = kept(data)
        assert kafkarec.decode(again).column("offset") == [-5]
        with pytest.raises(ValueError, match="record 0: its offset -5 is negative"):
            kafkarec.encode(kafkarec.decode(data), batch_size=100)
    for magic in (0, 1):
        plain = builders.message(magic=magic, offset=-5)
        assert kept(plain) == plain
        with pytest.raises(ValueError, match="record 0: its offset -5 is negative"):
            kafkarec.encode(kafkarec.decode(plain), magic=magic, compression="gzip")


def test_messages_are_kept_one_by_one_and_wrappers_as_wrappers():
    for magic in (0, 1):
        plain = [builders.message(magic=magic, offset=n, key=b"k", value=b"v" * n, timestamp=n) for n in (4, 6, 9)]
        assert kept(b"".join(plain)) == b"".join(plain)
        for codec in ("gzip", "lz4"):
            rows = [(n, 50 + n, b"k", b"v" * n, ()) for n in (4, 6, 9)]
            wrapped = kafkarec.encode(rows, magic=magic, compression=codec)
            assert kept(wrapped) == wrapped
            assert kept(wrapped + wrapped + plain[0]) == wrapped + wrapped + plain[0]
            result = kept(wrapped, base_offset=104)
            assert kafkarec.decode(result).column("offset") == [104, 106, 109]
    with pytest.raises(ValueError, match="record 0: its codec is not one that its magic has"):
        kafkarec.encode(kafkarec.decode(one(1, codec="zstd")), magic=1, compression="keep")
    headed = batch(0, 1, headers=[(b"h", None)])
    produced = [one(1, sequence=0, producer_id=0, attributes=flags) for flags in (0, builders.TRANSACTIONAL)]
    produced.append(builders.end_marker(0, 3, commit=True))
    for magic in (0, 1):
        for data in produced:
            with pytest.raises(ValueError, match="record 0: it belongs to a producer"):
                kafkarec.encode(kafkarec.decode(data, control=True), magic=magic)
        with pytest.raises(ValueError, match="record 1: it has headers"):
            kafkarec.encode(kafkarec.decode(one(1) + headed), magic=magic)


def test_a_control_batch_of_another_producer_has_no_sequence():
    """One producer id for all batches: the sequences are counted, but not over markers, which have none."""
    flags = {"producer_id": 3, "attributes": builders.TRANSACTIONAL}
    data = one(1, sequence=0, **flags) + builders.end_marker(2, 3, commit=True) + one(3, sequence=1, **flags)
    columns = kafkarec.decode(data, control=True)
    result = kafkarec.scan(kafkarec.encode(columns, producer_id=9, producer_epoch=2, base_sequence=50))
    assert result.column("producer_id") == [9, 9, 9]
    assert result.column("base_sequence") == [50, None, 51]


FACTS = {
    "base_offset": pa.int64(),
    "producer_id": pa.int64(),
    "producer_epoch": pa.int16(),
    "sequence": pa.int32(),
    "is_transactional": pa.bool_(),
    "is_control": pa.bool_(),
}


def wide(*rows):
    """Return a table of rows with these batch fields."""
    columns = {name: pa.array([row[name] for row in rows], FACTS[name]) for name in rows[0]}
    return pa.table({"value": ["v"] * len(rows), "offset": pa.array(range(10, 10 + len(rows))), **columns})


def test_contradictory_batch_fields_are_refused():
    right = {"producer_id": 0, "producer_epoch": 0, "sequence": 0, "is_transactional": True, "is_control": False}
    no_producer = {"producer_id": None, "producer_epoch": None, "sequence": None}
    assert len(kafkarec.scan(kafkarec.encode(wide(right)))) == 1
    for change in (
        {"producer_id": None},
        {"producer_id": -1},
        {"producer_epoch": None},
        {"producer_epoch": -1},
        {"sequence": None},
        {"sequence": -1},
        no_producer,
        {"producer_id": None, "producer_epoch": None, "is_transactional": False},
        {"producer_id": None, "sequence": None, "is_transactional": False},
    ):
        for good in (0, 1, 3):
            rows = [{**right, "sequence": n} for n in range(good + 1)]
            table = wide(*rows[:good], {**rows[good], **change})
            with pytest.raises(ValueError, match=rf"^record {good}: its producer_id, producer_epoch, sequence"):
                kafkarec.encode(table)
    assert len(kafkarec.scan(kafkarec.encode(wide({**no_producer, "is_transactional": False})))) == 1
    marker = {"producer_id": 5, "producer_epoch": 0, "sequence": None, "is_control": True}
    assert kafkarec.scan(kafkarec.encode(wide(marker)))[0]["is_control"]
