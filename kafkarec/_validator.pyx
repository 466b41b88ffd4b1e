"""The compiled module that checks produce requests: their batches, the sizes of their records, stamps on messages.

Beside `_core`, which reads, and `_writer`, which writes. It keeps no record: see `_c/record_stats.pxd`.
`ops/validate` decides what is done with a request.
"""
cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE, PyBUF_WRITE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AsStringAndSize
from cpython.memoryview cimport PyMemoryView_FromMemory
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

from kafkarec._c.batch cimport (
    ABSENT, CODEC_MASK, CONTROL, LATEST_CODEC, LOG_APPEND_TIME, LOG_OVERHEAD, MAGIC_OFFSET, TRANSACTIONAL, UP_TO_MAGIC,
    V2_ATTRIBUTES_OFFSET, V2_OVERHEAD, BatchRow, frame, read_legacy, read_v2, wrapping_add,
)
from kafkarec._c.checksum cimport checksums_install, checksums_prepare, crc32, crc32c
from kafkarec._c.endian cimport be32toh, be64toh
from kafkarec._c.message cimport wrapper_payload
from kafkarec._c.page_pool cimport pages_free, pages_trim
from kafkarec._c.record_stats cimport (
    MOST_NOTES, RecordStats, Refused, Rules, scan_batch, scan_message, scan_wrapper, stats_begin,
)
from kafkarec._c.status cimport BATCH_TOO_SMALL, CRC_MISMATCH, Fault, OK, UNSUPPORTED_CODEC, refuse
from kafkarec._c cimport status as st

from kafkarec import _checksum
from kafkarec.damage import error
from kafkarec.errors import REASONS

_address, _way = _checksum.find()
checksums_prepare(_way != "table")
checksums_install(<size_t>_address)

_REASONS = tuple(REASONS)        # in the order of the C enum Status, from SIZE_TOO_SMALL on

# What is refused of a batch before its records are looked at; no bytes are wrong.
cdef enum Unwanted:
    WANTED = 0
    OTHER_LEADER_EPOCH
    NOT_FROM_ZERO
    TOO_LARGE
    OUT_OF_ORDER

_UNWANTED = ("", "leader_epoch_differs", "base_offset_not_zero", "batch_too_large", "offsets_out_of_order")


def release_memory():
    """Gives the recycled buffers of this module back to the system; answers how many bytes."""
    return pages_trim()


cdef inline void store_be64(uint8_t* p, int64_t n) noexcept nogil:
    cdef uint64_t x = be64toh(<uint64_t>n)
    memcpy(p, &x, 8)


cdef inline void store_be32(uint8_t* p, uint32_t n) noexcept nogil:
    cdef uint32_t x = be32toh(n)
    memcpy(p, &x, 4)


cdef int next_batch(const uint8_t* base, int64_t length, int64_t position, BatchRow* row, Fault* fault) noexcept nogil:
    """Frames as `read_batch` of `batch.pxd`, but a plain message may be as short as Kafka's frame allows."""
    cdef int64_t size = 0
    cdef const uint8_t* p = base + position
    cdef int status = frame(p, length - position, position, &size, &row.magic, fault)
    if status != OK:
        return status
    row.position, row.size_in_bytes = position, <int32_t>size
    row.batch_length = <int32_t>(size - LOG_OVERHEAD)
    if row.magic == 2:
        if size < V2_OVERHEAD:
            return refuse(fault, BATCH_TOO_SMALL, V2_OVERHEAD, size)
        read_v2(p, row)
    else:
        read_legacy(p, row)
    row.codec = row.attributes & CODEC_MASK
    row.first_offset = row.base_offset
    return OK


cdef int right_crc(const uint8_t* p, const BatchRow* row, Fault* fault) noexcept nogil:
    cdef uint32_t computed
    if row.magic == 2:
        computed = crc32c(p + V2_ATTRIBUTES_OFFSET, <size_t>(row.size_in_bytes - V2_ATTRIBUTES_OFFSET))
    else:
        computed = crc32(p + MAGIC_OFFSET, <size_t>(row.size_in_bytes - MAGIC_OFFSET))
    return OK if computed == row.crc else refuse(fault, CRC_MISMATCH, row.crc, computed)


# What a batch is held to before its records are looked at (UnifiedLog.analyzeAndValidateRecords).
cdef struct Demands:
    bint right_crc
    bint from_zero
    bint rising
    bint of_leader
    int32_t leader_epoch
    int64_t most_bytes


cdef int unwanted(const Demands* d, const BatchRow* row, int64_t last_offset, Fault* fault) noexcept nogil:
    if d.of_leader and row.partition_leader_epoch != d.leader_epoch:
        fault.expected, fault.found = d.leader_epoch, row.partition_leader_epoch
        return OTHER_LEADER_EPOCH
    if d.from_zero and row.magic == 2 and row.base_offset != 0:
        fault.expected, fault.found = 0, row.base_offset
        return NOT_FROM_ZERO
    if row.size_in_bytes > d.most_bytes:
        fault.expected, fault.found = d.most_bytes, row.size_in_bytes
        return TOO_LARGE
    return WANTED


@cython.final
cdef class Request:
    """The batches of a buffer, framed and checked; then the sizes of their records.

    batches, end       how many, and where the last ends: what follows is cut
    codec              the last one that is none of "none", as UnifiedLog takes the request's
    one_magic          the first batch's is that of all; else `other_magic` at `other_position`
    first_offset, last_offset, max_timestamp    of the batches' headers
    """
    cdef Py_buffer view
    cdef BatchRow row
    cdef RecordStats stats
    cdef readonly int64_t batches, end, other_position, last_offset, max_timestamp
    cdef readonly int codec, other_magic
    cdef readonly bint one_magic

    def __cinit__(self, data, *, bint check_crcs, bint from_zero, bint rising, leader_epoch, int64_t most_bytes):
        cdef Demands d
        cdef Fault fault
        cdef int status, why = WANTED
        PyObject_GetBuffer(data, &self.view, PyBUF_SIMPLE)
        d.right_crc, d.from_zero, d.rising, d.most_bytes = check_crcs, from_zero, rising, most_bytes
        d.of_leader = leader_epoch is not None
        d.leader_epoch = leader_epoch or 0
        with nogil:
            status = self.survey(&d, &why, &fault)
        if why != WANTED:
            raise error(_UNWANTED[why], fault_words(&fault))
        if status != st.END and status != st.CUT:
            raise_fault(status, &fault)

    def __dealloc__(self):
        pages_free(self.stats.refused.data, self.stats.refused.capacity)
        PyBuffer_Release(&self.view)

    cdef int survey(self, const Demands* d, int* why, Fault* fault) noexcept nogil:
        """Ends with END, CUT or a refusal; `why` where bytes are right and the batch is not wanted."""
        cdef const uint8_t* base = <const uint8_t*>self.view.buf
        cdef BatchRow row
        cdef int status
        self.one_magic, self.max_timestamp, self.last_offset = True, ABSENT, ABSENT
        while True:
            status = next_batch(base, self.view.len, self.end, &row, fault)
            if status != OK:
                return status
            why[0] = unwanted(d, &row, self.last_offset, fault)
            if why[0] != WANTED:
                return OK
            if d.right_crc:
                status = right_crc(base + self.end, &row, fault)
                if status != OK:
                    return status
            if row.codec > LATEST_CODEC:
                return refuse(fault, UNSUPPORTED_CODEC, LATEST_CODEC, row.codec)
            if d.rising and self.last_offset >= row.last_offset:
                fault.expected, fault.found = self.last_offset, row.last_offset
                why[0] = OUT_OF_ORDER
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
        """Fields of the first batch, -1 where its magic has none: what `validation.request.First` names."""
        cdef const BatchRow* row = &self.row
        cdef bint whole = row.magic == 2
        return (
            row.magic, row.codec, row.size_in_bytes, row.base_offset, row.last_offset, row.timestamp_type,
            row.producer_id, row.producer_epoch, row.base_sequence, row.record_count,
            whole and row.attributes & TRANSACTIONAL != 0, whole and row.attributes & CONTROL != 0,
        )

    def payload(self):
        """(position, length) of what the first batch has compressed; InvalidRecordError where a wrapper has none."""
        cdef const uint8_t* base = <const uint8_t*>self.view.buf
        cdef const uint8_t* payload = NULL
        cdef int64_t length = 0
        cdef Fault fault
        cdef int status
        if self.row.magic == 2:
            return V2_OVERHEAD, self.row.size_in_bytes - V2_OVERHEAD
        self.blame(&fault, &self.row)
        status = wrapper_payload(base, &self.row, &payload, &length, &fault)
        if status != OK:
            raise_fault(status, &fault)
        return payload - base, length

    cdef void blame(self, Fault* fault, const BatchRow* row) noexcept nogil:
        fault.position, fault.base_offset, fault.record = row.position, row.base_offset, -1
        fault.next_position = row.position + row.size_in_bytes

    def scan_records(self, payload, rules, bint partly, int64_t limit):
        """All records: of the first batch, `payload` being its records, or None: of all plain messages.

        rules: validation.rules.Rules. partly: the fields of a record need not fill it. limit: bytes of one message
        """
        cdef Rules r
        cdef Fault fault
        cdef Py_buffer view
        cdef int status
        cdef const uint8_t* p
        r.create_time, r.compacted, r.partly = rules.create_time, rules.compacted, partly
        r.to_magic, r.now, r.before_ms, r.after_ms = rules.magic, rules.now, rules.before_ms, rules.after_ms
        stats_begin(&self.stats)
        self.blame(&fault, &self.row)
        if payload is None:
            with nogil:
                status = self.weigh_plain(&r, &fault)
        else:
            PyObject_GetBuffer(payload, &view, PyBUF_SIMPLE)
            p = <const uint8_t*>view.buf
            with nogil:
                if self.row.magic == 2:
                    status = scan_batch(&self.stats, &r, &self.row, p, p + view.len, &fault)
                else:
                    status = scan_wrapper(&self.stats, &r, &self.row, p, p + view.len, limit, &fault)
            PyBuffer_Release(&view)
        if status != OK:
            raise_fault(status, &fault)
        return fault.position, fault.base_offset, fault.next_position

    cdef int weigh_plain(self, const Rules* rules, Fault* fault) noexcept nogil:
        """Each message is a batch of its own: the first with a wrong record, or of another magic, ends it."""
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
            self.blame(fault, &row)
            status = scan_message(&self.stats, rules, &row, base + at, row.size_in_bytes, row.base_offset, 0, fault)
            at += row.size_in_bytes
        return status

    @property
    def stats(self):
        """What `validation.request.RecordSize` names, of all records so far."""
        cdef const RecordStats* t = &self.stats
        return t.records, t.in_order, t.least, t.greatest, t.size, t.rewritten, t.headers, t.unfit

    def refused(self):
        """(how many records are wrong, whether one for its timestamp, of the first MOST_NOTES each: (index in its
        batch, why, timestamp, offset, magic)). `why`: the C enum RecordError."""
        cdef const Refused* note = <const Refused*>self.stats.refused.data
        cdef int64_t i
        notes = [
            (note[i].index, note[i].why, note[i].timestamp, note[i].offset, note[i].magic)
            for i in range(min(self.stats.refused_count, <int64_t>MOST_NOTES))
        ]
        return self.stats.refused_count, bool(self.stats.refused_time), notes


cdef dict fault_words(const Fault* f):
    return {
        "position": f.position, "base_offset": f.base_offset, "record": f.record, "expected": f.expected,
        "found": f.found, "next_position": None if f.next_position < 0 else f.next_position,
    }


cdef int raise_fault(int status, const Fault* f) except -1:
    raise error(_REASONS[status - st.SIZE_TOO_SMALL], fault_words(f))


def unsealed(fresh):
    """A writable view of a bytes object that was just made, and nobody else has seen: to stamp it without a copy."""
    cdef char* at
    cdef Py_ssize_t size
    PyBytes_AsStringAndSize(fresh, &at, &size)
    return PyMemoryView_FromMemory(at, size, PyBUF_WRITE)


def stamp_messages(buffer, int64_t first_offset, timestamp_type, int64_t log_append_time):
    """Plain messages of magic 0 or 1 in a writable buffer: offsets from `first_offset` on, and in magic 1 the type of
    the timestamp (0, 1), under log append time (1) the time itself. The checksum is made anew where that changes it.
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
            store_be32(p + LOG_OVERHEAD, crc32(p + MAGIC_OFFSET, <size_t>(row.size_in_bytes - MAGIC_OFFSET)))
        offset = wrapping_add(offset, 1)
        at += row.size_in_bytes
