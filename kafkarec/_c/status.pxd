"""Return values of the functions of `_c`: OK, an event that is not an error, or the reason for a refusal.

C code raises no exceptions; the compiled modules make them. A refusal fills a Fault: the expected and the found value,
and in which record. The names are those of `kafkarec.errors.REASONS` in the same order, because the compiled modules
use the position as the key; tests/unit/format/test_c_names.py compares them.
"""
from libc.stdint cimport int32_t, int64_t

cdef enum Status:
    OK = 0
    # no refusals
    END                      # the input ends here, as in Kafka's ByteBufferLogInputStream
    CUT                      # a batch length beyond the end of the input: the end for Kafka
    CHUNK_FULL               # the chunk is large enough: the caller takes it and continues
    NEEDS_CODEC              # the batch is framed and checked; its payload is compressed
    HEADER_DOUBTFUL          # the batch is framed; offset or leader epoch contradict its neighbours (files only)
    # refusals, in the order of errors.REASONS
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

cdef struct Fault:
    int status
    int64_t position         # where the batch begins
    int64_t base_offset      # of its header
    int64_t next_position    # where the next batch begins by its length; -1: unknown
    int64_t expected
    int64_t found
    int32_t record           # index within the batch, -1: the batch itself


cdef inline int refuse(Fault* fault, int status, int64_t expected, int64_t found) noexcept nogil:
    fault.status = status
    fault.expected = expected
    fault.found = found
    return status
