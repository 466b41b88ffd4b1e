"""The decoder: reads batch after batch of one input into one chunk of columns and one table of batches.

    position -> frame -> checksum -> [payload ->] records -> accept -> position of the next
                  |          |           |           |
                 END/CUT    fault   NEEDS_CODEC    fault            CHUNK_FULL when the chunk has its share

It returns when its caller has to act: decompress (NEEDS_CODEC), take the chunk (CHUNK_FULL), raise or record a fault.
After a fault columns and table are as they were before the batch.
"""
from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint8_t, uint32_t
from libc.string cimport memset

from kafkarec._c.batch cimport (
    LATEST_CODEC, TO_READ, TO_SKIP, V2_OVERHEAD, BatchRow, ReadMode, check_crc, is_control, is_transactional,
    is_wrapper, read_batch,
)
from kafkarec._c.columns cimport (
    WANT_OFFSET, WANT_TIMESTAMP, Buffer, Columns, Expected, buffer_reserve, clear_bit, columns_expect, columns_measure,
    columns_select, columns_truncate, run_append,
)
from kafkarec._c.input cimport Input, bad_until, reach
from kafkarec._c.message cimport decode_plain, decode_wrapper, wrapper_payload
from kafkarec._c.decompress cimport (
    DecompressContext, has_lz4_decompressor, has_zstd_decompressor, lz4_frame, zstd_frame,
)
from kafkarec._c.record cimport LEAST_RECORD, decode_records
from kafkarec._c.resync cimport Search, far_above
from kafkarec._c.status cimport (
    CHUNK_FULL, END, LIMIT_EXCEEDED, NEEDS_CODEC, OK, OUT_OF_MEMORY, UNREADABLE, UNSUPPORTED_CODEC, Fault, refuse,
)

cdef enum Payloads:
    NO_PAYLOADS = 0              # a header scan
    CONTROL_PAYLOADS = 1         # control batches only: what a transaction index needs
    ALL_PAYLOADS = 2

cdef enum Checks:
    NO_CHECKS = 0
    ALL_CHECKS = 1
    PAYLOAD_CHECKS = 2           # only where a payload is read: of the rest nothing but headers is fetched

cdef enum:
    FIRST_TABLE = 8192           # bytes of BatchRows

cdef enum:
    LZ4 = 3
    ZSTD = 4

# One aborted transaction: batches of this producer with base offsets in [first, last] are dropped.
cdef struct Aborted:
    int64_t producer_id
    int64_t first_offset
    int64_t last_offset

cdef struct Options:
    int payloads
    int check_crc                # Checks
    bint check_inner_crc
    bint control                 # keep the records of control batches
    bint skip                    # damage is passed over, not raised
    bint file_rules              # see `_c/end_of_input.pxd`
    bint later_segment                # a later segment of the same log exists
    bint binary_header_keys
    int64_t limit                # decompressed bytes per payload
    int64_t input_limit          # decompressed bytes per input, all its payloads together
    int64_t stable_offset        # records from here on are left out; INT64_MAX: none
    bint ranged                  # only records with offset and timestamp in these ranges
    int64_t from_offset
    int64_t to_offset            # exclusive, as to_time
    bint timed
    int64_t from_time            # milliseconds
    int64_t to_time
    int64_t ticks                # timestamp units per millisecond: 1, 1000, 1000000
    int64_t chunk_bytes
    const Aborted* aborted       # sorted by producer id, first offset
    int64_t aborted_count

cdef struct Engine:
    Input input
    int64_t position
    int64_t good_next            # next offset of the last good batch of this input, INT64_MIN before the first
    int64_t first_row            # the input's first row in the table
    int64_t reached              # next offset of the last batch that was framed, absurd ones aside; 0 before the first
    bint finished                # nothing that is wanted can follow
    Options options
    Columns columns
    Buffer rows                  # BatchRow[row_count]
    int64_t row_count
    int64_t chunk_used           # payload bytes in the chunk so far
    int chunks                   # of this input that were taken
    int64_t decompressed         # bytes of this input's payloads so far
    Expected expected            # sizes of the last chunk
    Search search
    Fault fault
    BatchRow row                 # the batch that is being read
    const uint8_t* payload       # its compressed payload, when NEEDS_CODEC is answered
    int64_t payload_length
    DecompressContext context
    Buffer keep                  # of select_rows: a byte a row


cdef inline bint was_aborted(const Options* o, const BatchRow* row) noexcept nogil:
    """Binary search for the last transaction of this producer that begins at or below the batch."""
    cdef int64_t low = 0, high = o.aborted_count, middle
    cdef const Aborted* entry
    while low < high:
        middle = (low + high) // 2
        entry = o.aborted + middle
        if entry.producer_id < row.producer_id or (
            entry.producer_id == row.producer_id and entry.first_offset <= row.base_offset
        ):
            low = middle + 1
        else:
            high = middle
    if low == 0:
        return False
    entry = o.aborted + low - 1
    return entry.producer_id == row.producer_id and row.base_offset <= entry.last_offset


cdef inline bint left_out(const Options* o, const BatchRow* row) noexcept nogil:
    """Whether the isolation level excludes a batch. Wrappers are checked by record: their first offset is inside."""
    if row.magic == 2 and o.stable_offset < INT64_MAX and row.base_offset >= o.stable_offset:
        return True
    return is_transactional(row) and not is_control(row) and o.aborted_count > 0 and was_aborted(o, row)


cdef inline bint payload_wanted(const Options* o, const BatchRow* row) noexcept nogil:
    if o.payloads == NO_PAYLOADS or (o.payloads == CONTROL_PAYLOADS and not is_control(row)):
        return False
    return not left_out(o, row)


cdef inline void scale_timestamps(Columns* c, int64_t start, int64_t ticks) noexcept nogil:
    """Milliseconds to the caller's unit; a value that does not fit is null and counted."""
    cdef int64_t* at = <int64_t*>c.timestamp.data
    cdef int64_t most = INT64_MAX // ticks
    cdef int64_t i
    for i in range(start, c.rows):
        if at[i] > most or at[i] < -most:
            at[i] = 0
            clear_bit(c.timestamp_validity.data, i)
            c.timestamp_nulls += 1
            c.out_of_range += 1
        else:
            at[i] *= ticks


cdef inline int engine_accept(Engine* e, int64_t rows_before) noexcept nogil:
    """The batch is good: its row joins the table, the rows since `rows_before` its run."""
    cdef size_t used = <size_t>e.row_count * sizeof(BatchRow)
    cdef int status = buffer_reserve(&e.rows, used, used + sizeof(BatchRow))
    if status == OK and e.columns.rows > rows_before:
        status = run_append(&e.columns, e.row_count, e.columns.rows - rows_before)
    if status != OK:
        return refuse(&e.fault, status, <int64_t>(used + sizeof(BatchRow)), 0)
    (<BatchRow*>e.rows.data)[e.row_count] = e.row
    e.row_count += 1
    if e.options.payloads != ALL_PAYLOADS:           # a scan's chunk is its table
        e.chunk_used += sizeof(BatchRow)
    e.position = e.row.position + e.row.size_in_bytes
    return OK


cdef inline void cut_unstable(Columns* c, int64_t start, int64_t stable_offset) noexcept nogil:
    """Drops a batch's records from the last stable offset on; they are its last ones."""
    cdef const int64_t* offsets = <const int64_t*>c.offset.data
    cdef int64_t rows = c.rows
    while rows > start and offsets[rows - 1] >= stable_offset:
        rows -= 1
    columns_truncate(c, rows, c.rows)


cdef inline bint outside(Engine* e, const BatchRow* row) noexcept nogil:
    """Nothing of this batch is wanted, by its header. A wrapper's first offset and what CreateTime batches hold below
    their max timestamp is inside."""
    cdef const Options* o = &e.options
    if o.timed and row.max_timestamp < o.from_time:
        return True
    if o.timed and row.timestamp_type == 1 and row.max_timestamp >= o.to_time:
        return True
    return row.last_offset < o.from_offset or (not is_wrapper(row) and row.base_offset >= o.to_offset)


cdef inline bint beyond(const Engine* e, const BatchRow* row) noexcept nogil:
    """Offsets go up from batch to batch: nothing wanted follows this one. No checksum covers a base offset, so one that
    is absurd ends nothing."""
    if e.reached >= e.options.to_offset:
        return True
    return not is_wrapper(row) and row.base_offset >= e.options.to_offset and not far_above(row.base_offset, e.reached)


cdef inline int select_rows(Engine* e, int64_t start) noexcept nogil:
    """Drops the batch's records outside of the ranges; one without a timestamp is in no range of time."""
    cdef Columns* c = &e.columns
    cdef const Options* o = &e.options
    cdef int64_t n = c.rows - start, i
    cdef const int64_t* offsets = <const int64_t*>c.offset.data + start
    cdef const int64_t* times = <const int64_t*>c.timestamp.data + start
    cdef const uint8_t* known = c.timestamp_validity.data
    cdef uint8_t* keep
    cdef bint stays, all_stay = True
    if n == 0:
        return OK
    if buffer_reserve(&e.keep, 0, <size_t>n) != OK:
        return refuse(&e.fault, OUT_OF_MEMORY, n, 0)
    keep = e.keep.data
    for i in range(n):
        stays = offsets[i] >= o.from_offset and offsets[i] < o.to_offset
        if stays and o.timed:
            stays = times[i] >= o.from_time and times[i] < o.to_time
            stays = stays and (known[(start + i) >> 3] >> ((start + i) & 7) & 1) != 0
        keep[i] = stays
        all_stay = all_stay and stays
    if not all_stay:
        columns_select(c, start, keep)
    return OK


cdef inline int engine_payload(Engine* e, const uint8_t* p, int64_t length) noexcept nogil:
    """Decodes the pending batch from its payload (decompressed, where it was compressed) and accepts it."""
    cdef Columns* c = &e.columns
    cdef int64_t start = c.rows
    cdef int status = OK
    if c.rows == 0 and e.expected.rows > 0 and c.runs.data == NULL:
        status = columns_expect(c, &e.expected)
        if status != OK:
            return refuse(&e.fault, status, e.expected.value, 0)
    if e.row.magic == 2:
        status = decode_records(c, &e.row, p, p + length, e.options.binary_header_keys, &e.fault)
    elif e.row.codec != 0:
        status = decode_wrapper(c, &e.row, p, p + length, e.options.limit, e.options.check_inner_crc,
                                &e.row.first_offset, &e.fault)
    else:
        status = decode_plain(c, p, &e.row, &e.fault)
    if status != OK:
        columns_truncate(c, start, (c.rows if e.row.magic < 2 else start + length // LEAST_RECORD) + 1)
        return status
    e.chunk_used += length
    if e.row.codec != 0:
        e.decompressed += length
    if is_control(&e.row) and not e.options.control:
        columns_truncate(c, start, c.rows)
    elif e.options.stable_offset < INT64_MAX and c.want & WANT_OFFSET:
        cut_unstable(c, start, e.options.stable_offset)
    if e.options.ranged:
        status = select_rows(e, start)
        if status != OK:
            return status
    if e.options.ticks > 1 and c.want & WANT_TIMESTAMP:
        scale_timestamps(c, start, e.options.ticks)
    return engine_accept(e, start)


cdef inline int64_t engine_limit(const Engine* e) noexcept nogil:
    """How many bytes the pending payload may become."""
    cdef int64_t left = e.options.input_limit - e.decompressed
    return left if left < e.options.limit else e.options.limit


cdef inline int engine_needs_codec(Engine* e) noexcept nogil:
    """Position and length of the payload of the pending compressed batch."""
    cdef const uint8_t* p = e.input.base + e.row.position
    cdef int status
    if e.row.codec > LATEST_CODEC or (e.row.magic < 2 and e.row.codec == LATEST_CODEC):
        return refuse(&e.fault, UNSUPPORTED_CODEC, LATEST_CODEC if e.row.magic == 2 else LATEST_CODEC - 1, e.row.codec)
    if e.row.magic == 2:
        e.payload = p + V2_OVERHEAD
        e.payload_length = e.row.size_in_bytes - V2_OVERHEAD
    else:
        status = wrapper_payload(p, &e.row, &e.payload, &e.payload_length, &e.fault)
        if status != OK:
            return status
    return NEEDS_CODEC


cdef inline int engine_decompress(Engine* e) noexcept nogil:
    """The pending payload by pointer, where there is one and the payload is plain; else NEEDS_CODEC."""
    cdef int64_t length = 0
    cdef int status = NEEDS_CODEC
    if e.row.magic == 2 and e.row.record_count == 0:       # only the stream's head is looked at then
        return NEEDS_CODEC
    if e.row.codec == LZ4 and has_lz4_decompressor():
        status = lz4_frame(&e.context, e.payload, e.payload_length, e.row.magic, engine_limit(e), &length)
    elif e.row.codec == ZSTD and has_zstd_decompressor():
        status = zstd_frame(&e.context, e.payload, e.payload_length, engine_limit(e), &length)
    if status != OK:
        return NEEDS_CODEC
    return engine_payload(e, e.context.out.data, length)


cdef inline int engine_step(Engine* e) noexcept nogil:
    """One batch: OK when it was accepted."""
    cdef ReadMode mode = TO_READ
    cdef const uint8_t* p
    cdef bint wanted
    cdef int status
    if e.options.check_crc != ALL_CHECKS and e.options.payloads != ALL_PAYLOADS:
        mode = TO_SKIP
    status = read_batch(&e.input, e.position, mode, &e.row, &e.fault)
    if status != OK:
        return status
    if e.options.ranged:
        if beyond(e, &e.row):
            e.finished = True
            return END
        if e.reached == 0 or not far_above(e.row.base_offset, e.reached):
            e.reached = e.row.next_offset
        if outside(e, &e.row):
            e.position += e.row.size_in_bytes
            return OK
    wanted = payload_wanted(&e.options, &e.row)
    if e.options.check_crc == ALL_CHECKS or (e.options.check_crc == PAYLOAD_CHECKS and wanted):
        status = check_crc(&e.input, &e.row, &e.fault)
        if status != OK:
            return status
    if not wanted:
        return engine_accept(e, e.columns.rows)
    p = reach(&e.input, e.row.position, e.row.size_in_bytes)
    if p == NULL:
        return refuse(&e.fault, OUT_OF_MEMORY, e.row.size_in_bytes, 0)
    if e.input.bad_count > 0 and bad_until(&e.input, e.row.position, e.row.position + e.row.size_in_bytes) > 0:
        return refuse(&e.fault, UNREADABLE, e.row.size_in_bytes, 0)
    if e.row.codec != 0:
        status = engine_needs_codec(e)
        return engine_decompress(e) if status == NEEDS_CODEC else status
    if e.row.magic == 2:
        return engine_payload(e, p + V2_OVERHEAD, e.row.size_in_bytes - V2_OVERHEAD)
    return engine_payload(e, p, e.row.size_in_bytes)


cdef inline void engine_begin_chunk(Engine* e) noexcept nogil:
    """The table and the columns are about to be taken: the next ones begin, with capacity for as much."""
    columns_measure(&e.columns, &e.expected)
    e.row_count = 0
    e.chunk_used = 0
    e.chunks += 1


cdef inline bint chunk_is_full(const Engine* e) noexcept nogil:
    """A scan's first tables are small, each twice the one before: who wants some rows waits for no more."""
    cdef int64_t limit = e.options.chunk_bytes
    if e.options.payloads == NO_PAYLOADS and e.chunks < 8 and limit < INT64_MAX and limit > FIRST_TABLE << e.chunks:
        limit = FIRST_TABLE << e.chunks
    return e.chunk_used >= limit


cdef inline int engine_run(Engine* e) noexcept nogil:
    """Decodes until the caller has to act."""
    cdef int status = OK
    while status == OK:
        if chunk_is_full(e):
            return CHUNK_FULL
        status = engine_step(e)
    return status
