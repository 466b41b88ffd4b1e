"""The original batches (`_c/batch_builder.pxd`) of the rows of decoded columns, in order, including empty ones.

    tables   [(BatchRows, [(Chunk, first row, exclusive last row)])]

The callers keep them alive. Functions with Python objects, for the compiled modules.
"""
from libc.stdint cimport int64_t

from kafkarec._c.arrow cimport Storage
from kafkarec._c.batch cimport ABSENT, BATCH_MAGIC, BatchRow
from kafkarec._c.batch_builder cimport Encoder, OriginalBatch
from kafkarec._c.columns cimport Columns, Run, buffer_reserve
from kafkarec._core cimport batch_structs, storage_of


cdef inline int originals_fill(Encoder* e, list tables, bint with_empty) except -1:
    """Appends the original batches of all tables; `with_empty`: also batches without records."""
    cdef const BatchRow* rows
    cdef const Storage* storage
    cdef int64_t next_batch, count = 0
    for table, pieces in tables:
        rows = <const BatchRow*>batch_structs(table, &count)
        next_batch = 0
        for chunk, start, stop in pieces:
            storage = <const Storage*>storage_of(chunk, start, stop)
            next_batch = originals_add_rows(e, rows, next_batch, &storage.columns, start, stop, with_empty)
        if with_empty:
            originals_add_empty(e, rows, next_batch, count)
    return 0


cdef inline int64_t originals_add_rows(Encoder* e, const BatchRow* rows, int64_t next_batch, const Columns* columns,
                                       int64_t start, int64_t stop, bint with_empty) except -1:
    """Appends those of rows [start, stop) of a chunk; returns the index of the batch after the last one."""
    cdef int64_t i, at = 0, low, high
    cdef const Run* run = <const Run*>columns.runs.data
    for i in range(columns.run_count):
        low, high = max(at, start), min(at + run[i].rows, stop)
        at += run[i].rows
        if low >= high:
            continue
        if with_empty:
            originals_add_empty(e, rows, next_batch, run[i].batch)
        if e.original_count > 0 and e.originals[e.original_count - 1].batch == rows + run[i].batch:
            e.originals[e.original_count - 1].rows += high - low
        else:
            originals_add(e, rows + run[i].batch, high - low)
        next_batch = run[i].batch + 1
    return next_batch


cdef inline int originals_add(Encoder* e, const BatchRow* batch, int64_t rows) except -1:
    cdef size_t used = <size_t>e.original_count * sizeof(OriginalBatch)
    if buffer_reserve(&e.original_block, used, used + sizeof(OriginalBatch)) != 0:
        raise MemoryError
    e.originals = <OriginalBatch*>e.original_block.data
    e.originals[e.original_count] = OriginalBatch(rows, batch)
    e.original_count += 1
    return 0


cdef inline int originals_add_empty(Encoder* e, const BatchRow* rows, int64_t i, int64_t stop) except -1:
    """Appends those of the batches [i, stop) whose record count is 0."""
    while i < stop:
        if rows[i].magic >= BATCH_MAGIC and rows[i].record_count == 0:
            originals_add(e, rows + i, 0)
        i += 1
    return 0


cdef inline int64_t originals_last_offset(const Encoder* e) noexcept:
    """The largest last offset of the batches; ABSENT without a batch."""
    cdef int64_t i, last = ABSENT
    for i in range(e.original_count):
        last = max(last, e.originals[i].batch.last_offset)
    return last
