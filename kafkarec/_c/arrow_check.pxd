"""Checks offsets, views and validity bits of a foreign Arrow array before its data is read.

    offsets     int32 or int64[rows + 1]: the first is not negative, none is smaller than the previous one
    views       16 bytes per row: length >= 0; above 12 bytes: an existing buffer, and a range within its size
    list views  start[rows] and size[rows]: not negative, and within the entries
    validity    one bit per row, 0 for null: as many zeros as null_count states

Arrow's C data interface does not state the size of a buffer, so sizes cannot be checked here, except those of the data
buffers of views, which the array states. Each function returns True when all rows are valid; otherwise it fills the
Misfit with the first row that is not.
"""
from libc.stdint cimport INT32_MAX, int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memcpy

from kafkarec._c.input_columns cimport is_set

cdef enum:
    STEP = 2048                  # rows that are compared without a branch before the result is looked at

cdef struct Misfit:
    int64_t row
    int64_t expected             # the smallest or the largest valid value
    int64_t found

cdef struct Range:               # entries [start, stop)
    int64_t start
    int64_t stop

ctypedef fused Offset:
    int32_t
    int64_t


cdef inline bint misfit(Misfit* m, int64_t row, int64_t expected, int64_t found) noexcept nogil:
    m.row, m.expected, m.found = row, expected, found
    return False


cdef inline bint offsets_rise(const Offset* offsets, int64_t rows, Misfit* m) noexcept nogil:
    cdef int64_t start = 0, stop, i
    cdef int falls
    if offsets[0] < 0:
        return misfit(m, 0, 0, offsets[0])
    while start < rows:
        stop = rows if rows - start < STEP else start + STEP
        falls = 0
        for i in range(start, stop):
            falls |= offsets[i + 1] < offsets[i]
        if falls:
            break
        start = stop
    for i in range(start, rows):
        if offsets[i + 1] < offsets[i]:
            return misfit(m, i, offsets[i], offsets[i + 1])
    return True


cdef inline bint lengths_fit(const int64_t* offsets, int64_t rows, Misfit* m) noexcept nogil:
    """No row is longer than a field of a record can be (2^31-1 bytes). For 64-bit offsets only."""
    cdef int64_t i
    for i in range(rows):
        if offsets[i + 1] - offsets[i] > INT32_MAX:
            return misfit(m, i, INT32_MAX, offsets[i + 1] - offsets[i])
    return True


cdef enum ViewProblem:
    VIEW_FITS = 0
    VIEW_LENGTH                  # the length is negative
    VIEW_BUFFER                  # there is no such buffer
    VIEW_RANGE                   # the range ends beyond its buffer


cdef inline int views_fit(const uint8_t* views, const uint8_t* validity, int64_t first, int64_t rows,
                          const void* const* buffers, const int64_t* sizes, int64_t count, Misfit* m) noexcept nogil:
    """Checks the views of rows [first, first + rows); those of null rows are undefined and not checked."""
    cdef int64_t i, size
    cdef int32_t[4] words
    for i in range(rows):
        memcpy(words, views + (first + i) * 16, 16)
        if 0 <= words[0] <= 12 or not is_set(validity, first + i):
            continue
        if words[0] < 0:
            misfit(m, i, 0, words[0])
            return VIEW_LENGTH
        if words[2] < 0 or words[2] >= count or buffers[words[2]] == NULL:
            misfit(m, i, count, words[2])
            return VIEW_BUFFER
        size = sizes[words[2]]
        if words[3] < 0 or words[0] > size - words[3]:
            misfit(m, i, size, <int64_t>words[0] + words[3])
            return VIEW_RANGE
    return VIEW_FITS


cdef inline bint list_views_fit(const Offset* starts, const Offset* lengths, const uint8_t* validity, int64_t first,
                                int64_t rows, int64_t entries, Range* used, Misfit* m) noexcept nogil:
    """Sets `used` to the smallest range with the entries of all rows; a null row has none."""
    cdef int64_t i, start, length
    used.start, used.stop = entries, 0
    for i in range(rows):
        if not is_set(validity, first + i):
            continue
        start, length = starts[first + i], lengths[first + i]
        if start < 0 or length < 0:
            return misfit(m, i, 0, start if start < 0 else length)
        if start > entries or length > entries - start:
            return misfit(m, i, entries, start if start > entries else start + length)
        if start < used.start:
            used.start = start
        if start + length > used.stop:
            used.stop = start + length
    if used.stop <= used.start:
        used.start = used.stop = 0
    return True


cdef inline int64_t nulls_counted(const uint8_t* validity, int64_t first, int64_t rows) noexcept nogil:
    """The number of zero bits of rows [first, first + rows)."""
    cdef int64_t i = first, stop = first + rows, zeros = 0
    cdef uint64_t word
    while i < stop and i & 7:
        zeros += not is_set(validity, i)
        i += 1
    while stop - i >= 64:
        memcpy(&word, validity + (i >> 3), 8)
        zeros += 64 - bits_set(word)
        i += 64
    while i < stop:
        zeros += not is_set(validity, i)
        i += 1
    return zeros


cdef extern from *:
    int bits_set "__builtin_popcountll"(unsigned long long) noexcept nogil
