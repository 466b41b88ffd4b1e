"""Frames and headers of batches of magic 3. For the bytes see kafkarec/experimental/framing.py."""
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t

from kafkarec._c.batch cimport (
    CODEC_MASK, LOG_OVERHEAD, UP_TO_MAGIC, V2_ATTRIBUTES_OFFSET, V2_OVERHEAD, BatchRow, frame_of_magics, read_v2,
    verify_crc, wrapping_add,
)
from kafkarec._c.endian cimport load_i32, load_i64, load_u32
from kafkarec._c.record_walk cimport PlainWalk, next_int, next_raw, walk_from
from kafkarec._c.status cimport BATCH_TOO_SMALL, CUT, END, LENGTH_BEYOND_END, OK, Fault, refuse
from kafkarec._c.varint cimport VARLONG_BYTES, unzigzag64

cdef enum:
    MAGIC_3 = 3
    FIXED_V3 = 41                # bytes of the header before its three varints

# Attribute bits.
cdef enum:
    NO_RECORD_ATTRIBUTES = 0x80
    HEADER_FIRST = 0x100
    TWO_FRAMES = 0x200


cdef inline int read_v3(const uint8_t* p, BatchRow* row, const uint8_t** payload, Fault* fault) noexcept nogil:
    """The header of the whole batch at p, whose position, size and magic are known, and where its payload begins."""
    cdef PlainWalk varints = walk_from(p + FIXED_V3, p + row.size_in_bytes, fault)
    cdef int32_t delta = next_int(&varints)
    row.base_timestamp = unzigzag64(next_raw(&varints, VARLONG_BYTES))
    row.max_timestamp = wrapping_add(row.base_timestamp, unzigzag64(next_raw(&varints, VARLONG_BYTES)))
    row.base_offset = load_i64(p)
    row.last_offset = wrapping_add(row.base_offset, delta)
    row.partition_leader_epoch = load_i32(p + LOG_OVERHEAD)
    row.attributes = <int16_t>(load_u32(p + V2_ATTRIBUTES_OFFSET) >> 16)
    row.producer_id = load_i64(p + 23)
    row.producer_epoch = <int16_t>(load_u32(p + 31) >> 16)
    row.base_sequence = load_i32(p + 33)
    row.record_count = load_i32(p + 37)
    payload[0] = varints.p
    return varints.status


cdef inline int read_batch_of(int8_t magic, const uint8_t* p, int64_t left, int64_t position, bint check_crc,
                              BatchRow* row, const uint8_t** payload, Fault* fault) noexcept nogil:
    """Frames the batch of magic 2 or 3 at p, checks it as `decode` does, and fills its row. The input must not end
    before the batch."""
    cdef int64_t size = 0, least = FIXED_V3 + 3 if magic == MAGIC_3 else V2_OVERHEAD
    cdef int status = frame_of_magics(p, left, position, magic, magic, &size, &row.magic, fault)
    if status == END or status == CUT:
        size = load_i32(p + 8) if left >= LOG_OVERHEAD else 0
        return refuse(fault, LENGTH_BEYOND_END, LOG_OVERHEAD + size, left)
    if status != OK:
        return status
    if size < least:
        return refuse(fault, BATCH_TOO_SMALL, least, size)
    row.position, row.size_in_bytes, row.crc = position, <int32_t>size, load_u32(p + UP_TO_MAGIC)
    if check_crc:
        status = verify_crc(p, row, fault)
    if status == OK and magic == MAGIC_3:
        status = read_v3(p, row, payload, fault)
    elif status == OK:
        read_v2(p, row)
        payload[0] = p + V2_OVERHEAD
    row.codec = row.attributes & CODEC_MASK
    return status
