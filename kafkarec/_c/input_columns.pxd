"""Columns to encode, read without copying: Arrow arrays of many types, and Python rows as a table of pointers.

    Cells     byte strings                   kind        buffers
                binary, utf8                 OFFSETS_32  int32[n + 1], bytes
                large_binary, large_utf8     OFFSETS_64  int64[n + 1], bytes
                binary_view, utf8_view       VIEWS       16 bytes each: int32 length, then 12 bytes of data, or
                                                         4 of prefix, int32 buffer, int32 offset; then the buffers
                fixed_size_binary            FIXED       bytes[n * width]
                Python rows                  SPANS       address and length of each
    Numbers   integers, timestamps, booleans of any width; timestamps as milliseconds, rounded down
    Lists     list, large_list, list_view, map of (key, value): the headers of each row
    InputChunk   one array: the columns of a record, each absent or one of the above

Follows Arrow's C data interface. Validity bits and the offset of an array are applied here: callers pass row numbers.
`_c/arrow_check.pxd` has checked the arrays before.
"""
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t
from libc.string cimport memcpy

cdef enum CellKind:
    NO_CELLS = 0                 # every row is null
    OFFSETS_32
    OFFSETS_64
    VIEWS
    FIXED
    SPANS

cdef enum NumberKind:
    NO_NUMBERS = 0               # every row is null
    INT_8
    INT_16
    INT_32
    INT_64
    UINT_8
    UINT_16
    UINT_32
    BOOL

cdef enum ListKind:
    NO_LISTS = 0                 # every row is empty
    LISTS_32
    LISTS_64
    LIST_VIEWS_32
    LIST_VIEWS_64

cdef struct Span:                # a byte string; length -1: null
    const uint8_t* data
    int64_t length

cdef struct Cells:
    int kind
    bint plain                   # 32-bit offsets and no nulls: `cell` reads them directly
    const uint8_t* validity      # NULL: no nulls
    const void* index            # offsets, views or spans
    const uint8_t* data
    const void* const* buffers   # of views: the array's data buffers, its third and following
    int64_t first                # the array's offset
    int64_t width                # FIXED: bytes per row; SPANS: spans per row

cdef struct Numbers:
    int kind
    bint plain                   # int64 without a unit, and no nulls: `number` reads them directly
    const uint8_t* validity
    const void* values
    int64_t first
    int64_t times                # milliseconds per unit, or
    int64_t per                  # units per millisecond

cdef struct Lists:
    int kind
    bint plain                   # 32-bit offsets and no nulls: `list_at` reads them directly
    const uint8_t* validity
    const void* starts
    const void* lengths          # of list views
    int64_t first
    Cells key
    Cells value
    const uint8_t* entry_validity
    int64_t entry_first

cdef enum BatchField:            # optional columns with fields of the batch
    FIELD_BASE_OFFSET
    FIELD_LEADER_EPOCH
    FIELD_TIMESTAMP_TYPE
    FIELD_PRODUCER_ID
    FIELD_PRODUCER_EPOCH
    FIELD_SEQUENCE               # of each record; that of the first one is the base sequence
    FIELD_TRANSACTIONAL
    FIELD_CONTROL
    FIELD_MAGIC
    FIELDS

cdef struct InputChunk:
    int64_t rows
    Numbers offset
    Numbers timestamp
    Cells key
    Cells value
    Lists headers
    Cells codec                  # codec names: the column `compression`
    Numbers fields[9]


cdef inline bint is_set(const uint8_t* bits, int64_t i) noexcept nogil:
    return bits == NULL or bits[i >> 3] >> (i & 7) & 1


cdef inline Span view_at(const Cells* c, int64_t i) noexcept nogil:
    cdef Span span
    cdef const uint8_t* view = <const uint8_t*>c.index + i * 16
    cdef int32_t[4] words
    memcpy(words, view, 16)
    span.length = words[0]
    span.data = view + 4 if words[0] <= 12 else <const uint8_t*>c.buffers[words[2]] + words[3]
    return span


cdef inline Span cell(const Cells* c, int64_t row) noexcept nogil:
    """The bytes of a row; length -1 for null."""
    cdef Span span
    cdef const int32_t* ends
    if c.kind == SPANS:
        return (<const Span*>c.index)[row * c.width + c.first]
    if not c.plain:
        return any_cell(c, row)
    ends = <const int32_t*>c.index + row + c.first
    span.data, span.length = c.data + ends[0], ends[1] - ends[0]
    return span


cdef inline const Span* spans_of(const Cells* c) noexcept nogil:
    """The spans of a column that has one for each row; NULL for any other column."""
    return <const Span*>c.index + c.first if c.kind == SPANS and c.width == 1 else NULL


cdef inline Span any_cell(const Cells* c, int64_t row) noexcept nogil:
    cdef Span span
    cdef int64_t i = row + c.first
    cdef const int32_t* short_
    cdef const int64_t* long_
    span.data, span.length = NULL, -1
    if c.kind == NO_CELLS or not is_set(c.validity, i):
        return span
    if c.kind == OFFSETS_32:
        short_ = <const int32_t*>c.index + i
        span.data, span.length = c.data + short_[0], short_[1] - short_[0]
    elif c.kind == OFFSETS_64:
        long_ = <const int64_t*>c.index + i
        span.data, span.length = c.data + long_[0], long_[1] - long_[0]
    elif c.kind == VIEWS:
        span = view_at(c, i)
    else:
        span.data, span.length = c.data + i * c.width, c.width
    return span


cdef inline int64_t floor_divide(int64_t a, int64_t b) noexcept nogil:
    cdef int64_t whole = a // b                          # C's division: towards zero
    return whole - 1 if a % b < 0 else whole


cdef inline bint number(const Numbers* c, int64_t row, int64_t* out) noexcept nogil:
    """Sets `out` to the number of a row. False where it is null; `out` is then unchanged."""
    if not c.plain:
        return any_number(c, row, out)
    out[0] = (<const int64_t*>c.values)[row + c.first]
    return True


cdef inline bint any_number(const Numbers* c, int64_t row, int64_t* out) noexcept nogil:
    cdef int64_t i = row + c.first, raw
    cdef int32_t four
    if c.kind == NO_NUMBERS or not is_set(c.validity, i):
        return False
    if c.kind == INT_64:
        raw = (<const int64_t*>c.values)[i]
    elif c.kind == INT_32:
        four = (<const int32_t*>c.values)[i]
        raw = four
    elif c.kind == INT_16:
        raw = (<const int16_t*>c.values)[i]
    elif c.kind == INT_8:
        raw = (<const int8_t*>c.values)[i]
    elif c.kind == BOOL:
        raw = (<const uint8_t*>c.values)[i >> 3] >> (i & 7) & 1
    elif c.kind == UINT_8:
        raw = (<const uint8_t*>c.values)[i]
    elif c.kind == UINT_16:
        raw = (<const uint16_t*>c.values)[i]
    else:
        raw = (<const uint32_t*>c.values)[i]
    if c.per > 1:
        raw = floor_divide(raw, c.per)
    elif c.times > 1:
        raw *= c.times
    out[0] = raw
    return True


cdef inline void list_at(const Lists* c, int64_t row, int64_t* start, int64_t* stop) noexcept nogil:
    """Sets [start, stop) to the entries of a row; no entries where it is null."""
    if not c.plain:
        any_list_at(c, row, start, stop)
        return
    start[0] = (<const int32_t*>c.starts)[row + c.first]
    stop[0] = (<const int32_t*>c.starts)[row + c.first + 1]


cdef inline void any_list_at(const Lists* c, int64_t row, int64_t* start, int64_t* stop) noexcept nogil:
    cdef int64_t i = row + c.first
    start[0] = stop[0] = 0
    if c.kind == NO_LISTS or not is_set(c.validity, i):
        return
    if c.kind == LISTS_32:
        start[0], stop[0] = (<const int32_t*>c.starts)[i], (<const int32_t*>c.starts)[i + 1]
    elif c.kind == LISTS_64:
        start[0], stop[0] = (<const int64_t*>c.starts)[i], (<const int64_t*>c.starts)[i + 1]
    elif c.kind == LIST_VIEWS_32:
        start[0] = (<const int32_t*>c.starts)[i]
        stop[0] = start[0] + (<const int32_t*>c.lengths)[i]
    else:
        start[0] = (<const int64_t*>c.starts)[i]
        stop[0] = start[0] + (<const int64_t*>c.lengths)[i]


cdef inline Span header_key(const Lists* c, int64_t entry) noexcept nogil:
    cdef Span none
    if not is_set(c.entry_validity, entry + c.entry_first):
        none.data, none.length = NULL, -1
        return none
    return cell(&c.key, entry + c.entry_first)


cdef inline Span header_value(const Lists* c, int64_t entry) noexcept nogil:
    return cell(&c.value, entry + c.entry_first)


cdef enum:
    MOST_RESERVED = 1 << 30      # bytes that are reserved at first, however large the estimate is
    SMALL_INPUT = 32 << 10       # bytes; to release the GIL takes longer than to encode them
    LARGE_RECORD = 256           # bytes; for larger records measuring first is cheaper than copying the output
    RECORD_FIELDS = 16           # usual bytes of a record without key, value and headers, with its share of a header


cdef inline int64_t cells_bytes(const Cells* c, int64_t start, int64_t rows) noexcept nogil:
    """Bytes of rows of a column with 32-bit offsets; for other columns an estimate of 8 per row. The offsets of entries
    that belong to no row are not checked, so the result may be wrong, but is not negative."""
    cdef const int32_t* ends = <const int32_t*>c.index + c.first + start
    if c.kind != OFFSETS_32:
        return rows * 8
    return max(<int64_t>ends[rows] - ends[0], 0)


cdef inline int64_t input_bytes(const InputChunk* chunk) noexcept nogil:
    """Estimates the encoded size of a chunk's rows, in bytes."""
    cdef const Lists* headers = &chunk.headers
    cdef int64_t total = chunk.rows * RECORD_FIELDS
    cdef int64_t first, last, none
    if chunk.rows == 0:
        return 0
    list_at(headers, 0, &first, &none)
    list_at(headers, chunk.rows - 1, &none, &last)
    if last > first:
        total += cells_bytes(&headers.key, headers.entry_first + first, last - first)
        total += cells_bytes(&headers.value, headers.entry_first + first, last - first)
        total += 2 * (last - first)
    return total + cells_bytes(&chunk.key, 0, chunk.rows) + cells_bytes(&chunk.value, 0, chunk.rows)
