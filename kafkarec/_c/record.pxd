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

Follows DefaultRecord.readFrom and DefaultRecordBatch.RecordIterator; KIP-82 for headers.

Each byte that determines a length is loaded once, because a caller's buffer may change. Fields must end within the
record's own length, which is equivalent to Kafka's comparison at the end of the record.

Two forms of each function, by the type of the cursor. QuickCursor: 32 bytes after the record are readable, those of
the next batch for example. Its varints are not checked one by one, since the fields of a record of length 0 end at most
31 bytes after it (attributes 1, a varlong of 10, four varints of 5), and a wide copy reads at most 32 bytes beyond a
key or value. ExactCursor: reads no byte after the record; it is used for the last records of an input, and to find out
why a record is refused. The quick decode_record has one caller, so compilers inline it.

With WANT_VIEWS columns get a View of a key or value, else a copy: the quick form is there for each, and in the exact
one a condition decides.

With a filter records are decoded one by one, and one that does not pass is removed before the next.

For the audit what Kafka accepts in silence is collected in SeenRecords: by a quick form of its own, and in the exact
one by a condition.
"""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from kafkarec._c.batch cimport ABSENT, BatchRow, wrapping_add
from kafkarec._c.columns cimport (
    IN_DATA, IN_MEMORY, MOST_INLINE, SLACK, WANT_HEADERS, WANT_KEY, WANT_OFFSET, WANT_TIMESTAMP, WANT_TYPE, WANT_VALUE,
    WANT_VIEWS, Bytes, Columns, View, bytes_reserve, clear_bit, columns_reserve, columns_truncate, copy_wide,
    headers_reserve, is_set, put_long_view, put_short_view, put_short_view_wide, value_at,
)
from kafkarec._c.offset_map cimport OffsetMap, is_listed
from kafkarec._c.record_walk cimport LEAST_RECORD
from kafkarec._c.seen_records cimport SeenRecords, begin_records, see_bad_keys, see_offset, see_size
from kafkarec._c.status cimport (
    HEADER_COUNT_INVALID, HEADER_KEY_INVALID, HEADER_VALUE_INVALID, KEY_LENGTH_INVALID, MESSAGE_TRUNCATED, OK,
    RECORDS_LEFT_OVER, RECORDS_MISSING, RECORD_COUNT_NEGATIVE, RECORD_LENGTH_INVALID, RECORD_STRUCTURE_INVALID,
    VALUE_LENGTH_INVALID, Fault, refuse,
)
from kafkarec._c.utf8 cimport is_ascii, is_ascii_wide, is_utf8, java_utf8
from kafkarec._c.numbers cimport (
    VARINT_BYTES, VARLONG_BYTES, is_minimal, read_unsigned, read_unsigned_unchecked, unzigzag32, unzigzag64,
)

cdef enum:
    READ_AHEAD = 32              # readable bytes after a record that the quick form needs
    FIRST_RESERVE = 1 << 20      # the most key and value bytes reserved at once; beyond it they grow with each record

cdef struct RowFilter:           # which records are kept
    int64_t from_offset
    int64_t to_offset            # exclusive, like to_time
    bint timed                   # there is a range of times: a record without a timestamp is in none
    int64_t from_time            # milliseconds
    int64_t to_time
    const OffsetMap* keys        # only these keys and their offsets; NULL: any, and none


cdef inline bint row_passes(const RowFilter* f, const Columns* c, int64_t row) noexcept nogil:
    cdef int64_t offset = c.offset[row], time, length
    cdef const uint8_t* key
    if not f.from_offset <= offset < f.to_offset:
        return False
    if f.timed:
        time = c.timestamp[row]
        if not (f.from_time <= time < f.to_time and is_set(c.timestamp_validity, row)):
            return False
    if f.keys == NULL:
        return True
    key = value_at(c, &c.key, row, &length)
    return is_set(c.key.validity, row) and is_listed(f.keys, key, <uint64_t>length, offset)


cdef inline void filter_last_row(Columns* c, const RowFilter* filter) noexcept nogil:
    """filter: NULL if all rows are kept."""
    if filter != NULL and not row_passes(filter, c, c.rows - 1):
        columns_truncate(c, c.rows - 1, c.rows)


cdef struct QuickCursor:
    const uint8_t* p

cdef struct ExactCursor:
    const uint8_t* p

cdef struct QuickViewsCursor:
    const uint8_t* p

cdef struct QuickAuditCursor:
    const uint8_t* p

ctypedef fused Cursor:
    QuickCursor
    ExactCursor
    QuickViewsCursor
    QuickAuditCursor


cdef inline void copy_field(uint8_t* to, const Cursor* at, int64_t n) noexcept nogil:
    if Cursor is ExactCursor:
        memcpy(to, at.p, <size_t>n)
    else:
        copy_wide(to, at.p, n)


# Copies of the columns' and the batch's fields in local variables, which the compiler can keep in registers. It must
# assume that a store through a byte pointer changes any struct whose address another function has got: so no function
# that is not inlined gets a LocalColumns.
cdef struct LocalBytes:
    int32_t* ends                # ends[i]: end of row i
    View* views                  # instead of ends, if there are any
    uint8_t* data
    uint8_t* validity
    int64_t used
    int64_t capacity             # of data, without the slack for a wide copy

cdef struct LocalColumns:
    uint32_t want
    bint binary                  # header keys as they are
    bint has_append_time
    int64_t append_time
    int64_t base_timestamp
    int64_t base_offset
    const uint8_t* memory        # what long values of this batch are viewed in; NULL: the column's data
    int64_t* offset
    int64_t* timestamp
    LocalBytes key
    LocalBytes value
    int32_t* header_ends
    int64_t headers
    int64_t header_room
    LocalBytes header_key
    LocalBytes header_value
    SeenRecords* seen            # NULL: there is no audit


cdef inline void load_bytes(LocalBytes* h, const Bytes* column, bint views) noexcept nogil:
    h.ends, h.views = column.offsets + 1, <View*>column.offsets if views else NULL
    h.data, h.validity = column.data.data, column.validity
    h.used, h.capacity = column.used, <int64_t>column.data.capacity - SLACK


cdef inline void load_header_columns(LocalColumns* h, const Columns* c) noexcept nogil:
    h.headers, h.header_room = c.headers, c.header_room
    load_bytes(&h.header_key, &c.header_key, False)
    load_bytes(&h.header_value, &c.header_value, (c.want & WANT_VIEWS) != 0)


cdef inline void store_header_columns(const LocalColumns* h, Columns* c) noexcept nogil:
    c.headers = h.headers
    c.header_key.used, c.header_value.used = h.header_key.used, h.header_value.used


cdef inline void load_columns(LocalColumns* h, const Columns* c, const BatchRow* batch, bint binary,
                              SeenRecords* seen) noexcept nogil:
    h.want, h.binary, h.seen = c.want, binary, seen
    h.has_append_time, h.append_time = batch.timestamp_type != 0, batch.max_timestamp
    h.base_timestamp, h.base_offset = batch.base_timestamp, batch.base_offset
    h.memory = c.memory if c.in_memory else NULL
    h.offset, h.timestamp = c.offset, c.timestamp
    load_bytes(&h.key, &c.key, (c.want & WANT_VIEWS) != 0)
    load_bytes(&h.value, &c.value, (c.want & WANT_VIEWS) != 0)
    h.header_ends = c.header_offsets + 1
    load_header_columns(h, c)


cdef inline bint makes_views(const LocalBytes* h, const Cursor* at) noexcept nogil:
    if Cursor is ExactCursor:
        return h.views != NULL
    else:
        return Cursor is QuickViewsCursor


cdef inline bint is_audited(const LocalColumns* h, const Cursor* at) noexcept nogil:
    if Cursor is ExactCursor:
        return h.seen != NULL
    else:
        return Cursor is QuickAuditCursor


cdef inline uint64_t next_unsigned(LocalColumns* h, Cursor* at, const uint8_t* end, int most,
                                   int* status) noexcept nogil:
    """A varint (most = 5) or varlong (most = 10) without zig-zag decoding."""
    cdef const uint8_t* begin = at.p
    cdef uint64_t raw = 0
    if Cursor is ExactCursor:
        status[0] = read_unsigned(&at.p, end, most, &raw)
    else:
        raw = read_unsigned_unchecked(&at.p, most, status)
    if is_audited(h, at) and status[0] == OK and not is_minimal(begin, at.p, most):
        h.seen.not_minimal = True
    return raw


cdef inline int next_varint(LocalColumns* h, Cursor* at, const uint8_t* end, int32_t* out) noexcept nogil:
    cdef int status = OK
    out[0] = unzigzag32(<uint32_t>next_unsigned(h, at, end, VARINT_BYTES, &status))
    return status


cdef inline int next_varlong(LocalColumns* h, Cursor* at, const uint8_t* end, int64_t* out) noexcept nogil:
    cdef int status = OK
    out[0] = unzigzag64(next_unsigned(h, at, end, VARLONG_BYTES, &status))
    return status


cdef inline void put_null(LocalBytes* h, int64_t entry, const Cursor* at) noexcept nogil:
    clear_bit(h.validity, entry)
    if makes_views(h, at):
        memset(&h.views[entry], 0, sizeof(View))
    else:
        h.ends[entry] = <int32_t>h.used


cdef inline void put_non_null(LocalBytes* h, int64_t entry, const Cursor* at, int32_t length,
                              const uint8_t* memory) noexcept nogil:
    """Appends a value that is not null, or a view of it; there is space for a copy if one is
    made."""
    cdef View* view
    if makes_views(h, at):
        view = h.views + entry
        if length <= MOST_INLINE:
            if Cursor is ExactCursor:
                put_short_view(view, at.p, length)
            else:
                put_short_view_wide(view, at.p, length)
            return
        if memory != NULL:
            put_long_view(view, at.p, length, IN_MEMORY, at.p - memory)
            return
        put_long_view(view, at.p, length, IN_DATA, h.used)
    copy_field(h.data + h.used, at, length)
    h.used += length
    if not makes_views(h, at):
        h.ends[entry] = <int32_t>h.used


cdef inline int append_field(Bytes* column, LocalBytes* h, int64_t row, const Cursor* at, int32_t length,
                             const uint8_t* memory) noexcept nogil:
    """Appends a key or value; a negative length is null."""
    cdef int status
    if length < 0:
        put_null(h, row, at)
        return OK
    if (not makes_views(h, at) or (memory == NULL and length > MOST_INLINE)) and length > h.capacity - h.used:
        column.used = h.used
        status = bytes_reserve(NULL, column, length)
        if status != OK:
            return status
        load_bytes(h, column, h.views != NULL)
    put_non_null(h, row, at, length, memory)
    return OK


cdef inline int take_field(Bytes* column, LocalColumns* h, LocalBytes* own, int64_t row, Cursor* at,
                           const uint8_t* end, bint want, int too_long, Fault* fault) noexcept nogil:
    """Reads a key or value; appends it to its `own` column if that is requested (`want`)."""
    cdef int32_t length = 0
    cdef int status = next_varint(h, at, end, &length)
    if status != OK:
        return refuse(fault, status, 1, 0)
    if length > end - at.p:
        return refuse(fault, too_long, end - at.p, length)
    if is_audited(h, at) and length < -1:
        h.seen.below_minus_one = True
    if want:
        status = append_field(column, own, row, at, length, h.memory)
        if status != OK:
            return refuse(fault, status, length, 0)
    at.p += max(length, 0)
    return OK


cdef inline int append_header_key(Columns* c, LocalBytes* h, const Cursor* at, int32_t length,
                                  bint binary) noexcept nogil:
    """Appends a header key. Malformed UTF-8 becomes U+FFFD as in Java, which may triple the size; `binary`:
    unchanged."""
    cdef bint unchanged = binary or (is_ascii(at.p, length) if Cursor is ExactCursor else is_ascii_wide(at.p, length))
    cdef int64_t most = length if unchanged else <int64_t>length * 3
    cdef int status
    if most > h.capacity - h.used:               # a malformed key may have used what was reserved for this one
        c.header_key.used = h.used
        status = bytes_reserve(NULL, &c.header_key, most)
        if status != OK:
            return status
        load_bytes(h, &c.header_key, False)
    if unchanged:
        copy_field(h.data + h.used, at, length)
        h.used += length
    else:
        h.used += java_utf8(at.p, length, h.data + h.used)
    return OK


cdef inline int append_headers(Columns* c, LocalColumns* h, Cursor* at, const uint8_t* end, int32_t count,
                               Fault* fault) noexcept nogil:
    """Appends `count` headers to their columns; if these are not requested, the headers are only checked."""
    cdef bint want = (h.want & WANT_HEADERS) != 0
    cdef int32_t length = 0
    cdef int32_t _i, bad_keys = 0
    cdef int64_t size = end - at.p
    cdef bint copied = not makes_views(&h.header_value, at) or h.memory == NULL
    cdef int status
    if want and (count > h.header_room - h.headers or size > h.header_key.capacity - h.header_key.used
                 or (copied and size > h.header_value.capacity - h.header_value.used)):
        store_header_columns(h, c)
        status = headers_reserve(c, count, size)
        if status != OK:
            return refuse(fault, status, size, 0)
        load_header_columns(h, c)
    for _i in range(count):
        status = next_varint(h, at, end, &length)
        if status != OK:
            return refuse(fault, status, 1, 0)
        if length < 0 or length > end - at.p:
            return refuse(fault, HEADER_KEY_INVALID, end - at.p, length)
        if is_audited(h, at) and not is_utf8(at.p, length):
            bad_keys += 1
        if want:
            status = append_header_key(c, &h.header_key, at, length, h.binary)
            if status != OK:
                return refuse(fault, status, length, 0)
        at.p += length
        status = next_varint(h, at, end, &length)
        if status != OK:
            return refuse(fault, status, 1, 0)
        if length > end - at.p:
            return refuse(fault, HEADER_VALUE_INVALID, end - at.p, length)
        if is_audited(h, at) and length < -1:
            h.seen.below_minus_one = True
        if want:
            if length < 0:
                put_null(&h.header_value, h.headers, at)
            else:
                put_non_null(&h.header_value, h.headers, at, length, h.memory)
            h.header_key.ends[h.headers] = <int32_t>h.header_key.used
            h.headers += 1
        if length > 0:
            at.p += length
    if is_audited(h, at) and bad_keys > 0:
        see_bad_keys(h.seen, bad_keys)
    return OK


cdef inline int decode_record(Columns* c, LocalColumns* h, int64_t row, Cursor* at, const uint8_t* end,
                              Fault* fault) noexcept nogil:
    """Decodes the body of a record, which ends before `end`."""
    cdef const uint8_t* begin = at.p
    cdef int64_t delta = 0
    cdef int32_t length = 0
    cdef int status
    if Cursor is ExactCursor:
        if end - at.p < 1:
            return refuse(fault, MESSAGE_TRUNCATED, 1, 0)
    if is_audited(h, at):
        h.seen.attributes |= at.p[0]
    at.p += 1                                            # attributes
    status = next_varlong(h, at, end, &delta)
    if status != OK:
        return refuse(fault, status, 1, 0)
    if h.want & WANT_TIMESTAMP:
        delta = h.append_time if h.has_append_time else wrapping_add(h.base_timestamp, delta)
        if delta == ABSENT:
            delta = 0
            clear_bit(c.timestamp_validity, row)
        h.timestamp[row] = delta
    status = next_varint(h, at, end, &length)
    if status != OK:
        return refuse(fault, status, 1, 0)
    if h.want & WANT_OFFSET:
        h.offset[row] = wrapping_add(h.base_offset, length)
    if is_audited(h, at):
        see_offset(h.seen, wrapping_add(h.base_offset, length))

    status = take_field(&c.key, h, &h.key, row, at, end, h.want & WANT_KEY, KEY_LENGTH_INVALID, fault)
    if status != OK:
        return status
    status = take_field(&c.value, h, &h.value, row, at, end, h.want & WANT_VALUE, VALUE_LENGTH_INVALID, fault)
    if status != OK:
        return status

    status = next_varint(h, at, end, &length)
    if status != OK:
        return refuse(fault, status, 1, 0)
    if length != 0:
        # at most half the bytes left: a header has two bytes or more (CVE-2026-111108: a count allocated unchecked)
        if length < 0 or length > (end - at.p) // 2:
            return refuse(fault, HEADER_COUNT_INVALID, (end - at.p) // 2, length)
        status = append_headers(c, h, at, end, length, fault)
        if status != OK:
            return status
    if h.want & WANT_HEADERS:
        h.header_ends[row] = <int32_t>h.headers
    if at.p != end:
        return refuse(fault, RECORD_STRUCTURE_INVALID, end - begin, at.p - begin)
    return OK


cdef inline int why_refused(Columns* c, const uint8_t* p, const uint8_t* end, int status, Fault* fault) noexcept nogil:
    """Why the record is refused, found by the exact form without filling columns: the quick form may have read beyond
    the end of the record."""
    cdef LocalColumns none
    cdef ExactCursor at
    cdef int exactly
    memset(&none, 0, sizeof(LocalColumns))
    at.p = p
    exactly = decode_record(c, &none, 0, &at, end, fault)
    return status if exactly == OK else exactly


cdef inline int next_record_length(LocalColumns* h, ExactCursor* at, const uint8_t* end, int32_t* length,
                                   int32_t expected, int64_t read, Fault* fault) noexcept nogil:
    """Reads the length of a record, `read` of `expected` before it."""
    cdef int status = next_varint(h, at, end, length)
    if status == MESSAGE_TRUNCATED:
        return refuse(fault, RECORDS_MISSING, expected, read)
    if status != OK:
        return refuse(fault, status, 0, 0)
    if length[0] < 0 or length[0] > end - at.p:
        return refuse(fault, RECORD_LENGTH_INVALID, end - at.p, length[0])
    return OK


cdef inline int64_t decode_with_cursor(Columns* c, const BatchRow* batch, bint binary, int64_t row, int64_t stop,
                                       int64_t read, Cursor* cursor, const uint8_t* end, int64_t ahead,
                                       SeenRecords* seen, int* status, Fault* fault) noexcept nogil:
    """Decodes records to the rows from `row` on, the quick form up to one that ends less than `ahead` before `end`.
    Returns the row after them. read: records before those from c.rows on"""
    cdef LocalColumns h
    cdef Cursor at = cursor[0]
    cdef const uint8_t* begin
    cdef int32_t length = 0
    cdef int found = OK
    load_columns(&h, c, batch, binary, seen)
    while row < stop:
        begin = at.p
        if Cursor is ExactCursor:
            found = next_record_length(&h, &at, end, &length, batch.record_count, read + row - c.rows, fault)
            if found != OK:
                break
        elif end - at.p <= ahead or next_varint(&h, &at, end, &length) != OK or length < 0 or (
            length > end - at.p - ahead
        ):
            at.p = begin
            break
        begin = at.p
        found = decode_record(c, &h, row, &at, at.p + length, fault)
        if found != OK:
            found = why_refused(c, begin, begin + length, found, fault)
            break
        if is_audited(&h, &at):
            see_size(h.seen, length)
        row += 1
    cursor[0].p, status[0] = at.p, found
    c.key.used, c.value.used = h.key.used, h.value.used
    if h.want & WANT_HEADERS:
        store_header_columns(&h, c)
    return row


cdef inline int decode_rows(Columns* c, const BatchRow* batch, const uint8_t* p, const uint8_t* end, int64_t behind,
                            bint binary, const RowFilter* filter, SeenRecords* seen, Cursor* quick,
                            Fault* fault) noexcept nogil:
    """Decodes record_count records to columns that have space for them."""
    cdef int64_t read = 0, row, stop, ahead = max(READ_AHEAD - behind, 0)
    cdef int status = OK
    cdef ExactCursor exact
    exact.p = p
    while read < batch.record_count:
        row, stop = c.rows, c.rows + (batch.record_count if filter == NULL else 1)
        quick.p = exact.p
        row = decode_with_cursor(c, batch, binary, row, stop, read, quick, end, ahead, seen, &status, fault)
        exact.p = quick.p
        if status == OK and row < stop:
            row = decode_with_cursor(c, batch, binary, row, stop, read, &exact, end, 0, seen, &status, fault)
        read += row - c.rows
        if status != OK:
            fault.record = <int32_t>read
            return status
        c.rows = row
        filter_last_row(c, filter)
    return OK if exact.p == end else refuse(fault, RECORDS_LEFT_OVER, batch.record_count, end - exact.p)


cdef inline int decode_records(Columns* c, const BatchRow* batch, const uint8_t* p, const uint8_t* end, int64_t behind,
                               bint binary, const RowFilter* filter, SeenRecords* seen, Fault* fault) noexcept nogil:
    """Decodes all records of a batch. p to end: its payload, decompressed; `behind`: readable bytes after it; `seen`:
    for the audit, which takes no views, or NULL. On refusal the caller removes the rows."""
    cdef int64_t size = end - p
    cdef int32_t count = batch.record_count
    cdef QuickCursor quick
    cdef QuickViewsCursor quick_views
    cdef QuickAuditCursor quick_audit
    cdef int status
    if count < 0:
        return refuse(fault, RECORD_COUNT_NEGATIVE, 0, count)
    if count == 0:                       # Kafka then ignores any bytes that follow the header
        return OK
    # at most as many rows as the bytes can have: the record count may be wrong
    if <int64_t>(count - 1) * LEAST_RECORD > size:
        count = <int32_t>(size // LEAST_RECORD + 1)
    status = columns_reserve(c, count, size if size < FIRST_RESERVE else FIRST_RESERVE)
    if status != OK:
        return refuse(fault, status, size, 0)
    if c.want & WANT_TYPE:
        c.type[c.rows] = batch.timestamp_type
        if count > 1:
            memset(c.type + c.rows + 1, batch.timestamp_type, <size_t>count - 1)
    if seen != NULL:
        begin_records(seen)
        return decode_rows(c, batch, p, end, behind, binary, filter, seen, &quick_audit, fault)
    if c.want & WANT_VIEWS:
        return decode_rows(c, batch, p, end, behind, binary, filter, NULL, &quick_views, fault)
    return decode_rows(c, batch, p, end, behind, binary, filter, NULL, &quick, fault)
