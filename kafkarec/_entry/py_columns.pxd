"""Makes Python objects of columns: the values that a Record has, and the fields of a batch as a dict.

    RecordView   where the values of the columns of a Record are; NULL: the column was not asked for, or has no nulls

Functions with Python objects, for the compiled modules.
"""
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.ref cimport Py_INCREF, PyObject
from cpython.tuple cimport PyTuple_New, PyTuple_SetItem
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t, uint32_t
from libc.string cimport memcmp, memset

from kafkarec._c.batch cimport BatchRow, codec_name
from kafkarec._c.output_columns cimport (
    OUT_COMPRESSION, OUT_CRC, NumberColumn, batch_number, batch_number_is_null, number_column,
)
from kafkarec._c.columns cimport (
    IN_MEMORY, MOST_INLINE, WANT_HEADERS, WANT_KEY, WANT_OFFSET, WANT_TIMESTAMP, WANT_TYPE, WANT_VALUE, WANT_VIEWS,
    Bytes, Columns, View, is_set,
)
from kafkarec._c.input_columns cimport is_set

cdef extern from *:
    void PyObject_GC_UnTrack(PyObject* o)

cdef struct BytesColumn:         # of int32 offsets and bytes, or of views
    const int32_t* ends
    const char* data
    const uint8_t* validity
    const View* views            # else NULL
    const char* memory           # where views IN_MEMORY point

cdef struct RecordView:
    const int64_t* offset
    const int64_t* timestamp
    const uint8_t* timestamp_validity
    const int8_t* timestamp_type     # -1: null
    BytesColumn key
    BytesColumn value
    const int32_t* header_ends   # the headers of row i are [header_ends[i], header_ends[i + 1])
    BytesColumn header_key
    BytesColumn header_value
    int64_t ticks                # of the timestamp, in a millisecond
    bint binary_header_keys


cdef inline BytesColumn bytes_column(const Columns* c, const Bytes* column) noexcept nogil:
    """Of a key, value or header value."""
    cdef const uint8_t* validity = NULL if column.nulls == 0 else column.validity.data
    cdef const View* views = <const View*>column.offsets.data if c.want & WANT_VIEWS else NULL
    return BytesColumn(<const int32_t*>column.offsets.data, <const char*>column.data.data, validity, views,
                       <const char*>c.memory)


cdef inline RecordView record_view(const Columns* c, uint32_t shown) noexcept nogil:
    """shown: the columns that a Record has, as WANT_* bits."""
    cdef RecordView v
    memset(&v, 0, sizeof(RecordView))
    if shown & WANT_OFFSET:
        v.offset = <const int64_t*>c.offset.data
    if shown & WANT_TIMESTAMP:
        v.timestamp = <const int64_t*>c.timestamp.data
        v.timestamp_validity = NULL if c.timestamp_nulls == 0 else c.timestamp_validity.data
    if shown & WANT_TYPE:
        v.timestamp_type = <const int8_t*>c.type.data
    if shown & WANT_KEY:
        v.key = bytes_column(c, &c.key)
    if shown & WANT_VALUE:
        v.value = bytes_column(c, &c.value)
    if shown & WANT_HEADERS:
        v.header_ends = <const int32_t*>c.header_offsets.data
        v.header_key = BytesColumn(<const int32_t*>c.header_key.offsets.data, <const char*>c.header_key.data.data,
                                   NULL, NULL, NULL)
        v.header_value = bytes_column(c, &c.header_value)
    return v


cdef inline object bytes_at(const BytesColumn* t, int64_t i):
    """Value i as bytes; None: null, or no such column."""
    if t.ends == NULL or not is_set(t.validity, i):
        return None
    if t.views != NULL:
        return viewed_bytes(t, t.views + i)
    return PyBytes_FromStringAndSize(t.data + t.ends[i], t.ends[i + 1] - t.ends[i])


cdef inline object viewed_bytes(const BytesColumn* t, const View* view):
    if view.length <= MOST_INLINE:
        return PyBytes_FromStringAndSize(<const char*>view.bytes, view.length)
    return PyBytes_FromStringAndSize((t.memory if view.buffer == IN_MEMORY else t.data) + view.offset, view.length)


cdef inline object timestamp_at(const RecordView* v, int64_t i):
    """Milliseconds; None: null, or no such column."""
    cdef int64_t value
    if v.timestamp == NULL or not is_set(v.timestamp_validity, i):
        return None
    value = v.timestamp[i]
    return value if v.ticks == 1 else value // v.ticks - (value % v.ticks < 0)      # rounds down, C towards 0


cdef enum:
    KNOWN_KEYS = 16

cdef struct KnownKeys:           # the header keys of earlier records, where their bytes are: most records have the same
    const char* data[16]
    int32_t lengths[16]


cdef inline object header_key(const RecordView* v, int64_t n, KnownKeys* known, list texts):
    """Key n as text. `texts`: those of the known keys."""
    cdef const char* data = v.header_key.data + v.header_key.ends[n]
    cdef int32_t length = v.header_key.ends[n + 1] - v.header_key.ends[n]
    cdef int slot = 0
    if length > 0:
        slot = (length + 5 * <uint8_t>data[length - 1]) % <int>KNOWN_KEYS
    if known.data[slot] == NULL or known.lengths[slot] != length or memcmp(known.data[slot], data, <size_t>length):
        texts[slot] = PyUnicode_DecodeUTF8(data, length, NULL)
        known.data[slot], known.lengths[slot] = data, length
    return texts[slot]


cdef inline tuple untracked(tuple values):
    """A new tuple of values that cannot be in a cycle: the garbage collector does not look at it. It would find that
    out by itself, after looking at all those of a large result."""
    PyObject_GC_UnTrack(<PyObject*>values)
    return values


cdef inline tuple header_pair(const RecordView* v, int64_t n, KnownKeys* known, list texts):
    """(key, value or None) of header n."""
    if v.binary_header_keys:
        return untracked((bytes_at(&v.header_key, n), bytes_at(&v.header_value, n)))
    return untracked((header_key(v, n, known, texts), bytes_at(&v.header_value, n)))


cdef inline tuple headers_at(const RecordView* v, int64_t i, KnownKeys* known, list texts):
    """(key, value or None) of each header."""
    cdef int64_t n, first
    cdef tuple pairs
    if v.header_ends == NULL or v.header_ends[i] == v.header_ends[i + 1]:
        return ()
    first = v.header_ends[i]
    pairs = PyTuple_New(v.header_ends[i + 1] - first)
    for n in range(v.header_ends[i + 1] - first):
        pair = header_pair(v, first + n, known, texts)
        Py_INCREF(pair)                  # PyTuple_SetItem takes a reference
        PyTuple_SetItem(pairs, n, pair)
    return untracked(pairs)


cdef inline object batch_value(const BatchRow* row, int code):
    """The value of a column of the batch table."""
    cdef NumberColumn column
    cdef const char* name
    cdef int64_t value
    if code == OUT_COMPRESSION:
        name = codec_name(row.codec)
        return None if name == NULL else name.decode()
    column = number_column(code)
    value = batch_number(row, &column)
    if column.width == 0:
        return value != 0
    if batch_number_is_null(row, value, column.rule):
        return None
    return <uint32_t>value if code == OUT_CRC else value
