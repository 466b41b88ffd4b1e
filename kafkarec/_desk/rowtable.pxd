"""Rows of Python as a table of pointers into their bytes, which is a leaf (see `_c/sheet.pxd`).

    numbers   offsets | timestamps | starts of headers and one more         int64, a row each
    spans     keys | values                                                 address and length, a row each
    pairs     header key, header value, header key ...                      by turns, of all rows

A row is an exact tuple of exact types, so that nobody can change what is pointed into; any other is made one first
(writing/rows.py). Functions over Python objects, for the desk alone.
"""
from cpython.bytes cimport PyBytes_AsStringAndSize
from libc.stdint cimport int64_t, uint8_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memset

from kafkarec._c.batch cimport ABSENT
from kafkarec._c.sheet cimport INT_64, LISTS_64, Leaf, NO_NUMBERS, SPANS, Span

cdef extern from "Python.h":
    const char* PyUnicode_AsUTF8AndSize(object text, Py_ssize_t* size) except NULL

cdef struct RowTable:
    int64_t count
    bint has_offsets
    int64_t* numbers
    Span* spans
    Span* pairs
    int64_t room                 # of pairs, in headers


cdef inline bint plain_number(object value):
    return value is None or type(value) is int


cdef inline bint plain_bytes(object value):
    return value is None or type(value) is bytes


cdef inline bint plain_row(tuple row):
    """Whether a row can be pointed into as it is; see writing/rows.py for the others."""
    return (len(row) == 5 and plain_number(row[0]) and plain_number(row[1]) and plain_bytes(row[2])
            and plain_bytes(row[3]) and (row[4] is None or type(row[4]) is list or type(row[4]) is tuple))


cdef inline Span span_of(object value) except *:
    """Bytes, or None; somebody else keeps them alive."""
    cdef Span found
    cdef char* data = NULL
    cdef Py_ssize_t length = ABSENT
    if value is not None:
        PyBytes_AsStringAndSize(value, &data, &length)
    found.data, found.length = <const uint8_t*>data, length
    return found


cdef inline list table_fill(RowTable* t, tuple rows, object row_of, object record_type):
    """Answers what must live as long as the table: every tuple that it points into. `record_type`: Record."""
    cdef list held = [rows]
    cdef int64_t i = 0, at = 0, begin = 0, missing = 0
    cdef tuple row
    t.count = len(rows)
    t.numbers = <int64_t*>malloc(<size_t>(3 * t.count + 1) * sizeof(int64_t))
    t.spans = <Span*>malloc(<size_t>(2 * t.count + 1) * sizeof(Span))
    if t.numbers == NULL or t.spans == NULL:
        raise MemoryError
    try:
        for record in rows:
            if type(record) is record_type and not record.is_control:
                row = (record.offset, record.timestamp, record.key, record.value, record.headers)
                held.append(row)
            else:
                row = <tuple>record if type(record) is tuple else ()
            begin = at
            if not plain_row(row) or (row[4] and not take_headers(t, row[4], &at, held)):
                row, at = row_of(record, i), begin
                held.append(row)
                take_headers(t, row[4], &at, held)
            missing += row[0] is None
            t.numbers[i] = 0 if row[0] is None else row[0]
            t.numbers[t.count + i] = ABSENT if row[1] is None else row[1]
            t.numbers[2 * t.count + i] = begin
            t.spans[i] = span_of(row[2])
            t.spans[t.count + i] = span_of(row[3])
            i += 1
    except (OverflowError, UnicodeEncodeError):
        row_of(record, i, True)                # says what it was
        raise
    t.numbers[2 * t.count + i] = at
    if missing and missing != t.count:
        raise ValueError(f"{missing} of {t.count} records have no offset: all or none have one")
    t.has_offsets = missing == 0 and t.count > 0
    return held


cdef inline bint take_headers(RowTable* t, object headers, int64_t* at, list held) except -1:
    """Points at all headers of a row; False where one is not a pair of exact types. A list may be changed by others,
    so its copy is what is kept."""
    cdef tuple pairs = tuple(headers)
    held.append(pairs)
    for pair in pairs:
        if type(pair) is not tuple or len(pair) != 2 or not plain_bytes(pair[1]):
            return False
        if type(pair[0]) is not bytes and type(pair[0]) is not str:
            return False
        pairs_reserve(t, at[0])
        t.pairs[2 * at[0]] = text_of(pair[0]) if type(pair[0]) is str else span_of(pair[0])
        t.pairs[2 * at[0] + 1] = span_of(pair[1])
        at[0] += 1
    return True


cdef inline Span text_of(object text) except *:
    """UTF-8 of a str, which keeps it."""
    cdef Span found
    cdef Py_ssize_t length = 0
    found.data = <const uint8_t*>PyUnicode_AsUTF8AndSize(text, &length)
    found.length = length
    return found


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
