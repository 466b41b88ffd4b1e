"""Memory maps of files that may shrink, or whose disk may fail, while they are read.

    An access beyond the file's end, or to a page that cannot be read, raises SIGBUS:
    in a guarded map      the handler replaces the page by zeros and marks the map as lost; reading continues, and the
                          reader raises an error afterwards
    anywhere else         the previous handler is called

The handler is installed when the first map is guarded, and again when another one has replaced it. At most 64 maps are
guarded at a time; further maps are not guarded. On Linux and macOS, si_addr is the address of the access.
"""
from libc.stddef cimport size_t
from libc.stdint cimport uint8_t

cdef extern from * nogil:
    """
    #include <signal.h>
    #include <stdint.h>
    #include <string.h>
    #include <sys/mman.h>
    #include <unistd.h>

    #define KR_MAPS 64
    static struct { const uint8_t *volatile base; size_t size; volatile sig_atomic_t lost; } kr_maps[KR_MAPS];
    static struct sigaction kr_previous;
    static size_t kr_page_bytes;

    static void kr_sigbus(int number, siginfo_t *info, void *context) {
        const uint8_t *at = (const uint8_t *)info->si_addr;
        for (int i = 0; i < KR_MAPS; i++) {
            const uint8_t *base = kr_maps[i].base;
            if (base == NULL || at < base || (size_t)(at - base) >= kr_maps[i].size) continue;
            uint8_t *page = (uint8_t *)((uintptr_t)at & ~(uintptr_t)(kr_page_bytes - 1));
            if (mmap(page, kr_page_bytes, PROT_READ, MAP_PRIVATE | MAP_ANON | MAP_FIXED, -1, 0) == MAP_FAILED) break;
            kr_maps[i].lost = 1;
            return;
        }
        if (kr_previous.sa_flags & SA_SIGINFO) kr_previous.sa_sigaction(number, info, context);
        else if (kr_previous.sa_handler == SIG_DFL || kr_previous.sa_handler == SIG_IGN) signal(number, SIG_DFL);
        else kr_previous.sa_handler(number);
    }

    /* Returns the map's index in the table, or -1 if the table is full. The caller holds the GIL. */
    static int kr_map_guard(const uint8_t *base, size_t size) {
        struct sigaction wanted, now;
        for (int i = 0; i < KR_MAPS; i++) {
            if (kr_maps[i].base != NULL) continue;
            kr_page_bytes = (size_t)sysconf(_SC_PAGESIZE);
            kr_maps[i].size = size;
            kr_maps[i].lost = 0;
            kr_maps[i].base = base;
            if (sigaction(SIGBUS, NULL, &now) == 0 && !(now.sa_flags & SA_SIGINFO && now.sa_sigaction == kr_sigbus)) {
                memset(&wanted, 0, sizeof wanted);
                wanted.sa_sigaction = kr_sigbus;
                wanted.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
                kr_previous = now;
                sigaction(SIGBUS, &wanted, NULL);
            }
            return i;
        }
        return -1;
    }

    static int kr_map_lost(int place) { return place >= 0 && kr_maps[place].lost; }
    static void kr_map_free(int place) { if (place >= 0) kr_maps[place].base = NULL; }
    """
    int map_guard "kr_map_guard"(const uint8_t* base, size_t size)
    bint map_lost "kr_map_lost"(int place)
    void map_free "kr_map_free"(int place)
