"""Rows of columns as JSON Lines.

    line    for each column its `name` and its value; then `end`
    name    the line's text from the value before to the closing quote of the member's name: `,"offset`
    value   NUMBER, BOOL         decimal; true, false
            TIME                 ISO 8601 in quotes; the number where it has no date
            TEXT                 the bytes in quotes, escaped, if they are UTF-8
            HEX                  hexadecimal in quotes; _hex joins the name
            INT32, INT64         as a big-endian integer, if they have its size
            BASE64               never fits
            HEADERS              a list of {"key", "value"}
            READY                null where no text is ready
            that does not fit    base64 in quotes; _base64 joins the name
    ready   a text for a row, which is written instead of its value

Escapes have a text for each byte below 80. Only the bytes that `special_bytes` marks have another than themselves. The
C1 controls (c2 80-9f) and U+2028, U+2029 are written as \\uXXXX, too.

Before every cell, `reserve` bytes are free: for all names, numbers and times of a line. What else a cell needs, it
reserves in addition.
"""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memcpy

from kafkarec._c.columns cimport Buffer, SLACK, buffer_reserve, copy_wide
from kafkarec._c.endian cimport le64, load_i32, load_i64
from kafkarec._c.input_columns cimport Cells, Numbers, Span, cell, number
from kafkarec._c.number_text cimport has_date, put_base64, put_decimal, put_hex, put_time
from kafkarec._c.special_bytes cimport first_byte, special_bytes
from kafkarec._c.status cimport OK, OUT_OF_MEMORY
from kafkarec._c.utf8 cimport java_sequence

cdef extern from * nogil:
    """
    static const uint8_t kr_key_name[40] = "{\\"key";          /* copied 32 bytes at a time */
    static const uint8_t kr_value_name[40] = ",\\"value";
    """
    const uint8_t* key_name "kr_key_name"
    const uint8_t* value_name "kr_value_name"

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
    AROUND = 40                  # bytes of a cell but for its name and its value's bytes, numbers and times included
    NO_FIT = 255                 # the result for a value that cannot be written as `how` says

cdef struct Escape:
    uint8_t[7] text
    uint8_t length

cdef struct LineColumn:
    int how
    Span name                    # copied 32 bytes at a time: there are SLACK bytes after it
    Numbers numbers
    Cells cells                  # AS_HEADERS: the values of the entries
    Cells keys                   # AS_HEADERS
    const int32_t* entries       # AS_HEADERS: where each row's begin
    const Span* ready            # of the rows from first_ready on; or NULL
    int64_t first_ready

cdef struct Lines:
    const Escape* escapes        # 128
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


cdef inline void put_ascii(Lines* o, const char* text, size_t n) noexcept nogil:
    memcpy(o.at, text, n)
    o.at += n


cdef inline void put_name(Lines* o, const Span* name, const char* after, size_t n) noexcept nogil:
    copy_wide(o.at, name.data, name.length)
    o.at += name.length
    put_ascii(o, after, n)


cdef inline int unsafe_character(const uint8_t* p, int width) noexcept nogil:
    """The C1 control or separator at p, of a well-formed sequence; else 0."""
    if width == 2 and p[0] == 0xC2 and p[1] < 0xA0:
        return p[1]
    if width == 3 and p[0] == 0xE2 and p[1] == 0x80 and (p[2] == 0xA8 or p[2] == 0xA9):
        return 0x2000 | (p[2] & 0x3F)
    return 0


cdef inline int put_text(Lines* o, const uint8_t* p, int64_t n) noexcept nogil:
    """OK, NO_FIT or OUT_OF_MEMORY."""
    cdef const Escape* escapes = o.escapes
    cdef const uint8_t* end = p + n
    cdef const uint8_t* stop
    cdef uint8_t* out
    cdef uint64_t word, marks
    cdef int width, i, unsafe
    cdef uint8_t[2] code
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
            else:
                out[0], out[1] = b"\\", b"u"
                code[0], code[1] = <uint8_t>(unsafe >> 8), <uint8_t>(unsafe & 255)
                out = put_hex(out + 2, code, 2)
            p += width
        o.at = out
    return OK


cdef inline int put_bytes(Lines* o, int how, const Span* name, const Span* value) noexcept nogil:
    """The member of a byte string."""
    cdef size_t start = o.at - o.buffer.data
    cdef int status
    if value.length < 0:
        put_name(o, name, b'":null', 6)
        return OK
    if how == AS_TEXT:
        put_name(o, name, b'":"', 3)
        status = put_text(o, value.data, value.length)
        if status == OK:
            put_ascii(o, b'"', 1)
        if status != NO_FIT:
            return status
        o.at = o.buffer.data + start
    elif how == AS_INT32 and value.length == 4:
        put_name(o, name, b'":', 2)
        o.at = put_decimal(o.at, load_i32(value.data))
        return OK
    elif how == AS_INT64 and value.length == 8:
        put_name(o, name, b'":', 2)
        o.at = put_decimal(o.at, load_i64(value.data))
        return OK
    if room(o, 2 * value.length + 4) != OK:
        return OUT_OF_MEMORY
    if how == AS_HEX:
        put_name(o, name, b'_hex":"', 7)
        o.at = put_hex(o.at, value.data, value.length)
    else:
        put_name(o, name, b'_base64":"', 10)
        o.at = put_base64(o.at, value.data, value.length)
    put_ascii(o, b'"', 1)
    return OK


cdef inline int put_header(Lines* o, const Span* name, const Span* value) noexcept nogil:
    cdef int status = room(o, 1)
    return put_bytes(o, AS_TEXT, name, value) if status == OK else status


cdef inline int put_headers(Lines* o, const LineColumn* c, int64_t row) noexcept nogil:
    cdef int32_t first = c.entries[row], i
    cdef Span key_start, value_start, text
    cdef int status
    key_start.data, key_start.length = key_name, 5
    value_start.data, value_start.length = value_name, 7
    put_name(o, &c.name, b'":[', 3)
    for i in range(first, c.entries[row + 1]):
        if i > first:
            put_ascii(o, b",", 1)
        text = cell(&c.keys, i)
        status = put_header(o, &key_start, &text)
        if status == OK:
            text = cell(&c.cells, i)
            status = put_header(o, &value_start, &text)
        if status == OK:
            status = room(o, 2)
        if status != OK:
            return status
        put_ascii(o, b"}", 1)
    put_ascii(o, b"]", 1)
    return OK


cdef inline void put_number(Lines* o, const LineColumn* c, int64_t row) noexcept nogil:
    cdef int64_t n = 0
    if not number(&c.numbers, row, &n):
        put_name(o, &c.name, b'":null', 6)
    elif c.how == AS_TIME and has_date(n):
        put_name(o, &c.name, b'":"', 3)
        o.at = put_time(o.at, n)
        put_ascii(o, b'"', 1)
    elif c.how == AS_BOOL:
        put_name(o, &c.name, b'":true' if n else b'":false', 7)
        o.at -= 1 if n else 0
    else:
        put_name(o, &c.name, b'":', 2)
        o.at = put_decimal(o.at, n)


cdef inline int put_cell(Lines* o, const LineColumn* c, int64_t row) noexcept nogil:
    cdef Span text
    if c.ready != NULL:
        text = c.ready[row - c.first_ready]
        if text.length >= 0:
            if room(o, text.length) != OK:
                return OUT_OF_MEMORY
            put_name(o, &c.name, b'":', 2)
            put_ascii(o, <const char*>text.data, <size_t>text.length)
            return OK
    if is_numeric(c.how):
        put_number(o, c, row)
        return OK
    if c.how == AS_HEADERS:
        return put_headers(o, c, row)
    text = cell(&c.cells, row)   # of AS_READY, which has no cells: null
    return put_bytes(o, c.how, &c.name, &text)


cdef inline int put_lines(Lines* o, const LineColumn* columns, int count, const Span* end, int64_t start,
                          int64_t stop) noexcept nogil:
    """The rows [start, stop)."""
    cdef int64_t row
    cdef int at, status
    o.reserve = <size_t>end.length + 2 * SLACK
    for at in range(count):
        o.reserve += <size_t>columns[at].name.length + AROUND
    for row in range(start, stop):
        for at in range(count):
            status = room(o, 0)
            if status == OK:
                status = put_cell(o, columns + at, row)
            if status != OK:
                return status
        if room(o, 0) != OK:
            return OUT_OF_MEMORY
        copy_wide(o.at, end.data, end.length)
        o.at += end.length
    return OK
