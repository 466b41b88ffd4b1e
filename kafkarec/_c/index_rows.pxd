"""Which batches of a segment get an entry in its indexes: LogSegment.recover() of Kafka 4.3, see
`state/index_builders.py`.

    row                r0   r1   r2 ...        IndexState   what the rows so far leave
    take_index_row     0    0    ENTRY | TIME  what follows from a row, nearly always nothing
"""
from libc.stdint cimport INT32_MAX, int64_t, uint64_t

from kafkarec._c.batch cimport ABSENT, BatchRow

cdef enum IndexEvent:
    ENTRY = 1                    # an entry of the .index: (last_offset, row.position)
    TIME = 2                     # an entry of the .timeindex: (largest, largest_offset)
    EPOCH = 4                    # a higher leader epoch than all before
    FAR = 8                      # the batch does not fit an entry, and is left out
    ORDER = 16                   # no entry: its offset is not above that of the last one
    TIME_ORDER = 32              # no entry: the offset of the largest timestamp is below that of the last one

cdef struct IndexState:
    int64_t base                 # of the segment
    int64_t interval             # index.interval.bytes
    int64_t position             # of the last batch for which an entry was due
    int64_t last_offset          # of the last entry
    int64_t largest              # the largest timestamp, and the last offset of the first batch with it
    int64_t largest_offset
    int64_t written              # the same, of the last time entry
    int64_t written_offset
    int64_t epoch                # the highest one; ABSENT or above


cdef inline int time_event(const IndexState* s) noexcept nogil:
    """TIME, TIME_ORDER, or 0: the largest timestamp has an entry already."""
    if s.largest <= s.written:
        return 0
    return TIME_ORDER if s.largest_offset < s.written_offset else TIME


cdef inline int take_index_row(IndexState* s, const BatchRow* row) noexcept nogil:
    """The events of a row."""
    cdef int events = 0
    if (row.last_offset < s.base or <uint64_t>row.last_offset - <uint64_t>s.base > <uint64_t>INT32_MAX
            or row.position > INT32_MAX):
        return FAR
    if row.max_timestamp > s.largest:
        s.largest, s.largest_offset = row.max_timestamp, row.last_offset
    if row.position - s.position > s.interval:
        s.position = row.position
        if row.last_offset > s.last_offset:
            s.last_offset = row.last_offset
            events = ENTRY | time_event(s)
            if events & TIME:
                s.written, s.written_offset = s.largest, s.largest_offset
        else:
            events = ORDER
    if row.partition_leader_epoch > s.epoch:
        s.epoch = row.partition_leader_epoch
        events |= EPOCH
    return events
