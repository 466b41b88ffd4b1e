"""The bytes of a text that JSON may have to escape, found eight at a time.

    00-1f   control characters
    22 5c   quote, backslash
    7f      DEL
    80-ff   the bytes of sequences of UTF-8

`special_bytes` sets the highest bit of each such byte of a little-endian word, and of no byte before the first of them:
a borrow or a carry goes upwards, and only out of a marked byte. `first_byte` is the index of the first.
"""
from libc.stdint cimport uint64_t

cdef extern from * nogil:
    """
    #include <stdint.h>

    #define KR_ALL(byte) ((uint64_t)0x0101010101010101 * (byte))

    static inline uint64_t kr_special_bytes(uint64_t word) {
        uint64_t quotes = word ^ KR_ALL('"'), backslashes = word ^ KR_ALL('\\\\');
        uint64_t below = (word - KR_ALL(0x20)) & ~word;
        uint64_t equal = ((quotes - KR_ALL(1)) & ~quotes) | ((backslashes - KR_ALL(1)) & ~backslashes);
        return (below | equal | (word + KR_ALL(1)) | word) & KR_ALL(0x80);
    }

    static inline int kr_first_byte(uint64_t marks) { return __builtin_ctzll(marks) >> 3; }
    """
    uint64_t special_bytes "kr_special_bytes"(uint64_t word)
    int first_byte "kr_first_byte"(uint64_t marks)
