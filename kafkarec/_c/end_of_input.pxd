"""Finds the end of an input, and the end of damage in it.

    END    fewer than 12 bytes left, or 17         the end; in front of a later segment of the same log it is damage
    CUT    a batch that claims more than is left   Kafka's end; in a file, and where damage is skipped, the rest is
                                                   searched first: a batch in it makes the claim damage
    zeros  from a border to the end of a file      preallocated by the broker (log.preallocate): no damage
    unreadable bytes                               never the end

Of a part of a file, what comes behind it is looked at as well, so that its damage ends where it does in the file.

A refusal whose bytes could not be read is `unreadable`, whatever the zeros in their place look like.
"""
from libc.stdint cimport INT64_MIN, int64_t

from kafkarec._c.batch cimport BatchRow, V2_OVERHEAD
from kafkarec._c.decode cimport Engine
from kafkarec._c.input cimport bad_until
from kafkarec._c.resync cimport damage_end, only_zeros, search_begin, search_on
from kafkarec._c.status cimport CRC_MISMATCH, CUT, END, LENGTH_BEYOND_END, SIZE_TOO_SMALL, UNREADABLE


cdef inline void engine_begin_input(Engine* e, int64_t position) noexcept nogil:
    """`e.input` is open: reading begins at `position`."""
    e.position, e.decompressed, e.reached, e.finished = position, 0, 0, False
    e.good_next = INT64_MIN
    e.first_row = e.row_count
    e.chunks = 0
    search_begin(&e.search, e.input.whole)


cdef inline void remember_good(Engine* e) noexcept nogil:
    """Saves the last good batch of the input, to which the search compares candidates: its row may be removed."""
    if e.row_count > e.first_row:
        e.good_next = (<BatchRow*>e.rows.data)[e.row_count - 1].next_offset
    e.search.good_next = e.good_next


cdef inline int64_t damage_end_of(Engine* e) noexcept nogil:
    """Where the damage that begins here ends, as in the whole file; within this part of it."""
    cdef int64_t length = e.input.length, found
    e.input.length = e.input.whole
    found = damage_end(&e.input, &e.fault, &e.search)
    e.input.length = length
    return found if found < length else length


cdef inline bint batch_behind(Engine* e) noexcept nogil:
    """Whether a batch follows anywhere after this one's first byte."""
    cdef int64_t length = e.input.length, found
    e.input.length = e.input.whole
    found = search_on(&e.input, e.position + 1, &e.search)
    e.input.length = length
    return found < e.input.whole


cdef inline bint unreadable_before(Engine* e, int64_t stop) noexcept nogil:
    return e.input.bad_count > 0 and bad_until(&e.input, e.position, stop) > 0


cdef inline bint engine_ended(Engine* e, int* status) noexcept nogil:
    """Whether reading ends here for good; else `status` may have become a refusal."""
    cdef bint nothing_left = e.position >= e.input.length
    if e.finished or nothing_left:
        return True
    if unreadable_before(e, e.input.length):
        if status[0] == END or status[0] == CUT:
            status[0] = UNREADABLE
        return False
    if status[0] == END and not e.options.later_segment:
        return True
    if (status[0] == SIZE_TOO_SMALL or status[0] == END) and e.options.file_rules and only_zeros(&e.input, e.position):
        return True
    if status[0] == END:
        status[0] = LENGTH_BEYOND_END
    if status[0] != CUT:
        return False
    if not e.options.skip and not e.options.file_rules:
        return True
    remember_good(e)
    status[0] = LENGTH_BEYOND_END
    if batch_behind(e) or e.options.later_segment:
        return False
    return not unreadable_before(e, e.input.length)


cdef inline int refused_status(Engine* e, int status) noexcept nogil:
    """A refusal is `unreadable` where its header could not be read."""
    return UNREADABLE if unreadable_before(e, e.position + V2_OVERHEAD) else status


cdef inline int64_t engine_skip(Engine* e, int* status) noexcept nogil:
    """Where the damage that begins here ends: reading goes on there."""
    cdef int64_t end = e.fault.next_position
    remember_good(e)
    if not (CRC_MISMATCH < status[0] < UNREADABLE and e.options.check_crc):   # else its CRC vouches for the claim
        end = damage_end_of(e)
    if unreadable_before(e, end):
        status[0] = UNREADABLE
    e.position = end
    return end
