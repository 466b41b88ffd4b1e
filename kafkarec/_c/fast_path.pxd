"""The fast path of encoding, for rows of the open batch: one loop whose state stays in registers.

It appends rows until one needs more work (it does not fit, the buffer is full, its offset does not rise, it cannot be
written) and leaves that row to `encode.pxd`, which repeats all checks of this file.
"""
from libc.stdint cimport INT32_MAX, INT64_MAX, int64_t, uint8_t

from kafkarec._c.batch cimport ABSENT, BATCH_MAGIC, wrapping_add
from kafkarec._c.columns cimport Buffer
from kafkarec._c.write_v2 cimport RecordFields, FINE, body_size, load_fields, put_record, with_length
from kafkarec._c.batch_builder cimport Encoder, MOST_USED
from kafkarec._c.batch_size cimport has_room_for
from kafkarec._c.input_columns cimport InputChunk, number

cdef inline bint takes_fast_path(const Encoder* e) noexcept nogil:
    """Whether the fast path can be used for the open batch."""
    return (e.open and e.settled and e.fields.magic >= BATCH_MAGIC and e.keep == NULL
            and (e.kept or not (e.has_sequences and e.fields.base_sequence >= 0)))


cdef inline int64_t fast_path_end(const Encoder* e, const InputChunk* chunk) noexcept nogil:
    """The row of the chunk at which the chunk, the rows to encode, or the cut ends."""
    cdef int64_t end = min(chunk.rows, e.stop - e.rows_before)
    return min(end, e.row + e.cuts[e.cut].rows - e.cut_row) if e.cut < e.cut_count else end


cdef inline void fast_rows(Encoder* e, const InputChunk* chunk) noexcept nogil:
    """Appends rows to the open batch from e.row on, up to the first one that needs more work."""
    cdef RecordFields d
    cdef bint compressed = e.fields.codec != 0
    cdef Buffer* buffer = &e.body if compressed else &e.out
    cdef uint8_t* begin = buffer.data + (e.used if compressed else e.written)
    cdef uint8_t* to = begin
    cdef int64_t capacity = INT64_MAX if e.measuring else <int64_t>buffer.capacity - (to - buffer.data)
    cdef int64_t row = e.row, end = fast_path_end(e, chunk)
    cdef int64_t base_offset = e.fields.base_offset, base_timestamp = e.fields.base_timestamp
    cdef int64_t greatest = e.greatest_timestamp, previous = e.previous_offset, count = e.count
    cdef int64_t offset_delta, timestamp_delta, body, size
    while row < end and count < INT32_MAX:
        d.offset = wrapping_add(previous, 1)
        if not e.assign_offsets:
            if not number(&chunk.offset, row, &d.offset):
                break
            d.offset = wrapping_add(d.offset, e.shift)
        d.timestamp = ABSENT
        number(&chunk.timestamp, row, &d.timestamp)
        load_fields(chunk, row, &d)
        offset_delta = wrapping_add(d.offset, -base_offset)
        timestamp_delta = wrapping_add(d.timestamp, -base_timestamp)
        body = body_size(&d, offset_delta, timestamp_delta)
        size = with_length(body)
        if d.row_fault != FINE or offset_delta > INT32_MAX or offset_delta < -INT32_MAX or size > capacity:
            break
        if not e.kept and (d.offset <= previous or d.timestamp < ABSENT
                           or not has_room_for(&e.limit, e.used + (to - begin), size)):
            break
        if e.used + (to - begin) + size > MOST_USED:
            break
        if not e.measuring:
            put_record(to, chunk, &d, body, offset_delta, timestamp_delta)
        to += size
        capacity -= size
        if d.timestamp > greatest:
            greatest = d.timestamp
        previous = d.offset
        count += 1
        row += 1
    e.greatest_timestamp = greatest
    e.previous_offset = e.last_offset = previous
    e.next_offset = wrapping_add(previous, 1)
    e.count = <int>count
    e.used += to - begin
    if not compressed:
        e.written += to - begin
    e.cut_row += row - e.row
    e.row = row
