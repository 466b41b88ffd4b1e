"""Sizes before a batch is written, and where it is full: the only place for both, in C and for Python (`_writer`).

    record       magic 2: length varint and body (DefaultRecord.sizeInBytes); magic 0, 1: offset, size and message
    batch        header + records; with a codec header + records * ratio * 1.05, in 32-bit floats
    full         a record fits if limit >= the batch so far + its own bytes; the first one always fits
    ratio        expected compressed bytes / bytes of the records: of the batches before, see next_ratio

Follows AbstractRecords, MemoryRecordsBuilder (estimatedBytesWritten, isFull, hasRoomFor) and
CompressionRatioEstimator.
"""
from libc.stdint cimport INT32_MAX, INT64_MAX, int8_t, int64_t, uint64_t

from kafkarec._c.batch cimport BATCH_MAGIC, least_size
from kafkarec._c.write_v2 cimport RecordFields, body_size, with_length
from kafkarec._c.write_v01 cimport message_overhead, message_size

cdef extern from "<math.h>" nogil:
    float fmaxf(float, float)

cdef enum:
    INITIAL_RATIO = 1
    BATCH_LIMIT = 16384          # bytes; the producer's default `batch.size`

cdef struct BatchLimit:
    int64_t most                 # bytes: batch.size
    int64_t header_size
    bint compressed              # has a codec
    float ratio


cdef inline int64_t batch_header_size(int8_t magic, int8_t codec) noexcept nogil:
    """Bytes before the records (AbstractRecords.recordBatchHeaderSizeInBytes)."""
    if magic >= BATCH_MAGIC:
        return least_size(magic)
    return message_overhead(magic) if codec != 0 else 0


cdef inline int64_t record_size(const RecordFields* d, int8_t magic, int64_t offset_delta,
                                int64_t timestamp_delta) noexcept nogil:
    """Bytes of a record."""
    if magic < BATCH_MAGIC:
        return message_size(d, magic)
    return with_length(body_size(d, offset_delta, timestamp_delta))


cdef inline bint delta_fits(int64_t offset, int64_t base) noexcept nogil:
    """Whether the offset delta fits 32 bits, without overflow."""
    if offset >= base:
        return <uint64_t>offset - <uint64_t>base <= <uint64_t>INT32_MAX
    return <uint64_t>base - <uint64_t>offset <= <uint64_t>INT32_MAX + 1


cdef inline int64_t estimated_size(const BatchLimit* limit, int64_t used) noexcept nogil:
    """Bytes of a batch with `used` bytes of records. 2^60 if the ratio, which a caller can set, is not finite."""
    cdef float estimated, most = <float>(INT64_MAX // 8)
    if limit.compressed:
        estimated = <float>used * limit.ratio * <float>1.05
        used = <int64_t>(estimated if -most < estimated < most else most)
    return limit.header_size + used


cdef inline bint is_full(const BatchLimit* limit, int64_t used) noexcept nogil:
    return limit.most <= estimated_size(limit, used)


cdef inline bint has_room_for(const BatchLimit* limit, int64_t used, int64_t size) noexcept nogil:
    """Whether a batch with `used` bytes of records, one record at least, has room for a record of `size` bytes."""
    return limit.most >= estimated_size(limit, used) + size


cdef inline float compression_ratio(int64_t compressed, int64_t used) noexcept nogil:
    return <float>compressed / <float>used


cdef inline float next_ratio(float expected, float seen) noexcept nogil:
    """The ratio expected after a batch with the ratio `seen`: it rises by 0.05 at least and falls by 0.005 at most."""
    if seen > expected:
        return fmaxf(expected + <float>0.05, seen)
    return fmaxf(expected - <float>0.005, seen) if seen < expected else expected
