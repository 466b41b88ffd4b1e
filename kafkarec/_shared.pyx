"""The compiled module of what the process has once: recycled pages, C functions of other libraries.

The other compiled modules call them (`_shared.pxd`), and Arrow consumers return pages from any thread.

Pages are the buffers of columns, in bounded free lists by size class:

    class k = 0 .. 103:  (4 + k % 4) << (4 + k / 4)  bytes: 64, 80, 96, 112, 128, 160 ... in steps of a quarter
    above the largest class: malloc and free; under AddressSanitizer, too, which sees no wrong use of what is kept

The buffers of a small batch come from the list as well: malloc and free take longer than decoding it. Fresh pages take
60 % of the time of an uncompressed decode (the kernel zeroes them one page fault at a time), so pages that an Arrow
consumer releases are reused. The list keeps at most `kr_pages_limit` bytes (128 MiB) and frees the rest. `pool_trim`
empties it: kafkarec.release_memory().

Checksums are computed by functions of installed libraries, which `_checksum.py` finds; where they are missing, by a
table. ISA-L's functions with 256- and 512-bit instructions return without vzeroupper, and until one is executed every
SSE instruction of x86-64 waits for the upper halves of its registers: batches of one record took 3.5 times as long.
`isal_is_faster`: it multiplies 512 bits at once. On an x86-64 without that, crc32c's is up to twice as fast.
"""
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport int64_t, uint8_t, uint32_t
from libc.stdlib cimport malloc

from kafkarec._checksum import find

cdef extern from * nogil:
    """
    #include <pthread.h>
    #include <stdlib.h>
    #include <stdint.h>

    #define KR_PAGE_CLASSES 104
    #define KR_SMALLEST_PAGE ((size_t)64)
    #if defined(__has_feature)
    #if __has_feature(address_sanitizer)
    #define __SANITIZE_ADDRESS__ 1
    #endif
    #endif

    typedef struct kr_page { struct kr_page *next; } kr_page;
    static kr_page *kr_free_pages[KR_PAGE_CLASSES];
    static int64_t kr_pages_kept = 0;
    static int64_t kr_pages_limit = (int64_t)128 << 20;
    static pthread_mutex_t kr_pages_lock = PTHREAD_MUTEX_INITIALIZER;

    /* A child of fork has only the forking thread: no other can hold the lock at that moment. */
    static void kr_pages_hold(void) { pthread_mutex_lock(&kr_pages_lock); }
    static void kr_pages_go_on(void) { pthread_mutex_unlock(&kr_pages_lock); }
    static void pool_survive_forks(void) { pthread_atfork(kr_pages_hold, kr_pages_go_on, kr_pages_go_on); }

    static inline size_t kr_class_size(int k) { return (size_t)(4 + (k & 3)) << (4 + (k >> 2)); }

    /* The smallest class of n bytes or more, or -1: malloc is used. */
    static inline int kr_class_of(size_t n) {
    #ifdef __SANITIZE_ADDRESS__
        (void)n;
        return -1;
    #else
        int shift, k;
        if (n < KR_SMALLEST_PAGE) return 0;
        shift = 63 - __builtin_clzll((unsigned long long)n);
        k = (shift - 6) * 4 + (int)(n >> (shift - 2) & 3);
        if (k < KR_PAGE_CLASSES && kr_class_size(k) < n) k++;
        return k < KR_PAGE_CLASSES ? k : -1;
    #endif
    }

    static uint8_t *pool_take(size_t n, size_t *capacity) {
        int k = kr_class_of(n);
        void *p = NULL;
        if (k < 0) {
            *capacity = n < KR_SMALLEST_PAGE ? KR_SMALLEST_PAGE : (n + 1) / 2 * 2;
        } else {
            *capacity = kr_class_size(k);
            pthread_mutex_lock(&kr_pages_lock);
            p = kr_free_pages[k];
            if (p != NULL) {
                kr_free_pages[k] = ((kr_page *)p)->next;
                kr_pages_kept -= (int64_t)*capacity;
            }
            pthread_mutex_unlock(&kr_pages_lock);
        }
        if (p == NULL && posix_memalign(&p, 64, *capacity) != 0) { *capacity = 0; return NULL; }
        return (uint8_t *)p;
    }

    static void pool_free(uint8_t *p, size_t capacity) {
        int k;
        if (p == NULL || capacity % 2 != 0) return;
        k = kr_class_of(capacity);
        if (k >= 0) {
            pthread_mutex_lock(&kr_pages_lock);
            if (kr_pages_kept + (int64_t)capacity <= kr_pages_limit) {
                ((kr_page *)p)->next = kr_free_pages[k];
                kr_free_pages[k] = (kr_page *)p;
                kr_pages_kept += (int64_t)capacity;
                p = NULL;
            }
            pthread_mutex_unlock(&kr_pages_lock);
        }
        free(p);
    }

    static int64_t pool_trim(void) {
        int64_t freed = 0;
        int k;
        pthread_mutex_lock(&kr_pages_lock);
        for (k = 0; k < KR_PAGE_CLASSES; k++) {
            while (kr_free_pages[k] != NULL) {
                kr_page *page = kr_free_pages[k];
                kr_free_pages[k] = page->next;
                freed += (int64_t)kr_class_size(k);
                free(page);
            }
        }
        kr_pages_kept = 0;
        pthread_mutex_unlock(&kr_pages_lock);
        return freed;
    }

    """
    uint8_t* pool_take(size_t n, size_t* capacity)
    void pool_free(uint8_t* p, size_t capacity)
    int64_t pool_trim()
    void pool_survive_forks()

pool_survive_forks()


cdef uint8_t* pages_take(size_t n, size_t* capacity) noexcept nogil:
    """A buffer of `n` bytes or more, or NULL; capacity: of how many, an even number."""
    return pool_take(n, capacity)


cdef void pages_free(uint8_t* p, size_t capacity) noexcept nogil:
    """Does nothing for NULL, nor for an odd capacity: of what is a part of a page."""
    pool_free(p, capacity)


def release_memory():
    """Frees the recycled buffers and returns their size in bytes. Buffers of columns in use are kept."""
    return pool_trim()


cdef extern from * nogil:
    """
    #include <stddef.h>
    #include <stdint.h>

    static uint32_t kr_table_32[8][256], kr_table_32c[8][256];

    static void kr_fill_table(uint32_t table[8][256], uint32_t polynomial) {
        uint32_t i, crc;
        int k;
        for (i = 0; i < 256; i++) {
            crc = i;
            for (k = 0; k < 8; k++) crc = (crc >> 1) ^ ((crc & 1) ? polynomial : 0);
            table[0][i] = crc;
        }
        for (k = 1; k < 8; k++)
            for (i = 0; i < 256; i++)
                table[k][i] = (table[k - 1][i] >> 8) ^ table[0][table[k - 1][i] & 0xFF];
    }

    static uint32_t kr_sliced(uint32_t table[8][256], uint32_t crc, const uint8_t *p, size_t n) {
        while (n >= 8) {
            uint32_t a = crc ^ ((uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24);
            crc = table[7][a & 0xFF] ^ table[6][(a >> 8) & 0xFF] ^ table[5][(a >> 16) & 0xFF] ^ table[4][a >> 24]
                ^ table[3][p[4]] ^ table[2][p[5]] ^ table[1][p[6]] ^ table[0][p[7]];
            p += 8;
            n -= 8;
        }
        while (n-- > 0) crc = (crc >> 8) ^ table[0][(crc ^ *p++) & 0xFF];
        return crc;
    }

    static uint32_t crc32c_by_table(uint32_t crc, const uint8_t *p, size_t n) {
        return kr_sliced(kr_table_32c, crc, p, n);
    }

    static uint32_t crc32_by_table(uint32_t crc, const uint8_t *p, size_t n) {
        return ~kr_sliced(kr_table_32, ~crc, p, n);
    }

    /* cpuid, not __builtin_cpu_supports, which zig's clang answers with no. */
    #if defined(__x86_64__)
    #include <cpuid.h>
    static unsigned int kr_saved(void) {  /* the registers that the system saves: XCR0 */
        unsigned int a, b, c, d, low, high;
        if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE)) return 0;
        __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
        return low;
    }
    static int kr_has_avx(void) { return (kr_saved() & 6) == 6; }
    static int isal_is_faster(void) {
        unsigned int a, b, c, d;
        return (kr_saved() & 0xE6) == 0xE6 && __get_cpuid_count(7, 0, &a, &b, &c, &d)
            && (b & bit_AVX512F) && (c & bit_VPCLMULQDQ);
    }
    static int kr_avx = 0;
    static inline void kr_leave_vectors(void) { if (kr_avx) __asm__ volatile("vzeroupper"); }
    #else
    static int kr_avx = 0;
    static int kr_has_avx(void) { return 0; }
    static int isal_is_faster(void) { return 1; }
    static inline void kr_leave_vectors(void) {}
    #endif

    static uint32_t (*kr_isal_crc32c)(const uint8_t *, int, uint32_t) = NULL;
    static uint32_t (*kr_isal_crc32)(uint32_t, const uint8_t *, uint64_t) = NULL;

    static uint32_t crc32c_by_isal(uint32_t crc, const uint8_t *p, size_t n) {
        if (n > INT32_MAX) return crc32c_by_table(crc, p, n);
        crc = kr_isal_crc32c(p, (int)n, crc);
        kr_leave_vectors();
        return crc;
    }

    static uint32_t crc32_by_isal(uint32_t crc, const uint8_t *p, size_t n) {
        crc = kr_isal_crc32(crc, p, n);
        kr_leave_vectors();
        return crc;
    }

    static void set_isal_crc32c(size_t address) {
        kr_isal_crc32c = (uint32_t (*)(const uint8_t *, int, uint32_t))address;
    }

    static void set_isal_crc32(size_t address) {
        kr_isal_crc32 = (uint32_t (*)(uint32_t, const uint8_t *, uint64_t))address;
    }

    static void checksums_prepare(void) {
        kr_fill_table(kr_table_32, 0xEDB88320u);
        kr_fill_table(kr_table_32c, 0x82F63B78u);
        kr_avx = kr_has_avx();
    }
    """
    void checksums_prepare()
    bint isal_is_faster()
    void set_isal_crc32c(size_t address)
    void set_isal_crc32(size_t address)
    uint32_t crc32c_by_table(uint32_t crc, const uint8_t* p, size_t n)
    uint32_t crc32c_by_isal(uint32_t crc, const uint8_t* p, size_t n)
    uint32_t crc32_by_table(uint32_t crc, const uint8_t* p, size_t n)
    uint32_t crc32_by_isal(uint32_t crc, const uint8_t* p, size_t n)


cdef Checksum crc32c_routine(routine):
    if routine.library == "isal":
        set_isal_crc32c(<size_t>routine.address)
        return crc32c_by_isal
    return <Checksum><size_t>routine.address if routine.library else crc32c_by_table


cdef Checksum crc32_routine(routine):
    set_isal_crc32(<size_t>routine.address)
    return crc32_by_isal if routine.library else crc32_by_table


checksums_prepare()
ROUTINES = find(isal_is_faster())
checksums.small, checksums.large = crc32c_routine(ROUTINES.small), crc32c_routine(ROUTINES.large)
checksums.crc32 = crc32_routine(ROUTINES.crc32)


def crc32c(data, uint32_t crc=0):
    """CRC-32C (Castagnoli) of a buffer; crc: the checksum of the bytes before it."""
    cdef Py_buffer view
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    with nogil:
        crc = crc32c_on(crc, <const uint8_t*>view.buf, <size_t>view.len)
    PyBuffer_Release(&view)
    return crc


def crc32(data, uint32_t crc=0):
    """CRC-32 (IEEE) of a buffer; crc: the checksum of the bytes before it."""
    cdef Py_buffer view
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    with nogil:
        crc = crc32_on(crc, <const uint8_t*>view.buf, <size_t>view.len)
    PyBuffer_Release(&view)
    return crc


cdef extern from * nogil:
    """
    /* Threads without the GIL read the pointer: what it points to is written before. */
    static void kr_publish(const void **place, const void *functions) {
        __atomic_store_n(place, functions, __ATOMIC_RELEASE);
    }
    """
    void kr_publish(const void** place, const void* functions)


def install(int codec_id, addresses):
    """Keeps the addresses of a codec's C functions, in the order of their struct in `_c/codec_functions.pxd`; none: the
    core's own are turned on. See codecs/native.py."""
    cdef size_t* functions = <size_t*>malloc((len(addresses) + 1) * sizeof(size_t))       # for good
    if functions == NULL:
        raise MemoryError
    for i, address in enumerate(addresses):
        functions[<size_t>i] = address
    kr_publish(&codec_functions[codec_id & 7], functions)
