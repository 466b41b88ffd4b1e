"""Reads the fields of header-first records (`records_v3.pxd`) without their keys, values and headers, as they arrive.

A payload is decompressed only as far as its fields go. Where they end says only the last one, so the fields are read
again and again while more of them come: each time from the first record that was not whole, and only when twice the
bytes of that one are there, so that the work is linear.
"""
from libc.stdint cimport int32_t, int64_t, uint8_t

from kafkarec._c.records_v3 cimport RecordsIn, RecordsOut, copy_record
from kafkarec._c.status cimport CUT, OK, RECORDS_MISSING, Fault, refuse

cdef struct FieldScan:
    int64_t count                # records to come, as the batch says
    int64_t records              # read so far
    int64_t at                   # bytes of their fields
    int64_t data_size            # bytes of their keys, values and headers
    int64_t needed               # bytes that must be there before it is worth reading on
    int32_t last_delta           # the offset delta of the last one, at first -1
    int64_t unordered            # the first record whose offset delta is not above the one before, or -1
    int32_t delta_before         # of the record before that one
    int32_t unordered_delta
    bint has_attributes


cdef inline int scan_fields(FieldScan* scan, const uint8_t* fields, int64_t size, bint is_all,
                            Fault* fault) noexcept nogil:
    """Reads on in the fields of which `size` bytes are there. CUT: more are needed; not if they are all there are."""
    cdef RecordsIn records
    cdef RecordsOut nothing
    cdef int64_t data_size = 0
    cdef int32_t delta = 0
    cdef int status
    if size < scan.needed and not is_all:
        return CUT
    nothing.fields = nothing.data = NULL
    nothing.apart = nothing.has_attributes = False
    records.fields, records.fields_end = fields + scan.at, fields + size
    records.data = records.data_end = NULL
    records.apart = records.no_data = True
    records.has_attributes = scan.has_attributes
    while scan.records < scan.count:
        status = copy_record(&records, &nothing, &data_size, &delta, fault)
        if status == CUT and not is_all:
            scan.needed = scan.at + 2 * (size - scan.at) + 1
            return CUT
        if status == CUT:
            status = refuse(fault, RECORDS_MISSING, scan.count, scan.records)
        if status != OK:
            fault.record = <int32_t>scan.records
            return status
        if delta <= scan.last_delta and scan.unordered < 0:
            scan.unordered, scan.delta_before, scan.unordered_delta = scan.records, scan.last_delta, delta
        scan.last_delta = delta
        scan.data_size += data_size
        scan.at = records.fields - fields
        scan.records += 1
    return OK
