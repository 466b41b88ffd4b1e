"""Decodes header keys like Java's new String(bytes, UTF_8): each malformed sequence becomes one U+FFFD (ef bf bd).

    00-7f                      one byte
    c2-df 80-bf                two bytes
    e0-ef ..                   three bytes; a whole encoded surrogate (ed a0-bf xx) is one U+FFFD
    f0-f4 ..                   four bytes, at most U+10FFFF
    c0 c1 f5-ff, stray 80-bf   one U+FFFD each

The length of a malformed sequence follows JDK 17's String.decodeUTF8 (malformed3, malformed4 and the tails), which
differs from Python's "replace" for surrogates. The output is at most three times the input.
"""
from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.string cimport memcpy


cdef inline bint is_ascii(const uint8_t* p, int64_t n) noexcept nogil:
    cdef uint64_t word, seen = 0
    while n >= 8:
        memcpy(&word, p, 8)
        seen |= word
        p += 8
        n -= 8
    while n > 0:
        seen |= p[0]
        p += 1
        n -= 1
    return (seen & <uint64_t>0x8080808080808080) == 0


cdef inline bint is_ascii_wide(const uint8_t* p, int64_t n) noexcept nogil:
    """The same, where 7 bytes after the text are readable."""
    cdef uint64_t word, seen = 0
    while n >= 8:
        memcpy(&word, p, 8)
        seen |= word
        p += 8
        n -= 8
    memcpy(&word, p, 8)
    seen |= word & ((<uint64_t>1 << 8 * n) - 1)
    return (seen & <uint64_t>0x8080808080808080) == 0


cdef inline bint is_continuation(uint8_t byte) noexcept nogil:
    return (byte & 0xC0) == 0x80


cdef inline bint second_fits(uint8_t first, uint8_t second) noexcept nogil:
    if first == 0xE0:
        return 0xA0 <= second < 0xC0
    if first == 0xF0:
        return 0x90 <= second < 0xC0
    if first == 0xF4:
        return 0x80 <= second < 0x90
    return is_continuation(second)


cdef inline int java_sequence(const uint8_t* p, int64_t left, bint* good) noexcept nogil:
    """The length of the sequence at p, well-formed or not (left > 0); sets `good` if it is one character."""
    cdef uint8_t first = p[0]
    cdef int i, width = 2 if first < 0xE0 else 3 if first < 0xF0 else 4
    good[0] = first < 0x80
    if first < 0xC2 or first > 0xF4 or left < 2 or not second_fits(first, p[1]):
        return 1
    for i in range(2, width):
        if left <= i or not is_continuation(p[i]):
            return i
    good[0] = not (first == 0xED and p[1] >= 0xA0)           # no half of a surrogate pair
    return width


cdef inline bint is_utf8(const uint8_t* p, int64_t n) noexcept nogil:
    cdef const uint8_t* end = p + n
    cdef bint good = True
    if is_ascii(p, n):
        return True
    while p < end and good:
        p += java_sequence(p, end - p, &good)
    return good


cdef inline int64_t java_utf8(const uint8_t* p, int64_t n, uint8_t* out) noexcept nogil:
    """Writes p[0:n] as valid UTF-8 to `out` (space for 3 * n bytes); returns the number of bytes written."""
    cdef const uint8_t* end = p + n
    cdef uint8_t* start = out
    cdef bint good = False
    cdef int width, i
    while p < end:
        width = java_sequence(p, end - p, &good)
        if good:
            for i in range(width):
                out[i] = p[i]
            out += width
        else:
            out[0] = 0xEF
            out[1] = 0xBF
            out[2] = 0xBD
            out += 3
        p += width
    return out - start
