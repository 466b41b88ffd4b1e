"""The compiled module that reads: takes buffers, runs the functions of `_c` without the GIL, returns Python objects.

The parsing is done in `_c`. This module keeps buffers alive, calls codecs, converts statuses to exceptions, and makes
Arrow capsules. It has what the process has once and the other compiled modules call (`_core.pxd`): recycled pages, C
functions of other libraries.
"""
cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_FillInfo, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytearray cimport PyByteArray_AsString
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.exc cimport PyErr_CheckSignals
from cpython.pycapsule cimport PyCapsule_New
from cpython.ref cimport Py_DECREF, Py_INCREF, PyObject, PyTypeObject
from libc.stdint cimport (
    INT32_MAX, INT64_MAX, INT64_MIN, int8_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t, uintptr_t,
)
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy, memset

from kafkarec._c.arrow cimport (
    FIXED, HEADERS, ArrowArray, ArrowArrayStream, ArrowSchema, Column, Storage, StorageSlice, StreamState, TableSchema,
    count_up, new_stream, schema_drop, storage_drop,
)
from kafkarec._c.output_columns cimport (
    OUT_CONTROL_TYPE, OUT_OFFSET, OUT_SEQUENCE, Constants, sequence_of, storage_fill, storage_new, wants_of,
)
from kafkarec._c.audit cimport PAYLOAD_NO_STREAM, RECORDS_NOT_DECLARED, Note, note, note_stream
from kafkarec._c.batch cimport (
    ABSENT, BATCH_MAGIC, CODEC_MASK, LARGEST_HEADER, LOG_OVERHEAD, MAGIC_OFFSET,
    UP_TO_MAGIC, V2_ATTRIBUTES_OFFSET, BatchRow, is_control as is_control_batch, is_wrapper,
    wrapping_add, wrapping_subtract,
)
from kafkarec._c.columns cimport (
    WANT_HEADERS, WANT_KEY, WANT_OFFSET, WANT_TIMESTAMP, WANT_VALUE, WANT_VIEWS, Buffer, Bytes, Columns,
    Run, buffer_free, buffer_free_above, buffer_reserve, columns_begin, columns_release, columns_reserve,
    columns_truncate, is_set,
)
from kafkarec._c.decode cimport (
    NO_CHECKS, NO_PAYLOADS, Engine, Options, engine_begin_chunk, engine_decode, engine_run, engine_step,
    payload_limit,
)
from kafkarec._c.end_of_input cimport (
    ENDED, ENDED_UNLESS_FOUND, Ending, end_by_content, engine_begin_input, engine_ended, engine_skip, save_good_next,
    unreadable_before,
)
from kafkarec._c.input cimport ByteReader, Input, input_begin_memory, input_begin_reader, reach, unreadable_end
from kafkarec._c.checksums cimport checksums_prepare, crc32_routine, crc32c_routine, isal_is_faster
from kafkarec._c.compress cimport kr_publish
from kafkarec._c.decompress cimport DecompressContext, decompress_payload, decompress_release, xxh32
from kafkarec._c.resync cimport (
    MAX_ANCHOR_BYTES, NEXT_BATCH, NO_WITNESS, Candidate, DamageEnd, chain_continues, cut_follows, is_on_chain,
    is_valid_batch, peek_batch, peek_plausible, search_forward,
)
from kafkarec._c.status cimport (
    CHUNK_FULL, HEADER_DOUBTFUL, LENGTH_BEYOND_END, LIMIT_EXCEEDED, NEEDS_CODEC, OK, OUT_OF_MEMORY, PAYLOAD_CORRUPT,
    UNREADABLE, length_is_proven,
)
from kafkarec._c.pages cimport pool_free, pool_survive_forks, pool_take, pool_trim
from kafkarec._c.row_checks cimport (
    FAR, ORDER, TIME_ORDER, EntryCursor, IndexProblem, IndexState, RowState, batch_hash, check_rows, fits_one_batch,
    pass_matching_entries,
)
from kafkarec._c.offset_map cimport offset_map_begin, offset_map_end
from kafkarec._c.producer_table cimport (
    ABORT, COMMIT, DUPLICATE, NOTHING, READER, BatchMark, EndedTxn, KeptBatch, Markers, Oddity, Producer, ProducerTable,
    Transaction, add_open, begin_rows, data_mark_code, keep_batch, known_producer, producer_at, producer_or_new,
    producers_reserve, remove_open, set_mark, set_without_data, take_batch, violation_of,
)
from kafkarec._c.input_columns cimport (
    Cells, Numbers, Span, cell,
)
from kafkarec._c.numbers cimport put_i64, put_u32
from kafkarec._entry.arrow_capsules cimport (
    ArrayOrigin, bind_cells, capsule_pointer, drop_stream, list_capsule, pack_schema, schema_capsule,
)
from kafkarec._entry.arguments cimport fill_options, open_reader
from kafkarec._entry.calls cimport (
    DECODE_OPTIONS, PyMethodDef, acquire_gil, claim, fast_function, fault_fields, made_before, reasons_by_status,
    release_gil, with_latest,
)
from kafkarec._entry.py_columns cimport (
    PyObject_GC_UnTrack, RecordView, batch_value, bytes_at, bytes_of, cells_of, headers_at, int_at, new_texts,
    numbers_of, record_view, untracked,
)

cdef extern from *:
    int CYTHON_HEX "CYTHON_HEX_VERSION"
    void PyObject_GC_Track(PyObject* o)

import os
from atexit import register

from kafkarec._checksum import find
from kafkarec.damage import Restored, damage_from_entries, error, why_unreadable

cdef enum:
    ORDER_WINDOW = 64            # good batches that offset_order compares with one that was found
    MOST_IDLE = 4                # Decoders of a request that are kept for the next input
    MOST_KEPT = 1 << 20          # bytes of the buffers of each
    MOST_CONTENT = 4 << 20       # bytes of a payload that are decompressed at once for Python
    MOST_LISTED = 4096           # Records that are made at once
    MOST_LISTED_BYTES = 64 << 10         # of their keys, values and headers, if the columns are kept for the next input
    # what is read, and shaped, without releasing the GIL: that takes as long as a small batch
    SMALL_INPUT = 32 << 10       # bytes
    SMALL_CHUNK = 512            # rows

CYTHON_VERSION = "%d.%d.%d" % (CYTHON_HEX >> 24, CYTHON_HEX >> 16 & 255, CYTHON_HEX >> 8 & 255)

_REASONS = reasons_by_status()


# ---- what the process has once

@cython.final
cdef class HeldBytes:            # without Python attributes: see Source
    """The bytes of an object, which stay where they are; of None none."""

    def __cinit__(self, source, int flags=PyBUF_SIMPLE):
        PyObject_GetBuffer(b"" if source is None else source, &self.view, flags)
        self.data, self.size = <uint8_t*>self.view.buf, self.view.len

    def __dealloc__(self):
        PyBuffer_Release(&self.view)


pool_survive_forks()


cdef uint8_t* pages_take(size_t n, size_t* capacity) noexcept nogil:
    """A buffer of `n` bytes or more, or NULL; capacity: of how many, an even number."""
    return pool_take(n, capacity)


cdef void pages_free(uint8_t* p, size_t capacity) noexcept nogil:
    """Does nothing for NULL, nor for an odd capacity: of what is a part of a page."""
    pool_free(p, capacity)


def release_pages():
    """Frees the recycled buffers and returns their size in bytes. Buffers of columns in use are kept."""
    return pool_trim()


checksums_prepare()
ROUTINES = find(isal_is_faster())
checksums.small = crc32c_routine(ROUTINES.small.library == "isal", ROUTINES.small.address)
checksums.large = crc32c_routine(ROUTINES.large.library == "isal", ROUTINES.large.address)
checksums.crc32 = crc32_routine(ROUTINES.crc32.address)


def crc32c(data, uint32_t crc=0):
    """CRC-32C (Castagnoli) of a buffer; crc: the checksum of the bytes before it."""
    cdef HeldBytes held = HeldBytes(data)
    with nogil:
        crc = crc32c_on(crc, held.data, <size_t>held.size)
    return crc


def crc32(data, uint32_t crc=0):
    """CRC-32 (IEEE) of a buffer; crc: the checksum of the bytes before it."""
    cdef HeldBytes held = HeldBytes(data)
    with nogil:
        crc = crc32_on(crc, held.data, <size_t>held.size)
    return crc


def install_codec(int codec_id, addresses):
    """Keeps the addresses of a codec's C functions, in the order of their struct in `_c/compress.pxd`; none: the
    core's own are turned on. See codecs/native.py."""
    cdef size_t* functions = <size_t*>malloc((len(addresses) + 1) * sizeof(size_t))       # for good
    if functions == NULL:
        raise MemoryError
    for i, address in enumerate(addresses):
        functions[<size_t>i] = address
    kr_publish(&codec_functions[codec_id & 7], functions)


@cython.final
cdef class PayloadDecompressor:
    """Decompresses usual payloads by the C functions of the codecs; for one thread."""
    cdef DecompressContext context

    def __dealloc__(self):
        decompress_release(&self.context)

    def run(self, int8_t codec, payload, int64_t limit, int8_t magic):
        """The content; None: it has more bytes than MOST_CONTENT, or the payload is not of the usual form. See
        `_c/decompress.pxd`."""
        cdef HeldBytes held = HeldBytes(payload)
        cdef DecompressContext* context = &self.context
        cdef int status
        with nogil:
            status = decompress_payload(context, codec, held.data, held.size, magic,
                                        min(limit, <int64_t>MOST_CONTENT))
        content = None
        if status == OK:
            content = PyBytes_FromStringAndSize(<const char*>context.out.data, context.length)
        buffer_free_above(&self.context.out, MOST_KEPT)
        return content


def hash_of_batch(int64_t last_offset, uint32_t crc, int64_t size):
    """32 bits by which a batch that was written is compared with the one that was planned."""
    return batch_hash(last_offset, crc, size)


def xxh32_of(data):
    """XXH32 with seed 0 of a buffer."""
    cdef HeldBytes held = HeldBytes(data)
    return xxh32(held.data, held.size)


# ---- bytes of callers, and memory that they keep

@cython.final
@cython.no_gc                    # or the collector clears a memoryview of which this holds the buffer: CPython crashes
cdef class Source:
    """Keeps a caller's buffer, or a file (see `_entry/arguments.pxd`), alive."""
    cdef Py_buffer view
    cdef ByteReader reader
    cdef readonly int64_t size
    cdef list reading                    # [file, the exception that ended reading or None]; None: no file

    def __cinit__(self, data=None, *, file=None):
        if file is None:
            PyObject_GetBuffer(data, &self.view, PyBUF_SIMPLE)
            self.size = self.view.len
            return
        self.reading, self.size = [file, None], file.size
        open_reader(&self.reader, self.reading)

    def __dealloc__(self):
        PyBuffer_Release(&self.view)

    @property
    def memory(self):
        """A memoryview of the bytes; empty for a file."""
        return memory_of(self, self.view.buf, self.view.len, self.view.readonly)

    @property
    def is_shareable(self):
        """Whether several threads may read it at once: memory and open files, but no Python object."""
        return self.reading is None or self.reader.descriptor >= 0

    cdef int raise_if_failed(self) except -1:
        """Raises the exception that ended reading, and forgets it: its traceback has frames that have this object."""
        if self.reading is not None and self.reading[1] is not None:
            raised, self.reading[1] = self.reading[1], None
            raise raised
        return 0


@cython.final
cdef class BorrowedMemory:
    """Bytes in the memory of another object, which it keeps alive; for memoryview()."""
    cdef object owner
    cdef const void* start
    cdef int64_t length
    cdef bint is_readonly

    def __getbuffer__(self, Py_buffer* view, int flags):
        PyBuffer_FillInfo(view, self, <void*>self.start, self.length, self.is_readonly, flags)
        Py_DECREF(None)                  # a reference in view.obj, by Cython, which was overwritten


cdef object memory_of(object owner, const void* start, int64_t length, bint is_readonly=True):
    """A memoryview of `length` bytes in the memory of `owner`."""
    cdef BorrowedMemory view = BorrowedMemory.__new__(BorrowedMemory)
    view.owner, view.start, view.length, view.is_readonly = owner, start, length, is_readonly
    return memoryview(view)


cdef bint _ending = False


@register
def note_exit():
    global _ending
    _ending = True


cdef void release_source(void* source) noexcept nogil:
    """For Storage.release_owner. The buffer stays when the interpreter ends: a thread may not get the GIL any more."""
    if not _ending:
        drop_reference(source)


cdef void drop_reference(void* source) noexcept with gil:
    Py_DECREF(<object>source)


@cython.final
cdef class BinaryArray:
    """The values of a foreign Arrow array of binary or utf8, as memoryviews or None."""
    cdef object array
    cdef Cells cells
    cdef int64_t count

    def __cinit__(self, schema, array):
        cdef const ArrowSchema* s = <const ArrowSchema*>capsule_pointer(schema, b"arrow_schema")
        cdef const ArrowArray* a = <const ArrowArray*>capsule_pointer(array, b"arrow_array")
        cdef ArrayOrigin origin = ArrayOrigin(False, 0)
        bind_cells(&self.cells, "values", s, a, 0, 0, a.length, &origin)
        self.array, self.count = array, a.length

    def __len__(self):
        return self.count

    def __getitem__(self, int64_t i):
        cdef Span value
        if not 0 <= i < self.count:
            raise IndexError(i)
        value = cell(&self.cells, i)
        return None if value.length < 0 else memory_of(self, value.data, value.length)


# ---- records

@cython.final
cdef class Record:
    """One record. A field whose column is not in `columns` is None (headers: empty).

    timestamp: int    milliseconds since 1970-01-01 UTC, None for -1
    headers           list of (key, value or None), in order, with repeated keys
    sequence: int     the producer's, None without a producer
    """
    # Until its headers are asked for as a list, a record that was read cannot be in a cycle, and is not tracked: the
    # collector's look at many takes a third of the time to make them.

    __match_args__ = ("offset", "timestamp", "timestamp_type", "key", "value", "headers", "sequence", "is_control")

    def __init__(self, offset, timestamp, timestamp_type, key, value, headers, sequence=None, is_control=False):
        self.offset, self.timestamp, self.timestamp_type, self.key, self.value = \
            offset, timestamp, timestamp_type, key, value
        self.pairs, self.sequence, self.is_control = list(headers), sequence, is_control

    @property
    def headers(self):
        """The list of (key, value or None)."""
        pairs = self.pairs
        if type(pairs) is tuple:
            made = list(<tuple>pairs)           # the collector may run, and other threads, which read it as well
            if self.pairs is pairs:
                self.pairs = made
                PyObject_GC_Track(<PyObject*>self)
        return <list>self.pairs

    @property
    def datetime(self):
        """The timestamp, aware and in UTC; None outside of the years 1 to 9999."""
        from datetime import UTC, datetime, timedelta            # not at the top, as `parse` below
        if self.timestamp is None:
            return None
        try:
            return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=self.timestamp)
        except OverflowError:
            return None

    @property
    def control(self):
        """The typed control record, None for data. InvalidRecordError if it cannot be read, ValueError if the column
        key or value was not."""
        if not self.is_control:
            return None
        if self.unread:
            missing = ["key"] * bool(self.unread & WANT_KEY) + ["value"] * bool(self.unread & WANT_VALUE)
            names = " and ".join(missing)
            raise ValueError(f"control needs the columns key and value, and columns= leaves out {names}")
        from kafkarec.format.control import parse   # not at the top: a seventh of `import kafkarec`
        return parse(self.key, self.value)

    def __eq__(self, other):
        if not isinstance(other, Record):
            return NotImplemented
        return fields_of(self) == fields_of(<Record>other)

    def __hash__(self):
        return hash((self.offset, self.timestamp, self.key, self.value))

    def __reduce__(self):
        return (Record, fields_of(self), self.unread) if self.unread else (Record, fields_of(self))

    def __setstate__(self, unread):
        self.unread = unread

    def __repr__(self):
        pairs = zip(self.__match_args__, fields_of(self), strict=True)
        return f"Record({', '.join([f'{name}={value!r}' for name, value in pairs])})"


cdef tuple fields_of(Record record):
    return (record.offset, record.timestamp, record.timestamp_type, record.key, record.value, record.headers,
            record.sequence, record.is_control)


cdef extern from "structmember.h":
    ctypedef struct PyMemberDef:
        const char* name
        int type
        Py_ssize_t offset
        int flags
    int T_OBJECT_EX
    int READONLY
    object PyDescr_NewMember(PyTypeObject* type_, PyMemberDef* definition)

cdef const char* _names[6]
_names[:] = [b"offset", b"timestamp", b"timestamp_type", b"key", b"value", b"sequence"]
cdef PyMemberDef[6] _members


cdef int use_member_descriptors() except -1:
    """Replaces Cython's getters of Record's objects by members, as `__slots__` has: the interpreter reads them without
    a call. Where an object is in a Record is looked for in one that has a different object in each field."""
    cdef Record probe = Record(object(), object(), object(), object(), object(), (), object())
    cdef PyObject** words = <PyObject**><PyObject*>probe
    cdef Py_ssize_t count = <Py_ssize_t>Record.__basicsize__ // <Py_ssize_t>sizeof(PyObject*), n, i
    for n in range(6):
        name = _names[n].decode()
        value = getattr(probe, name)
        found = [i for i in range(count) if words[i] == <PyObject*>value]
        if len(found) != 1:
            return 0
        _members[n].name, _members[n].offset = _names[n], found[0] * sizeof(PyObject*)
        _members[n].type, _members[n].flags = T_OBJECT_EX, READONLY
        setattr(Record, name, PyDescr_NewMember(<PyTypeObject*>Record, _members + n))
    return 0


use_member_descriptors()


# ---- columns and batches

@cython.final
cdef class Layout:
    """Names, types and codes of the columns of a table, as C structs.

    ticks                of the records' timestamps, in a millisecond
    binary_header_keys   header keys as they are, not as Java decodes them
    """
    cdef TableSchema* table_schema
    cdef int* codes
    cdef int64_t count, ticks
    cdef uint32_t want, shown            # shown: those of `want` that are columns themselves
    cdef bint has_sequences              # Records have sequences, which are counted by their offsets
    cdef readonly object schema
    cdef readonly bint binary_header_keys

    def __cinit__(self, schema, int64_t ticks=1, bint binary_header_keys=False):
        self.schema, self.ticks, self.binary_header_keys = schema, ticks, binary_header_keys
        self.count = len(schema)
        self.codes = <int*>calloc(<size_t>self.count + 1, sizeof(int))
        if self.codes == NULL:
            raise MemoryError
        self.table_schema = pack_schema(schema, binary_header_keys, self.codes, &self.want)
        for i in range(self.count):
            if self.codes[i] not in (OUT_SEQUENCE, OUT_CONTROL_TYPE):
                self.shown |= wants_of(self.codes[i])
            self.has_sequences = self.has_sequences or self.codes[i] in (OUT_OFFSET, OUT_SEQUENCE)

    def __dealloc__(self):
        schema_drop(self.table_schema)
        free(self.codes)

    def schema_capsule(self, bint lists=False):
        """A new arrow_schema capsule: a struct of the columns, or with `lists` a list of structs."""
        return schema_capsule(self.table_schema, lists)

    def stream_capsule(self, list pieces):
        """A new arrow_array_stream capsule. pieces: tuples (Chunk, first row, exclusive last row)."""
        cdef ArrowArrayStream* stream = new_stream(self.table_schema, len(pieces))
        cdef StreamState* state
        cdef Chunk chunk
        if stream == NULL:
            raise MemoryError
        state = <StreamState*>stream.private_data
        for chunk, start, stop in pieces:
            count_up(&chunk.storage.references)
            state.slices[state.count] = StorageSlice(chunk.storage, start, stop)
            state.count += 1
        return PyCapsule_New(stream, b"arrow_array_stream", drop_stream)


cdef Constants _no_constants
_no_constants.partition = ABSENT


@cython.final
cdef class BatchRows:
    """A finished batch table of BatchRow structs, from which chunks of records and of batches are made."""
    cdef Buffer buffer
    cdef Buffer notes
    cdef int64_t note_count
    cdef readonly int64_t count
    cdef dict details

    def __dealloc__(self):
        buffer_free(&self.buffer)
        buffer_free(&self.notes)

    def __len__(self):
        return self.count

    @property
    def note_details(self):
        """Index of a batch -> the text of its note."""
        return self.details or {}

    cdef BatchRow* at(self, int64_t i) noexcept:
        return <BatchRow*>self.buffer.data + i

    cdef int check_row_range(self, int64_t start, int64_t stop) except -1:
        if not 0 <= start <= stop <= self.count:
            raise ValueError(f"batches {start} to {stop} of {self.count}")
        return 0

    def byte_range(self, int64_t i):
        """Where a batch begins and ends."""
        self.check_row_range(i, i + 1)
        return self.at(i).position, self.at(i).position + self.at(i).size_in_bytes

    def value(self, Layout layout not None, int64_t i, int64_t column):
        """One column of a batch; the layout is that of the batch table."""
        self.check_row_range(i, i + 1)
        return batch_value(self.at(i), layout.codes[column])

    def dicts(self, Layout layout not None, int64_t start, int64_t stop):
        """The batches [start, stop), each as a dict of the columns of the batch table, whose layout this is."""
        self.check_row_range(start, stop)
        cdef list names = layout.schema.names
        cdef list found = []
        cdef dict fields
        cdef int64_t i, n
        for i in range(start, stop):
            fields = {}
            for n in range(layout.count):
                fields[names[n]] = batch_value(self.at(i), layout.codes[n])
            found.append(fields)
        return found

    def audit_notes(self):
        """Six int64 a note of `_c/audit.pxd`, by batch: index of the batch, kind, count, three numbers."""
        return memory_of(self, self.notes.data, self.note_count * <int64_t>sizeof(Note))

    cdef Markers markers(self, Chunk chunk) except *:
        """The records of control batches, for `_c/producer_table.pxd`. None: there are none."""
        cdef Markers found
        cdef uint32_t both = WANT_KEY | WANT_VALUE
        memset(&found, 0, sizeof(Markers))
        if chunk is not None:
            found.columns = &chunk.storage.columns
            if chunk.rows is not self or found.columns.want & (both | WANT_VIEWS) != both:
                raise ValueError("copied keys and values of these batches are needed")
            found.run, found.left = <const Run*>found.columns.runs.data, found.columns.run_count
        return found

    def end_markers(self, Chunk chunk):
        """{(producer id, last offset)} of the ABORT and COMMIT markers. chunk: as in Producers.take."""
        cdef Markers markers = self.markers(chunk)
        cdef BatchRow* row
        cdef BatchMark mark
        cdef int64_t i
        cdef set found = set()
        for i in range(self.count):
            row = self.at(i)
            set_mark(&mark, row, i, &markers)
            if mark.code == ABORT or mark.code == COMMIT:
                found.add((row.producer_id, row.last_offset))
        return found

    def match_entries(self, places, values, int64_t at, last, largest, int64_t base, bint by_time):
        """(next entry, last offset, largest timestamp) after these batches, if the entries of an index from `at` on are
        theirs; None: one is not. See `_c/row_checks.pxd`.

        places, values: arrays of int64, the fields of the entries; last, largest: before these batches, or None
        """
        cdef const int64_t[::1] of_places = places, of_values = values
        cdef int64_t entries = len(of_places)
        cdef const BatchRow* rows = self.at(0)
        cdef EntryCursor cursor
        cdef bint usual
        if len(of_values) != entries or not 0 <= at <= entries:
            raise ValueError(f"entry {at} of {entries} and {len(of_values)}")
        cursor.at, cursor.any = at, last is not None
        cursor.last = 0 if last is None else last
        cursor.largest = INT64_MIN if largest is None else largest
        with nogil:
            usual = pass_matching_entries(&cursor, rows, self.count, &of_places[0] if entries else NULL,
                                          &of_values[0] if entries else NULL, entries, base, by_time)
        return (cursor.at, cursor.last, cursor.largest) if usual else None

    def are_adjacent(self):
        """Whether each batch follows the one before in bytes and offsets, with the same leader epoch, and all have a
        record for each of their offsets."""
        cdef const BatchRow* row
        cdef int64_t i
        for i in range(self.count):
            row = self.at(i)
            if row.record_count != row.last_offset - row.base_offset + 1:
                return False
            if i and (row.position != self.at(i - 1).position + self.at(i - 1).size_in_bytes
                      or row.base_offset != self.at(i - 1).next_offset
                      or row.partition_leader_epoch != self.at(i - 1).partition_leader_epoch):
                return False
        return True

    def rise_from(self, int64_t next_offset):
        """Whether the first batch begins at this offset or above, and each other one behind the one before."""
        cdef const BatchRow* row
        cdef int64_t i
        for i in range(self.count):
            row = self.at(i)
            if row.base_offset < next_offset:
                return False
            next_offset = row.next_offset
        return True

    def convert_units(self, Chunk chunk):
        """[(index of its first batch, number of batches, number of rows), ...] of what `convert` takes as one: adjacent
        plain messages that one batch can hold, and each other batch. chunk: the records, or None"""
        cdef const Run* run = NULL
        cdef int64_t left = 0, i, first = 0, rows = 0
        cdef list found = []
        if chunk is not None:
            run, left = <const Run*>chunk.storage.columns.runs.data, chunk.storage.columns.run_count
        for i in range(self.count):
            if i and not fits_one_batch(self.at(first), self.at(i - 1), self.at(i)):
                found.append((first, i - first, rows))
                first, rows = i, 0
            while left > 0 and run.batch == i:
                rows += run.rows
                run += 1
                left -= 1
        if self.count:
            found.append((first, self.count - first, rows))
        return found

    def hash_sum(self):
        """The sum of `hash_of_batch` of the batches."""
        cdef uint64_t found = 0
        cdef int64_t i
        for i in range(self.count):
            found += batch_hash(self.at(i).last_offset, self.at(i).crc, self.at(i).size_in_bytes)
        return found

    def first_lower_epoch(self, int64_t highest):
        """(the index of the first batch with a leader epoch below the highest of the ones before it, the highest one up
        to it); if there is none, (None, the highest of all). highest: of the batches before these, -1 or above"""
        cdef int64_t i
        for i in range(self.count):
            if self.at(i).partition_leader_epoch != ABSENT and self.at(i).partition_leader_epoch < highest:
                return i, highest
            highest = max(highest, <int64_t>self.at(i).partition_leader_epoch)
        return None, highest

    def stamp(self, bytearray data not None, int64_t next_offset, int32_t epoch, int32_t blank_epoch):
        """Sets header fields of the batches, here and in the bytes that they were read from: the offsets from
        `next_offset` on, but for wrappers, which have them in their payloads; the leader epoch, or `blank_epoch` where
        there is none. -1: as they are. Returns the next offset."""
        cdef uint8_t* raw
        cdef BatchRow* row
        cdef int64_t i, moved
        for i in range(self.count):
            row = self.at(i)
            if row.size_in_bytes > len(data) - row.position:
                raise ValueError(f"{len(data)} bytes do not have the batch at {row.position}")
            raw = <uint8_t*>PyByteArray_AsString(data) + row.position
            if next_offset >= 0 and not is_wrapper(row):
                moved = wrapping_subtract(next_offset, row.base_offset)
                put_i64(raw, next_offset)
                row.base_offset = row.first_offset = next_offset
                row.last_offset = wrapping_add(row.last_offset, moved)
                next_offset = row.next_offset = wrapping_add(row.next_offset, moved)
            if row.magic >= BATCH_MAGIC and (epoch >= 0 or row.partition_leader_epoch < 0 <= blank_epoch):
                row.partition_leader_epoch = epoch if epoch >= 0 else blank_epoch
                put_u32(raw + LOG_OVERHEAD, <uint32_t>row.partition_leader_epoch)
        return next_offset

    def as_chunk(self, Layout layout not None):
        """All rows as one Chunk: the batch table."""
        cdef Chunk chunk = Chunk.__new__(Chunk)
        cdef Columns columns
        cdef Run* runs
        cdef int64_t i
        memset(&columns, 0, sizeof(Columns))
        columns.rows = self.count
        columns.run_count = self.count
        if buffer_reserve(&columns.runs, 0, <size_t>(self.count + 1) * sizeof(Run)) != 0:
            raise MemoryError
        runs = <Run*>columns.runs.data
        for i in range(self.count):
            runs[i].batch = i
            runs[i].rows = 1
        chunk.rows = self
        chunk.adopt(&columns, layout, self.at(0), &_no_constants, None)
        return chunk


cdef const void* batch_structs(object rows, int64_t* count) except? NULL:
    """Of BatchRows."""
    count[0] = (<BatchRows?>rows).count
    return (<BatchRows>rows).at(0)


cdef list records_of(const Columns* columns, const BatchRow* rows, Layout layout, int64_t start, int64_t stop):
    """The rows [start, stop) of decoded columns as Records. rows: the batches of its runs."""
    cdef RecordView view = record_view(columns, start, stop, layout.shown, layout.ticks, layout.binary_header_keys)
    cdef const Run* runs = <const Run*>columns.runs.data
    cdef const int64_t* offsets = columns.offset if layout.has_sequences else NULL
    cdef const BatchRow* batch
    cdef int64_t run = 0, i, end = runs[0].rows if start < stop else 0
    cdef list found = [], texts = new_texts(columns)
    cdef Record record
    cdef int32_t sequence
    for i in range(start, stop):
        while i >= end:
            run += 1
            end += runs[run].rows
        batch = rows + runs[run].batch
        record = Record.__new__(Record)
        record.offset, record.timestamp = int_at(&view.offset, i), int_at(&view.timestamp, i)
        record.timestamp_type = None
        if view.timestamp_type != NULL and view.timestamp_type[i] >= 0:
            record.timestamp_type = view.timestamp_type[i]
        record.key, record.value = bytes_at(&view, view.key, i), bytes_at(&view, view.value, i)
        record.pairs = headers_at(&view, i, texts)
        sequence = ABSENT if offsets == NULL else sequence_of(batch, offsets[i])
        record.sequence = None if sequence == ABSENT else sequence
        record.is_control = is_control_batch(batch)
        record.unread = (WANT_KEY | WANT_VALUE) & ~layout.shown
        PyObject_GC_UnTrack(<PyObject*>record)
        found.append(record)
    return found


cdef const void* storage_of(object chunk, int64_t start, int64_t stop) except NULL:
    """Of a Chunk that has the rows [start, stop)."""
    cdef Storage* storage = (<Chunk?>chunk).storage
    if not 0 <= start <= stop <= storage.rows:
        raise ValueError(f"rows {start} to {stop} of {storage.rows}")
    return storage


cdef int64_t bytes_between(const Bytes* column, int64_t start, int64_t stop) noexcept:
    """Of the entries [start, stop); 0 without the column."""
    return 0 if column.offsets == NULL else column.offsets[stop] - column.offsets[start]


@cython.final
cdef class Chunk:
    """Columns of equal length. Immutable; its memory is shared with Arrow consumers."""
    cdef Storage* storage
    cdef readonly BatchRows rows
    cdef Layout layout                   # of the columns
    cdef object lists

    def __init__(self):
        raise TypeError("a Chunk is made by a Decoder, or of BatchRows")

    def __dealloc__(self):
        storage_drop(self.storage)

    cdef int adopt(self, Columns* columns, Layout layout, const BatchRow* rows, const Constants* constants,
                   Source viewed) except -1:
        """Takes ownership of decoded columns and makes the requested columns of them. viewed: what their views point
        to."""
        cdef void* thread
        cdef int status
        self.layout, self.storage = layout, storage_new(layout.count)
        if self.storage == NULL:
            columns_release(columns)
            raise MemoryError
        self.storage.columns = columns[0]
        self.storage.rows = columns.rows
        if columns.memory != NULL:
            Py_INCREF(viewed)
            self.storage.owner, self.storage.release_owner = <PyObject*>viewed, release_source
        columns_begin(columns)
        thread = release_gil(self.storage.rows >= SMALL_CHUNK)
        status = storage_fill(self.storage, layout.codes, layout.count, rows, constants)
        acquire_gil(thread)
        if status != OK:
            raise MemoryError
        return 0

    def __len__(self):
        return self.storage.rows

    @property
    def out_of_range(self):
        """How many timestamps do not fit the unit and are null."""
        return self.storage.columns.out_of_range

    def address(self, int64_t column, int buffer):
        """The address of a buffer as an Arrow consumer sees it; 0: there is none."""
        return <uintptr_t>self.storage.out[column].buffers[buffer]

    def nulls(self, int64_t column):
        """A byte for each row, 1 where the column is null; None if it is nowhere."""
        cdef const uint8_t* validity = <const uint8_t*>self.storage.out[column].buffers[0]
        cdef int64_t i
        return None if validity == NULL else bytes([not is_set(validity, i) for i in range(self.storage.rows)])

    def values(self, int64_t column, int64_t start, int64_t stop):
        """The values [start, stop) of a column as a list: int (timestamps: as stored), bool, str, bytes, None; headers
        as tuples of (key, value or None)."""
        cdef const Column* c = (<const Storage*>storage_of(self, start, stop)).out + column
        cdef Py_UCS4 format_
        cdef RecordView view
        cdef Numbers numbers
        cdef Cells cells
        cdef int64_t i
        if not 0 <= column < self.storage.out_count:
            raise IndexError(column)
        format_ = <unsigned char>self.layout.table_schema.columns[column].format[0]
        if c.kind == HEADERS:
            texts = new_texts(&self.storage.columns)
            view = record_view(&self.storage.columns, 0, 0, WANT_HEADERS, 1, self.layout.binary_header_keys)
            return [headers_at(&view, i, texts) for i in range(start, stop)]
        if c.kind == FIXED:
            numbers = numbers_of(c, format_)
            found = [int_at(&numbers, i) for i in range(start, stop)]
            return list(map(bool, found)) if format_ == "b" else found
        cells = cells_of(c)
        found = [bytes_of(cell(&cells, i)) for i in range(start, stop)]
        return [None if one is None else one.decode() for one in found] if format_ == "u" else found

    def records(self, int64_t start, int64_t stop):
        """The rows [start, stop) as Records."""
        return records_of(&self.storage.columns, self.rows.at(0), self.layout, start, stop)

    def tuples(self, int64_t start, int64_t stop):
        """The rows [start, stop) as tuples: see RecordColumns.tuples."""
        cdef Columns* c = &self.storage.columns
        cdef Layout layout = self.layout
        cdef RecordView view = record_view(c, start, stop, layout.shown, layout.ticks, layout.binary_header_keys)
        cdef int64_t i
        cdef list found = [], texts = new_texts(c)
        for i in range(start, stop):
            found.append(untracked((
                int_at(&view.offset, i), int_at(&view.timestamp, i), bytes_at(&view, view.key, i),
                bytes_at(&view, view.value, i), headers_at(&view, i, texts),
            )))
        return found

    def size_of(self, int64_t start, int64_t stop):
        """Bytes of the keys, values and headers of the rows [start, stop), of columns without views."""
        cdef const Columns* c = &(<const Storage*>storage_of(self, start, stop)).columns
        cdef int64_t size = bytes_between(&c.key, start, stop) + bytes_between(&c.value, start, stop)
        if c.header_offsets != NULL:
            start, stop = c.header_offsets[start], c.header_offsets[stop]
            size += bytes_between(&c.header_key, start, stop) + bytes_between(&c.header_value, start, stop)
        return size

    def runs(self):
        """int64 pairs (index of a batch row, number of its rows), in order, as a memoryview."""
        return memory_of(self, self.storage.columns.runs.data, self.storage.columns.run_count * <int64_t>sizeof(Run))

    def lists_capsule(self, offsets, validity, int64_t nulls):
        """A new arrow_array capsule: a list array over the rows. `offsets` int32, `validity` bits; copied at the first
        call and then reused."""
        cdef Storage* s = self.storage
        cdef Buffer* to = s.extra + s.extra_count
        cdef HeldBytes ends, known
        if self.lists is None:
            ends, known = HeldBytes(offsets), HeldBytes(validity)
            if buffer_reserve(to, 0, <size_t>(ends.size + known.size)) != 0:
                raise MemoryError
            s.extra_count += 1
            memcpy(to.data, ends.data, <size_t>ends.size)
            memcpy(to.data + ends.size, known.data, <size_t>known.size)
            self.lists = (<uintptr_t>to.data, <uintptr_t>(to.data + ends.size), ends.size // 4 - 1, nulls)
        at, bits, length, nulls = self.lists
        return list_capsule(s, <const void*><uintptr_t>bits, <const void*><uintptr_t>at, length, nulls)


# ---- the decoder

@cython.final
cdef class PassResult:
    """What one pass over consecutive bytes of an input finds.

    chunks     of the records, in order
    tables     BatchRows of all batches, in order
    damage     a list of Damage
    remaining  bytes of a cut batch at the end
    restored   a list of Restored
    """
    cdef readonly list chunks, tables, damage, restored
    cdef readonly int64_t remaining

    def __init__(self, list chunks not None, list tables not None, list damage not None, int64_t remaining=0,
                 list restored=None):
        self.chunks, self.tables, self.damage = chunks, tables, damage
        self.remaining, self.restored = remaining, [] if restored is None else restored


cdef PassResult new_result():
    """An empty one, without a call."""
    cdef PassResult found = PassResult.__new__(PassResult)
    found.chunks, found.tables, found.damage, found.restored = [], [], [], []
    return found


cdef tuple offsets_of(const BatchRow* row):
    """The fields of recover.offset_order.Offsets."""
    return row.base_offset, row.next_offset, row.partition_leader_epoch, row.crc, is_wrapper(row)


cdef tuple position_and_offsets(const BatchRow* row):
    return row.position, offsets_of(row)


cdef tuple left_out_of(const Engine* e):
    return position_and_offsets(&e.left_out[0]), position_and_offsets(&e.left_out[1])


@cython.final
cdef class Decoder:
    """Decodes one input after another. Only one thread may use it at a time.

    options        see read.decode_options.EngineOptions
    codecs         the package `kafkarec.codecs`
    skip           records damage instead of raising it
    file           name of the input; its rules are then those for files (see `_c/end_of_input.pxd`)
    later_segment  a later segment of the same log exists
    rules          recover.restoring.AfterDamage: which batches are restored, which of those found fit; None: no such
                   rules
    """
    cdef Engine e
    cdef bint busy
    cdef Source source, viewed           # the latter: what views in the columns point to
    cdef Layout layout
    cdef Constants constants
    cdef Buffer aborted
    cdef object codecs, topic, file, file_name, keys
    cdef bint skip
    cdef readonly list damage            # see damage_from_entries
    cdef list restored, taken_batches
    cdef public tuple tried              # by AfterDamage.try_to_restore: (end, positions); begins anew with each input
    cdef Candidate followed              # by frames_from, from .start on: the next chains are mostly the ends of it
    cdef bint anchored, followed_to_its_end
    cdef dict note_details
    cdef object rules
    cdef Decoder next_idle               # see Decoders

    def __cinit__(self, Layout layout not None, options, codecs, *, bint skip=False, file=None, topic=None,
                  partition=None, bint later_segment=False, rules=None):
        cdef Engine* e = &self.e
        self.layout = layout
        self.codecs = codecs
        self.skip = skip
        self.file_name = file or None
        self.file = None if not file else str(file).encode(errors="surrogateescape")
        self.topic = None if topic is None else topic.encode()
        if topic is not None:
            self.constants.topic = <const char*>self.topic
        if self.file is not None:
            self.constants.file = <const char*>self.file
        self.constants.partition = ABSENT if partition is None else partition
        self.damage, self.restored, self.taken_batches = [], [], []
        self.rules = rules
        self.note_details = {}
        e.columns.want = layout.want
        fill_options(&e.options, options, &self.aborted)
        e.options.ticks = layout.ticks if layout.shown & WANT_TIMESTAMP else 1   # times of a range stay milliseconds
        e.options.binary_header_keys = layout.binary_header_keys
        e.options.skip, e.options.file_rules = skip, file is not None
        e.options.later_segment = later_segment
        e.options.restore = rules is not None and rules.restore and file is not None
        self.keys = options.keys
        if options.stable_offset is not None or e.options.ranged or self.keys is not None:
            e.columns.want |= WANT_OFFSET
        if self.keys is not None:
            e.at_once = &e.options.filter
            e.columns.want |= WANT_KEY
        if e.options.filter.timed:
            e.columns.want |= WANT_TIMESTAMP

    def __dealloc__(self):
        columns_release(&self.e.columns)
        buffer_free(&self.e.rows)
        buffer_free(&self.aborted)
        buffer_free(&self.e.audit.kept)
        buffer_free(&self.e.input.buffer)
        buffer_free(&self.e.input.bad)
        decompress_release(&self.e.context)

    def feed(self, data, start=0, stop=None):
        """Begins the next input, or bytes [start, stop) of it; positions are those in the whole input."""
        claim(&self.busy)
        try:
            self.begin_input(data if isinstance(data, Source) else Source(data), start, stop)
        finally:
            self.busy = False

    cdef int begin_input(self, Source source, int64_t start, stop) except -1:
        cdef int64_t length = source.size if stop is None else stop
        self.source = source
        if self.source.reading is None:
            input_begin_memory(&self.e.input, <const uint8_t*>self.source.view.buf, length, self.source.size)
            self.e.input.viewable = self.may_view(source)
        else:
            # a file that is shorter than when its end was planned: the rest is unreadable
            input_begin_reader(&self.e.input, &self.source.reader, length, max(length, <int64_t>self.source.size))
        if self.taken_batches:
            self.taken_batches = []
        self.tried = (0, [])
        self.followed.start = self.followed.end = 0
        engine_begin_input(&self.e, start)
        if self.e.options.restore and start == 0:
            first = self.rules.first_offset
            self.e.previous_next = INT64_MIN if first is None else first
        return 0

    cdef int end_input(self) except -1:
        """Lets go of the input."""
        self.source = self.viewed = None
        input_begin_memory(&self.e.input, NULL, 0, 0)
        return 0

    cdef bint may_view(self, Source source):
        """Whether views may point to the input, a caller's buffer. The columns of one chunk point to one input."""
        cdef Columns* c = &self.e.columns
        if not c.want & WANT_VIEWS:
            return False
        if c.rows == 0:
            c.memory, c.memory_size, self.viewed = NULL, 0, source
        return self.viewed is source

    @property
    def filled(self):
        """(records, batches, bytes of the records) since the last `take`."""
        cdef Columns* c = &self.e.columns
        size = c.rows * 32 + c.key.used + c.value.used + c.header_key.used + c.header_value.used
        return c.rows, self.e.row_count, size

    @property
    def remaining(self):
        """How many bytes at the end of the input were not read as batches or damage."""
        return 0 if self.e.finished else self.e.input.stop - self.e.position

    def run(self):
        """Reads until a chunk is full (True) or the input ends (False). Damage is raised, or with `skip` recorded."""
        if self.source is None:
            raise ValueError("no input")
        claim(&self.busy)
        try:
            return self.fill_chunk()
        finally:
            self.busy = False

    cdef bint is_small(self) noexcept:
        """Whether releasing the GIL would take as long as reading: little is left in memory, and begins with a batch
        that is not compressed."""
        cdef int64_t left = self.e.input.stop - self.e.position
        cdef const uint8_t* p = self.e.input.base + self.e.position
        if self.e.input.reader != NULL or left >= SMALL_INPUT:
            return False
        if left <= V2_ATTRIBUTES_OFFSET + 1:
            return True
        return p[V2_ATTRIBUTES_OFFSET + 1 if p[MAGIC_OFFSET] >= BATCH_MAGIC else UP_TO_MAGIC] & CODEC_MASK == 0

    cdef bint fill_chunk(self) except -1:
        cdef int status
        cdef Ending ending
        cdef void* thread
        cdef bint small = self.is_small()
        while not self.e.finished:
            thread = release_gil(not small)
            status = engine_run(&self.e)
            acquire_gil(thread)
            if status == CHUNK_FULL:
                self.source.raise_if_failed()
                PyErr_CheckSignals()
                return True
            detail = ""
            if status == HEADER_DOUBTFUL:
                self.read_doubtful()
                continue
            if status == NEEDS_CODEC:
                status, detail = self.decompress()
            if status == OK:
                continue
            self.source.raise_if_failed()
            if status == OUT_OF_MEMORY:
                raise error("out_of_memory", fault_fields(&self.e.fault, self.file_name, ""))
            thread = release_gil(not small)
            ending = engine_ended(&self.e, &status)
            acquire_gil(thread)
            if ending == ENDED or (ending == ENDED_UNLESS_FOUND and not self.batch_follows()):
                return False
            self.raise_or_skip(status, detail)
        return False

    cdef tuple decompress(self):
        """Decompresses the pending payload by `codecs` and decodes it: (status, detail)."""
        cdef Engine* e = &self.e
        cdef Py_buffer view
        cdef int status
        cdef int codec = e.row.codec
        cdef int64_t limit = payload_limit(e)
        # a copy: a traceback's frame, or a codec, may keep what it is given
        payload = PyBytes_FromStringAndSize(<const char*>e.payload, e.payload_length)
        try:
            if e.row.magic >= BATCH_MAGIC and e.row.record_count == 0:
                out = self.check_no_records(codec, payload, limit)
            else:
                seen = self.codecs.StreamNotes() if e.options.audit else None
                out = self.codecs.decompress_by_module(codec, payload, limit, e.row.magic, seen)
                if seen is not None:
                    note_stream(&e.audit, seen.streams, seen.trailing_bytes, seen.checksum_wrong, seen.size_wrong)
        except self.codecs.MissingCodec as missing:
            raise error("missing_codec", fault_fields(&e.fault, self.file_name, str(missing))) from None
        except self.codecs.LimitReached as reached:
            e.fault.expected = e.fault.found = limit
            return LIMIT_EXCEEDED, f"max_decompressed_bytes={e.options.limit} can be raised ({reached.detail})"
        except self.codecs.CodecError as wrong:
            return PAYLOAD_CORRUPT, wrong.detail
        PyObject_GetBuffer(out, &view, PyBUF_SIMPLE)
        with nogil:
            status = engine_decode(e, <const uint8_t*>view.buf, view.len, 0)
        PyBuffer_Release(&view)
        return status, ""

    cdef object check_no_records(self, int codec, payload, int64_t limit):
        """Returns no bytes for a batch of 0 records: readers only check the beginning of its stream."""
        if self.e.options.audit:
            try:
                size = len(self.codecs.decompress(codec, payload, limit))
            except self.codecs.CodecError as wrong:
                self.codecs.check_stream_start(codec, payload, limit, 2)
                note(&self.e.audit, PAYLOAD_NO_STREAM, 0, 0, 0)
                self.note_details[self.e.row_count] = wrong.detail
            else:
                if size > 0:
                    note(&self.e.audit, RECORDS_NOT_DECLARED, size, 0, 0)
        else:
            self.codecs.check_stream_start(codec, payload, limit, 2)
        return b""

    cdef int raise_or_skip(self, int status, detail) except -1:
        """Raises the fault; with `skip`, restores the batch, or records the damage and continues after it."""
        cdef Engine* e = &self.e
        cdef int64_t start = e.position, end, stop
        cdef bint proven = length_is_proven(status)
        cdef DamageEnd found
        cdef dict fault
        misfit = None
        if not self.skip:
            if unreadable_before(e, e.position + LARGEST_HEADER):
                status = UNREADABLE
            raise error(_REASONS[status], self.fault(status, detail))
        fault = self.fault(status, detail)
        with nogil:
            found = engine_skip(e, &status)
        end = found.position
        if status == UNREADABLE:
            fault = self.fault(status, detail)
        reason = _REASONS[status]
        if self.rules is not None:
            stop = e.input.stop if found.witness == NO_WITNESS else end
            if not proven and self.rules.try_to_restore(self, start, stop, reason, fault):
                return 0
            if found.witness == NEXT_BATCH and end < e.input.stop:
                end, position, misfit = self.rules.next_that_fits(self, start, end)
                end, e.position = min(end, e.input.stop), min(position, e.input.stop)
                if status != UNREADABLE and not self.is_readable(start, end):    # it could not be read again
                    reason, fault["detail"] = "unreadable", why_unreadable(self.source.reader.error_number)
        self.source.raise_if_failed()
        if e.search.limited and reason != "unreadable":
            reason = "search_limit"
        e.search.limited = False
        self.add_damage(start, end, reason, fault)
        if misfit is not None:
            self.add_undecided(end, e.position, misfit)
        return 0

    cdef bint batch_follows(self) except -1:
        """Whether this batch, which is cut, can be restored, or a batch is found after its first byte."""
        cdef int64_t start = self.e.position
        with nogil:
            save_good_next(&self.e)
        found = self.search(start, start + 1)
        follows = found < self.e.input.size if self.rules is None else self.rules.has_batch_behind(self, start, found)
        self.source.raise_if_failed()
        return follows or not self.is_readable(start, self.e.input.stop)

    cdef int read_doubtful(self) except -1:
        """Reads the framed batch at the position, with its header restored if the rules say so."""
        cdef Engine* e = &self.e
        previous = None
        if e.previous_next != INT64_MIN:
            previous = e.previous_next, e.previous_next, e.previous_epoch
        e.trusted = e.position
        self.rules.read_doubtful(self, e.position, e.position + e.row.size_in_bytes,
                                 offsets_of(&e.row), previous)
        return 0

    # ---- for recover.restoring; positions are those in the whole input, of which only a part may be read

    @property
    def size(self):
        return self.e.input.size

    @property
    def stop(self):
        """Where reading ends."""
        return self.e.input.stop

    @property
    def previous_end(self):
        """Where the last good batch ends, or where reading began."""
        return self.e.previous_end

    def last_good_batches(self):
        """`offsets_of` the last good batches of this input, among them two at most that are outside of the ranges."""
        left_out = [one for one in left_out_of(&self.e) if one[0] >= 0]
        return [offsets for _, offsets in sorted(self.last_taken_batches() + left_out)[-ORDER_WINDOW:]]

    cdef list last_taken_batches(self):
        """Position and `offsets_of` of the last good batches that were in the ranges."""
        cdef BatchRow* rows = <BatchRow*>self.e.rows.data
        cdef int64_t i, first = max(self.e.row_count - ORDER_WINDOW, self.e.first_row)
        rest = [position_and_offsets(rows + i) for i in range(first, self.e.row_count)]
        return (self.taken_batches + rest)[-ORDER_WINDOW:]

    def framed_end(self, int64_t position):
        """Where the batch at `position` ends by its length; -1: no frame of a batch is there."""
        cdef BatchRow row
        return position + row.size_in_bytes if peek_batch(&self.e.input, position, &row) else -1

    def frames_from(self, int64_t position):
        """The batch at `position` and those that its frames lead to, as last_good_batches has them; whether they lead
        to the end of the file; where they end."""
        cdef BatchRow row
        cdef Candidate run
        cdef bint is_known
        cdef list found = []
        memset(&run, 0, sizeof(Candidate))
        run.end = position
        while len(found) < ORDER_WINDOW and (
            peek_plausible(&self.e.input, run.end, &row) if found else peek_batch(&self.e.input, run.end, &row)
        ):
            found.append(offsets_of(&row))
            run.last, run.end = row.last_offset, row.position + row.size_in_bytes
        run.start, run.cut = run.end, INT64_MIN
        with nogil:
            is_known = run.end > position and is_on_chain(&self.e.input, &self.followed, run.end)
        if is_known and (self.followed_to_its_end or self.followed.end - run.end > MAX_ANCHOR_BYTES // 2):
            run.end, run.cut = self.followed.end, self.followed.cut
            if run.cut != INT64_MIN:
                self.anchored = cut_follows(&run)
        else:
            with nogil:
                self.anchored = chain_continues(&self.e.input, &run, MAX_ANCHOR_BYTES, MAX_ANCHOR_BYTES)
            self.followed_to_its_end = (not self.anchored or run.end == self.e.input.size
                                        or run.end - run.start <= MAX_ANCHOR_BYTES)
        self.followed = run
        return found, self.anchored, run.end

    def search(self, int64_t damage, int64_t position, *, bint ahead=False):
        """Where a search from `position` on finds a batch; the size of the input: it finds none. damage: where the
        damaged batch begins; ahead: the next search may begin before what this one finds."""
        cdef int64_t found
        with nogil:
            found = search_forward(&self.e.input, damage, position, ahead, &self.e.search)
        return found

    def is_valid(self, int64_t position):
        """Whether a batch with a right checksum begins at `position`."""
        cdef BatchRow row
        cdef bint valid
        with nogil:
            valid = is_valid_batch(&self.e.input, position, &self.e.search, &row)
        return valid

    def end_by_content(self, int64_t position, int magic, int64_t stop):
        """Where the batch at `position` ends by its own bytes if it has this magic; -1: they do not tell. stop: the end
        of the bytes in which it may be."""
        cdef int64_t end
        with nogil:
            end = end_by_content(&self.e.input, position, magic, stop, &self.e.search)
        return end if end - position <= MAX_ANCHOR_BYTES else -1

    def is_readable(self, int64_t start, int64_t end):
        """Whether none of the bytes [start, end) was found to be unreadable."""
        return unreadable_end(&self.e.input, start, end) == 0

    def bytes_at(self, int64_t start, int64_t end):
        """The bytes [start, end) as a new bytearray, zeros for unreadable ones; None: the input has not so many, or
        reading has failed."""
        cdef const uint8_t* p = NULL
        if end <= self.e.input.size:
            p = reach(&self.e.input, start, end - start)
        return None if p == NULL else bytearray(p[:end - start])

    def add_damage(self, int64_t start, int64_t end, str reason, dict fault):
        """Records [start, end) as damage before the next batch."""
        good_next = None if self.e.good_next == INT64_MIN else self.e.good_next
        self.damage.append((start, end - start, reason, fault, good_next, self.e.row_count, self.e.columns.rows))

    def add_undecided(self, int64_t start, int64_t end, base_offset):
        """Leaves out [start, end), which begins with a batch of a wrong base offset; reading continues at the end."""
        fault = {"position": start, "base_offset": base_offset, "file": self.file_name}
        self.add_damage(start, end, "base_offset_undecided", fault)
        self.e.position = end

    def read_restored(self, const uint8_t[::1] raw, int64_t position, dict changes):
        """Reads the batch at `position` from other bytes, and adds it to the list of restored batches. False: it is
        refused nevertheless, and the position is the one before. changes: {field: (stored, used, witness)}"""
        cdef Engine* e = &self.e
        cdef Input file = e.input
        cdef int64_t end = position + len(raw), before = e.position
        cdef int status
        try:
            input_begin_memory(&e.input, &raw[0] - position, end, end)
            e.input.low = position
            e.position = e.trusted = position
            status = engine_step(e)
            if status == NEEDS_CODEC:
                status, _ = self.decompress()
        finally:
            e.input = file
        if status == OK:
            self.restored.append(Restored.of(self.file_name, position, changes))
        elif not e.finished:
            e.position = before
        return status == OK or e.finished

    cdef dict fault(self, int status, detail):
        if status == UNREADABLE:
            detail = why_unreadable(self.source.reader.error_number)
        elif status == LENGTH_BEYOND_END and self.e.options.later_segment:
            detail = "the log goes on after it"
        return fault_fields(&self.e.fault, self.file_name, detail)

    cdef PassResult read(self, Source source, start, stop, after):
        """Bytes [start, stop) of an input, all at once. Keeps nothing of the input. after: the arguments of
        `continue_after`."""
        claim(&self.busy)
        try:
            self.begin_input(source, start, stop)
            if after is not None:
                self.continue_after(*after)
            return self.take_all(self.fill_chunk())
        finally:
            self.end_input()
            self.busy = False

    cdef PassResult take_all(self, bint more):
        """What is read so far, and with `more` all that follows."""
        cdef PassResult found = new_result()
        self.append_to(found, more, False)
        while more:
            more = self.fill_chunk()
            self.append_to(found, more, False)
        return found

    cdef object records(self, Source source, int64_t start, int64_t stop):
        """The Records of one batch, bytes [start, stop): a list, or RecordColumns of many, whose Records are made when
        they are iterated."""
        cdef Columns* c = &self.e.columns
        cdef list found
        cdef bint more
        claim(&self.busy)
        try:
            self.begin_input(source, start, stop)
            more = self.fill_chunk()
            if more or self.damage or c.rows > MOST_LISTED:
                return _columns_of(self.layout, self.take_all(more))
            found = records_of(c, <BatchRow*>self.e.rows.data, self.layout, 0, c.rows)
            if c.key.used + c.value.used + c.header_key.used + c.header_value.used > MOST_LISTED_BYTES:
                columns_release(c)
            columns_truncate(c, 0, c.rows)
            c.run_count = c.out_of_range = 0
            engine_begin_chunk(&self.e)
            return found
        finally:
            self.end_input()
            self.busy = False

    @property
    def border(self):
        """Where the decoder is and what it knows of the batches before, for `continue_after`; None while there may be
        damage that it has not told."""
        cdef const Engine* e = &self.e
        if self.damage:
            return None
        return e.position, e.previous_next, e.previous_epoch, e.reached, left_out_of(e)

    def next_border(self):
        """Walks over the headers alone to where a chunk ends for its stored bytes, and returns the border there. None:
        the input ends before, or there is anything but batches whose headers are undamaged (a cut batch, a wrong size,
        an offset that contradicts the one before)."""
        cdef Options* o = &self.e.options
        cdef int status
        o.payloads, o.check_crc, o.chunk_bytes = NO_PAYLOADS, NO_CHECKS, INT64_MAX
        with nogil:
            status = engine_run(&self.e)
        engine_begin_chunk(&self.e)
        return self.border if status == CHUNK_FULL else None

    def continue_after(self, border, tables):
        """Sets what a decoder knows of the batches before its position, as if it had read them. border: that of another
        decoder there; tables: the batches before it, at least the last 64 ones."""
        cdef BatchRows rows
        cdef BatchRow* row
        cdef int64_t i
        _, self.e.previous_next, self.e.previous_epoch, self.e.reached, left_out = border
        for i in range(2):
            row = &self.e.left_out[i]
            row.position, (row.base_offset, row.next_offset, row.partition_leader_epoch, row.crc, wraps) = left_out[i]
            row.magic, row.codec = BATCH_MAGIC - <bint>wraps, <bint>wraps            # for is_wrapper
        for rows in tables:
            if rows.count > 0:
                self.e.good_next = rows.at(rows.count - 1).next_offset
            if self.e.options.file_rules:
                first = max(rows.count - ORDER_WINDOW, 0)
                found = [position_and_offsets(rows.at(i)) for i in range(first, rows.count)]
                self.taken_batches = (self.taken_batches + found)[-ORDER_WINDOW:]

    def pop_damage(self, bint final=True):
        """The damage so far, from `damage_from_entries`. Damage after the last batch is kept until the next batch,
        unless `final`."""
        following = [self.first_offset(entry[5]) for entry in self.damage]
        ready, self.damage = damage_from_entries(self.damage, following, self.file_name, final)
        return ready

    cdef object first_offset(self, int64_t batch):
        return (<BatchRow*>self.e.rows.data)[batch].first_offset if batch < self.e.row_count else None

    def set_last_frame(self, int64_t position, int32_t size, signed char magic, uint32_t crc, short attributes):
        """Sets these fields of the last batch, which was made of another one: kafkarec.experimental."""
        cdef BatchRow* row = <BatchRow*>self.e.rows.data + self.e.row_count - 1
        if self.e.row_count == 0:
            raise ValueError("no batch")
        row.position, row.size_in_bytes, row.batch_length = position, size, size - LOG_OVERHEAD
        row.magic, row.crc, row.attributes, row.codec = magic, crc, attributes, attributes & CODEC_MASK

    def take(self, bint more=False, bint empty=False):
        """What was read since the last call; more: reading goes on, so that damage after the last batch is kept until
        the next one. Without records there is no chunk, or with `empty` one without rows."""
        cdef PassResult found = new_result()
        claim(&self.busy)
        try:
            self.append_to(found, more, empty)
            return found
        finally:
            self.busy = False

    cdef int append_to(self, PassResult found, bint more, bint empty) except -1:
        """Appends what was read to `found`, and begins a new chunk."""
        if self.damage:
            found.damage += [one for _, _, one in self.pop_damage(not more)]
        if self.restored:
            found.restored += self.restored
            self.restored = []
        found.remaining = 0 if more else self.remaining
        rows = self.take_batch_rows()
        chunk = self.take_chunk(rows, empty)
        if chunk is not None:
            found.chunks.append(chunk)
        found.tables.append(rows)
        return 0

    cdef BatchRows take_batch_rows(self):
        cdef Engine* e = &self.e
        cdef BatchRows rows = BatchRows.__new__(BatchRows)
        save_good_next(e)
        if e.options.file_rules:
            self.taken_batches = self.last_taken_batches()
        rows.buffer, rows.count = e.rows, e.row_count
        rows.notes, rows.note_count = e.audit.kept, e.audit.kept_count
        if self.note_details:
            rows.details, self.note_details = self.note_details, {}
        memset(&e.rows, 0, sizeof(Buffer))
        memset(&e.audit.kept, 0, sizeof(Buffer))
        engine_begin_chunk(e)
        e.first_row = 0
        return rows

    cdef Chunk take_chunk(self, BatchRows rows, bint empty):
        cdef Chunk chunk
        if empty and columns_reserve(&self.e.columns, 1, 0) != OK:
            raise MemoryError
        if not empty and self.e.columns.rows == 0:
            return None
        chunk = Chunk.__new__(Chunk)
        chunk.rows = rows
        chunk.adopt(&self.e.columns, self.layout, rows.at(0), &self.constants, self.viewed)
        return chunk


@cython.final
cdef class Decoders:
    """The Decoders of a request, of which those are kept that have nothing to do: making one takes longer than decoding
    a small batch. Any thread may use it, also while another call of it runs. A Decoder that raised is not used again.

    make    returns a new Decoder, whose columns have this layout
    """
    cdef object make
    cdef Layout layout
    cdef Decoder idle                    # and those after it, by `next_idle`
    cdef int idle_count

    def __cinit__(self, make, Layout layout not None):
        self.make, self.layout = make, layout

    cdef Decoder idle_or_new(self):
        cdef Decoder decoder = self.idle
        if decoder is None:
            return self.make()
        self.idle, decoder.next_idle = decoder.next_idle, None
        self.idle_count -= 1
        return decoder

    cdef int put_back(self, Decoder decoder) except -1:
        if decoder.e.context.out.capacity <= MOST_KEPT and self.idle_count < MOST_IDLE and not decoder.skip:
            self.idle, decoder.next_idle = decoder, self.idle
            self.idle_count += 1
        return 0

    cpdef PassResult read(self, Source source, start=0, stop=None, after=None):
        """See Decoder.read."""
        if source is None:
            raise TypeError("source: None")
        cdef Decoder decoder = self.idle_or_new()
        cdef PassResult found = decoder.read(source, start, stop, after)
        self.put_back(decoder)
        return found

    cdef object records(self, Source source, int64_t start, int64_t stop):
        """See Decoder.records."""
        cdef Decoder decoder = self.idle_or_new()
        found = decoder.records(source, start, stop)
        self.put_back(decoder)
        return found


# ---- batches one by one

@cython.final
cdef class BatchesInMemory:
    """The bytes of a buffer, as a tables.records.BatchSource."""
    cdef Source source
    cdef Decoders decoders

    def __cinit__(self, Source source not None, Decoders decoders not None):
        self.source, self.decoders = source, decoders

    cpdef object read(self, int64_t start, int64_t stop):
        """The Records of the batch [start, stop)."""
        return self.decoders.records(self.source, start, stop)

    def raw(self, int64_t start, int64_t stop):
        """The bytes [start, stop) as a memoryview."""
        return self.source.memory[start:stop]


@cython.final
cdef class RecordBatch:
    """One batch: the batch columns as attributes, `.raw`, and its records when iterated.

    Iterating checks the CRC and decodes the payload, and raises CorruptRecordError and InvalidRecordError. Control
    records are included. The bytes of a batch in a file are read when they are used.
    """
    cdef BatchRows rows
    cdef int64_t row
    cdef object source                   # a tables.records.BatchSource

    def __init__(self):
        raise TypeError("a RecordBatch is made by batches")

    cdef const BatchRow* fields(self) except NULL:
        if self.rows is None:
            raise ValueError("a RecordBatch is made by batches")
        return self.rows.at(self.row)

    @property
    def raw(self):
        """The batch's bytes, with its header."""
        cdef const BatchRow* row = self.fields()
        return self.source.raw(row.position, row.position + row.size_in_bytes)

    @cython.embedsignature(False)        # the stub has it, with types
    def write_to(self, file):
        """Writes the bytes to a file object; returns how many."""
        left = self.raw
        while len(left):
            left = left[file.write(left) or len(left):]       # an unbuffered file may take fewer
        return self.fields().size_in_bytes

    def __iter__(self):
        cdef const BatchRow* row = self.fields()
        cdef int64_t end = row.position + row.size_in_bytes
        if type(self.source) is BatchesInMemory:
            return iter((<BatchesInMemory>self.source).read(row.position, end))
        return iter(self.source.read(row.position, end))

    def __repr__(self):
        return (f"<RecordBatch: magic {self.magic}, offsets {self.base_offset}..{self.last_offset}, "
                f"{self.size_in_bytes} bytes at {self.position}, {self.compression}>")


@cython.final
cdef class BatchColumn:
    """A column of the batch table as an attribute of RecordBatch; the layout is that of the batch table."""
    cdef int code

    def __cinit__(self, Layout layout not None, int64_t column):
        self.code = layout.codes[column]

    def __get__(self, batch, type_):
        if type(batch) is not RecordBatch:
            return self
        return batch_value((<RecordBatch>batch).fields(), self.code)


@cython.final
cdef class Batches:
    """The batches of tables, one by one.

    tables    an iterator of BatchRows
    source    a tables.records.BatchSource: where their bytes are
    """
    cdef object tables, source
    cdef BatchRows rows
    cdef int64_t row

    def __cinit__(self, tables, source):
        self.tables, self.source = iter(tables), source

    def __iter__(self):
        return self

    def __next__(self):
        cdef RecordBatch batch = RecordBatch.__new__(RecordBatch)
        batch.rows, batch.row, batch.source = self.rows, self.row, self.source
        while batch.rows is None or batch.row >= batch.rows.count:
            batch.rows, batch.row = next(self.tables, None), 0
            if batch.rows is None:
                raise StopIteration
        self.rows, self.row = batch.rows, batch.row + 1
        return batch


# ---- decode

cdef object _request_for, _columns_of
cdef tuple _known_requests = ()          # (arguments, Decoders), the latest first


def attach_decode(request_for, columns_of):
    """Sets what `decode` uses: `read.decode_options.checked_request` and `tables.records.RecordColumns`."""
    global _request_for, _columns_of
    _request_for, _columns_of = request_for, columns_of


def forget_decoders():
    """Drops the options of earlier calls of `decode`, and the memory that is kept with them."""
    global _known_requests
    _known_requests = ()


cdef object decode_call(PyObject* module, PyObject** arguments, Py_ssize_t count):
    """See the stub."""
    global _known_requests
    cdef Decoders decoders
    if count != 1 + DECODE_OPTIONS:
        raise TypeError("decode is called by read.reader")
    decoders = made_before(_known_requests, arguments + 1)
    if decoders is None:
        given = tuple([<object>arguments[1 + i] for i in range(<int>DECODE_OPTIONS)])
        decoders = _request_for(*given).decoders
        if given[0] is None or type(given[0]) is tuple:        # a list may change
            _known_requests = with_latest(_known_requests, given, decoders)
    return _columns_of(decoders.layout, decoders.read(Source(<object>arguments[0])))


cdef PyMethodDef _decode_call
decode = fast_function(&_decode_call, b"decode", <void*>decode_call)


# ---- what the batches of a log tell together

@cython.final
cdef class RowCheck:
    """What follows from one batch of a file to the next, and totals: see `_c/row_checks.pxd`.

    rising   whether offsets must ascend, as in a segment of a log
    """
    cdef RowState state

    def __cinit__(self, bint rising=True):
        memset(&self.state, 0, sizeof(RowState))
        self.state.rising, self.state.epoch = rising, INT64_MIN

    def check(self, BatchRows rows not None):
        """(flags of the batches together, indexes of those with a gap before them)."""
        cdef const BatchRow* first = rows.at(0)
        cdef Buffer gaps
        cdef int64_t gap_count = 0, i
        cdef int flags
        memset(&gaps, 0, sizeof(Buffer))
        if buffer_reserve(&gaps, 0, <size_t>(rows.count + 1) * sizeof(int64_t)) != 0:
            raise MemoryError
        with nogil:
            flags = check_rows(&self.state, first, rows.count, <int64_t*>gaps.data, &gap_count)
        found = [(<int64_t*>gaps.data)[i] for i in range(gap_count)]
        buffer_free(&gaps)
        return flags, found

    def begin_at(self, int64_t position):
        """Sets where the next batch begins: damage is before it."""
        self.state.end = position

    def expect_offset(self, int64_t offset):
        """Sets the offset that the next batch should have."""
        self.state.next_offset = offset

    @property
    def end(self):
        """Where the last batch ends."""
        return self.state.end

    @property
    def next_offset(self):
        """The offset after all batches; None: there is none yet."""
        return self.state.next_offset if self.state.batches else None

    @property
    def totals(self):
        """(batches, records, bytes, size of the largest batch, signs of cleaning)."""
        cdef RowState* s = &self.state
        return s.batches, s.records, s.bytes, s.largest, s.signs_of_cleaning


cdef tuple entry_of(const Producer* producer):
    cdef const KeptBatch* last = producer.kept + producer.kept_count - 1
    first = producer.open.first if producer.opened >= 0 else -1
    if producer.kept_count == 0:
        return producer.id, producer.epoch, -1, -1, 0, producer.last_timestamp, producer.coordinator_epoch, first
    return (producer.id, producer.epoch, last.last_sequence, last.last_offset, last.offset_delta,
            producer.last_timestamp, producer.coordinator_epoch, first)


cdef object open_transaction_of(const Producer* producer, kind):
    cdef const Transaction* t = &producer.open
    return tuple.__new__(kind, (
        producer.id, producer.coordinator_epoch, t.epoch, t.first, t.last, t.first_time, t.last_time, t.batches,
        t.records, t.bytes, t.segment, t.position, t.size,
    ))


@cython.final
cdef class IndexBuilder:
    """The entries of one segment's indexes: see `_c/row_checks.pxd`.

    problems   {kind: a sentence about the first batch of which that is so}
    """
    cdef IndexState state
    cdef readonly dict problems

    def __cinit__(self, int64_t base_offset, int64_t interval):
        cdef IndexState* s = &self.state
        s.base = s.largest_offset = s.written_offset = base_offset
        s.last_offset = s.largest = s.written = ABSENT
        s.interval, self.problems = interval, {}

    def take(self, BatchRows rows not None, int64_t epoch, int64_t start=0, stop=None, int64_t moved=0):
        """What the batches [start, stop) add, which are `moved` bytes behind their positions: entries of the .index,
        (offset, position), entries of the .timeindex, (timestamp, offset), and leader epochs above all before, (epoch,
        base offset). epoch: the highest one before them"""
        cdef list entries = [], times = [], epochs = []
        cdef IndexState* s = &self.state
        cdef const BatchRow* row
        cdef int64_t i, position, end = rows.count if stop is None else stop
        rows.check_row_range(start, end)
        epoch = max(epoch, <int64_t>ABSENT)
        for i in range(start, end):
            row = rows.at(i)
            position = row.position + moved
            if (row.last_offset < s.base or <uint64_t>row.last_offset - <uint64_t>s.base > <uint64_t>INT32_MAX
                    or position > INT32_MAX):
                self.add_problem(FAR, row, position)
                continue
            if row.max_timestamp > s.largest:
                s.largest, s.largest_offset = row.max_timestamp, row.last_offset
            if position - s.position > s.interval:
                s.position = position
                if row.last_offset > s.last_offset:
                    s.last_offset = row.last_offset
                    entries.append((row.last_offset, position))
                    due = self.last_time_entry()
                    if due:
                        s.written, s.written_offset = s.largest, s.largest_offset
                        times += due
                else:
                    self.add_problem(ORDER, row, position)
            if row.partition_leader_epoch > epoch:
                epoch = row.partition_leader_epoch
                epochs.append((row.partition_leader_epoch, row.base_offset))
        return entries, times, epochs

    cpdef list last_time_entry(self):
        """The entry of the .timeindex for the end of the segment, in a list; if it has that already, an empty list."""
        cdef IndexState* s = &self.state
        if s.largest > s.written and s.largest_offset >= s.written_offset:
            return [(s.largest, s.largest_offset)]
        if s.largest > s.written:
            self.add_problem(TIME_ORDER, NULL, 0)
        return []

    cdef int add_problem(self, IndexProblem kind, const BatchRow* row, int64_t position) except -1:
        if kind in self.problems:
            return 0
        if kind == TIME_ORDER:
            why = f"offset {self.state.largest_offset} of the largest timestamp is below that of an earlier one"
        elif kind == FAR:
            why = f"offset {row.last_offset} at byte {position} does not fit an index of base {self.state.base}"
        else:
            why = f"offset {row.last_offset} at byte {position} is not above the previous one, {self.state.last_offset}"
        self.problems[kind] = why
        return 0


@cython.final
cdef class Producers:
    """The producers of one log, and their open transactions: see `_c/producer_table.pxd`.

    An open transaction is a tuple in the order of recover.steps.TransactionData, an entry one in that of SnapshotEntry.
    kind: the class of the former
    """
    cdef ProducerTable table
    cdef object kind
    cdef int64_t next_offset, gap_end     # of `take_to_refused`: after its last batch; where offsets were missing last

    def __cinit__(self, int policy=0, kind=tuple):
        self.kind = kind
        self.next_offset = self.gap_end = ABSENT
        self.table.policy = policy
        self.table.first_open = self.table.last_open = self.table.max_timestamp = -1
        self.table.highest_base = INT64_MIN
        if not offset_map_begin(&self.table.by_id, <uint64_t>int.from_bytes(os.urandom(8), "little")):
            raise MemoryError

    def __dealloc__(self):
        offset_map_end(&self.table.by_id)
        buffer_free(&self.table.producers)
        buffer_free(&self.table.ended)
        buffer_free(&self.table.without_data)
        buffer_free(&self.table.oddities)

    def take(self, BatchRows rows not None, Chunk chunk, int64_t start, int64_t stop, int64_t segment):
        """Takes the batches [start, stop). Returns bytes of rows of int64: the ended transactions and the markers
        without data, rows of recover.steps.EndedRow, and what was odd, rows of recover.steps.Oddity; each in order.

        chunk: the records of the control batches, keys and values and perhaps timestamps; None: there are none
        """
        cdef BatchMark mark
        cdef Markers markers = rows.markers(chunk)
        cdef const BatchRow* row
        cdef ProducerTable* table = &self.table
        cdef int64_t i, newest = table.max_timestamp, highest = table.highest_base
        rows.check_row_range(start, stop)
        if not begin_rows(table, stop - start):
            raise MemoryError
        for i in range(start, stop):
            row = rows.at(i)
            newest = max(newest, row.max_timestamp)
            highest = max(highest, row.base_offset)
            if row.producer_id < 0:
                continue
            set_mark(&mark, row, i, &markers)
            if (mark.code != NOTHING or table.policy != READER) and not take_batch(table, row, &mark, i, segment):
                raise MemoryError
        table.max_timestamp, table.highest_base = newest, highest
        return (
            PyBytes_FromStringAndSize(<char*>table.ended.data, table.ended_count * <Py_ssize_t>sizeof(EndedTxn)),
            PyBytes_FromStringAndSize(
                <char*>table.without_data.data, table.without_count * <Py_ssize_t>sizeof(EndedTxn)
            ),
            PyBytes_FromStringAndSize(<char*>table.oddities.data, table.oddity_count * <Py_ssize_t>sizeof(Oddity)),
        )

    cdef Producer* producer(self, int64_t producer_id) except NULL:
        cdef Producer* found
        if not producers_reserve(&self.table, 1):
            raise MemoryError
        found = producer_or_new(&self.table, producer_id)
        if found == NULL:
            raise MemoryError
        return found

    def load(self, entries):
        """Sets the producers of entries, which must be new."""
        cdef Producer* producer
        cdef int64_t first
        for producer_id, epoch, sequence, last_offset, delta, timestamp, coordinator, first in entries:
            producer = self.producer(producer_id)
            if producer.opened >= 0:
                remove_open(&self.table, producer)
            producer.epoch, producer.last_timestamp, producer.coordinator_epoch = epoch, timestamp, coordinator
            producer.kept_count = 0
            if last_offset >= 0:
                keep_batch(producer, last_offset, delta, sequence)
            if first >= 0:
                set_without_data(&producer.open, epoch, 0)
                producer.open.first = first
                add_open(&self.table, producer)

    def take_to_refused(self, BatchRows rows not None, int64_t start):
        """Takes the batches from `start` on, up to the first one that a broker would have refused, which is taken, too,
        unless it has an old epoch or is a duplicate. (its index, why, the entry of its producer before it); None: there
        is none. why: a Violation of `_c/producer_table.pxd`. What missing offsets since the producer's last
        batch explain is not refused. A control batch with a record is a marker that ends a transaction.
        """
        cdef BatchMark mark
        cdef const BatchRow* row
        cdef Producer* producer
        cdef int64_t i
        cdef int why
        memset(&mark, 0, sizeof(BatchMark))
        mark.has_value, mark.coordinator_epoch, mark.timestamp = True, <int32_t>ABSENT, ABSENT
        rows.check_row_range(start, rows.count)
        if not begin_rows(&self.table, rows.count - start):
            raise MemoryError
        for i in range(start, rows.count):
            row = rows.at(i)
            if self.next_offset != ABSENT and row.base_offset != self.next_offset:
                self.gap_end = row.base_offset
            self.next_offset = row.next_offset
            if row.producer_id < 0:
                continue
            producer = known_producer(&self.table, row.producer_id)
            why = violation_of(producer, row)
            if why > DUPLICATE and self.gap_end >= producer.next_offset:
                why = 0
            found = (i, why, entry_of(producer)) if why else None
            mark.code = COMMIT if is_control_batch(row) and row.record_count else data_mark_code(row.attributes)
            if 0 < why <= DUPLICATE:
                producer.next_offset = row.next_offset
            elif not take_batch(&self.table, row, &mark, i, 0):
                raise MemoryError
            if found is not None:
                return found
        return None

    def entry(self, int64_t producer_id):
        """The entry of a producer; None: there is none with this id."""
        cdef const Producer* producer = known_producer(&self.table, producer_id)
        return None if producer == NULL else entry_of(producer)

    def entries(self):
        """The entries of all producers, in the order in which they were first seen."""
        return [entry_of(<const Producer*>self.table.producers.data + i) for i in range(self.table.count)]

    @property
    def max_timestamp(self):
        """Of the batches that `take` took, ms; -1: none has one."""
        return self.table.max_timestamp

    @property
    def highest_base(self):
        """The highest base offset of the batches that `take` took; the least int64: there is none."""
        return self.table.highest_base

    @property
    def first_open_offset(self):
        """The first offset of the oldest open transaction; None: none is open."""
        cdef const Producer* producers = <const Producer*>self.table.producers.data
        return None if self.table.first_open < 0 else producers[self.table.first_open].open.first

    def open_transactions(self):
        """{producer id: its open transaction}, in the order in which they were opened."""
        cdef int64_t index = self.table.first_open
        cdef list found = []
        while index != ABSENT:
            found.append(index)
            index = producer_at(&self.table, index).after
        found.sort(key=lambda at: producer_at(&self.table, at).opened)
        return {producer_at(&self.table, at).id: open_transaction_of(producer_at(&self.table, at), self.kind)
                for at in found}

    def pop_open(self, int64_t producer_id):
        """Closes and returns the open transaction of a producer; None: it has none."""
        cdef Producer* producer = known_producer(&self.table, producer_id)
        if producer == NULL or producer.opened < 0:
            return None
        remove_open(&self.table, producer)
        return open_transaction_of(producer, self.kind)

    def set_coordinator_epoch(self, int64_t producer_id, int64_t epoch):
        """Of a marker that is not among the batches."""
        self.producer(producer_id).coordinator_epoch = epoch
