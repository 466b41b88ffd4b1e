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

Numbers, times and bytes as ASCII text. Each function writes at `out` and returns the end of the text.

    decimal   -9223372036854775808           up to 20 bytes; DECIMAL_ROOM may be written
    time      2023-11-14T22:13:20.123Z       UTC, proleptic Gregorian, the years 1 to 9999
    hex       00ff
    base64    AP8=                           RFC 4648, with padding

The bytes of a text that JSON may have to escape, found eight at a time.

    00-1f   control characters
    22 5c   quote, backslash
    7f      DEL
    80-ff   the bytes of sequences of UTF-8

`special_bytes` sets the highest bit of each such byte of a little-endian word, and of no byte before the first of them:
a borrow or a carry goes upwards, and only out of a marked byte.
"""
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t, uint8_t
from libc.string cimport memcpy

from kafkarec._c.columns cimport SLACK, Buffer, buffer_reserve, copy_wide
from kafkarec._c.input_columns cimport Cells, Numbers, Span, cell, number
from kafkarec._c.numbers cimport load_i32, load_i64
from kafkarec._c.status cimport OK, OUT_OF_MEMORY
from kafkarec._c.utf8 cimport java_sequence

# ---- numbers, times and bytes as text

cdef extern from * nogil:
    """
    #include <stdint.h>

    #define KR_TEN(a) a "0" a "1" a "2" a "3" a "4" a "5" a "6" a "7" a "8" a "9"
    static const char kr_pairs[] = KR_TEN("0") KR_TEN("1") KR_TEN("2") KR_TEN("3") KR_TEN("4") KR_TEN("5") KR_TEN("6")
        KR_TEN("7") KR_TEN("8") KR_TEN("9");
    """
    const char* pairs "kr_pairs"

cdef enum:
    DECIMAL_ROOM = 24
    DAY = 86_400_000             # ms
    FIRST_TIME = -62_135_596_800_000     # 0001-01-01, in ms
    LAST_TIME = 253_402_300_799_999      # 9999-12-31


cdef inline uint8_t* put_decimal(uint8_t* out, int64_t n) noexcept nogil:
    cdef uint8_t[2 * DECIMAL_ROOM] text
    cdef int at = DECIMAL_ROOM
    cdef uint64_t rest = <uint64_t>n if n >= 0 else 0 - <uint64_t>n
    while rest >= 100:
        at -= 2
        memcpy(text + at, pairs + 2 * (rest % 100), 2)
        rest //= 100
    if rest >= 10:
        at -= 2
        memcpy(text + at, pairs + 2 * rest, 2)
    else:
        at -= 1
        text[at] = <uint8_t>(48 + rest)
    if n < 0:
        at -= 1
        text[at] = b"-"
    memcpy(out, text + at, DECIMAL_ROOM)
    return out + (DECIMAL_ROOM - at)


cdef inline uint8_t* put_two_digits(uint8_t* out, int64_t n, uint8_t after) noexcept nogil:
    """Two digits (n < 100) and the character after them."""
    memcpy(out, pairs + 2 * n, 2)
    out[2] = after
    return out + 3


cdef inline uint8_t* put_time(uint8_t* out, int64_t ms) noexcept nogil:
    """From FIRST_TIME to LAST_TIME. Years begin in March here, so that a leap day is a year's last."""
    cdef int64_t since = ms - FIRST_TIME
    cdef int64_t day = since // DAY + 306                # since 0000-03-01
    cdef int64_t rest = since % DAY
    cdef int64_t in_cycle = day % 146_097                # 400 years
    cdef int64_t year = (in_cycle - in_cycle // 1460 + in_cycle // 36_524 - in_cycle // 146_096) // 365
    cdef int64_t in_year = in_cycle - (365 * year + year // 4 - year // 100)
    cdef int64_t month = (5 * in_year + 2) // 153        # 0: March
    cdef int64_t in_month = in_year - (153 * month + 2) // 5
    year += day // 146_097 * 400 + (month >= 10)
    memcpy(out, pairs + 2 * (year // 100), 2)
    out = put_two_digits(out + 2, year % 100, b"-")
    out = put_two_digits(out, month + 3 if month < 10 else month - 9, b"-")
    out = put_two_digits(out, in_month + 1, b"T")
    out = put_two_digits(out, rest // 3_600_000, b":")
    out = put_two_digits(out, rest // 60_000 % 60, b":")
    out = put_two_digits(out, rest // 1000 % 60, b".")
    out[0] = <uint8_t>(48 + rest % 1000 // 100)
    return put_two_digits(out + 1, rest % 100, b"Z")


cdef inline uint8_t* put_hex(uint8_t* out, const uint8_t* p, int64_t n) noexcept nogil:
    cdef const char* digits = b"0123456789abcdef"
    cdef int64_t i
    for i in range(n):
        out[2 * i], out[2 * i + 1] = digits[p[i] >> 4], digits[p[i] & 15]
    return out + 2 * n


cdef inline uint8_t* put_base64(uint8_t* out, const uint8_t* p, int64_t n) noexcept nogil:
    cdef const char* digits = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    cdef uint32_t three
    while n >= 3:
        three = <uint32_t>p[0] << 16 | <uint32_t>p[1] << 8 | p[2]
        out[0], out[1] = digits[three >> 18], digits[three >> 12 & 63]
        out[2], out[3] = digits[three >> 6 & 63], digits[three & 63]
        p += 3
        out += 4
        n -= 3
    if n == 0:
        return out
    three = <uint32_t>p[0] << 16 | (<uint32_t>p[1] << 8 if n == 2 else 0)
    out[0], out[1] = digits[three >> 18], digits[three >> 12 & 63]
    out[2], out[3] = digits[three >> 6 & 63] if n == 2 else <char>b"=", b"="
    return out + 4


# ---- bytes that JSON may have to escape

cdef extern from *:
    int __builtin_ctzll(unsigned long long) nogil


cdef inline uint64_t special_bytes(uint64_t word) noexcept nogil:
    cdef uint64_t ones = 0x0101010101010101
    cdef uint64_t quotes = word ^ ones * 0x22, backslashes = word ^ ones * 0x5C
    cdef uint64_t controls = (word - ones * 0x20) & ~word
    cdef uint64_t equal = (quotes - ones) & ~quotes | (backslashes - ones) & ~backslashes
    return (controls | equal | word + ones | word) & ones * 0x80


# ---- lines

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


cdef inline int lines_reserve(Lines* o, int64_t more) noexcept nogil:
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
        if lines_reserve(o, (stop - p) * MOST_ESCAPED) != OK:
            return OUT_OF_MEMORY
        out = o.at
        while p < stop:
            if stop - p >= 8:
                memcpy(&word, p, 8)
                memcpy(out, &word, 8)
                marks = special_bytes(word)
                if marks == 0:
                    p += 8
                    out += 8
                    continue
                i = __builtin_ctzll(marks) >> 3      # the first marked byte
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
    if lines_reserve(o, 2 * value.length + 4) != OK:
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
    cdef int status = lines_reserve(o, 1)
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
            status = lines_reserve(o, 2)
        if status != OK:
            return status
        put_ascii(o, b"}", 1)
    put_ascii(o, b"]", 1)
    return OK


cdef inline void put_number(Lines* o, const LineColumn* c, int64_t row) noexcept nogil:
    cdef int64_t n = 0
    if not number(&c.numbers, row, &n):
        put_name(o, &c.name, b'":null', 6)
    elif c.how == AS_TIME and FIRST_TIME <= n <= LAST_TIME:
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
            if lines_reserve(o, text.length) != OK:
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
            status = lines_reserve(o, 0)
            if status == OK:
                status = put_cell(o, columns + at, row)
            if status != OK:
                return status
        if lines_reserve(o, 0) != OK:
            return OUT_OF_MEMORY
        copy_wide(o.at, end.data, end.length)
        o.at += end.length
    return OK
