"""Decodes the records of a magic 2 batch to columns, in one checked pass.

    length           varint     bytes after this field
    attributes       int8       unused
    timestamp delta  varlong    from the base timestamp (wraps around in 64 bits)
    offset delta     varint     from the base offset
    key length       varint     negative: null
    key
    value length     varint     negative: null (a tombstone)
    value
    header count     varint
      key length     varint     never negative
      key                       UTF-8
      value length   varint     negative: null
      value

Follows DefaultRecord.readFrom and DefaultRecordBatch.RecordIterator; KIP-82 for headers. A record has at least 7 bytes.

Each byte that determines a length is loaded once, because a caller's buffer may change. Fields must end within the
record's own length, which is equivalent to Kafka's comparison at the end of the record.

Two forms of one function: the quick form is used where 31 bytes after the record are readable. Its varints are not
checked one by one, since the fields of a record of length 0 end at most 31 bytes after it (attributes 1, a varlong of
10, four varints of 5), and a wide copy reads at most 31 bytes beyond a key or value. The exact form reads no byte after
the record; it is used for the last records of a payload, and to find out why a record is refused.
"""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from kafkarec._c.batch cimport ABSENT, BatchRow, wrapping_add
from kafkarec._c.columns cimport (
    SLACK, WANT_HEADERS, WANT_KEY, WANT_OFFSET, WANT_TIMESTAMP, WANT_TYPE, WANT_VALUE, Bytes, Columns, bytes_grow,
    clear_bit, columns_reserve, copy_wide, headers_reserve,
)
from kafkarec._c.status cimport (
    HEADER_COUNT_INVALID, HEADER_KEY_INVALID, HEADER_VALUE_INVALID, KEY_LENGTH_INVALID, MESSAGE_TRUNCATED, OK,
    RECORDS_LEFT_OVER, RECORDS_MISSING, RECORD_COUNT_NEGATIVE, RECORD_LENGTH_INVALID, RECORD_STRUCTURE_INVALID,
    VALUE_LENGTH_INVALID, Fault, refuse,
)
from kafkarec._c.utf8 cimport is_ascii, java_utf8
from kafkarec._c.varint cimport VARLONG_BYTES, read_varint, read_varlong, take_varint, take_varlong, unzigzag64

cdef enum:
    LEAST_RECORD = 7
    READ_AHEAD = 31              # readable bytes after a record that the quick form needs
    FIRST_RESERVE = 1 << 20      # the most key and value bytes reserved at once; beyond it they grow with each record


cdef inline int next_varint(const uint8_t** cursor, const uint8_t* end, bint exact, int32_t* out) noexcept nogil:
    cdef int status = OK
    if exact:
        return read_varint(cursor, end, out)
    out[0] = take_varint(cursor, &status)
    return status


cdef inline int next_varlong(const uint8_t** cursor, const uint8_t* end, bint exact, int64_t* out) noexcept nogil:
    cdef int status = OK
    cdef uint64_t raw = 0
    if exact:
        status = read_varlong(cursor, end, VARLONG_BYTES, &raw)
        out[0] = unzigzag64(raw)
        return status
    out[0] = take_varlong(cursor, &status)
    return status


# Copies of the columns' pointers and sizes in local variables, which the compiler can keep in registers. It must assume
# that a store through a byte pointer changes any struct in memory.
cdef struct LocalBytes:
    int32_t* ends                # ends[i]: end of row i
    uint8_t* data
    int64_t used
    int64_t capacity             # of data, without the slack for a wide copy

cdef struct LocalColumns:
    int64_t* offset
    int64_t* timestamp
    LocalBytes key
    LocalBytes value
    int32_t* header_ends


cdef inline LocalBytes local_bytes(const Bytes* column) noexcept nogil:
    cdef LocalBytes h
    h.ends = <int32_t*>column.offsets.data + 1
    h.data = column.data.data
    h.used = column.used
    h.capacity = <int64_t>column.data.capacity - SLACK
    return h


cdef inline LocalColumns local_columns(Columns* c) noexcept nogil:
    cdef LocalColumns h
    h.offset = <int64_t*>c.offset.data
    h.timestamp = <int64_t*>c.timestamp.data
    h.key = local_bytes(&c.key)
    h.value = local_bytes(&c.value)
    h.header_ends = <int32_t*>c.header_offsets.data + 1
    return h


cdef inline void copy(uint8_t* to, const uint8_t* source, int32_t n, bint exact) noexcept nogil:
    if exact:
        memcpy(to, source, <size_t>n)
    else:
        copy_wide(to, source, n)


cdef inline int take_field(Bytes* column, LocalBytes* h, int64_t row, const uint8_t** cursor, const uint8_t* end,
                           bint want, int too_long, bint exact, Fault* fault) noexcept nogil:
    """Reads a key or value; appends it to the column if that is requested (`want`)."""
    cdef int32_t length = 0
    cdef int status = next_varint(cursor, end, exact, &length)
    if status != OK:
        return refuse(fault, status, 1, 0)
    if length > end - cursor[0]:
        return refuse(fault, too_long, end - cursor[0], length)
    if want:
        if length < 0:
            clear_bit(column.validity.data, row)
            column.nulls += 1
        else:
            if length > h.capacity - h.used:
                column.used = h.used
                status = bytes_grow(column, length)
                if status != OK:
                    return refuse(fault, status, length, 0)
                h.data = column.data.data
                h.capacity = <int64_t>column.data.capacity - SLACK
            copy(h.data + h.used, cursor[0], length, exact)
            h.used += length
        h.ends[row] = <int32_t>h.used
    if length > 0:
        cursor[0] += length
    return OK


cdef inline int append_header_key(Columns* c, const uint8_t* p, int32_t length, bint exact, bint binary) noexcept nogil:
    """Appends a header key. Malformed UTF-8 becomes U+FFFD as in Java, which may triple the size; `binary`:
    unchanged."""
    cdef int status
    if binary or is_ascii(p, length):
        copy(c.header_key.data.data + c.header_key.used, p, length, exact)
        c.header_key.used += length
        return OK
    status = bytes_grow(&c.header_key, <int64_t>length * 3)
    if status == OK:
        c.header_key.used += java_utf8(p, length, c.header_key.data.data + c.header_key.used)
    return status


cdef inline int append_headers(Columns* c, const uint8_t** cursor, const uint8_t* end, int32_t count, bint exact,
                               bint binary, Fault* fault) noexcept nogil:
    """Appends `count` headers to their columns; if these are not requested, the headers are only checked."""
    cdef const uint8_t* p = cursor[0]
    cdef bint want = (c.want & WANT_HEADERS) != 0
    cdef int32_t length = 0
    cdef int32_t _i
    cdef int64_t row = c.headers
    cdef int status = headers_reserve(c, count, end - p) if want else OK
    if status != OK:
        return refuse(fault, status, end - p, 0)
    for _i in range(count):
        status = next_varint(&p, end, exact, &length)
        if status != OK:
            return refuse(fault, status, 1, 0)
        if length < 0 or length > end - p:
            return refuse(fault, HEADER_KEY_INVALID, end - p, length)
        if want:
            # a malformed key may have used capacity that was reserved for later keys
            if c.header_key.data.capacity < <size_t>(c.header_key.used + length + SLACK):
                status = bytes_grow(&c.header_key, length)
                if status != OK:
                    return refuse(fault, status, length, 0)
            status = append_header_key(c, p, length, exact, binary)
            if status != OK:
                return refuse(fault, status, length, 0)
        p += length
        status = next_varint(&p, end, exact, &length)
        if status != OK:
            return refuse(fault, status, 1, 0)
        if length > end - p:
            return refuse(fault, HEADER_VALUE_INVALID, end - p, length)
        if want:
            if length < 0:
                clear_bit(c.header_value.validity.data, row)
                c.header_value.nulls += 1
            else:
                copy(c.header_value.data.data + c.header_value.used, p, length, exact)
                c.header_value.used += length
            row += 1
            c.headers = row
            (<int32_t*>c.header_key.offsets.data)[row] = <int32_t>c.header_key.used
            (<int32_t*>c.header_value.offsets.data)[row] = <int32_t>c.header_value.used
        if length > 0:
            p += length
    cursor[0] = p
    return OK


cdef inline int decode_one(Columns* c, LocalColumns* h, int64_t row, const BatchRow* batch, const uint8_t** cursor,
                           const uint8_t* end, uint32_t want, bint exact, bint binary, Fault* fault) noexcept nogil:
    """Decodes the body of a record, which ends before `end`. `exact`, the form, is a constant at each call."""
    cdef const uint8_t* p = cursor[0] + 1               # attributes
    cdef int64_t delta = 0
    cdef int32_t length = 0
    cdef int status
    if exact and end - cursor[0] < 1:
        return refuse(fault, MESSAGE_TRUNCATED, 1, 0)
    status = next_varlong(&p, end, exact, &delta)
    if status != OK:
        return refuse(fault, status, 1, 0)
    if want & WANT_TIMESTAMP:
        delta = batch.max_timestamp if batch.timestamp_type else wrapping_add(batch.base_timestamp, delta)
        if delta == ABSENT:
            delta = 0
            clear_bit(c.timestamp_validity.data, row)
            c.timestamp_nulls += 1
        h.timestamp[row] = delta
    status = next_varint(&p, end, exact, &length)
    if status != OK:
        return refuse(fault, status, 1, 0)
    if want & WANT_OFFSET:
        h.offset[row] = wrapping_add(batch.base_offset, length)

    status = take_field(&c.key, &h.key, row, &p, end, want & WANT_KEY, KEY_LENGTH_INVALID, exact, fault)
    if status != OK:
        return status
    status = take_field(&c.value, &h.value, row, &p, end, want & WANT_VALUE, VALUE_LENGTH_INVALID, exact, fault)
    if status != OK:
        return status

    status = next_varint(&p, end, exact, &length)
    if status != OK:
        return refuse(fault, status, 1, 0)
    if length != 0:
        # at most half the bytes left: a header has two bytes or more (CVE-2026-111108: a count allocated unchecked)
        if length < 0 or length > (end - p) // 2:
            return refuse(fault, HEADER_COUNT_INVALID, (end - p) // 2, length)
        status = append_headers(c, &p, end, length, exact, binary, fault)
        if status != OK:
            return status
    if want & WANT_HEADERS:
        h.header_ends[row] = <int32_t>c.headers
    if p != end:
        return refuse(fault, RECORD_STRUCTURE_INVALID, end - cursor[0], p - cursor[0])
    cursor[0] = p
    return OK


cdef inline int why_refused(Columns* c, const BatchRow* batch, const uint8_t* p, const uint8_t* end, int status,
                            Fault* fault) noexcept nogil:
    """Why the record is refused, found by the exact form without filling columns: the quick form may have read beyond
    the end of the record."""
    cdef LocalColumns none
    cdef uint32_t want = c.want
    cdef int exactly
    memset(&none, 0, sizeof(LocalColumns))
    c.want = 0
    exactly = decode_one(c, &none, 0, batch, &p, end, 0, True, False, fault)
    c.want = want
    return status if exactly == OK else exactly


cdef inline int decode_rows(Columns* c, const BatchRow* batch, const uint8_t* p, const uint8_t* end, bint binary,
                            Fault* fault) noexcept nogil:
    """Decodes record_count records to columns that have space for them."""
    cdef LocalColumns h = local_columns(c)
    cdef uint32_t want = c.want
    cdef int64_t row = c.rows
    cdef int64_t stop = row + batch.record_count
    cdef int32_t length = 0
    cdef int status
    while row < stop:
        status = read_varint(&p, end, &length)
        if status != OK:
            fault.record = <int32_t>(row - c.rows)
            if status == MESSAGE_TRUNCATED:
                return refuse(fault, RECORDS_MISSING, batch.record_count, row - c.rows)
            return refuse(fault, status, 0, 0)
        if length < 0 or length > end - p:
            fault.record = <int32_t>(row - c.rows)
            return refuse(fault, RECORD_LENGTH_INVALID, end - p, length)
        if end - p - length >= READ_AHEAD:
            status = decode_one(c, &h, row, batch, &p, p + length, want, False, binary, fault)
        else:
            status = decode_one(c, &h, row, batch, &p, p + length, want, True, binary, fault)
        if status != OK:
            fault.record = <int32_t>(row - c.rows)
            return why_refused(c, batch, p, p + length, status, fault)
        row += 1
    if p != end:
        return refuse(fault, RECORDS_LEFT_OVER, batch.record_count, end - p)
    c.key.used = h.key.used
    c.value.used = h.value.used
    c.rows = stop
    return OK


cdef inline int decode_records(Columns* c, const BatchRow* batch, const uint8_t* p, const uint8_t* end, bint binary,
                               Fault* fault) noexcept nogil:
    """Decodes all records of a batch. p to end: its payload, decompressed. On refusal the caller removes the rows."""
    cdef int64_t size = end - p
    cdef int32_t count = batch.record_count
    cdef int status
    if count < 0:
        return refuse(fault, RECORD_COUNT_NEGATIVE, 0, count)
    if count == 0:                       # Kafka then ignores any bytes that follow the header
        return OK
    # at most as many rows as the bytes can have: the record count may be wrong
    if count > size // LEAST_RECORD + 1:
        count = <int32_t>(size // LEAST_RECORD + 1)
    status = columns_reserve(c, count, size if size < FIRST_RESERVE else FIRST_RESERVE)
    if status != OK:
        return refuse(fault, status, size, 0)
    if c.want & WANT_TYPE:
        memset(c.type.data + c.rows, batch.timestamp_type, <size_t>count)
    return decode_rows(c, batch, p, end, binary, fault)
