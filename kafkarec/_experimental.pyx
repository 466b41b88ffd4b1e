"""The compiled module that rewrites records between magic 2 and magic 3, for kafkarec.experimental.

See `_c/records_v3.pxd` and `_c/records_header_first.pxd`.
"""
cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytearray cimport PyByteArray_AsString, PyByteArray_FromStringAndSize, PyByteArray_Resize
from libc.stdint cimport int64_t, uint8_t
from libc.string cimport memset

from kafkarec._c.records_header_first cimport FieldScan, scan_fields
from kafkarec._c.records_v3 cimport RecordsIn, RecordsOut, copy_records, rewritten_size
from kafkarec._c.status cimport ATTRIBUTES_LOST, CUT, OK, Fault
from kafkarec._entry.fault_fields cimport reasons_by_status

from kafkarec.damage import error

_REASONS = reasons_by_status()


cdef object refusal(const Fault* fault, int status, dict batch):
    """The exception for a status. batch: the fields of the fault that are about the batch."""
    return error(_REASONS[status], {
        **batch, "expected": fault.expected, "found": fault.found, "record": fault.record,
    })


@cython.final
cdef class HeldBytes:
    """The bytes of an object, which stay where they are."""
    cdef Py_buffer view

    def __cinit__(self, data):
        PyObject_GetBuffer(data, &self.view, PyBUF_SIMPLE)

    def __dealloc__(self):
        PyBuffer_Release(&self.view)


def rewrite_records(fields, data, int64_t count, bint has_attributes, bint to_apart, bint to_attributes, dict batch):
    """The records in another form: a bytearray, or (fields, data) of header-first records. None if attributes that are
    not zero would be lost.

    fields            the records, or of header-first ones their fields
    data              of header-first ones the keys, values and headers, else None
    count             of records
    has_attributes    whether there is an attributes byte in each
    to_apart          header-first records are made
    to_attributes     with an attributes byte in each
    batch             arguments of damage.error that are about the batch, for refused records
    """
    cdef HeldBytes first = HeldBytes(fields), second = HeldBytes(b"" if data is None else data)
    cdef bytearray made, made_data = None
    cdef RecordsIn records
    cdef RecordsOut out
    cdef Fault fault
    cdef int64_t most = rewritten_size(first.view.len + second.view.len)
    cdef uint8_t* begin
    cdef uint8_t* begin_data = NULL
    cdef int status
    records.fields, records.data = <const uint8_t*>first.view.buf, <const uint8_t*>second.view.buf
    records.fields_end, records.data_end = records.fields + first.view.len, records.data + second.view.len
    records.apart, records.has_attributes, records.no_data = data is not None, has_attributes, False
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
        status = copy_records(&records, &out, count, &fault)
    if status == ATTRIBUTES_LOST:
        return None
    if status != OK:
        raise refusal(&fault, status, batch)
    PyByteArray_Resize(made, out.fields - begin)
    if not to_apart:
        return made
    PyByteArray_Resize(made_data, out.data - begin_data)
    return made, made_data


@cython.final
cdef class FieldReader:
    """Reads the fields of `count` header-first records as they are decompressed. batch: see rewrite_records.

    at              bytes of the fields that were read
    data_size       bytes of the keys, values and headers of these records
    last_delta      the offset delta of the last one; -1: none was read
    unordered       (record, offset delta, that of the record before) of the first one not above the one before; or None
    """
    cdef FieldScan scan
    cdef dict batch

    def __init__(self, int64_t count, bint has_attributes, dict batch):
        memset(&self.scan, 0, sizeof(FieldScan))
        self.scan.count, self.scan.has_attributes, self.batch = count, has_attributes, batch
        self.scan.last_delta = self.scan.unordered = -1

    @property
    def at(self):
        return self.scan.at

    @property
    def data_size(self):
        return self.scan.data_size

    @property
    def last_delta(self):
        return self.scan.last_delta

    @property
    def unordered(self):
        if self.scan.unordered < 0:
            return None
        return self.scan.unordered, self.scan.unordered_delta, self.scan.delta_before

    def read(self, content, bint is_all):
        """Reads on in all that was decompressed so far; whether the last record was read. is_all: no more will come."""
        cdef HeldBytes memory = HeldBytes(content)
        cdef Fault fault
        cdef int status
        memset(&fault, 0, sizeof(Fault))
        if memory.view.len < self.scan.at:
            raise ValueError(f"{memory.view.len} bytes, after {self.scan.at} were read")
        with nogil:
            status = scan_fields(&self.scan, <const uint8_t*>memory.view.buf, memory.view.len, is_all, &fault)
        if status == CUT:
            return False
        if status != OK:
            raise refusal(&fault, status, self.batch)
        return True
