"""Checks the records of a produce request, in one pass that stores no record.

    magic 2     length varint | attributes | timestamp delta | offset delta | key length, key | value length, value
                | header count, headers          keys, values and headers are skipped, not copied
        partly    a length from 0 to `most_body` is ignored (KAFKA-8106, DefaultRecord.readPartiallyFrom: batches that
                  stay compressed)
        else      the fields must fill the length (DefaultRecord.readFrom)
    magic 0, 1  offset 8 | size 4 | crc 4 | magic 1 | attributes 1 | (timestamp 8) | key length 4 | ...

For each record: whether a required key is missing, whether the timestamp is in the permitted range, and whether offsets
are 0, 1, 2, .... Follows LogValidator.validateRecord: only the first error of a record is reported. Timestamps are
compared as in Java, with 64-bit overflow.
"""
from libc.stdint cimport INT64_MAX, int8_t, int32_t, int64_t, uint8_t

from kafkarec._c.batch cimport (
    ABSENT, BATCH_MAGIC, CODEC_MASK, LOG_OVERHEAD, MAGIC_OFFSET, UP_TO_MAGIC, V0_OVERHEAD, BatchRow, wrapping_add,
    wrapping_subtract,
)
from kafkarec._c.columns cimport Buffer, buffer_reserve
from kafkarec._c.numbers cimport load_i32, load_i64, read_varint
from kafkarec._c.message cimport Message, check_inner_crc, inner_shift, next_inner, read_message
from kafkarec._c.record_walk cimport Magic2Walk, WalkedRecord, begin_walk, walk_record
from kafkarec._c.status cimport (
    INNER_COMPRESSED, MESSAGE_TRUNCATED, OK, OUT_OF_MEMORY, RECORDS_LEFT_OVER, RECORDS_MISSING,
    RECORD_COUNT_NEGATIVE, RECORD_LENGTH_INVALID, Fault, refuse,
)

cdef enum:
    MOST_REFUSED = 10000         # records whose errors are kept; a request may have one record per 7 bytes

cdef enum RecordFault:           # of well-formed records
    FINE = 0
    OTHER_MAGIC
    NO_KEY
    OUT_OF_RANGE
    APPEND_TIME

cdef struct ScannedRecord:
    int64_t offset
    int64_t timestamp
    int32_t index                # within its batch
    int32_t magic
    int32_t headers              # number of headers
    bint keyed                   # its key is not null
    int why                      # a RecordFault

cdef struct RecordRules:
    bint create_time             # message.timestamp.type of the topic
    bint compacted               # each record must have a key
    bint partly                  # the length of a record is ignored
    int8_t to_magic              # of the rewritten records
    int32_t most_body            # bytes of a record without its length, of a message without its offset and size
    int64_t now
    int64_t before_ms            # message.timestamp.before.max.ms
    int64_t after_ms             # message.timestamp.after.max.ms

# Sums over the records so far.
cdef struct RecordSummary:
    int64_t records
    bint in_order                # offsets 0, 1, 2, ... over all batches
    int64_t least                # smallest timestamp
    int64_t greatest             # largest timestamp
    int64_t headers              # number of headers
    bint unfit                   # a record before the first refused one cannot be written in `to_magic`
    Buffer refused               # ScannedRecord[refused_count], at most MOST_REFUSED
    int64_t refused_count
    bint refused_time            # at least one was refused for its timestamp


cdef inline void summary_begin(RecordSummary* t) noexcept nogil:
    """Resets the sums; the buffer `refused` is kept."""
    t.records = t.headers = t.refused_count = 0
    t.least, t.greatest = INT64_MAX, ABSENT
    t.in_order, t.unfit, t.refused_time = True, False, False


cdef inline int record_error(const RecordRules* rules, const ScannedRecord* w, bint append_time) noexcept nogil:
    """LogValidator.validateKey and validateTimestamp. `append_time`: the batch has timestamp type LogAppendTime."""
    cdef int64_t age
    if rules.compacted and not w.keyed:
        return NO_KEY
    if rules.create_time and w.timestamp != ABSENT:
        age = wrapping_subtract(rules.now, w.timestamp)
        if age > rules.before_ms or wrapping_subtract(0, age) > rules.after_ms:
            return OUT_OF_RANGE
        return FINE
    return APPEND_TIME if append_time else FINE


cdef inline int summary_add(RecordSummary* t, const RecordRules* rules, const ScannedRecord* w,
                            Fault* fault) noexcept nogil:
    """Adds the next record."""
    cdef size_t used = <size_t>t.refused_count * sizeof(ScannedRecord)
    if w.why != FINE and t.refused_count < MOST_REFUSED:
        if buffer_reserve(&t.refused, used, used + sizeof(ScannedRecord)) != OK:
            return refuse(fault, OUT_OF_MEMORY, sizeof(ScannedRecord), 0)
        (<ScannedRecord*>t.refused.data)[t.refused_count] = w[0]
    if w.why != FINE:
        t.refused_time = t.refused_time or w.why == OUT_OF_RANGE or w.why == APPEND_TIME
        t.refused_count += 1
    elif t.refused_count == 0 and (w.timestamp < ABSENT or (rules.to_magic < BATCH_MAGIC and w.headers > 0)):
        t.unfit = True
    if w.offset != t.records:
        t.in_order = False
    if w.timestamp > t.greatest:
        t.greatest = w.timestamp
    if w.timestamp < t.least:
        t.least = w.timestamp
    t.headers += w.headers
    t.records += 1
    return OK


# ---- magic 2

cdef inline int scan_batch(RecordSummary* t, const RecordRules* rules, const BatchRow* batch, const uint8_t* p,
                           const uint8_t* end, Fault* fault) noexcept nogil:
    """Scans all records of a batch of magic 2. p to end: its decompressed payload."""
    cdef Magic2Walk at = begin_walk(p, end, fault)
    cdef WalkedRecord record
    cdef ScannedRecord w
    cdef int32_t i = 0
    cdef int status
    cdef bint append_time = batch.timestamp_type == 1
    if batch.record_count < 0:
        return refuse(fault, RECORD_COUNT_NEGATIVE, 0, batch.record_count)
    while i < batch.record_count:
        fault.record = i
        if at.p == end:
            return refuse(fault, RECORDS_MISSING, batch.record_count, i)
        status = walk_record(&at, &record, rules.most_body, rules.partly)
        if status != OK:
            return status
        w.offset = wrapping_add(batch.base_offset, record.offset_delta)
        w.timestamp = batch.max_timestamp
        if not append_time:
            w.timestamp = wrapping_add(batch.base_timestamp, record.timestamp_delta)
        w.index, w.magic, w.headers, w.keyed = i, batch.magic, record.headers, record.key_length >= 0
        w.why = record_error(rules, &w, append_time)
        status = summary_add(t, rules, &w, fault)
        if status != OK:
            return status
        i += 1
    fault.record = -1
    if batch.record_count > 0 and at.p != end:
        return refuse(fault, RECORDS_LEFT_OVER, batch.record_count, end - at.p)
    return OK


# ---- sizes

cdef inline int check_record_sizes(const BatchRow* batch, const uint8_t* p, const uint8_t* end, int32_t most,
                                   Fault* fault) noexcept nogil:
    """Refuses the first record of a compressed batch with more than `most` bytes, by the size in front of it
    (DefaultRecord.readFrom, AbstractLegacyRecordBatch.DataLogInputStream); what has no valid size is for others to
    refuse. p to end: its decompressed payload."""
    cdef int32_t size
    cdef int32_t i = 0
    while batch.magic < BATCH_MAGIC or i < batch.record_count:
        if batch.magic < BATCH_MAGIC:
            if end - p < LOG_OVERHEAD:
                break
            size = load_i32(p + 8)
            if size < V0_OVERHEAD:
                break
            p += LOG_OVERHEAD
        elif read_varint(&p, end, &size) != OK:
            break
        if size > most:
            fault.record = i
            return refuse(fault, RECORD_LENGTH_INVALID, most, size)
        if size < 0 or size > end - p:
            break
        p += size
        i += 1
    return OK


# ---- magic 0 and 1

cdef inline int scan_message(RecordSummary* t, const RecordRules* rules, const BatchRow* outer, const uint8_t* p,
                             int64_t size, int64_t offset, int32_t index, Fault* fault) noexcept nogil:
    """Scans one message of `size` bytes. `outer`: its wrapper, or the plain message itself."""
    cdef ScannedRecord w
    cdef Message m
    cdef int status
    cdef int8_t magic = <int8_t>p[MAGIC_OFFSET]
    cdef int64_t key_at = UP_TO_MAGIC + 1 + (8 if magic > 0 else 0)
    cdef bint inner = outer.codec != 0
    if inner:
        fault.record = index
    w.offset, w.timestamp, w.index, w.magic, w.headers = offset, ABSENT, index, magic, 0
    if magic > 0:
        w.timestamp = outer.max_timestamp if outer.timestamp_type == 1 else load_i64(p + UP_TO_MAGIC + 1)
    w.keyed = size - key_at >= 4 and load_i32(p + key_at) >= 0
    if inner and p[UP_TO_MAGIC] & CODEC_MASK:
        return refuse(fault, INNER_COMPRESSED, 0, p[UP_TO_MAGIC] & CODEC_MASK)
    if magic != outer.magic:
        w.why = OTHER_MAGIC
    else:
        status = check_inner_crc(p, size, fault) if inner else <int>OK
        if status != OK:
            return status
        if rules.compacted and size - key_at < 4:
            return refuse(fault, MESSAGE_TRUNCATED, 4, size - key_at)
        w.why = record_error(rules, &w, outer.timestamp_type == 1)
    if w.why == OTHER_MAGIC or w.why == APPEND_TIME:     # Kafka's error message prints the record, so it is read
        status = read_message(p, size, &m, fault)
        if status != OK:
            return status
    return summary_add(t, rules, &w, fault)


cdef inline int scan_wrapper(RecordSummary* t, const RecordRules* rules, const BatchRow* outer, const uint8_t* p,
                             const uint8_t* end, int64_t limit, Fault* fault) noexcept nogil:
    """Scans the inner messages of a wrapper. p to end: its decompressed value."""
    cdef const uint8_t* at
    cdef int64_t size, shift
    cdef int32_t index = 0
    cdef int status = check_record_sizes(outer, p, end, rules.most_body, fault)
    if status == OK:
        status = inner_shift(p, end, outer, limit, &shift, fault)
    while status == OK:
        status = next_inner(&p, end, limit, &at, &size, fault)
        if status != OK or size == 0:
            break
        status = scan_message(t, rules, outer, at, size, wrapping_add(shift, load_i64(at)), index, fault)
        index += 1
    return status
