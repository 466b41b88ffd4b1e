"""The memory that is reserved for output before a row is written: the estimate from the columns, to the byte.

Buffers have size classes, four for each doubling, and freed buffers are kept for reuse. `release_memory` returns
how many bytes were kept, so one encode between two calls shows the class of its buffer. Each estimate is
set to the limit of a class: the last byte that fits and the first that does not.
"""

import mmap
import struct

import pyarrow as pa
import pytest
from allocations import class_of

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
ENTRY = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])


OWN = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0)
FAR = pa.py_buffer(mmap.mmap(-1, 2**31, flags=OWN))


def binary(ends):
    offsets = pa.py_buffer(struct.pack(f"<{len(ends)}i", *ends))
    return pa.Array.from_buffers(pa.binary(), len(ends) - 1, [None, offsets, AREA if ends[-1] <= AREA.size else FAR])


def filled(columns, promised, rows):
    """Add a column of values so that the estimate is at a class's limit, and one byte above."""
    for size in (8192, 5 << 20):
        for more in (0, 1):
            fill = size - promised - FIRST - ROW * rows + more
            for ends in ([0, *[fill] * rows], [0] * rows + [fill], [77] * rows + [77 + fill]):
                table = pa.table({**columns, "value": binary(ends)})
                release_memory()
                record_input_of(table).write(BatchHeader(), 0, 0)  # of no row
                assert release_memory() == class_of(size + more), (size, more, ends)


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


def test_headers_are_estimated_by_their_bytes_and_two_lengths_each():
    lists = [[{"key": "k" * n, "value": b"v" * (n * i)} for i in range(n % 4)] for n in range(12)]
    for kind in (pa.list_, pa.large_list):
        column = pa.array(lists, kind(ENTRY))
        for start, stop in ((0, 12), (0, 1), (1, 3), (3, 9), (4, 5), (11, 12)):
            entries = [entry for row in lists[start:stop] for entry in row]
            promised = sum(len(entry["key"]) + len(entry["value"]) + 2 for entry in entries)
            filled({"headers": column.slice(start, stop - start)}, promised + OTHER_CELL * (stop - start), stop - start)
    loose = pa.struct([pa.field("key", pa.large_string()), pa.field("value", pa.binary_view())])
    filled({"headers": pa.array([[{"key": "k", "value": b"v"}] * 3], pa.list_(loose))}, 3 * (2 * OTHER_CELL + 2) + 8, 1)


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
