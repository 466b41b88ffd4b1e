"""The C functions of the codecs' libraries that are called without the GIL: one struct for each library.

`codecs/native.py` finds the functions, in the same order, and tests them; `_core.pyx` keeps their addresses. Where
they are missing or turned off, there is none, and `codecs` calls the library from Python.
"""
from libc.stdint cimport int8_t

from kafkarec._c.batch cimport GZIP, LZ4, ZSTD
from kafkarec._core cimport codec_functions

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


cdef inline void publish(int codec, const void* functions) noexcept nogil:
    kr_publish(&codec_functions[codec & 7], functions)


cdef inline bint has_functions(int8_t codec) noexcept nogil:
    return codec_functions[codec] != NULL


cdef inline const Isal* isal() noexcept nogil:
    return <const Isal*>codec_functions[GZIP]


cdef inline const Lz4* lz4() noexcept nogil:
    return <const Lz4*>codec_functions[LZ4]


cdef inline const Zstd* zstd() noexcept nogil:
    return <const Zstd*>codec_functions[ZSTD]
