"""A batch that is built record by record: its rows, their size, and the batch fields that follow from them.

    size so far     header + records; with a codec header + records * ratio * 1.05, in 32-bit floats, as
                    MemoryRecordsBuilder.estimatedBytesWritten guesses it
    has_room        the first record always has it; any other while limit >= size so far + its own bytes

Each function returns yes, no, or LOOK_AGAIN: a field has no exact type, or cannot be written. Then nothing has changed,
and write/builder.py converts the field or raises the error. Functions over Python objects, for the compiled modules.
"""
from cpython.ref cimport PyObject
from libc.stdint cimport INT32_MAX, INT64_MAX, int8_t, int64_t, uint64_t

from kafkarec._c.batch cimport ABSENT, wrapping_add
from kafkarec._c.write_v2 cimport RecordFields, body_size, sized, varint_size
from kafkarec._c.write_v01 cimport message_size
from kafkarec._entry.py_rows cimport (
    PyRows, Py_INCREF, Py_None, keep, kept_reserve, rows_mark, rows_reserve, rows_undo, take_bytes, take_numbers,
)

cdef enum Answer:
    LOOK_AGAIN = -2
    NO = 0
    YES = 1

cdef struct OpenBatchState:
    PyRows rows
    int8_t magic
    bint packed                  # a codec
    bint stamps                  # log append time
    bint has_base_timestamp
    bint has_last
    float ratio                  # to expect of the codec
    int64_t base_offset
    int64_t base_timestamp
    int64_t last_offset
    int64_t log_append_time
    int64_t max_timestamp
    int64_t offset_of_max_timestamp
    int64_t limit                # bytes: has_room compares with it
    int64_t most_records
    int64_t most_bytes           # of the records
    int64_t header_size
    int64_t size                 # of the records


cdef inline double size_so_far(const OpenBatchState* g) noexcept:
    """Without what is behind the point; a double holds all such sizes, and no number where the ratio is none."""
    if not g.packed:
        return <double>(g.header_size + g.size)
    return <double>(<float>g.size * g.ratio * <float>1.05)


cdef inline bint within_32(int64_t offset, int64_t base) noexcept:
    if offset >= base:
        return <uint64_t>offset - <uint64_t>base <= <uint64_t>INT32_MAX
    return <uint64_t>base - <uint64_t>offset <= <uint64_t>INT32_MAX + 1


cdef inline int64_t size_of_last(const OpenBatchState* g, int64_t pairs) noexcept:
    """Bytes of the table's last row, whose headers are those from `pairs` on."""
    cdef const PyRows* t = &g.rows
    cdef int64_t row = t.count - 1, base = g.base_timestamp if g.has_base_timestamp else t.timestamps[row]
    cdef int64_t i
    cdef RecordFields d
    d.key, d.value = t.keys[row], t.values[row]
    if g.magic < 2:
        return message_size(&d, g.magic)
    d.headers_size = varint_size(t.pair_count - pairs)
    for i in range(2 * pairs, 2 * t.pair_count):
        d.headers_size += sized(t.pairs[i].length)
    i = body_size(&d, wrapping_add(t.offsets[row], -g.base_offset), wrapping_add(t.timestamps[row], -base))
    return i + varint_size(i)


cdef inline int64_t measure_record(OpenBatchState* g, PyObject* timestamp, PyObject* key, PyObject* value,
                                   PyObject* headers, PyObject* offset) except -1:
    """Puts the record behind the others, in the table alone; answers its size, or LOOK_AGAIN."""
    cdef PyRows* t = &g.rows
    cdef int64_t pairs = t.pair_count, next_offset = g.last_offset + 1 if g.has_last else g.base_offset
    if headers == Py_None and g.magic >= 2 or t.count >= g.most_records:
        return LOOK_AGAIN
    rows_reserve(t, 1)
    if not take_numbers(t, offset, timestamp) or not take_bytes(t, key, value, headers):
        return LOOK_AGAIN
    t.missing = 0
    if offset == Py_None:
        if g.has_last and g.last_offset == INT64_MAX:
            return LOOK_AGAIN
        t.offsets[t.count - 1] = next_offset
    if (g.has_last and t.offsets[t.count - 1] <= g.last_offset or not within_32(t.offsets[t.count - 1], g.base_offset)
            or t.timestamps[t.count - 1] < ABSENT or (g.magic < 2 and t.pair_count > pairs)):
        return LOOK_AGAIN
    return size_of_last(g, pairs)


cdef inline int has_room(OpenBatchState* g, PyObject* timestamp, PyObject* key, PyObject* value,
                         PyObject* headers) except -1:
    """Whether the next record would fit."""
    cdef double so_far = size_so_far(g)
    cdef int64_t size
    if g.rows.count == 0:
        return YES
    if not -1e18 < so_far < 1e18:
        return LOOK_AGAIN
    if g.packed:
        so_far = <double>(g.header_size + <int64_t>so_far)
    if g.limit <= <int64_t>so_far:
        return NO
    rows_mark(&g.rows)
    try:
        size = measure_record(g, timestamp, key, value, headers, Py_None)
    finally:
        rows_undo(&g.rows)
    if size < 0:
        return LOOK_AGAIN
    return YES if g.limit >= <int64_t>so_far + size else NO


cdef inline int add_record(OpenBatchState* g, PyObject* timestamp, PyObject* key, PyObject* value, PyObject* headers,
                           PyObject* offset) except -1:
    """YES, or LOOK_AGAIN; the offset is then the last one."""
    cdef PyRows* t = &g.rows
    cdef int64_t size, time
    rows_mark(t)
    kept_reserve(t, 3)
    hold(t, key)
    hold(t, value)
    hold(t, headers)
    size = measure_record(g, timestamp, key, value, headers, offset)
    if size < 0 or g.size + size > g.most_bytes:
        rows_undo(t)
        return LOOK_AGAIN
    time = t.timestamps[t.count - 1]
    g.size += size
    g.last_offset, g.has_last = t.offsets[t.count - 1], True
    if not g.has_base_timestamp:
        g.base_timestamp, g.has_base_timestamp = time, True
    if g.stamps and g.magic < 2:
        time = g.log_append_time
    if g.magic > 0 and time > g.max_timestamp:
        g.max_timestamp, g.offset_of_max_timestamp = time, g.last_offset
    return YES


cdef inline void hold(PyRows* t, PyObject* o) noexcept:
    Py_INCREF(o)
    keep(t, o)
