"""Makes Python objects of columns: the values that a Record has, and the fields of a batch as a dict.

    RecordView   where the values of the columns of a Record are; NULL: the column was not asked for

Functions with Python objects, for the compiled modules.
"""
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.ref cimport Py_INCREF, PyObject
from cpython.tuple cimport PyTuple_New, PyTuple_SetItem
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t, uint32_t
from libc.string cimport memcmp, memset

from kafkarec._c.arrow cimport VIEWS as KIND_VIEWS, Column
from kafkarec._c.batch cimport BatchRow, codec_name
from kafkarec._c.output_columns cimport (
    OUT_COMPRESSION, OUT_CRC, NumberColumn, batch_number, batch_number_is_null, number_column,
)
from kafkarec._c.columns cimport (
    WANT_HEADERS, WANT_KEY, WANT_OFFSET, WANT_TIMESTAMP, WANT_TYPE, WANT_VALUE, Bytes, Columns, count_nulls, is_set,
    value_at,
)
from kafkarec._c.input_columns cimport BOOL, OFFSETS_32, VIEWS, Cells, Numbers, Span, number

cdef extern from *:
    void PyObject_GC_UnTrack(PyObject* o)

cdef enum:
    KNOWN_KEYS = 16

cdef struct RecordView:
    const Columns* columns
    Numbers offset
    Numbers timestamp
    const int8_t* timestamp_type     # -1: null
    const Bytes* key
    const Bytes* value
    const int32_t* header_ends   # the headers of row i are [header_ends[i], header_ends[i + 1])
    bint binary_header_keys
    # the header keys of earlier records, where their bytes are: most records have the same
    const char* known_keys[16]
    int32_t known_lengths[16]


cdef inline RecordView record_view(const Columns* c, int64_t start, int64_t stop, uint32_t shown, int64_t ticks,
                                   bint binary_header_keys) noexcept nogil:
    """Of the rows [start, stop). shown: the columns that a Record has, as WANT_* bits; ticks: of the timestamp, in a
    millisecond."""
    cdef RecordView v
    cdef const uint8_t* known = c.timestamp_validity if count_nulls(c.timestamp_validity, start, stop - start) else NULL
    memset(&v, 0, sizeof(RecordView))
    v.columns, v.binary_header_keys = c, binary_header_keys
    if shown & WANT_OFFSET:
        v.offset = Numbers(8, True, NULL, c.offset, 0, 1, 1)
    if shown & WANT_TIMESTAMP:
        v.timestamp = Numbers(8, known == NULL and ticks == 1, known, c.timestamp, 0, 1, ticks)
    if shown & WANT_TYPE:
        v.timestamp_type = c.type
    if shown & WANT_KEY:
        v.key = &c.key
    if shown & WANT_VALUE:
        v.value = &c.value
    if shown & WANT_HEADERS:
        v.header_ends = c.header_offsets
    return v


cdef inline Numbers numbers_of(const Column* column, Py_UCS4 format_):
    """The numbers of a column: integers, timestamps as they are stored, bools. format_: how its Arrow type begins"""
    cdef int width = {"i": 4, "I": -4, "s": 2, "c": 1, "b": BOOL}.get(format_, 8)
    cdef const uint8_t* validity = <const uint8_t*>column.buffers[0]
    return Numbers(width, width == 8 and validity == NULL, validity, column.buffers[1], 0, 1, 1)


cdef inline Cells cells_of(const Column* column) noexcept:
    """The byte strings of a column, which must live as long."""
    cdef const uint8_t* validity = <const uint8_t*>column.buffers[0]
    cdef bint views = column.kind == KIND_VIEWS
    cdef Cells cells = Cells(VIEWS if views else OFFSETS_32, validity == NULL and not views, validity,
                             column.buffers[1], <const uint8_t*>column.buffers[2], NULL, 0, 0)
    cells.buffers = <const void* const*>(column.buffers + 2)
    return cells


cdef inline object bytes_at(const RecordView* v, const Bytes* column, int64_t i):
    """A key, value or header value as bytes; None: null, or no such column."""
    cdef const uint8_t* data
    cdef int64_t length = 0
    if column == NULL or not is_set(column.validity, i):
        return None
    data = value_at(v.columns, column, i, &length)
    return PyBytes_FromStringAndSize(<const char*>data, length)


cdef inline object bytes_of(Span span):
    return None if span.length < 0 else PyBytes_FromStringAndSize(<const char*>span.data, span.length)


cdef inline object int_at(const Numbers* numbers, int64_t i):
    """Number i; None: null, or no such column."""
    cdef int64_t value = 0
    return value if number(numbers, i, &value) else None


cdef inline list new_texts(const Columns* c):
    """For the texts of the known header keys."""
    return None if c.headers == 0 else [None] * <int>KNOWN_KEYS


cdef inline object header_key(RecordView* v, int64_t n, list texts):
    """Key n. `texts`: those of the known keys."""
    cdef const int32_t* ends = v.columns.header_key.offsets + n
    cdef const char* data = <const char*>v.columns.header_key.data.data + ends[0]
    cdef int32_t length = ends[1] - ends[0]
    cdef int slot = 0
    if v.binary_header_keys:
        return PyBytes_FromStringAndSize(data, length)
    if length > 0:
        slot = (length + 5 * <uint8_t>data[length - 1]) % <int>KNOWN_KEYS
    if (v.known_keys[slot] == NULL or v.known_lengths[slot] != length
            or memcmp(v.known_keys[slot], data, <size_t>length)):
        texts[slot] = PyUnicode_DecodeUTF8(data, length, NULL)
        v.known_keys[slot], v.known_lengths[slot] = data, length
    return texts[slot]


cdef inline tuple untracked(tuple values):
    """A new tuple of values that cannot be in a cycle: the garbage collector does not look at it. It would find that
    out by itself, after looking at all those of a large result."""
    PyObject_GC_UnTrack(<PyObject*>values)
    return values


cdef inline tuple headers_at(RecordView* v, int64_t i, list texts):
    """(key, value or None) of each header."""
    cdef int64_t n, first
    cdef tuple pairs
    if v.header_ends == NULL or v.header_ends[i] == v.header_ends[i + 1]:
        return ()
    first = v.header_ends[i]
    pairs = PyTuple_New(v.header_ends[i + 1] - first)
    for n in range(v.header_ends[i + 1] - first):
        pair = untracked((header_key(v, first + n, texts), bytes_at(v, &v.columns.header_value, first + n)))
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
