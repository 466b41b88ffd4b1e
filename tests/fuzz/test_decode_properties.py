"""Generated batches of every magic and codec: the C core reads what the oracle reads."""

import builders
import pyarrow as pa
import pytest
import reading
from core_reading import assert_agree
from hypothesis import given
from hypothesis import strategies as st

import kafkarec

pytestmark = pytest.mark.core

INT64 = st.integers(-(2**63), 2**63 - 1)
INT32 = st.integers(-(2**31), 2**31 - 1)
INT16 = st.integers(-(2**15), 2**15 - 1)
BLOB = st.none() | st.binary(max_size=40) | st.binary(min_size=60, max_size=300)
HEADER_KEY = st.text(max_size=8).map(lambda text: text.encode("utf-8", "surrogatepass")) | st.binary(max_size=6)
OFTEN_SMALL = st.integers(0, 200) | INT64
RECORD = st.builds(
    builders.record,
    offset_delta=st.integers(0, 100) | INT32,
    timestamp_delta=OFTEN_SMALL,
    key=BLOB,
    value=BLOB,
    headers=st.lists(st.tuples(HEADER_KEY, BLOB), max_size=4),
    attributes=st.integers(0, 255),
)
BATCH = st.builds(
    builders.batch,
    st.lists(RECORD, max_size=8),
    codec=st.sampled_from(builders.CODECS),
    base_offset=OFTEN_SMALL,
    leader_epoch=INT32,
    attributes=st.sampled_from([0, 8, 0x10, 0x20, 0x30, 0x40, 0x48, 0x80, 0xFF00]),
    last_offset_delta=st.none() | INT32,
    base_timestamp=OFTEN_SMALL,
    max_timestamp=st.none() | st.integers(-1, 2**62),
    producer_id=OFTEN_SMALL,
    producer_epoch=INT16,
    base_sequence=st.sampled_from([-1, 0, 2**31 - 2]) | INT32,
).filter(lambda raw: raw[57:61] != b"\0\0\0\0" or len(raw) == 61)
MESSAGE = st.builds(
    builders.message,
    magic=st.sampled_from([0, 1]),
    offset=OFTEN_SMALL,
    key=BLOB,
    value=BLOB,
    timestamp=OFTEN_SMALL,
    attributes=st.sampled_from([0, 0, 8, 0x70, 0xF0]),
    trailing=st.sampled_from([b"", b"", b"spare"]),
)
WRAPPER = st.builds(
    builders.wrapper,
    st.lists(MESSAGE, min_size=0, max_size=5).map(b"".join)
    | st.tuples(st.lists(MESSAGE, min_size=1, max_size=3).map(b"".join), st.binary(max_size=20)).map(b"".join),
    magic=st.sampled_from([0, 1]),
    codec=st.sampled_from(["gzip", "snappy", "lz4"]),
    offset=st.sampled_from([0, 1, 300]) | INT64,
    attributes=st.sampled_from([0, 8]),
    timestamp=OFTEN_SMALL,
)


INPUTS = {
    "magic 2": BATCH,
    "magic 0 and 1": MESSAGE,
    "wrappers": WRAPPER,
    "mixed magics and a tail": st.tuples(
        st.lists(BATCH | MESSAGE | WRAPPER, max_size=6).map(b"".join), st.binary(max_size=11)
    ).map(b"".join),
    "any bytes": st.binary(max_size=120),
}


@pytest.mark.parametrize("kind", INPUTS)
@given(st.data())
def test_all_is_read_or_refused_as_by_the_oracle(kind, data):
    assert_agree(data.draw(INPUTS[kind]))


@pytest.mark.parametrize(
    "batches, first, with_right_crc",
    [(BATCH, 21, builders.with_crc), (WRAPPER | MESSAGE, 17, builders.with_legacy_crc)],
    ids=["magic 2", "magic 0 and 1"],
)
@given(st.data())
def test_random_bytes_under_a_right_checksum(batches, first, with_right_crc, data):
    raw = bytearray(data.draw(batches))
    for _ in range(data.draw(st.integers(1, 3))):
        raw[data.draw(st.integers(first, len(raw) - 1))] = data.draw(st.integers(0, 255))
    assert_agree(with_right_crc(bytes(raw)), deep=False)


@given(st.lists(BATCH | WRAPPER, min_size=1, max_size=5), st.data())
def test_a_projection_is_a_subset_of_all_columns(parts, data):
    raw = b"".join(parts)
    names = data.draw(st.permutations(reading.RECORD_FIELDS).map(lambda p: p[: len(p) // 2 + 1]))
    try:
        everything = pa.table(kafkarec.decode(raw, columns=reading.RECORD_FIELDS, timestamp_unit="int64"))
    except kafkarec.KafkaRecordError:
        # A projection may skip work, but it may not accept more input.
        with pytest.raises(kafkarec.KafkaRecordError):
            kafkarec.decode(raw, columns=names)
        return
    columns = pa.table(kafkarec.decode(raw, columns=names, timestamp_unit="int64"))
    assert columns.equals(everything.select(names))
