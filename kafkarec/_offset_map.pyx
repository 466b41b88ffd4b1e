"""The compiled module that keeps the last offset of each key, for compaction. See `_c/offset_map.pxd`."""
cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytearray cimport PyByteArray_AsString, PyByteArray_FromStringAndSize
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t

from kafkarec._c.offset_map cimport OffsetMap, Slot, offset_map_begin, offset_map_end, offset_map_latest, offset_map_put
from kafkarec._entry.one_thread cimport claim

import os


@cython.final
cdef class Columns:
    """The buffers of a binary column of keys and an int64 column of offsets, kept alive while they are read."""
    cdef Py_buffer views[4]      # validity, ends, data, offsets
    cdef int count               # of views that are filled
    cdef const uint8_t* validity
    cdef const int32_t* ends
    cdef const uint8_t* data
    cdef const int64_t* offsets

    def __cinit__(self, tuple keys, offsets, int64_t rows):
        """keys: (validity bits or None, int32 offsets, bytes or None). ValueError if they have fewer than `rows`
        rows."""
        cdef int number
        for number, part in enumerate((*keys, offsets)):
            PyObject_GetBuffer(b"" if part is None else part, &self.views[number], PyBUF_SIMPLE)
            self.count += 1
        self.validity = NULL
        if keys[0] is not None:
            self.validity = <const uint8_t*>self.views[0].buf
        self.ends, self.data = <const int32_t*>self.views[1].buf, <const uint8_t*>self.views[2].buf
        self.offsets = <const int64_t*>self.views[3].buf
        if (
            rows < 0 or self.views[1].len // 4 <= rows or self.views[3].len // 8 < rows
            or (self.validity != NULL and self.views[0].len < (rows + 7) // 8)
            or self.ends[0] < 0 or self.ends[rows] > self.views[2].len
        ):
            raise ValueError(f"the columns have fewer than {rows} rows")

    def __dealloc__(self):
        cdef int number
        for number in range(self.count):
            PyBuffer_Release(&self.views[number])


@cython.final
cdef class LastOffsets:
    """Keys and the last offset of each. Only one thread may use it at a time."""
    cdef OffsetMap table
    cdef bint busy

    def __cinit__(self):
        if not offset_map_begin(&self.table, <uint64_t>int.from_bytes(os.urandom(8), "little")):
            raise MemoryError

    def __dealloc__(self):
        offset_map_end(&self.table)

    def __len__(self):
        return <Py_ssize_t>self.table.count

    @property
    def nbytes(self):
        """Bytes of memory that the table uses."""
        return (self.table.mask + 1) * sizeof(Slot) + self.table.capacity

    def put(self, keys, offsets, int64_t rows, spans=None):
        """Adds rows in order: a later row replaces an earlier one with the same key; null keys are skipped. spans: only
        these, (first, exclusive last); None: all. MemoryError: only the first rows are added."""
        cdef Columns columns = Columns(keys, offsets, rows)
        cdef int64_t first, stop
        cdef bint added
        for first, stop in ((0, rows),) if spans is None else spans:
            if not 0 <= first <= stop <= rows:
                raise ValueError(f"rows {first} to {stop} of {rows}")
            claim(&self.busy)
            with nogil:
                added = offset_map_put(
                    &self.table, columns.ends, columns.data, columns.validity, columns.offsets, first, stop
                )
            self.busy = False
            if not added:
                raise MemoryError

    def latest(self, keys, offsets, rows):
        """One byte per row: 1 if the key has no later offset than the row's; otherwise, and without a key, 0."""
        cdef Columns columns = Columns(keys, offsets, rows)
        cdef int64_t count = rows
        cdef bytearray keep = PyByteArray_FromStringAndSize(NULL, count)
        cdef uint8_t* out = <uint8_t*>PyByteArray_AsString(keep)
        claim(&self.busy)
        with nogil:
            offset_map_latest(
                &self.table, columns.ends, columns.data, columns.validity, columns.offsets, count, out
            )
        self.busy = False
        return keep
