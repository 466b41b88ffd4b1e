"""The compiled module that writes: takes columns or rows, runs the functions of `_c` without the GIL, returns batches.

The format is implemented in `_c`. This module keeps the input alive, calls codecs, and converts errors to exceptions.
`write/fields.py` and `write/encoding.py` choose the header fields of a batch.
"""
cimport cython
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.exc cimport PyErr_CheckSignals
from cpython.ref cimport PyObject
from libc.stdint cimport INT32_MAX, INT64_MAX, INT64_MIN, int32_t, int64_t, uint8_t
from libc.stdlib cimport free
from libc.string cimport memset

from kafkarec._c.batch cimport ABSENT, BATCH_MAGIC, LATEST_CODEC, wrapping_add
from kafkarec._c.columns cimport Buffer, buffer_free, buffer_reserve
from kafkarec._c.write cimport (
    BATCH_LIMIT, EXPLICIT_BASE_OFFSET, INITIAL_RATIO as FIRST_RATIO, OVERRIDE_LEADER_EPOCH, OVERRIDE_PRODUCER,
    OVERRIDE_TIMESTAMP_TYPE, OVERRIDE_TRANSACTIONAL, BatchFields, RecordFields, batch_header_size,
    estimated_size as batch_size_so_far, is_full, next_ratio as ratio_after, record_size as size_of, size_with_length,
)
from kafkarec._c.encode cimport RowSummary, encoder_run, full_before, summarize
from kafkarec._c.numbers cimport varint_size
from kafkarec._c.batch_builder cimport (
    Encoder, batch_close_compressed, is_whole, write_empty_batch,
)
from kafkarec._c.input_columns cimport (
    FIELD_BASE_OFFSET, FIELD_CONTROL, FIELD_LEADER_EPOCH, FIELD_MAGIC, FIELD_PRODUCER_EPOCH, FIELD_PRODUCER_ID,
    FIELD_SEQUENCE, FIELD_TIMESTAMP_TYPE, FIELD_TRANSACTIONAL, LARGE_RECORD, MOST_RESERVED, NO_NUMBERS, SMALL_INPUT,
    InputChunk, estimated_encoded_size, number,
)
from kafkarec._c.compress cimport LZ4_HEAD, ZSTD_PARAMETERS, compress_release
from kafkarec._entry.written_batches cimport (
    FALL_BACK, YES, OpenBatchState, OriginalBatches, add_record, has_last_offset, has_room, originals_fill,
    originals_last_offset, set_last_offset,
)
from kafkarec._entry.arrow_import cimport (
    InputChunks, chunks_release, fill_batch_fields, import_array, import_stream, new_chunk,
)
from kafkarec._entry.calls cimport (
    ENCODE_OPTIONS, INIT_ARGUMENTS, OWN_ARGUMENTS, PyMethodDef, acquire_gil, call, fast_function, fast_method,
    made_before, release_gil, set_by_name, with_latest,
)
from kafkarec._entry.py_rows cimport (
    NAMES, SPARE_BYTES, Py_None, PyRows, RowTypes, kr_row_number, kr_rows_prepare, rows_bind, rows_fill, rows_recycle,
    rows_release,
)
from kafkarec._c.status cimport INPUT_CHANGED, NEEDS_CODEC, OK, OUT_OF_MEMORY, PAUSED, TOO_LARGE_TO_WRITE

from kafkarec.errors import MissingCodecError

_FIELDS = {
    "base_offset": FIELD_BASE_OFFSET,
    "partition_leader_epoch": FIELD_LEADER_EPOCH,
    "timestamp_type": FIELD_TIMESTAMP_TYPE,
    "timestampType": FIELD_TIMESTAMP_TYPE,
    "producer_id": FIELD_PRODUCER_ID,
    "producer_epoch": FIELD_PRODUCER_EPOCH,
    "sequence": FIELD_SEQUENCE,
    "is_transactional": FIELD_TRANSACTIONAL,
    "is_control": FIELD_CONTROL,
    "magic": FIELD_MAGIC,
}
BATCH_COLUMNS = frozenset(_FIELDS) | {"compression"}     # columns with header fields of a record's batch

_OVERRIDES = {
    "timestamp_type": OVERRIDE_TIMESTAMP_TYPE,
    "log_append_time": OVERRIDE_TIMESTAMP_TYPE,
    "partition_leader_epoch": OVERRIDE_LEADER_EPOCH,
    "producer_id": OVERRIDE_PRODUCER,
    "producer_epoch": OVERRIDE_PRODUCER,
    "base_sequence": OVERRIDE_PRODUCER,
    "is_transactional": OVERRIDE_TRANSACTIONAL,
}


BATCH_SIZE = <int64_t>BATCH_LIMIT

cdef object _codecs = None, _encoding = None
cdef RowTypes _row_types


def attach(codecs, encoding):
    """Sets what this module uses: `codecs` and `write.encoding`."""
    global _codecs, _encoding
    cdef int i
    _codecs, _encoding = codecs, encoding
    kr_rows_prepare()
    row_of, names = encoding.RECORD_CONVERSION
    _row_types.row_of = <PyObject*>row_of
    for i in range(NAMES):
        _row_types.names[i] = <PyObject*>names[i]


INITIAL_RATIO = float(FIRST_RATIO)


def record_size(signed char magic, int64_t offset_delta, int64_t timestamp_delta, key, value, headers=()):
    """Bytes of a record: see `_c/write.pxd`."""
    cdef RecordFields d
    d.key.length = ABSENT if key is None else len(key)
    d.value.length = ABSENT if value is None else len(value)
    if magic >= BATCH_MAGIC:
        d.headers_size = varint_size(len(headers))
        for name, content in headers:
            d.headers_size += size_with_length(len(name))
            d.headers_size += size_with_length(ABSENT if content is None else len(content))
    return size_of(&d, magic, offset_delta, timestamp_delta)


def next_ratio(float expected, float seen):
    """The expected ratio after a batch with the ratio `seen`."""
    return ratio_after(expected, seen)


cdef str OPEN = "open", BUILT = "built", ABORTED = "aborted"       # states of a builder
cdef PyRows _spare_rows                  # without rows


cdef class OpenBatch:
    """The records of an open batch and their sizes: see `_entry/written_batches.pxd`.
    The base of RecordBatchBuilder, whose properties these are; the other names are private.

    _append_row and _has_room return None if a field must be converted or cannot be written; nothing has changed then.
    """
    cdef OpenBatchState g
    cdef EncodeOptions options
    cdef int writing                     # how many calls of `write` are running
    cdef readonly str _state             # None before `begin`
    cdef bytes built
    cdef float ratio                     # of the built batch's records
    cdef public object _topic
    cdef public int64_t _most_bytes      # of a batch before compression

    def _begin(self, header, int64_t batch_size):
        """Begins a batch without records. header: a write.fields.BatchHeader without the last offset."""
        cdef EncodeOptions options = EncodeOptions(header)
        options.e.limit.most = batch_size
        self.begin(options, &options.e.defaults)

    cdef int begin(self, EncodeOptions options, const BatchFields* fields) except -1:
        global _spare_rows
        self.drop_rows()
        memset(&self.g, 0, sizeof(OpenBatchState))
        self.g.rows = _spare_rows
        memset(&_spare_rows, 0, sizeof(PyRows))
        self.options, self._state, self.built, self._topic = options, OPEN, b"", None
        self.ratio = 1.0
        self.g.fields = fields[0]
        self.g.limit.most, self.g.limit.ratio = options.e.limit.most, FIRST_RATIO
        self.g.limit.header_size = batch_header_size(fields.magic, fields.codec)
        self.g.limit.compressed = fields.codec != 0
        self.g.max_timestamp = self.g.offset_of_max_timestamp = ABSENT
        self._most_bytes = INT32_MAX
        return 0

    cdef int drop_rows(self) noexcept:
        """Removes the records; the memory of a small table is kept for the next builder."""
        global _spare_rows
        rows_recycle(&self.g.rows)
        if _spare_rows.capacity == 0:
            _spare_rows = self.g.rows
            memset(&self.g.rows, 0, sizeof(PyRows))
        rows_release(&self.g.rows)

    def __dealloc__(self):
        self.drop_rows()

    def __len__(self):
        return self.g.rows.count

    cdef bint add(self, PyObject* timestamp, PyObject* key, PyObject* value, PyObject* headers,
                  PyObject* offset) except -1:
        return self._state is OPEN and not self.writing and add_record(
            &self.g, self._most_bytes, timestamp, key, value, headers, offset
        ) == YES

    def _append_row(self, timestamp, key, value, headers, offset):
        """Appends a record; its offset, or None."""
        if self.add(<PyObject*>timestamp, <PyObject*>key, <PyObject*>value, <PyObject*>headers, <PyObject*>offset):
            return self.g.fields.last_offset
        return None

    def _has_room(self, timestamp, key, value, headers):
        """Whether the record would fit, or None. False while the batch is written."""
        cdef int answer
        if self._state is not OPEN or self.writing:
            return False
        answer = has_room(&self.g, <PyObject*>timestamp, <PyObject*>key, <PyObject*>value, <PyObject*>headers)
        return None if answer == FALL_BACK else answer == YES

    def _build(self):
        """The batch as bytes, which the first call writes; b"" without records."""
        if self._state is OPEN:
            self.check_producer()
            self.built = self.write() if self.g.rows.count > 0 else b""
            self._state = BUILT
            if self.g.rows.count > 0 and (self.g.fields.magic >= BATCH_MAGIC or self.g.limit.compressed):
                self.ratio = <float>(len(self.built) - self.g.limit.header_size) / <float>self.g.size
        elif self._state is not BUILT:
            raise ValueError("the builder is aborted")
        return self.built

    cdef int check_producer(self) except -1:
        """MemoryRecordsBuilder.validateProducerState."""
        cdef const BatchFields* f = &self.g.fields
        if f.producer_id == ABSENT:
            if f.is_transactional:
                raise ValueError("a transactional batch needs a producer id")
            return 0
        if f.magic < BATCH_MAGIC:
            raise ValueError(f"magic {f.magic} has no field for a producer id")
        if f.producer_epoch == ABSENT:
            raise ValueError("a producer id needs a producer epoch")
        if f.base_sequence < 0 and not f.is_control:
            raise ValueError(f"a producer id needs a base sequence, not {f.base_sequence}")
        return 0

    cdef bytes write(self):
        """Writes the batch; meanwhile no record can be added."""
        cdef EncodeRun encoding = self.options.idle_or_new()
        cdef bytes batch
        self.writing += 1
        try:
            encoding.record_input.take_table(&self.g.rows, self)
            encoding.begin(self.options)
            encoding.e.defaults = self.g.fields
            encoding.make_single()
            batch = encoding.write_one_batch(0, None)
        finally:
            self.writing -= 1
        self.options.put_back(encoding)
        return batch

    def _abort(self):
        """Closes the batch and releases its records; its sizes and offsets are kept."""
        self._state, self.built = ABORTED, b""
        if not self.writing:
            self.drop_rows()

    @property
    def is_full(self):
        """Whether no further record fits, or the batch is built or aborted. False while it is open without records."""
        return self._state is not OPEN or (self.g.rows.count > 0 and is_full(&self.g.limit, self.g.size))

    @property
    def estimated_bytes_written(self):
        """Bytes so far with the header: exact without a codec, with one estimated by the expected ratio."""
        return batch_size_so_far(&self.g.limit, self.g.size)

    @property
    def estimated_size(self):
        """Bytes of the batch once it is built; before that `estimated_bytes_written`."""
        return len(self.built) if self._state is BUILT else self.estimated_bytes_written

    @property
    def estimated_compression_ratio(self):
        """The expected ratio that `has_room_for` uses. May be set; rounded to a 32-bit float."""
        return self.g.limit.ratio

    @estimated_compression_ratio.setter
    def estimated_compression_ratio(self, ratio):
        self.g.limit.ratio = ratio

    @property
    def compression_ratio(self):
        """Bytes of the built batch's payload / uncompressed bytes of its records; 1.0 before it is built."""
        return self.ratio

    @property
    def max_timestamp(self):
        """ms; -1 without one."""
        return self.g.fields.log_append_time if self.g.fields.timestamp_type == 1 else self.g.max_timestamp

    @property
    def offset_of_max_timestamp(self):
        """The offset of the first record that has the max timestamp; -1 without one."""
        if self.g.fields.timestamp_type == 0:
            return self.g.offset_of_max_timestamp
        return self.g.rows.offsets[0] if self.g.rows.count > 0 else <int64_t>ABSENT

    @property
    def last_offset(self):
        """The last record's offset, or the one set by `override_last_offset`; None without records."""
        return self.g.fields.last_offset if has_last_offset(&self.g) else None

    @property
    def next_offset(self):
        """The offset of the next record that is appended without one."""
        return <object>self.g.fields.last_offset + 1 if has_last_offset(&self.g) else self.g.fields.base_offset

    @property
    def magic(self):
        return self.g.fields.magic

    @property
    def base_offset(self):
        return self.g.fields.base_offset

    @property
    def producer_id(self):
        return self.g.fields.producer_id

    @property
    def producer_epoch(self):
        return self.g.fields.producer_epoch

    @property
    def base_sequence(self):
        return self.g.fields.base_sequence

    @property
    def is_transactional(self):
        return self.g.fields.is_transactional

    @property
    def is_control(self):
        return self.g.fields.is_control

    @property
    def delete_horizon_ms(self):
        return self.g.fields.delete_horizon_ms if self.g.fields.has_horizon else None

    @property
    def is_closed(self):
        """Whether the batch is built."""
        return self._state is BUILT

    @property
    def _codec(self):
        return self.g.fields.codec

    @property
    def _leader_epoch(self):
        return self.g.fields.partition_leader_epoch

    @property
    def _limit(self):
        """Bytes: see `batch_size`."""
        return self.g.limit.most

    def _set_last_offset(self, int64_t offset):
        set_last_offset(&self.g, offset)


# ---- methods of RecordBatchBuilder that are compiled. Each calls its Python function for what it does not know

cdef object _append = None, _no_headers = ()
cdef object _init = None
cdef tuple _init_names = (), _init_defaults = ()
_OWN = ("base_offset", "base_sequence", "log_append_time", "topic")     # in which builders of equal options differ
cdef int[OWN_ARGUMENTS] _own_at          # where they are in _init_names
cdef tuple _known_headers = ()           # (arguments of builders without _OWN, EncodeOptions), the latest first


cdef object append_call(PyObject* batch, PyObject** arguments, Py_ssize_t count, PyObject* names):
    """RecordBatchBuilder.append(timestamp, key, value, headers=(), offset=None)."""
    cdef OpenBatch g = <OpenBatch>batch
    cdef bint added = False
    if names == NULL and 3 <= count <= 5 and not g.g.fields.is_control:
        added = g.add(arguments[0], arguments[1], arguments[2],
                      arguments[3] if count > 3 else <PyObject*>_no_headers,
                      arguments[4] if count > 4 else Py_None)
        if added:
            return g.g.fields.last_offset
    return call(_append, batch, arguments, count, names)


cdef bint set_own_numbers(PyObject** own, BatchFields* f) noexcept:
    """Sets base offset, base sequence and log append time. False for what is no int, or does not fit."""
    cdef int64_t sequence = ABSENT
    if own[0] == Py_None or own[1] == Py_None or own[2] == Py_None:
        return False
    if not (kr_row_number(own[0], &f.base_offset) and kr_row_number(own[1], &sequence)
            and kr_row_number(own[2], &f.log_append_time)):
        return False
    f.base_sequence = <int32_t>sequence
    return f.base_sequence == sequence


cdef object init_call(PyObject* itself, PyObject** arguments, Py_ssize_t count, PyObject* names):
    """RecordBatchBuilder.__init__(*, magic=2, ...)."""
    global _known_headers
    cdef OpenBatch batch = <OpenBatch>itself
    cdef EncodeOptions options = None
    cdef BatchFields fields
    cdef PyObject *given[INIT_ARGUMENTS]
    cdef PyObject *own[OWN_ARGUMENTS]
    cdef int i
    cdef bint by_name = count == 0 and set_by_name(given, _init_names, _init_defaults, arguments, names)
    if by_name:
        for i in range(OWN_ARGUMENTS):
            own[i] = given[_own_at[i]]
            given[_own_at[i]] = Py_None
        options = made_before(_known_headers, given)
    if options is not None:
        fields = options.e.defaults
        if set_own_numbers(own, &fields):
            batch.begin(options, &fields)
            if own[OWN_ARGUMENTS - 1] != Py_None:
                batch._use_topic(<object>own[OWN_ARGUMENTS - 1])
            return None
    call(_init, itself, arguments, count, names)
    if by_name and options is None:
        known = tuple([<object>given[i] for i in range(<int>INIT_ARGUMENTS)])
        _known_headers = with_latest(_known_headers, known, batch.options)


cdef PyMethodDef _append_call, _init_call


def compiled_append(function):
    """A decorator of RecordBatchBuilder.append: the compiled method. It calls `function` for a record with a field that
    must be converted or cannot be written."""
    global _append
    _append = function
    return fast_method(&_append_call, <PyObject*>OpenBatch, function, <void*>append_call)


def compiled_init(function):
    """A decorator of RecordBatchBuilder.__init__: the compiled method. It calls `function`, which checks the arguments,
    once for equal ones."""
    global _init, _init_names, _init_defaults
    cdef int i
    _init, _init_names = function, tuple(function.__kwdefaults__)
    _init_defaults = tuple(function.__kwdefaults__.values())
    for i in range(OWN_ARGUMENTS):
        _own_at[i] = _init_names.index(_OWN[i])
    if len(_init_names) != INIT_ARGUMENTS:
        raise TypeError(f"{INIT_ARGUMENTS} arguments by name are expected")
    return fast_method(&_init_call, <PyObject*>OpenBatch, function, <void*>init_call)


@cython.final
cdef class RecordInput:
    """Rows to write: Arrow arrays, not copied, or a table of pointers to Python's bytes.

    stream, array      what __arrow_c_stream__ or __arrow_c_array__ returned
    rows               a tuple of records, converted as write/encoding.py says
    left_out           names of ignored columns
    own                kafkarec made the stream: the contents of its buffers are not checked
    """
    cdef InputChunks input
    cdef readonly int64_t rows
    cdef set columns                     # None: the rows are a table
    cdef PyRows table
    cdef object kept_alive
    cdef int64_t estimated_size          # bytes of the encoded rows
    cdef bint has_field_columns
    cdef readonly bint has_offsets

    def __cinit__(self, *, stream=None, array=None, tuple rows=None, object left_out=frozenset(), bint own=False):
        if rows is not None:
            self.take_rows(rows)
            return
        if array is not None:
            self.columns = import_array(&self.input, array, _FIELDS, left_out)
        else:
            self.columns = import_stream(&self.input, stream, _FIELDS, left_out, own)
        self.has_field_columns = not self.columns.isdisjoint(BATCH_COLUMNS)
        self.look_at_chunks()

    def __dealloc__(self):
        chunks_release(&self.input)
        rows_release(&self.table)

    def __len__(self):
        return self.rows

    @property
    def names(self):
        """The set of the names of the columns."""
        if self.columns is not None:
            return self.columns
        return {"timestamp", "key", "value", "headers"} | ({"offset"} if self.has_offsets else set())

    cdef int look_at_chunks(self) noexcept:
        """Sets what the bound chunks say: how many rows, whether they have offsets, and their size."""
        cdef const InputChunk* chunk
        cdef int64_t i
        self.rows, self.has_offsets, self.estimated_size = 0, False, 4096
        for i in range(self.input.count):
            chunk = self.input.chunks + i
            self.rows += chunk.rows
            self.has_offsets = self.has_offsets or chunk.offset.width != NO_NUMBERS
            self.estimated_size = min(self.estimated_size + estimated_encoded_size(chunk), <int64_t>MOST_RESERVED)
        return 0

    cdef int take_rows(self, tuple rows) except -1:
        rows_fill(&self.table, <PyObject*>rows, len(rows), &_row_types)
        return self.take_table(&self.table, rows)

    cdef int take_table(self, const PyRows* table, object kept_alive) except -1:
        if self.input.count == 0:
            new_chunk(&self.input)
            self.input.count = 1
        rows_bind(table, self.input.chunks)
        self.kept_alive = kept_alive
        return self.look_at_chunks()

    def write(self, header, int64_t start=0, stop=None, bytes keep=None):
        """One batch of rows [start, stop), of those whose byte in `keep` is not 0, with the fields of `header`.

        Magic 2: without rows the result is an empty batch of 61 bytes with the header's last offset. Magic 0 and 1:
        consecutive plain messages, or with a codec one wrapper; without rows the result is empty.
        """
        stop = self.rows if stop is None else stop
        return self.single_batch(EncodeOptions(header), start, stop).write_one_batch(start, keep)

    def write_full_batch(self, header, int64_t start, int64_t stop, int64_t batch_size, float ratio, *,
                         bint may_continue):
        """One batch of the first rows of [start, stop) that fit `batch_size`: (batch, the row after it, the expected
        ratio after it). None if all rows fit and `may_continue`: more rows may follow."""
        cdef EncodeRun encoding = self.single_batch(EncodeOptions(header), start, stop)
        cdef Encoder* e = &encoding.e
        e.limit.most, e.limit.ratio = batch_size, ratio
        e.measuring = True
        encoding.rewind(e.defaults.base_offset, start)
        e.stop = full_before(e)
        e.measuring = False
        if e.stop == stop and may_continue:
            return None
        return encoding.write_one_batch(start, None), e.stop, e.limit.ratio

    def batch_starts(self, header, int64_t start, int64_t stop, int64_t batch_size):
        """The rows of [start, stop) that begin a batch of at most `batch_size` bytes with the fields of `header`, of
        which the first record gives the base offset. A larger record is a batch of its own."""
        cdef EncodeRun encoding = self.single_batch(EncodeOptions(header), start, stop)
        cdef list starts = []
        encoding.e.limit.most, encoding.e.limit.ratio = batch_size, FIRST_RATIO
        encoding.e.defaults.explicit_fields &= ~EXPLICIT_BASE_OFFSET
        encoding.e.measuring = True
        encoding.rewind(0, start)
        while start < stop:
            starts.append(start)
            encoding.e.open = False
            with nogil:
                start = full_before(&encoding.e)
        return starts

    def summary(self, int64_t start, int64_t stop):
        """The fields of RowSummary (`_c/encode.pxd`), as a dict, of the rows [start, stop). Rows without offset
        have -1."""
        cdef RowSummary s
        self.check_row_range(start, stop)
        with nogil:
            summarize(self.input.chunks, start, stop, &s)
        return s

    cdef int check_row_range(self, int64_t start, int64_t stop) except -1:
        if not 0 <= start <= stop <= self.rows:
            raise ValueError(f"rows {start} to {stop} of {self.rows}")
        return 0

    cdef EncodeRun single_batch(self, EncodeOptions options, int64_t start, int64_t stop):
        """A run that writes rows [start, stop) as one batch."""
        cdef EncodeRun encoding
        self.check_row_range(start, stop)
        encoding = EncodeRun(self)
        encoding.begin(options)
        encoding.e.stop = stop
        encoding.make_single()
        return encoding

    cdef bytes encode(self, EncodeRun encoding, object base_offset, object batch_size, tuple originals):
        """Batches of at most `batch_size` bytes, or the original ones if that is None. Fields that neither rows nor
        original batches have are those of the options.

        base_offset     of the output: all offsets of the input are shifted to begin there; None: unchanged
        originals       (tables of `_entry/written_batches.pxd`, whether to write batches without rows), or None
        """
        cdef Encoder* e = &encoding.e
        cdef int64_t first = 0
        e.stop = self.rows
        e.limit.most = BATCH_LIMIT
        if batch_size is not None:
            e.limit.most = batch_size
        e.limit.ratio = FIRST_RATIO
        e.keep_originals = batch_size is None
        e.assign_offsets = not self.has_offsets
        e.has_field_columns = self.has_field_columns
        if not e.overrides & OVERRIDE_PRODUCER:
            e.has_sequences = originals is not None or (self.columns is not None and "sequence" in self.columns)
        if originals is not None:
            tables, with_empty = originals
            originals_fill(&encoding.originals, tables, with_empty)
            encoding.kept_alive = originals
            e.originals, e.original_count = encoding.originals.batches, encoding.originals.count
        if base_offset is not None:
            first = base_offset
            if not e.assign_offsets:
                before = self.first_offset(&encoding.originals)
                last = max(originals_last_offset(&encoding.originals), 0)         # 0: the shift has to fit, too
                if last - before > INT64_MAX - first:
                    raise ValueError(f"first offset {first}: the last offset would be above 2^63-1")
                e.shift = first - before
        return encoding.write(first)

    cdef int64_t first_offset(self, const OriginalBatches* originals) noexcept:
        """The first offset of the input: its first batch's base offset, or its first row's offset."""
        cdef int64_t i, offset = 0
        if originals.count > 0 and is_whole(originals.batches):
            return originals.batches[0].batch.base_offset
        for i in range(self.input.count):
            if self.input.chunks[i].rows > 0:
                number(&self.input.chunks[i].offset, 0, &offset)
                break
        return offset


@cython.final
cdef class EncodeOptions:
    """What is the same for all runs of the encoder with these options.

    header                           write.fields.BatchHeader: the fields of batches that the rows do not have
    keep_codec, keep_magic           those of the rows, or of the batches that they were read from
    overrides                        names of fields of `header` that take precedence over rows and original batches

    ValueError for a level that Kafka refuses.
    """
    cdef Encoder e                       # options only
    cdef object header
    cdef EncodeRun spare                 # of an earlier call: its memory is used again

    def __cinit__(self, header, bint keep_codec=False, bint keep_magic=False, overrides=()):
        cdef int i
        cdef bytes heads = _codecs.lz4.KAFKA_HEADER + _codecs.lz4.MAGIC_0_HEADER
        self.header = header
        fill_batch_fields(&self.e.defaults, header)
        self.e.keep_codec, self.e.keep_magic = keep_codec, keep_magic
        for name in overrides:
            self.e.overrides |= <int>_OVERRIDES[name]
        for i in range(2 * LZ4_HEAD):
            self.e.compress_context.lz4_heads[i] = heads[i]
        levels, parameters = _codecs.compression_parameters(None if keep_codec else header.codec, header.level)
        for i in range(LATEST_CODEC + 1):
            self.e.compress_context.levels[i] = levels[i]
        for i in range(ZSTD_PARAMETERS):
            self.e.compress_context.zstd_stream_parameters[i] = parameters[i]

    cdef EncodeRun idle_or_new(self):
        """A run over rows that are yet to be given; `put_back` once it has ended well."""
        cdef EncodeRun encoding = self.spare
        self.spare = None
        return EncodeRun(RecordInput(rows=())) if encoding is None else encoding

    cdef int put_back(self, EncodeRun encoding) except -1:
        rows_recycle(&encoding.record_input.table)
        encoding.record_input.kept_alive = None
        free_above(&encoding.e.out, SPARE_BYTES)
        free_above(&encoding.e.body, SPARE_BYTES)
        self.spare = encoding
        return 0


cdef void free_above(Buffer* buffer, size_t most) noexcept:
    """Frees a buffer of more than `most` bytes."""
    if buffer.capacity > most:
        buffer_free(buffer)
        buffer.data, buffer.capacity = NULL, 0


@cython.final
cdef class EncodeRun:
    """One run of the encoder over a RecordInput; frees its memory."""
    cdef Encoder e
    cdef RecordInput record_input
    cdef OriginalBatches originals
    cdef object level, kept_alive
    cdef bint small                      # releasing the GIL would take longer than the run

    def __cinit__(self, RecordInput record_input not None):
        self.record_input = record_input

    cdef int begin(self, EncodeOptions options) except -1:
        """Sets the options, and encodes all rows; keeps the memory of an earlier run with the same options."""
        cdef Encoder* e = &self.e
        cdef Buffer out = e.out, body = e.body
        cdef void* lz4 = e.compress_context.lz4
        cdef void* zstd = e.compress_context.zstd
        self.e = options.e
        e.out, e.body = out, body
        e.compress_context.lz4, e.compress_context.zstd = lz4, zstd
        e.stop, self.level, self.small = self.record_input.rows, options.header.level, False
        return 0

    def __dealloc__(self):
        free_above(&self.e.body, 0)
        free_above(&self.e.out, 0)
        compress_release(&self.e.compress_context)
        free(self.originals.batches)

    cdef int make_single(self) noexcept:
        """Makes it a run that writes one batch."""
        self.e.single_batch = True
        self.e.assign_offsets = not self.record_input.has_offsets
        self.e.defaults.explicit_fields |= EXPLICIT_BASE_OFFSET

    cdef int rewind(self, int64_t first_offset, int64_t start) except -1:
        """Begins at row `start`, and reserves the estimated size of the output."""
        cdef Encoder* e = &self.e
        cdef int64_t size
        e.chunks, e.chunk_count = self.record_input.input.chunks, self.record_input.input.count
        e.chunk = e.rows_before = e.original = e.original_row = 0
        while e.chunk < e.chunk_count and start - e.rows_before >= e.chunks[e.chunk].rows:
            e.rows_before += e.chunks[e.chunk].rows
            e.chunk += 1
        e.row = start - e.rows_before
        e.previous_offset = wrapping_add(first_offset, -1) if e.assign_offsets else INT64_MIN
        e.next_sequence, e.written = e.defaults.base_sequence, 0
        e.open = e.settled = False
        if e.defaults.codec != 0 or e.measuring or e.fixed:
            return 0
        size = self.record_input.estimated_size
        self.small = size < SMALL_INPUT and not e.keep_codec
        if buffer_reserve(&e.out, 0, <size_t>size) != OK:
            raise MemoryError
        return 0

    cdef bytes write_one_batch(self, int64_t start, bytes keep):
        cdef Encoder* e = &self.e
        cdef int status
        self.rewind(e.defaults.base_offset, start)
        if keep is not None:
            if len(keep) != e.stop - start:
                raise ValueError(f"`keep` has {len(keep)} bytes for {e.stop - start} rows")
            e.keep, self.kept_alive = <const uint8_t*><const char*>keep - start, keep
        self.run()
        if e.written == 0 and e.defaults.magic >= BATCH_MAGIC:
            e.defaults.codec = 0
            status = write_empty_batch(e, &e.defaults)
            if status != OK:
                self.refuse(status)
        return PyBytes_FromStringAndSize(<const char*>e.out.data, e.written)

    cdef bytes write(self, int64_t first_offset):
        """All batches. Large records are measured first, and then written straight into bytes of that size, which saves
        a copy."""
        cdef Encoder* e = &self.e
        cdef int64_t size = self.record_input.estimated_size
        cdef bytes out
        cdef Buffer spare
        e.measuring = (size >= SMALL_INPUT and size > LARGE_RECORD * self.record_input.rows
                       and e.defaults.codec == 0 and not e.keep_codec)
        self.rewind(first_offset, 0)
        self.run()
        if not e.measuring:
            return PyBytes_FromStringAndSize(<const char*>e.out.data, e.written)
        out, size, spare = PyBytes_FromStringAndSize(NULL, e.written), e.written, e.out
        e.measuring, e.fixed = False, True
        e.out.data, e.out.capacity = <uint8_t*><char*>out, <size_t>size
        try:
            self.rewind(first_offset, 0)
            self.run()
            if e.written != size:
                self.refuse(INPUT_CHANGED)
        finally:
            e.out, e.fixed = spare, False
        return out

    cdef int run(self) except -1:
        cdef void* thread
        cdef int status
        while True:
            thread = release_gil(not self.small)
            status = encoder_run(&self.e)
            acquire_gil(thread)
            if status == OK:
                return 0
            if status == NEEDS_CODEC:
                self.compress_body()
            elif status == PAUSED:
                PyErr_CheckSignals()
            else:
                self.refuse(status)

    cdef int compress_body(self) except -1:
        """Compresses the open batch's records by `codecs` and closes the batch."""
        cdef bytes compressed
        cdef int status
        # a copy: a traceback's frame, or a codec, may keep what it is given
        body = PyBytes_FromStringAndSize(<const char*>self.e.body.data, self.e.used)
        try:
            compressed = _codecs.compress(self.e.fields.codec, body, self.level, self.e.fields.magic)
        except _codecs.MissingCodec as missing:
            raise MissingCodecError(str(missing), reason="missing_codec") from None
        status = batch_close_compressed(&self.e, <const uint8_t*><const char*>compressed, len(compressed))
        if status != OK:
            self.refuse(status)
        return 0

    cdef int refuse(self, int status) except -1:
        if status == OUT_OF_MEMORY:
            raise MemoryError
        if status == INPUT_CHANGED:
            raise ValueError("the input changed while it was written")
        if status == TOO_LARGE_TO_WRITE:
            raise ValueError("a batch of more than 2^31-1 bytes")
        raise _encoding.refusal(
            self.e.refused.row_fault, self.e.rows_before + self.e.row, offset=self.e.refused.offset,
            previous=self.e.previous_offset, timestamp=self.e.refused.timestamp, base=self.e.fields.base_offset,
        )


# ---- encode

cdef tuple _known_options = ()           # (arguments, EncodeOptions), the latest first


def forget_options():
    """Drops the options of earlier calls and builders, and the memory that is kept with them."""
    global _known_options, _known_headers
    _known_options = _known_headers = ()
    rows_release(&_spare_rows)


cdef int check_range(str name, object given, int64_t most) except -1:
    cdef int64_t value = 0
    if not kr_row_number(<PyObject*>given, &value) or not 0 <= value <= most:
        _encoding.check_range(name, given, 0, most)
    return 0


cdef object encode_call(PyObject* module, PyObject** arguments, Py_ssize_t count):
    """See the stub."""
    global _known_options
    cdef EncodeOptions options
    cdef EncodeRun encoding
    cdef RecordInput record_input
    cdef bytes encoded
    if count != 3 + ENCODE_OPTIONS:
        raise TypeError("encode is called by write.encoding")
    records, base_offset, batch_size = <object>arguments[0], <object>arguments[1], <object>arguments[2]
    options = made_before(_known_options, arguments + 3)
    if options is None:
        given = tuple([<object>arguments[3 + i] for i in range(<int>ENCODE_OPTIONS)])
        options = EncodeOptions(*_encoding.checked_options(*given))
        _known_options = with_latest(_known_options, given, options)
    check_range("base_offset", base_offset, INT64_MAX)
    check_range("batch_size", batch_size, INT32_MAX)
    if type(records) is list or type(records) is tuple:
        encoding = options.idle_or_new()
        encoding.record_input.take_rows(tuple(records))
        encoding.begin(options)
        encoded = encoding.record_input.encode(encoding, base_offset, batch_size, None)
        options.put_back(encoding)
        return encoded
    record_input, originals = _encoding.input_and_batches(records)
    encoding = EncodeRun(record_input)
    encoding.begin(options)
    return record_input.encode(encoding, base_offset, batch_size, originals)


cdef PyMethodDef _encode_call
encode = fast_function(&_encode_call, b"encode", <void*>encode_call)
