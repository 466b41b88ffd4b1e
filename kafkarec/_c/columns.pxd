"""The columns of one chunk: Arrow's layout, filled by append.

    offset      int64[rows]
    timestamp   int64[rows]                  validity bit per row
    type        int8[rows]                   timestamp type; -1 (magic 0) is null
    key, value  int32[rows + 1], bytes       validity bit per row
    headers     int32[rows + 1] into         header key: int32[headers + 1], bytes
                                             header value: int32[headers + 1], bytes, validity
    runs        the batch row of the next n rows: columns with one value per batch are made from these

Columns that were not requested have no buffer and are not filled. Bits of a validity bitmap that no row uses yet are 1,
so a row without nulls changes none. Data buffers keep SLACK bytes free after the used ones: wide copies write beyond
the end. Chunks end between batches and before 2^31-1 bytes, so every offset is 32-bit (Spark reads no others).
"""
from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t, uint32_t
from libc.string cimport memcpy, memmove, memset

from kafkarec._pages cimport pages_free, pages_take
from kafkarec._c.status cimport LIMIT_EXCEEDED, OK, OUT_OF_MEMORY

cdef enum:
    SLACK = 64
    MOST_BYTES = 0x7FFFF000            # of one buffer of one chunk

cdef enum Want:
    WANT_OFFSET = 1
    WANT_TIMESTAMP = 2
    WANT_TYPE = 4
    WANT_KEY = 8
    WANT_VALUE = 16
    WANT_HEADERS = 32

cdef struct Buffer:
    uint8_t* data
    size_t capacity

cdef struct Bytes:                      # a binary column
    Buffer offsets
    Buffer data
    Buffer validity
    int64_t nulls
    int64_t used                        # bytes of data

cdef struct Run:
    int64_t batch                       # index of a BatchRow
    int64_t rows

cdef struct Columns:
    uint32_t want
    int64_t rows
    Buffer offset
    Buffer timestamp
    Buffer timestamp_validity
    int64_t timestamp_nulls
    Buffer type
    int64_t type_nulls
    Bytes key
    Bytes value
    Buffer header_offsets
    int64_t headers
    Bytes header_key
    Bytes header_value
    Buffer runs
    int64_t run_count
    int64_t out_of_range                # timestamps that do not fit their unit

cdef struct Expected:                   # estimated sizes of the next chunk: batches, rows, headers, bytes of the others
    int64_t batches
    int64_t rows
    int64_t key
    int64_t value
    int64_t headers
    int64_t header_key
    int64_t header_value


cdef inline int buffer_grow(Buffer* buffer, size_t used, size_t needed) noexcept nogil:
    """Makes the buffer `needed` bytes large or more; its first `used` bytes are kept. It grows by half at least:
    appending takes linear time."""
    cdef size_t capacity = 0
    cdef size_t grown = buffer.capacity + buffer.capacity // 2
    cdef uint8_t* data = pages_take(needed if needed > grown else grown, &capacity)
    if data == NULL:
        return OUT_OF_MEMORY
    if used > 0:
        memcpy(data, buffer.data, used)
    pages_free(buffer.data, buffer.capacity)
    buffer.data = data
    buffer.capacity = capacity
    return OK


cdef inline int buffer_reserve(Buffer* buffer, size_t used, size_t needed) noexcept nogil:
    if needed <= buffer.capacity:
        return OK
    return buffer_grow(buffer, used, needed)


cdef inline int bits_reserve(Buffer* bits, int64_t rows) noexcept nogil:
    """Reserves space for `rows` validity bits; new bits are set."""
    cdef size_t old_capacity = bits.capacity
    cdef size_t needed = <size_t>(rows // 8 + SLACK)
    cdef int status
    if needed <= old_capacity:
        return OK
    status = buffer_grow(bits, old_capacity, needed)
    if status == OK:
        memset(bits.data + old_capacity, 0xFF, bits.capacity - old_capacity)
    return status


cdef inline void clear_bit(uint8_t* bits, int64_t i) noexcept nogil:
    bits[i >> 3] &= <uint8_t>(~(1 << (i & 7)))


cdef inline int64_t set_bits(Buffer* bits, int64_t start, int64_t stop) noexcept nogil:
    """Sets bits [start, stop) and returns how many were clear; bits beyond the capacity are ignored."""
    cdef int64_t cleared = 0
    if stop > <int64_t>bits.capacity * 8:
        stop = <int64_t>bits.capacity * 8
    while start < stop:
        cleared += (bits.data[start >> 3] >> (start & 7) & 1) ^ 1
        bits.data[start >> 3] |= <uint8_t>(1 << (start & 7))
        start += 1
    return cleared


cdef inline int offsets_reserve(Buffer* offsets, int64_t entries, int64_t more) noexcept nogil:
    """Reserves space for entries + more + 1 int32; writes the leading 0 when the buffer is new."""
    cdef bint fresh = offsets.data == NULL
    cdef size_t used = 0 if fresh else <size_t>(entries + 1) * 4
    cdef int status = buffer_reserve(offsets, used, <size_t>(entries + more + 1) * 4 + SLACK)
    if status == OK and fresh:
        (<int32_t*>offsets.data)[0] = 0
    return status


cdef inline int bytes_grow(Bytes* column, int64_t more) noexcept nogil:
    """Reserves space for `more` bytes of data, and the slack for a wide copy after them."""
    if column.used > MOST_BYTES - more:
        return LIMIT_EXCEEDED
    return buffer_reserve(&column.data, <size_t>column.used, <size_t>(column.used + more + SLACK))


cdef inline int bytes_reserve(Bytes* column, int64_t rows, int64_t more_rows, int64_t more_bytes) noexcept nogil:
    cdef int status = offsets_reserve(&column.offsets, rows, more_rows)
    if status == OK:
        status = bits_reserve(&column.validity, rows + more_rows)
    if status == OK:
        status = bytes_grow(column, more_bytes)
    return status


cdef inline int64_t entries_reserved(const Bytes* column) noexcept nogil:
    """Entries for which there are offsets and validity bits; below 0 without buffers."""
    return min((<int64_t>column.offsets.capacity - SLACK) // 4 - 1, (<int64_t>column.validity.capacity - SLACK) * 8)


cdef inline int headers_reserve(Columns* c, int64_t count, int64_t size) noexcept nogil:
    """Reserves space for `count` headers with at most `size` bytes of keys and of values each. Malformed keys may need
    three times as much: append_header_key in record.pxd reserves it."""
    cdef int status = bytes_reserve(&c.header_key, c.headers, count, size)
    if status == OK:
        status = bytes_reserve(&c.header_value, c.headers, count, size)
    return status


cdef inline int columns_reserve(Columns* c, int64_t more_rows, int64_t more_bytes) noexcept nogil:
    """Reserves space for `more_rows` rows in each requested column, and `more_bytes` for keys and for values each."""
    cdef int64_t rows = c.rows
    cdef size_t need = <size_t>(rows + more_rows)
    cdef int status = OK
    if rows > MOST_BYTES - more_rows:
        return LIMIT_EXCEEDED
    if c.want & WANT_OFFSET:
        status = buffer_reserve(&c.offset, <size_t>rows * 8, need * 8 + SLACK)
    if status == OK and c.want & WANT_TIMESTAMP:
        status = buffer_reserve(&c.timestamp, <size_t>rows * 8, need * 8 + SLACK)
        if status == OK:
            status = bits_reserve(&c.timestamp_validity, <int64_t>need)
    if status == OK and c.want & WANT_TYPE:
        status = buffer_reserve(&c.type, <size_t>rows, need + SLACK)
    if status == OK and c.want & WANT_KEY:
        status = bytes_reserve(&c.key, rows, more_rows, more_bytes)
    if status == OK and c.want & WANT_VALUE:
        status = bytes_reserve(&c.value, rows, more_rows, more_bytes)
    if status == OK and c.want & WANT_HEADERS:
        status = offsets_reserve(&c.header_offsets, rows, more_rows)
        if status == OK:
            status = headers_reserve(c, 0, 0)
    return status


cdef inline int columns_expect(Columns* c, const Expected* e, int64_t times, int64_t size) noexcept nogil:
    """Reserves space for `times` the expected sizes at once, and for the last batch, of `size` bytes, for which more is
    reserved than it needs: growing from batch to batch would copy a chunk about twice."""
    cdef size_t runs = <size_t>c.run_count * sizeof(Run)
    cdef int status = columns_reserve(c, e.rows * times, 0)
    if status == OK:
        status = buffer_reserve(&c.runs, runs, runs + <size_t>(e.batches * times) * sizeof(Run))
    if status == OK and c.want & WANT_KEY:
        status = bytes_grow(&c.key, e.key * times + size)
    if status == OK and c.want & WANT_VALUE:
        status = bytes_grow(&c.value, e.value * times + size)
    if status == OK and c.want & WANT_HEADERS and e.headers > 0:
        status = headers_reserve(c, e.headers * times, max(e.header_key, e.header_value) * times)
    return status


cdef inline void columns_measure(const Columns* c, Expected* e) noexcept nogil:
    """Estimates the sizes of the next chunk: those of this one and a sixteenth more."""
    e.batches = c.run_count + c.run_count // 16
    e.rows = c.rows + c.rows // 16
    e.key = c.key.used + c.key.used // 16
    e.value = c.value.used + c.value.used // 16
    e.headers = c.headers + c.headers // 16
    e.header_key = c.header_key.used + c.header_key.used // 16
    e.header_value = c.header_value.used + c.header_value.used // 16


cdef inline void bytes_truncate(Bytes* column, int64_t rows, int64_t touched) noexcept nogil:
    if column.offsets.data != NULL:
        column.used = (<int32_t*>column.offsets.data)[rows]
        column.nulls -= set_bits(&column.validity, rows, touched)


cdef inline void columns_truncate(Columns* c, int64_t rows, int64_t touched) noexcept nogil:
    """Removes all rows from `rows` on. A refused batch may have cleared bits of further rows, below `touched`."""
    cdef int64_t i, headers
    if c.timestamp_validity.data != NULL:
        c.timestamp_nulls -= set_bits(&c.timestamp_validity, rows, touched)
    for i in range(rows, c.rows):
        if c.want & WANT_TYPE and (<int8_t*>c.type.data)[i] < 0:
            c.type_nulls -= 1
    bytes_truncate(&c.key, rows, touched)
    bytes_truncate(&c.value, rows, touched)
    if c.header_offsets.data != NULL:
        headers = (<int32_t*>c.header_offsets.data)[rows]
        bytes_truncate(&c.header_key, headers, c.headers)
        bytes_truncate(&c.header_value, headers, c.headers)
        c.headers = headers
    c.rows = rows


cdef inline bint take_bit(uint8_t* bits, int64_t i) noexcept nogil:
    """Sets a bit and returns its previous value."""
    cdef bint was = bits[i >> 3] >> (i & 7) & 1
    bits[i >> 3] |= <uint8_t>(1 << (i & 7))
    return was


cdef inline void bytes_move(Bytes* column, int64_t row, int64_t to, bint keep) noexcept nogil:
    """Moves the cell of `row` to row `to` (<= `row`), or removes it. `column.used` is where the cell of `to` begins."""
    cdef int32_t* ends = <int32_t*>column.offsets.data
    cdef int32_t start = ends[row]
    cdef int32_t length = ends[row + 1] - start
    cdef bint known = take_bit(column.validity.data, row)
    column.nulls -= not known
    if not keep:
        return
    memmove(column.data.data + column.used, column.data.data + start, <size_t>length)
    column.used += length
    if not known:
        clear_bit(column.validity.data, to)
        column.nulls += 1


cdef inline void row_move(Columns* c, int64_t row, int64_t to, bint keep) noexcept nogil:
    cdef bint known
    if c.want & WANT_OFFSET:
        (<int64_t*>c.offset.data)[to] = (<int64_t*>c.offset.data)[row]
    if c.want & WANT_TIMESTAMP:
        (<int64_t*>c.timestamp.data)[to] = (<int64_t*>c.timestamp.data)[row]
        known = take_bit(c.timestamp_validity.data, row)
        c.timestamp_nulls -= not known
        if keep and not known:
            clear_bit(c.timestamp_validity.data, to)
            c.timestamp_nulls += 1
    if c.want & WANT_TYPE:
        (<int8_t*>c.type.data)[to] = (<int8_t*>c.type.data)[row]
        c.type_nulls -= not keep and (<int8_t*>c.type.data)[row] < 0
    if c.want & WANT_KEY:
        bytes_move(&c.key, row, to, keep)
    if c.want & WANT_VALUE:
        bytes_move(&c.value, row, to, keep)


cdef inline void columns_select(Columns* c, int64_t start, const uint8_t* keep) noexcept nogil:
    """Removes the rows from `start` on whose byte in `keep` is 0; the others stay in order."""
    cdef int64_t rows = c.rows, to = start, header_to = 0, row, header
    cdef int32_t* header_ends = <int32_t*>c.header_offsets.data
    cdef int32_t first = 0, last = 0
    cdef bint stays
    c.key.used = (<int32_t*>c.key.offsets.data)[start] if c.want & WANT_KEY else 0
    c.value.used = (<int32_t*>c.value.offsets.data)[start] if c.want & WANT_VALUE else 0
    if c.want & WANT_HEADERS:
        last = header_ends[start]
        header_to = last
        if c.headers > header_to:
            c.header_key.used = (<int32_t*>c.header_key.offsets.data)[header_to]
            c.header_value.used = (<int32_t*>c.header_value.offsets.data)[header_to]
    for row in range(start, rows):
        stays = keep[row - start] != 0
        row_move(c, row, to, stays)
        if c.want & WANT_HEADERS:
            first = last
            last = header_ends[row + 1]
            for header in range(first, last):
                bytes_move(&c.header_key, header, header_to, stays)
                bytes_move(&c.header_value, header, header_to, stays)
                if stays:
                    header_to += 1
                    (<int32_t*>c.header_key.offsets.data)[header_to] = <int32_t>c.header_key.used
                    (<int32_t*>c.header_value.offsets.data)[header_to] = <int32_t>c.header_value.used
        if stays:
            to += 1
            if c.want & WANT_KEY:
                (<int32_t*>c.key.offsets.data)[to] = <int32_t>c.key.used
            if c.want & WANT_VALUE:
                (<int32_t*>c.value.offsets.data)[to] = <int32_t>c.value.used
            if c.want & WANT_HEADERS:
                header_ends[to] = <int32_t>header_to
    if c.want & WANT_HEADERS:
        c.headers = header_to
    c.rows = to


cdef inline int run_append(Columns* c, int64_t batch, int64_t rows) noexcept nogil:
    cdef size_t used = <size_t>c.run_count * sizeof(Run)
    cdef Run* run
    cdef int status = buffer_reserve(&c.runs, used, used + sizeof(Run))
    if status != OK:
        return status
    run = <Run*>c.runs.data + c.run_count
    run.batch = batch
    run.rows = rows
    c.run_count += 1
    return OK


cdef inline void copy_wide(uint8_t* to, const uint8_t* source, int64_t n) noexcept nogil:
    """Copies n bytes in steps of 32, one at least; so it reads and writes up to 32 bytes more. Faster than memcpy for
    short fields."""
    cdef int64_t i = 32
    memcpy(to, source, 32)
    if n > 512:
        memcpy(to + 32, source + 32, <size_t>n - 32)
        return
    while i < n:
        memcpy(to + i, source + i, 32)
        i += 32


cdef inline void bytes_release(Bytes* column) noexcept nogil:
    pages_free(column.offsets.data, column.offsets.capacity)
    pages_free(column.data.data, column.data.capacity)
    pages_free(column.validity.data, column.validity.capacity)


cdef inline void columns_release(Columns* c) noexcept nogil:
    """Returns all buffers to the page pool."""
    pages_free(c.offset.data, c.offset.capacity)
    pages_free(c.timestamp.data, c.timestamp.capacity)
    pages_free(c.timestamp_validity.data, c.timestamp_validity.capacity)
    pages_free(c.type.data, c.type.capacity)
    bytes_release(&c.key)
    bytes_release(&c.value)
    pages_free(c.header_offsets.data, c.header_offsets.capacity)
    bytes_release(&c.header_key)
    bytes_release(&c.header_value)
    pages_free(c.runs.data, c.runs.capacity)
    memset(c, 0, sizeof(Columns))
