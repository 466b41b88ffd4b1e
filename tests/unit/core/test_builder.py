"""Attributes of a builder before its batch is written: size to the byte, offsets, the largest timestamp."""

from __future__ import annotations

import builders
import oracle
import pytest
from core_reading import INT_MAX
from expected_batches import expected_batch, messages, row

import kafkarec
from kafkarec.write.builder import RecordBatchBuilder
from kafkarec.write.header import BatchHeader
from kafkarec.write.record_input import record_input_of

pytestmark = pytest.mark.core


@pytest.mark.parametrize("magic", [0, 1, 2])
def test_has_room_for_is_exact_to_the_byte(magic: int) -> None:
    def size(count: int) -> int:
        rows = [row(n, 5, b"k", b"v" * 20) for n in range(count)]
        return len(expected_batch(rows)) if magic == 2 else len(messages(rows, magic))

    for count in (1, 2, 3):
        for more in (-1, 0, 1):
            builder = RecordBatchBuilder(magic=magic, batch_size=size(count + 1) + more)
            assert builder.has_room_for(5, b"k", b"v" * 99) and not builder.is_full
            for _ in range(count):
                builder.append(5, b"k", b"v" * 20)
            assert builder.has_room_for(5, b"k", b"v" * 20) == (more >= 0)
            assert builder.estimated_bytes_written == size(count)
            for limit, full in ((size(count), True), (size(count) + 1, False)):
                other = RecordBatchBuilder(magic=magic, batch_size=limit)
                for _ in range(count):
                    other.append(5, b"k", b"v" * 20)
                assert other.is_full == full


def test_a_builder_accepts_offsets_within_an_int_of_its_base() -> None:
    for base in (0, 2**40):
        for offset, fits in ((base + INT_MAX, True), (base + INT_MAX + 1, False)):
            builder = RecordBatchBuilder(base_offset=base)
            if fits:
                assert builder.append(0, None, None, (), offset) == offset
                assert builder.build() == expected_batch(
                    [row(offset, 0, None, None)],
                    base_offset=base,
                    last_offset_delta=INT_MAX,
                    payload=builders.record(offset_delta=INT_MAX, key=None, value=None),
                )
            else:
                with pytest.raises(ValueError, match="too far"):
                    builder.append(0, None, None, (), offset)
    builder = RecordBatchBuilder()
    builder.append(0, None, None, (), 5)
    for offset in (4, 5):
        with pytest.raises(ValueError, match="increase"):
            builder.append(0, None, None, (), offset)
    assert builder.append(0, None, None) == 6
    with pytest.raises(ValueError, match="negative"):
        builder.append(-2, None, None)
    builder.append(-1, None, None)
    assert [record.timestamp for record in kafkarec.decode(builder.build())] == [0, 0, None]


def test_the_largest_timestamp_and_its_first_offset() -> None:
    for times, most, at in (([5, 7, 7, 6], 7, 1), ([-1, -1], -1, -1), ([0, 0], 0, 0), ([-1, 0], 0, 1), ([1, 0], 1, 0)):
        builder = RecordBatchBuilder()
        for time in times:
            builder.append(time, None, None)
        assert builder.max_timestamp == most
        if at >= 0:
            assert builder.offset_of_max_timestamp == at
        assert oracle.batch_columns(builder.build(), 0)["max_timestamp"] == (None if most < 0 else most)


def test_a_record_at_the_least_offset_is_written() -> None:
    builder = RecordBatchBuilder(base_offset=-(2**63))
    assert builder.append(5, b"k", b"v") == -(2**63)
    [record] = kafkarec.decode(builder.build())
    assert (record.offset, record.key) == (-(2**63), b"k")
    [record] = kafkarec.decode(record_input_of([row(-(2**63), 5, b"k", b"v")]).write(BatchHeader(base_offset=-(2**63))))
    assert record.offset == -(2**63)
