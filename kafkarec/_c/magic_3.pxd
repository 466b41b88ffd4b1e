"""Frames, headers and records of batches of magic 3. For the bytes see kafkarec/experimental/framing.py.

Records are rewritten between the forms of magic 2 and magic 3:

    magic 2, and 3 with bit 7 = 0   length | attributes | the other fields as in record.pxd
    magic 3 with bit 7 = 1          length | the other fields
    header-first, magic 3 with bit 8, either of both, in two parts:
                                    length | [attributes] | timestamp and offset delta | key length | value length |
                                    header count | key and value length of each header ... of all records;
                                    then key, value, key and value of each header ... of all records

A record's length counts its bytes after that field, in both parts. So the forms differ in the attributes byte, in the
length, and in where the bytes are: one function reads and writes all of them. All varints but the length are copied as
they are; the length is written as short as possible.

The checks are those of record_walk.pxd.

Of a header-first payload the fields alone can be read (`scan_fields`): where they end says only the last one.
"""
from libc.stdint cimport int32_t, int64_t, int8_t, uint8_t
from libc.string cimport memcpy

from kafkarec._c.batch cimport (
    CODEC_MASK, LOG_OVERHEAD, UP_TO_MAGIC, V2_ATTRIBUTES_OFFSET, V2_OVERHEAD, BatchRow, frame_of_magics, read_v2_header,
    verify_crc, wrapping_add,
)
from kafkarec._c.numbers cimport VARLONG_BYTES, load_i16, load_i32, load_i64, load_u32, put_varint, unzigzag64
from kafkarec._c.record_walk cimport (
    Magic2Walk, Magic3Walk, WalkedRecord, begin_walk, bytes_left, next_field, next_int, next_length, next_unsigned,
    walk_fields,
)
from kafkarec._c.status cimport (
    ATTRIBUTES_LOST, BATCH_TOO_SMALL, CUT, END, HEADER_KEY_INVALID, HEADER_VALUE_INVALID, LENGTH_BEYOND_END,
    MESSAGE_TRUNCATED, OK, RECORDS_MISSING, RECORD_LENGTH_INVALID, RECORD_STRUCTURE_INVALID, Fault,
    refuse,
)

# ---- frames and headers

cdef enum:
    MAGIC_3 = 3
    FIXED_V3 = 41                # bytes of the header before its three varints

# Attribute bits.
cdef enum:
    NO_RECORD_ATTRIBUTES = 0x80
    HEADER_FIRST = 0x100
    TWO_FRAMES = 0x200


cdef inline int read_v3_header(const uint8_t* p, BatchRow* row, const uint8_t** payload, Fault* fault) noexcept nogil:
    """The header of the whole batch at p, whose position, size and magic are known, and where its payload begins."""
    cdef Magic2Walk varints = begin_walk(p + FIXED_V3, p + row.size_in_bytes, fault)
    cdef int32_t delta = next_int(&varints)
    row.base_timestamp = unzigzag64(next_unsigned(&varints, VARLONG_BYTES))
    row.max_timestamp = wrapping_add(row.base_timestamp, unzigzag64(next_unsigned(&varints, VARLONG_BYTES)))
    row.base_offset = load_i64(p)
    row.last_offset = wrapping_add(row.base_offset, delta)
    row.partition_leader_epoch = load_i32(p + LOG_OVERHEAD)
    row.attributes = load_i16(p + V2_ATTRIBUTES_OFFSET)
    row.producer_id = load_i64(p + 23)
    row.producer_epoch = load_i16(p + 31)
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
        status = read_v3_header(p, row, payload, fault)
    elif status == OK:
        read_v2_header(p, row)
        payload[0] = p + V2_OVERHEAD
    row.codec = row.attributes & CODEC_MASK
    return status


# ---- records

cdef enum:
    LEAST_FIELDS = 6             # bytes of a record without attributes, key, value and headers
    MOST_GROWTH = 2              # bytes: an attributes byte, and a length that takes one byte more

cdef struct RecordsOut:
    uint8_t* fields
    uint8_t* data
    const uint8_t* copied        # up to where the fields that are read are written
    const uint8_t* copied_data
    bint apart
    bint has_attributes


cdef inline int64_t rewrite_bound(int64_t size) noexcept nogil:
    """The most bytes that records of `size` bytes take in any form, however many the count says there are."""
    return size + MOST_GROWTH * (size // LEAST_FIELDS + 1)


cdef inline void copy_bytes(uint8_t** to, const uint8_t** source, int64_t n) noexcept nogil:
    if n > 0:
        memcpy(to[0], source[0], <size_t>n)
        to[0] += n
        source[0] += n


cdef inline void copy_to_field_end(RecordsOut* out, bint apart, const uint8_t* end, int32_t length) noexcept nogil:
    """Copies what comes before a key, value or header, and its bytes. end: where the next field begins."""
    cdef int64_t n = max(length, 0)
    if out != NULL:
        copy_bytes(&out.fields, &out.copied, end - out.copied - (0 if apart else n))
        copy_bytes(&out.data if out.apart else &out.fields, &out.copied_data if apart else &out.copied, n)


cdef inline int copy_record(Magic3Walk* at, RecordsOut* out, int64_t* data_size, int32_t* offset_delta) noexcept nogil:
    """Reads a record and writes it in the form of `out`, which may be NULL. CUT: the fields end within it. data_size:
    the bytes of its key, value and headers, if they are apart."""
    cdef int32_t length = next_length(at), i = 0
    cdef const uint8_t* begin = at.p
    cdef const uint8_t* data = at.data
    cdef int64_t most = at.stop - begin
    cdef WalkedRecord record
    cdef int32_t size
    if at.status != OK:
        return CUT if at.status == MESSAGE_TRUNCATED else at.status
    if at.apart:
        most += at.data_end - at.data
    if length < 0 or (length > most and not at.no_data):
        return refuse(at.fault, RECORD_LENGTH_INVALID, most, length)
    at.end = begin + min(<int64_t>length, at.stop - begin)
    at.beyond = length - (at.end - begin)
    walk_fields(at, &record)
    if out != NULL:
        if record.attributes != 0 and not out.has_attributes:
            return ATTRIBUTES_LOST
        out.fields = put_varint(out.fields, <int64_t>length + out.has_attributes - at.has_attributes)
        if out.has_attributes:
            out.fields[0] = record.attributes
            out.fields += 1
        out.copied, out.copied_data = begin + at.has_attributes, data
    copy_to_field_end(out, at.apart, record.key_end, record.key_length)
    copy_to_field_end(out, at.apart, record.value_end, record.value_length)
    while i < record.headers and at.status == OK:
        size = next_field(at, False, HEADER_KEY_INVALID)
        copy_to_field_end(out, at.apart, at.p, size)
        size = next_field(at, True, HEADER_VALUE_INVALID)
        copy_to_field_end(out, at.apart, at.p, size)
        i += 1
    if at.status == OK and bytes_left(at) != 0:
        return refuse(at.fault, RECORD_STRUCTURE_INVALID, length, length - bytes_left(at))
    if out != NULL:
        copy_bytes(&out.fields, &out.copied, at.p - out.copied)
    offset_delta[0], data_size[0] = record.offset_delta, length - (at.p - begin)
    return at.status


cdef struct FieldScan:
    int64_t count                # of records, as the batch says
    int64_t records              # read
    int64_t size                 # bytes of their fields
    int64_t data_size            # bytes of their keys, values and headers, if they are apart
    int32_t last_delta           # the offset delta of the last one, at first -1
    int64_t unordered            # the first record whose offset delta is not above the one before, or -1
    int32_t delta_before         # of the record before that one
    int32_t unordered_delta
    bint has_attributes


cdef inline FieldScan begin_field_scan(int64_t count, bint has_attributes) noexcept nogil:
    """Of the fields of that many records, none of which was read."""
    return FieldScan(count, 0, 0, 0, -1, -1, 0, 0, has_attributes)


cdef inline int copy_records(Magic3Walk* at, RecordsOut* out, FieldScan* scan) noexcept nogil:
    """Reads the records of a scan, and rewrites them to `out`, which may be NULL, with space for `rewrite_bound`
    bytes."""
    cdef const uint8_t* begin = at.p
    cdef int64_t data_size = 0
    cdef int32_t delta = 0
    cdef int status
    while scan.records < scan.count:
        status = copy_record(at, out, &data_size, &delta)
        if status == CUT:
            status = refuse(at.fault, RECORDS_MISSING, scan.count, scan.records)
        if status != OK:
            at.fault.record = <int32_t>scan.records
            return status
        if delta <= scan.last_delta and scan.unordered < 0:
            scan.unordered, scan.delta_before, scan.unordered_delta = scan.records, scan.last_delta, delta
        scan.last_delta = delta
        scan.data_size += data_size
        scan.size = at.p - begin
        scan.records += 1
    return OK


cdef inline int scan_fields(FieldScan* scan, const uint8_t* fields, int64_t size, Fault* fault) noexcept nogil:
    """Reads the fields of header-first records, at the beginning of `size` bytes."""
    cdef Magic3Walk at = Magic3Walk(fields, fields + size, fields + size, OK, fault, scan.has_attributes, True, True,
                                    NULL, NULL, 0)
    return copy_records(&at, NULL, scan)
