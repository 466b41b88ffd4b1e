"""What the processor can do, asked at run time: the wheels are compiled for the oldest one.

`leave_vectors` is called after functions of ISA-L: those with 256- and 512-bit instructions return without vzeroupper,
and until one is executed every SSE instruction of x86-64 waits for the upper halves of its registers. Batches of one
record took 3.5 times as long.
"""

cdef extern from * nogil:
    """
    #if defined(__x86_64__)
    #include <cpuid.h>
    /* cpuid, not __builtin_cpu_supports, which zig's clang answers with no. */
    static int kr_has_crc_instructions(void) {
        unsigned int a, b, c, d;
        return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_SSE4_2);
    }
    static int kr_has_avx(void) {  /* and the system saves its registers */
        unsigned int a, b, c, d, low, high;
        if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_AVX) || !(c & bit_OSXSAVE)) return 0;
        __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
        return (low & 6) == 6;
    }
    static int kr_avx = 0;
    static inline void leave_vectors(void) { if (kr_avx) __asm__ volatile("vzeroupper"); }
    #else
    static int kr_has_avx(void) { return 0; }
    static int kr_avx = 0;
    static inline void leave_vectors(void) {}
    #if defined(__AARCH64EL__) && defined(__linux__)
    #include <sys/auxv.h>
    static int kr_has_crc_instructions(void) { return (getauxval(AT_HWCAP) & (1 << 7)) != 0; }  /* HWCAP_CRC32 */
    #elif defined(__AARCH64EL__) && defined(__APPLE__)
    static int kr_has_crc_instructions(void) { return 1; }  /* all of Apple's 64-bit processors */
    #else
    static int kr_has_crc_instructions(void) { return 0; }
    #endif
    #endif
    static void processor_ask(void) { kr_avx = kr_has_avx(); }
    """
    void processor_ask()
    void leave_vectors()
