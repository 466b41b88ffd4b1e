"""Random batches and bytes of magic 3: read as by the second reader, converted and back without a loss."""

import builders
import pytest
from builders import CODECS
from hypothesis import given, settings
from hypothesis import strategies as st
from magic3_forms import FORMS, assert_agree, converted_and_back
from random_records import BLOBS
from random_records import records_of as random_records

import kafkarec
from kafkarec.experimental import header_first

INT16, INT32, INT64 = (st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) for bits in (16, 32, 64))
DELTAS = INT32 | st.integers(-70, 70)
each_form = pytest.mark.parametrize("form", FORMS, ids=str)
fewer_each = settings(max_examples=settings.default.max_examples // 3)  # of six forms


@st.composite
def batches(draw):
    """A batch of magic 2 that kafkarec.decode reads, with attribute bits that magic 3 does not use otherwise."""
    fields = draw(random_records(BLOBS, 6))
    parts = [builders.record(offset_delta=draw(DELTAS), **one) for one in fields]
    return builders.batch(
        parts,
        codec=draw(st.sampled_from(CODECS)),
        base_offset=draw(INT64),
        leader_epoch=draw(INT32),
        attributes=draw(st.integers(0, 15)) << 3 | draw(st.sampled_from([0, 0x400, 0x7C00])),
        last_offset_delta=draw(DELTAS),
        base_timestamp=draw(INT64),
        max_timestamp=draw(INT64),
        producer_id=draw(INT64),
        producer_epoch=draw(INT16),
        base_sequence=draw(INT32),
    )


@each_form
@fewer_each
@given(st.lists(batches(), max_size=3))
def test_random_batches_survive_both_ways(form, parts):
    made, _, back = converted_and_back(form, b"".join(parts))
    assert form.from_v2(back) == made


@each_form
@fewer_each
@given(batches(), st.data())
def test_random_bytes_under_a_right_checksum_read_as_by_the_second_reader(form, raw, data):
    spoiled = bytearray(form.from_v2(raw))
    for _ in range(data.draw(st.integers(1, 4))):
        spoiled[data.draw(st.integers(21, len(spoiled) - 1))] = data.draw(st.integers(0, 255))
    fixed = builders.with_crc(bytes(spoiled))
    assert_agree(form, fixed)
    for call in (form.module.to_v2, header_first.offsets):
        try:
            call(fixed)
        except kafkarec.KafkaRecordError as error:
            assert error.position == 0


@each_form
@given(st.binary(max_size=120))
def test_any_bytes(form, raw):
    header = raw[:16] + b"\x03" + raw[16:]
    for data in (raw, header, builders.with_crc(header) if len(header) > 21 else header):
        assert_agree(form, data)
