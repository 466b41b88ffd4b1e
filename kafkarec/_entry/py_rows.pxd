"""Python rows as a table of pointers to their bytes, which is a chunk (see `_c/input_columns.pxd`).

    offsets, timestamps    int64[rows]
    starts                 int64[rows + 1]: index of a row's first header in pairs; unused until a row has headers
    keys, values           Span[rows]: address and length
    pairs                  Span[]: header key, header value, header key ... of all rows
    kept                   references to the objects pointed to, if nothing else keeps them alive

A row is an exact tuple, dict or Record with fields of exact types, so the bytes pointed to cannot change; any other
record is converted first (write/encoding.py). No Python object is created for a row, so the garbage collector does not
run. Functions with Python objects, for the compiled modules.
"""
from cpython.ref cimport PyObject
from libc.stdint cimport int64_t, uint8_t
from libc.string cimport memset

from kafkarec._c.batch cimport ABSENT
from kafkarec._c.columns cimport BlockArray, Buffer, block_grow, buffer_free
from kafkarec._c.input_columns cimport LISTS_64, InputChunk, NO_LISTS, NO_NUMBERS, SPANS, Span
from kafkarec._c.status cimport OK
from kafkarec._core cimport Record

cdef extern from *:
    """
    /* Reads an int or None (`out` unchanged); 0 for other types and for larger numbers. */
    static inline int kr_row_number(PyObject *o, int64_t *out) {
        int overflow = 0;
        if (o == Py_None) return 1;
        if (!PyLong_CheckExact(o)) return 0;
        *out = PyLong_AsLongLongAndOverflow(o, &overflow);
        return overflow == 0;
    }

    /* Where the elements of a tuple and the bytes of a bytes object begin. The stable ABI has functions only; to call
       them for each field takes as long as all the rest of reading a row. kr_rows_prepare finds both on objects whose
       elements and bytes it knows; where that fails, the functions are called. */
    static size_t kr_tuple_begin = 0, kr_bytes_begin = 0;

    static void kr_rows_prepare(void) {
        PyObject *size = PyObject_GetAttrString((PyObject *)&PyTuple_Type, "__basicsize__");
        PyObject *text = PyBytes_FromStringAndSize("two", 3);
        PyObject *pair = size == NULL || text == NULL ? NULL : PyTuple_Pack(2, text, size);
        size_t begin = pair == NULL ? 0 : PyLong_AsSize_t(size);
        if (begin >= sizeof(PyObject) && begin <= 64 && begin % sizeof(PyObject *) == 0) {
            PyObject **at = (PyObject **)((char *)pair + begin);
            if (at[0] == text && at[1] == size) kr_tuple_begin = begin;
        }
        if (text != NULL) kr_bytes_begin = (size_t)(PyBytes_AsString(text) - (char *)text);
        if (kr_bytes_begin > 64) kr_bytes_begin = 0;     /* not within the object */
        Py_XDECREF(pair);
        Py_XDECREF(text);
        Py_XDECREF(size);
        PyErr_Clear();
    }

    /* The elements of an exact tuple, borrowed; NULL: only PyTuple_GetItem returns them. */
    static inline PyObject **kr_items(PyObject *tuple) {
        return kr_tuple_begin ? (PyObject **)((char *)tuple + kr_tuple_begin) : NULL;
    }

    /* An element of an exact tuple, borrowed. */
    static inline PyObject *kr_item(PyObject *tuple, Py_ssize_t i) {
        return kr_tuple_begin ? kr_items(tuple)[i] : PyTuple_GetItem(tuple, i);
    }

    /* Reads bytes or None (length -1); 0 for other types. */
    static inline int kr_row_bytes(PyObject *o, const uint8_t **data, int64_t *length) {
        if (PyBytes_CheckExact(o)) {
            *data = kr_bytes_begin ? (const uint8_t *)o + kr_bytes_begin : (const uint8_t *)PyBytes_AsString(o);
            *length = Py_SIZE(o);
            return 1;
        }
        *data = NULL;
        *length = -1;
        return o == Py_None;
    }

    /* Reads bytes, or the UTF-8 that a str caches; 0 for other types and lone surrogates. */
    static inline int kr_row_text(PyObject *o, const uint8_t **data, int64_t *length) {
        Py_ssize_t n = 0;
        if (!PyUnicode_CheckExact(o)) return o != Py_None && kr_row_bytes(o, data, length);
        *data = (const uint8_t *)PyUnicode_AsUTF8AndSize(o, &n);
        *length = n;
        if (*data == NULL) { PyErr_Clear(); return 0; }
        return 1;
    }

    /* The length of a list; no call is needed. */
    #define kr_list_size(list) Py_SIZE(list)

    /* A new reference to an element of a list; NULL without an error if the list has become shorter. */
    static inline PyObject *kr_row_listed(PyObject *list, Py_ssize_t i) {
        PyObject *o = i < kr_list_size(list) ? PyList_GetItem(list, i) : NULL;
        Py_XINCREF(o);
        return o;
    }

    /* The values of a dict by the names 0 to count - 1, borrowed; None for those that it does not have. 0 if it has a
       name that is not one of `known` ones. Names are nearly always the same objects, in the same order. */
    static inline int kr_row_dict(PyObject *dict, PyObject *const *names, int count, int known, PyObject **values) {
        PyObject *name, *value;
        Py_ssize_t at = 0, left = PyDict_Size(dict);
        int i, next = 0;
        for (i = 0; i < count; i++) values[i] = Py_None;
        for (; left > 0 && PyDict_Next(dict, &at, &name, &value); left--) {
            for (i = next; i < known && names[i] != name; i++) {}
            if (i == known) {
                if (!PyUnicode_CheckExact(name)) return 0;
                for (i = 0; i < known && PyUnicode_Compare(names[i], name) != 0; i++) {}
                if (i == known) return 0;
            }
            if (i < count) values[i] = value;
            next = i + 1;
        }
        return 1;
    }

    /* Whether headers are None, or an exact tuple or list without elements. */
    static inline int kr_is_empty(PyObject *o) {
        if (PyList_CheckExact(o)) return kr_list_size(o) == 0;
        return o == Py_None || (PyTuple_CheckExact(o) && Py_SIZE(o) == 0);
    }

    #define kr_is_tuple(o, n) (PyTuple_CheckExact(o) && Py_SIZE(o) == (n))
    """
    bint kr_row_number(PyObject* number, int64_t* out)
    bint kr_row_bytes(PyObject* bytes_, const uint8_t** data, int64_t* length)
    bint kr_row_text(PyObject* text, const uint8_t** data, int64_t* length)
    void kr_rows_prepare()
    PyObject** kr_items(PyObject* tuple_)
    PyObject* kr_item(PyObject* tuple_, Py_ssize_t i)
    bint kr_is_empty(PyObject* headers)
    Py_ssize_t kr_list_size(PyObject* list_)
    PyObject* kr_row_listed(PyObject* list_, Py_ssize_t i)
    bint kr_row_dict(PyObject* dict_, PyObject** names, int count, int known, PyObject** values)
    bint kr_is_tuple(PyObject* o, Py_ssize_t n)

cdef extern from "Python.h":
    void Py_INCREF(PyObject* o)
    void Py_DECREF(PyObject* o)
    PyObject* Py_None
    bint PyDict_CheckExact(PyObject* o)
    bint PyList_CheckExact(PyObject* o)
    bint PyTuple_CheckExact(PyObject* o)
    Py_ssize_t PyTuple_Size(PyObject* o)

cdef enum:
    FIELDS = 5                   # offset, timestamp, key, value, headers
    NAMES = 7                    # the fields and the ignored names topic and partition
    SPARE_ROWS = 1024            # whose memory is kept for the next call
    SPARE_BYTES = 64 << 10       # of output that are kept

# How records of other types are read, and the names of dicts: see write/encoding.py, which keeps these objects alive.
cdef struct RowTypes:
    PyObject* row_of
    PyObject* names[7]

cdef struct PyRows:
    int64_t count
    int64_t missing_offsets      # rows without an offset
    bint lacks_offset            # the row that is being read has none
    int64_t capacity             # in rows
    int64_t* offsets
    int64_t* timestamps
    int64_t* starts
    Span* keys
    Span* values
    Span* pairs
    int64_t pair_count
    int64_t pair_capacity
    PyObject** kept
    int64_t kept_count
    int64_t kept_capacity
    Buffer row_block             # the memory of the arrays: of those with an entry for each row, and of the others
    Buffer pair_block
    Buffer kept_block


# ---- capacity

cdef inline int64_t arrays_grow(Buffer* block, const BlockArray* arrays, int count, int64_t used, int64_t capacity,
                                int64_t more) except -1:
    """Makes space for `more` entries after `used` ones in each array; returns the new capacity."""
    capacity = max(2 * capacity, used + more)
    if block_grow(NULL, block, 1, arrays, count, used, capacity) != OK:
        raise MemoryError
    return capacity


cdef inline int rows_reserve(PyRows* t, int64_t more) except -1:
    cdef BlockArray[5] arrays
    if t.capacity == 0 or more > t.capacity - t.count:
        arrays[:] = [BlockArray(1, &t.offsets, 64), BlockArray(1, &t.timestamps, 64), BlockArray(1, &t.starts, 64),
                     BlockArray(1, &t.keys, 128), BlockArray(1, &t.values, 128)]       # a Span has 128 bits
        t.capacity = arrays_grow(&t.row_block, arrays, 5, t.count, t.capacity, more + 1)
    return 0


cdef inline int kept_reserve(PyRows* t, int64_t more) except -1:
    cdef BlockArray kept = BlockArray(1, &t.kept, 64)
    if more > t.kept_capacity - t.kept_count:
        t.kept_capacity = arrays_grow(&t.kept_block, &kept, 1, t.kept_count, t.kept_capacity, more + 32)
    return 0


cdef inline void keep_reference(PyRows* t, PyObject* o) noexcept:
    """Stores a reference, which the table then owns; there must be space for it."""
    t.kept[t.kept_count] = o
    t.kept_count += 1


cdef inline void keep_borrowed_reference(PyRows* t, PyObject* o) noexcept:
    Py_INCREF(o)
    keep_reference(t, o)


# ---- rows

cdef inline int rows_fill(PyRows* t, PyObject* rows, int64_t count, const RowTypes* types) except -1:
    """Reads all `count` rows of a tuple, which must live as long as the table."""
    cdef PyObject* record
    cdef PyObject *of_dict[5]
    cdef Record read
    cdef int64_t i = 0
    cdef bint taken
    rows_reserve(t, count)
    while True:
        i = take_tuples(t, rows, i, count)
        if i == count:
            break
        record = kr_item(rows, i)
        if kr_is_tuple(record, FIELDS):
            taken = take_tuple(t, record)
        elif PyDict_CheckExact(record):
            # not one with a name that is neither a field nor ignored
            taken = kr_row_dict(record, <PyObject**>types.names, FIELDS, NAMES, of_dict) and take_kept(
                t, of_dict[0], of_dict[1], of_dict[2], of_dict[3], of_dict[4]
            )
        elif type(<object>record) is Record and not (<Record>record).is_control:
            read = <Record>record
            taken = take_kept(t, <PyObject*>read.offset, <PyObject*>read.timestamp, <PyObject*>read.key,
                              <PyObject*>read.value, <PyObject*>read.pairs)
        else:
            taken = False
        if not taken:
            row = (<object>types.row_of)(<object>record, i)
            kept_reserve(t, 1)
            keep_borrowed_reference(t, <PyObject*>row)
            take_tuple(t, <PyObject*>row)
        i += 1
    if t.missing_offsets and t.missing_offsets != t.count:
        raise ValueError(f"{t.missing_offsets} of {t.count} records have no offset: all or none have one")
    return 0


cdef inline int64_t take_tuples(PyRows* t, PyObject* rows, int64_t i, int64_t count) noexcept:
    """Appends tuples without headers from index i on, for which there must be space; returns the index of the first row
    that is not one. The same as take_tuple of each, whose state stays in registers here."""
    cdef int64_t row = t.count, missing = t.missing_offsets
    cdef int64_t* offsets = t.offsets
    cdef int64_t* timestamps = t.timestamps
    cdef int64_t* starts = t.starts if t.pair_capacity > 0 else NULL
    cdef Span* keys = t.keys
    cdef Span* values = t.values
    cdef PyObject* record
    cdef PyObject** fields
    while i < count:
        record = kr_item(rows, i)
        if not kr_is_tuple(record, FIELDS):
            break
        fields = kr_items(record)
        if fields == NULL or not kr_is_empty(fields[4]):
            break
        offsets[row] = 0
        timestamps[row] = ABSENT
        if not (kr_row_number(fields[0], offsets + row) and kr_row_number(fields[1], timestamps + row)
                and kr_row_bytes(fields[2], &keys[row].data, &keys[row].length)
                and kr_row_bytes(fields[3], &values[row].data, &values[row].length)):
            break
        missing += fields[0] == Py_None
        row += 1
        i += 1
        if starts != NULL:
            starts[row] = t.pair_count
    t.count, t.missing_offsets = row, missing
    return i


# Each of these functions appends a row, for which there must be space. False if a field does not have an exact type:
# the table is then unchanged.

cdef inline bint take_tuple(PyRows* t, PyObject* row) except -1:
    """Appends a tuple that lives as long as the table."""
    if not take_numbers(t, kr_item(row, 0), kr_item(row, 1)):
        return False
    return take_bytes(t, kr_item(row, 2), kr_item(row, 3), kr_item(row, 4))


cdef inline bint take_kept(PyRows* t, PyObject* offset, PyObject* timestamp, PyObject* key, PyObject* value,
                           PyObject* headers) except -1:
    """Appends fields, and keeps references to them: another thread may change where they are from."""
    if not take_numbers(t, offset, timestamp):
        return False
    kept_reserve(t, 3)
    keep_borrowed_reference(t, key)
    keep_borrowed_reference(t, value)
    keep_borrowed_reference(t, headers)
    return take_bytes(t, key, value, headers)


cdef inline bint take_numbers(PyRows* t, PyObject* offset, PyObject* timestamp) noexcept:
    t.offsets[t.count] = 0
    t.timestamps[t.count] = ABSENT
    t.lacks_offset = offset == Py_None
    return kr_row_number(offset, t.offsets + t.count) and kr_row_number(timestamp, t.timestamps + t.count)


cdef inline bint take_bytes(PyRows* t, PyObject* key, PyObject* value, PyObject* headers) except -1:
    """Reads key, value and headers after take_numbers; counts the row. The caller keeps the three objects alive."""
    cdef int64_t pairs = t.pair_count
    cdef Span* keys = t.keys + t.count
    cdef Span* values = t.values + t.count
    if not (kr_row_bytes(key, &keys.data, &keys.length) and kr_row_bytes(value, &values.data, &values.length)):
        return False
    if not kr_is_empty(headers) and not take_headers(t, headers):
        t.pair_count = pairs
        return False
    t.missing_offsets += t.lacks_offset
    t.count += 1
    if t.pair_capacity > 0:
        t.starts[t.count] = t.pair_count
    return True


cdef inline bint take_headers(PyRows* t, PyObject* headers) except -1:
    """Reads all headers of a row. Another thread may change a list, so the pairs of a list are kept; a pair is a tuple
    and cannot change."""
    cdef bint listed = PyList_CheckExact(headers)
    cdef BlockArray pairs = BlockArray(1, &t.pairs, 256)
    cdef int64_t i, count
    cdef PyObject* pair
    cdef Span* key
    if not listed and not PyTuple_CheckExact(headers):
        return False
    count = kr_list_size(headers) if listed else PyTuple_Size(headers)
    if count == 0:
        return True
    if t.pair_capacity == 0:
        memset(t.starts, 0, <size_t>(t.count + 1) * sizeof(int64_t))
    if count > t.pair_capacity - t.pair_count:
        t.pair_capacity = arrays_grow(&t.pair_block, &pairs, 1, t.pair_count, t.pair_capacity, count + 32)
    if listed:
        kept_reserve(t, count)
    for i in range(count):
        if listed:
            pair = kr_row_listed(headers, i)
            if pair == NULL:
                break
            keep_reference(t, pair)
        else:
            pair = kr_item(headers, i)
        key = t.pairs + 2 * t.pair_count
        if not (kr_is_tuple(pair, 2) and kr_row_text(kr_item(pair, 0), &key.data, &key.length)
                and kr_row_bytes(kr_item(pair, 1), &key[1].data, &key[1].length)):
            return False
        t.pair_count += 1
    return True


cdef inline void rows_bind(const PyRows* t, InputChunk* chunk) noexcept:
    """The rows as a chunk that is empty, or was bound before."""
    cdef bint has_offsets = t.missing_offsets == 0 and t.count > 0
    chunk.rows = t.count
    chunk.offset.width, chunk.timestamp.width = 8 if has_offsets else <int>NO_NUMBERS, 8
    chunk.offset.values, chunk.timestamp.values = t.offsets, t.timestamps
    chunk.offset.plain, chunk.timestamp.plain = has_offsets, True
    chunk.key.kind = chunk.value.kind = chunk.headers.key.kind = chunk.headers.value.kind = SPANS
    chunk.key.index, chunk.value.index = t.keys, t.values
    chunk.key.width = chunk.value.width = 1
    chunk.headers.kind = LISTS_64 if t.pair_count > 0 else NO_LISTS
    chunk.headers.starts = t.starts
    chunk.headers.key.index = chunk.headers.value.index = t.pairs
    chunk.headers.key.width = chunk.headers.value.width = 2        # every other span, from the first or second on
    chunk.headers.value.first = 1


cdef inline void rows_clear(PyRows* t) noexcept:
    """Removes all rows, and releases the references kept for them; the arrays are kept."""
    cdef int64_t kept = t.kept_count
    t.count = t.pair_count = t.kept_count = t.missing_offsets = 0
    while kept > 0:
        kept -= 1
        Py_DECREF(t.kept[kept])


cdef inline void rows_release(PyRows* t) noexcept:
    rows_clear(t)
    buffer_free(&t.row_block)
    buffer_free(&t.pair_block)
    buffer_free(&t.kept_block)
    memset(t, 0, sizeof(PyRows))


cdef inline void rows_recycle(PyRows* t) noexcept:
    """Removes all rows; the arrays of a small table are kept for the next ones."""
    rows_clear(t)
    if t.capacity > SPARE_ROWS or t.pair_capacity > 2 * SPARE_ROWS:
        rows_release(t)
