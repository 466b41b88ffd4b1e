"""Writes batches and messages of every magic, and measures them before.

A batch of magic 2: its records and its header. `record.pxd` and `batch.pxd` read them.

    header   61 bytes    written last, to the space left free for it; for its fields see batch.pxd
    record   length varint | attributes 0 | timestamp delta varlong | offset delta varint | key | value | headers
             key, value  varint length (-1: null), bytes
             headers     varint count; each: varint length, UTF-8 key; varint length (-1: null), value

Follows DefaultRecord.writeTo, DefaultRecordBatch.writeHeader and MemoryRecordsBuilder. Varints are as short as
possible. Offset deltas are relative to the base offset and may be negative; timestamp deltas wrap around in 64 bits, as
in Java. Nothing is refused here: the callers check the values.

Messages of magic 0 and 1: plain messages, and the header of a wrapper. `message.pxd` reads them.

    plain     offset 8 | size 4 | crc 4 | magic 1 | attributes 1 | (magic 1: timestamp 8) | key | value
              key, value: int32 length (-1: null), bytes
    wrapper   the same, with a null key and the compressed plain messages as value. Its offset is that of the last one,
              its timestamp the largest; inner offsets are absolute (magic 0) or relative to the first (magic 1, KIP-31)

Follows LegacyRecord.write, writeCompressedRecordHeader and MemoryRecordsBuilder.appendLegacyRecord, which sets the
timestamp type of inner messages too.

Sizes before a batch is written, and where it is full: the only place for both, in C and for Python (`_writer`).

    record       magic 2: length varint and body (DefaultRecord.sizeInBytes); magic 0, 1: offset, size and message
    batch        header + records; with a codec header + records * ratio * 1.05, in 32-bit floats
    full         a record fits if limit >= the batch so far + its own bytes; the first one always fits
    ratio        expected compressed bytes / bytes of the records: of the batches before, see next_ratio

Follows AbstractRecords, MemoryRecordsBuilder (estimatedBytesWritten, isFull, hasRoomFor) and
CompressionRatioEstimator.
"""
from libc.stdint cimport INT32_MAX, INT64_MAX, int16_t, int32_t, int64_t, int8_t, uint16_t, uint32_t, uint64_t, uint8_t
from libc.string cimport memcpy

from kafkarec._c.batch cimport (
    BATCH_MAGIC, CONTROL, DELETE_HORIZON, LOG_APPEND_TIME, LOG_OVERHEAD, MAGIC_OFFSET, TRANSACTIONAL, UP_TO_MAGIC,
    V2_ATTRIBUTES_OFFSET, least_size,
)
from kafkarec._c.input_columns cimport InputChunk, Lists, Span, header_key, header_value, list_at
from kafkarec._c.numbers cimport put_i64, put_u16, put_u32, put_unsigned, put_varint, varint_size
from kafkarec._core cimport crc32_on, crc32c_on

# ---- magic 2

# The header fields of a batch. Absent numbers are -1.
cdef struct BatchFields:
    int64_t base_offset
    int64_t last_offset
    int64_t base_timestamp
    int64_t max_timestamp
    int64_t log_append_time
    int64_t delete_horizon_ms
    int64_t producer_id
    int32_t partition_leader_epoch
    int32_t base_sequence
    int16_t producer_epoch
    int8_t magic
    int8_t codec
    int8_t timestamp_type
    bint is_transactional
    bint is_control
    bint has_horizon
    int explicit_fields          # bits of ExplicitField: fields whose values here are not computed from the records

cdef enum Override:              # set for all batches, whatever the input has; fields that belong together share a bit
    OVERRIDE_TIMESTAMP_TYPE = 1
    OVERRIDE_LEADER_EPOCH = 2
    OVERRIDE_PRODUCER = 4        # id, epoch and sequences
    OVERRIDE_TRANSACTIONAL = 8

cdef enum ExplicitField:
    EXPLICIT_BASE_OFFSET = 1
    EXPLICIT_BASE_TIMESTAMP = 2
    EXPLICIT_LAST_OFFSET = 4
    EXPLICIT_MAX_TIMESTAMP = 8
    EXPLICIT_ALL = 15

# One record to write: its fields and their sizes.
cdef struct RecordFields:
    int64_t offset
    int64_t timestamp
    Span key
    Span value
    int64_t headers              # entries [headers, headers_end) of the chunk's list
    int64_t headers_end
    int64_t headers_size         # bytes of all headers and of their count
    int row_fault

cdef enum RowFault:
    FINE = 0
    HEADER_KEY_NULL
    RECORD_TOO_LARGE
    OFFSET_NULL
    OFFSET_NOT_RISING
    TIMESTAMP_NEGATIVE
    CODEC_UNKNOWN
    HEADERS_UNSUPPORTED
    FIELDS_UNSUPPORTED
    OFFSET_TOO_FAR
    FIELDS_CONTRADICT
    CODEC_UNFIT
    OFFSET_NEGATIVE


cdef inline void copy_exact(uint8_t* to, const uint8_t* source, int64_t n) noexcept nogil:
    """memcpy for short strings: writes exactly n bytes, without a function call for up to 256 bytes."""
    cdef int64_t i = 0
    if 8 <= n <= 16:
        memcpy(to, source, 8)
        memcpy(to + n - 8, source + n - 8, 8)
    elif n > 256:
        memcpy(to, source, <size_t>n)
    elif n >= 32:
        while i + 32 <= n:
            memcpy(to + i, source + i, 32)
            i += 32
        memcpy(to + n - 32, source + n - 32, 32)
    elif n >= 16:
        memcpy(to, source, 16)
        memcpy(to + n - 16, source + n - 16, 16)
    elif n >= 4:
        memcpy(to, source, 4)
        memcpy(to + n - 4, source + n - 4, 4)
    else:
        while i < n:
            to[i] = source[i]
            i += 1


cdef inline int64_t size_with_length(int64_t length) noexcept nogil:
    """Bytes of a varint length and the field after it; of null only the length (-1)."""
    return varint_size(length) + max(length, 0)


cdef inline uint8_t* put_sized(uint8_t* to, Span bytes_) noexcept nogil:
    """Writes a varint length and the bytes; null is length -1."""
    if bytes_.length <= 0:
        return put_varint(to, bytes_.length)
    to = put_unsigned(to, <uint64_t>bytes_.length << 1)
    copy_exact(to, bytes_.data, bytes_.length)
    return to + bytes_.length


cdef inline void measure_headers(const Lists* lists, RecordFields* d) noexcept nogil:
    cdef int64_t i, total = varint_size(d.headers_end - d.headers)
    cdef Span key
    for i in range(d.headers, d.headers_end):
        key = header_key(lists, i)
        if key.length < 0:
            d.row_fault = HEADER_KEY_NULL
            return
        total += size_with_length(key.length) + size_with_length(header_value(lists, i).length)
    d.headers_size = total


cdef inline void load_headers(const InputChunk* chunk, int64_t row, RecordFields* d) noexcept nogil:
    """Reads the headers of a row, and their size."""
    d.headers_size = 1
    d.headers = d.headers_end = 0
    if chunk.headers.kind != 0:
        list_at(&chunk.headers, row, &d.headers, &d.headers_end)
        if d.headers_end > d.headers:
            measure_headers(&chunk.headers, d)


cdef inline int64_t body_size(const RecordFields* d, int64_t offset_delta, int64_t timestamp_delta) noexcept nogil:
    """The value of the record's length field (DefaultRecord.sizeOfBodyInBytes)."""
    return (1 + varint_size(timestamp_delta) + varint_size(offset_delta) + size_with_length(d.key.length)
            + size_with_length(d.value.length) + d.headers_size)


cdef inline int64_t with_length(int64_t body) noexcept nogil:
    """Bytes of a record: its length field and its body (DefaultRecord.sizeInBytes)."""
    return body + varint_size(body)


cdef enum:
    LEAST_OVERHEAD = 4           # bytes of a body without key, value and headers: attributes, deltas, lengths
    MOST_OVERHEAD = 26


cdef inline int length_size(int64_t content) noexcept nogil:
    """Bytes of the length field of a record whose key, value and headers take `content` bytes; 0 if the other fields
    decide that."""
    if content + MOST_OVERHEAD < 0x40:
        return 1
    if content + MOST_OVERHEAD < 0x2000:
        return 2 if content + LEAST_OVERHEAD >= 0x40 else 0
    return 3 if 0x2000 <= content + LEAST_OVERHEAD and content + MOST_OVERHEAD < 0x100000 else 0


cdef inline uint8_t* put_body(uint8_t* to, const InputChunk* chunk, const RecordFields* d, int64_t offset_delta,
                              int64_t timestamp_delta) noexcept nogil:
    """Writes a record without its length."""
    cdef int64_t i
    to[0] = 0
    to = put_varint(to + 1, timestamp_delta)
    to = put_varint(to, offset_delta)
    to = put_sized(to, d.key)
    to = put_sized(to, d.value)
    if d.headers_end == d.headers:
        to[0] = 0
        return to + 1
    to = put_varint(to, d.headers_end - d.headers)
    for i in range(d.headers, d.headers_end):
        to = put_sized(to, header_key(&chunk.headers, i))
        to = put_sized(to, header_value(&chunk.headers, i))
    return to


cdef inline void put_batch_header(uint8_t* batch, int64_t size, const BatchFields* f, int32_t count) noexcept nogil:
    """Writes the first 61 of `size` bytes; the CRC last, which covers all bytes after it."""
    cdef int attributes = (
        f.codec | (LOG_APPEND_TIME if f.timestamp_type == 1 else 0)
        | (TRANSACTIONAL if f.is_transactional else 0) | (CONTROL if f.is_control else 0)
        | (DELETE_HORIZON if f.has_horizon else 0)
    )
    cdef uint8_t* to = put_i64(batch, f.base_offset)
    to = put_u32(to, <uint32_t>(size - LOG_OVERHEAD))
    to = put_u32(to, <uint32_t>f.partition_leader_epoch)
    to[0] = <uint8_t>f.magic
    to = put_u16(batch + V2_ATTRIBUTES_OFFSET, <uint16_t>attributes)
    to = put_u32(to, <uint32_t>(f.last_offset - f.base_offset))
    to = put_i64(to, f.base_timestamp)
    to = put_i64(to, f.max_timestamp)
    to = put_i64(to, f.producer_id)
    to = put_u16(to, <uint16_t>f.producer_epoch)
    to = put_u32(to, <uint32_t>f.base_sequence)
    put_u32(to, <uint32_t>count)
    put_u32(batch + UP_TO_MAGIC, crc32c_on(0, batch + V2_ATTRIBUTES_OFFSET, <size_t>(size - V2_ATTRIBUTES_OFFSET)))


# ---- magic 0 and 1

cdef inline uint8_t* put_int32_sized(uint8_t* to, Span bytes_) noexcept nogil:
    to = put_u32(to, <uint32_t>bytes_.length)
    if bytes_.length > 0:
        memcpy(to, bytes_.data, <size_t>bytes_.length)
        to += bytes_.length
    return to


cdef inline uint8_t* put_message_head(uint8_t* to, int64_t offset, int64_t size, const BatchFields* f, int8_t codec,
                                      int64_t timestamp) noexcept nogil:
    """Writes all fields before the key, except the CRC."""
    to = put_i64(to, offset)
    to = put_u32(to, <uint32_t>(size - LOG_OVERHEAD))
    to[4] = <uint8_t>f.magic
    to[5] = <uint8_t>(codec | (LOG_APPEND_TIME if f.magic > 0 and f.timestamp_type == 1 else 0))
    to += 6
    return put_i64(to, timestamp) if f.magic > 0 else to


cdef inline void put_message_crc(uint8_t* message, int64_t size) noexcept nogil:
    put_u32(message + LOG_OVERHEAD, crc32_on(0, message + MAGIC_OFFSET, <size_t>(size - MAGIC_OFFSET)))


# ---- sizes, and where a batch is full

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
    return least_size(magic) if magic >= BATCH_MAGIC or codec != 0 else 0


cdef inline int64_t record_size(const RecordFields* d, int8_t magic, int64_t offset_delta,
                                int64_t timestamp_delta) noexcept nogil:
    """Bytes of a record."""
    if magic < BATCH_MAGIC:
        return least_size(magic) + max(d.key.length, 0) + max(d.value.length, 0)
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


cdef inline float next_ratio(float expected, float seen) noexcept nogil:
    """The ratio expected after a batch with the ratio `seen`: it rises by 0.05 at least and falls by 0.005 at most."""
    if seen > expected:
        return fmaxf(expected + <float>0.05, seen)
    return fmaxf(expected - <float>0.005, seen) if seen < expected else expected
