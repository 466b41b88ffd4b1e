"""Decompression without the GIL: gzip, lz4 and zstd by function pointers into the installed codec libraries, snappy by
`snappy_blocks.pxd`.

    gzip  1f 8b 08 00 | time 4 | flags 1 | system 1 | deflate data | CRC-32 4 LE | size 4 LE: one member that fills the
          payload
    lz4   04 22 4d 18 | FLG | BD | [content size 8] | HC | blocks: size 4 LE (top bit: stored), data, [checksum 4] |
          00 00 00 00 | [content checksum 4]
    zstd  28 b5 2f fd | frame header descriptor | window descriptor ... : one frame that fills the payload

Only the usual case is handled here, and only if it passes all checks of Kafka's streams. Everything else (other flags,
a failed check, a second frame, too large for the limit) returns NEEDS_CODEC; then `codecs` decompresses or raises. So
the results are the same with and without these functions; a test compares them.
The functions: `codec_functions.pxd`.
"""
from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy

from kafkarec._c.batch cimport GZIP, LZ4, SNAPPY, ZSTD
from kafkarec._c.codec_functions cimport has_functions, isal, lz4, zstd
from kafkarec._c.columns cimport Buffer, SLACK, buffer_reserve
from kafkarec._c.endian cimport load_le32
from kafkarec._c.snappy_blocks cimport snappy_payload
from kafkarec._c.status cimport NEEDS_CODEC, OK
from kafkarec._c.xxh32 cimport xxh32
from kafkarec._core cimport crc32_on

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
    ZSTD_MOST_WINDOW = 27        # zstd-jni's limit, as a power of two; from there on `codecs` decides

# An LZ4 frame that was read: FLG, and its size in bytes.
cdef struct Lz4Frame:
    uint8_t flags
    int64_t end

# The first fields of ISA-L's struct inflate_state (igzip_lib.h).
cdef struct Inflate:
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
    void* zstd
    Inflate* gzip


cdef inline void decompress_release(DecompressContext* context) noexcept nogil:
    """Frees the libraries' contexts. The caller returns `out` to its page pool."""
    if context.zstd != NULL:
        zstd().free(context.zstd)
    free(context.gzip)
    context.zstd, context.gzip = NULL, NULL


cdef inline int gzip_member(DecompressContext* context, const uint8_t* p, int64_t n, int64_t limit,
                            int64_t* length) noexcept nogil:
    """Decompresses one member without a name, extra field or comment that fills the payload; NEEDS_CODEC for anything
    else."""
    cdef int64_t deflated = n - GZIP_HEADER - GZIP_TRAILER, size
    cdef Inflate* state
    if deflated <= 0 or load_le32(p) != 0x00088B1F:
        return NEEDS_CODEC
    size = load_le32(p + n - 4)
    if size > limit or size > MOST_OUTPUT or size // MOST_DEFLATED > deflated or deflated > MOST_OUTPUT:
        return NEEDS_CODEC
    if context.gzip == NULL:
        context.gzip = <Inflate*>malloc(INFLATE_STATE)
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
    length[0] = size
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


cdef inline int lz4_frame(DecompressContext* context, const uint8_t* p, int64_t n, int8_t magic, int64_t limit,
                          int64_t* length, Lz4Frame* frame) noexcept nogil:
    """Decompresses a usual frame to context.out; NEEDS_CODEC for anything else."""
    cdef int64_t block_capacity = 0, used = 0, capacity
    cdef int64_t at = lz4_blocks_at(p, n, magic, &frame.flags, &block_capacity)
    cdef uint32_t size
    cdef int done
    if at == 0:
        return NEEDS_CODEC
    while n - at >= 4:
        size = load_le32(p + at)
        at += 4
        if size == 0:
            if frame.flags & LZ4_CONTENT_CHECKSUM and n - at < 4:
                return NEEDS_CODEC
            length[0] = used
            frame.end = at + 4 if frame.flags & LZ4_CONTENT_CHECKSUM else at
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
            if done < 0:
                return NEEDS_CODEC
            used += done
        if frame.flags & LZ4_BLOCK_CHECKSUM:
            if n - at - size < 4 or xxh32(p + at, size) != load_le32(p + at + size):
                return NEEDS_CODEC
            at += 4
        at += size
    return NEEDS_CODEC


cdef inline bint lz4_checksum_wrong(const Lz4Frame* frame, const uint8_t* p, const uint8_t* content,
                                    int64_t n) noexcept nogil:
    """Whether the content checksum of the frame at p, which Kafka reads and does not compare, is wrong."""
    return frame.flags & LZ4_CONTENT_CHECKSUM != 0 and load_le32(p + frame.end - 4) != xxh32(content, n)


cdef inline bint lz4_size_wrong(const Lz4Frame* frame, const uint8_t* p, int64_t n) noexcept nogil:
    """Whether the content size of the frame at p, which Kafka does not compare, is not n; 0 means unknown."""
    cdef uint64_t declared = 0
    if frame.flags & LZ4_CONTENT_SIZE:
        declared = load_le32(p + 6) | <uint64_t>load_le32(p + 10) << 32
    return declared != 0 and declared != <uint64_t>n


cdef inline unsigned long long zstd_window(uint8_t descriptor) noexcept nogil:
    """The window size that a frame declares (RFC 8878 3.1.1.1.2); 0 where zstd-jni rejects it as too large."""
    cdef unsigned long long base = <unsigned long long>1 << (10 + (descriptor >> 3))
    if 10 + (descriptor >> 3) >= ZSTD_MOST_WINDOW:
        return 0
    return base + (base >> 3) * (descriptor & 7)


cdef inline int zstd_frame(DecompressContext* context, const uint8_t* p, int64_t n, int64_t limit,
                           int64_t* length) noexcept nogil:
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
    length[0] = <int64_t>done
    return OK


cdef inline int decompress_payload(DecompressContext* context, int8_t codec, const uint8_t* p, int64_t n, int8_t magic,
                                   int64_t limit, int64_t* length, Lz4Frame* frame) noexcept nogil:
    """Decompresses a payload to context.out; NEEDS_CODEC where there is no such function, or it is not of the usual
    form. frame: of LZ4 only."""
    if not has_functions(codec):
        return NEEDS_CODEC
    if codec == LZ4:
        return lz4_frame(context, p, n, magic, limit, length, frame)
    if codec == ZSTD:
        return zstd_frame(context, p, n, limit, length)
    if codec == GZIP:
        return gzip_member(context, p, n, limit, length)
    return snappy_payload(&context.out, p, n, limit, length) if codec == SNAPPY else NEEDS_CODEC
