"""Reads messages of magic 0 and 1: plain messages, and wrappers, whose value is a compressed set of messages.

    offset  bytes  field
         0      8  offset              of a wrapper: the offset of its last inner message
         8      4  size                bytes after this field
        12      4  crc                 CRC-32 of byte 16 to the end
        16      1  magic
        17      1  attributes          0-2 codec (zstd refused), 3 timestamp type (magic 1), rest ignored
       (18      8  timestamp           magic 1 only, KIP-32)
     18/26      4  key length          negative: null, and no bytes follow
                   key
                4  value length        negative: null
                   value               bytes after it are ignored

Follows LegacyRecord and AbstractLegacyRecordBatch.DeepRecordsIterator. Inner offsets:
  magic 0 wrapper   absolute, as stored
  magic 1 wrapper   relative: shift = wrapper offset - last inner offset; with a wrapper offset of 0 there is no shift
                    (some versions of librdkafka wrote 0); one below the last inner offset is refused (KIP-31)
The inner magic may differ from the wrapper's (KAFKA-4298): inner messages of magic 1 have the wrapper's timestamp type,
and under LogAppendTime its timestamp. A truncated last inner message is dropped, as in Kafka; a wrapper without any
inner message is refused.
"""
from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t, uint32_t

from kafkarec._c.batch cimport (
    ABSENT, CODEC_MASK, LOG_APPEND_TIME, LOG_OVERHEAD, MAGIC_OFFSET, UP_TO_MAGIC, V0_OVERHEAD, BatchRow, wrapping_add,
    wrapping_subtract,
)
from kafkarec._c.columns cimport (
    WANT_HEADERS, WANT_KEY, WANT_OFFSET, WANT_TIMESTAMP, WANT_TYPE, WANT_VALUE, WANT_VIEWS, Bytes, Columns, clear_bit,
    columns_reserve,
)
from kafkarec._c.numbers cimport load_i32, load_i64, load_u32
from kafkarec._c.record cimport ExactCursor, LocalBytes, RowFilter, append_field, filter_last_row, load_bytes
from kafkarec._c.status cimport (
    INNER_COMPRESSED, INNER_CRC_MISMATCH, INNER_SIZE_TOO_SMALL, LIMIT_EXCEEDED, MESSAGE_TRUNCATED, OK, WRAPPER_EMPTY,
    WRAPPER_OFFSET_TOO_SMALL, WRAPPER_VALUE_NULL, Fault, refuse,
)
from kafkarec._core cimport crc32_on

# The fields of a message; key and value point into the input, a negative length is null.
cdef struct Message:
    int64_t size                 # in bytes, including the offset and size fields
    int64_t offset
    int64_t timestamp
    int8_t magic
    int8_t timestamp_type
    int8_t codec
    const uint8_t* key
    const uint8_t* value
    int32_t key_length
    int32_t value_length


cdef inline int read_sized(const uint8_t** cursor, const uint8_t* end, const uint8_t** data, int32_t* length,
                           Fault* fault) noexcept nogil:
    """Reads an int32 length and its bytes; negative lengths are null (Utils.sizeDelimited)."""
    cdef const uint8_t* p = cursor[0]
    cdef int32_t n
    if end - p < 4:
        return refuse(fault, MESSAGE_TRUNCATED, 4, end - p)
    n = load_i32(p)
    p += 4
    if n > end - p:
        return refuse(fault, MESSAGE_TRUNCATED, n, end - p)
    data[0] = p
    length[0] = n
    if n > 0:
        p += n
    cursor[0] = p
    return OK


cdef inline int read_message(const uint8_t* p, int64_t size, Message* m, Fault* fault) noexcept nogil:
    """Reads the message at p. `size`: its bytes including the first 12; framing has checked that it is 26 or more."""
    cdef const uint8_t* end = p + size
    cdef const uint8_t* cursor = p + UP_TO_MAGIC + 1
    cdef int8_t attributes = <int8_t>p[UP_TO_MAGIC]
    cdef int status
    m.size = size
    m.offset = load_i64(p)
    m.magic = <int8_t>p[MAGIC_OFFSET]
    m.codec = attributes & CODEC_MASK
    m.timestamp = ABSENT
    m.timestamp_type = ABSENT
    if m.magic != 0:                      # as in LegacyRecord; 26 bytes are enough to have a timestamp
        m.timestamp = load_i64(cursor)
        m.timestamp_type = 1 if attributes & LOG_APPEND_TIME else 0
        cursor += 8
    status = read_sized(&cursor, end, &m.key, &m.key_length, fault)
    if status != OK:
        return status
    return read_sized(&cursor, end, &m.value, &m.value_length, fault)


cdef inline int append_bytes(Columns* c, Bytes* column, const uint8_t* data, int32_t length) noexcept nogil:
    cdef LocalBytes h
    cdef ExactCursor at
    cdef int status
    at.p = data
    load_bytes(&h, column, (c.want & WANT_VIEWS) != 0)
    status = append_field(column, &h, c.rows, &at, length, c.memory if c.in_memory else NULL)
    column.used = h.used
    return status


cdef inline int append_message(Columns* c, const Message* m, const RowFilter* filter, Fault* fault) noexcept nogil:
    cdef int64_t row = c.rows
    cdef int status = columns_reserve(c, 1, 0)
    if status == OK and c.want & WANT_KEY:
        status = append_bytes(c, &c.key, m.key, m.key_length)
    if status == OK and c.want & WANT_VALUE:
        status = append_bytes(c, &c.value, m.value, m.value_length)
    if status != OK:
        return refuse(fault, status, m.size, 0)
    if c.want & WANT_OFFSET:
        c.offset[row] = m.offset
    if c.want & WANT_TIMESTAMP:
        c.timestamp[row] = 0 if m.timestamp == ABSENT else m.timestamp
        if m.timestamp == ABSENT:
            clear_bit(c.timestamp_validity, row)
    if c.want & WANT_TYPE:
        c.type[row] = m.timestamp_type
    if c.want & WANT_HEADERS:
        c.header_offsets[row + 1] = <int32_t>c.headers
    c.rows = row + 1
    filter_last_row(c, filter)
    return OK


cdef inline int decode_plain(Columns* c, const uint8_t* p, const BatchRow* outer, const RowFilter* filter,
                             Fault* fault) noexcept nogil:
    """Decodes an uncompressed message of magic 0 or 1, which is a batch of one record."""
    cdef Message m
    cdef int status = read_message(p, outer.size_in_bytes, &m, fault)
    if status != OK:
        return status
    m.offset = outer.base_offset
    return append_message(c, &m, filter, fault)


cdef inline int wrapper_payload(const uint8_t* p, const BatchRow* outer, const uint8_t** payload, int64_t* length,
                                Fault* fault) noexcept nogil:
    """Sets `payload` and `length` to the compressed set of messages in a wrapper."""
    cdef Message m
    cdef int status = read_message(p, outer.size_in_bytes, &m, fault)
    if status != OK:
        return status
    if m.value_length < 0:
        return refuse(fault, WRAPPER_VALUE_NULL, 0, m.value_length)
    payload[0] = m.value
    length[0] = m.value_length
    return OK


cdef inline int check_inner_crc(const uint8_t* p, int64_t size, Fault* fault) noexcept nogil:
    """Compares the checksum of the inner message at p."""
    cdef uint32_t stored = load_u32(p + LOG_OVERHEAD)
    cdef uint32_t computed = crc32_on(0, p + MAGIC_OFFSET, <size_t>(size - MAGIC_OFFSET))
    return OK if computed == stored else refuse(fault, INNER_CRC_MISMATCH, stored, computed)


cdef inline int next_inner(const uint8_t** cursor, const uint8_t* end, int64_t limit, const uint8_t** at, int64_t* size,
                           Fault* fault) noexcept nogil:
    """Frames the next inner message. size 0: the set ends, either after a message or within one
    (DataLogInputStream)."""
    cdef const uint8_t* p = cursor[0]
    cdef int32_t claimed
    size[0] = 0
    if end - p < LOG_OVERHEAD:
        return OK
    claimed = load_i32(p + 8)
    if claimed < V0_OVERHEAD:
        return refuse(fault, INNER_SIZE_TOO_SMALL, V0_OVERHEAD, claimed)
    if claimed > limit:                  # Kafka allocates this size before it reads
        return refuse(fault, LIMIT_EXCEEDED, limit, claimed)
    if claimed > end - p - LOG_OVERHEAD:
        return OK
    at[0] = p
    size[0] = claimed + LOG_OVERHEAD
    cursor[0] = p + size[0]
    return OK


cdef inline int inner_shift(const uint8_t* p, const uint8_t* end, const BatchRow* outer, int64_t limit, int64_t* shift,
                            Fault* fault) noexcept nogil:
    """Sets `shift`, which is added to the inner offsets: Kafka's absoluteBaseOffset, with Java's overflow."""
    cdef const uint8_t* at = p
    cdef int64_t size = 0, last = 0
    cdef int32_t count = 0
    cdef int status
    while True:
        status = next_inner(&p, end, limit, &at, &size, fault)
        if status != OK:
            return status
        if size == 0:
            break
        last = load_i64(at)
        count += 1
    if count == 0:
        return refuse(fault, WRAPPER_EMPTY, 1, 0)
    shift[0] = 0
    if outer.magic == 1 and outer.last_offset != 0:
        if outer.last_offset < last:
            return refuse(fault, WRAPPER_OFFSET_TOO_SMALL, last, outer.last_offset)
        shift[0] = wrapping_subtract(outer.last_offset, last)
    return OK


cdef inline int decode_wrapper(Columns* c, const BatchRow* outer, const uint8_t* p, const uint8_t* end, int64_t limit,
                               bint checks_crc, const RowFilter* filter, int64_t* first_offset,
                               Fault* fault) noexcept nogil:
    """Decodes the inner messages of a wrapper. p to end: its decompressed value, which only this decoder can change, so
    it is safe to read it twice."""
    cdef Message m
    cdef const uint8_t* at = p
    cdef int64_t size = 0, shift = 0
    cdef int32_t count = 0
    cdef int status = inner_shift(p, end, outer, limit, &shift, fault)
    if status != OK:
        return status
    while True:
        fault.record = count
        next_inner(&p, end, limit, &at, &size, fault)      # always OK: inner_shift has checked all frames
        if size == 0:
            break
        status = read_message(at, size, &m, fault)
        if status == OK and checks_crc:
            status = check_inner_crc(at, size, fault)
        if status != OK:
            return status
        if m.codec != 0:
            return refuse(fault, INNER_COMPRESSED, 0, m.codec)
        m.offset = wrapping_add(shift, m.offset)
        if m.magic == 1:
            m.timestamp_type = outer.timestamp_type
            if outer.timestamp_type == 1:
                m.timestamp = outer.max_timestamp
        if count == 0:
            first_offset[0] = m.offset
        status = append_message(c, &m, filter, fault)
        if status != OK:
            return status
        count += 1
    fault.record = -1
    return OK
