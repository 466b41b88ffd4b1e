"""Columns of batch fields: codecs without a name and their null count, one bit per row, too long texts."""

import builders
import pyarrow as pa
import pytest
import reading
from core_reading import checked_table

import kafkarec

pytestmark = pytest.mark.core


def counted(table, name, wanted):
    column = table.column(name)
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.int64())
    assert column.to_pylist() == wanted, name
    assert [chunk.null_count for chunk in column.chunks] == [wanted.count(None)], name


def test_names_of_codecs_and_the_ids_that_have_none():
    names = ["none", "gzip", "snappy", "lz4", "zstd", None, None, None]
    data = b"".join(builders.batch(count=0, base_offset=n, attributes=n, last_offset_delta=0) for n in range(8))
    counted(checked_table(kafkarec.scan(data)), "compression", names)
    data = b"".join(builders.good_batch(3, base_offset=3 * n, codec=name) for n, name in enumerate(names[:5]))
    decoded = checked_table(kafkarec.decode(data, columns=["compression"]))
    counted(decoded, "compression", [name for name in names[:5] for _ in range(3)])


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
        counted(table, name, list(cells))
    all_aborted = {"isolation": "read_committed", "aborted": [(-1, 0, base + 2)], "last_stable_offset": base + 2}
    assert len(kafkarec.decode(old, **all_aborted)) == 2


def test_a_text_column_of_more_than_two_gigabytes_is_refused():
    """Its end offsets have 32 bits. No byte is written before the check."""
    count = 110_000
    data = builders.batch(payload=b"\x0c\0\0\0\1\1\0" * count, count=count)
    assert len(reading.decode_file(data, "x", columns=["file"])) == count
    with pytest.raises(MemoryError):
        reading.decode_file(data, "x" * 19_600, columns=["file"])
