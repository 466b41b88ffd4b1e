"""What rows that are to be written have in common: their least and greatest offset and timestamp, whether the offsets
rise, and how many headers there are. Nothing is read but offsets, timestamps and the borders of the lists of headers.
"""
from libc.stdint cimport int64_t
from libc.string cimport memset

from kafkarec._c.batch cimport ABSENT
from kafkarec._c.input_columns cimport InputChunk, list_at, number

cdef struct RowSummary:          # without rows all fields are 0
    int64_t rows
    int64_t first_offset
    int64_t last_offset
    int64_t least_offset
    int64_t greatest_offset
    bint falls                   # an offset is not above the one before
    int64_t fall_from            # the first two adjacent offsets of which that is so
    int64_t fall_to
    int64_t least_timestamp      # ABSENT is one, too
    int64_t greatest_timestamp
    int64_t with_timestamp       # rows whose timestamp is not ABSENT
    int64_t with_headers         # rows with headers
    int64_t headers


cdef inline void summary_add(RowSummary* s, int64_t offset, int64_t timestamp, int64_t headers) noexcept nogil:
    if s.rows == 0:
        s.first_offset = s.least_offset = s.greatest_offset = offset
        s.least_timestamp = s.greatest_timestamp = timestamp
    elif offset <= s.last_offset and not s.falls:
        s.falls, s.fall_from, s.fall_to = True, s.last_offset, offset
    s.rows += 1
    s.last_offset = offset
    s.least_offset, s.greatest_offset = min(s.least_offset, offset), max(s.greatest_offset, offset)
    s.least_timestamp, s.greatest_timestamp = min(s.least_timestamp, timestamp), max(s.greatest_timestamp, timestamp)
    s.with_timestamp += timestamp != ABSENT
    s.with_headers += headers > 0
    s.headers += headers


cdef inline void summarize(const InputChunk* chunk, int64_t start, int64_t stop, RowSummary* s) noexcept nogil:
    """Rows [start, stop) of consecutive chunks, which have so many."""
    cdef int64_t row, before = 0, offset, timestamp, headers, headers_end
    memset(s, 0, sizeof(RowSummary))
    while before < stop:
        row = max(start - before, 0)
        while row < min(stop - before, chunk.rows):
            offset = timestamp = ABSENT
            number(&chunk.offset, row, &offset)
            number(&chunk.timestamp, row, &timestamp)
            list_at(&chunk.headers, row, &headers, &headers_end)
            summary_add(s, offset, timestamp, headers_end - headers)
            row += 1
        before += chunk.rows
        chunk += 1
