"""The columns of one chunk: Arrow's layout, filled by append.

    offset      int64[rows]
    timestamp   int64[rows]                  validity bit per row
    type        int8[rows]                   timestamp type; -1 (magic 0) is null
    key, value  int32[rows + 1], bytes       validity bit per row
    headers     int32[rows + 1] into         header key: int32[headers + 1], bytes
                                             header value: int32[headers + 1], bytes, validity
    runs        the batch row of the next n rows: columns with one value per batch are made from these

With WANT_VIEWS, key, value and header value are Arrow's binary_view: View[rows] instead of the offsets, and the bytes
of a value of more than 12 either where they are in the input's memory, or in the column's data: see View.

Columns that were not requested are NULL and are not filled. Bits of a validity bitmap that no row uses yet are 1, so a
row without nulls changes none. Data buffers keep SLACK bytes free after the used ones: wide copies write beyond the
end. Chunks end between batches and before 2^31-1 bytes, so every offset is 32-bit (Spark reads no others).

What has an entry for each row is in one block of memory, the arrays behind one another, and so is what has one for each
header. The buffers of a small input in memory are parts of one page: a page each would take longer than decoding it. A
part that has to grow gets a page of its own.
"""
from libc.stdint cimport UINT64_MAX, int8_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from kafkarec._core cimport pages_free, pages_take
from kafkarec._c.status cimport LIMIT_EXCEEDED, OK, OUT_OF_MEMORY

cdef enum:
    SLACK = 64
    MOST_BYTES = 0x7FFFF000            # of one buffer of one chunk
    MOST_IN_PAGE = 4 << 10             # bytes of an input whose columns are parts of one page
    MOST_ROW_BYTES = 56                # of the arrays of a block, for each row
    PAGE_SLACK = 38 * SLACK            # of the arrays and buffers in a page

cdef enum Want:
    WANT_OFFSET = 1
    WANT_TIMESTAMP = 2
    WANT_TYPE = 4
    WANT_KEY = 8
    WANT_VALUE = 16
    WANT_HEADERS = 32
    WANT_VIEWS = 64

cdef enum:                              # index of the buffer that a view points to
    IN_MEMORY = 0                       # of the input: from Columns.memory on
    IN_DATA = 1                         # of the column

cdef enum:
    MOST_INLINE = 12                    # bytes of a value that are in the view itself

# A value of a binary_view column. `bytes`: of up to 12 all, then zeros; else the first 4, and where all of them are.
cdef struct View:
    int32_t length
    uint8_t[4] bytes
    int32_t buffer                      # or bytes 4 to 8
    int32_t offset                      # or bytes 8 to 12

cdef struct Buffer:
    uint8_t* data
    size_t capacity                     # odd: it is a part of a page

cdef struct Page:                       # of which the first `used` bytes have been given away
    Buffer buffer
    size_t used

cdef struct BlockArray:                 # an array in a block
    uint32_t want                       # the column that it belongs to
    void* place                         # where the pointer to it is
    int bits                            # of an entry; 1: validity bits

cdef struct Bytes:                      # a binary column
    int32_t* offsets                    # or views
    uint8_t* validity
    Buffer data
    int64_t used                        # bytes of data
    int64_t used_before                 # with views: that before the batch that is being read
    int64_t[2] sizes                    # of the buffers that views point to, for Arrow

cdef struct Run:
    int64_t batch                       # index of a BatchRow
    int64_t rows

cdef struct Columns:
    uint32_t want
    Page page
    int64_t rows
    Buffer row_block
    int64_t row_room                    # rows for which there is space, but for the bytes of keys and values
    int64_t* offset
    int64_t* timestamp
    uint8_t* timestamp_validity
    int8_t* type
    Bytes key
    Bytes value
    int32_t* header_offsets
    int64_t headers
    Buffer header_block
    int64_t header_room                 # headers for which there is space, but for their bytes
    Bytes header_key
    Bytes header_value
    Buffer runs
    int64_t run_count
    int64_t out_of_range                # timestamps that do not fit their unit
    const uint8_t* memory               # with views: of the input, from the first payload that is viewed there; or NULL
    int64_t memory_size
    bint in_memory                      # views of the batch that is being read point there
    int64_t first_row                   # with views: of the batch that is being read

cdef inline void buffer_free(const Buffer* buffer) noexcept nogil:
    pages_free(buffer.data, buffer.capacity)


cdef inline void buffer_free_above(Buffer* buffer, size_t most) noexcept nogil:
    """Frees a buffer of more than `most` bytes, which is then empty."""
    if buffer.capacity > most:
        buffer_free(buffer)
        buffer[0] = Buffer(NULL, 0)


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
    buffer_free(buffer)
    buffer.data = data
    buffer.capacity = capacity
    return OK


cdef inline int buffer_reserve(Buffer* buffer, size_t used, size_t needed) noexcept nogil:
    if needed <= buffer.capacity:
        return OK
    return buffer_grow(buffer, used, needed)


cdef inline int part_grow(Page* page, Buffer* buffer, size_t used, size_t needed) noexcept nogil:
    """As buffer_grow; a new buffer is a part of the page if that has space. NULL: there is no page."""
    cdef size_t size = (needed + 63) // 64 * 64
    if page == NULL or buffer.data != NULL or size > page.buffer.capacity - page.used:
        return buffer_grow(buffer, used, needed)
    buffer.data = page.buffer.data + page.used
    buffer.capacity = size - 1
    page.used += size
    return OK


cdef inline int part_reserve(Page* page, Buffer* buffer, size_t used, size_t needed) noexcept nogil:
    if needed <= buffer.capacity:
        return OK
    return part_grow(page, buffer, used, needed)


cdef inline size_t array_size(int bits, int64_t room) noexcept nogil:
    """Bytes of an array with space for `room` entries and one more."""
    return <size_t>(room * bits // 8 + 2 * SLACK) // SLACK * SLACK


cdef inline int block_grow(Page* page, Buffer* block, uint32_t want, const BlockArray* arrays, int count, int64_t used,
                           int64_t room) noexcept nogil:
    """Moves those arrays of a block that are wanted to a larger one, with space for `room` entries and one more; the
    first `used` entries and the one after them are kept. In a new array the first entry is 0."""
    cdef Buffer larger = Buffer(NULL, 0)
    cdef size_t size = 0
    cdef uint8_t* at
    cdef uint8_t* old
    cdef int i, bits, status
    for i in range(count):
        size += array_size(arrays[i].bits, room) if want & arrays[i].want else 0
    if size == 0:
        return OK
    status = part_grow(page, &larger, 0, size)
    if status != OK:
        return status
    at = larger.data
    for i in range(count):
        bits = arrays[i].bits
        if not want & arrays[i].want:
            continue
        memcpy(&old, arrays[i].place, sizeof(old))
        memcpy(arrays[i].place, &at, sizeof(at))
        if bits == 1:
            memset(at, 0xFF, array_size(bits, room))
        if old != NULL:
            memcpy(at, old, <size_t>((used + 1) * bits + 7) // 8)
        elif bits > 1:
            memset(at, 0, <size_t>bits // 8)
        at += array_size(bits, room)
    buffer_free(block)
    block[0] = larger
    return OK


cdef inline void columns_share_page(Columns* c, int64_t rows, int64_t size) noexcept nogil:
    """Has the buffers of new columns be parts of one page, which suffices for `rows` rows from `size` bytes, but for
    headers. Without memory for it they have pages of their own."""
    rows = max(min(rows, size // 7), 0)                 # a record has 7 bytes or more
    c.page.buffer.data = pages_take(<size_t>(PAGE_SLACK + rows * MOST_ROW_BYTES + 2 * size), &c.page.buffer.capacity)


cdef inline bint is_set(const uint8_t* bits, int64_t i) noexcept nogil:
    """A validity bit; bits NULL: all are set."""
    return bits == NULL or bits[i >> 3] >> (i & 7) & 1


cdef inline void clear_bit(uint8_t* bits, int64_t i) noexcept nogil:
    bits[i >> 3] &= <uint8_t>(~(1 << (i & 7)))


cdef inline void set_bits(uint8_t* bits, int64_t start, int64_t stop) noexcept nogil:
    """Sets bits [start, stop)."""
    while start < stop:
        bits[start >> 3] |= <uint8_t>(1 << (start & 7))
        start += 1


cdef extern from *:
    int bits_set "__builtin_popcountll"(unsigned long long) noexcept nogil


cdef inline int64_t count_nulls(const uint8_t* validity, int64_t first, int64_t rows) noexcept nogil:
    """The number of zero bits of rows [first, first + rows). While columns are filled nobody counts nulls."""
    cdef int64_t i = first, stop = first + rows, zeros = 0
    cdef uint64_t word
    if validity == NULL:
        return 0
    while i < stop and i & 7:
        zeros += not is_set(validity, i)
        i += 1
    while stop - i >= 64:
        memcpy(&word, validity + (i >> 3), 8)
        if word != UINT64_MAX:
            zeros += 64 - bits_set(word)
        i += 64
    while i < stop:
        zeros += not is_set(validity, i)
        i += 1
    return zeros


cdef inline void begin_viewed_batch(Columns* c, const uint8_t* payload, int64_t length) noexcept nogil:
    """Begins a batch of columns with views. payload: where it is in the input's memory, or NULL: its values are copied,
    as are those too far behind the chunk's first ones, since offsets have 32 bits."""
    c.first_row = c.rows
    c.key.used_before, c.value.used_before = c.key.used, c.value.used
    c.header_value.used_before = c.header_value.used
    c.in_memory = payload != NULL
    if c.in_memory and c.memory == NULL:
        c.memory = payload
    if c.in_memory and payload - c.memory > MOST_BYTES - length:
        c.in_memory = False
    if c.in_memory:
        c.memory_size = payload + length - c.memory


cdef inline void put_short_view(View* view, const uint8_t* p, int32_t length) noexcept nogil:
    """Writes a value of up to 12 bytes; reads no byte after it."""
    memset(view, 0, sizeof(View))
    view.length = length
    memcpy(view.bytes, p, <size_t>length)


cdef inline void put_short_view_wide(View* view, const uint8_t* p, int32_t length) noexcept nogil:
    """As put_short_view, without a loop or branch over the length; reads 16 bytes."""
    cdef uint64_t low, high
    cdef int above = length - 8
    memcpy(&low, p, 8)
    memcpy(&high, p + 8, 8)
    low = low & ~(UINT64_MAX << (length * 8)) if above < 0 else low
    high = high & ~(UINT64_MAX << (above * 8)) if above > 0 else 0
    view.length = length
    memcpy(view.bytes, &low, 8)
    memcpy(&view.offset, &high, 4)


cdef inline void put_long_view(View* view, const uint8_t* p, int32_t length, int buffer, int64_t offset) noexcept nogil:
    """Writes a value of more than 12 bytes."""
    view.length = length
    memcpy(view.bytes, p, 4)
    view.buffer, view.offset = buffer, <int32_t>offset


cdef inline const uint8_t* value_at(const Columns* c, const Bytes* column, int64_t entry,
                                    int64_t* length) noexcept nogil:
    """Where the bytes of a key, value or header value are; of a null length 0."""
    cdef const View* view = <const View*>column.offsets + entry
    cdef const int32_t* ends = column.offsets + entry
    if not c.want & WANT_VIEWS:
        length[0] = ends[1] - ends[0]
        return column.data.data + ends[0]
    length[0] = view.length
    if view.length <= MOST_INLINE:
        return view.bytes
    return (c.memory if view.buffer == IN_MEMORY else column.data.data) + view.offset


cdef inline int bytes_reserve(Page* page, Bytes* column, int64_t more) noexcept nogil:
    """Reserves space for `more` bytes of data, and the slack for a wide copy after them."""
    if column.used > MOST_BYTES - more:
        return LIMIT_EXCEEDED
    return part_reserve(page, &column.data, <size_t>column.used, <size_t>(column.used + more + SLACK))


cdef inline int headers_reserve(Columns* c, int64_t count, int64_t size) noexcept nogil:
    """Reserves space for `count` headers with at most `size` bytes of keys and of values each. Malformed keys may need
    three times as much: append_header_key in record.pxd reserves it."""
    cdef bint views = (c.want & WANT_VIEWS) != 0
    cdef int64_t room = max(c.headers + count, c.header_room + c.header_room // 2)
    cdef BlockArray[4] arrays = [
        BlockArray(WANT_HEADERS, &c.header_key.offsets, 32), BlockArray(WANT_HEADERS, &c.header_key.validity, 1),
        BlockArray(WANT_HEADERS, &c.header_value.offsets, 128 if views else 32),
        BlockArray(WANT_HEADERS, &c.header_value.validity, 1),
    ]
    cdef int status = OK
    if c.header_block.data == NULL or c.headers + count > c.header_room:
        status = block_grow(&c.page, &c.header_block, c.want, arrays, 4, c.headers, room)
        c.header_room = room if status == OK else c.header_room
    if status == OK:
        status = bytes_reserve(&c.page, &c.header_key, size)
    if status == OK:
        status = bytes_reserve(&c.page, &c.header_value, 0 if views and c.in_memory else size)
    return status


cdef inline int rows_grow(Columns* c, int64_t more) noexcept nogil:
    """Makes space for `more` rows or more in each requested column, but for the bytes of keys and values."""
    cdef int entry = 128 if c.want & WANT_VIEWS else 32
    cdef int64_t room = max(c.rows + more, c.row_room + c.row_room // 2)
    cdef BlockArray[9] arrays = [
        BlockArray(WANT_OFFSET, &c.offset, 64), BlockArray(WANT_TIMESTAMP, &c.timestamp, 64),
        BlockArray(WANT_TIMESTAMP, &c.timestamp_validity, 1), BlockArray(WANT_TYPE, &c.type, 8),
        BlockArray(WANT_KEY, &c.key.offsets, entry), BlockArray(WANT_KEY, &c.key.validity, 1),
        BlockArray(WANT_VALUE, &c.value.offsets, entry), BlockArray(WANT_VALUE, &c.value.validity, 1),
        BlockArray(WANT_HEADERS, &c.header_offsets, 32),
    ]
    cdef int status
    if c.rows > MOST_BYTES - more:
        return LIMIT_EXCEEDED
    status = block_grow(&c.page, &c.row_block, c.want, arrays, 9, c.rows, room)
    if status == OK and c.want & WANT_HEADERS:
        status = headers_reserve(c, 0, 0)
    c.row_room = room if status == OK else c.row_room
    return status


cdef inline int columns_reserve(Columns* c, int64_t more_rows, int64_t more_bytes) noexcept nogil:
    """Reserves space for `more_rows` rows in each requested column, and `more_bytes` for keys and for values each."""
    cdef int status = rows_grow(c, more_rows) if more_rows > c.row_room - c.rows else <int>OK
    if c.want & WANT_VIEWS and c.in_memory:
        more_bytes = 0
    if status == OK and c.want & WANT_KEY:
        status = bytes_reserve(&c.page, &c.key, more_bytes)
    if status == OK and c.want & WANT_VALUE:
        status = bytes_reserve(&c.page, &c.value, more_bytes)
    return status


cdef inline void columns_reserve_alike(Columns* c, int64_t batches, int64_t last_size) noexcept nogil:
    """Reserves space for so many batches like those so far, and for the last one, of `last_size` bytes, for which more
    is reserved than it needs: growing from batch to batch would copy a chunk about twice. An estimate refuses nothing:
    each batch reserves what it needs."""
    cdef size_t runs = <size_t>c.run_count * sizeof(Run)
    cdef bint viewed = c.want & WANT_VIEWS and c.in_memory
    columns_reserve(c, c.rows * batches, 0)
    buffer_reserve(&c.runs, runs, runs + <size_t>batches * sizeof(Run))
    if c.want & WANT_KEY:
        bytes_reserve(&c.page, &c.key, c.key.used * batches + (0 if viewed else last_size))
    if c.want & WANT_VALUE:
        bytes_reserve(&c.page, &c.value, c.value.used * batches + (0 if viewed else last_size))
    if c.headers > 0:
        headers_reserve(c, c.headers * batches, max(c.header_key.used, c.header_value.used) * batches)


cdef inline void bytes_truncate(Bytes* column, bint views, bint whole, int64_t entries, int64_t touched) noexcept nogil:
    """whole: the batch is removed with all its rows; else the viewed bytes of those that are removed stay, unused."""
    if column.offsets == NULL:
        return
    if not views:
        column.used = column.offsets[entries]
    elif whole:
        column.used = column.used_before
    set_bits(column.validity, entries, touched)


cdef inline void columns_truncate(Columns* c, int64_t rows, int64_t touched) noexcept nogil:
    """Removes all rows from `rows` on. A refused batch may have cleared bits of further rows, below `touched`."""
    cdef bint views = (c.want & WANT_VIEWS) != 0, whole = rows == c.first_row
    cdef int64_t headers
    touched = min(touched, c.row_room)
    if c.timestamp_validity != NULL:
        set_bits(c.timestamp_validity, rows, touched)
    bytes_truncate(&c.key, views, whole, rows, touched)
    bytes_truncate(&c.value, views, whole, rows, touched)
    if c.header_offsets != NULL:
        headers = c.header_offsets[rows]
        bytes_truncate(&c.header_key, False, whole, headers, c.headers)
        bytes_truncate(&c.header_value, views, whole, headers, c.headers)
        c.headers = headers
    c.rows = rows


cdef inline int run_append(Columns* c, int64_t batch, int64_t rows) noexcept nogil:
    cdef size_t used = <size_t>c.run_count * sizeof(Run)
    cdef Run* run
    cdef int status = part_reserve(&c.page, &c.runs, used, used + sizeof(Run))
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


cdef inline void columns_begin(Columns* c) noexcept nogil:
    """Begins new columns, with the same ones requested; the buffers have another owner."""
    cdef uint32_t want = c.want
    memset(c, 0, sizeof(Columns))
    c.want = want


cdef inline void columns_release(Columns* c) noexcept nogil:
    """Returns all buffers to the page pool, and begins new columns."""
    buffer_free(&c.row_block)
    buffer_free(&c.header_block)
    buffer_free(&c.key.data)
    buffer_free(&c.value.data)
    buffer_free(&c.header_key.data)
    buffer_free(&c.header_value.data)
    buffer_free(&c.runs)
    buffer_free(&c.page.buffer)
    columns_begin(c)
