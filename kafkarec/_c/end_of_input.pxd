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
"""
from libc.stdint cimport INT64_MIN, int64_t

from kafkarec._c.batch cimport ABSENT, BatchRow, LARGEST_HEADER
from kafkarec._c.decode cimport Engine
from kafkarec._c.input cimport bad_until
from kafkarec._c.resync cimport LENGTH, DamageEnd, damage_end, only_zeros, search_begin
from kafkarec._c.status cimport CUT, END, LENGTH_BEYOND_END, SIZE_TOO_SMALL, UNREADABLE, length_is_proven


cdef inline void engine_begin_input(Engine* e, int64_t position) noexcept nogil:
    """Begins reading at `position` of `e.input`, which is open."""
    e.position, e.decompressed, e.reached, e.finished = position, 0, 0, False
    e.good_next = e.previous_next = INT64_MIN
    e.trusted, e.previous_epoch, e.previous_end = -1, ABSENT, position
    e.left_out[0].position = e.left_out[1].position = -1
    e.first_row = e.row_count
    e.chunks = e.stretch_used = 0
    search_begin(&e.search, e.input.size)


cdef inline void remember_good(Engine* e) noexcept nogil:
    """Saves the next offset of the last good batch, because the caller may take its row."""
    if e.row_count > e.first_row:
        e.good_next = (<BatchRow*>e.rows.data)[e.row_count - 1].next_offset


cdef inline bint unreadable_before(Engine* e, int64_t stop) noexcept nogil:
    return e.input.bad_count > 0 and bad_until(&e.input, e.position, stop) > 0


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
            and only_zeros(&e.input, e.position)):
        return ENDED
    if status[0] == END:
        status[0] = LENGTH_BEYOND_END
    if status[0] != CUT:
        return GOES_ON
    if not e.options.skip and not e.options.file_rules:
        return ENDED
    status[0] = LENGTH_BEYOND_END
    return GOES_ON if e.options.later_segment else ENDED_UNLESS_FOUND


cdef inline int refused_status(Engine* e, int status) noexcept nogil:
    """UNREADABLE where the header could not be read, otherwise `status`."""
    return UNREADABLE if unreadable_before(e, e.position + LARGEST_HEADER) else status


cdef inline DamageEnd engine_skip(Engine* e, int* status) noexcept nogil:
    """Skips the damage that begins here; returns where it ends and reading continues: found in the whole file, at most
    the end of the part that is read."""
    cdef DamageEnd end
    end.position, end.witness = e.fault.next_position, LENGTH
    remember_good(e)
    if not (length_is_proven(status[0]) and e.options.check_crc):
        end = damage_end(&e.input, &e.fault, &e.search)
        end.position = min(end.position, e.input.stop)
    if unreadable_before(e, end.position):
        status[0] = UNREADABLE
    e.position = end.position
    return end
