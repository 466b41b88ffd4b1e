"""Decompression without the GIL: gzip, lz4 and zstd by function pointers into the installed codec libraries, snappy by
functions of this module.

    gzip  1f 8b 08 00 | time 4 | flags 1 | system 1 | deflate data | CRC-32 4 LE | size 4 LE: one member that fills the
          payload
    lz4   04 22 4d 18 | FLG | BD | [content size 8] | HC | blocks: size 4 LE (top bit: stored), data, [checksum 4] |
          00 00 00 00 | [content checksum 4]
    zstd  28 b5 2f fd | frame header descriptor | window descriptor ... : one frame that fills the payload

Only the usual case is handled here, and only if it passes all checks of Kafka's streams. Everything else (other flags,
a failed check, a second frame, too large for the limit) returns NEEDS_CODEC; then `codecs` decompresses or raises. So
the results are the same with and without these functions; a test compares them.
The functions: `compress.pxd`.

Snappy blocks: no installed library has a C function for them that can be called without the GIL.

    block    content size: varint | element*
    element  literal   00 in the low bits | size - 1: 6 bits, or 60 .. 63 for 1 .. 4 bytes of it behind | bytes
             copy      01: size - 4: 3 bits, offset: 3 bits and a byte | 10, 11: size - 1: 6 bits, offset: 2 or 4 bytes
    stream   82 53 4e 41 50 50 59 00 | version 4 | compatible version 4 | (size 4 BE | block)*

Source: google/snappy, format_description.txt. Only what is right is decompressed here: everything else returns
NEEDS_CODEC, as above, and `codecs/snappy.py` reads or refuses it. Copies are wide: up to 15 bytes behind
the content are written, which SLACK has room for.

XXH32 with seed 0, the checksum of the LZ4 frame format: of a frame's descriptor, its blocks, its content.

Four lanes of 32-bit words, 16 bytes a round; what is left is added word by word, then byte by byte.
"""
from libc.stdint cimport int32_t, int64_t, int8_t, uint32_t, uint64_t, uint8_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcmp, memcpy

from kafkarec._c.batch cimport GZIP, LZ4, SNAPPY, ZSTD
from kafkarec._c.columns cimport SLACK, Buffer, buffer_free, buffer_reserve
from kafkarec._c.compress cimport has_functions, isal, lz4, zstd
from kafkarec._c.numbers cimport load_le32, load_u32, read_unsigned
from kafkarec._c.status cimport NEEDS_CODEC, OK
from kafkarec._core cimport crc32_on

# ---- XXH32

cdef enum:
    PRIME_1 = 0x9E3779B1
    PRIME_2 = 0x85EBCA77
    PRIME_3 = 0xC2B2AE3D
    PRIME_4 = 0x27D4EB2F
    PRIME_5 = 0x165667B1


cdef inline uint32_t rotated(uint32_t x, int bits) noexcept nogil:
    return x << bits | x >> (32 - bits)


cdef inline uint32_t xxh32_round(uint32_t lane, uint32_t word) noexcept nogil:
    return rotated(lane + word * <uint32_t>PRIME_2, 13) * <uint32_t>PRIME_1


cdef inline uint32_t xxh32(const uint8_t* p, int64_t n) noexcept nogil:
    cdef const uint8_t* end = p + n
    cdef uint32_t a = <uint32_t>PRIME_1 + <uint32_t>PRIME_2, b = <uint32_t>PRIME_2, c = 0
    cdef uint32_t d = 0 - <uint32_t>PRIME_1
    cdef uint32_t x = <uint32_t>PRIME_5
    if n >= 16:
        while end - p >= 16:
            a = xxh32_round(a, load_le32(p))
            b = xxh32_round(b, load_le32(p + 4))
            c = xxh32_round(c, load_le32(p + 8))
            d = xxh32_round(d, load_le32(p + 12))
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


# ---- snappy

cdef enum:
    STREAM_HEADER = 16
    MOST_SIZE_BYTES = 4          # of a block
    MOST_EXPANSION = 22          # bytes of content for a byte of a block: a copy of 64 bytes takes three


cdef inline int64_t snappy_content_size(const uint8_t* p, int64_t n, int64_t* at) noexcept nogil:
    """The content size that a block declares, and where its elements begin; -1: not of the usual form."""
    cdef const uint8_t* cursor = p
    cdef uint64_t size = 0
    if read_unsigned(&cursor, p + n, MOST_SIZE_BYTES, &size) != OK:
        return -1
    at[0] = cursor - p
    return <int64_t>size if (cursor - 1)[0] > 0 and <int64_t>size // MOST_EXPANSION <= n else -1


cdef inline void copy_within(uint8_t* to, int64_t offset, int64_t n) noexcept nogil:
    """Copies n bytes from `offset` bytes before, which may overlap: the bytes between are then repeated."""
    cdef int64_t i = 0, step = offset
    if offset >= 16:
        while i < n:
            memcpy(to + i, to + i - offset, 16)
            i += 16
        return
    while step < 8:                      # a multiple of the offset: that far back is the same byte
        step += offset
    while i < step - offset and i < n:
        to[i] = to[i - offset]
        i += 1
    while i < n:
        memcpy(to + i, to + i - step, 8)
        i += 8


cdef inline bint decompress_elements(const uint8_t* p, const uint8_t* end, uint8_t* content,
                                     int64_t size) noexcept nogil:
    """Whether the elements [p, end) give exactly `size` bytes."""
    cdef uint8_t* to = content
    cdef uint8_t* stop = content + size
    cdef int64_t n, offset
    cdef uint32_t tag
    while p < end:
        tag = p[0]
        p += 1
        if tag & 3 == 0:
            n = tag >> 2
            if n >= 60:
                tag = <uint32_t>n - 59               # bytes of the size
                if end - p < 4:
                    return False
                n = load_le32(p) & (<uint32_t>0xFFFFFFFF >> (32 - 8 * tag))
                p += tag
            n += 1
            if n > end - p or n > stop - to:
                return False
            if n <= 16 and end - p >= 16:
                memcpy(to, p, 16)
            else:
                memcpy(to, p, <size_t>n)
            p += n
            to += n
            continue
        if tag & 3 == 1:
            if end - p < 1:
                return False
            n = (tag >> 2 & 7) + 4
            offset = <int64_t>(tag >> 5) << 8 | p[0]
            p += 1
        elif tag & 3 == 2:
            if end - p < 2:
                return False
            n = (tag >> 2) + 1
            offset = p[0] | <int64_t>p[1] << 8
            p += 2
        else:
            if end - p < 4:
                return False
            n = (tag >> 2) + 1
            offset = load_le32(p)
            p += 4
        if offset == 0 or offset > to - content or n > stop - to:
            return False
        copy_within(to, offset, n)
        to += n
    return to == stop


# ---- payloads

cdef enum:
    LZ4_MAGIC = 0x184D2204
    LZ4_BLOCK_CHECKSUM = 0x10
    LZ4_CONTENT_SIZE = 0x08
    LZ4_CONTENT_CHECKSUM = 0x04
    GZIP_HEADER = 10
    GZIP_TRAILER = 8
    MOST_DEFLATED = 1032         # bytes of content for a byte of deflate data
    INFLATE_STATE = 128 << 10    # bytes for ISA-L's struct inflate_state, which has about 87 KiB
    MOST_OUTPUT = 8 << 20        # content that may become larger is left to `codecs`, whose output grows step by step
    MOST_INFLATED = 64 << 20     # the same of gzip, which says its size, and of which zlib needs twice the time
    ZSTD_MOST_WINDOW = 27        # zstd-jni's limit, as a power of two; from there on `codecs` decides

# The first fields of ISA-L's struct inflate_state (igzip_lib.h).
cdef struct InflateState:
    uint8_t* next_out
    uint32_t avail_out
    uint32_t total_out
    const uint8_t* next_in
    uint64_t read_in
    uint32_t avail_in
    int32_t read_in_length

# What one decoder keeps between batches: a buffer for decompressed bytes, the libraries' contexts.
cdef struct DecompressContext:
    Buffer out
    int64_t length               # bytes of content in it
    uint8_t lz4_flags            # of the LZ4 frame that was read: FLG, and its size in bytes
    int64_t lz4_end
    void* zstd
    InflateState* gzip


cdef inline void decompress_release(DecompressContext* context) noexcept nogil:
    """Frees the buffer and the libraries' contexts."""
    buffer_free(&context.out)
    if context.zstd != NULL:
        zstd().free(context.zstd)
    free(context.gzip)


cdef inline int decompress_snappy(DecompressContext* context, const uint8_t* p, int64_t n,
                                  int64_t limit) noexcept nogil:
    """Decompresses one block, or one stream of blocks that fills the payload; NEEDS_CODEC for anything else."""
    cdef bint stream = n >= STREAM_HEADER and memcmp(p, b"\x82SNAPPY\x00", 8) == 0
    cdef int64_t at = STREAM_HEADER if stream else 0
    cdef int64_t left, size, elements = 0, used = 0
    while at < n:
        left = n - at
        if stream:
            if left < 4:
                return NEEDS_CODEC
            size = load_u32(p + at)
            at += 4
            if size > left - 4:
                return NEEDS_CODEC
            left = size
        size = snappy_content_size(p + at, left, &elements)
        if size < 0 or size > limit - used:
            return NEEDS_CODEC
        if buffer_reserve(&context.out, <size_t>used, <size_t>(used + size + SLACK)) != OK:
            return NEEDS_CODEC
        if not decompress_elements(p + at + elements, p + at + left, context.out.data + used, size):
            return NEEDS_CODEC
        at += left
        used += size
    context.length = used
    return OK if used > 0 else NEEDS_CODEC


cdef inline int decompress_gzip(DecompressContext* context, const uint8_t* p, int64_t n,
                                int64_t limit) noexcept nogil:
    """Decompresses one member without a name, extra field or comment that fills the payload; NEEDS_CODEC for anything
    else."""
    cdef int64_t deflated = n - GZIP_HEADER - GZIP_TRAILER, size
    cdef InflateState* state
    if deflated <= 0 or load_le32(p) != 0x00088B1F:
        return NEEDS_CODEC
    size = load_le32(p + n - 4)
    if size > limit or size > MOST_INFLATED or size // MOST_DEFLATED > deflated or deflated > MOST_INFLATED:
        return NEEDS_CODEC
    if context.gzip == NULL:
        context.gzip = <InflateState*>malloc(INFLATE_STATE)
    if context.gzip == NULL or buffer_reserve(&context.out, 0, <size_t>size + SLACK) != OK:
        return NEEDS_CODEC
    state = context.gzip
    isal().inflate_begin(state)
    state.next_in, state.avail_in = p + GZIP_HEADER, <uint32_t>deflated
    state.next_out, state.avail_out = context.out.data, <uint32_t>size
    if isal().inflate(state) != 0 or state.avail_in != 0 or state.next_out - context.out.data != size:
        return NEEDS_CODEC
    if crc32_on(0, context.out.data, <size_t>size) != load_le32(p + n - GZIP_TRAILER):
        return NEEDS_CODEC
    context.length = size
    return OK


cdef inline int64_t lz4_blocks_at(const uint8_t* p, int64_t n, int8_t magic, uint8_t* flag_byte,
                                  int64_t* block_capacity) noexcept nogil:
    """Where the blocks of a usual frame begin; 0 for other frames. Sets `block_capacity` to the largest block size."""
    cdef int64_t header
    cdef uint8_t flags, sizes
    if n < 7 or load_le32(p) != LZ4_MAGIC:
        return 0
    flags, sizes = p[4], p[5]
    flag_byte[0] = flags
    if flags & 0xE3 != 0x60 or sizes & 0x8F or sizes < 0x40:
        return 0
    block_capacity[0] = <int64_t>1 << (8 + 2 * (sizes >> 4))
    header = 10 if flags & LZ4_CONTENT_SIZE else 2
    if n < 5 + header:
        return 0
    if magic > 0 and (xxh32(p + 4, header) >> 8 & 0xFF) != p[4 + header]:   # magic 0: KAFKA-3160
        return 0
    return 5 + header


cdef inline int decompress_lz4(DecompressContext* context, const uint8_t* p, int64_t n, int8_t magic,
                               int64_t limit) noexcept nogil:
    """Decompresses a usual frame to context.out; NEEDS_CODEC for anything else."""
    cdef int64_t block_capacity = 0, used = 0, capacity
    cdef int64_t at = lz4_blocks_at(p, n, magic, &context.lz4_flags, &block_capacity)
    cdef uint32_t size
    cdef int done
    if at == 0:
        return NEEDS_CODEC
    while n - at >= 4:
        size = load_le32(p + at)
        at += 4
        if size == 0:
            if context.lz4_flags & LZ4_CONTENT_CHECKSUM and n - at < 4:
                return NEEDS_CODEC
            context.length = used
            context.lz4_end = at + 4 if context.lz4_flags & LZ4_CONTENT_CHECKSUM else at
            return OK
        capacity = limit - used if limit - used < block_capacity else block_capacity
        if (size & 0x7FFFFFFF) > <uint32_t>block_capacity or (size & 0x7FFFFFFF) > n - at or (size & 0x7FFFFFFF) == 0:
            return NEEDS_CODEC
        if buffer_reserve(&context.out, <size_t>used, <size_t>(used + capacity + SLACK)) != OK:
            return NEEDS_CODEC
        if size >> 31:
            size &= 0x7FFFFFFF
            if size > capacity:
                return NEEDS_CODEC
            memcpy(context.out.data + used, p + at, size)
            used += size
        else:
            done = lz4().decompress(<const char*>p + at, <char*>context.out.data + used, <int>size, <int>capacity)
            if done <= 0:                # 0: a block without content, at which Kafka's stream ends
                return NEEDS_CODEC
            used += done
        if context.lz4_flags & LZ4_BLOCK_CHECKSUM:
            if n - at - size < 4 or xxh32(p + at, size) != load_le32(p + at + size):
                return NEEDS_CODEC
            at += 4
        at += size
    return NEEDS_CODEC


cdef inline bint lz4_content_checksum_wrong(const DecompressContext* context, const uint8_t* p) noexcept nogil:
    """Whether the content checksum of the frame at p, which Kafka reads and does not compare, is wrong."""
    return (context.lz4_flags & LZ4_CONTENT_CHECKSUM != 0
            and load_le32(p + context.lz4_end - 4) != xxh32(context.out.data, context.length))


cdef inline bint lz4_content_size_wrong(const DecompressContext* context, const uint8_t* p) noexcept nogil:
    """Whether the content size of the frame at p, which Kafka does not compare, is another one; 0 means unknown."""
    cdef uint64_t declared = 0
    if context.lz4_flags & LZ4_CONTENT_SIZE:
        declared = load_le32(p + 6) | <uint64_t>load_le32(p + 10) << 32
    return declared != 0 and declared != <uint64_t>context.length


cdef inline unsigned long long zstd_window(uint8_t descriptor) noexcept nogil:
    """The window size that a frame declares (RFC 8878 3.1.1.1.2); 0 where zstd-jni rejects it as too large."""
    cdef unsigned long long base = <unsigned long long>1 << (10 + (descriptor >> 3))
    if 10 + (descriptor >> 3) >= ZSTD_MOST_WINDOW:
        return 0
    return base + (base >> 3) * (descriptor & 7)


cdef inline int decompress_zstd(DecompressContext* context, const uint8_t* p, int64_t n,
                                int64_t limit) noexcept nogil:
    """Decompresses one frame that fills the payload and surely fits; NEEDS_CODEC for anything else."""
    cdef unsigned long long bound
    cdef size_t done
    if n < 6 or load_le32(p) != <uint32_t>0xFD2FB528 or zstd().frame_size(p, <size_t>n) != <size_t>n:
        return NEEDS_CODEC
    bound = zstd().bound(p, <size_t>n)
    if not p[4] & 0x20 and zstd_window(p[5]) < bound:      # a stream with this window would not decode it
        return NEEDS_CODEC
    if bound > <unsigned long long>limit or bound > MOST_OUTPUT:
        return NEEDS_CODEC
    if context.zstd == NULL:
        context.zstd = zstd().create()
    if context.zstd == NULL or buffer_reserve(&context.out, 0, <size_t>bound + SLACK) != OK:
        return NEEDS_CODEC
    done = zstd().decompress(context.zstd, context.out.data, <size_t>bound, p, <size_t>n)
    if done > bound:                     # error codes are the largest values of size_t
        return NEEDS_CODEC
    context.length = <int64_t>done
    return OK


cdef inline int decompress_payload(DecompressContext* context, int8_t codec, const uint8_t* p, int64_t n, int8_t magic,
                                   int64_t limit) noexcept nogil:
    """Decompresses a payload to `context`; NEEDS_CODEC where there is no such function, or it is not of the usual
    form."""
    if not has_functions(codec):
        return NEEDS_CODEC
    if codec == LZ4:
        return decompress_lz4(context, p, n, magic, limit)
    if codec == ZSTD:
        return decompress_zstd(context, p, n, limit)
    if codec == GZIP:
        return decompress_gzip(context, p, n, limit)
    return decompress_snappy(context, p, n, limit) if codec == SNAPPY else NEEDS_CODEC
