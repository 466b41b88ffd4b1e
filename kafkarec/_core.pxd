"""What the other compiled modules call in `_core`: recycled pages and checksums, of which the process has one.

    CRC-32C (Castagnoli)  magic 2, over attributes (byte 21) to the end     KIP-98; Kafka: Crc32C
    CRC-32  (IEEE)        magic 0 and 1, over magic (byte 16) to the end    Kafka: LegacyRecord.computeChecksum
"""
from libc.stdint cimport int64_t, uint8_t, uint32_t

cdef uint8_t* pages_take(size_t n, size_t* capacity) noexcept nogil
cdef void pages_free(uint8_t* p, size_t capacity) noexcept nogil

# Continues a checksum; as in the libraries, CRC-32C comes and goes without its inversions.
ctypedef uint32_t (*Checksum)(uint32_t crc, const uint8_t* p, size_t n) noexcept nogil

cdef struct Checksums:
    Checksum small      # CRC-32C of fewer than LARGE bytes
    Checksum large      # CRC-32C of others
    Checksum crc32

cdef Checksums checksums

cdef enum:
    LARGE = 256


cdef inline uint32_t crc32c_on(uint32_t crc, const uint8_t* p, size_t n) noexcept nogil:
    """Continues `crc` (0 at the beginning) with n more bytes."""
    if n < LARGE:
        return ~checksums.small(~crc, p, n)
    return ~checksums.large(~crc, p, n)


cdef inline uint32_t crc32_on(uint32_t crc, const uint8_t* p, size_t n) noexcept nogil:
    """Continues `crc` (0 at the beginning) with n more bytes."""
    return checksums.crc32(crc, p, n)


# By codec id, three bits: the struct of a library's functions, see `_c/compress.pxd`; NULL: none.
cdef const void* codec_functions[8]


cdef class HeldBytes:
    cdef Py_buffer view
    cdef uint8_t* data
    cdef int64_t size


cdef class Record:
    cdef readonly object offset, timestamp, timestamp_type, key, value, sequence
    cdef readonly bint is_control
    cdef object pairs                # the headers as a tuple, until they are asked for as a list
    cdef uint32_t unread             # of WANT_KEY and WANT_VALUE those whose columns were not read


cdef const void* storage_of(object chunk, int64_t start, int64_t stop) except NULL     # a Storage of `_c/arrow.pxd`
cdef const void* batch_structs(object rows, int64_t* count) except? NULL       # BatchRow[count] of `_c/batch.pxd`
cdef object memory_of(object owner, const void* start, int64_t length, bint is_readonly=*)
