"""The compiled module that writes: takes columns or rows, runs the functions of `_c` without the GIL, returns batches.

The format is implemented in `_c`. This module keeps the input alive, calls codecs, and converts errors to exceptions.
`write/fields.py` and `write/encoding.py` choose the header fields of a batch.
"""
cimport cython
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.exc cimport PyErr_CheckSignals
from cpython.ref cimport PyObject
from libc.stdint cimport INT32_MAX, INT64_MAX, INT64_MIN, int32_t, int64_t, uint8_t

from kafkarec._c.batch cimport ABSENT, BATCH_MAGIC, LATEST_CODEC, wrapping_add
from kafkarec._c.columns cimport Buffer, buffer_free_above, buffer_reserve
from kafkarec._c.write cimport (
    BATCH_LIMIT, EXPLICIT_BASE_OFFSET, FINE, INITIAL_RATIO as FIRST_RATIO, OVERRIDE_LEADER_EPOCH, OVERRIDE_PRODUCER,
    OVERRIDE_TIMESTAMP_TYPE, OVERRIDE_TRANSACTIONAL, BatchFields, RecordFields, delta_fits,
    estimated_size as batch_size_so_far, has_room_for, is_full, next_ratio as ratio_after, record_size as size_of,
    size_with_length,
)
from kafkarec._c.encode cimport RowSummary, encoder_run, full_before, load_row, record_size_in_batch, summarize
from kafkarec._c.numbers cimport varint_size
from kafkarec._c.batch_builder cimport (
    Encoder, add_record, batch_close_compressed, batch_open, is_whole, write_empty_batch,
)
from kafkarec._c.input_columns cimport (
    FIELD_BASE_OFFSET, FIELD_CONTROL, FIELD_LEADER_EPOCH, FIELD_MAGIC, FIELD_PRODUCER_EPOCH, FIELD_PRODUCER_ID,
    FIELD_SEQUENCE, FIELD_TIMESTAMP_TYPE, FIELD_TRANSACTIONAL, LARGE_RECORD, MOST_RESERVED, NO_NUMBERS, SMALL_INPUT,
    InputChunk, estimated_encoded_size, number,
)
from kafkarec._c.compress cimport LZ4_HEAD, ZSTD_PARAMETERS, CompressContext, compress_release
from kafkarec._entry.written_batches cimport originals_fill, originals_last_offset
from kafkarec._entry.arrow_import cimport (
    InputChunks, chunks_release, fill_batch_fields, import_array, import_stream, new_chunk,
)
from kafkarec._entry.calls cimport (
    ENCODE_OPTIONS, INIT_ARGUMENTS, OWN_ARGUMENTS, PyMethodDef, acquire_gil, call, claim, fast_function, fast_method,
    made_before, release_gil, set_by_name, with_latest,
)
from kafkarec._entry.py_rows cimport (
    NAMES, SPARE_BYTES, Py_None, PyRows, RowTypes, kr_row_number, kr_rows_prepare, rows_bind, rows_clear, rows_fill,
    rows_recycle, rows_release, rows_reserve, take_bytes, take_numbers,
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
# The record that is appended to a builder, or measured: no code of Python runs meanwhile.
cdef PyRows _row
cdef InputChunk _row_chunk

cdef enum:
    NO_RECORD = -1
    MOST_OPEN = 1 << 20          # bytes of a builder's memory before it has records


cdef int64_t load_record(Encoder* e, RecordFields* d, PyObject* timestamp, PyObject* key, PyObject* value,
                         PyObject* headers, PyObject* offset) except? NO_RECORD:
    """Reads a record to `d`, as a row of _row_chunk; returns its size in the open batch. NO_RECORD: a field must be
    converted or cannot be written."""
    cdef bint taken
    if headers == Py_None and e.fields.magic >= BATCH_MAGIC:
        return NO_RECORD
    rows_recycle(&_row)
    rows_reserve(&_row, 1)
    taken = take_numbers(&_row, offset, timestamp) and take_bytes(&_row, key, value, headers)
    rows_bind(&_row, &_row_chunk)
    rows_clear(&_row)                        # the caller keeps the objects
    e.assign_offsets = offset == Py_None
    if not taken or load_row(e, &_row_chunk, 0, d) != FINE:
        return NO_RECORD
    if e.count == 0 and not e.fields.has_horizon:
        e.fields.base_timestamp = d.timestamp
    return record_size_in_batch(&e.fields, d)


cdef class OpenBatch:
    """A batch to which records are appended one by one. The base of RecordBatchBuilder, whose properties these are; the
    other names are private.

    _append_row and _has_room return None if a field must be converted or cannot be written; nothing has changed then.
    """
    cdef Encoder e                       # without rows; previous_offset: the last offset, if `has_last_offset`
    cdef EncodeOptions options
    cdef bint busy                       # the batch is closed by `_build`
    cdef readonly str _state             # None before `begin`
    cdef bytes built
    cdef float ratio                     # of the built batch's records
    cdef bint has_last_offset
    cdef int64_t first_offset, offset_of_greatest
    cdef public object _topic
    cdef public int64_t _most_bytes      # of a batch before compression

    def _begin(self, header, int64_t batch_size):
        """Begins a batch without records. header: a write.fields.BatchHeader without the last offset."""
        cdef EncodeOptions options = EncodeOptions(header)
        options.e.limit.most, options.e.limit.ratio = batch_size, FIRST_RATIO
        self.begin(options, &options.e.defaults)

    cdef int begin(self, EncodeOptions options, const BatchFields* fields) except -1:
        cdef size_t reserved
        claim(&self.busy)
        self.busy = False
        self.drop_records()
        self.e = options.e
        self.e.previous_offset, self.has_last_offset = wrapping_add(fields.base_offset, -1), False
        self.options, self._state, self.built, self._topic = options, OPEN, b"", None
        self.ratio = 1.0
        self.first_offset = self.offset_of_greatest = ABSENT
        self._most_bytes = INT32_MAX
        reserved = <size_t>min(max(options.e.limit.most, 0), <int64_t>MOST_OPEN)
        if (batch_open(&self.e, fields, fields.base_offset, ABSENT) != OK
                or buffer_reserve(&self.e.body if fields.codec != 0 else &self.e.out, 0, reserved) != OK):
            raise MemoryError
        return 0

    cdef int drop_records(self) noexcept:
        buffer_free_above(&self.e.out, 0)
        buffer_free_above(&self.e.body, 0)
        return 0

    def __dealloc__(self):
        self.drop_records()

    def __len__(self):
        return self.e.count

    cdef bint add(self, PyObject* timestamp, PyObject* key, PyObject* value, PyObject* headers,
                  PyObject* offset) except -1:
        cdef Encoder* e = &self.e
        cdef RecordFields d
        cdef int64_t size, greatest = e.greatest_timestamp
        cdef int status
        if self._state is not OPEN:
            return False
        claim(&self.busy)
        self.busy = False
        size = load_record(e, &d, timestamp, key, value, headers, offset)
        # what Kafka's builder does not accept
        if (size == NO_RECORD or d.timestamp < ABSENT or not delta_fits(d.offset, e.fields.base_offset)
                or (self.has_last_offset and d.offset <= e.previous_offset)
                or (e.fields.magic < BATCH_MAGIC and d.headers_end > d.headers)
                or size > self._most_bytes - e.limit.header_size - e.used):
            return False
        status = add_record(e, &_row_chunk, &d, size)
        if status == OUT_OF_MEMORY:
            raise MemoryError
        if status != OK:
            return False
        if e.count == 1:
            self.first_offset = d.offset
        if d.timestamp > greatest:
            self.offset_of_greatest = d.offset
        self.has_last_offset = True
        return True

    def _append_row(self, timestamp, key, value, headers, offset):
        """Appends a record; its offset, or None."""
        if self.add(<PyObject*>timestamp, <PyObject*>key, <PyObject*>value, <PyObject*>headers, <PyObject*>offset):
            return self.e.previous_offset
        return None

    def _has_room(self, timestamp, key, value, headers):
        """Whether the record would fit, or None. False while the batch is written."""
        cdef RecordFields d
        cdef int64_t size
        if self._state is not OPEN or self.busy:
            return False
        if self.e.count == 0 or is_full(&self.e.limit, self.e.used):
            return self.e.count == 0
        size = load_record(&self.e, &d, <PyObject*>timestamp, <PyObject*>key, <PyObject*>value, <PyObject*>headers,
                           Py_None)
        return None if size == NO_RECORD else has_room_for(&self.e.limit, self.e.used, size)

    def _build(self):
        """The batch as bytes, which the first call writes; b"" without records."""
        if self._state is OPEN:
            self.check_producer()
            if self.e.count > 0:
                self.close_batch()
            self._state = BUILT
        elif self._state is not BUILT:
            raise ValueError("the builder is aborted")
        return self.built

    cdef int check_producer(self) except -1:
        """MemoryRecordsBuilder.validateProducerState."""
        cdef const BatchFields* f = &self.e.fields
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

    cdef int close_batch(self) except -1:
        """Closes the batch, which has records; meanwhile no other can be added."""
        cdef Encoder* e = &self.e
        cdef float expected = e.limit.ratio
        cdef int64_t size
        claim(&self.busy)
        try:
            run_encoder(e, self.options, e.fields.codec == 0 and e.used < SMALL_INPUT)
        finally:
            self.busy, e.limit.ratio = False, expected
            if not e.open:                   # else it is written by the next call
                size, e.written, e.open = e.written, 0, True         # open, if there is no memory for the bytes
                self.built, self._state = PyBytes_FromStringAndSize(<const char*>e.out.data, size), BUILT
                if e.fields.magic >= BATCH_MAGIC or e.limit.compressed:
                    self.ratio = <float>(size - e.limit.header_size) / <float>e.used
                self.drop_records()
        return 0

    def _abort(self):
        """Closes the batch and releases its records; its sizes and offsets are kept."""
        self._state, self.built = ABORTED, b""
        if not self.busy:
            self.drop_records()
            self.e.count = 0

    @property
    def is_full(self):
        """Whether no further record fits, or the batch is built or aborted. False while it is open without records."""
        return self._state is not OPEN or (self.e.count > 0 and is_full(&self.e.limit, self.e.used))

    @property
    def estimated_bytes_written(self):
        """Bytes so far with the header: exact without a codec, with one estimated by the expected ratio."""
        return batch_size_so_far(&self.e.limit, self.e.used)

    @property
    def estimated_size(self):
        """Bytes of the batch once it is built; before that `estimated_bytes_written`."""
        return len(self.built) if self._state is BUILT else self.estimated_bytes_written

    @property
    def estimated_compression_ratio(self):
        """The expected ratio that `has_room_for` uses. May be set; rounded to a 32-bit float."""
        return self.e.limit.ratio

    @estimated_compression_ratio.setter
    def estimated_compression_ratio(self, ratio):
        self.e.limit.ratio = ratio

    @property
    def compression_ratio(self):
        """Bytes of the built batch's payload / uncompressed bytes of its records; 1.0 before it is built."""
        return self.ratio

    @property
    def max_timestamp(self):
        """ms; -1 without one."""
        if self.e.fields.timestamp_type == 1:
            return self.e.fields.log_append_time
        return self.e.greatest_timestamp if self.e.fields.magic > 0 else <int64_t>ABSENT

    @property
    def offset_of_max_timestamp(self):
        """The offset of the first record that has the max timestamp; -1 without one."""
        if self.e.fields.timestamp_type == 0:
            return self.offset_of_greatest if self.e.fields.magic > 0 else <int64_t>ABSENT
        return self.first_offset if self.e.count > 0 else <int64_t>ABSENT

    @property
    def last_offset(self):
        """The last record's offset, or the one set by `override_last_offset`; None without records."""
        return self.e.previous_offset if self.has_last_offset else None

    @property
    def next_offset(self):
        """The offset of the next record that is appended without one."""
        return <object>self.e.previous_offset + 1 if self.has_last_offset else self.e.fields.base_offset

    @property
    def magic(self):
        return self.e.fields.magic

    @property
    def base_offset(self):
        return self.e.fields.base_offset

    @property
    def producer_id(self):
        return self.e.fields.producer_id

    @property
    def producer_epoch(self):
        return self.e.fields.producer_epoch

    @property
    def base_sequence(self):
        return self.e.fields.base_sequence

    @property
    def is_transactional(self):
        return self.e.fields.is_transactional

    @property
    def is_control(self):
        return self.e.fields.is_control

    @property
    def delete_horizon_ms(self):
        return self.e.fields.delete_horizon_ms if self.e.fields.has_horizon else None

    @property
    def is_closed(self):
        """Whether the batch is built."""
        return self._state is BUILT

    @property
    def _codec(self):
        return self.e.fields.codec

    @property
    def _leader_epoch(self):
        return self.e.fields.partition_leader_epoch

    @property
    def _limit(self):
        """Bytes: see `batch_size`."""
        return self.e.limit.most

    def _set_last_offset(self, int64_t offset):
        self.e.previous_offset, self.has_last_offset = offset, True


# ---- methods of RecordBatchBuilder that are compiled. Each calls its Python function for what it does not know

cdef object _append = None, _no_headers = ()
cdef object _init = None
cdef tuple _init_names = (), _init_defaults = ()
_OWN = ("base_offset", "base_sequence", "log_append_time", "topic")     # in which builders of equal options differ
cdef int[OWN_ARGUMENTS] _own_at          # where they are in _init_names
cdef tuple _known_headers = ()           # (arguments of builders without _OWN, EncodeOptions), the latest first


cdef object append_call(PyObject* batch, PyObject** arguments, Py_ssize_t count, PyObject* names):
    """RecordBatchBuilder.append(timestamp, key, value, headers=(), offset=None)."""
    cdef OpenBatch open_batch = <OpenBatch>batch
    cdef bint added = False
    if names == NULL and 3 <= count <= 5 and not open_batch.e.fields.is_control:
        added = open_batch.add(arguments[0], arguments[1], arguments[2],
                               arguments[3] if count > 3 else <PyObject*>_no_headers,
                               arguments[4] if count > 4 else Py_None)
        if added:
            return open_batch.e.previous_offset
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
        if self.input.count == 0:
            new_chunk(&self.input)
            self.input.count = 1
        rows_bind(&self.table, self.input.chunks)
        self.kept_alive = rows
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
        encoding.start_at_row(e.defaults.base_offset, start)
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
        encoding.start_at_row(0, start)
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
        encoding.e.stop, encoding.e.single_batch, encoding.e.assign_offsets = stop, True, not self.has_offsets
        encoding.e.defaults.explicit_fields |= EXPLICIT_BASE_OFFSET
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
            encoding.kept_alive = originals
            originals_fill(e, tables, with_empty)
        if base_offset is not None:
            first = base_offset
            if not e.assign_offsets:
                before = self.first_offset(e)
                last = max(originals_last_offset(e), 0)      # 0: the shift has to fit, too
                if last - before > INT64_MAX - first:
                    raise ValueError(f"first offset {first}: the last offset would be above 2^63-1")
                e.shift = first - before
        return encoding.write(first)

    cdef int64_t first_offset(self, const Encoder* e) noexcept:
        """The first offset of the input: its first batch's base offset, or its first row's offset."""
        cdef int64_t i, offset = 0
        if e.original_count > 0 and is_whole(e.originals):
            return e.originals[0].batch.base_offset
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

    def __dealloc__(self):
        compress_release(&self.e.compress_context)

    cdef int put_back(self, EncodeRun encoding) except -1:
        """Keeps a run over rows that has ended well for the next call."""
        rows_recycle(&encoding.record_input.table)
        encoding.record_input.kept_alive = encoding.options = None
        buffer_free_above(&encoding.e.out, SPARE_BYTES)
        buffer_free_above(&encoding.e.body, SPARE_BYTES)
        self.spare = encoding
        return 0


@cython.final
cdef class EncodeRun:
    """One run of the encoder over a RecordInput; frees its memory."""
    cdef Encoder e
    cdef EncodeOptions options           # None while it is idle
    cdef RecordInput record_input
    cdef object kept_alive
    cdef bint small                      # releasing the GIL would take longer than the run

    def __cinit__(self, RecordInput record_input not None):
        self.record_input = record_input

    cdef int begin(self, EncodeOptions options) except -1:
        """Sets the options, and encodes all rows; keeps the memory of an earlier run with the same options."""
        cdef Encoder* e = &self.e
        cdef Buffer out = e.out, body = e.body
        self.e = options.e
        e.out, e.body = out, body
        e.stop, self.options, self.small = self.record_input.rows, options, False
        return 0

    def __dealloc__(self):
        buffer_free_above(&self.e.body, 0)
        buffer_free_above(&self.e.out, 0)
        buffer_free_above(&self.e.original_block, 0)

    cdef int start_at_row(self, int64_t first_offset, int64_t row) except -1:
        """Begins at a row of the input, and reserves the estimated size of the output."""
        cdef Encoder* e = &self.e
        cdef int64_t size
        e.chunks, e.chunk_count = self.record_input.input.chunks, self.record_input.input.count
        e.chunk = e.rows_before = e.original = e.original_row = 0
        while e.chunk < e.chunk_count and row - e.rows_before >= e.chunks[e.chunk].rows:
            e.rows_before += e.chunks[e.chunk].rows
            e.chunk += 1
        e.row = row - e.rows_before
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
        self.start_at_row(e.defaults.base_offset, start)
        if keep is not None:
            if len(keep) != e.stop - start:
                raise ValueError(f"`keep` has {len(keep)} bytes for {e.stop - start} rows")
            e.keep, self.kept_alive = <const uint8_t*><const char*>keep - start, keep
        run_encoder(e, self.options, self.small)
        if e.written == 0 and e.defaults.magic >= BATCH_MAGIC:
            e.defaults.codec = 0
            status = write_empty_batch(e, &e.defaults)
            if status != OK:
                refuse(e, status)
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
        self.start_at_row(first_offset, 0)
        run_encoder(e, self.options, self.small)
        if not e.measuring:
            return PyBytes_FromStringAndSize(<const char*>e.out.data, e.written)
        out, size, spare = PyBytes_FromStringAndSize(NULL, e.written), e.written, e.out
        e.measuring, e.fixed = False, True
        e.out.data, e.out.capacity = <uint8_t*><char*>out, <size_t>size
        try:
            self.start_at_row(first_offset, 0)
            run_encoder(e, self.options, self.small)
            if e.written != size:
                refuse(e, INPUT_CHANGED)
        finally:
            e.out, e.fixed = spare, False
        return out


cdef int run_encoder(Encoder* e, EncodeOptions options, bint small) except -1:
    """Encodes all rows, and closes the open batch. small: releasing the GIL would take longer than that"""
    cdef CompressContext* idle = &options.e.compress_context
    cdef void* thread
    cdef int status
    e.compress_context = idle[0]
    idle.lz4 = idle.zstd = NULL              # other runs with these options make their own ones meanwhile
    try:
        while True:
            thread = release_gil(not small)
            status = encoder_run(e)
            acquire_gil(thread)
            if status == OK:
                return 0
            if status == NEEDS_CODEC:
                compress_body(e, options.header.level)
            elif status == PAUSED:
                PyErr_CheckSignals()
            else:
                refuse(e, status)
    finally:
        if idle.lz4 == NULL and idle.zstd == NULL:
            idle[0] = e.compress_context
        else:
            compress_release(&e.compress_context)


cdef int compress_body(Encoder* e, object level) except -1:
    """Compresses the open batch's records by `codecs` and closes the batch."""
    cdef bytes compressed
    cdef int status
    # a copy: a traceback's frame, or a codec, may keep what it is given
    body = PyBytes_FromStringAndSize(<const char*>e.body.data, e.used)
    try:
        compressed = _codecs.compress(e.fields.codec, body, level, e.fields.magic)
    except _codecs.MissingCodec as missing:
        raise MissingCodecError(str(missing), reason="missing_codec") from None
    status = batch_close_compressed(e, <const uint8_t*><const char*>compressed, len(compressed))
    if status != OK:
        refuse(e, status)
    return 0


cdef int refuse(const Encoder* e, int status) except -1:
    if status == OUT_OF_MEMORY:
        raise MemoryError
    if status == INPUT_CHANGED:
        raise ValueError("the input changed while it was written")
    if status == TOO_LARGE_TO_WRITE:
        raise ValueError("a batch of more than 2^31-1 bytes")
    raise _encoding.refusal(
        e.refused.row_fault, e.rows_before + e.row, offset=e.refused.offset, previous=e.previous_offset,
        timestamp=e.refused.timestamp, base=e.fields.base_offset,
    )


# ---- encode

cdef tuple _known_options = ()           # (arguments, EncodeOptions), the latest first


def forget_options():
    """Drops the options of earlier calls and builders, and the memory that is kept with them."""
    global _known_options, _known_headers
    _known_options = _known_headers = ()
    rows_release(&_row)


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
        encoding, options.spare = options.spare, None
        if encoding is None:
            encoding = EncodeRun(RecordInput(rows=()))
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
