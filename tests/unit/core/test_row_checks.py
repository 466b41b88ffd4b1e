"""What is said of batches from their headers, and set in them: RowCheck's flags, BatchRows.are_adjacent, stamp."""

import pytest
import reading
from plain_logs import batch

from kafkarec._core import RowCheck

pytestmark = pytest.mark.core

HEADER = 16  # of the flags in row_checks.pxd
FIRST = batch()


def rows_of(*parts):
    [rows] = reading.read_batches(b"".join(parts), columns=[], errors="skip", restore=False).tables
    return rows


def good(base_offset, **fields):
    return batch(base_offset, 3, **fields)


def test_batches_are_adjacent_if_their_bytes_offsets_and_epochs_follow():
    assert rows_of(FIRST).are_adjacent() and rows_of(FIRST, good(5), good(8)).are_adjacent()


@pytest.mark.parametrize(
    "parts",
    [
        (FIRST, good(6)),
        (FIRST, good(4)),
        (FIRST, good(5, epoch=7)),
        (FIRST, good(5), good(8, epoch=7)),
        (FIRST, b"\1" * 30, good(5)),
        (good(0, last_offset_delta=4), good(5)),
        (FIRST, good(5, last_offset_delta=3)),
    ],
    ids=["gap", "overlap", "epoch", "epoch of the third", "bytes between", "compacted", "compacted at the end"],
)
def test_batches_that_are_not_adjacent(parts):
    assert not rows_of(*parts).are_adjacent()


def test_batches_are_stamped_in_their_own_bytes():
    data = bytearray(FIRST + good(9, epoch=-1))
    rows = rows_of(data)
    assert rows.stamp(data, 20, -1, 0) == 28 and rows.are_adjacent()
    assert data == batch(20) + good(25)
    with pytest.raises(ValueError, match=f"do not have the batch at {len(FIRST)}"):
        rows.stamp(data[:-1], 0, -1, -1)


def flags_of_second(**fields):
    rows = rows_of(FIRST, batch(count=3, **{"base_offset": 5, **fields}))
    flags, _ = RowCheck(rising=False).check(rows)
    return int(flags) & HEADER


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"base_sequence": -1},
        {"base_sequence": 0},
        {"base_timestamp": -1, "max_timestamp": -1},
        {"epoch": -1},
        {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0},
    ],
    ids=str,
)
def test_header_fields_that_writers_write(fields):
    assert not flags_of_second(**fields)


@pytest.mark.parametrize(
    "fields",
    [
        {"attributes": 1 << 7},
        {"base_sequence": -2},
        {"base_timestamp": -2},
        {"max_timestamp": -2},
        {"epoch": -2},
        {"producer_id": -2},
        {"producer_id": 7, "producer_epoch": 0, "base_sequence": -1},
        {"last_offset_delta": 1},
    ],
    ids=str,
)
def test_header_fields_that_no_writer_writes(fields):
    assert flags_of_second(**fields)
