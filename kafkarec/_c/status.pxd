"""Return values of the functions of `_c`: OK, a border, or the reason for an error.

No exception is made in C: the compiled module makes it. A refusal fills a Fault: what was expected, what was found, in
which record. The names are those of `kafkarec.errors.REASONS`, in the same order: the compiled module joins them by
position, a test by behaviour.
"""
from libc.stdint cimport int32_t, int64_t

cdef enum Status:
    OK = 0
    # borders, no refusals
    END                      # the input ends here, as Kafka's ByteBufferLogInputStream ends it
    CUT                      # a frame that claims more bytes than are left: the end for Kafka
    CHUNK_FULL               # the chunk has its share: the caller takes it and comes back
    NEEDS_CODEC              # the batch is framed and checked; its payload is compressed
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
    int64_t base_offset      # as it claims
    int64_t next_position    # where its frame says that the next one begins; -1: its frame cannot be trusted
    int64_t expected
    int64_t found
    int32_t record           # index within the batch, -1: the batch itself


cdef inline int refuse(Fault* fault, int status, int64_t expected, int64_t found) noexcept nogil:
    fault.status = status
    fault.expected = expected
    fault.found = found
    return status
