"""What is to be written, taken over as chunks (see `_c/input_columns.pxd`): Arrow's arrays, one or a stream of them; a table.

    chunks    one an array, which is ours and released with the last of them

Functions over Python objects, for the desk alone.
"""
from libc.stdint cimport int64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memset

from kafkarec._c.arrow cimport ArrowArray, ArrowArrayStream, ArrowSchema
from kafkarec._c.input_columns cimport InputChunk
from kafkarec._entry.foreign_arrow cimport Foreign, capsule_pointer, check_schema, invalid
from kafkarec._entry.column_binding cimport bind_chunk, column_names
from kafkarec._entry.py_rows cimport PyRows, rows_bind

cdef struct InputChunks:
    InputChunk* chunks
    ArrowArray* arrays
    int64_t count


cdef inline int chunks_reserve(InputChunks* all_, int64_t chunks) except -1:
    cdef void* more = realloc(all_.chunks, <size_t>chunks * sizeof(InputChunk))
    if more != NULL:
        all_.chunks = <InputChunk*>more
        more = realloc(all_.arrays, <size_t>chunks * sizeof(ArrowArray))
    if more == NULL:
        raise MemoryError
    all_.arrays = <ArrowArray*>more
    return 0


cdef inline int64_t chunks_rows(const InputChunks* all_) noexcept:
    cdef int64_t i, rows = 0
    for i in range(all_.count):
        rows += all_.chunks[i].rows
    return rows


cdef inline int chunks_of_rows(InputChunks* all_, const PyRows* table) except -1:
    chunks_reserve(all_, 1)
    all_.arrays[0].release = NULL
    all_.count = 1
    rows_bind(table, all_.chunks)
    return 0


cdef inline set chunks_bind(InputChunks* all_, const ArrowSchema* schema, dict fields, object left_out, bint own):
    """The array behind the last chunk becomes one; the names of its columns."""
    cdef Foreign foreign
    foreign.own, foreign.before = own, chunks_rows(all_)
    all_.count += 1
    return bind_chunk(
        all_.chunks + all_.count - 1, schema, all_.arrays + all_.count - 1, fields, left_out, &foreign
    ) - left_out


cdef inline set import_array(InputChunks* all_, tuple capsules, dict fields, object left_out):
    """What __arrow_c_array__ gave."""
    if len(capsules) != 2:
        raise TypeError(f"__arrow_c_array__ gave {len(capsules)} capsules, not a schema and an array")
    cdef ArrowSchema* schema = <ArrowSchema*>capsule_pointer(capsules[0], b"arrow_schema")
    cdef ArrowArray* array = <ArrowArray*>capsule_pointer(capsules[1], b"arrow_array")
    if array.release == NULL:
        raise invalid(None, None, "its array was consumed before")
    chunks_reserve(all_, 1)
    all_.arrays[0] = array[0]
    array.release = NULL                      # moved: it is ours to release
    return chunks_bind(all_, schema, fields, left_out, False)


cdef inline set import_stream(InputChunks* all_, object capsule, dict fields, object left_out, bint own):
    """What __arrow_c_stream__ gave: moved out of its capsule, so that nobody takes it a second time."""
    cdef ArrowArrayStream* given = <ArrowArrayStream*>capsule_pointer(capsule, b"arrow_array_stream")
    cdef ArrowArrayStream stream = given[0]
    if given.release == NULL:
        raise invalid(None, None, "its stream was consumed before")
    given.release = NULL
    try:
        return import_arrays(all_, &stream, fields, left_out, own)
    finally:
        stream.release(&stream)


cdef inline set import_arrays(InputChunks* all_, ArrowArrayStream* stream, dict fields, object left_out, bint own):
    cdef ArrowSchema schema
    cdef set names = set()
    memset(&schema, 0, sizeof(ArrowSchema))
    if stream.get_schema == NULL or stream.get_next == NULL:
        raise invalid(None, None, "its stream has no functions to ask")
    if stream.get_schema(stream, &schema) != 0 or schema.release == NULL:
        raise ValueError("the Arrow stream has no schema" + producer_error(stream))
    try:
        check_schema(None, &schema)
        while True:
            chunks_reserve(all_, all_.count + 1)
            memset(all_.arrays + all_.count, 0, sizeof(ArrowArray))
            if stream.get_next(stream, all_.arrays + all_.count) != 0:
                raise ValueError("the Arrow stream failed" + producer_error(stream))
            if all_.arrays[all_.count].release == NULL:
                break
            names |= chunks_bind(all_, &schema, fields, left_out, own)
        names |= {name.decode(errors="replace") for name in column_names(&schema)} - left_out
    finally:
        schema.release(&schema)
    return names


cdef inline str producer_error(ArrowArrayStream* stream):
    """What the producer says of its failure, one line of it."""
    cdef const char* why = NULL
    if stream.get_last_error != NULL:
        why = stream.get_last_error(stream)
    return "" if why == NULL else ": " + (<bytes>why).decode(errors="replace").partition("\n")[0]


cdef inline void chunks_release(InputChunks* all_) noexcept:
    cdef int64_t i
    for i in range(all_.count):
        if all_.arrays[i].release != NULL:
            all_.arrays[i].release(all_.arrays + i)
    free(all_.arrays)
    free(all_.chunks)
