"""Where a batch ends whose length, and of magic 2 whose magic, cannot be trusted: what its own bytes say.

    a message of magic 0 or 1     the lengths of its key and its value
    magic 2, not compressed       its records, as many as the header counts
    magic 2, compressed           the only end at which the checksum is the stored one; it is not looked for behind
                                  the stated length if a batch begins there: then not the length is wrong

The caller checks checksum and records of the batch that begins and ends there: these functions only find its end. The
header of magic 2 from byte 17 on is covered by the checksum.
"""
from libc.stdint cimport int64_t, uint8_t, uint32_t
from libc.string cimport memset

from kafkarec._c.batch cimport (
    BATCH_MAGIC, CODEC_MASK, FOR_PEEK, LOG_OVERHEAD, MAGIC_OFFSET, UP_TO_MAGIC, V2_ATTRIBUTES_OFFSET, V2_OVERHEAD,
    BatchRow, read_batch, read_v2, wrapping_subtract,
)
from kafkarec._c.endian cimport load_i32, load_i64
from kafkarec._c.input cimport Input, peek, piece_size, reach
from kafkarec._c.record_walk cimport LEAST_BODY
from kafkarec._c.resync cimport Search, far_above, field_end, frame_follows, looks_plausible, read_field
from kafkarec._c.status cimport Fault, OK
from kafkarec._core cimport crc32c_on

cdef enum:
    MOST_CRC_BYTES = 1 << 26     # of a compressed batch


cdef inline int64_t records_end(Input* source, int64_t position, int64_t count) noexcept nogil:
    """The end of `count` records; -1: they are no records, or do not end."""
    cdef int64_t length = 0
    while count > 0:
        if read_field(source, &position, True, &length) != OK or length < LEAST_BODY:
            return -1
        if length > source.size - position:
            return -1
        position += length
        count -= 1
    return position


cdef inline int64_t checksum_end(Input* source, int64_t batch, uint32_t stored, int64_t stop,
                                 Search* search) noexcept nogil:
    """The first position up to `stop` at which the batch's CRC-32C is the stored one; -1: there is none."""
    cdef int64_t at = batch + V2_ATTRIBUTES_OFFSET, n, i
    cdef uint32_t crc
    cdef const uint8_t* p
    cdef bint is_limited = False
    if stop > batch + MOST_CRC_BYTES:
        stop = batch + MOST_CRC_BYTES
    if stop - batch > search.ends_left:
        stop, is_limited = batch + search.ends_left, True
    if stop - batch < V2_OVERHEAD:
        search.limited |= is_limited
        return -1
    n = V2_OVERHEAD - V2_ATTRIBUTES_OFFSET
    crc = crc32c_on(0, peek(source, at, n), <size_t>n)
    at += n
    while crc != stored and at < stop:
        n = piece_size(source, stop - at)
        p = reach(source, at, n)
        if p == NULL:
            return -1
        i = 0
        while i < n and crc != stored:
            crc = crc32c_on(crc, p + i, 1)
            i += 1
        at += i
        search.ends_left -= i
    if crc == stored:
        return at
    search.limited |= is_limited
    return -1


cdef inline bint plausible_v2(Input* source, int64_t position, BatchRow* row) noexcept nogil:
    """Whether the header here, as one of magic 2 and of any length, has plausible fields, which it fills in. The base
    offset may be wrong: as if it were 0, last_offset is the last offset delta; next_offset is as stored."""
    memset(row, 0, sizeof(BatchRow))
    if source.size - position < V2_OVERHEAD:
        return False
    row.magic, row.position = BATCH_MAGIC, position
    read_v2(peek(source, position, V2_OVERHEAD), row)
    row.last_offset = wrapping_subtract(row.last_offset, row.base_offset)
    row.base_offset = 0
    row.codec = row.attributes & CODEC_MASK
    return looks_plausible(source, row)


cdef inline int64_t stated_end(Input* source, int64_t batch) noexcept nogil:
    """Where the batch ends by its length, which may be wrong."""
    return batch + LOG_OVERHEAD + load_i32(peek(source, batch + LOG_OVERHEAD - 4, 4))


cdef inline bint next_begins(Input* source, int64_t position, int64_t next_offset) noexcept nogil:
    """Whether the batch after one with this next offset seems to begin here: a batch that another frame follows, or a
    header of magic 2 with such an offset, of which either magic or length fits."""
    cdef BatchRow row
    cdef Fault fault
    cdef int64_t base
    if (read_batch(source, position, source.size, FOR_PEEK, &row, &fault) == OK and looks_plausible(source, &row)
            and frame_follows(source, position + row.size_in_bytes)):
        return True
    if not plausible_v2(source, position, &row):
        return False
    base = load_i64(peek(source, position, 8))
    return next_offset <= base and not far_above(base, next_offset) and (
        peek(source, position + MAGIC_OFFSET, 1)[0] == BATCH_MAGIC
        or position + V2_OVERHEAD <= stated_end(source, position) <= source.size
    )


cdef inline int64_t end_by_content(Input* source, int64_t batch, int magic, int64_t stop,
                                   Search* search) noexcept nogil:
    """The end of the batch by its own bytes; -1: none. stop: where reading could go on after the damage."""
    cdef BatchRow row
    cdef int64_t end
    if magic == BATCH_MAGIC:
        if not plausible_v2(source, batch, &row):
            return -1
        if row.codec == 0:
            return records_end(source, batch + V2_OVERHEAD, row.record_count)
        end = stated_end(source, batch)
        if batch + V2_OVERHEAD <= end < stop and next_begins(source, end, row.next_offset):
            stop = end
        return checksum_end(source, batch, row.crc, stop, search)
    end = batch + UP_TO_MAGIC + (9 if magic == 1 else 1)
    end = field_end(source, field_end(source, end, source.size), source.size)
    return end if end <= source.size else -1
