"""Generated batches: canonical ones are re-encoded byte for byte, others keep their records and batch fields;
tests/jvm/test_encode.py has random rows."""

from collections import Counter

import builders
import golden
import pyarrow as pa
import pytest
from hypothesis import given, reject
from hypothesis import strategies as st
from random_encode_calls import WIDE

import kafkarec

INT64 = st.integers(-(2**63), 2**63 - 1)
BLOB = st.none() | st.binary(max_size=40) | st.integers(60, 70).map(bytes) | st.integers(126, 300).map(bytes)
KEY = st.text(st.characters(exclude_categories=["Cs"]), max_size=8).map(str.encode) | st.binary(max_size=6)
HEADERS = st.lists(st.tuples(KEY, BLOB), max_size=4).map(tuple)
TIMESTAMP = st.none() | st.integers(0, 200) | st.integers(0, 2**63 - 1) | st.integers(builders.NOW, builders.NOW + 300)


def columns_of(data, **options):
    return kafkarec.decode(data, control=True, header_keys="binary", timestamp_unit="int64", **options)


def read(data, **options):
    return columns_of(data, **options).tuples()


def re_encoded(records, **options):
    return kafkarec.encode(records, magic="keep", compression="keep", **options)


@st.composite
def canonical_batch(draw):
    """As Kafka's builder, broker and cleaner write them: offset gaps, empty batches, delete horizons, sequences that
    wrap."""
    deltas = sorted(draw(st.sets(st.integers(0, 40) | st.integers(0, 2**31 - 1), max_size=8)))
    base_timestamp = draw(st.integers(-1, 200) | st.just(builders.NOW) | st.integers(0, 2**63 - 1))
    parts = [
        builders.record(
            offset_delta=delta,
            timestamp_delta=draw(st.integers(-50, 50) | INT64),
            key=draw(BLOB),
            value=draw(BLOB),
            headers=draw(HEADERS),
        )
        for delta in deltas
    ]
    producer = {}
    flags = draw(st.sampled_from([0, 0, builders.DELETE_HORIZON]))
    if draw(st.booleans()):
        producer = {
            "producer_id": draw(st.integers(0, 2**63 - 1)),
            "producer_epoch": draw(st.integers(0, 2**15 - 1)),
            "base_sequence": draw(st.integers(0, 100) | st.integers(2**31 - 9, 2**31 - 1)),
        }
        flags |= draw(st.sampled_from([0, builders.TRANSACTIONAL]))
    if producer and draw(st.integers(0, 4)) == 0:
        flags |= builders.CONTROL
        producer["base_sequence"] = -1
    return builders.batch(
        parts,
        attributes=flags,
        base_offset=draw(st.integers(0, 200) | st.integers(0, 2**62)),
        leader_epoch=draw(st.integers(-1, 2**31 - 1)),
        base_timestamp=base_timestamp,
        max_timestamp=draw(st.integers(-1, 2**63 - 1)),
        last_offset_delta=draw(st.sampled_from([deltas[-1] if deltas else 0, 2**31 - 1])),
        **producer,
    )


BATCHES = st.lists(canonical_batch(), max_size=5)


@given(BATCHES)
def test_canonical_batches_are_re_encoded_byte_for_byte(batches):
    data = b"".join(batches)
    assert re_encoded(columns_of(data)) == data


@st.composite
def producers_log(draw):
    """A log as producers and brokers write it: rising offsets, and batch fields that agree with the record columns."""
    parts, offset = [], draw(st.integers(0, 100))
    for _ in range(draw(st.integers(0, 5))):
        count = draw(st.integers(1, 4))
        rows = [(offset + n, draw(TIMESTAMP), draw(BLOB), draw(BLOB), draw(HEADERS)) for n in range(count)]
        options = {}
        if draw(st.booleans()):
            options = {"producer_id": draw(st.integers(0, 3)), "producer_epoch": 1}
            options["base_sequence"] = draw(st.sampled_from([0, 7, 2**31 - 2]))
            options["is_transactional"] = draw(st.booleans())
        parts.append(kafkarec.encode(rows, partition_leader_epoch=draw(st.integers(-1, 2)), **options))
        offset += count + draw(st.sampled_from([0, 0, 3]))
    return b"".join(parts)


@given(producers_log())
def test_wide_columns_hold_all_fields_of_their_batches(data):
    decoded = columns_of(data, columns=WIDE)
    assert re_encoded(decoded) == data
    assert re_encoded(decoded.to_arrow()) == data
    assert re_encoded(pa.table(decoded).combine_chunks().to_batches()[0] if len(decoded) else decoded) == data


@given(producers_log(), st.sampled_from(builders.CODECS), st.sampled_from([None, 100, 16384]))
def test_producers_and_sequences_survive_another_codec_and_size(data, codec, batch_size):
    names = [name for name in WIDE if name not in ("base_offset", "compression")]
    encoded = kafkarec.encode(columns_of(data), compression=codec, batch_size=batch_size)
    expected = pa.table(columns_of(data, columns=names))
    assert pa.table(columns_of(encoded, columns=names)).equals(expected)
    assert read(encoded) == read(data)
    assert set(kafkarec.scan(encoded).column("compression")) <= {codec}


@given(producers_log(), st.integers(0, 20), st.integers(0, 20))
def test_a_slice_keeps_records_producers_and_sequences(data, low, more):
    part = columns_of(data, columns=WIDE)[low : low + more]
    encoded = columns_of(re_encoded(part), columns=WIDE)
    assert list(encoded) == list(part)
    same = [name for name in WIDE if name != "base_offset"]
    assert pa.table(encoded).select(same).equals(pa.table(part).select(same))
    assert re_encoded(encoded) == re_encoded(part)


@given(BATCHES, st.booleans())
def test_records_that_isolation_leaves_out_are_not_written(batches, control):
    data = b"".join(batches)
    try:
        columns = kafkarec.decode(data, control=control, isolation="read_committed", header_keys="binary")
    except kafkarec.InvalidRecordError:
        reject()  # a control batch whose first record is no end marker
    assert list(columns_of(re_encoded(columns))) == list(columns)


@pytest.mark.parametrize("case", golden.vectors(), ids=str)
def test_golden_vectors_survive_re_encoding(case):
    """All fields of all records; without compression and log-append time, also equal bytes."""
    columns = columns_of(case.bytes)
    encoded = re_encoded(columns)
    assert read(encoded) == read(case.bytes)
    batches = kafkarec.scan(case.bytes)
    stamped = 1 in batches.column("timestamp_type") and 2 in batches.column("magic")
    if set(batches.column("compression")) <= {"none"} and not stamped and not columns.remaining:
        assert encoded == case.bytes


def test_a_builder_makes_the_batches_of_golden_vectors_again():
    """Byte for byte, those that are not compressed; tests/jvm/test_builder.py has random ones."""
    made = Counter()
    for case in golden.vectors():
        for batch in kafkarec.batches(case.bytes, header_keys="binary"):
            is_stamped = batch.magic == 2 and batch.timestamp_type == 1  # its base timestamp is lost
            is_odd = batch.record_count == 0 or is_stamped or case.name == "v2-control-unknown-type"
            if batch.compression == "none" and not is_odd:
                assert rebuilt(batch) == batch.raw, case.name
                made[batch.magic, batch.is_control] += 1
    assert made == {(2, False): 36, (2, True): 8, (1, False): 17, (0, False): 14}


def rebuilt(batch):
    names = ("partition_leader_epoch", "producer_id", "producer_epoch", "base_sequence", "delete_horizon_ms")
    given = {name: getattr(batch, name) for name in names if getattr(batch, name) is not None}
    flags = {"is_transactional": batch.is_transactional, "is_control": batch.is_control}
    time_type = {} if batch.timestamp_type is None else {"timestamp_type": batch.timestamp_type}
    if batch.timestamp_type == 1:
        time_type["log_append_time"] = batch.max_timestamp
    made = kafkarec.RecordBatchBuilder(base_offset=batch.base_offset, magic=batch.magic, **given, **flags, **time_type)
    for record in batch:
        time = -1 if record.timestamp is None else record.timestamp
        if batch.is_control:
            made.append_control(time, record.control, offset=record.offset)
        else:
            made.append(time, record.key, record.value, record.headers, offset=record.offset)
    if made.last_offset != batch.last_offset:
        made.override_last_offset(batch.last_offset)
    return made.build()
