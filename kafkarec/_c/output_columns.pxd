"""Makes the requested Arrow columns from the decoded columns: one per code, in the caller's order.

    OUT_OFFSET to OUT_HEADERS     columns that the decoder filled, used unchanged
    from there to OUT_BASE_OFFSET batch fields, repeated for each row: see row_field()
    the others                    special cases

`kafkarec/format/schema.py` lists the codes in the same order; tests/unit/format/test_c_names.py compares them.

The value of a batch field is the same for all records of a batch: one value per run of rows.

    batch rows   r0 r1 r2 ...      runs   (r0, 3 rows) (r2, 2 rows) ...      column   v0 v0 v0 v2 v2

In a batch table each run is one row. `row_field` describes each column: the offset of its field in BatchRow, its width,
and when it is null.
"""
from libc.stdint cimport int16_t, int32_t, int64_t, int8_t, uint8_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, memset, strlen

from kafkarec._c.arrow cimport FIXED, HEADERS, Column, Storage, set_bytes_column, set_value_column
from kafkarec._c.batch cimport (
    ABSENT, BATCH_MAGIC, CONTROL, DELETE_HORIZON, TRANSACTIONAL, BatchRow, codec_name, increment_sequence, is_wrapper,
    wrapping_subtract,
)
from kafkarec._c.columns cimport (
    SLACK, WANT_HEADERS, WANT_KEY, WANT_OFFSET, WANT_TIMESTAMP, WANT_TYPE, WANT_VALUE, Buffer, Columns, Run,
    bits_reserve, buffer_reserve, clear_bit, value_at,
)
from kafkarec._c.status cimport LIMIT_EXCEEDED, OK

# ---- columns of batch fields

cdef enum NullRule:
    NEVER_NULL = 0
    NULL_IF_ABSENT = 1           # -1, where Kafka's accessor returns -1
    NULL_IF_WRAPPER = 2          # a wrapper's base offset is known only after decompression
    NULL_UNLESS_HORIZON = 3


cdef inline int64_t field_value(const BatchRow* row, size_t at, int width) noexcept nogil:
    cdef const uint8_t* p = <const uint8_t*>row + at
    cdef int64_t wide
    cdef int32_t word
    cdef int16_t half
    if width == 8:
        memcpy(&wide, p, 8)
        return wide
    if width == 4:
        memcpy(&word, p, 4)
        return word
    if width == 2:
        memcpy(&half, p, 2)
        return half
    return <int8_t>p[0]


cdef inline bint field_is_null(const BatchRow* row, int64_t value, int rule) noexcept nogil:
    if rule == NULL_IF_ABSENT:
        return value == ABSENT
    if rule == NULL_IF_WRAPPER:
        return is_wrapper(row)
    if rule == NULL_UNLESS_HORIZON:
        return row.magic < BATCH_MAGIC or not (row.attributes & DELETE_HORIZON)
    return False


cdef inline void store_number(uint8_t* out, int64_t i, int64_t value, int width) noexcept nogil:
    if width == 8:
        (<int64_t*>out)[i] = value
    elif width == 4:
        (<int32_t*>out)[i] = <int32_t>value
    elif width == 2:
        (<int16_t*>out)[i] = <int16_t>value
    else:
        (<int8_t*>out)[i] = <int8_t>value


cdef inline int64_t fill_field(const BatchRow* rows, const Run* runs, int64_t run_count, size_t at, int width,
                               int rule, uint8_t* out, uint8_t* bits) noexcept nogil:
    """Fills `out`, clears the bits of nulls in `bits` (all set before) and returns the null count."""
    cdef int64_t r, i = 0, stop, value, nulls = 0
    cdef bint null
    for r in range(run_count):
        value = field_value(rows + runs[r].batch, at, width)
        null = field_is_null(rows + runs[r].batch, value, rule)
        stop = i + runs[r].rows
        if null:
            nulls += runs[r].rows
            value = 0
        while i < stop:
            store_number(out, i, value, width)
            if null:
                clear_bit(bits, i)
            i += 1
    return nulls


cdef inline void fill_flag(const BatchRow* rows, const Run* runs, int64_t run_count, int mask,
                           uint8_t* bits) noexcept nogil:
    """Fills a bool column with an attribute bit of magic 2, false for magic 0 and 1. `bits` are all set before."""
    cdef int64_t r, i = 0, stop
    cdef const BatchRow* row
    for r in range(run_count):
        row = rows + runs[r].batch
        stop = i + runs[r].rows
        if row.magic >= BATCH_MAGIC and row.attributes & mask:
            i = stop
        while i < stop:
            clear_bit(bits, i)
            i += 1


cdef inline int32_t sequence_of(const BatchRow* row, int64_t offset) noexcept nogil:
    """DefaultRecord.readFrom: the base sequence plus the offset delta; ABSENT where the base sequence is negative."""
    if row.base_sequence < 0:
        return ABSENT
    return increment_sequence(row.base_sequence, <int32_t>wrapping_subtract(offset, row.base_offset))


cdef inline int64_t fill_sequence(const BatchRow* rows, const Run* runs, int64_t run_count, const int64_t* offsets,
                                  int32_t* out, uint8_t* bits) noexcept nogil:
    """The `sequence_of` each record; null where it is ABSENT."""
    cdef int64_t r, i = 0, stop, nulls = 0
    cdef const BatchRow* row
    cdef int32_t sequence
    for r in range(run_count):
        row = rows + runs[r].batch
        stop = i + runs[r].rows
        while i < stop:
            sequence = sequence_of(row, offsets[i])
            out[i] = sequence
            if sequence == ABSENT:
                out[i] = 0
                clear_bit(bits, i)
                nulls += 1
            i += 1
    return nulls


cdef inline int64_t fill_control_type(const BatchRow* rows, const Run* runs, int64_t run_count, int control_mask,
                                      const Columns* c, int16_t* out, uint8_t* bits) noexcept nogil:
    """The raw type id from a control record's key (int16 version, int16 type); null where the key is too short or the
    version negative, and for other records."""
    cdef int64_t r, i = 0, stop, nulls = 0, length = 0
    cdef const BatchRow* row
    cdef const uint8_t* key
    for r in range(run_count):
        row = rows + runs[r].batch
        stop = i + runs[r].rows
        while i < stop:
            key = value_at(c, &c.key, i, &length)
            out[i] = 0
            if row.magic >= BATCH_MAGIC and row.attributes & control_mask and length >= 4 and key[0] < 0x80:
                out[i] = <int16_t>(key[2] << 8 | key[3])
            else:
                clear_bit(bits, i)
                nulls += 1
            i += 1
    return nulls


# ---- all columns

cdef enum Code:
    OUT_OFFSET = 0
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
    OUT_COMPRESSION
    OUT_SEQUENCE
    OUT_CONTROL_TYPE
    OUT_TOPIC                    # from here on constants of the input
    OUT_PARTITION
    OUT_FILE

cdef enum:
    LIST_BUFFERS = 1             # offsets and validity of the lists: Chunk.lists_capsule

cdef struct RowField:
    size_t at
    int width
    int rule

cdef struct Constants:           # unknown ones are NULL or -1: their columns are null
    const char* topic
    const char* file
    int64_t partition


cdef inline RowField row_field(int code) noexcept nogil:
    """The offset of a batch field in BatchRow, its width in bytes, and when it is null. Width 0: no field of
    BatchRow."""
    cdef BatchRow row
    cdef RowField[OUT_BASE_OFFSET - OUT_POSITION + 1] fields = [
        RowField(<size_t>&row.position, 8, NEVER_NULL),
        RowField(<size_t>&row.base_offset, 8, NULL_IF_WRAPPER),
        RowField(<size_t>&row.last_offset, 8, NEVER_NULL),
        RowField(<size_t>&row.next_offset, 8, NEVER_NULL),
        RowField(<size_t>&row.batch_length, 4, NEVER_NULL),
        RowField(<size_t>&row.size_in_bytes, 4, NEVER_NULL),
        RowField(<size_t>&row.partition_leader_epoch, 4, NULL_IF_ABSENT),
        RowField(<size_t>&row.magic, 1, NEVER_NULL),
        RowField(<size_t>&row.crc, 4, NEVER_NULL),
        RowField(<size_t>&row.attributes, 2, NEVER_NULL),
        RowField(<size_t>&row.timestamp_type, 1, NULL_IF_ABSENT),
        RowField(<size_t>&row.base_timestamp, 8, NULL_UNLESS_HORIZON),
        RowField(<size_t>&row.base_timestamp, 8, NULL_IF_ABSENT),
        RowField(<size_t>&row.max_timestamp, 8, NULL_IF_ABSENT),
        RowField(<size_t>&row.producer_id, 8, NULL_IF_ABSENT),
        RowField(<size_t>&row.producer_epoch, 2, NULL_IF_ABSENT),
        RowField(<size_t>&row.base_sequence, 4, NULL_IF_ABSENT),
        RowField(<size_t>&row.last_sequence, 4, NULL_IF_ABSENT),
        RowField(<size_t>&row.record_count, 4, NULL_IF_ABSENT),
        RowField(<size_t>&row.first_offset, 8, NEVER_NULL),
    ]
    cdef RowField field = RowField(<size_t>&row, 0, NEVER_NULL)
    if OUT_POSITION <= code <= OUT_BASE_OFFSET:
        field = fields[code - OUT_POSITION]
    field.at -= <size_t>&row
    return field


cdef inline int wants_of(int code) noexcept nogil:
    """Which decoded columns a code needs, as WANT_* bits."""
    if code == OUT_OFFSET or code == OUT_SEQUENCE:
        return WANT_OFFSET
    if code == OUT_TIMESTAMP:
        return WANT_TIMESTAMP
    if code == OUT_TIMESTAMP_TYPE:
        return WANT_TYPE
    if code == OUT_KEY or code == OUT_CONTROL_TYPE:
        return WANT_KEY
    if code == OUT_VALUE:
        return WANT_VALUE
    return WANT_HEADERS if code == OUT_HEADERS else 0


cdef inline void set_fixed_column(Column* out, const Buffer* values, const Buffer* validity,
                                  int64_t nulls) noexcept nogil:
    out.kind = FIXED
    out.buffers[0] = validity.data
    out.buffers[1] = values.data
    out.buffers[2] = NULL
    out.nulls = nulls


cdef inline Buffer* new_buffer(Storage* s, size_t size, int* status) noexcept nogil:
    """The next extra buffer, of `size` bytes. Storage.extra has space for three per column."""
    cdef Buffer* buffer = s.extra + s.extra_count
    s.extra_count += 1
    if status[0] == OK:
        status[0] = buffer_reserve(buffer, 0, size + SLACK)
    return buffer


cdef inline Buffer* new_bits(Storage* s, int* status) noexcept nogil:
    cdef Buffer* buffer = s.extra + s.extra_count
    s.extra_count += 1
    if status[0] == OK:
        status[0] = bits_reserve(NULL, buffer, s.rows)
    return buffer


cdef inline int set_decoded_column(Storage* s, int code, Column* out) noexcept nogil:
    """A column that the decoder filled."""
    cdef Columns* c = &s.columns
    cdef Buffer* bits
    cdef Buffer* values
    cdef int64_t i
    cdef int status = OK
    if code == OUT_OFFSET:
        set_fixed_column(out, &c.offset, &c.timestamp_validity, 0)
    elif code == OUT_TIMESTAMP:
        set_fixed_column(out, &c.timestamp, &c.timestamp_validity, c.timestamp_nulls)
    elif code == OUT_KEY:
        set_value_column(out, c, &c.key)
    elif code == OUT_VALUE:
        set_value_column(out, c, &c.value)
    elif code == OUT_HEADERS:
        out.kind = HEADERS
        out.buffers[0] = NULL
        out.buffers[1] = c.header_offsets.data
        out.nulls = 0
    else:
        bits = new_bits(s, &status)
        if status != OK:
            return status
        values = &c.type
        if c.type_nulls > 0:             # a copy: Records are made of the column with -1
            values = new_buffer(s, <size_t>s.rows, &status)
            if status != OK:
                return status
            for i in range(s.rows):
                values.data[i] = <uint8_t>max((<const int8_t*>c.type.data)[i], 0)
                if (<const int8_t*>c.type.data)[i] < 0:
                    clear_bit(bits.data, i)
        set_fixed_column(out, values, bits, c.type_nulls)
    return status


cdef inline int fill_text(Storage* s, const BatchRow* rows, const Run* runs, int64_t run_count, bint codec,
                          const char* constant, Column* out) noexcept nogil:
    """Fills a string column: the codec name of each row's batch, or one constant (NULL: all null)."""
    if constant != NULL and <size_t>s.rows * strlen(constant) > 0x7FFF0000:
        return LIMIT_EXCEEDED
    cdef int status = OK
    cdef Buffer* offsets = new_buffer(s, <size_t>(s.rows + 1) * 4, &status)
    cdef Buffer* data = new_buffer(s, <size_t>s.rows * (8 if constant == NULL else strlen(constant)), &status)
    cdef Buffer* bits = new_bits(s, &status)
    cdef int64_t r, i = 0, stop, used = 0, nulls = 0
    cdef const char* text
    cdef size_t n
    if status != OK:
        return status
    (<int32_t*>offsets.data)[0] = 0
    for r in range(run_count):
        text = constant
        if codec:
            text = codec_name(rows[runs[r].batch].codec)
        n = 0 if text == NULL else strlen(text)
        stop = i + runs[r].rows
        while i < stop:
            if text == NULL:
                clear_bit(bits.data, i)
                nulls += 1
            else:
                memcpy(data.data + used, text, n)
                used += <int64_t>n
            i += 1
            (<int32_t*>offsets.data)[i] = <int32_t>used
    set_bytes_column(out, offsets, data, bits, nulls)
    return OK


cdef inline int storage_fill_column(Storage* s, int code, const BatchRow* rows, const Run* runs, int64_t run_count,
                                    const Constants* constants, Column* out) noexcept nogil:
    """Makes the column of `code`."""
    cdef Columns* c = &s.columns
    cdef RowField field
    cdef Buffer* values
    cdef Buffer* bits
    cdef const char* text
    cdef int64_t nulls = 0
    cdef int status = OK
    if code in (OUT_OFFSET, OUT_TIMESTAMP, OUT_TIMESTAMP_TYPE, OUT_KEY, OUT_VALUE, OUT_HEADERS):
        return set_decoded_column(s, code, out)
    if code == OUT_COMPRESSION:
        return fill_text(s, rows, runs, run_count, True, NULL, out)
    if code == OUT_TOPIC or code == OUT_FILE:
        text = constants.topic if code == OUT_TOPIC else constants.file
        return fill_text(s, rows, runs, run_count, False, text, out)
    values = new_buffer(s, <size_t>s.rows * 8, &status)
    bits = new_bits(s, &status)
    if status != OK:
        return status
    field = row_field(code)
    if field.width > 0:
        nulls = fill_field(rows, runs, run_count, field.at, field.width, field.rule, values.data, bits.data)
    elif code == OUT_TRANSACTIONAL or code == OUT_CONTROL:
        memset(values.data, 0xFF, values.capacity)
        fill_flag(rows, runs, run_count, TRANSACTIONAL if code == OUT_TRANSACTIONAL else CONTROL, values.data)
    elif code == OUT_SEQUENCE:
        nulls = fill_sequence(rows, runs, run_count, <const int64_t*>c.offset.data, <int32_t*>values.data, bits.data)
    elif code == OUT_CONTROL_TYPE:
        nulls = fill_control_type(rows, runs, run_count, CONTROL, c, <int16_t*>values.data, bits.data)
    else:
        nulls = fill_partition(s.rows, constants.partition, <int32_t*>values.data, bits.data)
    set_fixed_column(out, values, bits, nulls)
    return OK


cdef inline int64_t fill_partition(int64_t rows, int64_t partition, int32_t* out, uint8_t* bits) noexcept nogil:
    cdef int64_t i
    for i in range(rows):
        out[i] = <int32_t>(partition if partition >= 0 else 0)
        if partition < 0:
            clear_bit(bits, i)
    return rows if partition < 0 else 0


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
    cdef const Run* runs = <const Run*>s.columns.runs.data
    cdef int64_t run_count = s.columns.run_count, i
    cdef int status
    for i in range(count):
        status = storage_fill_column(s, codes[i], rows, runs, run_count, constants, s.out + i)
        if status != OK:
            return status
        s.out_count = i + 1
    return OK
