"""Where reading goes on after damage.

    |--- good ---|xxxxxxx damage xxxxxxx|--- good ---|        damage + batches + tail tile the input

1. The claim first. Where the bytes behind the damaged batch's claimed length are a batch that checks out, or the end,
   the whole claim is the damage and nothing inside it is looked at: a value may itself hold batches. Several damaged
   batches in a row are followed claim by claim, as long as their offsets go up, until one checks out.
2. Else byte by byte, always with CRC. A candidate whose base offset is below the last good next offset (a batch inside
   of a value, most likely) counts only when a batch checks out behind it too.

Work is bounded: all CRCs of all searches together read at most 8 bytes per byte of input, so crafted lengths cannot make
it quadratic; and what one search found empty is not searched again.
"""
from libc.stdint cimport INT64_MIN, int8_t, int64_t, uint8_t

from kafkarec._c.batch cimport (
    BatchRow, LATEST_MAGIC, LOG_OVERHEAD, MAGIC_OFFSET, UP_TO_MAGIC, check_crc, read_batch,
)
from kafkarec._c.status cimport CUT, END, Fault, OK

cdef enum:
    CRC_BUDGET = 8               # bytes of CRC work per byte of input
    MOST_CLAIMS = 64             # damaged batches in a row that are followed by their claims

cdef struct Search:
    int64_t crc_left             # bytes of CRC work that are left
    int64_t barren_from          # no batch begins in [barren_from, barren_to)
    int64_t barren_to
    int64_t good_next            # next offset of the last good batch, INT64_MIN before the first


cdef inline void search_begin(Search* search, int64_t length) noexcept nogil:
    search.crc_left = length * CRC_BUDGET + 4096
    search.barren_from = 0
    search.barren_to = 0
    search.good_next = INT64_MIN


cdef inline bint checks_out(const uint8_t* base, int64_t length, int64_t position, Search* search,
                            BatchRow* row) noexcept nogil:
    """A whole batch begins here and its checksum holds."""
    cdef Fault fault
    if read_batch(base, length, position, row, &fault) != OK:
        return False
    if row.size_in_bytes > search.crc_left:
        return False
    search.crc_left -= row.size_in_bytes
    return check_crc(base, row, &fault) == OK


cdef inline bint ends_at(int64_t length, int64_t position) noexcept nogil:
    return length - position < LOG_OVERHEAD


cdef inline bint claims_lead_on(const uint8_t* base, int64_t length, int64_t position, int64_t offset,
                                Search* search) noexcept nogil:
    """From `position`, claim after claim with rising offsets, to a batch that checks out or to the end."""
    cdef BatchRow row
    cdef Fault fault
    cdef int hops
    for hops in range(MOST_CLAIMS):
        if ends_at(length, position):
            return True
        if read_batch(base, length, position, &row, &fault) != OK:
            return False
        if row.size_in_bytes <= search.crc_left:
            search.crc_left -= row.size_in_bytes
            if check_crc(base, &row, &fault) == OK:
                return True
        if row.base_offset < offset:
            return False
        offset = row.base_offset + 1 if row.base_offset < row.last_offset else row.last_offset
        position += row.size_in_bytes
    return False


cdef inline bint acceptable(const uint8_t* base, int64_t length, int64_t position, Search* search) noexcept nogil:
    cdef BatchRow row, behind
    if not checks_out(base, length, position, search, &row):
        return False
    if row.base_offset >= search.good_next:
        return True
    return checks_out(base, length, position + row.size_in_bytes, search, &behind)


cdef inline int64_t search_on(const uint8_t* base, int64_t length, int64_t position, Search* search) noexcept nogil:
    """The first byte from `position` on where a batch begins that counts; `length` when there is none."""
    cdef int64_t start = position
    cdef uint8_t high
    if search.barren_from <= position < search.barren_to:
        position = search.barren_to
    while length - position >= UP_TO_MAGIC and search.crc_left > 0:
        # the two cheapest looks first: magic 0 to 2, a size whose first byte is no sign bit
        high = base[position + 8]
        if base[position + MAGIC_OFFSET] <= LATEST_MAGIC and high < 0x80:
            if acceptable(base, length, position, search):
                search.barren_from = start
                search.barren_to = position
                return position
        position += 1
    search.barren_from = start
    search.barren_to = length
    return length


cdef inline int64_t damage_end(const uint8_t* base, int64_t length, const Fault* fault, Search* search) noexcept nogil:
    """Where the damage that begins at fault.position ends: the next batch, or the end of the input."""
    cdef int64_t claimed = fault.next_position
    cdef int64_t found
    if claimed > fault.position and claims_lead_on(base, length, claimed, fault.base_offset, search):
        return claimed
    found = search_on(base, length, fault.position + 1, search)
    if found < length or claimed < 0:
        return found
    return claimed               # nothing follows: the claim alone is damage, what is behind it is judged by itself


cdef inline bint only_zeros(const uint8_t* base, int64_t length, int64_t position) noexcept nogil:
    while position < length:
        if base[position] != 0:
            return False
        position += 1
    return True
