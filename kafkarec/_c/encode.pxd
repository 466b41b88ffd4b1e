"""Encodes columns as batches: decides where one batch ends and the next begins.

    rows of chunks ----load_row---> record --fits?--> the open batch (batch_builder.pxd) --close--> out
                                             |
                                             no: close the batch, open another

A batch ends before a record that does not fit (see write.pxd), that has different batch fields
(producer, transaction, leader epoch, timestamp type ...), whose sequence is not the next one, or whose offset is more
than 2^31-1 above the base offset. If the original batches are kept, from which the rows were read, batches end only
there.

A RowSummary is what rows that are to be written have in common: their least and greatest offset and timestamp, whether
the offsets rise, and how many headers there are. Nothing is read but offsets, timestamps and the borders of the lists
of headers.
"""
from libc.stdint cimport INT32_MAX, int16_t, int32_t, int64_t, int8_t
from libc.string cimport memcmp, memset, strlen

from kafkarec._c.batch cimport (
    ABSENT, BATCH_MAGIC, DELETE_HORIZON, LATEST_CODEC, BatchRow, codec_name, increment_sequence, is_control,
    is_transactional, latest_codec, least_size, wrapping_add, wrapping_subtract,
)
from kafkarec._c.batch_builder cimport (
    Encoder, OriginalBatch, add_record, add_records, batch_close, batch_open, is_whole, write_empty_batch,
)
from kafkarec._c.input_columns cimport (
    FIELD_BASE_OFFSET, FIELD_CONTROL, FIELD_LEADER_EPOCH, FIELD_MAGIC, FIELD_PRODUCER_EPOCH, FIELD_PRODUCER_ID,
    FIELD_SEQUENCE, FIELD_TIMESTAMP_TYPE, FIELD_TRANSACTIONAL, InputChunk, Numbers, Span, cell, list_at, number,
)
from kafkarec._c.status cimport OK, ROW_REFUSED
from kafkarec._c.write cimport (
    CODEC_UNFIT, CODEC_UNKNOWN, EXPLICIT_ALL, EXPLICIT_BASE_OFFSET, EXPLICIT_MAX_TIMESTAMP, FIELDS_CONTRADICT,
    FIELDS_UNSUPPORTED, FINE, HEADERS_UNSUPPORTED, OFFSET_NEGATIVE, OFFSET_NOT_RISING, OFFSET_NULL, OFFSET_TOO_FAR,
    OVERRIDE_LEADER_EPOCH, OVERRIDE_PRODUCER, OVERRIDE_TIMESTAMP_TYPE, OVERRIDE_TRANSACTIONAL, RECORD_TOO_LARGE,
    TIMESTAMP_NEGATIVE, BatchFields, RecordFields, delta_fits, has_room_for, load_headers, record_size,
)

# ---- the batch fields of a row

cdef inline int64_t batch_field_or(const Numbers* column, int64_t row, int64_t absent) noexcept nogil:
    number(column, row, &absent)
    return absent


cdef inline int codec_by_name(Span name) noexcept nogil:
    """The id of a codec; -1 for an unknown name, 0 (none) for null."""
    cdef int codec
    cdef const char* text
    if name.length < 0:
        return 0
    for codec in range(LATEST_CODEC + 1):
        text = codec_name(codec)
        if <size_t>name.length == strlen(text) and memcmp(name.data, text, strlen(text)) == 0:
            return codec
    return -1


cdef inline int fields_of_columns(const Encoder* e, const InputChunk* chunk, int64_t row, BatchFields* f,
                                  int64_t* source_batch) noexcept nogil:
    """Sets batch fields from the row's columns; nulls change nothing."""
    cdef int64_t n
    cdef int codec
    if e.keep_originals and number(chunk.fields + FIELD_BASE_OFFSET, row, &n):
        source_batch[0] = wrapping_add(n, e.shift)
    f.partition_leader_epoch = <int32_t>batch_field_or(chunk.fields + FIELD_LEADER_EPOCH, row, f.partition_leader_epoch)
    f.timestamp_type = <int8_t>batch_field_or(chunk.fields + FIELD_TIMESTAMP_TYPE, row, f.timestamp_type)
    f.producer_id = batch_field_or(chunk.fields + FIELD_PRODUCER_ID, row, f.producer_id)
    f.producer_epoch = <int16_t>batch_field_or(chunk.fields + FIELD_PRODUCER_EPOCH, row, f.producer_epoch)
    f.base_sequence = <int32_t>batch_field_or(chunk.fields + FIELD_SEQUENCE, row, f.base_sequence)
    f.is_transactional = batch_field_or(chunk.fields + FIELD_TRANSACTIONAL, row, f.is_transactional) != 0
    f.is_control = batch_field_or(chunk.fields + FIELD_CONTROL, row, f.is_control) != 0
    if e.keep_magic and number(chunk.fields + FIELD_MAGIC, row, &n):
        f.magic = <int8_t>n
    if e.keep_codec and chunk.codec.kind != 0:
        codec = codec_by_name(cell(&chunk.codec, row))
        if codec < 0:
            return CODEC_UNKNOWN
        f.codec = <int8_t>codec
    return FINE


cdef inline int check_producer_fields(const BatchFields* f) noexcept nogil:
    """MemoryRecordsBuilder.validateProducerState."""
    if f.producer_id < 0:
        return FIELDS_CONTRADICT if f.producer_epoch >= 0 or f.base_sequence >= 0 or f.is_transactional else FINE
    return FIELDS_CONTRADICT if f.producer_epoch < 0 or (f.base_sequence < 0 and not f.is_control) else FINE


cdef inline void fields_of_batch(const Encoder* e, const BatchRow* batch, BatchFields* f) noexcept nogil:
    """Sets batch fields from the header of the batch that the rows were read from, except base and last offset and max
    timestamp."""
    f.partition_leader_epoch = batch.partition_leader_epoch
    f.timestamp_type = batch.timestamp_type
    f.producer_id = batch.producer_id
    f.producer_epoch = batch.producer_epoch
    f.base_sequence = batch.base_sequence
    f.is_transactional = is_transactional(batch)
    f.is_control = is_control(batch)
    f.has_horizon = batch.magic >= BATCH_MAGIC and batch.attributes & DELETE_HORIZON != 0
    f.delete_horizon_ms = batch.base_timestamp
    f.log_append_time = batch.max_timestamp
    if f.timestamp_type < 0:
        f.timestamp_type = 0
    if e.keep_magic:
        f.magic = batch.magic
    if e.keep_codec:
        f.codec = batch.codec


cdef inline bint same_batch(const BatchFields* a, const BatchFields* b) noexcept nogil:
    return (
        a.producer_id == b.producer_id and a.producer_epoch == b.producer_epoch
        and a.partition_leader_epoch == b.partition_leader_epoch and a.timestamp_type == b.timestamp_type
        and a.is_transactional == b.is_transactional and a.is_control == b.is_control
        and a.magic == b.magic and a.codec == b.codec and a.has_horizon == b.has_horizon
        and (not a.has_horizon or a.delete_horizon_ms == b.delete_horizon_ms)
        and (a.timestamp_type != 1 or a.log_append_time == b.log_append_time)
    )


cdef inline int32_t moved_sequence(int32_t sequence, int64_t offsets) noexcept nogil:
    """The sequence so many offsets on, or back (DefaultRecordBatch.incrementSequence and decrementSequence): after
    2^31-1 is 0. Unlike Kafka's it goes below a batch's base offset, too, where a damaged batch may have records."""
    return <int32_t>(wrapping_add(sequence, offsets) & INT32_MAX)


# ---- the loop

cdef inline bint keeps_original(const Encoder* e, const OriginalBatch* original) noexcept nogil:
    return e.keep_originals and (original.batch.magic >= BATCH_MAGIC or e.keep_magic)


cdef inline void fields_of_original(const Encoder* e, const OriginalBatch* original, int64_t offset,
                                    BatchFields* f) noexcept nogil:
    """Sets batch fields from an original batch. `offset`: of the row, which may become the first of its batch."""
    fields_of_batch(e, original.batch, f)
    if is_whole(original) and keeps_original(e, original) and f.magic >= BATCH_MAGIC:
        f.explicit_fields = EXPLICIT_ALL
        f.base_offset = wrapping_add(original.batch.base_offset, e.shift)
        f.last_offset = wrapping_add(original.batch.last_offset, e.shift)
        f.base_timestamp = original.batch.base_timestamp
        f.max_timestamp = original.batch.max_timestamp
    elif f.base_sequence >= 0:
        f.base_sequence = moved_sequence(f.base_sequence, offset - e.shift - original.batch.base_offset)


cdef inline void fields_override(const Encoder* e, BatchFields* f) noexcept nogil:
    """Sets batch fields that the caller gave for all batches. Sequences are counted from the given one on."""
    if e.overrides & OVERRIDE_TIMESTAMP_TYPE:
        f.timestamp_type, f.log_append_time = e.defaults.timestamp_type, e.defaults.log_append_time
        f.explicit_fields &= ~EXPLICIT_MAX_TIMESTAMP
        if f.timestamp_type == 1:
            f.max_timestamp = f.log_append_time      # for an empty batch
    if e.overrides & OVERRIDE_LEADER_EPOCH:
        f.partition_leader_epoch = e.defaults.partition_leader_epoch
    if e.overrides & OVERRIDE_TRANSACTIONAL:
        f.is_transactional = e.defaults.is_transactional
    if e.overrides & OVERRIDE_PRODUCER:
        f.producer_id, f.producer_epoch = e.defaults.producer_id, e.defaults.producer_epoch
        f.base_sequence = ABSENT if f.is_control else e.next_sequence


cdef inline int advance_original(Encoder* e) noexcept nogil:
    """Advances to the original batch of the next row; writes the empty batches before it."""
    cdef const OriginalBatch* original
    cdef BatchFields f
    cdef int status
    while e.original < e.original_count and e.original_row >= e.originals[e.original].rows:
        original = e.originals + e.original
        if keeps_original(e, original):
            if e.open:
                status = batch_close(e)
                if status != OK:
                    return status
            if original.rows == 0 and e.defaults.magic >= BATCH_MAGIC:
                f = e.defaults
                fields_of_original(e, original, original.batch.base_offset, &f)
                fields_override(e, &f)
                if not e.keep_codec or original.batch.size_in_bytes > least_size(original.batch.magic):
                    f.codec = 0                  # as writeEmptyHeader: readers reject an empty compressed stream
                status = write_empty_batch(e, &f)
                if status != OK:
                    return status
        e.original += 1
        e.original_row = 0
        e.settled = False
    return OK


cdef inline int fault_of_row(const Encoder* e, const BatchFields* f, const RecordFields* d, bint kept) noexcept nogil:
    """Why Kafka's builder would reject the row, or FINE. `kept`: the row stays in the batch it was read from, so its
    offset and timestamp are accepted as they are."""
    if e.single_batch:
        return FINE
    if f.codec > latest_codec(f.magic):
        return CODEC_UNFIT
    if f.magic < BATCH_MAGIC and d.headers_end > d.headers:
        return HEADERS_UNSUPPORTED
    if f.magic < BATCH_MAGIC and (f.producer_id >= 0 or f.is_transactional or f.is_control):
        return FIELDS_UNSUPPORTED
    if d.offset < 0 and not (kept and (f.magic >= BATCH_MAGIC or f.codec == 0)):
        return OFFSET_NEGATIVE                   # readers reject wrappers of magic 1 with negative offsets
    if d.offset < 0 < e.shift and wrapping_subtract(d.offset, e.shift) >= 0:
        return OFFSET_NEGATIVE                   # beyond 2^63-1
    if kept:
        return FINE
    if d.timestamp < ABSENT:
        return TIMESTAMP_NEGATIVE
    return OFFSET_NOT_RISING if d.offset <= e.previous_offset else FINE


cdef inline int refuse_row(Encoder* e, int why, const RecordFields* d) noexcept nogil:
    e.refused = d[0]
    e.refused.row_fault = why
    return ROW_REFUSED


cdef inline bint has_room_for_row(const Encoder* e, int64_t offset, int64_t size) noexcept nogil:
    return delta_fits(offset, e.fields.base_offset) and has_room_for(&e.limit, e.used, size)


cdef inline bint needs_new_batch(const Encoder* e, const BatchFields* f, const RecordFields* d, int64_t source_batch,
                                 int64_t size, bint kept) noexcept nogil:
    """Whether the record must begin a new batch. `size`: bytes it would need in the open one."""
    if source_batch != e.source_batch or not same_batch(&e.fields, f) or e.count == INT32_MAX:
        return True
    if kept:
        return False
    if not has_room_for_row(e, d.offset, size):
        return True
    return (f.base_sequence >= 0 or e.fields.base_sequence >= 0) and e.has_sequences and (
        f.base_sequence != increment_sequence(e.fields.base_sequence, <int32_t>(d.offset - e.fields.base_offset))
    )


cdef inline int64_t record_size_in_batch(const BatchFields* f, const RecordFields* d) noexcept nogil:
    """record_size in the batch that `f` describes."""
    return record_size(d, f.magic, wrapping_subtract(d.offset, f.base_offset),
                       wrapping_subtract(d.timestamp, f.base_timestamp))


cdef inline int load_row(const Encoder* e, const InputChunk* chunk, int64_t row, RecordFields* d) noexcept nogil:
    """Reads the record of a row, without its batch fields; returns FINE or a RowFault."""
    d.offset = wrapping_add(e.previous_offset, 1)
    d.timestamp = ABSENT
    number(&chunk.timestamp, row, &d.timestamp)
    d.row_fault = FINE
    d.key, d.value = cell(&chunk.key, row), cell(&chunk.value, row)
    load_headers(chunk, row, d)
    if d.key.length + d.value.length + d.headers_size > INT32_MAX - 64:
        d.row_fault = RECORD_TOO_LARGE
    if not e.assign_offsets:
        if not number(&chunk.offset, row, &d.offset):
            return OFFSET_NULL
        d.offset = wrapping_add(d.offset, e.shift)
    return d.row_fault


cdef inline int fields_of_row(const Encoder* e, const InputChunk* chunk, int64_t row, const RecordFields* d,
                              BatchFields* f, int64_t* source_batch, bint* kept) noexcept nogil:
    """Sets `f` to the batch fields of the row: from its original batch, its columns, or the defaults. Sets
    `source_batch` and `kept` where the row stays in the batch it was read from. Returns FINE or a RowFault."""
    cdef int status = FINE
    f[0] = e.defaults
    if e.original < e.original_count:
        kept[0] = keeps_original(e, e.originals + e.original)
        if kept[0]:
            source_batch[0] = e.original
        fields_of_original(e, e.originals + e.original, d.offset, f)
    elif e.has_field_columns:
        status = fields_of_columns(e, chunk, row, f, source_batch)
        kept[0] = source_batch[0] != ABSENT
        f.log_append_time = d.timestamp
    fields_override(e, f)
    if status == FINE and (e.overrides != 0 or (e.has_field_columns and e.original_count == 0)):
        status = check_producer_fields(f)
    return status if status != FINE else fault_of_row(e, f, d, kept[0])


cdef inline int ensure_batch(Encoder* e, const InputChunk* chunk, int64_t row, const RecordFields* d,
                             int64_t size) noexcept nogil:
    """Opens a batch for the record if none is open, or if it does not fit the open one, where it has `size` bytes."""
    cdef BatchFields f
    cdef int64_t source_batch = ABSENT
    cdef bint kept = False
    cdef int status = fields_of_row(e, chunk, row, d, &f, &source_batch, &kept)
    if status != FINE:
        return refuse_row(e, status, d)
    if e.open and needs_new_batch(e, &f, d, source_batch, size, kept):
        status = batch_close(e)
        if status != OK:
            return status
        if f.base_sequence >= 0 and not e.has_sequences:
            f.base_sequence = e.next_sequence    # after the batch that was just closed
    if not e.open:
        if e.has_field_columns and source_batch != ABSENT and e.original_count == 0:
            f.base_offset = source_batch
            f.explicit_fields |= EXPLICIT_BASE_OFFSET
            if f.base_sequence >= 0:
                f.base_sequence = moved_sequence(f.base_sequence, wrapping_subtract(source_batch, d.offset))
        status = batch_open(e, &f, d.offset, d.timestamp)
        if status != OK:
            return status
        e.source_batch = source_batch
        e.kept = kept or e.single_batch
    e.settled = not e.has_field_columns or e.original_count > 0
    return OK


cdef inline int row_add(Encoder* e, const InputChunk* chunk, int64_t row) noexcept nogil:
    """Appends a row to the open batch, or closes that and appends the row to a new one."""
    cdef RecordFields d
    cdef int64_t size = 0, delta
    cdef int status = load_row(e, chunk, row, &d)
    if status != FINE:
        return refuse_row(e, status, &d)
    if e.open:
        size = record_size_in_batch(&e.fields, &d)
    if not (e.open and e.settled and e.kept):
        status = ensure_batch(e, chunk, row, &d, size)
        if status != OK:
            return status
        size = record_size_in_batch(&e.fields, &d)
    delta = wrapping_subtract(d.offset, e.fields.base_offset)
    if delta != <int32_t>delta:
        return refuse_row(e, OFFSET_TOO_FAR, &d)
    return add_record(e, chunk, &d, size)


cdef inline const InputChunk* next_chunk(Encoder* e) noexcept nogil:
    """The chunk of the next row; NULL if there is no further row to encode."""
    while e.chunk < e.chunk_count and e.row == e.chunks[e.chunk].rows:
        e.rows_before += e.row
        e.chunk += 1
        e.row = 0
    return e.chunks + e.chunk if e.chunk < e.chunk_count and e.rows_before + e.row < e.stop else NULL


cdef inline int64_t full_before(Encoder* e) noexcept nogil:
    """The row before which a batch of the next rows is full; writes nothing. A row that cannot be written is a batch
    of its own."""
    cdef const InputChunk* chunk = next_chunk(e)
    cdef RecordFields d
    cdef int64_t size
    cdef bint refused = False
    while chunk != NULL and not refused:
        refused = load_row(e, chunk, e.row, &d) != FINE
        if not e.open:
            batch_open(e, &e.defaults, d.offset, d.timestamp)
        size = record_size_in_batch(&e.fields, &d)
        if e.count > 0 and (refused or not has_room_for_row(e, d.offset, size)):
            break
        e.used += size
        e.count += 1
        e.row += 1
        chunk = next_chunk(e)
    return e.rows_before + e.row


cdef inline int encoder_run(Encoder* e) noexcept nogil:
    """Encodes until all rows are written (OK), a codec is needed (NEEDS_CODEC), it is time to look for Ctrl-C
    (PAUSED) or an error occurs."""
    cdef const InputChunk* chunk
    cdef int64_t end, row
    cdef int status
    while True:
        if e.original < e.original_count and e.original_row >= e.originals[e.original].rows:
            status = advance_original(e)
            if status != OK:
                return status
        chunk = next_chunk(e)
        if chunk == NULL:
            break
        if e.open and e.settled and e.fields.magic >= BATCH_MAGIC and e.keep == NULL:
            # up to where the chunk, the rows to encode, or the original batch ends
            end = min(chunk.rows, e.stop - e.rows_before)
            if e.original < e.original_count:
                end = min(end, e.row + e.originals[e.original].rows - e.original_row)
            row = add_records(e, chunk, e.row, end, e.kept)
            e.original_row += row - e.row
            e.row = row
            if row == end:
                continue
        if e.keep == NULL or e.keep[e.rows_before + e.row]:
            status = row_add(e, chunk, e.row)
            if status != OK:
                return status
        e.row += 1
        e.original_row += 1
    return batch_close(e) if e.open else OK


# ---- what rows have in common

cdef struct RowSummary:          # without rows all fields are 0
    int64_t rows
    int64_t first_offset
    int64_t last_offset
    int64_t least_offset
    int64_t greatest_offset
    bint falls                   # an offset is not above the one before
    int64_t fall_from            # the first two adjacent offsets of which that is so
    int64_t fall_to
    int64_t least_timestamp      # ABSENT is one, too
    int64_t greatest_timestamp
    int64_t with_timestamp       # rows whose timestamp is not ABSENT
    int64_t with_headers         # rows with headers
    int64_t headers


cdef inline void summary_add(RowSummary* s, int64_t offset, int64_t timestamp, int64_t headers) noexcept nogil:
    if s.rows == 0:
        s.first_offset = s.least_offset = s.greatest_offset = offset
        s.least_timestamp = s.greatest_timestamp = timestamp
    elif offset <= s.last_offset and not s.falls:
        s.falls, s.fall_from, s.fall_to = True, s.last_offset, offset
    s.rows += 1
    s.last_offset = offset
    s.least_offset, s.greatest_offset = min(s.least_offset, offset), max(s.greatest_offset, offset)
    s.least_timestamp, s.greatest_timestamp = min(s.least_timestamp, timestamp), max(s.greatest_timestamp, timestamp)
    s.with_timestamp += timestamp != ABSENT
    s.with_headers += headers > 0
    s.headers += headers


cdef inline void summarize(const InputChunk* chunk, int64_t start, int64_t stop, RowSummary* s) noexcept nogil:
    """Rows [start, stop) of consecutive chunks, which have so many."""
    cdef int64_t row, before = 0, offset, timestamp, headers, headers_end
    memset(s, 0, sizeof(RowSummary))
    while before < stop:
        row = max(start - before, 0)
        while row < min(stop - before, chunk.rows):
            offset = timestamp = ABSENT
            number(&chunk.offset, row, &offset)
            number(&chunk.timestamp, row, &timestamp)
            list_at(&chunk.headers, row, &headers, &headers_end)
            summary_add(s, offset, timestamp, headers_end - headers)
            row += 1
        before += chunk.rows
        chunk += 1
