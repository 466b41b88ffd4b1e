"""The batch that is being written: opened by its first record, appended to, closed by writing its header.

    codec none    out:   ... | 61 bytes left free | record | record | ...   the header is filled in on closing
    a codec       body:  record | record | ...    compressed on closing, to `out` after the space for the header
    magic 0, 1    the same with messages: no header; with a codec the header of the wrapper message

Follows MemoryRecordsBuilder: the first record sets the base offset and the base timestamp, unless the batch has a
delete horizon (KIP-534). write.pxd has the rule where the batch is full.

A run with `measuring` set (uncompressed output only) counts the bytes and stores nothing, so that the next run can
write large records straight into a result of the right size. Each store is checked against the capacity, because the
input may change between the two runs.
"""
from libc.stdint cimport INT32_MAX, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

from kafkarec._c.batch cimport (
    ABSENT, BATCH_MAGIC, LZ4, ZSTD, BatchRow, increment_sequence, wrapping_add, wrapping_subtract,
)
from kafkarec._c.write cimport (
    EXPLICIT_BASE_OFFSET, EXPLICIT_BASE_TIMESTAMP, EXPLICIT_LAST_OFFSET, EXPLICIT_MAX_TIMESTAMP, FINE, MOST_OVERHEAD,
    BatchFields, BatchLimit, RecordFields, batch_header_size, body_size, has_room_for, length_size, load_headers,
    next_ratio, put_batch_header, put_body, put_int32_sized, put_message_crc, put_message_head, with_length,
)
from kafkarec._c.columns cimport Buffer, SLACK, buffer_reserve
from kafkarec._c.input_columns cimport InputChunk, cell, number
from kafkarec._c.compress cimport CompressContext, compress_bound, compress_lz4, compress_zstd, has_functions
from kafkarec._c.status cimport INPUT_CHANGED, NEEDS_CODEC, OK, PAUSED, TOO_LARGE_TO_WRITE
from kafkarec._c.numbers cimport put_u32, put_unsigned, put_varint, varint_size

cdef enum:
    MOST_USED = 0x7FFFFBFF       # the most bytes of a batch's records: 1 KiB below 2^31
    PAUSE_BYTES = 1 << 20        # before compression: at zstd 22 about a second

cdef struct OriginalBatch:       # the rows that were read from one batch
    int64_t rows
    const BatchRow* batch

cdef struct Encoder:
    # options
    BatchFields defaults         # of fields that neither the rows nor the original batches have
    int overrides                # bits of Override: fields of `defaults` that take precedence over those
    bint keep_codec
    bint keep_magic
    bint assign_offsets          # offsets are counted from next_offset; those of the rows are ignored
    bint single_batch            # all rows go to one batch, without the checks of Kafka's builder
    bint keep_originals          # batches end where the original ones end
    bint has_field_columns       # the rows have columns with batch fields
    bint has_sequences           # the rows or the original batches have sequences
    int64_t shift                # added to every offset of the input
    CompressContext compress_context
    # the input
    const InputChunk* chunks
    int64_t chunk_count
    int64_t chunk
    int64_t row                  # of the chunk
    int64_t rows_before          # in earlier chunks
    int64_t stop                 # the row of the input at which encoding stops
    const uint8_t* keep          # one byte per row of the input, 0: left out; NULL: all rows
    OriginalBatch* originals     # in original_block
    int64_t original_count
    Buffer original_block
    int64_t original
    int64_t original_row
    # the open batch
    bint open
    bint settled                 # the batch fields cannot differ from row to row until the original batch ends
    bint kept                    # the batch ends where its original ends, and only there
    BatchFields fields
    BatchLimit limit             # `most` and `ratio` are set for all batches
    int64_t source_batch         # which batch the rows were read from: its number, or base offset; or ABSENT
    int32_t count
    int64_t used                 # bytes of its records: in out (codec none) or in body
    int64_t greatest_timestamp
    # state
    int64_t previous_offset      # of the row before, of any batch
    int32_t next_sequence
    int64_t compressed           # bytes of records since the last pause
    RecordFields refused         # the row that cannot be written
    # the output
    bint measuring               # nothing is stored, only the size of the output is computed
    bint fixed                   # out must not grow
    Buffer out
    int64_t written              # bytes of the closed batches
    Buffer body


cdef inline bint is_whole(const OriginalBatch* original) noexcept nogil:
    """Whether these are all its records: the header is copied unchanged."""
    return original.batch.magic >= BATCH_MAGIC and original.batch.record_count == original.rows


cdef inline int out_reserve(Encoder* e, int64_t used, int64_t more) noexcept nogil:
    """Reserves space in out for `more` bytes after `used` bytes of the open batch."""
    used += e.written
    if e.measuring:
        return OK
    if e.fixed:
        return OK if more <= <int64_t>e.out.capacity - used else INPUT_CHANGED
    return buffer_reserve(&e.out, <size_t>used, <size_t>(used + more + SLACK))


cdef inline int batch_open(Encoder* e, const BatchFields* f, int64_t offset, int64_t timestamp) noexcept nogil:
    """Opens a batch with the offset and timestamp of its first record; a delete horizon replaces the base timestamp."""
    e.fields = f[0]
    if not f.explicit_fields & EXPLICIT_BASE_OFFSET:
        e.fields.base_offset = offset
    if f.has_horizon:
        e.fields.base_timestamp = f.delete_horizon_ms
    elif not f.explicit_fields & EXPLICIT_BASE_TIMESTAMP:
        e.fields.base_timestamp = timestamp
    e.limit.header_size, e.limit.compressed = batch_header_size(f.magic, f.codec), f.codec != 0
    e.open = True
    e.count = 0
    e.used = 0
    e.greatest_timestamp = ABSENT
    return out_reserve(e, 0, e.limit.header_size) if f.codec == 0 else OK


cdef inline int batch_reserve(Encoder* e, int64_t size) noexcept nogil:
    """Reserves space for a record of the open batch."""
    if e.used > MOST_USED - size:
        return TOO_LARGE_TO_WRITE
    if e.fields.codec != 0:
        return buffer_reserve(&e.body, <size_t>e.used, <size_t>(e.used + size + SLACK))
    return out_reserve(e, e.limit.header_size + e.used, size)


cdef inline void put_message(uint8_t* to, const BatchFields* f, const RecordFields* d, int64_t size) noexcept nogil:
    """Writes a message of magic 0 or 1 of a batch."""
    cdef int64_t offset = d.offset - f.base_offset if f.codec != 0 and f.magic == 1 else d.offset
    cdef int64_t stamp = f.log_append_time if f.timestamp_type == 1 else d.timestamp
    put_int32_sized(put_int32_sized(put_message_head(to, offset, size, f, 0, stamp), d.key), d.value)
    put_message_crc(to, size)


cdef inline int add_record(Encoder* e, const InputChunk* chunk, const RecordFields* d, int64_t size) noexcept nogil:
    """Appends a record to the open batch. chunk: what its headers are in; `size`: see record_size"""
    cdef const BatchFields* f = &e.fields
    cdef uint8_t* to
    cdef int length = 1                  # bytes of the record's length field
    cdef int status = batch_reserve(e, size)
    if status != OK:
        return status
    to = (e.body.data if f.codec != 0 else e.out.data + e.written + e.limit.header_size) + e.used
    if not e.measuring and f.magic < BATCH_MAGIC:
        put_message(to, f, d, size)
    elif not e.measuring:
        while varint_size(size - length) > length:
            length += 1
        put_body(put_varint(to, size - length), chunk, d, wrapping_subtract(d.offset, f.base_offset),
                 wrapping_subtract(d.timestamp, f.base_timestamp))
    e.used += size
    e.count += 1
    e.previous_offset, e.greatest_timestamp = d.offset, max(e.greatest_timestamp, d.timestamp)
    return OK


cdef inline int64_t add_records(Encoder* e, const InputChunk* chunk, int64_t row, int64_t end,
                                bint checked) noexcept nogil:
    """Appends rows to the open batch, of magic 2, in one loop whose state stays in registers: up to `end`, or the first
    one that needs more work (it does not fit, the buffer is full, its offset does not rise, it cannot be written).
    Returns the row after them. `encode.pxd` makes all checks again for that row.

    checked   the rows belong to the batch, whatever their offsets, timestamps and sizes are
    """
    cdef RecordFields d
    cdef bint compressed = e.fields.codec != 0, stored = not e.measuring
    cdef bint estimated = compressed and not checked
    cdef Buffer* buffer = &e.body if compressed else &e.out
    cdef uint8_t* begin = buffer.data + (0 if compressed else e.written + e.limit.header_size) + e.used
    cdef uint8_t* to = begin
    cdef int64_t room = MOST_USED - e.used
    cdef int64_t base_offset = e.fields.base_offset, base_timestamp = e.fields.base_timestamp, shift = e.shift
    cdef int64_t greatest = e.greatest_timestamp, previous = e.previous_offset, first = row
    cdef int64_t offset_delta, timestamp_delta, content, body, size
    cdef int length
    if stored:
        room = min(room, <int64_t>buffer.capacity - (begin - buffer.data))
    if not compressed and not checked:
        room = min(room, e.limit.most - e.limit.header_size - e.used)
    end = min(end, row + INT32_MAX - e.count)
    d.row_fault = FINE
    while row < end:
        d.offset = wrapping_add(previous, 1)
        if not e.assign_offsets:
            if not number(&chunk.offset, row, &d.offset):
                break
            d.offset = wrapping_add(d.offset, shift)
        d.timestamp = ABSENT
        number(&chunk.timestamp, row, &d.timestamp)
        d.key, d.value = cell(&chunk.key, row), cell(&chunk.value, row)
        load_headers(chunk, row, &d)
        offset_delta = wrapping_subtract(d.offset, base_offset)
        timestamp_delta = wrapping_subtract(d.timestamp, base_timestamp)
        if offset_delta != <int32_t>offset_delta or d.row_fault != FINE:
            break
        if (d.offset <= previous or d.timestamp < ABSENT) and not checked:
            break
        content = max(d.key.length, 0) + max(d.value.length, 0) + d.headers_size
        length = length_size(content)
        if length > 0 and stored and content <= room - 2 * MOST_OVERHEAD:
            size = put_body(to + length, chunk, &d, offset_delta, timestamp_delta) - to
            put_unsigned(to, <uint64_t>(size - length) << 1)
        else:
            body = body_size(&d, offset_delta, timestamp_delta)
            size = with_length(body)
            if size > room:
                break
            if stored:
                put_body(put_varint(to, body), chunk, &d, offset_delta, timestamp_delta)
        if estimated and not has_room_for(&e.limit, e.used + (to - begin), size):
            break
        to += size
        room -= size
        greatest = max(greatest, d.timestamp)
        previous = d.offset
        row += 1
    if row > first:
        e.greatest_timestamp, e.previous_offset = greatest, previous
        e.count += <int32_t>(row - first)
        e.used += to - begin
    return row


cdef inline void count_sequences(Encoder* e, const BatchFields* f) noexcept nogil:
    """Counts the sequences of a written batch's offsets; offsets without a record have one, too."""
    if f.base_sequence >= 0:
        e.next_sequence = increment_sequence(f.base_sequence, <int32_t>(f.last_offset - f.base_offset + 1))


cdef inline int batch_finish(Encoder* e, int64_t payload) noexcept nogil:
    """Writes the header when the `payload` bytes after it are in place. TOO_LARGE_TO_WRITE: they have become more by
    their codec, and the batch stays open."""
    cdef BatchFields* f = &e.fields
    cdef int64_t stamp, size = e.limit.header_size + payload
    cdef uint8_t* to
    if size > INT32_MAX:
        return TOO_LARGE_TO_WRITE
    if f.codec != 0:
        e.limit.ratio = next_ratio(e.limit.ratio, <float>payload / <float>e.used)
    stamp = f.log_append_time if f.timestamp_type == 1 else e.greatest_timestamp
    if not f.explicit_fields & EXPLICIT_LAST_OFFSET:
        f.last_offset = e.previous_offset
    if not f.explicit_fields & EXPLICIT_MAX_TIMESTAMP:
        f.max_timestamp = stamp
    if not e.measuring:
        if f.magic >= BATCH_MAGIC:
            put_batch_header(e.out.data + e.written, size, f, e.count)
        elif f.codec != 0:
            # the header of a wrapper, whose compressed value is already in place after it
            to = put_message_head(e.out.data + e.written, f.last_offset, size, f, f.codec, stamp)
            put_u32(put_u32(to, <uint32_t>-1), <uint32_t>payload)
            put_message_crc(e.out.data + e.written, size)
    e.written += size
    e.open = False
    count_sequences(e, f)
    return OK


cdef inline int batch_close(Encoder* e) noexcept nogil:
    """Closes the open batch: OK, or PAUSED. NEEDS_CODEC: it is not closed; the caller compresses `body` and calls
    batch_close_compressed."""
    cdef int64_t length = 0
    cdef uint8_t* to
    cdef int status
    if e.fields.codec == 0:
        return batch_finish(e, e.used)
    if (e.fields.codec != LZ4 and e.fields.codec != ZSTD) or not has_functions(e.fields.codec):
        return NEEDS_CODEC
    status = out_reserve(e, 0, e.limit.header_size + compress_bound(e.fields.codec, e.used))
    to = e.out.data + e.written + e.limit.header_size
    if status == OK and e.fields.codec == LZ4:
        status = compress_lz4(&e.compress_context, e.fields.magic, e.body.data, e.used, to, &length)
    elif status == OK:
        status = compress_zstd(&e.compress_context, e.body.data, e.used, to, &length)
    if status == OK:
        status = batch_finish(e, length)
    e.compressed += e.used
    if status == OK and e.compressed >= PAUSE_BYTES:
        e.compressed, status = 0, PAUSED
    return status


cdef inline int batch_close_compressed(Encoder* e, const uint8_t* payload, int64_t n) noexcept nogil:
    """Closes the open batch with the payload that `codecs` compressed from `body`, after NEEDS_CODEC."""
    cdef int status = out_reserve(e, 0, e.limit.header_size + n)
    if status != OK:
        return status
    memcpy(e.out.data + e.written + e.limit.header_size, payload, <size_t>n)
    return batch_finish(e, n)


cdef inline int write_empty_batch(Encoder* e, const BatchFields* f) noexcept nogil:
    """Writes a batch without records, as the log cleaner does (DefaultRecordBatch.writeEmptyHeader)."""
    cdef int64_t size = batch_header_size(f.magic, 0)
    cdef int status = out_reserve(e, 0, size)
    if status == OK:
        if not e.measuring:
            put_batch_header(e.out.data + e.written, size, f, 0)
        e.written += size
        count_sequences(e, f)
    return status
