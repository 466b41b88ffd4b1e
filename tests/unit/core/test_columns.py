"""Columns of batch fields and of the input's names: right values, nulls where the field is absent, right null counts.

Three batches have the field and three have not, so that a null count of the wrong rows shows.
"""

from __future__ import annotations

from typing import Any

import builders
import pyarrow as pa
import pytest
import reading
from core_reading import checked_table

import kafkarec

pytestmark = pytest.mark.core

NULL_IF_ABSENT = {
    "leader_epoch": "partition_leader_epoch",
    "producer_id": "producer_id",
    "producer_epoch": "producer_epoch",
    "base_sequence": "base_sequence",
}


def with_fields(number: int, *, absent: bool) -> bytes:
    values = (-1, -1, -1, -1) if absent else (number, 100 + number, 200 + number, 300 + number)
    return builders.good_batch(
        2,
        base_offset=2 * number,
        **dict(zip(("leader_epoch", "producer_id", "producer_epoch", "base_sequence"), values, strict=True)),
    )


def counted(table: pa.Table, name: str, wanted: list[Any]) -> None:
    column = table.column(name)
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.int64())
    assert column.to_pylist() == wanted, name
    assert [chunk.null_count for chunk in column.chunks] == [wanted.count(None)], name


def test_absent_fields_of_a_batch_are_null_and_counted() -> None:
    data = b"".join(with_fields(n, absent=n in (1, 2, 4)) for n in range(6))
    columns = list(NULL_IF_ABSENT.values())
    table = checked_table(kafkarec.decode(data, columns=columns[:3]))
    scanned = checked_table(kafkarec.scan(data))
    for k, name in enumerate(columns):
        each = [None if n in (1, 2, 4) else 100 * k + n for n in range(6)]
        counted(scanned, name, each)
        if name in table.column_names:
            counted(table, name, [value for value in each for _ in range(2)])
    last = [None if n in (1, 2, 4) else 301 + n for n in range(6)]
    counted(scanned, "last_sequence", last)
    rows = checked_table(kafkarec.decode(data, columns=["sequence"]))
    counted(rows, "sequence", [None if n in (1, 2, 4) else 300 + n + m for n in range(6) for m in range(2)])


def test_fields_that_messages_do_not_have_are_null_and_counted() -> None:
    data = b"".join(
        [builders.message(magic=0, offset=n) for n in range(3)]
        + [builders.message(magic=1, offset=n, timestamp=50 + n, attributes=8) for n in (3, 4)]
        + [builders.good_batch(1, base_offset=5)]
    )
    scanned = checked_table(kafkarec.scan(data))
    none = [None] * 5
    for name in ("partition_leader_epoch", "base_timestamp", "record_count"):
        assert scanned.column(name).to_pylist()[:5] == none and scanned.column(name).null_count == 5, name
    counted(scanned, "max_timestamp", [None] * 3 + [53, 54, builders.NOW])
    counted(scanned, "timestamp_type", [None] * 3 + [1, 1, 0])
    counted(scanned, "magic", [0, 0, 0, 1, 1, 2])
    counted(scanned, "delete_horizon_ms", [None] * 6)
    horizons = [builders.batch(builders.records(1), attributes=0x40 * (n % 2), base_timestamp=7 + n) for n in range(6)]
    counted(checked_table(kafkarec.scan(b"".join(horizons))), "delete_horizon_ms", [None, 8, None, 10, None, 12])


def test_the_attributes_of_messages_know_neither_transactions_nor_control() -> None:
    data = b"".join(builders.message(magic=magic, offset=magic, attributes=0x30) for magic in (0, 1))
    scanned = checked_table(kafkarec.scan(data + builders.batch(builders.records(1), base_offset=2, attributes=0x10)))
    counted(scanned, "is_transactional", [False, False, True])
    counted(scanned, "is_control", [False] * 3)
    committed = kafkarec.decode(data, isolation="read_committed")
    assert (list(committed.column("offset")), committed.undecided) == ([0, 1], ())


def test_a_wrappers_first_offset_is_unknown_to_a_scan() -> None:
    inner = [builders.message(offset=n) for n in range(3)]
    data = b"".join(
        builders.wrapper(inner, offset=3 * n + 2) if n % 2 else builders.good_batch(3, base_offset=3 * n)
        for n in range(7)
    )
    counted(checked_table(kafkarec.scan(data)), "base_offset", [None if n % 2 else 3 * n for n in range(7)])
    rows = checked_table(kafkarec.decode(data, columns=["base_offset"]))
    counted(rows, "base_offset", [3 * n for n in range(7) for _ in range(3)])


def test_names_of_codecs_and_the_ids_that_have_none() -> None:
    names = ["none", "gzip", "snappy", "lz4", "zstd", None, None, None]
    data = b"".join(builders.batch(count=0, base_offset=n, attributes=n, last_offset_delta=0) for n in range(8))
    counted(checked_table(kafkarec.scan(data)), "compression", names)
    data = b"".join(builders.good_batch(3, base_offset=3 * n, codec=name) for n, name in enumerate(names[:5]))
    decoded = checked_table(kafkarec.decode(data, columns=["compression"]))
    counted(decoded, "compression", [name for name in names[:5] for _ in range(3)])


def test_columns_of_the_inputs_names() -> None:
    """Each of topic, partition and file alone and with the others; an unknown name is null in every row."""
    data = builders.good_batch(5) + builders.good_batch(4, base_offset=5)
    given = {"topic": "a topic", "partition": 3, "file": "00.log"}
    for mask in range(8):
        known = {name: value for bit, (name, value) in enumerate(given.items()) if mask >> bit & 1}
        table = checked_table(reading.decode_file(data, columns=list(given), **{"file": None, **known}))
        for name in given:
            counted(table, name, [known.get(name)] * 9)
    table = checked_table(reading.decode_file(data, columns=["partition"], partition=0))
    assert table.column(0).to_pylist() == [0] * 9


def test_flags_of_batches_over_the_borders_of_bytes() -> None:
    """One bit per row: batches of 1 to 17 rows, every second is transactional, every third a control batch."""
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
    names = ["is_transactional", "is_control", "control_type"]
    table = checked_table(kafkarec.decode(data, columns=names, control=True))
    for name, cells in zip(names, zip(*wanted, strict=True), strict=True):
        counted(table, name, list(cells))


def test_a_text_column_of_more_than_two_gigabytes_is_refused() -> None:
    """Its end offsets have 32 bits. No byte is written before the check."""
    count = 110_000
    data = builders.batch(payload=b"\x0c\0\0\0\1\1\0" * count, count=count)
    assert len(reading.decode_file(data, "x", columns=["file"])) == count
    with pytest.raises(MemoryError):
        reading.decode_file(data, "x" * 19_600, columns=["file"])


def test_no_row_keeps_what_the_one_before_it_had() -> None:
    """For any two kinds of batches in sequence, the rows are those of each alone."""
    everything = builders.batch(
        builders.records(2),
        attributes=0x40 | 0x20 | 0x10 | 8,
        leader_epoch=3,
        producer_id=5,
        producer_epoch=6,
        base_sequence=7,
        base_timestamp=8,
        max_timestamp=9,
    )
    kinds = [
        everything,
        builders.good_batch(1),
        builders.message(magic=0, offset=4),
        builders.message(magic=1, offset=4, timestamp=5, attributes=8),
        builders.wrapper([builders.message(magic=0, offset=n) for n in range(2)], magic=0, offset=1),
        builders.wrapper([builders.message(magic=1, offset=n) for n in range(2)], magic=1, offset=1),
    ]
    for make in (kafkarec.scan, lambda data: kafkarec.decode(data, control=True).batches):
        alone = [reading.batch_rows(make(data)) for data in kinds]
        for first, before in zip(kinds, alone, strict=True):
            for second, (row,) in zip(kinds, alone, strict=True):
                expected_row = row | {"position": len(first)}
                assert reading.batch_rows(make(first + second)) == [*before, expected_row]
