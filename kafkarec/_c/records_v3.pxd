"""Rewrites records between the forms of magic 2 and magic 3, for kafkarec.experimental.

    magic 2, and 3 with bit 7 = 0   length | attributes | the other fields as in record.pxd
    magic 3 with bit 7 = 1          length | the other fields
    header-first, magic 3 with bit 8, either of both, in two parts:
                                    length | [attributes] | timestamp and offset delta | key length | value length |
                                    header count | key and value length of each header ... of all records;
                                    then key, value, key and value of each header ... of all records

A record's length counts its bytes after that field, in both parts. So the forms differ in the attributes byte, in the
length, and in where the bytes are: one function reads and writes all of them. All varints but the length are copied as
they are; the length is written as short as possible.

The checks are those of record.pxd, in its order. Each byte that determines a length is loaded once.
"""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

from kafkarec._c.status cimport (
    ATTRIBUTES_LOST, CUT, HEADER_COUNT_INVALID, HEADER_KEY_INVALID, HEADER_VALUE_INVALID, KEY_LENGTH_INVALID,
    MESSAGE_TRUNCATED, OK,
    RECORDS_LEFT_OVER, RECORDS_MISSING, RECORD_LENGTH_INVALID, RECORD_STRUCTURE_INVALID, VALUE_LENGTH_INVALID,
    VARINT_TOO_LONG, Fault, refuse,
)
from kafkarec._c.varint cimport VARINT_BYTES, VARLONG_BYTES, read_varint, unzigzag32

cdef enum:
    LEAST_FIELDS = 6             # bytes of a record without attributes, key, value and headers
    MOST_GROWTH = 2              # bytes: an attributes byte, and a length that takes one byte more

cdef struct RecordsIn:
    const uint8_t* fields
    const uint8_t* fields_end
    const uint8_t* data          # keys, values and headers, if `apart`
    const uint8_t* data_end
    bint apart                   # else they are between the fields
    bint has_attributes
    bint no_data                 # `apart`, and only the fields are read

cdef struct RecordsOut:
    uint8_t* fields              # NULL: nothing is written
    uint8_t* data
    bint apart
    bint has_attributes


cdef inline int64_t rewritten_size(int64_t size) noexcept nogil:
    """The most bytes that records of `size` bytes take in any form, however many the count says there are."""
    return size + MOST_GROWTH * (size // LEAST_FIELDS + 1)


cdef inline uint8_t* put_length(uint8_t* to, int64_t length) noexcept nogil:
    """Writes the varint of a length, which is not negative."""
    cdef uint64_t raw = <uint64_t>length << 1
    while raw >= 0x80:
        to[0] = <uint8_t>(raw | 0x80)
        raw >>= 7
        to += 1
    to[0] = <uint8_t>raw
    return to + 1


cdef inline int copy_varint(RecordsIn* records, RecordsOut* out, int64_t* left, int most,
                            uint64_t* value) noexcept nogil:
    """Copies a varint, `left` bytes before the end of its record."""
    cdef uint8_t byte
    cdef int i
    value[0] = 0
    for i in range(most):
        if left[0] <= 0:
            return MESSAGE_TRUNCATED
        if records.fields >= records.fields_end:
            return CUT
        byte = records.fields[0]
        records.fields += 1
        left[0] -= 1
        if out.fields != NULL:
            out.fields[0] = byte
            out.fields += 1
        value[0] |= <uint64_t>(byte & 0x7F) << (7 * i)
        if byte < 0x80:
            return OK
    return VARINT_TOO_LONG


cdef inline int copy_bytes(RecordsIn* records, RecordsOut* out, int64_t* left, bint nullable, int too_long,
                           Fault* fault) noexcept nogil:
    """Copies a length, and the bytes that have it."""
    cdef uint64_t raw
    cdef int32_t length
    cdef int64_t most
    cdef const uint8_t** source = &records.data if records.apart else &records.fields
    cdef uint8_t** target = &out.data if out.apart else &out.fields
    cdef int status = copy_varint(records, out, left, VARINT_BYTES, &raw)
    if status != OK:
        return refuse(fault, status, 1, 0)
    length = unzigzag32(<uint32_t>raw)
    most = left[0]
    if records.apart and not records.no_data and most > records.data_end - records.data:
        most = records.data_end - records.data
    if length > most or (length < 0 and not nullable):
        return refuse(fault, too_long, most, length)
    if length <= 0:
        return OK
    left[0] -= length
    if records.no_data:
        return OK
    if out.fields != NULL:
        memcpy(target[0], source[0], <size_t>length)
        target[0] += length
    source[0] += length
    return OK


cdef inline int copy_attributes(RecordsIn* records, RecordsOut* out, int64_t* left, Fault* fault) noexcept nogil:
    cdef uint8_t byte = 0
    if records.has_attributes:
        if left[0] <= 0:
            return refuse(fault, MESSAGE_TRUNCATED, 1, 0)
        if records.fields >= records.fields_end:
            return CUT
        byte = records.fields[0]
        records.fields += 1
        left[0] -= 1
    if out.fields != NULL:
        if not out.has_attributes:
            return ATTRIBUTES_LOST if byte != 0 else OK
        out.fields[0] = byte
        out.fields += 1
    return OK


cdef inline int copy_record(RecordsIn* records, RecordsOut* out, int64_t* data_size, int32_t* offset_delta,
                            Fault* fault) noexcept nogil:
    """Reads a record and writes it in the form of `out`. CUT: the fields end within it. data_size: the bytes of its
    key, value and headers."""
    cdef const uint8_t* begin
    cdef int32_t length = 0, headers
    cdef int64_t left, most
    cdef uint64_t raw
    cdef int _i
    cdef int status = read_varint(&records.fields, records.fields_end, &length)
    if status != OK:
        return CUT if status == MESSAGE_TRUNCATED else refuse(fault, status, 0, 0)
    begin = records.fields
    most = records.fields_end - begin
    if records.apart:
        most += records.data_end - records.data
    if length < 0 or (length > most and not records.no_data):
        return refuse(fault, RECORD_LENGTH_INVALID, most, length)
    left = length
    if out.fields != NULL:
        out.fields = put_length(out.fields, <int64_t>length + out.has_attributes - records.has_attributes)
    status = copy_attributes(records, out, &left, fault)
    if status != OK:
        return status
    status = copy_varint(records, out, &left, VARLONG_BYTES, &raw)
    if status != OK:
        return refuse(fault, status, 1, 0)
    status = copy_varint(records, out, &left, VARINT_BYTES, &raw)
    if status != OK:
        return refuse(fault, status, 1, 0)
    offset_delta[0] = unzigzag32(<uint32_t>raw)
    status = copy_bytes(records, out, &left, True, KEY_LENGTH_INVALID, fault)
    if status == OK:
        status = copy_bytes(records, out, &left, True, VALUE_LENGTH_INVALID, fault)
    if status != OK:
        return status
    status = copy_varint(records, out, &left, VARINT_BYTES, &raw)
    if status != OK:
        return refuse(fault, status, 1, 0)
    headers = unzigzag32(<uint32_t>raw)
    if headers < 0 or headers > left // 2:               # a header has two bytes or more
        return refuse(fault, HEADER_COUNT_INVALID, left // 2, headers)
    for _i in range(headers):
        status = copy_bytes(records, out, &left, False, HEADER_KEY_INVALID, fault)
        if status == OK:
            status = copy_bytes(records, out, &left, True, HEADER_VALUE_INVALID, fault)
        if status != OK:
            return status
    if left != 0:
        return refuse(fault, RECORD_STRUCTURE_INVALID, length, length - left)
    data_size[0] = length - (records.fields - begin) if records.apart else 0
    return OK


cdef inline int copy_records(RecordsIn* records, RecordsOut* out, int64_t count, Fault* fault) noexcept nogil:
    """Rewrites `count` records, which must fill what they are read from. There is space for `rewritten_size` bytes."""
    cdef int64_t i, size
    cdef int32_t delta
    cdef int status
    for i in range(count):
        status = copy_record(records, out, &size, &delta, fault)
        if status == CUT:
            status = refuse(fault, RECORDS_MISSING, count, i)
        if status != OK:
            fault.record = <int32_t>i
            return status
    size = records.fields_end - records.fields
    if records.apart:
        size += records.data_end - records.data
    return OK if size == 0 else refuse(fault, RECORDS_LEFT_OVER, count, size)
