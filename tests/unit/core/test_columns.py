"""Columns of batch fields: one bit per row, and their null count; too long texts."""

import builders
import pytest
import reading
from core_reading import checked_table

import kafkarec

pytestmark = pytest.mark.core


def test_flags_of_batches_over_the_borders_of_bytes():
    """One bit per row: batches of 1 to 17 rows, every second is transactional, every third a control batch; in the
    attributes of old messages these bits mean nothing."""
    data, wanted, base = b"", [], 0
    for count in range(1, 18):
        flags = 0x10 * (count % 2) | 0x20 * (count % 3 == 0)
        data += builders.batch(
            [builders.record(key=b"\0\0\0" + bytes([count]), offset_delta=n) for n in range(count)],
            base_offset=base,
            attributes=flags,
            producer_id=1,
            producer_epoch=0,
            base_sequence=0,
        )
        wanted += [(bool(flags & 0x10), bool(flags & 0x20), count if flags & 0x20 else None)] * count
        base += count
    old = b"".join(builders.message(magic=magic, offset=base + magic, attributes=0x30) for magic in (0, 1))
    data, wanted = data + old, [*wanted, (False, False, None), (False, False, None)]
    names = ["is_transactional", "is_control", "control_type"]
    table = checked_table(kafkarec.decode(data, columns=names, control=True))
    for name, cells in zip(names, zip(*wanted, strict=True), strict=True):
        assert table.column(name).to_pylist() == list(cells), name
    all_aborted = {"isolation": "read_committed", "aborted": [(-1, 0, base + 2)], "last_stable_offset": base + 2}
    assert len(kafkarec.decode(old, **all_aborted)) == 2


def test_many_small_batches_after_a_large_one():
    """What is reserved after the first batch is for others like it; the list of batches grows with each further one."""
    data = builders.batch([builders.record(value=bytes(20_000))])
    data += b"".join(builders.batch([builders.record(value=b"v")], base_offset=n) for n in range(1, 5000))
    columns = kafkarec.decode(data, columns=["offset", "base_offset"])
    assert columns.column("offset") == columns.column("base_offset") == list(range(5000))


def test_a_text_column_of_more_than_two_gigabytes_is_refused():
    """Its end offsets have 32 bits. No byte is written before the check."""
    count = 110_000
    data = builders.batch(payload=b"\x0c\0\0\0\1\1\0" * count, count=count)
    assert len(reading.decode_file(data, "x", columns=["file"])) == count
    with pytest.raises(MemoryError):
        reading.decode_file(data, "x" * 19_600, columns=["file"])
