"""The compiled module that reads: buffers in, `_c` with the GIL released, Python objects out.

It parses nothing. It keeps buffers alive, calls codecs, turns statuses into exceptions, and makes Arrow capsules.
"""
cimport cython
from cpython.buffer cimport PyBUF_READ, PyBUF_SIMPLE, PyBuffer_FillInfo, PyBuffer_Release, PyObject_GetBuffer
from cpython.memoryview cimport PyMemoryView_FromMemory
from libc.stdint cimport INT64_MIN, int32_t, int64_t, uint8_t, uint32_t, uintptr_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, memset

from kafkarec._c.arrow cimport Column, Shape, Storage, StreamState, shape_drop, storage_drop, stream_add, stream_state
from kafkarec._c.output_columns cimport Constants, storage_fill, storage_new
from kafkarec._c.batch cimport BatchRow
from kafkarec._c.checksum cimport checksums_install, checksums_prepare, checksums_sse42, crc32, crc32c, crc32c_own
from kafkarec._c.columns cimport (
    WANT_OFFSET, WANT_TIMESTAMP, Buffer, Columns, Run, buffer_reserve, columns_release, columns_reserve,
)
from kafkarec._c.decode cimport Engine, engine_begin_chunk, engine_limit, engine_payload, engine_run
from kafkarec._c.end_of_input cimport engine_begin_input, engine_ended, engine_skip, refused_status, remember_good
from kafkarec._c.input cimport ByteReader, input_release, input_reader, input_memory
from kafkarec._c.memory_map cimport map_free, map_guard, map_lost
from kafkarec._c.decompress cimport decompress_install_lz4, decompress_install_zstd, decompress_release
from kafkarec._c.page_pool cimport pages_free, pages_trim
from kafkarec._c cimport status as st
from kafkarec._entry.arrow_capsules cimport borrow_values, list_capsule, pack_shape, schema_capsule, stream_capsule
from kafkarec._entry.python_reader cimport open_reader
from kafkarec._entry.arguments cimport fault_words, fill_constants, fill_options

cdef extern from *:
    int CYTHON_HEX "CYTHON_HEX_VERSION"

from kafkarec import _checksum
from kafkarec.damage import error, resolve, why_unreadable
from kafkarec.errors import REASONS

CYTHON_VERSION = "%d.%d.%d" % (CYTHON_HEX >> 24, CYTHON_HEX >> 16 & 255, CYTHON_HEX >> 8 & 255)
_address, CRC32C_WAY = _checksum.find()
checksums_prepare(CRC32C_WAY != "table")
checksums_install(<size_t>_address)
if CRC32C_WAY == "own" and not checksums_sse42():
    CRC32C_WAY = "table"

_REASONS = tuple(REASONS)        # in the order of the C enum Status, from SIZE_TOO_SMALL on


def release_memory():
    """Gives the recycled column buffers back to the system; answers how many bytes. Columns in use stay."""
    return pages_trim()


def install_native(str codec, addresses):
    """Plain payloads of lz4 or zstd are now decompressed by these functions; see codecs/native_decompress.py."""
    cdef size_t[5] at
    for i, address in enumerate(addresses):
        at[<int>i] = address
    if codec == "lz4":
        decompress_install_lz4(at)
    else:
        decompress_install_zstd(at)


def checksums_of(data):
    """(CRC-32C by the way the engine takes, CRC-32C by our routine, CRC-32) of a buffer, for doctor and tests."""
    cdef Source source = Source(data)
    cdef int64_t n = source.view.len
    return crc32c(source.data(), n), crc32c_own(source.data(), n), crc32(source.data(), n)


@cython.final
cdef class Source:
    """A buffer of the caller's, a file (see `_entry/python_reader.pxd`) or its map, held as long as this object lives.

    mapped    the file behind `data`, a map of it: asked by `demand_whole` whether it is as long as it was
    """
    cdef Py_buffer view
    cdef ByteReader reader
    cdef readonly int64_t size
    cdef list reading                    # a file, and why it gives no more bytes
    cdef object mapped
    cdef int guarded                     # the map's place in `_c/memory_map.pxd`, or -1

    def __cinit__(self, data=None, *, file=None, mapped=None):
        self.guarded, self.mapped = -1, mapped
        if file is None:
            PyObject_GetBuffer(data, &self.view, PyBUF_SIMPLE)
            self.size = self.view.len
            if mapped is not None:
                self.guarded = map_guard(self.data(), <size_t>self.size)
            return
        self.reading, self.size = [file, None], file.size
        open_reader(&self.reader, self.reading)

    def __dealloc__(self):
        map_free(self.guarded)
        PyBuffer_Release(&self.view)

    cdef const uint8_t* data(self) noexcept:
        return <const uint8_t*>self.view.buf

    cdef int still_reads(self) except -1:
        """Raises why there are no more bytes, or that those of a map were not the file's."""
        if self.reading is not None and self.reading[1] is not None:
            raise self.reading[1]
        if self.mapped is not None:
            self.mapped.demand_whole(map_lost(self.guarded))
        return 0


@cython.final
cdef class Window:
    """Read-only bytes of an owner's memory, for memoryview(); the owner lives as long as they do."""
    cdef object owner
    cdef const void* start
    cdef int64_t length

    def __getbuffer__(self, Py_buffer* view, int flags):
        PyBuffer_FillInfo(view, self, <void*>self.start, self.length, 1, flags)


cdef object window(object owner, const void* start, int64_t length):
    cdef Window view = Window.__new__(Window)
    view.owner, view.start, view.length = owner, start, length
    return memoryview(view)


@cython.final
cdef class Layout:
    """Names, types and codes of a table's columns, for the core and for Arrow."""
    cdef Shape* shape
    cdef int* codes
    cdef int64_t count
    cdef uint32_t want
    cdef readonly object schema

    def __cinit__(self, schema, bint binary_header_keys=False):
        self.schema = schema
        self.count = len(schema)
        self.codes = <int*>calloc(<size_t>self.count + 1, sizeof(int))
        if self.codes == NULL:
            raise MemoryError
        self.shape = pack_shape(schema, binary_header_keys, self.codes, &self.want)

    def __dealloc__(self):
        shape_drop(self.shape)
        free(self.codes)

    def schema_capsule(self, bint lists=False):
        return schema_capsule(self.shape, lists)

    def stream_capsule(self, list pieces):
        """A new arrow_array_stream capsule over tuples (Chunk, start, stop)."""
        cdef StreamState* state = stream_state(self.shape, len(pieces))
        cdef Chunk chunk
        if state == NULL:
            raise MemoryError
        for chunk, start, stop in pieces:
            stream_add(state, chunk.storage, start, stop)
        return stream_capsule(state)


@cython.final
cdef class Rows:
    """A finished batch table: BatchRow structs, which chunks of records and of batches are made from."""
    cdef Buffer buffer
    cdef readonly int64_t count

    def __dealloc__(self):
        pages_free(self.buffer.data, self.buffer.capacity)

    def __len__(self):
        return self.count

    cdef BatchRow* at(self, int64_t i) noexcept:
        return <BatchRow*>self.buffer.data + i

    def raw(self):
        """The BatchRow structs as a memoryview, for `_writer`."""
        return window(self, self.buffer.data, self.count * <int64_t>sizeof(BatchRow))

    def chunk(self, Layout layout):
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
        chunk.adopt(&columns, layout, self.at(0), NULL)
        return chunk


@cython.final
cdef class Chunk:
    """Some columns of equal length. Immutable; shared with every Arrow consumer that took it."""
    cdef Storage* storage
    cdef readonly Rows rows
    cdef object lists

    def __dealloc__(self):
        storage_drop(self.storage)

    cdef int adopt(self, Columns* columns, Layout layout, const BatchRow* rows, const Constants* constants) except -1:
        """Takes over filled columns and makes the wanted ones of them."""
        cdef Constants none
        cdef const Constants* known = constants
        cdef int status
        if known == NULL:
            memset(&none, 0, sizeof(none))
            none.partition = -1
            known = &none
        self.storage = storage_new(layout.count)
        if self.storage == NULL:
            columns_release(columns)
            raise MemoryError
        self.storage.columns = columns[0]
        self.storage.rows = columns.rows
        memset(columns, 0, sizeof(Columns))
        with nogil:
            status = storage_fill(self.storage, layout.codes, layout.count, rows, <Run*>self.storage.columns.runs.data,
                                  self.storage.columns.run_count, known)
        if status != st.OK:
            raise MemoryError
        return 0

    def __len__(self):
        return self.storage.rows

    @property
    def out_of_range(self):
        return self.storage.columns.out_of_range

    def address(self, int64_t column, int buffer):
        """Where a buffer lies, as an Arrow consumer sees it (0: there is none)."""
        return <uintptr_t>self.storage.out[column].buffers[buffer]

    def column(self, int64_t column, int64_t width):
        """(validity, values or offsets, data) as memoryviews; None where there is none. `width`: bytes a value, or 0
        for offsets and data."""
        cdef const Column* c = self.storage.out + column
        cdef int64_t rows = self.storage.rows
        cdef const int32_t* offsets = <const int32_t*>c.buffers[1]
        validity = None if c.nulls == 0 else window(self, c.buffers[0], (rows + 7) // 8)
        if width > 0:
            return validity, window(self, c.buffers[1], rows * width), None
        if width < 0:                               # bits
            return validity, window(self, c.buffers[1], (rows + 7) // 8), None
        return validity, window(self, c.buffers[1], (rows + 1) * 4), window(self, c.buffers[2], offsets[rows])

    def headers(self):
        """(key offsets, keys, value validity, value offsets, values) of all headers, as memoryviews."""
        cdef Columns* c = &self.storage.columns
        cdef int64_t n = (c.headers + 1) * 4
        return (window(self, c.header_key.offsets.data, n), window(self, c.header_key.data.data, c.header_key.used),
                window(self, c.header_value.validity.data, (c.headers + 7) // 8),
                window(self, c.header_value.offsets.data, n),
                window(self, c.header_value.data.data, c.header_value.used))

    def runs(self):
        """int64 pairs (index of the batch row, rows from it), in order, as a memoryview."""
        return window(self, self.storage.columns.runs.data, self.storage.columns.run_count * <int64_t>sizeof(Run))

    def lists_capsule(self, offsets, validity, int64_t nulls):
        """A new arrow_array capsule: lists over the rows. `offsets` int32, `validity` bits; both are copied once."""
        cdef Storage* s = self.storage
        cdef Buffer* to = s.extra + s.extra_count
        cdef int i
        cdef Source source
        if self.lists is None:
            for i, buffer in enumerate((offsets, validity)):
                source = Source(buffer)
                if buffer_reserve(to + i, 0, <size_t>source.view.len) != 0:
                    pages_free(to.data, to.capacity)
                    to.data, to.capacity = NULL, 0
                    raise MemoryError
                if source.view.len > 0:
                    memcpy(to[i].data, source.data(), <size_t>source.view.len)
            s.extra_count += 2
            self.lists = (<uintptr_t>to[0].data, <uintptr_t>to[1].data, offsets.nbytes // 4 - 1, nulls)
        at, bits, length, nulls = self.lists
        return list_capsule(s, <const void*><uintptr_t>bits, <const void*><uintptr_t>at, length, nulls)


def arrow_values(schema, array):
    """An imported binary array: (validity or None, offsets, data, offset, length, 32 or 64). Views keep it alive."""
    spans, first, length, bits = borrow_values(schema, array)
    views = [None if at == 0 else window(array, <const void*><uintptr_t>at, size) for at, size in spans]
    return *views, first, length, bits


@cython.final
cdef class Decoder:
    """One engine over one input after another. Belongs to one thread at a time.

    options        see read.decode_options.Options
    codecs         the table of codecs, the package `kafkarec.codecs`
    file           names the input and turns on the rules for files
    later_segment  a later segment exists, so this one's log does not end here
    """
    cdef Engine e
    cdef Source source
    cdef Layout layout
    cdef Constants constants
    cdef Buffer aborted
    cdef object codecs, topic, file, file_name
    cdef bint skip
    cdef list damage
    cdef dict guesses

    def __init__(self, Layout layout, options, codecs, *, bint skip=False, file=None, topic=None, partition=None,
                 bint later_segment=False):
        self.layout = layout
        self.codecs = codecs
        self.skip = skip
        self.file_name = file or None
        self.file = None if not file else str(file).encode(errors="surrogateescape")
        self.topic = None if topic is None else topic.encode()
        fill_constants(&self.constants, self.topic, self.file, partition)
        self.damage = []
        self.guesses = {}
        self.e.columns.want = layout.want
        fill_options(&self.e.options, options, &self.aborted)
        self.e.options.skip, self.e.options.file_rules = skip, file is not None
        self.e.options.later_segment = later_segment
        if options.stable_offset is not None or self.e.options.ranged:
            self.e.columns.want |= WANT_OFFSET
        if self.e.options.timed:
            self.e.columns.want |= WANT_TIMESTAMP

    def __dealloc__(self):
        columns_release(&self.e.columns)
        pages_free(self.e.rows.data, self.e.rows.capacity)
        pages_free(self.aborted.data, self.aborted.capacity)
        pages_free(self.e.context.out.data, self.e.context.out.capacity)
        pages_free(self.e.keep.data, self.e.keep.capacity)
        input_release(&self.e.input)
        decompress_release(&self.e.context)

    def feed(self, data, start=0, stop=None):
        """The next input, or bytes [start, stop) of it: positions stay those of the whole."""
        cdef int64_t length
        self.source = data if isinstance(data, Source) else Source(data)
        length = self.source.size if stop is None else stop
        if self.source.reading is None:
            input_memory(&self.e.input, self.source.data(), length, self.source.size)
        else:
            input_reader(&self.e.input, &self.source.reader, length, self.source.size)
        engine_begin_input(&self.e, start)

    @property
    def filled(self):
        """(records, batches, bytes of the records) so far."""
        cdef Columns* c = &self.e.columns
        size = c.rows * 32 + c.key.used + c.value.used + c.header_key.used + c.header_value.used
        return c.rows, self.e.row_count, size

    @property
    def remaining(self):
        return 0 if self.e.finished else self.e.input.length - self.e.position

    def run(self):
        """Reads until a chunk is full (True) or the input ends (False). Raises, or records damage under skip."""
        cdef int status
        cdef bint ended
        while True:
            with nogil:
                status = engine_run(&self.e)
            if status == st.CHUNK_FULL:
                self.source.still_reads()
                return True
            detail = ""
            if status == st.NEEDS_CODEC:
                status, detail = self.decompress()
            if status == st.OK:
                continue
            self.source.still_reads()
            if status == st.OUT_OF_MEMORY:
                raise error("out_of_memory", fault_words(&self.e.fault, self.file_name, ""))
            with nogil:
                ended = engine_ended(&self.e, &status)
            if ended:
                return False
            self.damaged(status, detail)

    cdef tuple decompress(self):
        """Has the pending payload decompressed and decoded: (status, detail)."""
        cdef Py_buffer view
        cdef int status
        cdef int codec = self.e.row.codec
        cdef int64_t limit = engine_limit(&self.e)
        payload = PyMemoryView_FromMemory(<char*>self.e.payload, self.e.payload_length, PyBUF_READ)
        try:
            if self.e.row.magic == 2 and self.e.row.record_count == 0:
                self.codecs.probe(codec, payload, limit, self.e.row.magic)
                out = b""
            else:
                out = self.codecs.decompress(codec, payload, limit, self.guesses.get(codec, 0), self.e.row.magic)
        except self.codecs.MissingCodec as missing:
            raise error("missing_codec", fault_words(&self.e.fault, self.file_name, str(missing))) from None
        except self.codecs.LimitReached as reached:
            self.e.fault.expected = self.e.fault.found = limit
            return st.LIMIT_EXCEEDED, f"max_decompressed_bytes={self.e.options.limit} can be raised ({reached.detail})"
        except self.codecs.CodecError as wrong:
            return st.PAYLOAD_CORRUPT, f"{self.codecs.CODECS[codec].name}: {wrong.detail}"
        PyObject_GetBuffer(out, &view, PyBUF_SIMPLE)
        self.guesses[codec] = view.len
        with nogil:
            status = engine_payload(&self.e, <const uint8_t*>view.buf, view.len)
        PyBuffer_Release(&view)
        return status, ""

    cdef int damaged(self, int status, detail) except -1:
        """Raises the fault, or records it and goes on behind it."""
        cdef int64_t start = self.e.position, end
        if not self.skip:
            status = refused_status(&self.e, status)
            raise error(_REASONS[status - st.SIZE_TOO_SMALL], self.fault(status, detail))
        with nogil:
            end = engine_skip(&self.e, &status)
        self.source.still_reads()
        good_next = None if self.e.good_next == INT64_MIN else self.e.good_next
        self.damage.append((start, end - start, _REASONS[status - st.SIZE_TOO_SMALL], self.fault(status, detail),
                            good_next, self.e.row_count, self.e.columns.rows))
        return 0

    cdef dict fault(self, int status, detail):
        if status == st.UNREADABLE:
            detail = why_unreadable(self.source.reader.why)
        elif status == st.LENGTH_BEYOND_END and self.e.options.later_segment:
            detail = "a later segment follows"
        return fault_words(&self.e.fault, self.file_name, detail)

    def pop_damage(self, bint final=True):
        """Damage so far, as damage.resolve gives it; one behind the last batch waits for the next unless `final`."""
        following = [self.first_offset(entry[5]) for entry in self.damage]
        ready, self.damage = resolve(self.damage, following, self.file_name, final)
        return ready

    cdef object first_offset(self, int64_t batch):
        return (<BatchRow*>self.e.rows.data)[batch].first_offset if batch < self.e.row_count else None

    def take(self, bint empty=False):
        """(Chunk of the records so far, Rows of their batches); the decoder goes on with empty ones. The chunk of no
        records is None, or with `empty` one without rows."""
        cdef Chunk chunk = None
        cdef Rows rows = Rows.__new__(Rows)
        remember_good(&self.e)
        rows.buffer, rows.count = self.e.rows, self.e.row_count
        memset(&self.e.rows, 0, sizeof(Buffer))
        engine_begin_chunk(&self.e)
        self.e.first_row = 0
        if empty and columns_reserve(&self.e.columns, 1, 0) != st.OK:
            raise MemoryError
        if empty or self.e.columns.rows > 0:
            want = self.e.columns.want
            chunk = Chunk.__new__(Chunk)
            chunk.rows = rows
            chunk.adopt(&self.e.columns, self.layout, rows.at(0), &self.constants)
            self.e.columns.want = want
        return chunk, rows
