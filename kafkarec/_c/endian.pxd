"""Loads from any address. All fields of a batch outside of compressed payloads are big-endian (java.nio.ByteBuffer);
those of LZ4 and zstd frames are little-endian (le).

memcpy is C's unaligned load: it compiles to one instruction.
"""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy

cdef extern from * nogil:
    """
    #include <stdint.h>

    /* Between the machine's order and big-endian (be) or little-endian (le), in either direction. <endian.h> is not
       everywhere: macOS has other names for it. */
    #if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    static inline uint16_t be16(uint16_t n) { return __builtin_bswap16(n); }
    static inline uint32_t be32(uint32_t n) { return __builtin_bswap32(n); }
    static inline uint64_t be64(uint64_t n) { return __builtin_bswap64(n); }
    static inline uint32_t le32(uint32_t n) { return n; }
    static inline uint64_t le64(uint64_t n) { return n; }
    #elif __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    static inline uint16_t be16(uint16_t n) { return n; }
    static inline uint32_t be32(uint32_t n) { return n; }
    static inline uint64_t be64(uint64_t n) { return n; }
    static inline uint32_t le32(uint32_t n) { return __builtin_bswap32(n); }
    static inline uint64_t le64(uint64_t n) { return __builtin_bswap64(n); }
    #else
    #error "the byte order of this machine is neither little-endian nor big-endian"
    #endif
    """
    uint16_t be16(uint16_t)
    uint32_t be32(uint32_t)
    uint64_t be64(uint64_t)
    uint32_t le32(uint32_t)
    uint64_t le64(uint64_t)


cdef inline uint32_t load_u32(const uint8_t* p) noexcept nogil:
    cdef uint32_t x
    memcpy(&x, p, 4)
    return be32(x)


cdef inline int32_t load_i32(const uint8_t* p) noexcept nogil:
    return <int32_t>load_u32(p)


cdef inline int64_t load_i64(const uint8_t* p) noexcept nogil:
    cdef uint64_t x
    memcpy(&x, p, 8)
    return <int64_t>be64(x)


cdef inline uint32_t load_le32(const uint8_t* p) noexcept nogil:
    cdef uint32_t x
    memcpy(&x, p, 4)
    return le32(x)
