"""Return values of the functions of `_c`: OK, an event that is not an error, or the reason for a refusal.

C code raises no exceptions; the compiled modules make them: `_entry/calls.pxd` has the word for each refusal. A
refusal fills a Fault: the expected and the found value, and in which record.
"""
from libc.stdint cimport int32_t, int64_t

cdef enum Status:
    OK = 0
    # no refusals
    END                      # the input ends here, as in Kafka's ByteBufferLogInputStream
    CUT                      # a batch length beyond the end of the input: the end for Kafka
    CHUNK_FULL               # the chunk is large enough: the caller takes it and continues
    NEEDS_CODEC              # the batch is framed and checked; its payload is compressed
    PAUSED                   # after so much compression that the caller looks for Ctrl-C
    HEADER_DOUBTFUL          # the batch is framed; offset or leader epoch contradict its neighbours (files only)
    ATTRIBUTES_LOST          # the records cannot be rewritten: an attributes byte that is not zero would be lost
    # refusals of what is to be written
    ROW_REFUSED              # the row Encoder.row, for Encoder.row_fault
    TOO_LARGE_TO_WRITE       # a batch
    INPUT_CHANGED            # after it was measured
    # refusals of what is read
    SIZE_TOO_SMALL
    SIZE_OVERFLOW
    UNSUPPORTED_MAGIC
    BATCH_TOO_SMALL
    LENGTH_BEYOND_END
    CRC_MISMATCH
    UNSUPPORTED_CODEC
    MISSING_CODEC
    PAYLOAD_CORRUPT
    LIMIT_EXCEEDED
    RECORD_COUNT_NEGATIVE
    RECORDS_MISSING
    RECORDS_LEFT_OVER
    RECORD_LENGTH_INVALID
    RECORD_STRUCTURE_INVALID
    VARINT_TOO_LONG
    KEY_LENGTH_INVALID
    VALUE_LENGTH_INVALID
    HEADER_COUNT_INVALID
    HEADER_KEY_INVALID
    HEADER_VALUE_INVALID
    WRAPPER_VALUE_NULL
    WRAPPER_EMPTY
    WRAPPER_OFFSET_TOO_SMALL
    INNER_COMPRESSED
    INNER_SIZE_TOO_SMALL
    INNER_CRC_MISMATCH
    MESSAGE_TRUNCATED
    OUT_OF_MEMORY
    UNREADABLE
    # refusals of what can be read and is not accepted
    LEADER_EPOCH_DIFFERS
    BASE_OFFSET_NOT_ZERO
    BATCH_TOO_LARGE
    OFFSETS_OUT_OF_ORDER

cdef struct Fault:
    int64_t position         # where the batch begins
    int64_t base_offset      # of its header
    int64_t next_position    # where the next batch begins by its length; -1: unknown
    int64_t expected
    int64_t found
    int32_t record           # index within the batch, -1: the batch itself


cdef inline bint length_is_proven(int status) noexcept nogil:
    """Whether a batch is refused so only after its checksum, and with it its length, was found to be right."""
    return status not in (SIZE_TOO_SMALL, SIZE_OVERFLOW, UNSUPPORTED_MAGIC, BATCH_TOO_SMALL, LENGTH_BEYOND_END,
                          CRC_MISMATCH, UNREADABLE)


cdef inline int refuse(Fault* fault, int status, int64_t expected, int64_t found) noexcept nogil:
    fault.expected = expected
    fault.found = found
    return status
