"""The original batches (`_c/batch_builder.pxd`) of the rows of decoded columns, in order, including empty ones.

    tables   [(BatchRows, [(Chunk, first row, exclusive last row)])]

The callers keep them alive.

A batch that is built record by record: its rows, their size, and the batch fields that are computed from them.

The functions return YES, NO or FALL_BACK: a field does not have the exact type, or cannot be written. Then nothing has
changed, and write/builder.py converts the field or raises the error. `_c/write.pxd` has the rule where the batch
is full. Functions with Python objects, for the compiled modules.
"""
from cpython.ref cimport PyObject
from libc.stdint cimport int64_t
from libc.stdlib cimport realloc

from kafkarec._c.arrow cimport Storage
from kafkarec._c.batch cimport ABSENT, BATCH_MAGIC, BatchRow, wrapping_add, wrapping_subtract
from kafkarec._c.batch_builder cimport OriginalBatch
from kafkarec._c.columns cimport Columns, Run
from kafkarec._c.numbers cimport varint_size
from kafkarec._c.write cimport (
    EXPLICIT_LAST_OFFSET, BatchFields, BatchLimit, RecordFields, delta_fits, has_room_for, is_full, record_size,
    size_with_length,
)
from kafkarec._core cimport batch_structs, storage_of
from kafkarec._entry.py_rows cimport (
    PyList_CheckExact, PyRows, Py_None, keep_new_reference, kept_reserve, rows_mark, rows_reserve, rows_undo,
    take_bytes, take_numbers,
)

# ---- original batches

cdef struct OriginalBatches:
    OriginalBatch* batches
    int64_t count
    int64_t capacity


cdef inline int originals_fill(OriginalBatches* originals, list tables, bint with_empty) except -1:
    """Appends the original batches of all tables; `with_empty`: also batches without records."""
    cdef const BatchRow* rows
    cdef const Storage* storage
    cdef int64_t next_batch, count = 0
    for table, pieces in tables:
        rows = <const BatchRow*>batch_structs(table, &count)
        next_batch = 0
        for chunk, start, stop in pieces:
            storage = <const Storage*>storage_of(chunk, start, stop)
            next_batch = originals_add_rows(originals, rows, next_batch, &storage.columns, start, stop, with_empty)
        if with_empty:
            originals_add_empty(originals, rows, next_batch, count)
    return 0


cdef inline int64_t originals_add_rows(OriginalBatches* originals, const BatchRow* rows, int64_t next_batch,
                                       const Columns* columns, int64_t start, int64_t stop,
                                       bint with_empty) except -1:
    """Appends those of rows [start, stop) of a chunk; returns the index of the batch after the last one."""
    cdef int64_t i, at = 0, low, high
    cdef const Run* run = <const Run*>columns.runs.data
    for i in range(columns.run_count):
        low, high = max(at, start), min(at + run[i].rows, stop)
        at += run[i].rows
        if low >= high:
            continue
        if with_empty:
            originals_add_empty(originals, rows, next_batch, run[i].batch)
        if originals.count > 0 and originals.batches[originals.count - 1].batch == rows + run[i].batch:
            originals.batches[originals.count - 1].rows += high - low
        else:
            originals_add(originals, rows + run[i].batch, high - low)
        next_batch = run[i].batch + 1
    return next_batch


cdef inline int originals_add(OriginalBatches* originals, const BatchRow* batch, int64_t rows) except -1:
    cdef OriginalBatch* more
    if originals.count == originals.capacity:
        originals.capacity = 2 * originals.capacity + 256
        more = <OriginalBatch*>realloc(originals.batches, <size_t>originals.capacity * sizeof(OriginalBatch))
        if more == NULL:
            raise MemoryError
        originals.batches = more
    originals.batches[originals.count].batch, originals.batches[originals.count].rows = batch, rows
    originals.count += 1
    return 0


cdef inline int originals_add_empty(OriginalBatches* originals, const BatchRow* rows, int64_t i,
                                    int64_t stop) except -1:
    """Appends those of the batches [i, stop) whose record count is 0."""
    while i < stop:
        if rows[i].magic >= BATCH_MAGIC and rows[i].record_count == 0:
            originals_add(originals, rows + i, 0)
        i += 1
    return 0


cdef inline int64_t originals_last_offset(const OriginalBatches* originals) noexcept:
    """The largest last offset of the batches; ABSENT without a batch."""
    cdef int64_t i, last = ABSENT
    for i in range(originals.count):
        if originals.batches[i].batch.last_offset > last:
            last = originals.batches[i].batch.last_offset
    return last


# ---- a batch that is built record by record

cdef enum Answer:
    FALL_BACK = -2
    NO = 0
    YES = 1

cdef struct OpenBatchState:
    PyRows rows
    BatchFields fields           # last_offset once EXPLICIT_LAST_OFFSET is set
    BatchLimit limit
    int64_t max_timestamp
    int64_t offset_of_max_timestamp
    int64_t size                 # bytes of the records, uncompressed


cdef inline bint has_last_offset(const OpenBatchState* g) noexcept:
    return g.fields.explicit_fields & EXPLICIT_LAST_OFFSET != 0


cdef inline void set_last_offset(OpenBatchState* g, int64_t offset) noexcept:
    g.fields.last_offset = offset
    g.fields.explicit_fields |= EXPLICIT_LAST_OFFSET


cdef inline int64_t last_row_size(const OpenBatchState* g, int64_t pairs) noexcept:
    """Bytes of the last row, whose headers are the pairs from `pairs` on."""
    cdef const PyRows* t = &g.rows
    cdef int64_t row = t.count - 1, base = g.fields.delete_horizon_ms if g.fields.has_horizon else t.timestamps[0]
    cdef int64_t i
    cdef RecordFields d
    d.key, d.value = t.keys[row], t.values[row]
    d.headers_size = varint_size(t.pair_count - pairs)
    for i in range(2 * pairs, 2 * t.pair_count):
        d.headers_size += size_with_length(t.pairs[i].length)
    return record_size(&d, g.fields.magic, wrapping_subtract(t.offsets[row], g.fields.base_offset),
                       wrapping_subtract(t.timestamps[row], base))


cdef inline int64_t append_and_measure(OpenBatchState* g, PyObject* timestamp, PyObject* key, PyObject* value,
                                       PyObject* headers, PyObject* offset) except -1:
    """Appends the record to the rows, without changing the other fields; returns its size in bytes, or FALL_BACK."""
    cdef PyRows* t = &g.rows
    cdef int64_t pairs = t.pair_count
    if headers == Py_None and g.fields.magic >= BATCH_MAGIC:
        return FALL_BACK
    rows_reserve(t, 1)
    if not take_numbers(t, offset, timestamp) or not take_bytes(t, key, value, headers):
        return FALL_BACK
    t.missing_offsets = 0
    if offset == Py_None:
        t.offsets[t.count - 1] = wrapping_add(g.fields.last_offset, 1) if has_last_offset(g) else g.fields.base_offset
    return last_row_size(g, pairs)


cdef inline bint last_row_fits(const OpenBatchState* g) noexcept:
    """Whether Kafka's builder accepts the last row after the others."""
    cdef const PyRows* t = &g.rows
    cdef int64_t row = t.count - 1
    return (t.timestamps[row] >= ABSENT and delta_fits(t.offsets[row], g.fields.base_offset)
            and not (has_last_offset(g) and t.offsets[row] <= g.fields.last_offset)
            and not (g.fields.magic < BATCH_MAGIC and t.pair_count > 0))


cdef inline int has_room(OpenBatchState* g, PyObject* timestamp, PyObject* key, PyObject* value,
                         PyObject* headers) except -1:
    """Whether the record would fit: YES, NO or FALL_BACK. Not whether Kafka's builder accepts it."""
    cdef int64_t size
    if g.rows.count == 0:
        return YES
    if is_full(&g.limit, g.size):
        return NO
    rows_mark(&g.rows)
    try:
        size = append_and_measure(g, timestamp, key, value, headers, Py_None)
    finally:
        rows_undo(&g.rows)
    if size < 0:
        return FALL_BACK
    return YES if has_room_for(&g.limit, g.size, size) else NO


cdef inline int add_record(OpenBatchState* g, int64_t most_bytes, PyObject* timestamp, PyObject* key, PyObject* value,
                           PyObject* headers, PyObject* offset) except -1:
    """Appends the record to a batch of at most `most_bytes` before compression: YES, or FALL_BACK. Its offset is then
    g.fields.last_offset."""
    cdef PyRows* t = &g.rows
    cdef int64_t size, time
    rows_mark(t)
    kept_reserve(t, 3)
    keep_new_reference(t, key)
    keep_new_reference(t, value)
    if not PyList_CheckExact(headers):   # of a list take_headers keeps the pairs: the collector would not see the list
        keep_new_reference(t, headers)
    size = append_and_measure(g, timestamp, key, value, headers, offset)
    if size < 0 or not last_row_fits(g) or g.limit.header_size + g.size + size > most_bytes:
        rows_undo(t)
        return FALL_BACK
    g.size += size
    set_last_offset(g, t.offsets[t.count - 1])
    time = t.timestamps[t.count - 1]
    if g.fields.magic > 0 and time > g.max_timestamp:
        g.max_timestamp, g.offset_of_max_timestamp = time, g.fields.last_offset
    return YES
