"""The fast path of encoding, for rows of the open batch: one loop whose state stays in registers.

It appends rows until one needs more work (it does not fit, the buffer is full, its offset does not rise, it cannot be
written) and leaves that row to `encode.pxd`, which repeats all checks of this file.
"""
from libc.stdint cimport INT32_MAX, int32_t, int64_t, uint8_t, uint64_t

from kafkarec._c.batch cimport ABSENT, BATCH_MAGIC, wrapping_add
from kafkarec._c.columns cimport Buffer
from kafkarec._c.write_v2 cimport (
    FINE, MOST_BODY, RecordFields, body_size, length_size, load_headers, put_body, put_raw, put_varint, with_length,
)
from kafkarec._c.batch_builder cimport Encoder, MOST_USED
from kafkarec._c.batch_size cimport has_room_for
from kafkarec._c.input_columns cimport InputChunk, Span, cell, number, spans_of

cdef inline bint takes_fast_path(const Encoder* e) noexcept nogil:
    """Whether the fast path can be used for the open batch."""
    return (e.open and e.settled and e.fields.magic >= BATCH_MAGIC and e.keep == NULL
            and (e.kept or not (e.has_sequences and e.fields.base_sequence >= 0)))


cdef inline int64_t fast_path_end(const Encoder* e, const InputChunk* chunk) noexcept nogil:
    """The row of the chunk at which the chunk, the rows to encode, or the cut ends."""
    cdef int64_t end = min(chunk.rows, e.stop - e.rows_before)
    return min(end, e.row + e.cuts[e.cut].rows - e.cut_row) if e.cut < e.cut_count else end


cdef inline int64_t add_records(Encoder* e, const InputChunk* chunk, int64_t row, int64_t end,
                                bint checked) noexcept nogil:
    """Appends rows to the open batch, up to `end` or the first one that needs more work; returns the row after them.
    `checked`: that the rows belong to the batch, whatever their offsets, timestamps and sizes are."""
    cdef RecordFields d
    cdef const Span* keys = spans_of(&chunk.key)
    cdef const Span* values = spans_of(&chunk.value)
    cdef bint compressed = e.fields.codec != 0, stored = not e.measuring
    cdef bint estimated = compressed and not checked
    cdef Buffer* buffer = &e.body if compressed else &e.out
    cdef uint8_t* begin = buffer.data + (e.used if compressed else e.written)
    cdef uint8_t* to = begin
    cdef int64_t room = MOST_USED - e.used, capacity = <int64_t>buffer.capacity - (begin - buffer.data)
    cdef int64_t base_offset = e.fields.base_offset, base_timestamp = e.fields.base_timestamp, shift = e.shift
    cdef int64_t greatest = e.greatest_timestamp, previous = e.previous_offset, first = row
    cdef int64_t offset_delta, timestamp_delta, content, body, size
    cdef int length
    if stored:
        room = min(room, capacity)
    if not compressed and not checked:
        room = min(room, e.limit.most - e.limit.header_size - e.used)
    end = min(end, row + INT32_MAX - e.count)
    d.row_fault = FINE
    while row < end:
        d.offset = wrapping_add(previous, 1)
        if not e.assign_offsets:
            if not number(&chunk.offset, row, &d.offset):
                break
            d.offset = wrapping_add(d.offset, shift)
        d.timestamp = ABSENT
        number(&chunk.timestamp, row, &d.timestamp)
        d.key = keys[row] if keys != NULL else cell(&chunk.key, row)
        d.value = values[row] if values != NULL else cell(&chunk.value, row)
        load_headers(chunk, row, &d)
        offset_delta = wrapping_add(d.offset, -base_offset)
        timestamp_delta = wrapping_add(d.timestamp, -base_timestamp)
        if offset_delta != <int32_t>offset_delta or d.row_fault != FINE:
            break
        if (d.offset <= previous or d.timestamp < ABSENT) and not checked:
            break
        content = max(d.key.length, 0) + max(d.value.length, 0) + d.headers_size
        length = length_size(content)
        if length > 0 and stored and content <= capacity - (to - begin) - 2 * MOST_BODY:
            size = put_body(to + length, chunk, &d, offset_delta, timestamp_delta) - to
            put_raw(to, <uint64_t>(size - length) << 1)
            if size > room:
                break
        else:
            body = body_size(&d, offset_delta, timestamp_delta)
            size = with_length(body)
            if size > room:
                break
            if stored:
                put_body(put_varint(to, body), chunk, &d, offset_delta, timestamp_delta)
        if estimated and not has_room_for(&e.limit, e.used + (to - begin), size):
            break
        to += size
        room -= size
        greatest = max(greatest, d.timestamp)
        previous = d.offset
        row += 1
    if row > first:
        e.greatest_timestamp, e.previous_offset = greatest, previous
        e.count += <int32_t>(row - first)
        e.used += to - begin
        if not compressed:
            e.written += to - begin
    return row
