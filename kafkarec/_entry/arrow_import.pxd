"""The writer's input.

Binds the columns of an Arrow array to the fields of a record (see `_c/input_columns.pxd`), by name and type; fills
the header fields of a batch.

    name                 types                                                    struct
    offset, timestamp    integers; timestamps of any unit (-> ms)                 Numbers
    key, value           binary, utf8; large, view, fixed size; null              Cells
    headers              list, large list or map of (key, value)                  Lists
    compression          utf8                                                     Cells
    batch fields         integers, booleans                                       Numbers

Imports chunks: an Arrow array, an Arrow stream, or Python rows.

Each array becomes one chunk; chunks_release releases all of them.

Functions with Python objects, for the compiled modules.
"""
from libc.errno cimport ENOMEM
from libc.stdint cimport INT64_MAX, int64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memset

from kafkarec._c.arrow cimport ArrowArray, ArrowArrayStream, ArrowSchema
from kafkarec._c.batch cimport ABSENT
from kafkarec._c.columns cimport count_nulls
from kafkarec._c.input_columns cimport (
    BOOL, LISTS_32, LISTS_64, NO_LISTS, NO_NUMBERS, Cells, EntryRange, InputChunk, Lists, Numbers, number,
)
from kafkarec._c.write cimport EXPLICIT_BASE_TIMESTAMP, EXPLICIT_LAST_OFFSET, EXPLICIT_MAX_TIMESTAMP, BatchFields
from kafkarec._entry.arrow_capsules cimport (
    ArrayOrigin, bind_cells, capsule_pointer, check_array, check_lists, check_nulls, check_schema, check_values_buffer,
    format_of, invalid_arrow_error, validity_of, wrong_type,
)

# ---- columns

cdef inline int require_range(const Numbers* c, object name, int64_t rows, int64_t least, int64_t most,
                              const ArrayOrigin* origin) except -1:
    """ValueError if a stored number, before conversion of units, is outside of least to most."""
    cdef Numbers raw = c[0]
    cdef int64_t i, value = 0
    raw.times = raw.per = 1
    raw.plain = False
    for i in range(rows):
        if number(&raw, i, &value) and not least <= value <= most:
            raise ValueError(
                f"record {origin.first_row + i}: column {name!r} has a number outside of {least} to {most}"
            )
    return 0


cdef inline int bind_numbers(Numbers* c, object name, const ArrowSchema* schema, const ArrowArray* array,
                             int64_t first, int64_t rows, const ArrayOrigin* origin) except -1:
    cdef str format_ = format_of(schema)
    cdef dict widths = {
        "l": 8, "L": 8, "i": 4, "s": 2, "c": 1, "I": -4, "S": -2, "C": -1, "b": BOOL, "n": NO_NUMBERS,
    }
    # Format of a timestamp -> (milliseconds per unit, units per millisecond).
    cdef dict units = {"tss:": (1000, 1), "tsm:": (1, 1), "tsu:": (1, 1000), "tsn:": (1, 1000000)}
    # Name -> (smallest, largest) value of a batch field, where columns can have others.
    cdef dict limits = {
        "partition_leader_epoch": (-1, 2**31 - 1), "timestamp_type": (-1, 1), "timestampType": (-1, 1),
        "producer_epoch": (-1, 2**15 - 1), "sequence": (-1, 2**31 - 1), "magic": (0, 2),
    }
    c.times, c.per = units.get(format_[:4], (1, 1)) if name == "timestamp" else (1, 1)
    if schema.dictionary != NULL:
        raise TypeError(f"column {name!r} is dictionary-encoded; cast it to an integer first")
    if name == "timestamp" and format_[:4] in units:
        c.width = 8
    elif format_ in widths:
        c.width = widths[format_]
    else:
        raise wrong_type(name, format_, "a timestamp or an integer" if name == "timestamp" else "an integer")
    check_array(name, schema, array, first + rows)
    c.first = first + array.offset
    if c.width == NO_NUMBERS:
        return 0
    check_values_buffer(name, array, rows, origin)
    c.validity = validity_of(array)
    c.values = array.buffers[1]
    c.plain = c.width == 8 and c.validity == NULL and c.times == 1 and c.per == 1
    most = INT64_MAX // c.times
    if format_ == "L" or c.times > 1:
        require_range(c, name, rows, 0 if format_ == "L" else -most, most, origin)
    elif name in limits:
        least, most = limits[name]
        require_range(c, name, rows, least, most, origin)
    return 0


cdef inline int bind_headers(Lists* c, object name, const ArrowSchema* schema, const ArrowArray* array,
                             int64_t first, int64_t rows, const ArrayOrigin* origin) except -1:
    cdef str format_ = format_of(schema)
    cdef const ArrowSchema* entry
    cdef const ArrowArray* entries
    cdef dict kinds = {"+l": LISTS_32, "+L": LISTS_64, "+m": LISTS_32, "n": NO_LISTS}
    cdef EntryRange used
    cdef ArrayOrigin inner
    cdef bint is_untyped
    if format_ not in kinds:
        raise wrong_type(name, format_, "a list of (key, value)")
    c.kind = kinds[format_]
    check_array(name, schema, array, first + rows)
    if c.kind == NO_LISTS:
        return 0
    c.first = first + array.offset
    entry, entries = schema.children[0], array.children[0]
    check_schema(f"{name}.entry", entry)
    is_untyped = entry.format == b"n"       # pandas, polars and DuckDB have it of lists that are all empty
    if not is_untyped and (entry.format != b"+s" or entry.n_children != 2):
        raise wrong_type(name, format_of(entry), "a list of structs of (key, value)")
    check_lists(name, format_, array, c.first, rows, &used, origin)
    check_array(f"{name}.entry", entry, entries, used.stop)
    if is_untyped:
        if used.start < used.stop:
            raise wrong_type(name, format_of(entry), "a list of structs of (key, value)")
        c.kind = NO_LISTS
        return 0
    check_nulls(f"{name}.entry", entries, origin)
    c.validity = validity_of(array)
    c.starts = array.buffers[1]
    c.plain = c.kind == LISTS_32 and c.validity == NULL
    c.entry_validity = validity_of(entries)
    c.entry_first = entries.offset
    key = 1 if column_names(entry) == [b"value", b"key"] else 0
    inner.own, inner.first_row = origin.own, used.start
    bind_entry(&c.key, f"{name}.key", entry, entries, key, &used, &inner)
    bind_entry(&c.value, f"{name}.value", entry, entries, 1 - key, &used, &inner)
    return 0


cdef inline int bind_entry(Cells* c, object name, const ArrowSchema* entry, const ArrowArray* entries, int child,
                           const EntryRange* used, const ArrayOrigin* origin) except -1:
    return bind_cells(c, name, entry.children[child], entries.children[child], 0, entries.offset + used.start,
                      entries.offset + used.stop, origin)


cdef inline list column_names(const ArrowSchema* schema):
    cdef const char* name
    cdef list names = []
    for i in range(schema.n_children):
        name = schema.children[i].name
        names.append(b"" if name == NULL else <bytes>name)
    return names


cdef inline set bind_chunk(InputChunk* chunk, const ArrowSchema* schema, dict fields, object left_out,
                           const ArrayOrigin* origin):
    """Binds all columns of its array with a known name, except `left_out`; returns the names of all columns. The caller
    decides about unknown names."""
    cdef const ArrowArray* array = &chunk.array
    cdef int64_t i
    cdef list names
    check_schema(None, schema)
    if schema.format != b"+s":
        raise TypeError(f"a table or a struct is needed, not an array of Arrow type {format_of(schema)!r}")
    check_array(None, schema, array, 0)
    check_nulls(None, array, origin)
    if count_nulls(validity_of(array), array.offset, array.length) > 0:
        raise TypeError("a row that is null as a whole is not a record")
    names = [name.decode(errors="replace") for name in column_names(schema)]
    chunk.rows = array.length
    for i, name in enumerate(names):
        if name in names[:i] and name not in left_out:
            raise ValueError(f"column {name!r} occurs twice")
        if name not in left_out:
            bind_column(chunk, name, schema.children[i], array.children[i], array.offset, fields, origin)
    return set(names)


cdef inline int bind_column(InputChunk* chunk, object name, const ArrowSchema* column, const ArrowArray* array,
                            int64_t first, dict fields, const ArrayOrigin* origin) except -1:
    cdef Cells* cells = NULL
    cdef Numbers* numbers = NULL
    if name == "key":
        cells = &chunk.key
    elif name == "value":
        cells = &chunk.value
    elif name == "compression":
        cells = &chunk.codec
    elif name == "offset":
        numbers = &chunk.offset
    elif name == "timestamp":
        numbers = &chunk.timestamp
    elif name in fields:
        numbers = chunk.fields + <int>fields[name]
        if numbers.values != NULL:
            raise ValueError(f"column {name!r} occurs twice, with two names")
    elif name == "headers":
        bind_headers(&chunk.headers, name, column, array, first, chunk.rows, origin)
    if cells != NULL:
        bind_cells(cells, name, column, array, first, 0, chunk.rows, origin)
    elif numbers != NULL:
        bind_numbers(numbers, name, column, array, first, chunk.rows, origin)
    return 0


cdef inline int fill_batch_fields(BatchFields* f, object header) except -1:
    """Fills `f` from a write.fields.BatchHeader."""
    memset(f, 0, sizeof(BatchFields))
    (
        f.magic, f.codec, _, timestamp_type, f.base_offset, last_offset, f.partition_leader_epoch, f.log_append_time,
        f.producer_id, f.producer_epoch, f.base_sequence, f.is_transactional, f.is_control, horizon, base_timestamp,
        max_timestamp,
    ) = header
    f.timestamp_type, f.has_horizon = timestamp_type == 1, horizon is not None
    f.last_offset = f.max_timestamp = f.base_timestamp = ABSENT
    if f.has_horizon:
        f.delete_horizon_ms = f.base_timestamp = horizon
    if base_timestamp is not None:
        f.base_timestamp, f.explicit_fields = base_timestamp, f.explicit_fields | EXPLICIT_BASE_TIMESTAMP
    if last_offset is not None:
        f.last_offset, f.explicit_fields = last_offset, f.explicit_fields | EXPLICIT_LAST_OFFSET
    if max_timestamp is not None:
        f.max_timestamp, f.explicit_fields = max_timestamp, f.explicit_fields | EXPLICIT_MAX_TIMESTAMP
    elif f.timestamp_type == 1:
        f.max_timestamp = f.log_append_time
    return 0


# ---- chunks

cdef struct InputChunks:
    InputChunk* chunks
    int64_t count


cdef inline InputChunk* new_chunk(InputChunks* input_) except NULL:
    """The place of the next chunk, which is empty, and not counted yet."""
    cdef InputChunk* chunks = <InputChunk*>realloc(input_.chunks, <size_t>(input_.count + 1) * sizeof(InputChunk))
    if chunks == NULL:
        raise MemoryError
    input_.chunks = chunks
    memset(chunks + input_.count, 0, sizeof(InputChunk))
    return chunks + input_.count


cdef inline set chunks_bind(InputChunks* input_, const ArrowSchema* schema, dict fields, object left_out, bint own):
    """Counts the new chunk, whose array is set, and binds its columns; returns their names."""
    cdef ArrayOrigin origin = ArrayOrigin(own, 0)
    cdef int64_t i
    for i in range(input_.count):
        origin.first_row += input_.chunks[i].rows
    input_.count += 1
    return bind_chunk(input_.chunks + input_.count - 1, schema, fields, left_out, &origin) - left_out


cdef inline set import_array(InputChunks* input_, tuple capsules, dict fields, object left_out):
    """Imports what __arrow_c_array__ returned; returns the names of its columns."""
    if len(capsules) != 2:
        raise TypeError(f"__arrow_c_array__ returned {len(capsules)} capsules, not a schema and an array")
    cdef ArrowSchema* schema = <ArrowSchema*>capsule_pointer(capsules[0], b"arrow_schema")
    cdef ArrowArray* array = <ArrowArray*>capsule_pointer(capsules[1], b"arrow_array")
    if array.release == NULL:
        raise invalid_arrow_error(None, None, "its array was already consumed")
    new_chunk(input_).array = array[0]
    array.release = NULL                      # moved: chunks_release releases the copy
    return chunks_bind(input_, schema, fields, left_out, False)


cdef inline set import_stream(InputChunks* input_, object capsule, dict fields, object left_out, bint own):
    """Imports what __arrow_c_stream__ returned: moves the stream out of its capsule and reads it to the end. Returns
    the names of its columns."""
    cdef ArrowArrayStream* source = <ArrowArrayStream*>capsule_pointer(capsule, b"arrow_array_stream")
    cdef ArrowArrayStream stream = source[0]
    if source.release == NULL:
        raise invalid_arrow_error(None, None, "its stream was already consumed")
    source.release = NULL
    try:
        return import_arrays(input_, &stream, fields, left_out, own)
    finally:
        stream.release(&stream)


cdef inline set import_arrays(InputChunks* input_, ArrowArrayStream* stream, dict fields, object left_out, bint own):
    cdef ArrowSchema schema
    cdef ArrowArray* array
    cdef set names = set()
    cdef int status
    memset(&schema, 0, sizeof(ArrowSchema))
    if stream.get_schema == NULL or stream.get_next == NULL:
        raise invalid_arrow_error(None, None, "its stream has no function get_schema or get_next")
    status = stream.get_schema(stream, &schema)
    if status != 0 or schema.release == NULL:
        raise stream_failure(stream, status, "the Arrow stream has no schema")
    try:
        check_schema(None, &schema)
        while True:
            array = &new_chunk(input_).array
            status = stream.get_next(stream, array)
            if status != 0:
                raise stream_failure(stream, status, "the Arrow stream failed")
            if array.release == NULL:
                break
            names |= chunks_bind(input_, &schema, fields, left_out, own)
        names |= {name.decode(errors="replace") for name in column_names(&schema)} - left_out
    finally:
        schema.release(&schema)
    return names


cdef inline object stream_failure(ArrowArrayStream* stream, int status, str what):
    """The exception for an errno of the producer, MemoryError or ValueError: `what`, and the first line of the
    producer's message if there is one."""
    cdef const char* why = NULL
    if stream.get_last_error != NULL:
        why = stream.get_last_error(stream)
    if why != NULL:
        what += ": " + (<bytes>why).decode(errors="replace").partition("\n")[0]
    return MemoryError(what) if status == ENOMEM else ValueError(what)


cdef inline void chunks_release(InputChunks* input_) noexcept:
    cdef ArrowArray* array
    cdef int64_t i
    for i in range(input_.count):
        array = &input_.chunks[i].array
        if array.release != NULL:
            array.release(array)
    free(input_.chunks)
