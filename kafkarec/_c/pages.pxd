"""Recycled pages: the buffers of columns, in bounded free lists by size class. Only `_core.pyx` compiles this.

    class k = 0 .. 103:  (4 + k % 4) << (4 + k / 4)  bytes: 64, 80, 96, 112, 128, 160 ... in steps of a quarter
    above the largest class: malloc and free; under AddressSanitizer, too, which sees no wrong use of what is kept

The buffers of a small batch come from the list as well: malloc and free take longer than decoding it. Fresh pages take
60 % of the time of an uncompressed decode (the kernel zeroes them one page fault at a time), so pages that an Arrow
consumer releases, from any thread, are reused. The list keeps at most `kr_pages_limit` bytes (128 MiB) and frees the
rest. `pool_trim` empties it: kafkarec.release_memory().
"""
from libc.stdint cimport int64_t, uint8_t

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

    static __attribute__((noinline)) uint8_t *pool_take(size_t n, size_t *capacity) {
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

    static __attribute__((noinline)) void pool_free(uint8_t *p, size_t capacity) {
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
