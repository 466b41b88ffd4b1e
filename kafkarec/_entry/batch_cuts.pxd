"""Cuts (`_c/batch_builder.pxd`): the original batches of the rows of decoded columns, in order, including empty ones.

    tables   [(BatchRow structs as a buffer, [(Run structs of a chunk as a buffer, first row, exclusive last row)])]

Functions with Python objects, for the compiled modules, which keep the buffers alive.
"""
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport int64_t
from libc.stdlib cimport realloc

from kafkarec._c.batch cimport ABSENT, BATCH_MAGIC, BatchRow
from kafkarec._c.columns cimport Run
from kafkarec._c.batch_builder cimport Cut

cdef struct BatchCuts:
    Cut* cuts
    int64_t count
    int64_t capacity


cdef inline const void* buffer_of(object data, int64_t* size) except? NULL:
    """The address of a read-only buffer, which stays where it is; sets `size` to its bytes. The caller keeps `data`
    alive."""
    cdef Py_buffer view
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    size[0] = view.len
    PyBuffer_Release(&view)
    if not view.readonly:
        raise TypeError("a read-only buffer is needed")
    return view.buf


cdef inline int cuts_fill(BatchCuts* batch_cuts, list tables, bint with_empty) except -1:
    """Appends the cuts of all tables; `with_empty`: also for batches without records."""
    cdef const BatchRow* rows
    cdef int64_t next_batch, size = 0
    for raw, pieces in tables:
        rows = <const BatchRow*>buffer_of(raw, &size)
        next_batch = 0
        for runs, start, stop in pieces:
            next_batch = cuts_piece(batch_cuts, rows, next_batch, runs, start, stop, with_empty)
        if with_empty:
            cuts_empty(batch_cuts, rows, next_batch, size // <int64_t>sizeof(BatchRow))
    return 0


cdef inline int64_t cuts_piece(BatchCuts* batch_cuts, const BatchRow* rows, int64_t next_batch, object runs,
                               int64_t start, int64_t stop, bint with_empty) except -1:
    """Appends the cuts of rows [start, stop) of a chunk; returns the index of the batch after the last one."""
    cdef int64_t size = 0, i, at = 0, low, high
    cdef const Run* run = <const Run*>buffer_of(runs, &size)
    cdef Cut* last
    for i in range(size // <int64_t>sizeof(Run)):
        low, high = max(at, start), min(at + run[i].rows, stop)
        at += run[i].rows
        if low >= high:
            continue
        if with_empty:
            cuts_empty(batch_cuts, rows, next_batch, run[i].batch)
        if batch_cuts.count > 0 and batch_cuts.cuts[batch_cuts.count - 1].batch == rows + run[i].batch:
            batch_cuts.cuts[batch_cuts.count - 1].rows += high - low
        else:
            cuts_add(batch_cuts, rows + run[i].batch, high - low)
        last = batch_cuts.cuts + batch_cuts.count - 1
        last.whole = last.batch.magic >= BATCH_MAGIC and last.batch.record_count == last.rows
        next_batch = run[i].batch + 1
    return next_batch


cdef inline int cuts_add(BatchCuts* batch_cuts, const BatchRow* batch, int64_t rows) except -1:
    cdef Cut* more
    if batch_cuts.count == batch_cuts.capacity:
        batch_cuts.capacity = 2 * batch_cuts.capacity + 256
        more = <Cut*>realloc(batch_cuts.cuts, <size_t>batch_cuts.capacity * sizeof(Cut))
        if more == NULL:
            raise MemoryError
        batch_cuts.cuts = more
    batch_cuts.cuts[batch_cuts.count].batch, batch_cuts.cuts[batch_cuts.count].rows = batch, rows
    batch_cuts.cuts[batch_cuts.count].whole = True
    batch_cuts.count += 1
    return 0


cdef inline int cuts_empty(BatchCuts* batch_cuts, const BatchRow* rows, int64_t i, int64_t stop) except -1:
    """Appends cuts without rows for those of the batches [i, stop) whose record count is 0."""
    while i < stop:
        if rows[i].magic >= BATCH_MAGIC and rows[i].record_count == 0:
            cuts_add(batch_cuts, rows + i, 0)
        i += 1
    return 0


cdef inline int64_t cuts_last_offset(const BatchCuts* batch_cuts) noexcept:
    """The largest last offset of the batches; ABSENT without a batch."""
    cdef int64_t i, last = ABSENT
    for i in range(batch_cuts.count):
        if batch_cuts.cuts[i].batch.last_offset > last:
            last = batch_cuts.cuts[i].batch.last_offset
    return last
