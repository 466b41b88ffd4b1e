"""The decoder: reads one input, batch after batch, into a chunk of columns and a table of batches.

    position -> frame -> checksum -> [payload ->] records -> accept -> position of the next
                  |          |           |           |
                 END/CUT    fault   NEEDS_CODEC    fault            CHUNK_FULL when the chunk is large enough

It returns when its caller has to act: decompress (NEEDS_CODEC), take the chunk (CHUNK_FULL), raise or record a fault.
A fault leaves columns and table as they were before the batch.
"""
from libc.stdint cimport INT64_MAX, INT64_MIN, int32_t, int64_t, uint8_t

from kafkarec._c.audit cimport Audit, audit_message, audit_payload, keep_notes, note_stream
from kafkarec._c.batch cimport (
    ABSENT, BATCH_MAGIC, FOR_NEXT_HEADER, FOR_PAYLOAD, LZ4, BatchRow, ReadMode, check_crc, is_control,
    is_transactional, is_wrapper, latest_codec, least_size, read_batch,
)
from kafkarec._c.columns cimport (
    MOST_IN_PAGE, WANT_OFFSET, WANT_TIMESTAMP, WANT_VIEWS, Buffer, Columns, begin_viewed_batch, buffer_reserve,
    clear_bit, columns_reserve_alike, columns_share_page, columns_truncate, run_append,
)
from kafkarec._c.input cimport Input, reach, unreadable_end
from kafkarec._c.message cimport decode_plain, decode_wrapper, wrapper_payload
from kafkarec._c.decompress cimport (
    DecompressContext, decompress_payload, lz4_content_checksum_wrong, lz4_content_size_wrong,
)
from kafkarec._c.record cimport FIRST_RESERVE, RowFilter, decode_records, row_passes
from kafkarec._c.record_walk cimport LEAST_RECORD
from kafkarec._c.resync cimport Search, far_above, peek_plausible
from kafkarec._c.status cimport (
    CHUNK_FULL, END, HEADER_DOUBTFUL, NEEDS_CODEC, OK, OUT_OF_MEMORY, UNREADABLE, UNSUPPORTED_CODEC,
    Fault, refuse,
)

cdef enum Payloads:
    NO_PAYLOADS = 0              # a header scan
    CONTROL_PAYLOADS = 1         # of control batches only, for a transaction index
    ALL_PAYLOADS = 2

cdef enum Checks:
    NO_CHECKS = 0
    ALL_CHECKS = 1
    PAYLOAD_CHECKS = 2           # only of batches whose payload is read: for the others only headers are fetched

cdef enum:
    FIRST_TABLE = 8192           # bytes of the first table of a header scan
    MOST_EXPECTED = 64 << 20     # bytes of a chunk for which space is reserved after its first batch
    ENDS_RANGE = 3               # batches in a row whose offsets end a range: two of them may have a wrong one

# An aborted transaction: batches of this producer with a base offset in [first_offset, last_offset] are left out.
cdef struct Aborted:
    int64_t producer_id
    int64_t first_offset
    int64_t last_offset

cdef struct Options:
    int payloads
    int check_crc                # Checks
    bint check_inner_crc
    bint control                 # keep the records of control batches
    bint audit                   # note what Kafka accepts in silence; keep no records of data batches
    bint skip                    # damage is recorded and skipped, not raised
    bint file_rules              # see `_c/end_of_input.pxd`
    bint later_segment           # a later segment of the same log exists
    bint restore                 # a batch whose offset or epoch contradicts its neighbours is HEADER_DOUBTFUL
    bint binary_header_keys
    int64_t limit                # decompressed bytes per payload
    int64_t input_limit          # decompressed bytes of all payloads of an input
    int64_t stable_offset        # records from here on are left out; INT64_MAX: none
    int64_t highest_base         # batches with a higher base offset are left out: they came after the markers were read
    bint ranged                  # only records in the ranges of offsets and times
    RowFilter filter
    int64_t ticks                # timestamp units per millisecond: 1, 1000, 1000000
    int64_t chunk_bytes          # size from which on a chunk is full
    int64_t stretch_bytes        # stored bytes after which a chunk ends, too; compressed ones count four times
    const Aborted* aborted       # sorted by producer id, first offset
    int64_t aborted_count

cdef struct Engine:
    Input input
    int64_t position
    int64_t good_next            # next offset of the last good batch of this input, INT64_MIN before the first
    int64_t first_row            # the input's first row in the table
    int64_t previous_next        # next offset of the last batch that was read; before the first the least possible one
    int64_t previous_end         # where it ends, or where reading began
    int32_t previous_epoch       # its leader epoch
    int64_t trusted              # position of the batch whose header is taken as it is; see header_doubtful
    int64_t reached              # how many batches in a row, the last one included, reach the end of the offsets
    BatchRow[2] left_out         # the last two outside of the ranges, if `restore`; position -1: none
    bint finished                # the rest of the input is outside of the range of offsets
    bint is_above                # so is this batch, and the one before it reaches the end: it is no damage of the range
    Options options
    Columns columns
    Buffer rows                  # BatchRow[row_count]
    int64_t row_count
    int64_t chunk_used           # payload bytes in the chunk so far
    int chunks                   # how many chunks of this input were taken
    int64_t stretch_used         # of stretch_bytes
    int64_t decompressed         # bytes of this input's payloads so far
    Search search
    Fault fault
    BatchRow row                 # the batch that is being read
    const RowFilter* at_once     # filters its records one by one; NULL: not before all are decoded
    const uint8_t* payload       # its compressed payload, when NEEDS_CODEC is returned
    int64_t payload_length
    DecompressContext context
    Audit audit


cdef inline bint was_aborted(const Options* o, const BatchRow* row) noexcept nogil:
    """Whether the batch belongs to an aborted transaction: finds this producer's last one that begins at or below the
    base offset, by binary search."""
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


cdef inline bint isolation_excludes(const Options* o, const BatchRow* row) noexcept nogil:
    """Whether the isolation level excludes the whole batch. A wrapper's first offset is known only after decompression:
    select_records checks its records."""
    if row.magic >= BATCH_MAGIC and (
        row.base_offset > o.highest_base or (o.stable_offset < INT64_MAX and row.base_offset >= o.stable_offset)
    ):
        return True
    return is_transactional(row) and not is_control(row) and o.aborted_count > 0 and was_aborted(o, row)


cdef inline void scale_timestamps(Columns* c, int64_t start, int64_t ticks) noexcept nogil:
    """Converts milliseconds to the caller's unit; values that do not fit become null and are counted."""
    cdef int64_t* at = c.timestamp
    cdef int64_t most = INT64_MAX // ticks
    cdef int64_t i
    for i in range(start, c.rows):
        if at[i] > most or at[i] < -most:
            at[i] = 0
            clear_bit(c.timestamp_validity, i)
            c.out_of_range += 1
        else:
            at[i] *= ticks


cdef inline void advance_past_batch(Engine* e) noexcept nogil:
    """The batch has been read: what the next one is compared with, and where it begins."""
    e.reached = e.reached + 1 if e.row.next_offset >= e.options.filter.to_offset else 0
    e.position = e.previous_end = e.row.position + e.row.size_in_bytes
    e.previous_next, e.previous_epoch = e.row.next_offset, e.row.partition_leader_epoch


cdef inline int engine_accept(Engine* e, int64_t rows_before) noexcept nogil:
    """Accepts the good batch: appends its row to the table, and a run of the rows from `rows_before` on."""
    cdef size_t used = <size_t>e.row_count * sizeof(BatchRow)
    cdef int status = buffer_reserve(&e.rows, used, used + sizeof(BatchRow))
    if status == OK and e.audit.found != 0:
        status = keep_notes(&e.audit, e.row_count)
    if status == OK and e.columns.rows > rows_before:
        status = run_append(&e.columns, e.row_count, e.columns.rows - rows_before)
    if status != OK:
        return refuse(&e.fault, status, <int64_t>(used + sizeof(BatchRow)), 0)
    (<BatchRow*>e.rows.data)[e.row_count] = e.row
    e.row_count += 1
    e.stretch_used += e.row.size_in_bytes if e.row.codec == 0 else 4 * <int64_t>e.row.size_in_bytes
    advance_past_batch(e)
    return OK


cdef inline bint outside_ranges(Engine* e, const BatchRow* row) noexcept nogil:
    """Whether the header shows that no record of the batch is in the ranges. The header has neither a wrapper's first
    offset nor the smallest timestamp of a CreateTime batch: each record is checked."""
    cdef const RowFilter* f = &e.options.filter
    if f.timed and row.max_timestamp < f.from_time:
        return True
    if f.timed and row.timestamp_type == 1 and row.max_timestamp >= f.to_time:
        return True
    return row.last_offset < f.from_offset or (not is_wrapper(row) and row.base_offset >= f.to_offset)


cdef inline void reserve_for_rest(Engine* e, int64_t length) noexcept nogil:
    """After the first batch of a chunk, with a payload of `length` bytes: reserves what the rest of the input takes, or
    of the chunk, if all its batches are like this one, and a sixteenth more."""
    cdef int64_t batches = (e.input.stop - e.row.position) // e.row.size_in_bytes - 1
    cdef int64_t of_chunk = (e.options.chunk_bytes - length) // max(length, 1) + 1
    cdef int64_t of_stretch = e.options.stretch_bytes // e.row.size_in_bytes
    cdef size_t used = <size_t>e.row_count * sizeof(BatchRow)
    batches = min(batches, of_chunk, of_stretch)
    batches += batches // 16
    if batches > 0 and e.options.chunk_bytes <= MOST_EXPECTED:
        buffer_reserve(&e.rows, used, used + <size_t>(batches + 1) * sizeof(BatchRow))
        columns_reserve_alike(&e.columns, batches, min(length, FIRST_RESERVE))


cdef inline int decode_payload(Engine* e, Columns* c, const uint8_t* p, int64_t length, int64_t behind,
                               const RowFilter* filter) noexcept nogil:
    """Appends the pending batch's records to the columns; of a refused batch none."""
    cdef int64_t start = c.rows
    cdef int status
    if e.row.magic >= BATCH_MAGIC:
        status = decode_records(c, &e.row, p, p + length, behind, e.options.binary_header_keys, filter,
                                &e.audit.seen if e.options.audit else NULL, &e.fault)
    elif e.row.codec != 0:
        status = decode_wrapper(c, &e.row, p, p + length, e.options.limit, e.options.check_inner_crc, filter,
                                &e.row.first_offset, &e.fault)
    else:
        status = decode_plain(c, p, &e.row, filter, &e.fault)
    if status != OK:
        columns_truncate(c, start, (c.rows if e.row.magic < BATCH_MAGIC else start + length // LEAST_RECORD) + 1)
    return status


cdef inline bint pass_all(const RowFilter* filter, const Columns* c, int64_t start) noexcept nogil:
    """Whether the rows from `start` on pass."""
    cdef int64_t i
    for i in range(start, c.rows):
        if not row_passes(filter, c, i):
            return False
    return True


cdef inline int decode_selected(Engine* e, Columns* c, const uint8_t* p, int64_t length,
                                int64_t behind) noexcept nogil:
    """As decode_payload, without the records that were not asked for, and without those from the last stable offset on,
    which are the last rows. Most batches pass the filter whole: only another one is decoded again, record by record.
    So is at once the batch after it, and each one of which few have a key."""
    cdef const RowFilter* filter = &e.options.filter
    cdef int64_t start = c.rows, rows
    cdef int status = decode_payload(e, c, p, length, behind, e.at_once)
    if status == OK and e.options.ranged:
        if not pass_all(filter, &e.columns, start):
            columns_truncate(c, start, c.rows)
            status = decode_payload(e, c, p, length, behind, filter)
        if filter.keys == NULL and not e.options.audit:
            e.at_once = filter if c.rows - start < e.row.record_count else NULL
    if status != OK:
        return status
    if is_control(&e.row) and not e.options.control:
        columns_truncate(c, start, c.rows)
    elif e.options.stable_offset < INT64_MAX and c.want & WANT_OFFSET:
        rows = c.rows
        while rows > start and c.offset[rows - 1] >= e.options.stable_offset:
            rows -= 1
        columns_truncate(c, rows, c.rows)
    return OK


cdef inline int engine_decode(Engine* e, const uint8_t* p, int64_t length, int64_t behind) noexcept nogil:
    """Decodes the pending batch from its payload (decompressed if it has a codec) and accepts it. `behind`: how many
    bytes after the payload are readable."""
    cdef Columns* c = &e.columns
    cdef int64_t start = c.rows
    cdef int status
    if e.options.audit and not is_control(&e.row):       # the records of a data batch go into no column
        c = &e.audit.no_columns
        c.rows = start
    elif (start == 0 and e.input.reader == NULL and e.input.stop - e.row.position < MOST_IN_PAGE
            and length < MOST_IN_PAGE and c.runs.data == NULL and c.page.buffer.data == NULL):
        columns_share_page(c, e.row.record_count, length)
    if c.want & WANT_VIEWS:
        begin_viewed_batch(c, p if e.input.viewable and e.row.codec == 0 else NULL, length)
    status = decode_selected(e, c, p, length, behind)
    if status != OK:
        return status
    if e.options.audit:
        audit_payload(&e.audit, &e.row, p, length)
    e.chunk_used += length
    if e.row.codec != 0:
        e.decompressed += length
    if e.options.ticks > 1 and c.want & WANT_TIMESTAMP:
        scale_timestamps(c, start, e.options.ticks)
    if start == 0 and e.columns.rows > 0:
        reserve_for_rest(e, length)
    return engine_accept(e, start)


cdef inline int64_t payload_limit(const Engine* e) noexcept nogil:
    """The largest permitted decompressed size of the pending payload, in bytes."""
    cdef int64_t left = e.options.input_limit - e.decompressed
    return left if left < e.options.limit else e.options.limit


cdef inline int locate_payload(Engine* e) noexcept nogil:
    """Sets payload and payload_length of the pending compressed batch; NEEDS_CODEC, or a refusal."""
    cdef const uint8_t* p = e.input.base + e.row.position
    cdef int status
    if e.row.codec > latest_codec(e.row.magic):
        return refuse(&e.fault, UNSUPPORTED_CODEC, latest_codec(e.row.magic), e.row.codec)
    if e.row.magic >= BATCH_MAGIC:
        e.payload = p + least_size(e.row.magic)
        e.payload_length = e.row.size_in_bytes - least_size(e.row.magic)
    else:
        status = wrapper_payload(p, &e.row, &e.payload, &e.payload_length, &e.fault)
        if status != OK:
            return status
        if e.options.audit:
            audit_message(&e.audit, p, e.row.size_in_bytes)
    return NEEDS_CODEC


cdef inline int engine_decompress(Engine* e) noexcept nogil:
    """Decompresses the pending payload by function pointer and decodes it. NEEDS_CODEC where there is no such function
    or `decompress.pxd` does not handle the payload."""
    cdef DecompressContext* context = &e.context
    if e.row.magic >= BATCH_MAGIC and e.row.record_count == 0:       # then only the beginning of the stream is checked
        return NEEDS_CODEC
    if decompress_payload(context, e.row.codec, e.payload, e.payload_length, e.row.magic, payload_limit(e)) != OK:
        return NEEDS_CODEC
    if e.row.codec == LZ4 and e.options.audit:
        note_stream(&e.audit, 1, e.payload_length - context.lz4_end, lz4_content_checksum_wrong(context, e.payload),
                    lz4_content_size_wrong(context, e.payload))
    return engine_decode(e, context.out.data, context.length, <int64_t>context.out.capacity - context.length)


cdef inline bint range_ended(Engine* e) noexcept nogil:
    """Whether the range of offsets ends before this batch. Offsets rise from batch to batch, but no checksum covers
    them: the batches before and behind it have to agree. Behind a batch that stands above the end without them, reading
    goes on. Of a wrapper the header has only the last offset, so that those before it have to tell."""
    cdef BatchRow row
    cdef int64_t agree = e.reached + 1
    if e.row.base_offset < e.options.filter.to_offset:
        return False
    row = e.row
    while agree < ENDS_RANGE:
        if is_wrapper(&row):
            return False
        if not peek_plausible(&e.input, row.position + row.size_in_bytes, &row):
            return e.reached > 0
        if row.base_offset < e.options.filter.to_offset:
            return False
        agree += 1
    return True


cdef inline int check_outside(Engine* e) noexcept nogil:
    """Of a framed batch that is outside of the ranges: its checksum, where it is above the end of the offsets and they
    go on, or neither a header nor the end of the input follows it. By a wrong length good batches would be skipped with
    it."""
    cdef BatchRow following
    cdef int64_t end = e.position + e.row.size_in_bytes
    if e.options.check_crc == NO_CHECKS:
        return OK
    if e.row.base_offset < e.options.filter.to_offset and (
        end == e.input.size or peek_plausible(&e.input, end, &following)
    ):
        return OK
    return check_crc(&e.input, &e.row, &e.fault)


cdef inline bint header_doubtful(Engine* e) noexcept nogil:
    """Whether base offset or leader epoch of the framed batch contradict the batch before or the frame behind it. The
    last batch of a segment has the next segment's name behind it, which is not known here."""
    cdef BatchRow following
    cdef int64_t end = e.position + e.row.size_in_bytes
    cdef int32_t epoch = e.row.partition_leader_epoch
    if e.previous_next != INT64_MIN and (
        e.row.base_offset < e.previous_next or far_above(e.row.base_offset, e.previous_next)
    ):
        return True
    if epoch != ABSENT and epoch < e.previous_epoch:
        return True
    if end == e.input.size:
        return True
    if not peek_plausible(&e.input, end, &following):
        return False
    if e.row.last_offset >= following.base_offset:
        return True
    return epoch > following.partition_leader_epoch != ABSENT


cdef inline int engine_step(Engine* e) noexcept nogil:
    """Reads one batch: OK when it was accepted, or skipped because it is outside of the ranges."""
    cdef ReadMode mode = FOR_PAYLOAD
    cdef const uint8_t* p
    cdef bint wanted
    cdef int status
    e.audit.found, e.is_above = 0, False
    if e.options.check_crc != ALL_CHECKS and e.options.payloads != ALL_PAYLOADS:
        mode = FOR_NEXT_HEADER
    status = read_batch(&e.input, e.position, e.input.stop, mode, &e.row, &e.fault)
    if status != OK:
        return status
    if e.options.restore and (
        e.row.base_offset != e.previous_next or e.row.partition_leader_epoch != e.previous_epoch
    ) and e.trusted != e.position and header_doubtful(e):
        return HEADER_DOUBTFUL
    if e.options.ranged:
        if range_ended(e):
            e.finished = True
            return END
        e.is_above = e.reached > 0 and e.row.base_offset >= e.options.filter.to_offset
        if outside_ranges(e, &e.row):
            status = check_outside(e)
            if status == OK and e.options.restore:
                e.left_out[0] = e.left_out[1]
                e.left_out[1] = e.row
            if status == OK:
                advance_past_batch(e)
            return status
    wanted = e.options.payloads == ALL_PAYLOADS or (e.options.payloads == CONTROL_PAYLOADS and is_control(&e.row))
    wanted = wanted and not isolation_excludes(&e.options, &e.row)
    if e.options.check_crc == ALL_CHECKS or (e.options.check_crc == PAYLOAD_CHECKS and wanted):
        status = check_crc(&e.input, &e.row, &e.fault)
        if status != OK:
            return status
    if not wanted:                                   # the size of a scan's chunk is that of its table
        e.chunk_used += sizeof(BatchRow)
        return engine_accept(e, e.columns.rows)
    p = reach(&e.input, e.row.position, e.row.size_in_bytes)
    if p == NULL:
        return refuse(&e.fault, OUT_OF_MEMORY, e.row.size_in_bytes, 0)
    if unreadable_end(&e.input, e.row.position, e.row.position + e.row.size_in_bytes) > 0:
        return refuse(&e.fault, UNREADABLE, e.row.size_in_bytes, 0)
    if e.row.codec != 0:
        status = locate_payload(e)
        return engine_decompress(e) if status == NEEDS_CODEC else status
    if e.row.magic >= BATCH_MAGIC:
        return engine_decode(e, p + least_size(e.row.magic), e.row.size_in_bytes - least_size(e.row.magic),
                             e.input.high - e.row.position - e.row.size_in_bytes)
    return engine_decode(e, p, e.row.size_in_bytes, 0)


cdef inline void engine_begin_chunk(Engine* e) noexcept nogil:
    """Begins the next chunk; the caller is about to take the columns and the table."""
    e.row_count = 0
    e.audit.kept_count = e.audit.largest = 0
    e.chunk_used = 0
    e.chunks += 1
    if e.stretch_used >= e.options.stretch_bytes:
        e.stretch_used = 0


cdef inline bint chunk_is_full(const Engine* e) noexcept nogil:
    """Whether the chunk is large enough. A header scan's first tables are small and double in size: a caller that needs
    few rows gets them early."""
    cdef int64_t limit = e.options.chunk_bytes
    if e.options.payloads == NO_PAYLOADS and e.chunks < 8 and limit < INT64_MAX and limit > FIRST_TABLE << e.chunks:
        limit = FIRST_TABLE << e.chunks
    return e.chunk_used >= limit or e.stretch_used >= e.options.stretch_bytes


cdef inline int engine_run(Engine* e) noexcept nogil:
    """Decodes until the caller has to act."""
    cdef int status = OK
    while status == OK:
        if chunk_is_full(e):
            return CHUNK_FULL
        status = engine_step(e)
    return status
