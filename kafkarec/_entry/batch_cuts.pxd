"""Cuts (`_c/batch_builder.pxd`): the original batches of the rows of decoded columns, in order, empty ones included.

    tables   of each: (BatchRow structs as a buffer, what is there of its chunks: (Run structs as a buffer, first row,
             the row behind the last))

Functions over Python objects, for the compiled modules, which keep the buffers alive.
"""
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport int64_t
from libc.stdlib cimport realloc

from kafkarec._c.batch cimport ABSENT, BatchRow
from kafkarec._c.columns cimport Run
from kafkarec._c.batch_builder cimport Cut

cdef struct BatchCuts:
    Cut* cuts
    int64_t count
    int64_t capacity


cdef inline const void* buffer_of(object data, int64_t* size) except? NULL:
    """Where a buffer lies; whoever asks keeps `data`."""
    cdef Py_buffer view
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    size[0] = view.len
    PyBuffer_Release(&view)
    return view.buf


cdef inline int cuts_fill(BatchCuts* list_, list tables, bint with_empty) except -1:
    cdef const BatchRow* rows
    cdef int64_t next_batch, size = 0
    for raw, pieces in tables:
        rows = <const BatchRow*>buffer_of(raw, &size)
        next_batch = 0
        for runs, start, stop in pieces:
            next_batch = cuts_piece(list_, rows, next_batch, runs, start, stop, with_empty)
        if with_empty:
            cuts_empty(list_, rows, next_batch, size // <int64_t>sizeof(BatchRow))
    return 0


cdef inline int64_t cuts_piece(BatchCuts* list_, const BatchRow* rows, int64_t next_batch, object runs, int64_t start,
                               int64_t stop, bint with_empty) except -1:
    """Cuts of the rows [start, stop) of one chunk; answers the batch behind its last one."""
    cdef int64_t size = 0, i, at = 0, low, high
    cdef const Run* run = <const Run*>buffer_of(runs, &size)
    cdef Cut* last
    for i in range(size // <int64_t>sizeof(Run)):
        low, high = max(at, start), min(at + run[i].rows, stop)
        at += run[i].rows
        if low >= high:
            continue
        if with_empty:
            cuts_empty(list_, rows, next_batch, run[i].batch)
        if list_.count > 0 and list_.cuts[list_.count - 1].batch == rows + run[i].batch:
            list_.cuts[list_.count - 1].rows += high - low
        else:
            cuts_add(list_, rows + run[i].batch, high - low)
        last = list_.cuts + list_.count - 1
        last.whole = last.batch.magic == 2 and last.batch.record_count == last.rows
        next_batch = run[i].batch + 1
    return next_batch


cdef inline int cuts_add(BatchCuts* list_, const BatchRow* batch, int64_t rows) except -1:
    cdef Cut* more
    if list_.count == list_.capacity:
        list_.capacity = 2 * list_.capacity + 256
        more = <Cut*>realloc(list_.cuts, <size_t>list_.capacity * sizeof(Cut))
        if more == NULL:
            raise MemoryError
        list_.cuts = more
    list_.cuts[list_.count].batch, list_.cuts[list_.count].rows = batch, rows
    list_.cuts[list_.count].whole = True
    list_.count += 1
    return 0


cdef inline int cuts_empty(BatchCuts* list_, const BatchRow* rows, int64_t i, int64_t stop) except -1:
    """The batches [i, stop) that never had a record, or have none left."""
    while i < stop:
        if rows[i].magic == 2 and rows[i].record_count == 0:
            cuts_add(list_, rows + i, 0)
        i += 1
    return 0


cdef inline int64_t cuts_last_offset(const BatchCuts* list_) noexcept:
    cdef int64_t i, last = ABSENT
    for i in range(list_.count):
        if list_.cuts[i].batch.last_offset > last:
            last = list_.cuts[i].batch.last_offset
    return last
