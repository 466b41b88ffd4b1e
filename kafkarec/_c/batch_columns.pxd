"""Columns whose value is the same for all records of a batch, made from the batch table: one value per run of rows.

    batch rows   r0 r1 r2 ...      runs   (r0, 3 rows) (r2, 2 rows) ...      column   v0 v0 v0 v2 v2

In a batch table each run is one row. `field_of` describes each column: the offset of its field in BatchRow, its width,
and when it is null.
"""
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t
from libc.string cimport memcpy

from kafkarec._c.batch cimport (
    ABSENT, BATCH_MAGIC, BatchRow, DELETE_HORIZON, increment_sequence, is_wrapper, wrapping_subtract,
)
from kafkarec._c.columns cimport Columns, Run, clear_bit, value_at

cdef enum NullRule:
    NEVER_NULL = 0
    NULL_IF_ABSENT = 1           # -1, where Kafka's accessor returns -1
    NULL_IF_WRAPPER = 2          # a wrapper's base offset is known only after decompression
    NULL_UNLESS_HORIZON = 3


cdef inline int64_t field_value(const BatchRow* row, size_t at, int width) noexcept nogil:
    cdef const uint8_t* p = <const uint8_t*>row + at
    cdef int64_t wide
    cdef int32_t word
    cdef int16_t half
    if width == 8:
        memcpy(&wide, p, 8)
        return wide
    if width == 4:
        memcpy(&word, p, 4)
        return word
    if width == 2:
        memcpy(&half, p, 2)
        return half
    return <int8_t>p[0]


cdef inline bint field_is_null(const BatchRow* row, int64_t value, int rule) noexcept nogil:
    if rule == NULL_IF_ABSENT:
        return value == ABSENT
    if rule == NULL_IF_WRAPPER:
        return is_wrapper(row)
    if rule == NULL_UNLESS_HORIZON:
        return row.magic < BATCH_MAGIC or not (row.attributes & DELETE_HORIZON)
    return False


cdef inline void store_number(uint8_t* out, int64_t i, int64_t value, int width) noexcept nogil:
    if width == 8:
        (<int64_t*>out)[i] = value
    elif width == 4:
        (<int32_t*>out)[i] = <int32_t>value
    elif width == 2:
        (<int16_t*>out)[i] = <int16_t>value
    else:
        (<int8_t*>out)[i] = <int8_t>value


cdef inline int64_t spread_field(const BatchRow* rows, const Run* runs, int64_t run_count, size_t at, int width,
                                 int rule, uint8_t* out, uint8_t* bits) noexcept nogil:
    """Fills `out`, clears the bits of nulls in `bits` (all set before) and returns the null count."""
    cdef int64_t r, i = 0, stop, value, nulls = 0
    cdef bint null
    for r in range(run_count):
        value = field_value(rows + runs[r].batch, at, width)
        null = field_is_null(rows + runs[r].batch, value, rule)
        stop = i + runs[r].rows
        if null:
            nulls += runs[r].rows
            value = 0
        while i < stop:
            store_number(out, i, value, width)
            if null:
                clear_bit(bits, i)
            i += 1
    return nulls


cdef inline void spread_flag(const BatchRow* rows, const Run* runs, int64_t run_count, int mask,
                             uint8_t* bits) noexcept nogil:
    """Fills a bool column with an attribute bit of magic 2, false for magic 0 and 1. `bits` are all set before."""
    cdef int64_t r, i = 0, stop
    cdef const BatchRow* row
    for r in range(run_count):
        row = rows + runs[r].batch
        stop = i + runs[r].rows
        if row.magic >= BATCH_MAGIC and row.attributes & mask:
            i = stop
        while i < stop:
            clear_bit(bits, i)
            i += 1


cdef inline int64_t spread_sequence(const BatchRow* rows, const Run* runs, int64_t run_count, const int64_t* offsets,
                                    int32_t* out, uint8_t* bits) noexcept nogil:
    """DefaultRecord.readFrom: the base sequence plus the offset delta; null where the base sequence is negative."""
    cdef int64_t r, i = 0, stop, nulls = 0
    cdef const BatchRow* row
    cdef int32_t sequence
    for r in range(run_count):
        row = rows + runs[r].batch
        stop = i + runs[r].rows
        while i < stop:
            sequence = ABSENT
            if row.base_sequence >= 0:
                sequence = increment_sequence(row.base_sequence,
                                              <int32_t>wrapping_subtract(offsets[i], row.base_offset))
            out[i] = sequence
            if sequence == ABSENT:
                out[i] = 0
                clear_bit(bits, i)
                nulls += 1
            i += 1
    return nulls


cdef inline int64_t spread_control_type(const BatchRow* rows, const Run* runs, int64_t run_count, int control_mask,
                                        const Columns* c, int16_t* out, uint8_t* bits) noexcept nogil:
    """The raw type id from a control record's key (int16 version, int16 type); null where the key is too short or the
    version negative, and for other records."""
    cdef int64_t r, i = 0, stop, nulls = 0, length = 0
    cdef const BatchRow* row
    cdef const uint8_t* key
    for r in range(run_count):
        row = rows + runs[r].batch
        stop = i + runs[r].rows
        while i < stop:
            key = value_at(c, &c.key, i, &length)
            out[i] = 0
            if row.magic >= BATCH_MAGIC and row.attributes & control_mask and length >= 4 and key[0] < 0x80:
                out[i] = <int16_t>(key[2] << 8 | key[3])
            else:
                clear_bit(bits, i)
                nulls += 1
            i += 1
    return nulls
