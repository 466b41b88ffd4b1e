"""The compiled module that checks the batches and records of produce requests, and sets offsets and times of messages.

It stores no records: see `_c/record_stats.pxd`. `ops/validate` decides what is done with a request.
"""
cimport cython
from cpython.buffer cimport (
    PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_FillInfo, PyBuffer_Release, PyObject_GetBuffer,
)
from cpython.bytes cimport PyBytes_AsStringAndSize
from libc.stdint cimport INT32_MAX, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from kafkarec._c.batch cimport (
    ABSENT, BATCH_MAGIC, CODEC_MASK, CONTROL, LARGEST_HEADER, LATEST_CODEC, LOG_APPEND_TIME, LOG_OVERHEAD,
    MAGIC_OFFSET, TRANSACTIONAL, UP_TO_MAGIC, BatchRow, codec_name, computed_crc, frame, is_control, is_transactional,
    is_wrapper, least_size, read_legacy, read_v2, wrapping_add,
)
from kafkarec._c.endian cimport be32, be64
from kafkarec._c.message cimport wrapper_payload
from kafkarec._shared cimport crc32_on, pages_free
from kafkarec._c.record_stats cimport (
    MOST_REFUSED, RecordStats, Refused, Rules, check_sizes, scan_batch, scan_message, scan_wrapper, stats_begin,
)
from kafkarec._c.status cimport (
    BATCH_TOO_SMALL, CRC_MISMATCH, OK, RECORD_LENGTH_INVALID, UNSUPPORTED_CODEC, Fault, refuse,
)
from kafkarec._c cimport status as st
from kafkarec._entry.fault_fields cimport fault_fields, reasons_by_status

from kafkarec.damage import error

_REASONS = reasons_by_status()

# Why a well-formed batch is refused before its records are checked.
cdef enum BatchError:
    ACCEPTED = 0
    LEADER_EPOCH_DIFFERS
    BASE_OFFSET_NOT_ZERO
    BATCH_TOO_LARGE
    OFFSETS_OUT_OF_ORDER

_BATCH_ERRORS = {
    LEADER_EPOCH_DIFFERS: "leader_epoch_differs", BASE_OFFSET_NOT_ZERO: "base_offset_not_zero",
    BATCH_TOO_LARGE: "batch_too_large", OFFSETS_OUT_OF_ORDER: "offsets_out_of_order",
}


cdef inline void store_be64(uint8_t* p, int64_t n) noexcept nogil:
    cdef uint64_t x = be64(<uint64_t>n)
    memcpy(p, &x, 8)


cdef inline void store_be32(uint8_t* p, uint32_t n) noexcept nogil:
    cdef uint32_t x = be32(n)
    memcpy(p, &x, 4)


cdef int next_batch(const uint8_t* base, int64_t length, int64_t position, BatchRow* row, Fault* fault) noexcept nogil:
    """Frames a batch like `read_batch` of `batch.pxd`, but accepts messages as short as Kafka's framing does. A batch
    too small for its header has zeros for the missing fields: Kafka compares base offset and leader epoch before it
    checks the size."""
    cdef int64_t size = 0
    cdef uint8_t header[LARGEST_HEADER]
    cdef const uint8_t* p = base + position
    cdef int status = frame(p, length - position, position, &size, &row.magic, fault)
    if status != OK:
        return status
    row.position, row.size_in_bytes = position, <int32_t>size
    row.batch_length = <int32_t>(size - LOG_OVERHEAD)
    if row.magic >= BATCH_MAGIC:
        if size < least_size(row.magic):
            memset(header, 0, LARGEST_HEADER)
            memcpy(header, p, <size_t>size)
            read_v2(header, row)
            return refuse(fault, BATCH_TOO_SMALL, least_size(row.magic), size)
        read_v2(p, row)
    else:
        read_legacy(p, row)
    row.codec = row.attributes & CODEC_MASK
    row.first_offset = row.base_offset
    return OK


cdef int verify_crc(const uint8_t* p, const BatchRow* row, Fault* fault) noexcept nogil:
    cdef uint32_t computed = computed_crc(p, row)
    return OK if computed == row.crc else refuse(fault, CRC_MISMATCH, row.crc, computed)


# The rules for batches, checked before their records (UnifiedLog.analyzeAndValidateRecords).
cdef struct BatchRules:
    bint check_crcs
    bint from_zero               # base offset 0 in magic 2
    bint rising                  # last offsets rise from batch to batch
    bint of_leader               # the leader epoch must be leader_epoch
    int32_t leader_epoch
    int64_t most_bytes           # of a batch


cdef int batch_error(const BatchRules* d, const BatchRow* row, int64_t last_offset, Fault* fault) noexcept nogil:
    if d.of_leader and row.partition_leader_epoch != d.leader_epoch:
        fault.expected, fault.found = d.leader_epoch, row.partition_leader_epoch
        return LEADER_EPOCH_DIFFERS
    if d.from_zero and row.magic >= BATCH_MAGIC and row.base_offset != 0:
        fault.expected, fault.found = 0, row.base_offset
        return BASE_OFFSET_NOT_ZERO
    if row.size_in_bytes > d.most_bytes:
        fault.expected, fault.found = d.most_bytes, row.size_in_bytes
        return BATCH_TOO_LARGE
    return ACCEPTED


@cython.final
cdef class Request:
    """A produce request: frames and checks its batches, then scans their records.

    batches, end       number of batches, and where the last one ends; a truncated batch may follow
    codec              the last one other than "none", as UnifiedLog determines it for a request
    one_magic          all batches have the magic of the first; else `other_magic` is found at `other_position`
    last_offset, max_timestamp    of the batches' headers: the last one, the largest one
    """
    cdef Py_buffer view
    cdef BatchRow row
    cdef RecordStats stats
    cdef readonly int64_t batches, end, other_position, last_offset, max_timestamp
    cdef readonly int codec, other_magic
    cdef readonly bint one_magic

    def __cinit__(self, data, *, bint check_crcs, bint from_zero, bint rising, leader_epoch, int64_t most_bytes):
        cdef BatchRules d
        cdef Fault fault
        cdef int status, why = ACCEPTED
        PyObject_GetBuffer(data, &self.view, PyBUF_SIMPLE)
        d.check_crcs, d.from_zero, d.rising, d.most_bytes = check_crcs, from_zero, rising, most_bytes
        d.of_leader = leader_epoch is not None
        d.leader_epoch = leader_epoch or 0
        with nogil:
            status = self.check_batches(&d, &why, &fault)
        if why != ACCEPTED:
            raise error(_BATCH_ERRORS[why], fault_fields(&fault, None, ""))
        if status != st.END and status != st.CUT:
            raise_fault(status, &fault)

    def __dealloc__(self):
        pages_free(self.stats.refused.data, self.stats.refused.capacity)
        PyBuffer_Release(&self.view)

    cdef int check_batches(self, const BatchRules* d, int* why, Fault* fault) noexcept nogil:
        """Checks all batches. Returns END, CUT or a refusal; OK with `why` set for a well-formed batch that is
        refused."""
        cdef const uint8_t* base = <const uint8_t*>self.view.buf
        cdef BatchRow row
        cdef int status
        self.one_magic, self.max_timestamp, self.last_offset = True, ABSENT, ABSENT
        while True:
            status = next_batch(base, self.view.len, self.end, &row, fault)
            if status != OK and status != BATCH_TOO_SMALL:
                return status
            why[0] = batch_error(d, &row, self.last_offset, fault)
            if status != OK or why[0] != ACCEPTED:
                return status if why[0] == ACCEPTED else OK
            if d.check_crcs:
                status = verify_crc(base + self.end, &row, fault)
                if status != OK:
                    return status
            if row.codec > LATEST_CODEC:
                return refuse(fault, UNSUPPORTED_CODEC, LATEST_CODEC, row.codec)
            if d.rising and self.last_offset >= row.last_offset:
                fault.expected, fault.found = self.last_offset, row.last_offset
                why[0] = OFFSETS_OUT_OF_ORDER
                return OK
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
    def first(self):
        """The fields of ops.validate.batch_rules.FirstBatch; -1 where the first batch's magic does not have them."""
        cdef const BatchRow* row = &self.row
        cdef bint is_batch = row.magic >= BATCH_MAGIC
        return (
            row.magic, row.codec, row.size_in_bytes, row.base_offset, row.last_offset, row.timestamp_type,
            row.producer_id, row.producer_epoch, row.base_sequence, row.record_count,
            is_batch and row.attributes & TRANSACTIONAL != 0, is_batch and row.attributes & CONTROL != 0,
        )

    def payload(self):
        """(position, length) of the first batch's compressed payload; InvalidRecordError if a wrapper has none."""
        cdef const uint8_t* base = <const uint8_t*>self.view.buf
        cdef const uint8_t* payload = NULL
        cdef int64_t length = 0
        cdef Fault fault
        cdef int status
        if self.row.magic >= BATCH_MAGIC:
            return least_size(self.row.magic), self.row.size_in_bytes - least_size(self.row.magic)
        self.set_fault_position(&fault, &self.row)
        status = wrapper_payload(base, &self.row, &payload, &length, &fault)
        if status != OK:
            raise_fault(status, &fault)
        return payload - base, length

    cdef void set_fault_position(self, Fault* fault, const BatchRow* row) noexcept nogil:
        fault.position, fault.base_offset, fault.record = row.position, row.base_offset, -1
        fault.next_position = row.position + row.size_in_bytes

    def scan_records(self, payload, rules, bint partly, int64_t limit):
        """Scans all records; returns position, base offset and next position of the last batch.

        payload    the decompressed records of the first batch; None: all plain messages
        rules      ops.validate.topic_rules.Rules
        partly     the fields of a record need not fill its length
        limit      the most bytes of an inner message
        """
        cdef Rules r
        cdef Fault fault
        cdef Py_buffer view
        cdef int status
        cdef const uint8_t* p
        r.create_time, r.compacted, r.partly = rules.create_time, rules.compacted, partly
        r.most_body = rules.most_body if self.row.codec else INT32_MAX
        r.to_magic, r.now, r.before_ms, r.after_ms = rules.magic, rules.now, rules.before_ms, rules.after_ms
        stats_begin(&self.stats)
        self.set_fault_position(&fault, &self.row)
        if payload is None:
            with nogil:
                status = self.scan_messages(&r, &fault)
        else:
            PyObject_GetBuffer(payload, &view, PyBUF_SIMPLE)
            p = <const uint8_t*>view.buf
            with nogil:
                if self.row.magic >= BATCH_MAGIC:
                    status = scan_batch(&self.stats, &r, &self.row, p, p + view.len, &fault)
                else:
                    status = scan_wrapper(&self.stats, &r, &self.row, p, p + view.len, limit, &fault)
            PyBuffer_Release(&view)
        if status == RECORD_LENGTH_INVALID and fault.found > r.most_body:
            raise error("record_too_large", fault_fields(&fault, None, ""))
        if status != OK:
            raise_fault(status, &fault)
        return fault.position, fault.base_offset, fault.next_position

    def too_large(self, payload, int32_t most):
        """(index, size) of the first record of the first batch, a compressed one, with more than `most` bytes; None:
        there is none. payload: its decompressed records."""
        cdef Fault fault
        cdef Py_buffer view
        cdef int status
        cdef const uint8_t* p
        PyObject_GetBuffer(payload, &view, PyBUF_SIMPLE)
        p = <const uint8_t*>view.buf
        with nogil:
            status = check_sizes(&self.row, p, p + view.len, most, &fault)
        PyBuffer_Release(&view)
        return None if status == OK else (fault.record, fault.found)

    cdef int scan_messages(self, const Rules* rules, Fault* fault) noexcept nogil:
        """Scans plain messages, each of which is a batch; stops after the first refused one, and before another
        magic."""
        cdef const uint8_t* base = <const uint8_t*>self.view.buf
        cdef BatchRow row
        cdef int64_t at = 0
        cdef int status = OK
        while at < self.end and status == OK and self.stats.refused_count == 0:
            status = next_batch(base, self.end, at, &row, fault)
            if status != OK:
                break
            if row.magic != self.row.magic:
                break
            self.set_fault_position(fault, &row)
            status = scan_message(&self.stats, rules, &row, base + at, row.size_in_bytes, row.base_offset, 0, fault)
            at += row.size_in_bytes
        return status

    @property
    def stats(self):
        """The fields of ops.validate.accepted_batches.RecordStats."""
        cdef const RecordStats* t = &self.stats
        return t.records, t.in_order, t.least, t.greatest, t.headers, t.unfit

    def refused(self):
        """(number of refused records, whether one is refused for its timestamp, and a list of the first MOST_REFUSED:
        (index in its batch, RecordError as int, timestamp, offset, magic))."""
        cdef const Refused* note = <const Refused*>self.stats.refused.data
        cdef int64_t i
        notes = [
            (note[i].index, note[i].why, note[i].timestamp, note[i].offset, note[i].magic)
            for i in range(min(self.stats.refused_count, <int64_t>MOST_REFUSED))
        ]
        return self.stats.refused_count, bool(self.stats.refused_time), notes


cdef int raise_fault(int status, const Fault* f) except -1:
    raise error(_REASONS[status], fault_fields(f, None, ""))


cdef tuple _CODECS = tuple([codec_name(codec).decode() for codec in range(LATEST_CODEC + 1)])


cdef inline object known(int64_t value):
    return None if value == ABSENT else value


cdef tuple header_of(const BatchRow* row):
    return (
        row.position, row.size_in_bytes, row.magic, row.crc, None if is_wrapper(row) else row.base_offset,
        row.last_offset, known(row.max_timestamp), known(row.partition_leader_epoch), bool(is_control(row)),
        bool(is_transactional(row)), known(row.producer_id), known(row.producer_epoch), known(row.base_sequence),
        known(row.last_sequence), _CODECS[row.codec], known(row.record_count),
    )


def headers_of_good_batches(data, *, bint check_crcs):
    """Fields of each batch of a buffer, as ops.segment_writer.append_checks.COLUMNS has them; None if it does not hold
    whole batches only, with known codecs and right checksums. As `scan` returns them, in a fraction of its time."""
    cdef Py_buffer view
    cdef BatchRow row
    cdef Fault fault
    cdef const uint8_t* base
    cdef int64_t at = 0
    cdef bint good = True
    headers = []
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    base = <const uint8_t*>view.buf
    try:
        while good and at < view.len:
            good = (next_batch(base, view.len, at, &row, &fault) == OK and row.codec <= LATEST_CODEC
                    and row.size_in_bytes >= least_size(row.magic))
            if good and check_crcs:
                with nogil:
                    good = computed_crc(base + at, &row) == row.crc
            if good:
                headers.append(header_of(&row))
                at += row.size_in_bytes
    finally:
        PyBuffer_Release(&view)
    return headers if good else None


@cython.final
cdef class WritableBytes:
    """The memory of a bytes object, which it keeps alive; for memoryview()."""
    cdef object fresh

    def __getbuffer__(self, Py_buffer* view, int flags):
        cdef char* at
        cdef Py_ssize_t size
        PyBytes_AsStringAndSize(self.fresh, &at, &size)
        PyBuffer_FillInfo(view, self, at, size, 0, flags)


def writable_view(fresh):
    """A writable memoryview of a bytes object to which no other reference exists yet, to change it without a copy.
    ValueError for a byte or none: those are shared."""
    cdef WritableBytes owner = WritableBytes.__new__(WritableBytes)
    if len(fresh) < 2:
        raise ValueError(f"{len(fresh)} bytes")
    owner.fresh = fresh
    return memoryview(owner)


def stamp_messages(buffer, int64_t first_offset, timestamp_type, int64_t log_append_time):
    """Sets fields of consecutive plain messages of magic 0 or 1 in a writable buffer: offsets from `first_offset` on;
    in magic 1 the timestamp type (0, 1), and for LogAppendTime (1) the timestamp. Recomputes the CRC where needed.
    """
    cdef Py_buffer view
    cdef bint append_time = timestamp_type == 1
    PyObject_GetBuffer(buffer, &view, PyBUF_WRITABLE)
    with nogil:
        stamp_each(<uint8_t*>view.buf, view.len, first_offset, append_time, log_append_time)
    PyBuffer_Release(&view)


cdef void stamp_each(uint8_t* base, int64_t length, int64_t offset, bint append_time, int64_t time) noexcept nogil:
    cdef BatchRow row
    cdef Fault fault
    cdef int64_t at = 0
    cdef int64_t stamp
    cdef uint8_t* p
    while at < length and next_batch(base, length, at, &row, &fault) == OK:
        p = base + at
        store_be64(p, offset)
        stamp = time if append_time else max(row.max_timestamp, <int64_t>ABSENT)
        if row.magic == 1 and (row.timestamp_type != append_time or row.max_timestamp != stamp):
            p[UP_TO_MAGIC] = <uint8_t>(row.codec | (LOG_APPEND_TIME if append_time else 0))
            store_be64(p + UP_TO_MAGIC + 1, stamp)
            store_be32(p + LOG_OVERHEAD, crc32_on(0, p + MAGIC_OFFSET, <size_t>(row.size_in_bytes - MAGIC_OFFSET)))
        offset = wrapping_add(offset, 1)
        at += row.size_in_bytes
