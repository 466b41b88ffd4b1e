"""Numbers in bytes.

Loads from any address, and stores to any. All fields of a batch outside of compressed payloads are big-endian
(java.nio.ByteBuffer); those of LZ4 and zstd frames are little-endian (le), as the machine is.

memcpy is C's unaligned access: it compiles to one instruction.

Varints and varlongs: 7 bits per byte, the lowest first; the high bit is set if more bytes follow; zig-zag encoded.

    0xxxxxxx                      1 byte
    1xxxxxxx 0xxxxxxx             2 bytes
    varint: at most 5 bytes, varlong: at most 10; longer ones are refused, surplus bits of the last byte are dropped
    zig-zag: 0, -1, 1, -2, ...  ->  0, 1, 2, 3, ...

Follows org.apache.kafka.common.utils.ByteUtils, which also drops surplus bits silently. `read_*` has a parameter `end`
and reads no byte from there on; `read_unsigned_unchecked` is for callers that know that 10 bytes are readable. Both
leave the cursor where they stopped. What is written, `put_*`, is as short as possible.
"""
from libc.stdint cimport int16_t, int32_t, int64_t, int8_t, uint16_t, uint32_t, uint64_t, uint8_t
from libc.string cimport memcpy

from kafkarec._c.status cimport MESSAGE_TRUNCATED, OK, VARINT_TOO_LONG

# ---- loads and stores

cdef extern from * nogil:
    """
    #include <stdint.h>

    /* To and from big-endian. <endian.h> is not everywhere: macOS has other names for it. */
    #if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
    #error "a little-endian machine is needed"
    #endif
    static inline uint16_t be16(uint16_t n) { return __builtin_bswap16(n); }
    static inline uint32_t be32(uint32_t n) { return __builtin_bswap32(n); }
    static inline uint64_t be64(uint64_t n) { return __builtin_bswap64(n); }
    """
    uint16_t be16(uint16_t)
    uint32_t be32(uint32_t)
    uint64_t be64(uint64_t)


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


cdef inline int16_t load_i16(const uint8_t* p) noexcept nogil:
    cdef uint16_t x
    memcpy(&x, p, 2)
    return <int16_t>be16(x)


cdef inline uint8_t* put_u16(uint8_t* to, uint16_t n) noexcept nogil:
    n = be16(n)
    memcpy(to, &n, 2)
    return to + 2


cdef inline uint8_t* put_u32(uint8_t* to, uint32_t n) noexcept nogil:
    n = be32(n)
    memcpy(to, &n, 4)
    return to + 4


cdef inline uint8_t* put_i64(uint8_t* to, int64_t n) noexcept nogil:
    cdef uint64_t swapped = be64(<uint64_t>n)
    memcpy(to, &swapped, 8)
    return to + 8


cdef inline uint32_t load_le32(const uint8_t* p) noexcept nogil:
    cdef uint32_t x
    memcpy(&x, p, 4)
    return x


cdef inline int64_t native_int(const uint8_t* p, int width) noexcept nogil:
    """A signed number of 1, 2, 4 or 8 bytes, in the machine's order."""
    cdef int64_t eight
    cdef int32_t four
    cdef int16_t two
    if width == 8:
        memcpy(&eight, p, 8)
        return eight
    if width == 4:
        memcpy(&four, p, 4)
        return four
    if width == 2:
        memcpy(&two, p, 2)
        return two
    return <int8_t>p[0]


# ---- varints

cdef extern from *:
    int __builtin_clzll(unsigned long long) nogil

cdef enum:
    VARINT_BYTES = 5
    VARLONG_BYTES = 10


cdef inline int32_t unzigzag32(uint32_t n) noexcept nogil:
    return <int32_t>((n >> 1) ^ (0 - (n & 1)))


cdef inline int64_t unzigzag64(uint64_t n) noexcept nogil:
    return <int64_t>((n >> 1) ^ (0 - (n & 1)))


cdef inline int read_unsigned(const uint8_t** cursor, const uint8_t* end, int most, uint64_t* out) noexcept nogil:
    """Reads a varint (most = 5) or varlong (most = 10) without zig-zag decoding; reads no byte from `end` on."""
    cdef const uint8_t* p = cursor[0]
    cdef uint64_t value = 0
    cdef int i = 0
    cdef uint8_t byte
    while i < most:
        if p >= end:
            cursor[0] = p
            return MESSAGE_TRUNCATED
        byte = p[0]
        p += 1
        value |= <uint64_t>(byte & 0x7F) << (7 * i)
        if byte < 0x80:
            cursor[0] = p
            out[0] = value
            return OK
        i += 1
    cursor[0] = p
    return VARINT_TOO_LONG


cdef inline bint is_minimal(const uint8_t* begin, const uint8_t* end, int most) noexcept nogil:
    """Whether the varint [begin, end) that was read is as short as possible, and has no surplus bits."""
    cdef uint8_t last = (end - 1)[0]
    if end - begin == 1:
        return True
    return last > 0 and (end - begin < most or last < (16 if most == VARINT_BYTES else 2))


cdef inline int read_varint(const uint8_t** cursor, const uint8_t* end, int32_t* out) noexcept nogil:
    cdef uint64_t raw = 0
    cdef int status = read_unsigned(cursor, end, VARINT_BYTES, &raw)
    out[0] = unzigzag32(<uint32_t>raw)
    return status


cdef inline uint64_t read_unsigned_unchecked(const uint8_t** cursor, int most, int* bad) noexcept nogil:
    """Like read_unsigned, where `most` bytes are readable. One and two bytes, the usual cases, come first."""
    cdef const uint8_t* p = cursor[0]
    cdef uint64_t value = p[0]
    cdef int i
    if value < 0x80:
        cursor[0] = p + 1
        return value
    value = (value & 0x7F) | (<uint64_t>(p[1] & 0x7F) << 7)
    if p[1] < 0x80:
        cursor[0] = p + 2
        return value
    for i in range(2, most):
        value |= <uint64_t>(p[i] & 0x7F) << (7 * i)
        if p[i] < 0x80:
            cursor[0] = p + i + 1
            return value
    bad[0] = VARINT_TOO_LONG
    return 0


cdef inline uint64_t zigzag(int64_t n) noexcept nogil:
    return (<uint64_t>n << 1) ^ <uint64_t>(n >> 63)


cdef inline int varint_size(int64_t n) noexcept nogil:
    """Bytes of a varint: one per seven bits, without leading zeros."""
    cdef uint64_t raw = zigzag(n)
    if raw < 0x80:
        return 1
    if raw < 0x4000:
        return 2
    return (63 - __builtin_clzll(raw)) // 7 + 1


cdef inline uint8_t* put_unsigned(uint8_t* to, uint64_t n) noexcept nogil:
    if n < 0x80:
        to[0] = <uint8_t>n
        return to + 1
    if n < 0x4000:
        to[0], to[1] = <uint8_t>(n | 0x80), <uint8_t>(n >> 7)
        return to + 2
    while n >= 0x80:
        to[0] = <uint8_t>(n | 0x80)
        n >>= 7
        to += 1
    to[0] = <uint8_t>n
    return to + 1


cdef inline uint8_t* put_varint(uint8_t* to, int64_t n) noexcept nogil:
    return put_unsigned(to, zigzag(n))
