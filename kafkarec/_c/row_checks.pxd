"""What follows from one batch to the next: one pass over the rows of a step finds the unusual ones, so that Python
looks only at those (`ops/verify`).

    row          r0   r1   r2 ...            RowState   what the row before leaves, and sums over all rows
    index entry  (place, value)              place: a batch's position, or its last offset; ascending

Which batches of a segment get an entry in its indexes: LogSegment.recover() of Kafka 4.3, see
`state/index_builders.py`.

    row          r0   r1   r2 ...            IndexState   what the rows so far leave
"""
from libc.stdint cimport int64_t, uint32_t, uint64_t

from kafkarec._c.batch cimport ABSENT, BATCH_MAGIC, CODEC_MASK, CONTROL, DELETE_HORIZON, BatchRow, is_wrapper
from kafkarec._c.resync cimport OFFSET_JUMP

# ---- from one batch to the next

cdef enum RowFlag:
    APART = 1                    # a batch does not begin where the one before ends
    GAP = 2                      # offsets are missing before a batch
    OFFSETS = 4                  # offsets that are lower, far above, or above those of the next batch
    EPOCH = 8                    # another leader epoch than that of the batch before
    HEADER = 16                  # a header field may have a value that no writer writes
    EMPTIED = 32                 # a control batch without records, as the log cleaner leaves a marker

cdef enum:
    MAX_WIDTH = (1 << 30) - 1    # ops.convert.target.WIDEST

cdef struct RowState:
    int64_t end                  # where the last batch ends
    int64_t next_offset          # the offset after all batches
    int64_t epoch                # of the last batch
    int64_t batches
    int64_t records              # as the batches declare them
    int64_t bytes
    int64_t largest              # size of the largest batch
    int64_t signs_of_cleaning    # empty batches, batches with fewer records than offsets, delete horizons
    bint rising                  # offsets must ascend, as in a segment of a log

cdef struct EntryCursor:         # what an index was compared with so far
    int64_t at                   # the next entry
    int64_t last                 # the last offset of the last batch; with `any`
    int64_t largest              # the largest timestamp; with `any`
    bint any


cdef inline bint has_odd_header(const BatchRow* row, int64_t offsets) noexcept nogil:
    cdef int unused = 0xFF80 if row.magic >= BATCH_MAGIC else 0xF0 if row.magic == 1 else 0xF8
    return (
        row.attributes & unused != 0 or row.base_offset < 0 or row.base_timestamp < ABSENT or
        row.max_timestamp < ABSENT or row.producer_id < ABSENT or row.base_sequence < ABSENT or
        row.partition_leader_epoch < ABSENT or row.record_count > offsets or
        (row.producer_id >= 0 and row.base_sequence == ABSENT and not row.attributes & CONTROL)
    )


cdef inline int offset_flag(const BatchRow* row, const BatchRow* following, int64_t expected) noexcept nogil:
    """0, GAP or OFFSETS for a batch that begins elsewhere than at `expected`. following: NULL after the last row."""
    if is_wrapper(row):
        return OFFSETS if row.last_offset < expected else 0
    if row.base_offset < expected or row.base_offset - expected > OFFSET_JUMP:
        return OFFSETS
    if following != NULL and not is_wrapper(following) and expected <= following.base_offset < row.next_offset:
        return OFFSETS
    return GAP


cdef inline int check_rows(RowState* s, const BatchRow* rows, int64_t count, int64_t* gaps,
                           int64_t* gap_count) noexcept nogil:
    """The flags of all rows together. gaps: gets the indexes of the rows with GAP; room for all rows."""
    cdef int flags = 0, flag
    cdef int64_t i, offsets
    cdef const BatchRow* row
    for i in range(count):
        row = rows + i
        offsets = 1 if is_wrapper(row) else row.last_offset - row.base_offset + 1
        if row.position != s.end:
            flags |= APART
        if row.partition_leader_epoch != s.epoch:
            flags |= EPOCH
        if has_odd_header(row, offsets):
            flags |= HEADER
        if row.record_count == 0 and row.attributes & CONTROL:
            flags |= EMPTIED
        if s.batches == 0:
            s.next_offset = row.last_offset if is_wrapper(row) else row.base_offset
        if row.base_offset != s.next_offset:
            flag = offset_flag(row, rows + i + 1 if i + 1 < count else NULL, s.next_offset)
            flags |= flag
            if flag == GAP:
                gaps[gap_count[0]] = i
                gap_count[0] += 1
        s.end = row.position + row.size_in_bytes
        s.epoch = row.partition_leader_epoch
        s.next_offset = max(s.next_offset, row.next_offset) if s.rising else row.next_offset
        s.batches += 1
        s.bytes += row.size_in_bytes
        s.records += 1 if row.record_count == ABSENT else row.record_count
        s.largest = max(s.largest, <int64_t>row.size_in_bytes)
        s.signs_of_cleaning += row.record_count != ABSENT and row.record_count < offsets
        if row.magic >= BATCH_MAGIC:
            s.signs_of_cleaning += row.attributes & DELETE_HORIZON != 0
    return flags


cdef inline bint is_joinable_message(const BatchRow* row) noexcept nogil:
    return row.magic < BATCH_MAGIC and row.attributes & CODEC_MASK == 0 and row.max_timestamp >= ABSENT


cdef inline bint fits_one_batch(const BatchRow* first, const BatchRow* before, const BatchRow* row) noexcept nogil:
    """Whether one batch can hold the plain messages from `first` to `before` and the next one."""
    return (
        is_joinable_message(first) and is_joinable_message(row) and row.magic == first.magic and
        row.timestamp_type == first.timestamp_type and row.position == before.position + before.size_in_bytes and
        row.last_offset > before.last_offset and
        <uint64_t>row.last_offset - <uint64_t>first.last_offset <= <uint64_t>MAX_WIDTH and
        (row.timestamp_type != 1 or row.max_timestamp == first.max_timestamp)
    )


cdef inline uint64_t batch_hash(int64_t last_offset, uint32_t crc, int64_t size) noexcept nogil:
    """32 bits by which a batch that was written is compared with the one that was planned."""
    cdef uint64_t factor = 0x1E3779B97F4A7C15
    cdef uint64_t mixed = ((<uint64_t>last_offset * factor + crc) * factor) + <uint64_t>size
    mixed = (mixed ^ mixed >> 32) * factor
    return mixed >> 32


cdef inline bint pass_matching_entries(EntryCursor* f, const BatchRow* rows, int64_t count, const int64_t* places,
                                       const int64_t* values, int64_t entries, int64_t base,
                                       bint by_time) noexcept nogil:
    """Passes over the entries of an index up to the last row, if each is that of a batch: its position and last offset,
    or its last offset and the largest timestamp up to it. False, and nothing is passed over, if one is not.

    base: of the segment, to which the stored offsets are relative
    """
    cdef EntryCursor now = f[0]
    cdef int64_t i, offset, place, value
    for i in range(count):
        offset = rows[i].last_offset
        if offset < base or (now.any and offset <= now.last):
            return False
        if by_time:
            if rows[i].max_timestamp == ABSENT:
                return False
            if not now.any or rows[i].max_timestamp > now.largest:
                now.largest = rows[i].max_timestamp
        now.last, now.any = offset, True
        place = offset - base if by_time else rows[i].position
        value = now.largest if by_time else offset - base
        while now.at < entries and places[now.at] <= place:
            if places[now.at] != place or values[now.at] != value:
                return False
            now.at += 1
    f[0] = now
    return True


# ---- entries of indexes

cdef enum IndexProblem:          # why a batch has no entry
    FAR                          # it does not fit one
    ORDER                        # its offset is not above that of the last one
    TIME_ORDER                   # the offset of the largest timestamp is below that of the last one

cdef struct IndexState:
    int64_t base                 # of the segment
    int64_t interval             # index.interval.bytes
    int64_t position             # of the last batch for which an entry was due
    int64_t last_offset          # of the last entry
    int64_t largest              # the largest timestamp, and the last offset of the first batch with it
    int64_t largest_offset
    int64_t written              # the same, of the last time entry
    int64_t written_offset
