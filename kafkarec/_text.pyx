"""The compiled module that writes rows as lines of text, for `cat`: columns in, JSON Lines or CSV out.

It knows neither format: the caller has the texts and escapes. See `_c/lines.pxd`.
"""
cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AsString, PyBytes_FromStringAndSize, PyBytes_Size
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memcpy, memset

from kafkarec._c.arrow_check cimport Misfit, offsets_rise
from kafkarec._c.columns cimport Buffer, SLACK, buffer_reserve
from kafkarec._c.input_columns cimport (
    BOOL, INT_8, INT_16, INT_32, INT_64, OFFSETS_32, Span, UINT_32,
)
from kafkarec._c.lines cimport (
    AS_BASE64, AS_BOOL, AS_HEADERS, AS_HEX, AS_INT32, AS_INT64, AS_JSON, AS_NUMBER, AS_READY, AS_TEXT, AS_TIME, Escape,
    LineColumn, Lines, MOST_ESCAPED, NO_FIT, is_numeric, put_lines,
)
from kafkarec._c.status cimport OK
from kafkarec._shared cimport pages_free

_HOW = {
    "number": AS_NUMBER, "bool": AS_BOOL, "time": AS_TIME, "utf8": AS_TEXT, "json": AS_JSON, "base64": AS_BASE64,
    "hex": AS_HEX, "int32": AS_INT32, "int64": AS_INT64, "headers": AS_HEADERS, "ready": AS_READY,
}
# Arrow format -> kind and bits of a number.
_NUMBERS = {
    "l": (INT_64, 64), "i": (INT_32, 32), "s": (INT_16, 16), "c": (INT_8, 8), "I": (UINT_32, 32), "b": (BOOL, 1),
}


@cython.final
cdef class Escapes:
    """What is written for bytes of a text: {byte: text, or None if a text with it does not fit}. Others are copied."""
    cdef Escape[128] entries

    def __cinit__(self, dict texts):
        cdef int byte
        for byte in range(128):
            self.entries[byte].text[0], self.entries[byte].length = <uint8_t>byte, 1
        for byte, text in texts.items():
            if not (0 <= byte < 32 or byte in (34, 92, 127)):
                raise ValueError(f"byte {byte} is always copied")
            if text is None:
                self.entries[byte].length = NO_FIT
                continue
            if len(text) > MOST_ESCAPED:
                raise ValueError(f"{text!r} is too long")
            memcpy(self.entries[byte].text, PyBytes_AsString(text), <size_t>len(text))
            self.entries[byte].length = <uint8_t>len(text)


@cython.final
cdef class Memory:
    """The bytes of an object, which stay where they are; of None none."""
    cdef Py_buffer view

    def __cinit__(self, data):
        PyObject_GetBuffer(b"" if data is None else data, &self.view, PyBUF_SIMPLE)

    def __dealloc__(self):
        PyBuffer_Release(&self.view)


@cython.final
cdef class Formatter:
    """The columns of one call, and the lines."""
    cdef Lines out
    cdef Buffer columns          # LineColumn
    cdef Buffer texts            # of all columns, then SLACK
    cdef Buffer ready            # Span[rows] of each column that has ready texts
    cdef Buffer rows
    cdef Span end
    cdef int count
    cdef int64_t texts_used
    cdef int64_t ready_used
    cdef list kept

    def __dealloc__(self):
        pages_free(self.out.buffer.data, self.out.buffer.capacity)
        pages_free(self.columns.data, self.columns.capacity)
        pages_free(self.texts.data, self.texts.capacity)
        pages_free(self.ready.data, self.ready.capacity)

    cdef int reserve(self, list columns, bytes end, int64_t rows) except -1:
        cdef Py_ssize_t size = len(end) + SLACK
        cdef int64_t ready = 0
        for column in columns:
            size += sum(map(len, column[3]))
            ready += column[5] is not None
        if (
            buffer_reserve(&self.columns, 0, (<size_t>len(columns) + 1) * sizeof(LineColumn)) != OK
            or buffer_reserve(&self.texts, 0, <size_t>size) != OK
            or buffer_reserve(&self.ready, 0, <size_t>(ready * rows + 1) * sizeof(Span)) != OK
        ):
            raise MemoryError
        self.kept = []
        return 0

    cdef int text(self, Span* span, bytes text) except -1:
        span.data, span.length = self.texts.data + self.texts_used, PyBytes_Size(text)
        memcpy(self.texts.data + self.texts_used, PyBytes_AsString(text), <size_t>span.length)
        self.texts_used += span.length
        return 0

    cdef const uint8_t* bytes_of(self, object data, int64_t least) except? NULL:
        """The bytes of a buffer, at least so many; it is kept."""
        cdef Memory memory = Memory(data)
        if least < 0 or memory.view.len < least:
            raise ValueError(f"a buffer of {memory.view.len} bytes, {least} needed")
        self.kept.append(memory)
        return <const uint8_t*>memory.view.buf

    cdef const int32_t* ends_of(self, object data, int64_t start, int64_t stop, int64_t most) except? NULL:
        """Offsets of the rows [start, stop), which rise and are at most `most`."""
        cdef const int32_t* ends = <const int32_t*>self.bytes_of(data, (stop + 1) * 4)
        cdef Misfit misfit
        if not offsets_rise(ends + start, stop - start, &misfit) or ends[stop] > most:
            raise ValueError("offsets that fall, or end behind the data")
        return ends

    cdef const uint8_t* bits_of(self, object data, int64_t stop) except? NULL:
        if data is None:
            return NULL
        return self.bytes_of(data, (stop + 7) // 8)

    cdef int add(self, tuple column, int64_t start, int64_t stop) except -1:
        """column: (how, escapes, guard, (null, before, after, other, other_after), what, ready)."""
        cdef LineColumn* c = <LineColumn*>self.columns.data + self.count
        cdef int bits
        how, escapes, guard, texts, what, ready = column
        memset(c, 0, sizeof(LineColumn))
        self.count += 1
        c.how, c.guard = _HOW[how], guard
        if escapes is not None:
            c.escapes = (<Escapes?>escapes).entries
            self.kept.append(escapes)
        elif c.how == AS_TEXT or c.how == AS_JSON:
            raise ValueError(f"{how} without escapes")
        null, before, after, other, other_after = texts
        self.text(&c.texts.null, null)
        self.text(&c.texts.before, before)
        self.text(&c.texts.after, after)
        self.text(&c.texts.other, other)
        self.text(&c.texts.other_after, other_after)
        if ready is not None:
            self.add_ready(c, ready, start, stop)
        if is_numeric(c.how):
            format_, validity, values = what
            c.numbers.kind, bits = _NUMBERS[format_]
            c.numbers.validity = self.bits_of(validity, stop)
            c.numbers.values = self.bytes_of(values, (stop * bits + 7) // 8)
            c.numbers.plain = c.numbers.kind == INT_64 and c.numbers.validity == NULL
        elif c.how == AS_HEADERS:
            ends, count = what
            c.entries = self.ends_of(ends, start, stop, count)
        elif c.how != AS_READY:
            validity, ends, data = what
            c.cells.kind = OFFSETS_32
            c.cells.validity = self.bits_of(validity, stop)
            c.cells.data = self.bytes_of(data, 0)
            c.cells.index = self.ends_of(ends, start, stop, (<Memory>self.kept[len(self.kept) - 1]).view.len)
            c.cells.plain = c.cells.validity == NULL
        return 0

    cdef int add_ready(self, LineColumn* c, list ready, int64_t start, int64_t stop) except -1:
        cdef Span* span = <Span*>self.ready.data + self.ready_used
        if len(ready) != stop - start:
            raise ValueError(f"{len(ready)} texts for {stop - start} rows")
        c.ready, c.first_ready = span, start
        for text in ready:
            span.data, span.length = NULL, -1
            if text is not None:
                span.data, span.length = <const uint8_t*>PyBytes_AsString(text), PyBytes_Size(text)
            span += 1
        self.ready_used += stop - start
        self.kept.append(ready)
        return 0

    cdef bytes run(self, bytes end, int64_t start, int64_t stop, object rows):
        cdef const int64_t* chosen = NULL
        cdef int64_t i
        cdef int status
        self.text(&self.end, end)
        if rows is not None:
            chosen = <const int64_t*>self.bytes_of(rows, 0)
            i = (<Memory>self.kept[len(self.kept) - 1]).view.len // 8
            for row in range(i):
                if not start <= chosen[row] < stop:
                    raise ValueError(f"row {chosen[row]} of {start} to {stop}")
            start, stop = 0, i
        with nogil:
            status = put_lines(
                &self.out, <LineColumn*>self.columns.data, self.count, &self.end, start, stop, chosen
            )
        if status != OK:
            raise MemoryError
        return PyBytes_FromStringAndSize(<const char*>self.out.buffer.data, self.out.at - self.out.buffer.data)


def lines(list columns, bytes end, int64_t start, int64_t stop, rows=None):
    """The rows [start, stop) of columns as lines, each ending with `end`; rows: int64, only these of them.

    columns   tuples (how, escapes, guard, texts, what, ready)
      how       a key of _HOW
      escapes   for utf8 and json: Escapes
      guard     whether an apostrophe is put before formulas
      texts     (null, before, after, other, other_after): see `_c/lines.pxd`
      what      number, bool, time: (Arrow format, validity or None, values); headers: (offsets, number of entries),
                and the next two columns are those of the keys and values of the entries; ready: None; others:
                (validity or None, offsets, data or None)
      ready     bytes or None for each row, in a list, or None
    ValueError if a buffer is too short for the rows, or offsets are not those of the data.
    """
    cdef Formatter formatter = Formatter()
    cdef const int32_t* ends
    cdef int64_t first = 0, last = 0
    cdef int entries = 0         # columns to come that are of entries
    if not 0 <= start <= stop:
        raise ValueError(f"rows {start} to {stop}")
    formatter.reserve(columns, end, stop - start)
    for column in columns:
        if entries > 0:
            formatter.add(column, first, last)
            entries -= 1
            continue
        formatter.add(column, start, stop)
        ends = (<LineColumn*>formatter.columns.data)[formatter.count - 1].entries
        if ends != NULL:
            first, last, entries = ends[start], ends[stop], 2
    if entries > 0:
        raise ValueError("headers without the columns of their entries")
    return formatter.run(end, start, stop, rows)
