"""Framing for every magic, the header of magic 2, and one BatchRow per batch.

    offset  bytes  field                    of every magic (Records.LOG_OVERHEAD = 12):
         0      8  base offset              magic 0 and 1: the message's offset; a wrapper: its last record's
         8      4  batch length             bytes after this field; size in bytes = 12 + batch length
        12      4  partition leader epoch   magic 0 and 1: CRC-32
        16      1  magic
                                            the rest of magic 2 (DefaultRecordBatch, KIP-98):
        17      4  crc                      CRC-32C of byte 21 to the end
        21      2  attributes
        23      4  last offset delta        kept by compaction, even when the last record is removed
        27      8  base timestamp           the delete horizon when bit 6 is set (KIP-534)
        35      8  max timestamp            every record's timestamp under LogAppendTime (KIP-32)
        43      8  producer id              -1: none
        51      2  producer epoch
        53      4  base sequence            -1: none; wraps from 2^31-1 to 0
        57      4  record count             0 when compaction removed all records
        61         records, compressed as one stream when a codec is set

    attributes   0-2 codec (0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd; others refused)  3 timestamp type (1 log append)
                 4 transactional   5 control   6 delete horizon   7-15 unused, ignored as Kafka ignores them

The checksum does not cover base offset, length, partition leader epoch and magic.
"""
from libc.stdint cimport INT32_MAX, int8_t, int16_t, int32_t, int64_t, uint8_t, uint32_t

from kafkarec._c.numbers cimport load_i16, load_i32, load_i64, load_u32
from kafkarec._c.input cimport Input, LARGE_WINDOWS, peek, reach, reach_header, unreadable_end
from kafkarec._c.status cimport (
    BATCH_TOO_SMALL, CRC_MISMATCH, CUT, END, OK, OUT_OF_MEMORY, SIZE_OVERFLOW, SIZE_TOO_SMALL, UNREADABLE,
    UNSUPPORTED_MAGIC, Fault, refuse,
)
from kafkarec._core cimport crc32_on, crc32c_on

cdef enum:
    LOG_OVERHEAD = 12            # base offset, batch length
    MAGIC_OFFSET = 16
    UP_TO_MAGIC = 17
    V2_ATTRIBUTES_OFFSET = 21    # where the CRC-32C begins
    V2_OVERHEAD = 61
    V0_OVERHEAD = 14             # crc, magic, attributes, key length, value length
    V1_OVERHEAD = 22             # and a timestamp
    LATEST_MAGIC = 2
    BATCH_MAGIC = 2              # from here on batches with a header of their own; below are messages (KIP-98)

cdef enum:
    LARGEST_HEADER = V2_OVERHEAD  # the fixed part of a batch of any magic

cdef enum:
    CODEC_MASK = 0x07
    LOG_APPEND_TIME = 0x08
    TRANSACTIONAL = 0x10
    CONTROL = 0x20
    DELETE_HORIZON = 0x40

# The codecs by id (CompressionType). `codec_name` has their names.
cdef enum:
    NONE
    GZIP
    SNAPPY
    LZ4
    ZSTD
    CODEC_COUNT                  # the ids from here on do not exist

cdef enum:
    LATEST_CODEC = CODEC_COUNT - 1
    LATEST_MESSAGE_CODEC = LZ4   # magic 0 and 1 have no later one (KIP-110)

cdef enum:
    ABSENT = -1                  # NO_PRODUCER_ID, NO_SEQUENCE, NO_TIMESTAMP, ...: null in columns

# One batch (magic 2) or one outer message (magic 0 and 1). Absent fields are -1.
cdef struct BatchRow:
    int64_t position
    int64_t base_offset
    int64_t first_offset         # of its first record; a wrapper's is set when it is decoded
    int64_t last_offset
    int64_t next_offset
    int64_t base_timestamp       # the delete horizon, if the batch has one
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


cdef inline const char* codec_name(int codec) noexcept nogil:
    """CompressionType.name; NULL for an id that does not exist."""
    cdef const char** names = [b"none", b"gzip", b"snappy", b"lz4", b"zstd"]
    return names[codec] if codec <= LATEST_CODEC else NULL


cdef inline int8_t latest_codec(int8_t magic) noexcept nogil:
    """The highest codec id that a batch of this magic may have."""
    return LATEST_CODEC if magic >= BATCH_MAGIC else LATEST_MESSAGE_CODEC


cdef inline int32_t increment_sequence(int32_t sequence, int32_t increment) noexcept nogil:
    """DefaultRecordBatch.incrementSequence, in Java's wrapping int arithmetic."""
    cdef uint32_t capacity = <uint32_t>INT32_MAX - <uint32_t>increment
    if sequence > <int32_t>capacity:
        return <int32_t>(<uint32_t>increment - (<uint32_t>INT32_MAX - <uint32_t>sequence) - 1)
    return <int32_t>(<uint32_t>sequence + <uint32_t>increment)


cdef inline int64_t wrapping_add(int64_t a, int64_t b) noexcept nogil:
    """Java's long addition: wraps around on overflow, which some batches' offsets and timestamps need."""
    return <int64_t>(<unsigned long long>a + <unsigned long long>b)


cdef inline int64_t wrapping_subtract(int64_t a, int64_t b) noexcept nogil:
    """Java's long subtraction, for any two numbers: the least one has no negative to add."""
    return <int64_t>(<unsigned long long>a - <unsigned long long>b)


cdef inline void reset_fault(Fault* fault, int64_t position) noexcept nogil:
    """Sets the fault to `position`, with nothing known about the batch there."""
    fault.position = position
    fault.base_offset = ABSENT
    fault.next_position = -1
    fault.record = -1


cdef inline int frame(const uint8_t* p, int64_t left, int64_t position, int64_t* size, int8_t* magic,
                      Fault* fault) noexcept nogil:
    """Reads size and magic of the batch at `position`: ByteBufferLogInputStream.nextBatchSize, checks in its order.

    `p` is the batch's first byte, `left` the number of bytes from there to the end of the input. At most 17 bytes are
    read, each once: another thread may change a caller's buffer between two loads. Returns OK, END, CUT or a refusal.
    """
    return frame_of_magics(p, left, position, 0, LATEST_MAGIC, size, magic, fault)


cdef inline int frame_of_magics(const uint8_t* p, int64_t left, int64_t position, int8_t least, int8_t latest,
                                int64_t* size, int8_t* magic, Fault* fault) noexcept nogil:
    """`frame` for input whose magics are from `least` to `latest`."""
    cdef int64_t claimed
    reset_fault(fault, position)
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
    if magic[0] < least or magic[0] > latest:
        return refuse(fault, UNSUPPORTED_MAGIC, latest, magic[0])
    size[0] = LOG_OVERHEAD + claimed
    if left < size[0]:
        fault.expected = size[0]
        fault.found = left
        return CUT
    fault.next_position = position + size[0]
    return OK


cdef inline void read_v2_header(const uint8_t* p, BatchRow* row) noexcept nogil:
    cdef int32_t delta = load_i32(p + 23)
    row.base_offset = load_i64(p)
    row.last_offset = wrapping_add(row.base_offset, delta)
    row.next_offset = wrapping_add(row.last_offset, 1)
    row.partition_leader_epoch = load_i32(p + LOG_OVERHEAD)
    row.crc = load_u32(p + UP_TO_MAGIC)
    row.attributes = load_i16(p + V2_ATTRIBUTES_OFFSET)
    row.base_timestamp = load_i64(p + 27)
    row.max_timestamp = load_i64(p + 35)
    row.producer_id = load_i64(p + 43)
    row.producer_epoch = load_i16(p + 51)
    row.base_sequence = load_i32(p + 53)
    row.record_count = load_i32(p + 57)
    row.last_sequence = ABSENT
    if row.base_sequence != ABSENT:
        row.last_sequence = increment_sequence(row.base_sequence, delta)
    row.timestamp_type = 1 if row.attributes & LOG_APPEND_TIME else 0


cdef inline void read_message_header(const uint8_t* p, BatchRow* row) noexcept nogil:
    """Fills the row of an outer message: what AbstractLegacyRecordBatch returns without decompressing."""
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


cdef inline void read_header(const uint8_t* p, int64_t position, int64_t size, BatchRow* row) noexcept nogil:
    """Fills the row of the batch at p, of a known magic, which has `size` bytes, its whole header among them."""
    row.position, row.size_in_bytes, row.batch_length = position, <int32_t>size, <int32_t>(size - LOG_OVERHEAD)
    if row.magic >= BATCH_MAGIC:
        read_v2_header(p, row)
    else:
        read_message_header(p, row)
    row.first_offset = row.base_offset
    row.codec = row.attributes & CODEC_MASK


cdef inline int32_t least_size(int8_t magic) noexcept nogil:
    """The smallest size in bytes of a batch of this magic: of a message with empty key and value, else of the header,
    after which the records begin."""
    if magic >= BATCH_MAGIC:
        return V2_OVERHEAD
    return LOG_OVERHEAD + (V1_OVERHEAD if magic == 1 else V0_OVERHEAD)


cdef enum ReadMode:
    FOR_PAYLOAD                  # the payload is read next: the window moves here
    FOR_NEXT_HEADER              # the next batch's header is read next: the payload may be skipped
    FOR_PEEK                     # reading continues elsewhere: the window stays

cdef inline int read_batch(Input* source, int64_t position, int64_t end, ReadMode mode, BatchRow* row,
                           Fault* fault) noexcept nogil:
    """Frames the batch at `position`, among bytes up to `end`, and fills its row. Does not check the CRC and reads no
    byte of the payload."""
    cdef const uint8_t* p = NULL
    cdef int64_t left = end - position
    cdef int64_t head = left if left < LARGEST_HEADER else LARGEST_HEADER
    cdef int64_t size = 0
    cdef int status
    if left < LOG_OVERHEAD:
        return frame(p, left, position, &size, &row.magic, fault)
    if mode == FOR_PAYLOAD:
        p = reach(source, position, head)
    elif mode == FOR_NEXT_HEADER:
        p = reach_header(source, position, head)
    else:
        p = peek(source, position, head)
    if p == NULL:
        reset_fault(fault, position)
        return refuse(fault, OUT_OF_MEMORY, head, 0)
    status = frame(p, left, position, &size, &row.magic, fault)
    if status != OK:
        return status
    if size < least_size(row.magic):
        return refuse(fault, BATCH_TOO_SMALL, least_size(row.magic), size)
    read_header(p, position, size, row)
    return OK


cdef inline uint32_t crc_from(uint32_t crc, const BatchRow* row, const uint8_t* p, int64_t at,
                              int64_t n) noexcept nogil:
    """Continues the checksum of a batch with n bytes of it, of which the first is at p and is byte `at` of the batch.
    It begins with a byte of its own."""
    cdef int64_t begin = V2_ATTRIBUTES_OFFSET if row.magic >= BATCH_MAGIC else MAGIC_OFFSET
    cdef int64_t before = min(max(begin - at, 0), n)
    if row.magic >= BATCH_MAGIC:
        return crc32c_on(crc, p + before, <size_t>(n - before))
    return crc32_on(crc, p + before, <size_t>(n - before))


cdef inline int verify_crc(const uint8_t* p, const BatchRow* row, Fault* fault) noexcept nogil:
    """Compares the checksum of the whole batch at p."""
    cdef uint32_t computed = crc_from(0, row, p, 0, row.size_in_bytes)
    return OK if computed == row.crc else refuse(fault, CRC_MISMATCH, row.crc, computed)


cdef inline int check_crc(Input* source, const BatchRow* row, Fault* fault) noexcept nogil:
    """Compares the checksum: DefaultRecordBatch.ensureValid, LegacyRecord.ensureValid. A large batch is read whole only
    if it is right: until then in pieces."""
    cdef const uint8_t* p
    cdef uint32_t computed = 0
    cdef int64_t at = 0, n = row.size_in_bytes
    if source.reader != NULL and n // LARGE_WINDOWS > source.reader.window:
        n = source.reader.window
    while at < row.size_in_bytes:
        n = min(n, row.size_in_bytes - at)
        p = reach(source, row.position + at, n)
        if p == NULL:
            return refuse(fault, OUT_OF_MEMORY, n, 0)
        computed = crc_from(computed, row, p, at, n)
        at += n
    if unreadable_end(source, row.position, row.position + row.size_in_bytes) > 0:
        return refuse(fault, UNREADABLE, row.size_in_bytes, 0)
    if computed != row.crc:
        return refuse(fault, CRC_MISMATCH, row.crc, computed)
    return OK


cdef inline bint is_wrapper(const BatchRow* row) noexcept nogil:
    return row.magic < BATCH_MAGIC and row.codec != 0


cdef inline bint is_control(const BatchRow* row) noexcept nogil:
    return row.magic >= BATCH_MAGIC and (row.attributes & CONTROL) != 0


cdef inline bint is_transactional(const BatchRow* row) noexcept nogil:
    return row.magic >= BATCH_MAGIC and (row.attributes & TRANSACTIONAL) != 0
