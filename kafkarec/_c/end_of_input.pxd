"""Finds the end of an input, and the end of damage in it.

    END    fewer than 12 bytes left, or 17             the end; damage if a later segment of the same log exists
    CUT    a batch length beyond the end               the end for Kafka; in a file, and where damage is skipped, the
                                                       rest is searched for a batch first: if there is one, damage
    zeros  from the end of a batch to that of a file   preallocated by the broker (log.preallocate): not damage, except
                                                       if a later segment exists: the broker trims what it rolls
    unreadable bytes                                   never the end

When only a part of a file is read, the search also covers the bytes after it, so that damage ends where it ends in the
whole file.

A batch that is refused because its bytes could not be read is `unreadable`, whatever the zeros in their place mean.

Where a batch ends whose length, and of magic 2 whose magic, cannot be trusted: what its own bytes say.

    a message of magic 0 or 1     the lengths of its key and its value
    magic 2, not compressed       its records, as many as the header counts
    magic 2, compressed           the only end at which the checksum is the stored one; it is not looked for behind
                                  the stated length if a batch begins there: then not the length is wrong

The caller checks checksum and records of the batch that begins and ends there: these functions only find its end. The
header of magic 2 from byte 17 on is covered by the checksum.
"""
from libc.stdint cimport INT64_MIN, int64_t, uint32_t, uint8_t
from libc.string cimport memset

from kafkarec._c.batch cimport (
    ABSENT, BATCH_MAGIC, CODEC_MASK, LOG_OVERHEAD, MAGIC_OFFSET, UP_TO_MAGIC, V2_ATTRIBUTES_OFFSET, V2_OVERHEAD,
    BatchRow, read_v2_header, wrapping_subtract,
)
from kafkarec._c.decode cimport Engine
from kafkarec._c.input cimport Input, bytes_at_once, peek, reach, unreadable_end, zeros_end
from kafkarec._c.numbers cimport load_i32, load_i64
from kafkarec._c.record_walk cimport LEAST_BODY
from kafkarec._c.resync cimport (
    LENGTH, DamageEnd, Search, begin_search, damage_end, far_above, field_end, frame_follows, looks_plausible,
    peek_plausible, read_varint_at,
)
from kafkarec._c.status cimport CUT, END, LENGTH_BEYOND_END, OK, SIZE_TOO_SMALL, UNREADABLE, length_is_proven
from kafkarec._core cimport crc32c_on

cdef inline void engine_begin_input(Engine* e, int64_t position) noexcept nogil:
    """Begins reading at `position` of `e.input`, which is open."""
    e.position, e.decompressed, e.reached, e.finished = position, 0, 0, False
    e.good_next = e.previous_next = INT64_MIN
    e.trusted, e.previous_epoch, e.previous_end = -1, ABSENT, position
    e.left_out[0].position = e.left_out[1].position = -1
    e.first_row = e.row_count
    e.chunks = e.stretch_used = 0
    begin_search(&e.search, e.input.size)


cdef inline void save_good_next(Engine* e) noexcept nogil:
    """Saves the next offset of the last good batch, because the caller may take its row."""
    if e.row_count > e.first_row:
        e.good_next = (<BatchRow*>e.rows.data)[e.row_count - 1].next_offset


cdef inline bint unreadable_before(Engine* e, int64_t stop) noexcept nogil:
    return unreadable_end(&e.input, e.position, stop) > 0


cdef enum Ending:
    GOES_ON
    ENDED
    ENDED_UNLESS_FOUND           # the end, unless a search finds a batch after it

cdef inline Ending engine_ended(Engine* e, int* status) noexcept nogil:
    """Whether the input ends here. If it goes on, `status` is a refusal, or is set to one."""
    cdef bint nothing_left = e.position >= e.input.stop
    e.finished = e.finished or e.is_above
    if e.finished or nothing_left:
        return ENDED
    if unreadable_before(e, e.input.stop):
        if status[0] == END or status[0] == CUT:
            status[0] = UNREADABLE
        return GOES_ON
    if status[0] == END and not e.options.later_segment:
        return ENDED
    if ((status[0] == SIZE_TOO_SMALL or status[0] == END) and e.options.file_rules and not e.options.later_segment
            and zeros_end(&e.input, e.position) == e.input.stop):
        return ENDED
    if status[0] == END:
        status[0] = LENGTH_BEYOND_END
    if status[0] != CUT:
        return GOES_ON
    if not e.options.skip and not e.options.file_rules:
        return ENDED
    status[0] = LENGTH_BEYOND_END
    return GOES_ON if e.options.later_segment else ENDED_UNLESS_FOUND


cdef inline DamageEnd engine_skip(Engine* e, int* status) noexcept nogil:
    """Skips the damage that begins here; returns where it ends and reading continues: found in the whole file, at most
    the end of the part that is read."""
    cdef DamageEnd end
    end.position, end.witness = e.fault.next_position, LENGTH
    save_good_next(e)
    if not (length_is_proven(status[0]) and e.options.check_crc):
        end = damage_end(&e.input, &e.fault, &e.search)
        end.position = min(end.position, e.input.stop)
    if unreadable_before(e, end.position):
        status[0] = UNREADABLE
    e.position = end.position
    return end


# ---- where a batch ends by its own bytes

cdef enum:
    MOST_CRC_BYTES = 1 << 26     # of a compressed batch


cdef inline int64_t records_end(Input* source, int64_t position, int64_t count) noexcept nogil:
    """The end of `count` records; -1: they are no records, or do not end."""
    cdef int64_t length = 0
    while count > 0:
        if read_varint_at(source, &position, True, &length) != OK or length < LEAST_BODY:
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
        n = bytes_at_once(source, stop - at)
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


cdef inline bint is_plausible_v2(Input* source, int64_t position, BatchRow* row) noexcept nogil:
    """Whether the header here, as one of magic 2 and of any length, has plausible fields, which it fills in. The base
    offset may be wrong: as if it were 0, last_offset is the last offset delta; next_offset is as stored."""
    memset(row, 0, sizeof(BatchRow))
    if source.size - position < V2_OVERHEAD:
        return False
    row.magic, row.position = BATCH_MAGIC, position
    read_v2_header(peek(source, position, V2_OVERHEAD), row)
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
    cdef int64_t base
    if peek_plausible(source, position, &row) and frame_follows(source, position + row.size_in_bytes):
        return True
    if not is_plausible_v2(source, position, &row):
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
        if not is_plausible_v2(source, batch, &row):
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
