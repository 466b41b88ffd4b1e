"""Columns to encode, read without copying: Arrow arrays of many types, and Python rows as a table of pointers.

    Cells     byte strings                   kind        buffers
                binary, utf8                 OFFSETS_32  int32[n + 1], bytes
                large_binary, large_utf8     OFFSETS_64  int64[n + 1], bytes
                binary_view, utf8_view       VIEWS       16 bytes each: int32 length, then 12 bytes of data, or
                                                         4 of prefix, int32 buffer, int32 offset; then the buffers
                fixed_size_binary            FIXED       bytes[n * width]
                Python rows                  SPANS       address and length of each
    Numbers   integers, timestamps, booleans of any width; timestamps as milliseconds, rounded down
    Lists     list, large_list, map of (key, value): the headers of each row
    InputChunk   one array: the columns of a record, each absent or one of the above

Follows Arrow's C data interface. Validity bits and the offset of an array are applied here: callers pass row numbers.
The arrays have been checked before: offsets, views and validity bits of a foreign Arrow array.

    offsets     int32 or int64[rows + 1]: the first is not negative, none is smaller than the previous one
    views       16 bytes per row: length >= 0; above 12 bytes: an existing buffer, and a range within its size
    validity    one bit per row, 0 for null: as many zeros as null_count states

Arrow's C data interface does not state the size of a buffer, so sizes cannot be checked here, except those of the data
buffers of views, which the array states. Each function returns True when all rows are valid; otherwise it fills the
Misfit with the first row that is not.
"""
from libc.stdint cimport INT32_MAX, int32_t, int64_t, uint8_t
from libc.string cimport memcpy

from kafkarec._c.arrow cimport ArrowArray
from kafkarec._c.columns cimport is_set
from kafkarec._c.numbers cimport native_int

# ---- rows

cdef enum CellKind:
    NO_CELLS = 0                 # every row is null
    OFFSETS_32
    OFFSETS_64
    VIEWS
    FIXED
    SPANS

cdef enum:
    NO_NUMBERS = 0               # widths of columns of which every row is null, and of bools: a bit
    BOOL = -16

cdef enum ListKind:
    NO_LISTS = 0                 # every row is empty
    LISTS_32
    LISTS_64

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
    int width                    # bytes of a number; negative: unsigned
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
    ArrowArray array             # what they are in; without `release` for Python rows


cdef inline int64_t offset_at(const void* offsets, bint wide, int64_t i) noexcept nogil:
    """An offset, of 64 bits if they are wide, else of 32."""
    return (<const int64_t*>offsets)[i] if wide else (<const int32_t*>offsets)[i]


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
        return cell_by_kind(c, row)
    ends = <const int32_t*>c.index + row + c.first
    span.data, span.length = c.data + ends[0], ends[1] - ends[0]
    return span


cdef inline Span cell_by_kind(const Cells* c, int64_t row) noexcept nogil:
    cdef Span span
    cdef int64_t i = row + c.first, start
    cdef bint wide = c.kind == OFFSETS_64
    span.data, span.length = NULL, -1
    if c.kind == NO_CELLS or not is_set(c.validity, i):
        return span
    if c.kind == OFFSETS_32 or wide:
        start = offset_at(c.index, wide, i)
        span.data, span.length = c.data + start, offset_at(c.index, wide, i + 1) - start
    elif c.kind == VIEWS:
        span = view_at(c, i)
    else:
        span.data, span.length = c.data + i * c.width, c.width
    return span


cdef inline bint number(const Numbers* c, int64_t row, int64_t* out) noexcept nogil:
    """Sets `out` to the number of a row. False where it is null; `out` is then unchanged."""
    if not c.plain:
        return number_by_width(c, row, out)
    out[0] = (<const int64_t*>c.values)[row + c.first]
    return True


cdef inline bint number_by_width(const Numbers* c, int64_t row, int64_t* out) noexcept nogil:
    cdef int64_t i = row + c.first, raw
    cdef const uint8_t* values = <const uint8_t*>c.values
    if c.width == NO_NUMBERS or not is_set(c.validity, i):
        return False
    if c.width > 0:
        raw = native_int(values + i * c.width, c.width)
    elif c.width == BOOL:
        raw = values[i >> 3] >> (i & 7) & 1
    else:
        raw = native_int(values - i * c.width, -c.width) & ((<int64_t>1 << -8 * c.width) - 1)
    if c.per > 1:
        raw = raw // c.per - (raw % c.per < 0)           # rounds down, C towards 0
    elif c.times > 1:
        raw *= c.times
    out[0] = raw
    return True


cdef inline void list_at(const Lists* c, int64_t row, int64_t* start, int64_t* stop) noexcept nogil:
    """Sets [start, stop) to the entries of a row; no entries where it is null."""
    if not c.plain:
        list_at_by_kind(c, row, start, stop)
        return
    start[0] = (<const int32_t*>c.starts)[row + c.first]
    stop[0] = (<const int32_t*>c.starts)[row + c.first + 1]


cdef inline void list_at_by_kind(const Lists* c, int64_t row, int64_t* start, int64_t* stop) noexcept nogil:
    cdef int64_t i = row + c.first
    cdef bint wide = c.kind == LISTS_64
    start[0] = stop[0] = 0
    if c.kind == NO_LISTS or not is_set(c.validity, i):
        return
    start[0], stop[0] = offset_at(c.starts, wide, i), offset_at(c.starts, wide, i + 1)


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
    """Bytes of rows of a column with 32-bit offsets or spans; for other columns an estimate of 8 per row. The offsets
    of entries that belong to no row are not checked, so the result may be wrong, but is not negative."""
    cdef const int32_t* ends = <const int32_t*>c.index + c.first + start
    cdef int64_t i, total = 0
    if c.kind == OFFSETS_32:
        return max(<int64_t>ends[rows] - ends[0], 0)
    if c.kind != SPANS:
        return rows * 8
    for i in range(start, start + rows):
        total += max(cell(c, i).length, 0)
    return total


cdef inline int64_t estimated_encoded_size(const InputChunk* chunk) noexcept nogil:
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


# ---- checks of foreign arrays

cdef struct Misfit:
    int64_t row
    int64_t expected             # the smallest or the largest valid value
    int64_t found

cdef struct EntryRange:          # entries [start, stop)
    int64_t start
    int64_t stop


cdef inline bint set_misfit(Misfit* m, int64_t row, int64_t expected, int64_t found) noexcept nogil:
    m.row, m.expected, m.found = row, expected, found
    return False


cdef inline bint offset_buffer_rises(const void* offsets, bint wide, int64_t first, int64_t rows,
                                     Misfit* m) noexcept nogil:
    """Checks the offsets of rows [first, first + rows), of 64 bits if they are wide: at first all without a branch."""
    cdef int64_t start = offset_at(offsets, wide, first), i
    cdef int falls = start < 0
    for i in range(first, first + rows):
        falls |= offset_at(offsets, wide, i + 1) < offset_at(offsets, wide, i)
    if not falls:
        return True
    if start < 0:
        return set_misfit(m, 0, 0, start)
    for i in range(first, first + rows):
        if offset_at(offsets, wide, i + 1) < offset_at(offsets, wide, i):
            return set_misfit(m, i - first, offset_at(offsets, wide, i), offset_at(offsets, wide, i + 1))
    return True


cdef inline bint lengths_fit(const int64_t* offsets, int64_t rows, Misfit* m) noexcept nogil:
    """No row is longer than a field of a record can be (2^31-1 bytes). For 64-bit offsets only."""
    cdef int64_t i
    for i in range(rows):
        if offsets[i + 1] - offsets[i] > INT32_MAX:
            return set_misfit(m, i, INT32_MAX, offsets[i + 1] - offsets[i])
    return True


cdef enum ViewProblem:
    VIEW_FITS = 0
    VIEW_LENGTH                  # the length is negative
    VIEW_BUFFER                  # there is no such buffer
    VIEW_RANGE                   # the range ends beyond its buffer


cdef inline int views_fit(const uint8_t* views, const uint8_t* validity, int64_t first, int64_t rows,
                          const void* const* buffers, const int64_t* sizes, int64_t count, Misfit* m) noexcept nogil:
    """Checks the views of rows [first, first + rows); those of null rows are undefined and not checked."""
    cdef int64_t i, size
    cdef int32_t[4] words
    for i in range(rows):
        memcpy(words, views + (first + i) * 16, 16)
        if 0 <= words[0] <= 12 or not is_set(validity, first + i):
            continue
        if words[0] < 0:
            set_misfit(m, i, 0, words[0])
            return VIEW_LENGTH
        if words[2] < 0 or words[2] >= count or buffers[words[2]] == NULL:
            set_misfit(m, i, count, words[2])
            return VIEW_BUFFER
        size = sizes[words[2]]
        if words[3] < 0 or words[0] > size - words[3]:
            set_misfit(m, i, size, <int64_t>words[0] + words[3])
            return VIEW_RANGE
    return VIEW_FITS
