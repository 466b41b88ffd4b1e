"""The C functions of the codecs' libraries that are called without the GIL: one struct for each library.

`codecs/native.py` finds the functions, in the same order, and tests them; `_core.pyx` keeps their addresses. Where
they are missing or turned off, there is none, and `codecs` calls the library from Python.

Compression: lz4 and zstd by function pointers into the installed codec libraries.

    lz4   04 22 4d 18 | 60 | 40 | HC | blocks of up to 64 KiB: size 4 LE (top bit: uncompressed), data | 00 00 00 00
          as Kafka's Lz4BlockOutputStream: independent blocks, no checksums; level 9 is the fast compressor, the other
          levels are LZ4 HC. `codecs.lz4` has the HC byte (header checksum), also the wrong one of magic 0 (KAFKA-3160)
    zstd  one frame with its content size

NEEDS_CODEC: the library has no such symbols, or the codec is a different one; then `codecs` compresses, to the same
format.
"""
from libc.stdint cimport int64_t, int8_t, uint32_t, uint8_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy

from kafkarec._c.batch cimport GZIP, LATEST_CODEC, LZ4, ZSTD
from kafkarec._c.status cimport NEEDS_CODEC, OK, OUT_OF_MEMORY
from kafkarec._core cimport codec_functions

# ---- the functions of the libraries

cdef extern from * nogil:
    """
    /* Threads without the GIL read the pointer: what it points to is written before. */
    static inline void kr_publish(const void **place, const void *functions) {
        __atomic_store_n(place, functions, __ATOMIC_RELEASE);
    }
    """
    void kr_publish(const void** place, const void* functions)

cdef struct Isal:
    void (*inflate_begin)(void* state) noexcept nogil
    int (*inflate)(void* state) noexcept nogil

cdef struct Lz4:
    int (*decompress)(const char* source, char* to, int size, int capacity) noexcept nogil
    int (*fast)(void* state, const char* source, char* to, int size, int capacity, int acceleration) noexcept nogil
    int (*high)(void* state, const char* source, char* to, int size, int capacity, int level) noexcept nogil
    int (*fast_state)() noexcept nogil               # the sizes of the two states
    int (*high_state)() noexcept nogil

# Error codes are the largest values of size_t.
cdef struct Zstd:
    void* (*create)() noexcept nogil
    size_t (*free)(void* context) noexcept nogil
    size_t (*frame_size)(const void* source, size_t size) noexcept nogil
    unsigned long long (*bound)(const void* source, size_t size) noexcept nogil
    size_t (*decompress)(void* context, void* to, size_t capacity, const void* source, size_t size) noexcept nogil
    void* (*create_writer)() noexcept nogil
    size_t (*free_writer)(void* context) noexcept nogil
    size_t (*compress)(void* context, void* to, size_t capacity, const void* source, size_t size) noexcept nogil
    size_t (*compress_bound)(size_t size) noexcept nogil
    size_t (*set_parameter)(void* context, int parameter, int value) noexcept nogil


cdef inline bint has_functions(int8_t codec) noexcept nogil:
    return codec_functions[codec] != NULL


cdef inline const Isal* isal() noexcept nogil:
    return <const Isal*>codec_functions[GZIP]


cdef inline const Lz4* lz4() noexcept nogil:
    return <const Lz4*>codec_functions[LZ4]


cdef inline const Zstd* zstd() noexcept nogil:
    return <const Zstd*>codec_functions[ZSTD]


# ---- compression

cdef enum:
    LZ4_BLOCK = 64 << 10
    LZ4_HEAD = 7
    LZ4_FAST_LEVEL = 9           # Kafka's default, and lz4-java's fast compressor
    LZ4_STORED = 1 << 31
    ZSTD_PARAMETERS = 7          # window log (ZSTD_c_windowLog = 101), hash log, chain log ... strategy
    ZSTD_FIRST_PARAMETER = 101

# What one encoder keeps between batches.
cdef struct CompressContext:
    int[LATEST_CODEC + 1] levels                # by codec id
    int[ZSTD_PARAMETERS] zstd_stream_parameters  # of the level, for input of unknown size: those of the JVM's streams
    uint8_t[2 * LZ4_HEAD] lz4_heads  # frame headers: of magic 1 and 2, then of magic 0
    void* lz4
    void* zstd


cdef inline void compress_release(CompressContext* w) noexcept nogil:
    free(w.lz4)
    if w.zstd != NULL:
        zstd().free_writer(w.zstd)


cdef inline int64_t compress_bound(int8_t codec, int64_t n) noexcept nogil:
    """The largest compressed size of n bytes. A block that does not become smaller is stored uncompressed."""
    if codec == ZSTD:
        return <int64_t>zstd().compress_bound(<size_t>n)
    return LZ4_HEAD + 4 + n + 4 * (n // LZ4_BLOCK + 1)


cdef inline uint8_t* put_le32(uint8_t* to, uint32_t n) noexcept nogil:
    memcpy(to, &n, 4)
    return to + 4


cdef inline int compress_lz4(CompressContext* w, int8_t magic, const uint8_t* source, int64_t n, uint8_t* to,
                             int64_t* length) noexcept nogil:
    cdef uint8_t* at = to
    cdef int size, done
    cdef int level = w.levels[LZ4]
    cdef bint fast = level == LZ4_FAST_LEVEL
    if w.lz4 == NULL:
        w.lz4 = malloc(<size_t>(lz4().fast_state() if fast else lz4().high_state()))
        if w.lz4 == NULL:
            return OUT_OF_MEMORY
    memcpy(at, w.lz4_heads + (LZ4_HEAD if magic == 0 else 0), LZ4_HEAD)
    at += LZ4_HEAD
    while n > 0:
        size = LZ4_BLOCK if n > LZ4_BLOCK else <int>n
        if fast:
            done = lz4().fast(w.lz4, <const char*>source, <char*>at + 4, size, size - 1, 1)
        else:
            done = lz4().high(w.lz4, <const char*>source, <char*>at + 4, size, size - 1, level)
        if done <= 0:                                    # it did not become smaller
            put_le32(at, <uint32_t>size | LZ4_STORED)
            memcpy(at + 4, source, <size_t>size)
            done = size
        else:
            put_le32(at, <uint32_t>done)
        at += 4 + done
        source += size
        n -= size
    at = put_le32(at, 0)
    length[0] = at - to
    return OK


cdef inline int compress_zstd(CompressContext* w, const uint8_t* source, int64_t n, uint8_t* to,
                              int64_t* length) noexcept nogil:
    cdef size_t capacity = zstd().compress_bound(<size_t>n), done
    cdef int i
    if w.zstd == NULL:
        w.zstd = zstd().create_writer()
        if w.zstd == NULL:
            return OUT_OF_MEMORY
        for i in range(ZSTD_PARAMETERS):
            zstd().set_parameter(w.zstd, ZSTD_FIRST_PARAMETER + i, w.zstd_stream_parameters[i])
    done = zstd().compress(w.zstd, to, capacity, source, <size_t>n)
    if done > capacity:                      # error codes are the largest values of size_t
        return NEEDS_CODEC
    length[0] = <int64_t>done
    return OK
