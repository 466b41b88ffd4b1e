"""Imports the writer's input as chunks (see `_c/input_columns.pxd`): an Arrow array, an Arrow stream, or Python rows.

Each array becomes one chunk; chunks_release releases all of them.

Functions with Python objects, for the compiled modules.
"""
from libc.stdint cimport int64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memset

from kafkarec._c.arrow cimport ArrowArray, ArrowArrayStream, ArrowSchema
from kafkarec._c.input_columns cimport InputChunk
from kafkarec._entry.foreign_arrow cimport ArrayOrigin, capsule_pointer, check_schema, invalid
from kafkarec._entry.column_binding cimport bind_chunk, column_names
from kafkarec._entry.py_rows cimport PyRows, rows_bind

cdef struct InputChunks:
    InputChunk* chunks
    ArrowArray* arrays
    int64_t count


cdef inline int chunks_reserve(InputChunks* input_, int64_t chunks) except -1:
    cdef void* more = realloc(input_.chunks, <size_t>chunks * sizeof(InputChunk))
    if more != NULL:
        input_.chunks = <InputChunk*>more
        more = realloc(input_.arrays, <size_t>chunks * sizeof(ArrowArray))
    if more == NULL:
        raise MemoryError
    input_.arrays = <ArrowArray*>more
    return 0


cdef inline int64_t chunks_rows(const InputChunks* input_) noexcept:
    cdef int64_t i, rows = 0
    for i in range(input_.count):
        rows += input_.chunks[i].rows
    return rows


cdef inline int chunks_of_rows(InputChunks* input_, const PyRows* table) except -1:
    if input_.count == 0:
        chunks_reserve(input_, 1)
        input_.arrays[0].release = NULL
        input_.count = 1
    rows_bind(table, input_.chunks)
    return 0


cdef inline set chunks_bind(InputChunks* input_, const ArrowSchema* schema, dict fields, object left_out, bint own):
    """Makes the array at index input_.count a chunk; returns the names of its columns."""
    cdef ArrayOrigin origin
    origin.own, origin.first_row = own, chunks_rows(input_)
    input_.count += 1
    return bind_chunk(
        input_.chunks + input_.count - 1, schema, input_.arrays + input_.count - 1, fields, left_out, &origin
    ) - left_out


cdef inline set import_array(InputChunks* input_, tuple capsules, dict fields, object left_out):
    """Imports what __arrow_c_array__ returned; returns the names of its columns."""
    if len(capsules) != 2:
        raise TypeError(f"__arrow_c_array__ returned {len(capsules)} capsules, not a schema and an array")
    cdef ArrowSchema* schema = <ArrowSchema*>capsule_pointer(capsules[0], b"arrow_schema")
    cdef ArrowArray* array = <ArrowArray*>capsule_pointer(capsules[1], b"arrow_array")
    if array.release == NULL:
        raise invalid(None, None, "its array was already consumed")
    chunks_reserve(input_, 1)
    input_.arrays[0] = array[0]
    array.release = NULL                      # moved: chunks_release releases the copy
    return chunks_bind(input_, schema, fields, left_out, False)


cdef inline set import_stream(InputChunks* input_, object capsule, dict fields, object left_out, bint own):
    """Imports what __arrow_c_stream__ returned: moves the stream out of its capsule and reads it to the end. Returns
    the names of its columns."""
    cdef ArrowArrayStream* source = <ArrowArrayStream*>capsule_pointer(capsule, b"arrow_array_stream")
    cdef ArrowArrayStream stream = source[0]
    if source.release == NULL:
        raise invalid(None, None, "its stream was already consumed")
    source.release = NULL
    try:
        return import_arrays(input_, &stream, fields, left_out, own)
    finally:
        stream.release(&stream)


cdef inline set import_arrays(InputChunks* input_, ArrowArrayStream* stream, dict fields, object left_out, bint own):
    cdef ArrowSchema schema
    cdef set names = set()
    memset(&schema, 0, sizeof(ArrowSchema))
    if stream.get_schema == NULL or stream.get_next == NULL:
        raise invalid(None, None, "its stream has no function get_schema or get_next")
    if stream.get_schema(stream, &schema) != 0 or schema.release == NULL:
        raise ValueError("the Arrow stream has no schema" + producer_error(stream))
    try:
        check_schema(None, &schema)
        while True:
            chunks_reserve(input_, input_.count + 1)
            memset(input_.arrays + input_.count, 0, sizeof(ArrowArray))
            if stream.get_next(stream, input_.arrays + input_.count) != 0:
                raise ValueError("the Arrow stream failed" + producer_error(stream))
            if input_.arrays[input_.count].release == NULL:
                break
            names |= chunks_bind(input_, &schema, fields, left_out, own)
        names |= {name.decode(errors="replace") for name in column_names(&schema)} - left_out
    finally:
        schema.release(&schema)
    return names


cdef inline str producer_error(ArrowArrayStream* stream):
    """The first line of the producer's message for its last error, after ": "; "" if there is none."""
    cdef const char* why = NULL
    if stream.get_last_error != NULL:
        why = stream.get_last_error(stream)
    return "" if why == NULL else ": " + (<bytes>why).decode(errors="replace").partition("\n")[0]


cdef inline void chunks_release(InputChunks* input_) noexcept:
    cdef int64_t i
    for i in range(input_.count):
        if input_.arrays[i].release != NULL:
            input_.arrays[i].release(input_.arrays + i)
    free(input_.arrays)
    free(input_.chunks)
