"""The C around checksum functions of installed libraries, and tables for where they are missing. Only `_core.pyx`
compiles this; `_checksum.py` finds the functions.

ISA-L's functions with 256- and 512-bit instructions return without vzeroupper, and until one is executed every
SSE instruction of x86-64 waits for the upper halves of its registers: batches of one record took 3.5 times as long.
`isal_is_faster`: it multiplies 512 bits at once. On an x86-64 without that, crc32c's is up to twice as fast.
"""
from kafkarec._core cimport Checksum

cdef extern from * nogil:
    """
    #include <stddef.h>
    #include <stdint.h>

    static uint32_t kr_table_32[256], kr_table_32c[256];

    static void kr_fill_table(uint32_t *table, uint32_t polynomial) {
        uint32_t i, k;
        for (i = 0; i < 256; i++) {
            table[i] = i;
            for (k = 0; k < 8; k++) table[i] = (table[i] >> 1) ^ ((table[i] & 1) ? polynomial : 0);
        }
    }

    static uint32_t kr_by_table(const uint32_t *table, uint32_t crc, const uint8_t *p, size_t n) {
        while (n-- > 0) crc = (crc >> 8) ^ table[(crc ^ *p++) & 0xFF];
        return crc;
    }

    static uint32_t crc32c_by_table(uint32_t crc, const uint8_t *p, size_t n) {
        return kr_by_table(kr_table_32c, crc, p, n);
    }

    static uint32_t crc32_by_table(uint32_t crc, const uint8_t *p, size_t n) {
        return ~kr_by_table(kr_table_32, ~crc, p, n);
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

    /* The functions to call for a function of a library; address 0: the tables. */
    typedef uint32_t (*kr_checksum)(uint32_t, const uint8_t *, size_t);

    static kr_checksum crc32c_routine(int is_isal, size_t address) {
        if (!is_isal) return address ? (kr_checksum)address : crc32c_by_table;
        kr_isal_crc32c = (uint32_t (*)(const uint8_t *, int, uint32_t))address;
        return crc32c_by_isal;
    }

    static kr_checksum crc32_routine(size_t address) {
        kr_isal_crc32 = (uint32_t (*)(uint32_t, const uint8_t *, uint64_t))address;
        return address ? crc32_by_isal : crc32_by_table;
    }

    static void checksums_prepare(void) {
        kr_fill_table(kr_table_32, 0xEDB88320u);
        kr_fill_table(kr_table_32c, 0x82F63B78u);
        kr_avx = kr_has_avx();
    }
    """
    void checksums_prepare()
    bint isal_is_faster()
    Checksum crc32c_routine(bint is_isal, size_t address)
    Checksum crc32_routine(size_t address)
