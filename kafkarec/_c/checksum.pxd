"""CRC-32C and CRC-32, without the GIL.

    CRC-32C (Castagnoli)  magic 2, over attributes (byte 21) to the end     KIP-98; Kafka: Crc32C
    CRC-32  (IEEE)        magic 0 and 1, over magic (byte 16) to the end    Kafka: LegacyRecord.computeChecksum

CRC-32C uses the hardware routine of the crc32c library, called by pointer: the compiled module installs it at import if
it returns the same results as the library's Python function. For less than 256 bytes, and where the library has no such
symbol, a routine of this file is used: with the processor's CRC instructions (SSE4.2, ARMv8) where it has them, else
with tables. CRC-32 uses tables (slicing by eight): messages of magic 0 and 1 are checked one by one and are small.
"""
from libc.stdint cimport uint8_t, uint32_t

cdef extern from * nogil:
    """
    #include <stdint.h>
    #include <stddef.h>
    #include <string.h>

    typedef uint32_t (*kr_crc_fn)(uint32_t crc, const unsigned char *data, unsigned long length);

    static uint32_t kr_table_32[8][256], kr_table_32c[8][256];
    static kr_crc_fn kr_library_crc32c = NULL;
    static int kr_instructions = 0;

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
        crc = ~crc;
        while (n >= 8) {
            uint32_t a = crc ^ ((uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24);
            crc = table[7][a & 0xFF] ^ table[6][(a >> 8) & 0xFF] ^ table[5][(a >> 16) & 0xFF] ^ table[4][a >> 24]
                ^ table[3][p[4]] ^ table[2][p[5]] ^ table[1][p[6]] ^ table[0][p[7]];
            p += 8;
            n -= 8;
        }
        while (n-- > 0) crc = (crc >> 8) ^ table[0][(crc ^ *p++) & 0xFF];
        return ~crc;
    }

    #if defined(__x86_64__)
    #include <nmmintrin.h>
    /* clang wants crc32 beside sse4.2, which gcc takes too. */
    __attribute__((target("sse4.2,crc32")))
    static uint32_t kr_crc32c_instructions(uint32_t crc, const uint8_t *p, size_t n) {
        uint64_t c = (uint32_t)~crc, word;
        while (n >= 8) {
            memcpy(&word, p, 8);
            c = _mm_crc32_u64(c, word);
            p += 8;
            n -= 8;
        }
        while (n-- > 0) c = _mm_crc32_u8((uint32_t)c, *p++);
        return ~(uint32_t)c;
    }
    #include <cpuid.h>
    static int kr_has_instructions(void) {  /* not __builtin_cpu_supports, which zig's clang answers with no */
        unsigned int a, b, c, d;
        return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_SSE4_2);
    }
    #elif defined(__AARCH64EL__)
    #if defined(__linux__)
    #include <sys/auxv.h>
    static int kr_has_instructions(void) { return (getauxval(AT_HWCAP) & (1 << 7)) != 0; }  /* HWCAP_CRC32 */
    #elif defined(__APPLE__)
    static int kr_has_instructions(void) { return 1; }  /* all of Apple's 64-bit processors */
    #else
    static int kr_has_instructions(void) { return 0; }
    #endif
    /* Assembler: gcc and clang have these under different names, and only with flags for the whole file. */
    static uint32_t kr_crc32c_instructions(uint32_t crc, const uint8_t *p, size_t n) {
        uint64_t word;
        uint32_t c = ~crc;
        while (n >= 8) {
            memcpy(&word, p, 8);
            __asm__(".arch_extension crc\\n\\tcrc32cx %w0, %w0, %x1" : "+r"(c) : "r"(word));
            p += 8;
            n -= 8;
        }
        while (n-- > 0) {
            uint32_t byte = *p++;
            __asm__(".arch_extension crc\\n\\tcrc32cb %w0, %w0, %w1" : "+r"(c) : "r"(byte));
        }
        return ~c;
    }
    #else
    static uint32_t kr_crc32c_instructions(uint32_t crc, const uint8_t *p, size_t n) {
        return kr_sliced(kr_table_32c, crc, p, n);
    }
    static int kr_has_instructions(void) { return 0; }
    #endif

    static void checksums_prepare(int hardware) {
        kr_fill_table(kr_table_32, 0xEDB88320u);
        kr_fill_table(kr_table_32c, 0x82F63B78u);
        kr_instructions = hardware && kr_has_instructions();
    }

    static void checksums_install(size_t address) { kr_library_crc32c = (kr_crc_fn)address; }
    static inline int checksums_has_instructions(void) { return kr_instructions; }

    /* Continues `crc` (0 at the beginning) with n more bytes. */
    static inline uint32_t crc32c_on(uint32_t crc, const uint8_t *p, size_t n) {
        if (kr_library_crc32c != NULL && n >= 256) return ~kr_library_crc32c(~crc, p, (unsigned long)n);
        return kr_instructions ? kr_crc32c_instructions(crc, p, n) : kr_sliced(kr_table_32c, crc, p, n);
    }

    static inline uint32_t crc32_on(uint32_t crc, const uint8_t *p, size_t n) {
        return kr_sliced(kr_table_32, crc, p, n);
    }

    static inline uint32_t crc32c(const uint8_t *p, size_t n) { return crc32c_on(0, p, n); }

    static inline uint32_t crc32c_own(const uint8_t *p, size_t n) {
        return kr_instructions ? kr_crc32c_instructions(0, p, n) : kr_sliced(kr_table_32c, 0, p, n);
    }

    static inline uint32_t crc32(const uint8_t *p, size_t n) { return crc32_on(0, p, n); }
    """
    void checksums_prepare(int hardware)
    void checksums_install(size_t address)
    int checksums_has_instructions()
    uint32_t crc32c(const uint8_t* p, size_t n)
    uint32_t crc32c_own(const uint8_t* p, size_t n)
    uint32_t crc32(const uint8_t* p, size_t n)
    uint32_t crc32c_on(uint32_t crc, const uint8_t* p, size_t n)
    uint32_t crc32_on(uint32_t crc, const uint8_t* p, size_t n)
