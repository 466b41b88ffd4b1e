"""Rows of Python as a table of pointers into their bytes, which is a leaf (see `_c/sheet.pxd`).

    numbers   offsets | timestamps | starts of headers and one more         int64, a row each
    spans     keys | values                                                 address and length, a row each
    pairs     header key, header value, header key ...                      by turns, of all rows

A row is an exact tuple of exact types, so that nobody can change what is pointed into; any other is made one first
(writing/rows.py). Functions over Python objects, for the desk alone.
"""
from cpython.ref cimport PyObject
from libc.stdint cimport int64_t, uint8_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memset

from kafkarec._c.batch cimport ABSENT
from kafkarec._c.sheet cimport INT_64, LISTS_64, Leaf, NO_NUMBERS, SPANS, Span

cdef extern from *:
    """
    /* A number or None; 0 where it is neither, or too large. */
    static inline int kr_row_number(PyObject *o, int64_t *out) {
        long long n;
        if (o == Py_None) return 1;
        if (!PyLong_CheckExact(o)) return 0;
        n = PyLong_AsLongLong(o);
        if (n == -1 && PyErr_Occurred()) { PyErr_Clear(); return 0; }
        *out = n;
        return 1;
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
    """
    bint kr_row_number(PyObject* number, int64_t* out)
    bint kr_row_bytes(PyObject* bytes_, const uint8_t** data, int64_t* length)
    bint kr_row_text(PyObject* text, const uint8_t** data, int64_t* length)

cdef extern from "Python.h":
    PyObject* PyTuple_GetItem(object row, Py_ssize_t i)      # borrowed

cdef struct RowTable:
    int64_t count
    int64_t missing              # offsets
    bint has_offsets
    int64_t* numbers
    Span* spans
    Span* pairs
    int64_t room                 # of pairs, in headers


cdef inline list table_fill(RowTable* t, tuple rows, object ways):
    """Answers what must live as long as the table: every tuple that it points into. `ways`: see writing/rows.py."""
    cdef list held = [rows]
    cdef int64_t i = 0, at = 0
    cdef tuple row
    row_of, record_type, fields_of, names = ways
    t.count = len(rows)
    t.numbers = <int64_t*>malloc(<size_t>(3 * t.count + 1) * sizeof(int64_t))
    t.spans = <Span*>malloc(<size_t>(2 * t.count + 1) * sizeof(Span))
    if t.numbers == NULL or t.spans == NULL:
        raise MemoryError
    for record in rows:
        row = ()
        if type(record) is tuple:
            row = record if len(record) == 5 else ()
        elif type(record) is record_type:
            row = fields_of(record)
            held.append(row)
        elif type(record) is dict:
            row = row_of_dict(record, names)
            held.append(row)
        t.numbers[2 * t.count + i] = at
        if not take_row(t, i, row, &at, held):
            at = t.numbers[2 * t.count + i]
            row = row_of(record, i)
            held.append(row)
            take_row(t, i, row, &at, held)
        i += 1
    t.numbers[2 * t.count + i] = at
    if t.missing and t.missing != t.count:
        raise ValueError(f"{t.missing} of {t.count} records have no offset: all or none have one")
    t.has_offsets = t.missing == 0 and t.count > 0
    return held


cdef inline tuple row_of_dict(dict record, object names):
    """The five fields, whatever else there is left to others."""
    cdef tuple row = (
        record.get("offset"), record.get("timestamp"), record.get("key"), record.get("value"), record.get("headers"),
    )
    for name in record:
        if name not in names:
            return ()
    return row


cdef inline bint take_row(RowTable* t, int64_t i, tuple row, int64_t* at, list held) except -1:
    """Points at the parts of a row; False where it is not one of exact types. A sixth field says whether it is control.
    """
    cdef Span* key = t.spans + i
    cdef Span* value = t.spans + t.count + i
    cdef PyObject* headers
    if len(row) < 5 or len(row) > 6 or (len(row) == 6 and row[5] is not False):
        return False
    t.numbers[i] = 0
    t.numbers[t.count + i] = ABSENT
    if not (kr_row_number(PyTuple_GetItem(row, 0), t.numbers + i)
            and kr_row_number(PyTuple_GetItem(row, 1), t.numbers + t.count + i)
            and kr_row_bytes(PyTuple_GetItem(row, 2), &key.data, &key.length)
            and kr_row_bytes(PyTuple_GetItem(row, 3), &value.data, &value.length)):
        return False
    headers = PyTuple_GetItem(row, 4)
    if <object>headers and not take_headers(t, <object>headers, at, held):
        return False
    t.missing += PyTuple_GetItem(row, 0) == <PyObject*>None
    return True


cdef inline bint take_headers(RowTable* t, object headers, int64_t* at, list held) except -1:
    """Points at all headers of a row; False where one is not a pair of exact types. A list may be changed by others,
    so its copy is what is kept."""
    cdef tuple pairs
    cdef Span* key
    if type(headers) is not list and type(headers) is not tuple:
        return False
    pairs = tuple(headers)
    held.append(pairs)
    for pair in pairs:
        if type(pair) is not tuple or len(pair) != 2:
            return False
        pairs_reserve(t, at[0])
        key = t.pairs + 2 * at[0]
        if not (kr_row_text(PyTuple_GetItem(pair, 0), &key.data, &key.length)
                and kr_row_bytes(PyTuple_GetItem(pair, 1), &key[1].data, &key[1].length)):
            return False
        at[0] += 1
    return True


cdef inline int pairs_reserve(RowTable* t, int64_t at) except -1:
    cdef Span* more
    if at == t.room:
        t.room = 2 * t.room + 64
        more = <Span*>realloc(t.pairs, <size_t>(2 * t.room) * sizeof(Span))
        if more == NULL:
            raise MemoryError
        t.pairs = more
    return 0


cdef inline void table_bind(const RowTable* t, Leaf* leaf) noexcept:
    memset(leaf, 0, sizeof(Leaf))
    leaf.rows = t.count
    leaf.offset.kind = INT_64 if t.has_offsets else NO_NUMBERS
    leaf.timestamp.kind = INT_64
    leaf.offset.values, leaf.timestamp.values = t.numbers, t.numbers + t.count
    leaf.offset.plain, leaf.timestamp.plain = t.has_offsets, True
    leaf.key.kind = leaf.value.kind = leaf.headers.key.kind = leaf.headers.value.kind = SPANS
    leaf.key.index, leaf.value.index = t.spans, t.spans + t.count
    leaf.key.width = leaf.value.width = 1
    leaf.headers.kind = LISTS_64
    leaf.headers.starts = t.numbers + 2 * t.count
    leaf.headers.key.index = leaf.headers.value.index = t.pairs
    leaf.headers.key.width = leaf.headers.value.width = 2        # every other span, from the first and the second
    leaf.headers.value.first = 1


cdef inline void table_give(RowTable* t) noexcept:
    free(t.numbers)
    free(t.spans)
    free(t.pairs)
