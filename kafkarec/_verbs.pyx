"""The compiled module of single verbs, which is loaded with the first of them: what reading and writing do not need.

    RequestCheck                       checks batches and records of produce requests; stores no records: see
                                       `_c/record_summary.pxd`. `ops/validate` decides what is done
    stamp_messages, writable_view      sets offsets and times of messages
    LastOffsets                        the last offset of each key, for compaction: see `_c/offset_map.pxd`
    lines                              rows as JSON Lines, for `cat` and `scan`: see `_c/lines.pxd`
    read_batch_header, rewrite_records, HeaderFirstCheck
                                       batches and records of magic 3, for kafkarec.experimental: see `_c/magic_3.pxd`
"""
cimport cython
from cpython.buffer cimport PyBUF_WRITABLE
from cpython.bytearray cimport PyByteArray_AsString, PyByteArray_FromStringAndSize, PyByteArray_Resize
from cpython.bytes cimport PyBytes_AsString, PyBytes_FromStringAndSize, PyBytes_Size
from cpython.exc cimport PyErr_CheckSignals
from libc.stdint cimport INT32_MAX, int8_t, int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memcpy, memset

from kafkarec._c.arrow cimport BYTES, FIXED, HEADERS, Column, Storage
from kafkarec._c.input_columns cimport Span
from kafkarec._c.batch cimport (
    ABSENT, BATCH_MAGIC, LARGEST_HEADER, LATEST_CODEC, LOG_APPEND_TIME, LOG_OVERHEAD, UP_TO_MAGIC, BatchRow, frame,
    is_control, is_transactional, least_size, read_header, verify_crc, wrapping_add,
)
from kafkarec._c.magic_3 cimport (
    HEADER_FIRST, MAGIC_3, NO_RECORD_ATTRIBUTES, TWO_FRAMES, FieldScan, RecordsOut, begin_field_scan, copy_records,
    read_batch_of, rewrite_bound, scan_fields,
)
from kafkarec._c.columns cimport SLACK, WANT_KEY, WANT_OFFSET, Columns, buffer_free
from kafkarec._c.decompress cimport DecompressContext, decompress_payload, decompress_release
from kafkarec._c.lines cimport (
    AS_BASE64, AS_BOOL, AS_HEADERS, AS_HEX, AS_INT32, AS_INT64, AS_NUMBER, AS_READY, AS_TEXT, AS_TIME, Escape,
    LineColumn, Lines, is_numeric, put_lines,
)
from kafkarec._c.message cimport wrapper_payload
from kafkarec._c.offset_map cimport (
    OffsetMap, Slot, offset_map_begin, offset_map_end, offset_map_keep_latest, offset_map_put_rows, offset_map_slot,
)
from kafkarec._c.record_summary cimport (
    MOST_REFUSED, RecordRules, RecordSummary, ScannedRecord, check_record_sizes, scan_batch, scan_message, scan_wrapper,
    summary_begin,
)
from kafkarec._c.record_walk cimport Magic2Walk, Magic3Walk, begin_walk, next_int
from kafkarec._c.status cimport (
    ATTRIBUTES_LOST, BASE_OFFSET_NOT_ZERO, BATCH_TOO_LARGE, BATCH_TOO_SMALL, CUT, END, LEADER_EPOCH_DIFFERS,
    LENGTH_BEYOND_END, MESSAGE_TRUNCATED, NEEDS_CODEC, OFFSETS_OUT_OF_ORDER, OK, RECORDS_LEFT_OVER,
    RECORD_COUNT_NEGATIVE, RECORD_LENGTH_INVALID, UNSUPPORTED_CODEC, UNSUPPORTED_MAGIC, Fault, refuse,
)
from kafkarec._c.numbers cimport put_i64
from kafkarec._c.write cimport put_message_crc
from kafkarec._core cimport HeldBytes, memory_of, storage_of
from kafkarec._entry.calls cimport claim, fault_fields, reasons_by_status
from kafkarec._entry.py_columns cimport cells_of, numbers_of

import os

from kafkarec.damage import error

_REASONS = reasons_by_status()


cdef object refusal(int status, const Fault* fault, dict batch=None):
    """The exception for a status. batch: arguments of damage.error about the batch, where the fault has none."""
    return error(_REASONS[status], fault_fields(fault, None, "") | (batch or {}))


# ---- batches and records that are checked

cdef int read_framed_batch(const uint8_t* base, int64_t length, int64_t position, BatchRow* row,
                           Fault* fault) noexcept nogil:
    """Frames a batch like `read_batch` of `batch.pxd`, but accepts messages as short as Kafka's framing does. A batch
    too small for its header has zeros for the missing fields: Kafka compares base offset and leader epoch before it
    checks the size."""
    cdef int64_t size = 0
    cdef uint8_t header[LARGEST_HEADER]
    cdef const uint8_t* p = base + position
    cdef int status = frame(p, length - position, position, &size, &row.magic, fault)
    if status != OK:
        return status
    if row.magic < BATCH_MAGIC or size >= least_size(row.magic):
        read_header(p, position, size, row)
        return OK
    memset(header, 0, LARGEST_HEADER)
    memcpy(header, p, <size_t>size)
    read_header(header, position, size, row)
    return refuse(fault, BATCH_TOO_SMALL, least_size(row.magic), size)


cdef inline void set_fault_place(Fault* fault, const BatchRow* row) noexcept nogil:
    fault.position, fault.base_offset, fault.record = row.position, row.base_offset, -1
    fault.next_position = row.position + row.size_in_bytes


@cython.final
cdef class RequestCheck:
    """A produce request: frames and checks its batches, then scans their records.

    batches, end       number of batches, and where the last one ends; a truncated batch may follow
    codec              the last one other than "none", as UnifiedLog determines it for a request
    one_magic          all batches have the magic of the first; else `other_magic` is found at `other_position`
    last_offset, max_timestamp    of the batches' headers: the last one, the largest one
    """
    cdef HeldBytes held
    # the rules for batches, checked before their records (UnifiedLog.analyzeAndValidateRecords)
    cdef bint check_crcs, from_zero      # base offset 0 in magic 2
    cdef bint rising                     # last offsets rise from batch to batch
    cdef bint of_leader                  # the leader epoch must be leader_epoch
    cdef int32_t leader_epoch
    cdef int64_t most_bytes              # of a batch
    cdef BatchRow row
    cdef RecordSummary record_summary
    cdef readonly int64_t batches, end, other_position, last_offset, max_timestamp
    cdef readonly int codec, other_magic
    cdef readonly bint one_magic

    def __cinit__(self, data, *, bint check_crcs, bint from_zero, bint rising, leader_epoch, int64_t most_bytes):
        cdef Fault fault
        cdef int status
        self.held = HeldBytes(data)
        self.check_crcs, self.from_zero, self.rising, self.most_bytes = check_crcs, from_zero, rising, most_bytes
        self.of_leader, self.leader_epoch = leader_epoch is not None, leader_epoch or 0
        with nogil:
            status = self.check_batches(&fault)
        if status != END and status != CUT:
            raise refusal(status, &fault)

    def __dealloc__(self):
        buffer_free(&self.record_summary.refused)

    cdef int check_rules(self, const BatchRow* row, Fault* fault) noexcept nogil:
        if self.of_leader and row.partition_leader_epoch != self.leader_epoch:
            return refuse(fault, LEADER_EPOCH_DIFFERS, self.leader_epoch, row.partition_leader_epoch)
        if self.from_zero and row.magic >= BATCH_MAGIC and row.base_offset != 0:
            return refuse(fault, BASE_OFFSET_NOT_ZERO, 0, row.base_offset)
        if row.size_in_bytes > self.most_bytes:
            return refuse(fault, BATCH_TOO_LARGE, self.most_bytes, row.size_in_bytes)
        return OK

    cdef int check_batches(self, Fault* fault) noexcept nogil:
        """Checks all batches. Returns END, CUT or a refusal."""
        cdef const uint8_t* base = self.held.data
        cdef BatchRow row
        cdef int status, ruled
        self.one_magic, self.max_timestamp, self.last_offset = True, ABSENT, ABSENT
        while True:
            status = read_framed_batch(base, self.held.size, self.end, &row, fault)
            if status == OK or status == BATCH_TOO_SMALL:
                ruled = self.check_rules(&row, fault)
                status = status if ruled == OK else ruled
            if status == OK and self.check_crcs:
                status = verify_crc(base + self.end, &row, fault)
            if status != OK:
                return status
            if row.codec > LATEST_CODEC:
                return refuse(fault, UNSUPPORTED_CODEC, LATEST_CODEC, row.codec)
            if self.rising and self.last_offset >= row.last_offset:
                return refuse(fault, OFFSETS_OUT_OF_ORDER, self.last_offset, row.last_offset)
            if self.batches == 0:
                self.row = row
            elif self.one_magic and row.magic != self.row.magic:
                self.one_magic, self.other_magic, self.other_position = False, row.magic, self.end
            if row.codec != 0:
                self.codec = row.codec
            if row.max_timestamp > self.max_timestamp:
                self.max_timestamp = row.max_timestamp
            self.last_offset = row.last_offset
            self.batches += 1
            self.end += row.size_in_bytes

    @property
    def first_batch(self):
        """The fields of ops.validate.rules.FirstBatch; -1 where the first batch's magic does not have them."""
        cdef const BatchRow* row = &self.row
        return (
            row.magic, row.codec, row.size_in_bytes, row.base_offset, row.last_offset, row.timestamp_type,
            row.producer_id, row.producer_epoch, row.base_sequence, row.record_count,
            is_transactional(row), is_control(row),
        )

    def payload(self):
        """(position, length) of the first batch's compressed payload; InvalidRecordError if a wrapper has none."""
        cdef const uint8_t* base = self.held.data
        cdef const uint8_t* payload = NULL
        cdef int64_t length = 0
        cdef Fault fault
        cdef int status
        if self.row.magic >= BATCH_MAGIC:
            return least_size(self.row.magic), self.row.size_in_bytes - least_size(self.row.magic)
        set_fault_place(&fault, &self.row)
        status = wrapper_payload(base, &self.row, &payload, &length, &fault)
        if status != OK:
            raise refusal(status, &fault)
        return payload - base, length

    def scan_records(self, payload, rules, bint partly, int64_t limit):
        """Scans all records; returns position, base offset and next position of the last batch.

        payload    the decompressed records of the first batch; None: all plain messages
        rules      ops.validate.rules.Rules
        partly     the fields of a record need not fill its length
        limit      the most bytes of an inner message
        """
        cdef RecordRules r
        cdef Fault fault
        cdef HeldBytes held
        cdef const uint8_t* p
        cdef const uint8_t* end
        cdef int status
        r.create_time, r.compacted, r.partly = rules.create_time, rules.compacted, partly
        r.most_body = rules.most_body if self.row.codec else INT32_MAX
        r.to_magic, r.now, r.before_ms, r.after_ms = rules.magic, rules.now, rules.before_ms, rules.after_ms
        summary_begin(&self.record_summary)
        set_fault_place(&fault, &self.row)
        if payload is None:
            with nogil:
                status = self.scan_messages(&r, &fault)
        else:
            held = HeldBytes(payload)
            p, end = held.data, held.data + held.size
            with nogil:
                if self.row.magic >= BATCH_MAGIC:
                    status = scan_batch(&self.record_summary, &r, &self.row, p, end, &fault)
                else:
                    status = scan_wrapper(&self.record_summary, &r, &self.row, p, end, limit, &fault)
        if status == RECORD_LENGTH_INVALID and fault.found > r.most_body:
            raise error("record_too_large", fault_fields(&fault, None, ""))
        if status != OK:
            raise refusal(status, &fault)
        return fault.position, fault.base_offset, fault.next_position

    def first_too_large(self, payload, int32_t most):
        """(index, size) of the first record of the first batch, a compressed one, with more than `most` bytes; None:
        there is none. payload: its decompressed records."""
        cdef HeldBytes held = HeldBytes(payload)
        cdef Fault fault
        cdef int status
        with nogil:
            status = check_record_sizes(&self.row, held.data, held.data + held.size, most, &fault)
        return None if status == OK else (fault.record, fault.found)

    cdef int scan_messages(self, const RecordRules* rules, Fault* fault) noexcept nogil:
        """Scans plain messages, each of which is a batch; stops after the first refused one, and before another
        magic."""
        cdef const uint8_t* base = self.held.data
        cdef BatchRow row
        cdef int64_t at = 0
        cdef int status = OK
        while at < self.end and status == OK and self.record_summary.refused_count == 0:
            status = read_framed_batch(base, self.end, at, &row, fault)
            if status != OK:
                break
            if row.magic != self.row.magic:
                break
            set_fault_place(fault, &row)
            status = scan_message(
                &self.record_summary, rules, &row, base + at, row.size_in_bytes, row.base_offset, 0, fault
            )
            at += row.size_in_bytes
        return status

    @property
    def summary(self):
        """The fields of ops.validate.run.RecordSummary."""
        cdef const RecordSummary* t = &self.record_summary
        return t.records, t.in_order, t.least, t.greatest, t.headers, t.unfit

    def refused_records(self):
        """(number of refused records, whether one is refused for its timestamp, and a list of the first MOST_REFUSED:
        (index in its batch, RecordFault as int, timestamp, offset, magic))."""
        cdef const ScannedRecord* note = <const ScannedRecord*>self.record_summary.refused.data
        cdef int64_t i
        notes = [
            (note[i].index, note[i].why, note[i].timestamp, note[i].offset, note[i].magic)
            for i in range(min(self.record_summary.refused_count, <int64_t>MOST_REFUSED))
        ]
        return self.record_summary.refused_count, bool(self.record_summary.refused_time), notes


def writable_view(fresh):
    """A writable memoryview of a bytes object to which no other reference exists yet, to change it without a copy.
    ValueError for a byte or none: those are shared."""
    if len(fresh) < 2:
        raise ValueError(f"{len(fresh)} bytes")
    return memory_of(fresh, PyBytes_AsString(fresh), len(fresh), False)


def stamp_messages(buffer, int64_t first_offset, timestamp_type, int64_t log_append_time):
    """Sets fields of consecutive plain messages of magic 0 or 1 in a writable buffer: offsets from `first_offset` on;
    in magic 1 the timestamp type (0, 1), and for LogAppendTime (1) the timestamp. Recomputes the CRC where needed.
    """
    cdef HeldBytes held = HeldBytes(buffer, PyBUF_WRITABLE)
    cdef bint append_time = timestamp_type == 1
    cdef BatchRow row
    cdef Fault fault
    cdef int64_t at = 0
    cdef int64_t stamp
    cdef uint8_t* p
    with nogil:
        while at < held.size and read_framed_batch(held.data, held.size, at, &row, &fault) == OK:
            p = held.data + at
            put_i64(p, first_offset)
            stamp = log_append_time if append_time else max(row.max_timestamp, <int64_t>ABSENT)
            if row.magic == 1 and (row.timestamp_type != append_time or row.max_timestamp != stamp):
                p[UP_TO_MAGIC] = <uint8_t>(row.codec | (LOG_APPEND_TIME if append_time else 0))
                put_i64(p + UP_TO_MAGIC + 1, stamp)
                put_message_crc(p, row.size_in_bytes)
            first_offset = wrapping_add(first_offset, 1)
            at += row.size_in_bytes


# ---- the last offset of each key

cdef const Columns* keyed_columns(object chunk, int64_t start, int64_t stop) except NULL:
    """Of a Chunk with keys and offsets, which has the rows [start, stop)."""
    cdef const Columns* columns = &(<const Storage*>storage_of(chunk, start, stop)).columns
    if not columns.want & WANT_KEY or not columns.want & WANT_OFFSET:
        raise ValueError("keys and offsets are needed")
    return columns


@cython.final
cdef class LastOffsets:
    """Keys and the last offset of each. Only one thread may use it at a time."""
    cdef OffsetMap table
    cdef bint busy

    def __cinit__(self):
        if not offset_map_begin(&self.table, <uint64_t>int.from_bytes(os.urandom(8), "little")):
            raise MemoryError

    def __dealloc__(self):
        offset_map_end(&self.table)

    def __len__(self):
        return <Py_ssize_t>self.table.count

    @property
    def address(self):
        """Of the table in memory, for EngineOptions.keys. No row may be added while a Decoder reads it."""
        return <size_t>&self.table

    @property
    def nbytes(self):
        """Bytes of memory that the table uses."""
        return (self.table.mask + 1) * sizeof(Slot) + self.table.capacity

    def set(self, key, int64_t offset):
        """Sets the offset of one key."""
        cdef HeldBytes held = HeldBytes(key)
        cdef Slot* slot
        if held.size > INT32_MAX:
            raise ValueError(f"a key of {held.size} bytes")
        claim(&self.busy)
        slot = offset_map_slot(&self.table, held.data, <uint64_t>held.size)
        self.busy = False
        if slot == NULL:
            raise MemoryError
        slot.offset = offset

    def put(self, chunk, spans):
        """Adds the rows [first, stop) of each span, in order: a later row replaces an earlier one with the same key;
        null keys are skipped. MemoryError: only the first rows are added."""
        cdef const Columns* columns
        cdef int64_t first, stop
        cdef bint added
        for first, stop in spans:
            columns = keyed_columns(chunk, first, stop)
            claim(&self.busy)
            with nogil:
                added = offset_map_put_rows(&self.table, columns, first, stop)
            self.busy = False
            if not added:
                raise MemoryError

    def latest(self, chunk):
        """One byte per row: 1 if the key has no later offset than the row's; otherwise, and without a key, 0."""
        cdef const Columns* columns = keyed_columns(chunk, 0, 0)
        cdef bytearray keep = PyByteArray_FromStringAndSize(NULL, columns.rows)
        cdef uint8_t* out = <uint8_t*>PyByteArray_AsString(keep)
        claim(&self.busy)
        with nogil:
            offset_map_keep_latest(&self.table, columns, out)
        self.busy = False
        return keep


# ---- rows as JSON Lines

_HOW = {
    "number": AS_NUMBER, "bool": AS_BOOL, "time": AS_TIME, "utf8": AS_TEXT, "json": AS_BASE64, "base64": AS_BASE64,
    "hex": AS_HEX, "int32": AS_INT32, "int64": AS_INT64, "headers": AS_HEADERS, "ready": AS_READY,
}
_SHORT = {8: b"\\b", 9: b"\\t", 10: b"\\n", 12: b"\\f", 13: b"\\r", 34: b'\\"', 92: b"\\\\"}
cdef Escape[128] escapes


cdef int _byte
for _byte in range(128):
    _text = _SHORT.get(_byte) or (b"\\u%04x" % _byte if _byte < 32 or _byte == 127 else b"%c" % _byte)
    memcpy(escapes[_byte].text, PyBytes_AsString(_text), <size_t>len(_text))
    escapes[_byte].length = <uint8_t>len(_text)


cdef void* zeros(list kept, int64_t size) except NULL:
    """Zeros, which stay where they are as long as `kept`."""
    cdef bytearray space = bytearray(size + 1)
    kept.append(space)
    return PyByteArray_AsString(space)


cdef Span padded_text(list kept, bytes text):
    """A text with SLACK bytes after it."""
    cdef Span span
    span.length = len(text)
    span.data = <const uint8_t*>zeros(kept, span.length + SLACK)
    memcpy(<void*>span.data, PyBytes_AsString(text), <size_t>span.length)
    return span


cdef const Span* ready_texts(list kept, list ready, int64_t at, int64_t count) except NULL:
    """The texts from `at` on."""
    cdef Span* spans = <Span*>zeros(kept, count * <int64_t>sizeof(Span))
    cdef int64_t i
    if not 0 <= at <= len(ready) - count:
        raise ValueError(f"{len(ready)} texts for {count} rows from {at} on")
    for i in range(count):
        text = ready[at + i]
        spans[i].data, spans[i].length = NULL, -1
        if text is not None:
            spans[i].data, spans[i].length = <const uint8_t*>PyBytes_AsString(text), PyBytes_Size(text)
    return spans


cdef int bind_values(LineColumn* c, const Storage* storage, int64_t index, str format_) except -1:
    """Binds a column of the storage."""
    cdef const Column* column = storage.out + index
    cdef int kind = FIXED if is_numeric(c.how) else HEADERS if c.how == AS_HEADERS else BYTES
    if not 0 <= index < storage.out_count or <int>column.kind != kind:
        raise ValueError(f"column {index} is not written so")
    if is_numeric(c.how):
        c.numbers = numbers_of(column, format_[0])
    elif c.how == AS_HEADERS:
        c.entries = storage.columns.header_offsets
        c.keys, c.cells = cells_of(&storage.header_key), cells_of(&storage.header_value)
    else:
        c.cells = cells_of(column)
    return 0


def lines(list columns, bytes end, chunk, int64_t start, int64_t stop, int64_t at):
    """The rows [start, stop) of a Chunk as lines, each ending with `end`.

    columns   tuples (how, name, index, Arrow format, ready)
      how       a key of _HOW
      name      the line's text before the closing quote of the member's name: see `_c/lines.pxd`
      index     of the column; of "ready" there is none
      ready     JSON text or None for each row, in a list, of the first row at `at`; or None
    """
    cdef const Storage* storage = <const Storage*>storage_of(chunk, start, stop)
    cdef list kept = []
    cdef int count = <int>len(columns), i, status
    cdef LineColumn* c = <LineColumn*>zeros(kept, count * <int64_t>sizeof(LineColumn))
    cdef Span after = padded_text(kept, end)
    cdef Lines out
    for i in range(count):
        how, name, index, format_, ready = columns[i]
        c[i].how, c[i].name, c[i].first_ready = _HOW[how], padded_text(kept, name), start
        if ready is not None:
            c[i].ready = ready_texts(kept, ready, at, stop - start)
        if c[i].how != AS_READY:
            bind_values(c + i, storage, index, format_)
    memset(&out, 0, sizeof(Lines))
    out.escapes = escapes
    with nogil:
        status = put_lines(&out, c, count, &after, start, stop)
    try:
        if status != OK:
            raise MemoryError
        return PyBytes_FromStringAndSize(<const char*>out.buffer.data, out.at - out.buffer.data)
    finally:
        buffer_free(&out.buffer)


# ---- magic 3

def read_batch_header(int8_t magic, data, int64_t at, bint check_crc):
    """(end, where its payload begins, the fields of format.layout.V2Header) of the batch of magic 2 or 3 at byte `at`.
    The errors of `decode`, in their order, and length_beyond_end if the input ends before the batch."""
    cdef HeldBytes held = HeldBytes(data)
    cdef const uint8_t* payload = NULL
    cdef BatchRow row
    cdef Fault fault
    cdef int status
    memset(&row, 0, sizeof(BatchRow))
    if not 0 <= at <= held.size:
        raise ValueError(f"byte {at} of {held.size}")
    status = read_batch_of(magic, held.data + at, held.size - at, at, check_crc, &row, &payload, &fault)
    if status == LENGTH_BEYOND_END:
        raise refusal(status, &fault, {"base_offset": None})
    if status == UNSUPPORTED_MAGIC:
        raise refusal(status, &fault, {"expected": None, "detail": f"magic {magic} is needed here"})
    if status != OK:
        raise refusal(status, &fault)
    return at + row.size_in_bytes, payload - held.data, (
        row.base_offset, row.size_in_bytes - LOG_OVERHEAD, row.partition_leader_epoch, row.magic, row.crc,
        row.attributes, <int32_t>(row.last_offset - row.base_offset), row.base_timestamp, row.max_timestamp,
        row.producer_id, row.producer_epoch, row.base_sequence, row.record_count,
    )


def rewrite_records(
    fields, data, int64_t count, bint has_attributes, bint is_apart, bint to_apart, bint to_attributes, dict batch
):
    """The records in another form: a bytearray, or (fields, data) of header-first records. None if attributes that are
    not zero would be lost.

    fields            the records, or of header-first ones their fields
    data              of header-first ones the keys, values and headers; None: they follow the fields in `fields`
    count             of records
    has_attributes    whether there is an attributes byte in each
    is_apart          whether they are header-first
    to_apart          header-first records are made
    to_attributes     with an attributes byte in each
    batch             arguments of damage.error that are about the batch, for refused records
    """
    cdef HeldBytes first = HeldBytes(fields), second = HeldBytes(data)
    cdef bytearray made, made_data = None
    cdef Fault fault
    cdef Magic3Walk at = Magic3Walk(
        first.data, first.data, first.data + first.size, OK, &fault, has_attributes, is_apart, False, second.data,
        second.data + second.size, 0,
    )
    cdef FieldScan scan = begin_field_scan(count, has_attributes)
    cdef FieldScan copied = scan
    cdef RecordsOut out
    cdef int64_t most = rewrite_bound(first.size + second.size), left
    cdef uint8_t* begin
    cdef uint8_t* begin_data = NULL
    cdef bint one_frame = is_apart and data is None
    cdef int status = OK
    out.apart, out.has_attributes = to_apart, to_attributes
    made = PyByteArray_FromStringAndSize(NULL, most)
    begin = <uint8_t*>PyByteArray_AsString(made)
    if to_apart:
        made_data = PyByteArray_FromStringAndSize(NULL, most)
        begin_data = <uint8_t*>PyByteArray_AsString(made_data)
    out.fields, out.data = begin, begin_data
    memset(&fault, 0, sizeof(Fault))
    fault.record = -1
    with nogil:
        if one_frame:
            status = scan_fields(&scan, first.data, first.size, &fault)
            at.data, at.data_end, at.stop = first.data + scan.size, at.stop, first.data + scan.size
        if status == OK:
            status = copy_records(&at, &out, &copied)
        left = at.stop - at.p + (at.data_end - at.data)
        if status == OK and left > 0:
            status = refuse(&fault, RECORDS_LEFT_OVER, count, left)
    if status == ATTRIBUTES_LOST:
        return None
    if status != OK:
        raise refusal(status, &fault, batch)
    PyByteArray_Resize(made, out.fields - begin)
    if not to_apart:
        return made
    PyByteArray_Resize(made_data, out.data - begin_data)
    return made, made_data


cdef enum:
    UNTIL_SIGNALS = 16 << 20     # bytes of batches after which the caller looks for Ctrl-C


@cython.final
cdef class HeaderFirstCheck:
    """The checks of experimental.header_first.offsets.

    batches, records                         checked so far
    compressed_bytes, decompressed_bytes     of their payloads that were read; that were made of these
    """
    cdef HeldBytes held
    cdef int64_t limit, position, payload_length
    cdef BatchRow row
    cdef FieldScan scan
    cdef DecompressContext context
    cdef readonly int64_t batches, records, compressed_bytes, decompressed_bytes

    def __cinit__(self, data, int64_t limit):
        self.held, self.limit = HeldBytes(data), limit

    def __dealloc__(self):
        decompress_release(&self.context)

    def run(self):
        """Checks batches up to one that is left to the caller, and returns its position, at the end that of the end.
        The caller raises its error, or gives its decompressed fields to `read`."""
        cdef Fault fault
        cdef int64_t stop
        cdef int status = OK
        while status == OK and self.position < self.held.size:
            PyErr_CheckSignals()
            with nogil:
                stop = min(self.position + UNTIL_SIGNALS, self.held.size)
                while status == OK and self.position < stop:
                    status = self.check_batch(&fault)
        if status != OK and status != NEEDS_CODEC:
            raise self.refusal(status, &fault)
        return self.position

    def read(self, content, int64_t compressed_bytes):
        """Checks the batch by its decompressed fields, of that many bytes of its payload."""
        cdef HeldBytes held = HeldBytes(content)
        cdef Fault fault
        cdef int status
        set_fault_place(&fault, &self.row)
        with nogil:
            status = self.read_fields(held.data, held.size, compressed_bytes, &fault)
        if status != OK:
            raise self.refusal(status, &fault)

    cdef object refusal(self, int status, const Fault* fault):
        if status != OFFSETS_OUT_OF_ORDER or self.scan.unordered >= 0:
            return refusal(status, fault)
        detail = f"the last record's offset delta is {fault.found}, the header's {fault.expected}"
        return refusal(status, fault, {"expected": None, "found": None, "detail": detail})

    cdef int check_batch(self, Fault* fault) noexcept nogil:
        """NEEDS_CODEC: the batch is left to the caller."""
        cdef BatchRow* row = &self.row
        cdef const uint8_t* p = self.held.data + self.position
        cdef const uint8_t* payload = p
        cdef Magic2Walk walk
        cdef int32_t first
        cdef int status = read_batch_of(
            MAGIC_3, p, self.held.size - self.position, self.position, True, row, &payload, fault
        )
        self.scan = begin_field_scan(row.record_count, not row.attributes & NO_RECORD_ATTRIBUTES)
        self.payload_length = p + row.size_in_bytes - payload
        if status != OK or not row.attributes & HEADER_FIRST or row.codec > LATEST_CODEC:
            return NEEDS_CODEC
        if row.record_count < 0:
            return refuse(fault, RECORD_COUNT_NEGATIVE, 0, row.record_count)
        if row.record_count == 0:
            return self.count_batch(0, 0)
        if row.attributes & TWO_FRAMES:
            walk = begin_walk(payload, payload + self.payload_length, fault)
            first = next_int(&walk)
            if walk.status != OK or not 0 <= first <= walk.end - walk.p:
                return NEEDS_CODEC
            if decompress_payload(&self.context, row.codec, walk.p, first, BATCH_MAGIC, self.limit) != OK:
                return NEEDS_CODEC
            return self.read_fields(self.context.out.data, self.context.length, first, fault)
        return NEEDS_CODEC if row.codec else self.read_fields(payload, self.payload_length, 0, fault)

    cdef int read_fields(self, const uint8_t* content, int64_t size, int64_t compressed_bytes,
                         Fault* fault) noexcept nogil:
        """See `read`."""
        cdef FieldScan* scan = &self.scan
        cdef int64_t data = 0, expected = 0, last_delta = self.row.last_offset - self.row.base_offset
        cdef int status = scan_fields(scan, content, size, fault)
        if status != OK:
            return status
        if self.row.attributes & TWO_FRAMES:
            data = size - scan.size
        elif self.row.codec == 0:
            data, expected, size, compressed_bytes = size - scan.size, scan.data_size, scan.size, scan.size
            if size > self.limit:
                return NEEDS_CODEC
        if data < expected:
            return refuse(fault, MESSAGE_TRUNCATED, expected, data)
        if data > expected:
            return refuse(fault, RECORDS_LEFT_OVER, scan.count, data - expected)
        if scan.unordered >= 0:
            fault.record = <int32_t>scan.unordered
            return refuse(fault, OFFSETS_OUT_OF_ORDER, scan.delta_before, scan.unordered_delta)
        if scan.last_delta != last_delta:
            fault.record = <int32_t>scan.count - 1
            return refuse(fault, OFFSETS_OUT_OF_ORDER, last_delta, scan.last_delta)
        return self.count_batch(compressed_bytes, size)

    cdef int count_batch(self, int64_t compressed_bytes, int64_t decompressed_bytes) noexcept nogil:
        self.position += self.row.size_in_bytes
        self.batches += 1
        self.records += self.row.record_count
        self.compressed_bytes += compressed_bytes
        self.decompressed_bytes += decompressed_bytes
        return OK
