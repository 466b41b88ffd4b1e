"""Columns to be encoded, read without a copy: Arrow arrays of many types, and Python rows as a table of pointers.

    Cells     byte strings                   kind        buffers
                binary, utf8                 OFFSETS_32  int32[n + 1], bytes
                large_binary, large_utf8     OFFSETS_64  int64[n + 1], bytes
                binary_view, utf8_view       VIEWS       16 bytes each: int32 length, then 12 bytes of data, or
                                                         4 of prefix, int32 buffer, int32 offset; then the buffers
                fixed_size_binary            FIXED       bytes[n * width]
                rows of Python               SPANS       address and length of each
    Numbers   integers, timestamps, booleans of any width; timestamps as milliseconds, rounded down
    Lists     list, large_list, list_view, map of (key, value): the headers of each row
    InputChunk      one array: the columns that a record has, each absent or one of the above

Arrow's C data interface. Validity bits and the array's own offset are applied here, so a reader of row i sees row i.
What an array states was compared with its schema before it came here: `_c/arrow_check.pxd`.
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
    bint plain                   # 32-bit offsets and no nulls: the short way
    const uint8_t* validity      # NULL: no nulls
    const void* index            # offsets, views or spans
    const uint8_t* data
    const void* const* buffers   # of views: the array's own list, from its third on
    int64_t first                # the array's offset
    int64_t width                # of FIXED: bytes a row; of SPANS: spans a row

cdef struct Numbers:
    int kind
    bint plain                   # int64 as they are, and no nulls: the short way
    const uint8_t* validity
    const void* values
    int64_t first
    int64_t times                # milliseconds of one unit, or
    int64_t per                  # units of a millisecond

cdef struct Lists:
    int kind
    bint plain                   # 32-bit offsets and no nulls: the short way
    const uint8_t* validity
    const void* starts
    const void* lengths          # of views
    int64_t first
    Cells key
    Cells value
    const uint8_t* entry_validity
    int64_t entry_first

cdef enum BatchField:                  # columns that are one value a batch, when they are given
    FIELD_BASE_OFFSET
    FIELD_LEADER_EPOCH
    FIELD_TIMESTAMP_TYPE
    FIELD_PRODUCER_ID
    FIELD_PRODUCER_EPOCH
    FIELD_SEQUENCE                # one a record; the batch keeps its first
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
    Cells codec                  # names, as the column `compression` has them
    Numbers fields[9]


cdef inline bint is_set(const uint8_t* bits, int64_t i) noexcept nogil:
    return bits == NULL or bits[i >> 3] >> (i & 7) & 1


cdef inline Span view_at(const Cells* c, int64_t i) noexcept nogil:
    cdef Span found
    cdef const uint8_t* view = <const uint8_t*>c.index + i * 16
    cdef int32_t[4] words
    memcpy(words, view, 16)
    found.length = words[0]
    found.data = view + 4 if words[0] <= 12 else <const uint8_t*>c.buffers[words[2]] + words[3]
    return found


cdef inline Span cell(const Cells* c, int64_t row) noexcept nogil:
    """The bytes of one row."""
    cdef Span found
    cdef const int32_t* ends
    if c.kind == SPANS:
        return (<const Span*>c.index)[row * c.width + c.first]
    if not c.plain:
        return any_cell(c, row)
    ends = <const int32_t*>c.index + row + c.first
    found.data, found.length = c.data + ends[0], ends[1] - ends[0]
    return found


cdef inline Span any_cell(const Cells* c, int64_t row) noexcept nogil:
    cdef Span found
    cdef int64_t i = row + c.first
    cdef const int32_t* short_
    cdef const int64_t* long_
    found.data, found.length = NULL, -1
    if c.kind == NO_CELLS or not is_set(c.validity, i):
        return found
    if c.kind == OFFSETS_32:
        short_ = <const int32_t*>c.index + i
        found.data, found.length = c.data + short_[0], short_[1] - short_[0]
    elif c.kind == OFFSETS_64:
        long_ = <const int64_t*>c.index + i
        found.data, found.length = c.data + long_[0], long_[1] - long_[0]
    elif c.kind == VIEWS:
        found = view_at(c, i)
    else:
        found.data, found.length = c.data + i * c.width, c.width
    return found


cdef inline int64_t floor_divide(int64_t a, int64_t b) noexcept nogil:
    cdef int64_t whole = a // b                          # C's division: towards zero
    return whole - 1 if a % b < 0 else whole


cdef inline bint number(const Numbers* c, int64_t row, int64_t* out) noexcept nogil:
    """One row's number; False where it is null, and `out` stays."""
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
    """Which entries are row's; none where it is null."""
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
    MOST_RESERVED = 1 << 30      # bytes; an input that promises more gets them as it goes
    LARGE_RECORD = 256           # bytes; from there on measuring first is cheaper than one copy more
    RECORD_FIELDS = 16           # bytes of a usual record beside key, value, headers, with its share of the batch


cdef inline int64_t cells_bytes(const Cells* c, int64_t start, int64_t rows) noexcept nogil:
    """Bytes of a column with offsets; others are not looked through for it. Of entries that no row has the offsets are
    not checked, so what comes out of them may be anything: not below 0, as it is a size."""
    cdef const int32_t* ends = <const int32_t*>c.index + c.first + start
    if c.kind != OFFSETS_32:
        return rows * 8
    return max(<int64_t>ends[rows] - ends[0], 0)


cdef inline int64_t input_bytes(const InputChunk* chunk) noexcept nogil:
    """An estimate of the encoded bytes of a chunk's rows."""
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
