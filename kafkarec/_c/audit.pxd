"""The audit: notes for each decoded batch what Kafka's readers accept without an error and `verify` reports.

    outer message of magic 0, 1 -> compressed stream -> records of magic 2, or inner messages -> accept
    audit_message                  note_stream         note_records, audit_inner                keep_notes

Of records of magic 2 it takes what the decoder has seen. Messages of magic 0 and 1 it reads in memory, after the batch
was decoded, and decompresses nothing: a caller's buffer may have changed since, so it checks its own bounds; where they
do not hold it stops, with no note.

A note is a kind, how often it was seen in the batch, and up to three numbers of the first time.
`kafkarec/ops/verify/batch_checks.py` has a row for each kind, in this order.
"""
from libc.stdint cimport INT64_MAX, int64_t, uint8_t, uint32_t

from kafkarec._c.batch cimport (
    BATCH_MAGIC, CODEC_MASK, LOG_APPEND_TIME, LOG_OVERHEAD, MAGIC_OFFSET, UP_TO_MAGIC, BatchRow, wrapping_add,
    wrapping_subtract,
)
from kafkarec._c.columns cimport Buffer, Columns, buffer_reserve
from kafkarec._c.numbers cimport load_i32, load_i64
from kafkarec._c.message cimport Message, next_inner, read_message
from kafkarec._c.seen_records cimport SeenRecords, begin_records, see_offset, see_size
from kafkarec._c.status cimport OK, Fault

cdef enum Anomaly:
    # offsets of a batch's records: first one at or below its predecessor, predecessor; lowest, highest
    RECORD_OFFSETS_UNORDERED
    RECORD_OFFSET_OUTSIDE
    INNER_OFFSETS_UNORDERED
    INNER_OFFSET_ABOVE_WRAPPER           # highest
    # records of magic 2
    HEADER_KEY_NOT_UTF8                  # counts keys; offset of the first record, number of records
    RECORD_LENGTH_BELOW_MINUS_ONE
    RECORD_ATTRIBUTES_SET
    VARINT_NOT_MINIMAL
    # a batch that declares no records: bytes that it holds
    RECORDS_NOT_DECLARED
    PAYLOAD_NO_STREAM
    # compressed streams: bytes; streams
    STREAM_TRAILING_BYTES
    STREAMS_SEVERAL
    LZ4_CHECKSUM_WRONG
    LZ4_SIZE_WRONG
    # messages of magic 0 and 1
    MESSAGE_LENGTH_BELOW_MINUS_ONE       # length
    MESSAGE_TRAILING_BYTES               # bytes
    INNER_ATTRIBUTES_SET                 # attributes
    INNER_MAGIC_DIFFERS                  # index of the inner message, its magic
    INNER_TRUNCATED                      # index, its size field, bytes left
    INNER_TRAILING_BYTES                 # bytes, index of the last inner message
    LARGEST_RECORD                       # larger than all before it in the chunk: bytes, offset. No anomaly
    ANOMALIES                            # how many there are

cdef struct Note:
    int64_t batch                # index of a BatchRow
    int64_t kind                 # Anomaly
    int64_t count
    int64_t a
    int64_t b
    int64_t c

# notes: those of the batch that is being read, by kind; bits in `found` say which are set
cdef struct Audit:
    uint32_t found
    Note notes[ANOMALIES]
    Buffer kept                  # Note[kept_count] of the accepted batches, by batch
    int64_t kept_count
    int64_t largest              # bytes of a record, without its length; of a message, without its offset and size
    SeenRecords seen             # in the batch that is being read
    Columns no_columns           # for the records of data batches


cdef inline void note(Audit* audit, Anomaly kind, int64_t a, int64_t b, int64_t c) noexcept nogil:
    cdef Note* at = audit.notes + <int>kind
    if audit.found >> <int>kind & 1:
        at.count += 1
        return
    audit.found |= <uint32_t>1 << <int>kind
    at.kind, at.count, at.a, at.b, at.c = <int>kind, 1, a, b, c


cdef inline int keep_notes(Audit* audit, int64_t batch) noexcept nogil:
    """The notes of a batch that is accepted as row `batch` join those that are kept."""
    cdef size_t used = <size_t>audit.kept_count * sizeof(Note)
    cdef int kind
    cdef int status = buffer_reserve(&audit.kept, used, used + ANOMALIES * sizeof(Note))
    if status != OK:
        return status
    for kind in range(<int>ANOMALIES):
        if audit.found >> kind & 1:
            audit.notes[kind].batch = batch
            (<Note*>audit.kept.data)[audit.kept_count] = audit.notes[kind]
            audit.kept_count += 1
    return OK


# ---- records

cdef inline void note_largest_record(Audit* audit, int64_t size, int64_t offset) noexcept nogil:
    if size > audit.largest:
        audit.largest = size
        note(audit, LARGEST_RECORD, size, offset, 0)


cdef inline void note_offsets(Audit* audit, const SeenRecords* seen, Anomaly unordered) noexcept nogil:
    note_largest_record(audit, seen.largest, seen.largest_offset)
    if seen.is_unordered:
        note(audit, unordered, seen.unordered, seen.unordered_after, 0)


cdef inline void note_records(Audit* audit, const BatchRow* row, const SeenRecords* seen) noexcept nogil:
    """The records of a batch of magic 2."""
    note_offsets(audit, seen, RECORD_OFFSETS_UNORDERED)
    if seen.bad_keys > 0:
        note(audit, HEADER_KEY_NOT_UTF8, seen.bad_key_offset, seen.bad_key_records, 0)
        audit.notes[<int>HEADER_KEY_NOT_UTF8].count = seen.bad_keys
    if seen.below_minus_one:
        note(audit, RECORD_LENGTH_BELOW_MINUS_ONE, 0, 0, 0)
    if seen.attributes != 0:
        note(audit, RECORD_ATTRIBUTES_SET, 0, 0, 0)
    if seen.not_minimal:
        note(audit, VARINT_NOT_MINIMAL, 0, 0, 0)
    if seen.lowest < row.base_offset or seen.highest > row.last_offset:
        note(audit, RECORD_OFFSET_OUTSIDE, seen.lowest, seen.highest, 0)


# ---- messages of magic 0 and 1

cdef inline void audit_message(Audit* audit, const uint8_t* p, int64_t size) noexcept nogil:
    """One whole message that was read: its lengths, and bytes after its value."""
    cdef Message m
    cdef Fault fault
    cdef int64_t left
    if read_message(p, size, &m, &fault) != OK:
        return
    if m.key_length < -1:
        note(audit, MESSAGE_LENGTH_BELOW_MINUS_ONE, m.key_length, 0, 0)
    if m.value_length < -1:
        note(audit, MESSAGE_LENGTH_BELOW_MINUS_ONE, m.value_length, 0, 0)
    left = p + size - m.value - (m.value_length if m.value_length > 0 else 0)
    if left > 0:
        note(audit, MESSAGE_TRAILING_BYTES, left, 0, 0)


cdef inline void audit_inner(Audit* audit, const BatchRow* row, const uint8_t* p, const uint8_t* end) noexcept nogil:
    """The inner messages of a wrapper, p..end being its decompressed value."""
    cdef SeenRecords seen
    cdef Fault fault
    cdef const uint8_t* at = p
    cdef int64_t size = 0, number = 0, shift = 0
    cdef uint8_t magic, used
    begin_records(&seen)
    while next_inner(&p, end, INT64_MAX, &at, &size, &fault) == OK and size > 0:
        if number == 0:
            shift = wrapping_subtract(row.first_offset, load_i64(at))
        see_offset(&seen, wrapping_add(shift, load_i64(at)))
        see_size(&seen, size - LOG_OVERHEAD)
        magic = at[MAGIC_OFFSET]
        if magic != row.magic:
            note(audit, INNER_MAGIC_DIFFERS, number, magic, 0)
        if magic < BATCH_MAGIC:                    # of others the layout is not known
            used = CODEC_MASK | LOG_APPEND_TIME if magic == 1 else CODEC_MASK
            if at[UP_TO_MAGIC] & ~used:
                note(audit, INNER_ATTRIBUTES_SET, at[UP_TO_MAGIC], 0, 0)
            audit_message(audit, at, size)
        number += 1
    if end - p >= LOG_OVERHEAD:
        note(audit, INNER_TRUNCATED, number, load_i32(p + 8), end - p - LOG_OVERHEAD)
    elif end > p:
        note(audit, INNER_TRAILING_BYTES, end - p, number - 1, 0)
    note_offsets(audit, &seen, INNER_OFFSETS_UNORDERED)
    if seen.highest > row.last_offset:
        note(audit, INNER_OFFSET_ABOVE_WRAPPER, seen.highest, 0, 0)


# ---- payloads

cdef inline void note_stream(Audit* audit, int64_t streams, int64_t trailing_bytes, bint checksum_wrong,
                             bint size_wrong) noexcept nogil:
    """What a decompressor says of the stream that it read."""
    if streams > 1:
        note(audit, STREAMS_SEVERAL, streams, 0, 0)
    if trailing_bytes > 0:
        note(audit, STREAM_TRAILING_BYTES, trailing_bytes, 0, 0)
    if size_wrong:
        note(audit, LZ4_SIZE_WRONG, 0, 0, 0)
    elif checksum_wrong:
        note(audit, LZ4_CHECKSUM_WRONG, 0, 0, 0)


cdef inline void audit_payload(Audit* audit, const BatchRow* row, const uint8_t* p, int64_t length) noexcept nogil:
    """The payload of a decoded batch, decompressed; of an uncompressed message of magic 0 or 1 the whole message."""
    if row.magic >= BATCH_MAGIC and row.record_count > 0:
        note_records(audit, row, &audit.seen)
    elif row.magic >= BATCH_MAGIC:
        if row.codec == 0 and length > 0:
            note(audit, RECORDS_NOT_DECLARED, length, 0, 0)
    elif row.codec != 0:
        audit_inner(audit, row, p, p + length)
    else:
        note_largest_record(audit, length - LOG_OVERHEAD, row.last_offset)
        audit_message(audit, p, length)
