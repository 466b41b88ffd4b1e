"""What the decoder sees in the records of a batch that Kafka accepts in silence: `_c/audit.pxd` makes notes of it when
the batch has been decoded.

    records of magic 2                       offsets, sizes, and what only these have: one pass with the columns
    inner messages of a wrapper message      offsets, sizes
"""
from libc.stdint cimport INT64_MAX, INT64_MIN, int64_t, uint8_t

cdef struct SeenRecords:
    int64_t count
    int64_t offset               # of the record that is read, or was read last
    int64_t lowest
    int64_t highest
    bint is_unordered
    int64_t unordered            # the first offset that is not above the one before it
    int64_t unordered_after      # that one
    int64_t largest              # bytes of a record, without its length; of a message, without its offset and size
    int64_t largest_offset
    # of records of magic 2
    uint8_t attributes           # all bits that are set in any
    bint not_minimal             # a varint is longer than it need be
    bint below_minus_one         # a length is below -1, which Kafka reads as null
    int64_t bad_keys             # header keys that are not UTF-8
    int64_t bad_key_records      # that have some
    int64_t bad_key_offset       # of the first of these


cdef inline void begin_records(SeenRecords* seen) noexcept nogil:
    seen[0] = SeenRecords(
        0, 0, INT64_MAX, INT64_MIN, False, 0, 0, -1, 0, 0, False, False, 0, 0, 0,
    )


cdef inline void see_offset(SeenRecords* seen, int64_t offset) noexcept nogil:
    if seen.count > 0 and offset <= seen.offset and not seen.is_unordered:
        seen.is_unordered, seen.unordered, seen.unordered_after = True, offset, seen.offset
    seen.count += 1
    seen.offset = offset
    seen.lowest, seen.highest = min(seen.lowest, offset), max(seen.highest, offset)


cdef inline void see_size(SeenRecords* seen, int64_t size) noexcept nogil:
    """Of the record with the last offset."""
    if size > seen.largest:
        seen.largest, seen.largest_offset = size, seen.offset


cdef inline void see_bad_keys(SeenRecords* seen, int64_t count) noexcept nogil:
    """Header keys of the record with the last offset."""
    if seen.bad_keys == 0:
        seen.bad_key_offset = seen.offset
    seen.bad_keys += count
    seen.bad_key_records += 1
