"""Frames of every magic, the header of magic 2, and one row per batch.

    offset  bytes  field                    every magic begins so (Records.LOG_OVERHEAD = 12):
         0      8  base offset              magic 0 and 1: the message's offset; a wrapper: its last record's
         8      4  batch length             what follows this field; size in bytes = 12 + batch length
        12      4  partition leader epoch   magic 0 and 1: CRC-32
        16      1  magic
                                            magic 2 goes on (DefaultRecordBatch, KIP-98):
        17      4  crc                      CRC-32C of byte 21 to the end
        21      2  attributes
        23      4  last offset delta        kept by compaction: the last record may be gone
        27      8  base timestamp           the delete horizon when bit 6 is set (KIP-534)
        35      8  max timestamp            every record's timestamp under LogAppendTime (KIP-32)
        43      8  producer id              -1: none
        51      2  producer epoch
        53      4  base sequence            -1: none; wraps from 2^31-1 to 0
        57      4  record count             0 when compaction took all records
        61         records, compressed as one stream when a codec is set

    attributes   0-2 codec (0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd; 5-7 refused)   3 timestamp type (1 log append)
                 4 transactional   5 control   6 delete horizon   7-15 unused, ignored as Kafka ignores them

Base offset, partition leader epoch, length and magic lie outside of the checksum.
"""
from libc.stdint cimport INT32_MAX, int8_t, int16_t, int32_t, int64_t, uint8_t, uint32_t
from libc.string cimport memcpy

from kafkarec._c.checksum cimport crc32, crc32_on, crc32c, crc32c_on
from kafkarec._c.endian cimport be16toh, be32toh, be64toh, load_i32, load_i64, load_u32
from kafkarec._c.input cimport Input, LARGE_WINDOWS, bad_until, peek, piece, reach, reach_header
from kafkarec._c.status cimport (
    BATCH_TOO_SMALL, CRC_MISMATCH, CUT, END, OK, OUT_OF_MEMORY, SIZE_OVERFLOW, SIZE_TOO_SMALL, UNREADABLE,
    UNSUPPORTED_MAGIC, Fault, refuse,
)

cdef packed struct BatchHeader:
    int64_t base_offset
    int32_t batch_length
    int32_t partition_leader_epoch
    int8_t magic
    uint32_t crc
    int16_t attributes
    int32_t last_offset_delta
    int64_t base_timestamp
    int64_t max_timestamp
    int64_t producer_id
    int16_t producer_epoch
    int32_t base_sequence
    int32_t record_count

cdef enum:
    LOG_OVERHEAD = 12            # base offset, batch length
    MAGIC_OFFSET = 16
    UP_TO_MAGIC = 17
    V2_ATTRIBUTES_OFFSET = 21    # where the CRC-32C begins
    V2_OVERHEAD = 61
    V0_OVERHEAD = 14             # crc, magic, attributes, key length, value length
    V1_OVERHEAD = 22             # and a timestamp
    LATEST_MAGIC = 2

cdef enum:
    CODEC_MASK = 0x07
    LOG_APPEND_TIME = 0x08
    TRANSACTIONAL = 0x10
    CONTROL = 0x20
    DELETE_HORIZON = 0x40
    LATEST_CODEC = 4

cdef enum:
    ABSENT = -1                  # NO_PRODUCER_ID, NO_SEQUENCE, NO_TIMESTAMP, ...: null in columns

# One batch (magic 2) or one outer message (magic 0 and 1). Absent fields hold -1.
cdef struct BatchRow:
    int64_t position
    int64_t base_offset
    int64_t first_offset         # of its first record: a wrapper's is known once it is decoded
    int64_t last_offset
    int64_t next_offset
    int64_t base_timestamp       # with a delete horizon: that one
    int64_t max_timestamp
    int64_t producer_id
    int32_t batch_length
    int32_t size_in_bytes
    int32_t partition_leader_epoch
    uint32_t crc
    int32_t base_sequence
    int32_t last_sequence
    int32_t record_count
    int16_t producer_epoch
    int16_t attributes
    int8_t magic
    int8_t codec
    int8_t timestamp_type


cdef inline int32_t increment_sequence(int32_t sequence, int32_t increment) noexcept nogil:
    """DefaultRecordBatch.incrementSequence, in Java's wrapping int arithmetic."""
    cdef uint32_t capacity = <uint32_t>INT32_MAX - <uint32_t>increment
    if sequence > <int32_t>capacity:
        return <int32_t>(<uint32_t>increment - (<uint32_t>INT32_MAX - <uint32_t>sequence) - 1)
    return <int32_t>(<uint32_t>sequence + <uint32_t>increment)


cdef inline int64_t wrapping_add(int64_t a, int64_t b) noexcept nogil:
    """Java's long addition: offsets and timestamps of odd batches wrap, they do not trap."""
    return <int64_t>(<unsigned long long>a + <unsigned long long>b)


cdef inline void nothing_known(Fault* fault, int64_t position) noexcept nogil:
    """Of what begins at `position` no byte has been looked at."""
    fault.position = position
    fault.base_offset = ABSENT
    fault.next_position = -1
    fault.record = -1


cdef inline int frame(const uint8_t* p, int64_t left, int64_t position, int64_t* size, int8_t* magic,
                      Fault* fault) noexcept nogil:
    """Where the batch at `position` ends: ByteBufferLogInputStream.nextBatchSize, with its order of checks. `p` is its
    first byte, `left` what the input has from there on; up to 17 of them are looked at, each once: a caller's live
    buffer may change between two loads."""
    cdef int64_t claimed
    nothing_known(fault, position)
    if left < LOG_OVERHEAD:
        return END
    claimed = load_i32(p + 8)
    fault.base_offset = load_i64(p)
    if claimed < V0_OVERHEAD:
        return refuse(fault, SIZE_TOO_SMALL, V0_OVERHEAD, claimed)
    if claimed > INT32_MAX - LOG_OVERHEAD:
        return refuse(fault, SIZE_OVERFLOW, INT32_MAX - LOG_OVERHEAD, claimed)
    if left < UP_TO_MAGIC:
        return END
    magic[0] = <int8_t>p[MAGIC_OFFSET]
    if magic[0] < 0 or magic[0] > LATEST_MAGIC:
        return refuse(fault, UNSUPPORTED_MAGIC, LATEST_MAGIC, magic[0])
    size[0] = LOG_OVERHEAD + claimed
    if left < size[0]:
        fault.expected = size[0]
        fault.found = left
        return CUT
    fault.next_position = position + size[0]
    return OK


cdef inline void read_v2(const uint8_t* p, BatchRow* row) noexcept nogil:
    cdef BatchHeader header
    cdef int32_t delta
    memcpy(&header, p, V2_OVERHEAD)
    delta = <int32_t>be32toh(<uint32_t>header.last_offset_delta)
    row.base_offset = <int64_t>be64toh(header.base_offset)
    row.last_offset = wrapping_add(row.base_offset, delta)
    row.next_offset = wrapping_add(row.last_offset, 1)
    row.partition_leader_epoch = <int32_t>be32toh(header.partition_leader_epoch)
    row.crc = be32toh(header.crc)
    row.attributes = <int16_t>be16toh(<unsigned short>header.attributes)
    row.base_timestamp = <int64_t>be64toh(header.base_timestamp)
    row.max_timestamp = <int64_t>be64toh(header.max_timestamp)
    row.producer_id = <int64_t>be64toh(header.producer_id)
    row.producer_epoch = <int16_t>be16toh(<unsigned short>header.producer_epoch)
    row.base_sequence = <int32_t>be32toh(header.base_sequence)
    row.record_count = <int32_t>be32toh(header.record_count)
    row.last_sequence = ABSENT
    if row.base_sequence != ABSENT:
        row.last_sequence = increment_sequence(row.base_sequence, delta)
    row.timestamp_type = 1 if row.attributes & LOG_APPEND_TIME else 0


cdef inline void read_legacy(const uint8_t* p, BatchRow* row) noexcept nogil:
    """The outer message's row: what AbstractLegacyRecordBatch answers without decompressing."""
    row.base_offset = load_i64(p)
    row.last_offset = row.base_offset
    row.next_offset = wrapping_add(row.last_offset, 1)
    row.partition_leader_epoch = ABSENT
    row.crc = load_u32(p + LOG_OVERHEAD)
    row.attributes = <int8_t>p[UP_TO_MAGIC]
    row.base_timestamp = ABSENT
    row.max_timestamp = load_i64(p + UP_TO_MAGIC + 1) if row.magic == 1 else ABSENT
    row.producer_id = ABSENT
    row.producer_epoch = ABSENT
    row.base_sequence = ABSENT
    row.last_sequence = ABSENT
    row.record_count = ABSENT
    row.timestamp_type = ABSENT
    if row.magic == 1:
        row.timestamp_type = 1 if row.attributes & LOG_APPEND_TIME else 0


cdef inline int32_t least_size(int8_t magic) noexcept nogil:
    """The least size in bytes of a batch of this magic."""
    if magic == 2:
        return V2_OVERHEAD
    return LOG_OVERHEAD + (V1_OVERHEAD if magic == 1 else V0_OVERHEAD)


cdef enum ReadMode:
    TO_READ                      # the payload is wanted next: the window moves here
    TO_SKIP                      # the next header is wanted next
    TO_LOOK                      # somewhere else is read on: the window stays

cdef inline int read_batch(Input* source, int64_t position, ReadMode mode, BatchRow* row, Fault* fault) noexcept nogil:
    """Frames the batch at `position` and fills its row. No checksum yet, no payload byte looked at."""
    cdef const uint8_t* p = NULL
    cdef int64_t left = source.length - position
    cdef int64_t head = left if left < V2_OVERHEAD else V2_OVERHEAD
    cdef int64_t size = 0
    cdef int status
    if left < LOG_OVERHEAD:
        return frame(p, left, position, &size, &row.magic, fault)
    if mode == TO_READ:
        p = reach(source, position, head)
    elif mode == TO_SKIP:
        p = reach_header(source, position, head)
    else:
        p = peek(source, position, head)
    if p == NULL:
        nothing_known(fault, position)
        return refuse(fault, OUT_OF_MEMORY, head, 0)
    status = frame(p, left, position, &size, &row.magic, fault)
    if status != OK:
        return status
    row.position = position
    row.size_in_bytes = <int32_t>size
    row.batch_length = <int32_t>(size - LOG_OVERHEAD)
    if row.size_in_bytes < least_size(row.magic):
        return refuse(fault, BATCH_TOO_SMALL, least_size(row.magic), row.size_in_bytes)
    if row.magic == 2:
        read_v2(p, row)
    else:
        read_legacy(p, row)
    row.first_offset = row.base_offset
    row.codec = row.attributes & CODEC_MASK
    return OK


cdef inline int crc_in_pieces(Input* source, const BatchRow* row, uint32_t* crc, Fault* fault) noexcept nogil:
    """The checksum of a batch too large to be held before it is known to be one, from crc[0] = 0 on."""
    cdef int64_t at = row.position + (V2_ATTRIBUTES_OFFSET if row.magic == 2 else MAGIC_OFFSET)
    cdef int64_t stop = row.position + row.size_in_bytes
    cdef int64_t n
    cdef const uint8_t* p
    while at < stop:
        n = piece(source, stop - at)
        p = reach(source, at, n)
        if p == NULL:
            return refuse(fault, OUT_OF_MEMORY, n, 0)
        crc[0] = crc32c_on(crc[0], p, <size_t>n) if row.magic == 2 else crc32_on(crc[0], p, <size_t>n)
        at += n
    return OK


cdef inline int check_crc(Input* source, const BatchRow* row, Fault* fault) noexcept nogil:
    """DefaultRecordBatch.ensureValid and LegacyRecord.ensureValid."""
    cdef const uint8_t* p
    cdef uint32_t computed = 0
    cdef int status
    if source.reader != NULL and row.size_in_bytes // LARGE_WINDOWS > source.reader.window:
        status = crc_in_pieces(source, row, &computed, fault)
        if status != OK:
            return status
    else:
        p = reach(source, row.position, row.size_in_bytes)
        if p == NULL:
            return refuse(fault, OUT_OF_MEMORY, row.size_in_bytes, 0)
        if row.magic == 2:
            computed = crc32c(p + V2_ATTRIBUTES_OFFSET, row.size_in_bytes - V2_ATTRIBUTES_OFFSET)
        else:
            computed = crc32(p + MAGIC_OFFSET, row.size_in_bytes - MAGIC_OFFSET)
    if source.bad_count > 0 and bad_until(source, row.position, row.position + row.size_in_bytes) > 0:
        return refuse(fault, UNREADABLE, row.size_in_bytes, 0)
    if computed != row.crc:
        return refuse(fault, CRC_MISMATCH, row.crc, computed)
    return OK


cdef inline bint is_wrapper(const BatchRow* row) noexcept nogil:
    return row.magic < 2 and row.codec != 0


cdef inline bint is_control(const BatchRow* row) noexcept nogil:
    return row.magic == 2 and (row.attributes & CONTROL) != 0


cdef inline bint is_transactional(const BatchRow* row) noexcept nogil:
    return row.magic == 2 and (row.attributes & TRANSACTIONAL) != 0
