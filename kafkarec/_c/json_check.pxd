"""Whether bytes are one JSON value (RFC 8259), as Python's json module reads it without NaN and Infinity.

    value    object | array | string | number | true | false | null, with space, tab, CR and LF around it
    string   no byte below 20; after a backslash one of "\\/bfnrt, or u and four hexadecimal digits
    number   -? (0 | [1-9][0-9]*) (. [0-9]+)? ([eE] [+-]? [0-9]+)?

Half of a surrogate pair is accepted as an escape. Bytes of 80 and more are accepted in strings and are not checked to
be UTF-8. At most MOST_LEVELS arrays and objects are within each other.
"""
from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.string cimport memcmp, memcpy

from kafkarec._c.endian cimport le64
from kafkarec._c.special_bytes cimport first_byte, special_bytes

cdef enum:
    MOST_LEVELS = 500            # readers stop at 1000, some earlier


cdef inline const uint8_t* after_space(const uint8_t* p, const uint8_t* end) noexcept nogil:
    while p < end and (p[0] == b" " or p[0] == b"\n" or p[0] == b"\r" or p[0] == b"\t"):
        p += 1
    return p


cdef inline bint is_digit(const uint8_t* p, const uint8_t* end) noexcept nogil:
    return p < end and b"0" <= p[0] <= b"9"


cdef inline const uint8_t* after_digits(const uint8_t* p, const uint8_t* end) noexcept nogil:
    """NULL if there is none."""
    if not is_digit(p, end):
        return NULL
    while is_digit(p, end):
        p += 1
    return p


cdef inline bint four_hex_digits(const uint8_t* p, const uint8_t* end) noexcept nogil:
    cdef int i
    cdef uint8_t lower
    if end - p < 4:
        return False
    for i in range(4):
        lower = p[i] | 0x20
        if not (b"0" <= p[i] <= b"9" or b"a" <= lower <= b"f"):
            return False
    return True


cdef inline const uint8_t* after_string(const uint8_t* p, const uint8_t* end) noexcept nogil:
    """p: after the opening quote. NULL if it is not a string."""
    cdef uint64_t word, marks
    while p < end:
        if end - p >= 8:
            memcpy(&word, p, 8)
            marks = special_bytes(le64(word))
            if marks == 0:
                p += 8
                continue
            p += first_byte(marks)
        if p[0] == b'"':
            return p + 1
        if p[0] < 0x20:
            return NULL
        if p[0] != b"\\":
            p += 1
            continue
        p += 1
        if p == end:
            return NULL
        if p[0] == b"u":
            if not four_hex_digits(p + 1, end):
                return NULL
            p += 5
            continue
        if not (p[0] == b'"' or p[0] == b"\\" or p[0] == b"/" or p[0] == b"b" or p[0] == b"f" or p[0] == b"n"
                or p[0] == b"r" or p[0] == b"t"):
            return NULL
        p += 1
    return NULL


cdef inline const uint8_t* after_number(const uint8_t* p, const uint8_t* end) noexcept nogil:
    if p < end and p[0] == b"-":
        p += 1
    if p < end and p[0] == b"0":
        p += 1
    else:
        p = after_digits(p, end)
    if p != NULL and p < end and p[0] == b".":
        p = after_digits(p + 1, end)
    if p != NULL and p < end and (p[0] == b"e" or p[0] == b"E"):
        p += 1
        if p < end and (p[0] == b"+" or p[0] == b"-"):
            p += 1
        p = after_digits(p, end)
    return p


cdef inline const uint8_t* after_word(const uint8_t* p, const uint8_t* end, const char* word,
                                      int64_t length) noexcept nogil:
    return p + length if end - p >= length and memcmp(p, word, <size_t>length) == 0 else NULL


cdef inline const uint8_t* after_scalar(const uint8_t* p, const uint8_t* end) noexcept nogil:
    """NULL if there is no string, number, true, false or null at p (p < end)."""
    if p[0] == b'"':
        return after_string(p + 1, end)
    if p[0] == b"t":
        return after_word(p, end, "true", 4)
    if p[0] == b"f":
        return after_word(p, end, "false", 5)
    if p[0] == b"n":
        return after_word(p, end, "null", 4)
    return after_number(p, end)


cdef inline const uint8_t* after_name(const uint8_t* p, const uint8_t* end) noexcept nogil:
    """After the name of a member and its colon, or NULL."""
    p = after_space(p, end)
    if p == end or p[0] != b'"':
        return NULL
    p = after_string(p + 1, end)
    if p == NULL:
        return NULL
    p = after_space(p, end)
    return p + 1 if p < end and p[0] == b":" else NULL


cdef inline bint is_json(const uint8_t* p, int64_t n) noexcept nogil:
    cdef const uint8_t* end = p + n
    cdef uint8_t[MOST_LEVELS] closing            # of the arrays and objects that are open
    cdef int level = 0
    cdef bint value = True                       # whether a value comes next
    while True:
        p = after_space(p, end)
        if p == end:
            return level == 0 and not value
        if value and (p[0] == b"[" or p[0] == b"{"):
            if level == MOST_LEVELS:
                return False
            closing[level] = b"]" if p[0] == b"[" else b"}"
            p = after_space(p + 1, end)
            if p < end and p[0] == closing[level]:
                p += 1
                value = False
                continue
            level += 1
            if closing[level - 1] == b"}":
                p = after_name(p, end)
        elif value:
            p = after_scalar(p, end)
            value = False
        elif level == 0:
            return False
        elif p[0] == closing[level - 1]:
            p += 1
            level -= 1
        elif p[0] == b",":
            p += 1
            value = True
            if closing[level - 1] == b"}":
                p = after_name(p, end)
        else:
            return False
        if p == NULL:
            return False
