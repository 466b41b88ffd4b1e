"""Writes messages of magic 0 and 1: plain messages, and the header of a wrapper. `message.pxd` reads them.

    plain     offset 8 | size 4 | crc 4 | magic 1 | attributes 1 | (magic 1: timestamp 8) | key | value
              key, value: int32 length (-1: null), bytes
    wrapper   the same, with a null key and the compressed plain messages as value. Its offset is that of the last one,
              its timestamp the largest; inner offsets are absolute (magic 0) or relative to the first (magic 1, KIP-31)

Follows LegacyRecord.write, writeCompressedRecordHeader and MemoryRecordsBuilder.appendLegacyRecord, which sets the
timestamp type of inner messages too.
"""
from libc.stdint cimport int8_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

from kafkarec._c.batch cimport CODEC_MASK, LOG_APPEND_TIME, LOG_OVERHEAD, MAGIC_OFFSET, V0_OVERHEAD, V1_OVERHEAD
from kafkarec._c.endian cimport be32, be64
from kafkarec._c.write_v2 cimport RecordFields, BatchFields
from kafkarec._c.input_columns cimport Span
from kafkarec._core cimport crc32_on


cdef inline uint8_t* put_u32(uint8_t* to, uint32_t n) noexcept nogil:
    n = be32(n)
    memcpy(to, &n, 4)
    return to + 4


cdef inline uint8_t* put_i64(uint8_t* to, int64_t n) noexcept nogil:
    cdef uint64_t swapped = be64(<uint64_t>n)
    memcpy(to, &swapped, 8)
    return to + 8


cdef inline int64_t message_overhead(int8_t magic) noexcept nogil:
    """Bytes of a message without key and value (LOG_OVERHEAD + LegacyRecord.recordOverhead)."""
    return LOG_OVERHEAD + (V0_OVERHEAD if magic == 0 else V1_OVERHEAD)


cdef inline int64_t message_size(const RecordFields* d, int8_t magic) noexcept nogil:
    return message_overhead(magic) + max(d.key.length, 0) + max(d.value.length, 0)


cdef inline uint8_t* put_cell(uint8_t* to, Span bytes_) noexcept nogil:
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
    to[5] = <uint8_t>((codec & CODEC_MASK) | (LOG_APPEND_TIME if f.magic > 0 and f.timestamp_type == 1 else 0))
    to += 6
    return put_i64(to, timestamp) if f.magic > 0 else to


cdef inline void put_message_crc(uint8_t* message, int64_t size) noexcept nogil:
    put_u32(message + LOG_OVERHEAD, crc32_on(0, message + MAGIC_OFFSET, <size_t>(size - MAGIC_OFFSET)))


cdef inline void put_message(uint8_t* to, const BatchFields* f, const RecordFields* d, int64_t inner_offset,
                             int64_t timestamp, int64_t size) noexcept nogil:
    cdef uint8_t* at = put_message_head(to, inner_offset, size, f, 0, timestamp)
    at = put_cell(at, d.key)
    put_cell(at, d.value)
    put_message_crc(to, size)


cdef inline void put_wrapper(uint8_t* wrapper, const BatchFields* f, int64_t timestamp, int64_t size) noexcept nogil:
    """Writes the header of a wrapper of `size` bytes; its compressed value is already in place after it."""
    cdef uint8_t* at = put_message_head(wrapper, f.last_offset, size, f, f.codec, timestamp)
    at = put_u32(at, <uint32_t>-1)
    put_u32(at, <uint32_t>(size - message_overhead(f.magic)))
    put_message_crc(wrapper, size)
