"""The memory that is reserved for output before a row is written, and kept when it is freed.

Buffers have size classes, four for each doubling. `release_memory` returns how many bytes were kept, so one encode
between two calls shows the class of its buffer.
"""

import mmap
import struct

import pyarrow as pa
import pytest

import kafkarec
from kafkarec import release_memory
from kafkarec.write.encoding import record_input_of
from kafkarec.write.fields import BatchHeader

pytestmark = [pytest.mark.core, pytest.mark.recycled]

MOST_KEPT = 128 << 20
AREA = pa.py_buffer(mmap.mmap(-1, MOST_KEPT + 1))
"""Bytes that are never accessed, so they take no memory."""
ROW, OTHER_CELL, FIRST = 16, 8, 4096
"""Estimated bytes per row besides its cells, per cell without 32-bit offsets, and per output."""
OWN = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0)
FAR = pa.py_buffer(mmap.mmap(-1, 2**31, flags=OWN))


def binary(ends):
    offsets = pa.py_buffer(struct.pack(f"<{len(ends)}i", *ends))
    return pa.Array.from_buffers(pa.binary(), len(ends) - 1, [None, offsets, AREA if ends[-1] <= AREA.size else FAR])


def test_no_more_than_128_mib_are_kept():
    """In buffers of several classes together; reused buffers and those freed to the system no longer count."""

    def write(size):
        record_input_of(pa.table({"value": binary([0, size - FIRST - ROW - OTHER_CELL])})).write(BatchHeader(), 0, 0)

    for _ in range(2):
        release_memory()
        for size in (64 << 20, 64 << 20, 56 << 20, 8 << 20, 56 << 20, 5120, 8 << 20):
            write(size)
        assert release_memory() == 128 << 20
        for size in (64 << 20, 56 << 20, 7 << 20, 5120, 1 << 20, 6144):
            write(size)
        assert release_memory() == (127 << 20) + 5120 + 6144
    assert release_memory() == 0


def test_a_batch_holds_a_kib_less_than_2_gib_of_records():
    """Only measured: the first row of another batch ends it before a byte is written."""
    most, record = 2**31 - 1025, 15  # bytes of a record besides a value of 128 MiB and more
    fits, ends_it = "^record 3: its timestamp -2 ", "^a batch of more than 2\\^31-1 bytes"
    for more, refusal in ((-1, fits), (0, fits), (1, ends_it)):
        ends = [0, 600 << 20, 1200 << 20, most - 3 * record + more]
        table = pa.table(
            {
                "value": binary([*ends, ends[-1]]),
                "timestamp": pa.array([5, 5, 5, -2], pa.int64()),
            }
        )
        facts = table.append_column("partition_leader_epoch", pa.array([3] * 4, pa.int32()))
        for source in (table, facts):
            with pytest.raises(ValueError, match=refusal):
                kafkarec.encode(source, batch_size=2**31 - 1)
