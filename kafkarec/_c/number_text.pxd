"""Numbers, times and bytes as ASCII text. Each function writes at `out` and returns the end of the text.

    decimal   -9223372036854775808           up to 20 bytes; DECIMAL_ROOM may be written
    time      2023-11-14T22:13:20.123Z       UTC, proleptic Gregorian, the years 1 to 9999
    hex       00ff
    base64    AP8=                           RFC 4648, with padding
"""
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

cdef extern from * nogil:
    """
    #include <stdint.h>

    #define KR_TEN(a) a "0" a "1" a "2" a "3" a "4" a "5" a "6" a "7" a "8" a "9"
    static const char kr_pairs[] = KR_TEN("0") KR_TEN("1") KR_TEN("2") KR_TEN("3") KR_TEN("4") KR_TEN("5") KR_TEN("6")
        KR_TEN("7") KR_TEN("8") KR_TEN("9");
    #define KR_FIRST_TIME (-INT64_C(62135596800000))    /* 0001-01-01, in ms */
    #define KR_LAST_TIME INT64_C(253402300799999)       /* 9999-12-31 */
    static const char kr_hex[] = "0123456789abcdef";
    static const char kr_base64[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    """
    const char* pairs "kr_pairs"
    const char* hex_digits "kr_hex"
    const char* base64_digits "kr_base64"
    const int64_t FIRST_TIME "KR_FIRST_TIME"
    const int64_t LAST_TIME "KR_LAST_TIME"

cdef enum:
    DECIMAL_ROOM = 24
    TIME_LENGTH = 24
    DAY = 86_400_000             # ms


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


cdef inline uint8_t* put_pair(uint8_t* out, int64_t n, uint8_t after) noexcept nogil:
    """Two digits (n < 100) and the character after them."""
    memcpy(out, pairs + 2 * n, 2)
    out[2] = after
    return out + 3


cdef inline bint has_date(int64_t ms) noexcept nogil:
    return FIRST_TIME <= ms <= LAST_TIME


cdef inline uint8_t* put_time(uint8_t* out, int64_t ms) noexcept nogil:
    """`has_date` holds. Years begin in March here, so that a leap day is a year's last."""
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
    out = put_pair(out + 2, year % 100, b"-")
    out = put_pair(out, month + 3 if month < 10 else month - 9, b"-")
    out = put_pair(out, in_month + 1, b"T")
    out = put_pair(out, rest // 3_600_000, b":")
    out = put_pair(out, rest // 60_000 % 60, b":")
    out = put_pair(out, rest // 1000 % 60, b".")
    out[0] = <uint8_t>(48 + rest % 1000 // 100)
    return put_pair(out + 1, rest % 100, b"Z")


cdef inline uint8_t* put_hex(uint8_t* out, const uint8_t* p, int64_t n) noexcept nogil:
    cdef int64_t i
    for i in range(n):
        out[2 * i], out[2 * i + 1] = hex_digits[p[i] >> 4], hex_digits[p[i] & 15]
    return out + 2 * n


cdef inline uint8_t* put_base64(uint8_t* out, const uint8_t* p, int64_t n) noexcept nogil:
    cdef uint32_t three
    while n >= 3:
        three = <uint32_t>p[0] << 16 | <uint32_t>p[1] << 8 | p[2]
        out[0], out[1] = base64_digits[three >> 18], base64_digits[three >> 12 & 63]
        out[2], out[3] = base64_digits[three >> 6 & 63], base64_digits[three & 63]
        p += 3
        out += 4
        n -= 3
    if n == 0:
        return out
    three = <uint32_t>p[0] << 16 | (<uint32_t>p[1] << 8 if n == 2 else 0)
    out[0], out[1] = base64_digits[three >> 18], base64_digits[three >> 12 & 63]
    out[2], out[3] = base64_digits[three >> 6 & 63] if n == 2 else <char>b"=", b"="
    return out + 4
