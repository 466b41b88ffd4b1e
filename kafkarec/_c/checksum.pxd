"""CRC-32C and CRC-32, without the GIL.

    CRC-32C (Castagnoli)  magic 2, over attributes (byte 21) to the end     KIP-98; Kafka: Crc32C
    CRC-32  (IEEE)        magic 0 and 1, over magic (byte 16) to the end    Kafka: LegacyRecord.computeChecksum

CRC-32C uses ISA-L's routine, called by pointer: the compiled module installs it at import if it returns the same
results as the crc32c package (`_checksum.py`). For less than 256 bytes, and where ISA-L is missing, a routine of this
file is used: with the processor's CRC instructions (SSE4.2, ARMv8) where it has them, else with tables. 16 KB take 0.13
us by ISA-L's 512-bit instructions, 1.6 us by these. CRC-32 uses tables (slicing by eight): messages of magic 0 and 1
are checked one by one and are small.
"""
from libc.stdint cimport uint8_t, uint32_t

from kafkarec._c.processor cimport processor_ask     # before the C code below, which calls it

cdef extern from * nogil:
    """
    #include <stdint.h>
    #include <stddef.h>
    #include <string.h>

    typedef uint32_t (*kr_isal_fn)(const unsigned char *data, int length, uint32_t crc);

    static uint32_t kr_table_32[8][256], kr_table_32c[8][256];
    static kr_isal_fn kr_isal_crc32c = NULL;
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
    #elif defined(__AARCH64EL__)
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
    #endif

    static void checksums_prepare(int hardware) {
        kr_fill_table(kr_table_32, 0xEDB88320u);
        kr_fill_table(kr_table_32c, 0x82F63B78u);
        kr_instructions = hardware && kr_has_crc_instructions();
        processor_ask();
    }

    static void checksums_install(size_t address) { kr_isal_crc32c = (kr_isal_fn)address; }
    static inline int checksums_has_instructions(void) { return kr_instructions; }

    static inline uint32_t crc32c_own_on(uint32_t crc, const uint8_t *p, size_t n) {
        return kr_instructions ? kr_crc32c_instructions(crc, p, n) : kr_sliced(kr_table_32c, crc, p, n);
    }

    /* Continues `crc` (0 at the beginning) with n more bytes. */
    static inline uint32_t crc32c_on(uint32_t crc, const uint8_t *p, size_t n) {
        if (kr_isal_crc32c == NULL || n < 256 || n > INT32_MAX) return crc32c_own_on(crc, p, n);
        crc = ~kr_isal_crc32c(p, (int)n, ~crc);
        leave_vectors();
        return crc;
    }

    static inline uint32_t crc32_on(uint32_t crc, const uint8_t *p, size_t n) {
        return kr_sliced(kr_table_32, crc, p, n);
    }

    static inline uint32_t crc32c(const uint8_t *p, size_t n) { return crc32c_on(0, p, n); }

    static inline uint32_t crc32c_own(const uint8_t *p, size_t n) { return crc32c_own_on(0, p, n); }

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
