"""Writes a batch of magic 2: its records and its header. `record.pxd` and `batch.pxd` read them.

    header   61 bytes    written last, to the space left free for it; for its fields see batch.pxd
    record   length varint | attributes 0 | timestamp delta varlong | offset delta varint | key | value | headers
             key, value  varint length (-1: null), bytes
             headers     varint count; each: varint length, UTF-8 key; varint length (-1: null), value

Follows DefaultRecord.writeTo, DefaultRecordBatch.writeHeader and MemoryRecordsBuilder. Varints are as short as
possible. Offset deltas are relative to the base offset and may be negative; timestamp deltas wrap around in 64 bits, as
in Java. Nothing is refused here: the callers check the values.
"""
from libc.stdint cimport INT32_MAX, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy

from kafkarec._c.batch cimport (
    CODEC_MASK, CONTROL, DELETE_HORIZON, LOG_APPEND_TIME, LOG_OVERHEAD, TRANSACTIONAL, V2_ATTRIBUTES_OFFSET,
    V2_OVERHEAD, BatchHeader,
)
from kafkarec._c.endian cimport be16, be32, be64
from kafkarec._c.input_columns cimport InputChunk, Lists, Span, cell, header_key, header_value, list_at
from kafkarec._c.varint cimport put_raw, put_varint, varint_size
from kafkarec._core cimport crc32c_on

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


cdef inline int64_t sized(int64_t length) noexcept nogil:
    """Bytes of a varint length and the field after it; of null only the length (-1)."""
    return varint_size(length) + max(length, 0)


cdef inline uint8_t* put_sized(uint8_t* to, Span bytes_) noexcept nogil:
    """Writes a varint length and the bytes; null is length -1."""
    if bytes_.length <= 0:
        return put_varint(to, bytes_.length)
    to = put_raw(to, <uint64_t>bytes_.length << 1)
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
        total += sized(key.length) + sized(header_value(lists, i).length)
    d.headers_size = total


cdef inline void load_headers(const InputChunk* chunk, int64_t row, RecordFields* d) noexcept nogil:
    """Reads the headers of a row, and their size."""
    d.headers_size = 1
    d.headers = d.headers_end = 0
    if chunk.headers.kind != 0:
        list_at(&chunk.headers, row, &d.headers, &d.headers_end)
        if d.headers_end > d.headers:
            measure_headers(&chunk.headers, d)


cdef inline void load_fields(const InputChunk* chunk, int64_t row, RecordFields* d) noexcept nogil:
    """Reads key, value and headers of a row, and their size; the caller sets offset and timestamp."""
    d.row_fault = FINE
    d.key = cell(&chunk.key, row)
    d.value = cell(&chunk.value, row)
    load_headers(chunk, row, d)
    if d.key.length + d.value.length + d.headers_size > INT32_MAX - 64:
        d.row_fault = RECORD_TOO_LARGE


cdef inline int64_t body_size(const RecordFields* d, int64_t offset_delta, int64_t timestamp_delta) noexcept nogil:
    """The value of the record's length field (DefaultRecord.sizeOfBodyInBytes)."""
    return (1 + varint_size(timestamp_delta) + varint_size(offset_delta) + sized(d.key.length)
            + sized(d.value.length) + d.headers_size)


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


cdef inline int16_t attributes_of(const BatchFields* f) noexcept nogil:
    return <int16_t>(
        (f.codec & CODEC_MASK) | (LOG_APPEND_TIME if f.timestamp_type == 1 else 0)
        | (TRANSACTIONAL if f.is_transactional else 0) | (CONTROL if f.is_control else 0)
        | (DELETE_HORIZON if f.has_horizon else 0)
    )


cdef inline void put_batch_header(uint8_t* batch, int64_t size, const BatchFields* f, int32_t count) noexcept nogil:
    """Writes the first 61 of `size` bytes; the CRC last, which covers all bytes after it."""
    cdef BatchHeader header
    cdef uint32_t crc
    header.base_offset = <int64_t>be64(<uint64_t>f.base_offset)
    header.batch_length = <int32_t>be32(<uint32_t>(size - LOG_OVERHEAD))
    header.partition_leader_epoch = <int32_t>be32(<uint32_t>f.partition_leader_epoch)
    header.magic = f.magic
    header.crc = 0
    header.attributes = <int16_t>be16(<uint16_t>attributes_of(f))
    header.last_offset_delta = <int32_t>be32(<uint32_t>(f.last_offset - f.base_offset))
    header.base_timestamp = <int64_t>be64(<uint64_t>f.base_timestamp)
    header.max_timestamp = <int64_t>be64(<uint64_t>f.max_timestamp)
    header.producer_id = <int64_t>be64(<uint64_t>f.producer_id)
    header.producer_epoch = <int16_t>be16(<uint16_t>f.producer_epoch)
    header.base_sequence = <int32_t>be32(<uint32_t>f.base_sequence)
    header.record_count = <int32_t>be32(<uint32_t>count)
    memcpy(batch, &header, V2_OVERHEAD)
    crc = be32(crc32c_on(0, batch + V2_ATTRIBUTES_OFFSET, <size_t>(size - V2_ATTRIBUTES_OFFSET)))
    memcpy(batch + 17, &crc, 4)
