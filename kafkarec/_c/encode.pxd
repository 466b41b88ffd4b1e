"""Encodes columns to batches: decides where one batch ends and the next begins.

    rows of chunks --load_fields--> record --fits?--> the open batch (batch_builder.pxd) --seal--> out
                                |
                                no: seal first

A batch ends before a record that does not fit (MemoryRecordsBuilder.hasRoomFor), that has other batch fields (producer,
transaction, leader epoch, timestamp type ...), whose sequence does not follow, or whose offset is further than 2^31-1
from the base offset. If cuts are kept (the batches that the rows were read from), batches end only there.
"""
from libc.stdint cimport INT32_MAX, int8_t, int16_t, int32_t, int64_t
from libc.string cimport memcmp, strlen

from kafkarec._c.batch cimport (
    ABSENT, CONTROL, DELETE_HORIZON, TRANSACTIONAL, V2_OVERHEAD, BatchRow, increment_sequence, wrapping_add,
)
from kafkarec._c.write_v2 cimport (
    CODEC_UNFIT, CODEC_UNKNOWN, EXPLICIT_ALL, EXPLICIT_BASE_OFFSET, EXPLICIT_MAX_TIMESTAMP, FIELDS_CONTRADICT,
    FIELDS_UNSUPPORTED, FINE, HEADERS_UNSUPPORTED, OFFSET_NEGATIVE, OFFSET_NOT_RISING, OFFSET_NULL, OFFSET_TOO_FAR,
    OVERRIDE_LEADER_EPOCH, OVERRIDE_PRODUCER, OVERRIDE_TIMESTAMP_TYPE, OVERRIDE_TRANSACTIONAL, TIMESTAMP_NEGATIVE,
    BatchFields, RecordFields, body_size, load_fields, varint_size,
)
from kafkarec._c.write_v01 cimport message_size
from kafkarec._c.batch_builder cimport (
    ROW_REFUSED, Cut, Encoder, batch_add, batch_of_none, batch_open, batch_seal, has_room_behind, holds_messages,
)
from kafkarec._c.input_columns cimport (
    FIELD_BASE_OFFSET, FIELD_CONTROL, FIELD_LEADER_EPOCH, FIELD_MAGIC, FIELD_PRODUCER_EPOCH, FIELD_PRODUCER_ID,
    FIELD_SEQUENCE, FIELD_TIMESTAMP_TYPE, FIELD_TRANSACTIONAL, InputChunk, Numbers, Span, cell, number,
)
from kafkarec._c.compress cimport ZSTD
from kafkarec._c.fast_path cimport takes_fast_path, fast_path_end, fast_rows
from kafkarec._c.status cimport OK


# ---- what a row says of its batch

cdef inline bint batch_field(const Numbers* column, int64_t row, int64_t* out) noexcept nogil:
    return column.kind != 0 and number(column, row, out)


cdef inline int64_t batch_field_or(const Numbers* column, int64_t row, int64_t absent) noexcept nogil:
    batch_field(column, row, &absent)
    return absent


cdef inline int codec_named(Span name) noexcept nogil:
    """The codec's id, -1 for no codec's name; null is none."""
    cdef const char** names = [b"none", b"gzip", b"snappy", b"lz4", b"zstd"]
    cdef int codec
    if name.length < 0:
        return 0
    for codec in range(5):
        if <size_t>name.length == strlen(names[codec]) and memcmp(name.data, names[codec], strlen(names[codec])) == 0:
            return codec
    return -1


cdef inline int fields_of_row(const Encoder* e, const InputChunk* chunk, int64_t row, BatchFields* f,
                              int64_t* border) noexcept nogil:
    """The wide columns; what a row chunks null is absent."""
    cdef int64_t n
    cdef int codec
    if e.keep_cuts and batch_field(chunk.fields + FIELD_BASE_OFFSET, row, &n):
        border[0] = wrapping_add(n, e.shift)
    f.partition_leader_epoch = <int32_t>batch_field_or(chunk.fields + FIELD_LEADER_EPOCH, row, f.partition_leader_epoch)
    f.timestamp_type = <int8_t>batch_field_or(chunk.fields + FIELD_TIMESTAMP_TYPE, row, f.timestamp_type)
    f.producer_id = batch_field_or(chunk.fields + FIELD_PRODUCER_ID, row, f.producer_id)
    f.producer_epoch = <int16_t>batch_field_or(chunk.fields + FIELD_PRODUCER_EPOCH, row, f.producer_epoch)
    f.base_sequence = <int32_t>batch_field_or(chunk.fields + FIELD_SEQUENCE, row, f.base_sequence)
    f.is_transactional = batch_field_or(chunk.fields + FIELD_TRANSACTIONAL, row, f.is_transactional) != 0
    f.is_control = batch_field_or(chunk.fields + FIELD_CONTROL, row, f.is_control) != 0
    if e.keep_magic and batch_field(chunk.fields + FIELD_MAGIC, row, &n):
        f.magic = <int8_t>n
    if e.keep_codec and chunk.codec.kind != 0:
        codec = codec_named(cell(&chunk.codec, row))
        if codec < 0:
            return CODEC_UNKNOWN
        f.codec = <int8_t>codec
    return FINE


cdef inline int fields_check(const BatchFields* f) noexcept nogil:
    """MemoryRecordsBuilder.validateProducerState."""
    if f.producer_id < 0:
        return FIELDS_CONTRADICT if f.producer_epoch >= 0 or f.base_sequence >= 0 or f.is_transactional else FINE
    return FIELDS_CONTRADICT if f.producer_epoch < 0 or (f.base_sequence < 0 and not f.is_control) else FINE


cdef inline void fields_of_batch(const Encoder* e, const BatchRow* batch, BatchFields* f) noexcept nogil:
    """What a header says, but for its offsets, times and first sequence."""
    f.partition_leader_epoch = batch.partition_leader_epoch
    f.timestamp_type = batch.timestamp_type
    f.producer_id = batch.producer_id
    f.producer_epoch = batch.producer_epoch
    f.base_sequence = batch.base_sequence
    f.is_transactional = batch.attributes & TRANSACTIONAL != 0
    f.is_control = batch.attributes & CONTROL != 0
    f.has_horizon = batch.magic == 2 and batch.attributes & DELETE_HORIZON != 0
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


cdef inline int32_t decrement_sequence(int32_t sequence, int32_t decrement) noexcept nogil:
    """DefaultRecordBatch.decrementSequence."""
    return sequence - decrement if sequence >= decrement else INT32_MAX - (decrement - sequence) + 1


# ---- the loop

cdef inline bint kept_border(const Encoder* e, const Cut* cut) noexcept nogil:
    return e.keep_cuts and (cut.batch.magic == 2 or e.keep_magic)


cdef inline void fields_of_cut(const Encoder* e, const Cut* cut, int64_t offset, BatchFields* f) noexcept nogil:
    """`offset`: of the row that may be the batch's first."""
    fields_of_batch(e, cut.batch, f)
    if cut.whole and kept_border(e, cut) and f.magic == 2:
        f.explicit_fields = EXPLICIT_ALL
        f.base_offset = wrapping_add(cut.batch.base_offset, e.shift)
        f.last_offset = wrapping_add(cut.batch.last_offset, e.shift)
        f.base_timestamp = cut.batch.base_timestamp
        f.max_timestamp = cut.batch.max_timestamp
    elif f.base_sequence >= 0:
        f.base_sequence = increment_sequence(f.base_sequence, <int32_t>(offset - e.shift - cut.batch.base_offset))


cdef inline void fields_override(const Encoder* e, BatchFields* f) noexcept nogil:
    """What the caller says of every batch. Sequences are counted on from the first one given."""
    if e.overrides & OVERRIDE_TIMESTAMP_TYPE:
        f.timestamp_type, f.log_append_time = e.given.timestamp_type, e.given.log_append_time
        f.explicit_fields &= ~EXPLICIT_MAX_TIMESTAMP
        if f.timestamp_type == 1:
            f.max_timestamp = f.log_append_time      # of an empty batch
    if e.overrides & OVERRIDE_LEADER_EPOCH:
        f.partition_leader_epoch = e.given.partition_leader_epoch
    if e.overrides & OVERRIDE_TRANSACTIONAL:
        f.is_transactional = e.given.is_transactional
    if e.overrides & OVERRIDE_PRODUCER:
        f.producer_id, f.producer_epoch = e.given.producer_id, e.given.producer_epoch
        f.base_sequence = ABSENT if f.is_control else e.next_sequence


cdef inline int next_cut(Encoder* e) noexcept nogil:
    """Goes to the cut that the next row belongs to; writes the empty batches on the way."""
    cdef const Cut* cut
    cdef BatchFields f
    cdef int status
    while e.cut < e.cut_count and e.cut_row >= e.cuts[e.cut].rows:
        cut = e.cuts + e.cut
        if kept_border(e, cut):
            if e.open:
                status = batch_seal(e)
                if status != OK:
                    return status
            if cut.rows == 0 and e.given.magic == 2:
                f = e.given
                fields_of_cut(e, cut, cut.batch.base_offset, &f)
                fields_override(e, &f)
                if not e.keep_codec or cut.batch.size_in_bytes > V2_OVERHEAD:
                    f.codec = 0                  # as writeEmptyHeader: a stream of no bytes is refused by readers
                status = batch_of_none(e, &f)
                if status != OK:
                    return status
        e.cut += 1
        e.cut_row = 0
        e.settled = False
    return OK


cdef inline int row_check(const Encoder* e, const BatchFields* f, const RecordFields* d, bint kept) noexcept nogil:
    """What Kafka's builder refuses."""
    if e.as_is:
        return FINE
    if f.magic < 2 and f.codec == ZSTD:
        return CODEC_UNFIT
    if f.magic < 2 and d.headers_end > d.headers:
        return HEADERS_UNSUPPORTED
    if f.magic < 2 and (f.producer_id >= 0 or f.is_transactional or f.is_control):
        return FIELDS_UNSUPPORTED
    if d.offset < 0 and not (kept and (f.magic == 2 or f.codec == 0)):
        return OFFSET_NEGATIVE                   # nobody reads wrappers of magic 1 with such offsets
    if kept:
        return FINE
    if d.timestamp < ABSENT:
        return TIMESTAMP_NEGATIVE
    return OFFSET_NOT_RISING if e.any_row and d.offset <= e.previous_offset else FINE


cdef inline int row_refused(Encoder* e, int why, const RecordFields* d) noexcept nogil:
    e.row_fault = why
    e.refused_offset = d.offset
    e.refused_timestamp = d.timestamp
    return ROW_REFUSED


cdef inline bint ends_here(const Encoder* e, const BatchFields* f, const RecordFields* d, int64_t border, int64_t size,
                           bint kept) noexcept nogil:
    """Whether the record must begin a new batch. `size`: its bytes in the open one."""
    cdef int64_t delta = d.offset - e.fields.base_offset
    if border != e.border or not same_batch(&e.fields, f) or e.count == INT32_MAX:
        return True
    if kept:
        return False
    if delta > INT32_MAX or not has_room_behind(e, e.used, size):
        return True
    return (f.base_sequence >= 0 or e.fields.base_sequence >= 0) and e.sequenced and (
        f.base_sequence != increment_sequence(e.fields.base_sequence, <int32_t>delta)
    )


cdef inline int64_t record_bytes(const BatchFields* f, const RecordFields* d, int64_t* body) noexcept nogil:
    """What the record takes behind those of the batch that `f` describes; `body`: what is stored as its length."""
    if holds_messages(f):
        body[0] = message_size(d, f.magic)
        return body[0]
    body[0] = body_size(d, wrapping_add(d.offset, -f.base_offset), wrapping_add(d.timestamp, -f.base_timestamp))
    return body[0] + varint_size(body[0])


cdef inline int load_row(const Encoder* e, const InputChunk* chunk, int64_t row, RecordFields* d) noexcept nogil:
    """The record itself, apart from what it says of its batch."""
    d.offset = e.next_offset
    d.timestamp = ABSENT
    number(&chunk.timestamp, row, &d.timestamp)
    load_fields(chunk, row, d)
    if not e.numbered:
        if not number(&chunk.offset, row, &d.offset):
            return OFFSET_NULL
        d.offset = wrapping_add(d.offset, e.shift)
    return d.row_fault


cdef inline int row_fields(const Encoder* e, const InputChunk* chunk, int64_t row, const RecordFields* d,
                           BatchFields* f, int64_t* border, bint* kept) noexcept nogil:
    """What the row, or the batch it was read from, or nobody says of the batch to be written. Where nobody does,
    `border` and `kept` stay as they are."""
    cdef int status = FINE
    f[0] = e.given
    if e.cut < e.cut_count:
        kept[0] = kept_border(e, e.cuts + e.cut)
        if kept[0]:
            border[0] = e.cut
        fields_of_cut(e, e.cuts + e.cut, d.offset, f)
    elif e.wide:
        status = fields_of_row(e, chunk, row, f, border)
        kept[0] = border[0] != ABSENT
        f.log_append_time = d.timestamp
    fields_override(e, f)
    if status == FINE and (e.overrides != 0 or (e.wide and e.cut_count == 0)):
        status = fields_check(f)
    return status if status != FINE else row_check(e, f, d, kept[0])


cdef inline int row_opens(Encoder* e, const InputChunk* chunk, int64_t row, const RecordFields* d,
                          int64_t size) noexcept nogil:
    """Sees to it that an open batch can take the record, of `size` bytes in the one that is open now."""
    cdef BatchFields f
    cdef int64_t border = ABSENT
    cdef bint kept = False
    cdef int status = row_fields(e, chunk, row, d, &f, &border, &kept)
    if status != FINE:
        return row_refused(e, status, d)
    if e.open and ends_here(e, &f, d, border, size, kept):
        status = batch_seal(e)
        if status != OK:
            return status
        if f.base_sequence >= 0 and not e.sequenced:
            f.base_sequence = e.next_sequence    # of the batch that was sealed just now
    if not e.open:
        if e.wide and border != ABSENT and e.cut_count == 0:
            f.base_offset = border
            f.explicit_fields |= EXPLICIT_BASE_OFFSET
            if f.base_sequence >= 0:
                f.base_sequence = decrement_sequence(f.base_sequence, <int32_t>(d.offset - border))
        status = batch_open(e, &f, d.offset, d.timestamp)
        if status != OK:
            return status
        e.border = border
        e.kept = kept or e.as_is
    e.settled = not e.wide or e.cut_count > 0
    return OK


cdef inline bint row_fits(const Encoder* e, const RecordFields* d, int64_t size) noexcept nogil:
    """The short way: nothing is said of the batch that was not said by the record before."""
    if e.kept:
        return True
    return (d.offset > e.previous_offset and d.timestamp >= ABSENT and e.count < INT32_MAX
            and d.offset - e.fields.base_offset <= INT32_MAX and has_room_behind(e, e.used, size)
            and e.fields.magic == 2 and not (e.sequenced and e.fields.base_sequence >= 0))


cdef inline int row_add(Encoder* e, const InputChunk* chunk, int64_t row) noexcept nogil:
    """One row into the open batch, or into a new one once the open one is sealed."""
    cdef RecordFields d
    cdef int64_t body = 0, size = 0, delta
    cdef int status = load_row(e, chunk, row, &d)
    if status != FINE:
        return row_refused(e, status, &d)
    if e.open:
        size = record_bytes(&e.fields, &d, &body)
    if not (e.open and e.settled and row_fits(e, &d, size)):
        status = row_opens(e, chunk, row, &d, size)
        if status != OK:
            return status
        record_bytes(&e.fields, &d, &body)
    delta = wrapping_add(d.offset, -e.fields.base_offset)
    if delta != <int32_t>delta:
        return row_refused(e, OFFSET_TOO_FAR, &d)
    status = batch_add(e, chunk, &d, body, delta, wrapping_add(d.timestamp, -e.fields.base_timestamp))
    if status != OK:
        return status
    e.any_row = True
    e.previous_offset = d.offset
    e.next_offset = wrapping_add(d.offset, 1)
    return OK


cdef inline int encoder_run(Encoder* e) noexcept nogil:
    """Goes on until all rows are written (OK), a codec is needed (NEEDS_CODEC) or a row is refused."""
    cdef const InputChunk* chunk
    cdef int status
    while True:
        if e.cut < e.cut_count and e.cut_row >= e.cuts[e.cut].rows:
            status = next_cut(e)
            if status != OK:
                return status
        if e.chunk == e.chunk_count or e.rows_before + e.row >= e.stop:
            break
        chunk = e.chunks + e.chunk
        if e.row == chunk.rows:
            e.rows_before += chunk.rows
            e.chunk += 1
            e.row = 0
            continue
        if takes_fast_path(e):
            fast_rows(e, chunk)
            if e.row == fast_path_end(e, chunk):
                continue
        if e.keep == NULL or e.keep[e.rows_before + e.row]:
            status = row_add(e, chunk, e.row)
            if status != OK:
                return status
        e.row += 1
        e.cut_row += 1
    return batch_seal(e) if e.open else OK
