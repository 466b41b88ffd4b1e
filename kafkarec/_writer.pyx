"""The compiled module that writes: columns or rows in, `_c` with the GIL released, batches out.

A module of its own beside `_core`, which reads. It knows no format: it keeps the input alive, calls codecs, and turns
errors into messages. `write/header.py` and `write/encoding.py` choose the header fields of a batch.
"""
cimport cython
from cpython.buffer cimport PyBUF_READ, PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.memoryview cimport PyMemoryView_FromMemory
from cpython.ref cimport PyObject
from libc.stdint cimport INT64_MAX, int64_t, uint8_t
from libc.stdlib cimport free

from kafkarec._c.batch cimport ABSENT
from kafkarec._c.checksum cimport checksums_install, checksums_prepare
from kafkarec._c.columns cimport buffer_reserve
from kafkarec._c.encode cimport encoder_run
from kafkarec._c.page_pool cimport pages_free, pages_trim
from kafkarec._c.write_v2 cimport EXPLICIT_BASE_OFFSET, OVERRIDE_PRODUCER, RecordFields, body_size, varint_size
from kafkarec._c.write_v01 cimport message_size
from kafkarec._c.batch_builder cimport BATCH_TOO_LARGE, INPUT_CHANGED, Encoder, batch_of_none, batch_sealed
from kafkarec._c.input_columns cimport LARGE_RECORD, MOST_RESERVED, NO_NUMBERS, RECORD_FIELDS, input_bytes, number
from kafkarec._c.compress cimport (
    LZ4_HEAD, ZSTD_PARAMETERS, compress_install_lz4, compress_install_zstd, compress_release,
)
from kafkarec._c cimport status as st
from kafkarec._entry.batch_cuts cimport BatchCuts, buffer_of, cuts_fill, cuts_last_offset
from kafkarec._entry.open_batch cimport OpenBatchState, LOOK_AGAIN, YES, add_record, has_room, size_so_far
from kafkarec._entry.arrow_import cimport (
    InputChunks, chunks_of_rows, chunks_release, chunks_rows, import_array, import_stream,
)
from kafkarec._entry.column_binding cimport fill_batch_fields
from kafkarec._entry.py_rows cimport PyRows, has_offsets, rows_fill, rows_release

from kafkarec import _checksum
from kafkarec.errors import MissingCodecError

_address, _way = _checksum.find()
checksums_prepare(_way != "table")
checksums_install(<size_t>_address)

# Columns that are one value a batch, by their place in the C enum BatchField.
_FIELDS = {
    name: place
    for place, name in enumerate((
        "base_offset", "partition_leader_epoch", "timestamp_type", "producer_id", "producer_epoch", "sequence",
        "is_transactional", "is_control", "magic",
    ))
} | {"timestampType": 2}


_codecs = _native = _refused = None


def attach(codecs, native, refused):
    """What `write` gives this module: `codecs`, `codecs.native_compress`, and `write.record_errors.refused`."""
    global _codecs, _native, _refused
    _codecs, _native, _refused = codecs, native, refused


def install_native(str codec, addresses):
    """From now on lz4 or zstd payloads are compressed by these functions; see codecs/native_compress.py."""
    cdef size_t[5] at
    for i, address in enumerate(addresses):
        at[<int>i] = address
    if codec == "lz4":
        compress_install_lz4(at)
    else:
        compress_install_zstd(at)


def release_memory():
    """Gives the recycled buffers of this module back to the system; answers how many bytes."""
    return pages_trim()


def record_size(int magic, int64_t offset_delta, int64_t timestamp_delta, key, value, headers=()):
    """Bytes of one record: magic 2 with its length (DefaultRecord.sizeInBytes), a message with offset and size."""
    cdef RecordFields d
    cdef int64_t body, total
    d.key.length = ABSENT if key is None else len(key)
    d.value.length = ABSENT if value is None else len(value)
    if magic < 2:
        return message_size(&d, <signed char>magic)
    total = varint_size(len(headers))
    for name, content in headers:
        length = len(name.encode() if isinstance(name, str) else name)
        total += varint_size(length) + length
        total += 1 if content is None else varint_size(len(content)) + len(content)
    d.headers_size = total
    body = body_size(&d, offset_delta, timestamp_delta)
    return body + varint_size(body)


@cython.final
cdef class OpenBatch:
    """The records of a batch in the making, and their sizes: see `_entry/open_batch.pxd` and write/builder.py.

    Where an answer is None nothing has changed, and the caller is to look at the fields himself.
    """
    cdef OpenBatchState g
    cdef int lent
    cdef public bint is_open

    def __cinit__(self, int magic, int codec, *, base_offset, base_timestamp, log_append_time, int64_t limit,
                  int64_t header_size, int64_t most_records, int64_t most_bytes):
        self.g.magic, self.g.packed, self.g.base_offset = <signed char>magic, codec != 0, base_offset
        self.g.stamps = log_append_time is not None
        if self.g.stamps:
            self.g.log_append_time = log_append_time
        self.g.has_base_timestamp = base_timestamp is not None
        if self.g.has_base_timestamp:
            self.g.base_timestamp = base_timestamp
        self.g.max_timestamp = self.g.offset_of_max_timestamp = ABSENT
        self.g.limit, self.g.header_size = limit, header_size
        self.g.most_records, self.g.most_bytes = most_records, most_bytes - header_size
        self.is_open = True

    def __dealloc__(self):
        rows_release(&self.g.rows)

    def __len__(self):
        return self.g.rows.count

    @cython.critical_section
    def append(self, timestamp, key, value, headers, offset):
        """The record's offset, or None."""
        if not self.is_open or self.lent or add_record(
            &self.g, <PyObject*>timestamp, <PyObject*>key, <PyObject*>value, <PyObject*>headers, <PyObject*>offset
        ) == LOOK_AGAIN:
            return None
        return self.g.last_offset

    @cython.critical_section
    def has_room(self, timestamp, key, value, headers):
        """True, False or None."""
        cdef int answer
        if not self.is_open:
            return False
        if self.lent:
            return None
        answer = has_room(&self.g, <PyObject*>timestamp, <PyObject*>key, <PyObject*>value, <PyObject*>headers)
        return None if answer == LOOK_AGAIN else answer == YES

    def write(self, header):
        """The batch. Nothing can be added meanwhile."""
        with cython.critical_section(self):
            self.lent += 1
        try:
            return RecordInput(batch=self).write(header)
        finally:
            with cython.critical_section(self):
                self.lent -= 1

    @cython.critical_section
    def clear(self):
        """Lets go of the records; what they took stays known."""
        self.is_open = False
        if not self.lent:
            rows_release(&self.g.rows)

    @property
    def size(self):
        """Bytes of the records, uncompressed."""
        return self.g.size

    @property
    def size_so_far(self):
        """With the header; where compressed a guess."""
        guess = int(size_so_far(&self.g))
        return self.g.header_size + guess if self.g.packed else guess

    @property
    def ratio(self):
        return self.g.ratio

    @ratio.setter
    def ratio(self, ratio):
        self.g.ratio = ratio

    @property
    def first_offset(self):
        return self.g.rows.offsets[0] if self.g.rows.count > 0 else ABSENT

    @property
    def last_offset(self):
        return self.g.last_offset if self.g.has_last else None

    @last_offset.setter
    def last_offset(self, offset):
        self.g.last_offset, self.g.has_last = offset, True

    @property
    def base_timestamp(self):
        return self.g.base_timestamp if self.g.has_base_timestamp else None

    @property
    def max_timestamp(self):
        """And the offset of the first record that has it."""
        return self.g.max_timestamp, self.g.offset_of_max_timestamp


@cython.final
cdef class RecordInput:
    """Rows that can be written: Arrow arrays, held by reference, or a table of pointers into Python's bytes.

    stream, array      what __arrow_c_stream__ or __arrow_c_array__ gave
    rows, ways         a tuple of records, and how they become rows: see write/py_rows.py
    batch              an OpenBatch, to which nothing is added as long as the record_input is in use
    left_out           names of columns that are not looked at
    own                the stream is one of kafkarec's own: what its buffers hold is not checked again
    """
    cdef InputChunks input
    cdef readonly int64_t rows
    cdef readonly set names
    cdef PyRows table
    cdef object held
    cdef int64_t promised             # bytes of a table's rows
    cdef bint wide
    cdef readonly bint has_offsets

    def __cinit__(self, *, stream=None, array=None, tuple rows=None, ways=None, OpenBatch batch=None,
                  object left_out=frozenset(), bint own=False):
        cdef int64_t chunk
        if rows is not None:
            rows_fill(&self.table, rows, ways)
            self.take_table(&self.table, rows)
        elif batch is not None:
            self.take_table(&batch.g.rows, batch)
        elif array is not None:
            self.names = import_array(&self.input, array, _FIELDS, left_out)
        else:
            self.names = import_stream(&self.input, stream, _FIELDS, left_out, own)
        self.rows = chunks_rows(&self.input)
        self.wide = not self.names.isdisjoint(_FIELDS) or "compression" in self.names
        for chunk in range(self.input.count):
            self.has_offsets = self.has_offsets or self.input.chunks[chunk].offset.kind != NO_NUMBERS

    def __dealloc__(self):
        chunks_release(&self.input)
        rows_release(&self.table)

    def __len__(self):
        return self.rows

    cdef int64_t expected(self) noexcept:
        """Bytes that all rows may take, roughly: what the columns hold, and some for each record's own fields."""
        cdef int64_t i, total = 4096 + self.promised
        if self.held is None:
            for i in range(self.input.count):
                total += input_bytes(self.input.chunks + i)
        return total if total < MOST_RESERVED else MOST_RESERVED

    cdef int take_table(self, const PyRows* table, object held) except -1:
        chunks_of_rows(&self.input, table)
        self.held = held
        self.promised = table.bytes + 2 * table.pair_count + RECORD_FIELDS * table.count
        self.names = {"timestamp", "key", "value", "headers"} | ({"offset"} if has_offsets(table) else set())
        return 0

    def write(self, header, int64_t start=0, stop=None, keep=None):
        """One batch of rows [start, stop), or those of them whose byte in `keep` is not 0, as the header says.

        Magic 2: no rows give an empty batch, 61 bytes, whose last offset the header tells. Magic 0 and 1: plain
        messages one behind the other, or with a codec one wrapper; no rows give no bytes.
        """
        cdef EncodeRun job = EncodeRun(self, header)
        job.e.as_is = True
        job.e.stop = self.rows if stop is None else stop
        job.e.given.explicit_fields |= EXPLICIT_BASE_OFFSET
        return job.one_batch(start, keep)

    def encode(self, header, first_offset, int64_t batch_size, tuple cuts=None, *, bint keep_cuts=False,
               bint keep_codec=False, bint keep_magic=False, int overrides=0):
        """Batches of at most `batch_size` bytes, or of the cuts; what neither rows nor cuts tell comes from the header.

        first_offset    of the output: offsets of the input are moved by as much as it takes; None: they stay
        overrides       bits of the C enum Override: what the header says of every batch, whatever the input says
        """
        cdef EncodeRun job = EncodeRun(self, header, keep_codec)
        job.e.batch_size = batch_size
        job.e.keep_cuts, job.e.keep_magic = keep_cuts, keep_magic
        job.e.numbered = not self.has_offsets
        job.e.wide = self.wide
        job.e.overrides = overrides
        job.e.sequenced = not overrides & OVERRIDE_PRODUCER and (cuts is not None or "sequence" in self.names)
        if cuts is not None:
            tables, with_empty = cuts
            cuts_fill(&job.cuts, tables, with_empty)
            job.held = cuts
            job.e.cuts, job.e.cut_count = job.cuts.cuts, job.cuts.count
        if first_offset is not None and not job.e.numbered:
            job.e.shift = first_offset - self.first_offset(&job.cuts)
            if job.e.shift > 0 and cuts_last_offset(&job.cuts) > INT64_MAX - job.e.shift:
                raise ValueError(f"first offset {first_offset}: the last one would be above 2^63-1")
        return job.batches(first_offset or 0)

    cdef int64_t first_offset(self, const BatchCuts* cuts) noexcept:
        """Where the input begins: its first batch's base offset, or its first row's offset."""
        cdef int64_t i, found = 0
        if cuts.count > 0 and cuts.cuts[0].whole:
            return cuts.cuts[0].batch.base_offset
        for i in range(self.input.count):
            if self.input.chunks[i].rows > 0:
                number(&self.input.chunks[i].offset, 0, &found)
                break
        return found


@cython.final
cdef class EncodeRun:
    """One run of the encoder over a record_input: its C state, and what must be given back."""
    cdef Encoder e
    cdef RecordInput record_input
    cdef BatchCuts cuts
    cdef object level, held

    def __cinit__(self, RecordInput record_input, header, bint keep_codec=False):
        cdef int i
        cdef bytes heads = _native.LZ4_HEADS
        self.record_input, self.level = record_input, header.level
        fill_batch_fields(&self.e.given, header)
        self.e.stop = record_input.rows
        self.e.keep_codec = keep_codec
        levels, parameters = _native.levels(None if keep_codec else header.codec, header.level)
        for i in range(5):
            self.e.compress_context.levels[i] = levels[i]
        for i in range(ZSTD_PARAMETERS):
            self.e.compress_context.zstd_parameters[i] = parameters[i]
        for i in range(2 * LZ4_HEAD):
            self.e.compress_context.lz4_heads[i] = heads[i]

    def __dealloc__(self):
        pages_free(self.e.body.data, self.e.body.capacity)
        if not self.e.fixed:
            pages_free(self.e.out.data, self.e.out.capacity)
        compress_release(&self.e.compress_context)
        free(self.cuts.cuts)

    cdef int rewind(self, int64_t first_offset, int64_t start) except -1:
        """To row `start`, with space for what the input's sizes promise."""
        self.e.chunks, self.e.chunk_count = self.record_input.input.chunks, self.record_input.input.count
        self.e.chunk = self.e.rows_before = self.e.cut = self.e.cut_row = 0
        while self.e.chunk < self.e.chunk_count and start - self.e.rows_before >= self.e.chunks[self.e.chunk].rows:
            self.e.rows_before += self.e.chunks[self.e.chunk].rows
            self.e.chunk += 1
        self.e.row = start - self.e.rows_before
        self.e.next_offset, self.e.next_sequence = first_offset, self.e.given.base_sequence
        self.e.any_row = self.e.open = self.e.settled = False
        self.e.ratio = 1
        self.e.written = self.e.batches = 0
        if self.e.measuring or self.e.fixed:
            return 0
        if self.e.given.codec == 0 and buffer_reserve(&self.e.out, 0, <size_t>self.record_input.expected()) != st.OK:
            raise MemoryError
        return 0

    cdef bytes one_batch(self, int64_t start, keep):
        cdef Py_buffer view
        cdef int status
        if not 0 <= start <= self.e.stop <= self.record_input.rows:
            raise ValueError(f"rows {start} to {self.e.stop} of {self.record_input.rows}")
        self.rewind(self.e.given.base_offset, start)
        self.e.numbered = not self.record_input.has_offsets
        if keep is None:
            self.run()
        else:
            PyObject_GetBuffer(keep, &view, PyBUF_SIMPLE)
            try:
                if view.len != self.e.stop - start:
                    raise ValueError(f"{view.len} bytes of `keep` for {self.e.stop - start} rows")
                self.e.keep = <const uint8_t*>view.buf - start
                self.run()
            finally:
                PyBuffer_Release(&view)
        if self.e.batches == 0 and self.e.given.magic >= 2:
            self.e.given.codec = 0
            status = batch_of_none(&self.e, &self.e.given)
            if status != st.OK:
                self.refuse(status)
        return PyBytes_FromStringAndSize(<const char*>self.e.out.data, self.e.written)

    cdef bytes batches(self, int64_t first_offset):
        self.e.measuring = (self.e.given.codec == 0 and not self.e.keep_codec
                            and self.record_input.expected() > LARGE_RECORD * self.record_input.rows)
        self.rewind(first_offset, 0)
        self.run()
        return self.measured(first_offset) if self.e.measuring else PyBytes_FromStringAndSize(
            <const char*>self.e.out.data, self.e.written
        )

    cdef bytes measured(self, int64_t first_offset):
        """What was measured, written at once where it stays: a copy less, which large records pay for."""
        cdef bytes out = PyBytes_FromStringAndSize(NULL, self.e.written)
        cdef int64_t size = self.e.written
        self.e.measuring, self.e.fixed = False, True
        self.e.out.data, self.e.out.capacity = <uint8_t*>buffer_of(out, &size), <size_t>size
        self.rewind(first_offset, 0)
        self.run()
        if self.e.written != size:
            self.refuse(INPUT_CHANGED)
        return out

    cdef int run(self) except -1:
        cdef int status
        while True:
            with nogil:
                status = encoder_run(&self.e)
            if status == st.OK:
                return 0
            if status == st.NEEDS_CODEC:
                self.compress_body()
            else:
                self.refuse(status)

    cdef int compress_body(self) except -1:
        """Has the open batch's records compressed by `codecs`, and seals it."""
        cdef Py_buffer view
        cdef int status
        body = PyMemoryView_FromMemory(<char*>self.e.body.data, self.e.used, PyBUF_READ)
        try:
            packed = _codecs.compress(self.e.fields.codec, body, self.level, self.e.fields.magic)
        except _codecs.MissingCodec as missing:
            raise MissingCodecError(str(missing), reason="missing_codec") from None
        PyObject_GetBuffer(packed, &view, PyBUF_SIMPLE)
        with nogil:
            status = batch_sealed(&self.e, <const uint8_t*>view.buf, view.len)
        PyBuffer_Release(&view)
        if status != st.OK:
            self.refuse(status)
        return 0

    cdef int refuse(self, int status) except -1:
        if status == st.OUT_OF_MEMORY:
            raise MemoryError
        if status == INPUT_CHANGED:
            raise ValueError("the input changed while it was written")
        if status == BATCH_TOO_LARGE:
            raise ValueError("a batch of more than 2^31-1 bytes")
        raise _refused(
            self.e.row_fault, self.e.rows_before + self.e.row, offset=self.e.refused_offset,
            previous=self.e.previous_offset, timestamp=self.e.refused_timestamp, base=self.e.fields.base_offset,
        )
