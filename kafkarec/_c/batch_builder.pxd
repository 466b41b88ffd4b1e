"""The batch that is being written: opened by its first record, appended to, closed by writing its header.

    codec none    out:   ... | 61 bytes left free | record | record | ...   the header is filled in when it is sealed
    a codec       body:  record | record | ...    compressed behind the header's place when it is sealed
    magic 0, 1    the same with messages: no header, or the wrapper's around the compressed ones

Follows MemoryRecordsBuilder: the first record seeds base offset and base timestamp, unless a delete horizon has
(KIP-534); the size is estimated with the compression ratio as CompressionRatioEstimator moves it.

`measuring` (of uncompressed output only) goes the same way and stores nothing, so that large records are then written
where they stay. Every store is checked against the capacity: the input may change between the two runs.
"""
from libc.stdint cimport INT32_MAX, int16_t, int32_t, int64_t, uint8_t
from libc.string cimport memcpy

from kafkarec._c.batch cimport ABSENT, BatchRow, V2_OVERHEAD, increment_sequence
from kafkarec._c.columns cimport Buffer, SLACK, buffer_reserve
from kafkarec._c.write_v2 cimport (
    EXPLICIT_BASE_OFFSET, EXPLICIT_BASE_TIMESTAMP, EXPLICIT_LAST_OFFSET, EXPLICIT_MAX_TIMESTAMP, BatchFields,
    RecordFields, put_batch_header, put_record, varint_size,
)
from kafkarec._c.write_v01 cimport message_overhead, put_message, put_wrapper
from kafkarec._c.input_columns cimport InputChunk
from kafkarec._c.compress cimport CompressContext, can_compress, compress_payload, compress_bound
from kafkarec._c.status cimport NEEDS_CODEC, OK

cdef extern from "<math.h>" nogil:
    float fmaxf(float, float)

cdef enum:
    MOST_USED = 0x7FFFFBFF       # bytes of a batch's records: 1 KiB below 2^31

cdef enum Outcome:
    ROW_REFUSED = 1000           # Encoder.row, .row_fault
    BATCH_TOO_LARGE
    INPUT_CHANGED                # since it was measured

cdef struct Cut:                 # rows of one batch of the input
    int64_t rows
    const BatchRow* batch
    bint whole                   # all its records are there: the header is kept as it is

cdef struct Encoder:
    # what is wanted
    BatchFields given                  # of every batch, where neither the rows nor the cuts say otherwise
    int overrides                # which of its fields hold even where they do
    bint keep_codec
    bint keep_magic
    bint numbered                # offsets are counted from next_offset, whatever the rows say
    bint as_is                   # one batch: nothing is refused, nothing ends it
    bint keep_cuts
    bint wide                    # the rows have columns of fields
    bint sequenced               # sequences come with the rows or the cuts
    int64_t batch_size
    int64_t shift                # added to every offset of the input
    CompressContext compress_context
    # the input
    const InputChunk* chunks
    int64_t chunk_count
    int64_t chunk
    int64_t row                  # of the chunk
    int64_t rows_before          # in earlier chunks
    int64_t stop                 # rows of all chunks that are looked at
    const uint8_t* keep          # one byte a row of the whole, or NULL
    const Cut* cuts
    int64_t cut_count
    int64_t cut
    int64_t cut_row
    # the open batch
    bint open
    bint settled                 # the next row says what the last one said of its batch, as long as the cut lasts
    bint kept                    # the batch ends where its cut ends, and nowhere else
    BatchFields fields
    int64_t border
    int32_t count
    int64_t start                # where it begins in out
    int64_t used                 # bytes of records in it (none) or in body
    int64_t last_offset
    int64_t greatest_timestamp
    # along the way
    int64_t next_offset
    int32_t next_sequence
    int64_t previous_offset
    bint any_row
    float ratio
    int row_fault
    int64_t refused_offset
    int64_t refused_timestamp
    # the output
    bint measuring               # nothing is stored: how large the output will be
    bint fixed                   # out is not to grow
    Buffer out
    int64_t written
    Buffer body
    int64_t batches


cdef inline int out_reserve(Encoder* e, int64_t more) noexcept nogil:
    if e.measuring:
        return OK
    if e.fixed:
        return <int>OK if more <= <int64_t>e.out.capacity - e.written else <int>INPUT_CHANGED
    return buffer_reserve(&e.out, <size_t>e.written, <size_t>(e.written + more + SLACK))


cdef inline bint holds_messages(const BatchFields* f) noexcept nogil:
    return f.magic < 2


cdef inline int64_t head_size(const BatchFields* f) noexcept nogil:
    """Bytes before the records (AbstractRecords.recordBatchHeaderSizeInBytes)."""
    if not holds_messages(f):
        return V2_OVERHEAD
    return message_overhead(f.magic) if f.codec != 0 else 0


cdef inline int batch_open(Encoder* e, const BatchFields* f, int64_t offset, int64_t timestamp) noexcept nogil:
    """The first record seeds base offset and base timestamp, unless a delete horizon has."""
    cdef int status
    e.fields = f[0]
    if not f.explicit_fields & EXPLICIT_BASE_OFFSET:
        e.fields.base_offset = offset
    if f.has_horizon:
        e.fields.base_timestamp = f.delete_horizon_ms
    elif not f.explicit_fields & EXPLICIT_BASE_TIMESTAMP:
        e.fields.base_timestamp = timestamp
    e.open = True
    e.count = 0
    e.used = 0
    e.start = e.written
    e.greatest_timestamp = ABSENT
    if f.codec == 0:
        status = out_reserve(e, head_size(f))
        if status != OK:
            return status
        e.written += head_size(f)
    return OK


cdef inline bint has_room_behind(const Encoder* e, int64_t used, int64_t size) noexcept nogil:
    """MemoryRecordsBuilder.hasRoomFor: conservative about compression; the first record is always admitted."""
    if e.fields.codec != 0:
        used = <int64_t>(<float>used * e.ratio * <float>1.05)
    return e.batch_size >= head_size(&e.fields) + used + size


cdef inline int batch_add(Encoder* e, const InputChunk* chunk, const RecordFields* d, int64_t size,
                          int64_t offset_delta, int64_t timestamp_delta) noexcept nogil:
    """Appends a record. `size`: of its body (magic 2), or of the whole message."""
    cdef bint messages = holds_messages(&e.fields)
    cdef int64_t more = size if messages else size + varint_size(size)
    cdef int64_t inner = d.offset - e.fields.base_offset if e.fields.codec != 0 and e.fields.magic == 1 else d.offset
    cdef int64_t stamp = e.fields.log_append_time if e.fields.timestamp_type == 1 else d.timestamp
    cdef uint8_t* to
    cdef int status
    if e.fields.codec != 0:
        status = buffer_reserve(&e.body, <size_t>e.used, <size_t>(e.used + more + SLACK))
        to = e.body.data + e.used
    else:
        status = out_reserve(e, more)
        to = e.out.data + e.written
        if status == OK:
            e.written += more
    if status != OK:
        return status
    if not e.measuring:
        if messages:
            put_message(to, &e.fields, d, inner, stamp, size)
        else:
            put_record(to, chunk, d, size, offset_delta, timestamp_delta)
    e.used += more
    e.count += 1
    e.last_offset = d.offset
    if e.used > MOST_USED:
        return BATCH_TOO_LARGE
    if d.timestamp > e.greatest_timestamp:
        e.greatest_timestamp = d.timestamp
    return OK


cdef inline void ratio_step(Encoder* e, int64_t compressed) noexcept nogil:
    """CompressionRatioEstimator.updateEstimation: quick to fear the worst, slow to hope."""
    cdef float seen = <float>compressed / <float>e.used
    if seen > e.ratio:
        e.ratio = fmaxf(e.ratio + <float>0.05, seen)
    else:
        e.ratio = fmaxf(e.ratio - <float>0.005, seen)


cdef inline void batch_counted(Encoder* e, const BatchFields* f) noexcept nogil:
    """A batch that is written. Each of its offsets has a sequence, be there a record or not."""
    if f.base_sequence >= 0:
        e.next_sequence = increment_sequence(f.base_sequence, <int32_t>(f.last_offset - f.base_offset + 1))
    e.batches += 1


cdef inline int batch_finish(Encoder* e, int64_t compressed) noexcept nogil:
    """The header, once the payload is in place; `compressed` bytes of it, or ABSENT."""
    cdef BatchFields* f = &e.fields
    cdef int64_t stamp
    if compressed >= 0:
        ratio_step(e, compressed)
        e.written = e.start + head_size(f) + compressed
    stamp = f.log_append_time if f.timestamp_type == 1 else e.greatest_timestamp
    if not f.explicit_fields & EXPLICIT_LAST_OFFSET:
        f.last_offset = e.last_offset
    if not f.explicit_fields & EXPLICIT_MAX_TIMESTAMP:
        f.max_timestamp = stamp
    if not e.measuring:
        if not holds_messages(f):
            put_batch_header(e.out.data + e.start, e.written - e.start, f, e.count)
        elif f.codec != 0:
            put_wrapper(e.out.data + e.start, f, stamp, e.written - e.start)
    e.open = False
    batch_counted(e, f)
    return OK


cdef inline int batch_seal(Encoder* e) noexcept nogil:
    """OK, or NEEDS_CODEC: the caller compresses `body` and calls batch_sealed."""
    cdef int64_t length = 0
    cdef int status
    if e.fields.codec == 0:
        return batch_finish(e, ABSENT)
    if not can_compress(e.fields.codec):
        return NEEDS_CODEC
    status = out_reserve(e, head_size(&e.fields) + compress_bound(e.fields.codec, e.used))
    if status == OK:
        status = compress_payload(&e.compress_context, e.fields.codec, e.fields.magic, e.body.data, e.used,
                                  e.out.data + e.start + head_size(&e.fields), &length)
    return batch_finish(e, length) if status == OK else status


cdef inline int batch_sealed(Encoder* e, const uint8_t* payload, int64_t n) noexcept nogil:
    """What `codecs` made of `body` after NEEDS_CODEC, put in place."""
    cdef int status = out_reserve(e, head_size(&e.fields) + n)
    if status != OK:
        return status
    memcpy(e.out.data + e.start + head_size(&e.fields), payload, <size_t>n)
    return batch_finish(e, n)


cdef inline int batch_of_none(Encoder* e, const BatchFields* f) noexcept nogil:
    """A batch without records, as the cleaner chunks it (DefaultRecordBatch.writeEmptyHeader)."""
    cdef int status = out_reserve(e, V2_OVERHEAD)
    if status == OK:
        if not e.measuring:
            put_batch_header(e.out.data + e.written, V2_OVERHEAD, f, 0)
        e.written += V2_OVERHEAD
        batch_counted(e, f)
    return status
