"""Rows of columns as lines of text: JSON Lines and CSV, which differ in their texts and escapes only.

    line    for each column a cell; then `end`
    cell    of null          null
            that fits        before, the value, after
            that does not    other, the value's bytes in base64, other_after
    value   NUMBER, BOOL         decimal; true, false
            TIME                 ISO 8601; other, the number and other_after where it has no date
            TEXT                 the bytes, each escaped, if they are UTF-8
            HEX                  hexadecimal
            INT32, INT64         as a big-endian integer, if they have its size
            BASE64               never fits
            HEADERS              the cells of the next two columns for each of the row's entries, with commas between
            READY                null where no text is ready
    ready   a text for a row, which is written instead of its cell

Escapes have a text for each byte below 80, or that it does not fit. Only the bytes that `special_bytes` marks may be
escaped. The C1 controls (c2 80-9f) and U+2028, U+2029 are written as \\uXXXX, or do not fit where DEL does not.

Before every cell, `reserve` bytes are free: for all texts, numbers and times of a line. What else a cell needs, it
reserves in addition.
"""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memcpy

from kafkarec._c.columns cimport Buffer, SLACK, buffer_reserve, copy_wide
from kafkarec._c.endian cimport le64, load_i32, load_i64
from kafkarec._c.input_columns cimport Cells, Numbers, Span, cell, number
from kafkarec._c.number_text cimport (
    DECIMAL_ROOM, TIME_LENGTH, has_date, hex_digits, put_base64, put_decimal, put_hex, put_time,
)
from kafkarec._c.special_bytes cimport first_byte, special_bytes
from kafkarec._c.status cimport OK, OUT_OF_MEMORY
from kafkarec._c.utf8 cimport java_sequence

cdef enum How:
    AS_NUMBER
    AS_BOOL
    AS_TIME
    AS_TEXT
    AS_BASE64
    AS_HEX
    AS_INT32
    AS_INT64
    AS_HEADERS
    AS_READY

cdef enum:
    STEP = 4096                  # bytes of text for which there is space at a time
    MOST_ESCAPED = 6             # bytes of an escaped character
    NO_FIT = 255                 # `length` of a byte that does not fit; and the result for a value that does not

cdef struct Escape:
    uint8_t[7] text
    uint8_t length

cdef struct CellTexts:           # copied 32 bytes at a time: there are SLACK bytes after them
    Span null
    Span before
    Span after
    Span other
    Span other_after

cdef struct LineColumn:
    int how
    const Escape* escapes        # 128
    CellTexts texts
    Numbers numbers
    Cells cells
    const int32_t* entries       # AS_HEADERS: where each row's begin
    const Span* ready            # of the rows from first_ready on; or NULL
    int64_t first_ready

cdef struct Lines:
    Buffer buffer
    uint8_t* at
    size_t reserve


cdef inline bint is_numeric(int how) noexcept nogil:
    return how in (AS_NUMBER, AS_BOOL, AS_TIME)


cdef inline int room(Lines* o, int64_t more) noexcept nogil:
    """Makes space for `more` bytes and the reserve."""
    cdef size_t used = o.at - o.buffer.data
    cdef size_t needed = <size_t>more + o.reserve
    cdef int status
    if needed <= o.buffer.capacity - used:
        return OK
    status = buffer_reserve(&o.buffer, used, used + needed)
    o.at = o.buffer.data + used
    return status


cdef inline void put(Lines* o, const Span* text) noexcept nogil:
    copy_wide(o.at, text.data, text.length)
    o.at += text.length


cdef inline uint8_t* put_unsafe(uint8_t* out, int character) noexcept nogil:
    """\\uXXXX"""
    cdef int shift = 16
    out[0], out[1] = b"\\", b"u"
    out += 2
    while shift > 0:
        shift -= 4
        out[0] = hex_digits[character >> shift & 15]
        out += 1
    return out


cdef inline int unsafe_character(const uint8_t* p, int width) noexcept nogil:
    """The C1 control or separator at p, of a well-formed sequence; else 0."""
    if width == 2 and p[0] == 0xC2 and p[1] < 0xA0:
        return p[1]
    if width == 3 and p[0] == 0xE2 and p[1] == 0x80 and (p[2] == 0xA8 or p[2] == 0xA9):
        return 0x2000 | (p[2] & 0x3F)
    return 0


cdef inline int put_text(Lines* o, const Escape* escapes, const uint8_t* p, int64_t n) noexcept nogil:
    """OK, NO_FIT or OUT_OF_MEMORY."""
    cdef const uint8_t* end = p + n
    cdef const uint8_t* stop
    cdef uint8_t* out
    cdef uint64_t word, marks
    cdef int width, i, unsafe
    cdef bint good = False
    while p < end:
        stop = end if end - p <= STEP else p + STEP
        if room(o, (stop - p) * MOST_ESCAPED) != OK:
            return OUT_OF_MEMORY
        out = o.at
        while p < stop:
            if stop - p >= 8:
                memcpy(&word, p, 8)
                memcpy(out, &word, 8)
                marks = special_bytes(le64(word))
                if marks == 0:
                    p += 8
                    out += 8
                    continue
                i = first_byte(marks)
                p += i
                out += i
            if p[0] < 0x80:
                if escapes[p[0]].length == NO_FIT:
                    return NO_FIT
                memcpy(out, &escapes[p[0]], 8)
                out += escapes[p[0]].length
                p += 1
                continue
            width = java_sequence(p, end - p, &good)
            if not good:
                return NO_FIT
            unsafe = unsafe_character(p, width)
            if not unsafe:
                for i in range(width):
                    out[i] = p[i]
                out += width
            elif escapes[0x7F].length == NO_FIT:
                return NO_FIT
            else:
                out = put_unsafe(out, unsafe)
            p += width
        o.at = out
    return OK


cdef inline int put_value(Lines* o, const LineColumn* c, const Span* value) noexcept nogil:
    if c.how == AS_TEXT:
        return put_text(o, c.escapes, value.data, value.length)
    if c.how == AS_HEX:
        if room(o, 2 * value.length) != OK:
            return OUT_OF_MEMORY
        o.at = put_hex(o.at, value.data, value.length)
        return OK
    if c.how == AS_INT32 and value.length == 4:
        o.at = put_decimal(o.at, load_i32(value.data))
        return OK
    if c.how == AS_INT64 and value.length == 8:
        o.at = put_decimal(o.at, load_i64(value.data))
        return OK
    return NO_FIT


cdef inline int put_bytes(Lines* o, const LineColumn* c, int64_t row) noexcept nogil:
    cdef Span value = cell(&c.cells, row)
    cdef size_t start = o.at - o.buffer.data
    cdef int status
    if value.length < 0:
        put(o, &c.texts.null)
        return OK
    put(o, &c.texts.before)
    status = put_value(o, c, &value)
    if status == OK:
        put(o, &c.texts.after)
        return OK
    if status != NO_FIT:
        return status
    o.at = o.buffer.data + start
    if room(o, value.length // 3 * 4 + 4) != OK:
        return OUT_OF_MEMORY
    put(o, &c.texts.other)
    o.at = put_base64(o.at, value.data, value.length)
    put(o, &c.texts.other_after)
    return OK


cdef inline int put_headers(Lines* o, const LineColumn* c, int64_t row) noexcept nogil:
    cdef int32_t first = c.entries[row], i
    cdef int status
    put(o, &c.texts.before)
    for i in range(first, c.entries[row + 1]):
        if room(o, 1) != OK:
            return OUT_OF_MEMORY
        if i > first:
            o.at[0] = b","
            o.at += 1
        status = put_bytes(o, c + 1, i)
        if status == OK:
            status = room(o, 0)
        if status == OK:
            status = put_bytes(o, c + 2, i)
        if status != OK:
            return status
    if room(o, 0) != OK:
        return OUT_OF_MEMORY
    put(o, &c.texts.after)
    return OK


cdef inline void put_number(Lines* o, const LineColumn* c, int64_t row) noexcept nogil:
    cdef int64_t n = 0
    if not number(&c.numbers, row, &n):
        put(o, &c.texts.null)
    elif c.how == AS_TIME and not has_date(n):
        put(o, &c.texts.other)
        o.at = put_decimal(o.at, n)
        put(o, &c.texts.other_after)
    else:
        put(o, &c.texts.before)
        if c.how == AS_NUMBER:
            o.at = put_decimal(o.at, n)
        elif c.how == AS_TIME:
            o.at = put_time(o.at, n)
        else:
            memcpy(o.at, b"true" if n else b"false", 5)
            o.at += 4 if n else 5
        put(o, &c.texts.after)


cdef inline int put_cell(Lines* o, const LineColumn* c, int64_t row) noexcept nogil:
    cdef const Span* text
    if c.ready != NULL:
        text = c.ready + (row - c.first_ready)
        if text.length >= 0:
            if room(o, text.length) != OK:
                return OUT_OF_MEMORY
            memcpy(o.at, text.data, <size_t>text.length)
            o.at += text.length
            return OK
    if is_numeric(c.how):
        put_number(o, c, row)
        return OK
    if c.how == AS_HEADERS:
        return put_headers(o, c, row)
    if c.how == AS_READY:
        put(o, &c.texts.null)
        return OK
    return put_bytes(o, c, row)


cdef inline size_t most_texts(const LineColumn* c) noexcept nogil:
    """Bytes that a cell needs, but for its value's bytes."""
    cdef int64_t most = max(c.texts.before.length + c.texts.after.length,
                            c.texts.other.length + c.texts.other_after.length)
    return <size_t>max(most, c.texts.null.length) + max(DECIMAL_ROOM, TIME_LENGTH)


cdef inline int put_lines(Lines* o, const LineColumn* columns, int count, const Span* end, int64_t start,
                          int64_t stop, const int64_t* rows) noexcept nogil:
    """The rows [start, stop), or if `rows` is not NULL rows[start:stop]."""
    cdef int64_t i, row
    cdef int at, status
    cdef const LineColumn* c
    o.reserve = <size_t>end.length + SLACK
    for at in range(count):
        o.reserve += most_texts(columns + at)
    for i in range(start, stop):
        row = i if rows == NULL else rows[i]
        at = 0
        while at < count:
            c = columns + at
            if room(o, 0) != OK:
                return OUT_OF_MEMORY
            status = put_cell(o, c, row)
            if status != OK:
                return status
            at += 3 if c.how == AS_HEADERS else 1
        if room(o, 0) != OK:
            return OUT_OF_MEMORY
        put(o, end)
    return OK
