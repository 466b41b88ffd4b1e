"""Walks records exactly, and gives where their fields are. For the layout see record.pxd, for magic 3 magic_3.pxd.

    p ------ next_*, walk_fields ------> end ......... stop
    field       the record that is walked   the others

The first thing that is wrong is kept, as the walk's status and fault. Then nothing is left to read, and what is read on
is 0 or empty: a caller looks at the status when it needs to. Each byte that determines a length is loaded once, because
a caller's buffer may change.
"""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from kafkarec._c.status cimport (
    CUT, HEADER_COUNT_INVALID, HEADER_KEY_INVALID, HEADER_VALUE_INVALID, KEY_LENGTH_INVALID, MESSAGE_TRUNCATED, OK,
    RECORD_LENGTH_INVALID, RECORD_STRUCTURE_INVALID, VALUE_LENGTH_INVALID, Fault, refuse,
)
from kafkarec._c.numbers cimport VARINT_BYTES, VARLONG_BYTES, read_unsigned, unzigzag32, unzigzag64

cdef enum:
    LEAST_RECORD = 7             # bytes: length, attributes, two deltas, two lengths, a count
    LEAST_BODY = 6               # without its length

cdef struct Magic2Walk:          # of records of magic 2
    const uint8_t* p
    const uint8_t* end           # what the record's fields are within
    const uint8_t* stop          # the end of all records
    int status
    Fault* fault

cdef struct Magic3Walk:          # of records of magic 3: the same, and
    const uint8_t* p
    const uint8_t* end
    const uint8_t* stop
    int status                   # CUT: `apart`, and the fields stop within the record
    Fault* fault
    bint has_attributes
    bint apart                   # keys, values and headers are in `data`: header-first records
    bint no_data                 # `apart`, and only the other fields are read
    const uint8_t* data
    const uint8_t* data_end
    int64_t beyond               # bytes of the record behind `end`: those in `data`, and those that are not there

ctypedef fused Walk:
    Magic2Walk
    Magic3Walk

cdef struct WalkedRecord:
    int32_t length
    uint8_t attributes
    int64_t timestamp_delta
    int32_t offset_delta
    int32_t key_length           # negative: null
    const uint8_t* key_end       # where the next field begins
    int32_t value_length
    const uint8_t* value_end
    int32_t headers              # how many


cdef inline int64_t bytes_left(const Walk* at) noexcept nogil:
    if Walk is Magic2Walk:
        return at.end - at.p
    else:
        return at.end - at.p + at.beyond


cdef inline void fail(Walk* at, int status, int64_t expected, int64_t found) noexcept nogil:
    if Walk is Magic3Walk:
        if status == MESSAGE_TRUNCATED and at.beyond > 0:
            status = CUT
        at.beyond = 0
    if at.status == OK:
        at.status = refuse(at.fault, status, expected, found)
    at.end = at.p


cdef inline uint64_t next_unsigned_by_byte(Walk* at, int most) noexcept nogil:
    cdef uint64_t raw = 0
    cdef int status = read_unsigned(&at.p, at.end, most, &raw)
    if status != OK:
        fail(at, status, 1, 0)
    return raw


cdef inline uint64_t next_unsigned(Walk* at, int most) noexcept nogil:
    """A varint (most = 5) or varlong (most = 10) without zig-zag decoding. One and two bytes, the usual cases, come
    first."""
    cdef const uint8_t* p = at.p
    cdef int64_t room = at.end - p
    cdef uint64_t first = p[0] if room > 0 else 0x80, second
    if first < 0x80:
        at.p = p + 1
        return first
    second = p[1] if room > 1 else 0
    if 0 < second < 0x80:
        at.p = p + 2
        return first & 0x7F | second << 7
    return next_unsigned_by_byte(at, most)


cdef inline int32_t next_int(Walk* at) noexcept nogil:
    return unzigzag32(<uint32_t>next_unsigned(at, VARINT_BYTES))


cdef inline int32_t next_length(Walk* at) noexcept nogil:
    """Of the next record; MESSAGE_TRUNCATED: there is none."""
    cdef int32_t length
    at.end = at.stop
    length = next_int(at)
    if at.status != OK:
        at.fault.expected = 0
    return length


cdef inline uint8_t next_attributes(Walk* at) noexcept nogil:
    if Walk is Magic3Walk:
        if not at.has_attributes:
            return 0
    if at.p == at.end:
        fail(at, MESSAGE_TRUNCATED, 1, 0)
        return 0
    at.p += 1
    return (at.p - 1)[0]


cdef inline int32_t next_field(Walk* at, bint nullable, int too_long) noexcept nogil:
    """Passes over a length, and as many bytes; none if it is negative, as in Kafka. Returns the length."""
    cdef int32_t length = next_int(at)
    cdef int64_t most = bytes_left(at)
    if Walk is Magic3Walk:
        if at.apart and not at.no_data:
            most = min(most, at.data_end - at.data)
    if length > most or (length < 0 and not nullable):
        fail(at, too_long, most, length)
        return 0
    if length < 0:
        return length
    if Walk is Magic3Walk:
        if at.apart:                                         # its bytes are elsewhere
            at.beyond -= length
            if at.beyond < 0:
                at.end += at.beyond
                at.beyond = 0
            if not at.no_data:
                at.data += length
            return length
    at.p += length
    return length


cdef inline void walk_fields(Walk* at, WalkedRecord* r) noexcept nogil:
    """A record behind its length, up to its headers."""
    r.attributes = next_attributes(at)
    r.timestamp_delta = unzigzag64(next_unsigned(at, VARLONG_BYTES))
    r.offset_delta = next_int(at)
    r.key_length = next_field(at, True, KEY_LENGTH_INVALID)
    r.key_end = at.p
    r.value_length = next_field(at, True, VALUE_LENGTH_INVALID)
    r.value_end = at.p
    r.headers = next_int(at)
    if r.headers < 0 or r.headers > bytes_left(at) // 2:     # a header has two bytes or more
        fail(at, HEADER_COUNT_INVALID, bytes_left(at) // 2, r.headers)


cdef inline Magic2Walk begin_walk(const uint8_t* p, const uint8_t* stop, Fault* fault) noexcept nogil:
    return Magic2Walk(p, stop, stop, OK, fault)


cdef inline int walk_record(Magic2Walk* at, WalkedRecord* r, int64_t most, bint partly) noexcept nogil:
    """A record of magic 2, of up to `most` bytes behind its length. `partly`: it may end anywhere, as in
    DefaultRecord.readPartiallyFrom (KAFKA-8106)."""
    cdef const uint8_t* begin
    cdef int32_t i = 0
    r.length = next_length(at)
    begin = at.p
    if not partly:
        most = min(most, at.end - begin)
    if at.status == OK and (r.length < 0 or r.length > most):
        fail(at, RECORD_LENGTH_INVALID, most, r.length)
    elif not partly and at.status == OK:
        at.end = begin + r.length
    walk_fields(at, r)
    while i < r.headers and at.status == OK:
        next_field(at, False, HEADER_KEY_INVALID)
        next_field(at, True, HEADER_VALUE_INVALID)
        i += 1
    if not partly and at.p != at.end:
        fail(at, RECORD_STRUCTURE_INVALID, r.length, at.p - begin)
    return at.status
