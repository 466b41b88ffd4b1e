"""XXH32 with seed 0, the checksum of the LZ4 frame format: of a frame's descriptor, its blocks, its content.

Four lanes of 32-bit words, 16 bytes a round; what is left is added word by word, then byte by byte.
"""
from libc.stdint cimport int64_t, uint8_t, uint32_t

from kafkarec._c.endian cimport load_le32

cdef enum:
    PRIME_1 = 0x9E3779B1
    PRIME_2 = 0x85EBCA77
    PRIME_3 = 0xC2B2AE3D
    PRIME_4 = 0x27D4EB2F
    PRIME_5 = 0x165667B1


cdef inline uint32_t rotated(uint32_t x, int bits) noexcept nogil:
    return x << bits | x >> (32 - bits)


cdef inline uint32_t mixed(uint32_t lane, uint32_t word) noexcept nogil:
    return rotated(lane + word * <uint32_t>PRIME_2, 13) * <uint32_t>PRIME_1


cdef inline uint32_t xxh32(const uint8_t* p, int64_t n) noexcept nogil:
    cdef const uint8_t* end = p + n
    cdef uint32_t a = <uint32_t>PRIME_1 + <uint32_t>PRIME_2, b = <uint32_t>PRIME_2, c = 0
    cdef uint32_t d = 0 - <uint32_t>PRIME_1
    cdef uint32_t x = <uint32_t>PRIME_5
    if n >= 16:
        while end - p >= 16:
            a = mixed(a, load_le32(p))
            b = mixed(b, load_le32(p + 4))
            c = mixed(c, load_le32(p + 8))
            d = mixed(d, load_le32(p + 12))
            p += 16
        x = rotated(a, 1) + rotated(b, 7) + rotated(c, 12) + rotated(d, 18)
    x += <uint32_t>n
    while end - p >= 4:
        x = rotated(x + load_le32(p) * <uint32_t>PRIME_3, 17) * <uint32_t>PRIME_4
        p += 4
    while p < end:
        x = rotated(x + p[0] * <uint32_t>PRIME_5, 11) * <uint32_t>PRIME_1
        p += 1
    x = (x ^ x >> 15) * <uint32_t>PRIME_2
    x = (x ^ x >> 13) * <uint32_t>PRIME_3
    return x ^ x >> 16
