"""Rows of Python as a table of pointers into their bytes, which is a chunk (see `_c/input_columns.pxd`).

    offsets, timestamps    int64 each
    starts                 int64 each and one more: where a row's headers begin in pairs; filled from the first pair on
    keys, values           address and length each
    pairs                  header key, header value, header key ... of all rows
    kept                   references to what is pointed into, where nothing else keeps it alive

A row is an exact tuple, dict or Record with fields of exact types, so that the bytes pointed into cannot change; any
other record is converted first (write/py_rows.py). No object is created for such rows, so the garbage collector does
not run. Functions over Python objects, for the compiled modules.
"""
from cpython.ref cimport PyObject
from libc.stdint cimport INT64_MAX, int64_t, uint8_t
from libc.string cimport memset

from kafkarec._c.batch cimport ABSENT
from kafkarec._c.columns cimport Buffer, buffer_reserve
from kafkarec._c.page_pool cimport pages_free
from kafkarec._c.input_columns cimport INT_64, LISTS_64, InputChunk, NO_NUMBERS, SPANS, Span
from kafkarec._c.status cimport OK

cdef extern from *:
    """
    /* A number or None; 0 where it is neither, or too large. */
    static inline int kr_row_number(PyObject *o, int64_t *out) {
        int overflow = 0;
        if (o == Py_None) return 1;
        if (!PyLong_CheckExact(o)) return 0;
        *out = PyLong_AsLongLongAndOverflow(o, &overflow);
        return overflow == 0;
    }

    /* Bytes or None; 0 where it is neither. */
    static inline int kr_row_bytes(PyObject *o, const uint8_t **data, int64_t *length) {
        char *at = NULL;
        Py_ssize_t n = -1;
        if (o != Py_None && (!PyBytes_CheckExact(o) || PyBytes_AsStringAndSize(o, &at, &n) != 0)) return 0;
        *data = (const uint8_t *)at;
        *length = n;
        return 1;
    }

    /* Bytes, or text, whose UTF-8 it keeps itself; 0 where it is neither, or no Unicode. */
    static inline int kr_row_text(PyObject *o, const uint8_t **data, int64_t *length) {
        Py_ssize_t n = 0;
        if (!PyUnicode_CheckExact(o)) return o != Py_None && kr_row_bytes(o, data, length);
        *data = (const uint8_t *)PyUnicode_AsUTF8AndSize(o, &n);
        *length = n;
        if (*data == NULL) { PyErr_Clear(); return 0; }
        return 1;
    }

    /* How many a list has: without a call where nobody can change it meanwhile. */
    static inline Py_ssize_t kr_list_size(PyObject *list) {
    #ifdef Py_GIL_DISABLED
        return PyList_Size(list);
    #else
        return Py_SIZE(list);
    #endif
    }

    /* One of a list, held; NULL without an error where the list has become shorter. */
    static inline PyObject *kr_row_listed(PyObject *list, Py_ssize_t i) {
    #ifdef Py_GIL_DISABLED
        PyObject *o = PyList_GetItemRef(list, i);
        if (o == NULL) PyErr_Clear();
    #else
        PyObject *o = i < kr_list_size(list) ? PyList_GetItem(list, i) : NULL;
        Py_XINCREF(o);
    #endif
        return o;
    }

    /* One of a dict, held; NULL where it is not there, or with an error. */
    static inline PyObject *kr_row_named(PyObject *dict, PyObject *name) {
    #ifdef Py_GIL_DISABLED
        PyObject *o = NULL;
        (void)PyDict_GetItemRef(dict, name, &o);
    #else
        PyObject *o = PyDict_GetItemWithError(dict, name);
        Py_XINCREF(o);
    #endif
        return o;
    }

    /* What a slot's descriptor gets of its object, held: PyObject_GetAttr without looking for the descriptor. */
    static inline PyObject *kr_row_slot(PyObject *slot, PyObject *o) {
        descrgetfunc get = (descrgetfunc)PyType_GetSlot(Py_TYPE(slot), Py_tp_descr_get);
        return get(slot, o, (PyObject *)Py_TYPE(o));
    }

    #define kr_is_tuple(o, n) (PyTuple_CheckExact(o) && Py_SIZE(o) == (n))
    #define kr_is_a(o, type) ((PyObject *)Py_TYPE(o) == (type))
    """
    bint kr_row_number(PyObject* number, int64_t* out)
    bint kr_row_bytes(PyObject* bytes_, const uint8_t** data, int64_t* length)
    bint kr_row_text(PyObject* text, const uint8_t** data, int64_t* length)
    Py_ssize_t kr_list_size(PyObject* list_)
    PyObject* kr_row_listed(PyObject* list_, Py_ssize_t i)
    PyObject* kr_row_named(PyObject* dict_, PyObject* name)
    PyObject* kr_row_slot(PyObject* slot, PyObject* o)
    bint kr_is_tuple(PyObject* o, Py_ssize_t n)
    bint kr_is_a(PyObject* o, PyObject* type_)

cdef extern from "Python.h":
    void Py_INCREF(PyObject* o)
    void Py_DECREF(PyObject* o)
    PyObject* Py_None
    PyObject* Py_False
    PyObject* PyErr_Occurred()                               # borrowed
    PyObject* PyTuple_GetItem(PyObject* row, Py_ssize_t i)   # borrowed
    bint PyDict_CheckExact(PyObject* o)
    bint PyList_CheckExact(PyObject* o)
    bint PyTuple_CheckExact(PyObject* o)
    Py_ssize_t PyTuple_Size(PyObject* o)
    Py_ssize_t PyDict_Size(PyObject* o)
    int PyDict_Contains(PyObject* o, PyObject* name)

cdef enum:
    FIELDS = 5                   # offset, timestamp, key, value, headers
    SLOTS = 6                    # and is_control
    PARTS = 7

cdef struct PyRows:
    int64_t count
    int64_t missing              # offsets
    bint lacks_offset            # the row that is being taken
    int64_t bytes                # of keys, values and headers
    int64_t capacity                 # of rows
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
    int64_t[4] marks             # where rows_undo goes back to
    Buffer[7] parts              # where these seven lie


# ---- capacity

cdef inline void* part(Buffer* pages, int64_t used, int64_t needed, size_t size) except NULL:
    """Reserves space for so many of a size; what is used stays."""
    if needed > INT64_MAX // 64 or buffer_reserve(pages, <size_t>used * size, <size_t>needed * size) != OK:
        raise MemoryError
    return pages.data


cdef inline int64_t grown(int64_t capacity, int64_t needed) noexcept:
    return needed if needed > 2 * capacity else 2 * capacity


cdef inline int rows_reserve(PyRows* t, int64_t more) except -1:
    cdef int64_t capacity, used = t.count
    if t.capacity > 0 and more <= t.capacity - t.count:
        return 0
    capacity = grown(t.capacity, t.count + more + 1)
    t.offsets = <int64_t*>part(t.parts, used, capacity, sizeof(int64_t))
    t.timestamps = <int64_t*>part(t.parts + 1, used, capacity, sizeof(int64_t))
    t.keys = <Span*>part(t.parts + 2, used, capacity, sizeof(Span))
    t.values = <Span*>part(t.parts + 3, used, capacity, sizeof(Span))
    t.starts = <int64_t*>part(t.parts + 4, used + 1 if used > 0 else 0, capacity + 1, sizeof(int64_t))
    t.capacity = capacity
    return 0


cdef inline int pairs_reserve(PyRows* t, int64_t more) except -1:
    cdef int64_t capacity
    if t.pair_capacity == 0 and more > 0:
        memset(t.starts, 0, <size_t>(t.count + 1) * sizeof(int64_t))
    if more > t.pair_capacity - t.pair_count:
        capacity = grown(t.pair_capacity, t.pair_count + more + 32)
        t.pairs = <Span*>part(t.parts + 5, t.pair_count, capacity, 2 * sizeof(Span))
        t.pair_capacity = capacity
    return 0


cdef inline int kept_reserve(PyRows* t, int64_t more) except -1:
    cdef int64_t capacity
    if more > t.kept_capacity - t.kept_count:
        capacity = grown(t.kept_capacity, t.kept_count + more + 32)
        t.kept = <PyObject**>part(t.parts + 6, t.kept_count, capacity, sizeof(PyObject*))
        t.kept_capacity = capacity
    return 0


cdef inline void keep(PyRows* t, PyObject* o) noexcept:
    """The reference becomes the table's; there must be capacity."""
    t.kept[t.kept_count] = o
    t.kept_count += 1


# ---- rows

cdef inline int rows_fill(PyRows* t, tuple rows, object ways) except -1:
    """All rows, which must live as long as the table. `ways`: see write/py_rows.py."""
    cdef PyObject* record
    cdef int64_t i, count = len(rows)
    cdef bint taken
    cdef tuple slots, names
    row_of, record_type, slots, names = ways
    rows_reserve(t, count)
    for i in range(count):
        record = PyTuple_GetItem(<PyObject*>rows, i)
        if kr_is_tuple(record, FIELDS):
            taken = take_tuple(t, record)
        elif kr_is_a(record, <PyObject*>record_type):
            taken = take_record(t, record, <PyObject*>slots)
        elif PyDict_CheckExact(record):
            taken = take_dict(t, record, <PyObject*>names)
        else:
            taken = False
        if not taken:
            take_row(t, row_of(<object>record, i))
    if t.missing and t.missing != t.count:
        raise ValueError(f"{t.missing} of {t.count} records have no offset: all or none have one")
    return 0


# Each of these takes the next row, for which there must be capacity. False where a part of it is of no exact type: the
# table is then as it was.

cdef inline bint take_tuple(PyRows* t, PyObject* row) except -1:
    """A tuple that lives as long as the table."""
    if not take_numbers(t, PyTuple_GetItem(row, 0), PyTuple_GetItem(row, 1)):
        return False
    return take_bytes(t, PyTuple_GetItem(row, 2), PyTuple_GetItem(row, 3), PyTuple_GetItem(row, 4))


cdef inline bint take_row(PyRows* t, tuple row) except -1:
    kept_reserve(t, 1)
    Py_INCREF(<PyObject*>row)
    keep(t, <PyObject*>row)
    return take_tuple(t, <PyObject*>row)


cdef inline bint take_record(PyRows* t, PyObject* record, PyObject* slots) except -1:
    """By its slots: offset, timestamp, key, value, headers, is_control. Control records are left to others."""
    cdef PyObject *fields[6]
    cdef int i
    kept_reserve(t, SLOTS)
    for i in range(SLOTS):
        fields[i] = kr_row_slot(PyTuple_GetItem(slots, i), record)
        if fields[i] == NULL:
            release_all(fields, i)
            return -1
    Py_DECREF(fields[FIELDS])
    if fields[FIELDS] != Py_False:
        release_all(fields, FIELDS)
        return False
    return take_held(t, fields)


cdef inline bint take_dict(PyRows* t, PyObject* record, PyObject* names) except -1:
    """By its names: the five fields, and those that are not looked at. A dict with any other name is left to others."""
    cdef PyObject *fields[5]
    cdef Py_ssize_t i, found = 0
    cdef int present
    kept_reserve(t, FIELDS)
    for i in range(FIELDS):
        fields[i] = kr_row_named(record, PyTuple_GetItem(names, i))
        if fields[i] != NULL:
            found += 1
            continue
        if PyErr_Occurred() != NULL:
            release_all(fields, i)
            return -1
        Py_INCREF(Py_None)
        fields[i] = Py_None
    for i in range(FIELDS, PyTuple_Size(names)):
        if found == PyDict_Size(record):
            break
        present = PyDict_Contains(record, PyTuple_GetItem(names, i))
        if present < 0:
            release_all(fields, FIELDS)
            return -1
        found += present
    if found != PyDict_Size(record):
        release_all(fields, FIELDS)
        return False
    return take_held(t, fields)


cdef inline bint take_held(PyRows* t, PyObject** fields) except -1:
    """From five references, which become the table's or are given back. There must be capacity to keep them."""
    cdef bint taken = take_numbers(t, fields[0], fields[1])
    cdef int i
    release_all(fields, 2)
    for i in range(2, FIELDS):
        keep(t, fields[i])
    return taken and take_bytes(t, fields[2], fields[3], fields[4])


cdef inline void release_all(PyObject** fields, Py_ssize_t count) noexcept:
    cdef Py_ssize_t i
    for i in range(count):
        Py_DECREF(fields[i])


cdef inline bint take_numbers(PyRows* t, PyObject* offset, PyObject* timestamp) noexcept:
    t.offsets[t.count] = 0
    t.timestamps[t.count] = ABSENT
    t.lacks_offset = offset == Py_None
    return kr_row_number(offset, t.offsets + t.count) and kr_row_number(timestamp, t.timestamps + t.count)


cdef inline bint take_bytes(PyRows* t, PyObject* key, PyObject* value, PyObject* headers) except -1:
    """The rest of the row, whose numbers are there. Whoever calls keeps these three alive."""
    cdef int64_t pairs = t.pair_count, size = 0
    cdef Span* keys = t.keys + t.count
    cdef Span* values = t.values + t.count
    if not (kr_row_bytes(key, &keys.data, &keys.length) and kr_row_bytes(value, &values.data, &values.length)):
        return False
    if headers != Py_None and not take_headers(t, headers, &size):
        t.pair_count = pairs
        return False
    if keys.length > 0:
        size += keys.length
    if values.length > 0:
        size += values.length
    t.missing += t.lacks_offset
    t.count += 1
    if t.pair_capacity > 0:
        t.starts[t.count] = t.pair_count
    t.bytes += size
    return True


cdef inline bint take_headers(PyRows* t, PyObject* headers, int64_t* size) except -1:
    """All headers of a row. Others may change a list: its pairs are kept, and a pair cannot change."""
    cdef bint listed = PyList_CheckExact(headers)
    cdef int64_t i, count
    cdef PyObject* pair
    cdef Span* key
    if not listed and not PyTuple_CheckExact(headers):
        return False
    count = kr_list_size(headers) if listed else PyTuple_Size(headers)
    if count == 0:
        return True
    pairs_reserve(t, count)
    if listed:
        kept_reserve(t, count)
    for i in range(count):
        if listed:
            pair = kr_row_listed(headers, i)
            if pair == NULL:
                break
            keep(t, pair)
        else:
            pair = PyTuple_GetItem(headers, i)
        key = t.pairs + 2 * t.pair_count
        if not (kr_is_tuple(pair, 2) and kr_row_text(PyTuple_GetItem(pair, 0), &key.data, &key.length)
                and kr_row_bytes(PyTuple_GetItem(pair, 1), &key[1].data, &key[1].length)):
            return False
        size[0] += key.length + (key[1].length if key[1].length > 0 else 0)
        t.pair_count += 1
    return True


cdef inline void rows_mark(PyRows* t) noexcept:
    t.marks[0], t.marks[1], t.marks[2], t.marks[3] = t.count, t.pair_count, t.kept_count, t.bytes


cdef inline void rows_undo(PyRows* t) noexcept:
    """Takes back the rows since the mark, and gives back what was kept for them."""
    cdef int64_t kept = t.kept_count
    t.count, t.pair_count, t.kept_count, t.bytes = t.marks[0], t.marks[1], t.marks[2], t.marks[3]
    while kept > t.marks[2]:
        kept -= 1
        Py_DECREF(t.kept[kept])


cdef inline bint has_offsets(const PyRows* t) noexcept:
    return t.missing == 0 and t.count > 0


cdef inline void rows_bind(const PyRows* t, InputChunk* chunk) noexcept:
    memset(chunk, 0, sizeof(InputChunk))
    chunk.rows = t.count
    chunk.offset.kind = INT_64 if has_offsets(t) else NO_NUMBERS
    chunk.timestamp.kind = INT_64
    chunk.offset.values, chunk.timestamp.values = t.offsets, t.timestamps
    chunk.offset.plain, chunk.timestamp.plain = has_offsets(t), True
    chunk.key.kind = chunk.value.kind = chunk.headers.key.kind = chunk.headers.value.kind = SPANS
    chunk.key.index, chunk.value.index = t.keys, t.values
    chunk.key.width = chunk.value.width = 1
    if t.pair_count == 0:
        return
    chunk.headers.kind = LISTS_64
    chunk.headers.starts = t.starts
    chunk.headers.key.index = chunk.headers.value.index = t.pairs
    chunk.headers.key.width = chunk.headers.value.width = 2        # every other span, from the first and the second
    chunk.headers.value.first = 1


cdef inline void rows_release(PyRows* t) noexcept:
    cdef int64_t i
    for i in range(t.kept_count):
        Py_DECREF(t.kept[i])
    for i in range(PARTS):
        pages_free(t.parts[i].data, t.parts[i].capacity)
    memset(t, 0, sizeof(PyRows))
