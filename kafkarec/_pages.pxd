"""What the other compiled modules call: one list of recycled pages for the process. See `_pages.pyx`."""
from libc.stdint cimport uint8_t

cdef uint8_t* pages_take(size_t n, size_t* capacity) noexcept nogil
cdef void pages_free(uint8_t* p, size_t capacity) noexcept nogil
