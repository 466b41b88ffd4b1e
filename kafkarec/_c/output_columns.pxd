"""Makes the requested Arrow columns from the decoded columns: one per code, in the caller's order.

    OUT_OFFSET to OUT_HEADERS       columns that the decoder filled, used unchanged
    from there to OUT_PARTITION     numbers and bools, most of them batch fields: see number_column
    the others                      texts

`kafkarec/format/schema.py` lists the codes in the same order; tests/unit/format/test_c_names.py compares them.

The value of a batch field is the same for all records of a batch: one value per run of rows.

    batch rows   r0 r1 r2 ...      runs   (r0, 3 rows) (r2, 2 rows) ...      column   v0 v0 v0 v2 v2

In a batch table each run is one row.
"""
from libc.stdint cimport int16_t, int32_t, int64_t, int8_t, uint8_t
from libc.stdlib cimport calloc, free
from libc.string cimport memchr, memcpy, memset, strlen

from kafkarec._c.arrow cimport BYTES, FIXED, HEADERS, Column, Storage, set_column, set_value_column
from kafkarec._c.batch cimport (
    ABSENT, BATCH_MAGIC, CONTROL, DELETE_HORIZON, TRANSACTIONAL, BatchRow, codec_name, increment_sequence, is_control,
    is_wrapper, wrapping_subtract,
)
from kafkarec._c.columns cimport (
    SLACK, WANT_KEY, WANT_OFFSET, Buffer, Columns, Run, buffer_reserve, clear_bit, value_at,
)
from kafkarec._c.numbers cimport load_i16, native_int
from kafkarec._c.status cimport LIMIT_EXCEEDED, OK

cdef enum Code:
    OUT_OFFSET = 0               # the first six in the order of the bits of Want (`columns.pxd`)
    OUT_TIMESTAMP
    OUT_TIMESTAMP_TYPE
    OUT_KEY
    OUT_VALUE
    OUT_HEADERS
    OUT_POSITION
    OUT_OUTER_OFFSET             # null for a wrapper: a scan does not decompress
    OUT_LAST_OFFSET
    OUT_NEXT_OFFSET
    OUT_BATCH_LENGTH
    OUT_SIZE
    OUT_LEADER_EPOCH
    OUT_MAGIC
    OUT_CRC
    OUT_ATTRIBUTES
    OUT_BATCH_TYPE
    OUT_HORIZON
    OUT_BASE_TIMESTAMP
    OUT_MAX_TIMESTAMP
    OUT_PRODUCER_ID
    OUT_PRODUCER_EPOCH
    OUT_BASE_SEQUENCE
    OUT_LAST_SEQUENCE
    OUT_RECORD_COUNT
    OUT_BASE_OFFSET              # of a record's batch; for a wrapper the first inner offset
    OUT_TRANSACTIONAL
    OUT_CONTROL
    OUT_SEQUENCE
    OUT_CONTROL_TYPE
    OUT_PARTITION                # a constant of the input, as topic and file
    OUT_COMPRESSION
    OUT_TOPIC
    OUT_FILE

cdef enum:
    LIST_BUFFERS = 1             # offsets and validity of the lists: Chunk.lists_capsule

cdef struct Constants:           # unknown ones are NULL or -1: their columns are null
    const char* topic
    const char* file
    int64_t partition


cdef inline int wants_of(int code) noexcept nogil:
    """Which decoded columns a code needs, as WANT_* bits."""
    if code == OUT_SEQUENCE:
        return WANT_OFFSET
    if code == OUT_CONTROL_TYPE:
        return WANT_KEY
    return 1 << code if code <= OUT_HEADERS else 0


# ---- numbers and bools

cdef enum NullRule:
    NEVER_NULL = 0
    NULL_IF_ABSENT = 1           # -1, where Kafka's accessor returns -1
    NULL_IF_WRAPPER = 2          # a wrapper's base offset is known only after decompression
    NULL_UNLESS_HORIZON = 3

cdef struct NumberColumn:
    size_t at                    # where a batch field is in BatchRow
    int width                    # bytes of a number; 0: a bool, which is a bit
    int rule                     # when it is null; of a bool the attribute bit of magic 2, false for magic 0 and 1


cdef inline NumberColumn number_column(int code) noexcept nogil:
    cdef BatchRow row
    cdef NumberColumn[OUT_PARTITION - OUT_HEADERS + 1] columns = [
        NumberColumn(<size_t>&row.timestamp_type, 1, NULL_IF_ABSENT),        # OUT_TIMESTAMP_TYPE
        NumberColumn(<size_t>&row.position, 8, NEVER_NULL),
        NumberColumn(<size_t>&row.base_offset, 8, NULL_IF_WRAPPER),
        NumberColumn(<size_t>&row.last_offset, 8, NEVER_NULL),
        NumberColumn(<size_t>&row.next_offset, 8, NEVER_NULL),
        NumberColumn(<size_t>&row.batch_length, 4, NEVER_NULL),
        NumberColumn(<size_t>&row.size_in_bytes, 4, NEVER_NULL),
        NumberColumn(<size_t>&row.partition_leader_epoch, 4, NULL_IF_ABSENT),
        NumberColumn(<size_t>&row.magic, 1, NEVER_NULL),
        NumberColumn(<size_t>&row.crc, 4, NEVER_NULL),
        NumberColumn(<size_t>&row.attributes, 2, NEVER_NULL),
        NumberColumn(<size_t>&row.timestamp_type, 1, NULL_IF_ABSENT),
        NumberColumn(<size_t>&row.base_timestamp, 8, NULL_UNLESS_HORIZON),
        NumberColumn(<size_t>&row.base_timestamp, 8, NULL_IF_ABSENT),
        NumberColumn(<size_t>&row.max_timestamp, 8, NULL_IF_ABSENT),
        NumberColumn(<size_t>&row.producer_id, 8, NULL_IF_ABSENT),
        NumberColumn(<size_t>&row.producer_epoch, 2, NULL_IF_ABSENT),
        NumberColumn(<size_t>&row.base_sequence, 4, NULL_IF_ABSENT),
        NumberColumn(<size_t>&row.last_sequence, 4, NULL_IF_ABSENT),
        NumberColumn(<size_t>&row.record_count, 4, NULL_IF_ABSENT),
        NumberColumn(<size_t>&row.first_offset, 8, NEVER_NULL),
        NumberColumn(<size_t>&row.attributes, 0, TRANSACTIONAL),
        NumberColumn(<size_t>&row.attributes, 0, CONTROL),
        NumberColumn(<size_t>&row, 4, NULL_IF_ABSENT),       # no batch fields from here on
        NumberColumn(<size_t>&row, 2, NULL_IF_ABSENT),
        NumberColumn(<size_t>&row, 4, NULL_IF_ABSENT),
    ]
    cdef NumberColumn column = columns[max(code - <int>OUT_HEADERS, 0)]
    column.at -= <size_t>&row
    return column


cdef inline int64_t batch_number(const BatchRow* row, const NumberColumn* column) noexcept nogil:
    """A batch field; 0 or 1 of a bool."""
    if column.width > 0:
        return native_int(<const uint8_t*>row + column.at, column.width)
    return row.magic >= BATCH_MAGIC and row.attributes & column.rule != 0


cdef inline bint batch_number_is_null(const BatchRow* row, int64_t value, int rule) noexcept nogil:
    if rule == NULL_IF_ABSENT:
        return value == ABSENT
    if rule == NULL_IF_WRAPPER:
        return is_wrapper(row)
    return rule == NULL_UNLESS_HORIZON and (row.magic < BATCH_MAGIC or not row.attributes & DELETE_HORIZON)


cdef inline int32_t sequence_of(const BatchRow* row, int64_t offset) noexcept nogil:
    """DefaultRecord.readFrom: the base sequence plus the offset delta; ABSENT where the base sequence is negative."""
    if row.base_sequence < 0:
        return ABSENT
    return increment_sequence(row.base_sequence, <int32_t>wrapping_subtract(offset, row.base_offset))


cdef inline bint record_number(const BatchRow* row, const Columns* c, int code, int64_t i,
                               int64_t* value) noexcept nogil:
    """Sets `value` to that of record i, of a batch, in a column that differs from record to record. False: it is null.
    The type of a control record is the raw id in its key (int16 version, int16 type), null where the key is too short
    or the version negative."""
    cdef const uint8_t* key
    cdef int64_t length = 0
    if code == OUT_CONTROL_TYPE:
        key = value_at(c, &c.key, i, &length)
        if not is_control(row) or length < 4 or key[0] >= 0x80:
            return False
        value[0] = load_i16(key + 2)
        return True
    if code == OUT_SEQUENCE:
        value[0] = sequence_of(row, c.offset[i])
    else:
        value[0] = c.type[i]
    return value[0] != ABSENT


cdef inline void store_number(uint8_t* out, int64_t i, int64_t value, int width) noexcept nogil:
    if width == 8:
        (<int64_t*>out)[i] = value
    elif width == 4:
        (<int32_t*>out)[i] = <int32_t>value
    elif width == 2:
        (<int16_t*>out)[i] = <int16_t>value
    elif width == 1:
        (<int8_t*>out)[i] = <int8_t>value
    elif value == 0:
        clear_bit(out, i)


cdef inline void fill_numbers(const Columns* c, int code, const NumberColumn* column, const BatchRow* rows,
                              int64_t partition, uint8_t* out, uint8_t* bits) noexcept nogil:
    """Fills `out` and clears the bits of nulls in `bits`. These are all set before, and so is `out` of a bool."""
    cdef const Run* runs = <const Run*>c.runs.data
    cdef const BatchRow* row
    cdef int64_t r, i = 0, stop = 0, value
    cdef bint by_record = code in (OUT_TIMESTAMP_TYPE, OUT_SEQUENCE, OUT_CONTROL_TYPE), known = False
    for r in range(c.run_count):
        row = rows + runs[r].batch
        stop += runs[r].rows
        if not by_record:
            value = partition if code == OUT_PARTITION else batch_number(row, column)
            known = not batch_number_is_null(row, value, column.rule)
            value = value if known else 0
            while i < stop:
                store_number(out, i, value, column.width)
                if not known:
                    clear_bit(bits, i)
                i += 1
        while i < stop:
            known = record_number(row, c, code, i, &value)
            store_number(out, i, value if known else 0, column.width)
            if not known:
                clear_bit(bits, i)
            i += 1


# ---- all columns

cdef inline uint8_t* new_buffer(Storage* s, size_t size, int* status) noexcept nogil:
    """The next extra buffer, of `size` bytes. Storage.extra has space for three per column."""
    cdef Buffer* buffer = s.extra + s.extra_count
    s.extra_count += 1
    if status[0] == OK:
        status[0] = buffer_reserve(buffer, 0, size + SLACK)
    return buffer.data


cdef inline uint8_t* new_bits(Storage* s, int* status) noexcept nogil:
    """A bit for each row, all of them set."""
    cdef uint8_t* bits = new_buffer(s, <size_t>s.rows // 8, status)
    if status[0] == OK:
        memset(bits, 0xFF, <size_t>s.rows // 8 + SLACK)
    return bits


cdef inline void set_decoded_column(Storage* s, int code, Column* out) noexcept nogil:
    """A column that the decoder filled."""
    cdef Columns* c = &s.columns
    if code == OUT_OFFSET:
        set_column(out, FIXED, NULL, s.rows, c.offset, NULL)
    elif code == OUT_TIMESTAMP:
        set_column(out, FIXED, c.timestamp_validity, s.rows, c.timestamp, NULL)
    elif code == OUT_KEY:
        set_value_column(out, c, &c.key, s.rows)
    elif code == OUT_VALUE:
        set_value_column(out, c, &c.value, s.rows)
    elif code == OUT_HEADERS:
        out.kind = HEADERS
        out.buffers[1] = c.header_offsets
        set_column(&s.header_key, BYTES, NULL, c.headers, c.header_key.offsets, c.header_key.data.data)
        set_value_column(&s.header_value, c, &c.header_value, c.headers)
    else:
        set_column(out, FIXED, NULL, s.rows, c.type, NULL)


cdef inline int fill_text(Storage* s, const BatchRow* rows, bint codec, const char* constant,
                          Column* out) noexcept nogil:
    """Fills a string column: the codec name of each row's batch, or one constant (NULL: all null)."""
    if constant != NULL and <size_t>s.rows * strlen(constant) > 0x7FFF0000:
        return LIMIT_EXCEEDED
    cdef int status = OK
    cdef int32_t* offsets = <int32_t*>new_buffer(s, <size_t>(s.rows + 1) * 4, &status)
    cdef uint8_t* data = new_buffer(s, <size_t>s.rows * (8 if constant == NULL else strlen(constant)), &status)
    cdef uint8_t* bits = new_bits(s, &status)
    cdef const Run* runs = <const Run*>s.columns.runs.data
    cdef int64_t r, i = 0, stop, used = 0
    cdef const char* text
    cdef size_t n
    if status != OK:
        return status
    offsets[0] = 0
    for r in range(s.columns.run_count):
        text = codec_name(rows[runs[r].batch].codec) if codec else constant
        n = 0 if text == NULL else strlen(text)
        stop = i + runs[r].rows
        while i < stop:
            if text == NULL:
                clear_bit(bits, i)
            else:
                memcpy(data + used, text, n)
                used += <int64_t>n
            i += 1
            offsets[i] = <int32_t>used
    set_column(out, BYTES, bits, s.rows, offsets, data)
    return OK


cdef inline int make_column(Storage* s, int code, const BatchRow* rows, const Constants* constants,
                            Column* out) noexcept nogil:
    """Makes the column of `code`."""
    cdef NumberColumn column
    cdef uint8_t* values
    cdef uint8_t* bits
    cdef const char* constant
    cdef int status = OK
    # the decoder's type column has -1, of which Records are made, and no validity: with nulls it is copied
    if code <= OUT_HEADERS and not (code == OUT_TIMESTAMP_TYPE and memchr(s.columns.type, 0xFF, <size_t>s.rows)):
        set_decoded_column(s, code, out)
        return OK
    if code > OUT_PARTITION:
        constant = constants.topic if code == OUT_TOPIC else constants.file if code == OUT_FILE else NULL
        return fill_text(s, rows, code == OUT_COMPRESSION, constant, out)
    column = number_column(code)
    values = new_buffer(s, <size_t>(s.rows * column.width), &status) if column.width > 0 else new_bits(s, &status)
    bits = new_bits(s, &status)
    if status != OK:
        return status
    fill_numbers(&s.columns, code, &column, rows, constants.partition, values, bits)
    set_column(out, FIXED, bits, s.rows, values, NULL)
    return OK


cdef inline Storage* storage_new(int64_t columns) noexcept nogil:
    """An empty chunk with space for `columns` output columns; NULL: out of memory."""
    cdef Storage* s = <Storage*>calloc(1, sizeof(Storage))
    if s == NULL:
        return NULL
    s.references = 1
    s.extra = <Buffer*>calloc(<size_t>columns * 3 + LIST_BUFFERS, sizeof(Buffer))
    s.out = <Column*>calloc(<size_t>columns + 1, sizeof(Column))
    if s.extra == NULL or s.out == NULL:
        free(s.extra)
        free(s.out)
        free(s)
        return NULL
    return s


cdef inline int storage_fill(Storage* s, const int* codes, int64_t count, const BatchRow* rows,
                             const Constants* constants) noexcept nogil:
    """Makes the columns of `codes` for the rows of its runs."""
    cdef int64_t i
    cdef int status
    for i in range(count):
        status = make_column(s, codes[i], rows, constants, s.out + i)
        if status != OK:
            return status
        s.out_count = i + 1
    return OK
