"""Big-endian loads from any address. Everything in a batch but its codec payload is big-endian (java.nio.ByteBuffer).

memcpy is how C says "unaligned load": it compiles to one instruction and promises nothing about alignment.
"""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy

cdef extern from "<endian.h>" nogil:
    uint16_t be16toh(uint16_t)
    uint32_t be32toh(uint32_t)
    uint64_t be64toh(uint64_t)
    uint64_t le64toh(uint64_t)


cdef inline uint32_t load_u32(const uint8_t* p) noexcept nogil:
    cdef uint32_t x
    memcpy(&x, p, 4)
    return be32toh(x)


cdef inline int32_t load_i32(const uint8_t* p) noexcept nogil:
    return <int32_t>load_u32(p)


cdef inline int64_t load_i64(const uint8_t* p) noexcept nogil:
    cdef uint64_t x
    memcpy(&x, p, 8)
    return <int64_t>be64toh(x)
