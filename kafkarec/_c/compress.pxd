"""Compression without the GIL: lz4 and zstd by function pointers into the installed codec libraries.

    lz4   04 22 4d 18 | 60 | 40 | HC | blocks of up to 64 KiB: size 4 LE (top bit: uncompressed), data | 00 00 00 00
          as Kafka's Lz4BlockOutputStream: independent blocks, no checksums; level 9 is the fast compressor, the other
          levels are LZ4 HC. `codecs.lz4` has the HC byte (header checksum), also the wrong one of magic 0 (KAFKA-3160)
    zstd  one frame with its content size

NEEDS_CODEC: the library has no such symbols, or the codec is a different one; then `codecs` compresses, to the same
format. `kafkarec/codecs/native_compress.py` finds the functions, tests them, and passes their addresses.
"""
from libc.stdint cimport int8_t, int64_t, uint8_t, uint32_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy

from kafkarec._c.batch cimport LATEST_CODEC, LZ4, ZSTD
from kafkarec._c.endian cimport le32
from kafkarec._c.status cimport NEEDS_CODEC, OK, OUT_OF_MEMORY

cdef extern from * nogil:
    """
    #include <stddef.h>

    static int (*kr_lz4_fast)(void *, const char *, char *, int, int, int) = NULL;
    static int (*kr_lz4_high)(void *, const char *, char *, int, int, int) = NULL;
    static size_t kr_lz4_fast_state, kr_lz4_high_state;
    static void *(*kr_zstd_compress_create)(void) = NULL;
    static size_t (*kr_zstd_compress_free)(void *) = NULL;
    static size_t (*kr_zstd_compress)(void *, void *, size_t, const void *, size_t) = NULL;
    static size_t (*kr_zstd_compress_bound)(size_t) = NULL;
    static size_t (*kr_zstd_compress_set)(void *, int, int) = NULL;

    static void compress_install_lz4(const size_t *address) {
        kr_lz4_fast = (int (*)(void *, const char *, char *, int, int, int))address[0];
        kr_lz4_high = (int (*)(void *, const char *, char *, int, int, int))address[1];
        kr_lz4_fast_state = address[2];
        kr_lz4_high_state = address[3];
    }

    static void compress_install_zstd(const size_t *address) {
        kr_zstd_compress_create = (void *(*)(void))address[0];
        kr_zstd_compress_free = (size_t (*)(void *))address[1];
        kr_zstd_compress = (size_t (*)(void *, void *, size_t, const void *, size_t))address[2];
        kr_zstd_compress_bound = (size_t (*)(size_t))address[3];
        kr_zstd_compress_set = (size_t (*)(void *, int, int))address[4];
    }

    static inline int has_lz4_compressor(void) { return kr_lz4_fast != NULL; }
    static inline int has_zstd_compressor(void) { return kr_zstd_compress != NULL; }
    """
    void compress_install_lz4(const size_t* address)
    void compress_install_zstd(const size_t* address)
    bint has_lz4_compressor()
    bint has_zstd_compressor()
    size_t kr_lz4_fast_state
    size_t kr_lz4_high_state
    int kr_lz4_fast(void* state, const char* source, char* to, int size, int capacity, int acceleration)
    int kr_lz4_high(void* state, const char* source, char* to, int size, int capacity, int level)
    void* kr_zstd_compress_create()
    size_t kr_zstd_compress_free(void* context)
    size_t kr_zstd_compress(void* context, void* to, size_t capacity, const void* source, size_t size)
    size_t kr_zstd_compress_set(void* context, int parameter, int value)
    size_t kr_zstd_compress_bound(size_t size)

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
    int[ZSTD_PARAMETERS] zstd_parameters  # of the level, for input of unknown size: those of the JVM's streams
    uint8_t[2 * LZ4_HEAD] lz4_heads  # frame headers: of magic 1 and 2, then of magic 0
    void* lz4
    void* zstd


cdef inline void compress_release(CompressContext* w) noexcept nogil:
    free(w.lz4)
    if w.zstd != NULL:
        kr_zstd_compress_free(w.zstd)


cdef inline bint can_compress(int8_t codec) noexcept nogil:
    return (codec == LZ4 and has_lz4_compressor()) or (codec == ZSTD and has_zstd_compressor())


cdef inline int64_t compress_bound(int8_t codec, int64_t n) noexcept nogil:
    """The largest compressed size of n bytes. A block that does not become smaller is stored uncompressed."""
    if codec == ZSTD:
        return <int64_t>kr_zstd_compress_bound(<size_t>n)
    return LZ4_HEAD + 4 + n + 4 * (n // LZ4_BLOCK + 1)


cdef inline uint8_t* put_le32(uint8_t* to, uint32_t n) noexcept nogil:
    n = le32(n)
    memcpy(to, &n, 4)
    return to + 4


cdef inline int compress_lz4(CompressContext* w, int8_t magic, const uint8_t* source, int64_t n, uint8_t* to,
                             int64_t* length) noexcept nogil:
    cdef uint8_t* at = to
    cdef int size, done
    cdef int level = w.levels[LZ4]
    cdef bint fast = level == LZ4_FAST_LEVEL
    if w.lz4 == NULL:
        w.lz4 = malloc(kr_lz4_fast_state if fast else kr_lz4_high_state)
        if w.lz4 == NULL:
            return OUT_OF_MEMORY
    memcpy(at, w.lz4_heads + (LZ4_HEAD if magic == 0 else 0), LZ4_HEAD)
    at += LZ4_HEAD
    while n > 0:
        size = LZ4_BLOCK if n > LZ4_BLOCK else <int>n
        if fast:
            done = kr_lz4_fast(w.lz4, <const char*>source, <char*>at + 4, size, size - 1, 1)
        else:
            done = kr_lz4_high(w.lz4, <const char*>source, <char*>at + 4, size, size - 1, level)
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
    cdef size_t capacity = kr_zstd_compress_bound(<size_t>n), done
    cdef int i
    if w.zstd == NULL:
        w.zstd = kr_zstd_compress_create()
        if w.zstd == NULL:
            return OUT_OF_MEMORY
        for i in range(ZSTD_PARAMETERS):
            kr_zstd_compress_set(w.zstd, ZSTD_FIRST_PARAMETER + i, w.zstd_parameters[i])
    done = kr_zstd_compress(w.zstd, to, capacity, source, <size_t>n)
    if done > capacity:                      # error codes are the largest values of size_t
        return NEEDS_CODEC
    length[0] = <int64_t>done
    return OK


cdef inline int compress_payload(CompressContext* w, int8_t codec, int8_t magic, const uint8_t* source, int64_t n,
                                 uint8_t* to, int64_t* length) noexcept nogil:
    """Compresses n bytes to `to`, which has space for compress_bound(n) bytes."""
    if codec == LZ4:
        return compress_lz4(w, magic, source, n, to, length)
    return compress_zstd(w, source, n, to, length)
